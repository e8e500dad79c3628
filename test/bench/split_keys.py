# SPDX-License-Identifier: Apache-2.0
"""Few queries on many keys, without a cache: keys split over programs
(SPLIT_KEYS=true), not split, and as the library chooses. What the thresholds of
lib/attention/attention_keys.c follow from.

    split_keys.py [--only TEXT] [--milliseconds 6] [--rounds 3]

Each launch reads keys and values of its own from memory, as far as there is
room. Times in microseconds: medians; `chosen` is marked where the library's
choice takes 10 % longer than the better one. Exit status 1: results differ.
"""
import argparse
import itertools
import statistics
import sys

import torch

import tilec
import turns

BYTES = 400 << 20  # of copies: more than a last-level cache has
# batch, heads, heads of k, queries, dim; then keys
SHAPES = [
    (1, 32, 8, 1, 128), (1, 32, 32, 1, 128), (32, 32, 8, 1, 128),
    (8, 32, 8, 1, 128), (32, 32, 32, 1, 128), (1, 8, 8, 16, 64), (1, 32, 8, 16, 128),
    (1, 16, 2, 64, 128), (1, 32, 8, 64, 128), (1, 8, 8, 128, 128),
    (1, 4, 4, 512, 128), (2, 8, 1, 64, 256),
]
KEYS = (1024, 2048, 4096, 8192, 32768)
WAYS = {"split": {"SPLIT_KEYS": True}, "whole": {"SPLIT_KEYS": False},
        "chosen": {}}


def copies(b, hk, n, d):
    count = max(1, min(64, BYTES // (4 * b * hk * n * d)))
    return [[torch.randn(b, hk, n, d, device="cuda", dtype=torch.bfloat16)
             for _ in "kv"] for _ in range(count)]


def maker(q, caches, options):
    def make():
        turn = itertools.cycle(caches)
        return lambda: tilec.attention(q, *next(turn), enable_gqa=True,
                                       kernel_options=options)
    return make


def measure(shape, n, args):
    b, h, hk, m, d = shape
    q = torch.randn(b, h, m, d, device="cuda", dtype=torch.bfloat16)
    caches = copies(b, hk, n, d)
    same = [maker(q, caches[:1], o)()() for o in WAYS.values()]
    wrong = max(float((x - same[1]).float().norm() / same[1].float().norm())
                for x in same)
    made = {w: turns.Turn(maker(q, caches, o), args.milliseconds)
            for w, o in WAYS.items()}
    times = {w: statistics.median(t.microseconds(True)
                                  for _ in range(args.rounds))
             for w, t in made.items()}
    late = times["chosen"] > 1.1 * min(times["split"], times["whole"])
    print("%-34s %s%s%s" % (
        "%dx%d/%d M=%d D=%d on %d" % (b, h, hk, m, d, n),
        "".join("%s %8.1f  " % (w, t) for w, t in times.items()),
        " slow" if late else "", "" if wrong < 6e-3 else " WRONG %g" % wrong),
        flush=True)
    return wrong < 6e-3


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--milliseconds", type=float, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    right = [measure(shape, n, args) for shape in SHAPES for n in KEYS
             if args.only in "%dx%d/%d M=%d" % shape[:4]]
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
