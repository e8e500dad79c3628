/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known along axes: each fact is checked against the values that an
 * example computes, lane by lane, or against what a launch may bring.
 */
#include "passes/analysis/axis_info.h"
#include "test/unit/fixture/fixture.h"
#include "test/unit/run.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static tc_arena scratch;
static tc_module *modules[32];
static unsigned nmodules;

static void setup(void)
{
    fixture_setup();
    tc_arena_init(&scratch, &cx->memory);
}

static void teardown(void)
{
    while (nmodules)
        tc_module_free(modules[--nmodules]);
    tc_arena_reset(&scratch);
    fixture_teardown();
}

/* The body of a kernel with these arguments, analysed. */
static tc_axis_analysis *analyse(const char *body, uint64_t aligned)
{
    const char *text = tc_arena_printf(
        &scratch,
        "kernel @k(%%t: tensor<[?, ?] x f16>, %%c: tensor<[?, 64] x f16>,"
        " %%p: ptr<f32>, %%n: i32) grid(1) {\n%s\n}",
        body);
    tc_module *m = modules[nmodules++] = fixture_parse(text);
    return tc_axis_analyse(&scratch, m->first, aligned);
}

static tc_axis axis_of(const tc_axis_analysis *a, const char *name,
                       unsigned axis)
{
    const tc_op *op = fixture_named(a->f->body, name);
    return tc_axis_info_of(a, op->out[0])->axis[axis];
}

#define check_axis(got, a, b, c)                                               \
    do {                                                                       \
        tc_axis x = (got);                                                     \
        ck_assert_uint_eq(x.run, a);                                           \
        ck_assert_uint_eq(x.divisor, b);                                       \
        ck_assert_uint_eq(x.same, c);                                          \
    } while (0)

START_TEST(test_runs)
{
    tc_axis_analysis *a = analyse("%r = range(64)\n"
                                  "%i = program_id(0) * 48\n"
                                  "%x = %i + %r\n"
                                  "%y = %x / 8\n"
                                  "%z = rem(%x, 32)\n"
                                  "%w = %x * 4\n"
                                  "%v = range(80)\n"
                                  "%u = %r + %r\n"
                                  "%d = 63 - %r\n"
                                  "%m = min(%x, %n)\n"
                                  "%s = %x >> 3\n"
                                  "%su = %x >>> 3\n"
                                  "%h = %i >> 2\n"
                                  "%f = %i >> 5\n"
                                  "%k = %i >> %n",
                                  0);
    check_axis(axis_of(a, "r", 0), 64, 64, 1);
    ck_assert_uint_eq(axis_of(a, "i", 0).divisor, 16);
    check_axis(axis_of(a, "x", 0), 64, 16, 1);
    /* 48 + 0.. divided by 8: eight equal lanes. */
    check_axis(axis_of(a, "y", 0), 1, 1, 8);
    /* 48 + 0.. rem 32: 16 .. 31, 0 .. */
    check_axis(axis_of(a, "z", 0), 16, 16, 1);
    check_axis(axis_of(a, "w", 0), 1, 4, 1);
    check_axis(axis_of(a, "v", 0), 16, 16, 1);
    check_axis(axis_of(a, "u", 0), 1, 1, 1);
    ck_assert_uint_eq(axis_of(a, "d", 0).run, 1);
    check_axis(axis_of(a, "m", 0), 1, 1, 1);
    /* As divided by 8 and by 4; 48 is no multiple of 32. */
    check_axis(axis_of(a, "s", 0), 1, 1, 8);
    check_axis(axis_of(a, "su", 0), 1, 1, 8);
    ck_assert_uint_eq(axis_of(a, "h", 0).divisor, 4);
    ck_assert_uint_eq(axis_of(a, "f", 0).divisor, 1);
    ck_assert_uint_eq(axis_of(a, "k", 0).divisor, 1);
}
END_TEST

START_TEST(test_shapes)
{
    tc_axis_analysis *a = analyse("%r = range(64)\n"
                                  "%e = %r[:, none]\n"
                                  "%b = broadcast %e : tile<64x32 x i32>\n"
                                  "%f = trans(%b)\n"
                                  "%s = splat(%n, tile<64 x i32>)\n"
                                  "%m = %r < 48\n"
                                  "%g = %r >= %s",
                                  0);
    check_axis(axis_of(a, "e", 0), 64, 64, 1);
    check_axis(axis_of(a, "b", 0), 64, 64, 1);
    check_axis(axis_of(a, "b", 1), 1, 1, 32);
    check_axis(axis_of(a, "f", 1), 64, 64, 1);
    check_axis(axis_of(a, "f", 0), 1, 1, 32);
    check_axis(axis_of(a, "s", 0), 1, 1, 64);
    ck_assert_uint_eq(axis_of(a, "m", 0).same, 16);
    ck_assert_uint_eq(axis_of(a, "g", 0).same, 1);
}
END_TEST

START_TEST(test_loops)
{
    tc_axis_analysis *a =
        analyse("%e, %q = for %i = 32 to %n step 96 carry(%x = 64, %y = 64) {\n"
                "  %j = %i + 0\n"
                "  yield %x + 8, %y + %i\n"
                "}\n"
                "%w = while carry(%v = 16) { condition %v < %n } do {\n"
                "  yield %v + 24 }",
                0);
    ck_assert_uint_eq(axis_of(a, "j", 0).divisor, 32);
    const tc_op *loop = fixture_op(a->f->body, TC_FOR);
    ck_assert_uint_eq(tc_axis_divisor(tc_axis_info_of(a, loop->out[0])), 8);
    ck_assert_uint_eq(tc_axis_divisor(tc_axis_info_of(a, loop->out[1])), 32);
    ck_assert_uint_eq(axis_of(a, "w", 0).divisor, 8);
}
END_TEST

START_TEST(test_tensors)
{
    const char *body = "%s = size(%t, 1)\n"
                       "%s0 = size(%t, 0)\n"
                       "%d = stride(%t, 0)\n"
                       "%e = stride(%t, 1)\n"
                       "%r = cast(range(64), i64)\n"
                       "%q = base(%t) + (%d * 3 + %r * %e)";
    tc_axis_analysis *a = analyse(body, 1);
    ck_assert_uint_eq(axis_of(a, "s", 0).divisor, 8);
    ck_assert_uint_eq(axis_of(a, "s0", 0).divisor, 1);
    ck_assert_uint_eq(axis_of(a, "d", 0).divisor, 8);
    check_axis(axis_of(a, "q", 0), 64, 16, 1);
    a = analyse(body, 0);
    ck_assert_uint_eq(axis_of(a, "s", 0).divisor, 1);
    check_axis(axis_of(a, "q", 0), 1, 2, 1);
}
END_TEST

/* Elements that the last load may move at once. */
static tc_vector vector_of(const char *body, uint64_t aligned)
{
    tc_axis_analysis *a = analyse(body, aligned);
    const tc_op *op = fixture_named(a->f->body, "x");
    ck_assert_ptr_nonnull(op);
    return tc_axis_vector(a, op);
}

START_TEST(test_vectors)
{
    static const struct {
        const char *body;
        uint64_t aligned;
        unsigned axis, elements;
    } cases[] = {
        {"%x = load %t[%n +: 16, 0 +: 64] boundary(0, 1)", 1, 1, 8},
        {"%x = load %t[%n +: 16, 0 +: 64] boundary(0, 1)", 0, 1, 1},
        {"%x = load %t[0 +: 16, %n +: 64] boundary(0, 1)", 1, 1, 1},
        {"%x = load %t[0 +: 16, %n * 4 +: 64] boundary(0, 1)", 1, 1, 4},
        {"%x = load %t[0 +: 16, 0 +: 1] boundary(0, 1)", 1, 1, 1},
        {"%x = load %t[0 +: 16, 3] boundary(0)", 1, 0, 1},
        {"%x = load %t[%n, 0 +: 64] boundary(0)", 1, 0, 8},
        {"%x = load base(%t) + range(64)", 1, 0, 8},
        {"%x = load base(%t) + range(64)", 0, 0, 1},
        {"%x = load base(%t) + range(64), range(64) < 48", 1, 0, 8},
        {"%x = load base(%t) + range(64), range(64) < 44", 1, 0, 4},
        {"%x = load base(%t) + range(64), range(64) < %n", 1, 0, 1},
        {"%x = load %p + range(64)", 3, 0, 1},
        {"%x = %t[%n, range(64)]", 1, 0, 8},
        {"%x = %t[range(64), %n]", 1, 0, 1},
        {"%w = block %t[0 +: 16, %n * 8 +: 64]\n"
         "%e = for %i = 0 to 4 carry(%v = %w) {\n"
         "  %x = load %v boundary(0, 1)\n"
         "  print \"x\", %x\n"
         "  yield advance(%v, 0, 2)\n"
         "}",
         1, 1, 2},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        tc_vector v = vector_of(cases[i].body, cases[i].aligned);
        ck_assert_msg(
            v.axis == cases[i].axis && v.elements == cases[i].elements,
            "%s: %u along axis %u", cases[i].body, v.elements, v.axis);
        ck_assert_msg((v.why == NULL) == (v.elements == 8), "%s: %s",
                      cases[i].body, v.why ? v.why : "no reason");
    }
}
END_TEST

START_TEST(test_what_is_accessed)
{
    tc_axis_analysis *a = analyse("%x = load base(%c) + range(64)\n"
                                  "%y = load %p + range(64)\n"
                                  "%z = load %c[0 +: 8, 0 +: 8]",
                                  0);
    const tc_value *c = a->f->body->args[1];
    ck_assert_ptr_eq(tc_accessed_tensor(fixture_named(a->f->body, "x")), c);
    ck_assert_ptr_null(tc_accessed_tensor(fixture_named(a->f->body, "y")));
    ck_assert_ptr_eq(tc_accessed_tensor(fixture_named(a->f->body, "z")), c);
    ck_assert(tc_can_be_aligned(c->type));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("axis_info");
    TCase *t = tcase_create("axis_info");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, test_runs);
    tcase_add_test(t, test_shapes);
    tcase_add_test(t, test_loops);
    tcase_add_test(t, test_tensors);
    tcase_add_test(t, test_vectors);
    tcase_add_test(t, test_what_is_accessed);
    suite_add_tcase(s, t);
    return run_suite(s);
}
