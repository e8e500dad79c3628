#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# tilec run and tilec compile: arguments of all kinds, outputs, errors.
. "$2/test/cli/expect.inc"

cat >fill.tile <<'END'
// Two kernels, so that one has to be named.
kernel @fill[T: type](%x: tensor<[?] x T>, %value: T, %n: i32) grid(cdiv(size(%x, 0), 16)) {
  assert %n >= 0, "n is negative"
  %i = program_id(0) * 16
  store %x[%i +: 16], splat(%value, tile<16 x T>) boundary(0)
}
kernel @add(%a: tensor<[?] x f32>, %b: tensor<[?] x f32>, %c: tensor<[?] x f32>) grid(cdiv(size(%a, 0), 16)) {
  %i = program_id(0) * 16
  %x = load %a[%i +: 16] boundary(0)
  %y = load %b[%i +: 16] boundary(0)
  store %c[%i +: 16], %x + %y boundary(0)
}
kernel @is[value: int](%x: tensor<[?] x f32>) grid(1) {
  %x0 = load %x[0 +: 16] boundary(0) pad(0.0)
  %ok = abs(sum(%x0, axis=0) - cast(value, f32)) < 0.001
  print "sum", sum(%x0, axis=0)
  assert %ok, "another sum"
}
END

expect 0 run fill.tile@fill x=zeros:10xf32 value=1.5 n=0 -o x=x.st
expect 0 run fill.tile@fill x=zeros:10xf32 value=-inf n=0
expect 0 run fill.tile@fill x=zeros:10xi32 value=0x10 n=0
expect 0 run fill.tile@add a=x.st:x b=x.st:x c=like:a -o c=sum.st
expect 0 run fill.tile@is -D value=30 x=sum.st:c
out_has "sum"
out_has "30"
expect 1 run fill.tile@is -D value=31 x=sum.st:c
err_has "another sum"
err_has "fill.tile:"

# The text of a print is the same on all targets.
cat >shown.tile <<'END'
kernel @shown(%x: tensor<[?, ?] x f32>, %w: tensor<[?] x u8>) grid(1) {
  %v = load %x[0 +: 24, 0 +: 40] boundary(0, 1)
  for %i = 0 to 2 {
    print "100%", %i, cast(%v, f16) + cast(%i, f16), 1.0 / 3.0, %v < 1.0
  }
  print "codes", load(%w[0 +: 16]), 0.0 / 0.0
}
END
expect 0 run shown.tile x=random:24x40xf32 w=random:16xu8 --target cpu
grep -v 'grid 1x1x1' out >shown.cpu
[ "$(wc -l <shown.cpu)" -eq 100 ] || failed "$last: lines"
for target in sm_80 sm_90a; do
    expect 0 run shown.tile x=random:24x40xf32 w=random:16xu8 --target $target \
        --check-schedule
    grep -v 'has no races' out >shown.$target
    cmp -s shown.cpu shown.$target || failed "$last: not as the CPU's"
done

# Plans: the kernels one after the other, in host memory.
cat >plan.tile <<'END'
kernel @rows[BM: int = 16](%x: tensor<[?, ?] x i32>, %s: tensor<[?] x i32>) grid(cdiv(size(%x, 0), BM)) {
  %m = program_id(0) * BM
  %sum = for %n = 0 to size(%x, 1) step 64 carry(%a = splat(0, tile<BM x i32>)) {
    yield %a + sum(load(%x[%m +: BM, %n +: 64], boundary=[0, 1]), axis=1)
  }
  store %s[%m +: BM], %sum boundary(0)
}
kernel @add(%s: tensor<[?] x i32>, %y: tensor<[?] x i32>, %limit: i32) grid(cdiv(size(%y, 0), 64)) {
  %i = program_id(0) * 64
  %v = load %s[%i +: 64] boundary(0)
  assert %v < %limit, "a sum is at the limit"
  store %y[%i +: 64], load(%y[%i +: 64], boundary=0) + %v boundary(0)
}
plan @sums(%x: tensor<[?, ?] x i32>, %y: tensor<[?] x i32>, %limit: i32) {
  %s = workspace size(%x, 0) : tensor<[?] x i32>
  fill %y value(7)
  launch @rows(%x, %s)
  if size(%x, 0) > 10 { launch @add(%s, %y, %limit) }
  launch @add(%s, %y, %limit * 2)
}
END
expect 0 run plan.tile x=random:20x70xi32 y=zeros:20xi32 limit=10000 --target cpu -o y=cpu.st
for target in sm_80 sm_90a; do
    expect 0 run plan.tile x=random:20x70xi32 y=zeros:20xi32 limit=10000 \
        --target $target --check-schedule -o y=gpu.st
    err_has "sums: the schedules of 3 launches for $target have no races"
    cmp -s cpu.st gpu.st || failed "$last: not as the CPU's"
done
expect 0 run plan.tile x=random:8x70xi32 y=zeros:8xi32 limit=10000 --target sm_80 --check-schedule
err_has "the schedules of 2 launches"
expect 1 run plan.tile x=random:20x70xi32 y=zeros:20xi32 limit=3 --target sm_80 --check-schedule
err_has "a sum is at the limit"
expect 2 run plan.tile x=random:20x70xi32 limit=3 --target sm_80 --check-schedule
err_has "argument y of @sums is missing: tensor<[?] x i32>"
expect 2 run plan.tile x=random:20x70xi32 y=zeros:20xi32 limit=3 --target cpu --check-schedule
err_has "--check-schedule is for GPU targets"

# The same numbers in another order.
cat >turned.tile <<'END'
kernel @turned[C: int](%x: tensor<[?, ?] x f32, contiguous(C)>, %y: tensor<[?, ?] x f32>) grid(1) {
  assert stride(%x, 1) == cast(select(C == 1, 1, size(%x, 0)), i64), "C is not the closest dim"
  %v = load %x[0 +: 8, 0 +: 32] boundary(0, 1)
  store %y[0 +: 8, 0 +: 32], %v boundary(0, 1)
}
END
expect 0 run turned.tile x=random:8x32xf32 y=zeros:8x32xf32 -o y=rows.st
expect 0 run turned.tile x=random:8x32xf32:order\(1,0\) y=zeros:8x32xf32 -o y=columns.st
cmp -s rows.st columns.st || failed "order(1,0) changes numbers"
expect 0 run turned.tile x=random:8x32xf32:order\(1,0\) y=zeros:8x32xf32 --target sm_80 --no-cache --check-schedule -o y=columns.st
cmp -s rows.st columns.st || failed "contiguous(0) changes numbers"
expect 1 run turned.tile -D C=1 x=random:8x32xf32:order\(1,0\) y=zeros:8x32xf32
err_has "C is not the closest dim"
for order in 'order(1)' 'order(0,0)' 'order(0,2)' 'order(0,1' 'order(0,1)1' 'odd(0,1)'; do
    expect 2 run turned.tile "x=random:8x32xf32:$order" y=zeros:8x32xf32
    err_has "random:8x128xf32, the same with :order(1,0)"
done
expect 0 run turned.tile x=random:8x32xf32 "y=zeros:8x32xf32:order(1,0)" -o y=columns.st
cmp -s rows.st columns.st || failed "a file is not row-major"
expect 2 bench turned.tile x=random:8x32xf32 "y=zeros:8x32xf32:order(1,0)" --target cpu
err_has "argument \`y\`: @turned writes it, expected no order"

# A GPU's schedule, on the host.
expect 0 run fill.tile@add a=x.st:x b=x.st:x c=like:a --target sm_80 --no-cache --check-schedule -o c=sched.st
err_has "has no races"
expect 0 run fill.tile@is -D value=30 x=sched.st:c
expect 0 run matmul a=zeros:40x33xbf16 b=zeros:33x40xbf16 c=zeros:40x40xf32 --target sm_80 --no-cache --check-schedule
# What the kernel does not look at (%max) may be missing, as in a launch.
expect 0 run attention_fwd q=random:1x2x70x64xbf16 k=random:1x1x70x64xbf16 v=like:k o=like:q lse=zeros:1x2x70xf32 scale=0.1 -D mask_mod=@causal --target sm_90a --no-cache --check-schedule
err_has "has no races"
expect 0 compile matmul -D T=bf16 --target sm_90a --no-cache --emit machine -o machine.tile
expect 1 run machine.tile a=zeros:40x33xbf16 b=zeros:33x40xbf16 c=zeros:40x40xbf16 --target sm_90a --no-cache --check-schedule
err_has "strides of multiples of 16 bytes"
expect 1 run fill.tile@add a=x.st:x b=x.st:x --target sm_80 --no-cache --check-schedule
err_has "argument c is missing"
expect 2 run fill.tile@add a=x.st:x b=x.st:x c=like:a --target cpu --check-schedule
err_has "for GPU targets"
# A pointer goes to a tensor, and not beyond it.
cat > pointers.tile <<'END'
kernel @copy(%x: ptr<f32>, %y: ptr<f32>, %n: i32) grid(cdiv(%n, 64)) {
  %i = program_id(0) * 64 + range(64)
  store %y + %i, load(%x + %i, %i < %n), %i < %n
}
END
expect 0 run pointers.tile x=random:10x10xf32 y=zeros:100xf32 n=100 --target sm_80 --no-cache --check-schedule -o y=copy.st
expect 0 run pointers.tile x=random:10x10xf32 y=zeros:100xf32 n=100 -o y=host.st
cmp -s copy.st host.st || failed "pointers: other results"
expect 1 run pointers.tile x=random:10x10xf32 y=zeros:100xf32 n=101 --target sm_80 --no-cache --check-schedule
err_has "load: reads an address outside of all tensors, in program (1, 0, 0)"

expect 2 run fill.tile x=zeros:10xf32 value=1 n=0
err_has "there are several kernels, name one: @fill, @add, @is"
expect 2 run fill.tile@fil x=zeros:10xf32
err_has 'there is no kernel @fil; did you mean @fill?'
expect 2 run fill.tile@fill x=zeros:10xf32 value=1
err_has "argument n of @fill is missing: i32"
expect 2 run fill.tile@fill x=zeros:10xf32 value=1 n=0 extra=2
err_has '`extra`'
expect 1 run fill.tile@fill x=zeros:10xf32 value=1 n=1.5
err_has "argument n: is a float, expected an integer"
expect 1 run fill.tile@fill x=zeros:2x5xf32 value=1 n=0
err_has "argument x: rank is 2, expected 1"
expect 1 run fill.tile@fill x=nowhere.st value=1 n=0
err_has "nowhere.st: No such file or directory"
expect 1 run fill.tile@fill x=in.st:nothing value=1 n=0
err_has "there is no tensor 'nothing'"
expect 1 run nowhere.tile x=1
err_has "nowhere.tile: No such file or directory"
expect 1 run fill.tile@is -D value=x x=sum.st:c
err_has "value"
expect 1 run fill.tile@is x=sum.st:c
err_has '`value`'
expect 2 run fill.tile@fill x=zeros:10xf32 value=1 n=0 -o y=y.st
err_has "y"

# Embedded programs.
expect 0 run softmax x=zeros:3x7xf32 y=like:x -o y=y.st
expect 0 run matmul a=zeros:3x7xf16 b=zeros:7x5xf16 c=zeros:3x5xf16
expect 1 run matmul a=zeros:3x7xf16 b=zeros:8x5xf16 c=zeros:3x5xf16

for what in tile llvm asm json; do
    expect 0 compile softmax --emit=$what
    err_is_empty
    [ -s out ] || failed "$last: nothing on stdout"
    expect 0 compile attention_fwd -D D=40 -D T=f16 --emit $what -o it.$what
    out_is_empty
    [ -s it.$what ] || failed "$last: nothing in the file"
done
expect 0 opt it.tile
expect 1 compile attention_fwd
err_has '`D`'
expect 1 compile softmax -D T=f31
err_has "expected an element type"
expect 1 compile softmax -D Tt=f32
err_has 'Tt'
expect 2 compile softmax -D T
expect 1 compile in.st
# With a byte order mark.
printf '\357\273\277kernel @k() grid(1) { }' >mark.tile
expect 0 run mark.tile
# Programs that go through all tiles, as for grids that are too long.
expect 0 run softmax x=random:30x70xf32 y=like:x --target sm_80 --tiles static \
    --check-schedule
err_has "has no races"
expect 2 compile softmax --print-after=cce
err_has "there is no pass \`cce\`, did you mean \`cse\`?"
expect 2 run softmax x=zeros:3x4xf32 y=like:x --print-after=cse,nothing
expect 1 compile softmix
err_has "\`tilec info kernels\` lists the programs that come with tilec"
expect 1 run softmx
err_has "did you mean \`softmax\`? \`tilec info kernels\` lists"
expect 1 compile /dev/zero
err_has "/dev/zero: File too large"
# The last kernel of the gradients fits the widest heads.
expect 0 compile attention_bwd@attention_bwd_post -D D=1024 -D T=f32 \
    --target sm_80 --emit=machine -o it.tile
expect 0 compile attention_bwd@attention_bwd_post -D D=768 -D T=f32 \
    --target sm_86 --emit=machine -o it.tile
expect 0 compile softmax --print-after=cse --time-passes -o it.tile
err_has "cse"

# Sizes whose product no machine has, and files of many dims.
for shape in 65536x65536x65536x65536 2147483647x2147483647x4; do
    expect 3 run pointers.tile x=zeros:${shape}xf32 y=zeros:4xf32 n=4 --target cpu
    err_has "no memory for the tensors"
    expect 3 run pointers.tile x=random:${shape}xf32 y=zeros:4xf32 n=4 --target cpu
done
expect 3 bench attention --shape 65536x65536x65536x65536 --target cpu
python3 - <<'END'
import json, struct
dims = [1] * 31 + [4]
head = json.dumps({n: {"dtype": "F32", "shape": dims,
                       "data_offsets": [16 * i, 16 * i + 16]}
                   for i, n in enumerate("xy")}).encode()
open("dims.st", "wb").write(struct.pack("<Q", len(head)) + head +
                            struct.pack("<8f", 1, 2, 3, 4, 0, 0, 0, 0))
END
expect 0 run pointers.tile x=dims.st y=dims.st n=4 --target cpu -o y=copied.st
expect 0 run pointers.tile x=copied.st:y y=like:x n=4 --target cpu -o y=again.st
cmp -s copied.st again.st || failed "$last: tensors of 32 dims"

# Each tensor has a file of its own.
expect 2 run softmax x=zeros:3x7xf32 y=like:x -o x=both.st -o y=both.st
err_has "-o y=both.st: that file is written already"
[ ! -e both.st ] || failed "$last: it wrote"
expect 2 run softmax x=zeros:3x7xf32 y=like:x -o y=
err_has "-o y=: expected NAME=FILE"
finish
