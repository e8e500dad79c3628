# SPDX-License-Identifier: Apache-2.0
"""Triton kernels of products, tuned: the peers of products_cases.py."""
import torch
import triton
import triton.language as tl

QUICK = dict(warmup=3, rep=12)


def configs(tiles, warps=(4, 8), **constants):
    """tiles: (BM, BN, BK, stages)."""
    return [triton.Config(dict(BM=m, BN=n, BK=k, **constants), num_warps=w,
                          num_stages=s)
            for m, n, k, s in tiles for w in warps]


LARGE = [(128, 128, 64, 3), (128, 128, 64, 4), (128, 256, 64, 3),
         (64, 256, 64, 4), (256, 128, 64, 3)]
FEW = [(16, 32, 128, 5), (16, 32, 256, 4), (16, 64, 128, 4), (16, 64, 256, 3)]
ROWS_128 = [(128, 64, 64, 5), (128, 128, 64, 4), (64, 64, 128, 4),
            (128, 64, 128, 4), (128, 32, 128, 4)]
ALL = [*LARGE, *FEW, *ROWS_128]


def of_rows(found, named, **_):
    m = named["M"]
    return [c for c in found if (c.kwargs["BM"] <= 16) == (m <= 16) and
            (m > 128 or c.kwargs["BM"] <= 128)]


PRUNED = dict(prune_configs_by=dict(early_config_prune=of_rows), **QUICK)


@triton.jit
def place(M, N, BM: tl.constexpr, BN: tl.constexpr):
    """Eight rows of tiles after each other, for the L2 cache."""
    pid = tl.program_id(0)
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    first = pid // (8 * columns) * 8
    size = tl.minimum(rows - first, 8)
    at = pid % (8 * columns)
    return first + at % size, at // size


def grid(m, n):
    return lambda c: (triton.cdiv(m, c["BM"]) * triton.cdiv(n, c["BN"]),)


@triton.autotune(configs(ALL), key=["M", "N", "K"], **PRUNED)
@triton.jit
def matmul_kernel(x, w, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr,
                  BK: tl.constexpr):
    pm, pn = place(M, N, BM, BN)
    m, n, k = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN), \
        tl.arange(0, BK)
    xs = x + (m % M)[:, None] * K + k[None, :]
    ws = w + k[:, None] * N + (n % N)[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        acc = tl.dot(tl.load(xs), tl.load(ws), acc)
        xs += BK
        ws += BK * N
    tl.store(y + m[:, None] * N + n[None, :], acc.to(y.dtype.element_ty),
             (m < M)[:, None] & (n < N)[None, :])


def matmul(s):
    (m, k), n = s["x"].shape, s["w"].shape[1]
    matmul_kernel[grid(m, n)](s["x"], s["w"], s["y"], m, n, k)
    return (s["y"],)


@triton.autotune(configs(LARGE), key=["M", "N", "K"], **PRUNED)
@triton.jit
def linear_kernel(x, w, bias, residual, y, M, N, K, BM: tl.constexpr,
                  BN: tl.constexpr, BK: tl.constexpr):
    pm, pn = place(M, N, BM, BN)
    m, n, k = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN), \
        tl.arange(0, BK)
    xs = x + (m % M)[:, None] * K + k[None, :]
    ws = w + k[:, None] + (n % N)[None, :] * K
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        acc = tl.dot(tl.load(xs), tl.load(ws), acc)
        xs += BK
        ws += BK
    acc += tl.load(bias + n, n < N)[None, :].to(tl.float32)
    acc = 0.5 * acc * (1 + tl.erf(acc * 0.7071067811865476))
    at = m[:, None] * N + n[None, :]
    on = (m < M)[:, None] & (n < N)[None, :]
    acc += tl.load(residual + at, on).to(tl.float32)
    tl.store(y + at, acc.to(y.dtype.element_ty), on)


def linear(s):
    (m, k), n = s["x"].shape, s["w"].shape[0]
    linear_kernel[grid(m, n)](s["x"], s["w"], s["bias"], s["residual"], s["y"],
                              m, n, k)
    return (s["y"],)


@triton.autotune(configs([(128, 128, 64, 3), (128, 128, 64, 4),
                          (128, 64, 64, 4), (64, 128, 64, 4),
                          (256, 64, 64, 3)]), key=["M", "N", "K"], **PRUNED)
@triton.jit
def swiglu_kernel(x, gate, up, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr,
                  BK: tl.constexpr):
    pm, pn = place(M, N, BM, BN)
    m, n, k = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN), \
        tl.arange(0, BK)
    xs = x + (m % M)[:, None] * K + k[None, :]
    at = k[:, None] * N + (n % N)[None, :]
    g = tl.zeros((BM, BN), tl.float32)
    u = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        t = tl.load(xs)
        g = tl.dot(t, tl.load(gate + at), g)
        u = tl.dot(t, tl.load(up + at), u)
        xs += BK
        at += BK * N
    tl.store(y + m[:, None] * N + n[None, :],
             (g * tl.sigmoid(g) * u).to(y.dtype.element_ty),
             (m < M)[:, None] & (n < N)[None, :])


def swiglu(s):
    (m, k), n = s["x"].shape, s["gate"].shape[1]
    swiglu_kernel[grid(m, n)](s["x"], s["gate"], s["up"], s["y"], m, n, k)
    return (s["y"],)


@triton.autotune(configs(ALL), key=["M", "N", "K"], **PRUNED)
@triton.jit
def linear_w8_kernel(x, w, factors, y, M, N, K, BM: tl.constexpr,
                     BN: tl.constexpr, BK: tl.constexpr):
    pm, pn = place(M, N, BM, BN)
    m, n, k = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN), \
        tl.arange(0, BK)
    xs = x + (m % M)[:, None] * K + k[None, :]
    ws = w + k[:, None] + (n % N)[None, :] * K
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        acc = tl.dot(tl.load(xs), tl.load(ws).to(x.dtype.element_ty), acc)
        xs += BK
        ws += BK
    acc *= tl.load(factors + n, n < N)[None, :]
    tl.store(y + m[:, None] * N + n[None, :], acc.to(y.dtype.element_ty),
             (m < M)[:, None] & (n < N)[None, :])


def linear_w8(s):
    (m, k), n = s["x"].shape, s["w"].shape[0]
    linear_w8_kernel[grid(m, n)](s["x"], s["w"], s["factors"], s["y"], m, n, k)
    return (s["y"],)


W4 = [(m, n, 64, st) for m, n, _, st in LARGE[:3] + FEW[:3] + FEW[3:]]


@triton.autotune(configs(W4), key=["M", "N", "K"], **PRUNED)
@triton.jit
def linear_w4_kernel(x, w, factors, y, M, N, K, BM: tl.constexpr,
                     BN: tl.constexpr, BK: tl.constexpr):
    pm, pn = place(M, N, BM, BN)
    m, n, k = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN), \
        tl.arange(0, BK)
    xs = x + (m % M)[:, None] * K + k[None, :]
    ws = w + k[:, None] + (n % N)[None, :] * (K // 2)
    fs = factors + n % N
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, 128):
        q = tl.load(ws)
        f = tl.load(fs)[None, :]
        low = ((q & 15) - 8).to(x.dtype.element_ty) * f
        high = (((q >> 4) & 15) - 8).to(x.dtype.element_ty) * f
        acc = tl.dot(tl.load(xs), low, acc)
        acc = tl.dot(tl.load(xs + 64), high, acc)
        xs += 128
        ws += 64
        fs += N
    tl.store(y + m[:, None] * N + n[None, :], acc.to(y.dtype.element_ty),
             (m < M)[:, None] & (n < N)[None, :])


def linear_w4(s):
    (m, k), n = s["x"].shape, s["w"].shape[0]
    linear_w4_kernel[grid(m, n)](s["x"], s["w"], s["factors"], s["y"], m, n, k)
    return (s["y"],)


@triton.autotune(configs([(128, 128, 128, 3), (128, 128, 128, 4),
                          (64, 128, 128, 4), (128, 64, 128, 4)]),
                 key=["M", "N", "K"], **QUICK)
@triton.jit
def linear_fp8_kernel(x, xf, w, wf, y, M, N, K, BM: tl.constexpr,
                      BN: tl.constexpr, BK: tl.constexpr):
    pm, pn = place(M, N, BM, BN)
    m, n, k = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN), \
        tl.arange(0, BK)
    xs = x + (m % M)[:, None] * K + k[None, :]
    ws = w + k[:, None] + (n % N)[None, :] * K
    acc = tl.zeros((BM, BN), tl.float32)
    for b in range(0, K // 128):
        f = tl.load(xf + b * M + m % M)
        g = tl.load(wf + pn * BN // 128 * (K // 128) + b)
        acc += tl.dot(tl.load(xs), tl.load(ws)) * (f * g)[:, None]
        xs += BK
        ws += BK
    tl.store(y + m[:, None] * N + n[None, :], acc.to(y.dtype.element_ty),
             (m < M)[:, None] & (n < N)[None, :])


def linear_fp8(s):
    (m, k), n = s["x"].shape, s["w"].shape[0]
    linear_fp8_kernel[grid(m, n)](s["x"], s["x_factors"], s["w"],
                                  s["w_factors"], s["y"], m, n, k)
    return (s["y"],)


@triton.autotune(configs(LARGE), key=["N", "K"], **QUICK)
@triton.jit
def grouped_kernel(x, w, starts, y, G, N, K, BM: tl.constexpr,
                   BN: tl.constexpr, BK: tl.constexpr):
    """A program a multiprocessor, over the tiles of all groups."""
    tile = tl.program_id(0)
    columns = tl.cdiv(N, BN)
    last = 0
    k = tl.arange(0, BK)
    for g in range(G):
        start, end = tl.load(starts + g), tl.load(starts + g + 1)
        tiles = tl.cdiv(end - start, BM) * columns
        while tile >= last and tile < last + tiles:
            t = tile - last
            m = start + t // columns * BM + tl.arange(0, BM)
            n = t % columns * BN + tl.arange(0, BN)
            xs = x + tl.minimum(m, end - 1)[:, None] * K + k[None, :]
            ws = w + g.to(tl.int64) * N * K + k[:, None] + \
                (n % N)[None, :] * K
            acc = tl.zeros((BM, BN), tl.float32)
            for _ in range(0, K, BK):
                acc = tl.dot(tl.load(xs), tl.load(ws), acc)
                xs += BK
                ws += BK
            tl.store(y + m[:, None] * N + n[None, :],
                     acc.to(y.dtype.element_ty),
                     (m < end)[:, None] & (n < N)[None, :])
            tile += tl.num_programs(0)
        last += tiles


def grouped(s):
    k, (g, n, _) = s["x"].shape[1], s["w"].shape
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    grouped_kernel[(sms,)](s["x"], s["w"], s["starts"], s["y"], g, n, k)
    return (s["y"],)


@triton.autotune(configs([t for t in LARGE if t[0] == 128]), key=["N", "K"],
                 **QUICK)
@triton.jit
def expert_up_kernel(x, pairs, experts, w, y, P, N, K, TOP, BM: tl.constexpr,
                     BN: tl.constexpr, BK: tl.constexpr):
    pm, pn = place(P, N, BM, BN)
    e = tl.load(experts + pm).to(tl.int64)
    m, n, k = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN), \
        tl.arange(0, BK)
    if e >= 0:
        pair = tl.load(pairs + m)
        on = (pair >= 0)[:, None]
        xs = x + (pair // TOP).to(tl.int64)[:, None] * K + k[None, :]
        ws = w + e * N * K + k[:, None] + (n % N)[None, :] * K
        acc = tl.zeros((BM, BN), tl.float32)
        for _ in range(0, K, BK):
            acc = tl.dot(tl.load(xs, on, other=0.0), tl.load(ws), acc)
            xs += BK
            ws += BK
        acc = acc / (1 + tl.exp(-acc))
        tl.store(y + m[:, None].to(tl.int64) * N + n[None, :],
                 acc.to(y.dtype.element_ty), (n < N)[None, :])


def expert_up(s):
    k, (_, n, _) = s["x"].shape[1], s["w"].shape
    p = s["pairs"].shape[0]
    expert_up_kernel[grid(p, n)](s["x"], s["pairs"], s["experts"], s["w"],
                                 s["y"], p, n, k, s["top"])
    return (s["y"],)


@triton.autotune(configs(LARGE), key=["B", "CI", "CO"], **QUICK)
@triton.jit
def conv2d_kernel(x, w, y, B, H, W, CI, CO, BM: tl.constexpr, BN: tl.constexpr,
                  BK: tl.constexpr):
    pm, pn = place(B * H * W, CO, BM, BN)
    m, n, k = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN), \
        tl.arange(0, BK)
    b, h, v = m // (H * W), m // W % H, m % W
    steps = CI // BK
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, 9 * steps):
        tap, k0 = i // steps, i % steps * BK
        hh, vv = h + tap // 3 - 1, v + tap % 3 - 1
        on = (hh >= 0) & (hh < H) & (vv >= 0) & (vv < W) & (b < B)
        at = ((b * H + hh) * W + vv) * CI
        xt = tl.load(x + at[:, None] + k0 + k[None, :], on[:, None], other=0.0)
        wt = tl.load(w + (tap * CI + k0 + k)[:, None] * CO + n[None, :])
        acc = tl.dot(xt, wt, acc)
    tl.store(y + m[:, None] * CO + n[None, :], acc.to(y.dtype.element_ty),
             (m < B * H * W)[:, None])


def conv2d(s):
    (b, h, w, ci), co = s["x"].shape, s["w"].shape[3]
    conv2d_kernel[grid(b * h * w, co)](s["x"], s["w"], s["y"], b, h, w, ci, co)
    return (s["y"],)
