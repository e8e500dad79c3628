/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the function by which a schedule deals no keys that the mask hides.
 *
 * @mask_reach (kernels/attention_kvcache.tile) goes over all keys and asks the
 * mask in each step. What bounds the loop of attention bounds this one, too:
 *
 *     for %n0 = 0 to %keys step 64 { if any(mask) { count } }
 *     for %n0 = %first to %end step 64 { count }         bound-loops, skip-gaps
 *     cdiv(%end - %first, 64)                            final-values
 *
 * What is left are few ops on scalars, so that @kvcache_schedule asks for many
 * sequences at once, one in each lane. Made in a copy of the program, it joins
 * the program as a text of its own. It is not used where something is left that
 * has no lanes: a loop, as the mask's bounds are not known, or a tile, as they
 * follow from a table of queries.
 */
#include "lib/kvcache/kvcache_reach.h"

#include "passes/analysis/match.h"
#include "passes/bind/inline.h"

#include <string.h>

static const char name[] = "kvcache_reach";

/* Its parameters, before those that the mask captures. */
enum { B, X, KEYS, QUERIES, POSITION, AFTER, HEAD, OWN };
/* Parameters of a mask. */
enum { MASK_OWN = 4 };
/* Queries that lanes of @mask_reach stand for. */
enum { ROWS = 65536 };

static bool run(tc_func *f, tc_pass_env *env, tc_func_pass *const *passes,
                size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (passes[i](f, env) == TC_FAILED)
            return false;
    return true;
}

static bool simplify(tc_func *f, tc_pass_env *env)
{
    static tc_func_pass *const passes[] = {tc_pass_canonicalize, tc_pass_cse,
                                           tc_pass_canonicalize, tc_pass_cse};
    return run(f, env, passes, sizeof passes / sizeof *passes);
}

/* ---- The function ---- */

static const char *text_of(tc_job *job, const tc_mod *mask, int64_t keys)
{
    const tc_func *m = tc_func_find(job->trial, mask->func.name);
    tc_text parameters = {.arena = &job->cx->arena};
    tc_text given = {.arena = &job->cx->arena};
    tc_text_add(&parameters, "");
    tc_text_add(&given, "");
    for (unsigned i = MASK_OWN; i < m->body->nargs; i++) {
        const tc_value *arg = m->body->args[i];
        bool offered =
            strcmp(arg->name, "q_len") == 0 || strcmp(arg->name, "kv_len") == 0;
        if (offered)
            continue;
        tc_text_printf(&parameters, ", %%%s: %s", arg->name,
                       tc_type_name(job->cx, arg->type));
        tc_text_printf(&given, ", %s=%%%s", arg->name, arg->name);
    }
    return tc_arena_printf(
        &job->cx->arena,
        "func @%s(%%own.b: i32, %%own.x: i32, %%own.keys: i32, "
        "%%own.queries: i32, %%own.position: i32, %%own.after: i32, "
        "%%own.head: i32%s) -> (i32, i32) {\n"
        "  %%own.seen, %%own.key = @mask_reach[BN=%lld, ROWS=%d, mask_mod=%s]("
        "%%own.b, %%own.x, %%own.keys, %%own.queries, %%own.position, "
        "%%own.after, %%own.head%s)\n"
        "  return %%own.seen, %%own.key\n"
        "}\n",
        name, parameters.data, (long long)keys, ROWS, mask->binding,
        given.data);
}

static tc_func *parse(tc_job *job, const tc_mod *mask, int64_t keys)
{
    const char *text = text_of(job, mask, keys);
    uint32_t source = tc_source_add(job->cx, name, text, strlen(text));
    return tc_parse(job->trial, source) && tc_module_verify(job->trial)
               ? tc_func_find(job->trial, name)
               : NULL;
}

static bool close_loop(tc_func *f, tc_pass_env *env)
{
    static tc_func_pass *const passes[] = {
        tc_pass_licm,         tc_pass_canonicalize, tc_pass_bound_loops,
        tc_pass_canonicalize, tc_pass_cse,          tc_pass_skip_gaps,
        tc_pass_canonicalize, tc_pass_cse,          tc_pass_final_values,
    };
    return tc_inline_calls(f, env) && simplify(f, env) &&
           run(f, env, passes, sizeof passes / sizeof *passes) &&
           simplify(f, env) && tc_pass_dce(f, env) != TC_FAILED;
}

/* ---- Is it of use? ---- */

static bool has_no_lanes(const tc_op *op)
{
    for (unsigned i = 0; i < op->nout; i++)
        if (op->out[i]->type->kind == TC_TILE)
            return true;
    return op->nregions > 0;
}

static void give(tc_func *f, unsigned arg, int64_t x)
{
    tc_builder b = tc_builder_before(f->body->first);
    tc_value *v = f->body->args[arg];
    tc_value_replace(v, tc_build_int(&b, v->type, x));
}

static bool sees_all_of(tc_func *f, tc_pass_env *env, int64_t keys,
                        int64_t queries, bool has_offsets)
{
    tc_func *copy = tc_func_clone(f, tc_string_get(env->cx, "sampled"));
    tc_func_append(f->module, copy);
    give(copy, KEYS, keys);
    give(copy, QUERIES, queries);
    if (!has_offsets) {
        give(copy, POSITION, keys - queries);
        give(copy, AFTER, keys);
    }
    tc_scalar seen;
    bool all = simplify(copy, env) && simplify(copy, env) &&
               tc_match_const(tc_region_terminator(copy->body)->in[0], &seen) &&
               seen.i == keys;
    tc_func_erase(copy);
    return all;
}

/* Asked for some lengths: causal masks hide no key from the last query. What is
 * wrong here costs time, and is right all the same. */
static bool sees_all(tc_func *f, tc_pass_env *env, bool has_offsets)
{
    static const int samples[][2] = {{1, 1},     {1000, 1},    {100000, 1},
                                     {1000, 37}, {4096, 4096}, {70000, 512}};
    bool all = true;
    for (size_t i = 0; all && i < sizeof samples / sizeof *samples; i++)
        all = sees_all_of(f, env, samples[i][0], samples[i][1], has_offsets);
    return all;
}

static const char *useless(tc_func *f, tc_pass_env *env, bool has_offsets)
{
    if (tc_region_any(f->body, has_no_lanes))
        return "which ones the mask shows follows from more than lengths, "
               "positions and numbers of the sequence";
    if (f->body->args[HEAD]->uses)
        return "heads see other ones";
    return sees_all(f, env, has_offsets) ? "the mask shows all of them" : NULL;
}

struct question {
    const tc_mod *mask;
    int64_t keys;
    bool has_offsets;
    const char *text; /* the answer; or NULL: */
    const char *why_not;
};

static bool ask(tc_job *job, void *data)
{
    struct question *q = data;
    tc_pass_options options = {0};
    tc_pass_env env = {job->cx, &job->cx->arena, &options,
                       tc_target_get("cpu")};
    tc_func *f = parse(job, q->mask, q->keys);
    if (!f || !close_loop(f, &env))
        return false;
    q->why_not = useless(f, &env, q->has_offsets);
    if (q->why_not)
        return false;
    tc_text text = {.arena = &job->cx->arena};
    tc_region_remove_arg(f->body, HEAD);
    tc_func_print(&text, f, TC_PRINT_PLAIN);
    q->text = text.data;
    return true;
}

/* As a text: kernels may be compiled again, from texts. */
static bool add(tc_job *job, const char *text)
{
    tilec_source from = tilec_text(name, text, 0);
    tc_source source;
    return tc_job_source(job, &from, &source) && tc_job_parse(job, &source, 1);
}

bool tc_kv_find_reach(tc_job *job, const tc_mod *mask, int64_t keys,
                      bool has_offsets, const char **binding)
{
    struct question q = {mask, keys, has_offsets, NULL, NULL};
    *binding = NULL;
    if (!mask->wanted)
        return true;
    bool found = tc_job_try(job, ask, &q);
    const char *why = q.why_not ? q.why_not
                                : "which ones the mask shows is "
                                  "not known";
    tc_remark(job->cx, (tc_loc){0}, "schedule", "%s%s",
              found ? "keys are dealt that the mask shows some query"
                    : "all keys are dealt: ",
              found ? "" : why);
    if (!found)
        return true;
    *binding = tc_arena_printf(&job->cx->arena, "@%s", name);
    return add(job, q.text);
}
