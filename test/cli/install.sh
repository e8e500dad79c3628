#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# install.sh SOURCE BUILD: what `cmake --install` gives is enough to build and
# run the examples, with pkg-config and with CMake, and the library exports
# nothing but tilec_.
set -eu
source=$1
build=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cmake --install "$build" --prefix "$folder/usr" >/dev/null
library=$(find "$folder/usr" -name libtilec.so)
libdir=$(dirname "$library")
others=$(nm -D --defined-only "$library" | grep -v ' tilec_' || true)
if [ -n "$others" ]; then
    echo "exported besides tilec_:"
    echo "$others"
    exit 1
fi

export TILEC_CACHE_DIR="$folder/cache"
export LD_LIBRARY_PATH="$libdir"
export PKG_CONFIG_PATH="$libdir/pkgconfig"
# shellcheck disable=SC2046
cc "$source/lib/example/engine.c" $(pkg-config --cflags --libs tilec) \
    -o "$folder/engine"
"$folder/engine" | tee "$folder/out"
grep -q '^batch 1, length 1000: o\[0\] = ' "$folder/out"

cmake -G Ninja -S "$source/lib/example" -B "$folder/build" \
    -D CMAKE_PREFIX_PATH="$folder/usr" >/dev/null
cmake --build "$folder/build" >/dev/null
"$folder/build/engine" | cmp - "$folder/out"

# That of the GPU: its result, or why there is none.
code=0
"$folder/build/gpu" >"$folder/out" 2>"$folder/err" || code=$?
cat "$folder/out" "$folder/err"
case $code in
0) grep -q ': the last element is -0.4157$' "$folder/out" ;;
3)
    grep -q '^no GPU: ' "$folder/err"
    [ "${TILEC_REQUIRE_GPU:-}" != 1 ]
    [ "${TILEC_TEST_TARGET:-}" != gpu ] || exit 77
    ;;
*) exit 1 ;;
esac
