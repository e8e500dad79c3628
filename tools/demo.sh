#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Sets up, builds into build/, and runs attention on the real activations that
# come with the repository, full and causal, comparing with float64 results.
set -eu
cd "$(dirname "$0")/.."
. tools/setup.sh
setup
mkdir -p build
log=build/build.log
{ cmake -S . -B build -G Ninja -D TILEC_TESTS=OFF && cmake --build build; } \
    >$log 2>&1 || {
    tail -40 $log >&2
    echo "demo: the build failed; all of its output is in $log" >&2
    exit 3
}
for file in test/data/encoder_l0_s128_d64_f32.safetensors \
    test/data/encoder_l1_s1000_d128_bf16.safetensors; do
    build/tilec attention "$file" --check o_full lse_full
    build/tilec attention "$file" --mask causal --check o_causal lse_causal
done
