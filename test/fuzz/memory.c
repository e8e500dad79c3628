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

const stored_info stored_infos[STORED_COUNT] = {
    [STORED_U8] = {"u8", NUM_I8, false, false},
    [STORED_U16] = {"u16", NUM_I16, false, false},
    [STORED_U32] = {"u32", NUM_I32, false, false},
    [STORED_F8E8M0] = {"f8e8m0", NUM_I8, false, true},
    [STORED_I4] = {"i4", NUM_I8, true, false},
    [STORED_U4] = {"u4", NUM_I8, true, false},
    [STORED_F4E2M1] = {"f4e2m1", NUM_I8, true, true}};

static num_tensor stored_new(stored_type s, int32_t rows, int32_t columns)
{
    const stored_info *info = &stored_infos[s];
    int32_t size[] = {rows, info->packed ? (columns + 1) / 2 : columns};
    return num_tensor_new(info->holds, 2, size, NULL);
}

static void fill_inputs(memory *m, num_rng *r)
{
    for (int64_t i = 0, n = num_count(&m->fa); i < n; i++) {
        num_write(NUM_F32, num_at(&m->fa, i), any_float(r));
        num_write(NUM_I32, num_at(&m->ia, i), any_int(r));
    }
    for (int s = 0; s < STORED_COUNT; s++)
        for (int64_t i = 0, n = num_count(&m->in[s]); i < n; i++) {
            uint64_t code = num_next(r);
            memcpy(num_at(&m->in[s], i), &code, num_bytes(m->in[s].type));
        }
}

memory memory_new(const program *p, uint64_t seed)
{
    num_rng r = {seed};
    int32_t size[] = {PROGRAM_ROWS, PROGRAM_COLUMNS};
    memory m = {.fa = num_tensor_new(NUM_F32, 2, size, NULL),
                .ia = num_tensor_new(NUM_I32, 2, size, NULL),
                .n = num_between(&r, -1, 5),
                .x = num_between(&r, -8, 8) / 4.0};
    for (int t = 0; t <= NUM_TYPE_COUNT; t++) {
        num_type type = t < NUM_TYPE_COUNT ? (num_type)t : NUM_F32;
        int slots = t < NUM_TYPE_COUNT ? p->slots[t] : p->rough;
        m.out[t] =
            num_tensor_new(type, 2, (int32_t[]){PROGRAM_GRID, slots}, NULL);
    }
    for (int s = 0; s < STORED_COUNT; s++) {
        stored_type t = (stored_type)s;
        m.in[s] = stored_new(t, PROGRAM_ROWS, PROGRAM_COLUMNS);
        m.out[NUM_TYPE_COUNT + 1 + s] =
            stored_new(t, PROGRAM_GRID, p->stored[s]);
    }
    fill_inputs(&m, &r);
    return m;
}

void memory_free(memory *m)
{
    num_tensor_free(&m->fa);
    num_tensor_free(&m->ia);
    for (int t = 0; t < NOUTPUTS; t++)
        num_tensor_free(&m->out[t]);
    for (int s = 0; s < STORED_COUNT; s++)
        num_tensor_free(&m->in[s]);
}

/* The tensor of argument `at`; NULL: a scalar. *stored: its storage type, or
 * STORED_COUNT. */
static const num_tensor *tensor_of(const memory *m, int at, int *stored)
{
    enum {
        FIRST = 4,
        IN = FIRST + NUM_TYPE_COUNT + 1,
        OUT = IN + STORED_COUNT
    };
    *stored = at < IN ? STORED_COUNT : at < OUT ? at - IN : at - OUT;
    if (at < FIRST)
        return at == 0 ? &m->fa : at == 1 ? &m->ia : NULL;
    return at < IN    ? &m->out[at - FIRST]
           : at < OUT ? &m->in[*stored]
                      : &m->out[NUM_TYPE_COUNT + 1 + *stored];
}

void memory_arguments(const memory *m, tc_launch_arg args[NARGS])
{
    int stored;
    for (int i = 0; i < NARGS; i++) {
        const num_tensor *t = tensor_of(m, i, &stored);
        args[i] = (tc_launch_arg){0};
        if (t)
            args[i] = (tc_launch_arg){
                .sizes = t->size, .strides = t->stride, .data = t->data};
    }
    args[2].scalar.i = m->n;
    args[3].scalar.f = m->x;
}

void memory_launch(const memory *m, run_view views[NARGS],
                   tilec_argument args[NARGS])
{
    int stored;
    for (int i = 0; i < NARGS; i++) {
        const num_tensor *t = tensor_of(m, i, &stored);
        if (!t)
            continue;
        args[i] = tilec_tensor(NULL, run_view_of(&views[i], t));
        if (stored < STORED_COUNT)
            views[i].dl.dtype.code = kDLUInt;
    }
    args[2] = tilec_int(NULL, m->n);
    args[3] = tilec_float(NULL, m->x);
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
        int stored = t - NUM_TYPE_COUNT - 1;
        for (int64_t i = 0, n = num_count(x); i < n; i++) {
            const void *p = num_at(x, i), *q = num_at(y, i);
            if (t == NUM_TYPE_COUNT ? same_rough(p, q)
                                    : same_exact(x->type, p, q))
                continue;
            snprintf(text, 160, "%s[%d, %d]: %.9g, unoptimised %.9g",
                     stored >= 0           ? stored_infos[stored].name
                     : t == NUM_TYPE_COUNT ? "rough"
                                           : num_name(x->type),
                     (int)(i / x->size[1]), (int)(i % x->size[1]),
                     num_read(x->type, q), num_read(x->type, p));
            return text;
        }
    }
    return NULL;
}
