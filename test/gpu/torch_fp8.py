#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tilec.attention and tilec.quantize on torch's 8-bit floats.

    TILEC_LIBRARY=build/libtilec.so python3 test/gpu/torch_fp8.py
        [--device cpu] [--only TEXT] [--seed N]

Right is float64 attention of the numbers as they are stored times their
factors. With queries of 8 bits the error may be 1.2 times what rounding the
weights alone makes of it (times 2^8 against the largest of their row, to
e4m3); with others it is that of their type. Ends with `N passed, N failed`;
exit status 77: no torch, or no such device.
"""
import collections
import math
import zlib

import torch_cases  # first: finds tilec, and ends where there is no torch

import tilec
import torch
from tilec import _attention

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
LARGEST = {E4M3: 448.0, E5M2: 57344.0}
BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32
LIMIT = {BF16: 3e-3, F16: 1e-3, F32: 2e-6}


def random(name, device, *shape):
    g = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    return torch.randn(shape, generator=g).to(device)


def meant(y, scales, rows=None):
    """In float64 what numbers and their factors say."""
    y, s = y.double(), scales.double()
    if s.dim() == 3:
        s = s.repeat_interleave(rows, 2)[:, :, :y.shape[2], None]
    elif s.dim() == 2:
        s = s.repeat_interleave(y.shape[1] // s.shape[1], 1)[:, :, None, None]
    elif s.numel() > 1:
        s = s[:, None, None]
    return y * s


def attention(q, k, v, causal=False, rounded=False):
    group = q.shape[1] // k.shape[1]
    k, v = (t.double().repeat_interleave(group, 1) for t in (k, v))
    s = q.double() @ k.mT / math.sqrt(q.shape[3])
    if causal:
        i = torch.arange(s.shape[2], device=s.device)
        j = torch.arange(s.shape[3], device=s.device)
        s = s.masked_fill(j > i[:, None], -math.inf)
    p = torch.exp(s - s.amax(-1, keepdim=True))
    total = p.sum(-1, keepdim=True)
    if rounded:
        p = (p * 256).float().to(E4M3).double() / 256
    return p @ v / total


def error(x, want):
    return ((x.double() - want).norm() / want.norm()).item()


# ---- Attention ----

Case = collections.namedtuple(
    "Case", "q k v grains causal columns M N D DV out", defaults=(None,))
CASES = [
    Case(E4M3, E4M3, E4M3, "thb", False, True, 200, 333, 64, 64),
    Case(E4M3, E4M3, E4M3, "bbb", False, False, 256, 256, 128, 128),
    Case(E4M3, E4M3, E4M3, "bbb", True, True, 500, 500, 128, 128),
    Case(E4M3, E4M3, E4M3, "gbb", True, True, 300, 300, 64, 80, F32),
    Case(E5M2, E4M3, E4M3, "bhb", False, True, 100, 200, 64, 64, F16),
    Case(E4M3, E5M2, E5M2, "hhh", True, False, 130, 130, 32, 32),
    Case(E4M3, E4M3, E4M3, "rrr", False, True, 128, 300, 64, 64, F32),
    Case(E4M3, E4M3, E4M3, "rrr", True, False, 333, 333, 128, 128),
    Case(E4M3, E4M3, E4M3, "bbb", False, True, 200, 200, 256, 256),
    Case(BF16, E4M3, E4M3, "-bb", True, True, 300, 300, 64, 64),
    Case(F16, E4M3, E5M2, "-rr", False, False, 70, 290, 128, 128),
    Case(F32, E5M2, E4M3, "-hb", False, True, 40, 100, 40, 24),
]
ROWS = 64  # of a block


def label(c):
    def name(t):
        return str(t).rpartition(".")[2].replace("float8_", "")
    return "%s/%s/%s %s%s%s %dx%dx%d/%d%s" % (
        name(c.q), name(c.k), name(c.v), c.grains,
        " causal" if c.causal else "", " columns" if c.columns else "", c.M,
        c.N, c.D, c.DV, " to " + name(c.out) if c.out else "")


def quantized(x, dtype, grain, key_heads):
    """Numbers, factors, what both mean. By hand where tilec.quantize has no
    such factors: of all (t), by head (h), of q by key head (g)."""
    if grain == "-":
        return x.to(dtype), None, x.to(dtype).double()
    if grain in "rb":
        y, s = tilec.quantize(x, dtype, rows=ROWS if grain == "r" else None)
        return y, s, meant(y, s, ROWS)
    most = x.abs().amax((2, 3)) / LARGEST[dtype]
    if grain == "t":
        s = most.amax().view(1)
    elif grain == "h":
        s = most.amax(0)
    else:
        s = most.view(x.shape[0], key_heads, -1).amax(2)
    y = (x / meant(torch.ones_like(x), s)).float().to(dtype)
    return y, s, meant(y, s)


def tensors_of(c, device, seed):
    shapes = ((2, 4, c.M, c.D), (2, 2, c.N, c.D), (2, 2, c.N, c.DV))
    found = [quantized(random("%s %d %d" % (label(c), i, seed), device, *s),
                       t, grain, 2)
             for i, (s, t, grain) in enumerate(zip(shapes, c[:3], c.grains))]
    numbers, factors, values = map(list, zip(*found))
    if c.columns:
        numbers[2] = by_columns(numbers[2])
    return numbers, factors, values


def by_columns(v):
    return v.mT.contiguous().mT


def run(c, numbers, factors, **options):
    q, k, v = factors
    return tilec.attention(*numbers, mask_mod="causal" if c.causal else None,
                           descale_q=q, descale_k=k, descale_v=v,
                           enable_gqa=True, out_dtype=c.out, **options)


def check_case(c, device, seed):
    numbers, factors, values = tensors_of(c, device, seed)
    o, lse = run(c, numbers, factors, return_lse=True)
    narrow = c.q in LARGEST
    assert o.dtype == (c.out or (BF16 if narrow else c.q)), o.dtype
    want = attention(*values, c.causal)
    limit = LIMIT[o.dtype]
    if narrow:
        limit = 1.2 * error(attention(*values, c.causal, rounded=True), want)
    mine = error(o, want)
    assert mine <= limit, "error %.2e, limit %.2e" % (mine, limit)
    assert torch.isfinite(lse).all()
    return "error %.1e, %.2f of the limit" % (mine, mine / limit)


# ---- Numbers and their factors ----


def check_numbers(x, dtype, rows, hadamard, device):
    y, s = tilec.quantize(x, dtype, rows=rows, hadamard=hadamard)
    assert y.dtype == dtype and y.shape == x.shape and y.is_contiguous()
    b, h, n, _ = x.shape
    assert s.shape == ((b, h, -(-n // rows)) if rows else (b, h)), s.shape
    wide = x.double()
    if hadamard:
        m = torch.ones(1, 1, dtype=torch.float64, device=device)
        while m.shape[0] < hadamard:
            m = torch.cat((torch.cat((m, m), 1), torch.cat((m, -m), 1)))
        wide = (wide.view(b, h, n, -1, hadamard) @ m).flatten(
            3) / math.sqrt(hadamard)
    e = error(meant(y, s, rows), wide)
    limit = 0.03 if dtype == E4M3 else 0.06  # half a unit, at random
    assert e < limit, "error %.2e" % e
    columns, again = tilec.quantize(x, dtype, rows=rows, hadamard=hadamard,
                                    column_major=True)
    assert columns.stride(2) == 1 and columns.stride(3) % 16 == 0
    assert torch.equal(again, s)
    assert torch.equal(columns.view(torch.uint8), y.view(torch.uint8))


def test_quantize(device):
    for dtype in (E4M3, E5M2):
        for kind, d, rows, hadamard in (
                (BF16, 64, None, 0), (F32, 64, 32, 64), (F16, 80, 64, 16),
                (BF16, 128, 128, 0)):
            x = random("numbers", device, 2, 3, 200, d).to(kind)
            check_numbers(x, dtype, rows, hadamard, device)


def test_rotation(device):
    """Of what outliers in one column cost little is left."""
    q, k = (random(n, device, 1, 2, 300, 64) for n in "qk")
    v = random("v", device, 1, 2, 300, 64)
    for x in (q, k):
        x[..., 5] += 12
    v8 = v.to(E4M3)
    want = attention(q, k, v8)
    found = []
    for hadamard in (0, 64):
        (q8, sq), (k8, sk) = (tilec.quantize(x, hadamard=hadamard)
                              for x in (q, k))
        found.append(error(tilec.attention(
            q8, k8, v8, descale_q=sq, descale_k=sk), want))
    assert found[1] < 0.8 * found[0], found
    return "error %.3f, without %.3f" % (found[1], found[0])


# ---- What is around it ----


def small(device, n=200, grains="bbb", causal=False):
    c = Case(E4M3, E4M3, E4M3, grains, causal, True, n, n, 64, 64)
    return (c, *tensors_of(c, device, 0))


def test_lengths(device):
    """Blocks of 64 rows are one plan, however many there are."""
    _attention.forget()
    for n in (600, 513, 777, 900):
        c, numbers, factors, values = small(device, n, "rrr")
        e = error(run(c, numbers, factors), attention(*values))
        assert e < 0.04, e
    assert len(_attention._plans) == 1, len(_attention._plans)


def test_numbers(device):
    """A factor may be a number; so may that of o, which can have 8 bits."""
    c, (q, k, v), _, _ = small(device)
    want = attention(q.double() * 0.01, k.double() * 0.01, v.double() * 0.02)
    o = tilec.attention(q, k, v, descale_q=0.01, descale_k=0.01,
                        descale_v=0.02, enable_gqa=True)
    assert error(o, want) < 0.04
    o = tilec.attention(q, k, v, descale_q=0.01, descale_k=0.01,
                        descale_v=0.02, scale_o=32.0, out_dtype=E4M3,
                        enable_gqa=True)
    assert o.dtype == E4M3 and error(o.double() / 32, want) < 0.06
    for n in (64, 65, 700):  # keys that grow, into another class of lengths
        k, v = (random(t, device, 1, 2, n, 64).to(E4M3) for t in "kv")
        one = random("q", device, 1, 2, 1, 64).to(E4M3)
        o = tilec.attention(one, k, v, descale_q=0.5, descale_k=0.5,
                            descale_v=2.0)
        want = attention(one.double() / 2, k.double() / 2, v.double() * 2)
        assert error(o, want) < 0.04, n


def test_gradients(device):
    """There are none."""
    q = random("q", device, 1, 2, 32, 32).requires_grad_()
    k8, sk = tilec.quantize(random("k", device, 1, 2, 32, 32))
    o = tilec.attention(q, k8, k8, descale_k=sk, descale_v=sk)
    torch_cases.refused(ValueError, "no gradients", o.sum().backward)


def test_compile(device):
    c, numbers, factors, _ = small(device)
    backend = "inductor" if device == "cuda" else "aot_eager"
    compiled = torch.compile(lambda *t: run(c, t[:3], t[3:]), fullgraph=True,
                             backend=backend)
    assert torch.equal(compiled(*numbers, *factors), run(c, numbers, factors))


def test_cuda_graph(device):
    if device != "cuda":
        return "skipped"
    c, numbers, factors, _ = small(device)
    want = run(c, numbers, factors)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o = run(c, numbers, factors)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(o, want)


def test_enforce(device):
    """By rows: said, refused, or accepted; on the CPU nothing is wrong."""
    c, numbers, factors, values = small(device)
    numbers[2] = numbers[2].contiguous()
    o = run(c, numbers, factors, kernel_options={"enforce": "off"})
    assert error(o, attention(*values)) < 0.04


def test_copies(device):
    """v by rows, by columns of any length: copied first, or not."""
    for n, d in ((333, 64), (1000, 128), (1024, 256)):
        c = Case(E4M3, E4M3, E4M3, "bbb", False, False, n, n, d, d)
        numbers, factors, values = tensors_of(c, device, 0)
        want = attention(*values)
        limit = 1.2 * error(attention(*values, rounded=True), want)
        for v in numbers[2], by_columns(numbers[2]):
            numbers[2] = v
            for options in ({}, {"COPY_VALUES": True, "EXACT_SUMS": d > 64},
                            {"COPY_VALUES": False}):
                e = error(run(c, numbers, factors, kernel_options=options),
                          want)
                assert e <= limit, "%dx%d %s: error %.2e, limit %.2e" % (
                    n, d, options, e, limit)


def test_errors(device):
    c, (q, k, v), _, _ = small(device)
    refused = []
    for text, f in (
            ("descale_k: the shape is [3]", lambda: tilec.attention(
                q, k, v, enable_gqa=True,
                descale_k=torch.ones(3, device=device))),
            ("expected f32", lambda: tilec.attention(
                q, k, v, enable_gqa=True,
                descale_k=torch.ones(1, device=device).int())),
            ("out_dtype is int8", lambda: tilec.attention(
                q, k, v, enable_gqa=True, out_dtype=torch.int8)),
            ("enforce is 'no'", lambda: tilec.attention(
                q, k, v, enable_gqa=True, kernel_options={"enforce": "no"})),
            ("expected float8_e4m3fn", lambda: tilec.quantize(
                q.float(), torch.int8)),
            ("rows is 48", lambda: tilec.quantize(q.float(), rows=48)),
            ("HADAMARD must be", lambda: tilec.quantize(q.float(),
                                                        hadamard=48))):
        try:
            f()
            refused.append("nothing, expected %r" % text)
        except ValueError as e:
            if text not in str(e):
                refused.append("%r, expected %r" % (str(e), text))
    assert not refused, "; ".join(refused)


TESTS = [test_quantize, test_rotation, test_lengths, test_numbers,
         test_gradients, test_compile, test_cuda_graph, test_enforce,
         test_copies, test_errors]


def main():
    args = torch_cases.parse(torch_cases.parser(__doc__))
    tasks = [(label(c), lambda c=c: check_case(c, args.device, args.seed))
             for c in CASES]
    tasks += [(t.__name__, lambda t=t: t(args.device)) for t in TESTS]
    torch_cases.run(tasks, args)


if __name__ == "__main__":
    main()
