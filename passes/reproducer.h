/* SPDX-License-Identifier: Apache-2.0
 *
 * A file that repeats a failed pass: the program before it, under a first line
 *
 *     // tilec opt -p cse,dce --kernel matmul -D "BM=64" --verify-each
 *
 * that `tilec opt --run-reproducer FILE` reads as its options.
 */
#ifndef TC_REPRODUCER_H
#define TC_REPRODUCER_H

#include "passes/passes.h"

#define TC_REPRODUCER_START "// tilec opt "

/* Writes the file into options->reproducer_dir and notes its path after the
 * error (or why it could not be written). */
void tc_reproducer_write(tc_context *cx, const char *text,
                         const tc_pass_info *const *passes, unsigned npasses,
                         const tc_pass_options *options);

#endif
