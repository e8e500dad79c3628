#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kernels that are slow on purpose: the first finding of `tilec inspect --json`
names the cause with its place, and the mended kernel has no such finding. The
machine's own ptxas counts no spills here: there is none, or one that says how
many.

    slow.py TILEC ROOT
"""
import json
import os
import stat
import subprocess
import sys
import tempfile

# File, targets, kind, words of the finding, the line of its place.
KERNELS = (
    ("operand_by_rows", ("sm_90a",), "operand-order",
     ("%b", "K side by side"), "dot(%at, %bt"),
    ("bank_conflicts", ("sm_90a", "sm_80"), "bank-conflicts",
     ("%x", "by matrices: none", "by 4 bytes: 2 ways", "transposed copy"),
     "load %x["),
    ("one_stage_too_few", ("sm_90a",), "stages",
     ("one stage too few", "with 2 stages", "with 3", "stages(3)"), "for %k"),
    ("accumulators_spill", ("sm_90a", "sm_80"), "spills",
     ("estimate", "take 256 registers", "8 warps would do"), "dot("),
    ("many_tiles", ("sm_90a", "sm_80"), "spills",
     ("estimate", "which has 255", "smaller tiles"), None),
    ("synchronous_load", ("sm_90a", "sm_80"), "synchronous-load",
     ("%a", "what is outside is not 0"), "load %a["),
)
# Options that make or mend a fault of another kernel.
MADE = (
    (["one_stage_too_few", "slow", "sm_90a", "--stages", "4"], "stages", False),
    (["one_stage_too_few", "mended", "sm_90a", "--stages", "1"], "stages",
     True),
    (["accumulators_spill", "mended", "sm_80", "--stages", "1"], "stages",
     True),
    (["accumulators_spill", "mended", "sm_80", "--stages", "2"], "stages",
     False),
)
# Shipped kernels with nothing of that kind.
GOOD = (
    ("attention_fwd", "-D", "D=128", "-D", "T=bf16", "-D", "mask_mod=@causal"),
    ("attention_fwd", "-D", "D=64", "-D", "T=f16"),
    ("matmul",),
    ("swiglu",),
)
CAUSES = {"operand-order", "bank-conflicts", "stages", "spills",
          "synchronous-load"}
NO_PTXAS = "#!/bin/sh\nexit 1\n"
PTXAS = """#!/bin/sh
for last; do :; done
echo "ptxas info    : Used %d registers, %d bytes stack frame, \
%d bytes spill stores, %d bytes spill loads"
while [ $# -gt 0 ]; do [ "$1" = -o ] && echo x > "$2"; shift; done
"""
failures = []


def check(holds, what):
    if not holds:
        failures.append(what)
        print("failed: " + what)


class Inspector:
    def __init__(self, program, root, folder):
        self.program = program
        self.slow = os.path.join(root, "test", "inspector", "slow")
        self.folder = folder

    def ptxas(self, script):
        """From now on."""
        path = os.path.join(self.folder, "ptxas")
        with open(path, "w") as f:
            f.write(script)
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)

    def of(self, *words):
        env = dict(os.environ)
        env["PATH"] = self.folder + ":" + env["PATH"]
        r = subprocess.run([self.program, "inspect", *words, "--json"],
                           capture_output=True, text=True, env=env)
        if r.returncode:
            sys.exit("%s: %s" % (words, r.stderr))
        return json.loads(r.stdout)

    def kernel(self, name, which, target, *words):
        return self.of("%s/%s.tile@%s" % (self.slow, name, which), "--target",
                       target, *words)


def source_line(d, finding):
    file, line, _ = d["places"][finding["place"]]
    return d["sources"][file - 1]["text"].split("\n")[line - 1]


def kinds(d):
    return [f["kind"] for f in d["findings"]]


def check_kernel(i, name, target, kind, words, line):
    title = "%s, %s: " % (name, target)
    d = i.kernel(name, "slow", target)
    check(kinds(d)[:1] == [kind], title + "findings %s, expected %s first"
          % (kinds(d), kind))
    first = next((f for f in d["findings"] if f["kind"] == kind), None)
    if not first:
        return
    said = " ".join((first["title"], first["why"], first["remedy"]))
    for w in words:
        check(w in said, title + "no %r in %r" % (w, said))
    check(line is None or line in source_line(d, first),
          title + "its place is %r" % source_line(d, first))
    mended = i.kernel(name, "mended", target)
    check(kind not in kinds(mended), title + "mended, it has findings %s"
          % kinds(mended))


def check_full(i):
    """Fewer stages than asked for are not grave where those do."""
    d = i.kernel("accumulators_spill", "mended", "sm_90a", "--stages", "6")
    stages = [f["grave"] for f in d["findings"] if f["kind"] == "stages"]
    check(stages == [False], "6 stages asked for, 4 fit: %s" % d["findings"])


def check_assembler(i):
    """Its numbers count, not the estimate."""
    i.ptxas(PTXAS % (255, 8, 120, 80))
    spills = [f for f in i.kernel("accumulators_spill", "slow",
                                  "sm_90a")["findings"]
              if f["kind"] == "spills"]
    check(len(spills) == 1 and spills[0]["grave"] and
          spills[0]["title"].startswith("200 bytes") and
          "take 256 registers" in spills[0]["why"],
          "with 200 bytes spilled: %s" % spills)
    i.ptxas(PTXAS % (168, 0, 0, 0))
    d = i.kernel("accumulators_spill", "slow", "sm_90a")
    check("spills" not in kinds(d), "with no spills: %s" % kinds(d))


def main():
    program, root = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as folder:
        i = Inspector(program, root, folder)
        i.ptxas(NO_PTXAS)
        for name, targets, kind, words, line in KERNELS:
            for target in targets:
                check_kernel(i, name, target, kind, words, line)
        for words, kind, has in MADE:
            found = kinds(i.kernel(*words))
            check((kind in found) == has, "%s: findings %s" % (words, found))
        for words in GOOD:
            found = kinds(i.of(*words, "--target", "sm_90a"))
            check(not CAUSES & set(found), "%s: findings %s" % (words, found))
        check_full(i)
        check_assembler(i)
    return 1 if failures else 0


sys.exit(main())
