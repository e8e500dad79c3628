/* SPDX-License-Identifier: Apache-2.0 */
#include "test/fuzz/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static double any_float(num_rng *r)
{
    static const double edges[] = {0.0,      -0.0,      1,   -1,
                                   INFINITY, -INFINITY, NAN, 0.5,
                                   3.4e38,   1e-40,     448, 65504};
    return num_below(r, 4) ? 8 * num_normal(r) : edges[num_below(r, 12)];
}

static double any_int(num_rng *r)
{
    static const double edges[] = {0,  1,  -1,  2147483647, -2147483648.0,
                                   31, 32, 127, -128,       65535};
    return num_below(r, 4) ? num_between(r, -100, 100)
                           : edges[num_below(r, 10)];
}

memory memory_new(const program *p, uint64_t seed)
{
    num_rng r = {seed};
    int32_t size[] = {PROGRAM_ROWS, PROGRAM_COLUMNS};
    memory m = {.fa = num_tensor_new(NUM_F32, 2, size, NULL),
                .ia = num_tensor_new(NUM_I32, 2, size, NULL),
                .n = num_between(&r, -1, 5),
                .x = num_between(&r, -8, 8) / 4.0};
    for (int64_t i = 0, n = num_count(&m.fa); i < n; i++) {
        num_write(NUM_F32, num_at(&m.fa, i), any_float(&r));
        num_write(NUM_I32, num_at(&m.ia, i), any_int(&r));
    }
    for (int t = 0; t < NOUTPUTS; t++) {
        num_type type = t < NUM_TYPE_COUNT ? (num_type)t : NUM_F32;
        int slots = t < NUM_TYPE_COUNT ? p->slots[t] : p->rough;
        m.out[t] =
            num_tensor_new(type, 2, (int32_t[]){PROGRAM_GRID, slots}, NULL);
    }
    return m;
}

void memory_free(memory *m)
{
    num_tensor_free(&m->fa);
    num_tensor_free(&m->ia);
    for (int t = 0; t < NOUTPUTS; t++)
        num_tensor_free(&m->out[t]);
}

static tc_launch_arg argument_of(const num_tensor *t)
{
    return (tc_launch_arg){
        .sizes = t->size, .strides = t->stride, .data = t->data};
}

void memory_arguments(const memory *m, tc_launch_arg args[NARGS])
{
    args[0] = argument_of(&m->fa);
    args[1] = argument_of(&m->ia);
    args[2] = (tc_launch_arg){.scalar.i = m->n};
    args[3] = (tc_launch_arg){.scalar.f = m->x};
    for (int t = 0; t < NOUTPUTS; t++)
        args[4 + t] = argument_of(&m->out[t]);
}

static bool same_exact(num_type t, const void *a, const void *b)
{
    if (memcmp(a, b, num_bytes(t)) == 0)
        return true;
    return num_is_float(t) && isnan(num_read(t, a)) && isnan(num_read(t, b));
}

static bool same_rough(const void *a, const void *b)
{
    double x = num_read(NUM_F32, a), y = num_read(NUM_F32, b);
    return same_exact(NUM_F32, a, b) || fabs(x - y) <= 1e-6 * fabs(x) + 1e-7;
}

const char *memory_difference(const memory *a, const memory *b, char text[160])
{
    for (int t = 0; t < NOUTPUTS; t++) {
        const num_tensor *x = &a->out[t], *y = &b->out[t];
        for (int64_t i = 0, n = num_count(x); i < n; i++) {
            const void *p = num_at(x, i), *q = num_at(y, i);
            if (t < NUM_TYPE_COUNT ? same_exact(x->type, p, q)
                                   : same_rough(p, q))
                continue;
            snprintf(text, 160, "%s[%d, %d]: %.9g, unoptimised %.9g",
                     t < NUM_TYPE_COUNT ? num_name(x->type) : "rough",
                     (int)(i / x->size[1]), (int)(i % x->size[1]),
                     num_read(x->type, q), num_read(x->type, p));
            return text;
        }
    }
    return NULL;
}
