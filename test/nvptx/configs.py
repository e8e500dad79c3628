# SPDX-License-Identifier: Apache-2.0
#
# Shipped configurations for GPUs spill no registers, and none loses what it is
# made for (C75..: lib/gpu/ptxas_advisory.c): each entry of kernels/configs, with the data
# types it is taken for, through ptxas; those of attention_fwd and of gradients on
# sm_90a with and without a mask, in order too where plans take them so. Besides,
# the kernels of gradients that have no configuration. Some gradients may spill a
# little beside their loops.
# Skipped (77) without ptxas.
#
#   configs.py TILEC ROOT [N]      one case of N
import os
import re
import shutil
import subprocess
import sys
import tempfile

import shipped

tilec, root = sys.argv[1:3]
step = int(sys.argv[3]) if len(sys.argv) > 3 else 1
ptxas = shutil.which("ptxas", path=os.environ.get("PATH", "") +
                     ":/usr/local/cuda/bin")
if not ptxas:
    print("skipped: there is no ptxas")
    sys.exit(77)


# Bytes that may be spilled: gradients spill a little where a block is computed
# again with care.
def allowed(kernel):
    return 120 if shipped.is_gradient(kernel) else 0


# What is wrong with it; empty: nothing.
def fault(case, folder):
    ptx = os.path.join(folder, "a.ptx")
    subprocess.run([tilec, "compile", *shipped.words_of(case), "-o", ptx],
                   check=True)
    said = subprocess.run([ptxas, "-v", "-O%d" % shipped.level_of(case),
                           "-arch=" + case[-1], ptx, "-o", os.devnull],
                          check=True, capture_output=True, text=True)
    text = said.stdout + said.stderr
    loss = re.search(r"\(C75(0[4-8]|1\d)\)[^\n]*", text)
    spilled = int(re.search(r"(\d+) bytes spill stores", text).group(1))
    return (loss.group(0) if loss else
            "%d bytes are spilled" % spilled
            if spilled > allowed(case[0]) else "")


failed = tried = 0
with tempfile.TemporaryDirectory() as folder:
    for case in shipped.cases(root)[::step]:
        why = fault(case, folder)
        tried += 1
        if why:
            failed += 1
            print("FAILED %s %s %s mask %d in order %d %s: %s" % (*case, why))
print("%d configurations, %d at fault" % (tried, failed))
sys.exit(failed != 0 or tried == 0)
