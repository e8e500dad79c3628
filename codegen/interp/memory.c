/* SPDX-License-Identifier: Apache-2.0
 *
 * Global memory: tensors through windows and indices, which are checked at
 * every element; pointers, which must stay inside some tensor or buffer. Each
 * element is stored by the first register that holds it.
 */
#include "codegen/interp/state.h"

#include <math.h>
#include <string.h>

/* ---- Elements in memory ---- */

static tc_inum read_float(tc_kind kind, const void *p)
{
    tc_inum x;
    if (kind == TC_F64)
        memcpy(&x.f, p, 8);
    else if (kind == TC_F32) {
        float f;
        memcpy(&f, p, 4);
        x.f = f;
    } else {
        uint16_t bits = 0;
        memcpy(&bits, p, tc_scalar_infos[kind].bits / 8);
        x.f = tc_float_from_bits(kind, bits);
    }
    return x;
}

tc_inum tc_interp_read(tc_kind kind, const void *p)
{
    if (tc_kind_is_float(kind))
        return read_float(kind, p);
    tc_inum x = {.i = 0};
    if (kind == TC_PTR || kind == TC_I64) {
        memcpy(&x.i, p, 8);
        return x;
    }
    uint64_t bits = 0; /* the host is little-endian, as GPUs are */
    memcpy(&bits, p, kind == TC_I1 ? 1 : tc_scalar_infos[kind].bits / 8);
    x.i = kind == TC_I1 ? bits != 0 : tc_int_wrap(kind, (int64_t)bits);
    return x;
}

static uint64_t float_bits(tc_kind kind, double x)
{
    /* An infinity that was loaded keeps its bits; rounding would saturate. */
    if (kind == TC_F8E5M2 && isinf(x))
        return 0x7c | (uint64_t)(x < 0) << 7;
    return tc_float_to_bits(kind, x);
}

void tc_interp_write(tc_kind kind, void *p, tc_inum x)
{
    if (kind == TC_F64 || kind == TC_I64 || kind == TC_PTR) {
        memcpy(p, &x, 8);
    } else if (kind == TC_F32) {
        float f = (float)x.f;
        memcpy(p, &f, 4);
    } else {
        bool is_float = tc_scalar_infos[kind].is_float;
        uint64_t bits = is_float ? float_bits(kind, x.f) : (uint64_t)x.i;
        memcpy(p, &bits, kind == TC_I1 ? 1 : tc_scalar_infos[kind].bits / 8);
    }
}

/* ---- Tensors ---- */

bool tc_interp_size(tc_interp *it, const tc_op *op)
{
    const tc_launch_arg *arg = &it->args[tc_ivalue_of(op->in[0])->tensor];
    int64_t dim = tc_op_int(op, "dim");
    tc_ivalue_of(op->out[0])->x[0].i =
        op->code == TC_SIZE ? arg->sizes[dim] : arg->strides[dim];
    return true;
}

bool tc_interp_base(tc_interp *it, const tc_op *op)
{
    const tc_launch_arg *arg = &it->args[tc_ivalue_of(op->in[0])->tensor];
    tc_ivalue_of(op->out[0])->x[0].i = (int64_t)(intptr_t)arg->data;
    return true;
}

static tc_ipoison poison_of_scalars(const tc_op *op, unsigned first);

bool tc_interp_make_tensor(tc_interp *it, const tc_op *op)
{
    tc_ivalue *out = tc_ivalue_of(op->out[0]);
    const tc_type *t = op->out[0]->type;
    tc_launch_arg *arg = &it->args[out->tensor];
    int32_t *sizes = (int32_t *)arg->sizes;
    int64_t *strides = (int64_t *)arg->strides;
    tc_ipoison poison = poison_of_scalars(op, 0);
    if (poison && !tc_interp_poisoned(it, op, poison, "a tensor is made of"))
        return false;
    arg->data = (void *)(intptr_t)tc_ivalue_of(op->in[0])->x[0].i;
    for (unsigned i = 0; i < t->rank; i++) {
        const tc_value *size = tc_made_tensor_size(op, i);
        sizes[i] = size ? (int32_t)tc_ivalue_of(size)->x[0].i
                        : (int32_t)tc_dim_value(t->dims[i]);
        strides[i] = tc_ivalue_of(tc_made_tensor_stride(op, i))->x[0].i;
    }
    return true;
}

static tc_ipoison poison_of_scalars(const tc_op *op, unsigned first)
{
    for (unsigned i = first; i < op->nin; i++)
        if (tc_ivalue_of(op->in[i])->poison[0])
            return tc_ivalue_of(op->in[i])->poison[0];
    return 0;
}

bool tc_interp_block(tc_interp *it, const tc_op *op)
{
    tc_ivalue *out = tc_ivalue_of(op->out[0]);
    const tc_attr *sides = tc_op_attr(op, "sides");
    if (tc_block_index(op))
        return tc_interp_find(it, op, NULL, NULL,
                              "of windows by index: lower-windows replaces "
                              "them") &&
               false;
    out->tensor = tc_ivalue_of(op->in[0])->tensor;
    out->poison[0] = poison_of_scalars(op, 1);
    int axis = 0;
    for (unsigned i = 0; i < sides->n; i++) {
        out->offset[i] = tc_ivalue_of(op->in[i + 1])->x[0].i;
        out->axis[i] = sides->dims[i] ? axis++ : -1;
    }
    return true;
}

bool tc_interp_advance(tc_interp *it, const tc_op *op)
{
    tc_ivalue *out = tc_ivalue_of(op->out[0]);
    tc_interp_copy(out, tc_ivalue_of(op->in[0]));
    for (unsigned i = 1; i < op->nin; i++)
        out->offset[i - 1] += tc_ivalue_of(op->in[i])->x[0].i;
    if (!out->poison[0])
        out->poison[0] = poison_of_scalars(op, 1);
    return true;
}

static bool has_boundary(const tc_op *op, int axis)
{
    const tc_attr *a = tc_op_attr(op, "boundary");
    for (unsigned i = 0; a->kind != TC_ATTR_NONE && i < a->n; i++)
        if (a->ints[i] == axis)
            return true;
    return false;
}

uint8_t *tc_interp_window(tc_interp *it, const tc_op *op, const int32_t *coord,
                          bool *allowed, uintptr_t *virtual_address)
{
    const tc_ivalue *w = tc_ivalue_of(op->in[0]);
    const tc_launch_arg *arg = &it->args[w->tensor];
    const tc_type *t = it->tensors[w->tensor]->type;
    int64_t at = 0;
    bool inside = true;
    *allowed = true;
    for (unsigned i = 0; i < t->rank; i++) {
        int axis = w->axis[i];
        int64_t x = w->offset[i] + (axis < 0 ? 0 : coord[axis]);
        at += x * arg->strides[i];
        if (x >= 0 && x < arg->sizes[i])
            continue;
        inside = false;
        *allowed &= axis >= 0 && has_boundary(op, axis);
    }
    uintptr_t address = (uintptr_t)arg->data +
                        (uintptr_t)(at * (int64_t)tc_type_bytes(t->elem));
    if (virtual_address)
        *virtual_address = address;
    if (inside && it->tensors[w->tensor]->def &&
        !tc_interp_pointer_ok(it, (int64_t)address, tc_type_bytes(t->elem)))
        inside = *allowed = false;
    return inside ? (uint8_t *)address : NULL;
}

bool tc_interp_outside(tc_interp *it, const tc_op *op, const char *verb)
{
    if (op->in[0]->type->kind != TC_BLOCK_PTR)
        return tc_interp_find(it, op, NULL, NULL,
                              "%s an address outside of all tensors", verb);
    /* (Not tc_value_name, which prints the function: parameters keep the names
     * that they have.) */
    unsigned tensor = tc_ivalue_of(op->in[0])->tensor;
    const char *name = it->tensors[tensor]->name;
    const char *made = it->tensors[tensor]->def
                           ? ", or an address outside of all tensors"
                           : "";
    return tc_interp_find(it, op, NULL, NULL,
                          "%s outside of %%%s, where it has no boundary%s",
                          verb, name ? name : "?", made);
}

/* No memory lies there: a null pointer, and what is a little after it. */
enum { FIRST_PAGE = 4096 };

bool tc_interp_pointer_ok(const tc_interp *it, int64_t address, unsigned bytes)
{
    uintptr_t at = (uintptr_t)address;
    for (unsigned i = 0; i < it->nranges; i++)
        if (at >= it->ranges[i].from && at + bytes <= it->ranges[i].to)
            return true;
    return !it->pointers_checked && at >= FIRST_PAGE;
}

/* ---- Loads, stores ---- */

/* The access of a load or store of operand 0, element by element. */
typedef struct access {
    tc_interp *it;
    const tc_op *op;
    const tc_iplaces *places; /* NULL: a scalar */
    const tc_ivalue *memory, *mask;
    bool is_block;
    int32_t sides[TC_MAX_RANK];
    tc_kind kind; /* of an element */
    unsigned bytes, rank;
    const char *verb;
} access;

/* `mask`: number of that operand. `tile`: a value in the shape of what is
 * accessed, NULL: the pointers have it. */
static access access_of(tc_interp *it, const tc_op *op, unsigned mask,
                        const tc_value *tile, const char *verb)
{
    const tc_type *p = op->in[0]->type, *t = tile->type;
    access a = {.it = it,
                .op = op,
                .memory = tc_ivalue_of(op->in[0]),
                .mask = op->nin > mask ? tc_ivalue_of(op->in[mask]) : NULL,
                .is_block = p->kind == TC_BLOCK_PTR,
                .verb = verb};
    const tc_type *elem = a.is_block ? p->elem : tc_type_elem(p)->elem;
    a.kind = elem->kind;
    a.bytes = tc_type_bytes(elem);
    if (t->kind == TC_TILE) {
        a.places = tc_interp_places(it, t->layout);
        a.rank = t->rank;
        tc_type_sides(t, a.sides);
    }
    return a;
}

/* Whether register i takes part; what its mask hides is left alone. */
static bool is_wanted(const access *a, uint32_t i, tc_ipoison *poison)
{
    *poison = a->mask ? a->mask->poison[i] : 0;
    return !a->mask || a->mask->x[i].i;
}

/* The thread of register i; a scalar is loaded by all. */
static unsigned thread_of(const access *a, uint32_t i)
{
    return a->places ? i / a->places->nregs : TC_ALL_THREADS;
}

/* The address of register i's element; NULL: none, *ok false: one was found. */
static uint8_t *address_of(const access *a, uint32_t i, bool *ok)
{
    int32_t coord[TC_MAX_RANK];
    bool allowed = false;
    uint8_t *p = NULL;
    if (a->is_block) {
        tc_interp_decode(a->sides, a->rank, a->places->elem[i], coord);
        p = tc_interp_window(a->it, a->op, coord, &allowed, NULL);
    } else if (tc_interp_pointer_ok(a->it, a->memory->x[i].i, a->bytes)) {
        p = (uint8_t *)(intptr_t)a->memory->x[i].i;
    }
    *ok = p || allowed || tc_interp_outside(a->it, a->op, a->verb);
    return p;
}

/* The poison of where register i's element is. */
static tc_ipoison where_poison(const access *a, uint32_t i)
{
    return a->memory->poison[a->is_block ? 0 : i];
}

tc_inum tc_interp_pad(const tc_op *op, tc_kind kind)
{
    const tc_attr *pad = tc_op_attr(op, "pad");
    if (pad->kind == TC_ATTR_NONE || kind > TC_F64)
        return (tc_inum){.i = 0};
    tc_scalar x = tc_number_value(pad->number, kind);
    return tc_scalar_infos[kind].is_float ? (tc_inum){.f = x.f}
                                          : (tc_inum){.i = x.i};
}

bool tc_interp_load(tc_interp *it, const tc_op *op)
{
    access a = access_of(it, op, 1, op->out[0], "reads");
    tc_ivalue *out = tc_ivalue_of(op->out[0]);
    const tc_ivalue *other = op->nin > 2 ? tc_ivalue_of(op->in[2]) : NULL;
    tc_inum pad = tc_interp_pad(op, a.kind);
    for (uint32_t i = 0; i < out->n; i++) {
        tc_ipoison poison;
        bool ok = true, wanted = is_wanted(&a, i, &poison);
        if (!poison && wanted)
            poison = where_poison(&a, i);
        out->x[i] = other ? other->x[i] : pad;
        out->poison[i] = other && !wanted ? other->poison[i] : 0;
        if (poison)
            out->poison[i] = poison;
        if (poison || !wanted)
            continue;
        const uint8_t *p = address_of(&a, i, &ok);
        if (!ok)
            return false;
        /* Beyond the boundary it is the pad, whatever the mask's rest. */
        out->x[i] = p ? tc_interp_read(a.kind, p) : pad;
        if (p && !tc_interp_global_read(it, op, p, thread_of(&a, i), it->epoch))
            return false;
    }
    return true;
}

/* The new value; `by` is what the op combines with. */
static tc_inum updated(const tc_op *op, tc_kind kind, tc_inum old, tc_inum by)
{
    bool is_float = tc_scalar_infos[kind].is_float;
    const char *word = tc_op_word(op, "kind");
    if (strcmp(word, "exchange") == 0)
        return by;
    if (is_float) {
        double x = strcmp(word, "add") == 0   ? old.f + by.f
                   : strcmp(word, "max") == 0 ? fmax(old.f, by.f)
                                              : fmin(old.f, by.f);
        return (tc_inum){.f = tc_round_to(kind, x)};
    }
    int64_t a = old.i, b = by.i;
    int64_t x = strcmp(word, "add") == 0 ? (int64_t)((uint64_t)a + (uint64_t)b)
                : strcmp(word, "max") == 0 ? (a > b ? a : b)
                : strcmp(word, "min") == 0 ? (a < b ? a : b)
                : strcmp(word, "and") == 0 ? a & b
                : strcmp(word, "or") == 0  ? a | b
                                           : a ^ b;
    return (tc_inum){.i = tc_int_wrap(kind, x)};
}

/* One element; its copies in other registers were compared before. */
static bool store_element(const access *a, uint32_t i, const tc_ivalue *value)
{
    tc_ipoison poison;
    bool ok = true;
    if (!is_wanted(a, i, &poison) && !poison)
        return true;
    if (!poison)
        poison = where_poison(a, i);
    if (poison)
        return tc_interp_poisoned(a->it, a->op, poison, "where it writes");
    uint8_t *p = address_of(a, i, &ok);
    if (!p)
        return ok;
    if (value->poison[i])
        return tc_interp_poisoned(a->it, a->op, value->poison[i],
                                  "what is stored");
    tc_inum x = value->x[i];
    /* One thread stores a scalar: the first. */
    unsigned thread = a->places ? thread_of(a, i) : 0;
    if (tc_op_is_word(a->op, "kind", "add")) {
        x = updated(a->op, a->kind, tc_interp_read(a->kind, p), x);
        if (!tc_interp_global_read(a->it, a->op, p, thread, a->it->epoch))
            return false;
    }
    tc_interp_write(a->kind, p, x);
    return tc_interp_global_write(a->it, a->op, p, thread);
}

/* All holders of an element agree on it. */
static bool check_copies(tc_interp *it, const tc_op *op, unsigned operand)
{
    uint32_t n = tc_interp_places(it, op->in[operand]->type->layout)->count;
    tc_iop *info = tc_iop_of(op);
    if (!info->plan)
        info->plan = tc_arena_alloc(&it->arena,
                                    n * (sizeof(tc_inum) + sizeof(tc_ipoison)));
    tc_inum *x = info->plan;
    return tc_interp_gather(it, op, operand, x, (tc_ipoison *)(x + n));
}

bool tc_interp_store(tc_interp *it, const tc_op *op)
{
    access a = access_of(it, op, 2, op->in[1], "writes");
    const tc_ivalue *value = tc_ivalue_of(op->in[1]);
    if (!a.places)
        return store_element(&a, 0, value);
    if (!check_copies(it, op, 1))
        return false;
    for (uint32_t e = 0; e < a.places->count; e++)
        if (!store_element(&a, a.places->first[e], value))
            return false;
    return true;
}

/* ---- Gathers, atomics ---- */

bool tc_interp_gather_op(tc_interp *it, const tc_op *op)
{
    tc_ivalue *out = tc_ivalue_of(op->out[0]);
    const tc_launch_arg *arg = &it->args[tc_ivalue_of(op->in[0])->tensor];
    const tc_type *t = op->in[0]->type;
    tc_inum pad = tc_interp_pad(op, t->elem->kind);
    int64_t bytes = tc_type_bytes(t->elem);
    for (uint32_t i = 0; i < out->n; i++) {
        int64_t at = 0;
        bool inside = true;
        out->poison[i] = 0;
        for (unsigned d = 0; d < t->rank; d++) {
            const tc_ivalue *index = tc_ivalue_of(op->in[d + 1]);
            int64_t x = index->x[i].i;
            if (index->poison[i])
                out->poison[i] = index->poison[i];
            inside &= x >= 0 && x < arg->sizes[d];
            at += inside ? x * arg->strides[d] : 0;
        }
        const uint8_t *p = (const uint8_t *)arg->data + at * bytes;
        out->x[i] = pad;
        if (!inside || out->poison[i])
            continue;
        out->x[i] = tc_interp_read(t->elem->kind, p);
        unsigned thread = out->nregs ? i / out->nregs : TC_ALL_THREADS;
        if (!tc_interp_global_read(it, op, p, thread, it->epoch))
            return false;
    }
    return true;
}

static bool is_same(tc_kind kind, tc_inum a, tc_inum b)
{
    return tc_scalar_infos[kind].is_float ? a.f == b.f : a.i == b.i;
}

/* Register i does its step and gets the old value. */
static bool atomic_step(const access *a, uint32_t i)
{
    const tc_op *op = a->op;
    tc_ivalue *out = tc_ivalue_of(op->out[0]);
    tc_ipoison poison;
    bool ok = true, wanted = is_wanted(a, i, &poison);
    out->x[i] = (tc_inum){.i = 0};
    out->poison[i] = 0;
    if (!poison && !wanted)
        return true;
    if (!poison)
        poison = where_poison(a, i);
    for (unsigned k = 1; k < op->nin; k++)
        if (!poison)
            poison = tc_ivalue_of(op->in[k])->poison[i];
    if (poison)
        return tc_interp_poisoned(a->it, op, poison, "what is written");
    uint8_t *p = address_of(a, i, &ok);
    if (!p)
        return ok;
    tc_inum old = tc_interp_read(a->kind, p), x = old;
    const tc_inum by = tc_ivalue_of(op->in[1])->x[i];
    if (op->code == TC_ATOMIC)
        x = updated(op, a->kind, old, by);
    else if (is_same(a->kind, old, by))
        x = tc_ivalue_of(op->in[2])->x[i];
    tc_interp_write(a->kind, p, x);
    out->x[i] = old;
    unsigned thread = a->places ? thread_of(a, i) : 0;
    tc_interp_programs_before(a->it, op, p);
    ok = tc_interp_global_read(a->it, op, p, thread, a->it->epoch) &&
         tc_interp_global_write(a->it, op, p, thread);
    tc_interp_programs_after(a->it, op, p);
    return ok;
}

bool tc_interp_atomic(tc_interp *it, const tc_op *op)
{
    /* atomic_cas has no mask: its operand 2 is the new value. */
    unsigned mask = op->code == TC_ATOMIC ? 2 : op->nin;
    access a = access_of(it, op, mask, op->in[0], "writes");
    tc_ivalue *out = tc_ivalue_of(op->out[0]);
    if (!a.places)
        return atomic_step(&a, 0);
    for (uint32_t e = 0; e < a.places->count; e++)
        if (!atomic_step(&a, a.places->first[e]))
            return false;
    for (uint32_t i = 0; i < out->n; i++) {
        uint32_t first = a.places->first[a.places->elem[i]];
        out->x[i] = out->x[first];
        out->poison[i] = out->poison[first];
    }
    return true;
}
