# SPDX-License-Identifier: Apache-2.0
#
# Shipped configurations for GPUs spill no registers, and none loses what it is
# made for (C75..: lib/loss.c): each entry of kernels/configs, with the data
# types it is taken for, through ptxas; those of attention_fwd and of gradients on
# sm_90a with and without a mask, in order too where plans take them so. Besides,
# the kernels of gradients that have no configuration. Some gradients may spill a
# little beside their loops.
# Skipped (77) without ptxas.
#
#   configs.py TILEC ROOT [N]      one case of N
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

tilec, root = sys.argv[1:3]
step = int(sys.argv[3]) if len(sys.argv) > 3 else 1
ptxas = shutil.which("ptxas", path=os.environ.get("PATH", "") +
                     ":/usr/local/cuda/bin")
if not ptxas:
    print("skipped: there is no ptxas")
    sys.exit(77)
KERNELS = ("attention_fwd", "matmul", "attention_bwd", "attention_bwd_dkv",
           "attention_bwd_dq")
BESIDE = ("delta", "post", "captured", "captured_pairs", "sum")


def entries_of(kernel):
    with open(root + "/kernels/configs/%s.json" % kernel,
              encoding="utf-8") as f:
        return [e for e in json.load(f)["configs"] if e["target"] != "cpu"]


def is_gradient(kernel):
    return kernel.startswith("attention_bwd")


# One of a gradient without products of warp groups: once is enough.
def is_plain(kernel, entry):
    return is_gradient(kernel) and (entry["target"] != "sm_90a" or
                                    "dtype" in entry)


# Bytes that may be spilled: gradients spill a little where a block is computed
# again with care.
def allowed(kernel):
    return 120 if is_gradient(kernel) else 0


# What is wrong with it; empty: nothing.
def fault(kernel, entry, dtype, mask, ordered, target, folder):
    use = dict(entry["use"])
    ptx = os.path.join(folder, "a.ptx")
    name = "attention_bwd@" + kernel if is_gradient(kernel) else kernel
    words = [tilec, "compile", name, "-D", "T=" + dtype, "--target", target,
             "--emit=ptx", "--no-cache", "-o", ptx]
    words += ["-D", "ORDERED=1"] if ordered else []
    words += ["-D", "score_mod=@alibi"] if "captured" in kernel else []
    if kernel == "attention_bwd_delta":
        words += ["-D", "DV=%d" % entry["d"]]
    elif kernel != "matmul":
        words += ["-D", "D=%d" % entry.get("d", 256)]
    if "dv" in entry:
        words += ["-D", "DV=%d" % entry["dv"]]
    if dtype.startswith("f8"):
        words += ["-D", "TP=f8e4m3", "-D", "PBITS=8", "-D", "TO=bf16"]
    if "vc" in entry:
        words += ["-D", "VC=%d" % entry["vc"]]
    if "exact" in entry:
        words += ["-D", "EXACT=%d" % entry["exact"]]
    for name in "warps", "stages", "tiles":
        if name in use:
            words += ["--" + name, str(use.pop(name))]
    level = use.pop("ptxas", 3)
    for name in ("pair", "in_order"):  # of plans
        use.pop(name, 0)
    words += ["-D", "FRONT=64"] if use.pop("front", 0) else []
    score = {"curved": "@soft_cap", "straight": "@alibi",
             "scored": "@alibi"}.get(entry.get("score"))
    words += ["-D", "score_mod=" + score] if score else []
    for name, value in use.items():
        words += ["-D", "%s=%d" % (name, value)]
    if mask:
        words += ["-D", "mask_mod=" + ("@local_window" if entry.get("mask") ==
                                       "window" else "@causal")]
    subprocess.run(words, check=True)
    said = subprocess.run([ptxas, "-v", "-O%d" % level, "-arch=" + target, ptx,
                           "-o", os.devnull], check=True, capture_output=True,
                          text=True)
    text = said.stdout + said.stderr
    loss = re.search(r"\(C75(0[4-8]|1\d)\)[^\n]*", text)
    spilled = int(re.search(r"(\d+) bytes spill stores", text).group(1))
    return (loss.group(0) if loss else
            "%d bytes are spilled" % spilled
            if spilled > allowed(kernel) else "")


# Is another entry, of masks only, taken for these?
def is_replaced(entry, entries):
    def same(e):
        return {k: v for k, v in e.items() if k not in ("use", "mask")}
    return any(e.get("mask") == "masked" and same(e) == same(entry)
               for e in entries if "mask" not in entry)


def cases_of(kernel):
    entries = entries_of(kernel)
    named = {(e["target"], e["dtype"]) for e in entries if "dtype" in e}
    every = ("bf16",) if is_gradient(kernel) else ("bf16", "f16")
    for entry in entries:
        types = [entry["dtype"]] if "dtype" in entry else [
            t for t in every if (entry["target"], t) not in named]
        exact = entry["target"].endswith("a")
        plain = is_plain(kernel, entry)
        targets = (entry["target"],) if exact or plain else (entry["target"],
                                                             "sm_90")
        masks = ([0] if plain or kernel == "matmul" or
                 is_replaced(entry, entries) else
                 {"none": [0], "masked": [1], "window": [1],
                  "causal": [1]}.get(entry.get("mask"), [0, 1]))
        orders = [0, 1] if "in_order" in entry["use"] else [0]
        for case in itertools.product(types, masks, orders, targets):
            yield kernel, entry, *case


def cases_beside():
    for case in itertools.product(BESIDE, (64, 128, 256), ("sm_80", "sm_90a")):
        name, d, target = case
        yield ("attention_bwd_" + name, {"d": d, "use": {}}, "bf16", 0, 0,
               target)


failed = tried = 0
with tempfile.TemporaryDirectory() as folder:
    cases = [c for kernel in KERNELS for c in cases_of(kernel)]
    for case in [*cases, *cases_beside()][::step]:
        why = fault(*case, folder)
        tried += 1
        if why:
            failed += 1
            print("FAILED %s %s %s mask %d in order %d %s: %s" % (*case, why))
print("%d configurations, %d at fault" % (tried, failed))
sys.exit(failed != 0 or tried == 0)
