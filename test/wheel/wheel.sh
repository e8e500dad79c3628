#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# wheel.sh SOURCE FOLDER: `sh tools/wheel.sh` makes a wheel that works, so does
# the one that `pip install` of the checkout makes on the way there, and the
# checkout stays clean. Skipped if pip cannot install what they need.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$1"
folder=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Files that git would add, and changed ones, if this is a checkout.
state() {
    git status --porcelain 2>/dev/null || true
}

python3 -m venv "$work/venv" 2>"$work/said" || {
    echo "skipped: python3 makes no virtual environment (Debian: python3-venv)"
    exit 77
}
"$work/venv/bin/pip" download -q --no-deps -d "$work/index" auditwheel \
    scikit-build-core >"$work/said" 2>&1 || {
    echo "skipped: no package index can be reached"
    tail -3 "$work/said"
    exit 77
}
before=$(state)
sh tools/wheel.sh "$folder"
case $(ls "$folder") in
*tilec-*-cp39-abi3-manylinux_*.whl*) ;;
*)
    echo "FAILED: no wheel with a manylinux tag in $folder"
    exit 1
    ;;
esac
sh "$here/installed.sh" "$folder"/linux/tilec-*.whl
if [ "$(state)" != "$before" ]; then
    echo "FAILED: the checkout is not as it was:"
    state
    exit 1
fi
