#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the tables of GPU figures from test/bench/results/*.json.

    python3 test/bench/tables.py            # a test: exit code 1 names each difference
    python3 test/bench/tables.py --write    # writes the tables

A table stands between the lines `<!-- table: NAME -->` and `<!-- end -->` of
README.md or docs/performance.md. The sentences with figures of the same files
are checked only, and printed as they should read.
"""
import argparse
import json
import pathlib
import re
import statistics
import sys

from kernels import table_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHAPE = "batch x heads x length x head dim, mask or score"

# A column: its head and the contender of the results whose TFLOP/s it shows;
# of a pair, how many times faster the second contender is than the first.
FLEX, CUDNN = ("FlexAttention", "flex"), ("cuDNN", "cudnn")
FORWARD = [("tilec", "tilec"), CUDNN, FLEX,
           ("tilec / cuDNN", ("cudnn", "tilec")),
           ("tilec / FlexAttention", ("flex", "tilec"))]

# Of a table: the results, the GPU code, which rows, the columns.
TABLES = {
    "forward": ("h200_sm_90a_hopper", "sm_90a", lambda case: True, FORWARD),
    "mods": ("h200_sm_90a_mods", "sm_90a", lambda case: case["mod"],
             [FORWARD[0], FLEX, FORWARD[4]]),
    "backward": ("h200_sm_90a_backward", "sm_90a", lambda case: True,
                 [FORWARD[0],
                  ("tilec, deterministic", "tilec_deterministic"),
                  *FORWARD[1:]]),
    "sm_80": ("h200_sm_80", "sm_80", lambda case: case["kind"] != "matmul",
              [("tilec", "tilec"), ("FlashAttention-2", "fa2"), FLEX, CUDNN,
               ("tilec / FlashAttention-2", ("fa2", "tilec"))]),
    "fp8": ("h200_sm_90a_fp8", "sm_90a", lambda case: True,
            [("tilec f8e4m3, v column-major", "tilec"),
             ("tilec f8e4m3, v row-major, transposed", "tilec_rows"),
             ("tilec f8e4m3, v row-major, `--enforce=off`", "tilec_off"),
             ("tilec f8e4m3, `EXACT_SUMS`", "tilec_exact"),
             ("tilec bf16", "tilec_bf16"), ("cuDNN bf16", "cudnn_bf16"),
             ("tilec f8e4m3 / tilec bf16", ("tilec_bf16", "tilec")),
             ("tilec f8e4m3 / cuDNN bf16", ("cudnn_bf16", "tilec"))]),
}

# Over caches: of a table the set of decode.py, which rows, the columns.
# Microseconds.
CACHES = "h200_sm_90a_decode"
PAGES = [("pages of %d" % n, "tilec, pages of %d" % n) for n in (16, 64)]
PEERS = [(n, n) for n in ("cuDNN", "FlashAttention-2", "FlexAttention",
                          "FlashAttention-3")]
FLASHINFER = [("FlashInfer", "FlashInfer, pages of 64")]
CACHE_TABLES = {
    "decode": ("decode", lambda row: True,
               [("tilec", "tilec"), *PAGES, *PEERS, *FLASHINFER,
                ("schedule", "schedule")]),
    "decode_masks": ("decode", lambda row: any(
        n.startswith("tilec, ") and "pages" not in n for n in row["median"]),
        [(n, "tilec, " + n) for n in (
            "soft cap", "alibi", "own mask", "constant pieces",
            "window of 1024", "window of 1024, dealt", "window of 8192",
            "window of 8192, dealt")]),
    "groups": ("groups", lambda row: True, [("tilec", "tilec"), *PEERS]),
    "bytes": ("bytes", lambda row: True,
              [("8 bits", "tilec"), ("a factor", "tilec, a factor"),
               ("a factor a row", "tilec, a factor a row"), *PAGES,
               ("bf16", "tilec, bf16")]),
    "latent": ("latent", lambda row: True,
               [("v in k", "tilec"), *PAGES, ("v apart", "tilec, v apart"),
                PEERS[3], *FLASHINFER]),
    "prefill": ("prefill", lambda row: True,
                [("no cache", "tilec, no cache"), ("lengths", "tilec"),
                 ("ragged", "tilec, ragged"), *PAGES]),
}

# Kernels that are not attention: of kernels.py.
KERNELS = "h200_sm_90a_kernels"

# The README's rows: what is computed, the results, the row's label.
SUMMARY = [
    ("forward, bf16", "hopper", "4x32x4096x64 causal"),
    ("forward, bf16", "hopper", "4x16x4096x128 full"),
    ("forward, bf16", "hopper", "4x16x4096x128 causal"),
    ("forward, bf16", "hopper", "4x8x4096x256 causal"),
    ("forward, bf16", "mods", "4x16x4096x128 soft_cap"),
    ("forward, f8e4m3", "fp8", "4x16x4096x128 full"),
    ("backward, bf16", "backward", "4x16x4096x128 full"),
    ("backward, bf16", "backward", "4x16x4096x128 causal")]


def results(name):
    path = ROOT / "test" / "bench" / "results" / (name + ".json")
    return json.loads(path.read_text(encoding="utf-8"))


def row_of(name, label):
    return next(r for r in results(name)["rows"]
                if r["label"].startswith(label))


def speed(row, who):
    if who not in row["median"]:
        return "-"
    return "%.0f" % (row["flops"] / row["median"][who] / 1e6)


def cell(row, who):
    if isinstance(who, str):
        return speed(row, who)
    m = row["median"]
    return "%.2f" % (m[who[0]] / m[who[1]]) if who[0] in m else "-"


# ---- Tables ----


def line(cells):
    return "| " + " | ".join(cells) + " |"


def header(heads):
    return [line(heads), "|" + "---|" * len(heads)]


def origin(names, target):
    """Where the figures come from."""
    return origin_of([run for name in names for run in results(name)["runs"]],
                     target)


def origin_of(runs, target):
    found = {}  # what runs share: their commits
    for run in runs:
        peers = "torch " + run["torch"]
        if "cudnn" in run:
            c = run["cudnn"]
            peers += ", cuDNN %d.%d.%d" % (c // 10000, c // 100 % 100, c % 100)
        found.setdefault((run["gpu"], run["date"][:10], peers),
                         {})[run["commit"]] = None
    return ["", "Measured on: " + "; ".join(
        "%s, `%s`, %s, %s, tilec %s"
        % (gpu, target, date, peers, ", ".join(commits))
        for (gpu, date, peers), commits in found.items()) + "."]


def whole(name):
    file, target, wanted, columns = TABLES[name]
    lines = header([SHAPE] + [head for head, _ in columns])
    for row in results(file)["rows"]:
        if wanted(row["case"]):
            lines.append(line([row["label"]] + [cell(row, who)
                                                for _, who in columns]))
    return lines + origin([file], target)


def run_of(row, who):
    """Contenders that `earlier` of a row names are of another run."""
    return row.get("earlier", {}).get(who, row["run"])


def origin_of_caches(rows, columns):
    runs, found = results(CACHES)["runs"], {}  # index of the run: columns
    for head, who in columns:
        for i in {run_of(row, who) for row in rows if who in row["median"]}:
            found.setdefault(i, []).append(head)
    last = max(found)
    lines = origin_of([runs[last]], "sm_90a")
    for i in sorted(set(found) - {last}):
        lines[-1] = "%s; %s: tilec %s." % (
            lines[-1][:-1], ", ".join(found[i]), runs[i]["commit"])
    return lines


def of_caches(name):
    """Without columns of peers that took no part."""
    wanted, has, columns = CACHE_TABLES[name]
    rows = [row for row in results(CACHES)["rows"]
            if row["case"]["set"] == wanted and has(row)]
    columns = [(head, who) for head, who in columns
               if any(who in row["median"] for row in rows)]
    lines = header(["case", "limit"] + [head for head, _ in columns])
    for row in rows:
        m = row["median"]
        lines.append(line(
            [row["label"], "%.1f" % row["limit"]] +
            ["%.1f" % m[who] if who in m else "-" for _, who in columns]))
    return lines + origin_of_caches(rows, columns)


def of_kernels():
    return table_of(results(KERNELS)).split("\n") + origin([KERNELS], "sm_90a")


def made(name):
    if name in CACHE_TABLES:
        return of_caches(name)
    if name == "kernels":
        return of_kernels()
    return summary() if name == "summary" else whole(name)


def summary():
    lines = header(["computed", SHAPE, "tilec", "cuDNN", "FlexAttention"])
    for what, name, label in SUMMARY:
        row = row_of("h200_sm_90a_" + name, label)
        lines.append(line([what, label] + [speed(row, who) for who in
                                           ("tilec", "cudnn", "flex")]))
    names = dict.fromkeys("h200_sm_90a_" + name for _, name, _ in SUMMARY)
    return lines + origin(names, "sm_90a")


def with_tables(lines, left):
    """The document's lines with the tables that it should have. left: the names
    of tables that no document had so far."""
    out, i = [], 0
    while i < len(lines):
        out.append(lines[i])
        named = re.fullmatch("<!-- table: (.*) -->", lines[i])
        i += 1
        if named:
            name = named.group(1)
            left.remove(name)
            end = lines.index("<!-- end -->", i)
            out += ["", *made(name), ""]
            i = end
    return out


# ---- Sentences ----


def matrix():
    """Of FlexAttention's own benchmark."""
    found = {d: [r["median"]["flex"] / r["median"]["tilec"]
                 for r in results("h200_sm_90a_flex")["rows"]
                 if r["case"]["direction"] == d]
             for d in ("forward", "backward")}
    both = found["forward"] + found["backward"]
    return ["faster in %d of %d rows" % (sum(x > 1 for x in both), len(both)),
            *("%s: %.2f to %.2f times, median %.2f" %
              (d, min(x), max(x), statistics.median(x))
              for d, x in found.items())]


def products(name):
    return tuple(speed(row_of(name, "matmul"), who)
                 for who in ("tilec", "cublas"))


def sentences():
    small = row_of("h200_sm_80", "2x16x512x64")["median"]
    eight = row_of("h200_sm_90a_fp8", "4x16x4096x128 full")
    linear = row_of("h200_sm_90a_projected", "4x16x4096x128 projection")
    plan = row_of("h200_sm_90a_projected", "4x16x4096x128 projected")
    return [
        "4096 x 4096 x 4096: tilec %s TFLOP/s, cuBLAS %s" %
        products("h200_sm_90a_matmul"),
        "8192 x 8192 x 8192: tilec %s TFLOP/s, cuBLAS %s" %
        products("h200_sm_90a_matmul8k"),
        *matrix(),
        "takes %.1f us, FlexAttention's kernel %.1f us" %
        (small["tilec"], small["flex"]),
        "at the power limit: tilec %s TFLOP/s, cuBLAS %s" %
        products("h200_sm_80"),
        "with 30 ms of rest before each turn: tilec %s TFLOP/s, cuBLAS %s" %
        products("h200_sm_80_matmul_rested"),
        "%s TFLOP/s in the same run as these %s" %
        (speed(eight, "flex"), speed(eight, "tilec")),
        "%.0f us, with row-major v %.0f us, cuBLAS in bf16 %.0f us" %
        tuple(linear["median"][x] for x in ("tilec", "tilec_rows", "cublas")),
        "%.0f us, the bf16 plan %.0f us, and with row-major v and "
        "`--enforce=off` %.0f us" %
        tuple(plan["median"][x] for x in ("tilec", "tilec_bf16", "tilec_off")),
        "transposes v takes %.0f us" % plan["median"]["tilec_between"]]


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--write", action="store_true")
    args = p.parse_args()
    wrong, left, text = [], [*TABLES, *CACHE_TABLES, "kernels",
                                        "summary"], ""
    for path in (ROOT / "README.md", ROOT / "docs" / "performance.md"):
        lines = path.read_text(encoding="utf-8").split("\n")
        right = with_tables(lines, left)
        text += " ".join(right)
        if args.write:
            path.write_text("\n".join(right), encoding="utf-8")
        elif lines != right:
            wrong += ["%s: write the tables by test/bench/tables.py --write: "
                      "it has\n  %s" % (path.name, x)
                      for x in lines if x not in right] or [
                          "%s: rows are missing or in another order" % path]
    wrong += ["no document has the table " + name for name in left]
    text = re.sub(r"\s+", " ", text)
    wrong += ["no document says: " + s for s in sentences() if s not in text]
    print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
