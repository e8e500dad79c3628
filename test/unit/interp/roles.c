/* SPDX-License-Identifier: Apache-2.0
 *
 * A matrix product by two roles, with asynchronous products and a TMA store:
 * right in all orders and for all trip counts, and with every mistake that
 * their agreement can have.
 */
#include "test/unit/interp/fixture.h"

static const char by_roles[] =
    "kernel @matmul(%a: tensor<[?, ?] x f16>, %b: tensor<[?, ?] x f16>,\n"
    "               %c: tensor<[?, ?] x f16>) aligned(0, 1, 2) warps(8)\n"
    "               shared(74240) grid(cdiv(size(%a, 0), 128), "
    "cdiv(size(%b, 1), 32)) {\n"
    "  %m = program_id(0) * 128\n"
    "  %n = program_id(1) * 32\n"
    "  %k = size(%a, 1)\n"
    "  %as = smem_alloc offset(0) : smem<128x64 x f16, #swizzle128, 3>\n"
    "  %bs = smem_alloc offset(49152) : smem<64x32 x f16, #swizzle64, 3>\n"
    "  %out = smem_alloc offset(65536) : smem<128x32 x f16, #swizzle64>\n"
    "  %full = mbarrier_alloc arrivals(1) offset(73728) : mbarrier<3>\n"
    "  %empty = mbarrier_alloc arrivals(2) offset(73856) : mbarrier<3>\n"
    "  barrier // start\n"
    "  warp_groups registers(24, 240) producer {\n"
    "    %ps, %pp = for %k0 = 0 to %k step 64 carry(%slot = 0, %phase = 1) {\n"
    "      mbarrier_wait %empty, %slot, %phase // producer\n"
    "      mbarrier_arrive %full, %slot bytes(20480)\n"
    "      %as1 = smem_index %as, %slot\n"
    "      %bs1 = smem_index %bs, %slot\n"
    "      tma_load block %a[%m +: 128, %k0 +: 64], %as1, %full, %slot\n"
    "      tma_load block %b[%k0 +: 64, %n +: 32], %bs1, %full, %slot\n"
    "      %last = %slot == 2\n"
    "      yield select(%last, 0, %slot + 1), %phase ^ cast(%last, i32)\n"
    "    }\n"
    "  } consumer {\n"
    "    %zero = splat(0.0, tile<128x32 x f32, #wgmma(2x1)>)\n"
    "    %sum, %cs, %cp, %left = for %k0 = 0 to %k step 64 carry(%acc = %zero, "
    "%slot = 0, %phase = 0, %before = 0) {\n"
    "      mbarrier_wait %full, %slot, %phase // consumer\n"
    "      %as2 = smem_index %as, %slot\n"
    "      %bs2 = smem_index %bs, %slot\n"
    "      %acc1 = mma %as2, %bs2, %acc instr(m64k16) async(true)\n"
    "      %acc2 = mma_wait %acc1 pending(0) // loop\n"
    "      mbarrier_arrive %empty, %slot // free\n"
    "      %last = %slot == 2\n"
    "      yield %acc2, select(%last, 0, %slot + 1), %phase ^ cast(%last, "
    "i32), %slot\n"
    "    }\n"
    "    smem_store %out, cast(%sum, f16)\n"
    "    fence_async\n"
    "    barrier // store\n"
    "    tma_store block %c[%m +: 128, %n +: 32], %out\n"
    "    tma_store_wait pending(0)\n"
    "  }\n"
    "}\n";

static void fill(const interp_matrices *x)
{
    for (size_t i = 0; i < x->a.count; i++)
        interp_set(&x->a, i, (double)((i * 7 + i / 5) % 5) - 2);
    for (size_t i = 0; i < x->b.count; i++)
        interp_set(&x->b, i, (double)((i * 5 + i / 3) % 3) - 1);
}

static interp_matrices make(int m, int n, int k)
{
    interp_matrices x = {
        .a = interp_new(TC_F16, 2, (const int32_t[]){m, k}),
        .b = interp_new(TC_F16, 2, (const int32_t[]){k, n}),
        .c = interp_new(TC_F16, 2, (const int32_t[]){m, n}),
    };
    fill(&x);
    return x;
}

#define STORE                                                                  \
    "    barrier // store\n    tma_store block %c[%m +: 128, %n +: 32], "      \
    "%out\n"
#define ROWS " %c[%m +: 128, %n +: 32], %out scope(group)\n"

/* Trip counts 0, 1, 2, n, n + 1, more; sizes that divide and that do not. */
START_TEST(right_in_all_orders)
{
    static const int depths[] = {0, 8, 128, 192, 256, 448};
    interp_text(by_roles);
    if (_i) /* each group stores its rows */
        interp_change(STORE, "    barrier scope(group)\n"
                             "    tma_store block" ROWS
                             "    tma_store_wait pending(0)\n"
                             "    barrier scope(group)\n"
                             "    smem_store %out, cast(%sum, f16)\n");
    interp_parse();
    for (int i = 0; i < 6; i++)
        for (int order = 0; order < TC_INTERP_ORDER_COUNT; order++) {
            interp_matrices x = make(136, 40, depths[i]);
            bool ok = interp_multiply(&x, (tc_interp_order)order, 1);
            interp_expect_nothing();
            ck_assert(ok);
            ck_assert(interp_is_product(&x));
            interp_close();
            interp_parse();
        }
}
END_TEST

START_TEST(example_of_the_language)
{
    interp_text_from("ir/LANGUAGE.md", "kernel @matmul(%a: tensor<[?, ?]");
    interp_parse();
    interp_matrices x = {
        .a = interp_new(TC_BF16, 2, (const int32_t[]){128, 320}),
        .b = interp_new(TC_BF16, 2, (const int32_t[]){320, 72}),
        .c = interp_new(TC_BF16, 2, (const int32_t[]){128, 72})};
    fill(&x);
    bool ok = interp_multiply(&x, TC_INTERP_RANDOM, 3);
    interp_expect_nothing();
    ck_assert(ok);
    ck_assert(interp_is_product(&x));
}
END_TEST

/* One change, and what is found in all orders: part of the message, of the
 * line, and of the line of the note. */
typedef struct mistake {
    const char *from, *to, *message, *line, *note;
} mistake;

static const mistake mistakes[] = {
    /* mbarriers. */
    {"  barrier // start\n", "",
     "race: no barrier after the mbarrier was initialised", "mbarrier_wait",
     "mbarrier_alloc"},
    {"      mbarrier_arrive %empty, %slot // free\n", "",
     "waits for ever: slot 0 has seen 1 phases, in this one 0 of 1 arrivals",
     "// consumer", "// producer"},
    {"      mbarrier_arrive %full, %slot bytes(20480)\n", "",
     "waits for ever: slot 0 has seen 0 phases, in this one 0 of 1 arrivals, "
     "and 20480 bytes too many",
     "// consumer", "// producer"},
    {"bytes(20480)", "bytes(20496)",
     "1 of 1 arrivals, and 16 bytes are missing", "// consumer", "// producer"},
    {"mbarrier_alloc arrivals(2)", "mbarrier_alloc arrivals(3)",
     "waits for ever", "// consumer", "// producer"},
    {"%slot = 0, %phase = 1)", "%slot = 0, %phase = 0)",
     "waits for ever: slot 0 has seen 0 phases, in this one 0 of 1 arrivals",
     "// consumer", "// producer"},
    {"arrivals(2) offset(73856) : mbarrier<3>",
     "arrivals(2) offset(73856) : mbarrier<2>", "slot 2 of a ring of 2",
     "mbarrier", NULL},
    /* Products. */
    {"      %acc2 = mma_wait %acc1 pending(0) // loop\n"
     "      mbarrier_arrive %empty, %slot // free\n",
     "      mbarrier_arrive %empty, %slot // free\n"
     "      %acc2 = mma_wait %acc1 pending(0) // loop\n",
     "race: overwrites what an asynchronous mma may still read",
     "tma_load block %a", "%acc1 = mma"},
    {"pending(0) // loop", "pending(1)",
     "race: overwrites what an asynchronous mma may still read",
     "tma_load block %a", "%acc1 = mma"},
    /* The store. */
    {"    fence_async\n", "",
     "reads asynchronously what threads have written, with no fence_async",
     "tma_store block", "smem_store %out"},
    {"    fence_async\n    barrier // store\n",
     "    barrier // store\n    fence_async\n",
     "reads asynchronously what threads have written, with no fence_async",
     "tma_store block", "smem_store %out"},
    {"    barrier // store\n", "", "race: reads what thread", "tma_store block",
     "smem_store %out"},
    {"    barrier // store\n", "    barrier scope(group)\n",
     "race: reads what thread 128 has written", "tma_store block",
     "smem_store %out"},
    {"    tma_store_wait pending(0)\n", "",
     "may still read shared memory at the end", "tma_store block", NULL},
    /* By groups. */
    {STORE, "    tma_store block" ROWS, "race: reads what thread",
     "tma_store block", "smem_store %out"},
    {STORE,
     "    barrier scope(group)\n"
     "    tma_store block" ROWS "    tma_store_wait pending(0)\n"
     "    smem_store %out, cast(%sum, f16) // again\n",
     "race: overwrites what a TMA store may still read", "// again",
     "tma_store block"},
    {STORE "    tma_store_wait pending(0)\n",
     "    barrier scope(group)\n    tma_store block" ROWS,
     "may still read shared memory at the end", "tma_store block", NULL},
    {"    tma_store_wait pending(0)\n",
     "    smem_store %out, cast(%sum, f16) // again\n"
     "    tma_store_wait pending(0)\n",
     "race: overwrites what a TMA store may still read", "// again",
     "tma_store block"},
    {"    tma_store_wait pending(0)\n",
     "    tma_store_wait pending(0)\n"
     "    smem_store %out, cast(%sum, f16) // again\n",
     "race: overwrites what a TMA store may still read", "// again",
     "tma_store block"},
    {"    tma_store_wait pending(0)\n",
     "    tma_store block %c[%m +: 128, %n +: 32], %out // again\n"
     "    tma_store_wait pending(0)\n",
     "race: a TMA copy writes global memory that was written before",
     "// again", "tma_store block"},
    /* Places. */
    {"offset(49152) : smem", "offset(49280) : smem",
     "a buffer at byte 49280, expected a multiple of 512", "tma_load block %b",
     NULL},
    {"%out = smem_alloc offset(65536)", "%out = smem_alloc offset(0)",
     "race: overwrites what an asynchronous mma may still read", "smem_store",
     "%acc1 = mma"},
    {"offset(73728) : mbarrier", "offset(65536) : mbarrier",
     "touches bytes of mbarriers", "smem_store %out", "%full = mbarrier_alloc"},
    {"shared(74240)", "shared(73872)",
     "bytes 73856 to 73879 are outside of the kernel's shared(73872)",
     "%empty = mbarrier_alloc", NULL},
    /* What no instruction does. */
    {"aligned(0, 1, 2)", "aligned(0, 1)", "no TMA copy does it",
     "tma_store block", NULL},
    {"    tma_store block",
     "    tma_load block %c[%m +: 128, %n +: 32], %out, "
     "%full, 0\n    tma_store block",
     "not in the producer", "tma_load block %c", NULL},
    /* What others may see of it hangs on the order. */
    {"      mbarrier_wait %full, %slot, %phase // consumer\n", "", "", "",
     NULL},
    {"      mbarrier_wait %empty, %slot, %phase // producer\n", "", "", "",
     NULL},
    {"bytes(20480)", "bytes(16384)", "", "", NULL},
    {" bytes(20480)", "", "", "", NULL},
    {"mbarrier_alloc arrivals(2)", "mbarrier_alloc arrivals(1)", "", "", NULL},
    {"%slot = 0, %phase = 0, %before", "%slot = 0, %phase = 1, %before", "", "",
     NULL},
    {"%phase ^ cast(%last, i32), %slot\n", "%phase, %slot\n", "", "", NULL},
    {"%phase ^ cast(%last, i32)\n", "%phase\n", "", "", NULL},
    {"tma_load block %b[%k0 +: 64, %n +: 32], %bs1, %full, %slot",
     "tma_load block %b[%k0 +: 64, %n +: 32], %bs1, %empty, %slot", "", "",
     NULL},
    {"%slot // free", "%before // free", "", "", NULL},
};
enum { NMISTAKES = sizeof mistakes / sizeof *mistakes };

START_TEST(mistake_is_found)
{
    const mistake *x = &mistakes[_i];
    interp_text(by_roles);
    interp_change(x->from, x->to);
    for (int order = 0; order < TC_INTERP_ORDER_COUNT; order++) {
        interp_parse();
        interp_matrices m = make(136, 40, 448);
        ck_assert_msg(!interp_multiply(&m, (tc_interp_order)order, 7),
                      "order %d: nothing found", order);
        interp_expect(x->message, x->line, x->note);
        interp_close();
    }
}
END_TEST

void interp_role_tests(TCase *t)
{
    tcase_add_loop_test(t, right_in_all_orders, 0, 2);
    tcase_add_test(t, example_of_the_language);
    tcase_add_loop_test(t, mistake_is_found, 0, NMISTAKES);
}
