#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Sets up, builds, and runs all tests but the label `nightly`: everything in
# build/, most of it again under AddressSanitizer and UBSan in build-asan/, the
# tests with threads under ThreadSanitizer in build-tsan/. Ends with ctest's
# summary; the exit status is that of the first run that failed.
#
#   sh tools/test.sh            all of that
#   sh tools/test.sh build      the plain build only
set -eu
cd "$(dirname "$0")/.."
. tools/setup.sh
setup test
export CTEST_OUTPUT_ON_FAILURE=1

# build FOLDER CMAKE-ARGUMENT...
build() {
    folder=$1
    shift
    mkdir -p "$folder"
    echo "test: building $folder"
    { cmake -S . -B "$folder" -G Ninja -D TILEC_TESTS=ON "$@" &&
        cmake --build "$folder"; } >"$folder/build.log" 2>&1 || {
        tail -60 "$folder/build.log" >&2
        echo "test: the build failed; its output is in $folder/build.log" >&2
        exit 3
    }
}

run() {
    folder=$1
    shift
    (cd "$folder" && ctest -j 2 --no-tests=error "$@")
}

build build
if [ "${1:-all}" = build ]; then
    run build -LE nightly
    exit
fi
build build-asan -D TILEC_SANITIZE=address,undefined -D CMAKE_BUILD_TYPE=Debug
build build-tsan -D TILEC_SANITIZE=thread
# The JIT's code and LLVM are not instrumented; leaks are looked for in ours.
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1
export LSAN_OPTIONS="suppressions=$PWD/test/lsan.supp:print_suppressions=0"
export TSAN_OPTIONS="suppressions=$PWD/test/tsan.supp"
run build-tsan -L threads
run build-asan -L asan
run build -LE nightly
