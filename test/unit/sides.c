/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of any width on a GPU: how many threads hold each element of the tiles
 * that are read and written, by the layouts at the end of all passes.
 */
#include "ir/types/layout.h"
#include "passes/passes.h"
#include "test/unit/fixture/fixture.h"
#include "test/unit/run.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_HOLDERS = 2 };

static const char softmax[] =
    "kernel @k[N: int, T: type, BM: int, NP: int = max(8, cdiv(N, 8) * 8)]("
    "    %x: tensor<[?, N] x T>, %y: tensor<[?, N] x T>)"
    "    grid(cdiv(size(%x, 0), BM)) {\n"
    "  %m = program_id(0) * BM\n"
    "  %raw = load %x[%m +: BM, 0 +: NP] boundary(0, 1) pad(-inf)\n"
    "  %t = cast(%raw, f32)\n"
    "  %e = exp(%t - max(%t, axis=1)[:, none])\n"
    "  %p = cast(%e / sum(%e, axis=1)[:, none], T)\n"
    "  store %y[%m +: BM, 0 +: NP], %p boundary(0, 1)\n"
    "}\n";

static const char layernorm[] =
    "kernel @k[N: int, T: type, BM: int, NP: int = max(8, cdiv(N, 8) * 8)]("
    "    %x: tensor<[?, ?] x T>, %w: tensor<[?] x T>, %y: tensor<[?, ?] x T>)"
    "    grid(cdiv(size(%x, 0), BM)) {\n"
    "  %m = program_id(0) * BM\n"
    "  %raw = load %x[%m +: BM, 0 +: NP] boundary(0, 1)\n"
    "  %t = cast(%raw, f32)\n"
    "  %n = cast(size(%x, 1), f32)\n"
    "  %mean = sum(%t, axis=1) / %n\n"
    "  %on = (range(NP) < size(%x, 1))[none, :]\n"
    "  %d = select(%on, %t - %mean[:, none], 0.0)\n"
    "  %r = rsqrt(sum(%d * %d, axis=1) / %n + 1e-5)\n"
    "  %wt = load %w[0 +: NP] boundary(0)\n"
    "  %o = %d * %r[:, none] * cast(%wt, f32)[none, :]\n"
    "  store %y[%m +: BM, 0 +: NP], cast(%o, T) boundary(0, 1)\n"
    "}\n";

static const int widths[] = {
    1,    2,    3,    4,    5,    6,    7,    8,    9,    10,   11,   12,
    13,   14,   15,   16,   17,   18,   19,   20,   21,   22,   23,   24,
    25,   26,   27,   28,   29,   30,   31,   32,   33,   34,   35,   36,
    37,   38,   39,   40,   41,   42,   43,   44,   45,   46,   47,   48,
    49,   50,   51,   52,   53,   54,   55,   56,   57,   58,   59,   60,
    61,   62,   63,   64,   65,   127,  128,  129,  255,  256,  257,  509,
    511,  512,  513,  640,  997,  1000, 1023, 1024, 1025, 1152, 1536, 2039,
    2047, 2048, 2049, 2880, 4093, 4095, 4096, 4097, 5120, 8191, 8192};

/* Of the row tiles: those with the most elements that are read or written. */
static unsigned most_holders(const tc_func *f, const tc_region *r)
{
    unsigned most = 0;
    tc_each_op (op, r) {
        for (unsigned i = 0; i < op->nregions; i++) {
            unsigned n = most_holders(f, op->regions[i]);
            most = n > most ? n : most;
        }
        const tc_value *v = op->code == TC_LOAD    ? op->out[0]
                            : op->code == TC_STORE ? op->in[1]
                                                   : NULL;
        if (!v || v->type->kind != TC_TILE || v->type->rank != 2)
            continue;
        int64_t threads = 32 * (int64_t)f->warps;
        int64_t count = tc_type_count(v->type);
        int64_t held = threads * tc_layout_size(v->type->layout, TC_REGISTER);
        ck_assert_int_ge(held, count);
        if (count >= threads && held / count > most)
            most = (unsigned)(held / count);
        if (count < threads && most == 0)
            most = 1;
    }
    return most;
}

static void check_width(const char *text, const char *type, int rows, int width,
                        unsigned warps)
{
    char n[16], m[16];
    snprintf(n, sizeof n, "%d", width);
    snprintf(m, sizeof m, "%d", rows);
    const tc_binding bindings[] = {{"N", n}, {"T", type}, {"BM", m}};
    tc_pass_options options = {.bindings = bindings,
                               .nbindings = 3,
                               .warps = warps,
                               .target = tc_target_get("sm_90a")};
    tc_module *module = fixture_parse(text);
    ck_assert(tc_run_pipeline(module, "gpu", &options));
    unsigned most = most_holders(module->first, module->first->body);
    ck_assert_msg(most >= 1 && most <= MOST_HOLDERS,
                  "%d x %d of %s, %u warps: an element is held by %u threads",
                  rows, width, type, warps, most);
    tc_module_free(module);
}

static void check_widths(const char *text)
{
    static const char *const types[] = {"f32", "bf16"};
    static const unsigned warps[] = {0, 4};
    static const int rows[] = {1, 8};
    for (unsigned i = 0; i < sizeof widths / sizeof *widths; i++)
        check_width(text, types[i % 2], rows[i / 2 % 2], widths[i],
                    warps[i / 4 % 2]);
    for (unsigned t = 0; t < 2; t++)
        for (unsigned r = 0; r < 2; r++)
            for (unsigned w = 0; w < 2; w++)
                for (unsigned i = sizeof widths / sizeof *widths; i-- > 65;)
                    check_width(text, types[t], rows[r], widths[i], warps[w]);
}

START_TEST(test_softmax)
{
    check_widths(softmax);
}
END_TEST

START_TEST(test_layernorm)
{
    check_widths(layernorm);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("sides");
    TCase *t = tcase_create("sides");
    tcase_add_checked_fixture(t, fixture_setup, fixture_teardown);
    tcase_add_test(t, test_softmax);
    tcase_add_test(t, test_layernorm);
    suite_add_tcase(s, t);
    return run_suite(s);
}
