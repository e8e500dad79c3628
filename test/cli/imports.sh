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

expect 2 run main.tile x=zeros:8xf32 want=16 -D act=act/twice.tile@forth
err_has "act=act/twice.tile@forth: there is no function \`forth\` in \`act/twice.tile\`; did you mean \`fourth\`?"
expect 2 run main.tile x=zeros:8xf32 want=16 -D act=act/none.tile@f
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

# A function is of its file: @half of main.tile is not that of act/common.tile,
# and nobody else's @gelu is that of kernels/std.
cat >act/gelu.tile <<'END'
import "common.tile"
func @activated(%x: f32) -> f32 {
  return @half(@gelu(%x)) // 8: gelu(8) is 8
}
END
cat >own.tile <<'END'
import "act/gelu.tile"
func @half(%x: f32) -> f32 { return %x + 1.0 }
func @gelu(%x: f32) -> f32 { return 3.0 }
kernel @k[f: func(f32) -> f32 = @half, g: func(f32) -> f32 = @gelu](%x: tensor<[?] x f32>, %want: f32) grid(1) {
  %v = load %x[0 +: 8] boundary(0)
  assert sum(call f(@activated(%v + 8.0)) + @half(call g(%v)), axis=0) == %want, "another function"
}
END
expect 0 run own.tile x=zeros:8xf32 want=72 --target cpu # (4 + 1 + 3 + 1) * 8
expect 0 run own.tile x=zeros:8xf32 want=48 --target cpu -D f=act/common.tile@half # 2 + 4
expect 0 run own.tile x=zeros:8xf32 want=72 --target cpu -D f=@half -D g=own.tile@gelu
expect 0 run own.tile x=zeros:8xf32 want=72 --target sm_90a --check-schedule
expect 0 opt -p canonicalize own.tile
out_has "func @half.1("

# Of imported files the nearer one's; of two as near none.
cat >act/third.tile <<'END'
func @half(%x: f32) -> f32 { return 5.0 }
func @quarter(%x: f32) -> f32 { return @half(%x) }
END
cat >nearer.tile <<'END'
import "act/gelu.tile"
import "act/third.tile"
kernel @k(%x: tensor<[?] x f32>, %want: f32) grid(1) {
  %v = load %x[0 +: 8] boundary(0)
  assert sum(@half(@activated(%v + 8.0)), axis=0) == %want, "another function"
}
END
expect 0 run nearer.tile x=zeros:8xf32 want=40 --target cpu
{ echo 'import "act/common.tile"'; cat nearer.tile; } >both.tile
expect 1 run both.tile x=zeros:8xf32 want=40 --target cpu
err_has "both.tile:6:14: error: @half is defined in \`act/common.tile\` and in \`act/third.tile\`: define it in this file, or rename one of the two"
err_has "act/third.tile:1:6: note: one is here"

# Of files that come along.
cat >scored.tile <<'END'
plan @p(%q: tensor<[?, ?, ?, ?] x f16>, %o: tensor<[?, ?, ?, ?] x f16>,
        %lse: tensor<[?, ?, ?] x f32>) {
  launch @attention_fwd[D=64, score_mod=@no_score](%q, %q, %q, %o, %lse)
}
END
expect 1 compile scored.tile --target cpu -o /dev/null
err_has "scored.tile:3:41: error: @no_score is not defined here, and \`attention.tile\` and \`attention_bwd.tile\` of the library have one each: define it in this file"

# A pack may be called as a kernel is, and as a pack of another file.
cat >packs.tile <<'END'
import "act/packs.tile"
params @k[f: func(f32) -> f32 = @third]
kernel @k[*@k](%x: tensor<[?] x f32>, %want: f32) grid(1) {
  %v = load %x[0 +: 8] boundary(0)
  assert sum(call f(%v + 9.0), axis=0) == %want, "another function"
}
END
cat >act/packs.tile <<'END'
params @k[T: type]
func @third[*@k](%x: T) -> T { return %x + %x + %x }
END
expect 0 run packs.tile x=zeros:8xf32 want=216 --target cpu
expect 0 run packs.tile@k x=zeros:8xf32 want=216 --target cpu

# Kernels are known outside of their file: there is one of a name.
echo 'kernel @k(%y: tensor<[?] x f32>) grid(1) { }' >act/kernel.tile
{ echo 'import "act/kernel.tile"'; cat main.tile; } >twice.tile
expect 1 run twice.tile x=zeros:8xf32 want=16
err_has "twice.tile:1:8: error: \`act/kernel.tile\` defines the kernel or plan @k, which \`twice.tile\` defines already"

# Masks and scores may be called as functions of attention are.
cat >mods.tile <<'END'
func @no_mask(%b: i32, %h: i32, %q: i32, %k: i32) -> i1 { return @keep_all(%q - %k) }
func @keep_all(%d: i32) -> i1 { return %d >= 0 }
func @no_score(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32) -> f32 { return @gelu(%s) }
END
cat >other.tile <<'END'
func @no_mask(%b: i32, %h: i32, %q: i32, %k: i32) -> i1 { return %q - %k < 64 }
END
expect 0 attention in.st --mask 'mods.tile@no_mask & other.tile@no_mask' --score mods.tile@no_score --target cpu --backward --do v -o out.st
expect 0 attention in.st --mask 'causal & sliding_window(w=64)' --score mods.tile@no_score --target cpu --backward --do v -o same.st
cmp out.st same.st || failed "mods of other names give other results"
expect 0 info mask mods.tile@no_mask --q-len 128 --kv-len 128

# A chain of many functions, each of which calls the one before it, takes little stack.
awk 'BEGIN {
  print "func @f0(%x: f32) -> f32 { return %x + 1.0 }"
  for (i = 1; i < 12000; i++)
    printf "func @f%d(%%x: f32) -> f32 { return @f%d(%%x) }\n", i, i - 1
}' >act/chain.tile
cat >chain.tile <<'END'
import "act/chain.tile"
kernel @k(%p: tensor<[?] x f32>) grid(1) {
  assert @f11999(1.0) == 2.0, "another function"
}
END
ulimit -S -s 1024
expect 0 opt chain.tile -p check-indices
finish
