/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts that LLVM gives are copies that strdup makes, NULL where there is no
 * memory for one: the triple, the CPU's name and features, the module's text.
 * strdup is this program's own here, and fails when told to.
 */
#include "lib/tilec.h"
#include "test/unit/run.h"

#include <stdlib.h>
#include <string.h>

static unsigned ncopies, failing; /* 0: none fails */

__attribute__((visibility("default"))) char *strdup(const char *s)
{
    if (++ncopies == failing)
        return NULL;
    size_t n = strlen(s) + 1;
    char *copy = malloc(n);
    return copy ? memcpy(copy, s, n) : NULL;
}

static const char program[] = "kernel @k(%x: tensor<[?] x f32>) grid(1) {\n"
                              "  %v = load %x[0 +: 8] boundary(0)\n"
                              "  store %x[0 +: 8], %v boundary(0)\n"
                              "}\n";

static tilec_context *new_context(void)
{
    tilec_context_options options = TILEC_INIT(tilec_context_options);
    options.target = "cpu";
    options.cache_folder = "";
    tilec_context *cx;
    ck_assert_int_eq(tilec_context_new(&options, &cx), TILEC_OK);
    return cx;
}

static tilec_status compile_text(tilec_context *cx, tilec_kernel **k)
{
    tilec_source source = tilec_text("k.tile", program, 0);
    return tilec_compile(cx, &source, 1, NULL, k);
}

/* With the n-th copy failing; how many there were. */
static unsigned count_copies(tilec_context *cx, unsigned n,
                             tilec_status *status)
{
    tilec_kernel *k = NULL;
    ncopies = 0;
    failing = n;
    *status = compile_text(cx, &k);
    failing = 0;
    tilec_kernel_free(k);
    return ncopies;
}

START_TEST(compile_reports_it)
{
    tilec_context *cx = new_context();
    tilec_status s;
    unsigned n = count_copies(cx, 0, &s);
    ck_assert_int_eq(s, TILEC_OK);
    unsigned nfailed = 0; /* LLVM does without some of its own copies */
    for (unsigned i = 1; i <= n; i++) {
        count_copies(cx, i, &s);
        if (s == TILEC_OK)
            continue;
        nfailed++;
        ck_assert_int_eq(s, TILEC_MACHINE);
        ck_assert_ptr_nonnull(
            strstr(tilec_diagnostics(cx)->message, "out of memory"));
    }
    ck_assert_uint_ge(nfailed, 3); /* triple, CPU, features */
    count_copies(cx, 0, &s);
    ck_assert_int_eq(s, TILEC_OK);
    tilec_context_free(cx);
}
END_TEST

START_TEST(emit_reports_it)
{
    static const char *const kinds[] = {"llvm", "llvm-opt", "asm"};
    tilec_context *cx = new_context();
    tilec_kernel *k = NULL;
    ck_assert_int_eq(compile_text(cx, &k), TILEC_OK);
    for (unsigned i = 0; i < 3; i++) {
        char *text = NULL;
        tilec_error e;
        ncopies = 0;
        ck_assert_int_eq(tilec_kernel_emit(k, kinds[i], &text, &e), TILEC_OK);
        tilec_free(text);
        unsigned n = ncopies, nfailed = 0;
        for (unsigned j = 1; j <= n; j++) {
            text = NULL;
            ncopies = 0;
            failing = j;
            tilec_status got = tilec_kernel_emit(k, kinds[i], &text, &e);
            failing = 0;
            ck_assert(got == (text ? TILEC_OK : TILEC_MACHINE));
            nfailed += !text;
            tilec_free(text);
        }
        ck_assert_uint_ge(nfailed, 3);
    }
    tilec_kernel_free(k);
    tilec_context_free(cx);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("host_names");
    TCase *t = tcase_create("out of memory");
    tcase_add_test(t, compile_reports_it);
    tcase_add_test(t, emit_reports_it);
    suite_add_tcase(s, t);
    return run_suite(s);
}
