#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The document of `tilec inspect --json`: its lists fit together, lines of PTX
belong to the ops that they are made of, and slow kernels have findings.

    json_document.py TILEC
"""
import json
import subprocess
import sys

failures = []


def check(holds, what):
    if not holds:
        failures.append(what)
        print("failed: " + what)


def inspect(program, *words):
    r = subprocess.run([program, "inspect", *words, "--json"],
                       capture_output=True, text=True)
    return r.returncode, json.loads(r.stdout) if r.stdout else None


def check_lists(d):
    for p in d["programs"]:
        check(len(p["lines"]) == len(p["places"]), "a line has no place")
        check(max(p["lines"]) < len(d["lines"]), "a line is not in the list")
        check(max(p["places"]) < len(d["places"]), "a place is not there")
    for i in d["images"]:
        check(i["text"].count("\n") == len(i["machine"]),
              "%s: lines without a machine-level line" % i["name"])
    check(len(d["registers"]) == len(d["programs"][-1]["lines"]),
          "registers are not those of the machine level")


def check_ptx(d, instruction, op):
    machine = [d["lines"][i] for i in d["programs"][-1]["lines"]]
    ptx = next(i for i in d["images"] if i["name"] == "ptx")
    found = [machine[m - 1] for m, text in
             zip(ptx["machine"], ptx["text"].split("\n"))
             if instruction in text]
    check(found and all(op in line for line in found),
          "%s belongs to %r, expected lines with %s"
          % (instruction, found[:1], op))


def check_timeline(d):
    t = d["timeline"]
    check(t["schema"] == "tilec.timeline" and t["source"] == "model",
          "the timeline is of %s" % t["source"])
    check(t["kernel"] == d["kernel"] and t["spans"], "the timeline is empty")
    check(all(s["track"] < len(t["tracks"]) for s in t["spans"]),
          "a span has no track")
    check(all(0 <= s["start"] <= s["end"] <= t["length"] for s in t["spans"]),
          "a span ends before it starts, or after the picture")


def main():
    program = sys.argv[1]
    code, d = inspect(program, "matmul", "--target", "sm_90a")
    check(code == 0 and d["schema"] == "tilec.inspect", "matmul: no document")
    check_lists(d)
    check_timeline(d)
    check_ptx(d, "wgmma.mma_async", " mma ")
    # 128x256 sums in two warp groups: a loop takes its initial values over.
    check(max(d["registers"]) == 128,
          "matmul: %d registers live at once" % max(d["registers"]))
    code, d = inspect(program, "attention_fwd", "--target", "sm_90a", "-D",
                      "T=f8e4m3", "-D", "D=128")
    kinds = [f["kind"] for f in d["findings"]]
    check("operand-order" in kinds,
          "8-bit values by rows: the findings are %r" % kinds)
    return 1 if failures else 0


sys.exit(main())
