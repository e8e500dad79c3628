/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/overlap.h"

int64_t tc_view_stride(const DLTensor *t, int dim)
{
    int64_t stride = 1;
    if (t->strides)
        return t->strides[dim];
    for (int d = t->ndim - 1; d > dim; d--)
        stride *= t->shape[d];
    return stride;
}

bool tc_view_reach(const DLTensor *t, int64_t *low, int64_t *high)
{
    *low = *high = 0;
    for (int d = 0; d < t->ndim; d++) {
        int64_t far;
        if (t->shape[d] <= 0)
            return false;
        far = (t->shape[d] - 1) * tc_view_stride(t, d);
        *(far < 0 ? low : high) += far;
    }
    return true;
}

/* ---- Which bytes ---- */

typedef struct span {
    uintptr_t first, low, end; /* of the first element; of all */
    bool is_dense;             /* it has every byte between */
} span;

static uintptr_t address_of(const DLTensor *t)
{
    return (uintptr_t)t->data + t->byte_offset;
}

/* False: there are none. */
static bool find_span(const DLTensor *t, span *s)
{
    int64_t low, high, count = 1, size = t->dtype.bits / 8;
    if (!t->data || !tc_view_reach(t, &low, &high))
        return false;
    for (int d = 0; d < t->ndim; d++)
        if (__builtin_mul_overflow(count, t->shape[d], &count))
            return false;
    s->first = address_of(t);
    s->low = s->first + (uintptr_t)(low * size);
    s->end = s->first + (uintptr_t)((high + 1) * size);
    s->is_dense = count == high - low + 1;
    return true;
}

static bool contains(const span *s, uintptr_t address)
{
    return address >= s->low && address < s->end;
}

/* Surely: views of one tensor may lie between each other's rows. */
static bool overlap(const DLTensor *a, const DLTensor *b)
{
    span x, y;
    if (!find_span(a, &x) || !find_span(b, &y))
        return false;
    return x.first == y.first || (x.is_dense && contains(&x, y.first)) ||
           (y.is_dense && contains(&y, x.first)) ||
           (x.is_dense && y.is_dense && x.low < y.end && y.low < x.end);
}

static bool are_same(const DLTensor *a, const DLTensor *b)
{
    bool same = address_of(a) == address_of(b) && a->ndim == b->ndim &&
                a->dtype.bits == b->dtype.bits;
    for (int d = 0; same && d < a->ndim; d++)
        same = a->shape[d] == b->shape[d] &&
               tc_view_stride(a, d) == tc_view_stride(b, d);
    return same;
}

/* ---- What is refused ---- */

/* The first dim along which elements are one; -1: none. */
static int repeated_dim(const DLTensor *t)
{
    int64_t low, high;
    bool has_any = tc_view_reach(t, &low, &high);
    for (int d = 0; has_any && d < t->ndim; d++)
        if (t->shape[d] > 1 && tc_view_stride(t, d) == 0)
            return d;
    return -1;
}

tilec_status tc_check_written(const tc_named_tensor *written,
                              const tc_named_tensor *others, int n,
                              const DLTensor *in_place, tilec_error *error)
{
    const DLTensor *t = written->tensor;
    int repeated = t && t->shape ? repeated_dim(t) : -1;
    if (!t || !t->shape)
        return TILEC_OK;
    if (repeated >= 0)
        return tc_fail(error, TILEC_INPUT,
                       "%s: dim %d has stride 0 and size %lld, so that its "
                       "elements are one: expected memory for each, as it is "
                       "written",
                       written->name, repeated, (long long)t->shape[repeated]);
    for (int i = 0; i < n; i++) {
        const DLTensor *other = others[i].tensor;
        if (other && other->shape && overlap(t, other) &&
            !(other == in_place && are_same(t, other)))
            return tc_fail(error, TILEC_INPUT,
                           "%s: overlaps %s in memory: expected memory of its "
                           "own, as it is written",
                           written->name, others[i].name);
    }
    return TILEC_OK;
}
