/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts of 64 KiB that would take a machine's time and memory end in an error
 * that says which line asks for most, and what to do. (test/bench/growth.c says
 * how long all of them take.)
 */
#include "test/unit/growth/texts.h"
#include "test/unit/run.h"

#include <string.h>

static const struct bound {
    const char *name, *target;
    const char *message, *note; /* parts of the error's; note: or none */
    unsigned line;              /* of the text; 0: of a kernel of the library */
} bounds[] = {
    {"calls-twice", "cpu", "inline makes more than 65536 ops", "each call", 1},
    {"calls-twice", "sm_80", "inline makes more than 65536 ops", "each call",
     1},
    {"calls-sixteen", "sm_90a", "inline makes more than 65536", "each call", 1},
    {"calls-of-tiles", "cpu", "inline makes more than 65536", "each call", 1},
    {"calls-derived", "cpu", "differentiate makes more than", "gradients", 1},
    {"wide", "sm_80", "more than 131072 instructions", "smaller tiles", 3},
    {"wide", "sm_90a", "more than 131072 instructions", "smaller tiles", 3},
    {"wide-chain", "sm_80", "more than 131072 instructions", "more warps", 2},
    {"row", "sm_90a", "more than 131072 instructions", "smaller tiles", 3},
    {"wide-region", "sm_80", "more than 131072 instructions", "smaller", 3},
    {"wide-gather", "sm_80", "more than 131072 instructions", "smaller", 3},
    {"gathers-of-tiles", "sm_90a", "more than 131072", "smaller tiles", 3},
    {"wide-atomic", "sm_80", "more than 131072 instructions", "smaller", 3},
    {"wide-masked", "sm_90a", "more than 131072 instructions", "smaller", 4},
    {"gathers", "sm_80", "more than 131072 instructions", "smaller", 3},
    {"plan-launches", "cpu", "needs more than 64 kernels", NULL, 70},
    {"machine-wide", "sm_80", "more than 131072 instructions", "smaller", 2},
};

static const tilec_diagnostic *first_error(const tilec_context *cx)
{
    const tilec_diagnostic *d = tilec_diagnostics(cx);
    while (d && d->severity != TILEC_ERROR)
        d = d->next;
    return d;
}

START_TEST(text_ends_in_an_error)
{
    const struct bound *b = &bounds[_i];
    tilec_context *cx;
    tilec_kernel *k = NULL;
    ck_assert_int_eq(tilec_context_new(NULL, &cx), TILEC_OK);
    tilec_status s = growth_compile(cx, growth_find(b->name), b->target, 0, &k);
    ck_assert_int_eq(s, TILEC_INPUT);
    const tilec_diagnostic *d = first_error(cx);
    ck_assert_ptr_nonnull(d);
    ck_assert_msg(strstr(d->message, b->message), "%s: %s", b->name,
                  d->message);
    ck_assert_uint_eq(d->line, b->line);
    if (!b->note)
        ck_assert_ptr_null(d->notes);
    else
        ck_assert_msg(strstr(d->notes->message, b->note), "%s: %s", b->name,
                      d->notes->message);
    tilec_context_free(cx);
}
END_TEST

/* Loops in loops: barriers are found without a walk for each path of steps. */
START_TEST(nested_loops_compile)
{
    tilec_context *cx;
    tilec_kernel *k = NULL;
    ck_assert_int_eq(tilec_context_new(NULL, &cx), TILEC_OK);
    const struct growth_case *c = growth_find("fors-in-fors");
    ck_assert_int_eq(growth_compile(cx, c, "sm_80", 0, &k), TILEC_OK);
    tilec_kernel_free(k);
    tilec_context_free(cx);
}
END_TEST

/* What is refused is refused for its size alone. */
START_TEST(few_pieces_compile)
{
    const struct bound *b = &bounds[_i];
    const struct growth_case *c = growth_find(b->name);
    tilec_context *cx;
    tilec_kernel *k = NULL;
    if (!c->piece || strncmp(b->name, "wide", 4) == 0 || c->gpu_only)
        return; /* a tile is large in one piece, too */
    ck_assert_int_eq(tilec_context_new(NULL, &cx), TILEC_OK);
    ck_assert_int_eq(growth_compile(cx, c, b->target, 2, &k), TILEC_OK);
    tilec_kernel_free(k);
    tilec_context_free(cx);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("growth");
    TCase *t = tcase_create("bounds");
    const int n = (int)(sizeof bounds / sizeof *bounds);
    tcase_add_loop_test(t, text_ends_in_an_error, 0, n);
    tcase_add_loop_test(t, few_pieces_compile, 0, n);
    tcase_add_test(t, nested_loops_compile);
    suite_add_tcase(s, t);
    return run_suite(s);
}
