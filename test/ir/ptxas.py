# SPDX-License-Identifier: Apache-2.0
#
# PTX from standard input through ptxas, if there is one: it must assemble,
# spill nothing, and lose nothing that ptxas tells of by a number from C7500 on
# (asynchronous products that it orders, register moves that it leaves out).
#
#   ptxas.py sm_90 [BYTES]    BYTES that may be spilled
import os
import re
import shutil
import subprocess
import sys
import tempfile


def find():
    for name in [os.environ.get("TILEC_PTXAS"), shutil.which("ptxas"),
                 "/usr/local/cuda/bin/ptxas"]:
        if name and os.access(name, os.X_OK):
            return name
    return None


def main():
    ptx = sys.stdin.read()
    if ".entry" not in ptx:
        sys.exit("ptxas.py: no kernel comes in")
    ptxas = find()
    if not ptxas:
        print("skipped: no ptxas", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory() as folder:
        name = os.path.join(folder, "kernel.ptx")
        with open(name, "w") as f:
            f.write(ptx)
        r = subprocess.run([ptxas, "-v", "-arch=" + sys.argv[1], name, "-o",
                            os.path.join(folder, "kernel.cubin")],
                           capture_output=True, text=True)
    said = r.stdout + r.stderr
    if r.returncode:
        sys.exit(said)
    if "(C75" in said:
        sys.exit(said)
    allowed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    for n in re.findall(r"(\d+) bytes spill stores", said):
        if int(n) > allowed:
            sys.exit(said)


main()
