#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# import, and functions of other files in -D.
. "$2/test/cli/expect.inc"

mkdir act
cat >act/common.tile <<'END'
func @half(%x: f32) -> f32 {
  return %x * 0.5
}
END
cat >act/twice.tile <<'END'
import "common.tile"
func @fourth(%x: f32) -> f32 {
  return @half(@half(%x))
}
// In nobody's way: only what is mentioned is taken.
kernel @other(%x: tensor<[?] x f32>) grid(1) {
  store %x[0 +: 8], splat(0.0, tile<8 x f32>) boundary(0)
}
func @nonsense(%x: f32) -> f32 {
  return no_such_op(%x)
}
END
cat >main.tile <<'END'
import "act/twice.tile"
import "./act/../act/common.tile" // there already
kernel @k[act: func(f32) -> f32 = @fourth](%x: tensor<[?] x f32>, %want: f32) grid(1) {
  %v = load %x[0 +: 8] boundary(0)
  assert sum(call act(%v + 8.0), axis=0) == %want, "another function"
}
END
expect 0 run main.tile x=zeros:8xf32 want=16 --target cpu
expect 0 run main.tile x=zeros:8xf32 want=32 --target cpu -D act=act/common.tile@half
expect 0 run main.tile x=zeros:8xf32 want=16 --target cpu -D act=act/twice.tile@fourth
expect 0 run main.tile x=zeros:8xf32 want=16 --target sm_80 --check-schedule
expect 0 compile main.tile --target sm_90a --emit=tile -o -
out_has "kernel @k"
# From another folder: a path is relative to the text that has it.
cd act
expect 0 run ../main.tile x=zeros:8xf32 want=16 --target cpu
cd ..

expect 1 run main.tile x=zeros:8xf32 want=16 -D act=act/twice.tile@forth
err_has "act=act/twice.tile@forth: there is no function \`forth\` in \`act/twice.tile\`; did you mean \`fourth\`?"
expect 1 run main.tile x=zeros:8xf32 want=16 -D act=act/none.tile@f
err_has "act=act/none.tile@f: \`act/none.tile\` cannot be read"
expect 1 run main.tile x=zeros:8xf32 want=16 -D act=act/twice.tile@nonsense
err_has "act/twice.tile:10:10: error: there is no op \`no_such_op\`"

# Says where, and does not go round in circles.
{ echo 'import "none.tile"'; cat main.tile; } >none_of.tile
expect 1 run none_of.tile x=zeros:8xf32 want=16
err_has "none_of.tile:1:8: error: \`none.tile\` cannot be read"
{ echo '// 1'; echo 'import   "circle.tile"'; cat main.tile; } >circle.tile
expect 1 run circle.tile x=zeros:8xf32 want=16
err_has "circle.tile:2:10: error: \`circle.tile\` imports this file, too"
{ echo 'import "act/common.tile"'; echo 'func @half(%x: f32) -> f32 { return %x }'; cat main.tile; } >same.tile
expect 1 run same.tile x=zeros:8xf32 want=16
err_has "same.tile:1:8: error: \`act/common.tile\` defines @half, which \`same.tile\` defines already"
{ echo 'import common'; cat main.tile; } >bare.tile
expect 1 run bare.tile x=zeros:8xf32 want=16
err_has 'bare.tile:1:8: error: expected a file, as "name.tile", found `common`'

# Masks that are files import, too.
cat >mask.tile <<'END'
import "act/later.tile"
func @seen(%batch: i32, %head: i32, %query: i32, %key: i32) -> i1 {
  return @later(%query, %key)
}
END
cat >act/later.tile <<'END'
func @later(%query: i32, %key: i32) -> i1 {
  return %query >= %key
}
END
expect 0 info mask mask.tile@seen --q-len 128 --kv-len 128
