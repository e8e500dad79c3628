/* SPDX-License-Identifier: Apache-2.0
 *
 * Three roles: bytes come row by row, are put into the order of columns, and
 * multiplied. Right in all orders, and what goes wrong with each mistake.
 */
#include "test/unit/interp/fixture.h"

enum { SIDE = 64 };

typedef struct matrices {
    interp_tensor a, b, c;
    tc_launch_arg args[3];
} matrices;

/* Small whole numbers: the product is exact. */
static matrices make(int m, int k)
{
    matrices x = {
        .a = interp_new(TC_F8E4M3, 2, (const int32_t[]){m, k}),
        .b = interp_new(TC_F8E4M3, 2, (const int32_t[]){k, SIDE}),
        .c = interp_new(TC_F32, 2, (const int32_t[]){m, SIDE}),
    };
    for (size_t i = 0; i < x.a.count; i++)
        interp_set(&x.a, i, (double)((i * 7 + i / 5) % 5) - 2);
    for (size_t i = 0; i < x.b.count; i++)
        interp_set(&x.b, i, (double)((i * 5 + i / 3) % 7) - 3);
    return x;
}

static bool run(matrices *x, tc_interp_order order)
{
    x->args[0] = interp_arg(&x->a);
    x->args[1] = interp_arg(&x->b);
    x->args[2] = interp_arg(&x->c);
    return interp_try(x->args, &(tc_interp_options){.order = order, .seed = 3});
}

static bool is_right(const matrices *x)
{
    int m = x->a.sizes[0], k = x->a.sizes[1];
    for (int i = 0; i < m; i++)
        for (int j = 0; j < SIDE; j++) {
            double want = 0;
            for (int l = 0; l < k; l++)
                want += interp_get(&x->a, (size_t)(i * k + l)) *
                        interp_get(&x->b, (size_t)(l * SIDE + j));
            if (interp_get(&x->c, (size_t)(i * SIDE + j)) != want)
                return false;
        }
    return true;
}

static void take(void)
{
    interp_text_from("ir/LANGUAGE.md", "kernel @by_columns(");
}

START_TEST(right_in_all_orders)
{
    static const int depths[] = {16, 64, 128, 192, 320};
    take();
    interp_parse();
    for (int i = 0; i < 5; i++)
        for (int order = 0; order < TC_INTERP_ORDER_COUNT; order++) {
            matrices x = make(80, depths[i]);
            bool ok = run(&x, (tc_interp_order)order);
            interp_expect_nothing();
            ck_assert(ok && is_right(&x));
            interp_close();
            interp_parse();
        }
}
END_TEST

#define COPY                                                                   \
    "      smem_copy smem_index(%ring.rows, %slot), "                          \
    "smem_index(%ring.columns, %slot)\n"
#define MOVED "      mbarrier_arrive %moved, %slot\n"
#define EMPTY "      mbarrier_arrive %empty, %slot\n"
#define WAIT  "      mbarrier_wait %full, %slot, %count >> 1\n"

static const struct {
    const char *from, *to, *message, *line, *note;
} mistakes[] = {
    {"      fence_async\n", "",
     "reads asynchronously what threads have written, with no fence_async",
     "mma", "smem_copy"},
    {"      fence_async\n      barrier\n", "      fence_async\n",
     "race: reads what thread 128 has written with no barrier", "mma",
     "smem_copy"},
    {"      barrier\n" MOVED EMPTY, "      barrier\n" MOVED,
     "waits for ever: slot 0 has seen 1 phases", "mbarrier_wait %full",
     "mbarrier_wait %empty"},
    {WAIT COPY, COPY,
     "reads shared memory that a TMA copy may still be writing", "smem_copy",
     "tma_load"},
    {"      mbarrier_wait %moved, %slot, %count >> 1\n", "",
     "race: reads what thread 128 has written", "mma", "smem_copy"},
    {COPY "      fence_async\n      barrier\n" MOVED,
     "      fence_async\n      barrier\n" MOVED COPY,
     "race: reads what thread 128 has written with no barrier", "mma",
     "smem_copy"},
    {"%empty = mbarrier_alloc arrivals(2)",
     "%empty = mbarrier_alloc arrivals(1)",
     "comes too late: the phase after the one that it waits for",
     "mbarrier_wait %full", "mbarrier_arrive %full"},
};

START_TEST(mistake_is_found)
{
    take();
    interp_change(mistakes[_i].from, mistakes[_i].to);
    interp_parse();
    matrices x = make(64, 320);
    ck_assert(!run(&x, TC_INTERP_EARLY));
    interp_expect(mistakes[_i].message, mistakes[_i].line, mistakes[_i].note);
}
END_TEST

void interp_transposer_tests(TCase *t)
{
    tcase_add_test(t, right_in_all_orders);
    tcase_add_loop_test(t, mistake_is_found, 0,
                        sizeof mistakes / sizeof *mistakes);
}
