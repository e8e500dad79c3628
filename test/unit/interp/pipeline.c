/* SPDX-License-Identifier: Apache-2.0
 *
 * A matrix product with three stages of asynchronous copies: right in all
 * orders and for all trip counts, and with every mistake that a schedule can
 * have.
 */
#include "test/unit/interp/fixture.h"

#include <math.h>
#include <stdio.h>

static const char pipelined[] =
    "kernel @matmul(%a: tensor<[?, ?] x f16>, %b: tensor<[?, ?] x f16>,\n"
    "               %c: tensor<[?, ?] x f32>) aligned(0, 1) warps(2)\n"
    "               shared(9216) grid(cdiv(size(%a, 0), 32), "
    "cdiv(size(%b, 1), 16)) {\n"
    "  %as = smem_alloc offset(0) : smem<32x32 x f16, #swizzle64, 3>\n"
    "  %bs = smem_alloc offset(6144) : smem<32x16 x f16, #swizzle32, 3>\n"
    "  %m = program_id(0) * 32\n"
    "  %n = program_id(1) * 16\n"
    "  %k = size(%a, 1)\n"
    "  %ablock = block %a[%m +: 32, 0 +: 32]\n"
    "  %bblock = block %b[0 +: 32, %n +: 16]\n"
    "  %as0 = smem_index %as, 0\n"
    "  %bs0 = smem_index %bs, 0\n"
    "  async_copy %ablock, %as0, 0 < %k boundary(0, 1) "
    "layout(#blocked(1x8, 8x4, 2x1))\n"
    "  async_copy %bblock, %bs0, 0 < %k boundary(0, 1) "
    "layout(#blocked(1x8, 16x2, 2x1))\n"
    "  async_commit\n"
    "  %as1 = smem_index %as, 1\n"
    "  %bs1 = smem_index %bs, 1\n"
    "  %ablock1 = advance %ablock, 0, 32\n"
    "  %bblock1 = advance %bblock, 32, 0\n"
    "  async_copy %ablock1, %as1, 32 < %k boundary(0, 1) "
    "layout(#blocked(1x8, 8x4, 2x1))\n"
    "  async_copy %bblock1, %bs1, 32 < %k boundary(0, 1) "
    "layout(#blocked(1x8, 16x2, 2x1))\n"
    "  async_commit\n"
    "  %zero = splat(0.0, tile<32x16 x f32, #mma(2x1)>)\n"
    "  %sum, %s, %t = for %k0 = 0 to %k step 32 carry(%acc = %zero, "
    "%slot = 0, %free = 2) {\n"
    "    async_wait pending(1)\n"
    "    barrier\n"
    "    %far = %k0 + 64\n"
    "    %atfar = advance %ablock, 0, %far\n"
    "    %btfar = advance %bblock, %far, 0\n"
    "    %afree = smem_index %as, %free\n"
    "    %bfree = smem_index %bs, %free\n"
    "    async_copy %atfar, %afree, %far < %k boundary(0, 1) "
    "layout(#blocked(1x8, 8x4, 2x1))\n"
    "    async_copy %btfar, %bfree, %far < %k boundary(0, 1) "
    "layout(#blocked(1x8, 16x2, 2x1))\n"
    "    async_commit // loop\n"
    "    %anow = smem_index %as, %slot\n"
    "    %bnow = smem_index %bs, %slot\n"
    "    %acc1 = mma %anow, %bnow, %acc instr(m16n8k16)\n"
    "    %slot1 = select(%slot == 2, 0, %slot + 1)\n"
    "    %free1 = select(%free == 2, 0, %free + 1)\n"
    "    yield %acc1, %slot1, %free1\n"
    "  }\n"
    "  async_wait pending(0)\n"
    "  %cblock = block %c[%m +: 32, %n +: 16]\n"
    "  store %cblock, %sum boundary(0, 1)\n"
    "}\n";

static interp_matrices make(int m, int n, int k)
{
    interp_matrices x = {
        .a = interp_new(TC_F16, 2, (const int32_t[]){m, k}),
        .b = interp_new(TC_F16, 2, (const int32_t[]){k, n}),
        .c = interp_new(TC_F32, 2, (const int32_t[]){m, n}),
    };
    for (size_t i = 0; i < x.a.count; i++)
        interp_set(&x.a, i, (double)((i * 7 + i / 5) % 17) - 8);
    for (size_t i = 0; i < x.b.count; i++)
        interp_set(&x.b, i, (double)((i * 5 + i / 3) % 13) - 6);
    return x;
}

/* Trip counts 0, 1, 2, n, n + 1, more; sizes that divide and that do not. */
START_TEST(right_in_all_orders)
{
    static const int depths[] = {8, 24, 32, 64, 96, 120, 128, 200};
    interp_text(pipelined);
    interp_parse();
    for (int i = 0; i < 8; i++)
        for (int order = 0; order < TC_INTERP_ORDER_COUNT; order++) {
            interp_matrices x = make(40, 24, depths[i]);
            bool ok = interp_multiply(&x, (tc_interp_order)order, 1);
            interp_expect_nothing();
            ck_assert(ok);
            ck_assert(interp_is_product(&x));
            interp_close();
            interp_parse();
        }
    interp_matrices none = make(40, 24, 0);
    ck_assert(interp_multiply(&none, TC_INTERP_LATE, 0));
    ck_assert(interp_is_product(&none));
}
END_TEST

/* Every order finds the same in the same place. */
static void expect_in_all_orders(const char *message, const char *line,
                                 const char *note)
{
    for (int order = 0; order < TC_INTERP_ORDER_COUNT; order++) {
        interp_parse();
        interp_matrices x = make(40, 24, 160);
        ck_assert(!interp_multiply(&x, (tc_interp_order)order, 7));
        interp_expect(message, line, note);
        interp_close();
    }
}

START_TEST(no_barrier)
{
    interp_text(pipelined);
    interp_change("    barrier\n", "");
    expect_in_all_orders("race: reads what thread", "%acc1 = mma",
                         "async_copy %ablock, %as0");
}
END_TEST

START_TEST(wait_too_weak)
{
    interp_text(pipelined);
    interp_change("pending(1)", "pending(2)");
    expect_in_all_orders("reads shared memory that a copy", "%acc1 = mma",
                         "async_copy %ablock, %as0");
}
END_TEST

START_TEST(no_wait)
{
    interp_text(pipelined);
    interp_change("    async_wait pending(1)\n", "");
    expect_in_all_orders("reads shared memory that a copy", "%acc1 = mma",
                         "async_copy %ablock, %as0");
}
END_TEST

START_TEST(wrong_slot_read)
{
    interp_text(pipelined);
    interp_change("%bnow = smem_index %bs, %slot",
                  "%bnow = smem_index %bs, %free");
    expect_in_all_orders("reads shared memory that a copy", "%acc1 = mma",
                         "async_copy %btfar, %bfree");
}
END_TEST

START_TEST(wrong_slot_written)
{
    interp_text(pipelined);
    interp_change("%free1 = select(%free == 2, 0, %free + 1)",
                  "%free1 = %free");
    expect_in_all_orders("writes shared memory that a copy",
                         "async_copy %atfar", "async_copy %atfar");
}
END_TEST

START_TEST(copy_before_the_barrier)
{
    interp_text(pipelined);
    interp_change("    barrier\n", "");
    interp_change("    %anow =", "    barrier\n    %anow =");
    /* Others may still read the slot in the step before. */
    expect_in_all_orders("overwrites what other threads may still read",
                         "async_copy %atfar", "%acc1 = mma");
}
END_TEST

START_TEST(forgotten_commit)
{
    interp_text(pipelined);
    interp_change("    async_commit // loop\n", "");
    expect_in_all_orders("reads shared memory that a copy", "%acc1 = mma",
                         "async_copy %ablock1, %as1");
}
END_TEST

/* The copies of a step are in the group of the next one. */
START_TEST(commit_too_early)
{
    interp_text(pipelined);
    interp_change("    async_commit // loop\n", "");
    interp_change("    %atfar = advance",
                  "    async_commit\n    %atfar = advance");
    expect_in_all_orders("reads shared memory that a copy", "%acc1 = mma",
                         "async_copy %atfar");
}
END_TEST

START_TEST(ring_too_small)
{
    interp_text(pipelined);
    interp_change("#swizzle32, 3>", "#swizzle32, 2>");
    expect_in_all_orders("slot 2 of a ring of 2", "%bfree = smem_index", NULL);
}
END_TEST

START_TEST(buffers_overlap)
{
    interp_text(pipelined);
    interp_change("offset(6144)", "offset(5120)");
    /* Slot 2 of %as lies where slot 0 of %bs is. */
    expect_in_all_orders("reads shared memory that a copy", "%acc1 = mma",
                         "async_copy %atfar");
}
END_TEST

START_TEST(last_wait_missing)
{
    interp_text(pipelined);
    interp_change("  async_wait pending(0)\n", "");
    interp_change("%far < %k boundary(0, 1) layout(#blocked(1x8, 8x4",
                  "%far < %k + 64 boundary(0, 1) layout(#blocked(1x8, 8x4");
    expect_in_all_orders("still in flight at the end", "async_copy %atfar",
                         NULL);
}
END_TEST

START_TEST(no_boundary)
{
    interp_text(pipelined);
    interp_change("32 < %k boundary(0, 1) layout(#blocked(1x8, 16x2",
                  "32 < %k boundary(0) layout(#blocked(1x8, 16x2");
    expect_in_all_orders("copies outside of %b", "async_copy %bblock1", NULL);
}
END_TEST

START_TEST(pieces_too_small)
{
    interp_text(pipelined);
    interp_change("%btfar, %bfree, %far < %k boundary(0, 1) "
                  "layout(#blocked(1x8, 16x2, 2x1))",
                  "%btfar, %bfree, %far < %k boundary(0, 1) "
                  "layout(#blocked(1x1, 2x16, 2x1))");
    expect_in_all_orders("copies 2 bytes", "async_copy %btfar", NULL);
}
END_TEST

/* Vectors need the promise of `aligned`. */
START_TEST(not_promised)
{
    interp_text(pipelined);
    interp_change("aligned(0, 1)", "aligned(0)");
    expect_in_all_orders("copies 2 bytes", "async_copy %bblock, %bs0", NULL);
}
END_TEST

START_TEST(promise_broken)
{
    interp_text(pipelined);
    interp_parse();
    interp_matrices x = make(40, 20, 64);
    ck_assert(!interp_multiply(&x, TC_INTERP_LATE, 0));
    interp_expect("%b is not aligned", "kernel", NULL);
}
END_TEST

START_TEST(outside_of_shared)
{
    interp_text(pipelined);
    interp_change("shared(9216)", "shared(9088)");
    expect_in_all_orders("outside of the kernel's shared(9088)",
                         "%bs = smem_alloc", NULL);
}
END_TEST

/* Wrong, and harmless for the schedule: only the result tells. */
START_TEST(wrong_result)
{
    interp_text(pipelined);
    interp_change("advance %bblock, %far, 0", "advance %bblock, %k0, 0");
    interp_parse();
    interp_matrices x = make(40, 24, 160);
    ck_assert(interp_multiply(&x, TC_INTERP_LATE, 0));
    ck_assert(!interp_is_product(&x));
}
END_TEST

START_TEST(each_finding_once)
{
    interp_text(pipelined);
    interp_change("    barrier\n", "");
    interp_parse();
    interp_matrices x = make(40, 24, 160);
    ck_assert(!interp_multiply(&x, TC_INTERP_LATE, 0));
    unsigned n = 0;
    for (const tc_diag *d = interp.cx->diags; d; d = d->next)
        n++;
    ck_assert_uint_eq(n, interp.cx->nerrors);
    ck_assert_uint_le(n, 8);
    for (const tc_diag *d = interp.cx->diags; d; d = d->next)
        for (const tc_diag *e = d->next; e; e = e->next)
            ck_assert(d->loc.line != e->loc.line ||
                      d->notes->loc.line != e->notes->loc.line);
}
END_TEST

void interp_pipeline_tests(TCase *t)
{
    tcase_add_test(t, right_in_all_orders);
    tcase_add_test(t, no_barrier);
    tcase_add_test(t, wait_too_weak);
    tcase_add_test(t, no_wait);
    tcase_add_test(t, wrong_slot_read);
    tcase_add_test(t, wrong_slot_written);
    tcase_add_test(t, copy_before_the_barrier);
    tcase_add_test(t, forgotten_commit);
    tcase_add_test(t, commit_too_early);
    tcase_add_test(t, ring_too_small);
    tcase_add_test(t, buffers_overlap);
    tcase_add_test(t, last_wait_missing);
    tcase_add_test(t, no_boundary);
    tcase_add_test(t, pieces_too_small);
    tcase_add_test(t, not_promised);
    tcase_add_test(t, promise_broken);
    tcase_add_test(t, outside_of_shared);
    tcase_add_test(t, wrong_result);
    tcase_add_test(t, each_finding_once);
}
