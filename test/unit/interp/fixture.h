/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs of machine level as text, run by the interpreter.
 */
#ifndef TEST_INTERP_FIXTURE_H
#define TEST_INTERP_FIXTURE_H

#include "codegen/interp/interp.h"

#include <check.h>

typedef struct interp_test {
    tc_context *cx;
    tc_module *module;
    char text[16384]; /* the program, as it was changed */
    char printed[8192];
} interp_test;
extern interp_test interp;

/* Takes a program; each following pair replaces the one place where a text
 * stands in it (which must be there) by another. */
void interp_text(const char *text);
/* The example in a document that begins like this. */
void interp_text_from(const char *path, const char *begin);
void interp_change(const char *from, const char *to);
/* Parses and verifies what was taken, which must be right. */
void interp_parse(void);
/* Runs the only kernel. */
bool interp_try(const tc_launch_arg *args, const tc_interp_options *options);
/* Exactly this first finding: part of its message, of the line that it is at,
 * and of the line of its first note (NULL: none). */
void interp_expect(const char *message, const char *line, const char *note);
/* Nothing was found. */
void interp_expect_nothing(void);
void interp_close(void);

/* A dense row-major tensor, of 16-byte aligned memory; freed by close. */
typedef struct interp_tensor {
    int32_t sizes[4];
    int64_t strides[4];
    tc_kind kind;
    size_t count;
    void *data;
} interp_tensor;
interp_tensor interp_new(tc_kind kind, unsigned rank, const int32_t *sizes);
double interp_get(const interp_tensor *t, size_t i);
void interp_set(const interp_tensor *t, size_t i, double x);
tc_launch_arg interp_arg(const interp_tensor *t);
/* The arguments of a kernel for c = a b. */
typedef struct interp_matrices {
    interp_tensor a, b, c;
    tc_launch_arg args[3];
} interp_matrices;
bool interp_multiply(interp_matrices *x, tc_interp_order order, uint64_t seed);
/* Is c exactly a b? For whole numbers. */
bool interp_is_product(const interp_matrices *x);
/* Runs a kernel(tensors without arguments) that only prints. */
const char *interp_print(const char *text);

void interp_pipeline_tests(TCase *t);
void interp_value_tests(TCase *t);
void interp_memory_tests(TCase *t);
void interp_meeting_tests(TCase *t);
void interp_role_tests(TCase *t);
void interp_transposer_tests(TCase *t);
void interp_product_tests(TCase *t);
void interp_tile_tests(TCase *t);
void interp_overlap_tests(TCase *t);
void interp_program_tests(TCase *t);

#endif
