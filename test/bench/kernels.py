#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The library's kernels that are not attention, beside Triton kernels of the
same algorithm and torch, in turns.

    python3 test/bench/kernels.py --lib build/libtilec.so [--only softmax]
        [--contenders tilec,triton] [--variants] [--warm 12] [--json out.json]
    python3 test/bench/kernels.py --from out.json       # the table of a file
    python3 test/bench/kernels.py --lib build/libtilec.so --small

kernel_cases/ has the cases, in files of one kind each: what is computed, at two
sizes, by tilec, by a Triton kernel that triton.autotune tunes over a set of
tiles, warps and stages, by torch (eager; compiled), and in float32 for the
check. A case has several sets of inputs, together larger than the L2 cache; a
turn is a CUDA graph of launches, each on the next set. `copy` copies as many
bytes as the case reads and writes. Times are medians over rounds in random
order. --variants adds other tile sizes and warps of tilec's. --warm N has N
processes compile everything first, into the caches on disk. A contender whose
module is not installed is left out, and a line says so. --small checks tilec's
results for each kind of case at a small size, without times, on the CPU where
there is no GPU; without torch its exit status is 77.
"""
import argparse
import datetime
import json
import os
import subprocess
import sys

from peers import ROOT, commit, load_tilec

TOLERANCE = 1e-2  # of the largest element; bf16 has 4e-3
SETS_BYTES = 300e6  # several times the L2 cache
MOST_SETS = 24


class Problem:
    """A case with its inputs, as turns.pingpong wants it."""

    def __init__(self, case, variants):
        self.case, self.variants = case, variants
        n = min(MOST_SETS, 1 + int(SETS_BYTES // case.bytes))
        self.sets = [case.inputs() for _ in range(n)]
        self.wanted = {}

    def _runner(self, make_one):
        """Calls on one set after another: (set, results)."""
        calls = [make_one(s) for s in self.sets]
        state = {"next": 0}

        def run():
            i = state["next"] % len(calls)
            state["next"] += 1
            return i, calls[i]()
        return run

    def _copy(self):
        import torch
        half = int(self.case.bytes / 2) // 16 * 16
        pairs = [[torch.zeros(half, dtype=torch.uint8, device="cuda")
                  for _ in range(2)] for _ in self.sets]
        state = {"next": 0}

        def run():
            a, b = pairs[state["next"] % len(pairs)]
            state["next"] += 1
            return None, (b.copy_(a),)
        return run

    def makers(self):
        found = dict(self.case.contenders())
        if self.variants:
            found.update(self.case.variants())
        makers = {name: (lambda m=m: self._runner(m()))
                  for name, m in found.items()}
        if self.case.flops == 0:
            makers["copy"] = self._copy
        return makers

    def tolerance(self, name):
        return TOLERANCE

    def error(self, name, results):
        i, got = results
        if i is None:
            return 0.0
        if i not in self.wanted:
            self.wanted = {i: self.case.reference(self.sets[i])}
        if hasattr(self.case, "error"):
            return self.case.error(self.sets[i], got, self.wanted[i])
        worst = 0.0
        for x, want in zip(got, self.wanted[i]):
            scale = want.abs().max().clamp(min=1e-30)
            worst = max(worst, float((x.float() - want).abs().max() / scale))
        return worst


def cases(only, which="CASES"):
    sys.path.insert(0, str(ROOT / "test" / "bench" / "kernel_cases"))
    import importlib
    found = []
    for path in sorted((ROOT / "test" / "bench" / "kernel_cases").glob(
            "*_cases.py")):
        found += getattr(importlib.import_module(path.stem), which)
    wanted = only.split(",")
    return [c for c in found if any(o in c.label for o in wanted)]


# ---- Tables ----


def rate(row, us):
    if row["flops"]:
        return "%.0f TFLOP/s" % (row["flops"] / us / 1e6)
    return "%.2f TB/s" % (row["bytes"] / us / 1e6)


def table_of(data):
    """Columns of contenders: how many times as fast as they tilec is."""
    names = [n for n in ("triton", "torch", "compiled", "copy")
             if any(n in row["median"] for row in data["rows"])]
    lines = ["| case | tilec us | rate | " + " | ".join(
        "tilec / " + n for n in names) + " |", "|" + "---|" * (3 + len(names))]
    for row in data["rows"]:
        m = row["median"]
        if "tilec" not in m:
            lines.append("| %s | failed: %s |" % (
                row["label"], row["failures"].get("tilec", "left out")))
            continue
        cells = ["%.3f" % (m[n] / m["tilec"]) if n in m else "-"
                 for n in names]
        lines.append("| %s | %.1f | %s | %s |" % (
            row["label"], m["tilec"], rate(row, m["tilec"]),
            " | ".join(cells)))
    return "\n".join(lines)


def report(row):
    m = row["median"]
    first = m.get("tilec", 0)
    print("%-28s %s %s" % (row["label"], ", ".join(
        "%s %.1f us%s" % (n, t, " (%.3f)" % (t / first) if first else "")
        for n, t in m.items()), row["failures"] or ""), file=sys.stderr,
        flush=True)


# ---- Runs ----


def warm(args):
    workers = [subprocess.Popen(
        [sys.executable, *sys.argv, "--warming", "%d/%d" % (i, args.warm)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for i in range(args.warm)]
    for w in workers:
        w.wait()


def check_small(args):
    """How many of the small cases are wrong."""
    load_tilec(args.lib)
    try:
        import torch
    except ImportError:
        sys.exit(77)
    wrong = 0
    for c in cases(args.only, "SMALL"):
        torch.manual_seed(0)
        p = Problem(c, False)
        error = p.error("tilec", p.makers()["tilec"]()())
        ok = error < p.tolerance("tilec")
        wrong += not ok
        print("%-36s error %.1e%s" % (c.label, error, "" if ok else " WRONG"))
    return wrong


def wanted(args, case):
    """Names of contenders, with those of variants; None: all."""
    more = list(case.variants()) if args.variants else []
    return args.contenders and args.contenders + more


def run(args):
    load_tilec(args.lib)
    import torch

    import tilec
    from turns import clean_up, compile_all, pingpong
    data = dict(runs=[dict(
        date=datetime.datetime.now(datetime.timezone.utc).isoformat(),
        commit=args.commit, gpu=torch.cuda.get_device_name(),
        torch=torch.__version__, tilec=tilec.version(), command=sys.argv)],
        rows=[])
    chosen = cases(args.only)
    if args.warming:
        i, n = map(int, args.warming.split("/"))
        # One contender of a case each: they take long to compile.
        jobs = [(c, name) for c in chosen for name in
                (*c.contenders(), *(c.variants() if args.variants else ()))
                if name in (wanted(args, c) or [name])]
        for c, name in jobs[i::n]:
            compile_all(Problem(c, args.variants), [name])
            clean_up()
        return data
    for c in chosen:
        p = Problem(c, args.variants)
        row = dict(label=c.label, flops=c.flops, bytes=c.bytes, **pingpong(
            p, wanted(args, c), args.rounds, args.turn_ms))
        report(row)
        data["rows"].append(row)
        if args.json:
            with open(args.json, "w", encoding="utf-8") as f:
                json.dump(data, f, indent=1)
        del p
        clean_up()
    return data


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--lib", help="libtilec.so")
    p.add_argument("--only", default="",
                   help="cases whose label holds one of these texts")
    p.add_argument("--contenders", type=lambda s: s.split(","))
    p.add_argument("--variants", action="store_true")
    p.add_argument("--small", action="store_true")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--turn-ms", type=float, default=15.0)
    p.add_argument("--warm", type=int, default=0, metavar="N")
    p.add_argument("--warming", default="", help=argparse.SUPPRESS)
    p.add_argument("--commit", default=commit(),
                   help="what the library was built from")
    p.add_argument("--json", help="where all figures go")
    p.add_argument("--from", dest="source", metavar="JSON",
                   help="only print the table of this file")
    args = p.parse_args()
    if args.source:
        with open(args.source, encoding="utf-8") as f:
            print(table_of(json.load(f)))
        return
    if not args.lib:
        p.error("--lib is missing")
    if args.small:
        sys.exit(check_small(args) and 1)
    if args.warm and not args.warming:
        warm(args)
    data = run(args)
    if not args.warming:
        print(table_of(data))
        late = [r["label"] for r in data["rows"] if "tilec" not in r["median"]]
        if late:
            sys.exit("tilec failed in: " + ", ".join(late))


if __name__ == "__main__":
    os.environ.setdefault("TRITON_PRINT_AUTOTUNING", "0")
    main()
