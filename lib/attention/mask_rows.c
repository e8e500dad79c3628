/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/attention/mask_rows.h"

#include "passes/analysis/match.h"
#include "passes/bind/inline.h"

#include <string.h>

/* Parameters of a mask function. */
enum { B, H, Q, K, CAPTURED };

static tc_value *find_arg(const tc_func *f, const char *name)
{
    for (unsigned i = CAPTURED; i < f->body->nargs; i++)
        if (strcmp(f->body->args[i]->name, name) == 0)
            return f->body->args[i];
    return NULL;
}

static tc_builder at_begin(const tc_func *f)
{
    return tc_builder_before(f->body->first);
}

/* ---- The keys to ask for; NULL: there is none such ---- */

static tc_value *own_position(tc_func *f)
{
    return f->body->args[Q];
}

static tc_value *first_key(tc_func *f)
{
    tc_builder b = at_begin(f);
    return tc_build_int(&b, f->body->args[K]->type, 0);
}

/* The last query at the last key. */
static tc_value *aligned_key(tc_func *f)
{
    tc_value *from = find_arg(f, "q_len"), *to = find_arg(f, "kv_len");
    if (!from || !to)
        return NULL;
    tc_builder b = at_begin(f);
    tc_value *more = tc_build_binary(&b, TC_SUB, to, from);
    return tc_build_binary(&b, TC_ADD, f->body->args[Q], more);
}

static const struct candidate {
    tc_value *(*key)(tc_func *f);
    bool is_position; /* there may be more queries than keys */
    const char *text;
} candidates[] = {{own_position, true, "its own position"},
                  {first_key, false, "the first one"},
                  {aligned_key, true, "its own position from the end"}};
enum { NCANDIDATES = sizeof candidates / sizeof *candidates };

/* ---- Asking ---- */

static void give_values(const tc_mod *mask, tc_func *f)
{
    for (unsigned i = 0; i < mask->func.nvalues; i++) {
        const tc_mod_value *v = &mask->func.values[i];
        tc_value *arg = find_arg(f, strchr(v->name, '.') + 1);
        tc_builder b = at_begin(f);
        tc_scalar x = tc_number_value(v->number, arg->type->kind);
        tc_value_replace(arg, tc_build_const(&b, arg->type, x));
    }
}

/* False also where a pass fails. */
static bool returns(tc_func *f, bool truth, tc_pass_env *env)
{
    enum { TURNS = 2 };
    tc_scalar x;
    if (!tc_inline_calls(f, env))
        return false;
    for (int i = 0; i < TURNS; i++)
        if (tc_pass_canonicalize(f, env) == TC_FAILED ||
            tc_pass_cse(f, env) == TC_FAILED)
            return false;
    if (tc_pass_canonicalize(f, env) == TC_FAILED)
        return false;
    return tc_match_const(tc_region_terminator(f->body)->in[0], &x) &&
           (x.i != 0) == truth;
}

/* To be erased. */
static tc_func *copy_of(const tc_mod *mask, tc_module *m)
{
    tc_func *f = tc_func_find(m, mask->func.name);
    f = tc_func_clone(f, tc_string_get(m->cx, "sure"));
    tc_func_append(m, f);
    return f;
}

static bool surely_sees(const tc_mod *mask, tc_module *m,
                        const struct candidate *c, tc_pass_env *env)
{
    tc_func *f = copy_of(mask, m);
    tc_value *key = c->key(f);
    if (key)
        tc_value_replace(f->body->args[K], key);
    give_values(mask, f);
    bool sure = key && returns(f, true, env);
    tc_func_erase(f);
    return sure;
}

struct question {
    const tc_mod *mask;
    bool more_queries;
    const char *answer;
};

static bool try_all(tc_job *job, void *data)
{
    struct question *q = data;
    tc_pass_options options = {0};
    tc_pass_env env = {job->cx, &job->cx->arena, &options,
                       tc_target_get("cpu")};
    for (int i = 0; i < NCANDIDATES && !q->answer; i++)
        if (!(candidates[i].is_position && q->more_queries) &&
            surely_sees(q->mask, job->trial, &candidates[i], &env))
            q->answer = candidates[i].text;
    return q->answer != NULL;
}

/* Errors in a mask are reported by the compile. */
static const char *try_quietly(tc_job *job, const tc_mod *mask,
                               bool more_queries)
{
    struct question q = {.mask = mask, .more_queries = more_queries};
    return tc_job_try(job, try_all, &q) ? q.answer : NULL;
}

const char *tc_mask_sure_key(tc_job *job, const tc_mod *mask, int64_t queries,
                             int64_t keys)
{
    const char *key = keys < 1        ? NULL
                      : !mask->wanted ? "all"
                                      : try_quietly(job, mask, queries > keys);
    if (key)
        tc_remark(job->cx, (tc_loc){0}, "attention",
                  "every query sees a key (%s)", key);
    return key;
}

/* ---- One pair ---- */

struct pair {
    const tc_mod *mask;
    int64_t q, queries, k, keys;
};

static void give_number(tc_func *f, tc_value *arg, int64_t x)
{
    tc_builder b = at_begin(f);
    if (arg)
        tc_value_replace(arg, tc_build_int(&b, arg->type, x));
}

static bool is_hidden(tc_job *job, void *data)
{
    const struct pair *p = data;
    tc_pass_options options = {0};
    tc_pass_env env = {job->cx, &job->cx->arena, &options,
                       tc_target_get("cpu")};
    tc_func *f = copy_of(p->mask, job->trial);
    give_number(f, f->body->args[Q], p->q);
    give_number(f, f->body->args[K], p->k);
    give_number(f, find_arg(f, "q_len"), p->queries);
    give_number(f, find_arg(f, "kv_len"), p->keys);
    give_values(p->mask, f);
    bool hidden = returns(f, false, &env);
    tc_func_erase(f);
    return hidden;
}

bool tc_mask_hides(tc_job *job, const tc_mod *mask, int64_t q, int64_t queries,
                   int64_t k, int64_t keys)
{
    struct pair p = {mask, q, queries, k, keys};
    return mask->wanted && tc_job_try(job, is_hidden, &p);
}
