/* SPDX-License-Identifier: Apache-2.0
 *
 * What a kernel is: its parameters, bindings and grid as the structs of
 * tilec.h.
 */
#include "lib/gpu/gpu.h"
#include "lib/program/plan.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- Which tensors are written ---- */

/* Values on the way from a parameter to a store. */
struct trace {
    tc_arena *arena;
    const tc_value **seen;
    unsigned nseen, room;
};

static bool is_new(struct trace *t, const tc_value *v)
{
    for (unsigned i = 0; i < t->nseen; i++)
        if (t->seen[i] == v)
            return false;
    if (t->nseen == t->room) {
        t->room = t->room ? 2 * t->room : 16;
        const tc_value **more =
            tc_arena_array(t->arena, const tc_value *, t->room);
        if (t->nseen)
            memcpy(more, t->seen, t->nseen * sizeof *more);
        t->seen = more;
    }
    t->seen[t->nseen++] = v;
    return true;
}

static bool is_address(const tc_value *v)
{
    tc_kind kind = tc_type_elem(v->type)->kind;
    return kind == TC_PTR || kind == TC_TENSOR || kind == TC_BLOCK_PTR;
}

static bool reaches_store(struct trace *t, const tc_value *v);

static bool any_reaches_store(struct trace *t, tc_value *const *values,
                              unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (is_address(values[i]) && reaches_store(t, values[i]))
            return true;
    return false;
}

/* Through ops with regions an address may come out as any address of the
 * region's arguments or the op's results: taken to be all of them. */
static bool use_reaches_store(struct trace *t, const tc_use *u)
{
    const tc_op *op = u->op;
    if (op->code == TC_STORE || op->code == TC_TMA_STORE ||
        op->code == TC_ATOMIC || op->code == TC_ATOMIC_CAS)
        return u->index == 0;
    if (tc_op_has(op, TC_TERMINATOR)) {
        const tc_op *owner = op->parent->op;
        return owner && (any_reaches_store(t, owner->out, owner->nout) ||
                         any_reaches_store(t, owner->regions[0]->args,
                                           owner->regions[0]->nargs));
    }
    for (unsigned i = 0; i < op->nregions; i++)
        if (any_reaches_store(t, op->regions[i]->args, op->regions[i]->nargs))
            return true;
    return any_reaches_store(t, op->out, op->nout);
}

static bool reaches_store(struct trace *t, const tc_value *v)
{
    if (!is_new(t, v))
        return false;
    tc_each_use (u, v)
        if (use_reaches_store(t, u))
            return true;
    return false;
}

bool tc_value_is_written(tc_arena *a, const tc_value *v)
{
    struct trace trace = {.arena = a};
    return is_address(v) && reaches_store(&trace, v);
}

bool tc_parameter_is_used(const tc_func *f, unsigned i)
{
    return f->body->args[i]->uses || (f->grid && f->grid->args[i]->uses);
}

/* ---- Structs ---- */

static tilec_parameter_kind param_kind(const tc_type *t)
{
    if (t->kind == TC_TENSOR)
        return TILEC_PARAM_TENSOR;
    if (t->kind == TC_PTR)
        return TILEC_PARAM_POINTER;
    return tc_type_is_float(t) ? TILEC_PARAM_FLOAT : TILEC_PARAM_INT;
}

/* In bytes, where a byte holds two elements (in plans: kernels have ints). */
static const int64_t *static_shape(tc_arena *a, const tc_type *t)
{
    int64_t *shape = tc_arena_array(a, int64_t, t->rank);
    for (unsigned i = 0; i < t->rank; i++)
        shape[i] = t->dims[i] ? tc_dim_value(t->dims[i]) : -1;
    if (t->rank && tc_kind_is_packed(t->elem->kind) &&
        shape[tc_type_contiguous(t)] > 0)
        shape[tc_type_contiguous(t)] /= 2;
    return shape;
}

static void describe_param(tilec_kernel *k, unsigned i)
{
    tc_arena *a = &k->cx->arena;
    const tc_value *v = k->func->body->args[i];
    const tc_type *t = v->type;
    tc_text text = {.arena = a};
    tc_type_print(&text, t);
    const tc_type *elem = t->holds ? t->holds : t->elem ? t->elem : t;
    k->params[i].type = t;
    k->params[i].info = (tilec_parameter){
        .size = sizeof(tilec_parameter),
        .name = v->name,
        .type = text.data,
        .kind = param_kind(t),
        .dtype = tc_kind_to_dl(elem->kind),
        .captured = i >= k->nown,
        .written = tc_value_is_written(a, v),
        .ndim = t->kind == TC_TENSOR ? (int32_t)t->rank : 0,
        .shape = t->kind == TC_TENSOR ? static_shape(a, t) : NULL,
        .unused = !tc_parameter_is_used(k->func, i)};
}

/* After a string that begins there, or the next character. */
static const char *skip(const char *s)
{
    if (*s != '"')
        return s + 1;
    for (s++; *s && *s != '"'; s++)
        s += *s == '\\' && s[1];
    return *s ? s + 1 : s;
}

static bool is_grid(const char *s, char before)
{
    return strncmp(s, "grid", 4) == 0 && isspace((unsigned char)before) &&
           strchr(" {\n", s[4]);
}

/* The bytes of `grid { ... }` of a printed kernel; *len 0: none. */
static const char *find_grid(const char *text, size_t *len)
{
    const char *s = text, *grid;
    char before = 0;
    int depth = 0;
    for (; *s && !is_grid(s, before); s = skip(s))
        before = *s;
    for (grid = s; *s; s = skip(s)) {
        depth += (*s == '{') - (*s == '}');
        if (*s == '}' && depth == 0) {
            *len = (size_t)(s + 1 - grid);
            return grid;
        }
    }
    *len = 0;
    return text;
}

void tc_kernel_describe(tilec_kernel *k, unsigned nown)
{
    tc_arena *a = &k->cx->arena;
    k->nparams = k->func->body->nargs;
    k->nown = nown;
    k->params = tc_arena_array(a, tc_kernel_param, k->nparams);
    for (unsigned i = 0; i < k->nparams; i++)
        describe_param(k, i);
    tc_text text = {.arena = a};
    tc_func_print(&text, k->func, TC_PRINT_PLAIN);
    size_t n;
    const char *grid = find_grid(text.data, &n);
    char *kept = tc_arena_alloc(a, n + 1);
    memcpy(kept, grid, n);
    k->grid_text = kept;
}

const char *tilec_kernel_name(const tilec_kernel *k)
{
    return k ? k->func->name : NULL;
}

const char *tilec_kernel_target(const tilec_kernel *k)
{
    return k ? k->target->name : NULL;
}

size_t tilec_kernel_parameter_count(const tilec_kernel *k)
{
    return k ? k->nparams : 0;
}

const tilec_parameter *tilec_kernel_parameter(const tilec_kernel *k,
                                              size_t index)
{
    return k && index < k->nparams ? &k->params[index].info : NULL;
}

int tc_kernel_param_index(const tilec_kernel *k, const char *name)
{
    for (unsigned i = 0; i < k->nparams; i++)
        if (strcmp(k->params[i].info.name, name) == 0)
            return (int)i;
    return -1;
}

const char *tilec_kernel_binding(const tilec_kernel *k, const char *name)
{
    for (unsigned i = 0; k && name && i < k->nbindings; i++)
        if (strcmp(k->bindings[i].name, name) == 0)
            return k->bindings[i].value;
    return NULL;
}

const char *tilec_kernel_grid_text(const tilec_kernel *k)
{
    return k ? k->grid_text : NULL;
}

static uint64_t most_scratch(const tc_launch_plan *plan)
{
    uint64_t most = 0;
    for (unsigned i = 0; i < plan->nkernels; i++) {
        uint64_t n = tilec_kernel_scratch_bytes(plan->kernels[i]);
        most = n > most ? n : most;
    }
    return most;
}

uint64_t tilec_kernel_scratch_bytes(const tilec_kernel *k)
{
    if (k && k->plan)
        return most_scratch(k->plan);
    if (!k || !k->gpu)
        return k ? tc_host_scratch_bytes(k->host) : 0;
    return tc_gpu_code_meta(atomic_load(&k->gpu->variants[TC_GPU_ALIGNED]))
        ->shared_bytes;
}
