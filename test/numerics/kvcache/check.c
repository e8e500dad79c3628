/* SPDX-License-Identifier: Apache-2.0
 *
 * What is right: float64 attention of each sequence, its tolerances, and rows
 * that nothing may write.
 */
#include "test/numerics/kvcache/batch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What mods are told of a sequence. */
typedef struct shifted {
    const kv_batch *b;
    int sequence;
} shifted;

static ref_position moved(const ref_position *at)
{
    const shifted *s = at->data;
    ref_position p = *at;
    int first =
        s->b->p->offsets ? s->b->offset[s->sequence] : at->k_len - at->q_len;
    p.b = s->sequence;
    p.q += first;
    p.q_len += first;
    p.data = &s->b->mods;
    return p;
}

static bool mask_at(const ref_position *at)
{
    const shifted *s = at->data;
    ref_position p = moved(at);
    return s->b->p->mask->reference(&p);
}

static double score_at(double x, const ref_position *at)
{
    const shifted *s = at->data;
    ref_position p = moved(at);
    return s->b->p->score->reference(x, &p);
}

/* Each row times its factor. */
static num_tensor times(const num_tensor *x, const num_tensor *factors)
{
    num_tensor y = num_tensor_new(NUM_F64, 4, x->size, NULL);
    for (int64_t i = 0; i < num_count(x); i++)
        kv_set(&y, i,
               num_read(x->type, num_at(x, i)) *
                   num_read(NUM_F32, num_at(factors, i / x->size[3])));
    return y;
}

static void reference(const kv_batch *b, int i, const double *sinks, double *o,
                      double *lse)
{
    shifted s = {b, i};
    num_tensor k = times(&b->k[i], &b->factors[0][i]);
    num_tensor v = times(&b->v[i], &b->factors[1][i]);
    ref_attention a = {.q = &b->q[i],
                       .k = &k,
                       .v = &v,
                       .scale = kv_scale(b->p),
                       .score = b->p->score->reference ? score_at : NULL,
                       .score_data = &s,
                       .mask = b->p->mask->reference ? mask_at : NULL,
                       .mask_data = &s,
                       .sinks = sinks};
    ref_attention_forward(&a, o, lse);
    num_tensor_free(&k);
    num_tensor_free(&v);
}

/* The row-major index of a row of head h in o and lse. */
int64_t kv_row_index(const kv_batch *b, int i, int h, int query)
{
    const kv_problem *p = b->p;
    int z = p->is_ragged ? 0 : i;
    int row = p->is_ragged ? b->first_query[i] + query : query;
    return ((int64_t)z * b->t[LSE].size[1] + h) * b->t[LSE].size[2] + row;
}

static bool is_lse(double got, double want)
{
    return got == want || fabs(got - want) <= 2e-5 + 3e-7 * fabs(want);
}

/* README.md has these. */
static double tolerance(num_type t)
{
    return t == NUM_F32 ? 2e-6 : t == NUM_F16 ? 1e-3 : 3e-3;
}

static bool compare_sequence(const kv_batch *b, int i, const double *o,
                             const double *lse, const double *sinks,
                             char why[256])
{
    const kv_problem *p = b->p;
    int heads = p->hk * p->group, m = b->queries[i], dv = p->dv;
    int64_t n = (int64_t)heads * m;
    double *want = calloc((size_t)(n * dv + 1), sizeof *want);
    double *got = calloc((size_t)(n * dv + 1), sizeof *got);
    double *sums = calloc((size_t)(n + 1), sizeof *sums);
    bool ok = true;
    reference(b, i, sinks, want, sums);
    for (int64_t j = 0; j < n; j++) {
        int64_t row = kv_row_index(b, i, (int)(j / m), (int)(j % m));
        memcpy(got + j * dv, o + row * dv, (size_t)dv * sizeof *got);
        if (ok && !is_lse(lse[row], sums[j])) {
            snprintf(why, 256, "sequence %d, %d keys: lse is %g, should be %g",
                     i, b->keys[i], lse[row], sums[j]);
            ok = false;
        }
    }
    num_error e = num_compare(got, want, n * dv, dv);
    double limit = tolerance(p->type);
    double row = 4 * limit + (sinks ? 128 * 0x1p-23 : 0);
    bool few = n * dv < 256 && p->type != NUM_F32;
    if (ok && !(e.overall <= (few ? row : limit) && e.worst_row <= row)) {
        snprintf(why, 256, "sequence %d, %d keys: error %.2e, worst row %.2e",
                 i, b->keys[i], e.overall, e.worst_row);
        ok = false;
    }
    free(want);
    free(got);
    free(sums);
    return ok;
}

/* Rows of no sequence are as they were: NaN. */
static bool is_rest_untouched(const kv_batch *b, const double *lse)
{
    const kv_problem *p = b->p;
    const num_tensor *t = &b->t[LSE];
    int last = p->seqs - 1;
    int rows =
        p->is_ragged ? b->first_query[last] + b->queries[last] : t->size[2];
    bool ok = true;
    for (int64_t i = 0; i < num_count(t); i++)
        ok &= i % t->size[2] < rows || isnan(lse[i]);
    return ok && num_tensor_intact(&b->t[O]) && num_tensor_intact(t);
}

bool kv_check(const kv_batch *b, char why[256])
{
    double *o = num_tensor_read(&b->t[O]), *lse = num_tensor_read(&b->t[LSE]);
    double *sinks = b->p->sinks ? num_tensor_read(&b->t[SINKS]) : NULL;
    bool ok = is_rest_untouched(b, lse);
    if (!ok)
        snprintf(why, 256, "writes rows of no sequence");
    for (int i = 0; ok && i < b->p->seqs; i++)
        ok = compare_sequence(b, i, o, lse, sinks, why);
    free(o);
    free(lse);
    free(sinks);
    return ok;
}
