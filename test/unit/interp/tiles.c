/* SPDX-License-Identifier: Apache-2.0
 *
 * A persistent kernel: the producer fetches tiles and sends by a scalar channel
 * which one comes next; the consumer's threads read the tiles themselves.
 */
#include "test/unit/interp/fixture.h"

static const char persistent[] =
    "kernel @twice(%x: tensor<[?, 64] x f16>, %y: tensor<[?, 64] x f16>)\n"
    "    aligned(0, 1) warps(8) shared(66048)\n"
    "    grid(min(num_sms(), cdiv(size(%x, 0), 128))) {\n"
    "  %n = cdiv(size(%x, 0), 128)\n"
    "  %first = program_id(0)\n"
    "  %in = smem_alloc offset(0) : smem<128x64 x f16, #swizzle128, 2>\n"
    "  %out = smem_alloc offset(32768) : smem<128x64 x f16, #swizzle128>\n"
    "  %box = smem_alloc offset(49152) : smem<1 x i32, #rows, 2>\n"
    "  %full = mbarrier_alloc arrivals(1) offset(65536) : mbarrier<2>\n"
    "  %free = mbarrier_alloc arrivals(2) offset(65552) : mbarrier<2>\n"
    "  barrier // start\n"
    "  warp_groups producer {\n"
    "    %pt, %ps, %pp = while carry(%t = %first, %s = 0, %p = 1) {\n"
    "      condition %t < %n\n"
    "    } do {\n"
    "      %next = next_tile %n\n"
    "      mbarrier_wait %free, %s, %p\n"
    "      %b = smem_index %box, %s\n"
    "      smem_store_scalar %b, %next // put\n"
    "      mbarrier_arrive %full, %s bytes(16384)\n"
    "      %i = smem_index %in, %s\n"
    "      tma_load block %x[%t * 128 +: 128, 0 +: 64], %i, %full, %s\n"
    "      yield %next, %s ^ 1, %p ^ cast(%s == 1, i32)\n"
    "    }\n"
    "    end_tiles\n"
    "  } consumer {\n"
    "    %ct, %cs, %cp = while carry(%t = %first, %s = 0, %p = 0) {\n"
    "      condition %t < %n\n"
    "    } do {\n"
    "      mbarrier_wait %full, %s, %p\n"
    "      %b = smem_index %box, %s\n"
    "      %next = smem_load_scalar %b // get\n"
    "      %i = smem_index %in, %s\n"
    "      %v = smem_load %i : tile<128x64 x f16, #blocked(1x8, 4x8, 8x1)>\n"
    "      fence_async // read\n"
    "      barrier scope(group) // read\n"
    "      mbarrier_arrive %free, %s\n"
    "      tma_store_wait pending(0) // loop\n"
    "      barrier // space\n"
    "      smem_store %out, %v + %v\n"
    "      fence_async\n"
    "      barrier // written\n"
    "      tma_store block %y[%t * 128 +: 128, 0 +: 64], %out\n"
    "      yield %next, %s ^ 1, %p ^ cast(%s == 1, i32)\n"
    "    }\n"
    "    tma_store_wait pending(0) // end\n"
    "  }\n"
    "}\n";

typedef struct rows {
    interp_tensor x, y;
} rows;

static bool run(rows *r, int n, tc_interp_order order, int32_t num_sms)
{
    *r = (rows){interp_new(TC_F16, 2, (const int32_t[]){n, 64}),
                interp_new(TC_F16, 2, (const int32_t[]){n, 64})};
    for (size_t i = 0; i < r->x.count; i++)
        interp_set(&r->x, i, (double)(i % 251));
    tc_launch_arg args[] = {interp_arg(&r->x), interp_arg(&r->y)};
    return interp_try(args, &(tc_interp_options){
                                .order = order, .seed = 5, .num_sms = num_sms});
}

/* With 1, 2, 3 multiprocessors, in all orders. */
static void expect_doubled(void)
{
    interp_parse();
    for (int32_t num_sms = 1; num_sms <= 3; num_sms++)
        for (int order = 0; order < TC_INTERP_ORDER_COUNT; order++) {
            rows r;
            bool ok = run(&r, 700, (tc_interp_order)order, num_sms);
            interp_expect_nothing();
            ck_assert(ok);
            for (size_t i = 0; i < r.x.count; i++)
                ck_assert_double_eq(interp_get(&r.y, i),
                                    2 * interp_get(&r.x, i));
            interp_close();
            interp_parse();
        }
}

START_TEST(all_tiles_once)
{
    interp_text(persistent);
    expect_doubled();
}
END_TEST

START_TEST(example_of_the_language)
{
    interp_text_from("ir/LANGUAGE.md", "kernel @doubled(%x: tensor");
    expect_doubled();
}
END_TEST

typedef struct mistake {
    const char *from, *to, *message, *line, *note;
} mistake;

static const mistake mistakes[] = {
    {"      fence_async // read\n", "",
     "overwrites asynchronously what threads have read, with no fence_async",
     "tma_load block", "%v = smem_load"},
    {"      fence_async // read\n      barrier scope(group) // read\n",
     "      barrier scope(group) // read\n      fence_async // read\n",
     "overwrites asynchronously what threads have read, with no fence_async",
     "tma_load block", "%v = smem_load"},
    {"      barrier scope(group) // read\n", "",
     "race: overwrites what the consumer may still read", "// put", "// get"},
    {"      barrier scope(group) // read\n      mbarrier_arrive %free, %s\n",
     "      mbarrier_arrive %free, %s\n      barrier scope(group) // read\n",
     "race: overwrites what the consumer may still read", "// put", "// get"},
    {"      barrier // space\n", "",
     "race: overwrites what a TMA store may still read", "smem_store %out",
     "tma_store block"},
    {"      tma_store_wait pending(0) // loop\n", "",
     "race: overwrites what a TMA store may still read", "smem_store %out",
     "tma_store block"},
    {"      tma_store_wait pending(0) // loop\n      barrier // space\n",
     "      barrier // space\n      tma_store_wait pending(0) // loop\n",
     "race: overwrites what a TMA store may still read", "smem_store %out",
     "tma_store block"},
    {"pending(0) // loop", "pending(1)",
     "race: overwrites what a TMA store may still read", "smem_store %out",
     "tma_store block"},
    {"pending(0) // end", "pending(1)",
     "may still read shared memory at the end", "tma_store block", NULL},
    {"      smem_store_scalar %b, %next // put\n      mbarrier_arrive %full, "
     "%s "
     "bytes(16384)\n",
     "      mbarrier_arrive %full, %s bytes(16384)\n      smem_store_scalar "
     "%b, %next "
     "// put\n",
     "", "", NULL},
    {"    end_tiles\n", "", "no end_tiles after it", "next_tile", NULL},
    {"    end_tiles\n", "    end_tiles\n    end_tiles // two\n",
     "the second end_tiles", "// two", "end_tiles"},
    {"    end_tiles\n", "    end_tiles\n    %more = next_tile %n\n",
     "after end_tiles", "%more", "end_tiles"},
    {"      mbarrier_wait %full, %s, %p\n",
     "      mbarrier_wait %full, %s, %p\n      %more = next_tile %n\n",
     "in the consumer", "%more", NULL},
    {"smem<1 x i32, #rows, 2>", "smem<1 x i32, #rows, 1>",
     "slot 1 of a ring of 1", "smem_index %box", NULL},
    {"offset(65552) : mbarrier", "offset(65544) : mbarrier",
     "in the place of other mbarriers", "%free = mbarrier_alloc",
     "%full = mbarrier_alloc"},
};
enum { NMISTAKES = sizeof mistakes / sizeof *mistakes };

START_TEST(mistake_is_found)
{
    const mistake *x = &mistakes[_i];
    interp_text(persistent);
    interp_change(x->from, x->to);
    for (int order = 0; order < TC_INTERP_ORDER_COUNT; order++) {
        rows r;
        interp_parse();
        ck_assert_msg(!run(&r, 1000, (tc_interp_order)order, 2),
                      "order %d: nothing found", order);
        interp_expect(x->message, x->line, x->note);
        interp_close();
    }
}
END_TEST

void interp_tile_tests(TCase *t)
{
    tcase_add_test(t, all_tiles_once);
    tcase_add_test(t, example_of_the_language);
    tcase_add_loop_test(t, mistake_is_found, 0, NMISTAKES);
}
