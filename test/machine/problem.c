/* SPDX-License-Identifier: Apache-2.0 */
#include "test/machine/problem.h"

#include "codegen/host/host.h"
#include "test/machine/items.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)TC_F64 == (int)NUM_F64 && (int)TC_BF16 == (int)NUM_BF16,
               "the kinds of both are numbered alike");

/* ---- Arguments by their names ---- */

typedef struct role {
    const char *kernel, *name;
    const char *sides; /* letters; NULL: a scalar; of one: it is that side */
    bool is_output;
    /* Of a scalar; of an i32 tensor: elements are below it, or if it is
     * negative ascend by so much; of a tensor of floats: if not 0 they are
     * between it and twice it; of an output: not 0 where it is added to, and
     * begins with zeros. */
    double value;
} role;

static const role roles[] = {
    {"attention_fwd", "q", "BHMD", false, 0},
    {"attention_fwd", "k", "BGND", false, 0},
    {"attention_fwd", "v", "BGNE", false, 0},
    {"attention_fwd", "o", "BHME", true, 0},
    {"attention_fwd", "lse", "BHM", true, 0},
    {"attention_fwd", "scale", NULL, false, 0.25},
    {"attention_fwd", "max", "BHM", true, 0},
    {"attention_fwd", "score.slopes", "H", false, 0},
    {"attention_fwd", "score.cap", NULL, false, 3},
    {"attention_fwd", "score.table", "HT", false, 0},
    {"attention_fwd", "mask.w", NULL, false, 21},
    {"attention_fwd", "mask.ids", "N", false, 3},
    {"attention_fwd", "mask.prefixes", "B", false, 30},
    {"attention_fwd", "mask.sink", NULL, false, 3},
    {"attention_fwd", "mask.offsets", "T", false, -19},
    {"attention_fwd", "descale_q.scales", "BH", false, 0.25},
    {"attention_fwd", "descale_k.scales", "BGT", false, 0.5},
    {"attention_fwd", "descale_v.scales", "BGT", false, 0.5},
    {"attention*", "sink.sinks", "H", false, 0},
    {"kvcache_merge", "sink.sinks", "H", false, 0},
    {"attention_kvcache*", "mask.w", NULL, false, 21},
    {"attention*", "blocks.counts", "BHTC", false, 3},
    {"attention*", "blocks.list", "BHTT", false, 3},
    {"attention*", "blocks.row_side", NULL, false, 384},
    {"attention*", "blocks.column_side", NULL, false, 64},
    {"attention_bwd*", "q", "BHMD", false, 0},
    {"attention_bwd*", "k", "BGND", false, 0},
    {"attention_bwd*", "v", "BGNE", false, 0},
    {"attention_bwd*", "o", "BHME", false, 0},
    {"attention_bwd*", "do", "BHME", false, 0},
    {"attention_bwd*", "lse", "BHM", false, 0},
    {"attention_bwd*", "dlse", "BHM", false, 0},
    {"attention_bwd_delta", "rows", "CBHR", true, 0},
    {"attention_bwd_begin", "rows", "CBHR", true, 0},
    {"attention_bwd_begin", "zeros", "BHMD", true, 1},
    {"attention_bwd*", "rows", "CBHR", false, 0},
    {"attention_bwd", "dqacc", "BHMD", true, 1},
    {"attention_bwd*", "dqacc", "BHMD", false, 0},
    {"attention_bwd", "turns", "UV", true, 1},
    {"attention_bwd*", "dq", "BHMD", true, 0},
    {"attention_bwd_sinks", "parts", "HW", true, 0},
    {"attention_bwd_sinks_sum", "parts", "HW", false, 0},
    {"attention_bwd_sinks_sum", "dsinks", "H", true, 0},
    {"attention_bwd_sum", "dk.parts", "PGND", false, 0},
    {"attention_bwd_sum", "dv.parts", "PGNE", false, 0},
    {"attention_bwd_sum", "dk", "BGND", true, 0},
    {"attention_bwd_sum", "dv", "BGNE", true, 0},
    {"attention_bwd*", "dk", "PGND", true, 0},
    {"attention_bwd*", "dv", "PGNE", true, 0},
    {"attention_bwd*", "scale", NULL, false, 0.25},
    {"attention_bwd*", "score.slopes", "H", false, 0},
    {"attention_bwd*", "score.cap", NULL, false, 3},
    {"attention_bwd*", "score.table", "HT", false, 0},
    {"attention_bwd*", "grad.score.slopes", "H", true, 1},
    {"attention_bwd*", "grad.score.table", "HT", true, 1},
    {"attention_bwd*", "mask.w", NULL, false, 21},
    {"attention_bwd*", "mask.ids", "N", false, 3},
    {"attention_bwd*", "mask.sink", NULL, false, 3},
    {"quantize*", "x", "BHMD", false, 0},
    {"quantize*", "y", "BHMD", true, 0},
    {"quantize_block", "scales", "BHT", true, 0},
    {"quantize_head", "scales", "BH", true, 0},
    {"quantize_head", "largest", "BHT", false, 1},
    {"copy_values", "x", "BHND", false, 0},
    {"copy_values", "y", "BHMD", true, 0},
    {"paged_scatter", "o", "BMD", true, 1},
    {"paged*", "q", "MD", false, 0},
    {"paged*", "k", "GPD", false, 0},
    {"paged*", "v", "GPD", false, 0},
    {"paged*", "table", "BT", false, 7},
    {"paged*", "lens", "B", false, 100},
    {"paged*", "o", "BMD", true, 0},
    {"attention_kvcache*", "q", "BHMD", false, 0},
    {"attention_kvcache*", "k", "PGND", false, 0},
    {"attention_kvcache*", "v", "PGNE", false, 0},
    {"attention_kvcache*", "scale", NULL, false, 0.25},
    {"attention_kvcache*", "counters", "C", true, 1},
    {"attention_kvcache*", "o_parts", "UGVE", true, 0},
    {"attention_kvcache*", "lse_parts", "UGV", true, 0},
    {"attention_kvcache*", "key_place.table", "BT", false, 7},
    {"attention_kvcache*", "query_position.query_offsets", "B", false, 60},
    {"attention_kvcache*", "descale_k.factors", "PGN", false, 0.5},
    {"attention_kvcache*", "descale_v.factors", "PGN", false, 0.5},
    {"kvcache_merge", "o_parts", "UGVE", false, 0},
    {"kvcache_merge", "lse_parts", "UGV", false, 0},
    {"kvcache_merge", "rows", "V", false, 0},
    {"kvcache_merge", "blocks", "F", false, 0},
    {"kvcache_schedule", "items", "JI", true, 0},
    {"kvcache_schedule", "counters", "C", true, 0},
    {"kvcache_schedule", "batch", "B", false, 0},
    {"kvcache_schedule", "parts", "U", false, 0},
    {"kvcache_schedule", "queries", "M", false, 0},
    {"kvcache_schedule", "keys", "N", false, 0},
    {"kvcache_schedule", "key_count.lens", "B", false, 300},
    {"kvcache_schedule", "query_position.query_offsets", "B", false, 600},
    {"kvcache_schedule", "query_span.starts", "T", false, -5},
    {"attention_kvcache*", "items", "JI", false, 0},
    {"attention_kvcache*", "o", "BHME", true, 0},
    {"attention_kvcache*", "lse", "BHM", true, 0},
    {"kvcache_merge", "items", "JI", false, 0},
    {"kvcache_merge", "o", "BHME", true, 0},
    {"kvcache_merge", "lse", "BHM", true, 0},
    {"flash_attention", "q", "BHMD", false, 0},
    {"flash_attention", "k", "BHND", false, 0},
    {"flash_attention", "v", "BHND", false, 0},
    {"flash_attention", "o", "BHMD", true, 0},
    {"flash_attention", "lse", "BHM", true, 0},
    {"flash_attention", "scale", NULL, false, 0.25},
    {"delta_factors", "k", "BNHK", false, 0.1},
    {"delta_factors", "beta", "BNG", false, 0.3},
    {"delta_factors", "w", "BNGK", true, 0},
    {"delta_factors", "u", "BNGV", true, 0},
    {"delta_factors", "x", "BGCJ", true, 0},
    {"delta_sums", "g", "BNG", false, 0},
    {"delta_sums", "c", "BGC", true, 0},
    {"delta_states", "n", "BNGV", true, 0},
    {"delta_states", "states", "BTGKV", true, 0},
    {"delta_states", "final", "BGKV", true, 0},
    {"delta_local_gradients", "local", "BNGV", true, 0},
    {"delta_state_gradients", "dstates", "BTGKV", true, 0},
    {"delta_state_gradients", "dn", "BNGV", true, 0},
    {"delta_state_gradients", "dinitial", "BGKV", true, 0},
    {"delta_pair_gradients", "dz", "BNGV", true, 0},
    {"delta_pair_gradients", "pairs", "BGCJ", true, 0},
    {"delta_pair_gradients", "inner", "BGCJ", true, 0},
    {"delta_pair_gradients", "dc", "BGC", true, 0},
    {"delta_pair_gradients", "db", "BGC", true, 0},
    {"delta_group_gradients", "parts", "BNGK", false, 0},
    {"delta_group_gradients", "sums", "BNHK", true, 0},
    {"delta_*", "q", "BNHK", false, 0},
    {"delta_*", "k", "BNHK", false, 0},
    {"delta_*", "v", "BNGV", false, 0},
    {"delta_*", "c", "BGC", false, 0.5},
    {"delta_*", "beta", "BNG", false, 0},
    {"delta_*", "initial", "BGKV", false, 0},
    {"delta_*", "dfinal", "BGKV", false, 0},
    {"delta_*", "u", "BNGV", false, 0},
    {"delta_*", "w", "BNGK", false, 0},
    {"delta_*", "x", "BGCJ", false, 0},
    {"delta_*", "n", "BNGV", false, 0},
    {"delta_*", "do", "BNGV", false, 0},
    {"delta_*", "dn", "BNGV", false, 0},
    {"delta_*", "dz", "BNGV", false, 0},
    {"delta_*", "pairs", "BGCJ", false, 0},
    {"delta_*", "inner", "BGCJ", false, 0},
    {"delta_*", "dc", "BGC", false, 0},
    {"delta_*", "db", "BGC", false, 0},
    {"delta_*", "local", "BNGV", false, 0},
    {"delta_*", "states", "BTGKV", false, 0},
    {"delta_*", "dstates", "BTGKV", false, 0},
    {"delta_*", "o", "BNGV", true, 0},
    {"delta_*", "dq", "BNGK", true, 0},
    {"delta_*", "dk", "BNGK", true, 0},
    {"delta_*", "dv", "BNGV", true, 0},
    {"delta_*", "dg", "BNG", true, 0},
    {"delta_*", "dbeta", "BNG", true, 0},
    {"delta_*", "scale", NULL, false, 0.25},
    {"matmul", "a", "MK", false, 0},
    {"matmul", "b", "KN", false, 0},
    {"matmul", "c", "MN", true, 0},
    {"linear_w8", "w", "NK", false, 100},
    {"linear_w4", "w", "NJ", false, 100},
    {"linear_w8", "factors", "N", false, 0},
    {"linear_int8", "x_factors", "M", false, 0},
    {"linear_int8", "w_factors", "N", false, 0},
    {"linear_w4", "factors", "GN", false, 0},
    {"linear*", "x", "MK", false, 0},
    {"linear*", "w", "NK", false, 0},
    {"linear*", "bias", "N", false, 0},
    {"linear*", "residual", "MN", false, 0},
    {"linear*", "x_factors", "GM", false, 0},
    {"linear*", "w_factors", "HG", false, 0},
    {"linear*", "y", "MN", true, 0},
    {"grouped_linear", "x", "MK", false, 0},
    {"grouped_linear", "w", "GNK", false, 0},
    {"grouped_linear", "starts", "S", false, -40},
    {"grouped_linear", "groups", "B", false, -1},
    {"grouped_linear", "rows", "B", false, -40},
    {"grouped_linear", "y", "MN", true, 0},
    {"expert_*", "x", "MK", false, 0},
    {"expert_*", "top", NULL, false, 2},
    {"expert_*", "pairs", "P", false, 100},
    {"expert_*", "experts", "B", false, 3},
    {"expert_*", "up", "GNK", false, 0},
    {"expert_*", "h", "PN", true, 0},
    {"conv2d", "x", "BHVK", false, 0},
    {"conv2d", "w", "TTKN", false, 0},
    {"conv2d", "y", "BHVN", true, 0},
    {"softmax", "x", "MN", false, 0},
    {"softmax", "y", "MN", true, 0},
    {"layernorm", "x", "MN", false, 0},
    {"layernorm", "weight", "N", false, 0},
    {"layernorm", "bias", "N", false, 0},
    {"layernorm", "y", "MN", true, 0},
    {"layernorm", "mean", "M", true, 0},
    {"layernorm", "rstd", "M", true, 0},
    {"layernorm", "eps", NULL, false, 1e-5},
    {"sample", "logits", "MN", false, 0},
    {"sample", "tokens", "M", true, 0},
    {"sample", "temperature", "M", false, 0.7},
    {"sample", "top_k", "M", false, 40},
    {"sample", "top_p", "M", false, 0.4},
    {"sample", "min_p", "M", false, 0.001},
    {"sample", "seeds", "M", false, 1000},
    {"dropout", "x", "N", false, 0},
    {"dropout", "y", "N", true, 0},
    {"dropout", "p", NULL, false, 0.3},
    {"dropout", "seed", NULL, false, 7},
    {"histogram*", "x", "N", false, 60},
    {"histogram_into", "counts", "CK", true, 1},
    {"histogram*", "counts", "K", true, 1},
    {"hadamard", "x", "MN", false, 0},
    {"hadamard", "y", "MN", true, 0},
    {"hadamard", "scale", NULL, false, 0.125},
    {"fft_*", "x", "BMN", false, 0},
    {"fft_*", "y", "BMN", true, 0},
};

static bool is_kernel(const char *pattern, const char *name)
{
    size_t n = strlen(pattern);
    return pattern[n - 1] == '*' ? strncmp(pattern, name, n - 1) == 0
                                 : strcmp(pattern, name) == 0;
}

static const role *role_of(const problem *p, const char *name)
{
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (is_kernel(roles[i].kernel, p->kernel) &&
            strcmp(roles[i].name, name) == 0)
            return &roles[i];
    printf("%s: no role for argument %s\n", p->name, name);
    return NULL;
}

/* What an output holds before. */
static double empty(const num_tensor *t, const role *r)
{
    return r->value ? 0 : num_is_float(t->type) ? NAN : -77;
}

static void fill(num_tensor *t, const role *r, num_rng *rng)
{
    for (int64_t i = 0; i < num_count(t); i++)
        num_write(t->type, num_at(t, i),
                  r->is_output ? empty(t, r)
                  : num_is_float(t->type) && r->value
                      ? r->value * (1 + num_uniform(rng))
                  : num_is_float(t->type) ? num_normal(rng)
                  : r->value < 0          ? -r->value * (double)i
                                          : num_below(rng, (int)r->value));
}

/* Infinities and a NaN here and there: what kernels repair. */
static void spoil(num_tensor *t)
{
    int64_t n = num_count(t);
    for (int64_t i = 0; i < 3 && n; i++)
        num_write(t->type, num_at(t, (i * 37 + 11) * 13 % n),
                  i == 2 ? NAN
                  : i    ? -INFINITY
                         : INFINITY);
}

/* The dim that the type expects in one piece last, in pieces of whole 16 bytes
 * where that is not the last one anyway. */
static num_layout layout_of(const tc_type *t, const int32_t *size)
{
    enum { WHOLE = 16 };
    num_layout l = {.name = "contiguous"};
    int fast = (int)tc_type_contiguous(t), n = 0;
    for (int i = 0; i < (int)t->rank; i++)
        if (i != fast)
            l.order[n++] = i;
    l.order[n] = fast;
    if (fast != (int)t->rank - 1)
        l.behind[fast] = -size[fast] & (WHOLE - 1);
    return l;
}

static bool make_arg(const problem *p, data *d, const tc_value *v, num_rng *rng)
{
    const role *r = role_of(p, v->name);
    tc_launch_arg *arg = &d->args[d->nargs];
    num_tensor *t = &d->tensors[d->nargs];
    if (!r)
        return false;
    if (v->type->kind == TC_TENSOR) {
        int32_t size[NUM_MAX_RANK];
        for (unsigned i = 0; i < v->type->rank; i++)
            size[i] = p->size[r->sides[i] - 'A'];
        num_layout layout = layout_of(v->type, size);
        *t = num_tensor_new((num_type)v->type->elem->kind, (int)v->type->rank,
                            size, &layout);
        fill(t, r, rng);
        if (strcmp(v->name, "items") == 0 && !r->is_output)
            deal_items(p, t);
        if ((strcmp(v->name, "v") == 0 || strcmp(v->name, "do") == 0) &&
            p->size['S' - 'A'] == 1)
            spoil(t);
        *arg = (tc_launch_arg){t->size, t->stride, {0}, t->data};
    } else {
        bool zero = strcmp(v->name, "scale") == 0 && p->size['S' - 'A'] == 2;
        bool window = strcmp(v->name, "mask.w") == 0 && p->size['L' - 'A'];
        double x = zero       ? 0
                   : window   ? p->size['L' - 'A']
                   : r->sides ? p->size[*r->sides - 'A']
                              : r->value;
        arg->scalar = (tc_scalar){(int64_t)x, x};
    }
    d->nargs++;
    return true;
}

void data_free(data *d)
{
    for (unsigned i = 0; i < d->nargs; i++) {
        num_tensor_free(&d->tensors[i]);
        free(d->want[i]);
        free(d->before[i]);
    }
    *d = (data){0};
}

/* ---- Compiling ---- */

static void show(const char *what, const tc_context *cx)
{
    for (const tc_diag *e = cx->diags; e; e = e->next) {
        printf("%s: %u:%u: %s\n", what, e->loc.line, e->loc.col, e->message);
        for (const tc_diag *n = e->notes; n; n = n->next)
            printf("    %u:%u: %s\n", n->loc.line, n->loc.col, n->message);
    }
}

static char *read_all(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) {
        printf("cannot read %s\n", path);
        return NULL;
    }
    fseek(f, 0, SEEK_END);
    size_t n = (size_t)ftell(f);
    rewind(f);
    char *text = malloc(n + 1);
    n = fread(text, 1, n, f);
    text[n] = 0;
    fclose(f);
    return text;
}

static bool parse_file(tc_module *m, const char *path)
{
    char *text = read_all(path);
    if (!text)
        return false;
    uint32_t source = tc_source_add(m->cx, path, text, strlen(text));
    free(text);
    return tc_parse(m, source);
}

/* What of kernels/std these kernels call. */
static bool parse_std(tc_module *m, const char *kernel)
{
    return (strcmp(kernel, "sample") != 0 && strcmp(kernel, "dropout") != 0) ||
           (parse_file(m, "kernels/std/random.tile") &&
            parse_file(m, "kernels/std/math.tile"));
}

/* The kernel's file, and the mods. */
static bool parse_kernel(tc_module *m, const char *kernel)
{
    char path[128];
    static const char *const of_many[][2] = {
        {"attention_bwd", "attention_bwd"},
        {"attention_bwd_delta", "attention_bwd_rows"},
        {"attention_bwd_begin", "attention_bwd_rows"},
        {"attention_bwd_sinks", "attention_bwd_rows"},
        {"flash_attention", "tutorial/05_flash_attention"},
        {"quantize", "quantize"},
        {"copy_values", "project"},
        {"sample", "sampling"},
        {"histogram_", "histogram"},
        {"hadamard", "butterflies"},
        {"fft_", "butterflies"},
        {"delta_", "delta_rule"},
        {"linear", "linear"},
        {"grouped_", "grouped"},
        {"expert_", "experts"},
        {"kvcache_", "attention_kvcache"},
        {"attention_kvcache_", "attention_kvcache"}};
    const char *file = kernel;
    for (size_t i = 0; i < sizeof of_many / sizeof *of_many; i++)
        if (strncmp(kernel, of_many[i][0], strlen(of_many[i][0])) == 0)
            file = of_many[i][1];
    snprintf(path, sizeof path, "kernels/%s.tile", file);
    if (strncmp(kernel, "paged", 5) == 0)
        strcpy(path, "test/machine/paged.tile");
    return parse_std(m, kernel) && parse_file(m, path) &&
           parse_file(m, "kernels/mods/masks.tile") &&
           parse_file(m, "kernels/mods/scores.tile") &&
           parse_file(m, "kernels/mods/blocks.tile") &&
           parse_file(m, "kernels/mods/descales.tile") &&
           parse_file(m, "kernels/mods/kvcache.tile") &&
           parse_file(m, "kernels/mods/sinks.tile") &&
           parse_file(m, "test/machine/reach.tile");
}

/* Bindings of a problem for so many rows. */
typedef struct bound {
    tc_binding bindings[PROBLEM_BINDINGS];
    char rows[16];
} bound;

/* `precision` is no parameter, but an option of the passes. */
static bool take_precision(tc_pass_options *o, const tc_binding *b)
{
    bool is_it = strcmp(b->name, "precision") == 0;
    if (is_it)
        o->precision = b->value;
    return is_it;
}

static tc_pass_options options_of(const problem *p, unsigned rows, bound *b)
{
    tc_pass_options o = {.kernel = p->kernel, .bindings = b->bindings};
    snprintf(b->rows, sizeof b->rows, "%u", rows);
    for (unsigned i = 0; i < PROBLEM_BINDINGS && p->bindings[i].name; i++) {
        tc_binding *x = &b->bindings[o.nbindings];
        if (take_precision(&o, &p->bindings[i]))
            continue;
        *x = p->bindings[i];
        o.nbindings++;
        if (strcmp(x->value, "?") == 0)
            x->value = b->rows;
    }
    return o;
}

/* The kernel after a pipeline: the first function of the module. */
static tc_func *compile(tc_module *m, const problem *p,
                        const tc_pass_options *o, const char *pipeline)
{
    bool ok = parse_kernel(m, p->kernel) && tc_run_pipeline(m, pipeline, o);
    if (!ok)
        show(p->name, m->cx);
    return ok ? m->first : NULL;
}

/* ---- On the CPU ---- */

static bool launch(tc_func *f, data *d)
{
    tc_host_kernel *k = tc_host_compile(f, NULL);
    tc_host_report report = {0};
    int32_t grid[3];
    bool ok = k && tc_eval_grid(f->module->cx, f, d->args, 1, grid) &&
              tc_host_launch(k, d->args, grid, NULL, &report);
    if (k && !ok)
        printf("on the CPU: %s\n", report.message);
    tc_host_free(k);
    return ok;
}

/* From here on, y is computed where x (argument 0) was. */
static void share_place(data *d, unsigned y)
{
    d->before[0] = num_tensor_read(&d->tensors[0]);
    d->want[0] = d->want[y];
    d->want[y] = NULL;
    d->args[y].data = d->args[0].data;
}

static int find_arg(const tc_func *f, const char *name)
{
    for (unsigned i = 0; i < f->body->nargs; i++)
        if (strcmp(f->body->args[i]->name, name) == 0)
            return (int)i;
    return -1;
}

/* rows[1] is -lse to base 2: which of them a block reads must not matter. */
static void agree_on_lse(const problem *p, data *d, const tc_func *f)
{
    int lse = find_arg(f, "lse"), rows = find_arg(f, "rows");
    if (lse < 0 || rows < 0 || !d->tensors[rows].memory ||
        role_of(p, "rows")->is_output)
        return;
    const num_tensor *from = &d->tensors[lse], *to = &d->tensors[rows];
    int64_t m = p->size['M' - 'A'], r = p->size['R' - 'A'];
    for (int64_t i = 0; i < num_count(from); i++)
        num_write(to->type, num_at(to, num_count(to) / 2 + i / m * r + i % m),
                  num_read(from->type, num_at(from, i)) / -log(2));
}

static bool fill_data(const problem *p, data *d, tc_module *m)
{
    bound b;
    tc_pass_options o = options_of(p, 64, &b);
    tc_func *f = compile(m, p, &o, "cpu");
    if (!f || f->body->nargs > PROBLEM_ARGS)
        return false;
    num_rng rng = {42};
    for (unsigned i = 0; i < f->body->nargs; i++)
        if (!make_arg(p, d, f->body->args[i], &rng))
            return false;
    agree_on_lse(p, d, f);
    if (!launch(f, d)) {
        show(p->name, m->cx);
        return false;
    }
    for (unsigned i = 0; i < d->nargs; i++) {
        const role *r = role_of(p, f->body->args[i]->name);
        if (!d->tensors[i].memory || !r->is_output)
            continue;
        const num_tensor *t = &d->tensors[i];
        d->want[i] = num_tensor_read(t);
        d->is_free[i] = strcmp(r->name, "turns") == 0;
        d->before[i] =
            malloc((size_t)(num_count(t) + 1) * sizeof *d->before[i]);
        for (int64_t k = 0; k < num_count(t); k++)
            d->before[i][k] = empty(t, r);
    }
    int y = find_arg(f, "y");
    if (p->size['S' - 'A'] == 3 && y >= 0)
        share_place(d, (unsigned)y);
    return true;
}

bool problem_data(const problem *p, data *d)
{
    *d = (data){0};
    tc_context *cx = tc_context_new();
    tc_module *volatile m = NULL;
    jmp_buf unwind;
    bool ok = false;
    cx->memory.unwind = &unwind;
    if (!setjmp(unwind)) {
        m = tc_module_new(cx);
        ok = fill_data(p, d, m);
    }
    if (m)
        tc_module_free(m);
    tc_context_free(cx);
    return ok;
}

/* ---- To machine level ---- */

/* Replaces every swizzled layout by plain rows, of which no part of columns is
 * in one piece: not where there are views of such. */
static void remove_swizzles(char *text)
{
    if (strstr(text, "smem_slice"))
        return;
    static const char *const names[] = {"#swizzle128", "#swizzle64",
                                        "#swizzle32"};
    for (int i = 0; i < 3; i++)
        for (char *at = text; (at = strstr(at, names[i]));) {
            memcpy(at, "#rows", 5);
            memmove(at + 5, at + strlen(names[i]),
                    strlen(at + strlen(names[i])) + 1);
        }
}

/* What a launch takes, the first one that fits. */
typedef enum variant { AS_WANTED, ANY_SIZES, ANY_ALIGNMENT } variant;

static char *print_machine(const problem *p, const schedule *s, const data *d,
                           tc_module *m, variant which, bool *fits)
{
    bound b;
    tc_pass_options o = options_of(p, 16 * s->warps, &b);
    o.target = tc_target_get(s->target ? s->target : "sm_80");
    o.warps = s->warps;
    o.stages = s->stages;
    o.tiles = s->tiles;
    o.any_sizes = which == ANY_SIZES;
    o.any_alignment = which == ANY_ALIGNMENT;
    o.verify_each = true;
    tc_func *f = compile(m, p, &o, s->pipeline ? s->pipeline : "gpu");
    if (!f)
        return NULL;
    /* As the runtime decides. */
    *fits = tc_interp_takes(f, d->args);
    tc_text text = {.arena = &m->arena};
    tc_module_print(&text, m, TC_PRINT_PLAIN);
    char *copy = strdup(text.data);
    if (s->plain)
        remove_swizzles(copy);
    return copy;
}

static char *try_text(const problem *p, const schedule *s, const data *d,
                      variant which, bool *fits)
{
    tc_context *cx = tc_context_new();
    tc_module *volatile m = NULL;
    char *volatile text = NULL;
    jmp_buf unwind;
    cx->memory.unwind = &unwind;
    if (!setjmp(unwind)) {
        m = tc_module_new(cx);
        text = print_machine(p, s, d, m, which, fits);
    }
    if (m)
        tc_module_free(m);
    tc_context_free(cx);
    return text;
}

char *problem_text(const problem *p, const schedule *s, const data *d)
{
    char *text = NULL;
    bool fits = false;
    for (variant which = AS_WANTED; !fits && which <= ANY_ALIGNMENT; which++) {
        free(text);
        fits = true;
        text = try_text(p, s, d, which, &fits);
    }
    return text;
}

/* ---- Under the interpreter ---- */

static void clear_outputs(data *d)
{
    for (unsigned i = 0; i < d->nargs; i++) {
        num_tensor *t = &d->tensors[i];
        for (int64_t k = 0; d->want[i] && k < num_count(t); k++)
            num_write(t->type, num_at(t, k), d->before[i][k]);
    }
}

/* Rows of other groups, of blocks of `rows`, are not asked about. */
static void forgive(const num_tensor *t, double *got, const double *want,
                    unsigned group, int64_t rows)
{
    int64_t inner = t->rank > 3 ? t->size[3] : 1;
    for (int64_t i = 0; group && i < num_count(t); i++)
        if (i / inner % t->size[2] % rows / 64 != group - 1)
            got[i] = want[i];
}

static verdict compare(const trial *by, int64_t rows)
{
    const problem *p = by->problem;
    const data *d = by->data;
    verdict v = {.outcome = OUTCOME_RIGHT};
    for (unsigned i = 0; i < d->nargs && v.outcome == OUTCOME_RIGHT; i++) {
        const num_tensor *t = &d->tensors[i];
        if (!d->want[i] || d->is_free[i])
            continue;
        double *got = num_tensor_read(t);
        forgive(t, got, d->want[i], by->group, rows);
        num_error e =
            num_compare(got, d->want[i], num_count(t), t->size[t->rank - 1]);
        free(got);
        double limit = num_is_float(t->type) ? p->tolerance : 0;
        if (e.overall <= limit && num_tensor_intact(t))
            continue;
        v.outcome = OUTCOME_WRONG;
        snprintf(v.message, sizeof v.message, "argument %u: error %g%s", i,
                 e.overall,
                 num_tensor_intact(t) ? "" : ", and writes outside of it");
    }
    return v;
}

static verdict first_finding(const tc_context *cx, outcome what)
{
    verdict v = {.outcome = what};
    const tc_diag *e = cx->diags;
    if (!e)
        return v;
    v.line = e->loc.line;
    snprintf(v.message, sizeof v.message, "%u:%u: %s%s%s", e->loc.line,
             e->loc.col, e->message, e->notes ? "; " : "",
             e->notes ? e->notes->message : "");
    return v;
}

static verdict run_trial(const trial *t, tc_module *m)
{
    static const tc_interp_programs programs[TC_INTERP_ORDER_COUNT] = {
        [TC_INTERP_EARLY] = TC_INTERP_LAST_TO_FIRST,
        [TC_INTERP_RANDOM] = TC_INTERP_SHUFFLED};
    tc_interp_options o = {.order = t->order,
                           .programs = programs[t->order],
                           .seed = t->seed,
                           .group = t->group,
                           .turns = t->turns,
                           .num_sms = 2};
    clear_outputs(t->data);
    if (!tc_interp_run(m->first, t->data->args, &o))
        return first_finding(m->cx, OUTCOME_FOUND);
    return compare(t, 16 * (int64_t)m->first->warps);
}

static verdict run_trials(const char *text, const trial *trials, int n,
                          tc_module *m)
{
    uint32_t source = tc_source_add(m->cx, "machine", text, strlen(text));
    if (!tc_parse(m, source) || !tc_module_verify(m) || !m->first)
        return first_finding(m->cx, OUTCOME_REFUSED);
    verdict v = {.outcome = OUTCOME_RIGHT};
    for (int i = 0; i < n && v.outcome == OUTCOME_RIGHT; i++)
        v = run_trial(&trials[i], m);
    return v;
}

verdict run_text(const char *text, const trial *trials, int n)
{
    tc_context *cx = tc_context_new();
    tc_module *volatile m = NULL;
    verdict v = {.outcome = OUTCOME_REFUSED, .message = "out of memory"};
    jmp_buf unwind;
    cx->memory.unwind = &unwind;
    if (!setjmp(unwind)) {
        m = tc_module_new(cx);
        v = run_trials(text, trials, n, m);
    }
    if (m)
        tc_module_free(m);
    tc_context_free(cx);
    return v;
}
