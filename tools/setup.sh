#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Installs what building and testing tilec needs and is missing, with apt
# (Debian 12, Ubuntu 24.04 or later), through sudo where not root. Sourced by
# demo.sh, test.sh and wheel.sh.
#
#   setup [test|wheel]     also what only the tests need, or what a wheel of the
#                          Python package needs; sets LLVM to the version found

fail() {
    echo "setup: $*" >&2
    exit 3
}

installed() {
    dpkg-query -W -f '${Status}\n' "$1" 2>/dev/null | grep -q '^install ok'
}

# The newest LLVM that is supported and to be had, an installed one first.
find_llvm() {
    for v in 22 21 20; do
        if installed "llvm-$v-dev"; then
            LLVM=$v
            return 0
        fi
    done
    for v in 22 21 20; do
        if apt-cache show "llvm-$v-dev" >/dev/null 2>&1; then
            LLVM=$v
            return 0
        fi
    done
    return 1
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null 2>&1; then
        sudo "$@"
    else
        fail "only root can install what is missing: install sudo, or run" \
            "this as root once"
    fi
}

# Waits while another apt is at work.
install() {
    as_root apt-get -o DPkg::Lock::Timeout=300 -q -y install \
        --no-install-recommends "$@" >/dev/null
}

setup() {
    command -v apt-get >/dev/null 2>&1 && command -v dpkg-query >/dev/null ||
        fail "no apt here. Install by hand: a C compiler, cmake, ninja," \
            "pkg-config, LLVM 22 (or 21, 20) with its C headers, cJSON," \
            "xxHash, and for the tests check, a C++ compiler, python3 with numpy" \
            "and LLVM's lit and FileCheck; then: cmake -B build -G Ninja && cmake --build build"
    if ! find_llvm; then
        as_root apt-get update -q >/dev/null ||
            fail "apt-get update failed: is there a network?"
        find_llvm || fail "apt has neither llvm-22-dev, llvm-21-dev nor" \
            "llvm-20-dev: add a package source that has LLVM 22"
    fi
    want="gcc libc6-dev cmake ninja-build pkg-config llvm-$LLVM-dev
          libcjson-dev libxxhash-dev libzstd-dev zlib1g-dev"
    [ "${1:-}" = wheel ] && want="$want python3 python3-dev python3-venv"
    [ "${1:-}" = test ] &&
        want="$want check dpkg-dev file g++ python3 python3-dev python3-venv python3-numpy python3-pil librsvg2-bin llvm-$LLVM-tools clang-$LLVM
              libclang-rt-$LLVM-dev libopenblas-dev clang-format-14"
    # A browser looks at the inspector's page, vim at its syntax file, node
    # runs the extension of VS Code, in long tests only.
    [ "${what:-}" = all ] && want="$want chromium vim nodejs"
    missing=
    for package in $want; do
        installed "$package" || missing="$missing $package"
    done
    [ -z "$missing" ] && return 0
    echo "setup: installing$missing"
    export DEBIAN_FRONTEND=noninteractive
    as_root true
    # Word splitting is wanted below. The second try has fresh package lists.
    # shellcheck disable=SC2086
    install $missing 2>/dev/null ||
        { as_root apt-get update -q >/dev/null && install $missing; } ||
        fail "apt-get could not install:$missing"
}
