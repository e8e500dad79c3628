/* SPDX-License-Identifier: Apache-2.0
 *
 * The compile-time parameters of attention's two compiles. A parameter is bound
 * by the first of these that mentions it: the caller's bindings,
 * FlexAttention's kernel_options, the tuned configurations, facts that follow
 * from tensors and mods.
 */
#include "lib/attention/attention.h"

#include "lib/gpu/gpu.h"
#include "lib/program/plan.h"

#include <stdlib.h>
#include <string.h>

/* ---- Bindings ---- */

/* Bindings in the order in which they are found; an earlier one takes
 * precedence. */
struct bindings {
    tilec_binding *all;
    size_t n;
};

static bool is_bound(const struct bindings *b, const char *name)
{
    for (size_t i = 0; i < b->n; i++)
        if (strcmp(b->all[i].name, name) == 0)
            return true;
    return false;
}

static void bind(struct bindings *b, const char *name, const char *value)
{
    if (!is_bound(b, name))
        b->all[b->n++] = (tilec_binding){name, value};
}

static void bind_all(struct bindings *b, const tilec_binding *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        bind(b, list[i].name, list[i].value);
}

/* Twice the same is for `bind-params` to refuse. */
static void copy_all(struct bindings *b, const tilec_binding *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        b->all[b->n++] = list[i];
}

static struct bindings new_bindings(const tc_attention_job *p)
{
    const tilec_attention_options *o = &p->r->options;
    enum { BESIDES = 2 * TC_CONFIG_BINDINGS + TC_ATTENTION_BINDINGS + 34 };
    size_t room = o->nbindings + o->nbackward_bindings + BESIDES;
    return (struct bindings){tc_arena_array(p->arena, tilec_binding, room), 0};
}

const tilec_binding tc_attention_sink = {"sink", "@head_sinks"};
const tilec_binding tc_attention_dropout = {"dropout", "@philox_dropout"};

static void bind_rows(const tilec_attention_options *o, struct bindings *b)
{
    if (o->sinks)
        bind_all(b, &tc_attention_sink, 1);
    if (o->dropout)
        bind_all(b, &tc_attention_dropout, 1);
}

static void bind_mods(const tc_attention_job *p, struct bindings *b)
{
    static const char *const names[] = {
        [TC_MOD_MASK] = "mask_mod", [TC_MOD_SCORE] = "score_mod"};
    for (int i = 0; i < 2; i++)
        if (p->mods.all[i].wanted)
            copy_all(b, &(tilec_binding){names[i], p->mods.all[i].binding}, 1);
}

/* Bindings for lists of blocks; `sides`: the names of the blocks' sides. */
static void bind_lists(const tc_attention_job *p, struct bindings *b,
                       const char *const sides[2])
{
    for (int i = 0; i < 2; i++)
        if (p->tuning.list_sides[i])
            bind(b, sides[i], p->tuning.list_sides[i]);
    bind(b, "BATCHES", p->lists.by_batch ? "1" : "0");
    bind(b, "HEADS", p->lists.by_head ? "1" : "0");
}

/* Of queries of 8 bits: the weights meet v in that type with more digits,
 * scaled into its range; 16 bits for o, unless gradients are computed from it.
 */
static void bind_narrow(const tc_attention_job *p, struct bindings *b)
{
    if (!tc_kind_is_f8(tc_kind_from_dl(p->r->q->dtype)))
        return;
    bind(b, "TP", "f8e4m3");
    bind(b, "P_SHIFT", "8");
    if (!p->r->options.backward)
        bind(b, "TO", "bf16");
}

/* Bindings of both directions. */
static tilec_compile_options options_of(const tc_attention_job *p,
                                        const struct bindings *b)
{
    const tc_attention_request *r = p->r;
    const tilec_attention_options *o = &r->options;
    const tilec_argument examples[] = {tilec_tensor("q", r->q),
                                       tilec_tensor("k", r->k),
                                       tilec_tensor("v", r->v)};
    return (tilec_compile_options){
        .target = o->target,
        .bindings = b->all,
        .nbindings = b->n,
        .examples = tc_arena_copy(p->arena, examples, sizeof examples),
        .nexamples = 3,
        .warps = p->tuning.warps,
        .stages = p->tuning.stages,
        .no_load = o->no_load,
        .no_cache = o->no_cache,
        .float32_precision = p->tuning.precision,
        .enforce = o->enforce,
    };
}

/* ---- Forward ---- */

/* Rows of a query tile: 64 keep a core's registers and first cache busy; few
 * queries (decoding) take no more rows than they are. */
static const char *query_rows(int64_t length)
{
    return length <= 16 ? "16" : length <= 32 ? "32" : "64";
}

static void find_forward_config(const tc_attention_job *p, tc_config *config)
{
    int64_t queries = p->r->q->shape[2];
    bool is_gpu = p->target && tc_target_is_gpu(p->target);
    *config = (tc_config){0};
    if (p->target && (is_gpu || queries > 32))
        tc_attention_config(p, "attention_fwd", config);
    if (config->nbindings == 0 && p->target && !is_gpu)
        config->bindings[config->nbindings++] =
            (tilec_binding){"BM", query_rows(queries)};
}

static void bind_number(const tc_attention_job *p, struct bindings *b,
                        const char *name, int64_t x)
{
    bind(b, name, tc_arena_printf(p->arena, "%lld", (long long)x));
}

static void bind_pieces(const tc_attention_job *p, struct bindings *b)
{
    const tc_kv_choice *c = &p->pieces;
    const tc_attention_request *r = p->r;
    tc_attention_limits limits = tc_attention_limits_of(p);
    bind_number(p, b, "ROWS", c->rows);
    bind_number(p, b, "KEYS", c->keys);
    bind_number(p, b, "TAIL", c->tail);
    bind_number(p, b, "GROUP", r->q->shape[1] / r->k->shape[1]);
    bind_number(p, b, "BY_HEADS", c->by_heads);
    bind_number(p, b, "WHOLE_STEPS", c->has_many_rows);
    bind_number(p, b, "NEGATIVE", r->options.scale < 0);
    bind_number(p, b, "PROGRAMS", tc_attention_programs(p));
    bind_number(p, b, "LEAST_KEYS", limits.keys);
    bind_number(p, b, "LEAST_PIECES", limits.pieces);
    bind_number(p, b, "MOST_ROWS", limits.rows);
}

/* *config: empty afterwards if its warps are not for these tiles. */
static void bind_forward(const tc_attention_job *p, struct bindings *b,
                         tc_config *config)
{
    static const char *const sides[] = {"LQ", "LK"};
    const tilec_attention_options *o = &p->r->options;
    copy_all(b, o->bindings, o->nbindings);
    bind_all(b, p->factors.bindings, p->factors.n);
    bind_all(b, p->tuning.bindings, p->tuning.nbindings);
    bind_all(b, config->bindings, config->nbindings);
    if (p->factors.n) { /* the kernel's own */
        bind(b, "BM", "64");
        bind(b, "BN", "64");
    }
    if (!tc_config_suits(config, b->all, b->n))
        *config = (tc_config){0};
    tc_attention_fit_sides(p->arena, b->all, b->n);
    bind(b, "MAX", o->max ? "1" : "0");
    bind_rows(o, b);
    bind_narrow(p, b);
    if (p->lists.of_queries)
        bind_lists(p, b, sides);
    if (p->splits_keys)
        bind_pieces(p, b);
    bind_mods(p, b);
}

static unsigned first_of(unsigned a, unsigned b, unsigned c)
{
    return a ? a : b ? b : c;
}

/* The options of the forward kernel within its plan are of no other kernel. */
static void keep_for_forward(tc_attention_job *p, tilec_compile_options *c)
{
    enum { MOST = 3, MERGE_WARPS = 1 };
    tc_plan_tuning *t = tc_arena_array(p->arena, tc_plan_tuning, MOST);
    t[0] = (tc_plan_tuning){.kernel = c->kernel,
                            .warps = c->warps,
                            .stages = c->stages,
                            .ptxas_level = c->ptxas_level,
                            .tiles = c->tiles};
    t[1] = (tc_plan_tuning){.kernel = "attention_kvcache",
                            .warps = p->pieces.warps,
                            .stages = p->pieces.stages,
                            .tiles = p->pieces.runs_ahead ? TILEC_TILES_DYNAMIC
                                                          : TILEC_TILES_NONE};
    t[2] = (tc_plan_tuning){.kernel = "kvcache_merge", .warps = MERGE_WARPS};
    p->job->tunings = t;
    p->job->ntunings = p->splits_keys ? MOST : 1;
    c->kernel = p->splits_keys        ? "split_attention"
                : p->lists.of_queries ? "attention_forward"
                                      : "copied_attention";
    c->warps = c->stages = c->ptxas_level = 0;
    c->tiles = TILEC_TILES_ANY;
}

bool tc_attention_finish_forward(tc_attention_job *p)
{
    const tilec_attention_options *o = &p->r->options;
    tc_config config;
    struct bindings b = new_bindings(p);
    find_forward_config(p, &config);
    bind_forward(p, &b, &config);
    tilec_compile_options c = options_of(p, &b);
    c.kernel = "attention_fwd";
    c.warps = first_of(o->warps, c.warps, config.warps);
    c.stages = first_of(o->stages, c.stages, config.stages);
    c.ptxas_level = first_of(o->ptxas_level, config.ptxas_level, 0);
    c.tiles = o->tiles ? o->tiles : (tilec_tiles)config.tiles;
    if (p->lists.of_queries || p->copies_values || p->splits_keys)
        keep_for_forward(p, &c);
    return tc_job_finish(p->job, &c);
}

/* ---- Backward ---- */

/* How gradients are computed: dq added up by the kernel of dk and dv; by a
 * kernel of its own; each of the three by one. */
enum { ADDED = 1 << 0, PAIR = 1 << 1, APART = 1 << 2 };

/* The kernels that are tuned, for which of these, and what the plan calls their
 * blocks. */
static const struct tuned {
    const char *kernel;
    unsigned ways;
    const char *rows, *columns;
} tuned[] = {{"attention_bwd", ADDED, "BM", "BN"},
             {"attention_bwd_dkv", PAIR, "BM", "BN"},
             {"attention_bwd_dk", APART, "BM", "BN"},
             {"attention_bwd_dv", APART, "BMV", "BNV"},
             {"attention_bwd_dq", PAIR | APART, "BMQ", "BNQ"}};
enum { NTUNED = sizeof tuned / sizeof *tuned };

/* Apart where that is tuned, with steps of half the size if need be, and the
 * blocks of dk and dv are not given, which are meant for one kernel. */
static unsigned way_of(const tc_attention_job *p, const struct bindings *b)
{
    bool in_order = tc_attention_adds_in_order(p);
    bool is_given = is_bound(b, "BM") || is_bound(b, "BN");
    tc_config c;
    if (!p->r->options.deterministic || in_order)
        return ADDED;
    return !is_given && p->r->smaller[TC_BACKWARD] < 2 && p->target &&
                   tc_attention_config(p, "attention_bwd_dk", &c) && c.d
               ? APART
               : PAIR;
}

/* What the plan calls a parameter of the kernel. */
static const char *plan_name(const struct tuned *t, const char *name)
{
    return strcmp(name, "BM") == 0   ? t->rows
           : strcmp(name, "BN") == 0 ? t->columns
                                     : name;
}

static void use_config(tc_attention_job *p, const struct tuned *t,
                       struct bindings *b, tc_plan_tuning *tuning)
{
    tc_config *c = tc_arena_new(p->arena, tc_config);
    *tuning = (tc_plan_tuning){.kernel = t->kernel};
    if (!p->target || !tc_attention_config(p, t->kernel, c))
        return;
    for (unsigned i = 0; i < c->nbindings; i++)
        bind(b, plan_name(t, c->bindings[i].name), c->bindings[i].value);
    tuning->warps = c->warps;
    tuning->stages = c->stages;
    tuning->ptxas_level = c->ptxas_level;
    tuning->tiles = (tilec_tiles)c->tiles;
}

static void bind_key_and_query_lists(const tc_attention_job *p,
                                     struct bindings *b)
{
    static const char *const of_keys[] = {"LQ", "LK"}, *const of_queries[] = {
                                                           "LQQ", "LKQ"};
    bind(b, "KEY_LISTS", p->lists.of_keys ? "1" : "0");
    bind(b, "QUERY_LISTS", p->lists.of_queries ? "1" : "0");
    if (p->lists.of_keys) {
        bind_lists(p, b, of_keys);
        bind(b, "key_blocks", "@listed_blocks");
    }
    if (p->lists.of_queries) {
        bind_lists(p, b, of_queries);
        bind(b, "query_blocks", "@listed_blocks");
    }
}

static unsigned multiprocessors(const tc_attention_job *p)
{
    return tc_gpu_multiprocessors(p->job->owner, p->target, p->r->q->device);
}

unsigned tc_attention_split_of(const tc_attention_job *p, int64_t block)
{
    const int64_t *q = p->r->q->shape, *k = p->r->k->shape;
    tc_attention_work w = {.batch = k[0],
                           .heads = k[1],
                           .group = k[1] > 0 ? q[1] / k[1] : 0,
                           .queries = q[2],
                           .keys = k[2],
                           .block = block,
                           .is_masked = p->mods.all[TC_MOD_MASK].wanted,
                           .longest_first = p->target && p->target->tma};
    if (w.group > 1)
        w.sms = multiprocessors(p);
    return tc_attention_split(&w);
}

/* Once BN is known. */
static void bind_split(const tc_attention_job *p, struct bindings *b)
{
    int64_t block = 64;
    for (size_t i = 0; i < b->n; i++)
        if (strcmp(b->all[i].name, "BN") == 0)
            block = strtoll(b->all[i].value, NULL, 0);
    unsigned split = tc_attention_split_of(p, block);
    if (split == 1)
        return;
    tc_remark(
        p->job->cx, (tc_loc){0}, "attention",
        "%u programs share the query heads of a block of keys: blocks are "
        "few for %u multiprocessors",
        split, multiprocessors(p));
    bind(b, "SPLIT", tc_arena_printf(p->arena, "%u", split));
}

static void bind_captured(const tc_attention_job *p, struct bindings *b)
{
    static const char *const names[] = {"BMC", "BNC"};
    int64_t sides[2];
    bind(b, "CAPTURED", p->r->options.captured_gradients ? "1" : "0");
    if (!p->r->options.captured_gradients)
        return;
    tc_attention_captured_sides(p, sides);
    for (int i = 0; i < 2; i++)
        bind(b, names[i],
             tc_arena_printf(p->arena, "%lld", (long long)sides[i]));
}

bool tc_attention_finish_backward(tc_attention_job *p)
{
    const tilec_attention_options *o = &p->r->options;
    struct bindings b = new_bindings(p);
    tc_plan_tuning *tunings = tc_arena_array(p->arena, tc_plan_tuning, NTUNED);
    copy_all(&b, o->backward_bindings, o->nbackward_bindings);
    bind_all(&b, p->tuning.bindings, p->tuning.nbindings);
    unsigned way = way_of(p, &b);
    bool in_order = o->deterministic && way == ADDED;
    for (int i = 0; i < NTUNED; i++)
        if (tuned[i].ways & way)
            use_config(p, &tuned[i], &b, &tunings[p->job->ntunings++]);
    p->job->tunings = tunings;
    bind(&b, "DETERMINISTIC", in_order ? "2" : way != ADDED ? "1" : "0");
    bind(&b, "APART", way == APART ? "1" : "0");
    bind_captured(p, &b);
    bind(&b, "SINKS", o->sinks ? "1" : "0");
    bind_rows(o, &b);
    bind_key_and_query_lists(p, &b);
    bind_split(p, &b);
    bind_mods(p, &b);
    tilec_compile_options c = options_of(p, &b);
    c.kernel = "attention_backward";
    return tc_job_finish(p->job, &c);
}
