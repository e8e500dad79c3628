#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kernels in tile IR: products over arrays of addresses, and print of tiles.

    TILEC_LIBRARY=build/libtilec.so python3 test/gpu/torch_kernels.py
        [--device cpu] [--only TEXT] [--seed N]

Products against float64; what a GPU prints against the CPU's lines. Exit status
77: no torch, or no such device.
"""
import collections
import ctypes
import functools
import os
import sys
import tempfile

import torch_cases  # first: finds tilec, and ends where there is no torch

import tilec
import torch

# ---- Matrices of their own memory, sizes and strides, through a table ----

PRODUCTS = """
// Of problem g: addresses of a, b and c, then m, n, k, then the strides of rows of
// a, of rows and columns of b, and of rows of c.
kernel @products[T: type, TC: type, BM: int, BN: int, BK: int](%table: tensor<[?, 10] x i64>, %tiles: i32)
    grid(size(%table, 0), %tiles)
{
  %g = program_id(0)
  %m = cast(%table[%g, 3], i32)
  %n = cast(%table[%g, 4], i32)
  %k = cast(%table[%g, 5], i32)
  %a = tensor(bitcast(%table[%g, 0], ptr<T>), [%m, %k], [%table[%g, 6], 1]ALIGNED)
  %b = tensor(bitcast(%table[%g, 1], ptr<T>), [%k, %n], [%table[%g, 7], %table[%g, 8]])
  %c = tensor(bitcast(%table[%g, 2], ptr<TC>), [%m, %n], [%table[%g, 9], 1])
  %wide = cdiv(%n, BN)
  %count = cdiv(%m, BM) * %wide
  for %t = program_id(1) to %count step %tiles {
    %m0 = %t / %wide * BM
    %n0 = rem(%t, %wide) * BN
    %sum = for %k0 = 0 to %k step BK carry(%acc = splat(0.0, tile<BMxBN x f32>)) {
      %x = load %a[%m0 +: BM, %k0 +: BK] boundary(0, 1)
      %y = load %b[%k0 +: BK, %n0 +: BN] boundary(0, 1)
      yield dot(%x, %y, %acc)
    }
    store %c[%m0 +: BM, %n0 +: BN], cast(%sum, TC) boundary(0, 1)
  }
}
"""
SIZES = ((64, 64, 64), (1, 7, 3), (100, 130, 72), (200, 40, 128), (33, 8, 0))


def matrix(device, dtype, rows, columns, turned=False, pad=0):
    """Of random numbers; turned: its columns are contiguous."""
    x = torch.randn(columns, rows + pad) if turned else torch.randn(rows, columns + pad)
    x = x.to(dtype).to(device)
    return x[:, :rows].T if turned else x[:, :columns]


def products(device, dtype, aligned, turned):
    out = torch.float32 if dtype == torch.float32 else dtype
    problems, table = [], []
    for m, n, k in SIZES:
        k = (k + 7) // 8 * 8 if aligned else k
        a = matrix(device, dtype, m, k, pad=8 if aligned else 3)
        b = matrix(device, dtype, k, n, turned, 1)
        c = torch.full((m, n + 5), 7, dtype=out, device=device)
        problems.append((a, b, c))
        table.append([x.data_ptr() for x in (a, b, c)] + [m, n, k] +
                     [a.stride(0), b.stride(0), b.stride(1), c.stride(0)])
    addresses = torch.tensor(table, dtype=torch.int64).to(device)
    name = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}[dtype]
    k = tilec.compile(
        PRODUCTS.replace("ALIGNED", ", aligned=true" if aligned else ""),
        examples=(addresses, 3),
        bindings=dict(T=name, TC=name, BM=64, BN=64, BK=32))
    k(addresses, 3)
    k.synchronize()
    worst = 0.0
    for i, (a, b, c) in enumerate(problems):
        n = b.shape[1]
        want = a.double().cpu() @ b.double().cpu()
        got = c.double().cpu()
        assert (got[:, n:] == 7).all(), "problem %d: written outside" % i
        off = (got[:, :n] - want).abs().max().item() if want.numel() else 0
        most = want.abs().max().item() if want.numel() else 0
        worst = max(worst, off / max(most, 1))
    limit = {"f32": 1e-5, "f16": 1e-3, "bf16": 8e-3}[name]
    assert worst < limit, "off by %g, expected %g" % (worst, limit)
    return "off by %.1e" % worst


# ---- print ----

PRINTED = """
kernel @printed(%x: tensor<[?, ?] x f32>, %w: tensor<[?] x i32>, %y: tensor<[?, ?] x f32>) grid(3) {
  %i = program_id(0)
  %v = load %x[%i * 8 +: 24, 0 +: 40] boundary(0, 1)
  %d = dot(cast(load(%x[%i * 8 +: 16, 0 +: 16], boundary=0), f16), cast(load(%x[0 +: 16, 0 +: 16]), f16))
  for %n = 0 to 2 { print "100% of", %n, %v + cast(%n, f32), 1.0 / 3.0, %v < 1.0 }
  print "types", cast(%v, bf16)[0 +: 1, :], cast(%v, i64)[0 +: 2, 0 +: 2], cast(%v, f64)[0 +: 2, :], cast(%v, f8e4m3)[0 +: 1, :]
  print "numbers", load(%w[0 +: 8]), 0.0 / 0.0, -1.0 / 0.0, %d
  store %y[%i * 16 +: 16, 0 +: 16], %d
}
"""


def lines_of(f):
    """What f writes to standard output, by Python, C or the driver."""
    sys.stdout.flush()
    kept = os.dup(1)
    with tempfile.TemporaryFile("w+") as to:
        os.dup2(to.fileno(), 1)
        try:
            f()
            sys.stdout.flush()
            ctypes.CDLL(None).fflush(None)
        finally:
            os.dup2(kept, 1)
            os.close(kept)
        to.seek(0)
        return to.read().splitlines()


def prints(lines):
    """Those of each print together, in no order."""
    found = []
    for line in lines:
        if line.startswith("program "):
            found.append([])
        found[-1].append(line)
    return collections.Counter("\n".join(p) for p in found)


def printed(device):
    x = torch.randint(-3, 4, (40, 40)).float() / 4
    w = torch.arange(8, dtype=torch.int32) - 4
    texts = []
    for where in ("cpu", device):
        args = [t.to(where) for t in (x, w, torch.zeros(48, 16))]
        k = tilec.compile(PRINTED, examples=args)

        def launch():
            k(*args)
            k.synchronize()
        texts.append(lines_of(launch))
    want, got = map(prints, texts)
    assert sum(want.values()) == 12, want
    for text in (want - got):
        raise AssertionError("not printed:\n" + text + "\nbut:\n" +
                             "\n".join((got - want)))
    assert got == want
    # The prints of a program are in its order.
    for i in range(3):
        heads = [line for line in texts[1] if line.startswith("program (%d" % i)]
        names = [h.split("): ")[1].split()[0] for h in heads]
        assert names == ["100%", "100%", "types", "numbers"], names
    return "%d lines" % len(texts[1])


def main():
    args = torch_cases.parse(torch_cases.parser(__doc__))
    torch.manual_seed(args.seed)
    tasks = [("print", functools.partial(printed, args.device))]
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for aligned in (False, True):
            for turned in (False, True):
                name = "products %s%s%s" % (str(dtype)[6:], " aligned" * aligned,
                                            " turned" * turned)
                tasks.append((name, functools.partial(
                    products, args.device, dtype, aligned, turned)))
    torch_cases.run(tasks, args)


if __name__ == "__main__":
    main()
