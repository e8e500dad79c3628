#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# rules.sh SOURCE: what the source tree keeps to.
cd "$1"
found=$(mktemp)
trap 'rm -f "$found"' EXIT

# complain RULE: the lines of standard input break it.
complain() {
    sed "s|^|$1: |" >>"$found"
}

# Folders in the order of who may use whom: each what stands before it.
lower=
for folder in ir passes codegen lib tools; do
    lower="$lower $folder"
    allowed=$(echo $lower | tr ' ' '|')
    find $folder -name '*.[ch]' -not -path '*/example/*' \
        -not -path 'lib/tilec/*' -print |
        xargs grep -nE '^#include "' |
        grep -vE "#include \"($allowed|tilec|dlpack)/" |
        complain "$folder includes only itself and what is below it"
done

# snprintf and its kin write to memory.
find ir passes codegen lib -name '*.[ch]' -not -path '*/example/*' -print |
    xargs grep -nE '\b(stdout|stderr|v?f?printf|puts|fputs|putchar|perror|exit|_exit|abort) *[(,)]' |
    grep -vE '^[^:]*:[0-9]+: *(\*|/\*)|format\(printf' |
    complain "the library never prints and never exits"

find ir passes codegen lib tools test -name '*.[ch]' -print |
    xargs wc -l | awk '$1 > 800 && $2 != "total"' |
    grep -v ' test/' |
    complain "no file is beyond 800 lines"

find ir passes codegen lib kernels tools test \( -name '*.[ch]' -o \
    -name '*.tile' -o -name '*.sh' -o -name '*.py' \) -not -path 'test/ir/*' \
    -not -path 'lib/tilec/dlpack/*' -print |
    while read -r file; do
        head -3 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' ||
            echo "$file"
    done | complain "each file names its licence"

# clang-format does not fill comments anew: it would break their pictures.
grep -q '^ReflowComments: false$' .clang-format ||
    echo .clang-format | complain "comments stay as they are written"
find ir passes codegen lib tools test -name '*.[ch]' -not -path 'lib/tilec/*' \
    -print | xargs grep -nE '^.{81,}' |
    complain "a line has at most 80 columns"

# CMakePresets.json and test/unit/run.h have the limits of time. What a test adds
# ends what hangs, after ten minutes or more.
short='([0-9]{1,2}|[1-5][0-9]{2})'
find test -type f -not -path 'test/bench/*' -not -path test/style/rules.sh |
    xargs grep -nE "tcase_set_timeout|\bTIMEOUT +[0-9]|\balarm\(|(^|[ (;|&])timeout[ =]$short\b" |
    complain "a busy machine passes all tests"

cat "$found"
[ ! -s "$found" ]
