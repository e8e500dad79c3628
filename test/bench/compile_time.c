/* SPDX-License-Identifier: Apache-2.0
 *
 * How long compiling takes: attention_fwd from text to optimised tile IR, with
 * code generation (to PTX for GPUs, which need not be there), and (given the
 * command) a cold `tilec attention`.
 *
 *   compile_time [--rounds 15] [--tilec PATH --input FILE]
 *                [--goal-tile MILLISECONDS] [--goal-cold MILLISECONDS]
 *
 * Prints medians; a goal that is missed fails.
 */
#include "passes/passes.h"
#include "test/numerics/run.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_ROUNDS = 99 };

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_size);
    return x[n / 2];
}

/* ---- Text to optimised tile IR ---- */

static bool to_tile_ir(const char *mask)
{
    tc_context *cx = tc_context_new();
    tc_module *m = tc_module_new(cx);
    const char *kernel = tilec_embedded_text("attention_fwd");
    const char *masks = tilec_embedded_text("mods/masks");
    tc_binding bindings[] = {{"D", "128"}, {"T", "f32"}, {"mask_mod", mask}};
    tc_pass_options o = {.kernel = "attention_fwd", .bindings = bindings};
    o.nbindings = mask ? 3 : 2;
    bool ok =
        tc_parse(m, tc_source_add(cx, "attention_fwd", kernel, strlen(kernel)));
    if (mask)
        ok =
            ok && tc_parse(m, tc_source_add(cx, "masks", masks, strlen(masks)));
    ok = ok && tc_module_verify(m) && tc_run_pipeline(m, "cpu", &o);
    for (tc_diag *d = cx->diags; d; d = d->next)
        printf("%u:%u: %s\n", d->loc.line, d->loc.col, d->message);
    tc_module_free(m);
    tc_context_free(cx);
    return ok;
}

static double tile_time(const char *mask, int rounds)
{
    double t[MAX_ROUNDS];
    for (int i = 0; i < rounds; i++) {
        double start = run_seconds();
        if (!to_tile_ir(mask))
            exit(1);
        t[i] = run_seconds() - start;
    }
    return median(t, rounds);
}

/* ---- With code ---- */

static double compile_time(const char *target, const char *dim,
                           const char *type, int rounds)
{
    double t[MAX_ROUNDS];
    tilec_context *cx;
    tilec_source source = tilec_text("attention_fwd", NULL, 0);
    tilec_binding bindings[] = {{"D", dim}, {"T", type}};
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    o.target = target;
    o.bindings = bindings;
    o.nbindings = 2;
    o.no_load = o.no_cache = 1;
    if (tilec_context_new(NULL, &cx) != TILEC_OK)
        exit(3);
    for (int i = 0; i < rounds; i++) {
        tilec_kernel *k;
        double start = run_seconds();
        if (tilec_compile(cx, &source, 1, &o, &k) != TILEC_OK) {
            run_print_diagnostics(cx);
            exit(1);
        }
        t[i] = run_seconds() - start;
        tilec_kernel_free(k);
    }
    tilec_context_free(cx);
    return median(t, rounds);
}

static void print_compile_times(const char *target, const char *type,
                                int rounds)
{
    static const char *const dims[] = {"64", "128", "256"};
    for (int i = 0; i < 3; i++)
        printf("  %-6s %-4s D = %-3s     %8.2f ms\n", target, type, dims[i],
               1e3 * compile_time(target, dims[i], type, rounds));
}

/* ---- The command ---- */

static int run_command(const char *tilec, const char *input)
{
    pid_t child = fork();
    if (child == 0) {
        int null = open("/dev/null", O_WRONLY);
        dup2(null, 1);
        execl(tilec, tilec, "attention", input, "--check", "o_full", NULL);
        _exit(127);
    }
    int status = 1;
    waitpid(child, &status, 0);
    return status;
}

static double cold_time(const char *tilec, const char *input, int rounds)
{
    double t[MAX_ROUNDS];
    for (int i = 0; i < rounds; i++) {
        double start = run_seconds();
        if (run_command(tilec, input) != 0) {
            printf("%s attention %s failed\n", tilec, input);
            exit(1);
        }
        t[i] = run_seconds() - start;
    }
    return median(t, rounds);
}

static const char *text_option(int argc, char **argv, const char *name)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return argv[i + 1];
    return NULL;
}

int main(int argc, char **argv)
{
    int rounds = (int)run_option(argc, argv, "rounds", 15);
    rounds = rounds > MAX_ROUNDS ? MAX_ROUNDS : rounds;
    double tile_goal = (double)run_option(argc, argv, "goal-tile", 1 << 30);
    double cold_goal = (double)run_option(argc, argv, "goal-cold", 1 << 30);
    const char *tilec = text_option(argc, argv, "--tilec");
    const char *input = text_option(argc, argv, "--input");
    double plain = 1e3 * tile_time(NULL, rounds);
    double masked = 1e3 * tile_time("@document", rounds);
    printf("text to optimised tile IR, attention_fwd, median of %d\n", rounds);
    printf("  without a mask          %8.2f ms\n", plain);
    printf("  with the document mask  %8.2f ms\n", masked);
    printf("text to machine code of the CPU, to PTX\n");
    print_compile_times("cpu", "f32", rounds);
    print_compile_times("sm_80", "bf16", rounds);
    print_compile_times("sm_90a", "bf16", rounds);
    double cold = 0;
    if (tilec && input) {
        cold = 1e3 * cold_time(tilec, input, rounds);
        printf("tilec attention, cold     %8.2f ms\n", cold);
    }
    return plain > tile_goal || masked > tile_goal || cold > cold_goal;
}
