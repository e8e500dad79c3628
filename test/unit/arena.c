/* SPDX-License-Identifier: Apache-2.0
 *
 * Arenas: alignment, growth, the one place where memory runs out; texts.
 */
#include "ir/base/arena.h"
#include "test/unit/run.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

/* Impossible sizes are asked for on purpose. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

static tc_memory memory;
static tc_arena arena;

static void setup(void)
{
    memory = (tc_memory){0};
    tc_arena_init(&arena, &memory);
}

static void teardown(void)
{
    tc_arena_reset(&arena);
}

static bool is_zero(const unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i])
            return false;
    return true;
}

START_TEST(test_memory_is_zero_aligned_and_ones_own)
{
    enum { N = 300 };
    unsigned char *all[N];
    for (size_t i = 0; i < N; i++) {
        all[i] = tc_arena_alloc(&arena, i);
        ck_assert_uint_eq((uintptr_t)all[i] % _Alignof(max_align_t), 0);
        ck_assert(is_zero(all[i], i));
        memset(all[i], (int)i, i);
    }
    for (size_t i = 0; i < N; i++)
        for (size_t k = 0; k < i; k++)
            ck_assert_uint_eq(all[i][k], (unsigned char)i);
}
END_TEST

START_TEST(test_objects_larger_than_a_chunk)
{
    size_t n = (size_t)3 * 1024 * 1024;
    unsigned char *small = tc_arena_alloc(&arena, 1);
    unsigned char *large = tc_arena_alloc(&arena, n);
    unsigned char *after = tc_arena_alloc(&arena, 1);
    memset(large, 0xff, n);
    ck_assert_uint_eq(*small, 0);
    ck_assert_uint_eq(*after, 0);
}
END_TEST

START_TEST(test_reset_gives_an_empty_arena)
{
    memset(tc_arena_alloc(&arena, 100), 0xff, 100);
    tc_arena_reset(&arena);
    ck_assert_ptr_null(arena.chunks);
    tc_arena_reset(&arena);
    ck_assert(is_zero(tc_arena_alloc(&arena, 100), 100));
}
END_TEST

START_TEST(test_copy)
{
    const char *s = tc_arena_copy(&arena, "seven", 6);
    ck_assert_str_eq(s, "seven");
    ck_assert_ptr_nonnull(tc_arena_copy(&arena, NULL, 0));
}
END_TEST

START_TEST(test_failure_unwinds)
{
    jmp_buf unwind;
    memory.unwind = &unwind;
    memory.fail_after = 1;
    tc_arena_reset(&arena);
    if (setjmp(unwind) == 0) {
        tc_arena_alloc(&arena, 8);
        ck_abort_msg("the allocation did not fail");
    }
    /* Once only: the next one works. */
    ck_assert_uint_eq(memory.fail_after, 0);
    ck_assert_ptr_nonnull(tc_arena_alloc(&arena, 8));
}
END_TEST

START_TEST(test_impossible_sizes_unwind)
{
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 64,
                                   SIZE_MAX / 2};
    jmp_buf unwind;
    memory.unwind = &unwind;
    for (volatile unsigned i = 0; i < 4; i++)
        if (setjmp(unwind) == 0) {
            tc_arena_alloc(&arena, sizes[i]);
            ck_abort_msg("the allocation did not fail");
        }
    memory.unwind = NULL;
}
END_TEST

START_TEST(test_printf)
{
    ck_assert_str_eq(tc_arena_printf(&arena, "%s is %d", "x", 3), "x is 3");
    ck_assert_str_eq(tc_arena_printf(&arena, "%s", ""), "");
}
END_TEST

START_TEST(test_text_grows)
{
    tc_text t = {.arena = &arena};
    ck_assert_ptr_null(t.data);
    tc_text_add(&t, "");
    ck_assert_str_eq(t.data, "");
    for (int i = 0; i < 1000; i++)
        tc_text_printf(&t, "%03d", i);
    ck_assert_uint_eq(t.len, 3000);
    ck_assert_uint_eq(strlen(t.data), 3000);
    for (int i = 0; i < 1000; i++) {
        char number[16];
        snprintf(number, sizeof number, "%03d", i);
        ck_assert_mem_eq(t.data + 3 * (size_t)i, number, 3);
    }
}
END_TEST

START_TEST(test_text_takes_long_pieces)
{
    char piece[1000];
    memset(piece, 'x', sizeof piece - 1);
    piece[sizeof piece - 1] = 0;
    tc_text t = {.arena = &arena};
    tc_text_printf(&t, "<%s>", piece);
    tc_text_addn(&t, "abcdef", 3);
    ck_assert_uint_eq(t.len, 1004);
    ck_assert_str_eq(t.data + 1000, ">abc");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("arena");
    TCase *t = tcase_create("arena");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, test_memory_is_zero_aligned_and_ones_own);
    tcase_add_test(t, test_objects_larger_than_a_chunk);
    tcase_add_test(t, test_reset_gives_an_empty_arena);
    tcase_add_test(t, test_copy);
    tcase_add_test(t, test_failure_unwinds);
    tcase_add_test(t, test_impossible_sizes_unwind);
    tcase_add_test(t, test_printf);
    tcase_add_test(t, test_text_grows);
    tcase_add_test(t, test_text_takes_long_pieces);
    suite_add_tcase(s, t);
    return run_suite(s);
}
