#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# sanitize.sh TILEC ROOT: kernels on small shapes under NVIDIA's
# compute-sanitizer, for accesses outside of memory and for races in shared
# memory. Skipped (77) without a GPU or without the tool.
set -u
tilec=$1 root=$2 failed=0
sanitizer=$(command -v compute-sanitizer ||
    ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
target=${TILEC_TEST_TARGET:-gpu}
[ "$target" = gpu ] && target=auto
if [ -z "$sanitizer" ] || ! nvidia-smi >/dev/null 2>&1; then
    echo "skipped: there is no GPU, or no compute-sanitizer"
    [ "${TILEC_REQUIRE_GPU:-0}" = 1 ] && exit 1
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

check() {
    for tool in memcheck racecheck; do
        if ! "$sanitizer" --tool $tool --error-exitcode 9 "$tilec" "$@" \
            --target "$target" >"$work/log" 2>&1; then
            echo "FAILED under $tool: tilec $*"
            tail -20 "$work/log"
            failed=1
        fi
    done
}

data=$root/test/data
f32=$data/encoder_l0_s128_d64_f32.safetensors
bf16=$data/encoder_l1_s1000_d128_bf16.safetensors
check attention "$f32" --check o_full lse_full
check attention "$f32" --mask causal --check o_causal lse_causal
check attention "$bf16" --check o_full lse_full
check attention "$bf16" --mask 'sliding_window(w=100)'
check run matmul a=random:200x136xbf16 b=random:136x72xbf16 c=zeros:200x72xbf16
check run matmul a=random:61x33xbf16 b=random:33x17xbf16 c=zeros:61x17xbf16
check run matmul a=random:100x100xf32 b=random:100x60xf32 c=zeros:100x60xf32
check run softmax x=random:37x500xf32 y=zeros:37x500xf32
exit $failed
