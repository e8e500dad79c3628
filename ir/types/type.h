/* SPDX-License-Identifier: Apache-2.0
 *
 * Types and compile-time sizes, both interned in the context: equal ones are
 * the same pointer.
 *
 * A size (tc_dim) is a number, a compile-time parameter, or an expression of
 * such. Before `bind-params` types may hold names (`tile<BMxD x T>`), after it
 * only numbers. An element type may be a parameter likewise (TC_TYPE_PARAM).
 */
#ifndef TC_TYPE_H
#define TC_TYPE_H

#include "ir/base/diag.h"

typedef enum tc_kind {
    TC_I1,
    TC_I8,
    TC_I16,
    TC_I32,
    TC_I64,
    TC_F8E4M3,
    TC_F8E5M2,
    TC_F16,
    TC_BF16,
    TC_F32,
    TC_F64,
    /* Storage types: what memory holds, and tiles that are only moved and cast.
     * The pass lower-storage replaces them by ints that hold their codes. */
    TC_U8,
    TC_U16,
    TC_U32,
    TC_F8E8M0,
    TC_I4,
    TC_U4,
    TC_F4E2M1,
    TC_LAST_SCALAR = TC_F4E2M1,
    TC_TYPE_PARAM, /* `T`: an element type, not known yet */
    TC_PTR,        /* elem */
    TC_TENSOR,     /* elem, dims; NULL dim is `?` */
    TC_TILE,       /* elem (scalar or pointer), dims */
    TC_BLOCK_PTR,  /* elem, dims */
    TC_SMEM,       /* elem, dims, layout, slots: a buffer in shared memory */
    TC_MBARRIER,   /* slots: a ring of barriers in shared memory */
    TC_KIND_COUNT
} tc_kind;

enum { TC_MAX_RANK = 8, TC_MAX_SLOTS = 64 };

struct tc_type {
    tc_kind kind;
    const tc_type *elem; /* of PTR, TENSOR, TILE, BLOCK_PTR */
    const char *name;    /* of TYPE_PARAM */
    unsigned rank;
    const tc_dim *const *dims;
    /* Of TENSOR: the dim that is expected to have stride 1, where it is not the
     * last one; else NULL. */
    const tc_dim *contiguous;
    /* Of TENSOR, after lower-storage: the storage type of what lies there as
     * elem; else NULL. */
    const tc_type *holds;
    /* Machine level: where the elements live (ir/types/layout.h). Of TILE, NULL
     * at tile level, and of SMEM. */
    const tc_layout *layout;
    /* Of SMEM: a ring of so many buffers; 0: one, no ring. Of MBARRIER: how
     * many, at least 1. */
    unsigned slots;
};

typedef enum tc_dim_kind {
    TC_DIM_CONST,
    TC_DIM_PARAM,
    TC_DIM_ADD,
    TC_DIM_SUB,
    TC_DIM_MUL,
    TC_DIM_DIV,  /* floor; by 0 gives 0 */
    TC_DIM_REM,  /* of that floor */
    TC_DIM_CDIV, /* rounds up; by 0 gives 0 */
    TC_DIM_MIN,
    TC_DIM_MAX,
    TC_DIM_POW2CEIL, /* the least power of two that is not below a; b is 1 */
    TC_DIM_SMS       /* multiprocessors of the machine model; no operands */
} tc_dim_kind;

struct tc_dim {
    tc_dim_kind kind;
    int64_t value;
    const char *name;
    const tc_dim *a, *b;
};

/* The properties of scalar kinds; index with a scalar tc_kind. */
typedef struct tc_scalar_info {
    const char *name;
    unsigned bits;
    bool is_float;
    unsigned exponent_bits, mantissa_bits; /* floats */
    tc_kind code; /* of storage types: the int that holds one in a register */
} tc_scalar_info;
extern const tc_scalar_info tc_scalar_infos[TC_LAST_SCALAR + 1];

const tc_type *tc_type_scalar(tc_context *cx, tc_kind kind);
const tc_type *tc_type_param(tc_context *cx, const char *name);
const tc_type *tc_type_ptr(tc_context *cx, const tc_type *elem);
/* kind: TC_TENSOR, TC_TILE or TC_BLOCK_PTR; dims are copied. */
const tc_type *tc_type_shaped(tc_context *cx, tc_kind kind, unsigned rank,
                              const tc_dim *const *dims, const tc_type *elem);
/* A tensor like this that is contiguous in that dim (NULL: in its last). */
const tc_type *tc_type_with_contiguous(tc_context *cx, const tc_type *tensor,
                                       const tc_dim *dim);
/* The dim of a tensor, of rank 1 or more, that is expected to have stride 1. */
unsigned tc_type_contiguous(const tc_type *tensor);
/* Dims of a tensor in the order in which their strides are expected to grow:
 * that one, then the others, the last one first. */
unsigned tc_dim_by_stride(unsigned rank, unsigned contiguous, unsigned i);
/* A tensor like this whose memory holds that type (NULL: its own). */
const tc_type *tc_type_with_holds(tc_context *cx, const tc_type *tensor,
                                  const tc_type *holds);
/* A tile with another layout (NULL: none). */
const tc_type *tc_type_with_layout(tc_context *cx, const tc_type *tile,
                                   const tc_layout *layout);
/* A buffer in shared memory for tiles like this; slots 0: no ring. */
const tc_type *tc_type_smem(tc_context *cx, const tc_type *tile,
                            const tc_layout *layout, unsigned slots);
/* A ring of `slots` mbarriers. */
const tc_type *tc_type_mbarrier(tc_context *cx, unsigned slots);
/* `like` is a scalar or a tile: `elem` in the same shape and layout. */
const tc_type *tc_type_with_elem(tc_context *cx, const tc_type *like,
                                 const tc_type *elem);
/* The scalar kind named s ("f32"), or TC_KIND_COUNT. */
tc_kind tc_kind_parse(const char *s, size_t n);
bool tc_kind_is_float(tc_kind kind);
bool tc_kind_is_f8(tc_kind kind);     /* a float of 8 bits */
bool tc_kind_is_narrow(tc_kind kind); /* a float of 16 or 8 */
bool tc_kind_is_stored(tc_kind kind); /* a storage type */
bool tc_kind_is_packed(tc_kind kind); /* one with two elements a byte */

/* The element of a tile, else the type itself: what an op on lanes sees. */
static inline const tc_type *tc_type_elem(const tc_type *t)
{
    return t->kind == TC_TILE ? t->elem : t;
}
bool tc_type_is_scalar(const tc_type *t);  /* element kinds, TYPE_PARAM, PTR */
bool tc_type_is_float(const tc_type *t);   /* of the element; TYPE_PARAM too */
bool tc_type_is_int(const tc_type *t);     /* i8 to i64, TYPE_PARAM too */
bool tc_type_is_bool(const tc_type *t);    /* i1 */
bool tc_type_is_generic(const tc_type *t); /* some name is left in it */
/* Sides of a tile or buffer as numbers, which they must be. */
void tc_type_sides(const tc_type *t, int32_t sides[TC_MAX_RANK]);
/* Can bits of an element a be those of an element b? A pointer's are an i64. */
bool tc_type_may_bitcast(const tc_type *a, const tc_type *b);
/* The type of the elements that a block pointer, a pointer or a tile of
 * pointers points to, in its shape. */
const tc_type *tc_type_pointee(tc_context *cx, const tc_type *t);
/* "[:, none]": the index that gives a tile new axes so that it broadcasts to
 * one of more axes; NULL where none does. */
const char *tc_type_index_to(tc_arena *a, const tc_type *from,
                             const tc_type *to);
/* Both scalars, or both tiles (or both else) of the same sides. */
bool tc_type_same_sides(const tc_type *a, const tc_type *b);
/* The same sides in the same layout. */
bool tc_type_same_shape(const tc_type *a, const tc_type *b);
/* Number of elements of a tile with known sides, 1 of a scalar; -1 if not
 * known or above 2^31 - 1. */
int64_t tc_type_count(const tc_type *t);
/* From an element to the next one along an axis, in elements, of such a tile
 * in row-major order. */
int64_t tc_type_stride(const tc_type *t, unsigned axis);
/* The element of a tensor, tile, pointer or block pointer (of a tile of
 * pointers: of what they point to), else the type itself, is such. */
bool tc_type_is_stored(const tc_type *t);
/* Bytes of one stored element (i1 is 1, of 4 bits 1, pointers 8). */
unsigned tc_type_bytes(const tc_type *elem);
/* Buffers in shared memory, and the slots of a ring, start at multiples of
 * this: the swizzles' xors stay below it. */
enum { TC_SMEM_ALIGN = 128 };
/* From one slot of a ring to the next (of a plain buffer: its size), and of
 * all slots together. */
uint32_t tc_smem_slot_bytes(const tc_type *smem);
uint32_t tc_smem_bytes(const tc_type *smem);

const tc_dim *tc_dim_const(tc_context *cx, int64_t value);
const tc_dim *tc_dim_param(tc_context *cx, const char *name);
const tc_dim *tc_dim_sms(tc_context *cx);
/* Folds constants; the rules of the scalar ops hold (i64, wraps). */
const tc_dim *tc_dim_binary(tc_context *cx, tc_dim_kind kind, const tc_dim *a,
                            const tc_dim *b);
/* -1 where it is not a constant (or is negative). */
int64_t tc_dim_value(const tc_dim *d);
bool tc_dim_is(const tc_dim *d, int64_t value);

/* Replaces names by what they are bound to (a NULL binding stays). */
typedef struct tc_bindings {
    unsigned n;
    const char **names;    /* interned */
    const tc_dim **dims;   /* value of an int parameter, else NULL */
    const tc_type **types; /* value of a type parameter, else NULL */
} tc_bindings;
const tc_dim *tc_dim_substitute(tc_context *cx, const tc_dim *d,
                                const tc_bindings *b);
const tc_type *tc_type_substitute(tc_context *cx, const tc_type *t,
                                  const tc_bindings *b);

/* Matches `pattern` (which may hold names) with `actual`, adding bindings for
 * names not bound yet to the arrays of `b` (which must have room for all of
 * b->names; they are written through). False where they do not match; nothing
 * is reported. A dim that is an expression is compared after substitution. */
bool tc_type_unify(tc_context *cx, const tc_type *pattern,
                   const tc_type *actual, tc_bindings *b);

/* Text: `tile<128x64 x f32>`, `BM`, `(cdiv(D, 16) * 16)`. */
void tc_type_print(tc_text *out, const tc_type *t);
void tc_dim_print(tc_text *out, const tc_dim *d);
/* For messages; lives until the diagnostics are cleared. */
const char *tc_type_name(tc_context *cx, const tc_type *t);

#endif
