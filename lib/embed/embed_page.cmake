# SPDX-License-Identifier: Apache-2.0
#
# Writes the inspector's page as C: lib/inspect/page/page.html with the style
# and the scripts in it, cut where the data go. Runs at build time:
#
#     cmake -D PAGE=<folder> -D OUT=<file.c> -P embed_page.cmake
#
# The texts are handled as hexadecimal numbers: as they are, CMake would take
# some of their characters for its own.
set(mark_STYLE 405354594c4540)   # @STYLE@
set(mark_SCRIPT 4053435249505440) # @SCRIPT@
set(mark_DATA 404441544140)      # @DATA@
file(READ ${PAGE}/page.html page HEX)
file(GLOB styles ${PAGE}/*.css)
file(GLOB scripts ${PAGE}/*.js)
list(SORT styles)
list(SORT scripts)
set(STYLE "")
set(SCRIPT "")
foreach(file IN LISTS styles)
  file(READ ${file} hex HEX)
  string(APPEND STYLE "${hex}")
endforeach()
foreach(file IN LISTS scripts)
  file(READ ${file} hex HEX)
  string(APPEND SCRIPT "${hex}")
endforeach()
string(REPLACE ${mark_STYLE} "${STYLE}" page "${page}")
string(REPLACE ${mark_SCRIPT} "${SCRIPT}" page "${page}")
string(FIND "${page}" ${mark_DATA} at)
string(LENGTH ${mark_DATA} length)
math(EXPR after "${at} + ${length}")
string(SUBSTRING "${page}" 0 ${at} part_0)
string(SUBSTRING "${page}" ${after} -1 part_1)
foreach(i RANGE 1)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${part_${i}}")
  string(REGEX REPLACE "(............................................................)"
                       "\\1\n    " bytes_${i} "${bytes}")
endforeach()
file(WRITE ${OUT}.new
"/* Generated from lib/inspect/page by lib/embed/embed_page.cmake. */
#include \"lib/inspect/page.h\"

static const unsigned char begin[] = {
    ${bytes_0}0};
static const unsigned char end[] = {
    ${bytes_1}0};

const char *const tc_inspect_page_begin = (const char *)begin;
const char *const tc_inspect_page_end = (const char *)end;
")
file(COPY_FILE ${OUT}.new ${OUT} ONLY_IF_DIFFERENT)
file(REMOVE ${OUT}.new)
