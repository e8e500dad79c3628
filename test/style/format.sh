#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# format.sh SOURCE: C files are as clang-format leaves them. Versions differ
# in taste, so one is asked for.
cd "$1"
for name in clang-format-14 clang-format; do
    command -v $name >/dev/null && break
done
case $($name --version 2>/dev/null) in
*version\ 14.*) ;;
*)
    echo "skipped: there is no clang-format 14"
    exit 77
    ;;
esac
find ir passes codegen lib tools test -name '*.[ch]' -not -path 'lib/tilec/dlpack/*' -print |
    xargs $name --dry-run --Werror
