# SPDX-License-Identifier: Apache-2.0
#
# TILEC prints completion scripts, manual pages and syntax files into OUT.
function(print file)
  execute_process(COMMAND ${TILEC} ${ARGN} OUTPUT_FILE ${OUT}/${file}
                  COMMAND_ERROR_IS_FATAL ANY)
endfunction()
file(REMOVE_RECURSE ${OUT})
file(MAKE_DIRECTORY ${OUT}/man1 ${OUT}/vim/syntax ${OUT}/vscode/syntaxes)
print(tilec.bash completion bash)
print(_tilec completion zsh)
print(tilec.fish completion fish)
print(man1/tilec.1 info man)
print(vim/syntax/tilec.vim info vim)
print(vscode/syntaxes/tilec.tmLanguage.json info textmate)
execute_process(COMMAND ${TILEC} info commands OUTPUT_VARIABLE commands
                COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n]+" commands "${commands}")
foreach(command IN LISTS commands)
  print(man1/tilec-${command}.1 info man ${command})
endforeach()
file(WRITE ${OUT}/stamp "")
