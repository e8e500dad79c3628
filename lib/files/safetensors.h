/* SPDX-License-Identifier: Apache-2.0
 *
 * The format of safetensors files, shared by the reader and the writer.
 *
 *     8 bytes   length n of the header, little endian
 *     n bytes   header: JSON, {"name": {"dtype": "F32", "shape": [2, 3],
 *               "data_offsets": [begin, end]}, ..., "__metadata__": {...}},
 *               padded with blanks
 *     rest      data: row-major, little endian; offsets count from its begin
 */
#ifndef TC_SAFETENSORS_H
#define TC_SAFETENSORS_H

#include "lib/handles.h"

/* The limit of the format's own library: a longer one is an attack. */
#define TC_SAFETENSORS_MAX_HEADER 100000000u
enum { TC_SAFETENSORS_MAX_RANK = 32 };

/* The format's name of a kind: "BF16"; NULL: it has none. */
const char *tc_safetensors_dtype(tc_kind kind);

#endif
