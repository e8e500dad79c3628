/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs of a grid that share global memory: what orders them, and the orders
 * in which they run.
 */
#include "test/unit/interp/fixture.h"

enum { PROGRAMS = 3 };

/* Each program writes a number; the last one adds them up and leaves the
 * counter as it was. */
static const char last_adds[] =
    "kernel @k(%x: tensor<[?] x f32>, %c: tensor<[?] x i32>,\n"
    "          %y: tensor<[?] x f32>) warps(1) grid(3) {\n"
    "  %i = program_id 0\n"
    "  %v = cast(%i + 1, f32)\n"
    "  store base(%x) + %i, %v // part\n"
    "  %p = base %c\n"
    "  barrier\n"
    "  %n = atomic %p, 1 kind(add) order(acq_rel)\n"
    "  if %n == 2 {\n"
    "    %a = gather %x, 0\n"
    "    %b = gather %x, 1\n"
    "    %d = gather %x, 2\n"
    "    store base(%y), %a + %b + %d\n"
    "    barrier\n"
    "    store %p, 0 // reset\n"
    "  }\n"
    "}\n";

typedef struct memory {
    interp_tensor x, c, y;
} memory;

static memory run(const tc_interp_options *options)
{
    memory m = {interp_new(TC_F32, 1, (const int32_t[]){PROGRAMS}),
                interp_new(TC_I32, 1, (const int32_t[]){1}),
                interp_new(TC_F32, 1, (const int32_t[]){1})};
    tc_launch_arg args[] = {interp_arg(&m.x), interp_arg(&m.c),
                            interp_arg(&m.y)};
    interp_parse();
    interp_try(args, options);
    return m;
}

START_TEST(last_one_adds)
{
    tc_interp_options o = {.programs = (tc_interp_programs)_i, .seed = 3};
    interp_text(last_adds);
    memory m = run(&o);
    interp_expect_nothing();
    ck_assert_double_eq(interp_get(&m.y, 0), 6);
    ck_assert_double_eq(interp_get(&m.c, 0), 0);
}
END_TEST

/* from, to, message, line, note */
static const char *const mistakes[][5] = {
    {"acq_rel", "relaxed", "race: reads global memory that program",
     "%a = gather", "// part"},
    {"acq_rel", "release", "race: reads global memory that program",
     "%a = gather", "// part"},
    {"acq_rel", "acquire", "race: reads global memory that program",
     "%a = gather", "// part"},
    {"order(acq_rel)", "scope(block)", "race: reads global memory that program",
     "%a = gather", "// part"},
    /* What comes after the release is not released. */
    {"  if %n == 2 {\n", "  store base(%x) + %i, %v // late\n  if %n == 2 {\n",
     "race: reads global memory that program", "%a = gather", "// late"},
    /* A store takes the place of what was released. */
    {"  %n = atomic", "  store %p, 0 // early\n  barrier\n  %n = atomic",
     "race: writes global memory that program 0", "// early", "%n = atomic"},
};

START_TEST(is_found)
{
    const char *const *m = mistakes[_i];
    tc_interp_options o = {.max_findings = 1};
    interp_text(last_adds);
    interp_change(m[0], m[1]);
    run(&o);
    interp_expect(m[2], m[3], m[4]);
}
END_TEST

/* Who reads and who writes run in either order. */
START_TEST(in_either_order)
{
    static const char *const said[] = {"race: reads global memory",
                                       "race: writes global memory"};
    tc_interp_options o = {.programs = (tc_interp_programs)_i,
                           .max_findings = 1};
    interp_text("kernel @k(%x: tensor<[?] x f32>, %c: tensor<[?] x i32>,\n"
                "          %y: tensor<[?] x f32>) warps(1) grid(2) {\n"
                "  if program_id(0) == 0 {\n"
                "    store base(%x), 1.0\n"
                "  } else {\n"
                "    store base(%y), gather(%x, 0)\n"
                "  }\n"
                "}\n");
    run(&o);
    interp_expect(said[_i], _i ? "store base(%x)" : "gather",
                  _i ? "gather" : "store base(%x)");
}
END_TEST

/* Each program adds one to elements, the last first; the second program leaves
 * out the first steps. */
static const char adds_in_order[] =
    "kernel @k(%x: tensor<[8] x f32>, %w: tensor<[3] x i32>) warps(1) grid(3) "
    "{\n"
    "  %p = program_id(0)\n"
    "  %own = base(%w) + %p\n"
    "  %ahead = base(%w) + max(%p - 1, 0)\n"
    "  %one = splat(1.0, tile<1 x f32, #blocked(1, 32, 1)>)\n"
    "  for %i = select(%p == 1, 5, 0) to 8 {\n"
    "    follow %own, %ahead, %i // step\n"
    "    store %x[%i +: 1], %one kind(add) // add\n"
    "  }\n"
    "  follow_end %own, %ahead\n"
    "}\n";

static interp_tensor run_in_order(void)
{
    interp_tensor x = interp_new(TC_F32, 1, (const int32_t[]){8});
    interp_tensor w = interp_new(TC_I32, 1, (const int32_t[]){PROGRAMS});
    tc_launch_arg args[] = {interp_arg(&x), interp_arg(&w)};
    tc_interp_options o = {.max_findings = 1};
    interp_parse();
    interp_try(args, &o);
    return x;
}

START_TEST(adds_follow)
{
    interp_text(adds_in_order);
    if (_i) /* also where steps that are none come between */
        interp_change("    follow",
                      "    follow %own, %ahead, %i - 100\n    follow");
    interp_tensor x = run_in_order();
    interp_expect_nothing();
    for (size_t i = 0; i < 8; i++)
        ck_assert_double_eq(interp_get(&x, i), i < 5 ? 2 : 3);
}
END_TEST

/* from, to, message, line */
static const char *const other_orders[][4] = {
    /* It publishes its first step before those ahead have done what it leaves
     * out. */
    {"    follow", "    follow %own, %own, %i\n    follow",
     "in no order: at step 0, and program (0, 0, 0) adds to the same element "
     "at step 0",
     "// add"},
    /* The steps of two programs are of different elements. */
    {"%i // step", "%i - %p // step",
     "in no order: at step 4, and program (0, 0, 0) adds to the same element "
     "at step 5",
     "// add"},
    /* No program is ahead; the same one is ahead of two. */
    {"max(%p - 1, 0)", "%p",
     "in no order: at step 5, and program (0, 0, 0) adds to the same element "
     "at step 5",
     "// add"},
    {"max(%p - 1, 0)", "0",
     "in no order: at step 5, and program (1, 0, 0) adds to the same element "
     "at step 5",
     "// add"},
    {"%i // step", "8 - %i // step",
     "step 7, after 8: expected steps that ascend", "// step"},
};

START_TEST(adds_in_no_order)
{
    const char *const *m = other_orders[_i];
    interp_text(adds_in_order);
    interp_change(m[0], m[1]);
    run_in_order();
    interp_expect(m[2], m[3], NULL);
}
END_TEST

void interp_program_tests(TCase *t)
{
    tcase_add_loop_test(t, adds_follow, 0, 2);
    tcase_add_loop_test(t, adds_in_no_order, 0,
                        (int)(sizeof other_orders / sizeof *other_orders));
    tcase_add_loop_test(t, last_one_adds, 0, 3);
    tcase_add_loop_test(t, is_found, 0,
                        (int)(sizeof mistakes / sizeof *mistakes));
    tcase_add_loop_test(t, in_either_order, 0, 2);
}
