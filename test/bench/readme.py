#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The README's figures of GPUs are those of test/bench/results.

    python3 test/bench/readme.py            # checks (a test); 1: says what is not
    python3 test/bench/readme.py --write    # writes the tables anew

Sentences are checked only: they are printed as they should read.
"""
import argparse
import json
import pathlib
import re
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Titles of columns and who ran: "tilec / X" is how much faster tilec is.
COLUMNS = {
    "tilec": "tilec", "cuDNN": "cudnn", "FlexAttention": "flex",
    "FlashAttention-2": "fa2", "deterministic": "tilec_deterministic",
    "v by columns": "tilec", "v by rows": "tilec_rows",
    "by rows, nothing done": "tilec_off", "`EXACT_SUMS`": "tilec_exact",
    "tilec bf16": "tilec_bf16", "cuDNN bf16": "cudnn_bf16"}
# Tables, by their first columns.
TABLES = {
    ("tilec", "cuDNN"): "h200_sm_90a_hopper",
    ("tilec", "FlexAttention"): "h200_sm_90a_mods",
    ("tilec", "deterministic"): "h200_sm_90a_backward",
    ("tilec", "FlashAttention-2"): "h200_sm_80",
    ("v by columns", "v by rows"): "h200_sm_90a_fp8"}


def rows_of(name):
    path = ROOT / "test" / "bench" / "results" / (name + ".json")
    return json.loads(path.read_text(encoding="utf-8"))["rows"]


def speed(row, who):
    if who not in row["median"]:
        return "-"
    return "%.0f" % (row["flops"] / row["median"][who] / 1e6)


def ratio(row, who):
    m = row["median"]
    return "%.2f" % (m[who] / m["tilec"]) if who in m and "tilec" in m else "-"


# ---- Tables ----


def cells(line):
    return [c.strip() for c in line.strip().strip("|").split(" | ")]


def table(titles, rows):
    lines = []
    for row in rows:
        line = [row["label"]]
        for title in titles[1:]:
            _, slash, peer = title.rpartition("/ ")
            line.append(ratio(row, COLUMNS[peer]) if slash
                        else speed(row, COLUMNS[title]))
        lines.append("| " + " | ".join(line) + " |")
    return lines


def with_tables(lines):
    """The README's lines, with the rows that its tables should have."""
    out, left = [], dict(TABLES)
    i = 0
    while i < len(lines):
        out.append(lines[i])
        i += 1
        titles = cells(out[-1])
        name = titles[0] == "B x H x S x D" and left.pop(tuple(titles[1:3]), 0)
        if not name:
            continue
        out.append(lines[i])  # |---|
        mods = any(r["case"].get("mod") for r in rows_of(name))
        out += table(titles, [r for r in rows_of(name)
                              if r["case"]["kind"] != "matmul" and
                              (r["case"].get("mod") or not mods)])
        while lines[i].startswith("|"):
            i += 1
    assert not left, "README has no table for %s" % ", ".join(left.values())
    return out


# ---- Sentences ----


def pair(name, label, *who):
    row = next(r for r in rows_of(name) if r["label"].startswith(label))
    return tuple(speed(row, w) for w in who)


def matrix():
    """Of FlexAttention's own benchmark."""
    found = {d: [r["median"]["flex"] / r["median"]["tilec"]
                 for r in rows_of("h200_sm_90a_flex")
                 if r["case"]["direction"] == d]
             for d in ("forward", "backward")}
    both = found["forward"] + found["backward"]
    parts = ["ahead in %d of %d rows" % (sum(x > 1 for x in both), len(both))]
    for d, x in found.items():
        parts += ["%s %.2f" % (d, min(x)),
                  "to %.2f" % max(x), "%.2f in the middle" % statistics.median(x)]
    return parts


def sentences():
    cubes = ("tilec", "cublas")
    small = next(r for r in rows_of("h200_sm_80")
                 if r["label"].startswith("2x16x512x64"))["median"]
    return [
        "4096 cubed ran at %s TFLOP/s (cuBLAS %s)" %
        pair("h200_sm_90a_matmul", "matmul", *cubes),
        "8192 cubed at %s TFLOP/s (cuBLAS %s)" %
        pair("h200_sm_90a_matmul8k", "matmul", *cubes),
        *matrix(),
        "takes %.1f us, FlexAttention's kernel %.1f" %
        (small["tilec"], small["flex"]),
        "at %s TFLOP/s at the GPU's power limit, cuBLAS (wgmma, which needs "
        "less energy) at %s" % pair("h200_sm_80", "matmul", *cubes),
        "(`--set matmul --rest 30`) at %s and %s" %
        pair("h200_sm_80_matmul_rested", "matmul", *cubes),
        "8 bits (v by columns, no factors, o of 8 bits) ran at %s TFLOP/s beside "
        "these %s" % pair("h200_sm_90a_fp8", "4x16x4096x128 full", "flex",
                          "tilec")]


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--write", action="store_true")
    args = p.parse_args()
    path = ROOT / "README.md"
    lines = path.read_text(encoding="utf-8").split("\n")
    right = with_tables(lines)
    wrong = ["%s\n  should be\n%s" % x for x in zip(lines, right)
             if x[0] != x[1]] if len(lines) == len(right) else [
                 "a table has other rows than its results"]
    if args.write:
        path.write_text("\n".join(right), encoding="utf-8")
        wrong = []
    text = re.sub(r"\s+", " ", "\n".join(right))
    wrong += ["README does not say: " + s for s in sentences()
              if s not in text]
    print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
