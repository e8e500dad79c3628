# SPDX-License-Identifier: Apache-2.0
"""Do two builds of tilec make the same code? PTX of a matrix of kernels and of
all shipped configurations, line by line, without line numbers and the names of
source files.

    same_ptx.py OLD NEW ROOT [--part I/N] [--show]

OLD and NEW are commands; ROOT's kernels/configs says what is compiled. Prints
the cases that differ, --show their first differing lines; exit status 1 if any
does. A case that OLD cannot compile is left out, with a line.
"""
import argparse
import concurrent.futures
import itertools
import re
import subprocess
import sys

import shipped

MASKS = ("", " -D mask_mod=@causal", " -D mask_mod=@local_window")
SCORES = ("", " -D score_mod=@alibi", " -D score_mod=@soft_cap")
MATRIX = [
    *("attention_fwd -D T=bf16 -D D=%d%s%s" % case for case in
      itertools.product((64, 128, 256), MASKS, SCORES)),
    *("attention_bwd@%s -D T=bf16 -D D=%d -D mask_mod=@causal" % case
      for case in itertools.product(
          ("attention_bwd", "attention_bwd_dkv", "attention_bwd_dk",
           "attention_bwd_dv", "attention_bwd_dq"), (64, 128))),
    "attention_fwd -D D=128 -D T=f8e4m3 -D TO=bf16 -D TP=f8e4m3 -D P_SHIFT=8",
    "matmul", "matmul -D T=f16 -D BM=128 -D BN=128",
    "matmul -D T=f8e4m3 -D TC=bf16", "softmax -D BN=1024",
    "layernorm -D BN=1024", "quantize@quantize_block -D D=128",
    "quantize@quantize_head -D D=128",
]


def ptx_of(tilec, words):
    done = subprocess.run([tilec, "compile", *words], capture_output=True,
                          text=True, check=False)
    if done.returncode:
        return None, done.stderr.splitlines()[0]
    lines = (re.sub(r"//.*", "", line).strip()
             for line in done.stdout.splitlines())
    return [x for x in lines if x and not x.startswith((".loc", ".file"))], ""


def compare(args, words):
    """What is to be said of it; empty: the same."""
    (old, why), (new, why_new) = (ptx_of(t, words) for t in (args.old,
                                                             args.new))
    if old is None:
        return "left out: " + why
    if new is None:
        return "DIFFERS: " + why_new
    if old == new:
        return ""
    pairs = itertools.zip_longest(old, new, fillvalue="")
    first = [(i, *p) for i, p in enumerate(pairs) if p[0] != p[1]]
    text = "DIFFERS: %d lines, then %d" % (len(old), len(new))
    for i, a, b in first[:3] if args.show else []:
        text += "\n    %d: %s\n       %s" % (i, a, b)
    return text


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("old")
    p.add_argument("new")
    p.add_argument("root")
    p.add_argument("--part", default="1/1", metavar="I/N")
    p.add_argument("--show", action="store_true")
    p.add_argument("--jobs", type=int, default=2)
    args = p.parse_args()
    i, n = map(int, args.part.split("/"))
    cases = [(m + " --emit=ptx --no-cache --target " + t).split()
             for m in MATRIX for t in ("sm_80", "sm_90a")]
    cases += [shipped.words_of(c) for c in shipped.cases(args.root)]
    cases = cases[i - 1::n]
    same = left = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        said = pool.map(lambda words: compare(args, words), cases)
        for words, text in zip(cases, said):
            same += not text
            left += text.startswith("left out")
            if text:
                print(" ".join(words) + ": " + text, flush=True)
    print("%d of %d the same, %d left out" % (same, len(cases), left))
    sys.exit(same + left != len(cases) or same == 0)


main()
