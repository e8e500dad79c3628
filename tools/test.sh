#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Sets up, builds, and runs all tests but the label `nightly`: what has threads
# under ThreadSanitizer in build-tsan/, most under AddressSanitizer and UBSan
# in build-asan/, and everything in build/. Each ends with ctest's summary. The
# exit status is 0 if all passed.
#
#   sh tools/test.sh            all of that
#   sh tools/test.sh build      the plain build only
set -eu
cd "$(dirname "$0")/.."
. tools/setup.sh
setup test
status=0

# build PRESET FOLDER TARGET...
build() {
    preset=$1
    folder=$2
    shift 2
    mkdir -p "$folder"
    echo "test: building $folder, $(date +%T)"
    { cmake --preset "$preset" -D TILEC_TESTS=ON &&
        cmake --build "$folder" --target "$@"; } >"$folder/build.log" 2>&1 || {
        tail -60 "$folder/build.log" >&2
        echo "test: the build failed; its output is in $folder/build.log" >&2
        exit 3
    }
}

run() {
    ctest --preset "$1" -j "$(nproc)" --no-tests=error || status=1
}

if [ "${1:-all}" != build ]; then
    build tsan build-tsan threads_tests
    run tsan
    build asan build-asan all
    run asan
fi
build default build all
run default
exit $status
