/* SPDX-License-Identifier: Apache-2.0 */
#include "test/numerics/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* The part of a row's sum that is of keys. */
static double join_sink(double sink, double *lse)
{
    double of_keys = *lse;
    if (sink == -INFINITY || of_keys == -INFINITY) {
        *lse = sink == -INFINITY ? of_keys : sink;
        return 1;
    }
    double max = fmax(of_keys, sink);
    *lse = isnan(sink)   ? sink
           : isinf(sink) ? sink
                         : max + log1p(exp(-fabs(of_keys - sink)));
    return exp(of_keys - *lse);
}

/* Returns the largest score. */
static double attend_row(const ref_attention *a, const row_inputs *in,
                         double sink, double *p, double *o, double *lse)
{
    double max = -INFINITY, sum = 0;
    for (int k = 0; k < in->keys; k++)
        max = fmax(max, p[k]);
    for (int d = 0; d < in->value_dim; d++)
        o[d] = 0;
    *lse = sink;
    if (max == -INFINITY)
        return max;
    for (int k = 0; k < in->keys; k++) {
        if (p[k] == -INFINITY)
            continue;
        double w = exp(p[k] - max);
        sum += w;
        w = a->weight ? a->weight(w) : w;
        for (int d = 0; d < in->value_dim; d++)
            o[d] += w * in->v[(int64_t)k * in->value_dim + d];
    }
    *lse = max + log(sum);
    double part = join_sink(sink, lse);
    for (int d = 0; d < in->value_dim; d++)
        o[d] = isinf(o[d]) ? o[d] : o[d] * part / sum;
    return max;
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
                double sink = a->sinks ? a->sinks[at.h] : -INFINITY;
                double max =
                    attend_row(a, &in, sink, p, o + row * value_dim, lse + row);
                if (a->max)
                    a->max[row] = max;
            }
    free(q);
    free(k);
    free(v);
    free(p);
}

/* One row's gradients. */
typedef struct row_gradients {
    row_inputs in;
    const double *o, *dout;
    double lse, dlse, sink;
    double *dq, *dk, *dv, *dq_size, *dk_size, *dv_size;
    double *dsink, *dsink_size;
} row_gradients;

static double slope_of(const ref_attention *a, double s, const ref_position *at)
{
    double h = 1e-5 * fmax(1, fabs(s));
    double up = a->score(s + h, at), down = a->score(s - h, at);
    return (up - down) / (2 * h);
}

static void add(double *sum, double *size, double by, const double *x, int n)
{
    for (int d = 0; d < n; d++)
        sum[d] += by * x[d];
    for (int d = 0; d < n && size; d++)
        size[d] += fabs(by * x[d]);
}

static double product(const double *x, const double *y, int n)
{
    double sum = 0;
    for (int d = 0; d < n; d++)
        sum += x[d] * y[d];
    return sum;
}

static double product_size(const double *x, const double *y, int n)
{
    double sum = 0;
    for (int d = 0; d < n; d++)
        sum += fabs(x[d] * y[d]);
    return sum;
}

/* `size` is that of ds, without what cancels. */
static void add_pair(const ref_attention *a, const row_gradients *g, int key,
                     double ds, double size)
{
    int64_t dim = g->in.dim;
    const double *k = g->in.k + key * dim;
    add(g->dq, NULL, a->scale * ds, k, (int)dim);
    add(g->dk + key * dim, NULL, a->scale * ds, g->in.q, (int)dim);
    for (int d = 0; d < dim; d++) {
        g->dq_size[d] += fabs(a->scale * size * k[d]);
        g->dk_size[key * dim + d] += fabs(a->scale * size * g->in.q[d]);
    }
}

static void backward_row(const ref_attention *a, row_gradients *g,
                         ref_position at)
{
    int width = g->in.value_dim;
    double delta = product(g->o, g->dout, width) - g->dlse;
    /* d lse / d sink = p, d o / d sink = -p o */
    double p_sink = g->sink == g->lse ? 1 : exp(g->sink - g->lse);
    if (g->sink > -INFINITY) {
        *g->dsink -= p_sink * delta;
        *g->dsink_size +=
            p_sink * (product_size(g->o, g->dout, width) + fabs(g->dlse));
    }
    for (at.k = 0; at.k < g->in.keys; at.k++) {
        at.data = a->mask_data;
        if (a->mask && !a->mask(&at))
            continue;
        const double *v = g->in.v + (int64_t)at.k * width;
        double raw =
            a->scale *
            product(g->in.q, g->in.k + (int64_t)at.k * g->in.dim, g->in.dim);
        at.data = a->score_data;
        double s = a->score ? a->score(raw, &at) : raw;
        if (s == -INFINITY)
            continue;
        double p = exp(s - g->lse), dp = product(g->dout, v, width);
        double slope = a->score ? slope_of(a, raw, &at) : 1;
        int64_t at_v = (int64_t)at.k * width;
        add(g->dv + at_v, g->dv_size + at_v, p, g->dout, width);
        add_pair(a, g, at.k, p * (dp - delta) * slope,
                 p * (fabs(dp) + fabs(delta)) * fmax(1, fabs(slope)));
    }
}

typedef struct all_inputs {
    double *q, *k, *v, *o, *lse, *dout, *dlse;
} all_inputs;

static void backward_head(const ref_attention *a, const ref_gradients *g,
                          const all_inputs *x, ref_position at)
{
    const int32_t *qs = a->q->size, *ks = a->k->size;
    int64_t dim = qs[3], width = a->v->size[3];
    int64_t head = (int64_t)at.b * ks[1] + at.h / (qs[1] / ks[1]);
    int64_t key = head * ks[2], row = ((int64_t)at.b * qs[1] + at.h) * qs[2];
    for (at.q = 0; at.q < qs[2]; at.q++, row++) {
        row_gradients r = {{x->q + row * dim, x->k + key * dim,
                            x->v + key * width, ks[2], (int)dim, (int)width},
                           x->o + row * width,
                           x->dout + row * width,
                           x->lse[row],
                           x->dlse ? x->dlse[row] : 0,
                           a->sinks ? a->sinks[at.h] : -INFINITY,
                           g->dq + row * dim,
                           g->dk + key * dim,
                           g->dv + key * width,
                           g->dq_size + row * dim,
                           g->dk_size + key * dim,
                           g->dv_size + key * width,
                           g->dsinks + at.h,
                           g->dsinks_size + at.h};
        backward_row(a, &r, at);
    }
}

static void zero(double *x, double *y, const num_tensor *like)
{
    size_t bytes = (size_t)num_count(like) * sizeof *x;
    memset(x, 0, bytes);
    memset(y, 0, bytes);
}

void ref_attention_backward(const ref_attention *a, const ref_gradients *g)
{
    all_inputs x = {num_tensor_read(a->q),
                    num_tensor_read(a->k),
                    num_tensor_read(a->v),
                    num_tensor_read(g->o),
                    num_tensor_read(g->lse),
                    num_tensor_read(g->dout),
                    g->dlse ? num_tensor_read(g->dlse) : NULL};
    zero(g->dq, g->dq_size, a->q);
    zero(g->dk, g->dk_size, a->k);
    zero(g->dv, g->dv_size, a->v);
    for (int h = 0; a->sinks && h < a->q->size[1]; h++)
        g->dsinks[h] = g->dsinks_size[h] = 0;
    ref_position at = {.q_len = a->q->size[2], .k_len = a->k->size[2]};
    for (at.b = 0; at.b < a->q->size[0]; at.b++)
        for (at.h = 0; at.h < a->q->size[1]; at.h++)
            backward_head(a, g, &x, at);
    double *all[] = {x.q, x.k, x.v, x.o, x.lse, x.dout, x.dlse};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
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
