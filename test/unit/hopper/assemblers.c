/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of assemblers that say that code became slow.
 */
#include "test/unit/hopper/fixture.h"

#include <signal.h>

/* A product of a warp group. */
static const char product_text[] =
    "kernel @mul(%x: tensor<[64, 64] x f16>, %y: tensor<[64, 64] x f32>)\n"
    "    grid(1)\n"
    "{\n"
    "  %a = load %x[0 +: 64, 0 +: 64]\n"
    "  %c = dot %a, %a : tile<64x64 x f32>\n"
    "  store %y[0 +: 64, 0 +: 64], %c\n"
    "}\n";

/* ---- Assemblers that give up ---- */

#define SERIAL                                                                 \
    "ptxas info    : (C7512) Potential Performance Loss: wgmma.mma_async "     \
    "instructions are serialized due to insufficient register resources for "  \
    "the function 'add'"

static void clear_cache(void)
{
    size_t n;
    tc_cache cache = {.folder = folder};
    ck_assert(tc_cache_clear(&cache, &n));
}

/* A process that starts without a cache. */
static void start_anew(void)
{
    clear_cache();
    tilec_context_free(cx);
    cx = hopper_new_context(FAKE_CUDA, NULL);
}

START_TEST(losses_are_errors)
{
    static const char *const lines[][2] = {
        {SERIAL, "wgmma products are serialized: the kernel needs more "
                 "registers than there are (C7512): compile it with smaller "
                 "tiles, or more warps"},
        {"info : (C7508) Potential Performance Loss: 'setmaxnreg' ignored",
         "setmaxnreg is ignored: the registers at entry are not known (C7508)"},
        {"(C7510) x", "(C7510)"},
        {"(C7511) x", "(C7511)"},
        {"(C7514) x", "(C7514)"},
        {"(C7515) x", "(C7515)"},
        {"(C7517) x", "(C7517)"},
        {"(C7519) x", "(C7519)"},
        {"(C7513) Potential Performance Loss: wgmma.mma_async is x",
         "wgmma products are serialized"}};
    tilec_kernel *k;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        fake->whole_info = lines[i][0];
        start_anew();
        ck_assert_int_eq(hopper_compile_text(cx, product_text, true, &k),
                         TILEC_MACHINE);
        const tilec_diagnostic *d = tilec_diagnostics(cx);
        ck_assert_msg(strstr(d->message, lines[i][1]) != NULL, "%s",
                      d->message);
        ck_assert_ptr_nonnull(strstr(d->message, "@mul would be slow: "));
        ck_assert_ptr_nonnull(d->notes);
        ck_assert_str_eq(d->notes->message, lines[i][0]);
        ck_assert_int_eq(fake->unloads, fake->loads);
    }
    fake->whole_info = "ptxas info    : Used 168 registers, used 16 barriers";
    start_anew();
    tilec_kernel_free(hopper_must_compile(cx, product_text, true));
    ck_assert_int_eq(fake->links, 0);
}
END_TEST

/* The driver says it once: then the code is in its own cache. */
START_TEST(losses_are_remembered)
{
    tilec_kernel *k;
    fake->whole_info = SERIAL;
    ck_assert_int_eq(hopper_compile_text(cx, product_text, true, &k),
                     TILEC_MACHINE);
    ck_assert_int_eq(fake->loads, 1);
    fake->whole_info = "";
    for (int process = 0; process < 2; process++) {
        ck_assert_int_eq(hopper_compile_text(cx, product_text, true, &k),
                         TILEC_MACHINE);
        const tilec_diagnostic *d = tilec_diagnostics(cx);
        ck_assert_ptr_nonnull(strstr(d->message, "(C7512)"));
        ck_assert_ptr_nonnull(d->notes);
        ck_assert_str_eq(d->notes->message, SERIAL);
        ck_assert_int_eq(fake->loads, 1);
        tilec_context_free(cx);
        cx = hopper_new_context(FAKE_CUDA, NULL);
    }
    /* Without the cache it is asked again. */
    start_anew();
    tilec_kernel_free(hopper_must_compile(cx, product_text, true));
    ck_assert_int_eq(fake->loads, 2);
}
END_TEST

static tilec_status launch_product(const tilec_kernel *k)
{
    tensor x, y;
    hopper_make_tensor(&x, 0x10000);
    x.dl.ndim = 2;
    x.dl.dtype.code = kDLFloat;
    x.shape[0] = x.shape[1] = x.strides[0] = 64;
    x.strides[1] = 1;
    y = x;
    y.dl.data = (void *)0x20000;
    y.dl.dtype.bits = 32;
    y.dl.shape = y.shape;
    y.dl.strides = y.strides;
    tilec_argument args[] = {tilec_tensor(NULL, &x.dl),
                             tilec_tensor(NULL, &y.dl)};
    return tilec_launch(k, args, 2, NULL, &last_error);
}

START_TEST(losses_at_a_launch)
{
    tilec_kernel *k = hopper_must_compile(cx, product_text, false);
    fake->whole_info = SERIAL;
    hopper_expect_says(launch_product(k), TILEC_MACHINE,
                       "@mul would be slow: wgmma products are serialized");
    tilec_kernel_free(k);
}
END_TEST

/* Linkers speak as well. */
START_TEST(losses_of_linked_code)
{
    tilec_kernel *k;
    fake->info = SERIAL;
    ck_assert_int_eq(hopper_compile_with(cx, true, &k), TILEC_MACHINE);
    ck_assert_ptr_nonnull(strstr(tilec_diagnostics(cx)->message, "(C7512)"));
    ck_assert_int_eq(fake->loads, 0);
    /* Nothing of it is kept. */
    fake->info = "ptxas info    : Used 168 registers, used 16 barriers";
    k = hopper_compile(cx, true);
    ck_assert_int_eq(fake->links, 2);
    ck_assert_int_eq(fake->loads, 1);
    tilec_kernel_free(k);
    /* But what is good is. */
    tilec_context_free(cx);
    cx = hopper_new_context(FAKE_CUDA, NULL);
    tilec_kernel_free(hopper_compile(cx, true));
    ck_assert_int_eq(fake->links, 2);
    ck_assert_int_eq(fake->loads, 2);
}
END_TEST

/* For the driver's linker: it would lose what they are made for. */
START_TEST(products_are_never_linked)
{
    fake->info = "info : (C7504) Potential Performance Loss: 'setmaxnreg' "
                 "ignored to maintain compatibility across compilation units.";
    tilec_kernel *k = hopper_must_compile(cx, product_text, true);
    ck_assert_int_eq(fake->loads, 1);
    ck_assert_uint_eq(fake->target, 0x10000 + 90);
    ck_assert_int_eq(launch_product(k), TILEC_OK);
    fake_use(0, 0);
    ck_assert_int_eq(launch_product(k), TILEC_OK);
    ck_assert_int_eq(fake->loads, 2);
    tilec_kernel_free(k);
    /* From the cache too; its entry has no cubin. */
    tilec_context_free(cx);
    cx = hopper_new_context(FAKE_CUDA, NULL);
    k = hopper_must_compile(cx, product_text, true);
    ck_assert_int_eq(launch_product(k), TILEC_OK);
    ck_assert_int_eq(fake->loads, 3);
    /* By ptxas, where it is installed. */
    char *cubin = NULL;
    tilec_kernel_emit(k, "cubin", &cubin, &last_error);
    tilec_free(cubin);
    ck_assert_int_eq(fake->links, 0);
    tilec_kernel_free(k);
}
END_TEST

/* A program in the place of ptxas: `says` is what it does before it writes. */
static void write_script(const char *path, const char *says)
{
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fprintf(f,
            "#!/bin/sh\n"
            "test \"$1\" = -arch=sm_90a || exit 1\n"
            "%s\n"
            "for last; do :; done\n"
            "printf 'a cubin' >\"$last\"\n",
            says);
    fclose(f);
    ck_assert_int_eq(chmod(path, 0755), 0);
}

static void write_ptxas(const char *path, const char *says)
{
    char echo[400];
    snprintf(echo, sizeof echo, "echo \"%s\"", says);
    write_script(path, echo);
}

/* Attention whose tuned step takes too many registers gets a shorter one, then
 * fewer rows, which may be too many as well. (What it is given then this driver
 * cannot load.) */
START_TEST(attention_takes_smaller_tiles)
{
    static const struct {
        const char *complains, *message, *calls;
    } cases[] = {{"test -e \"$0.calls\" || echo \"%s\"", "does not load", "xx"},
                 {"echo \"%s\"", "(C7512)", "xxx"}};
    int64_t shape[] = {1, 2, 512, 64};
    DLTensor q = {.device = {kDLCUDA, 0},
                  .ndim = 4,
                  .dtype = {kDLBfloat, 16, 1},
                  .data = (void *)0x10000,
                  .shape = shape};
    char path[100], calls[110], says[500];
    snprintf(path, sizeof path, "%s/ptxas", folder);
    snprintf(calls, sizeof calls, "%s.calls", path);
    snprintf(says, sizeof says, cases[_i].complains, SERIAL);
    strcat(says, "\nprintf x >>\"$0.calls\"");
    write_script(path, says);
    tilec_context *c = hopper_new_context(FAKE_CUDA, path);
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    tilec_attention *a;
    o.target = "sm_90a";
    ck_assert_int_eq(tilec_attention_plan(c, &q, &q, &q, &o, &a),
                     TILEC_MACHINE);
    ck_assert_ptr_nonnull(
        strstr(tilec_diagnostics(c)->message, cases[_i].message));
    FILE *f = fopen(calls, "r");
    ck_assert_ptr_nonnull(f);
    ck_assert_str_eq(fgets(says, sizeof says, f), cases[_i].calls);
    fclose(f);
    tilec_context_free(c);
}
END_TEST

START_TEST(ptxas_is_heard)
{
    char path[100];
    tilec_kernel *k;
    snprintf(path, sizeof path, "%s/ptxas", folder);
    write_ptxas(path, SERIAL);
    tilec_context *c = hopper_new_context(FAKE_CUDA, path);
    ck_assert_int_eq(hopper_compile_text(c, product_text, true, &k),
                     TILEC_MACHINE);
    ck_assert_ptr_nonnull(strstr(tilec_diagnostics(c)->message, "(C7512)"));
    ck_assert_str_eq(tilec_diagnostics(c)->notes->message, SERIAL);
    write_ptxas(path, "ptxas info    : Used 168 registers");
    tilec_kernel_free(hopper_must_compile(c, product_text, true));
    ck_assert_int_eq(fake->links, 0);
    ck_assert_int_eq(fake->loads, 1);
    tilec_context_free(c);
    /* Its cubin is kept. */
    write_ptxas(path, SERIAL);
    c = hopper_new_context(FAKE_CUDA, path);
    tilec_kernel_free(hopper_must_compile(c, product_text, true));
    ck_assert_int_eq(fake->loads, 2);
    tilec_context_free(c);
    unlink(path);
}
END_TEST

/* Who ignores SIGCHLD never learns how a child ended. */
START_TEST(exit_codes_that_nobody_knows)
{
    char path[100];
    tilec_kernel *k;
    snprintf(path, sizeof path, "%s/ptxas", folder);
    write_ptxas(path, "ptxas info    : Used 168 registers");
    signal(SIGCHLD, SIG_IGN);
    tilec_context *c = hopper_new_context(FAKE_CUDA, path);
    tilec_kernel_free(hopper_must_compile(c, product_text, true));
    ck_assert_int_eq(fake->loads, 1);
    tilec_context_free(c);
    clear_cache();
    write_script(path, "echo 'ptxas fatal: no' && exit 1");
    c = hopper_new_context(FAKE_CUDA, path);
    ck_assert_int_eq(hopper_compile_text(c, product_text, true, &k),
                     TILEC_MACHINE);
    ck_assert_ptr_nonnull(
        strstr(tilec_diagnostics(c)->message, "ptxas fatal: no"));
    tilec_context_free(c);
    unlink(path);
}
END_TEST

void hopper_assemblers_tests(TCase *t)
{
    tcase_add_test(t, losses_are_errors);
    tcase_add_test(t, losses_are_remembered);
    tcase_add_test(t, losses_at_a_launch);
    tcase_add_test(t, losses_of_linked_code);
    tcase_add_test(t, products_are_never_linked);
    tcase_add_loop_test(t, attention_takes_smaller_tiles, 0, 2);
    tcase_add_test(t, ptxas_is_heard);
    tcase_add_test(t, exit_codes_that_nobody_knows);
}
