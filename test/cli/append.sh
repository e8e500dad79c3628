#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# tilec append: a file with a cache in, the cache with the new rows out.
. "$2/test/cli/expect.inc"

# NAME TYPE DIMS NUMBERS ..., each a line on stdin: a safetensors file.
cat >make.py <<'END'
import array, json, sys
header, data = {}, b""
for line in sys.stdin:
    name, kind, dims, *numbers = line.split()
    shape = [int(n) for n in dims.split("x")]
    count = 1
    for n in shape:
        count *= n
    values = [(float if kind == "F32" else int)(n) for n in numbers]
    values = (values * count)[:count] if len(values) < count else values
    more = array.array("f" if kind == "F32" else "i", values).tobytes()
    header[name] = {"dtype": kind, "shape": shape,
                    "data_offsets": [len(data), len(data) + len(more)]}
    data += more
text = json.dumps(header).encode()
open(sys.argv[1], "wb").write(len(text).to_bytes(8, "little") + text + data)
END
cat >show.py <<'END'
import array, json, sys
data = open(sys.argv[1], "rb").read()
n = int.from_bytes(data[:8], "little")
t = json.loads(data[8:8 + n])[sys.argv[2]]
a, b = t["data_offsets"]
x = array.array("f", data[8 + n + a:8 + n + b])
print(*["%g" % x[i * 8] for i in range(len(x) // 8)])
END

# Two sequences with 1 and 0 rows get 2 more; pages 2, 0 and 1.
new_rows() {
    echo "k F32 2x1x2x8 1 1 1 1 1 1 1 1 2 2 2 2 2 2 2 2 3 3 3 3 3 3 3 3 4 4 4 4 4 4 4 4"
    echo "kv_lens I32 2 1 0"
}
{ new_rows; echo "k_cache F32 3x1x2x8 0"; echo "page_table I32 2x2 2 0 1 7"; } |
    python3 make.py pages.st
expect 0 append pages.st -o out.st --target cpu
err_is_empty
out_has "pages.st: appended on cpu in"
[ "$(python3 show.py out.st k_cache)" = "2 0 3 4 0 1" ] ||
    failed "pages: $(python3 show.py out.st k_cache)"

# By a quarter turn from position 1 on, the pairs next to each other.
{
    new_rows
    echo "k_cache F32 2x1x4x8 0"
    echo "cos F32 4x2 1 1 0 0 0 0 0 0"
    echo "sin F32 4x2 0 0 1 1 1 1 1 1"
    echo "q F32 2x1x2x8 5"
} | python3 make.py rotary.st
expect 0 append rotary.st -o out.st --target cpu --interleaved
[ "$(python3 show.py out.st k_cache)" = "0 -1 -2 0 3 -4 0 0" ] ||
    failed "rotary: $(python3 show.py out.st k_cache)"
[ "$(python3 show.py out.st q)" = "-5 -5 5 -5" ] ||
    failed "q: $(python3 show.py out.st q)"
expect 0 append rotary.st -o out.st --target cpu --interleaved --rotary-offset 4
[ "$(python3 show.py out.st k_cache)" = "0 1 2 0 3 4 0 0" ] || failed "offset"

{ new_rows; echo "k_cache F32 2x1x2x8 0"; } | python3 make.py short.st
expect 1 append short.st -o none.st --target cpu
err_has "a new row has no place"
[ ! -e none.st ] || failed "something was written"
{ new_rows; } | python3 make.py nowhere.st
expect 2 append nowhere.st -o none.st
err_has "k_cache is NULL"
expect 2 append pages.st
err_has "-o is missing"
expect 2 append pages.st other.st
expect 2 append rotary.st -o none.st --rotary-offset x
err_has "expected a column"
expect 1 append nothing.st -o none.st
finish
