# SPDX-License-Identifier: Apache-2.0
#
# The compiled extension of lib/python, where Python's headers are. The package
# does without it. One file serves all Pythons from 3.9 on (the limited API).
# Included by the root.
find_package(Python3 COMPONENTS Interpreter
             OPTIONAL_COMPONENTS Development.Module)
if(NOT Python3_Development.Module_FOUND)
  message(STATUS "No Python.h: lib/python goes without its extension")
  add_custom_target(tilec_fast) # for those that ask for it
  return()
endif()
add_library(tilec_fast MODULE ${CMAKE_SOURCE_DIR}/lib/python/fast/fast.c)
target_include_directories(tilec_fast SYSTEM PRIVATE ${Python3_INCLUDE_DIRS}
                                                     ${DLPACK_INCLUDE})
set_target_properties(
  tilec_fast PROPERTIES PREFIX "" OUTPUT_NAME _fast SUFFIX .abi3.so
                        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
