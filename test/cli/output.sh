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

# More than a buffer holds: the first failure is not the last call.
i=0
while [ $i -lt 600 ]; do
    echo "func @f$i(%x: i32) -> i32 { return %x }"
    i=$((i + 1))
done >large.tile
full opt large.tile
full opt large.tile -o -
full compile softmax --emit=asm
full compile softmax --emit=asm -o -
full info ops

# What a terminal would obey, in names of tensors and files and in programs, is
# shown escaped.
esc=$(printf '\033')
printf '\110\0\0\0\0\0\0\0' >hostile.st
printf '%s1234' '{"\u001b[2J\n\u009b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}  ' >>hostile.st
cp hostile.st "hostile$esc[2J.st"
printf 'func @f(%%x: i32) -> i32 { return %%\033[2J }\n' >"hostile$esc.tile"
for words in "attention hostile.st" "attention hostile$esc[2J.st" \
    "quantize hostile.st -o x.st" "opt hostile$esc.tile" \
    "compile hostile$esc.tile" "opt nowhere$esc.tile" \
    "attention in.st -o nowhere$esc/x.st"; do
    expect 1 $words
    err_has '\x1b'
    ! grep -q "$esc" err || failed "$last: an escape goes to the terminal"
done
expect 1 attention hostile.st
err_has '\x1b[2J\n\u009b'

# `-` is standard output where texts are written, and no place for tensors.
expect 0 opt f.tile -o -
out_has "func @f"
expect 0 compile softmax --emit=tile -o -
out_has "kernel @softmax"
expect 0 inspect softmax --target sm_80 -o -
[ -s out ] || failed "$last: nothing on stdout"
expect 0 info layout "#rows" 16x8 -o -
head -1 out | grep -q "<svg" || failed "$last: not only a picture"
expect 2 attention in.st -o -
err_has "tensors are not for standard output"
expect 2 quantize in.st -o -
err_has "tensors are not for standard output"
[ ! -e ./- ] || failed "a file is named -"

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

# What was there stays where the program is wrong, the input itself too.
echo 'func @f(%x: i32) -> i32 { return %y }' >wrong.tile
cp wrong.tile kept.tile
expect 1 opt wrong.tile -o wrong.tile
cmp -s wrong.tile kept.tile || failed "$last: changed its input"
cp f.tile kept.tile
expect 1 opt wrong.tile -o f.tile
cmp -s f.tile kept.tile || failed "$last: changed the file"
# Links and modes stay too.
chmod 640 f.tile
ln -s f.tile link.tile
expect 0 opt f.tile -p canonicalize -o link.tile
[ -L link.tile ] || failed "$last: replaced the link"
[ "$(stat -c %a f.tile)" = 640 ] || failed "$last: changed the mode"
grep -q '^func @f' f.tile || failed "$last: wrote nothing"
# Links to what is not there yet lead there, in every command; loops are said.
mkdir far
ln -s far/new.st to_new.st
ln -s far/new.tile to_new.tile
expect 0 quantize in.st -o to_new.st
expect 0 opt f.tile -o to_new.tile
[ -L to_new.st ] && [ -f far/new.st ] || failed "quantize: replaced the link"
[ -L to_new.tile ] && [ -f far/new.tile ] || failed "opt: replaced the link"
ln -s loop.b loop.a
ln -s loop.a loop.b
for words in "quantize in.st" "opt f.tile" "attention in.st"; do
    expect 1 $words -o loop.a
    err_has "loop.a"
    err_has "Too many levels of symbolic links"
    [ -L loop.a ] || failed "$last: replaced the link"
done
[ "$(ls far | wc -l)" = 2 ] || failed "a temporary file is left"
# A file that grows beyond what it may stays as it was, with nothing beside it.
mkdir limited
echo kept >limited/it.s
(
    trap '' XFSZ
    ulimit -f 1
    "$tilec" compile softmax --emit asm -o limited/it.s >out 2>err
) && failed "a file beyond the limit is written"
last="ulimit -f 1; tilec compile softmax --emit asm -o limited/it.s"
err_has "limited/it.s: File too large"
[ "$(cat limited/it.s)" = kept ] || failed "$last: changed the file"
[ "$(ls limited)" = it.s ] || failed "$last: leaves a file"
# In a folder that takes no other file, it is written where it is. Root may write
# everywhere, where it may not give that up.
chmod 555 limited
as=
setpriv --bounding-set=-dac_override true 2>/dev/null &&
    as="setpriv --bounding-set=-dac_override"
last="$as tilec compile softmax --emit asm -o limited/it.s"
$as "$tilec" compile softmax --emit asm -o limited/it.s >out 2>err ||
    failed "$last: exit code $?"
grep -q softmax limited/it.s || failed "$last: wrote nothing"
chmod 444 limited/it.s
[ -z "$as" ] || ! $as "$tilec" compile softmax -o limited/it.s >out 2>err ||
    failed "$last: wrote to a file that may not be written"
chmod 755 limited
expect 1 attention in.st -o ''
err_has "the name of the file to write is empty"
finish
