#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kernels whose programs share tiles (split-k): the plan on the CPU against the
kernel as it was, both kernels of GPUs in the interpreter, and mistakes in them.

    split_k.py TILEC ROOT

A mistake is a changed line of the program after split-k. The interpreter finds
it, or the result is wrong.
"""
import array
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile

# Kernel, arguments (of %y last), bindings, numbers of pieces.
CASES = (
    ("matmul.tile@matmul", ("a=random:{m}x{k}xf16", "b=random:{k}x{n}xf16",
                            "c=zeros:{m}x{n}xf32"), "BM=64 BN=32 BK=32 TC=f32",
     ((70, 40, 200), (64, 32, 32), (1, 8, 300)), (1, 2, 3, 9)),
    ("linear.tile@linear", (
        "x=random:{m}x{k}xbf16", "w=random:{n}x{k}xbf16", "bias=random:{n}xf32",
        "residual=random:{m}x{n}xf32", "y=zeros:{m}x{n}xf32"),
     "BM=64 BN=32 BK=64 RESIDUAL=1 act=@relu TY=f32", ((70, 40, 328),), (2, 4)),
    ("linear.tile@linear_w8", (
        "x=random:{m}x{k}xbf16", "w=random:{n}x{k}xi8", "factors=random:{n}xf32",
        "y=zeros:{m}x{n}xf32"), "BM=16 BN=64 BK=32 TY=f32", ((20, 70, 160),),
     (3,)),
    ("swiglu.tile@swiglu", (
        "x=random:{m}x{k}xf32", "gate=random:{k}x{n}xf32",
        "up=random:{k}x{n}xf32", "y=zeros:{m}x{n}xf32"),
     "BM=64 BN=32 BK=32", ((66, 40, 100),), (2,)),
)
# Tiles, steps of a tile, programs: numbers that the plan gives to stream K.
STREAM = (((70, 40, 200), 4, 7, 3), ((64, 32, 32), 1, 1, 1),
          ((1, 8, 300), 1, 10, 4), ((130, 100, 96), 12, 3, 5))
STREAM_MISTAKES = (
    ("finish", r"for %piece = %first to (%\d+)", r"for %piece = \1 to \1"),
    ("finish", r"cmp %piece, %first pred\(eq\)", r"cmp %piece, %first pred(ne)"),
    ("finish", r"add (%\w+0), (%\d+) : tile", r"add \2, \2 : tile"),
    ("stream", r"cmp %first, (%\d+) pred\(gt\)", r"cmp %first, \1 pred(le)"),
    ("stream", r"(%first = select %\d+, )(%\d+), %\d+", r"\1\2, \2"),
)
TARGETS = (("sm_80", "4"), ("sm_90a", "4"))
TOLERANCE = 3e-6

# In which kernel, a pattern, what it becomes.
MISTAKES = (
    ("parts", r"mul %piece, (%\d+) : i32\n(.*)add", r"mul \1, \1 : i32\n\2add"),
    ("parts", r"add (%\d+, %\d+ : i32\n  %\d+ = div %\d+, %pieces)",
     r"max \1"),
    ("parts", r"mul %piece, (%\d+) : i32\n(  %\d+ = min)",
     r"add %piece, \1 : i32\n\2"),
    ("merge", r"for %piece = %\d+ to %pieces step (%\d+)",
     r"for %piece = \1 to %pieces step \1"),
    ("merge", r"for %piece = (%\d+) to %pieces step (%\d+)",
     r"for %piece = \1 to \2 step \2"),
    ("merge", r"mul %piece, (%\d+) : i32", r"mul %pieces, \1 : i32"),
    ("merge", r"add (%\w+0), (%\d+) : tile", r"add \2, \2 : tile"),
)


def tensor(path):
    """The elements of the only tensor of a file, which is one of f32."""
    data = path.read_bytes()
    n = int.from_bytes(data[:8], "little")
    (head,) = (v for k, v in json.loads(data[8:8 + n]).items()
               if k != "__metadata__")
    assert head["dtype"] == "F32", head
    return array.array("f", data[8 + n:])


class Problem:
    def __init__(self, tilec, root, folder, case, size, pieces):
        name, self.arguments, bindings, _, _ = case
        sides = dict(zip("mnk", size))
        self.file, self.kernel = name.split("@")
        self.path = root / "kernels" / self.file
        self.arguments = [a.format(**sides) for a in self.arguments]
        self.options = [w for b in bindings.split() for w in ("-D", b)]
        element = self.arguments[0].rpartition("x")[2]
        self.typed = [*self.options, "-D", "T=" + element]
        self.tilec, self.folder, self.pieces = tilec, folder, pieces
        self.out = self.arguments[-1].partition("=")[0]
        self.label = "%s %s in %d pieces" % (
            self.kernel, "x".join(map(str, size)), pieces)

    def command(self, *words):
        return subprocess.run([self.tilec, *map(str, words)],
                              capture_output=True, text=True)

    def run(self, what, out, arguments, *options):
        """The tensor, or None with what was said."""
        path = self.folder / "out.safetensors"
        path.unlink(missing_ok=True)
        done = self.command("run", what, *arguments, "-o",
                            "%s=%s" % (out, path), *options)
        said = done.stdout + done.stderr
        return (tensor(path) if done.returncode == 0 else None), said

    def wanted(self):
        found, said = self.run("%s@%s" % (self.path, self.kernel), self.out,
                               self.arguments, *self.options, "--target", "cpu")
        assert found is not None, said
        return found

    def planned(self):
        """On the CPU, by the plan."""
        return self.run("%s@%s" % (self.path, self.kernel), self.out,
                        self.arguments, *self.options, "--target", "cpu", "-D",
                        "kernel.split=%d" % self.pieces)

    def text(self):
        done = self.command("opt", "-p", "split-k", "--kernel", self.kernel,
                            *self.typed, "-D",
                            "kernel.split=%d" % self.pieces, self.path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def sums(self, text):
        """Arguments for the sums of the pieces: rows as in the plan, and a few
        more; what is in them at first must not matter."""
        names = re.findall(r"%(parts\d*): tensor", text.partition("_parts(")[2].partition("{")[0])
        sides = dict(b.split("=") for b in self.options[1::2] if b[0] == "B")
        bm, bn = int(sides["BM"]), int(sides["BN"])
        if self.kernel == "linear_w8":
            bm, bn = bn, bm
        return [(n, "%s=random:%dx%dxf32" % (n, 4096 // bm * bm, bn))
                for n in names]

    def checked(self, text, target, warps):
        """Both kernels in the interpreter."""
        path = self.folder / "split.tile"
        path.write_text(text)
        sums = self.sums(text)
        common = [*self.arguments, "pieces=%d" % self.pieces]
        options = ["--target", target, "--warps", warps, "--no-cache",
                   "--check-schedule"]
        kept = []
        for name, made in sums:
            found, said = self.run("%s@%s_parts" % (path, self.kernel), name,
                                   common + [m for _, m in sums], *options)
            if found is None:
                return None, said
            to = self.folder / (name + ".safetensors")
            (self.folder / "out.safetensors").rename(to)
            kept.append("%s=%s:%s" % (name, to, name))
        return self.run("%s@%s_merge" % (path, self.kernel), self.out,
                        common + kept, *options)


class Streamed(Problem):
    def __init__(self, tilec, root, folder, case, size, tiles, steps, programs):
        super().__init__(tilec, root, folder, case, size, 0)
        whole = max(tiles // programs - 1, 0) * programs
        share = -(-(tiles - whole) * steps // programs)
        items = whole + programs * (-(-share // steps) + 1)
        self.numbers = {"items": items, "whole": whole, "share": share,
                        "programs": programs}
        self.label = "%s %s streamed" % (self.kernel, size)

    def text(self):
        done = self.command("opt", "-p", "split-k", "--kernel", self.kernel,
                            *self.typed, "-D", "kernel.split=stream", self.path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def planned(self):
        return self.run("%s@%s" % (self.path, self.kernel), self.out,
                        self.arguments, *self.options, "--target", "cpu", "-D",
                        "kernel.split=stream")

    def checked(self, text, target, warps):
        path = self.folder / "stream.tile"
        path.write_text(text)
        options = ["--target", target, "--warps", warps, "--no-cache",
                   "--check-schedule"]
        given = [*self.arguments,
                 *("%s=%d" % n for n in self.numbers.items())]
        rows = 2 * self.numbers["programs"] * 64
        kept = self.folder / "parts.safetensors"
        whole = self.folder / "whole.safetensors"
        out = ["-o", "parts=%s" % kept, "-o", "%s=%s" % (self.out, whole)]
        done = self.command("run", "%s@%s_stream" % (path, self.kernel), *given,
                            "parts=random:%dx32xf32" % rows, *out, *options)
        if done.returncode:
            return None, done.stdout + done.stderr
        given = [*self.arguments[:-1], "%s=%s:%s" % (self.out, whole, self.out),
                 *("%s=%d" % (n, self.numbers[n]) for n in ("whole", "share")),
                 "parts=%s:parts" % kept]
        return self.run("%s@%s_finish" % (path, self.kernel), self.out, given,
                        *options)


def error(found, want):
    """Relative; NaN where what was found has one."""
    return math.dist(found, want) / (math.hypot(*want) or 1)


def expect_right(problem, how, outcome, want):
    found, said = outcome
    if found is None or not error(found, want) < TOLERANCE:
        sys.exit("%s, %s: %s" % (problem.label, how, said if found is None
                                 else "error %g" % error(found, want)))


def change(text, kernel, pattern, to):
    """The kernel with a mistake; None: it has no such line."""
    start = text.index("_%s(" % kernel)
    end = text.index("\n}\n", start)
    changed, n = re.subn(pattern, to, text[start:end], count=1)
    return text[:start] + changed + text[end:] if n else None


def mutate(problem, want, mistakes):
    missed = []
    text = problem.text()
    for mistake in mistakes:
        changed = change(text, *mistake)
        assert changed and changed != text, mistake
        found, _ = problem.checked(changed, "sm_90a", "4")
        if found is not None and error(found, want) < 1e-3:
            missed.append(mistake)
    if missed:
        sys.exit("%s: not found: %s" % (problem.label, missed))


def main():
    tilec, root = sys.argv[1], pathlib.Path(sys.argv[2])
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            for size in case[3]:
                for pieces in case[4]:
                    p = Problem(tilec, root, pathlib.Path(folder), case, size,
                                pieces)
                    want = p.wanted()
                    expect_right(p, "cpu", p.planned(), want)
                    for target, warps in TARGETS:
                        expect_right(p, target,
                                     p.checked(p.text(), target, warps), want)
                    count += 1
        p = Problem(tilec, root, pathlib.Path(folder), CASES[0], (70, 40, 200),
                    3)
        mutate(p, p.wanted(), MISTAKES)
        for stream in STREAM:
            p = Streamed(tilec, root, pathlib.Path(folder), CASES[0], *stream)
            want = p.wanted()
            expect_right(p, "cpu", p.planned(), want)
            for target, warps in TARGETS:
                expect_right(p, target, p.checked(p.text(), target, warps),
                             want)
            count += 1
        mutate(p, want, STREAM_MISTAKES)
    print("%d problems, %d mistakes found" %
          (count, len(MISTAKES) + len(STREAM_MISTAKES)))


if __name__ == "__main__":
    main()
