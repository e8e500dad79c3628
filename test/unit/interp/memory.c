/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared memory without copies: barriers, buffers that share a place, poison;
 * and accesses to global memory.
 */
#include "test/unit/interp/fixture.h"

#include <setjmp.h>

static void run(const tc_launch_arg *args)
{
    interp_parse();
    interp_try(args, NULL);
}

/* ---- Shared memory ---- */

/* Rows go in, columns come out; twice, through one buffer. */
static const char exchange[] =
    "kernel @k(%x: tensor<[8, 32] x f32>) warps(2) shared(1024) grid(1) {\n"
    "  %s = smem_alloc offset(0) : smem<8x32 x f32, #rows>\n"
    "  %t = load %x[0 +: 8, 0 +: 32] : tile<8x32 x f32, #blocked(1x4, 4x8, "
    "2x1)>\n"
    "  smem_store %s, %t\n"
    "  barrier // 1\n"
    "  %u = smem_load %s : tile<8x32 x f32, #blocked(1x1, 2x16, 1x2)>\n"
    "  barrier // 2\n"
    "  smem_store %s, %u + %u\n"
    "  barrier // 3\n"
    "  %v = smem_load %s : tile<8x32 x f32, #blocked(1x4, 4x8, 2x1)>\n"
    "  store %x[0 +: 8, 0 +: 32], %v\n"
    "}\n";

static interp_tensor numbers(void)
{
    interp_tensor x = interp_new(TC_F32, 2, (const int32_t[]){8, 32});
    for (size_t i = 0; i < x.count; i++)
        interp_set(&x, i, (double)i);
    return x;
}

START_TEST(exchange_is_right)
{
    interp_tensor x = numbers();
    tc_launch_arg arg = interp_arg(&x);
    interp_text(exchange);
    run(&arg);
    interp_expect_nothing();
    for (size_t i = 0; i < x.count; i++)
        ck_assert_double_eq(interp_get(&x, i), 2 * (double)i);
}
END_TEST

static void expect_exchange(const char *from, const char *to,
                            const char *message, const char *line,
                            const char *note)
{
    interp_tensor x = numbers();
    tc_launch_arg arg = interp_arg(&x);
    interp_text(exchange);
    interp_change(from, to);
    run(&arg);
    interp_expect(message, line, note);
}

START_TEST(read_after_write)
{
    expect_exchange("  barrier // 1\n", "", "race: reads what thread",
                    "%u = smem_load", "smem_store %s, %t");
}
END_TEST

START_TEST(write_after_read)
{
    expect_exchange("  barrier // 2\n", "", "may still read",
                    "smem_store %s, %u", "%u = smem_load");
}
END_TEST

static const char other_threads[] =
    "  %u = smem_load %s : tile<8x32 x f32, #blocked(1x1, 2x16, 1x2)>\n"
    "  barrier // 2\n";

START_TEST(write_after_write)
{
    expect_exchange(other_threads,
                    "  %u = load %x[0 +: 8, 0 +: 32] : tile<8x32 x f32, "
                    "#blocked(1x1, 2x16, 1x2)>\n"
                    "  smem_store %s, %t // again\n",
                    "race: thread 1 overwrites what thread 0 has written",
                    "smem_store %s, %u", "smem_store %s, %t // again");
}
END_TEST

/* The same threads write the same elements: in order. */
START_TEST(own_write_after_write)
{
    interp_tensor x = numbers();
    tc_launch_arg arg = interp_arg(&x);
    interp_text(exchange);
    interp_change(other_threads,
                  "  %u = %t + %t\n  smem_store %s, %t // again\n");
    run(&arg);
    interp_expect_nothing();
    ck_assert_double_eq(interp_get(&x, 1), 4);
}
END_TEST

START_TEST(never_written)
{
    expect_exchange("  smem_store %s, %t\n", "",
                    "what is stored comes from data that is not there",
                    "store %x", "%u = smem_load");
    ck_assert_str_eq(interp.cx->diags->notes->message,
                     "this reads shared memory that was never written");
}
END_TEST

/* One thread prints what others have stored. */
START_TEST(printed_before_written)
{
    expect_exchange("  barrier // 1\n", "  print \"s\", %s\n  barrier // 1\n",
                    "race: reads what thread", "print \"s\", %s",
                    "smem_store %s, %t");
    interp_close();
    expect_exchange("  smem_store %s, %u",
                    "  print \"s\", %s\n  smem_store %s, %u", "may still read",
                    "smem_store %s, %u", "print \"s\", %s");
}
END_TEST

/* What is read and not used is no finding. */
START_TEST(unused_poison)
{
    interp_tensor x = numbers();
    tc_launch_arg arg = interp_arg(&x);
    interp_text(exchange);
    interp_change("  smem_store %s, %t\n", "");
    interp_change("smem_store %s, %u + %u",
                  "%no = splat(%x[0, 0] > 1.0, tile<8x32 x i1, #blocked(1x1, "
                  "2x16, 1x2)>)\n"
                  "  %one = splat(1.0, tile<8x32 x f32, #blocked(1x1, 2x16, "
                  "1x2)>)\n"
                  "  smem_store %s, select(%no, %u, %one)");
    run(&arg);
    interp_expect_nothing();
    ck_assert_double_eq(interp_get(&x, 5), 1);
}
END_TEST

static const char in_order[] =
    "kernel @k(%w: tensor<[4] x i32>) warps(1) grid(4) {\n"
    "  %own = base(%w) + program_id(0)\n"
    "  %ahead = base(%w) + max(program_id(0) - 1, 0)\n"
    "  follow %own, %ahead, 7 // step\n"
    "  follow_end %own, %ahead // end\n"
    "}\n";

static interp_tensor words(void)
{
    const int32_t sizes[] = {4};
    interp_tensor w = interp_new(TC_I32, 1, sizes);
    for (int i = 0; i < 4; i++)
        interp_set(&w, i, 0);
    return w;
}

START_TEST(programs_in_order)
{
    interp_tensor w = words();
    tc_launch_arg arg = interp_arg(&w);
    interp_text(in_order);
    run(&arg);
    interp_expect_nothing();
    for (int i = 0; i < 4; i++)
        ck_assert_double_eq(interp_get(&w, i), INT32_MAX);
}
END_TEST

/* A program that ends nothing, or comes after its follower. */
START_TEST(waits_for_no_one)
{
    interp_tensor w = words();
    tc_launch_arg arg = interp_arg(&w);
    interp_text(in_order);
    if (_i)
        interp_change("follow_end %own, %ahead // end", "// end");
    else
        interp_change("max(program_id(0) - 1, 0)", "program_id(0) + 1");
    run(&arg);
    interp_expect(
        _i ? "the program ahead is done with 7 steps, not with step 7"
           : "the program ahead is done with 0 steps, not with step 7",
        "// step", NULL);
}
END_TEST

static const char shared_place[] =
    "kernel @k(%x: tensor<[64] x f32>) warps(1) shared(256) grid(1) {\n"
    "  %s = smem_alloc offset(0) : smem<64 x f32, #rows>\n"
    "  %t = smem_alloc offset(0) : smem<64 x f32, #rows>\n"
    "  %v = load %x[0 +: 64] : tile<64 x f32, #blocked(2, 32, 1)>\n"
    "  smem_store %s, %v\n"
    "  barrier\n"
    "  %a = smem_load %s : tile<64 x f32, #blocked(1, 32, 1)>\n"
    "  barrier // middle\n"
    "  smem_store %t, %v + %v\n"
    "  barrier // last\n"
    "  %b = smem_load %t : tile<64 x f32, #blocked(1, 32, 1)>\n"
    "  store %x[0 +: 64], %a + %b\n"
    "}\n";

START_TEST(one_place_for_two)
{
    interp_tensor x = interp_new(TC_F32, 1, (const int32_t[]){64});
    interp_set(&x, 3, 5);
    tc_launch_arg arg = interp_arg(&x);
    interp_text(shared_place);
    run(&arg);
    interp_expect_nothing();
    ck_assert_double_eq(interp_get(&x, 3), 15);
}
END_TEST

START_TEST(stale_buffer)
{
    interp_tensor x = interp_new(TC_F32, 1, (const int32_t[]){64});
    tc_launch_arg arg = interp_arg(&x);
    interp_text(shared_place);
    interp_change("%b = smem_load %t", "%b = smem_load %s");
    run(&arg);
    interp_expect("what is stored comes from data that is not there",
                  "store %x", "%b = smem_load %s");
    const tc_diag *note = interp.cx->diags->notes;
    ck_assert_str_eq(note->message, "this reads a buffer whose place another "
                                    "buffer has taken");
    ck_assert_uint_eq(note->next->loc.line, 9); /* smem_store %t */
}
END_TEST

/* ---- What decides must be there ---- */

START_TEST(poison_decides)
{
    interp_text("kernel @k(%x: tensor<[64] x f32>) warps(1) shared(256) "
                "grid(1) {\n"
                "  %s = smem_alloc offset(0) : smem<64 x f32, #rows>\n"
                "  %v = smem_load %s : tile<64 x f32, #blocked(1, 32, 1)>\n"
                "  %m = max(%v, axis=0)\n"
                "  if %m > 0.0 { print \"yes\" }\n"
                "}\n");
    interp_tensor x = interp_new(TC_F32, 1, (const int32_t[]){64});
    tc_launch_arg arg = interp_arg(&x);
    run(&arg);
    interp_expect("what decides comes from data", "if %m", "%v = smem_load");
}
END_TEST

START_TEST(warps_disagree)
{
    interp_text("kernel @k(%x: tensor<[64] x f32>) warps(2) shared(256) "
                "grid(1) {\n"
                "  %v = load %x[0 +: 64] : tile<64 x f32, #blocked(1, 32, 2)>\n"
                "  %m = max(%v, axis=0)\n"
                "  print \"m\", %m\n"
                "}\n");
    interp_tensor x = interp_new(TC_F32, 1, (const int32_t[]){64});
    tc_launch_arg arg = interp_arg(&x);
    run(&arg);
    interp_expect("a warp does not hold all elements along axis 0",
                  "%m = ", NULL);
}
END_TEST

START_TEST(endless)
{
    interp_text("kernel @k(%x: tensor<[64] x f32>) warps(1) grid(1) {\n"
                "  %n = while carry(%i = 0) { condition %i < 1 } do {\n"
                "    yield %i\n"
                "  }\n"
                "}\n");
    interp_parse();
    interp_tensor x = interp_new(TC_F32, 1, (const int32_t[]){64});
    tc_launch_arg arg = interp_arg(&x);
    ck_assert(!interp_try(&arg, &(tc_interp_options){.max_steps = 1000}));
    interp_expect("no end after 1000 steps", "", NULL);
}
END_TEST

/* ---- Global memory ---- */

START_TEST(window_outside)
{
    interp_text("kernel @k(%x: tensor<[?] x f32>) warps(1) grid(1) {\n"
                "  %v = load %x[32 +: 64] : tile<64 x f32, #blocked(2, 32, "
                "1)>\n"
                "  store %x[0 +: 64], %v boundary(0)\n"
                "}\n");
    interp_tensor x = interp_new(TC_F32, 1, (const int32_t[]){80});
    tc_launch_arg arg = interp_arg(&x);
    run(&arg);
    interp_expect("reads outside of %x, where it has no boundary", "%v = load",
                  NULL);
}
END_TEST

START_TEST(pointer_outside)
{
    interp_text("kernel @k(%x: tensor<[?] x f32>) warps(1) grid(1) {\n"
                "  %i = range : tile<64 x i32, #blocked(2, 32, 1)>\n"
                "  %p = splat(base(%x), tile<64 x ptr<f32>, #blocked(2, 32, "
                "1)>)\n"
                "  %at = ptr_add %p, %i\n"
                "  %v = load %at\n"
                "  %n = splat(60, tile<64 x i32, #blocked(2, 32, 1)>)\n"
                "  store %at, %v, %i < %n\n"
                "}\n");
    interp_tensor x = interp_new(TC_F32, 1, (const int32_t[]){60});
    tc_launch_arg arg = interp_arg(&x);
    run(&arg);
    interp_expect("reads an address outside of all tensors", "%v = load %at",
                  NULL);
    interp_close();
    interp_change("%v = load %at",
                  "%most = splat(60, tile<64 x i32, #blocked(2, 32, 1)>)\n"
                  "%v = load %at, %i < %most");
    x = interp_new(TC_F32, 1, (const int32_t[]){60});
    arg = interp_arg(&x);
    run(&arg);
    interp_expect_nothing();
}
END_TEST

/* An address made of an int may lie anywhere, but for the first page. */
START_TEST(pointer_of_zero)
{
    interp_text("kernel @k(%x: tensor<[?] x f32>, %n: i64) warps(1) grid(1) {\n"
                "  %p = bitcast %n : ptr<f32>\n"
                "  %v = load ptr_add(%p, 3)\n"
                "  store %x[0 +: 1], splat(%v, tile<1 x f32, #blocked(1, 32, "
                "1)>)\n"
                "}\n");
    interp_tensor x = interp_new(TC_F32, 1, (const int32_t[]){1});
    tc_launch_arg args[] = {interp_arg(&x), {.scalar.i = 0}};
    run(args);
    interp_expect("reads an address outside of all tensors", "%v = load", NULL);
}
END_TEST

/* Elements go through memory from the threads that hold columns to those that
 * hold rows. */
static const char through_memory[] =
    "kernel @k(%x: tensor<[?, ?] x f32>, %y: tensor<[?, ?] x f32>) warps(2) "
    "grid(1) {\n"
    "  %v = load %x[0 +: 8, 0 +: 32] : tile<8x32 x f32, #blocked(1x1, 2x16, "
    "1x2)>\n"
    "  store %y[0 +: 8, 0 +: 32], %v\n"
    "  barrier\n"
    "  %w = load %y[0 +: 8, 0 +: 32] : tile<8x32 x f32, #blocked(1x4, 4x8, "
    "2x1)>\n"
    "  store %x[0 +: 8, 0 +: 32], %w\n"
    "}\n";

START_TEST(global_races)
{
    interp_tensor x = numbers(), y = numbers();
    tc_launch_arg args[] = {interp_arg(&x), interp_arg(&y)};
    interp_text(through_memory);
    run(args);
    interp_expect_nothing();
    interp_change("  barrier\n", "");
    run(args);
    interp_expect("race: reads global memory that thread", "%w = load",
                  "store %y");
    /* In place. */
    args[1] = args[0];
    interp_text(through_memory);
    interp_change("  store %x[0 +: 8, 0 +: 32], %w\n", "");
    interp_change("  %w = load %y", "  %w = load %x");
    run(args);
    interp_expect_nothing();
    interp_change("  barrier\n", "");
    run(args);
    interp_expect("race: reads global memory that thread", "%w = load %x",
                  "store %y");
}
END_TEST

START_TEST(global_write_after_read)
{
    interp_tensor x = numbers(), y = numbers();
    tc_launch_arg args[] = {interp_arg(&x), interp_arg(&y)};
    interp_text(through_memory);
    interp_change("  barrier\n", "");
    interp_change("%w = load %y", "%w = load %x");
    interp_change("%y[0 +: 8, 0 +: 32], %v", "%x[0 +: 8, 0 +: 32], %v // own");
    interp_change("store %x[0 +: 8, 0 +: 32], %w",
                  "store %y[0 +: 8, 0 +: 32], %w");
    run(args);
    interp_expect("race: reads global memory that thread", "%w = load",
                  "// own");
}
END_TEST

/* Copies read their source until the wait. */
START_TEST(copy_source_changes)
{
    interp_text(
        "kernel @k(%x: tensor<[?] x f32>) aligned(0) warps(1) shared(256) "
        "grid(1) {\n"
        "  %s = smem_alloc offset(0) : smem<64 x f32, #rows>\n"
        "  %b = block %x[0 +: 64]\n"
        "  async_copy %b, %s layout(#blocked(4, 32, 1))\n"
        "  async_commit\n"
        "  barrier\n"
        "  %one = splat(1.0, tile<64 x f32, #blocked(2, 32, 1)>)\n"
        "  store %b, %one\n"
        "  async_wait pending(0)\n"
        "}\n");
    interp_tensor x = interp_new(TC_F32, 1, (const int32_t[]){64});
    tc_launch_arg arg = interp_arg(&x);
    run(&arg);
    interp_expect("race: reads global memory that thread", "async_copy",
                  "store %b");
}
END_TEST

START_TEST(broken_assert)
{
    interp_text("kernel @k(%x: tensor<[?] x f32>) warps(1) grid(2) {\n"
                "  assert program_id(0) == 0, \"only one\"\n"
                "}\n");
    interp_tensor x = interp_new(TC_F32, 1, (const int32_t[]){1});
    tc_launch_arg arg = interp_arg(&x);
    run(&arg);
    interp_expect("assert: only one, in program (1, 0, 0)", "assert", NULL);
    interp_parse();
    ck_assert(interp_try(&arg, &(tc_interp_options){.count = 1}));
    ck_assert(!interp_try(&arg, &(tc_interp_options){.first = 1}));
}
END_TEST

/* Memory that runs out unwinds, and the next run is right. */
START_TEST(out_of_memory)
{
    interp_tensor x = numbers();
    tc_launch_arg arg = interp_arg(&x);
    interp_text(exchange);
    interp_parse();
    jmp_buf here;
    jmp_buf *outer = interp.cx->memory.unwind;
    volatile unsigned nunwound = 0;
    volatile bool done = false;
    for (volatile unsigned long n = 1; !done; n++) {
        interp.cx->memory.unwind = &here;
        interp.cx->memory.fail_after = n;
        if (setjmp(here))
            nunwound++;
        else
            done = tc_interp_run(interp.module->first, &arg, NULL);
        interp.cx->memory.fail_after = 0;
        ck_assert_ptr_eq(interp.cx->memory.unwind, &here);
    }
    interp.cx->memory.unwind = outer;
    ck_assert_uint_gt(nunwound, 0);
    interp_expect_nothing();
}
END_TEST

START_TEST(no_machine_level)
{
    interp_text("kernel @k(%x: tensor<[?] x f32>) grid(1) {\n"
                "  %v = load %x[0 +: 8] boundary(0)\n"
                "}\n");
    interp_tensor x = interp_new(TC_F32, 1, (const int32_t[]){1});
    tc_launch_arg arg = interp_arg(&x);
    run(&arg);
    interp_expect("no kernel of machine level", "kernel", NULL);
}
END_TEST

void interp_memory_tests(TCase *t)
{
    tcase_add_test(t, exchange_is_right);
    tcase_add_test(t, read_after_write);
    tcase_add_test(t, write_after_read);
    tcase_add_test(t, write_after_write);
    tcase_add_test(t, own_write_after_write);
    tcase_add_test(t, never_written);
    tcase_add_test(t, printed_before_written);
    tcase_add_test(t, programs_in_order);
    tcase_add_loop_test(t, waits_for_no_one, 0, 2);
    tcase_add_test(t, unused_poison);
    tcase_add_test(t, one_place_for_two);
    tcase_add_test(t, stale_buffer);
    tcase_add_test(t, poison_decides);
    tcase_add_test(t, warps_disagree);
    tcase_add_test(t, endless);
    tcase_add_test(t, window_outside);
    tcase_add_test(t, pointer_outside);
    tcase_add_test(t, pointer_of_zero);
    tcase_add_test(t, global_races);
    tcase_add_test(t, global_write_after_read);
    tcase_add_test(t, copy_source_changes);
    tcase_add_test(t, broken_assert);
    tcase_add_test(t, no_machine_level);
    tcase_add_test(t, out_of_memory);
}
