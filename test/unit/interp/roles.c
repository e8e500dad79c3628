/* SPDX-License-Identifier: Apache-2.0
 *
 * A matrix product by two roles, with asynchronous products and a bulk store:
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

typedef struct matrices {
    interp_tensor a, b, c;
    tc_launch_arg args[3];
} matrices;

static matrices make(int m, int n, int k)
{
    matrices x = {
        .a = interp_new(TC_F16, 2, (const int32_t[]){m, k}),
        .b = interp_new(TC_F16, 2, (const int32_t[]){k, n}),
        .c = interp_new(TC_F16, 2, (const int32_t[]){m, n}),
    };
    for (size_t i = 0; i < x.a.count; i++)
        interp_set(&x.a, i, (double)((i * 7 + i / 5) % 5) - 2);
    for (size_t i = 0; i < x.b.count; i++)
        interp_set(&x.b, i, (double)((i * 5 + i / 3) % 3) - 1);
    return x;
}

static bool run(matrices *x, tc_interp_order order, uint64_t seed)
{
    x->args[0] = interp_arg(&x->a);
    x->args[1] = interp_arg(&x->b);
    x->args[2] = interp_arg(&x->c);
    return interp_try(x->args,
                      &(tc_interp_options){.order = order, .seed = seed});
}

/* Small whole numbers: the product is exact. */
static bool is_right(const matrices *x)
{
    int m = x->a.sizes[0], k = x->a.sizes[1], n = x->b.sizes[1];
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double want = 0;
            for (int l = 0; l < k; l++)
                want += interp_get(&x->a, (size_t)(i * k + l)) *
                        interp_get(&x->b, (size_t)(l * n + j));
            if (interp_get(&x->c, (size_t)(i * n + j)) != want)
                return false;
        }
    return true;
}

/* Trip counts 0, 1, 2, n, n + 1, more; sizes that divide and that do not. */
START_TEST(right_in_all_orders)
{
    static const int depths[] = {0, 8, 128, 192, 256, 448};
    interp_text(by_roles);
    interp_parse();
    for (int i = 0; i < 6; i++)
        for (int order = 0; order < TC_INTERP_ORDER_COUNT; order++) {
            matrices x = make(136, 40, depths[i]);
            bool ok = run(&x, (tc_interp_order)order, 1);
            interp_expect_nothing();
            ck_assert(ok);
            ck_assert(is_right(&x));
            interp_close();
            interp_parse();
        }
}
END_TEST

void interp_role_tests(TCase *t)
{
    tcase_add_test(t, right_in_all_orders);
}
