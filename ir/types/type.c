/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/types/type.h"

#include "ir/base/intern.h"
#include "ir/types/layout.h"

#include <assert.h>
#include <string.h>

const tc_scalar_info tc_scalar_infos[TC_LAST_SCALAR + 1] = {
    [TC_I1] = {"i1", 1, false, 0, 0},
    [TC_I8] = {"i8", 8, false, 0, 0},
    [TC_I16] = {"i16", 16, false, 0, 0},
    [TC_I32] = {"i32", 32, false, 0, 0},
    [TC_I64] = {"i64", 64, false, 0, 0},
    [TC_F8E4M3] = {"f8e4m3", 8, true, 4, 3},
    [TC_F8E5M2] = {"f8e5m2", 8, true, 5, 2},
    [TC_F16] = {"f16", 16, true, 5, 10},
    [TC_BF16] = {"bf16", 16, true, 8, 7},
    [TC_F32] = {"f32", 32, true, 8, 23},
    [TC_F64] = {"f64", 64, true, 11, 52},
    [TC_U8] = {"u8", 8, .code = TC_I8},
    [TC_U16] = {"u16", 16, .code = TC_I16},
    [TC_U32] = {"u32", 32, .code = TC_I32},
    [TC_F8E8M0] = {"f8e8m0", 8, .code = TC_I8},
    [TC_I4] = {"i4", 4, .code = TC_I8},
    [TC_U4] = {"u4", 4, .code = TC_I8},
    [TC_F4E2M1] = {"f4e2m1", 4, .code = TC_I8},
};

static bool same_type(const void *stored, const void *key)
{
    const tc_type *a = stored, *b = key;
    return a->kind == b->kind && a->elem == b->elem && a->name == b->name &&
           a->rank == b->rank && a->layout == b->layout &&
           a->slots == b->slots && a->contiguous == b->contiguous &&
           a->holds == b->holds &&
           (a->rank == 0 ||
            memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0);
}

static const tc_type *get(tc_context *cx, tc_type key)
{
    const void *words[] = {key.elem, key.name, key.layout, key.contiguous,
                           key.holds};
    uint64_t hash =
        tc_hash_bytes(key.kind + 64 * key.slots, words, sizeof words);
    if (key.rank)
        hash = tc_hash_bytes(hash, key.dims, key.rank * sizeof *key.dims);
    const tc_type *found = tc_intern_find(cx->types, hash, same_type, &key);
    if (found)
        return found;
    if (key.rank)
        key.dims =
            tc_arena_copy(&cx->arena, key.dims, key.rank * sizeof *key.dims);
    tc_type *t = tc_arena_copy(&cx->arena, &key, sizeof key);
    tc_intern_add(cx->types, &cx->arena, hash, t);
    return t;
}

const tc_type *tc_type_scalar(tc_context *cx, tc_kind kind)
{
    assert(kind <= TC_LAST_SCALAR);
    if (!cx->scalars[kind])
        cx->scalars[kind] = get(cx, (tc_type){.kind = kind});
    return cx->scalars[kind];
}

const tc_type *tc_type_param(tc_context *cx, const char *name)
{
    return get(
        cx, (tc_type){.kind = TC_TYPE_PARAM, .name = tc_string_get(cx, name)});
}

const tc_type *tc_type_ptr(tc_context *cx, const tc_type *elem)
{
    return get(cx, (tc_type){.kind = TC_PTR, .elem = elem});
}

const tc_type *tc_type_shaped(tc_context *cx, tc_kind kind, unsigned rank,
                              const tc_dim *const *dims, const tc_type *elem)
{
    assert(kind >= TC_TENSOR && rank <= TC_MAX_RANK);
    return get(
        cx, (tc_type){.kind = kind, .elem = elem, .rank = rank, .dims = dims});
}

const tc_type *tc_type_with_contiguous(tc_context *cx, const tc_type *tensor,
                                       const tc_dim *dim)
{
    assert(tensor->kind == TC_TENSOR);
    tc_type t = *tensor;
    t.contiguous = tc_dim_is(dim, (int64_t)t.rank - 1) ? NULL : dim;
    return get(cx, t);
}

unsigned tc_type_contiguous(const tc_type *tensor)
{
    int64_t dim = tc_dim_value(tensor->contiguous);
    assert(tensor->kind == TC_TENSOR && tensor->rank);
    return dim >= 0 ? (unsigned)dim : tensor->rank - 1;
}

unsigned tc_dim_by_stride(unsigned rank, unsigned contiguous, unsigned i)
{
    if (i == 0)
        return contiguous;
    unsigned dim = rank - i;
    return dim > contiguous ? dim : dim - 1;
}

const tc_type *tc_type_with_holds(tc_context *cx, const tc_type *tensor,
                                  const tc_type *holds)
{
    assert(tensor->kind == TC_TENSOR);
    tc_type t = *tensor;
    t.holds = holds;
    return get(cx, t);
}

const tc_type *tc_type_with_layout(tc_context *cx, const tc_type *tile,
                                   const tc_layout *layout)
{
    assert(tile->kind == TC_TILE);
    assert(!layout || layout->rank == tile->rank);
    tc_type t = *tile;
    t.layout = layout;
    return get(cx, t);
}

const tc_type *tc_type_smem(tc_context *cx, const tc_type *tile,
                            const tc_layout *layout, unsigned slots)
{
    assert(layout && layout->rank == tile->rank);
    tc_type t = *tile;
    t.kind = TC_SMEM;
    t.layout = layout;
    t.slots = slots;
    return get(cx, t);
}

const tc_type *tc_type_mbarrier(tc_context *cx, unsigned slots)
{
    return get(cx, (tc_type){.kind = TC_MBARRIER, .slots = slots});
}

const tc_type *tc_type_with_elem(tc_context *cx, const tc_type *like,
                                 const tc_type *elem)
{
    if (like->kind != TC_TILE)
        return elem;
    tc_type t = *like;
    t.elem = elem;
    return get(cx, t);
}

tc_kind tc_kind_parse(const char *s, size_t n)
{
    for (tc_kind k = TC_I1; k <= TC_LAST_SCALAR; k++)
        if (strlen(tc_scalar_infos[k].name) == n &&
            memcmp(tc_scalar_infos[k].name, s, n) == 0)
            return k;
    return TC_KIND_COUNT;
}

bool tc_kind_is_float(tc_kind kind)
{
    return kind <= TC_F64 && tc_scalar_infos[kind].is_float;
}

bool tc_kind_is_f8(tc_kind kind)
{
    return tc_kind_is_float(kind) && tc_scalar_infos[kind].bits == 8;
}

bool tc_kind_is_narrow(tc_kind kind)
{
    return tc_kind_is_float(kind) && tc_scalar_infos[kind].bits < 32;
}

bool tc_kind_is_stored(tc_kind kind)
{
    return kind >= TC_U8 && kind <= TC_LAST_SCALAR;
}

bool tc_kind_is_packed(tc_kind kind)
{
    return tc_kind_is_stored(kind) && tc_scalar_infos[kind].bits == 4;
}

bool tc_type_is_stored(const tc_type *t)
{
    while (t->elem)
        t = t->elem;
    return tc_kind_is_stored(t->kind);
}

bool tc_type_is_scalar(const tc_type *t)
{
    return t->kind <= TC_PTR;
}

bool tc_type_is_float(const tc_type *t)
{
    tc_kind k = tc_type_elem(t)->kind;
    return k == TC_TYPE_PARAM || (k <= TC_F64 && tc_scalar_infos[k].is_float);
}

bool tc_type_is_int(const tc_type *t)
{
    tc_kind k = tc_type_elem(t)->kind;
    return k == TC_TYPE_PARAM || (k >= TC_I8 && k <= TC_I64);
}

bool tc_type_is_bool(const tc_type *t)
{
    return tc_type_elem(t)->kind == TC_I1;
}

static bool dim_is_generic(const tc_dim *d)
{
    return d && d->kind != TC_DIM_CONST;
}

bool tc_type_is_generic(const tc_type *t)
{
    if (t->kind == TC_TYPE_PARAM || (t->elem && tc_type_is_generic(t->elem)))
        return true;
    for (unsigned i = 0; i < t->rank; i++)
        if (dim_is_generic(t->dims[i]))
            return true;
    return dim_is_generic(t->contiguous);
}

int64_t tc_type_count(const tc_type *t)
{
    int64_t n = 1;
    for (unsigned i = 0; i < t->rank; i++) {
        int64_t side = tc_dim_value(t->dims[i]);
        if (side < 0 || (side && n > INT32_MAX / side))
            return -1;
        n *= side;
    }
    return n;
}

int64_t tc_type_stride(const tc_type *t, unsigned axis)
{
    int64_t stride = 1;
    for (unsigned i = axis + 1; i < t->rank; i++)
        stride *= tc_dim_value(t->dims[i]);
    return stride;
}

unsigned tc_type_bytes(const tc_type *elem)
{
    if (elem->kind == TC_PTR)
        return 8;
    assert(elem->kind <= TC_LAST_SCALAR);
    return (tc_scalar_infos[elem->kind].bits + 7) / 8;
}

uint32_t tc_smem_slot_bytes(const tc_type *smem)
{
    uint32_t bytes = (uint32_t)tc_type_count(smem) * tc_type_bytes(smem->elem);
    return (bytes + TC_SMEM_ALIGN - 1) / TC_SMEM_ALIGN * TC_SMEM_ALIGN;
}

uint32_t tc_smem_bytes(const tc_type *smem)
{
    return tc_smem_slot_bytes(smem) * (smem->slots ? smem->slots : 1);
}

static bool same_dim(const void *stored, const void *key)
{
    const tc_dim *a = stored, *b = key;
    return a->kind == b->kind && a->value == b->value && a->name == b->name &&
           a->a == b->a && a->b == b->b;
}

static const tc_dim *get_dim(tc_context *cx, tc_dim key)
{
    const void *words[] = {key.name, key.a, key.b};
    uint64_t hash = tc_hash_bytes(key.kind, words, sizeof words);
    hash = tc_hash_bytes(hash, &key.value, sizeof key.value);
    const tc_dim *found = tc_intern_find(cx->dims, hash, same_dim, &key);
    if (found)
        return found;
    tc_dim *d = tc_arena_copy(&cx->arena, &key, sizeof key);
    tc_intern_add(cx->dims, &cx->arena, hash, d);
    return d;
}

const tc_dim *tc_dim_const(tc_context *cx, int64_t value)
{
    return get_dim(cx, (tc_dim){.kind = TC_DIM_CONST, .value = value});
}

const tc_dim *tc_dim_param(tc_context *cx, const char *name)
{
    return get_dim(
        cx, (tc_dim){.kind = TC_DIM_PARAM, .name = tc_string_get(cx, name)});
}

const tc_dim *tc_dim_sms(tc_context *cx)
{
    return get_dim(cx, (tc_dim){.kind = TC_DIM_SMS});
}

static int64_t floor_div(int64_t a, int64_t b)
{
    if (b == 0)
        return 0;
    if (b == -1)
        return (int64_t)(0 - (uint64_t)a);
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* Up to 2^62. */
static int64_t pow2ceil(int64_t a)
{
    int64_t power = 1;
    while (power < a && power <= INT64_MAX / 2)
        power *= 2;
    return power;
}

static int64_t fold(tc_dim_kind kind, int64_t a, int64_t b)
{
    uint64_t x = (uint64_t)a, y = (uint64_t)b;
    switch (kind) {
    case TC_DIM_ADD: return (int64_t)(x + y);
    case TC_DIM_SUB: return (int64_t)(x - y);
    case TC_DIM_MUL: return (int64_t)(x * y);
    case TC_DIM_DIV: return floor_div(a, b);
    case TC_DIM_REM: return (int64_t)(x - (uint64_t)floor_div(a, b) * y);
    case TC_DIM_CDIV:
        return (int64_t)(0 - (uint64_t)floor_div((int64_t)(0 - x), b));
    case TC_DIM_MIN: return a < b ? a : b;
    case TC_DIM_MAX: return a > b ? a : b;
    case TC_DIM_POW2CEIL: return pow2ceil(a);
    default: assert(!"not a binary size"); return 0;
    }
}

const tc_dim *tc_dim_binary(tc_context *cx, tc_dim_kind kind, const tc_dim *a,
                            const tc_dim *b)
{
    if (a->kind == TC_DIM_CONST && b->kind == TC_DIM_CONST)
        return tc_dim_const(cx, fold(kind, a->value, b->value));
    return get_dim(cx, (tc_dim){.kind = kind, .a = a, .b = b});
}

int64_t tc_dim_value(const tc_dim *d)
{
    return d && d->kind == TC_DIM_CONST && d->value >= 0 ? d->value : -1;
}

bool tc_dim_is(const tc_dim *d, int64_t value)
{
    return d && d->kind == TC_DIM_CONST && d->value == value;
}

static int binding_of(const tc_bindings *b, const char *name)
{
    for (unsigned i = 0; i < b->n; i++)
        if (b->names[i] == name)
            return (int)i;
    return -1;
}

const tc_dim *tc_dim_substitute(tc_context *cx, const tc_dim *d,
                                const tc_bindings *b)
{
    if (!d || d->kind == TC_DIM_CONST)
        return d;
    if (d->kind == TC_DIM_PARAM) {
        int i = binding_of(b, d->name);
        return i >= 0 && b->dims[i] ? b->dims[i] : d;
    }
    if (d->kind == TC_DIM_SMS)
        return cx->machine_sms ? tc_dim_const(cx, cx->machine_sms) : d;
    return tc_dim_binary(cx, d->kind, tc_dim_substitute(cx, d->a, b),
                         tc_dim_substitute(cx, d->b, b));
}

const tc_type *tc_type_substitute(tc_context *cx, const tc_type *t,
                                  const tc_bindings *b)
{
    if (t->kind == TC_TYPE_PARAM) {
        int i = binding_of(b, t->name);
        return i >= 0 && b->types[i] ? b->types[i] : t;
    }
    if (!t->elem)
        return t;
    const tc_type *elem = tc_type_substitute(cx, t->elem, b);
    if (t->kind == TC_PTR)
        return tc_type_ptr(cx, elem);
    const tc_dim *dims[TC_MAX_RANK];
    for (unsigned i = 0; i < t->rank; i++)
        dims[i] = tc_dim_substitute(cx, t->dims[i], b);
    tc_type bound = *t;
    bound.dims = dims;
    bound.elem = elem;
    if (t->contiguous)
        return tc_type_with_contiguous(cx, &bound,
                                       tc_dim_substitute(cx, t->contiguous, b));
    return get(cx, bound);
}

/* It says nothing about what a function gets: any tensor matches. */
static void unify_contiguous(tc_context *cx, const tc_type *pattern,
                             const tc_type *actual, tc_bindings *b)
{
    if (!pattern->contiguous || pattern->contiguous->kind != TC_DIM_PARAM)
        return;
    int i = binding_of(b, pattern->contiguous->name);
    if (i < 0 || b->dims[i])
        return;
    b->dims[i] = actual->contiguous
                     ? actual->contiguous
                     : tc_dim_const(cx, (int64_t)actual->rank - 1);
}

static bool unify_dim(tc_context *cx, const tc_dim *pattern,
                      const tc_dim *actual, tc_bindings *b)
{
    if (pattern && pattern->kind == TC_DIM_PARAM) {
        int i = binding_of(b, pattern->name);
        if (i >= 0 && !b->dims[i] && actual) {
            b->dims[i] = actual;
            return true;
        }
    }
    return tc_dim_substitute(cx, pattern, b) == actual;
}

bool tc_type_unify(tc_context *cx, const tc_type *pattern,
                   const tc_type *actual, tc_bindings *b)
{
    if (pattern->kind == TC_TYPE_PARAM) {
        int i = binding_of(b, pattern->name);
        if (i >= 0 && !b->types[i] && tc_type_is_scalar(actual)) {
            b->types[i] = actual;
            return true;
        }
        return tc_type_substitute(cx, pattern, b) == actual;
    }
    if (pattern->kind != actual->kind || pattern->rank != actual->rank ||
        pattern->layout != actual->layout || pattern->slots != actual->slots)
        return false;
    for (unsigned i = 0; i < pattern->rank; i++) {
        /* A `?` of a tensor takes any size. */
        bool any = pattern->kind == TC_TENSOR && !pattern->dims[i];
        if (!any && !unify_dim(cx, pattern->dims[i], actual->dims[i], b))
            return false;
    }
    unify_contiguous(cx, pattern, actual, b);
    return !pattern->elem || tc_type_unify(cx, pattern->elem, actual->elem, b);
}

/* Infix ones print in parentheses, so that no side of a shape is ambiguous. */
static const struct {
    const char *text;
    bool infix;
} dim_words[] = {
    [TC_DIM_ADD] = {"+", true},
    [TC_DIM_SUB] = {"-", true},
    [TC_DIM_MUL] = {"*", true},
    [TC_DIM_DIV] = {"/", true},
    [TC_DIM_REM] = {"rem", false},
    [TC_DIM_CDIV] = {"cdiv", false},
    [TC_DIM_MIN] = {"min", false},
    [TC_DIM_MAX] = {"max", false},
    [TC_DIM_POW2CEIL] = {"pow2ceil", false},
};

void tc_dim_print(tc_text *out, const tc_dim *d)
{
    if (!d) {
        tc_text_add(out, "?");
    } else if (d->kind == TC_DIM_CONST) {
        tc_text_printf(out, "%lld", (long long)d->value);
    } else if (d->kind == TC_DIM_PARAM) {
        tc_text_add(out, d->name);
    } else if (d->kind == TC_DIM_SMS) {
        tc_text_add(out, "machine_sms()");
    } else {
        bool infix = dim_words[d->kind].infix;
        tc_text_printf(out, "%s(", infix ? "" : dim_words[d->kind].text);
        tc_dim_print(out, d->a);
        if (infix)
            tc_text_printf(out, " %s ", dim_words[d->kind].text);
        else if (d->kind != TC_DIM_POW2CEIL)
            tc_text_add(out, ", ");
        if (d->kind != TC_DIM_POW2CEIL)
            tc_dim_print(out, d->b);
        tc_text_add(out, ")");
    }
}

static void print_dims(tc_text *out, const tc_type *t, const char *between)
{
    for (unsigned i = 0; i < t->rank; i++) {
        tc_text_add(out, i ? between : "");
        tc_dim_print(out, t->dims[i]);
    }
}

/* `, #mma(4x1)`, and of a ring the number of its slots. */
static void print_layout(tc_text *out, const tc_type *t)
{
    if (t->layout) {
        /* Generic elements are for messages that refuse them. */
        unsigned bytes =
            tc_type_is_generic(t->elem) ? 4 : tc_type_bytes(t->elem);
        tc_text_add(out, ", ");
        tc_layout_print(out, t->layout, bytes * 8);
    }
    if (t->slots)
        tc_text_printf(out, ", %u", t->slots);
}

/* What lower-storage found there. */
static void print_holds(tc_text *out, const tc_type *t)
{
    if (t->holds)
        tc_text_printf(out, ", holds(%s)",
                       tc_scalar_infos[t->holds->kind].name);
}

static void print_contiguous(tc_text *out, const tc_type *t)
{
    if (!t->contiguous)
        return;
    tc_text_add(out, ", contiguous(");
    tc_dim_print(out, t->contiguous);
    tc_text_add(out, ")");
}

void tc_type_print(tc_text *out, const tc_type *t)
{
    /* Only the verifier meets a program in which one is missing. */
    if (!t) {
        tc_text_add(out, "nothing");
        return;
    }
    switch (t->kind) {
    case TC_TYPE_PARAM: tc_text_add(out, t->name); break;
    case TC_PTR:
        tc_text_add(out, "ptr<");
        tc_type_print(out, t->elem);
        tc_text_add(out, ">");
        break;
    case TC_TENSOR:
        tc_text_add(out, "tensor<[");
        print_dims(out, t, ", ");
        tc_text_add(out, "] x ");
        tc_type_print(out, t->elem);
        print_contiguous(out, t);
        print_holds(out, t);
        tc_text_add(out, ">");
        break;
    case TC_TILE:
    case TC_BLOCK_PTR:
    case TC_SMEM:
        tc_text_add(out, t->kind == TC_TILE   ? "tile<"
                         : t->kind == TC_SMEM ? "smem<"
                                              : "block_ptr<");
        print_dims(out, t, "x");
        tc_text_add(out, " x ");
        tc_type_print(out, t->elem);
        print_layout(out, t);
        tc_text_add(out, ">");
        break;
    case TC_MBARRIER: tc_text_printf(out, "mbarrier<%u>", t->slots); break;
    default: tc_text_add(out, tc_scalar_infos[t->kind].name);
    }
}

const char *tc_type_name(tc_context *cx, const tc_type *t)
{
    tc_text out = {.arena = &cx->diag_arena};
    tc_type_print(&out, t);
    return out.data;
}

bool tc_type_may_bitcast(const tc_type *a, const tc_type *b)
{
    if (a->kind == TC_TYPE_PARAM || b->kind == TC_TYPE_PARAM)
        return true;
    if (a->kind == TC_PTR || b->kind == TC_PTR)
        return (a->kind == TC_PTR || a->kind == TC_I64) &&
               (b->kind == TC_PTR || b->kind == TC_I64);
    return (a->kind == TC_I1) == (b->kind == TC_I1) &&
           tc_type_bytes(a) == tc_type_bytes(b) &&
           tc_kind_is_packed(a->kind) == tc_kind_is_packed(b->kind);
}

const tc_type *tc_type_pointee(tc_context *cx, const tc_type *t)
{
    if (t->kind == TC_BLOCK_PTR)
        return tc_type_shaped(cx, TC_TILE, t->rank, t->dims, t->elem);
    return tc_type_with_elem(cx, t, tc_type_elem(t)->elem);
}

void tc_type_sides(const tc_type *t, int32_t sides[TC_MAX_RANK])
{
    for (unsigned i = 0; i < t->rank; i++) {
        assert(tc_dim_value(t->dims[i]) >= 0);
        sides[i] = (int32_t)tc_dim_value(t->dims[i]);
    }
}

bool tc_type_same_shape(const tc_type *a, const tc_type *b)
{
    return a->layout == b->layout && tc_type_same_sides(a, b);
}

bool tc_type_same_sides(const tc_type *a, const tc_type *b)
{
    return (a->kind == TC_TILE) == (b->kind == TC_TILE) && a->rank == b->rank &&
           (a->rank == 0 ||
            memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0);
}

const char *tc_type_index_to(tc_arena *a, const tc_type *from,
                             const tc_type *to)
{
    tc_text text = {.arena = a};
    unsigned k = 0;
    if (from->kind != TC_TILE || from->rank >= to->rank)
        return NULL;
    for (unsigned i = 0; i < to->rank; i++) {
        bool axis = k < from->rank && (from->dims[k] == to->dims[i] ||
                                       tc_dim_is(from->dims[k], 1));
        tc_text_printf(&text, "%s%s", i ? ", " : "[", axis ? ":" : "none");
        k += axis;
    }
    tc_text_add(&text, "]");
    return k == from->rank ? text.data : NULL;
}
