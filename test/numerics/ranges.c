/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps that bound-loops leaves of a loop are those that a search over all
 * queries and keys finds: for random masks that bound the keys of a query from
 * above and from below by lines, in all sorts of words, in attention and in a
 * kernel that has only its two products (test/machine/chain.tile).
 *
 *   numerics_ranges [--seed N] [--seeds N]
 *
 * The kernel is cut off before its loop, and stores the loop's bounds.
 */
#include "codegen/host/host.h"
#include "passes/passes.h"
#include "test/numerics/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 32, MOST_BLOCKS = 16 };

/* ---- Masks ---- */

/* k <= slope q + offset (+ w), or >=. */
typedef struct limit {
    bool upper, captured; /* captured: w is added */
    int slope, offset;
} limit;

/* $: the limit of that query. */
static const char *const uppers[] = {
    "%k <= ($)",
    "($) >= %k",
    "not (%k > ($))",
    "%k < ($) + 1",
    "%k - ($) <= 0",
    "($) - %k >= 0",
    "%k - ($) < 1",
    "%k + 7 <= ($) + 7",
    "-%k >= -($)",
    "%k * 2 <= ($) * 2",
    "select(%k > ($), false, true)",
    "not (%k >= ($) + 1) and true",
    "%k <= ($) or %k < ($)",
};
static const char *const lowers[] = {
    "%k >= ($)",
    "($) <= %k",
    "not (%k < ($))",
    "%k > ($) - 1",
    "%k - ($) >= 0",
    "($) - %k <= 0",
    "%k - ($) > -1",
    "%k - 3 >= ($) - 3",
    "-%k <= -($)",
    "%k * 3 >= ($) * 3",
    "select(%k < ($), false, true)",
    "not (%k <= ($) - 1) and true",
    "%k >= ($) or %k > ($)",
};
enum { FORMS = sizeof uppers / sizeof *uppers };

static void add_limit(tc_text *t, const limit *l, int form)
{
    static const char *const slopes[] = {"0 - %q", "0", "%q"};
    for (const char *s = (l->upper ? uppers : lowers)[form]; *s; s++)
        if (*s == '$')
            tc_text_printf(t, "%s + %d%s", slopes[l->slope + 1], l->offset,
                           l->captured ? " + %w" : "");
        else
            tc_text_addn(t, s, 1);
}

static bool holds(const limit *l, int w, int q, int k)
{
    int at = l->slope * q + l->offset + (l->captured ? w : 0);
    return l->upper ? k <= at : k >= at;
}

/* ---- What the passes make of a loop ---- */

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = calloc(1, 65536);
    if (!f || !text || fread(text, 1, 65535, f) == 65535) {
        printf("cannot read %s\n", path);
        exit(3);
    }
    fclose(f);
    return text;
}

static void print_diagnostics(const tc_context *cx)
{
    for (const tc_diag *d = cx->diags; d; d = d->next)
        printf("%u:%u: %s\n", d->loc.line, d->loc.col, d->message);
}

/* The `)` of the kernel's arguments, after which attributes may stand. */
static const char *end_of_arguments(const char *text)
{
    const char *grid = strstr(text, ") grid {");
    const char *flags = strstr(text, ") fastmath(");
    return flags && flags < grid ? flags : grid;
}

/* The first loop at the top of the kernel, whose bounds go to `bounds`. */
static bool cut_off(const char *text, tc_text *out)
{
    const char *header = end_of_arguments(text);
    const char *loop = header ? strstr(header, "\n  %") : NULL;
    char name[64], low[64], high[64];
    for (; loop; loop = strchr(loop + 1, '\n')) {
        const char *end = strchr(loop + 1, '\n');
        const char *at = strstr(loop, " = for ");
        if (strncmp(loop, "\n  %", 4) == 0 && at && at < end)
            break;
    }
    if (!loop || sscanf(strstr(loop, " = for "), " = for %63s = %63s to %63s",
                        name, low, high) != 3)
        return false;
    tc_text_addn(out, text, (size_t)(header - text));
    tc_text_add(out, ", %bounds: ptr<i32>");
    tc_text_addn(out, header, (size_t)(loop + 1 - header));
    tc_text_printf(out,
                   "  store ptr_add(%%bounds, program_id(0) * 2), %s\n"
                   "  store ptr_add(%%bounds, program_id(0) * 2 + 1), %s\n"
                   "  return\n}\n",
                   low, high);
    return true;
}

static bool run_passes(tc_module *m, const char *text, const char *pipeline,
                       const tc_pass_options *o)
{
    tc_context *cx = m->cx;
    unsigned file = tc_source_add(cx, "ranges", text, strlen(text));
    return tc_parse(m, file) && tc_run_pipeline(m, pipeline, o);
}

static bool launch(tc_func *f, const tc_launch_arg *args)
{
    int32_t grid[3];
    tc_host_report report = {0};
    tc_host_kernel *k = NULL;
    bool ok = tc_eval_grid(f->module->cx, f, args, 1, grid) &&
              (k = tc_host_compile(f, NULL)) &&
              tc_host_launch(k, args, grid, NULL, &report);
    tc_host_free(k);
    return ok;
}

typedef struct program {
    const char *name, *text;
    unsigned ntensors;
    bool is_attention; /* a scale and max follow */
} program;

/* bounds: two a block of queries. */
static bool find_bounds(const program *p, const char *mask, int m, int n, int w,
                        int32_t *bounds)
{
    tc_context *cx = tc_context_new();
    tc_module *before = tc_module_new(cx), *after = tc_module_new(cx);
    tc_binding bindings[] = {
        {"D", "16"}, {"BM", "32"}, {"BN", "32"}, {"mask_mod", "@mask"}};
    tc_pass_options o = {.kernel = p->name, .bindings = bindings};
    o.nbindings = 4;
    tc_text text = {.arena = &cx->arena}, cut = {.arena = &cx->arena};
    tc_text_printf(&text, "%s\n%s", mask, p->text);
    bool ok =
        run_passes(before, text.data,
                   "bind-params,inline,canonicalize,cse,licm,canonicalize,"
                   "bound-loops,canonicalize,cse,dce",
                   &o);
    tc_text printed = {.arena = &cx->arena};
    if (ok)
        tc_module_print(&printed, before, TC_PRINT_PLAIN);
    ok = ok && cut_off(printed.data, &cut) &&
         run_passes(after, cut.data, "canonicalize,cse,dce",
                    &(tc_pass_options){.kernel = p->name});
    /* Nothing is read of the tensors but their sizes. */
    static int64_t strides[4] = {1 << 20, 1 << 20, 16, 1};
    int32_t queries[4] = {1, 1, m, 16}, keys[4] = {1, 1, n, 16};
    tc_launch_arg args[9] = {{.sizes = queries},
                             {.sizes = keys},
                             {.sizes = keys},
                             {.sizes = queries},
                             {.sizes = queries}};
    for (unsigned i = 0; i < p->ntensors; i++) {
        args[i].strides = strides;
        args[i].data = bounds;
    }
    unsigned nargs = p->ntensors;
    if (p->is_attention) {
        args[nargs++].scalar.f = 1;
        args[nargs++] = args[p->ntensors - 1];
    }
    if (strstr(mask, "%w: i32"))
        args[nargs++].scalar.i = w;
    args[nargs++].data = bounds;
    ok = ok && launch(tc_func_find(after, p->name), args);
    print_diagnostics(cx);
    tc_module_free(before);
    tc_module_free(after);
    tc_context_free(cx);
    return ok;
}

/* ---- Against a search ---- */

/* The blocks of keys that the block of queries sees some of. */
static void search(const limit *l, int nlimits, int w, int m, int n, int block,
                   int *first, int *end)
{
    *first = *end = 0;
    for (int q = block * SIDE; q < (block + 1) * SIDE && q < m; q++)
        for (int k = 0; k < n; k++) {
            bool sees = true;
            for (int i = 0; i < nlimits; i++)
                sees &= holds(&l[i], w, q, k);
            if (!sees)
                continue;
            if (*end == 0 || k / SIDE < *first)
                *first = k / SIDE;
            if (k / SIDE >= *end)
                *end = k / SIDE + 1;
        }
}

/* Limits that leave nothing of any row, but cross within the block, may leave
 * the steps where they do. */
static bool fits(int low, int high, int first, int end)
{
    int from = low / SIDE, to = (high + SIDE - 1) / SIDE;
    if (first == end)
        return to - from <= 2;
    return low % SIDE == 0 && from == first && to == end;
}

static limit random_limit(num_rng *r, bool upper, int m, int n)
{
    limit l = {.upper = upper, .slope = num_below(r, 4) - 1};
    l.slope = l.slope > 1 ? 1 : l.slope;
    l.captured = num_below(r, 2);
    l.offset = l.slope < 0 ? num_between(r, 0, m + n)
                           : num_between(r, upper ? -20 : -n, n);
    return l;
}

static void run_seed(run_counts *counts, const program *programs, uint64_t seed)
{
    num_rng r = {seed};
    int m = num_between(&r, 1, 300), n = num_between(&r, 1, 300);
    int nlimits = 1 + num_below(&r, 2), w = num_between(&r, -40, 40);
    bool upper = num_below(&r, 2);
    limit limits[] = {random_limit(&r, upper, m, n),
                      random_limit(&r, !upper, m, n)};
    char text[1024];
    tc_context *cx = tc_context_new();
    tc_text t = {.arena = &cx->arena};
    tc_text_add(&t, "func @mask(%b: i32, %h: i32, %q: i32, %k: i32");
    for (int i = 0, said = 0; i < nlimits; i++)
        if (limits[i].captured && !said++)
            tc_text_add(&t, ", %w: i32");
    tc_text_add(&t, ") -> i1 {\n  return (");
    for (int i = 0; i < nlimits; i++) {
        tc_text_add(&t, i ? ") and (" : "");
        add_limit(&t, &limits[i], num_below(&r, FORMS));
    }
    tc_text_add(&t, ")\n}\n");
    snprintf(text, sizeof text, "%s", t.data);
    tc_context_free(cx);
    const program *p = &programs[num_below(&r, 2)];
    int32_t bounds[2 * MOST_BLOCKS];
    bool ok = find_bounds(p, text, m, n, w, bounds);
    int first = 0, end = 0, block = 0;
    for (; ok && block * SIDE < m; block++) {
        search(limits, nlimits, w, m, n, block, &first, &end);
        ok = fits(bounds[2 * block], bounds[2 * block + 1], first, end);
    }
    run_check(counts, ok,
              "seed %llu, @%s: M=%d N=%d w=%d, block %d: %d to %d, seen are "
              "the steps %d to %d\n%s",
              (unsigned long long)seed, p->name, m, n, w, block - 1,
              bounds[2 * block - 2], bounds[2 * block - 1], first, end, text);
}

int main(int argc, char **argv)
{
    long first = run_option(argc, argv, "seed", 1);
    long seeds = run_option(argc, argv, "seeds", 120);
    char *attention = read_file("kernels/attention_fwd.tile");
    char *chain = read_file("test/machine/chain.tile");
    program programs[] = {{"attention_fwd", attention, 5, true},
                          {"chain", chain, 4, false}};
    run_counts counts = {0};
    for (long seed = first; seed < first + seeds; seed++)
        run_seed(&counts, programs, (uint64_t)seed * 7919);
    free(attention);
    free(chain);
    return run_finish(&counts);
}
