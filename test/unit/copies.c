/* SPDX-License-Identifier: Apache-2.0
 *
 * Which plans of attention copy v first, and what they are then.
 */
#include "lib/tilec.h"
#include "test/unit/run.h"

#include <check.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static tilec_context *cx;

static void set_up(void)
{
    tilec_context_options o = TILEC_INIT(tilec_context_options);
    o.cache_folder = "";
    o.remarks = 1;
    ck_assert_int_eq(tilec_context_new(&o, &cx), TILEC_OK);
}

static void tear_down(void)
{
    tilec_context_free(cx);
}

typedef enum order { ROWS, COLUMNS, PADDED } order;

static const struct plan {
    const char *target;
    int q_bits;
    order v;
    int64_t heads, queries, keys, dv;
    const char *mask, *given; /* COPY_VALUES */
    bool is_off, copies;
} plans[] = {
    /* 16 programs of 128 queries, 8 of wide values; twice as many under a
     * mask. */
    {"sm_90a", 8, ROWS, 2, 2048, 4096, 64, NULL, NULL, false, true},
    {"sm_90a", 8, ROWS, 2, 1024, 4096, 64, NULL, NULL, false, false},
    {"sm_90a", 8, ROWS, 4, 1024, 4096, 64, NULL, NULL, false, true},
    {"sm_90a", 8, ROWS, 2, 4096, 4096, 64, "causal", NULL, false, true},
    {"sm_90a", 8, ROWS, 2, 2048, 4096, 64, "causal", NULL, false, false},
    {"sm_90a", 8, ROWS, 2, 8192, 8192, 64, "causal", NULL, false, true},
    {"sm_90a", 8, ROWS, 2, 1024, 4096, 192, NULL, NULL, false, true},
    {"sm_90a", 8, ROWS, 2, 1024, 4096, 192, NULL, "false", false, false},
    {"sm_90a", 8, ROWS, 2, 4096, 4096, 64, NULL, NULL, true, false},
    /* Its rows are no multiples of 16 bytes. */
    {"sm_90a", 8, ROWS, 2, 256, 1000, 40, NULL, NULL, false, true},
    {"sm_90a", 8, ROWS, 2, 128, 1000, 40, NULL, NULL, false, false},
    {"sm_90a", 8, COLUMNS, 2, 256, 1000, 64, NULL, NULL, false, true},
    {"sm_90a", 8, COLUMNS, 2, 4096, 1024, 64, NULL, NULL, false, false},
    {"sm_90a", 8, PADDED, 2, 4096, 1000, 64, NULL, NULL, false, false},
    /* Weights of 16 bits; targets without products of 8 bits. */
    {"sm_90a", 16, ROWS, 2, 4096, 4096, 64, NULL, NULL, false, false},
    {"sm_80", 8, ROWS, 2, 4096, 4096, 64, NULL, NULL, false, false},
    {"sm_89", 8, ROWS, 2, 256, 4096, 64, NULL, NULL, false, true},
    {"cpu", 8, ROWS, 2, 4096, 4096, 64, NULL, NULL, false, false},
    {"cpu", 8, ROWS, 2, 100, 100, 64, "causal", "true", false, true},
};

static bool is_copied(const tilec_kernel *k)
{
    const tilec_kernel *part;
    for (size_t i = 0; (part = tilec_kernel_part(k, i)); i++)
        if (strcmp(tilec_kernel_name(part), "copy_values") == 0)
            return true;
    return false;
}

static bool is_said(const tilec_context *c, const char *what)
{
    for (const tilec_diagnostic *d = tilec_diagnostics(c); d; d = d->next)
        if (strstr(d->message, what))
            return true;
    return false;
}

START_TEST(where_enough_read_it)
{
    const struct plan *p = &plans[_i];
    enum { D = 64 };
    int64_t keys = p->v == PADDED ? (p->keys + 15) / 16 * 16 : p->keys;
    int64_t of_q[] = {1, p->heads, p->queries, D}, of_k[] = {1, 2, p->keys, D},
            of_v[] = {1, 2, p->keys, p->dv},
            columns[] = {2 * p->dv * keys, p->dv * keys, 1, keys};
    DLDataType bits8 = {TILEC_DL_F8E4M3, 8, 1}, bits16 = {kDLBfloat, 16, 1};
    DLTensor q = {.ndim = 4,
                  .device = {kDLCPU, 0},
                  .dtype = p->q_bits == 8 ? bits8 : bits16,
                  .shape = of_q},
             k = q, v = q;
    k.shape = of_k;
    v.shape = of_v;
    k.dtype = v.dtype = bits8;
    v.strides = p->v == ROWS ? NULL : columns;
    tilec_binding given = {"COPY_VALUES", p->given};
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    o.target = p->target;
    o.mask = p->mask;
    o.enforce = p->is_off ? TILEC_ENFORCE_OFF : TILEC_ENFORCE_WARN;
    o.kernel_options = &given;
    o.nkernel_options = p->given != NULL;
    o.no_load = 1;
    tilec_attention *a;
    tilec_status s = tilec_attention_plan(cx, &q, &k, &v, &o, &a);
    ck_assert_msg(s == TILEC_OK, "%s",
                  s == TILEC_OK ? "" : tilec_diagnostics(cx)->message);
    ck_assert_int_eq(is_copied(tilec_attention_kernel(a)), p->copies);
    ck_assert_int_eq(is_said(cx, "v is copied first, by columns"),
                     p->copies && !p->given);
    bool is_odd = p->dv % 16 || (p->v == COLUMNS && p->keys % 16);
    ck_assert_int_eq(is_said(cx, "v does not lie at multiples of 16 bytes"),
                     is_odd && !p->copies);
    tilec_attention_free(a);
}
END_TEST

START_TEST(workspace)
{
    int64_t shape[] = {2, 3, 100, 64};
    DLTensor t = {.ndim = 4,
                  .device = {kDLCPU, 0},
                  .dtype = {TILEC_DL_F8E4M3, 8, 1},
                  .shape = shape};
    tilec_binding given = {"COPY_VALUES", "true"};
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    o.target = "cpu";
    o.kernel_options = &given;
    o.nkernel_options = 1;
    tilec_attention *a;
    uint64_t bytes = 0;
    tilec_attention_tensors call = TILEC_INIT(tilec_attention_tensors);
    call.q = call.k = call.v = &t;
    ck_assert_int_eq(tilec_attention_plan(cx, &t, &t, &t, &o, &a), TILEC_OK);
    ck_assert_int_eq(tilec_attention_workspace(a, &call, &bytes, NULL, NULL),
                     TILEC_OK);
    ck_assert_uint_eq(bytes, 2 * 3 * 112 * 64);
    tilec_attention_free(a);
}
END_TEST

START_TEST(unknown_types)
{
    static const DLDataType types[] = {{kDLFloat, 0, 1}, {kDLFloat, 255, 1}};
    int64_t shape[] = {1, 1, 16, 16};
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    o.target = "sm_90a";
    o.no_load = 1;
    for (int i = 0; i < 2; i++) {
        DLTensor t = {.ndim = 4,
                      .device = {kDLCPU, 0},
                      .dtype = types[i],
                      .shape = shape};
        tilec_attention *a;
        ck_assert_int_eq(tilec_attention_plan(cx, &t, &t, &t, &o, &a),
                         TILEC_INPUT);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("copies");
    TCase *t = tcase_create("copies");
    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_loop_test(t, where_enough_read_it, 0,
                        sizeof plans / sizeof *plans);
    tcase_add_test(t, workspace);
    tcase_add_test(t, unknown_types);
    suite_add_tcase(s, t);
    return run_suite(s);
}
