#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds copies of machine facts in passes and codegen/nvptx: numbers that
machine_model.h and target.h hold, and roles found by index instead of by
passes/analysis/roles.h.

    machine_facts.py SOURCE

Prints each copy with its remedy and their number; exit status 1 if any.
"""
import pathlib
import re
import sys

HOLDERS = ("passes/target/", "passes/analysis/roles.")
WARPS = r"(?:warps|wm)\)?"
FACTS = [
    (WARPS + r" *[/%] *\(?4\b", "tc_warpgroups, TC_WARPGROUP_WARPS"),
    (r"warps *(?:<=?|>=?) *(?:4|8|12)\b", "tc_warpgroups"),
    (r"\b(?:32|128) *\* *(?:\(\w+\) *)?\(?[\w.>-]*(?:warps|\bn \+ 1)",
     "tc_threads, TC_WARPGROUP_THREADS"),
    (r"\bwarps *= *(?:4|8|12)\b", "TC_WARPGROUP_WARPS, TC_DEFAULT_WARPS"),
    (r"\w*(?:GROUP|WARP)\w* = \d+", "TC_WARPGROUP_.."),
    (r"\w*LANES = 32", "TC_WARP_THREADS"),
    (r"rows\w*(?:\(\w*\))? *[/%] *64|% 64 ==", "TC_WARPGROUP_ROWS"),
    (r"\b\w+ = (?:24|40|48|200|240|255)\b(?!\.)", "registers of a role"),
    (r"\b128 \* 24\b", "registers of a role"),
    (r"\b\w*REGISTERS\w* = \d+", "registers of a role"),
    (r"\b\w*RESERVED\w* = \d+|\bGAPS = \d+", "TC_.._RESERVE"),
    (r"\b\w*(?:MBARRIER\w*|_BYTES|SMALL|LARGE) = \d+", "bytes, elements"),
    (r"\b(?:UN)?CHAINED = \d+|\bSLOTS = \d+|\bMOST_(?:ASKED|ALONE) = \d+",
     "slots of rings"),
    (r"\b(?:SPECIAL_FUNCTIONS|PRODUCTS|LONG_ENOUGH|SIDE_BY_SIDE) = \d+",
     "target.h; thresholds of machine_model.h"),
    (r"\b(?:VECTOR|BULK|COPY_BYTES) = 16\b", "TC_VECTOR_BYTES"),
    (r"\bSECTOR = 32\b", "TC_SECTOR_BYTES"),
    (r"\bENOUGH\w* = \d+", "TC_.._MIN_READERS"),
    (r"\broles(?:->|\.)regions\[", "passes/analysis/roles.h"),
    (r"WARP_GROUPS\b.*(?:!=|\[)\s*1\b", "passes/analysis/roles.h"),
]
# Of one algorithm alone: FILE:NAME.
OWN = {
    "codegen/nvptx/memory/params.c:MAP_BYTES",
    "codegen/nvptx/mma/mma.c:GROUP",  # tiles of one ldmatrix
    "codegen/nvptx/weight.c:CONDITION",  # instructions
    "passes/pipeline/copies.c:ROW_BYTES",
    "passes/epilogue/defer_branches_expand.c:SLOTS",
    "passes/instructions/wgmma.c:GROUP",  # rows of a core matrix
    "passes/layout/assign_shared.c:MOST_CANDIDATES",
    "passes/warpspec/scalar_channel.c:WORTH_A_RING",  # ops
}


def code_lines(path):
    """Lines without comments."""
    text = path.read_text()
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), text,
                  flags=re.DOTALL)
    return enumerate(text.splitlines(), 1)


def is_own(name, found):
    return "%s:%s" % (name, found.split(" ")[0]) in OWN


def copies(root):
    paths = [p for top in ("passes", "codegen/nvptx")
             for p in sorted((root / top).rglob("*.[ch]"))]
    for path in paths:
        name = path.relative_to(root).as_posix()
        if name.startswith(HOLDERS):
            continue
        for n, line in code_lines(path):
            for pattern, remedy in FACTS:
                for m in re.finditer(pattern, line):
                    if not is_own(name, m.group()):
                        yield "%s:%d: `%s`: expected %s" % (
                            name, n, m.group().strip(), remedy)


def main():
    found = list(copies(pathlib.Path(sys.argv[1])))
    for line in found:
        print(line)
    print("%d copies of machine facts" % len(found))
    sys.exit(bool(found))


main()
