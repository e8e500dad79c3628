# SPDX-License-Identifier: Apache-2.0
"""The kernels and configurations for GPUs that ship with tilec, as compiles:
each entry of kernels/configs with the data types it is taken for; those of
attention_fwd and of gradients on sm_90a with and without a mask, in order too
where plans take them so; besides, the kernels of gradients that have no
configuration.

A case is (kernel, entry, dtype, mask, ordered, target).
"""
import itertools
import json

KERNELS = ("attention_fwd", "matmul", "attention_bwd", "attention_bwd_dkv",
           "attention_bwd_dk", "attention_bwd_dv", "attention_bwd_dq")
BESIDE = ("delta", "post", "captured", "captured_pairs", "sum")


def entries_of(root, kernel):
    with open(root + "/kernels/configs/%s.json" % kernel,
              encoding="utf-8") as f:
        return [e for e in json.load(f)["configs"] if e["target"] != "cpu"]


def is_gradient(kernel):
    return kernel.startswith("attention_bwd")


# One of a gradient without products of warp groups: once is enough.
def is_plain(kernel, entry):
    return is_gradient(kernel) and (entry["target"] != "sm_90a" or
                                    entry.get("dtype") == "f32")


# What is bound for the entry's tiles: the rest of the command line.
def _settings(entry):
    use, words = dict(entry["use"]), []
    for name in ("warps", "stages", "tiles"):
        if name in use:
            words += ["--" + name, str(use.pop(name))]
    for name in ("ptxas", "pair", "in_order"):  # of the assembler, of plans
        use.pop(name, 0)
    for name, value in use.items():
        words += ["-D", "%s=%d" % (name, value)]
    return words


def _sides(kernel, entry):
    words = []
    if kernel == "attention_bwd_delta":
        words += ["-D", "DV=%d" % entry["d"]]
    elif kernel != "matmul":
        words += ["-D", "D=%d" % entry.get("d", 256)]
    for name, parameter in (("dv", "DV"), ("v_contig_dim", "V_CONTIG_DIM"), ("exact", "EXACT")):
        if name in entry:
            words += ["-D", "%s=%d" % (parameter, entry[name])]
    return words


def words_of(case):
    """What follows `tilec compile`, but for the output."""
    kernel, entry, dtype, mask, ordered, target = case
    file = ("attention_bwd_rows@" if kernel == "attention_bwd_delta" else
            "attention_bwd@" if is_gradient(kernel) else "")
    name = file + kernel
    words = [name, "-D", "T=" + dtype, "--target", target, "--emit=ptx",
             "--no-cache"]
    words += ["-D", "ORDERED=1"] if ordered else []
    words += ["-D", "score_mod=@alibi"] if "captured" in kernel else []
    words += _sides(kernel, entry)
    if dtype.startswith("f8"):
        words += ["-D", "TP=f8e4m3", "-D", "P_SHIFT=8", "-D", "TO=bf16"]
    words += _settings(entry)
    score = {"nonlinear": "@soft_cap", "linear": "@alibi",
             "scored": "@alibi"}.get(entry.get("score"))
    words += ["-D", "score_mod=" + score] if score else []
    words += ["-D", "dropout=@philox_dropout"] if "dropout" in entry else []
    if mask:
        words += ["-D", "mask_mod=" + ("@local_window" if entry.get("mask") ==
                                       "window" else "@causal")]
    return words


def level_of(case):
    """Of the assembler."""
    return case[1]["use"].get("ptxas", 3)


# Is another entry, of masks only, taken for these?
def is_replaced(entry, entries):
    def same(e):
        return {k: v for k, v in e.items() if k not in ("use", "mask")}
    return any(e.get("mask") == "masked" and same(e) == same(entry)
               for e in entries if "mask" not in entry)


def cases_of(root, kernel):
    entries = entries_of(root, kernel)
    named = {(e["target"], e["dtype"], e.get("d")) for e in entries
             if "dtype" in e}
    every = ("bf16",) if is_gradient(kernel) else ("bf16", "f16")
    for entry in entries:
        types = [entry["dtype"]] if "dtype" in entry else [
            t for t in every
            if (entry["target"], t, entry.get("d")) not in named]
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


def cases(root):
    return [*(c for kernel in KERNELS for c in cases_of(root, kernel)),
            *cases_beside()]
