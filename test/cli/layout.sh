#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# tilec info layout: tables, pictures, layouts that are wrong.
. "$2/test/cli/expect.inc"

expect 0 info layout '#mma(4x1)' 64x16
err_is_empty
out_has "#mma(4x1) of 64x16 elements of 16 bits"
out_has "lane     (0,2) (0,4) (1,0) (2,0) (4,0)"
out_has "8 elements a thread, 4 warps, each held once"
out_has "along axis 1: 2 elements"
out_has " 28:0  28:1  29:0  29:1  30:0  30:1  31:0  31:1  28:4"
[ "$(tail -64 out | wc -w)" = 1024 ] || failed "not every element is there"

expect 0 info layout '#mma(4x1)' 64x64
out_has "#rows                         4 bytes, 8-way conflicts"
out_has "#swizzle128                   4 bytes, no conflicts"

expect 0 info layout '#swizzle128' 64x64
out_has "offset   (0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (1,8) (2,16) (4,32)"
out_has "8192 bytes"
out_has "ldmatrix.x4.trans, no conflicts"
out_has "   72:4    73:4    74:5    75:5"

expect 0 info layout '#swizzle32' 176x80
out_has "11*(16,0)"
out_has "5*(0,16)"

expect 0 info layout '#slice(1 of 64, #mma(4x1))' 128 --bits 32
out_has "each held 4 times"
expect 0 info layout '#rows' 2x8x16 --bits 8
out_has "255:31"

# A picture holds each element once.
expect 0 info layout '#mma_b(1x1)' 16x8 --bits 32 -o b.svg
err_is_empty
[ "$(grep -c 'class="cell"' b.svg)" = 128 ] || failed "not every cell is there"
grep -q '<svg xmlns' b.svg && grep -q '</svg>' b.svg || failed "no picture"
expect 1 info layout '#rows' 16x8 -o nowhere/b.svg
err_has "nowhere/b.svg"

# Located errors.
expect 1 info layout '#mna(4x1)' 64x64
err_has "layout:1:1: error: layout: unknown name \`#mna\`; did you mean #mma?"
expect 1 info layout '#mma(4x1' 64x64
err_has "layout:1:9: error: layout: found the end, expected \`)\`"
expect 1 info layout '#mma(4x1) and' 64x64
err_has "layout:1:10: error: the layout has text after its end"
expect 1 info layout '#swizzle128' 64x80
err_has "the widest is #swizzle32"
expect 1 info layout '#blocked(1x8, 4x4, 4x1)' 64x80
err_has "layout:1:15: error: layout: 16 lanes, expected 32 in all"
out_is_empty

expect 2 info layout '#mma(4x1)'
err_has "expected a layout and the tile's sides"
expect 2 info layout '#mma(4x1)' 64xx64
err_has 'the sides are `64xx64`'
expect 2 info layout '#mma(4x1)' 64x64 --bits 7
err_has '--bits is `7`, expected 8, 16, 32 or 64'
finish
