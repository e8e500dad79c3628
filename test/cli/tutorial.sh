#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs the shell blocks of the pages of kernels/tutorial that stand below a line
# <!-- test -->, each in the root of the source with tilec in the path.
. "$2/test/cli/expect.inc"
. "$2/test/cli/blocks.inc"

mkdir bin root
ln -s "$tilec" bin/tilec
PATH=$folder/bin:$PATH

pages=0
for page in "$source"/kernels/tutorial/[0-9]*.md; do
    name=$(basename "$page" .md)
    pages=$((pages + 1))
    blocks_of "$page" "$folder/$name."
    n=0
    for block in "$folder/$name".block*; do
        [ -f "$block" ] || break
        n=$((n + 1))
        last="$name.md, block ${block##*block}"
        # A copy: what the commands write stays out of the source.
        rm -rf root
        mkdir -p root/kernels
        cp -r "$source/kernels/tutorial" root/kernels
        (cd root && sh -eu "$block") >out 2>err || failed "$last: exit code $?"
    done
    for word in 'tilec run' 'tilec compile' sm_80 sm_90a; do
        cat "$folder/$name".block* | grep -q "$word" ||
            failed "$name.md: no block has \`$word\`"
    done
    grep -q "$name.md" "$source/kernels/tutorial/README.md" ||
        failed "README.md does not name $name.md"
done
[ $pages = 10 ] || failed "$pages pages, expected 10"
finish
