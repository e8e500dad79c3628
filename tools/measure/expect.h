/* SPDX-License-Identifier: Apache-2.0
 *
 * Expected diagnostics, for tests: comments such as
 *
 *   // expected-error@+1 {{operand 1 is i32}}
 *   %c = add %a, %b
 *
 * say that an error (warning, remark, note) whose message holds the text
 * arises at that line: `@+N`, `@-N` (lines from here), `@above`, `@below`,
 * `@N` (a line), `@unknown` (at no place), or nothing (this line).
 */
#ifndef TOOL_EXPECT_H
#define TOOL_EXPECT_H

#include "ir/base/diag.h"

#include <stdio.h>

/* Compares what a source expects with what arose in it (or at no place).
 * Every expectation must be met by one diagnostic, and every error, warning
 * and remark must be expected; notes may be. Differences are printed. */
bool expect_check(FILE *out, tc_context *cx, uint32_t source);

#endif
