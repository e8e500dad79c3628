#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# install_static_llvm.sh SOURCE BUILD: install.sh for the preset `static`, built
# in BUILD.
set -eu
cmake -S "$1" --preset static -B "$2" >/dev/null
cmake --build "$2" >/dev/null
rm -rf "$2/moved"
mkdir "$2/moved"
# Where they are put together they run.
cp "$2/tilec" "$2/libcjson.so.1" "$2/moved"
"$2/moved/tilec" info versions >/dev/null
exec sh "$1/test/cli/install.sh" "$1" "$2"
