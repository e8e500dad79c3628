#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tilec against its peers on one GPU, in one process, in turns.

    python3 test/bench/peers.py --lib build/libtilec.so [--set forward]
        [--direction backward] [--only 4096x128] [--part 2/4] [--warm 12]
        [--rest 30] [--json out.json] [--table out.md]
        [--before LIB PACKAGE]
    python3 test/bench/peers.py --from out.json         # the tables of a file

tilec (lib/python) and torch: FlexAttention, cuDNN and FlashAttention-2 (both
through scaled_dot_product_attention), cuBLAS for matmul; backward also tilec's
deterministic one. Each case gets fresh random inputs; every contender's results
are checked against float32 attention of some heads in the same run; then the
contenders take turns, in a random order each round, each turn a replay of a
CUDA graph of several launches, after another one that is not timed. Times are
medians over the rounds. Forward is one kernel; backward is everything from o,
lse and dout to dq, dk and dv.

The JSON holds every turn, the commit, the GPU and what failed. --part i/n runs
each n-th case only; then, and with --only, the rows are added to those of an
existing file, where later rows of a case take the place of earlier ones.
--before has the tilec of another commit take part: its library, and the folder
lib/python/tilec of its checkout.
--warm N has N processes compile everything first, side by side, into the caches
on disk. --rest MS lets the GPU rest before each turn: without, products of
matrices take all the power it may have, and clocks fall with what each needs.
"""
import argparse
import datetime
import json
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys

from cases import SETS, directed, flops, label

ROOT = pathlib.Path(__file__).resolve().parents[2]


def load_tilec(lib):
    """lib/python of this tree, on that library."""
    os.environ["TILEC_LIBRARY"] = os.path.abspath(lib)
    sys.path.insert(0, str(ROOT / "lib" / "python"))


# ---- The file ----


def key_of(row):
    return row["label"], row["case"].get("direction", "forward")


def read(path):
    if not path or not os.path.exists(path):
        return dict(runs=[], rows=[])
    with open(path, encoding="utf-8") as f:
        return dict(dict(runs=[]), **json.load(f))


def write(path, data):
    if not path:
        return
    with open(path + ".new", "w", encoding="utf-8") as f:
        json.dump(data, f, indent=1)
    os.replace(path + ".new", path)


def add(data, row, order):
    """A later row of the same case takes the place of an earlier one; all are
    in the order of the set."""
    rows = {key_of(r): r for r in [*data["rows"], row]}
    last = len(order)
    data["rows"] = sorted(rows.values(), key=lambda r:
                          order.get(key_of(r), last))


# ---- Tables ----


def table_of(rows):
    names = ["tilec"]
    for row in rows:
        names += [n for n in [*row["median"], *row["failures"]]
                  if n not in names]
    others = [n for n in names if n != "tilec"]
    lines = ["| case | " + " | ".join(n + " TFLOP/s" for n in names) + " | " +
             " | ".join("tilec / " + n for n in others) + " |",
             "|" + "---|" * (1 + len(names) + len(others))]
    for row in rows:
        m = row["median"]
        cells = ["%.0f" % (row["flops"] / m[n] / 1e6) if n in m else "-"
                 for n in names]
        ratios = ["%.2f" % (m[n] / m["tilec"])
                  if n in m and "tilec" in m else "-" for n in others]
        lines.append("| " + " | ".join([row["label"]] + cells + ratios) + " |")
    return "\n".join(lines) + "\n"


def compare(rows, peer):
    """In one line how tilec compares with that peer."""
    ratios = {r["label"]: r["median"][peer] / r["median"].get("tilec", math.inf)
              for r in rows if peer in r["median"]}
    late = [name for name, ratio in ratios.items() if ratio < 1]
    return "tilec / %s: ahead in %d of %d, %.2f to %.2f, median %.2f%s\n" % (
        peer, len(ratios) - len(late), len(ratios), min(ratios.values()),
        max(ratios.values()), statistics.median(ratios.values()),
        "; slower: " + ", ".join(late) if late else "")


def tables_of(data):
    text = []
    for direction in ("forward", "backward"):
        rows = [r for r in data["rows"] if key_of(r)[1] == direction]
        if rows:
            peers = sorted({n for r in rows for n in r["median"]} - {"tilec"})
            text += [direction.capitalize() + ":\n", table_of(rows),
                     *[compare(rows, peer) for peer in peers]]
    return "\n".join(text)


# ---- Runs ----


def commit():
    try:
        return subprocess.run(["git", "rev-parse", "HEAD"], check=True,
                              capture_output=True, text=True,
                              cwd=ROOT).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def share(text):
    """"2/4" as (1, 4)."""
    i, _, n = text.partition("/")
    if not (i.isdigit() and n.isdigit() and 1 <= int(i) <= int(n)):
        raise argparse.ArgumentTypeError("expected I/N, 1 to N")
    return int(i) - 1, int(n)


def chosen(args):
    found = [c for c in directed(args.set, args.direction)
             if not args.only or args.only in label(c)]
    for i, n in (args.part, args.warming):
        found = found[i::n]
    return found


def warm(args):
    """This program again, several times, each for its share of the cases."""
    workers = [subprocess.Popen(
        [sys.executable, *sys.argv, "--warming", "%d/%d" % (i + 1, args.warm)],
        stdout=subprocess.DEVNULL) for i in range(args.warm)]
    for w in workers:
        w.wait()


def run(args):
    load_tilec(args.lib)
    import torch

    import tilec
    import before
    import contenders
    from contenders import problem
    from turns import clean_up, compile_all, pingpong
    if args.before:
        contenders.before = before.load(*args.before)
    torch.manual_seed(random.SystemRandom().getrandbits(32))
    target = None if args.target == "auto" else args.target
    some = args.only or args.part != (0, 1)
    data = read(args.json if some else None)
    data["runs"].append(dict(
        date=datetime.datetime.now(datetime.timezone.utc).isoformat(),
        commit=args.commit, gpu=torch.cuda.get_device_name(),
        torch=torch.__version__, cudnn=torch.backends.cudnn.version(),
        tilec=tilec.version(), command=sys.argv))
    done = []
    order = {(label(c), c["direction"]): i for i, c in
             enumerate(directed(args.set, args.direction))}
    for case in chosen(args):
        p = problem(case, target)
        if args.warming != (0, 1):
            compile_all(p, args.contenders)
            continue
        row = dict(case=case, label=label(case), flops=flops(case),
                   run=len(data["runs"]) - 1,
                   **pingpong(p, args.contenders, args.rounds, args.turn_ms,
                                args.rest))
        print("%-8s %-28s %s %s" % (case["direction"], row["label"], {
            n: "%.1f us, %.0f TFLOP/s, error %.1e" %
            (t, row["flops"] / t / 1e6, row["errors"][n])
            for n, t in row["median"].items()}, row["failures"] or ""),
            file=sys.stderr, flush=True)
        add(data, row, order)
        done.append(row)
        write(args.json, data)
        del p
        clean_up()
    return data, done


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--lib", help="libtilec.so")
    p.add_argument("--target", default="auto")
    p.add_argument("--set", default="all", choices=sorted(SETS))
    p.add_argument("--direction", choices=("forward", "backward"),
                   help="without it what the set is meant for")
    p.add_argument("--only", help="cases whose label holds this text")
    p.add_argument("--contenders", type=lambda s: s.split(","))
    p.add_argument("--before", nargs=2, metavar=("LIB", "PACKAGE"),
                   help="libtilec.so and lib/python/tilec of another commit")
    p.add_argument("--part", type=share, default=(0, 1), metavar="I/N")
    p.add_argument("--warm", type=int, default=0, metavar="N")
    p.add_argument("--warming", type=share, default=(0, 1),
                   help=argparse.SUPPRESS)
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--turn-ms", type=float, default=20.0)
    p.add_argument("--rest", type=float, default=0.0, metavar="MS",
                   help="a pause before each turn: without it a GPU is soon at "
                        "its power limit, which lowers clocks")
    p.add_argument("--commit", default=commit(),
                   help="what the library was built from")
    p.add_argument("--json", help="where all figures go")
    p.add_argument("--table", help="where the tables go, else to stdout")
    p.add_argument("--from", dest="source", metavar="JSON",
                   help="only print the tables of this file")
    args = p.parse_args()
    if args.source:
        print(tables_of(read(args.source)))
        return
    if not args.lib:
        p.error("--lib is missing")
    warming = args.warming != (0, 1)
    if args.warm and not warming:
        warm(args)
    data, done = run(args)
    if warming:
        return
    if args.table:
        with open(args.table, "w", encoding="utf-8") as f:
            f.write(tables_of(data))
    else:
        print(tables_of(data))
    failed = [" ".join(key_of(r)[::-1]) for r in done
              if "tilec" not in r["median"]]
    if failed:
        sys.exit("tilec failed in: " + ", ".join(failed))


if __name__ == "__main__":
    main()
