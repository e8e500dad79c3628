/* SPDX-License-Identifier: Apache-2.0 */
#include "test/numerics/reference.h"

#include <math.h>
#include <stdlib.h>

/* Attention of one query row; p has room for all keys. */
typedef struct row_inputs {
    const double *q, *k, *v;
    int keys, dim, value_dim;
} row_inputs;

static void score_row(const ref_attention *a, const row_inputs *in,
                      ref_position at, double *p)
{
    for (at.k = 0; at.k < in->keys; at.k++) {
        at.data = a->mask_data;
        if (a->mask && !a->mask(&at)) {
            p[at.k] = -INFINITY;
            continue;
        }
        const double *k = in->k + (int64_t)at.k * in->dim;
        double s = 0;
        for (int d = 0; d < in->dim; d++)
            s += in->q[d] * k[d];
        s *= a->scale;
        at.data = a->score_data;
        p[at.k] = a->score ? a->score(s, &at) : s;
    }
}

static void attend_row(const row_inputs *in, double *p, double *o, double *lse)
{
    double max = -INFINITY, sum = 0;
    for (int k = 0; k < in->keys; k++)
        max = fmax(max, p[k]);
    for (int d = 0; d < in->value_dim; d++)
        o[d] = 0;
    *lse = -INFINITY;
    if (max == -INFINITY)
        return;
    for (int k = 0; k < in->keys; k++) {
        if (p[k] == -INFINITY)
            continue;
        double w = exp(p[k] - max);
        sum += w;
        for (int d = 0; d < in->value_dim; d++)
            o[d] += w * in->v[(int64_t)k * in->value_dim + d];
    }
    for (int d = 0; d < in->value_dim; d++)
        o[d] /= sum;
    *lse = max + log(sum);
}

void ref_attention_forward(const ref_attention *a, double *o, double *lse)
{
    const int32_t *qs = a->q->size, *ks = a->k->size;
    int rows = qs[2], keys = ks[2], dim = qs[3], value_dim = a->v->size[3];
    int group = qs[1] / ks[1];
    double *q = num_tensor_read(a->q), *k = num_tensor_read(a->k);
    double *v = num_tensor_read(a->v);
    double *p = malloc((size_t)(keys + 1) * sizeof *p);
    ref_position at = {.q_len = rows, .k_len = keys};
    for (at.b = 0; at.b < qs[0]; at.b++)
        for (at.h = 0; at.h < qs[1]; at.h++)
            for (at.q = 0; at.q < rows; at.q++) {
                int64_t head = (int64_t)at.b * ks[1] + at.h / group;
                int64_t row = ((int64_t)at.b * qs[1] + at.h) * rows + at.q;
                row_inputs in = {q + row * dim,
                                 k + head * keys * dim,
                                 v + head * keys * value_dim,
                                 keys,
                                 dim,
                                 value_dim};
                score_row(a, &in, at, p);
                attend_row(&in, p, o + row * value_dim, lse + row);
            }
    free(q);
    free(k);
    free(v);
    free(p);
}

void ref_matmul(const num_tensor *a, const num_tensor *b, double *c,
                double *magnitude)
{
    int64_t rows = a->size[0], inner = a->size[1], columns = b->size[1];
    double *x = num_tensor_read(a), *y = num_tensor_read(b);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            double sum = 0, size = 0;
            for (int64_t l = 0; l < inner; l++) {
                sum += x[i * inner + l] * y[l * columns + j];
                size += fabs(x[i * inner + l] * y[l * columns + j]);
            }
            c[i * columns + j] = sum;
            if (magnitude)
                magnitude[i * columns + j] = size;
        }
    free(x);
    free(y);
}

void ref_softmax(const num_tensor *x, double *y)
{
    int64_t rows = x->size[0], n = x->size[1];
    double *in = num_tensor_read(x);
    for (int64_t i = 0; i < rows; i++) {
        double max = -INFINITY, sum = 0;
        for (int64_t j = 0; j < n; j++)
            max = fmax(max, in[i * n + j]);
        for (int64_t j = 0; j < n; j++)
            sum += y[i * n + j] = exp(in[i * n + j] - max);
        for (int64_t j = 0; j < n; j++)
            y[i * n + j] /= sum;
    }
    free(in);
}

void ref_layernorm(const num_tensor *x, const num_tensor *weight,
                   const num_tensor *bias, double eps, double *y)
{
    int64_t rows = x->size[0], n = x->size[1];
    double *in = num_tensor_read(x), *w = num_tensor_read(weight);
    double *b = num_tensor_read(bias);
    for (int64_t i = 0; i < rows; i++) {
        double mean = 0, variance = 0;
        for (int64_t j = 0; j < n; j++)
            mean += in[i * n + j] / (double)n;
        for (int64_t j = 0; j < n; j++)
            variance += pow(in[i * n + j] - mean, 2) / (double)n;
        for (int64_t j = 0; j < n; j++)
            y[i * n + j] =
                (in[i * n + j] - mean) / sqrt(variance + eps) * w[j] + b[j];
    }
    free(in);
    free(w);
    free(b);
}
