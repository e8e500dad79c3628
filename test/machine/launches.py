#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random launches of the shipped attention kernels, with the command itself: the
program of a GPU, run by the interpreter (`tilec run --check-schedule`), against
that of the CPU.

    launches.py TILEC ROOT [--launches N] [--seed S]

Shapes, masks, scores, types and options are drawn; tiles, warps and stages are
mostly those of an entry of kernels/configs. Gradients get the logsumexp and the
sums of rows that the CPU's kernels make first. What takes too much shared memory
is left out; how many that were is printed.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy

TOLERANCE = {"f32": 2e-3, "f16": 4e-3, "bf16": 2.5e-2}
FOLDED = "attention_bwd@"
# What each kernel writes; configurations are of those of that name.
KERNELS = {"attention_fwd": ("o", "lse"),
           "attention_bwd_dq": ("dq",),
           "attention_bwd_dkv": ("dk", "dv"),
           "attention_bwd_dk": ("dk",),
           "attention_bwd_dv": ("dv",),
           "attention_bwd": ("dqacc", "dk", "dv"),
           "attention_bwd_captured": ("grad.score.row_bias",)}


def masks(draw, n):
    """Names, and what they capture."""
    ends = sorted({0, n, *(draw.randrange(n + 1) for _ in range(2))})
    offsets = "[%s]" % ",".join(map(str, ends))
    return (("no_mask", {}), ("causal", {}), ("causal_bottom_right", {}),
            ("sliding_window", {"w": draw.choice((1, 64, 150))}),
            ("local_window", {"left": 30, "right": draw.choice((0, 64))}),
            ("dilated_sliding_window", {"w": 90, "d": 3}),
            ("sink_window", {"sink": 4, "w": 120}),
            ("chunked_causal", {"c": draw.choice((16, 70))}),
            ("prefix_lm", {"prefix": draw.choice((0, 100))}),
            ("document_causal", {"offsets": offsets}))


def scores(h, m, n):
    return (("no_score", {}), ("no_score", {}), ("relative_bias", {}),
            ("alibi", {"slopes": "random:%dxf32" % h}),
            ("soft_cap", {"cap": 2.5}), ("soft_cap", {"cap": 0.1}),
            ("row_bias", {"row_bias": "random:%dxf32" % m}),
            ("pair_bias", {"pair_bias": "random:%dx%dx%dxf32" % (h, m, n)}))


class Launch:
    """One kernel and its arguments, as the words of `tilec run`."""

    def __init__(self, draw, configs):
        self.kernel = draw.choice(list(KERNELS))
        self.target = draw.choice(("sm_80", "sm_90a", "sm_90a"))
        self.type = draw.choice(("bf16", "bf16", "f16", "f32"))
        self.b, self.hk = draw.choice((1, 2)), draw.choice((1, 2))
        self.h = self.hk * draw.choice((1, 2))
        self.m = draw.choice((1, 7, 65, 128, 200, 300))
        self.n = draw.choice((self.m, self.m, 1, 64, 129, 200))
        self.d = draw.choice((32, 40, 64, 80, 96, 128, 192, 256))
        self.mask, captured = draw.choice(masks(draw, self.n))
        self.mods = {"mask." + k: v for k, v in captured.items()}
        self.score, captured = draw.choice(scores(self.h, self.m, self.n))
        if "captured" in self.kernel:
            self.score, captured = "row_bias", {
                "row_bias": "random:%dxf32" % self.m}
        self.mods.update({"score." + k: v for k, v in captured.items()})
        self.options = self.configured(draw, configs)
        self.is_ordered = (self.kernel == "attention_bwd" and
                           draw.random() < .4)

    def configured(self, draw, configs):
        fits = [e for e in configs.get(self.kernel, ())
                if e["target"] == self.target and e.get("d", 0) >= self.d
                and e.get("dtype", self.type) == self.type]
        use = draw.choice(fits)["use"] if fits and draw.random() < .8 else {}
        words = []
        for name, value in use.items():
            if name in ("warps", "stages"):
                words += ["--" + name, str(value)]
            elif name.isupper():
                words += ["-D", "%s=%d" % (name, value)]
        return words

    def tensor(self, how, heads, length, kind=None, width=None):
        shape = (self.b, heads, length, width or self.d)
        return "%s:%sx%s" % (how, "x".join(map(str, shape)), kind or self.type)

    def like_q(self, how):
        return self.tensor(how, self.h, self.m)

    def like_k(self, how):
        return self.tensor(how, self.hk, self.n)

    def rows_of_q(self):
        return "zeros:%dx%dx%dxf32" % (self.b, self.h, self.m)

    def operands(self):
        return {"q": self.like_q("random"), "k": self.like_k("random"),
                "v": self.like_k("random"), "scale": 0.1, **self.mods}

    def mod_options(self):
        return ["-D", "mask_mod=@" + self.mask, "-D", "score_mod=@" + self.score]

    def bindings(self):
        ordered = ["-D", "ORDERED=1"] if self.is_ordered else []
        return self.mod_options() + ordered

    def outputs(self):
        made = {"o": self.like_q("zeros"), "lse": self.rows_of_q(),
                "dq": self.like_q("zeros"), "dk": self.like_k("zeros"),
                "dv": self.like_k("zeros"),
                "dqacc": self.tensor("zeros", self.h, self.m, "f32"),
                "grad.score.row_bias": "zeros:%dxf32" % self.m}
        return {name: made[name] for name in KERNELS[self.kernel]}


def run(tilec, kernel, arguments, options, writes):
    """writes: files by names of tensors. What it says if it fails, or ''."""
    words = [tilec, "run", kernel]
    words += ["%s=%s" % a for a in arguments.items()] + options
    for name, file in writes.items():
        words += ["-o", "%s=%s" % (name, file)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


def read(file, name):
    data = pathlib.Path(file).read_bytes()
    size = int.from_bytes(data[:8], "little")
    entry = json.loads(data[8:8 + size])[name]
    first, end = entry["data_offsets"]
    raw = data[8 + size + first:8 + size + end]
    if entry["dtype"] == "BF16":
        wide = numpy.frombuffer(raw, numpy.uint16).astype(numpy.uint32) << 16
        return wide.view(numpy.float32).astype(float)
    kind = {"F16": numpy.float16, "F32": numpy.float32}[entry["dtype"]]
    return numpy.frombuffer(raw, kind).astype(float)


def error_of(got, want):
    """Of all finite numbers, by their norms; the others must be the same."""
    finite = numpy.isfinite(want)
    if not numpy.array_equal(got[~finite], want[~finite], equal_nan=True):
        return numpy.inf
    norm = numpy.linalg.norm(want[finite])
    off = numpy.linalg.norm(got[finite] - want[finite])
    return off / norm if norm else off


def gradient_arguments(tilec, launch, folder):
    """What comes before: o and its logsumexp, and the sums of rows."""
    do = launch.like_q("random")
    rows = "zeros:2x%dx%dx768xf32" % (launch.b, launch.h)
    made = {name: folder + "/" + name for name in ("o", "lse", "rows")}
    cpu = ["--target", "cpu"]
    said = run(tilec, "attention_fwd",
               {**launch.operands(), "o": launch.like_q("zeros"),
                "lse": launch.rows_of_q()}, launch.mod_options() + cpu,
               {name: made[name] for name in ("o", "lse")})
    said += run(tilec, "attention_bwd_rows@attention_bwd_delta",
                {"o": made["o"] + ":o", "do": do, "lse": made["lse"] + ":lse",
                 "rows": rows}, cpu, {"rows": made["rows"]})
    if said:
        sys.exit("what comes before gradients: " + said)
    given = {"do": do, "lse": made["lse"] + ":lse",
             "rows": made["rows"] + ":rows"}
    if launch.kernel == "attention_bwd":
        given["turns"] = "zeros:4096x8xi32"
    for one, other in (("dk", "dv"), ("dv", "dk")):
        if launch.kernel == "attention_bwd_" + one:
            given[other] = launch.like_k("zeros")
    return given


def compare(tilec, launch, folder):
    """What is wrong with it, '' or None: it takes too much shared memory."""
    arguments = {**launch.operands(), **launch.outputs()}
    kernel = launch.kernel
    if kernel != "attention_fwd":
        arguments.update(gradient_arguments(tilec, launch, folder))
        kernel = FOLDED + kernel
    ways = {"cpu": [], launch.target: launch.options +
            ["--check-schedule", "--no-cache"]}
    for target, options in ways.items():
        files = {name: "%s/%s.%s" % (folder, name, target)
                 for name in launch.outputs()}
        said = run(tilec, kernel, arguments, launch.bindings() + options +
                   ["--target", target], files)
        if said:
            return None if "of shared memory at once" in said else said
    for name in launch.outputs():
        e = error_of(*(read("%s/%s.%s" % (folder, name, target), name)
                       for target in (launch.target, "cpu")))
        if not e <= TOLERANCE[launch.type]:
            return "%s: error %g" % (name, e)
    return ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tilec")
    parser.add_argument("root")
    parser.add_argument("--launches", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    configs = {}
    for file in pathlib.Path(args.root, "kernels/configs").glob("*.json"):
        configs[file.stem] = json.loads(file.read_text("utf-8"))["configs"]
    count = {"right": 0, "wrong": 0, "too large": 0}
    for i in range(args.launches):
        launch = Launch(random.Random("%d/%d" % (args.seed, i)), configs)
        with tempfile.TemporaryDirectory() as folder:
            wrong = compare(args.tilec, launch, folder)
        count["too large" if wrong is None else
              "wrong" if wrong else "right"] += 1
        if wrong:
            print("FAILED %d: %s\n  %s" % (i, vars(launch), wrong))
    print(", ".join("%d %s" % (n, what) for what, n in count.items()))
    return 1 if count["wrong"] or not count["right"] else 0


if __name__ == "__main__":
    sys.exit(main())
