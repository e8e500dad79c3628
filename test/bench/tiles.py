#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tiles of products that the cost model chooses, beside a grid of others.

    python3 test/bench/tiles.py --lib build/libtilec.so [--sizes 256x4096x4096]
        [--split] [--warm 12] [--json out.json]

For each size `matmul` is compiled by its name: the choice of
passes/schedule/sum_blocks.c. In turns with it run the grid below, which is what
the constants of passes/persistent/launch_cost.c were fitted to, and torch. A
line says what the choice takes, the best of the grid and torch, in
microseconds; the JSON has the time of each. --split adds split K. --warm N: see
kernels.py.
"""
import argparse
import json
import os
import subprocess
import sys

from peers import ROOT, load_tilec

SIZES = ("16x4096x4096,64x4096x4096,96x4096x4096,128x4096x4096,192x4096x4096,"
         "256x4096x4096,384x4096x4096,512x4096x4096,768x4096x4096,"
         "1000x4096x4096,1536x4096x4096,3000x4096x4096,64x8192x8192,"
         "128x8192x8192,2304x2048x2048,2048x2048x2048,4096x4096x4096,"
         "8192x8192x8192")
SMS = 132
# Rows: (warps, columns, depths).
GRID = {
    16: ((4, 32, (128, 256)), (4, 64, (128, 256)), (4, 128, (64, 128))),
    32: ((4, 32, (128, 256)), (4, 64, (128,)), (4, 128, (64,))),
    64: ((4, 32, (128,)), (4, 64, (64, 128)), (4, 96, (64,)),
         (4, 128, (64, 128)), (4, 192, (64,)), (4, 256, (64,))),
    128: ((8, 64, (64, 128)), (8, 96, (64,)), (8, 128, (64, 128)),
          (8, 160, (64,)), (8, 192, (64,)), (8, 256, (64,))),
    192: ((12, 64, (64,)), (12, 128, (64,)), (12, 192, (64,))),
    256: ((8, 64, (64,)), (8, 128, (64,))),
}


def rows_for(m):
    return [r for r in GRID if r < 2 * m and (r >= 128 or 16 * r >= m)] or [16]


def grid(m, n, split):
    """(warps, bindings), without what occupies few multiprocessors."""
    for bm in rows_for(m):
        for warps, bn, depths in GRID[bm]:
            tiles = -(-m // bm) * -(-n // bn)
            for bk in depths:
                b = dict(BM=bm, BN=bn, BK=bk)
                if 4 * tiles >= SMS:
                    yield warps, b
                for pieces in (2, 3, 4, 8) if split else ():
                    if SMS <= 2 * tiles * pieces <= 4 * SMS:
                        yield warps, {**b, "kernel.split": pieces}


def case_of(size, split):
    import products_cases
    from case import torch_function

    class Grid(products_cases.Matmul):
        def contenders(self):
            return {"choice": self.tilec(0, {}),
                    "torch": torch_function(self.torch)}

        def variants(self):
            return {"w%d %s" % (w, ".".join(map(str, b.values()))):
                    self.tilec(w, b) for w, b in self.tiles}
    return Grid(*size, tiles=list(grid(*size[:2], split)))


def report(row):
    m = dict(row["median"])
    torch, choice = m.pop("torch", 0), m.pop("choice", 0)
    best = min(m, key=m.get, default="")
    print("%s: choice %.1f us, best %.1f us (%s), torch %.1f us%s" % (
        row["label"], choice, m.get(best, 0), best, torch, "".join(
            "; %s: %s" % f for f in row["failures"].items()
            if f[0] == "choice")), flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--lib", required=True, help="libtilec.so")
    p.add_argument("--sizes", default=SIZES, help="rows x columns x depth, ..")
    p.add_argument("--split", action="store_true")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--turn-ms", type=float, default=3.0)
    p.add_argument("--warm", type=int, default=0, metavar="N")
    p.add_argument("--warming", default="", help=argparse.SUPPRESS)
    p.add_argument("--json", help="where all figures go")
    args = p.parse_args()
    load_tilec(args.lib)
    sys.path.insert(0, str(ROOT / "test" / "bench" / "kernel_cases"))
    from kernels import Problem
    from turns import clean_up, compile_all, pingpong
    cases = [case_of(tuple(map(int, s.split("x"))), args.split)
             for s in args.sizes.split(",")]
    if args.warming:
        i, n = map(int, args.warming.split("/"))
        jobs = [(c, name) for c in cases for name in
                ("choice", *c.variants())]
        for c, name in jobs[i::n]:
            compile_all(Problem(c, True), [name])
            clean_up()
        return
    workers = [subprocess.Popen(
        [sys.executable, *sys.argv, "--warming", "%d/%d" % (i, args.warm)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for i in range(args.warm)]
    for w in workers:
        w.wait()
    rows = []
    for c in cases:
        rows.append(dict(label=c.label, size=c.size, **pingpong(
            Problem(c, True), None, args.rounds, args.turn_ms)))
        report(rows[-1])
        clean_up()
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump(rows, f, indent=1)


if __name__ == "__main__":
    os.environ.setdefault("TRITON_PRINT_AUTOTUNING", "0")
    main()
