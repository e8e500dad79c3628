#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The modelled step of `tilec compile --emit=timeline`: no step is shorter than
what it asks of a unit, a unit does one thing at a time, the producer's step is
the one that fills the rings of the consumers' step, and the shown steps follow
each other at the modelled distance.

    steady_state.py TILEC
"""
import json
import re
import subprocess
import sys

HEAD = ["-D", "D=128", "-D", "T=bf16", "-D", "mask_mod=@causal"]
# Kernel and options; cycles of the step, if a bound is known to be met.
KERNELS = (
    (["matmul"], 1024),  # 128x256x64: products of the tensor cores alone
    (["matmul", "-D", "BN=128"], None),  # copies take longer than products
    # 64x64x16 products without tensor cores: 128 lanes.
    (["matmul", "-D", "T=f32", "-D", "BM=64", "-D", "BN=64", "-D", "BK=16"],
     512),
    (["linear@linear"], None),
    (["swiglu"], None),
    (["attention_fwd", *HEAD], None),
    (["attention_fwd", "-D", "D=64", "-D", "T=f16"], None),
    (["attention_fwd", "-D", "D=128", "-D", "T=f8e4m3"], None),
    (["attention_bwd@attention_bwd", *HEAD], 2560),
)
UNITS = ("tensor cores", "special functions", "lanes", "copies")
SLACK = 1  # numbers of the document are rounded
failures = []


def check(holds, what):
    if not holds:
        failures.append(what)
        print("failed: " + what)


def timeline(program, words):
    r = subprocess.run([program, "compile", *words, "--target", "sm_90a",
                        "--emit=timeline"], capture_output=True, text=True)
    if r.returncode:
        sys.exit("%s: %s" % (words, r.stderr))
    return json.loads(r.stdout)


def check_units(name, t):
    asked = re.search(r"asks (\d+) of the tensor cores, (\d+) of special "
                      r"functions, (\d+) of the lanes, (\d+) of copies",
                      t["notes"][0])
    for unit, cycles in zip(UNITS, asked.groups()):
        check(t["step"] + SLACK >= int(cycles) or unit == "lanes",
              "%s: a step of %d cycles asks %s of the %s"
              % (name, t["step"], cycles, unit))


def check_spans(name, t):
    """On each track one after the other."""
    for i, track in enumerate(t["tracks"]):
        spans = sorted((s["start"], s["end"]) for s in t["spans"]
                       if s["track"] == i)
        check(all(a[1] <= b[0] + SLACK for a, b in zip(spans, spans[1:])),
              "%s: two spans of %s overlap" % (name, track["name"]))
    check(abs(t["length"] - 3 * t["step"]) <= 3 * SLACK,
          "%s: three steps of %d cycles take %d"
          % (name, t["step"], t["length"]))


def rings(t, role, words):
    """`wait full.q`: q"""
    return {s["name"].removeprefix(words) for s in t["sections"]
            if s["role"] == role and s["name"].startswith(words)}


def check_producer(name, t):
    """A ring of rows is read by the transposer, which fills another one."""
    if t["tracks"][0]["name"] != "producer":
        return
    waited = rings(t, "consumers", "wait full.")
    filled = {r.removesuffix(".rows")
              for r in rings(t, "producer", "wait empty.")}
    check(filled and filled <= waited,
          "%s: the producer's step fills %s, the consumers' step waits for %s"
          % (name, sorted(filled), sorted(waited)))


def main():
    for words, cycles in KERNELS:
        name = " ".join(words)
        t = timeline(sys.argv[1], words)
        check_units(name, t)
        check_spans(name, t)
        check_producer(name, t)
        check(cycles in (None, t["step"]),
              "%s: a step takes %s cycles, expected %s"
              % (name, t["step"], cycles))
        print("%s: %d cycles" % (name, t["step"]))
    return 1 if failures else 0


sys.exit(main())
