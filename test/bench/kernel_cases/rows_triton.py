# SPDX-License-Identifier: Apache-2.0
"""Triton kernels of rows, tuned: the peers of rows_cases.py."""
import torch
import triton
import triton.language as tl

QUICK = dict(warmup=3, rep=12)


def rows_configs(rows=(1, 2, 4), warps=(4, 8, 16)):
    return [triton.Config({"ROWS": r}, num_warps=w) for r in rows
            for w in warps]


def block_configs(blocks, warps=(4, 8, 16), stages=(1, 3)):
    return [triton.Config({"BLOCK": b}, num_warps=w, num_stages=s)
            for b in blocks for w in warps for s in stages]


@triton.autotune(block_configs((1024, 2048, 4096, 8192), (4, 8), (1,)),
                 key=["n"], **QUICK)
@triton.jit
def add_kernel(x, y, z, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    on = at < n
    tl.store(z + at, tl.load(x + at, on) + tl.load(y + at, on), on)


def add(s):
    n = s["x"].numel()
    add_kernel[lambda c: (triton.cdiv(n, c["BLOCK"]),)](
        s["x"], s["y"], s["z"], n)
    return (s["z"],)


@triton.jit
def places(M, N, NP: tl.constexpr, ROWS: tl.constexpr):
    m = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    n = tl.arange(0, NP)
    at = m[:, None].to(tl.int64) * N + n[None, :]
    return m, n, at, (m < M)[:, None] & (n < N)[None, :]


@triton.autotune(rows_configs(), key=["M", "N"], **QUICK)
@triton.jit
def softmax_kernel(x, y, M, N, NP: tl.constexpr, ROWS: tl.constexpr):
    m, n, at, on = places(M, N, NP, ROWS)
    t = tl.load(x + at, on, other=-float("inf")).to(tl.float32)
    e = tl.exp(t - tl.max(t, 1)[:, None])
    tl.store(y + at, e / tl.sum(e, 1)[:, None], on)


def over_rows(kernel, M, N, *args):
    kernel[lambda c: (triton.cdiv(M, c["ROWS"]),)](
        *args, M, N, NP=triton.next_power_of_2(N))


def softmax(s):
    over_rows(softmax_kernel, *s["x"].shape, s["x"], s["y"])
    return (s["y"],)


@triton.autotune(rows_configs(), key=["M", "N"], **QUICK)
@triton.jit
def softmax_backward_kernel(y, dy, dx, M, N, NP: tl.constexpr,
                            ROWS: tl.constexpr):
    m, n, at, on = places(M, N, NP, ROWS)
    p = tl.load(y + at, on, other=0.0).to(tl.float32)
    g = tl.load(dy + at, on, other=0.0).to(tl.float32)
    tl.store(dx + at, p * (g - tl.sum(p * g, 1)[:, None]), on)


def softmax_backward(s):
    over_rows(softmax_backward_kernel, *s["p"].shape, s["p"], s["dy"], s["dx"])
    return (s["dx"],)


@triton.autotune(block_configs((2048, 4096, 8192, 16384), (4, 8, 16)),
                 key=["N"], **QUICK)
@triton.jit
def cross_entropy_kernel(x, labels, loss, lse, N, BLOCK: tl.constexpr):
    m = tl.program_id(0).to(tl.int64)
    top = -float("inf")
    total = 0.0
    for n0 in range(0, N, BLOCK):
        n = n0 + tl.arange(0, BLOCK)
        t = tl.load(x + m * N + n, n < N, other=-float("inf")).to(tl.float32)
        most = tl.maximum(top, tl.max(t, 0))
        total = total * tl.exp(top - most) + tl.sum(tl.exp(t - most), 0)
        top = most
    all_ = top + tl.log(total)
    label = tl.load(labels + m)
    own = tl.load(x + m * N + label).to(tl.float32)
    tl.store(lse + m, all_)
    tl.store(loss + m, all_ - own)


def cross_entropy(s):
    M, N = s["x"].shape
    cross_entropy_kernel[(M,)](s["x"], s["labels"], s["loss"], s["lse"], N)
    return s["loss"], s["lse"]


@triton.autotune(block_configs((2048, 4096, 8192), (4, 8), (1,)), key=["N"],
                 **QUICK)
@triton.jit
def cross_entropy_backward_kernel(x, labels, lse, dloss, dx, N,
                                  BLOCK: tl.constexpr):
    m = tl.program_id(1).to(tl.int64)
    n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    t = tl.load(x + m * N + n, n < N).to(tl.float32)
    p = tl.exp(t - tl.load(lse + m)) - tl.where(n == tl.load(labels + m), 1., 0.)
    tl.store(dx + m * N + n, p * tl.load(dloss + m), n < N)


def cross_entropy_backward(s):
    M, N = s["x"].shape
    cross_entropy_backward_kernel[lambda c: (triton.cdiv(N, c["BLOCK"]), M)](
        s["x"], s["labels"], s["lse"], s["dloss"], s["dx"], N)
    return (s["dx"],)


@triton.autotune(rows_configs(), key=["M", "N"], **QUICK)
@triton.jit
def layernorm_kernel(x, w, b, y, mean, rstd, eps, M, N, NP: tl.constexpr,
                     ROWS: tl.constexpr):
    m, n, at, on = places(M, N, NP, ROWS)
    t = tl.load(x + at, on, other=0.0).to(tl.float32)
    mu = tl.sum(t, 1) / N
    away = tl.where(on, t - mu[:, None], 0.0)
    r = tl.rsqrt(tl.sum(away * away, 1) / N + eps)
    tl.store(mean + m, mu, m < M)
    tl.store(rstd + m, r, m < M)
    wt = tl.load(w + n, n < N).to(tl.float32)
    bt = tl.load(b + n, n < N).to(tl.float32)
    tl.store(y + at, away * r[:, None] * wt[None, :] + bt[None, :], on)


def layernorm(s):
    over_rows(layernorm_kernel, *s["x"].shape, s["x"], s["w"], s["b"], s["y"],
              s["mean"], s["rstd"], 1e-5)
    return s["y"], s["mean"], s["rstd"]


@triton.autotune(rows_configs(), key=["M", "N"], **QUICK)
@triton.jit
def rmsnorm_kernel(x, w, y, rstd, eps, M, N, NP: tl.constexpr,
                   ROWS: tl.constexpr):
    m, n, at, on = places(M, N, NP, ROWS)
    t = tl.load(x + at, on, other=0.0).to(tl.float32)
    r = tl.rsqrt(tl.sum(t * t, 1) / N + eps)
    tl.store(rstd + m, r, m < M)
    wt = tl.load(w + n, n < N).to(tl.float32)
    tl.store(y + at, t * r[:, None] * wt[None, :], on)


def rmsnorm(s):
    over_rows(rmsnorm_kernel, *s["x"].shape, s["x"], s["w"], s["y"], s["rstd"],
              1e-5)
    return s["y"], s["rstd"]


PARTS = 528


@triton.autotune([triton.Config({"PROGRAMS": p}, num_warps=w, num_stages=t)
                  for p in (132, 264, 528) for w in (4, 8, 16)
                  for t in (1, 2)], key=["M", "N"], **QUICK)
@triton.jit
def norm_backward_kernel(x, w, mean, rstd, dy, dx, dw, db, M, N,
                         NP: tl.constexpr, LAYER: tl.constexpr,
                         PROGRAMS: tl.constexpr):
    n = tl.arange(0, NP)
    on = n < N
    wt = tl.load(w + n, on, other=0.0).to(tl.float32)
    dws = tl.zeros([NP], tl.float32)
    dbs = tl.zeros([NP], tl.float32)
    for m in range(tl.program_id(0), M, PROGRAMS):
        at = m.to(tl.int64) * N + n
        t = tl.load(x + at, on, other=0.0).to(tl.float32)
        g = tl.load(dy + at, on, other=0.0).to(tl.float32)
        r = tl.load(rstd + m)
        if LAYER:
            t = tl.where(on, t - tl.load(mean + m), 0.0)
        u = t * r
        wg = wt * g
        d = wg - u * (tl.sum(u * wg, 0) / N)
        if LAYER:
            d -= tl.sum(wg, 0) / N
            dbs += g
        dws += u * g
        tl.store(dx + at, d * r, on)
    at = tl.program_id(0) * N + n
    tl.store(dw + at, dws, on)
    if LAYER:
        tl.store(db + at, dbs, on)


@triton.autotune([triton.Config({"BM": m, "BN": n}, num_warps=w)
                  for m in (32, 64, 128) for n in (32, 64) for w in (4, 8)],
                 key=["M", "N"], **QUICK)
@triton.jit
def sum_kernel(parts, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    s = tl.zeros([BM, BN], tl.float32)
    for m0 in range(0, M, BM):
        m = m0 + tl.arange(0, BM)
        s += tl.load(parts + m[:, None] * N + n[None, :],
                     (m < M)[:, None] & (n < N)[None, :], other=0.0)
    tl.store(out + n, tl.sum(s, 0), n < N)


def norm_backward(s, layer):
    M, N = s["x"].shape
    if "parts" not in s:
        s["parts"] = [torch.empty(PARTS, N, device="cuda") for _ in range(2)]
    dw, db = s["parts"]
    norm_backward_kernel[lambda c: (c["PROGRAMS"],)](
        s["x"], s["w"], s["mean"] if layer else s["rstd"], s["rstd"], s["dy"],
        s["dx"], dw, db, M, N, NP=triton.next_power_of_2(N), LAYER=layer)
    used = norm_backward_kernel.best_config.kwargs["PROGRAMS"]
    for part, out in ((dw, s["dw"]), (db, s["db"]))[:2 if layer else 1]:
        sum_kernel[lambda c: (triton.cdiv(N, c["BN"]),)](part, out, used, N)
    return (s["dx"], s["dw"], s["db"]) if layer else (s["dx"], s["dw"])


@triton.jit
def rotate_heads(x, w, y, c, s, m, eps, H: tl.constexpr, HP: tl.constexpr,
                 D: tl.constexpr):
    h = tl.arange(0, HP)
    i = tl.arange(0, D // 2)
    on = (h < H)[:, None]
    at = m.to(tl.int64) * H * D + h[:, None] * D + i[None, :]
    a = tl.load(x + at, on, other=0.0).to(tl.float32)
    b = tl.load(x + at + D // 2, on, other=0.0).to(tl.float32)
    r = tl.rsqrt((tl.sum(a * a, 1) + tl.sum(b * b, 1)) / D + eps)[:, None]
    u = a * r * tl.load(w + i).to(tl.float32)[None, :]
    v = b * r * tl.load(w + D // 2 + i).to(tl.float32)[None, :]
    tl.store(y + at, u * c - v * s, on)
    tl.store(y + at + D // 2, v * c + u * s, on)


@triton.autotune([triton.Config({}, num_warps=w) for w in (1, 2, 4, 8)],
                 key=["HQ", "HK", "D"], **QUICK)
@triton.jit
def qk_norm_kernel(q, k, wq, wk, cos, sin, qo, ko, eps, HQ: tl.constexpr,
                   HK: tl.constexpr, PQ: tl.constexpr, PK: tl.constexpr,
                   D: tl.constexpr):
    m = tl.program_id(0)
    i = m * (D // 2) + tl.arange(0, D // 2)
    c = tl.load(cos + i).to(tl.float32)[None, :]
    s = tl.load(sin + i).to(tl.float32)[None, :]
    rotate_heads(q, wq, qo, c, s, m, eps, HQ, PQ, D)
    rotate_heads(k, wk, ko, c, s, m, eps, HK, PK, D)


def qk_norm(s):
    (M, HQ, D), HK = s["q"].shape, s["k"].shape[1]
    qk_norm_kernel[(M,)](
        s["q"], s["k"], s["wq"], s["wk"], s["cos"], s["sin"], s["qo"], s["ko"],
        1e-6, HQ=HQ, HK=HK, PQ=triton.next_power_of_2(HQ),
        PK=triton.next_power_of_2(HK), D=D)
    return s["qo"], s["ko"]
