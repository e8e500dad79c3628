# SPDX-License-Identifier: Apache-2.0
#
# Completion scripts and manual pages, which the command prints, to where
# shells and `man` look for them; and a Debian package:
#
#     cmake --install build --prefix /usr/local
#     cpack -G DEB --config build/CPackConfig.cmake -B build
set(SHELL_SHARE ${CMAKE_BINARY_DIR}/share)
add_custom_command(
  OUTPUT ${SHELL_SHARE}/stamp
  COMMAND ${CMAKE_COMMAND} -D TILEC=$<TARGET_FILE:tilec> -D OUT=${SHELL_SHARE}
          -P ${CMAKE_SOURCE_DIR}/tools/shell/generate.cmake
  DEPENDS tilec ${CMAKE_SOURCE_DIR}/tools/shell/generate.cmake
  COMMENT "Completion scripts, manual pages, syntax files")
add_custom_target(tilec_share ALL DEPENDS ${SHELL_SHARE}/stamp)
install(FILES ${SHELL_SHARE}/tilec.bash RENAME tilec
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
# Debian's zsh looks into site-functions below /usr/local, and into
# vendor-completions below /usr.
foreach(folder site-functions vendor-completions)
  install(FILES ${SHELL_SHARE}/_tilec
          DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/${folder})
endforeach()
install(FILES ${SHELL_SHARE}/tilec.fish
        DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(DIRECTORY ${SHELL_SHARE}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR})
include(tools/editors/editors.cmake)

set(CPACK_PACKAGE_NAME tilec)
set(CPACK_PACKAGE_VENDOR tilec)
set(CPACK_PACKAGE_CONTACT "tilec developers <tilec@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "compiler for attention kernels")
set(CPACK_PACKAGE_DESCRIPTION
    "Compiles kernels in tile IR for NVIDIA GPUs and the CPU, and runs them.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR DEB)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
include(CPack)
