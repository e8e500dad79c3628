/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether attention copies its values first (kernels/attention.tile,
 * @copied_attention).
 *
 * Products of 8-bit numbers read v by columns, each at a multiple of 16 bytes.
 * Another v is transposed on the way to them, or read byte by byte, by each
 * program anew; a copy reads and writes each part once, in about the time that
 * one program takes for it. By bytes each program takes several times as long;
 * with a transposer role next to the products it takes less time than that
 * (claim values-copied).
 */
#include "lib/attention/attention.h"
#include "passes/target/machine_model.h"

static const char pass[] = "attention";

enum {
    ROWS = 128,   /* about the rows of a program */
    OF_MASKED = 2 /* one of so many: blocks are skipped */
};

/* In rows or columns of whole vectors. A type that tilec does not have is for
 * others to refuse. */
static bool is_aligned(const DLTensor *t)
{
    bool known = tc_kind_from_dl(t->dtype) != TC_KIND_COUNT;
    int64_t unit = known ? TC_VECTOR_BYTES * 8 / t->dtype.bits : 1, n = 1;
    int64_t closest = tc_contiguous_dim(t);
    if (((uintptr_t)t->data + t->byte_offset) % TC_VECTOR_BYTES)
        return false;
    for (int i = t->ndim; i-- > 0;) {
        int64_t stride = t->strides ? t->strides[i] : n;
        if (i != closest && t->shape[i] > 1 && stride % unit)
            return false;
        (void)__builtin_mul_overflow(n, t->shape[i], &n);
    }
    return true;
}

static int64_t programs_of_a_part(const tc_attention_request *r, bool is_masked)
{
    const int64_t *q = r->q->shape, *k = r->k->shape;
    int64_t group = k[1] > 0 ? q[1] / k[1] : 0;
    int64_t n = (q[2] + ROWS - 1) / ROWS * group;
    return is_masked ? n / OF_MASKED : n;
}

static bool copies_values(const tc_attention_job *p)
{
    const tc_attention_request *r = p->r;
    const tc_target *t = p->target;
    int wanted = p->tuning.copy_values;
    if (wanted || p->lists.of_queries)
        return wanted > 0 && !p->lists.of_queries;
    bool by_columns = tc_contiguous_dim(r->v) == 2, fits = is_aligned(r->v);
    if (!t || !t->mma_fp8 || r->options.enforce == TILEC_ENFORCE_OFF ||
        !tc_kind_is_f8(tc_kind_from_dl(r->q->dtype)) || !is_aligned(r->q) ||
        !is_aligned(r->k) || (by_columns && fits))
        return false;
    int64_t enough = TC_BYTEWISE_MIN_PROGRAMS;
    if (fits && t->tma && t->stmatrix)
        enough = r->v->shape[3] > TC_WIDE_HEAD ? TC_WIDE_MIN_READERS
                                               : TC_TRANSPOSED_MIN_READERS;
    if (programs_of_a_part(r, p->mods.all[TC_MOD_MASK].wanted) < enough)
        return false;
    tc_remark(p->job->cx, (tc_loc){0}, pass,
              "v is copied first, by columns%s: as products of 8-bit numbers "
              "read it",
              by_columns ? " at multiples of 16 bytes" : "");
    return true;
}

static void say_alignment(const tc_attention_job *p, char name,
                          const DLTensor *t)
{
    if (!is_aligned(t))
        tc_missed(p->job->cx, (tc_loc){0}, pass,
                  "%c does not lie at multiples of 16 bytes (its address, and "
                  "the strides of all dims but the closest): launches with "
                  "such a tensor take the variant for any tensors, which is "
                  "slower",
                  name);
}

bool tc_attention_copies_values(const tc_attention_job *p)
{
    bool copies = copies_values(p);
    if (p->target && tc_target_is_gpu(p->target)) {
        say_alignment(p, 'q', p->r->q);
        say_alignment(p, 'k', p->r->k);
        if (!copies)
            say_alignment(p, 'v', p->r->v);
    }
    return copies;
}
