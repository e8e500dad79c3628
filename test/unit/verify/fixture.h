/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules built by hand, broken in one place, and what the verifier must say.
 */
#ifndef TEST_VERIFY_FIXTURE_H
#define TEST_VERIFY_FIXTURE_H

#include "ir/ir.h"
#include "test/unit/fixture/fixture.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern tc_module *m;
extern tc_func *f; /* func @f(%a: f32, %n: i32, %x: tile<16x8 x f32>) */
extern tc_value *a, *n, *x;
extern tc_builder b; /* at the end of its body, which is empty */
static const tc_loc nowhere;
const tc_type *verify_scalar(tc_kind kind);
const tc_type *verify_shaped(tc_kind kind, int64_t rows, int64_t cols,
                             const tc_type *elem);
void verify_setup(void);
void verify_teardown(void);

/* An op at the cursor of `at`, without any check. */
tc_op *verify_raw_at(tc_builder *at, tc_opcode code, unsigned nin,
                     tc_value *const *in, unsigned nregions,
                     const tc_type *result);
tc_op *verify_raw(tc_opcode code, unsigned nin, tc_value *const *in,
                  unsigned nregions, const tc_type *result);
tc_op *verify_neg(tc_value *v);
tc_op *verify_end(tc_region *r, tc_opcode code, unsigned nin,
                  tc_value *const *in);
tc_op *verify_return_nothing(void);
void verify_expect_valid(void);

/* Exactly these errors, in this order; "" ends the list. */
void verify_expect_errors(const char *const *messages);
void verify_expect_error(const char *message);
tc_op *verify_call(tc_func *from, const char *callee);
tc_func *verify_empty_func(const char *name);
void verify_yield_one(tc_func *k);

/* An if whose regions end in yield. */
tc_op *verify_empty_if(void);

/* while carry(%c0 = n) { %s = neg %c0  condition } do { yield %s } */
tc_op *verify_counting_while(void);
void verify_functions_tests(TCase *t);
void verify_structure_tests(TCase *t);
void verify_ops_tests(TCase *t);

#endif
