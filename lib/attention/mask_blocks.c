/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/attention/mask_blocks.h"

#include "lib/attention/mask_rows.h"

struct request {
    const tc_mask_blocks *from;
    tilec_argument *values;
    size_t nvalues;
};

static void keep_values(tc_job *job, const tc_mod *mask)
{
    struct request *r = job->request;
    tc_arena *a = &job->cx->arena;
    r->values = tc_arena_array(a, tilec_argument, mask->func.nvalues);
    for (unsigned i = 0; i < mask->func.nvalues; i++) {
        const tc_mod_value *v = &mask->func.values[i];
        r->values[r->nvalues++] = v->number.is_float
                                      ? tilec_float(v->name, v->number.f)
                                      : tilec_int(v->name, v->number.i);
    }
}

static bool mask_blocks_build(tc_job *job)
{
    const tc_mask_blocks *from = ((struct request *)job->request)->from;
    tc_arena *a = &job->cx->arena;
    tilec_source embedded = tilec_text("block_mask", NULL, 0);
    tc_source kernel;
    tc_mods mods;
    if (!tc_mods_add(job, &from->texts, &mods))
        return false;
    if (from->q_len)
        tc_mask_sure_key(job, &mods.all[TC_MOD_MASK], from->q_len, from->k_len);
    if (!tc_job_source(job, &embedded, &kernel) ||
        !tc_job_parse(job, &kernel, 1))
        return false;
    const tc_mod *mask = &mods.all[TC_MOD_MASK];
    keep_values(job, mask);
    tilec_binding b[4] = {
        {"BQ", tc_arena_printf(a, "%u", from->q_side)},
        {"BK", tc_arena_printf(a, "%u", from->k_side)},
    };
    unsigned n = 2;
    if (from->by_key)
        b[n++] = (tilec_binding){"BY_KEY", "1"};
    if (mask->wanted)
        b[n++] = (tilec_binding){"mask_mod", mask->binding};
    tilec_compile_options o = {.kernel = from->kernel,
                               .target = from->target,
                               .bindings = b,
                               .nbindings = n};
    return tc_job_finish(job, &o);
}

tilec_status tc_mask_blocks_new(tilec_context *cx, const tc_mask_blocks *from,
                                tilec_kernel **out, tilec_argument **values,
                                size_t *nvalues)
{
    struct request r = {.from = from};
    tc_job job = {.owner = cx, .build = mask_blocks_build, .request = &r};
    tilec_status s = tc_job_run(&job, out);
    *values = r.values;
    *nvalues = r.nvalues;
    return s;
}
