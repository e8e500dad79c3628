/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of warp groups, asynchronous or not, without roles.
 */
#include "test/unit/interp/fixture.h"

static const char two_products[] =
    "kernel @k(%x: tensor<[64, 64] x f16>, %y: tensor<[64, 64] x f32>)\n"
    "    warps(4) shared(8192) grid(1) {\n"
    "  %s = smem_alloc offset(0) : smem<64x64 x f16, #swizzle128>\n"
    "  %v = load %x[0 +: 64, 0 +: 64] : tile<64x64 x f16, #blocked(1x8, 4x8, "
    "4x1)>\n"
    "  %a = load %x[0 +: 64, 0 +: 64] : tile<64x64 x f16, #wgmma_a(1x1)>\n"
    "  smem_store %s, %v\n"
    "  fence_async\n"
    "  barrier\n"
    "  %t = smem_trans %s\n"
    "  %zero = splat(0.0, tile<64x64 x f32, #wgmma(1x1)>)\n"
    "  %p = mma %s, %t, %zero instr(m64k16) async(true) // first\n"
    "  %q = mma %a, %s, %zero instr(m64k16) async(true) // second\n"
    "  %p1 = mma_wait %p pending(1) // wait 1\n"
    "  %twice = %p1 + %p1\n"
    "  %q1 = mma_wait %q pending(0) // wait 2\n"
    "  %sum = %twice + %q1\n"
    "  %r = mma %s, %s, %sum instr(m64k16) // third\n"
    "  store %y[0 +: 64, 0 +: 64], %r\n"
    "}\n";

static bool run(interp_tensor *x, interp_tensor *y)
{
    *x = interp_new(TC_F16, 2, (const int32_t[]){64, 64});
    *y = interp_new(TC_F32, 2, (const int32_t[]){64, 64});
    for (size_t i = 0; i < x->count; i++)
        interp_set(x, i, (double)((i * 7 + i / 5) % 5) - 2);
    tc_launch_arg args[] = {interp_arg(x), interp_arg(y)};
    return interp_try(args, NULL);
}

START_TEST(products_are_right)
{
    interp_tensor x, y;
    interp_text(two_products);
    interp_parse();
    bool ok = run(&x, &y);
    interp_expect_nothing();
    ck_assert(ok);
    for (size_t i = 0; i < 64; i++)
        for (size_t j = 0; j < 64; j++) {
            double want = 0;
            for (size_t k = 0; k < 64; k++) {
                double a = interp_get(&x, i * 64 + k);
                want += 2 * a * interp_get(&x, j * 64 + k) +
                        2 * a * interp_get(&x, k * 64 + j);
            }
            ck_assert_double_eq(interp_get(&y, i * 64 + j), want);
        }
}
END_TEST

typedef struct mistake {
    const char *from, *to, *message, *line, *note;
} mistake;

static const mistake mistakes[] = {
    {"pending(1) // wait 1", "pending(2)",
     "uses the result of an asynchronous mma that no mma_wait has handed on",
     "%twice =", "// first"},
    {"%twice = %p1 + %p1", "%twice = %p + %p",
     "uses the result of an asynchronous mma that no mma_wait has handed on",
     "%twice =", "// first"},
    /* It is over, but nothing keeps its uses after the wait. */
    {"%q1 = mma_wait %q pending(0) // wait 2\n  %sum = %twice + %q1",
     "mma_wait pending(0)\n  %sum = %twice + %q // use",
     "uses the result of an asynchronous mma that no mma_wait has handed on",
     "// use", "// second"},
    {"mma %a, %s, %zero", "mma %a, %s, %p",
     "uses the result of an asynchronous mma that became the accumulator",
     "// wait 1", "// second"},
    {"%sum instr(m64k16) // third", "%sum instr(m64k16) async(true)",
     "uses the result of an asynchronous mma", "store %y", "%r = mma"},
    {"  %twice =", "  smem_store %s, %v // early\n  %twice =",
     "race: overwrites what an asynchronous mma may still read", "// early",
     "// second"},
    {"  store %y",
     "  %last = mma %s, %s, %sum instr(m64k16) async(true)\n  store %y",
     "still in flight at the end", "%last = mma", NULL},
    {"  fence_async\n", "",
     "reads asynchronously what threads have written, with no fence_async",
     "// first", "smem_store %s"},
    {"  barrier\n", "", "race: reads what thread", "// first", "smem_store %s"},
    {"smem<64x64 x f16, #swizzle128>", "smem<64x64 x f16, #xor(8, 2, 8)>",
     "operand 0 is not laid out as the instruction reads it", "// first", NULL},
    {"shared(8192) grid(1) {\n  %s = smem_alloc offset(0)",
     "shared(8704) grid(1) {\n  %s = smem_alloc offset(512)",
     "operand 0 is at byte 512, expected a multiple of 1024", "// first", NULL},
    {"#wgmma_a(1x1)", "#mma_a(2x2)",
     "operand 0 is not laid out as the instruction reads it", "// second",
     "%a = load"},
};
enum { NMISTAKES = sizeof mistakes / sizeof *mistakes };

START_TEST(mistake_is_found)
{
    const mistake *m = &mistakes[_i];
    interp_tensor x, y;
    interp_text(two_products);
    interp_change(m->from, m->to);
    interp_parse();
    ck_assert_msg(!run(&x, &y), "nothing found");
    interp_expect(m->message, m->line, m->note);
}
END_TEST

void interp_product_tests(TCase *t)
{
    tcase_add_test(t, products_are_right);
    tcase_add_loop_test(t, mistake_is_found, 0, NMISTAKES);
}
