# SPDX-License-Identifier: Apache-2.0
"""tilec.distributed.attention against tilec.attention in one process: results,
gradients, gradients of captured values, twice with the same bits.

    attention.py --ranks 3 [--all] [--only NAME] [--device cuda]

--device cuda: all ranks share a GPU, over gloo.
"""
import argparse
import collections
import itertools
import sys

import cases
from ranks import dist, error, start, torch

import tilec
import tilec.distributed as td
from tilec import _api
from tilec.distributed import _sharding

TOLERANCE = 3e-5
HEADS, KV_HEADS, D, DV = 8, 4, 16, 24
place = {"device": "cpu"}


def tensors(n, kv, batch, seed=1):
    g = torch.Generator().manual_seed(seed)
    shapes = ((HEADS, n, D), (KV_HEADS, kv, D), (KV_HEADS, kv, DV),
              (HEADS, n, DV))
    return [torch.randn(batch, *s, generator=g).to(**place) for s in shapes]


def is_trained(x):
    return torch.is_tensor(x) and x.is_floating_point()


def leaves(captured):
    """Copies in the place of the tensors, floats with gradients."""
    there = {n: x.to(**place) if torch.is_tensor(x) else x
             for n, x in captured.items()}
    return {n: x.clone().requires_grad_() if is_trained(x) else x
            for n, x in there.items()}


def whole(q, k, v, do, dlse, options, captured, sinks):
    """o, lse, gradients of one process, {name: gradient}."""
    captured = leaves(captured)
    inputs = [x.clone().requires_grad_() for x in (q, k, v)]
    sinks = None if sinks is None else \
        sinks.to(**place, copy=True).requires_grad_()
    o, lse = tilec.attention(*inputs, return_lse=True, enable_gqa=True,
                             captured=captured, sinks=sinks, **options)
    loss = (o * do).sum()
    if dlse is not None:
        loss = loss + (torch.where(lse.isinf(), 0, lse) * dlse).sum()
    loss.backward()
    return [o.detach(), lse.detach(), *[x.grad for x in inputs]], {
        n: x.grad for n, x in dict(captured, sinks=sinks).items()
        if is_trained(x)}


class Case:
    """Of one mask and score: the whole, and how parts compare with it."""

    def __init__(self, mask, score, captured, n, kv=None, batch=2, sinks=None,
                 with_dlse=False):
        self.options = dict(mask_mod=mask, score_mod=score)
        self.captured, self.sinks = captured, sinks
        self.t = tensors(n, kv or n, batch)
        self.dlse = self.t[3][..., 0].contiguous() if with_dlse else None
        self.want, self.grads = whole(*self.t, self.dlse, self.options,
                                      captured, sinks)

    def parts(self, s, kv, group, **how):
        q, k, v, do = self.t
        captured = leaves(self.captured)
        inputs = [s.shard(q, 2), kv.shard(k, 2), kv.shard(v, 2)]
        inputs = [x.clone().requires_grad_() for x in inputs]
        sinks = None if self.sinks is None else \
            self.sinks.to(**place, copy=True).requires_grad_()
        o, lse = td.attention(*inputs, group, sharding=s, kv_sharding=kv,
                              captured=captured, sinks=sinks, return_lse=True,
                              enable_gqa=True, **self.options, **how)
        loss = (o * s.shard(do, 2)).sum()
        if self.dlse is not None:
            loss = loss + (torch.where(lse.isinf(), 0, lse) *
                           s.shard(self.dlse, 2)).sum()
        loss.backward()
        return [o.detach(), lse.detach(), *[x.grad for x in inputs]], {
            n: x.grad for n, x in dict(captured, sinks=sinks).items()
            if is_trained(x)}

    def check(self, s, group=None, kv=None, repeat=False, **how):
        kv = kv or s
        found, grads = self.parts(s, kv, group, **how)
        name = "%s %s %s %s" % (self.options, how, s, s.rank)
        want = [s.shard(self.want[0], 2), s.shard(self.want[1], 2),
                s.shard(self.want[2], 2), kv.shard(self.want[3], 2),
                kv.shard(self.want[4], 2)]
        for what, x, w in zip(("o", "lse", "dq", "dk", "dv"), found, want):
            off = error(x, w) if w.numel() else 0
            assert off < TOLERANCE, "%s: %s is off by %g" % (name, what, off)
        for what, x in self.grads.items():
            off = error(grads[what], x)
            assert off < TOLERANCE, "%s: d%s is off by %g" % (name, what, off)
        if repeat:
            again, more = self.parts(s, kv, group, **how)
            for x, y in zip(found + [*grads.values()],
                            again + [*more.values()]):
                assert torch.equal(x, y), "%s: other bits" % name


def shardings(n, ranks, rank):
    """Parts of several kinds; uneven ones, and an empty one."""
    chunks = [c for c in _sharding._cut(n, 5 * ranks, 1) if c[0] < c[1]]
    work = [(i * 7) % 5 for i in range(len(chunks))]
    lengths = [3 * n // 4] + [0] * (ranks - 2) + [n - 3 * n // 4]
    ends = [sum(lengths[:i + 1]) for i in range(ranks)]
    uneven = [_sharding.coalesced([(a, b)])
              for a, b in zip([0] + ends[:-1], ends)]
    return [td.Sharding(n, parts, rank) for parts in (
        _sharding.contiguous(n, ranks), _sharding.zigzag(n, ranks),
        _sharding.dealt(chunks, work, ranks), uneven)]


STRATEGIES = ("ring", "all_gather")
POSITIONS = ("shifted", "mapped")


def every_mask(rank, ranks):
    n = 96
    for i, (mask, captured) in enumerate(cases.masks(n, 2).items()):
        case = Case(mask, None, captured, n)
        for j, s in enumerate(shardings(n, ranks, rank)):
            case.check(s, strategy=STRATEGIES[(i + j) % 2],
                       positions=POSITIONS[(i + j // 2) % 2])


def every_score(rank, ranks):
    n = 60
    for i, (score, captured) in enumerate(cases.scores(n, HEADS).items()):
        case = Case("causal", score, captured, n)
        s = shardings(n, ranks, rank)
        for j, (strategy, positions) in enumerate(
                itertools.product(STRATEGIES, POSITIONS)):
            case.check(s[(i + j) % 4], strategy=strategy, positions=positions,
                       repeat=True)


def some(rank, ranks):
    n = 75
    starts = cases.masks(n, 2)["document"]
    slopes = cases.scores(n, HEADS)["alibi"]
    case = Case("document_causal", "alibi", dict(starts, **slopes), n,
                sinks=torch.linspace(-1, 2, HEADS), with_dlse=True)
    for s, (strategy, positions) in zip(
            shardings(n, ranks, rank), itertools.product(STRATEGIES, POSITIONS)):
        case.check(s, strategy=strategy, positions=positions, repeat=True)
    case = Case("causal", None, {}, n)
    case.check(td.sharding(n, mask_mod="causal", **place))
    case = Case("sliding_window(w=9)", None, {}, n)
    s = td.sharding(n, mask_mod="sliding_window(w=9)", **place)
    if ranks <= 4:  # neighbors alone
        assert all(len(part) == 1 for part in s.parts), s
    case.check(s, strategy="ring")


class Counts:
    """What a call sends to each rank, how many calls of attention it makes."""

    def __enter__(self):
        self.sends, self.calls = collections.Counter(), 0
        self.kept = dist.batch_isend_irecv, _api.attention
        dist.batch_isend_irecv, _api.attention = self.send, self.attention
        return self

    def __exit__(self, *error):
        dist.batch_isend_irecv, _api.attention = self.kept

    def send(self, ops):
        for op in ops:
            if op.op is dist.isend:
                self.sends[op.group_peer] += op.tensor.shape[2]
        return self.kept[0](ops)

    def attention(self, *args, **options):
        self.calls += 1
        return self.kept[1](*args, **options)


def empty_shards(rank, ranks):
    """Keys that the mask hides from a rank's queries are neither sent to it nor
    computed: rows of k and v by rank, and calls, of a second call."""
    each = 32
    n = each * ranks
    s = td.Sharding(n, _sharding.contiguous(n, ranks, 1), rank)
    starts = torch.arange(0, n, each, dtype=torch.int32, **place)
    causal_next = {r: 2 * each for r in range(rank + 1, ranks)}
    one_next = {rank + 1: 2 * each} if rank + 1 < ranks else {}
    q, k, v, _ = [s.shard(x, 2) for x in tensors(n, n, 1)]
    for mask, captured, sends, calls in (
            ("causal", {}, causal_next, rank + 1),
            ("sliding_window(w=9)", {}, one_next, 1 + (rank > 0)),
            ("document", dict(offsets=starts), {}, 1)):
        for strategy in STRATEGIES:
            def call():
                return td.attention(q, k, v, sharding=s, mask_mod=mask,
                                    strategy=strategy, enable_gqa=True,
                                    positions="shifted", **captured)
            call()  # plans count the mask
            with Counts() as counts:
                call()
            assert counts.sends == sends, (mask, strategy, counts.sends)
            most = calls if strategy == "ring" else 1
            assert counts.calls == most, (mask, strategy, counts.calls)


def cross(rank, ranks):
    """Other keys than queries, without shardings too."""
    n, kv = 50, 83
    case = Case("causal_bottom_right", None, {}, n, kv)
    of_q, of_k = (shardings(x, ranks, rank) for x in (n, kv))
    case.check(of_q[1], kv=of_k[0], strategy="ring")
    case.check(of_q[0], kv=of_k[3], strategy="all_gather")
    s, t = of_q[3], of_k[0]
    o = td.attention(s.shard(case.t[0], 2), t.shard(case.t[1], 2),
                     t.shard(case.t[2], 2), enable_gqa=True,
                     mask_mod="causal_bottom_right")
    assert error(o, s.shard(case.want[0], 2)) < TOLERANCE or not o.numel()


def heads(rank, ranks):
    """Heads exchanged, alone and with a ring, whole groups and parts of one."""
    n = 75
    captured = dict(cases.masks(n, 2)["document"],
                    **cases.scores(n, HEADS)["alibi"])
    case = Case("document_causal", "alibi", captured, n,
                sinks=torch.linspace(-1, 2, HEADS), with_dlse=True)
    if HEADS % ranks == 0:
        for s in shardings(n, ranks, rank):
            case.check(s, strategy="heads", repeat=True)
    if ranks % 2 == 0 and ranks > 2:
        from torch.distributed.device_mesh import init_device_mesh
        mesh = init_device_mesh("cpu", (ranks // 2, 2),
                                mesh_dim_names=("ring", "heads"))
        for s, strategy in zip(shardings(n, ranks, rank),
                               STRATEGIES + STRATEGIES):
            case.check(s, mesh, strategy=strategy)
        s = td.sharding(n, mesh, mask_mod="document_causal",
                        offsets=captured["offsets"].to(**place), **place)
        case.check(s, mesh)


def functions(rank, ranks):
    """Python functions as mods."""
    n = 64
    bias = torch.linspace(0, 1, HEADS, requires_grad=True, **place)
    window = 11
    q, k, v, do = tensors(n, n, 2)

    def mask(b, h, q_idx, kv_idx):
        return (q_idx >= kv_idx) & (q_idx - kv_idx < window)

    def score(s, b, h, q_idx, kv_idx):
        return s + bias[h] * (kv_idx - q_idx)
    o = td.attention(*[shardings(n, ranks, rank)[1].shard(x, 2)
                       for x in (q, k, v)],
                     sharding=shardings(n, ranks, rank)[1], mask_mod=mask,
                     score_mod=score, enable_gqa=True)
    o.backward(shardings(n, ranks, rank)[1].shard(do, 2))
    slopes = bias.detach().clone().requires_grad_()
    want = tilec.attention(q, k, v, mask_mod="sliding_window(w=11)",
                           score_mod="alibi", slopes=slopes, enable_gqa=True)
    want.backward(do)
    assert error(o, shardings(n, ranks, rank)[1].shard(want, 2)) < TOLERANCE
    assert error(bias.grad, slopes.grad) < TOLERANCE


def decode(rank, ranks):
    """A cache in parts; one rank without keys."""
    n, batch = 90, 3
    q, k, v, _ = tensors(n, n, batch)
    q = q[:, :, -2:]
    lens = torch.tensor([90, 60, 33], dtype=torch.int32, **place)
    each = -(-n // ranks)
    first = torch.clamp(torch.full((batch,), rank * each, **place), max=n).int()
    mine = torch.clamp(lens - first, 0, each).int()
    part = slice(rank * each, min(n, (rank + 1) * each))
    pads = [torch.zeros(batch, KV_HEADS, each, x.shape[3], **place)
            for x in (k, v)]
    for pad, x in zip(pads, (k, v)):
        pad[:, :, :max(0, part.stop - part.start)] = x[:, :, part]
    for options in ({}, dict(mask_mod="sliding_window(w=40)")):
        places = dict(query_offsets=lens - 2) if options else {}
        want = tilec.attention(q, k, v, kv_lens=lens, **options, **places)
        more = dict(places, key_starts=first) if options else {}
        o = td.decode(q, *pads, kv_lens=mine, **options, **more)
        assert error(o, want) < TOLERANCE, (options, error(o, want))
        all_ = [torch.empty_like(o, device="cpu") for _ in range(ranks)]
        dist.all_gather(all_, o.cpu())
        assert all(torch.equal(x, o.cpu()) for x in all_)


def unshard(rank, ranks):
    x = torch.randn(2, 37, 3, generator=torch.Generator().manual_seed(1))
    for s in shardings(37, ranks, rank):
        part = s.shard(x, 1).clone().requires_grad_()
        y = td.unshard(part, s, 1)
        assert torch.equal(y, x)
        (y * x).sum().backward()
        assert torch.equal(part.grad, s.shard(x, 1))


CHECKS = some, empty_shards, cross, heads, functions, decode, unshard
MORE = every_mask, every_score


def main(rank, ranks, given):
    place["device"] = given.device
    for check in CHECKS + (MORE if given.all else ()):
        if given.only not in check.__name__:
            continue
        check(rank, ranks)
        if rank == 0:
            print("ok", check.__name__, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", default="", help="what has this in its name")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    given = parser.parse_args()
    if given.device == "cuda" and not torch.cuda.is_available():
        print("no CUDA device here")
        sys.exit(77)
    start(main, given.ranks, given)
