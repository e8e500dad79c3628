#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The document of `tilec inspect --json`: its lists fit together, lines of PTX
belong to the ops that they are made of, and slow kernels have findings.

    json_document.py TILEC
"""
import json
import os
import subprocess
import sys
import tempfile

failures = []


def check(holds, what):
    if not holds:
        failures.append(what)
        print("failed: " + what)


def inspect(program, *words, env=None):
    r = subprocess.run([program, "inspect", *words, "--json"],
                       capture_output=True, text=True, env=env)
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


# Tools of CUDA as they answer: two instructions, of lines 3 and 5 of the
# machine level, with 7 and 9 registers.
PTXAS = """#!/bin/sh
echo "ptxas info    : Used 24 registers, 0 bytes stack frame, \
0 bytes spill stores, 0 bytes spill loads"
while [ $# -gt 0 ]; do [ "$1" = -o ] && echo x > "$2"; shift; done
"""
NVDISASM = """#!/bin/sh
case "$*" in
*-plr*) cat <<END
        /*0000*/    LDC R1, c[0x0][0x28] ;   // |   7 |
        /*0010*/    IADD3 R2, R1, R1, RZ ;   // |   9 |
END
;;
*) cat <<END
.text.matmul:
        //## File "m", line 3
        /*0000*/    LDC R1, c[0x0][0x28] ;
        //## File "m", line 5
        /*0010*/    IADD3 R2, R1, R1, RZ ;
END
;;
esac
"""


def check_sass(program):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("ptxas", PTXAS), ("nvdisasm", NVDISASM)):
            path = os.path.join(folder, name)
            with open(path, "w") as f:
                f.write(text)
            os.chmod(path, 0o755)
        env = dict(os.environ, PATH=folder + ":" + os.environ["PATH"])
        _, d = inspect(program, "matmul", "--target", "sm_90a", env=env)
    sass = [i for i in d["images"] if i["name"] == "sass"]
    check(len(sass) == 1, "with nvdisasm: no SASS")
    if not sass:
        return
    lines = sass[0]["text"].split("\n")
    found = [(text.split()[1], machine, live) for text, machine, live in
             zip(lines, sass[0]["machine"], sass[0]["live"]) if "/*" in text]
    check(found == [("LDC", 3, 7), ("IADD3", 5, 9)],
          "SASS: lines and registers are %r" % found)


def main():
    program = sys.argv[1]
    code, d = inspect(program, "matmul", "--target", "sm_90a")
    check(code == 0 and d["schema"] == "tilec.inspect", "matmul: no document")
    check_lists(d)
    check_timeline(d)
    check_sass(program)
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
