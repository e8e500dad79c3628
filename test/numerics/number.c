/* SPDX-License-Identifier: Apache-2.0 */
#include "test/numerics/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Floats narrower than f32: sign, exponent with `bias`, mantissa. e4m3 has no
 * infinity and one NaN a sign (all ones), hence its own largest value. */
static const struct type_info {
    const char *name;
    size_t bytes;
    int mantissa, bias;
    double max;
    uint64_t nan;
    bool saturates;
} infos[NUM_TYPE_COUNT] = {
    [NUM_I1] = {"i1", 1, 0, 0, 0, 0, false},
    [NUM_I8] = {"i8", 1, 0, 0, 0, 0, false},
    [NUM_I16] = {"i16", 2, 0, 0, 0, 0, false},
    [NUM_I32] = {"i32", 4, 0, 0, 0, 0, false},
    [NUM_I64] = {"i64", 8, 0, 0, 0, 0, false},
    [NUM_F8E4M3] = {"f8e4m3", 1, 3, 7, 448, 0x7f, true},
    [NUM_F8E5M2] = {"f8e5m2", 1, 2, 15, 57344, 0x7e, true},
    [NUM_F16] = {"f16", 2, 10, 15, 65504, 0x7e00, false},
    [NUM_BF16] = {"bf16", 2, 7, 127, 0x1.FEp127, 0x7fc0, false},
    [NUM_F32] = {"f32", 4, 0, 0, 0, 0, false},
    [NUM_F64] = {"f64", 8, 0, 0, 0, 0, false},
};

const char *num_name(num_type t)
{
    return infos[t].name;
}

size_t num_bytes(num_type t)
{
    return infos[t].bytes;
}

bool num_is_float(num_type t)
{
    return t >= NUM_F8E4M3;
}

static double narrow_from_bits(num_type t, uint64_t bits)
{
    const struct type_info *f = &infos[t];
    int width = (int)f->bytes * 8;
    bool negative = bits >> (width - 1) & 1;
    int exponent_mask = (1 << (width - 1 - f->mantissa)) - 1;
    int exponent = (int)(bits >> f->mantissa) & exponent_mask;
    int mantissa = (int)(bits & ((1u << f->mantissa) - 1));
    double x;
    if (t == NUM_F8E4M3 && (bits & 0x7f) == 0x7f)
        x = NAN;
    else if (t != NUM_F8E4M3 && exponent == exponent_mask)
        x = mantissa ? NAN : INFINITY;
    else if (exponent == 0)
        x = ldexp(mantissa, 1 - f->bias - f->mantissa);
    else
        x = ldexp(mantissa + (1 << f->mantissa),
                  exponent - f->bias - f->mantissa);
    return negative ? -x : x;
}

double num_from_bits(num_type t, uint64_t bits)
{
    if (t == NUM_F64) {
        double x;
        memcpy(&x, &bits, 8);
        return x;
    }
    if (t == NUM_F32) {
        uint32_t narrow = (uint32_t)bits;
        float x;
        memcpy(&x, &narrow, 4);
        return x;
    }
    return narrow_from_bits(t, bits);
}

/* The nearest multiple of the spacing at |x|; ties to even by rint. */
static double narrow_round(const struct type_info *f, double x)
{
    if (isnan(x) || x == 0)
        return x;
    if (isinf(x))
        return f->saturates ? copysign(f->max, x) : x;
    int e;
    frexp(x, &e); /* |x| in [2^(e-1), 2^e) */
    int lowest = 1 - f->bias;
    int spacing = (e - 1 > lowest ? e - 1 : lowest) - f->mantissa;
    double r = copysign(ldexp(rint(ldexp(x, -spacing)), spacing), x);
    if (fabs(r) > f->max)
        return copysign(f->saturates ? f->max : INFINITY, x);
    return r;
}

double num_round(num_type t, double x)
{
    if (t == NUM_F64)
        return x;
    if (t == NUM_F32)
        return (float)x;
    return narrow_round(&infos[t], x);
}

static uint64_t narrow_to_bits(num_type t, double x)
{
    const struct type_info *f = &infos[t];
    int width = (int)f->bytes * 8;
    uint64_t sign = (uint64_t)(signbit(x) != 0) << (width - 1);
    if (isnan(x))
        return f->nan;
    x = fabs(narrow_round(f, x));
    if (isinf(x))
        return sign | (((uint64_t)1 << (width - 1)) - (1u << f->mantissa));
    int e;
    frexp(x, &e);
    int lowest = 1 - f->bias;
    if (x == 0 || e - 1 < lowest)
        return sign | (uint64_t)ldexp(x, f->mantissa - lowest);
    uint64_t mantissa = (uint64_t)ldexp(x, f->mantissa - (e - 1));
    uint64_t exponent = (uint64_t)(e - 1 + f->bias) << f->mantissa;
    return sign | (exponent + mantissa - ((uint64_t)1 << f->mantissa));
}

uint64_t num_to_bits(num_type t, double x)
{
    if (t == NUM_F64) {
        uint64_t bits;
        memcpy(&bits, &x, 8);
        return bits;
    }
    if (t == NUM_F32) {
        float narrow = (float)x;
        uint32_t bits;
        memcpy(&bits, &narrow, 4);
        return bits;
    }
    return narrow_to_bits(t, x);
}

static int64_t read_int(const void *p, size_t bytes)
{
    uint64_t u = 0;
    memcpy(&u, p, bytes);
    unsigned unused = 64 - 8 * (unsigned)bytes;
    return (int64_t)(u << unused) >> unused;
}

double num_half_step(num_type t)
{
    switch (t) {
    case NUM_F16: return 0x1p-11;
    case NUM_BF16: return 0x1p-8;
    case NUM_F8E4M3: return 0x1p-4;
    case NUM_F8E5M2: return 0x1p-3;
    default: return 0;
    }
}

double num_read(num_type t, const void *p)
{
    if (t == NUM_I1)
        return *(const unsigned char *)p != 0;
    if (!num_is_float(t))
        return (double)read_int(p, infos[t].bytes);
    uint64_t bits = 0;
    memcpy(&bits, p, infos[t].bytes);
    return num_from_bits(t, bits);
}

void num_write(num_type t, void *p, double x)
{
    uint64_t bits = num_is_float(t) ? num_to_bits(t, x) : (uint64_t)(int64_t)x;
    memcpy(p, &bits, infos[t].bytes);
}

uint64_t num_next(num_rng *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

int num_below(num_rng *r, int n)
{
    return (int)((num_next(r) >> 32) * (uint64_t)n >> 32);
}

int num_between(num_rng *r, int a, int b)
{
    return a + num_below(r, b - a + 1);
}

double num_uniform(num_rng *r)
{
    return (double)(num_next(r) >> 11) * 0x1p-53;
}

double num_normal(num_rng *r)
{
    double radius = sqrt(-2 * log(1 - num_uniform(r)));
    return radius * cos(6.283185307179586 * num_uniform(r));
}

/* 0xff everywhere is NaN in every float type and -1 in the ints. */
enum { POISON = 0xff };

num_tensor num_tensor_new(num_type type, int rank, const int32_t *size,
                          const num_layout *layout)
{
    num_tensor t = {.type = type, .rank = rank};
    int64_t extent = 1, first = 0;
    for (int i = rank - 1; i >= 0; i--) {
        int d = layout ? layout->order[i] : i;
        int before = layout ? layout->before[d] : 0;
        int behind = layout ? layout->behind[d] : 0;
        t.size[d] = size[d];
        t.stride[d] = extent;
        first += before * extent;
        extent *= before + size[d] + behind;
    }
    t.bytes = (size_t)extent * num_bytes(type);
    t.memory = malloc(t.bytes + 1);
    memset(t.memory, POISON, t.bytes + 1);
    t.data = t.memory + (size_t)first * num_bytes(type);
    return t;
}

void num_tensor_free(num_tensor *t)
{
    free(t->memory);
    t->memory = NULL;
}

int64_t num_count(const num_tensor *t)
{
    int64_t n = 1;
    for (int d = 0; d < t->rank; d++)
        n *= t->size[d];
    return n;
}

void *num_at(const num_tensor *t, int64_t index)
{
    int64_t offset = 0;
    for (int d = t->rank - 1; d >= 0; d--) {
        offset += index % t->size[d] * t->stride[d];
        index /= t->size[d];
    }
    return t->data + offset * (int64_t)num_bytes(t->type);
}

bool num_tensor_intact(const num_tensor *t)
{
    unsigned char *inside = calloc(t->bytes + 1, 1);
    size_t width = num_bytes(t->type);
    for (int64_t i = 0, n = num_count(t); i < n; i++)
        memset(inside + ((unsigned char *)num_at(t, i) - t->memory), 1, width);
    bool intact = true;
    for (size_t i = 0; i < t->bytes; i++)
        intact &= inside[i] || t->memory[i] == POISON;
    free(inside);
    return intact;
}

double *num_tensor_read(const num_tensor *t)
{
    int64_t n = num_count(t);
    double *x = malloc((size_t)(n + 1) * sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = num_read(t->type, num_at(t, i));
    return x;
}

/* The difference that counts: equal infinities and two NaNs do not differ. */
static double difference(double got, double want)
{
    if (got == want || (isnan(got) && isnan(want)))
        return 0;
    double d = fabs(got - want);
    return isnan(d) ? INFINITY : d;
}

static double square_of_finite(double x)
{
    return isfinite(x) ? x * x : 0;
}

/* The norm that a row's error is measured by. What is left of a row next to
 * infinities and NaNs may be small by chance: then an average row's. */
static double row_scale(const double *want, int64_t width, double mean_square)
{
    double sum = 0;
    bool whole = true;
    for (int64_t i = 0; i < width; i++) {
        sum += square_of_finite(want[i]);
        whole &= isfinite(want[i]);
    }
    return whole ? sum : fmax(sum, mean_square * (double)width);
}

num_error num_compare(const double *got, const double *want, int64_t n,
                      int64_t width)
{
    num_error e = {0, 0, 0};
    double sum = 0, norm = 0;
    for (int64_t i = 0; i < n; i++)
        norm += square_of_finite(want[i]);
    for (int64_t row = 0; row * width < n; row++) {
        double row_sum = 0;
        for (int64_t i = row * width; i < (row + 1) * width; i++) {
            double d = difference(got[i], want[i]);
            row_sum += d * d;
            e.absolute = fmax(e.absolute, d);
        }
        double scale = row_scale(want + row * width, width, norm / (double)n);
        if (row_sum > 0)
            e.worst_row = fmax(e.worst_row, sqrt(row_sum / scale));
        sum += row_sum;
    }
    e.overall = sum > 0 ? sqrt(sum / norm) : 0;
    return e;
}
