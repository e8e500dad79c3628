#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Bundles on the command line, and a program that serves from one, with the
# library that has no compiler. Arguments: tilec, the folder of the examples.
set -eu
tilec=$1 examples=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export TILEC_CACHE_DIR="$folder/cache"

fail() { echo "FAILED: $*"; exit 1; }
expect() { echo "$1" | grep -qF -- "$2" || fail "no '$2' in: $1"; }

"$tilec" compile attention --emit=bundle --mask none --mask causal --dims 32 \
    --types f32 --target cpu --backward -o a.tilecb
"$tilec" compile attention --emit=bundle --mask causal --dims 32 \
    --types f32 --target cpu --backward -o b.tilecb
"$tilec" compile matmul --emit bundle --target cpu -o m.tilecb
expect "$("$tilec" bundle list a.tilecb)" "2 entries"
expect "$("$tilec" bundle list a.tilecb)" "d=32 dv=32 mask=causal backward=1"
expect "$("$tilec" bundle verify a.tilecb)" "a.tilecb: sound"
"$tilec" bundle merge a.tilecb m.tilecb -o am.tilecb
"$tilec" bundle merge m.tilecb a.tilecb -o ma.tilecb
cmp am.tilecb ma.tilecb
"$tilec" bundle diff am.tilecb ma.tilecb
if "$tilec" bundle diff am.tilecb b.tilecb > differences; then
    fail "diff found no difference"
fi
expect "$(cat differences)" "- kernel cpu x86-64-v3 matmul"
[ "$(wc -l < differences)" = 2 ] || fail "$(cat differences)"
if "$tilec" bundle verify matmul 2> message; then fail "no such file"; fi
echo "no bundle" > text
if "$tilec" bundle list text 2> message; then fail "text is no bundle"; fi
expect "$(cat message)" "text: is no bundle"

# The same program with and without the compiler.
"$examples/example_serve" > compiled
"$examples/example_serve" record serve.tilecb cpu
"$examples/example_serve" cpu serve.tilecb > bundled
"$examples/example_serve_runtime" cpu serve.tilecb > alone
cmp compiled bundled
cmp compiled alone
if "$examples/example_serve_runtime" cpu 2> message; then
    fail "there is no compiler"
fi
expect "$(cat message)" "no bundle was loaded"
if "$examples/example_serve_runtime" cpu a.tilecb 2> message; then
    fail "no plan of a cache in it"
fi
expect "$(cat message)" "no bundle has kvcache"

# The library without a compiler: small, and needs the system's libraries only.
runtime=$(ldd "$examples/example_serve_runtime" |
    sed -n 's/.*libtilec_runtime[^ ]* => \([^ ]*\) .*/\1/p')
if ldd "$runtime" | grep -E 'LLVM|cjson|zstd|stdc'; then
    fail "$runtime needs a compiler's libraries"
fi
