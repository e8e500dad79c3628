# SPDX-License-Identifier: Apache-2.0
#
# The tiles that attention over a cache takes for many rows on sm_90a keep what
# they are made for: ptxas neither serialises their products of warp groups
# (C75..) nor spills more than some registers: those outside of the loops of
# products, and those of the producer, which has few. At the most columns of each
# row of wgmma_tiles, and of latent attention. Skipped (77) without ptxas.
#
#   kvcache.py TILEC ROOT
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile

MOST_SPILLED = 256  # bytes
PLACES = (("@dense_place", 1), ("@paged_place", 64), ("@indexed_place", 16))
MASKS = ("@every_key", "@causal", "@prefix_lm_batch")

tilec, root = sys.argv[1:3]
ptxas = shutil.which("ptxas", path=os.environ.get("PATH", "") +
                     ":/usr/local/cuda/bin")
if not ptxas:
    print("skipped: there is no ptxas")
    sys.exit(77)


# {columns, value columns, rows, keys, tail, warps}
def tiles():
    with open(root + "/lib/kvcache/kvcache_choice.c", encoding="utf-8") as f:
        text = f.read()
    table = re.search(r"wgmma_tiles\[\] = \{(.*?)\n\};", text, re.S).group(1)
    return [[int(x) for x in row.split(",")]
            for row in re.findall(r"\{([\d, ]+)\}", table)]


# Many rows of latent attention: heads of one query, heads of several.
LATENT = [dict(D=576, DV=512, BM=64, BN=128, TAIL=32, T="bf16", GROUP=group,
               BY_HEADS=by_heads) for group, by_heads in ((128, 0), (16, 1))]


# (kernel, options, sides)
def kernels():
    for columns, values, rows, keys, tail, warps in tiles():
        yield ("attention_kvcache",
               ("--tiles", "dynamic", "--warps", str(warps)),
               dict(D=columns, DV=values, BM=rows, BN=keys, TAIL=tail, T="f16",
                    GROUP=4, BY_HEADS=1, WHOLE_STEPS=1, MERGE=0))
    for sides in LATENT:
        yield ("attention_kvcache_latent",
               ("--tiles", "none", "--warps", "8", "--stages", "1"), sides)


def fault(row, place, page, mask, folder):
    kernel, options, sides = row
    ptx = os.path.join(folder, "a.ptx")
    bound = dict(sides, PAGE=page, key_place=place, mask_mod=mask)
    subprocess.run(
        [tilec, "compile", root + "/kernels/attention_kvcache.tile@" + kernel,
         "--target", "sm_90a", *options, "--emit", "ptx", "-o", ptx,
         *("-D%s=%s" % pair for pair in bound.items())], check=True)
    said = subprocess.run([ptxas, "-v", "-arch=sm_90a", ptx, "-o", os.devnull],
                          check=True, capture_output=True, text=True)
    text = said.stdout + said.stderr
    loss = re.search(r"\(C75(0[4-8]|1\d)\)[^\n]*", text)
    spilled = int(re.search(r"(\d+) bytes spill stores", text).group(1))
    if loss:
        return loss.group(0)
    return "%d bytes are spilled" % spilled if spilled > MOST_SPILLED else ""


failed = tried = 0
with tempfile.TemporaryDirectory() as folder:
    for row, (place, page), mask in itertools.product(kernels(), PLACES, MASKS):
        why = fault(row, place, page, mask, folder)
        tried += 1
        if why:
            failed += 1
            print("FAILED %s %s %s: %s" % (row, place, mask, why))
print("%d kernels, %d at fault" % (tried, failed))
sys.exit(failed != 0 or tried == 0)
