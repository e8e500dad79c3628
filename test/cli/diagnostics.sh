#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Diagnostics as JSON, and which remarks are shown.
. "$2/test/cli/expect.inc"

# json EXPRESSION: holds of `all`, the objects on stderr, one a line.
json() {
    python3 -c 'import json, sys
all = [json.loads(line) for line in open("err")]
assert eval(sys.argv[1]), all' "$1" 2>>out || failed "$last: not so: $1"
}

cat >wrong.tile <<'END'
kernel @k(%x: tensor<[?, ?] x f32>) grid(1) {
  %t = laod %x[0 +: 8, 0 +: 64] boundary(0, 1)
  %t = load %x[0 +: 8, 0 +: 64] boundary(0, 1)
  %t = load %x[0 +: 8, 0 +: 64] boundary(0, 1)
}
END
expect 1 compile wrong.tile
err_has "  %t = laod %x[0 +: 8, 0 +: 64] boundary(0, 1)"
grep -qx '       ^~~~' err || failed "$last: the name is not underlined"
expect 1 compile wrong.tile --diagnostics=json
out_is_empty
json 'all[0]["severity"] == "error" and "laod" in all[0]["message"]'
json '(all[0]["file"], all[0]["line"], all[0]["column"]) == ("wrong.tile", 2, 8)'
json 'all[0]["end_column"] == 12'
json 'any(n["severity"] == "note" and n["line"] for d in all for n in d["notes"])'
for command in attention run compile inspect opt bench tune cache info quantize append; do
    expect 2 $command --nonsense --diagnostics json
    err_has "tilec $command: unknown option --nonsense"
    expect 2 $command --diagnostics json --nonsense
    json 'len(all) == 1 and "unknown option --nonsense" in all[0]["message"]'
    expect 2 $command --diagnostics xml
    err_has "--diagnostics is \`xml\`, expected text or json"
done
expect 1 attention missing.st --diagnostics json
json 'all[0]["severity"] == "error" and "missing.st" in all[0]["message"]'
expect 1 opt wrong.tile --diagnostics json
json 'all[0]["line"] == 2'
expect 0 run softmax x=zeros:8x64xf32 y=like:x --diagnostics json
json 'all[-1]["severity"] == "note" and "grid" in all[-1]["message"]'

# Faster ways not taken, or all that was done too.
cat >scaled.tile <<'END'
kernel @scaled(%x: tensor<[?, ?] x f16>, %s: tensor<[?] x f16>,
               %w: tensor<[?, ?] x f16>, %y: tensor<[?, ?] x f32>) grid(1)
{
  %sum = for %k = 0 to size(%x, 1) step 64 carry(%a = splat(0.0, tile<64x64 x f32>)) {
    %xt = load %x[0 +: 64, %k +: 64] boundary(0, 1) pad(1.0)
    %wt = load %w[%k +: 64, 0 +: 64] boundary(0, 1)
    %st = load %s[%k +: 64] boundary(0)
    yield dot(%xt * %st, %wt, %a)
  }
  store %y[0 +: 64, 0 +: 64], %sum boundary(0, 1)
}
END
compile="compile scaled.tile --target sm_80 --emit=ptx -o x.ptx"
expect 0 $compile --remarks
err_has "load of %x not pipelined"
! grep -q "load of %w pipelined" err || failed "$last: what was done is shown"
err_has "more remarks, on what was done: --remarks=all"
cp err missed
expect 0 $compile --remarks=missed
cmp -s err missed || failed "--remarks=missed is not --remarks"
expect 0 $compile --remarks=all
err_has "load of %w pipelined"
missed=$(grep -n "load of %x not pipelined" err | cut -d: -f1)
done=$(grep -n "load of %w pipelined" err | cut -d: -f1)
[ "$missed" -lt "$done" ] || failed "what was missed does not come first"
expect 0 $compile --remarks=all --diagnostics=json
json 'any(d["missed"] for d in all) and any(not d["missed"] for d in all)'
json 'all[0]["pass"] and all[0]["severity"] == "remark"'
expect 2 $compile --remarks=some
err_has "--remarks is \`some\`, expected missed or all"

# What long work is at, in a log.
expect 0 tune matmul --target sm_80 --dry-run --progress 0.000001 \
    a=zeros:64x64xbf16 b=zeros:64x64xbf16 c=zeros:64x64xbf16 \
    --sweep BM=64 --sweep BN=64,128
err_has "2 of 2: BM=64 BN=128"
expect 0 tune matmul --target sm_80 --dry-run --progress 0 \
    a=zeros:64x64xbf16 b=zeros:64x64xbf16 c=zeros:64x64xbf16 \
    --sweep BM=64 --sweep BN=64,128
err_is_empty
expect 2 tune matmul --progress soon
err_has "--progress is \`soon\`, expected seconds, 0 or more"

# What a mod's argument or a file is not.
expect 2 attention in.st -o o.st --mask 'sliding_window(w=foo)'
err_has "argument mask.foo of @attention_fwd is missing: i32"
err_has "\`mod(foo=8)\` (or 8 for \`foo\` in \`=foo\`)"
expect 1 attention "$source/README.md" -o o.st
err_has "the first 8 bytes are no length of a header"
err_has "is this a safetensors file?"
finish
