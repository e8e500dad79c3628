#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# machine_facts.py finds a literal warp group, registers of a role and a role
# by index; not a number in a comment or in the model.
here=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/passes/target"
cat >"$tree/passes/pass.c" <<'END'
/* f->warps / 4 */
enum { MOST = 240 };
unsigned groups = f->warps / 4;
tc_region *r = roles->regions[1];
END
echo 'enum { MOST = 240 };' >"$tree/passes/target/machine_model.h"

python3 "$here/machine_facts.py" "$tree" >"$tree/out" && exit 1
grep -q 'passes/pass.c:2: `MOST = 240`' "$tree/out" || exit 1
grep -q 'passes/pass.c:3: `warps / 4`: expected tc_warpgroups' "$tree/out" ||
    exit 1
grep -q 'passes/pass.c:4: `roles->regions\[`' "$tree/out" || exit 1
grep -q '^3 copies' "$tree/out"
