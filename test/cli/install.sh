#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# install.sh SOURCE BUILD: what `cmake --install` gives is enough to build and
# run programs, in C and in C++, shared and static, with pkg-config and with
# CMake, where there is no DLPack; and the library exports nothing but tilec_,
# under the version that its soname has.
set -eu
source=$1
build=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

failed() {
    echo "FAILED: $*"
    exit 1
}

prefix=$folder/usr
cmake --install "$build" --prefix "$prefix" >/dev/null
library=$(find "$prefix" -name libtilec.so)
libdir=$(dirname "$library")
others=$(nm -D --defined-only "$library" |
    grep -vE ' T tilec_[a-z0-9_]*@@TILEC_0\.1$| A TILEC_0\.1$' || true)
[ -z "$others" ] || failed "exported besides tilec_ of TILEC_0.1: $others"
readelf -d "$library" | grep -q 'SONAME.*\[libtilec\.so\.0\.1\]' ||
    failed "the soname is another"
# cJSON beside the library is found without a path.
if [ -e "$libdir/libcjson.so.1" ]; then
    readelf -d "$library" | grep -q 'R.*PATH.*\[\$ORIGIN\]' ||
        failed "no RUNPATH to libcjson.so.1"
fi

# The compiler's folders of headers, those with DLPack without it.
# without_dlpack COMPILER LANGUAGE: options
without_dlpack() {
    echo "-nostdinc"
    LC_ALL=C "$1" -E -v -x "$2" /dev/null 2>&1 |
        sed -n '/^#include <\.\.\.>/,/^End of search/s/^ //p' |
        while read -r path; do
            if [ -e "$path/dlpack" ]; then
                mkdir -p "$folder/headers$path"
                ln -sf "$path"/* "$folder/headers$path"
                rm "$folder/headers$path/dlpack"
                path=$folder/headers$path
            fi
            echo "-isystem $path"
        done
}
# shellcheck disable=SC2046
c=$(echo $(without_dlpack cc c) -std=c17)
# shellcheck disable=SC2046
cxx=$(echo $(without_dlpack c++ c++) -std=c++17)
strict="-Wall -Wextra -Wpedantic -Werror"
echo '#include <dlpack/dlpack.h>' >"$folder/dlpack.c"
# shellcheck disable=SC2086
! cc $c -E "$folder/dlpack.c" >/dev/null 2>&1 ||
    failed "there is a DLPack all the same"

export TILEC_CACHE_DIR="$folder/cache"
export PKG_CONFIG_PATH="$libdir/pkgconfig"
# program NAME: it runs, with no LD_LIBRARY_PATH, and is right.
program() {
    env -u LD_LIBRARY_PATH "$folder/$1" >"$folder/out" ||
        failed "$1 does not run"
    [ "$(cat "$folder/out")" = "2 4 6 8
load reads 0 to 7 of dim 0 of %x, whose size is 3: add boundary(0)" ] ||
        failed "$1 prints $(cat "$folder/out")"
}

user=$source/test/cli/install/user.c
shared="$(pkg-config --cflags --libs tilec) -Wl,-rpath,$libdir"
static=$(pkg-config --cflags --static --libs tilec |
    sed 's/-ltilec/-l:libtilec.a/')
# shellcheck disable=SC2086
{
    cc $c $strict "$user" $shared -o "$folder/c_shared"
    cc $c $strict "$user" $static -o "$folder/c_static"
    c++ $cxx $strict -x c++ "$user" -x none $shared -o "$folder/cc_shared"
    c++ $cxx $strict -x c++ "$user" -x none $static -o "$folder/cc_static"
}
for name in c_shared c_static cc_shared cc_static; do
    program $name
done
# Each header can be the first one, and the only one.
for header in tilec tilec/append tilec/attention tilec/dlpack tilec/kvcache \
    tilec/safetensors tilec/version
do
    echo "#include <$header.h>" >"$folder/first.c"
    # shellcheck disable=SC2086
    {
        cc $c $strict -I "$prefix/include" -fsyntax-only "$folder/first.c"
        c++ $cxx $strict -I "$prefix/include" -fsyntax-only \
            -x c++ "$folder/first.c"
    } || failed "$header.h cannot be included by itself"
done
readelf -d "$folder/c_static" | grep -q 'NEEDED.*libtilec' &&
    failed "c_static is not static"

cmake -G Ninja -S "$source/test/cli/install" -B "$folder/user" \
    -D CMAKE_PREFIX_PATH="$prefix" -D CMAKE_C_FLAGS="$c" \
    -D CMAKE_CXX_FLAGS="$cxx" >/dev/null
cmake --build "$folder/user" >/dev/null
for name in c_shared c_static cc_shared cc_static; do
    program user/$name
done

# The examples.
export LD_LIBRARY_PATH="$libdir"
# shellcheck disable=SC2046
cc "$source/lib/example/engine.c" $(pkg-config --cflags --libs tilec) \
    -o "$folder/engine"
"$folder/engine" | tee "$folder/out"
grep -q '^batch 1, length 1000: o\[0\] = ' "$folder/out"

cmake -G Ninja -S "$source/lib/example" -B "$folder/build" \
    -D CMAKE_PREFIX_PATH="$prefix" >/dev/null
cmake --build "$folder/build" >/dev/null
"$folder/build/engine" | cmp - "$folder/out"
"$folder/build/serve" | tee "$folder/out"
served='^5 requests in 52 steps, 3 of them with prompts; 12 of 12 pages are free'
grep -q "$served" "$folder/out"

# Those of the GPU: their results, or why there are none.
code=0
"$folder/build/serve" gpu >"$folder/out" 2>"$folder/err" || code=$?
cat "$folder/out" "$folder/err"
case $code in
0) grep -q "$served" "$folder/out" ;;
3) grep -q '^no GPU: ' "$folder/err" ;;
*) exit 1 ;;
esac
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
