#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# tilec attention: results, checks, masks and scores, inputs that are wrong.
. "$2/test/cli/expect.inc"

expect 0 attention in.st --check o_full lse_full
err_is_empty
out_has "q 1x4x128x64"
out_has "on cpu"
out_has "o against o_full: relative error"
out_has "lse against lse_full: relative error"
expect 0 attention in.st --mask=causal --check=o_causal --check lse_causal
out_has "o against o_causal"
out_has "lse against lse_causal"
# By lists of blocks; the largest scores.
expect 0 attention in.st --mask=causal --lists always --max --check o_causal \
    --check lse_causal -o max.st
grep -q '"max":{"dtype":"F32","shape":\[1,4,128\]' max.st ||
    failed "no max in the output"
expect 2 attention in.st --lists sometimes
err_has "--lists is \`sometimes\`, expected always or never"
expect 0 attention in.st --scale 0.125 --check o_full
expect 1 attention in.st --scale 0.126 --check o_full
out_has "FAILED"
expect 1 attention in.st --check o_causal
out_has "FAILED"
# A mod may capture the address of a tensor, too.
cat >first.tile <<'END'
// SPDX-License-Identifier: Apache-2.0
func @first(%b: i32, %h: i32, %q: i32, %k: i32, %p: ptr<f32>) -> i1 {
  return %k <= %q or load(%p) > inf
}
END
expect 0 attention in.st --mask 'first.tile@first(p=q)' --check o_causal
expect 1 attention in.st --check nothing
err_has "in.st: there is no tensor 'nothing'; there are "

# What is written can be read again.
expect 0 attention in.st --mask causal -o out.st
err_is_empty
cat >same.tile <<'END'
// SPDX-License-Identifier: Apache-2.0
kernel @same(%a: tensor<[?, ?, ?] x f32>, %b: tensor<[?, ?, ?] x f32>) grid(1) {
  assert size(%a, 0) == size(%b, 0) and size(%a, 2) == 128, "the sizes differ"
  %x = load %a[0, 0 +: 8, 0 +: 128] boundary(0)
  %y = load %b[0, 0 +: 8, 0 +: 128] boundary(0)
  assert all(all(abs(%x - %y) < 2e-5, axis=1), axis=0), "lse differs"
}
END
expect 0 run same.tile a=out.st:lse b=in.st:lse_causal
expect 1 run same.tile a=out.st:lse b=in.st:lse_full
err_has "same.tile:6:3: error: assertion failed: lse differs"

# Numbers of 8 bits, all of them 0 here: o has 16.
h='{"q":{"dtype":"F8_E4M3","shape":[1,1,16,16],"data_offsets":[0,256]},'
h="$h"'"k":{"dtype":"F8_E4M3","shape":[1,1,8,16],"data_offsets":[256,384]},'
h="$h"'"v":{"dtype":"F8_E5M2","shape":[1,1,8,16],"data_offsets":[384,512]}}'
{
    printf '%b' "\\0$(printf %o ${#h})\\0000\\0000\\0000\\0000\\0000\\0000\\0000"
    printf %s "$h"
    head -c 512 /dev/zero
} >narrow.st
expect 0 attention narrow.st -o out8.st
err_is_empty
grep -q '"o":{"dtype":"BF16","shape":\[1,1,16,16\]' out8.st ||
    failed "no o of type bf16 in the output"

# Masks and scores: by name, with values, combined, from a file.
expect 0 attention in.st --mask 'sliding_window(w=128)' --check o_causal
expect 0 attention in.st --mask 'causal | sliding_window(w=4)' --check o_causal
expect 0 attention in.st --mask '!(causal & !causal)' --check o_full
expect 0 attention in.st --score 'soft_cap(cap=1e6)' --mask causal
cat >mine.tile <<'END'
func @upto(%b: i32, %h: i32, %q: i32, %k: i32) -> i1 {
  return %k <= %q
}
func @same_score(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32) -> f32 {
  return %s * 2.0 / 2.0
}
func @odd(%b: i32, %h: i32) -> i1 {
  return %b == %h
}
END
expect 0 attention in.st --mask mine.tile@upto --score mine.tile@same_score \
    --check o_causal lse_causal
expect 1 attention in.st --mask mine.tile@uptoo
err_has 'there is no function `uptoo` in `mine.tile`; did you mean `upto`?'
expect 1 attention in.st --mask mine.tile@odd
err_has "odd"
expect 1 attention in.st --mask nowhere.tile@upto
err_has "nowhere.tile"
expect 1 attention in.st --mask cuasal
err_has 'did you mean `causal`?'
err_has '^'
expect 1 attention in.st --mask 'causal &'
err_has "<mask>:1:"
expect 1 attention in.st --mask document
err_has '`offsets`'

printf 'func @f(%%b: i32, %%h: i32, %%q: i32, %%k: i32) -> i1 {\n  return %%k <= %%p\n}\n' >bad.tile
expect 1 attention in.st --mask bad.tile@f
err_has "bad.tile:2:16: error:"
err_has "  return %k <= %p"

# Gradients: do is a tensor of the file; one way against the other.
cat >join.py <<'END'
import json, struct, sys
tensors = {}
for spec in sys.argv[2:]:
    path, _, names = spec.partition(":")
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    for name, info in json.loads(data[8:8 + size]).items():
        to = dict(n.split("=") for n in names.split(",") if "=" in n).get(name)
        if name == "__metadata__" or (names and not to):
            continue
        a, b = info["data_offsets"]
        tensors[to or name] = info, data[8 + size + a:8 + size + b]
at, head = 0, {}
for name, (info, data) in tensors.items():
    head[name] = dict(info, data_offsets=[at, at + len(data)])
    at += len(data)
text = json.dumps(head).encode()
text += b" " * (-len(text) % 8)
with open(sys.argv[1], "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text)
    for _, data in tensors.values():
        f.write(data)
END
expect 1 attention in.st --backward
err_has "there is no tensor 'do'"
expect 2 attention in.st --deterministic
err_has "--deterministic is for --backward"
expect 0 attention in.st --mask causal --backward --do v -o grad.st
err_is_empty
out_has "backward ran in"
python3 join.py both.st in.st grad.st:dq=dq,dk=dk_one,dv=dv_one,lse=lse_grad
expect 0 attention both.st --mask causal --backward --do v --deterministic \
    --check dq dk_one dv_one o_causal lse_causal
out_has "dq against dq: relative error"
out_has "dv against dv_one: relative error"
expect 1 attention both.st --backward --do v --check dk_one
out_has "FAILED"
expect 1 attention both.st --mask causal --backward --do v --dlse lse_grad \
    --check dq
out_has "FAILED"
expect 0 attention in.st --mask causal --backward --do v --captured \
    --score 'soft_cap(cap=20)' --option BLOCK_M1=32 -D num_warps=4 -o grad.st
python3 join.py both.st in.st grad.st:dq=dq,grad.score.cap=grad.score.cap
expect 0 attention both.st --mask causal --backward --do v --captured \
    --score 'soft_cap(cap=20)' --deterministic --check dq grad.score.cap
out_has "grad.score.cap against grad.score.cap: relative error"
# Sinks, of 16 bits too.
python3 - <<'END'
import json, struct
old = open("in.st", "rb").read()
size = struct.unpack("<Q", old[:8])[0]
head, data = json.loads(old[8:8 + size]), old[8 + size:]
wide = struct.pack("<4f", 4.5, -1, 1e30, -float("inf"))
more = {"sinks": ("F32", 4, wide), "three": ("F32", 3, wide[:12]),
        "narrow": ("BF16", 4, b"".join(wide[i:i + 2] for i in (2, 6, 10, 14))),
        "ints": ("I32", 4, wide)}
for name, (dtype, n, raw) in more.items():
    head[name] = {"dtype": dtype, "shape": [n],
                  "data_offsets": [len(data), len(data) + len(raw)]}
    data += raw
text = json.dumps(head).encode()
text += b" " * (-len(text) % 8)
with open("sinks.st", "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text + data)
END
cat >joined.tile <<'END'
// SPDX-License-Identifier: Apache-2.0
// lse is that of keys and sink; dsinks is right for do = v.
kernel @joined(%keys: tensor<[?, ?, ?] x f32>, %sinks: tensor<[?] x f32>,
               %lse: tensor<[?, ?, ?] x f32>, %o: tensor<[?, ?, ?, 64] x f32>,
               %v: tensor<[?, ?, ?, 64] x f32>, %dsinks: tensor<[?] x f32>) grid(4) {
  %h = program_id(0)
  %k = load %keys[0, %h, 0 +: 128] boundary(0)
  %x = load %lse[0, %h, 0 +: 128] boundary(0)
  %sink = %sinks[%h]
  %want = max(%k, %sink) + log(1.0 + exp(-abs(%k - %sink)))
  assert all(abs(%x - %want) < 2e-5 or %x == %want, axis=0), "lse differs"
  %ot = load %o[0, %h, 0 +: 128, 0 +: 64] boundary(0, 1)
  %vt = load %v[0, %h, 0 +: 128, 0 +: 64] boundary(0, 1)
  %d = -sum(exp(%sink - %x) * sum(%ot * %vt, axis=1), axis=0)
  assert abs(%d - %dsinks[%h]) < 1e-4, "dsinks differs"
}
END
expect 0 attention sinks.st --sinks sinks --backward --do v -o joined.st
err_is_empty
expect 0 run joined.tile keys=in.st:lse_full sinks=sinks.st:sinks \
    lse=joined.st:lse o=joined.st:o v=in.st:v dsinks=joined.st:dsinks
python3 join.py both.st sinks.st \
    joined.st:dsinks=dsinks_wide,o=o_wide,lse=lse_wide
expect 0 attention both.st --sinks sinks --backward --do v --deterministic \
    --lists always --check dsinks_wide o_wide lse_wide
out_has "dsinks against dsinks_wide: relative error"
expect 0 attention both.st --sinks narrow
expect 1 attention both.st --backward --do v --check dsinks_wide
expect 1 attention sinks.st --sinks three
err_has "argument sinks: dim 0 is 3, expected 4 (heads of q)"
expect 1 attention sinks.st --sinks ints
err_has "--sinks ints: the tensor's type is no float"
expect 1 attention sinks.st --sinks nothing
err_has "there is no tensor 'nothing'"
# The same seed drops the same weights, in kernels of other tiles, too.
expect 0 attention in.st --dropout 0.3 --seed 5 --backward --do v -o dropped.st
err_is_empty
python3 join.py both.st in.st dropped.st:o=o_dropped,dq=dq_dropped,dv=dv_dropped
expect 0 attention both.st --dropout 0.3 --seed 5 --backward --do v \
    --deterministic --option BLOCK_M=16 --check o_dropped dq_dropped dv_dropped
expect 1 attention both.st --dropout 0.3 --seed 6 --check o_dropped
expect 1 attention both.st --dropout 0.2 --seed 5 --check o_dropped
expect 0 attention in.st --dropout 0 --check o_full
expect 2 attention in.st --dropout 1.5
err_has "--dropout is \`1.5\`, expected 0 to 1, such as 0.1"
expect 2 attention in.st --dropout 0.1 --seed one
err_has "--seed is \`one\`, expected an integer of 64 bits"
expect 2 attention in.st --seed 1
err_has "--seed is for --dropout"
# Sums in a fixed order take room by the size of the gradient.
cat >distance.tile <<'END'
func @distance(%score: f32, %b: i32, %h: i32, %q: i32, %k: i32,
               %lse_full: tensor<[?, ?, ?] x f32>) -> f32 {
  return %score + %lse_full[0, %h, min(max(%k - %q + 64, 0), 127)]
}
END
expect 0 attention in.st --backward --do v --captured \
    --score distance.tile@distance -o grad.st
python3 join.py both.st in.st \
    grad.st:grad.score.lse_full=grad.score.lse_full
expect 0 attention both.st --backward --do v --captured --deterministic \
    --score distance.tile@distance --check grad.score.lse_full
out_has "grad.score.lse_full against grad.score.lse_full: relative error"
expect 0 attention in.st --mask causal --option SPLIT_KEYS=true --check o_causal lse_causal
expect 2 attention in.st --max --option SPLIT_KEYS=true
err_has "keys are not split with the largest scores"
expect 2 attention in.st --option BLOCKM=32
err_has 'there is no kernel option `BLOCKM`, did you mean `BLOCK_M`?'
expect 2 attention in.st -D BLOCK_M
err_has "-D BLOCK_M: expected NAME=VALUE"

# Files that are not there, not whole, not what they say.
expect 1 attention nowhere.st
err_has "nowhere.st: No such file or directory"
head -c 100000 "$data" >short.st
expect 1 attention short.st
err_has "short.st"
head -c 5 "$data" >tiny.st
expect 1 attention tiny.st
err_has "tiny.st"
: >empty.st
expect 1 attention empty.st
err_has "empty.st"
expect 1 attention "$source/README.md"
expect 1 attention /
expect 1 attention out.st
err_has "there is no tensor 'q'"

# --json is JSON whatever a tensor is called, and whatever the error is.
python3 - <<'END'
import json, struct
old = open("in.st", "rb").read()
size = struct.unpack("<Q", old[:8])[0]
head = json.loads(old[8:8 + size])
data = old[8 + size:]
for name in ('o"\\\n', "zero"):
    n = 4 * 4 * 128 * 64
    head[name] = {"dtype": "F32", "shape": [1, 4, 128, 64],
                  "data_offsets": [len(data), len(data) + n]}
    data += bytes(n)
text = json.dumps(head).encode()
text += b" " * (-len(text) % 8)
open("odd.st", "wb").write(struct.pack("<Q", len(text)) + text + data)
END
expect 1 attention odd.st --json --check 'o"\
' zero
python3 -c 'import json
rows = [json.loads(line) for line in open("out") if line[0] == "{"]
assert [row["reference"] for row in rows] == ["o\"\\\n", "zero"], rows
assert [row["relative_error"] for row in rows] == [None, None], rows' 2>>err ||
    failed "$last: no JSON"
finish
