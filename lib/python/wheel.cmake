# SPDX-License-Identifier: Apache-2.0
#
# What a wheel holds besides lib/python/tilec (pyproject.toml). Included by the
# root.

# A wheel has no symbolic links: one file, under the name that the package looks
# for. Its RUNPATH is $ORIGIN, so it finds cJSON next to it.
install(FILES $<TARGET_FILE:tilec_shared> RENAME libtilec.so
        DESTINATION tilec COMPONENT python)
if(cjson)
  install(FILES ${CMAKE_BINARY_DIR}/libcjson.so.1 DESTINATION tilec
          COMPONENT python)
endif()
if(Python3_Development.Module_FOUND)
  install(TARGETS tilec_fast LIBRARY DESTINATION tilec COMPONENT python)
endif()
# The licenses of the libraries inside, where Debian has them.
string(REGEX MATCH "^[0-9]+" llvm_major ${LLVM_VERSION})
foreach(package libcjson1 llvm-${llvm_major}-dev libxxhash-dev
                libzstd-dev zlib1g-dev)
  install(FILES /usr/share/doc/${package}/copyright RENAME ${package}.txt
          DESTINATION tilec/licenses COMPONENT python OPTIONAL)
endforeach()
