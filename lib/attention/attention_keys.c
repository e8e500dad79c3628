/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether forward splits keys over programs (kernels/attention_split.tile).
 *
 * @attention_fwd has a program for each block of rows of each head: with few
 * blocks most of a GPU is idle, and with few rows each head reads keys that its
 * group shares. Split keys cost two small kernels more, a schedule and a merge.
 * The plan decides again at each launch, by these numbers;
 * test/bench/split_keys.py shows what others would change.
 */
#include "lib/attention/attention.h"

#include "lib/attention/mask_rows.h"
#include "lib/gpu/gpu.h"

#include <string.h>

enum {
    /* Below that the two kernels cost what they save, with few rows and with
     * many. */
    LEAST_OF_FEW = 1024,
    LEAST_OF_MANY = 2048,
    /* Programs that may run at once, for each block of many rows. Few rows wait
     * for memory, which each key leaves once: any number of blocks. */
    LEAST_PIECES = 2,
    /* Wider heads have small tiles. */
    MOST_DIM = 256,
    ON_CPU = 8 /* programs */
};

static int64_t group_of(const DLTensor *q, const DLTensor *k)
{
    return k->shape[1] > 0 && q->shape[1] % k->shape[1] == 0
               ? q->shape[1] / k->shape[1]
               : 0;
}

static int64_t programs_of(const tc_kv_choice *c, unsigned sms)
{
    return sms ? (int64_t)sms * c->per_sm : ON_CPU;
}

static int64_t least_keys(const tc_kv_choice *c)
{
    return c->has_many_rows ? LEAST_OF_MANY : LEAST_OF_FEW;
}

static tc_kv_choice choose(const DLTensor *q, const DLTensor *k,
                           const DLTensor *v, const tc_target *target,
                           unsigned sms)
{
    const tilec_kvcache_options o = {.layout = TILEC_KV_DENSE};
    return tc_kv_choose(q, k, v, &o, target, sms);
}

/* As the plan asks at a launch. */
static bool are_few(const DLTensor *q, const DLTensor *k, const tc_kv_choice *c,
                    unsigned sms)
{
    int64_t blocks = (q->shape[2] * group_of(q, k) + c->rows - 1) / c->rows;
    int64_t parts = programs_of(c, sms) / k->shape[1];
    bool long_enough = k->shape[2] >= least_keys(c) && k->shape[2] <= 1 << 30;
    if (!c->has_many_rows)
        return long_enough;
    return long_enough && q->shape[0] <= parts && blocks <= parts &&
           q->shape[0] * blocks * LEAST_PIECES <= parts;
}

int64_t tc_attention_pieces_of(const DLTensor *q, const DLTensor *k,
                               const DLTensor *v, const tc_target *target,
                               unsigned sms, bool is_forced)
{
    int64_t group = group_of(q, k);
    if (!group || !target || q->shape[2] < 1 || q->shape[0] < 1)
        return 0;
    tc_kv_choice c = choose(q, k, v, target, sms);
    bool fits = sms && k->shape[3] <= MOST_DIM && v->shape[3] <= MOST_DIM &&
                are_few(q, k, &c, sms);
    if (!is_forced && !fits)
        return 0;
    return ((group * 256 + c.rows) * 4 + c.per_sm) * 2 + c.has_many_rows;
}

bool tc_attention_forces_pieces(const tilec_binding *option)
{
    return strstr(option->name, "SPLIT_KEYS") && strchr("tT1", *option->value);
}

/* ---- What keys are not split with ---- */

static bool is_one_type(const tc_attention_request *r)
{
    tc_kind q = tc_kind_from_dl(r->q->dtype);
    return !tc_kind_is_f8(q) && tc_kind_from_dl(r->k->dtype) == q &&
           tc_kind_from_dl(r->v->dtype) == q;
}

static const char *obstacle(const tc_attention_job *p)
{
    const tc_attention_request *r = p->r;
    const tilec_attention_options *o = &r->options;
    const struct {
        bool applies;
        const char *what;
    } all[] = {
        {!is_one_type(r), "numbers of 8 bits"},
        {p->factors.n > 0, "scales"},
        {o->max != 0, "the largest scores as a result"},
        {o->dropout != 0, "dropout"},
        {o->nbindings > 0, "bindings"},
        {p->lists.of_queries, "lists of blocks"},
        {!p->target, "a target that is not known"},
        {!group_of(r->q, r->k), "heads of q that are no multiple of k's"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].applies)
            return all[i].what;
    return NULL;
}

/* Has the caller chosen how @attention_fwd is compiled? */
static bool is_tuned(const tc_attention_job *p)
{
    const tilec_attention_options *o = &p->r->options;
    const tc_attention_tuning *t = &p->tuning;
    return t->warps || t->stages || t->precision || t->nbindings || o->warps ||
           o->stages || o->ptxas_level || o->tiles || o->enforce ||
           o->block_lists > 0;
}

/* Masks that hide the first or the last key from the last query bound the loop
 * over keys: what is left may be short. */
static bool hides_ends(const tc_attention_job *p)
{
    const tc_mod *mask = &p->mods.all[TC_MOD_MASK];
    int64_t m = p->r->q->shape[2], n = p->r->k->shape[2];
    return tc_mask_hides(p->job, mask, m - 1, m, n - 1, n) ||
           tc_mask_hides(p->job, mask, m - 1, m, 0, n);
}

/* ---- The decision ---- */

static bool is_forced(const tc_attention_job *p)
{
    return p->tuning.split_keys > 0;
}

static void use_pieces(tc_attention_job *p)
{
    const tc_attention_request *r = p->r;
    p->splits_keys = true;
    p->pieces = choose(r->q, r->k, r->v, p->target, p->sms);
    for (unsigned i = 0; i < r->smaller[TC_FORWARD]; i++)
        tc_kv_make_smaller(&p->pieces, group_of(r->q, r->k));
    tc_remark(p->job->cx, (tc_loc){0}, "attention",
              "keys are split over programs: %s",
              p->pieces.has_many_rows ? "blocks of rows are few"
                                      : "rows of a head of k are few");
}

bool tc_attention_find_pieces(tc_attention_job *p)
{
    const tc_attention_request *r = p->r;
    const char *with = obstacle(p);
    if (is_forced(p) && with)
        return tc_job_error(p->job, TILEC_USAGE,
                            "kernel option SPLIT_KEYS: keys are not split with "
                            "%s",
                            with);
    if (p->tuning.split_keys < 0 || with || (!is_forced(p) && is_tuned(p)))
        return true;
    p->sms = tc_gpu_multiprocessors(p->job->owner, p->target, r->q->device);
    if (tc_attention_pieces_of(r->q, r->k, r->v, p->target, p->sms,
                               is_forced(p)) &&
        (is_forced(p) || !hides_ends(p)))
        use_pieces(p);
    return true;
}

int64_t tc_attention_programs(const tc_attention_job *p)
{
    return programs_of(&p->pieces, p->sms);
}

tc_attention_limits tc_attention_limits_of(const tc_attention_job *p)
{
    bool forced = is_forced(p), many = p->pieces.has_many_rows;
    return (tc_attention_limits){.keys = forced ? 0 : least_keys(&p->pieces),
                                 .pieces = forced || !many ? 0 : LEAST_PIECES,
                                 /* More want other tiles. */
                                 .rows = forced || many ? INT32_MAX
                                                        : 2 * p->pieces.rows};
}
