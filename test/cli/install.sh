#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# install.sh SOURCE BUILD: what `cmake --install` gives is enough to build and
# run the example, with pkg-config and with CMake, and the library exports
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
