#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Parts of attention in a CUDA graph: float32 states, merges in place, gradients
of parts in float32; what is captured sees other inputs, positions and documents
when it is replayed.

    torch_shards.py [--device cpu] [--only TEXT]

With --device cpu the same calls run without a graph.
"""
import torch_cases  # first: finds tilec, and ends where there is no torch
import torch

import tilec

B, HQ, HK, M, N, D = 2, 4, 2, 190, 260, 64
RUNS = ((0, 128), (128, 200), (200, N))  # of keys
FIRST = 70  # position of the first query


class Problem:
    """Queries FIRST to N of a sequence, keys in three parts."""

    def __init__(self, kind, dtype, device):
        self.kind, self.dtype, self.device = kind, dtype, device
        shapes = ((HQ, M), (HK, N), (HK, N), (HQ, M))
        self.t = [torch.empty(B, *s, D, device=device, dtype=self.dtype)
                  for s in shapes]
        self.maps = [torch.empty(n, device=device, dtype=torch.int32)
                     for n in (M, *[b - a for a, b in RUNS])]
        self.offsets = torch.zeros(4, device=device, dtype=torch.int32)
        self.slopes = torch.empty(HQ, device=device)

    def fill(self, seed):
        """Other numbers; of maps, other positions."""
        g = torch.Generator().manual_seed(seed)
        for x in (*self.t, self.slopes):
            x.copy_(torch.randn(x.shape, generator=g))
        order = torch.arange(N)
        if self.kind == "mapped":
            order = torch.randperm(N, generator=g)
        self.order = order
        self.rows = torch.arange(FIRST, N)
        self.maps[0].copy_(self.rows)
        for x, (a, b) in zip(self.maps[1:], RUNS):
            x.copy_(order[a:b])
        self.offsets.copy_(torch.tensor([0, 31 + seed, 90, 150 + 2 * seed]))

    def options(self, i):
        a = RUNS[i][0]
        places = dict(q_offset=FIRST, k_offset=a, h_offset=0) \
            if self.kind == "shifted" else \
            dict(q_map=self.maps[0], k_map=self.maps[1 + i], h_offset=0)
        captured = {"%s.%s" % (side, n): x for side in ("mask", "score")
                    for n, x in places.items()}
        return dict(mask_mod=self.kind + "(document_causal)",
                    score_mod=self.kind + "(alibi)", enable_gqa=True,
                    captured=dict(captured, offsets=self.offsets,
                                  slopes=self.slopes))

    def parts(self):
        """o, lse, dq, dk, dv, dslopes, all in float32."""
        q, k, v, do = self.t
        o = torch.zeros(B, HQ, M, D, device=self.device)
        lse = torch.full((B, HQ, M), -float("inf"), device=self.device)
        dq, dslopes = torch.zeros_like(o), torch.zeros_like(self.slopes)
        dk, dv = (torch.zeros(B, HK, N, D, device=self.device)
                  for _ in range(2))
        for i, (a, b) in enumerate(RUNS):
            tilec.merge_into(o, lse, *tilec.attention(
                q, k[:, :, a:b], v[:, :, a:b], return_lse=True,
                out_dtype="float32", **self.options(i)))
        rounded = o.to(self.dtype)
        for i, (a, b) in enumerate(RUNS):
            x, y, z, more = tilec.attention_backward(
                do, q, k[:, :, a:b], v[:, :, a:b], rounded, lse,
                gradients=["slopes"], grad_dtype="float32",
                deterministic=True, **self.options(i))
            dq.add_(x)
            dk[:, :, a:b].add_(y)
            dv[:, :, a:b].add_(z)
            dslopes.add_(more["slopes"])
        return o, lse, dq, dk, dv, dslopes

    def want(self):
        """In float64, by torch's own operations."""
        q, k, v, do = (x.detach().double().requires_grad_() for x in self.t)
        slopes = self.slopes.double().requires_grad_()
        at = self.order.to(self.device)
        rows = self.rows.to(self.device)
        starts = self.offsets.contiguous()
        document = [torch.bucketize(x, starts, right=True) for x in (rows, at)]
        seen = (document[0][:, None] == document[1]) & (rows[:, None] >= at)
        s = q @ k.repeat_interleave(HQ // HK, 1).mT * D ** -0.5
        s = s + slopes[:, None, None] * (at - rows[:, None])
        s = s.masked_fill(~seen, -float("inf"))
        lse = s.logsumexp(-1)
        o = s.softmax(-1) @ v.repeat_interleave(HQ // HK, 1)
        o.backward(do.detach())
        return o, lse, q.grad, k.grad, v.grad, slopes.grad


NAMES = "o", "lse", "dq", "dk", "dv", "dslopes"
# The terms of dslopes are distances times ds, whose rows have the sum 0: they
# cancel to a hundredth and less. Rounding o to bfloat16, and nothing else, is
# an error of 0.006 to 0.09 here: so it is looked at in float32 alone, where a
# part that is missing is an error of 0.7 and more.
MOST = {torch.bfloat16: dict(o=4e-3, lse=1e-3, dq=1e-2, dk=1e-2, dv=1e-2),
        torch.float32: dict(dict.fromkeys(NAMES, 2e-5), dslopes=5e-4)}


def check(p, found, name):
    most = MOST[p.dtype]
    for what, x, w in zip(NAMES, found, p.want()):
        if what in most:
            off = ((x.double() - w).norm() / w.norm()).item()
            assert off < most[what], "%s: %s is off by %g" % (name, what, off)


def test(kind, dtype, device):
    p = Problem(kind, dtype, device)
    for seed in SEEDS:
        p.fill(seed)
        check(p, p.parts(), "called, %d" % seed)
    if device == "cuda":
        test_graph(p)


def test_graph(p):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        p.parts()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = p.parts()
    for seed in SEEDS:
        p.fill(seed)
        graph.replay()
        check(p, found, "replay %d" % seed)
        for what, x, y in zip(NAMES, found, p.parts()):
            assert torch.equal(x, y), "%s: other bits" % what


SEEDS = 1, 2, 3

if __name__ == "__main__":
    given = torch_cases.parse(torch_cases.parser(__doc__))
    torch_cases.run([("parts %s %s" % (kind, dtype), lambda k=kind, d=dtype:
                      test(k, d, given.device))
                     for kind in ("shifted", "mapped") for dtype in MOST],
                    given)
