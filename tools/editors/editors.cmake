# SPDX-License-Identifier: Apache-2.0
#
# Syntax files, to where vim looks for them; a VS Code extension, which users
# copy. Their grammars are printed by the command (tools/shell/generate.cmake).
configure_file(tools/editors/vscode/package.json
               ${CMAKE_BINARY_DIR}/editors/package.json @ONLY)
install(FILES ${SHELL_SHARE}/vim/syntax/tilec.vim
        DESTINATION ${CMAKE_INSTALL_DATADIR}/vim/vimfiles/syntax)
install(FILES tools/editors/vim/ftdetect/tilec.vim
        DESTINATION ${CMAKE_INSTALL_DATADIR}/vim/vimfiles/ftdetect)
install(FILES ${CMAKE_BINARY_DIR}/editors/package.json
              tools/editors/vscode/language-configuration.json
              tools/editors/vscode/extension.js
        DESTINATION ${CMAKE_INSTALL_DATADIR}/tilec/vscode)
install(DIRECTORY ${SHELL_SHARE}/vscode/syntaxes
        DESTINATION ${CMAKE_INSTALL_DATADIR}/tilec/vscode)
