#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Calls over a cache on torch tensors: repeated ones, in threads, in
torch.compile and torch.export, in CUDA graphs.

    TILEC_LIBRARY=build/libtilec.so python3 test/gpu/torch_cache.py
        [--device cpu] [--only TEXT]

test/python has the numbers of a kernel; here calls must give what attention
without a cache gives. Exit status 77: no torch, or no such device.
"""
import re
import threading
import warnings
from unittest import mock

import torch_cases  # first: finds tilec, and ends where there is no torch

import tilec
import torch
from tilec import _append, _kvcache, _launch
from tilec._torch import _cache
from torch_cases import refused

B, HQ, HK, N, D, PAGE = 2, 4, 2, 48, 32, 16


def near(x, y, most=1e-5):
    x, y = x.double(), y.double()
    assert x.shape == y.shape, (x.shape, y.shape)
    off = (x - y).norm().item()
    assert off <= most * y.norm().item(), "off by %g" % off


def both_ways(test):
    """Runs the test with and without the compiled extension."""
    def run(device):
        _launch.has_fast()  # looks for it
        fast = _launch.fast
        for way in {fast, None}:
            _launch.fast = way
            _kvcache.ready.clear()
            _append.ready.clear()
            try:
                test(device)
            finally:
                _launch.fast = fast
    run.__name__ = test.__name__
    return run


def ints(device, *values):
    return torch.tensor(values, dtype=torch.int32, device=device)


class Case:
    """A cache in one of its layouts, and what it holds."""

    def __init__(self, device, layout, ragged):
        torch.manual_seed(0)
        self.lens = [40, 7]
        self.rows = [2, 1] if ragged else [3, 3]  # queries
        self.dense = torch.randn(2, B, HK, N, D, device=device)
        self.places = dict(kv_lens=ints(device, *self.lens))
        self.k, self.v = self.dense
        if layout == "pages":
            table = [[5, 1, 3], [0, 2, 4]]
            pool = torch.zeros(2, 6, HK, PAGE, D, device=device)
            for b in range(B):
                for i, page in enumerate(table[b]):
                    pool[:, page] = self.dense[:, b, :, i * PAGE:][..., :PAGE, :]
            self.k, self.v = pool
            self.places["page_table"] = ints(device, *table)
        self.each = [torch.randn(HQ, n, D, device=device) for n in self.rows]
        self.q = torch.stack(self.each) if not ragged else torch.cat(
            [x.transpose(0, 1) for x in self.each])
        self.ragged = ragged
        if ragged:
            self.places["cu_seqlens_q"] = ints(device, 0, 2, 3)

    def want(self, **options):
        """Each sequence by attention without a cache, in the order of q."""
        found = []
        for b, (n, q) in enumerate(zip(self.lens, self.each)):
            k, v = self.dense[:, b:b + 1, :, :n]
            at = torch.zeros(1, HQ, n - q.shape[1], D, device=q.device)
            o = tilec.attention(torch.cat([at, q[None]], 2), k, v,
                                enable_gqa=True, return_lse=True, **options)
            found.append([x[0, :, n - q.shape[1]:] for x in o])
        return [torch.cat([x.transpose(0, 1) for x in part]) if self.ragged
                else torch.stack(part) for part in zip(*found)]

    def call(self, **options):
        return tilec.attention(self.q, self.k, self.v, return_lse=True,
                               **self.places, **options)


OPTIONS = (dict(mask_mod="causal"), dict(mask_mod="sliding_window", w=9),
           dict(mask_mod="causal", score_mod="alibi"),
           dict(mask_mod="causal", scale=0.5, piece=128))


def with_tensors(device, options):
    if options.get("score_mod") == "alibi":
        return dict(options, slopes=torch.rand(HQ, device=device),
                    sinks=torch.rand(HQ, device=device))
    return options


@both_ways
def test_attention(device):
    for layout in ("rows", "pages"):
        for ragged in (False, True):
            c = Case(device, layout, ragged)
            schedule = tilec.schedule(c.q, c.k, c.v, **c.places)
            for options in OPTIONS:
                options = with_tensors(device, options)
                plain = {n: x for n, x in options.items() if n != "piece"}
                for turn in range(3):
                    given = None if "piece" in options or turn == 1 else \
                        schedule
                    got = c.call(**options, schedule=given)
                    for x, y in zip(got, c.want(**plain)):
                        near(x, y)
                    assert got[0].dtype == c.q.dtype
                    assert got[0].stride() == c.q.stride() or not ragged
                    c.q.mul_(-1)  # other numbers in the same tensors
                    c.each = [x * -1 for x in c.each]
                    if "w" in options:
                        options["w"] = plain["w"] = options["w"] + 5


@both_ways
def test_what_changes(device):
    """Calls that look alike, and are not."""
    c = Case(device, "rows", False)
    schedule = tilec.schedule(c.q, c.k, c.v, **c.places)
    for _ in range(3):
        o, lse = c.call(schedule=schedule)
        near(o, c.want()[0])
        only = tilec.attention(c.q, c.k, c.v, **c.places)
        assert torch.equal(only, c.call()[0])
        # v as columns of k, and apart, with the same strides.
        apart = torch.randn(B, HK, N, D, device=device)
        near(tilec.attention(c.q, c.k, c.k[..., :16], **c.places),
             tilec.attention(c.q, c.k, c.k.clone(), **c.places)[..., :16])
        near(tilec.attention(c.q, c.k, apart[..., :16], **c.places),
             tilec.attention(c.q, c.k, apart, **c.places)[..., :16])
        # int64 lengths are converted, a list only where no copy to a GPU hides.
        got = tilec.attention(c.q, c.k, c.v,
                              kv_lens=c.places["kv_lens"].long())
        assert torch.equal(got, only)
        if device == "cpu":
            assert torch.equal(tilec.attention(c.q, c.k, c.v, kv_lens=c.lens),
                               only)
        else:
            refused(ValueError, "kv_lens is a numpy array",
                    lambda: tilec.attention(c.q, c.k, c.v, kv_lens=c.lens))
        c.places["kv_lens"].add_(1)
        schedule.update()
        c.lens = [n + 1 for n in c.lens]
        refused(ValueError, "no gradients", lambda: tilec.attention(
            c.q.clone().requires_grad_(), c.k, c.v, **c.places))
        refused(ValueError, "schedule was made for", lambda: tilec.attention(
            c.q[:, :, :1], c.k, c.v, **c.places, schedule=schedule))
        refused(ValueError, "", lambda: c.call(mask_mod="sliding_window"))


@both_ways
def test_schedule(device):
    """Made again from lengths that have changed in place."""
    c = Case(device, "pages", False)
    c.places["kv_lens"].zero_()
    schedule = tilec.schedule(c.q, c.k, c.v, **c.places)
    assert not c.call(schedule=schedule)[0].any()
    for lens in ([40, 7], [3, 48], [48, 3], [5, 5]):
        c.lens = lens
        c.places["kv_lens"].copy_(ints(device, *lens))
        schedule.update()
        for x, y in zip(c.call(schedule=schedule, mask_mod="causal"),
                        c.want(mask_mod="causal")):
            near(x, y)
        c.places["kv_lens"].zero_()
        schedule.update()
        assert not c.call(schedule=schedule)[0].any()


@both_ways
def test_append(device):
    for layout in ("rows", "pages"):
        for ragged in (False, True):
            c = Case(device, layout, ragged)
            shape = (3, HK, D) if ragged else (B, HK, 3, D)
            places = {n: x for n, x in c.places.items() if n != "cu_seqlens_q"}
            if ragged:
                places["cu_seqlens"] = c.places["cu_seqlens_q"]
            cos, sin = torch.rand(2, N, D // 2, device=device)
            rotary = dict(rotary_cos=cos, rotary_sin=sin)
            k, v = torch.randn(2, *shape, device=device)
            caches = [(torch.zeros_like(c.k), torch.zeros_like(c.v))
                      for _ in range(3)]
            found = []
            for k_cache, v_cache in caches:
                was = k_cache._version
                found.append(tilec.append(k, v, k_cache, v_cache, query=c.q,
                                          **places, **rotary))
                assert k_cache._version == v_cache._version == was + 1
                assert k_cache.any()
            out = torch.zeros_like(c.q)
            for _ in range(2):
                assert tilec.append(k, v, *caches[0], query=c.q, query_out=out,
                                    **places, **rotary) is out
            for q, pair in zip([*found[1:], out], caches):
                assert torch.equal(q, found[0]) and q.shape == c.q.shape
                assert torch.equal(pair[0], caches[0][0])
                assert torch.equal(pair[1], caches[0][1])
            assert tilec.append(k, v, *caches[0], **places) is None
            leaf = torch.zeros_like(c.k).requires_grad_()
            refused(ValueError, "requires grad", lambda: tilec.append(
                k, v, leaf, caches[0][1], **places))


def test_is_fast(device):
    """The second call is prepared, where there is the extension; a built one
    that is not used is an error."""
    if re.search("not built|DLPack", tilec.extension()):
        return "skipped"
    assert tilec.extension() == "in use", tilec.extension()
    c = Case(device, "pages", True)
    c.call(mask_mod="causal")
    calls, was = [], _cache.Attention.without
    _cache.Attention.without = lambda *a: calls.append(1) or was(*a)
    try:
        c.call(mask_mod="causal")
    finally:
        _cache.Attention.without = was
    assert calls


def test_other_extension(device):
    """One of another version is not used, and a warning says so."""
    if not _launch.has_fast():
        return "skipped"
    with mock.patch.multiple(_launch, VERSION=99, fast=None, _without=None,
                             _has_looked=False):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            test_attention(device)
        assert _launch.fast is None
        assert [x for x in said if "the package needs 99" in str(x.message)]
        assert "the package needs 99" in tilec.extension()


@both_ways
def test_threads(device):
    c = Case(device, "rows", False)
    want = {w: c.want(mask_mod="sliding_window", w=w)[0] for w in range(1, 7)}
    wrong = []

    def work(w):
        for _ in range(30):
            try:
                near(c.call(mask_mod="sliding_window", w=w)[0], want[w])
            except AssertionError as e:
                wrong.append(e)

    threads = [threading.Thread(target=work, args=(w,)) for w in want]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong, wrong[0]


def layer(q, k, v, k_cache, v_cache, lens, slopes, cos):
    """What an engine does in a layer."""
    q = tilec.append(k, v, k_cache, v_cache, kv_lens=lens, query=q,
                     rotary_cos=cos, rotary_sin=cos)
    o, lse = tilec.attention(q, k_cache, v_cache, kv_lens=lens + 1,
                             mask_mod="sliding_window", w=9, score_mod="alibi",
                             slopes=slopes, return_lse=True)
    return tilec.merge(o, lse, o * 0.5, lse + 1)[0] + q


def layer_inputs(device):
    torch.manual_seed(1)
    return (torch.randn(B, HQ, 1, D, device=device),
            *torch.randn(2, B, HK, 1, D, device=device),
            *torch.randn(2, B, HK, N, D, device=device),
            ints(device, 30, 7), torch.rand(HQ, device=device),
            torch.rand(N, D // 2, device=device))


def same(f, g, args):
    """Equal results, and equal caches afterwards."""
    ours, theirs = ([x.clone() for x in args] for _ in range(2))
    with torch.no_grad():
        got, want = f(*ours), g(*theirs)
    assert torch.equal(got, want) and got.stride() == want.stride()
    for x, y in zip(ours, theirs):
        assert torch.equal(x, y)


def test_compiled(device):
    args = layer_inputs(device)
    assert not torch.equal(args[3], args[3] * 2)
    same(torch.compile(layer, fullgraph=True, backend="aot_eager"), layer,
         args)
    c = Case(device, "pages", True)
    schedule = tilec.schedule(c.q, c.k, c.v, **c.places)
    for given in (None, schedule):
        def ragged(q, table, lens, cu, given=given):
            return tilec.attention(q, c.k, c.v, page_table=table, kv_lens=lens,
                                   cu_seqlens_q=cu, mask_mod="causal",
                                   schedule=given)
        same(torch.compile(ragged, fullgraph=True, backend="aot_eager"),
             ragged, (c.q, c.places["page_table"], c.places["kv_lens"],
                      c.places["cu_seqlens_q"]))
    other = torch.compile(lambda q: tilec.attention(
        q, c.k, c.v, **c.places, schedule=schedule), backend="aot_eager")
    refused(Exception, "schedule was made for", lambda: other(c.q[:, :2]))


class Module(torch.nn.Module):
    def forward(self, *args):
        return layer(*args)


def test_exported(device):
    args = layer_inputs(device)
    with torch.no_grad():
        program = torch.export.export(Module(), tuple(x.clone() for x in args))
    names = {str(n.target) for n in program.graph.nodes}
    assert names >= {"tilec.append.default", "tilec.cache_attention.default",
                     "tilec.merge.default"}, names
    same(program.module(), layer, args)


def test_graph(device):
    """A prepared call in a CUDA graph, with lengths that change."""
    if device == "cpu":
        return "skipped"
    c = Case(device, "pages", False)
    for _ in range(2):
        c.call(mask_mod="causal")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        got = c.call(mask_mod="causal")
    for lens in ([40, 7], [3, 20], [48, 48]):
        c.lens = lens
        c.places["kv_lens"].copy_(ints(device, *lens))
        graph.replay()
        for x, y in zip(got, c.want(mask_mod="causal")):
            near(x, y)


OWN = """func @own(%b: i32, %h: i32, %q: i32, %k: i32, %first: tensor<[?] x i32>, %w: i32) -> i1 {
  return %k >= %first[%b] and %k < %first[%b] + %w or %k < 3
}"""


class Dealt:
    """Calls with a mask that bounds the keys by what it captures."""

    def __init__(self, device):
        torch.manual_seed(0)
        self.q = torch.randn(B, HQ, 1, D, device=device)
        self.k, self.v = torch.randn(2, B, HK, 1500, D, device=device)
        self.lens, self.first = ints(device, 0, 0), ints(device, 0, 0)
        self.mask = dict(mask_mod=OWN, first=self.first, w=300)
        self.every = tilec.schedule(self.q, self.k, self.v, kv_lens=self.lens)
        self.seen = tilec.schedule(self.q, self.k, self.v, kv_lens=self.lens,
                                   **self.mask)

    def set(self, lens, first):
        self.lens.copy_(ints(self.lens.device, *lens))
        self.first.copy_(ints(self.lens.device, *first))
        self.every.update()

    def call(self, schedule):
        return tilec.attention(self.q, self.k, self.v, kv_lens=self.lens,
                               schedule=schedule, return_lse=True, **self.mask)


STEPS = (([1500, 900], [700, 20]), ([1500, 4], [0, 2]), ([900, 1300], [899, 9]),
         ([0, 1500], [5, 1400]))


@both_ways
def test_keys_that_a_mask_shows(device):
    c = Dealt(device)
    for lens, first in STEPS:
        c.set(lens, first)
        c.seen.update()
        want = c.call(c.every)
        for schedule in (c.seen, None):
            for x, y in zip(c.call(schedule), want):
                near(x.exp(), y.exp())


def test_graph_of_a_mask(device):
    """Schedule and attention in one graph: lengths and what the mask captures
    change."""
    if device == "cpu":
        return "skipped"
    c = Dealt(device)
    c.seen.update()
    c.call(c.seen)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        c.seen.update()
        got = c.call(c.seen)
    for lens, first in STEPS:
        c.set(lens, first)
        graph.replay()
        for x, y in zip(got, c.call(c.every)):
            near(x.exp(), y.exp())


TESTS = [f for name, f in sorted(globals().items())
         if name.startswith("test_")]


def main():
    args = torch_cases.parse(torch_cases.parser(__doc__))
    torch_cases.run([(f.__name__, lambda f=f: f(args.device)) for f in TESTS],
                    args)


if __name__ == "__main__":
    main()
