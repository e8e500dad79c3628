/* SPDX-License-Identifier: Apache-2.0
 *
 * A launch of a plan. The steps are first walked for their numbers only: sizes,
 * asserts, branches, the lifetimes of the workspace's tensors; then these
 * tensors are placed; then the fills and launches are done.
 *
 * What the walk finds depends on sizes, strides and numbers alone. A plan keeps
 * that of its last launch; one with the same takes it and does not walk. Of two
 * threads at the same time one walks.
 *
 * The same walk computes how much workspace a launch needs. Arguments may be
 * missing there: values that depend on them are unknown, and of a branch with
 * such a condition both sides are assumed to run.
 */
#include "lib/program/plan.h"

#include "ir/eval/eval.h"
#include "ir/eval/stored.h"
#include "lib/gpu/gpu.h"
#include "lib/program/launch.h"

#include <stdlib.h>
#include <string.h>

/* The value of a number in a step. */
struct value {
    bool is_known; /* a scalar's value, a tensor's sizes */
    tc_scalar scalar;
    const int32_t *sizes;
    const int64_t *strides;
    const DLTensor *tensor; /* NULL: none was given */
    struct tensor *own;     /* in the workspace; else NULL */
};

/* A tensor of the workspace. */
struct tensor {
    DLTensor dl;
    int32_t sizes[TC_MAX_RANK];
    int64_t shape[TC_MAX_RANK], strides[TC_MAX_RANK];
};

/* The memory of a run, in one piece with its arrays. */
struct tc_plan_room {
    bool is_walked;        /* for arguments like `slots` and `args` */
    uint64_t bytes, align; /* of the workspace */
    tc_slot *slots, *given_slots;
    tc_launch_arg *args, *given_args;
};

struct run {
    const tilec_kernel *k;
    tc_launch_plan *plan;
    struct tc_plan_room *room;
    const tilec_launch_options *options; /* NULL: only the workspace */
    const tc_plan_host *host;            /* NULL: where the target is */
    tilec_error *error;
    tc_slot *slots;
    tc_launch_arg *args; /* of the plan */
    struct value *values;
    struct tensor *tensors; /* by piece */
    tc_piece *pieces;
    bool *is_taken;           /* steps that are to be done */
    tilec_argument *launched; /* arguments of one kernel */
    int device;
    uint64_t bytes, align; /* of the workspace */
};

/* ---- Numbers ---- */

static tilec_status at_place(struct run *r, const tc_plan_step *s,
                             tilec_status st)
{
    tc_error_place(r->error, r->k, s->op->loc);
    return st;
}

static tilec_status compute(struct run *r, const tc_plan_step *s)
{
    struct value *out = &r->values[s->out];
    const tc_op *op = s->op;
    tc_scalar in[3];
    out->is_known = true;
    for (unsigned i = 0; i < op->nin; i++) {
        const struct value *v = &r->values[s->in[i]];
        out->is_known &= v->is_known;
        in[i < 3 ? i : 2] = v->scalar;
    }
    if (!out->is_known)
        return TILEC_OK;
    if (op->code == TC_SIZE || op->code == TC_STRIDE) {
        const struct value *t = &r->values[s->in[0]];
        int64_t dim = tc_op_int(op, "dim");
        const tc_type *type = op->in[0]->type;
        bool unit = dim == tc_type_contiguous(type);
        out->scalar.i = op->code == TC_SIZE ? t->sizes[dim] : t->strides[dim];
        /* The host counts bytes. */
        if (tc_kind_is_packed(type->elem->kind) &&
            unit == (op->code == TC_SIZE))
            out->scalar.i *= 2;
        return TILEC_OK;
    }
    if (op->nin <= 3 && tc_eval_op(op, in, &out->scalar))
        return TILEC_OK;
    tc_fail(r->error, TILEC_INPUT, "%s: cannot be evaluated in a plan",
            tc_op_name(op));
    return at_place(r, s, TILEC_INPUT);
}

static bool value_of(const void *user, const tc_value *value, tc_scalar *out)
{
    const struct run *r = user;
    unsigned i = 0;
    if (!value->def) { /* arguments come first */
        *out = r->values[value->index].scalar;
        return r->values[value->index].is_known;
    }
    while (i < r->plan->nsteps && r->plan->steps[i].op != value->def)
        i++;
    if (i == r->plan->nsteps)
        return false;
    const struct value *v = &r->values[r->plan->steps[i].out];
    *out = v->scalar;
    return v->is_known;
}

static tilec_status check_assert(struct run *r, const tc_plan_step *s)
{
    char found[64];
    const struct value *v = &r->values[s->in[0]];
    if (!v->is_known || v->scalar.i)
        return TILEC_OK;
    tc_assert_found(s->op, value_of, r, found, sizeof found);
    tc_fail(r->error, TILEC_INPUT, "launch of @%s: %s%s", r->k->func->name,
            tc_op_word(s->op, "message"), found);
    return at_place(r, s, TILEC_INPUT);
}

/* ---- Tensors of the workspace ---- */

static tilec_status too_large(struct run *r, const tc_plan_step *s)
{
    tc_fail(r->error, TILEC_INPUT,
            "launch of @%s: a tensor of its workspace is too large",
            r->k->func->name);
    return at_place(r, s, TILEC_INPUT);
}

static tilec_status read_sizes(struct run *r, const tc_plan_step *s,
                               const tc_type *t, struct tensor *to)
{
    unsigned next = 0;
    for (unsigned i = 0; i < t->rank; i++) {
        int64_t n = t->dims[i] ? tc_dim_value(t->dims[i])
                               : r->values[s->in[next++]].scalar.i;
        if (n < 0 || n > INT32_MAX) {
            tc_fail(r->error, TILEC_INPUT,
                    "launch of @%s: dim %u of a tensor of its workspace is "
                    "%lld",
                    r->k->func->name, i, (long long)n);
            return at_place(r, s, TILEC_INPUT);
        }
        to->sizes[i] = (int32_t)n;
        to->shape[i] = n;
    }
    return TILEC_OK;
}

/* The dim that comes so far from the closest. */
static unsigned dim_in_order(const tc_op *op, unsigned from_closest)
{
    const tc_attr *order = tc_op_attr(op, "order");
    const tc_type *t = op->out[0]->type;
    if (order->kind == TC_ATTR_INTS)
        return (unsigned)order->ints[t->rank - 1 - from_closest];
    return tc_dim_by_stride(t->rank, tc_type_contiguous(t), from_closest);
}

/* Columns that lie side by side may be of any length, and TMA copies want to
 * find each at a multiple of 16 bytes. */
static int64_t padded(const tc_op *op, int64_t n)
{
    const tc_type *t = op->out[0]->type;
    int64_t vector = 16 / tc_type_bytes(t->elem);
    bool pads = t->contiguous && !tc_op_has_attr(op, "order") && vector > 1;
    return pads ? (n + vector - 1) / vector * vector : n;
}

/* In the order that the op and the tensor's type state. */
static bool set_strides(const tc_op *op, struct tensor *t, uint64_t *elements)
{
    int64_t n = 1;
    bool overflow = false;
    for (int i = 0; i < t->dl.ndim; i++) {
        unsigned d = dim_in_order(op, (unsigned)i);
        t->strides[d] = n;
        overflow |=
            __builtin_mul_overflow(n, t->shape[d] ? t->shape[d] : 1, &n);
        n = i == 0 ? padded(op, n) : n;
    }
    *elements = (uint64_t)n;
    for (int i = 0; i < t->dl.ndim; i++)
        if (t->shape[i] == 0)
            *elements = 0;
    return !overflow;
}

static tilec_status make_tensor(struct run *r, const tc_plan_step *s)
{
    const tc_type *type = s->op->out[0]->type;
    struct tensor *t = &r->tensors[s->index];
    tc_piece *p = &r->pieces[s->index];
    struct value *v = &r->values[s->out];
    uint64_t elements;
    *p = (tc_piece){.align = TC_LEAST_ALIGN};
    *v = (struct value){.is_known = true,
                        .sizes = t->sizes,
                        .strides = t->strides,
                        .tensor = &t->dl,
                        .own = t};
    for (unsigned i = 0; i < s->op->nin; i++)
        if (!r->values[s->in[i]].is_known)
            return tc_fail(r->error, TILEC_USAGE,
                           "the workspace of @%s depends on an argument that "
                           "is not given",
                           r->k->func->name);
    t->dl = (DLTensor){.ndim = (int)type->rank,
                       .dtype = tc_kind_to_dl(type->elem->kind),
                       .shape = t->shape,
                       .strides = t->strides};
    tilec_status st = read_sizes(r, s, type, t);
    if (st != TILEC_OK)
        return st;
    if (!set_strides(s->op, t, &elements) ||
        __builtin_mul_overflow(elements, tc_type_bytes(type->elem),
                               &p->bytes) ||
        p->bytes > INT64_MAX / 64)
        return too_large(r, s);
    if (tc_op_has_attr(s->op, "align"))
        p->align = (uint64_t)tc_op_int(s->op, "align");
    r->align = p->align > r->align ? p->align : r->align;
    return TILEC_OK;
}

static void use_tensors(struct run *r, const tc_plan_step *s, unsigned at)
{
    for (unsigned i = 0; i < s->op->nin; i++) {
        const struct tensor *t = r->values[s->in[i]].own;
        if (!t)
            continue;
        tc_piece *p = &r->pieces[t - r->tensors];
        if (!p->is_used)
            p->first = at;
        p->is_used = true;
        p->last = at;
    }
}

/* ---- The first walk ---- */

/* Which step follows; of an unknown condition both branches are walked. */
static unsigned next_step(const struct run *r, unsigned at)
{
    const tc_plan_step *s = &r->plan->steps[at];
    if (s->kind == TC_STEP_GOTO) {
        const tc_plan_step *unless = r->plan->steps;
        while (unless->kind != TC_STEP_UNLESS || unless->op != s->op)
            unless++;
        return r->values[unless->in[0]].is_known ? s->index : at + 1;
    }
    if (s->kind == TC_STEP_UNLESS) {
        const struct value *v = &r->values[s->in[0]];
        return v->is_known && !v->scalar.i ? s->index : at + 1;
    }
    return at + 1;
}

static tilec_status walk_step(struct run *r, unsigned at)
{
    const tc_plan_step *s = &r->plan->steps[at];
    r->is_taken[at] = true;
    switch (s->kind) {
    case TC_STEP_SCALAR: return compute(r, s);
    case TC_STEP_ASSERT: return check_assert(r, s);
    case TC_STEP_WORKSPACE: return make_tensor(r, s);
    case TC_STEP_FILL:
    case TC_STEP_LAUNCH: use_tensors(r, s, at); return TILEC_OK;
    default: return TILEC_OK;
    }
}

static tilec_status walk(struct run *r)
{
    tilec_status st = TILEC_OK;
    r->align = TC_LEAST_ALIGN;
    for (unsigned at = 0; st == TILEC_OK && at < r->plan->nsteps;
         at = next_step(r, at))
        st = walk_step(r, at);
    if (st != TILEC_OK)
        return st;
    r->bytes = tc_pieces_place(r->pieces, r->plan->npieces);
    /* The caller's memory is aligned to the least. */
    if (r->bytes)
        r->bytes += r->align - TC_LEAST_ALIGN;
    return TILEC_OK;
}

static tilec_status check_workspace(const struct run *r)
{
    const tilec_launch_options *o = r->options;
    if (r->bytes == 0)
        return TILEC_OK;
    if (!o->workspace || o->workspace_bytes < r->bytes)
        return tc_fail(
            r->error, TILEC_USAGE,
            "@%s needs a workspace of %llu bytes, %llu are given",
            r->k->func->name, (unsigned long long)r->bytes,
            (unsigned long long)(o->workspace ? o->workspace_bytes : 0));
    if ((uintptr_t)o->workspace % TC_LEAST_ALIGN)
        return tc_fail(r->error, TILEC_USAGE,
                       "the workspace of @%s is not aligned to %d bytes",
                       r->k->func->name, (int)TC_LEAST_ALIGN);
    return TILEC_OK;
}

static bool is_on_gpu(const struct run *r)
{
    return !r->host && tc_target_is_gpu(r->k->target);
}

static void place_tensors(struct run *r)
{
    uintptr_t base =
        ((uintptr_t)r->options->workspace + r->align - 1) / r->align * r->align;
    DLDevice device = {kDLCPU, 0};
    /* Where no tensor says which device, the workspace does not either. */
    if (is_on_gpu(r))
        device = r->device < 0 ? (DLDevice){kDLCUDAManaged, 0}
                               : (DLDevice){kDLCUDA, r->device};
    for (unsigned i = 0; i < r->plan->npieces; i++) {
        r->tensors[i].dl.device = device;
        r->tensors[i].dl.data = (void *)(base + r->pieces[i].offset);
    }
}

/* ---- Fills ---- */

/* Where its elements begin, and how many there are without a gap: dense in
 * some order of its dims. */
static bool dense(const struct value *v, int ndim, uint64_t *elements)
{
    uint64_t n = 1, seen = 0;
    for (int i = 0; i < ndim; i++)
        if (v->sizes[i] == 0) {
            *elements = 0;
            return true;
        }
    for (int turn = 0; turn < ndim; turn++) {
        int best = -1;
        for (int i = 0; i < ndim; i++)
            if (!(seen >> i & 1) &&
                (v->sizes[i] == 1 || v->strides[i] == (int64_t)n))
                best = i;
        if (best < 0)
            return false;
        seen |= (uint64_t)1 << best;
        n *= (uint64_t)v->sizes[best];
    }
    *elements = n;
    return true;
}

static uint64_t pattern_of(const tc_plan_step *s, tc_kind kind)
{
    const tc_attr *value = tc_op_attr(s->op, "value");
    if (value->kind == TC_ATTR_NONE)
        return 0;
    int64_t code;
    if (tc_kind_is_stored(kind) && !tc_stored_code(kind, value->number, &code))
        return 0;
    if (tc_kind_is_packed(kind))
        return (uint8_t)tc_stored_twice(code);
    if (tc_kind_is_stored(kind))
        return (uint64_t)code;
    tc_scalar x = tc_number_value(value->number, kind);
    return tc_scalar_infos[kind].is_float ? tc_float_to_bits(kind, x.f)
                                          : (uint64_t)x.i;
}

static void fill_host(void *data, uint64_t pattern, unsigned width,
                      uint64_t count)
{
    unsigned char *to = data;
    if (pattern == 0)
        memset(to, 0, count * width);
    else
        for (uint64_t i = 0; i < count; i++)
            memcpy(to + i * width, &pattern, width);
}

static tilec_status run_fill(struct run *r, const tc_plan_step *s)
{
    const struct value *v = &r->values[s->in[0]];
    const DLTensor *t = v->tensor;
    const tc_type *type = s->op->in[0]->type;
    unsigned width = tc_type_bytes(type->elem);
    uint64_t pattern = pattern_of(s, type->elem->kind), count;
    if (v->own) { /* and what lies between its columns */
        count = r->pieces[v->own - r->tensors].bytes / width;
    } else if (!dense(v, t->ndim, &count)) {
        const char *name = s->op->in[0]->name;
        tc_fail(r->error, TILEC_INPUT,
                "launch of @%s: fill: %%%s has gaps, expected a dense tensor",
                r->k->func->name, name ? name : "?");
        return at_place(r, s, TILEC_INPUT);
    }
    void *data = (char *)t->data + t->byte_offset;
    if (count && is_on_gpu(r))
        return tc_gpu_fill(r->plan->kernels[0], r->device, data, pattern, width,
                           count, r->options->stream, r->error);
    if (count)
        fill_host(data, pattern, width, count);
    return TILEC_OK;
}

/* ---- Launches ---- */

static tilec_status run_launch(struct run *r, const tc_plan_step *s)
{
    const tilec_kernel *k = r->plan->kernels[s->index];
    for (unsigned i = 0; i < s->op->nin; i++) {
        const struct value *v = &r->values[s->in[i]];
        const tc_type *t = s->op->in[i]->type;
        tilec_argument *a = &r->launched[i];
        if (t->kind == TC_TENSOR || t->kind == TC_PTR)
            *a = tilec_tensor(NULL, v->tensor);
        else if (tc_type_is_float(t))
            *a = tilec_float(NULL, v->scalar.f);
        else
            *a = tilec_int(NULL, v->scalar.i);
    }
    if (r->host)
        return r->host->launch(r->host->user, k, r->launched, s->op->nin,
                               r->error);
    tilec_launch_options o = *r->options;
    o.size = sizeof o;
    o.workspace = NULL;
    o.workspace_bytes = 0;
    return tilec_launch(k, r->launched, s->op->nin, &o, r->error);
}

static tilec_status run_steps(struct run *r)
{
    tilec_status st = TILEC_OK;
    for (unsigned i = 0; st == TILEC_OK && i < r->plan->nsteps; i++) {
        const tc_plan_step *s = &r->plan->steps[i];
        if (!r->is_taken[i])
            continue;
        if (s->kind == TC_STEP_FILL)
            st = run_fill(r, s);
        else if (s->kind == TC_STEP_LAUNCH)
            st = run_launch(r, s);
    }
    return st;
}

/* ---- All of it ---- */

static void take_arguments(struct run *r)
{
    for (unsigned i = 0; i < r->k->nparams; i++) {
        const tilec_argument *given = r->slots[i].given;
        r->values[i] = (struct value){
            .is_known = given != NULL,
            .scalar = r->args[i].scalar,
            .sizes = r->slots[i].sizes,
            .strides = r->slots[i].strides,
            .tensor = given && given->kind == TILEC_ARG_TENSOR ? given->tensor
                                                               : NULL};
    }
}

static bool is_tensor(const tc_slot *s)
{
    return s->given && s->given->kind == TILEC_ARG_TENSOR;
}

/* Does the walk find for these arguments what it found for the last ones? */
static bool is_like_last(const struct run *r, unsigned param)
{
    const struct tc_plan_room *room = r->room;
    const tc_slot *s = &room->given_slots[param], *last = &room->slots[param];
    if (is_tensor(s) != is_tensor(last))
        return false;
    if (!is_tensor(s))
        return memcmp(&room->given_args[param].scalar,
                      &room->args[param].scalar, sizeof(tc_scalar)) == 0;
    return memcmp(s->sizes, last->sizes, sizeof s->sizes) == 0 &&
           memcmp(s->strides, last->strides, sizeof s->strides) == 0;
}

/* Whether what the last walk found is right for them. */
static bool take_given(struct run *r)
{
    struct tc_plan_room *room = r->room;
    unsigned n = r->k->nparams;
    bool same = room->is_walked;
    for (unsigned i = 0; same && i < n; i++)
        same = is_like_last(r, i);
    memcpy(room->slots, room->given_slots, n * sizeof *room->slots);
    memcpy(room->args, room->given_args, n * sizeof *room->args);
    take_arguments(r);
    return same;
}

/* Nothing is known but the arguments. */
static void clear_results(struct run *r)
{
    const tc_launch_plan *p = r->plan;
    memset(r->pieces, 0, p->npieces * sizeof *r->pieces);
    memset(r->is_taken, 0, p->nsteps * sizeof *r->is_taken);
    for (unsigned i = r->k->nparams; i < p->nvalues; i++)
        r->values[i] = (struct value){0};
}

static tilec_status walk_if_needed(struct run *r)
{
    if (take_given(r)) {
        r->bytes = r->room->bytes;
        r->align = r->room->align;
        return TILEC_OK;
    }
    clear_results(r);
    tilec_status st = walk(r);
    r->room->is_walked = st == TILEC_OK;
    r->room->bytes = r->bytes;
    r->room->align = r->align;
    return st;
}

/* Tensors in host memory count as those of a launch that may be anywhere, where
 * arguments may be missing. */
static tilec_status check_given(const struct run *r)
{
    for (unsigned i = 0; r->host && i < r->k->nparams; i++) {
        const tilec_parameter *p = &r->k->params[i].info;
        if (!r->room->given_slots[i].given && !p->unused)
            return tc_fail(r->error, TILEC_USAGE,
                           "argument %s of @%s is missing: %s", p->name,
                           r->k->func->name, p->type);
    }
    return TILEC_OK;
}

static tilec_status run_plan(struct run *r, const tilec_argument *args,
                             size_t nargs)
{
    tilec_status st = tc_arguments_check(
        r->k, args, nargs, !r->options || r->host, r->room->given_slots,
        r->room->given_args, &r->device, r->error);
    if (st == TILEC_OK)
        st = check_given(r);
    if (st == TILEC_OK)
        st = walk_if_needed(r);
    if (st != TILEC_OK || !r->options)
        return st;
    st = check_workspace(r);
    if (st != TILEC_OK)
        return st;
    place_tensors(r);
    return run_steps(r);
}

/* A part of the room; NULL while its size is asked for. */
static void *take_part(char *room, size_t *used, size_t n, size_t size)
{
    void *part = room ? room + *used : NULL;
    *used += (n * size + 15) / 16 * 16;
    return part;
}

/* Places the arrays in the room's memory after its head. The bytes of all. */
static size_t place_arrays(struct run *r, struct tc_plan_room *room, char *at)
{
    const tc_launch_plan *p = r->plan;
    size_t used = (sizeof *room + 15) / 16 * 16;
    unsigned n = r->k->nparams + 1;
    room->slots = take_part(at, &used, n, sizeof *room->slots);
    room->given_slots = take_part(at, &used, n, sizeof *room->slots);
    room->args = take_part(at, &used, n, sizeof *room->args);
    room->given_args = take_part(at, &used, n, sizeof *room->args);
    r->values = take_part(at, &used, p->nvalues + 1, sizeof *r->values);
    r->tensors = take_part(at, &used, p->npieces + 1, sizeof *r->tensors);
    r->pieces = take_part(at, &used, p->npieces + 1, sizeof *r->pieces);
    r->launched = take_part(at, &used, p->most_args + 1, sizeof *r->launched);
    r->is_taken = take_part(at, &used, p->nsteps + 1, sizeof *r->is_taken);
    r->slots = room->slots;
    r->args = room->args;
    return used;
}

/* That of the last launch, or a new one. NULL: there is no memory. */
static struct tc_plan_room *take_room(struct run *r)
{
    struct tc_plan_room sizes,
        *room = r->options ? atomic_exchange(&r->plan->kept, NULL) : NULL;
    if (!room)
        room = calloc(1, place_arrays(r, &sizes, NULL));
    if (room)
        place_arrays(r, room, (char *)room);
    return r->room = room;
}

static tilec_status run_with_room(struct run *r, const tilec_argument *args,
                                  size_t nargs)
{
    struct tc_plan_room *room = take_room(r);
    if (!room)
        return tc_fail_memory(r->error);
    tilec_status st = run_plan(r, args, nargs);
    if (r->options && room->is_walked)
        room = atomic_exchange(&r->plan->kept, room);
    free(room);
    return st;
}

void tc_plan_forget(tc_launch_plan *plan)
{
    free(atomic_exchange(&plan->kept, NULL));
}

tilec_status tc_plan_launch(const tilec_kernel *k, const tilec_argument *args,
                            size_t nargs, const tilec_launch_options *options,
                            tilec_error *error)
{
    struct run r = {.k = k,
                    .plan = k->plan,
                    .options = options,
                    .error = error,
                    .device = -1};
    return run_with_room(&r, args, nargs);
}

tilec_status tc_plan_run_on_host(const tilec_kernel *k,
                                 const tilec_argument *args, size_t nargs,
                                 const tilec_launch_options *options,
                                 const tc_plan_host *host, tilec_error *error)
{
    struct run r = {.k = k,
                    .plan = k->plan,
                    .options = options,
                    .host = host,
                    .error = error,
                    .device = -1};
    return run_with_room(&r, args, nargs);
}

tilec_status tc_plan_workspace(const tilec_kernel *k,
                               const tilec_argument *args, size_t nargs,
                               uint64_t *bytes, tilec_error *error)
{
    struct run r = {.k = k, .plan = k->plan, .error = error, .device = -1};
    tilec_status st = run_with_room(&r, args, nargs);
    *bytes = st == TILEC_OK ? r.bytes : 0;
    return st;
}
