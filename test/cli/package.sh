#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# package.sh SOURCE BUILD CPACK: the Debian package holds the command, libraries,
# headers, manual pages, completions and syntax files; all its dependencies are
# known; what it holds runs from any folder.
set -eu
source=$1
build=$2
cpack=$3
for tool in dpkg-deb dpkg-shlibdeps file; do
    command -v "$tool" >/dev/null || {
        echo "there is no $tool"
        exit 77
    }
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

failed() {
    echo "FAILED: $*"
    exit 1
}

"$cpack" -G DEB --config "$build/CPackConfig.cmake" -B "$folder" >log 2>&1 || {
    cat log
    failed "cpack"
}
[ "$(ls ./*.deb | wc -l)" = 1 ] || failed "not one package: $(ls)"
package=$(ls ./*.deb)

# field NAME PATTERN: of the control file.
field() {
    dpkg-deb -f "$package" "$1" | grep -qE "$2" ||
        failed "$1 is $(dpkg-deb -f "$package" "$1"), expected $2"
}
version=$("$build/tilec" --version | sed 's/^tilec //')
field Package '^tilec$'
field Version "^$version\$"
field Architecture "^$(dpkg --print-architecture)\$"
field Depends '(^|, )libc6 '
# cJSON travels beside the command if LLVM does.
ldd "$build/tilec" | grep -q libLLVM && field Depends '(^|, )libllvm[0-9]'
field Description .

# Owned by root, below /usr, and writable by nobody else.
dpkg-deb -c "$package" >list
awk '$2 != "root/root" || $6 !~ /^\.\/(usr(\/|$)|$)/ ||
    ($1 !~ /^l/ && substr($1, 6, 1) == "w") || substr($1, 9, 1) ~ /w/ &&
    $1 !~ /^l/' list >odd
[ ! -s odd ] || failed "$(cat odd)"

dpkg -x "$package" root
usr=$folder/root/usr
tilec=$usr/bin/tilec
while read -r name; do
    [ -s "$usr/$name" ] || failed "the package has no $name"
done <<END
include/tilec.h
lib/libtilec.so
lib/libtilec_runtime.so
lib/libtilec.a
lib/pkgconfig/tilec.pc
lib/cmake/tilec/tilec-config.cmake
share/doc/tilec/LICENSE
share/man/man1/tilec.1
share/bash-completion/completions/tilec
share/zsh/vendor-completions/_tilec
share/fish/vendor_completions.d/tilec.fish
share/vim/vimfiles/syntax/tilec.vim
share/vim/vimfiles/ftdetect/tilec.vim
share/tilec/vscode/package.json
share/tilec/vscode/extension.js
share/tilec/vscode/language-configuration.json
share/tilec/vscode/syntaxes/tilec.tmLanguage.json
END
[ ! -e "$usr/share/tilec/vscode/stamp" ] || failed "the build's stamp"

# No file speaks of the folder in which it was built.
grep -rlF "$build" "$usr/bin" "$usr/share" "$usr/lib/pkgconfig" "$usr/lib/cmake" \
    >odd || true
[ ! -s odd ] || failed "$(cat odd) name $build"

# Stripped, and in need of no library that is not the package's own or a
# dependency's.
file -b "$tilec" | grep -q 'not stripped' && failed "tilec is not stripped"
ldd "$tilec" "$usr/lib/libtilec.so" "$usr/lib/libtilec_runtime.so" |
    grep 'not found' && failed "libraries are missing"

# It runs from there, with a cache of its own.
export TILEC_CACHE_DIR="$folder/cache"
[ "$("$tilec" --version)" = "tilec $version" ] || failed "--version"
"$tilec" run softmax x=random:4x64xf32 y=zeros:4x64xf32 --target cpu >out 2>&1 ||
    failed "run: $(cat out)"
"$tilec" compile --emit=ptx --target sm_90a softmax >out 2>&1 ||
    failed "compile: $(cat out)"
grep -q '^.visible .entry' out || failed "no PTX"

# What it prints is what was packed.
for shell in bash:bash-completion/completions/tilec \
    zsh:zsh/vendor-completions/_tilec fish:fish/vendor_completions.d/tilec.fish
do
    "$tilec" completion "${shell%%:*}" | cmp - "$usr/share/${shell#*:}"
done
bash -n "$usr/share/bash-completion/completions/tilec"
"$tilec" info vim | cmp - "$usr/share/vim/vimfiles/syntax/tilec.vim"
"$tilec" info textmate |
    cmp - "$usr/share/tilec/vscode/syntaxes/tilec.tmLanguage.json"
for command in $("$tilec" info commands); do
    "$tilec" info man "$command" | cmp - "$usr/share/man/man1/tilec-$command.1"
done
grep -q "\"version\": \"$version\"" "$usr/share/tilec/vscode/package.json" ||
    failed "the extension has another version"

# apt finds all that it depends on.
if command -v apt-get >/dev/null; then
    apt-get -s install "$package" >out 2>&1 || failed "apt: $(cat out)"
    grep -q '^Inst tilec ' out || failed "apt: $(cat out)"
fi
