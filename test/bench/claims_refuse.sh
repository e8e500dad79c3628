#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# claims.py check finds a measurement without a claim, a claim without a row, a
# row that no comment names, and rows of another form.
here=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/test/bench" "$tree/passes"
: >"$tree/test/bench/a.py"
cat >"$tree/passes/pass.c" <<'END'
/* H200: 4 % faster. */
/* It is 4 % faster (claim no-such). */
/* Better (claim good-row). */
END
cat >"$tree/test/bench/claims.json" <<'END'
[{"claim": "good-row", "says": "x", "command": "python3 test/bench/a.py",
  "expected": 0.9, "machine": "M", "date": "2026-11-23"},
 {"claim": "lonely-row", "says": "x", "command": "python3 test/bench/b.py",
  "expected": "0.9", "machine": "M", "date": "yesterday", "more": 1,
  "estimate": "no"}]
END

python3 "$here/claims.py" check "$tree" 2>"$tree/out" && exit 1
expect() {
    grep -q "$1" "$tree/out" || { echo "missing: $1"; cat "$tree/out"; exit 1; }
}
expect 'passes/pass.c:1: quotes a measurement'
expect 'passes/pass.c:2: claims.json has no claim `no-such`'
expect 'lonely-row: no comment names it'
expect 'lonely-row: has no `expected`, or one of another type'
expect 'lonely-row: has an unknown key `more`'
expect 'lonely-row: has a wrong `estimate`'
expect 'lonely-row: expected a date'
expect 'lonely-row: its command runs .*b.py, which does not exist'
! grep -q 'good-row' "$tree/out"
