/* SPDX-License-Identifier: Apache-2.0
 *
 * New rows in a cache: the caller's tensors as the arguments of the plan
 * @append. Which of them there are decides its compile-time parameters; the
 * plan gets empty tensors for the others.
 */
#include "lib/append/append.h"

#include "lib/bundle/bundle.h"
#include "lib/overlap.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tilec_append {
    tilec_kernel *kernel;
    bool *given; /* by row of `places` */
    bool computes_factors;
};

/* ---- Tensors and parameters ---- */

#define FIELD(name) offsetof(tilec_append_tensors, name)
static const DLTensor *field(const tilec_append_tensors *t, size_t offset)
{
    const DLTensor *found;
    memcpy(&found, (const char *)t + offset, sizeof found);
    return found;
}

/* A tensor of the caller, and the parameter that it is. */
struct place {
    const char *name, *parameter;
    size_t offset;
    int ndim;        /* of the parameter */
    size_t stand_in; /* what the plan gets where there is none, or: */
    tc_kind empty;   /* a tensor of 0 elements of that type */
    bool optional;
};

#define NONE SIZE_MAX
static const struct place places[] = {
    {"q", "q", FIELD(q), 4, FIELD(k), TC_I1, true},
    {"q_out", "qr", FIELD(q_out), 4, FIELD(k), TC_I1, true},
    {"k", "k", FIELD(k), 4, NONE, TC_I1, false},
    {"v", "v", FIELD(v), 4, FIELD(k), TC_I1, true},
    {"k_cache", "k_cache", FIELD(k_cache), 4, NONE, TC_I1, false},
    {"v_cache", "v_cache", FIELD(v_cache), 4, FIELD(k_cache), TC_I1, true},
    {"kv_lens", "kv_lens", FIELD(kv_lens), 1, NONE, TC_I1, false},
    {"cu_seqlens", "cu_seqlens", FIELD(cu_seqlens), 1, NONE, TC_I32, true},
    {"page_table", "page_table", FIELD(page_table), 2, NONE, TC_I32, true},
    {"kv_indices", "page_table", FIELD(kv_indices), 2, NONE, TC_I32, true},
    {"kv_indptr", "kv_indptr", FIELD(kv_indptr), 1, NONE, TC_I32, true},
    {"positions", "positions", FIELD(positions), 2, NONE, TC_I32, true},
    {"cos", "cos", FIELD(cos), 2, NONE, TC_F32, true},
    {"sin", "sin", FIELD(sin), 2, NONE, TC_F32, true},
    {"k_scales", "k_scales", FIELD(k_scales), 3, NONE, TC_F32, true},
    {"v_scales", "v_scales", FIELD(v_scales), 3, NONE, TC_F32, true},
};
enum { PLACES = TC_APPEND_PLACES };
_Static_assert(sizeof places / sizeof *places == PLACES, "see append.h");

/* Tensors that only go together. */
static const struct {
    const char *name, *with;
    size_t offset, other;
} pairs[] = {
    {"q", "q_out", FIELD(q), FIELD(q_out)},
    {"q_out", "q", FIELD(q_out), FIELD(q)},
    {"v", "v_cache", FIELD(v), FIELD(v_cache)},
    {"v_cache", "v", FIELD(v_cache), FIELD(v)},
    {"cos", "sin", FIELD(cos), FIELD(sin)},
    {"sin", "cos", FIELD(sin), FIELD(cos)},
    {"positions", "cos", FIELD(positions), FIELD(cos)},
    {"kv_indices", "kv_indptr", FIELD(kv_indices), FIELD(kv_indptr)},
    {"kv_indptr", "kv_indices", FIELD(kv_indptr), FIELD(kv_indices)},
    {"v_scales", "k_scales", FIELD(v_scales), FIELD(k_scales)},
    {"v_scales", "v", FIELD(v_scales), FIELD(v)},
};

bool tc_append_computes_factors(const tilec_append_tensors *t)
{
    return t->k_scales && t->k_scales->ndim == 3;
}

/* A list of pages, or of factors, is a tensor of a higher rank. */
static bool rank_fits(const struct place *p, const DLTensor *t)
{
    if (p->offset == FIELD(kv_indices))
        return t->ndim == 1;
    if (p->offset == FIELD(positions))
        return t->ndim == 1 || t->ndim == 2;
    if (p->offset == FIELD(k_scales) || p->offset == FIELD(v_scales))
        return t->ndim == 1 || t->ndim == 3;
    return t->ndim == p->ndim;
}

static tilec_status check_tensors(const tilec_append_tensors *t,
                                  tilec_error *error)
{
    for (int i = 0; i < PLACES; i++) {
        const DLTensor *x = field(t, places[i].offset);
        if (!x && !places[i].optional)
            return tc_fail(error, TILEC_USAGE, "%s is NULL", places[i].name);
        if (x && (!x->shape || !rank_fits(&places[i], x)))
            return tc_fail(
                error, TILEC_INPUT, "%s: rank is %d, expected %d",
                places[i].name, x->ndim,
                places[i].offset == FIELD(kv_indices) ? 1 : places[i].ndim);
    }
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (field(t, pairs[i].offset) && !field(t, pairs[i].other))
            return tc_fail(error, TILEC_USAGE, "%s needs %s", pairs[i].name,
                           pairs[i].with);
    if (t->page_table && t->kv_indices)
        return tc_fail(error, TILEC_USAGE,
                       "page_table and kv_indices are both given");
    if (t->v && t->k_scales && !t->v_scales)
        return tc_fail(error, TILEC_USAGE, "k_scales needs v_scales");
    if (t->v_scales && t->k_scales->ndim != t->v_scales->ndim)
        return tc_fail(error, TILEC_INPUT,
                       "v_scales: rank is %d, expected %d as of k_scales",
                       t->v_scales->ndim, t->k_scales->ndim);
    return TILEC_OK;
}

/* ---- Arguments ---- */

static int64_t stride_of(const DLTensor *t, int dim)
{
    int64_t stride = 1;
    if (t->strides)
        return t->strides[dim];
    for (int i = dim + 1; i < t->ndim; i++)
        stride *= t->shape[i];
    return stride;
}

/* A list as a tensor with sides of 1 around dim 1. */
static void view_list(tc_append_arguments *a, int i, const DLTensor *list)
{
    for (int dim = 0; dim < places[i].ndim; dim++) {
        a->shapes[i][dim] = dim == 1 ? list->shape[0] : 1;
        a->strides[i][dim] = stride_of(list, 0);
    }
    a->views[i] = *list;
    a->views[i].ndim = places[i].ndim;
}

static void view_nothing(tc_append_arguments *a, int i, const DLTensor *like)
{
    a->views[i] = *like;
    a->views[i].dtype = tc_kind_to_dl(places[i].empty);
    a->views[i].ndim = places[i].ndim;
}

static void add_argument(tc_append_arguments *a, int i,
                         const tilec_append_tensors *t)
{
    const struct place *p = &places[i];
    const DLTensor *x = field(t, p->offset);
    if (!x && p->stand_in != NONE)
        x = field(t, p->stand_in);
    if (!x) {
        view_nothing(a, i, t->kv_lens);
    } else if (x->ndim < p->ndim) {
        view_list(a, i, x);
    } else {
        a->all[a->n++] = tilec_tensor(p->parameter, x);
        return;
    }
    a->views[i].shape = a->shapes[i];
    a->views[i].strides = a->strides[i];
    a->all[a->n++] = tilec_tensor(p->parameter, &a->views[i]);
}

/* One for each parameter of the plan. */
void tc_append_arguments_of(tc_append_arguments *a,
                            const tilec_append_tensors *t)
{
    memset(a, 0, sizeof *a);
    for (int i = 0; i < PLACES; i++) {
        bool is_list = places[i].offset == FIELD(kv_indices);
        bool is_table = places[i].offset == FIELD(page_table);
        if ((is_list && !t->kv_indices) || (is_table && t->kv_indices))
            continue;
        add_argument(a, i, t);
    }
}

/* ---- The plan ---- */

static const char *wrong(const tilec_append_options *o, bool tensors_ok,
                         bool options_ok)
{
    if (!tensors_ok)
        return "tilec_append_plan: tensors have a wrong size: use TILEC_INIT";
    if (!options_ok)
        return "tilec_append_plan: options have a wrong size: use TILEC_INIT";
    if (o->nbindings && !o->bindings)
        return "tilec_append_plan: bindings is NULL";
    for (size_t i = 0; i < o->nbindings; i++)
        if (!o->bindings[i].name || !o->bindings[i].value)
            return "tilec_append_plan: a binding has no name or no value";
    return NULL;
}

/* Keeps the facts about the tensors for which the plan is made. */
static tilec_append *new_append(const tilec_append_tensors *t)
{
    tilec_append *a = calloc(1, sizeof *a);
    bool *given = calloc(PLACES, sizeof *given);
    if (!a || !given) {
        free(a);
        free(given);
        return NULL;
    }
    a->given = given;
    a->computes_factors = tc_append_computes_factors(t);
    for (int i = 0; i < PLACES; i++)
        given[i] = field(t, places[i].offset) != NULL;
    return a;
}

/* Takes the kernel. */
static tilec_status finish(tilec_context *cx, const tilec_append_tensors *t,
                           tilec_kernel *kernel, tilec_append **out)
{
    *out = new_append(t);
    if (*out) {
        (*out)->kernel = kernel;
        return TILEC_OK;
    }
    tilec_kernel_free(kernel);
    return tc_say(cx, TILEC_MACHINE, "tilec_append_plan: out of memory");
}

/* ---- Bundles ---- */

/* The kernel is made for data types, which tensors there are, and for the dims
 * that its types name. */
static void add_place(tc_text *key, const struct place *p,
                      const tilec_append_tensors *t)
{
    const DLTensor *x = field(t, p->offset);
    if (!x)
        return;
    tc_text_printf(key, "%s=%s/%d", p->name, tc_dtype_name(x->dtype).text,
                   (int)x->ndim);
    if (x->ndim == 4)
        tc_text_printf(key, "/%lld", (long long)x->shape[3]);
    if (p->offset == FIELD(k_cache) || p->offset == FIELD(v_cache))
        tc_text_printf(key, "/page-%lld", (long long)x->shape[2]);
    if (p->offset == FIELD(cos) || p->offset == FIELD(sin))
        tc_text_printf(key, "/%lld", (long long)x->shape[1]);
    tc_text_add(key, " ");
}

static void make_key(const void *user, tc_text *key)
{
    const tc_append_request *r = user;
    for (int i = 0; i < PLACES; i++)
        add_place(key, &places[i], r->tensors);
    tc_key_add_number(key, "rotary_offset", r->options->rotary_offset);
    tc_key_add_number(key, "interleaved", r->options->interleaved != 0);
    tc_key_add_bindings(key, "D", r->options->bindings, r->options->nbindings);
}

char *tc_append_key(tilec_context *cx, const tc_append_request *r,
                    tc_bundle_request *out)
{
    const char *target = r->options->target ? r->options->target : cx->target;
    char *key = tc_bundle_key(make_key, r);
    *out = (tc_bundle_request){.kind = "append",
                               .key = key,
                               .target = tc_target_find(cx, target),
                               .any_target = tc_target_is_auto(target)};
    return key;
}

static tilec_status from_bundle(tilec_context *cx, const tc_append_request *r,
                                tilec_kernel **out, char *why, size_t room)
{
    tc_bundle_request request;
    const tc_bundle_entry *e = NULL;
    tilec_error error = TILEC_INIT(tilec_error);
    char *key = tc_append_key(cx, r, &request);
    if (key && request.target)
        e = tc_bundle_find(cx, &request, why, room);
    free(key);
    if (!e)
        return TILEC_OK;
    tilec_status s = tc_bundle_kernel(cx, e, "kernel", out, &error);
    return s == TILEC_OK ? s : tc_say(cx, s, error.message);
}

static tilec_status get_kernel(tilec_context *cx, const tc_append_request *r,
                               tilec_kernel **out)
{
    char why[400] = "the target is unknown";
    tilec_status s = TILEC_OK;
    *out = NULL;
    tc_diagnostics_clear(cx);
    if (cx->bundles || !tc_the_compiler)
        s = from_bundle(cx, r, out, why, sizeof why);
    if (s != TILEC_OK || *out)
        return s;
    return tc_the_compiler ? tc_the_compiler->append(cx, r, out)
                           : tc_say(cx, TILEC_INPUT, why);
}

tilec_status tilec_append_plan(tilec_context *cx,
                               const tilec_append_tensors *tensors,
                               const tilec_append_options *options,
                               tilec_append **out)
{
    if (!out)
        return TILEC_USAGE;
    *out = NULL;
    if (!cx || !tensors)
        return TILEC_USAGE;
    tilec_append_tensors t = {0};
    tilec_append_options o = {0};
    tilec_error error = TILEC_INIT(tilec_error);
    tilec_kernel *kernel = NULL;
    bool tensors_ok = tc_options_read(&t, sizeof t, tensors);
    const char *why =
        wrong(&o, tensors_ok, tc_options_read(&o, sizeof o, options));
    if (!why && check_tensors(&t, &error) != TILEC_OK)
        why = error.message;
    if (why)
        return tc_say(cx, TILEC_USAGE, why);
    tc_append_request r = {&t, &o};
    tilec_status s = get_kernel(cx, &r, &kernel);
    return s == TILEC_OK ? finish(cx, &t, kernel, out) : s;
}

void tilec_append_free(tilec_append *a)
{
    if (!a)
        return;
    tilec_kernel_free(a->kernel);
    free(a->given);
    free(a);
}

const tilec_kernel *tilec_append_kernel(const tilec_append *a)
{
    return a ? a->kernel : NULL;
}

/* ---- The call ---- */

static tilec_status check_same(const tilec_append *a,
                               const tilec_append_tensors *t,
                               tilec_error *error)
{
    for (int i = 0; i < PLACES; i++) {
        bool is_there = field(t, places[i].offset) != NULL;
        if (is_there != a->given[i])
            return tc_fail(error, TILEC_USAGE,
                           "%s is %s, but not in the call of "
                           "tilec_append_plan",
                           places[i].name, is_there ? "given" : "NULL");
    }
    return a->computes_factors == tc_append_computes_factors(t)
               ? TILEC_OK
               : tc_fail(error, TILEC_INPUT,
                         "k_scales: rank is %d, expected %d as of "
                         "tilec_append_plan",
                         t->k_scales->ndim, a->computes_factors ? 3 : 1);
}

/* Both caches are written, and so are their factors. */
static tilec_status check_views(const tilec_append_tensors *t,
                                tilec_error *error)
{
    const tc_named_tensor k[] = {{"k_cache", t->k_cache},
                                 {"k_scales", t->k_scales}};
    const tc_named_tensor v[] = {{"v_cache", t->v_cache},
                                 {"v_scales", t->v_scales}};
    tilec_status s = tc_check_written(&k[0], NULL, 0, NULL, error);
    for (int i = 0; s == TILEC_OK && i < 2; i++)
        if (i == 0 || t->k_scales == NULL || t->k_scales->ndim == 3)
            s = tc_check_written(&v[i], &k[i], 1, NULL, error);
    return s;
}

tilec_status tilec_append_run(const tilec_append *a,
                              const tilec_append_tensors *tensors,
                              const tilec_launch_options *options,
                              tilec_error *error)
{
    tilec_append_tensors t = {0};
    if (!a || !tensors)
        return tc_fail(error, TILEC_USAGE,
                       "tilec_append_run: the plan or tensors is NULL");
    if (!tc_options_read(&t, sizeof t, tensors))
        return tc_fail(error, TILEC_USAGE,
                       "tilec_append_run: tensors have a wrong size: use "
                       "TILEC_INIT");
    tilec_status s = check_tensors(&t, error);
    if (s == TILEC_OK)
        s = check_same(a, &t, error);
    if (s == TILEC_OK)
        s = check_views(&t, error);
    if (s != TILEC_OK)
        return s;
    tc_append_arguments args;
    tc_append_arguments_of(&args, &t);
    return tilec_launch(a->kernel, args.all, args.n, options, error);
}
