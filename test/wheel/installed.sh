#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# installed.sh WHEEL: `pip install WHEEL` into an empty virtual environment gives
# a package that works without the source tree.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset PYTHONPATH TILEC_LIBRARY LD_LIBRARY_PATH PYTHONHOME
export TILEC_CACHE_DIR="$folder/cache" CUDA_VISIBLE_DEVICES=
wheel=$1
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q "$wheel" numpy
# Away from the source tree, where imports would find it.
mkdir -p "$folder/a/test/python"
cp "$here/installed.py" "$here/../python/reference.py" \
    "$here/../python/forward.py" "$here/../python/gradients.py" \
    "$folder/a/test/python"
cd "$folder/a/test/python"
for test in installed forward gradients; do
    "$folder/venv/bin/python" $test.py -q
done
