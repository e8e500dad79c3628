#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# folders.py finds an include of a higher folder, a folder without a line, and
# a folder whose README.md is missing or does not name a file.
here=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/ir/base" "$tree/ir/drawer" "$tree/passes"
echo '#include "passes/passes.h"' >"$tree/ir/base/arena.c"
: >"$tree/ir/drawer/all.c"
: >"$tree/passes/passes.h"
: >"$tree/ir/base/map.c"
echo 'Read `map.c`.' >"$tree/ir/base/README.md"

python3 "$here/folders.py" "$tree" >"$tree/out" && exit 1
grep -q 'ir/base/arena.c: includes passes/passes.h, whose folder is higher' \
    "$tree/out" || exit 1
grep -q 'ir/drawer/all.c: ir/drawer has no line' "$tree/out" || exit 1
grep -q 'passes: no README.md' "$tree/out" || exit 1
grep -q 'ir/base/README.md does not name arena.c' "$tree/out" || exit 1
grep -q 'ir/base/README.md does not name map.c' "$tree/out" && exit 1
grep -q 'folders.txt: ir/types: no such folder' "$tree/out"
