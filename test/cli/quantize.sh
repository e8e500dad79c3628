#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# tilec quantize, and attention on numbers of 8 bits.
. "$2/test/cli/expect.inc"

expect 0 quantize in.st -o narrow.st
err_is_empty
out_is_empty
for tensor in q k v; do
    grep -q "\"$tensor\":{\"dtype\":\"F8_E4M3\",\"shape\":\[1,4,128,64\]" \
        narrow.st || failed "no $tensor of 8 bits"
    grep -q "\"descale_$tensor\":{\"dtype\":\"F32\",\"shape\":\[1,4\]" \
        narrow.st || failed "no descale_$tensor"
done
expect 0 attention narrow.st --check o_full lse_full -o out.st
err_is_empty
out_has "f8e4m3, mask none"
out_has "(relative at most 0.1)"
out_has "(absolute at most 1.5)"
grep -q '"o":{"dtype":"BF16"' out.st || failed "o is not of type bf16"
expect 0 attention narrow.st --mask causal --lists always --check o_causal
expect 1 attention narrow.st --check o_causal
out_has "FAILED"

# In one go, v by columns: nothing else differs.
expect 0 attention in.st --quantize f8e4m3 --check o_full -o same.st
cmp -s out.st same.st || failed "o differs from that of tilec quantize"

# Factors of blocks; the other type; rotated; a quantised cache.
expect 0 quantize in.st -o blocks.st --type f8e5m2 --rows 32 --rotate
grep -q '"descale_k":{"dtype":"F32","shape":\[1,4,4\]' blocks.st ||
    failed "no factors of blocks"
expect 0 attention blocks.st --check o_full
expect 0 quantize in.st -o cache.st --cache
grep -q '"q":{"dtype":"F32"' cache.st || failed "q was not left alone"
expect 0 attention cache.st --check o_full
expect 1 quantize narrow.st -o again.st
err_has "q has 4 dims of f8e4m3, expected [batch, heads, length, dim] of f16, bf16 or f32"

# Without its factors a file means something else.
expect 0 quantize in.st -o cache.st --cache --type f8e5m2
sed 's/descale_k/descaleXk/' cache.st >broken.st
expect 1 attention broken.st --check o_full
out_has "FAILED"

# What is wrong.
expect 2 quantize in.st
err_has "-o is missing"
expect 2 quantize in.st other.st
err_has "expected one file, found 2 words"
expect 2 quantize in.st -o a.st --type f16
err_has "the type is \`f16\`, expected f8e4m3 or f8e5m2"
expect 2 quantize in.st -o a.st --rows 48
err_has "--rows is \`48\`, expected 16, 32, 64 or 128"
expect 2 quantize in.st -o a.st --cache --rotate
err_has "--rotate is for q and k alike"
expect 1 quantize nothing.st -o a.st
expect 1 quantize out.st -o a.st
err_has "there is no tensor 'q'"
expect 2 attention in.st --rotate
err_has "--rotate is for --quantize"
expect 2 attention in.st --quantize bf16
err_has "expected f8e4m3 or f8e5m2"
expect 2 attention in.st --quantize f8e4m3 --backward --do v
err_has "no gradients of numbers of 8 bits"
expect 2 attention in.st --enforce maybe
err_has "--enforce is \`maybe\`, expected off, warn or error"

# Heads that attention does not take.
python3 - <<'END'
import json, struct
for name, dim in ("none.st", 0), ("wide.st", 1 << 40):
    head = json.dumps({n: {"dtype": "F32", "shape": [1, 1, 0, dim],
                           "data_offsets": [0, 0]} for n in "qkv"}).encode()
    open(name, "wb").write(struct.pack("<Q", len(head)) + head)
END
expect 1 quantize none.st -o a.st
err_has "dim 3 of q is 0, expected 1 to 1024 to quantise"
expect 1 attention wide.st --quantize f8e4m3
err_has "dim 3 of q is 1099511627776, expected 1 to 1024 to quantise"

# Zeros stay zeros beside the smallest numbers, whose factor would be 0.
python3 - <<'END'
import json, struct
head = json.dumps({n: {"dtype": "F32", "shape": [1, 1, 16, 16],
                       "data_offsets": [1024 * i, 1024 * i + 1024]}
                   for i, n in enumerate("qkv")}).encode()
open("tiny.st", "wb").write(struct.pack("<Q", len(head)) + head +
                            3 * struct.pack("<256f", 1e-45, *[0] * 255))
END
for more in '' '--rows 16' '--rotate' '--type f8e5m2'; do
    expect 0 quantize tiny.st -o tiny8.st $more
    python3 -c 'import json, struct
data = open("tiny8.st", "rb").read()
size = struct.unpack("<Q", data[:8])[0]
head = json.loads(data[8:8 + size])
for name in "qkv":
    a, b = head[name]["data_offsets"]
    assert not any(data[8 + size + a:8 + size + b]), name
    a, b = head["descale_" + name]["data_offsets"]
    assert struct.unpack("<f", data[8 + size + a:8 + size + b]) == (1,)' \
        2>>err || failed "$last: there is more than zeros"
done
finish
