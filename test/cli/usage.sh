#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Help, versions, and command lines that are wrong.
. "$2/test/cli/expect.inc"

expect 0 --help
err_is_empty
for command in attention quantize run compile inspect opt info cache bench \
    tune fmt; do
    out_has "  $command "
done
for command in attention quantize run compile inspect opt info cache bench \
    tune fmt; do
    expect 0 $command --help
    err_is_empty
    out_has "usage: tilec $command "
    out_has "Exit code: 0 done"
done
expect 0 help run
out_has "usage: tilec run "
expect 2 help rum
err_has "did you mean run?"
expect 0 --version
out_has "tilec "

expect 2
err_has "expected a command"
expect 2 atention
err_has 'unknown command `atention`; did you mean attention?'
expect 2 frobnicate
err_has 'unknown command `frobnicate`'
out_is_empty

expect 2 attention
err_has "expected one file"
expect 2 attention in.st other.st
err_has "expected one file, found 2 words"
expect 2 attention in.st --chekc o_full
err_has "unknown option --chekc; did you mean --check?"
expect 2 attention in.st --mask
err_has "--mask needs a value"
expect 2 attention in.st --scale fast
err_has '--scale is `fast`, expected a number'
expect 2 attention in.st --scale 0
err_has "expected a number that is not 0"
expect 2 attention in.st --target gpu9000
err_has "gpu9000"
expect 2 run
expect 2 run softmax x
err_has 'argument `x`: expected NAME='
expect 2 compile
expect 2 compile softmax --emit=picture
err_has "picture"
expect 2 compile softmax --enforce=strictly
err_has '--enforce is `strictly`, expected off, warn or error'
expect 2 info colours
err_has "colours"

for what in targets kernels mods ops passes versions; do
    expect 0 info $what
    err_is_empty
done
out_has "LLVM"
expect 0 info mods
out_has "causal"
expect 0 info targets
out_has "cpu"

# What is read as a number is read to its end, and fits.
expect 2 attention in.st --scale 1e300
err_has '--scale is `1e300`, expected a number that is not 0 and fits f32'
expect 2 attention in.st --quantize f8e4m3 --rows 16x
err_has '--rows is `16x`, expected 16, 32, 64 or 128'
expect 2 quantize in.st -o out.st --rows 16.5
err_has '--rows is `16.5`, expected 16, 32, 64 or 128'
expect 2 info mask causal --q-len 99999999999
err_has '--q-len is `99999999999`, expected a number from 1 to 1073741823'
expect 2 run softmax x=
err_has 'argument `x=`: expected NAME='
many=
for i in 1 2 3 4 5 6 7 8; do
    many="$many a$i=1 b$i=1 c$i=1 d$i=1 e$i=1 f$i=1 g$i=1 h$i=1"
done
expect 2 run softmax $many x=1
err_has 'argument `x=1`: there are more than 64 arguments'
finish
