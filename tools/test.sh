#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Sets up, builds, and runs tests; ends with ctest's summary. The exit status is
# 0 if all passed.
#
#   sh tools/test.sh        build/ and its tests but the labels `long` and
#                           `nightly`
#   sh tools/test.sh all    also the label `long`; before that, what has threads
#                           under ThreadSanitizer in build-tsan/, and most under
#                           AddressSanitizer and UBSan in build-asan/
set -eu
cd "$(dirname "$0")/.."
what=${1:-plain}
# Minutes of one core; at least so many pass, whatever the cores.
case $what in
plain) minutes=12 least=2 ;;
all) minutes=70 least=5 ;;
*)
    echo "test: \`$what\` is unknown, expected \`all\` or nothing" >&2
    exit 2
    ;;
esac
cores=$(nproc)
. tools/setup.sh
setup test
minutes=$(((minutes + cores - 1) / cores))
[ "$minutes" -ge "$least" ] || minutes=$least
echo "test: takes $minutes minutes on $cores idle cores, more on busy ones"
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
    ctest --preset "$1" -j "$cores" --no-tests=error || status=1
}

if [ "$what" = all ]; then
    build tsan build-tsan threads_tests
    run tsan
    build asan build-asan all
    run asan
    build default build all fuzz_programs
    run all
else
    build default build all
    run default
fi
exit $status
