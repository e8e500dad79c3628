#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Repeated calls while all around them changes: tensors are dropped at once,
types, shapes and strides change, caches grow, threads forget what is prepared,
and the garbage collector runs at each allocation, with finalizers that call.

    TILEC_LIBRARY=build/libtilec.so python3 test/gpu/torch_stress.py
        [--device cpu] [--only TEXT] [--seed N]

For memory errors: PYTHONMALLOC=debug, or an extension built with
-fsanitize=address. Exit status 77: no torch, or no such device.
"""
import gc
import random
import threading

import torch_cases  # first: finds tilec, and ends where there is no torch

import tilec
import torch
from tilec import _append, _attention, _kvcache, _launch

B, HQ, HK, D, MOST = 2, 4, 2, 16, 48
TURNS, THREADS = 40, 3
DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def near(x, y):
    off = (x.double() - y.double()).norm().item()
    most = 1e-4 if x.dtype == torch.float32 else 3e-2
    assert off <= most * (y.double().norm().item() + 1e-3), "off by %g" % off


def dense(q, k, v):
    k, v = (x.double().repeat_interleave(HQ // HK, 1) for x in (k, v))
    return (q.double() @ k.mT / D ** 0.5).softmax(-1) @ v


class Turn:
    """Random tensors, which nothing else holds."""

    def __init__(self, rng, device):
        self.rng, self.device = rng, device
        self.dtype, self.n = rng.choice(DTYPES), rng.randint(1, MOST)

    def randn(self, *shape):
        """In a random order of dims in memory, or a part of a wider one."""
        x = torch.randn(shape, device=self.device, dtype=self.dtype)
        way = self.rng.randrange(3)
        if way == 1:
            return x.transpose(1, 2).contiguous().transpose(1, 2)
        return torch.cat([x, x], 3)[..., :shape[3]] if way else x

    def qkv(self, n):
        return (self.randn(B, HQ, 1, D), self.randn(B, HK, n, D),
                self.randn(B, HK, n, D))

    def lens(self):
        return torch.tensor([self.n, self.rng.randint(1, self.n)],
                            dtype=torch.int32, device=self.device)

    # ---- What a turn may do ----

    def grows(self):
        """The steps of a decode."""
        q, k, v = self.qkv(MOST)
        for n in range(self.n, min(self.n + 4, MOST)):
            near(tilec.attention(q, k[:, :, :n], v[:, :, :n], enable_gqa=True),
                 dense(q, k[:, :, :n], v[:, :, :n]))

    def has_gradients(self):
        q, k, v = (x.detach().requires_grad_() for x in self.qkv(self.n))
        got = tilec.attention(q, k, v, enable_gqa=True)
        want = dense(q, k, v)
        for x, y in zip(torch.autograd.grad(got.sum(), (q, k, v)),
                        torch.autograd.grad(want.sum(), (q, k, v))):
            assert (x.double() - y.double()).abs().max() < 0.1

    def over_a_cache(self):
        q, k, v = self.qkv(MOST)
        lens = self.lens()
        schedule = tilec.schedule(q, k, v, kv_lens=lens)
        for given in (schedule, None, schedule):
            got = tilec.attention(q, k, v, kv_lens=lens, schedule=given)
            for b, n in enumerate(lens.tolist()):
                near(got[b:b + 1], dense(q[b:b + 1], k[b:b + 1, :, :n],
                                         v[b:b + 1, :, :n]))
            lens.copy_(self.lens())
            schedule.update()

    def appends(self):
        _, k, v = self.qkv(2)
        k_cache, v_cache = self.qkv(MOST)[1:]
        lens = self.lens() - 1
        places = dict(kv_lens=lens.clamp(max=MOST - 2))
        tilec.append(k, v, k_cache, v_cache, **places)
        for b, n in enumerate(places["kv_lens"].tolist()):
            assert torch.equal(k_cache[b, :, n:n + 2], k[b])
            assert torch.equal(v_cache[b, :, n:n + 2], v[b])

    def forgets(self):
        """While other threads call."""
        self.rng.choice((_attention.forget, _kvcache.ready.clear,
                         _append.ready.clear, gc.collect))()

    def finalizes(self):
        """A call out of the collector, perhaps in the middle of another."""
        cycle = Finalized(self.qkv(self.n))
        cycle.itself = cycle


class Finalized:
    wrong = []

    def __init__(self, tensors):
        self.tensors = tensors

    def __del__(self):
        try:
            near(tilec.attention(*self.tensors, enable_gqa=True),
                 dense(*self.tensors))
        except Exception as e:
            self.wrong.append(e)


TURNS_OF = (Turn.grows, Turn.grows, Turn.has_gradients, Turn.over_a_cache,
            Turn.over_a_cache, Turn.appends, Turn.forgets, Turn.finalizes)


def work(seed, device, turns, wrong):
    rng = random.Random(seed)
    for i in range(turns):
        what = rng.choice(TURNS_OF)
        try:
            what(Turn(rng, device))
        except Exception as e:
            wrong.append("seed %s, turn %d, %s: %s: %s" % (
                seed, i, what.__name__, type(e).__name__, e))


def stress(device, seed, nthreads):
    wrong, before = Finalized.wrong, gc.get_threshold()
    wrong.clear()
    threads = [threading.Thread(target=work, args=(
        seed + i, device, TURNS, wrong)) for i in range(nthreads)]
    gc.set_threshold(1)
    try:
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        gc.set_threshold(*before)
    gc.collect()
    assert not wrong, wrong[0]


def with_and_without(device, seed, nthreads):
    has_fast = _launch.has_fast()
    stress(device, seed, nthreads)
    fast = _launch.fast
    _launch.fast = None
    try:
        stress(device, seed + 100, nthreads)
    finally:
        _launch.fast = fast
    return None if has_fast else "ok, there is no extension"


def test_tables(device):
    """A table of something else is an error, not memory read as a Call."""
    if not _launch.has_fast():
        return "skipped"
    x = torch.zeros(4, device=device)
    key = _launch.fast.key(x, x, x)
    torch_cases.refused(TypeError, "Calls alone", lambda: _launch.fast.run(
        {key: object()}, x, x, x))
    return None


def main():
    args = torch_cases.parse(torch_cases.parser(__doc__))
    torch_cases.run([
        ("tables", lambda: test_tables(args.device)),
        ("alone", lambda: with_and_without(args.device, args.seed, 1)),
        ("threads", lambda: with_and_without(args.device, args.seed + 10,
                                             THREADS))], args)


if __name__ == "__main__":
    main()
