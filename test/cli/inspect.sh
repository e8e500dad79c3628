#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# tilec inspect: loads and products of kernels; --enforce.
. "$2/test/cli/expect.inc"

# A line of the table, its blanks squeezed.
row() {
    tr -s ' ' <out | grep -qF -- " $1" || failed "$last: no row: $1"
}

expect 0 inspect attention_fwd -D T=bf16 -D D=128 -D DV=128 --target sm_90a
err_is_empty
out_has "@attention_fwd for sm_90a: 8 warps"
out_has "loads of the hot loop, line "
row "%k 128x128 bf16 256 B 128 B TMA copy, ring of 2 #swizzle128 wgmma none"
row "%v 128x128 bf16 256 B 128 B TMA copy, ring of 2 #swizzle128 wgmma none"
out_has "no TMA copy: it happens under a condition"
row "128x128x128 bf16 x bf16 m64k16, async registers K-major any order"
row "128x128x128 bf16 x bf16 m64k16, async registers N-major any order"
# The careful path is no hot loop, however deep.
hot=$(sed -n '/hot loop/,/outside/p' out | grep -c ' bf16 ')
[ "$hot" = 2 ] || failed "$hot loads in the hot loop, expected 2"

# Bytes: along the keys they are what the product wants.
expect 0 inspect attention_fwd -D T=f8e4m3 -D D=128 -D BN=64 -D V_CONTIG_DIM=2 --target sm_90a
err_is_empty
row "%v 64x128 f8e4m3 64 B 64 B TMA copy, ring of 2 #swizzle64(order(0, 1)) wgmma none"
row "128x128x64 f8e4m3 x f8e4m3 m64k32, async registers K-major K-major only"
# A picture: pieces of 16 keys, columns of 64 bytes, two a line.
row "%v, 64x128 f8e4m3 as #swizzle64(order(0, 1))"
row "0,0 16,0 32,0 48,0 0,1 16,1 32,1 48,1"
row "16,2 0,2 48,2 32,2 16,3 0,3 48,3 32,3"

expect 0 inspect attention_bwd@attention_bwd -D T=bf16 -D D=128 -D DV=128 \
    --target sm_80
row "%q 32x128 bf16 256 B 16 B async copy, ring of 2 #swizzle128"
out_has "not asynchronous: it is also used in registers"
hot=$(sed -n '/hot loop/,/outside/p' out | grep -c 'async copy, ring of 2')
[ "$hot" = 2 ] || failed "$hot copies in the hot loop, expected 2"

# Pointers a row apart, and no product.
cat >column.tile <<'END'
kernel @column(%x: tensor<[64, 1024] x f32>, %y: tensor<[1024] x f32>) grid(1) {
  %sum = for %i = 0 to 1024 step 64 carry(%s = splat(0.0, tile<64 x f32>)) {
    %t = load %x[%i +: 64, 0]
    yield %s + %t
  }
  store %y[0 +: 64], %sum
}
END
expect 0 inspect column.tile --target sm_80 -o table
out_is_empty
mv table out
row "3 %x 64 f32 4 B 4 B synchronous registers: #blocked(1, 32, 2) -"
out_has "not asynchronous: its tile is used in registers"

# Bytes across K: a warning, nothing, or an error.
cat >bytes.tile <<'END'
kernel @bytes(%a: tensor<[?, 64] x f8e4m3>, %b: tensor<[?, 64] x f8e4m3>,
              %c: tensor<[64, 64] x f32>, %n: i32) grid(1) {
  %a0 = load %a[0 +: 64, 0 +: 64] boundary(0)
  %sum = for %i = 0 to %n step 64 carry(%s = splat(0.0, tile<64x64 x f32>)) {
    %b0 = load %b[%i +: 64, 0 +: 64] boundary(0)
    yield dot(%a0, %b0, %s)
  }
  store %c[0 +: 64, 0 +: 64], %sum
}
END
expect 0 inspect bytes.tile --target sm_89
err_has "bytes.tile:6:11: warning: dot: operand B, a tile of %b, is read from shared memory byte by byte"
err_has "bytes.tile:5:11: note: remedies: "
row "5 %b 64x64 f8e4m3 64 B 16 B async copy, ring of 4 #swizzle64"
row "6 64x64x64 f8e4m3 x f8e4m3 m16n8k32 registers N-major K-major only"
expect 0 compile bytes.tile --target sm_89 --emit=ptx -o bytes.ptx
err_has "byte by byte: m16n8k32 wants"
expect 0 compile bytes.tile --target sm_89 --enforce=off --emit=ptx -o off.ptx
err_is_empty
cmp -s bytes.ptx off.ptx || failed "--enforce changes code"
# Kept by the run before, and it warns all the same.
expect 0 compile bytes.tile --target sm_89 --emit=ptx -o bytes.ptx
err_has "warning: dot: operand B"
# What TMA copies is transposed on the way, if it may be.
expect 0 inspect bytes.tile --target sm_90a --enforce=error
err_is_empty
row "5 %b 64x64 f8e4m3 64 B 64 B TMA copy, ring of 16 #swizzle64 -"
row "transposed on the way: to #swizzle64(order(0, 1)), 65536 bytes, as products take nothing else"
row "6 64x64x64 f8e4m3 x f8e4m3 m64k32, async registers K-major K-major only"
expect 0 inspect bytes.tile --target sm_90a --enforce=off
row "6 64x64x64 f8e4m3 x f8e4m3 m16n8k32 registers N-major K-major only"
expect 1 compile bytes.tile --target sm_89 --enforce=error --emit=ptx
err_has "error: dot: operand B, a tile of %b"
err_has "note: remedies: "
out_is_empty
expect 0 compile bytes.tile --target sm_90a --enforce=off --remarks --emit=ptx \
    -o off.ptx
err_has "remark: dot: operand B, a tile of %b, is read"

# Documents of other commands become members.
expect 0 info mask causal --q-len 300 --json -o mask.json
expect 0 compile matmul --target sm_80 --emit=timeline -o time.json
expect 0 inspect matmul --target sm_80 --json --mask mask.json --profile time.json
err_is_empty
out_has '"mask":{"schema":"tilec.mask"'
out_has '"measured":{"schema":"tilec.timeline"'
out_has '"timeline":{"schema":"tilec.timeline","version":1,"source":"model"'
wanted='an object with the schema tilec.mask, version 1'
expect 1 inspect matmul --target sm_80 --json --mask time.json
err_has 'time.json: expected the output of `tilec info mask .. --json` for --mask'
err_has "$wanted"
out_is_empty
expect 1 inspect matmul --target sm_80 -o page.html --profile mask.json
err_has 'mask.json: expected the output of `tilec profile .. --json` for --profile'
[ ! -e page.html ] || failed "a page is written in spite of an error"
for wrong in 's/$/ x/' 's/}$//' 's/"version":1/"version":2/' 's/.*//'; do
    sed "$wrong" mask.json >wrong.json
    expect 1 inspect matmul --target sm_80 --json --mask wrong.json
    err_has "$wanted"
done
expect 1 inspect matmul --target sm_80 --json --mask nowhere.json
err_has "nowhere.json"

expect 2 inspect
err_has "expected one program"
expect 2 inspect matmul --target cpu
err_has "cpu has no shared memory to show: expected a GPU target"
expect 2 inspect attention@attention_forward -D D=128 --target sm_80
err_has "is a plan: name one of its kernels"
expect 1 inspect nowhere.tile --target sm_80
finish
