#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Completion of command lines in bash, and manual pages.
. "$2/test/cli/expect.inc"

expect 2 completion
expect 2 completion csh
err_has "expected a shell: bash, zsh or fish"
expect 0 completion zsh
out_has "#compdef tilec"
expect 0 completion fish
out_has "complete -c tilec -n '__fish_seen_subcommand_from run' -l target -x"
expect 0 completion bash
mv out tilec.bash
touch kernel.tile

# offers WORD... -- LINE...: bash offers these words (among others) for the last
# word of the line; `!WORD`: not this one.
cat >offers.bash <<'END'
. ./tilec.bash
want=()
while [[ $1 != -- ]]; do want+=("$1"); shift; done
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_tilec
for word in "${want[@]}"; do
    found=
    for reply in "${COMPREPLY[@]}"; do
        [[ $reply == "${word#!}" ]] && found=1
    done
    case $word in
    !*) [[ ! $found ]] ;;
    *) [[ $found ]] ;;
    esac || { echo "$word: ${COMPREPLY[*]}"; exit 1; }
done
END
offers() {
    last="completion: $*"
    bash offers.bash "$@" >out 2>err || failed "$last"
    err_is_empty
}
offers attention run fmt -- tilec ''
offers completion compile '!run' -- tilec com
offers --target --emit '!--page-table' -- tilec compile --
offers sm_90a cpu auto -- tilec compile --target ''
offers sm_80 '!cpu' -- tilec compile --target = sm_
offers ptx -- tilec compile x --emit = p
offers causal -- tilec attention x --mask ca
offers kernel.tile matmul -- tilec run ''
offers kernel.tile -- tilec compile matmul -o k
offers targets layout -- tilec info ''
offers matmul -- tilec run --remarks mat
offers all -- tilec run --remarks = ''
offers '!--target' -- tilec run -- --tar
offers tune -- tilec help tu

# Every option of every command is offered, and is in its manual page.
for command in $("$tilec" info commands); do
    expect 0 info man "$command"
    mv out page
    for option in $("$tilec" "$command" --help |
        grep -oE '^  -[-a-zA-Z]+' | sort -u); do
        offers "$option" -- tilec "$command" -
        sed 's/\\-/-/g' page | grep -qF -- "fB$option" ||
            failed "tilec-$command.1 lacks $option"
    done
    LC_ALL=C.UTF-8 man -l --warnings page >out 2>err || [ -s err ] ||
        continue
    err_is_empty
done
expect 0 info man
out_has ".SH COMMANDS"
expect 2 info man nothing
finish
