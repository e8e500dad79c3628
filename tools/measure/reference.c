/* SPDX-License-Identifier: Apache-2.0
 *
 * The expected results of a workload, from the CPU target: all of them if that
 * is quick, else those of programs at even distances in the grid, whose results
 * are the elements that changed in tensors that began as a pattern.
 */
#include "tools/common/progress.h"
#include "tools/measure/compare.h"
#include "tools/measure/flops.h"
#include "tools/measure/workload.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* An untouched byte of a sample. As a float of any type -2.9e-16 or the like,
 * which no kernel gives: an element that is it all the same is not compared. */
enum { UNTOUCHED = 0xa5 };

typedef struct reference {
    workload *w;
    built b;
    tilec_argument args[INPUTS_MOST];
    int64_t programs, every;
    double seconds; /* that it may take */
} reference;

/* ---- How much it computes ---- */

/* The share of the pairs that a mask lets see: of scores that are all 0, the
 * logsumexp is the logarithm of the number of keys. From a sample of rows. */
static bool ask_mask(const workload *w, double *share)
{
    enum { PROGRAMS = 512, ROWS = 64 };
    inputs in = {.command = w->args->command};
    const DLDataType f32 = {kDLFloat, 32, 1};
    const int64_t q[4] = {w->batch, w->heads, w->length, 1};
    const int64_t k[4] = {w->batch, w->kv_heads, w->kv_length, 1};
    tilec_context *cx = NULL;
    built b = {0};
    bool ok = !inputs_add_tensor(&in, "q", f32, 4, q, false) &&
              !inputs_add_tensor(&in, "k", f32, 4, k, false) &&
              !inputs_add_tensor(&in, "v", f32, 4, k, false) &&
              !inputs_add_tensor(&in, "o", f32, 4, q, false) &&
              !inputs_add_tensor(&in, "lse", f32, 3, q, false) &&
              !tilec_context_new(NULL, &cx);
    workload mine = {.args = w->args, .is_attention = true, .mask = w->mask};
    mine.in.n = w->in.n;
    memcpy(mine.in.arguments, w->in.arguments, sizeof mine.in.arguments);
    memcpy(mine.in.arguments, in.arguments, in.n * sizeof *in.arguments);
    tilec_launch_options o = TILEC_INIT(tilec_launch_options);
    o.every = 1 + w->batch * w->heads * (w->length / ROWS) / PROGRAMS;
    if (ok) {
        const DLTensor *lse = &in.list[4].own.dl;
        float *rows = lse->data;
        double seen = 0, asked = 0;
        memset(rows, 0xff, tensor_bytes(lse)); /* NaN: not asked */
        ok = !workload_build(&mine, cx, "cpu", NULL, false, &b) &&
             !workload_launch(&mine, &b, mine.in.arguments, &o, NULL);
        for (int64_t i = 0, n = tensor_count(lse); ok && i < n; i++)
            if (!isnan(rows[i])) {
                seen += exp(rows[i]);
                asked += (double)w->kv_length;
            }
        *share = asked > 0 ? seen / asked : 1;
    }
    built_free(&b);
    tilec_context_free(cx);
    inputs_free(&in);
    return ok;
}

/* Query i sees keys 0 to i. */
static double causal_share(const workload *w)
{
    double m = (double)w->length, n = (double)w->kv_length;
    double pairs = m <= n ? m * (m + 1) / 2 : n * (n + 1) / 2 + (m - n) * n;
    return pairs / (m * n);
}

static void count_attention(workload *w)
{
    double share = 1;
    bool known = true;
    if (w->mask && strcmp(w->mask, "causal") == 0)
        share = causal_share(w);
    else if (w->mask)
        known = ask_mask(w, &share);
    w->flops = 2.0 * share * (double)w->batch * (double)w->heads *
               (double)w->length * (double)w->kv_length *
               (double)(w->dim + w->dv);
    if (!known)
        snprintf(w->flops_from, sizeof w->flops_from,
                 "all keys counted, seen or not");
    else
        snprintf(w->flops_from, sizeof w->flops_from,
                 "the %.1f %% of pairs that are seen", 100 * share);
}

static void count(reference *r)
{
    workload *w = r->w;
    if (tool_has(w->args, "--flops"))
        snprintf(w->flops_from, sizeof w->flops_from, "as given");
    else if (w->is_attention)
        count_attention(w);
    else if (count_flops(r->b.kernel, w->in.arguments, w->in.n, &w->flops))
        snprintf(w->flops_from, sizeof w->flops_from,
                 w->flops > 0 ? "its dots" : "it has no dots");
    else
        snprintf(w->flops_from, sizeof w->flops_from,
                 "not to be counted: see --flops");
}

/* ---- Running it ---- */

/* The results as they are before the launch. */
static void begin(const reference *r, bool is_sample)
{
    for (size_t i = 0; i < r->w->in.n; i++) {
        DLTensor *to = &r->w->want[i].dl;
        const input *from = &r->w->in.list[i];
        if (!to->data)
            continue;
        if (is_sample && from->is_blank)
            memset(to->data, UNTOUCHED, tensor_bytes(to));
        else
            memcpy(to->data, from->own.dl.data, tensor_bytes(to));
    }
}

static int launch(reference *r, int64_t every, double *seconds)
{
    tilec_launch_options o = TILEC_INIT(tilec_launch_options);
    tilec_error e = TILEC_INIT(tilec_error);
    o.every = every;
    o.progress = progress_launch;
    begin(r, every > 1);
    double start = seconds_now();
    if (workload_launch(r->w, &r->b, r->args, &o, &e))
        return report_error(&e);
    *seconds = seconds_now() - start;
    progress_end();
    return EXIT_DONE;
}

/* Sums over programs are whole only when all have run. */
static bool adds_up(const tilec_kernel *k)
{
    char *text = NULL;
    bool does = !tilec_kernel_emit(k, "tile", &text, NULL) &&
                strstr(text, "atomic") != NULL;
    tilec_free(text);
    return does;
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    return b ? common_divisor(b, a % b) : a;
}

/* From the time of one program: how many there is time for. With no factor in
 * common with the first axis, so that they are from all along it. */
static int64_t choose_every(const reference *r, double one, int64_t first_axis)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    double most = r->seconds * (double)(cores > 0 ? cores : 1) / one;
    if (most >= (double)r->programs || adds_up(r->b.kernel))
        return 1;
    int64_t every = (int64_t)((double)r->programs / (most < 1 ? 1 : most)) + 1;
    while (every < r->programs && common_divisor(every, first_axis) != 1)
        every++;
    return every;
}

/* The plan of attention keeps some of the kernel's arguments to itself. */
static int find_grid(const reference *r, int32_t grid[3])
{
    const workload *w = r->w;
    tilec_error e = TILEC_INIT(tilec_error);
    if (!w->is_attention)
        return tilec_kernel_grid(r->b.kernel, r->args, w->in.n, grid, &e)
                   ? report_error(&e)
                   : EXIT_DONE;
    int64_t rows = atoll(tilec_kernel_binding(r->b.kernel, "BM"));
    grid[0] = (int32_t)((w->length + rows - 1) / rows);
    grid[1] = (int32_t)w->heads;
    grid[2] = (int32_t)w->batch;
    return EXIT_DONE;
}

static int reference_run(reference *r)
{
    workload *w = r->w;
    int32_t grid[3];
    double seconds;
    int wrong = find_grid(r, grid);
    if (wrong)
        return wrong;
    r->programs = (int64_t)grid[0] * grid[1] * grid[2];
    if (r->programs == 0)
        return EXIT_DONE;
    int code = launch(r, r->programs, &seconds);
    if (code)
        return code;
    r->every = choose_every(r, seconds > 0 ? seconds : 1e-9, grid[0]);
    code = launch(r, r->every, &seconds);
    w->is_sample = r->every > 1;
    return code;
}

/* Memory for what the kernel writes. */
static int reference_place(reference *r)
{
    workload *w = r->w;
    memcpy(r->args, w->in.arguments, sizeof r->args);
    for (size_t i = 0; i < w->in.n; i++) {
        const DLTensor *t = w->in.arguments[i].tensor;
        if (!t || !kernel_writes(r->b.kernel, w->in.list[i].name))
            continue;
        if (!tensor_new(&w->want[i], t->dtype, t->ndim, t->shape)) {
            report("no memory for the reference");
            return EXIT_MACHINE;
        }
        r->args[i].tensor = &w->want[i].dl;
    }
    return EXIT_DONE;
}

static void describe(const reference *r)
{
    workload *w = r->w;
    int64_t run = w->is_sample ? (r->programs - 1) / r->every + 1 : r->programs;
    snprintf(w->checked, sizeof w->checked,
             w->is_sample ? "%lld of %lld programs of the CPU target's grid"
                          : "all that %lld programs of the CPU target give",
             (long long)run, (long long)r->programs);
}

/* The properties by which configurations are chosen. */
static void identify(const reference *r)
{
    workload *w = r->w;
    const tilec_kernel *k = r->b.kernel;
    const char *dtype = tilec_kernel_binding(k, "T");
    const char *d = tilec_kernel_binding(k, "D");
    const char *dv = tilec_kernel_binding(k, "DV");
    snprintf(w->kernel, sizeof w->kernel, "%s", tilec_kernel_name(k));
    snprintf(w->dtype, sizeof w->dtype, "%s", dtype ? dtype : "");
    w->dim = d ? atoll(d) : 0;
    w->dv = dv ? atoll(dv) : 0;
}

static int reference_build(reference *r, tilec_context *cx, const space *s)
{
    tilec_status status = workload_build(r->w, cx, "cpu", NULL, false, &r->b);
    /* A parameter that has no value but those of the sweep. */
    if (status && s->naxes) {
        variant first = space_at(s, 0);
        status = workload_build(r->w, cx, "cpu", &first, false, &r->b);
    }
    if (status)
        return report_compile(cx, status);
    identify(r);
    int code = inputs_want_rows(&r->w->in, r->b.kernel);
    return code ? code : inputs_copy_written(&r->w->in, r->b.kernel);
}

static int prepare(reference *r, tilec_context *cx, const space *s)
{
    int code = reference_build(r, cx, s);
    if (!code)
        code = reference_place(r);
    if (code)
        return code;
    count(r);
    r->w->is_checked = r->seconds > 0 && !tool_has(r->w->args, "--dry-run");
    if (!r->w->is_checked)
        return EXIT_DONE;
    code = reference_run(r);
    describe(r);
    return code;
}

int workload_prepare(workload *w, const space *s)
{
    reference r = {.w = w, .seconds = w->needs_no_check ? 0 : 2};
    const char *seconds = tool_value(w->args, "--check-seconds");
    tilec_context *cx = NULL;
    char *end;
    if (seconds) {
        r.seconds = strtod(seconds, &end);
        if (end == seconds || *end || !(r.seconds >= 0))
            return tool_usage(w->args->command,
                              "--check-seconds is `%s`, expected a number, 0 "
                              "or above",
                              seconds);
    }
    if (tilec_context_new(NULL, &cx)) {
        report("out of memory");
        return EXIT_MACHINE;
    }
    int code = prepare(&r, cx, s);
    built_free(&r.b);
    tilec_context_free(cx);
    return code;
}

/* ---- Checking ---- */

static difference compare_with(const workload *w, size_t i, const DLTensor *got)
{
    const DLTensor *want = &w->want[i].dl;
    owned_tensor pattern = {.dl.data = NULL};
    if (!w->is_sample)
        return measure(got, want, NULL);
    if (!w->in.list[i].is_blank)
        return measure(got, want, &w->in.list[i].own.dl);
    difference d = {.strange = 1};
    if (tensor_new(&pattern, want->dtype, want->ndim, want->shape)) {
        memset(pattern.dl.data, UNTOUCHED, tensor_bytes(want));
        d = measure(got, want, &pattern.dl);
    }
    free(pattern.dl.data);
    return d;
}

/* Both results may be off by the tolerance, so that they are apart by twice as
 * much; few elements of 16 bits are no sample of rounding errors. */
static double most_error(const workload *w, const DLTensor *t, int64_t n)
{
    double most = w->tolerance > 0 ? w->tolerance : 2 * tolerance_of(t->dtype);
    bool is_few = w->tolerance == 0 && n < 256 && t->dtype.bits <= 16;
    return is_few ? 4 * most : most;
}

verdict workload_check(const workload *w, const DLTensor *const *got)
{
    verdict v = {0};
    for (size_t i = 0; w->is_checked && i < w->in.n; i++) {
        if (!got[i] || !w->want[i].dl.data)
            continue;
        const char *name = w->in.list[i].name;
        difference d = compare_with(w, i, got[i]);
        bool is_lse = w->is_attention && strcmp(name, "lse") == 0;
        double error = is_lse ? d.largest : d.relative;
        double most =
            is_lse ? 2 * TOLERANCE_ABSOLUTE : most_error(w, got[i], d.compared);
        if (!is_lse && d.relative > v.error)
            v.error = d.relative;
        if (*v.why || (d.strange == 0 && error <= most))
            continue;
        if (d.strange)
            snprintf(v.why, sizeof v.why,
                     "%s: %lld infinities or NaNs do not agree", name,
                     (long long)d.strange);
        else
            snprintf(v.why, sizeof v.why,
                     "%s: %s error %.3g, at most %.3g is right", name,
                     is_lse ? "absolute" : "relative", error, most);
    }
    return v;
}
