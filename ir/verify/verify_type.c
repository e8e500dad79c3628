/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules of types and sizes (verify.c, 7 to 10).
 */
#include "ir/types/layout.h"
#include "ir/verify/verify.h"

static const tc_param *param_of(const tc_func *f, const char *name)
{
    for (unsigned i = 0; i < f->nparams; i++)
        if (f->params[i].name == name)
            return &f->params[i];
    return NULL;
}

static const char *name_problem(const tc_func *f, const char *name,
                                tc_param_kind kind)
{
    const tc_param *p = param_of(f, name);
    if (p && p->kind == kind)
        return NULL;
    return tc_arena_printf(&f->module->cx->diag_arena,
                           "`%s` is no compile-time %s parameter of @%s", name,
                           kind == TC_PARAM_INT ? "int" : "type", f->name);
}

/* In a default, or elsewhere. */
static const char *size_problem(const tc_func *f, const tc_dim *d,
                                bool is_default)
{
    if (!d)
        return "a size is missing";
    if (d->kind == TC_DIM_CONST)
        return NULL;
    if (d->kind == TC_DIM_PARAM)
        return name_problem(f, d->name, TC_PARAM_INT);
    if (d->kind == TC_DIM_SMS)
        return is_default ? NULL
                          : "machine_sms() may stand in the default of a "
                            "compile-time parameter only: name one, `SMS: int "
                            "= machine_sms()`";
    const char *problem = size_problem(f, d->a, is_default);
    return problem ? problem : size_problem(f, d->b, is_default);
}

const char *tc_dim_problem(const tc_func *f, const tc_dim *d)
{
    return size_problem(f, d, false);
}

const char *tc_default_problem(const tc_func *f, const tc_dim *d)
{
    return size_problem(f, d, true);
}

static const char *side_problem(const tc_func *f, const tc_type *t,
                                const tc_dim *side)
{
    if (!side || side->kind != TC_DIM_CONST)
        return tc_dim_problem(f, side);
    if (side->value == 1 || side->value == 2 || side->value == 4 ||
        (side->value > 0 && side->value % 8 == 0))
        return NULL;
    /* A reduction within warps leaves as many parts as there are warps. */
    if (t->layout && side->value > 0 && side->value <= TC_MAX_WARPS)
        return NULL;
    return tc_arena_printf(
        &f->module->cx->diag_arena,
        "side %lld, expected 1, 2, 4 or a positive multiple of 8",
        (long long)side->value);
}

const tc_dim *tc_type_bad_side(const tc_func *f, const tc_type *t)
{
    if (t->kind == TC_TILE || t->kind == TC_BLOCK_PTR)
        for (unsigned i = 0; i < t->rank; i++)
            if (side_problem(f, t, t->dims[i]))
                return t->dims[i];
    return NULL;
}

/* Tiles and block pointers. */
static const char *sides_problem(const tc_func *f, const tc_type *t)
{
    if (t->rank == 0)
        return "no axes, expected at least one";
    bool known = true;
    for (unsigned i = 0; i < t->rank; i++) {
        const char *problem = side_problem(f, t, t->dims[i]);
        if (problem)
            return problem;
        known &= t->dims[i]->kind == TC_DIM_CONST;
    }
    int64_t count = tc_type_count(t);
    if (known && (count < 0 || count > TC_MAX_TILE_COUNT))
        return tc_arena_printf(&f->module->cx->diag_arena,
                               "more elements than a tile may have, expected "
                               "at most %d",
                               TC_MAX_TILE_COUNT);
    return NULL;
}

static const char *contiguous_problem(const tc_func *f, const tc_type *t)
{
    const tc_dim *d = t->contiguous;
    const char *problem = d ? tc_dim_problem(f, d) : NULL;
    if (problem || !d || d->kind != TC_DIM_CONST)
        return problem;
    if (d->value >= 0 && d->value < t->rank)
        return NULL;
    if (t->rank == 0)
        return "contiguous(..) without dims";
    return tc_arena_printf(
        &f->module->cx->diag_arena,
        "contiguous(%lld), expected one of its dims, 0 to %u",
        (long long)d->value, t->rank - 1);
}

static const char *sizes_problem(const tc_func *f, const tc_type *t)
{
    for (unsigned i = 0; i < t->rank; i++) {
        const tc_dim *d = t->dims[i];
        const char *problem = d ? tc_dim_problem(f, d) : NULL;
        if (problem)
            return problem;
        if (d && d->kind == TC_DIM_CONST &&
            (d->value < 0 || d->value > INT32_MAX))
            return tc_arena_printf(&f->module->cx->diag_arena,
                                   "size %lld, expected 0 to 2147483647",
                                   (long long)d->value);
    }
    const char *problem = contiguous_problem(f, t);
    if (problem)
        return problem;
    const tc_dim *unit = t->rank ? t->dims[tc_type_contiguous(t)] : NULL;
    if (tc_kind_is_packed(t->elem->kind) && tc_dim_value(unit) % 2 == 1)
        return tc_arena_printf(&f->module->cx->diag_arena,
                               "size %lld of the contiguous dim, expected an "
                               "even one: a byte holds two elements",
                               (long long)tc_dim_value(unit));
    if (t->rank == 0 && tc_kind_is_packed(t->elem->kind))
        return "no dim, expected a contiguous one: a byte holds two elements";
    return NULL;
}

/* Of a tile: in registers, one warp digit for the kernel's warps; of a buffer:
 * in shared memory. */
static const char *layout_problem(const tc_func *f, const tc_type *t)
{
    const tc_layout *l = t->layout;
    if (l && tc_type_is_stored(t))
        return "a layout of a storage type, expected one of the ints that hold "
               "its codes (lower-storage)";
    if (t->kind == TC_SMEM && !l)
        return "shared memory without a layout";
    if (!l)
        return NULL;
    if (t->slots > TC_MAX_SLOTS)
        return tc_arena_printf(&f->module->cx->diag_arena,
                               "a ring of %u buffers, expected at most %d",
                               t->slots, TC_MAX_SLOTS);
    if (tc_layout_is_shared(l) != (t->kind == TC_SMEM))
        return t->kind == TC_SMEM ? "a layout of registers in shared memory"
                                  : "a layout of shared memory for a tile";
    bool fits = l->rank == t->rank;
    for (unsigned i = 0; fits && i < t->rank; i++)
        fits = tc_dim_value(t->dims[i]) == l->shape[i];
    if (!fits)
        return "a layout of another shape";
    if (t->kind == TC_TILE && tc_layout_size(l, TC_LANE) != 32)
        return "a layout that is not over 32 lanes";
    if (t->kind == TC_TILE && f->warps &&
        tc_layout_size(l, TC_WARP) != f->warps)
        return tc_arena_printf(&f->module->cx->diag_arena,
                               "a layout over %u warps in a kernel of %u",
                               tc_layout_size(l, TC_WARP), f->warps);
    return NULL;
}

const char *tc_type_problem(const tc_func *f, const tc_type *t)
{
    if (!t)
        return "no type";
    if (t->kind == TC_TYPE_PARAM)
        return name_problem(f, t->name, TC_PARAM_TYPE);
    if (t->kind < TC_PTR)
        return NULL;
    if (t->kind == TC_MBARRIER)
        return t->slots < 1 || t->slots > TC_MAX_SLOTS
                   ? "a ring of mbarriers of no or too many slots"
                   : NULL;
    if (t->kind >= TC_KIND_COUNT || !t->elem || !tc_type_is_scalar(t->elem))
        return "an element that is no scalar";
    if (t->kind == TC_PTR && tc_kind_is_packed(t->elem->kind))
        return "a pointer to half a byte, expected one to a whole one, or a "
               "tensor";
    if (t->elem->kind == TC_PTR &&
        (t->kind == TC_TENSOR || t->kind == TC_BLOCK_PTR))
        return "pointers as elements, expected ints or floats";
    const char *problem = tc_type_problem(f, t->elem);
    if (problem || t->kind == TC_PTR)
        return problem;
    problem = t->kind == TC_TENSOR ? sizes_problem(f, t) : sides_problem(f, t);
    return problem ? problem : layout_problem(f, t);
}
