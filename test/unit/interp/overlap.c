/* SPDX-License-Identifier: Apache-2.0
 *
 * overlap-mma: programs of two roles whose products are synchronous, run
 * as they are and as the pass makes them. Nothing is added up in another
 * order, so that all bits must be equal, in all orders of what is
 * asynchronous, for loops of no step, one, two and more.
 */
#include "test/unit/interp/fixture.h"

#include "passes/passes.h"

#include <stdlib.h>
#include <string.h>

/* `%q x^T` for each block x of the keys, and what becomes of it. The ring's
 * depth is DEPTH, LAST is one less. */
#define BEFORE                                                                 \
    "kernel @k(%q: tensor<[?, ?] x bf16>, %x: tensor<[?, ?] x bf16>,\n"        \
    "          %y: tensor<[?, ?] x bf16>, %o: tensor<[?, ?] x bf16>)\n"        \
    "    aligned(0, 1, 2, 3) warps(8) shared(115712) grid(1) {\n"              \
    "  %n = size(%x, 0)\n"                                                     \
    "  %qs = smem_alloc offset(0) : smem<128x64 x bf16, #swizzle128>\n"        \
    "  %xs = smem_alloc offset(16384) : smem<64x64 x bf16, #swizzle128, "      \
    "DEPTH>\n"                                                                 \
    "  %ys = smem_alloc offset(65536) : smem<64x64 x bf16, #swizzle128, "      \
    "DEPTH>\n"                                                                 \
    "  %qf = mbarrier_alloc arrivals(1) offset(114688) : mbarrier<1>\n"        \
    "  %xf = mbarrier_alloc arrivals(1) offset(114816) : mbarrier<DEPTH>\n"    \
    "  %xe = mbarrier_alloc arrivals(2) offset(114944) : mbarrier<DEPTH>\n"    \
    "  %yf = mbarrier_alloc arrivals(1) offset(115072) : mbarrier<DEPTH>\n"    \
    "  %ye = mbarrier_alloc arrivals(2) offset(115200) : mbarrier<DEPTH>\n"    \
    "  barrier\n"                                                              \
    "  warp_groups registers(24, 240) producer {\n"                            \
    "    mbarrier_arrive %qf, 0 bytes(16384)\n"                                \
    "    tma_load block %q[0 +: 128, 0 +: 64], %qs, %qf, 0\n"                  \
    "    %ps, %pp = for %i = 0 to %n step 64 carry(%slot = 0, %phase = 1) {\n" \
    "      mbarrier_wait %xe, %slot, %phase\n"                                 \
    "      mbarrier_arrive %xf, %slot bytes(8192)\n"                           \
    "      %xb = smem_index %xs, %slot\n"                                      \
    "      tma_load block %x[%i +: 64, 0 +: 64], %xb, %xf, %slot\n"            \
    "      mbarrier_wait %ye, %slot, %phase\n"                                 \
    "      mbarrier_arrive %yf, %slot bytes(8192)\n"                           \
    "      %yb = smem_index %ys, %slot\n"                                      \
    "      tma_load block %y[%i +: 64, 0 +: 64], %yb, %yf, %slot\n"            \
    "      %last = %slot == LAST\n"                                            \
    "      yield select(%last, 0, %slot + 1), %phase ^ cast(%last, i32)\n"     \
    "    }\n"                                                                  \
    "  } consumer {\n"                                                         \
    "    %zero = splat(0.0, tile<128x64 x f32, #mma(8x1)>)\n"                  \
    "    %small = splat(0.03125, tile<128x64 x f32, #mma(8x1)>)\n"             \
    "    mbarrier_wait %qf, 0, 0\n"

#define NEXT                                                                   \
    "      %last = %slot == LAST\n"                                            \
    "      %slot1 = select(%last, 0, %slot + 1)\n"                             \
    "      %phase1 = %phase ^ cast(%last, i32)\n"

#define AFTER                                                                  \
    "    barrier\n"                                                            \
    "    smem_store %qs, cast(%acc, bf16)\n"                                   \
    "    fence_async\n"                                                        \
    "    barrier\n"                                                            \
    "    tma_store block %o[0 +: 128, 0 +: 64], %qs\n"                         \
    "    tma_store_wait pending(0)\n"                                          \
    "  }\n"                                                                    \
    "}\n"

#define LOOP                                                                   \
    "    %acc, %s.e, %p.e = for %i = 0 to %n step 64\n"                        \
    "        carry(%acc0 = %zero, %slot = 0, %phase = 0) {\n"

/* Two products in a row, the sum scaled by a maximum that goes round. */
static const char attention[] = BEFORE
    "    %low = splat(-1.0e4, tile<128 x f32, #slice(1 of 8, #mma(8x1))>)\n"
    "    %top, %acc, %s.e, %p.e = for %i = 0 to %n step 64\n"
    "        carry(%top0 = %low, %acc0 = %zero, %slot = 0, %phase = 0) {\n"
    "      mbarrier_wait %xf, %slot, %phase\n"
    "      %xb = smem_index %xs, %slot\n"
    "      %s = mma %qs, smem_trans(%xb), %zero instr(m64k16)\n"
    "      mbarrier_arrive %xe, %slot\n"
    "      %s1 = if %i > 64 { yield %s } else { yield %s * %small }\n"
    "      %top1 = max(%top0, max(%s1, axis=1))\n"
    "      %top2 = expand_dims %top1 axis(1)\n"
    "      %top3 = broadcast %top2 : tile<128x64 x f32, #mma(8x1)>\n"
    "      %p = exp2((%s1 - %top3) * %small)\n"
    "      %alpha = expand_dims %top0 - %top1 axis(1)\n"
    "      %alpha1 = broadcast %alpha : tile<128x64 x f32, #mma(8x1)>\n"
    "      %p16 = cast %p : tile<128x64 x bf16, #mma(8x1)>\n"
    "      %scaled = %acc0 * exp2(%alpha1 * %small)\n"
    "      mbarrier_wait %yf, %slot, %phase\n"
    "      %yb = smem_index %ys, %slot\n"
    "      %acc1 = mma %p16, %yb, %scaled instr(m64k16)\n"
    "      mbarrier_arrive %ye, %slot\n" NEXT
    "      yield %top1, %acc1, %slot1, %phase1\n"
    "    }\n" AFTER;

/* A sum that only products touch. */
static const char product[] =
    BEFORE LOOP "      mbarrier_wait %xf, %slot, %phase\n"
                "      %xb = smem_index %xs, %slot\n"
                "      mbarrier_wait %yf, %slot, %phase\n"
                "      %yb = smem_index %ys, %slot\n"
                "      %half = mma %qs, smem_trans(%xb), %acc0 instr(m64k16)\n"
                "      %acc1 = mma %qs, %yb, %half instr(m64k16)\n"
                "      mbarrier_arrive %xe, %slot\n"
                "      mbarrier_arrive %ye, %slot\n" NEXT
                "      yield %acc1, %slot1, %phase1\n"
                "    }\n" AFTER;

/* Two sums one step late; a third product stays, and uses both buffers. */
static const char two_sums[] =
    BEFORE "    %d, %e, %s.e, %p.e = for %i = 0 to %n step 64\n"
           "        carry(%d0 = %zero, %e0 = %zero, %slot = 0, %phase = 0) {\n"
           "      mbarrier_wait %xf, %slot, %phase\n"
           "      %xb = smem_index %xs, %slot\n"
           "      %s = mma %qs, smem_trans(%xb), %zero instr(m64k16)\n"
           "      mbarrier_wait %yf, %slot, %phase\n"
           "      %yb = smem_index %ys, %slot\n"
           "      %t = mma %qs, smem_trans(%yb), %zero instr(m64k16)\n"
           "      %p = exp2(%s * %small)\n"
           "      %p16 = cast(%p, bf16)\n"
           "      %d1 = mma %p16, %xb, %d0 instr(m64k16)\n"
           "      mbarrier_arrive %xe, %slot\n"
           "      %u = mma cast(%t, bf16), %yb, %zero instr(m64k16)\n"
           "      %u16 = cast(%u * %p, bf16)\n"
           "      %e1 = mma %u16, %yb, %e0 instr(m64k16)\n"
           "      mbarrier_arrive %ye, %slot\n" NEXT
           "      yield %d1, %e1, %slot1, %phase1\n"
           "    }\n"
           "    %acc = %d + %e\n" AFTER;

/* A product in a branch; the barrier is for steps that go past it. */
static const char in_step[] =
    BEFORE LOOP "      mbarrier_wait %xf, %slot, %phase\n"
                "      %xb = smem_index %xs, %slot\n"
                "      %s = mma %qs, smem_trans(%xb), %zero instr(m64k16)\n"
                "      mbarrier_arrive %xe, %slot\n"
                "      mbarrier_wait %yf, %slot, %phase\n"
                "      %yb = smem_index %ys, %slot\n"
                "      %t = if %i > 64 {\n"
                "        %t1 = mma %qs, %yb, %zero instr(m64k16)\n"
                "        yield %t1\n"
                "      } else {\n"
                "        yield %zero\n"
                "      }\n"
                "      barrier scope(group)\n"
                "      mbarrier_arrive %ye, %slot\n"
                "      %acc1 = %acc0 * %small + exp2(%s * %small) + %t\n" NEXT
                "      yield %acc1, %slot1, %phase1\n"
                "    }\n" AFTER;

static interp_tensor random_tensor(int rows, unsigned seed)
{
    interp_tensor t = interp_new(TC_BF16, 2, (const int32_t[]){rows, 64});
    for (size_t i = 0; i < t.count; i++) {
        seed = seed * 1664525 + 1013904223;
        interp_set(&t, i, (double)(seed >> 16) / 32768 - 1);
    }
    return t;
}

/* The program for rings of this depth, through these passes. */
static void make(const char *text, const char *passes, unsigned depth)
{
    static const char *const names[] = {"DEPTH", "LAST"};
    interp_text(text);
    for (unsigned i = 0; i < 2; i++)
        for (char *at; (at = strstr(interp.text, names[i]));) {
            at[0] = (char)('0' + depth - i);
            memmove(at + 1, at + strlen(names[i]),
                    strlen(at + strlen(names[i])) + 1);
        }
    interp_parse();
    tc_pass_options o = {.target = tc_target_get("sm_90a"),
                         .verify_each = true,
                         .round_trip = true};
    ck_assert(tc_run_pipeline(interp.module, passes, &o));
}

/* All bits of the result are those of the program as it was. */
static void expect_same(const char *text, unsigned depth, int steps)
{
    interp_tensor q = random_tensor(128, 1), x = random_tensor(64 * steps, 2);
    interp_tensor y = random_tensor(64 * steps, 3), o = random_tensor(128, 4);
    interp_tensor want = random_tensor(128, 4);
    tc_launch_arg args[] = {interp_arg(&q), interp_arg(&x), interp_arg(&y),
                            interp_arg(&want)};
    make(text, "canonicalize", depth);
    ck_assert(interp_try(args, NULL) || (interp_expect_nothing(), false));
    args[3] = interp_arg(&o);
    make(text,
         "canonicalize,cse,licm,dce,schedule-mma,overlap-mma,cse,licm,dce",
         depth);
    for (int order = 0; order < TC_INTERP_ORDER_COUNT; order++) {
        memset(o.data, 0, o.count * 2);
        bool ok = interp_try(args, &(tc_interp_options){.order = order});
        interp_expect_nothing();
        ck_assert(ok && memcmp(o.data, want.data, o.count * 2) == 0);
    }
    interp_close();
}

static const char *const programs[] = {attention, product, two_sums, in_step};
enum { NPROGRAMS = sizeof programs / sizeof *programs };

START_TEST(same_results_in_all_orders)
{
    static const int steps[] = {0, 1, 2, 5};
    for (unsigned depth = 1; depth <= 2; depth++)
        for (unsigned i = 0; i < sizeof steps / sizeof *steps; i++)
            expect_same(programs[_i], depth, steps[i]);
}
END_TEST

void interp_overlap_tests(TCase *t)
{
    tcase_add_loop_test(t, same_results_in_all_orders, 0, NPROGRAMS);
}
