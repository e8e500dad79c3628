# SPDX-License-Identifier: Apache-2.0
#
# Writes the C table of embedded texts: every kernels/*.tile as NAME, every
# kernels/mods/*.tile as mods/NAME (not kernels/tutorial), and that of
# kernels/configs/*.json. Runs at build time:
#
#     cmake -D KERNELS=<folder> -D OUT=<file.c> -P embed.cmake
#
# Bytes as numbers, since C limits the length of string literals.
file(GLOB_RECURSE files RELATIVE ${KERNELS} ${KERNELS}/*.tile
     ${KERNELS}/configs/*.json)
list(FILTER files EXCLUDE REGEX "^tutorial/")
list(SORT files)
set(arrays "")
set(rows "")
set(configs "")
set(index 0)
foreach(file IN LISTS files)
  file(READ ${KERNELS}/${file} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "(............................................................)"
                       "\\1\n    " bytes "${bytes}")
  string(REGEX REPLACE "[.]tile$|^configs/|[.]json$" "" name ${file})
  string(APPEND arrays "/* ${file} */\nstatic const unsigned char text_${index}[] = {\n"
                       "    ${bytes}0};\n\n")
  set(table rows)
  if(file MATCHES "[.]json$")
    set(table configs)
  endif()
  string(APPEND ${table} "    {\"${name}\", \"${file}\", (const char *)text_${index},\n"
                     "     sizeof text_${index} - 1},\n")
  math(EXPR index "${index} + 1")
endforeach()
file(WRITE ${OUT}.new
"/* Generated from kernels/ by lib/embed/embed.cmake. */
#include \"lib/handles.h\"

${arrays}const tc_embedded tc_embedded_texts[] = {
${rows}    {NULL, NULL, NULL, 0},
};

const tc_embedded tc_embedded_configs[] = {
${configs}    {NULL, NULL, NULL, 0},
};
")
file(COPY_FILE ${OUT}.new ${OUT} ONLY_IF_DIFFERENT)
file(REMOVE ${OUT}.new)
