/* SPDX-License-Identifier: Apache-2.0
 *
 * How random programs (program.h) are written: values that exist so far,
 * statements that make more of them.
 */
#ifndef TEST_GEN_H
#define TEST_GEN_H

#include "test/fuzz/program.h"

#include <stdio.h>

enum { MAX_VALUES = 400, MAX_RANK = 3, MAX_DEPTH = 3, GEN_SHAPES = 13 };

/* rank 0: a scalar. */
typedef struct shape {
    int rank, side[MAX_RANK];
} shape;

typedef struct value {
    char name[12];
    num_type type;
    shape shape;
} value;

typedef struct function {
    num_type params[2], result;
} function;

typedef struct gen {
    num_rng rng;
    FILE *out;
    int depth, next, nvalues, indent;
    bool in_function;
    bool is_pure; /* no effects here: programs share what follows */
    value values[MAX_VALUES];
    function functions[2];
    program p;
} gen;

/* ---- gen.c: text, types and values ---- */

/* The first is a scalar's. */
extern const shape gen_shapes[GEN_SHAPES];
bool gen_shape_is(shape a, shape b);
int gen_shape_count(shape s);
void gen_line(gen *g, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
const char *gen_type_text(num_type t, shape s);
value gen_fresh(gen *g, num_type t, shape s);
value gen_keep(gen *g, value v);
num_type gen_any_type(gen *g);
shape gen_any_shape(gen *g);
value gen_whole(gen *g, int n);
value gen_cast_to(gen *g, value from, num_type t);
value gen_splat_to(gen *g, value scalar, shape s);
value gen_need(gen *g, num_type t, shape s);
value gen_small(gen *g, num_type t, shape s, int mask);

/* ---- gen_ops.c: statements of one op on values ---- */

void gen_binary(gen *g);
void gen_unary(gen *g);
void gen_fma(gen *g);
void gen_compare(gen *g);
void gen_select(gen *g);
void gen_cast(gen *g);
void gen_bitcast(gen *g);
void gen_range(gen *g);
void gen_expand(gen *g);
void gen_broadcast(gen *g);
void gen_trans(gen *g);
void gen_reshape(gen *g);
void gen_slice(gen *g);
void gen_join(gen *g);
void gen_reduce(gen *g);
void gen_scan(gen *g);
void gen_scan_maps(gen *g);
void gen_sort(gen *g);
void gen_take(gen *g);
void gen_histogram(gen *g);
void gen_argmax(gen *g);
void gen_dot(gen *g);
void gen_ramp(gen *g);
void gen_axis(gen *g);

/* ---- gen_memory.c: statements that load, store and call ---- */

void gen_load(gen *g);
void gen_gather(gen *g);
void gen_load_windows(gen *g);
void gen_load_pointers(gen *g);
void gen_call(gen *g);
void gen_store(gen *g);
void gen_rough(gen *g);
void gen_print(gen *g);
void gen_store_value(gen *g, value v);

/* ---- gen_effects.c: statements with effects that are no stores ---- */

void gen_atomic(gen *g);
void gen_promise(gen *g);
void gen_exit(gen *g);

/* ---- gen_storage.c ---- */

void gen_stored(gen *g);

#endif
