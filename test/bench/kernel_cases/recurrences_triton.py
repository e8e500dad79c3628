# SPDX-License-Identifier: Apache-2.0
"""Triton kernels of recurrences, tuned: the peers of recurrences_cases.py."""
import triton
import triton.language as tl


def whole(found, named, **_):
    return [c for c in found if c.kwargs["BV"] <= named["DV"]]


# 32 columns with 4 warps end in an illegal memory access (Triton 3.6, H200).
@triton.autotune([triton.Config({"BV": b}, num_warps=w, num_stages=s)
                  for b, w in ((64, 4), (64, 8), (128, 4), (128, 8))
                  for s in (1, 2, 3)], key=["T", "DV"], warmup=3, rep=12,
                 prune_configs_by=dict(early_config_prune=whole))
@triton.jit
def gla_kernel(q, k, v, g, o, T, DV, D: tl.constexpr, C: tl.constexpr,
               BV: tl.constexpr):
    b = tl.program_id(0)
    v0 = tl.program_id(1) * BV
    s = tl.zeros((D, BV), tl.float32)
    d, c, r = tl.arange(0, D), v0 + tl.arange(0, BV), tl.arange(0, C)
    for t in range(0, T, C):
        at = (b * T + t).to(tl.int64) + r
        kt = tl.load(k + at[:, None] * D + d[None, :])
        qt = tl.load(q + at[:, None] * D + d[None, :])
        vt = tl.load(v + at[:, None] * DV + c[None, :])
        gt = tl.load(g + at)
        qs = (qt.to(tl.float32) * tl.exp(gt)[:, None]).to(qt.dtype)
        ks = (kt.to(tl.float32) * tl.exp(-gt)[:, None]).to(kt.dtype)
        a = tl.dot(qs, tl.trans(ks))
        a = tl.where(r[:, None] >= r[None, :], a, 0.0)
        out = tl.dot(a.to(vt.dtype), vt, tl.dot(qs, s.to(vt.dtype)))
        s = tl.dot(tl.trans(ks), vt, s)
        tl.store(o + at[:, None] * DV + c[None, :], out.to(vt.dtype))


def gla(s):
    (b, t, d), e = s["q"].shape, s["v"].shape[2]
    gla_kernel[lambda c: (b, e // c["BV"])](s["q"], s["k"], s["v"], s["g"],
                                            s["o"], t, e, D=d, C=64)
    return (s["o"],)
