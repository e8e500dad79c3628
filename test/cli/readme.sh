#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs the shell blocks of README.md that stand behind a line <!-- test -->,
# one after the other, as a reader would in the root of the source. Lines of a
# text block behind <!-- said --> are in what the block before wrote to stderr.
. "$2/test/cli/expect.inc"
. "$2/test/cli/blocks.inc"

mkdir build
ln -s "$tilec" build/tilec
for name in test kernels lib; do
    ln -s "$source/$name" $name
done
blocks_of "$source/README.md" ""

n=0
for block in block*; do
    last="README.md, $block"
    n=$((n + 1))
    said=said${block#block}
    sh -eu "$block" >out 2>err || failed "$last: exit code $?: $(cat "$block")"
    [ -f "$said" ] || continue
    while IFS= read -r line; do
        grep -qFx -- "$line" err || failed "$last does not say: $line"
    done <"$said"
    told=1
done
[ "${told:-}" = 1 ] || failed "no block says anything"
[ $n -ge 3 ] || failed "only $n blocks were found"
finish
