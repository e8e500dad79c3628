#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# tilec attention over a cache: layouts, ragged queries, options that do not go
# together.
. "$2/test/cli/expect.inc"

# Three sequences that are the first rows of the one in in.st: their last
# queries see what those rows see under a causal mask. NaN lies elsewhere.
cat >make.py <<'END'
import array, json, math
raw = open("in.st", "rb").read()
size = int.from_bytes(raw[:8], "little")
HEADS, ROWS, D, PAGE = 4, 128, 64, 16
LENS, QUERIES = (128, 37, 1), (5, 2, 1)

def floats(name):
    first, last = json.loads(raw[8:8 + size])[name]["data_offsets"]
    return array.array("f", raw[8 + size + first:8 + size + last])

def row(x, head, n, width=D):
    at = (head * ROWS + n) * width
    return list(x[at:at + width])

def rows(x, places, width=D):
    """[heads, places, width]; a place is a row, or None."""
    return [f for h in range(HEADS) for n in places
            for f in (row(x, h, n, width) if n is not None else [math.nan] * width)]

t, data = {}, b""
def put(name, kind, shape, values):
    global data
    more = array.array("f" if kind == "F32" else "i", values).tobytes()
    t[name] = {"dtype": kind, "shape": shape,
               "data_offsets": [len(data), len(data) + len(more)]}
    data += more

def save(path):
    global t, data
    text = json.dumps(t).encode()
    text += b" " * (-len(text) % 8)
    open(path, "wb").write(len(text).to_bytes(8, "little") + text + data)
    t, data = {}, b""

x = {n: floats(n) for n in ("q", "k", "v", "o_causal", "lse_causal")}
last = [i for n, m in zip(LENS, QUERIES) for i in range(n - m, n)]

def put_queries():
    """Ragged ones, and one of each sequence."""
    for name, of, width in (("q", "q", D), ("o", "o_causal", D),
                            ("lse", "lse_causal", 1)):
        put(name, "F32", [1, HEADS, len(last)] + [D] * (width > 1),
            rows(x[of], last, width))
    put("starts", "I32", [4], [0, 5, 7, 8])
    put("lens", "I32", [3], LENS)

put_queries()
put("sinks", "F32", [HEADS], [-math.inf] * HEADS)
table = [[9, 3, 5, 0, 11, 1, 4, 8], [2, 10, 7] + [-1] * 5, [6] + [99999] * 7]
pool = [[None] * PAGE for _ in range(12)]
for b, pages in enumerate(table):
    for n in range(LENS[b]):
        pool[pages[n // PAGE]][n % PAGE] = n
for name in "kv":
    put(name, "F32", [12, HEADS, PAGE, D],
        [f for places in pool for f in rows(x[name], places)])
put("table", "I32", [3, 8], sum(table, []))
put("indptr", "I32", [4], [0, 8, 11, 12])
put("indices", "I32", [12], table[0] + table[1][:3] + table[2][:1])
put("last_len", "I32", [3], [16, 5, 1])
put("long", "I32", [3], [128, 37, 17])
put("short", "I32", [3, 8, 1], sum(table, []))
save("pages.st")

put_queries()
for name in "kv":
    put(name, "F32", [1, HEADS, sum(LENS) + 3, D],
        rows(x[name], [n for lens in LENS for n in range(lens)] + [None] * 3))
put("starts_k", "I32", [4], [0, 128, 165, 166])
save("ragged.st")

for name, of, width in (("q", "q", D), ("o", "o_causal", D),
                        ("lse", "lse_causal", 1)):
    put(name, "F32", [3, HEADS, 1] + [D] * (width > 1),
        sum([rows(x[of], [n - 1], width) for n in LENS], []))
for name in "kv":
    put(name, "F32", [3, HEADS, 130, D], sum(
        [rows(x[name], list(range(n)) + [None] * (130 - n)) for n in LENS], []))
put("lens", "I32", [3], LENS)
save("dense.st")

# Queries in the middle: all keys are there, causal hides those after them.
for name, of, width in (("q", "q", D), ("o", "o_causal", D),
                        ("lse", "lse_causal", 1)):
    put(name, "F32", [3, HEADS, 1] + [D] * (width > 1),
        sum([rows(x[of], [n - 1], width) for n in LENS], []))
for name in "kv":
    put(name, "F32", [3, HEADS, 128, D], 3 * rows(x[name], range(128)))
put("lens", "I32", [3], [128] * 3)
put("offsets", "I32", [3], [n - 1 for n in LENS])
save("middle.st")
END
python3 make.py

pages="--cu-seqlens-q starts --kv-lens lens --page-table table"
# shellcheck disable=SC2086
{
    expect 0 attention pages.st $pages --mask causal --check o lse
    err_is_empty
    out_has "q 1x4x8x64 k 12x4x16x64 v 12x4x16x64 f32, mask causal"
    out_has "o against o: relative error"
    out_has "lse against lse: relative error"
    expect 0 attention pages.st $pages --mask causal --piece 128 \
        --sinks sinks --check o lse -o out.st
    expect 1 attention pages.st $pages --check o
    out_has "FAILED"
}
grep -q '"o":{"dtype":"F32","shape":\[1,4,8,64\]' out.st || failed "no o"
grep -q '"lse":{"dtype":"F32","shape":\[1,4,8\]' out.st || failed "no lse"
expect 0 attention pages.st --cu-seqlens-q starts --kv-indptr indptr \
    --kv-indices indices --kv-last-page-len last_len --mask causal --check o lse
expect 0 attention ragged.st --cu-seqlens-q starts --cu-seqlens-k starts_k \
    --mask causal --check o lse
# One query sees all keys.
expect 0 attention dense.st --kv-lens lens --check o lse
expect 0 attention middle.st --kv-lens lens --query-offsets offsets \
    --mask causal --check o lse
expect 1 attention middle.st --kv-lens lens --mask causal --check o
# Positions are those of the sequence; a mod may capture the lengths.
cat >last.tile <<'END'
func @last(%b: i32, %h: i32, %q: i32, %k: i32, %lens: tensor<[?] x i32>) -> i1 {
  return %q == %lens[%b] - 1 and %k <= %q
}
END
expect 0 attention dense.st --kv-lens lens --mask last.tile@last --check o lse

# 8 bits: a cache as append writes it, with a factor of each row.
cat >narrow.py <<'END'
import json, sys
def load(path):
    raw = open(path, "rb").read()
    size = int.from_bytes(raw[:8], "little")
    return {n: (x["dtype"], x["shape"], raw[8 + size + x["data_offsets"][0]:
                                            8 + size + x["data_offsets"][1]])
            for n, x in json.loads(raw[8:8 + size]).items() if n[0] != "_"}
def save(path, tensors):
    t, data = {}, b""
    for name, (kind, shape, raw) in tensors.items():
        t[name] = {"dtype": kind, "shape": shape,
                   "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(t).encode()
    text += b" " * (-len(text) % 8)
    open(path, "wb").write(len(text).to_bytes(8, "little") + text + data)
x, (kind, shape, table) = load("in.st"), load("pages.st")["table"]
more = {"page_table": (kind, [1, 8], table[:32])}
if sys.argv[1] == "rows":
    more.update(k=x["k"], v=x["v"], kv_lens=(kind, [1], bytes(4)))
    for name in "kv":
        more[name + "_cache"] = ("F8_E4M3", [12, 4, 16, 64], bytes(12 * 4096))
        more[name + "_scales"] = ("F32", [12, 4, 16], bytes(12 * 256))
    save("rows.st", more)
else:
    have = load("filled.st")
    more.update(q=x["q"], k=have["k_cache"], v=have["v_cache"],
                o=x["o_causal"], lens=(kind, [1], (128).to_bytes(4, "little")))
    save("plain.st", more)
    save("factors.st", dict(more, descale_k=have["k_scales"],
                            descale_v=have["v_scales"]))
END
python3 narrow.py rows
expect 0 append rows.st -o filled.st --target cpu
python3 narrow.py cache
expect 0 attention factors.st --kv-lens lens --page-table page_table \
    --mask causal --check o
expect 1 attention plain.st --kv-lens lens --page-table page_table \
    --mask causal --check o
out_has "FAILED"

# Options.
expect 2 attention pages.st --page-table table
err_has "--kv-lens is missing: where keys lie"
expect 2 attention pages.st --kv-lens lens --cu-seqlens-k starts
err_has "--kv-lens does not go with the other options that say where keys lie"
expect 2 attention pages.st --kv-lens lens --backward
err_has "--backward: attention over a cache has none"
expect 2 attention in.st --piece 128
err_has "--piece is for keys in a cache"
expect 2 attention dense.st --kv-lens lens --piece many
err_has "--piece is \`many\`, expected a number of keys"
expect 2 attention dense.st --kv-lens lens --piece 100
err_has "piece is no multiple of 128 keys"
# Tensors.
expect 1 attention dense.st --kv-lens nothing
err_has "there is no tensor 'nothing'"
expect 1 attention dense.st --kv-lens lse
err_has "kv_lens: rank is 3, expected 1"
expect 1 attention pages.st --kv-lens lens --page-table short
err_has "page_table: rank is 3, expected 2"
expect 1 attention pages.st --cu-seqlens-q starts --kv-lens sinks \
    --page-table table
err_has "kv_lens: data type is f32, expected i32"
expect 1 attention pages.st --target cpu --cu-seqlens-q starts --kv-lens long \
    --page-table table
err_has "assertion failed: a key of the sequence is in no page"
finish
