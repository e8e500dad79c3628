# SPDX-License-Identifier: Apache-2.0
#
# Registers that a product of warp groups reads as operand A hold in each step of
# a loop what they held in the first one: ptxas must not compute anything else in
# them (codegen/nvptx/mma/hold.c). Of attention forward, whose queries may stay in
# registers, with masks whose steps have branches. Skipped (77) without ptxas and
# nvdisasm.
#
#   operands.py TILEC ROOT [--part I/N]
#
# In SASS a loop's operand A comes from memory (LDSM, from before the loop) or is
# computed (F2FP, in each step), never from either.
import collections
import itertools
import re
import subprocess
import sys

MASKS = ("document_ids", "packed_local", "tree_ancestors", "causal")
SCORES = ("no_score", "soft_cap")
# D, BM, BN, warps
SIDES = ((64, 64, 64, 4), (64, 128, 64, 8), (64, 128, 128, 8),
         (128, 64, 128, 4), (128, 128, 128, 8))

Op = collections.namedtuple("Op", "text always name args")


def parse(sass):
    """Instructions, and the index of the one after each label."""
    ops, labels = [], {}
    for line in sass.splitlines():
        line = re.sub(r"/\*.*?\*/", "", line).strip()
        label = re.match(r"(\.L\w+):", line)
        if label:
            labels[label.group(1)] = len(ops)
        elif line.endswith(";") and not line.startswith("."):
            text = line[:-1].strip()
            predicate, _, rest = text.partition(" ")
            conditional = predicate.startswith("@")
            name, _, args = (rest.strip() if conditional else text).partition(
                " ")
            ops.append(Op(text, not conditional, name,
                          [a.strip() for a in args.split(",")]))
    return ops, labels


def width(op):
    """Registers that it writes, from the first one on."""
    if op.name.startswith("HGMMA"):
        return int(op.name.split(".")[1].split("x")[1]) // 2
    if op.name.startswith("LDSM"):
        return int(op.name[-1]) if op.name[-1] in "24" else 1
    if ".128" in op.name:
        return 4
    return 2 if re.search(r"\.64|\.WIDE", op.name) or op.name == "CS2R" else 1


# What has a register first that it does not write.
READS_FIRST = re.compile("ST|RED|SYNCS|BAR|R2P")


def written(op):
    first = op.args[1] if op.name.startswith("SHFL") and len(
        op.args) > 1 else op.args[0]
    register = re.match(r"R(\d+)", first)
    if not register or READS_FIRST.match(op.name):
        return range(0)
    return range(int(register.group(1)), int(register.group(1)) + width(op))


def predecessors(ops, labels):
    found = [[] for _ in range(len(ops) + 1)]
    for i, op in enumerate(ops):
        target = re.search(r"\((\.L\w+)\)", op.text)
        jumps = op.name.startswith("BRA") and target
        if jumps:
            found[labels[target.group(1)]].append(i)
        if not (op.always and (op.name in ("EXIT", "RET") or
                               jumps and len(op.args) == 1)):
            found[i + 1].append(i)
    return found


def sources(ops, before, at, register):
    """The names of the instructions whose result the register may hold."""
    found, seen, left = set(), set(), list(before[at])
    while left:
        i = left.pop()
        if i in seen:
            continue
        seen.add(i)
        if register in written(ops[i]):
            found.add(ops[i].name.split(".")[0])
            if ops[i].always:
                continue
        left += before[i]
    return found


def mixed(sass):
    """How many products have operand A in registers; those of which it is
    mixed."""
    ops, labels = parse(sass)
    before, n, found = predecessors(ops, labels), 0, []
    for i, op in enumerate(ops):
        a = re.match(r"R(\d+)", op.args[1]) if op.name.startswith(
            "HGMMA") else None
        if not a:
            continue
        n += 1
        first = int(a.group(1))
        if any({"LDSM", "F2FP"} <= sources(ops, before, i, r)
               for r in range(first, first + 4)):
            found.append(op.text)
    return n, found


def sass_of(tilec, mask, score, sides):
    d, bm, bn, warps = sides
    words = ["attention_fwd", "--target", "sm_90a", "--emit", "sass",
             "--no-cache", "--warps", str(warps)]
    for name, value in dict(T="bf16", D=d, BM=bm, BN=bn, mask_mod="@" + mask,
                            score_mod="@" + score).items():
        words += ["-D", "%s=%s" % (name, value)]
    return subprocess.run([tilec, "compile", *words], capture_output=True,
                          text=True, check=False)


def main():
    tilec = sys.argv[1]
    part, parts = map(int, (sys.argv[sys.argv.index("--part") + 1]
                            if "--part" in sys.argv else "1/1").split("/"))
    bad = with_registers = 0
    cases = list(itertools.product(MASKS, SCORES, SIDES))[part - 1::parts]
    for case in cases:
        done = sass_of(tilec, *case)
        if "nvdisasm or cuobjdump" in done.stderr or "ptxas" in done.stderr:
            print("skipped: " + done.stderr.splitlines()[0])
            sys.exit(77)
        if done.returncode:
            sys.exit("%s %s %s: %s" % (*case, done.stderr))
        n, found = mixed(done.stdout)
        with_registers += n > 0
        for text in found:
            print("%s %s %s: another operand in the registers of %s" % (
                *case, text))
        bad += len(found) > 0
    if not with_registers:
        sys.exit("no product has its operand A in registers")
    print("%d programs, %d wrong" % (len(cases), bad))
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
