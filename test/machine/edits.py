# SPDX-License-Identifier: Apache-2.0
"""Random edits of a schedule, op by op: another stage, another place. Each is
refused with a located error, or has no races and the same results.

    edits.py TILEC SOURCE [--count N] [--seed N]
"""
import argparse
import os
import random
import re
import subprocess
import sys
import tempfile

KERNELS = [
    ("kernels/tutorial/05_flash_attention.tile", "-D T=bf16 -D D=64",
     "q=random:1x1x256x64xbf16 k=random:1x1x256x64xbf16 "
     "v=random:1x1x256x64xbf16 o=zeros:1x1x256x64xbf16 "
     "lse=zeros:1x1x256xf32 scale=0.125", "o"),
    ("kernels/matmul.tile", "-D T=bf16 -D BM=128 -D BN=128 -D BK=64",
     "a=random:128x256xbf16 b=random:256x128xbf16 c=zeros:128x128xbf16", "c"),
]
PLACE = re.compile(r"stage\((\d)\) place\((\d+)\)")
LAST_PLACE = 60


def edited(rng, lines):
    """The program with one or two ops elsewhere."""
    lines = list(lines)
    placed = [i for i, line in enumerate(lines) if PLACE.search(line)]
    for i in rng.sample(placed, rng.choice((1, 1, 2))):
        stage, place = map(int, PLACE.search(lines[i]).groups())
        if rng.random() < 0.5:
            stage = 1 - stage
        else:
            place = rng.randrange(LAST_PLACE)
        lines[i] = PLACE.sub("stage(%d) place(%d)" % (stage, place), lines[i])
    return lines


class Kernel:
    def __init__(self, tilec, folder, arguments, result):
        self.tilec, self.arguments = tilec, arguments.split()
        self.result = result
        self.text = os.path.join(folder, "edited.tile")
        self.out = os.path.join(folder, "out")

    def run(self, lines):
        """Its results, or None, and what the command says."""
        with open(self.text, "w", encoding="utf-8") as f:
            f.write("\n".join(lines))
        done = subprocess.run(
            [self.tilec, "run", self.text, "--target", "sm_90a", "--no-cache",
             "--check-schedule", *self.arguments, "-o",
             self.result + "=" + self.out],
            capture_output=True, text=True, check=False)
        if done.returncode:
            return None, done.stderr
        with open(self.out, "rb") as f:
            return f.read(), done.stderr


def try_edits(args, folder, path, options, arguments, result):
    """Edits that run, and those with a wrong outcome."""
    text = subprocess.run(
        [args.tilec, "opt", "-p", "gpu-schedule", "--target", "sm_90a",
         os.path.join(args.source, path), *options.split()],
        capture_output=True, text=True, check=True).stdout
    lines = text.split("\n")
    kernel = Kernel(args.tilec, folder, arguments, result)
    expected, said = kernel.run(lines)
    if expected is None:
        sys.exit(path + ": " + said)
    rng = random.Random(args.seed)
    ran = wrong = 0
    for _ in range(args.count):
        now = edited(rng, lines)
        got, said = kernel.run(now)
        refused = re.search(r"edited.tile:\d+:\d+: error: .*expected", said)
        if got is None and refused or got == expected:
            ran += got is not None
            continue
        wrong += 1
        changed = [b for a, b in zip(lines, now) if a != b]
        print("%s: %s\n%s" % (path, "another result" if got else said,
                              "\n".join(changed)))
    print("%s: %d edits, %d run" % (path, args.count, ran))
    return ran, wrong


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("tilec")
    p.add_argument("source")
    p.add_argument("--count", type=int, default=40)
    p.add_argument("--seed", type=int, default=1)
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        outcomes = [try_edits(args, folder, *k) for k in KERNELS]
    # If none ran, the test would say nothing.
    sys.exit(any(wrong or not ran for ran, wrong in outcomes))


main()
