/* SPDX-License-Identifier: Apache-2.0
 *
 * One meeting of two roles, by two mbarriers: the consumer gives a buffer, the
 * producer fills it. What each op asks of it, one mistake at a time.
 */
#include "test/unit/interp/fixture.h"

static const char meeting[] =
    "kernel @k(%x: tensor<[64, 64] x f16>, %y: tensor<[64, 64] x f16>)\n"
    "    aligned(0, 1) warps(8) shared(8320) grid(1) {\n"
    "  %s = smem_alloc offset(0) : smem<64x64 x f16, #swizzle128>\n"
    "  %full = mbarrier_alloc arrivals(1) offset(8192) : mbarrier<2>\n"
    "  %free = mbarrier_alloc arrivals(2) offset(8208) : mbarrier<2>\n"
    "  barrier // start\n"
    "  warp_groups producer {\n"
    "    mbarrier_wait %free, 0, 0 // producer\n"
    "    mbarrier_arrive %full, 0 bytes(8192)\n"
    "    tma_load %x[0 +: 64, 0 +: 64], %s, %full, 0\n"
    "  } consumer {\n"
    "    %one = splat(1.0, tile<64x64 x f16, #blocked(1x8, 4x8, 8x1)>)\n"
    "    smem_store %s, %one\n"
    "    fence_async\n"
    "    barrier scope(group)\n"
    "    mbarrier_arrive %free, 0\n"
    "    mbarrier_wait %full, 0, 0 // consumer\n"
    "    %v = smem_load %s : tile<64x64 x f16, #blocked(1x8, 4x8, 8x1)>\n"
    "    store %y[0 +: 64, 0 +: 64], %v + %one\n"
    "  }\n"
    "}\n";

static bool run(interp_tensor *x, interp_tensor *y, tc_interp_order order)
{
    *x = interp_new(TC_F16, 2, (const int32_t[]){64, 64});
    *y = interp_new(TC_F16, 2, (const int32_t[]){64, 64});
    for (size_t i = 0; i < x->count; i++)
        interp_set(x, i, (double)(i % 251));
    tc_launch_arg args[] = {interp_arg(x), interp_arg(y)};
    return interp_try(args, &(tc_interp_options){.order = order, .seed = 1});
}

static void expect_right(bool in_place)
{
    interp_parse();
    for (int order = 0; order < TC_INTERP_ORDER_COUNT; order++) {
        interp_tensor x, y;
        bool ok = run(&x, &y, (tc_interp_order)order);
        interp_expect_nothing();
        ck_assert(ok);
        for (size_t i = 0; i < x.count; i++)
            ck_assert_double_eq(interp_get(in_place ? &x : &y, i),
                                (double)(i % 251) + 1);
        interp_close();
        interp_parse();
    }
}

START_TEST(meeting_is_right)
{
    interp_text(meeting);
    expect_right(false);
}
END_TEST

/* What was copied has been read when the copy is over. */
START_TEST(in_place)
{
    interp_text(meeting);
    interp_change("store %y", "store %x");
    expect_right(true);
}
END_TEST

typedef struct mistake {
    const char *from, *to, *message, *line, *note;
} mistake;

static const mistake mistakes[] = {
    {"    fence_async\n", "",
     "overwrites asynchronously what threads have written, with no fence_async",
     "tma_load", "smem_store"},
    {"    barrier scope(group)\n", "",
     "race: overwrites what the other role has written", "tma_load",
     "smem_store"},
    {"    mbarrier_wait %free, 0, 0 // producer\n", "", "", "", NULL},
    {"%free, 0, 0 // producer", "%free, 0, 2", "parity 2, expected 0 or 1",
     "mbarrier_wait %free", NULL},
    {"    mbarrier_arrive %full, 0 bytes(8192)\n",
     "    mbarrier_arrive %full, 0 bytes(8192)\n"
     "    mbarrier_arrive %full, 0 // again\n",
     "one arrival more than the 1 that end a phase", "// again",
     "%full = mbarrier_alloc"},
    {"    mbarrier_arrive %full, 0 bytes(8192)\n",
     "    mbarrier_arrive %free, 0 bytes(1048575)\n"
     "    mbarrier_arrive %free, 0 bytes(1048575) // again\n",
     "waits for 2097150 bytes, beyond what it can count", "// again", NULL},
    {"    mbarrier_wait %full, 0, 0 // consumer\n    %v = smem_load %s : "
     "tile<64x64 x f16, #blocked(1x8, 4x8, 8x1)>\n    store %y[0 +: 64, 0 +: "
     "64], %v + %one\n",
     "", "", "tma_load", NULL},
    {"%full, 0, 0 // consumer", "%full, 1, 0",
     "slot 1 has seen 0 phases, in this one 0 of 1 arrivals; the producer has "
     "ended",
     "mbarrier_wait %full", NULL},
    {"    tma_load %x[0 +: 64, 0 +: 64], %s, %full, 0\n",
     "    tma_load %x[0 +: 64, 0 +: 64], %s, %full, 0\n"
     "    mbarrier_wait %free, 0, 1 // more\n",
     "slot 0 has seen 1 phases, in this one 0 of 2 arrivals; the consumer has "
     "ended",
     "// more", NULL},
    {"    tma_load", "    tma_store %y[0 +: 64, 0 +: 64], %s\n    tma_load",
     "in the producer, expected the first thread of the consumer", "tma_store",
     NULL},
    {"    tma_load", "    tma_store_wait pending(0)\n    tma_load",
     "in the producer, which has no TMA stores", "tma_store_wait", NULL},
    /* Global memory. */
    {"    %v = smem_load",
     "    store %x[0 +: 64, 0 +: 64], %one\n    %v = smem_load", NULL, NULL,
     NULL},
    {"    mbarrier_wait %full, 0, 0 // consumer\n",
     "    store %x[0 +: 64, 0 +: 64], %one // early\n"
     "    mbarrier_wait %full, 0, 0 // consumer\n",
     "global memory that", "", ""},
    {"    mbarrier_arrive %free, 0\n",
     "    store %x[0 +: 64, 0 +: 64], %one // early\n"
     "    mbarrier_arrive %free, 0\n",
     "race: a TMA copy reads global memory that the program writes", "tma_load",
     "// early"},
    {"    mbarrier_arrive %free, 0\n",
     "    %old = load %y[0 +: 64, 0 +: 64] : tile<64x64 x f16, #blocked(1x8, "
     "4x8, 8x1)>\n"
     "    mbarrier_arrive %free, 0\n    fence_async\n    barrier\n"
     "    tma_store %y[0 +: 64, 0 +: 64], %s // early\n"
     "    tma_store_wait pending(0)\n",
     "", "", ""},
};
enum { NMISTAKES = sizeof mistakes / sizeof *mistakes };

/* Without a message it is none. */
START_TEST(mistake_is_found)
{
    const mistake *m = &mistakes[_i];
    interp_text(meeting);
    interp_change(m->from, m->to);
    for (int order = 0; order < TC_INTERP_ORDER_COUNT; order++) {
        interp_tensor x, y;
        interp_parse();
        bool ok = run(&x, &y, (tc_interp_order)order);
        if (m->message) {
            ck_assert_msg(!ok, "order %d: nothing found", order);
            interp_expect(m->message, m->line, m->note);
        } else {
            interp_expect_nothing();
        }
        interp_close();
    }
}
END_TEST

/* An arrival and a wait with neither a product nor a barrier in between: other
 * warps may come by when the phase after has ended as well. */
START_TEST(warps_left_behind)
{
    interp_text("kernel @k(%n: i32) warps(4) shared(128) grid(1) {\n"
                "  %full = mbarrier_alloc arrivals(1) offset(0) : mbarrier<1>\n"
                "  %free = mbarrier_alloc arrivals(1) offset(8) : mbarrier<1>\n"
                "  barrier\n"
                "  warp_groups producer {\n"
                "    %p = for %i = 0 to 3 carry(%q = 1) {\n"
                "      mbarrier_wait %free, 0, %q\n"
                "      mbarrier_arrive %full, 0\n"
                "      yield %q ^ 1\n"
                "    }\n"
                "  } consumer {\n"
                "    %p = for %i = 0 to 3 carry(%q = 0) {\n"
                "      mbarrier_wait %full, 0, %q // consumer\n"
                "      barrier scope(group)\n"
                "      mbarrier_arrive %free, 0\n"
                "      yield %q ^ 1\n"
                "    }\n"
                "  }\n"
                "}\n");
    interp_parse();
    tc_launch_arg none = {0};
    ck_assert(interp_try(&none, NULL));
    interp_change("      barrier scope(group)\n", "");
    interp_parse();
    ck_assert(!interp_try(&none, NULL));
    interp_expect("may end a phase of the mbarrier before all have seen the "
                  "end of the one before",
                  "mbarrier_arrive %full", "// consumer");
}
END_TEST

START_TEST(without_roles)
{
    interp_text("kernel @k(%n: i32) warps(4) shared(128) grid(1) {\n"
                "  %b = mbarrier_alloc arrivals(1) offset(0) : mbarrier<1>\n"
                "  barrier\n"
                "  mbarrier_arrive %b, 0\n"
                "  mbarrier_wait %b, 0, 0\n"
                "  mbarrier_wait %b, 0, 1 // more\n"
                "}\n");
    interp_parse();
    tc_launch_arg none = {0};
    ck_assert(!interp_try(&none, NULL));
    interp_expect("waits for ever: slot 0 has seen 1 phases", "// more", NULL);
}
END_TEST

START_TEST(initialised_twice)
{
    interp_text("kernel @k(%n: i32) warps(4) shared(128) grid(1) {\n"
                "  for %i = 0 to 2 {\n"
                "    %b = mbarrier_alloc arrivals(1) offset(0) : mbarrier<1>\n"
                "  }\n"
                "}\n");
    interp_parse();
    tc_launch_arg none = {0};
    ck_assert(!interp_try(&none, NULL));
    interp_expect("initialised for the second time", "%b =", NULL);
}
END_TEST

void interp_meeting_tests(TCase *t)
{
    tcase_add_test(t, meeting_is_right);
    tcase_add_test(t, in_place);
    tcase_add_loop_test(t, mistake_is_found, 0, NMISTAKES);
    tcase_add_test(t, warps_left_behind);
    tcase_add_test(t, without_roles);
    tcase_add_test(t, initialised_twice);
}
