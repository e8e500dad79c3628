/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether attention goes over lists of blocks (kernels/block_mask.tile).
 *
 * Most masks need none: the compiler finds which steps of a loop they leave
 * (passes/masks/bound_loops.c). If it cannot, the kernel would evaluate the
 * mask in each step. The loop of @block_visits, whose body is that test, shows
 * which case it is:
 *
 *     for .. { %c = reduce ..  if %c { .. } }      asked in each step
 *     for .. { %n1 = add %n0, 1 }                  only steps that have some
 */
#include "lib/attention/attention.h"

#include <string.h>

/* Below that a list costs about what it saves. */
enum { LEAST_QUERIES = 512, LEAST_KEYS = 2048 };

/* ---- What the compiler finds ---- */

static bool asks_in_loop(const tc_region *r)
{
    tc_each_op (op, r)
        if (op->code == TC_FOR && tc_region_has_op(op->regions[0], TC_REDUCE))
            return true;
    return false;
}

/* With the kernel next to the mask. */
static bool parse_kernel(tc_job *job)
{
    tilec_source embedded = tilec_text("block_mask", NULL, 0);
    tc_source text;
    return tc_job_source(job, &embedded, &text) &&
           tc_parse(job->trial,
                    tc_source_add(job->cx, text.name, text.text, text.len));
}

struct question {
    const char *mask;
    bool by_key;
    const tc_diag *why; /* what a pass said */
};

static bool is_asked(tc_job *job, void *data)
{
    struct question *q = data;
    tc_binding b[] = {{"BY_KEY", q->by_key ? "1" : "0"}, {"mask_mod", q->mask}};
    tc_pass_options o = {
        .kernel = "block_visits", .bindings = b, .nbindings = 2};
    if (!parse_kernel(job) ||
        !tc_run_pipeline(job->trial,
                         "bind-params,expand-breaks,inline,canonicalize,cse,"
                         "licm,canonicalize,bound-loops,dce",
                         &o) ||
        !asks_in_loop(tc_func_find(job->trial, o.kernel)->body))
        return false;
    for (const tc_diag *d = job->cx->diags; d && !q->why; d = d->next)
        if (d->pass && strstr(d->message, "is not known"))
            q->why = d;
    return true;
}

/* With a remark that says why. */
static bool needs_lists(tc_job *job, const tc_mod *mask, bool by_key)
{
    struct question q = {.mask = mask->binding, .by_key = by_key};
    if (!tc_job_try(job, is_asked, &q))
        return false;
    tc_remark(job->cx, q.why ? q.why->loc : (tc_loc){0}, "attention",
              "the blocks that each block of %s sees are listed: %s",
              by_key ? "keys" : "queries",
              q.why ? q.why->message : "the mask is asked in each step");
    return true;
}

/* ---- What a mask depends on ---- */

static bool reads(const tc_value *v, unsigned depth)
{
    tc_each_use (u, v) {
        const tc_op *op = u->op;
        if (depth == 0)
            return true;
        if (op->code == TC_ADD) { /* of a place, to an offset */
            if (reads(op->out[0], depth - 1))
                return true;
            continue;
        }
        if (op->code != TC_CALL || tc_op_has_attr(op, "names"))
            return true;
        const tc_func *callee = tc_op_callee(op);
        if (!callee || u->index >= callee->body->nargs ||
            reads(callee->body->args[u->index], depth - 1))
            return true;
    }
    return false;
}

tc_attention_lists tc_attention_find_lists(tc_job *job,
                                           const tilec_attention_options *o,
                                           tc_direction direction,
                                           const DLTensor *q, const DLTensor *k,
                                           const tc_mod *mask)
{
    enum { BATCH, HEAD, DEEPEST = 8 };
    tc_attention_lists l = {0};
    bool is_long = q->shape[2] >= LEAST_QUERIES && k->shape[2] >= LEAST_KEYS;
    if (!mask->wanted || o->block_lists < 0 || (!o->block_lists && !is_long))
        return l;
    const tc_func *f = tc_func_find(job->module, mask->func.name);
    l.by_batch = reads(f->body->args[BATCH], DEEPEST);
    l.by_head = reads(f->body->args[HEAD], DEEPEST);
    if (direction == TC_FORWARD || o->deterministic)
        l.of_queries = o->block_lists || needs_lists(job, mask, false);
    if (direction == TC_BACKWARD)
        l.of_keys = o->block_lists || needs_lists(job, mask, true);
    return l;
}
