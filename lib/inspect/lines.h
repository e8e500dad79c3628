/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TC_INSPECT_LINES_H
#define TC_INSPECT_LINES_H

#include "lib/tilec.h"

/* Compiles a kernel up to code generation. *json, for tilec_free: what became
 * of the source's lines,
 *   {"kernel": "matmul", "target": "sm_90a",
 *    "values": [{"line": 12, "name": "a_1", "type": "tile<..>"}, ..],
 *    "remarks": [{"line": 12, "message": "..", "missed": false}, ..]} */
tilec_status tc_inspect_lines(tilec_context *cx, const tilec_source *source,
                              const tilec_compile_options *options,
                              char **json);

#endif
