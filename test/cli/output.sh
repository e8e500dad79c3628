#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Output that cannot be written is said; on a full disk the exit code is 3.
. "$2/test/cli/expect.inc"

if [ ! -c /dev/full ]; then
    echo "skipped: there is no /dev/full"
    finish
    exit 77
fi

# full ARGUMENT...: the same on a full disk.
full() {
    last="tilec $* >/dev/full"
    : >out
    "$tilec" "$@" >/dev/full 2>err
    got=$?
    [ $got = 3 ] || failed "$last: exit code $got, expected 3"
    err_has "No space left on device"
}
echo 'func @f(%x: i32) -> i32 { return %x }' >f.tile
full --help
full --version
full attention --help
full info ops
full attention in.st
full compile softmax --emit=tile
full compile softmax --emit=tile -o /dev/full
full opt f.tile
full opt f.tile -o /dev/full

# A place where nothing can be written is a wrong input.
expect 1 attention in.st -o nowhere/out.st
err_has "nowhere/out.st"
mkdir folder
expect 1 attention in.st -o folder
err_has "folder"
expect 1 compile softmax -o nowhere/it.tile
err_has "nowhere/it.tile"
expect 1 opt f.tile -o nowhere/f.tile
err_has "nowhere/f.tile"
finish
