#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Code for GPU targets without a GPU, and for the CPU: what is emitted; a second process finds
# it in the cache; tilec cache.
. "$2/test/cli/expect.inc"

cat >scale.tile <<'END'
kernel @scale[D: int = 8](%x: tensor<[?, D] x f32>, %y: tensor<[?, D] x f32>, %by: f32)
    grid(cdiv(size(%x, 0), 16)) {
  %r = program_id(0) * 16
  %a = load %x[%r +: 16, 0 +: D] boundary(0)
  store %y[%r +: 16, 0 +: D], %a * %by boundary(0)
}
END

expect 0 cache list
out_has "0 entries"
expect 0 cache why scale.tile --target sm_80
out_has "@scale for sm_80: the cache does not have it"
out_has "no entry is of a kernel @scale"
expect 0 cache why scale.tile --target cpu
out_has "@scale for cpu: the cache does not have it"

for what in tile machine schedule llvm llvm-opt ptx json; do
    expect 0 compile scale.tile --target sm_80 --emit=$what
    err_is_empty
    [ -s out ] || failed "$last: nothing on stdout"
done
out_has '"abi"'
expect 2 compile scale.tile --target sm_80 --emit=asm
err_has "target sm_80 cannot emit \`asm\`, only tile, machine, schedule, timeline, json, llvm"
expect 2 compile scale.tile --target cpu --emit=ptx --no-cache
err_has "target cpu cannot emit \`ptx\`"
expect 2 compile scale.tile --target sm_80 --warps 33
err_has "--warps is \`33\`, expected 1 to 32"
expect 2 compile scale.tile --target sm_12
err_has "there is no target \`sm_12\`"

# By NVIDIA's programs, where they are installed.
if command -v ptxas >/dev/null || [ -x /usr/local/cuda/bin/ptxas ]; then
    expect 0 compile scale.tile --target sm_80 --emit=cubin -o it.cubin
    head -c 4 it.cubin | grep -q ELF || failed "a cubin is no ELF file"
else
    expect 3 compile scale.tile --target sm_80 --emit=cubin -o it.cubin
    err_has "a cubin is made by the NVIDIA driver, but there is no"
fi
"$tilec" compile scale.tile --target sm_80 --emit=sass >out 2>err
case $? in
0) out_has "EXIT" ;;
3) grep -q "nvdisasm or cuobjdump\|a cubin is made by" err ||
    failed "sass: another message" ;;
*) failed "sass: another exit code" ;;
esac

# A process that finds the code runs no pass; one that watches, all of them.
expect 0 cache why scale.tile --target sm_80
out_has "@scale for sm_80: the cache has it"
expect 0 compile scale.tile --target sm_80 --emit=ptx -o first.ptx
expect 0 compile scale.tile --target sm_80 --emit=ptx --no-cache -o second.ptx
cmp -s first.ptx second.ptx || failed "cached and compiled code differ"
expect 0 compile scale.tile --target sm_80 --emit=ptx --time-passes -o x.ptx
err_has "bind-params"
expect 0 cache list
out_has "1 entry"
out_has "sm_80  @scale"
expect 0 cache list --json
out_has '"kernel": "scale", "target": "sm_80"'

# An entry that something else stands in, or that is cut off.
for entry in cache/*.tilec; do
    echo nonsense >"$entry"
done
expect 0 cache list
out_has "damaged"
expect 0 cache why scale.tile --target sm_80
out_has "does not have it"
expect 0 compile scale.tile --target sm_80 --emit=ptx -o third.ptx
cmp -s first.ptx third.ptx || failed "code made again differs"
expect 0 cache why scale.tile --target sm_80
out_has "the cache has it"

# A pipe in the place of an entry is not waited for; it is shown, and goes.
for entry in cache/*.tilec; do
    rm "$entry"
    mkfifo "$entry"
done
expect 0 cache list
out_has "damaged"
expect 0 compile scale.tile --target sm_80 --emit=ptx --no-cache -o third.ptx
expect 0 cache why scale.tile --target sm_80
out_has "does not have it"
expect 0 cache clear
out_has "1 entry deleted"
[ -z "$(ls cache)" ] || failed "$last: leaves something"
mkfifo "$entry"
expect 0 compile scale.tile --target sm_80 --emit=ptx -o third.ptx
cmp -s first.ptx third.ptx || failed "code made beside a pipe differs"
[ -f "$entry" ] || failed "$last: the pipe is still there"

# A folder that all may write to is not used.
chmod 777 cache
for words in list clear; do
    expect 1 cache $words
    err_has "the cache is not used: all users may write to the folder"
    err_has "chmod go-w"
done
expect 0 cache why scale.tile --target sm_80
out_has "@scale for sm_80: the cache is not used: all users"
echo 'none of the kind' >"$entry"
expect 0 compile scale.tile --target sm_80 --emit=ptx -o third.ptx
err_has "warning: the cache is not used: all users may write to the folder"
cmp -s first.ptx third.ptx || failed "code without a cache differs"
grep -q 'none of the kind' "$entry" || failed "$last: writes to the folder"
expect 0 compile scale.tile --target sm_80 --emit=ptx --no-cache -o third.ptx
err_is_empty
chmod 700 cache
expect 0 cache clear
expect 0 compile scale.tile --target sm_80 --emit=ptx -o third.ptx
err_is_empty

# The CPU's.
kept=$TILEC_CACHE_DIR
TILEC_CACHE_DIR=$PWD/cpu_cache
expect 0 compile scale.tile --target cpu --emit=asm -o first.s
expect 0 cache why scale.tile --target cpu
out_has "@scale for cpu: the cache has it"
expect 0 cache list
out_has "cpu    @scale"
expect 0 compile scale.tile --target cpu --emit=asm -o second.s
expect 0 compile scale.tile --target cpu --emit=asm --no-cache -o third.s
cmp -s first.s second.s || failed "code for the CPU from the cache differs"
cmp -s first.s third.s || failed "code for the CPU without a cache differs"
expect 0 cache why scale.tile --target cpu -D D=16
out_has "-D D: 16, there not given"
TILEC_CACHE_DIR=$kept

# Why not.
expect 0 cache why scale.tile --target sm_90 -D D=16 --stages 2
out_has "differs in"
out_has "target: sm_90, there sm_80"
out_has "stages: 2, there 0"
out_has "-D D: 16, there not given"
sed 's/%a \* %by/%a + %by/' scale.tile >scale2.tile
mv scale2.tile scale.tile
expect 0 cache why scale.tile --target sm_80
out_has "program, line"
out_has "add %a"
out_has "there \`%"
expect 1 cache why nowhere.tile
expect 2 cache
expect 2 cache lost

# A folder that cannot be had, a disk that is full: compiled all the same.
TILEC_CACHE_DIR=/dev/null/cache
expect 0 compile scale.tile --target sm_80 --emit=ptx
err_is_empty
expect 0 compile scale.tile --target sm_80 --emit=ptx --remarks
err_has "the code of @scale is not kept: /dev/null/cache: Not a directory"
TILEC_CACHE_DIR=$folder/full
(
    trap '' XFSZ
    ulimit -f 0
    "$tilec" compile scale.tile --target sm_80 --emit=ptx | grep -q reqntid
) || failed "a full disk"
[ -z "$(ls "$folder/full" 2>/dev/null)" ] || failed "a full disk left files"
TILEC_CACHE_DIR=$folder/cache

# Several at once.
expect 0 cache clear
out_has "1 entry deleted"
for i in 1 2 3 4; do
    "$tilec" compile scale.tile --target sm_80 --emit=ptx -o "at$i.ptx" &
done
wait
for i in 2 3 4; do
    cmp -s at1.ptx "at$i.ptx" || failed "of several at once number $i differs"
done
expect 0 cache list
out_has "1 entry"

finish
