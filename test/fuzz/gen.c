/* SPDX-License-Identifier: Apache-2.0
 *
 * Text, types and values of random programs.
 */
#include "test/fuzz/gen.h"

#include <stdarg.h>
#include <string.h>

const shape gen_shapes[GEN_SHAPES] = {
    {0, {0}},      {1, {8}},      {1, {16}},     {2, {8, 16}}, {2, {16, 8}},
    {2, {16, 16}}, {2, {1, 16}},  {2, {8, 1}},   {2, {8, 8}},  {2, {16, 32}},
    {2, {32, 16}}, {2, {24, 40}}, {3, {8, 1, 8}}};

bool gen_shape_is(shape a, shape b)
{
    bool same = a.rank == b.rank;
    for (int i = 0; i < a.rank && same; i++)
        same = a.side[i] == b.side[i];
    return same;
}

int gen_shape_count(shape s)
{
    int n = 1;
    for (int i = 0; i < s.rank; i++)
        n *= s.side[i];
    return n;
}

/* Writing */

void gen_line(gen *g, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fprintf(g->out, "%*s", g->indent, "");
    vfprintf(g->out, fmt, args);
    fputc('\n', g->out);
    va_end(args);
}

const char *gen_type_text(num_type t, shape s)
{
    static _Thread_local char ring[8][64];
    static _Thread_local unsigned next;
    char *text = ring[next++ % 8];
    if (s.rank == 0)
        return num_name(t);
    int n = sprintf(text, "tile<");
    for (int i = 0; i < s.rank; i++)
        n += sprintf(text + n, i ? "x%d" : "%d", s.side[i]);
    sprintf(text + n, " x %s>", num_name(t));
    return text;
}

value gen_fresh(gen *g, num_type t, shape s)
{
    value v = {.type = t, .shape = s};
    snprintf(v.name, sizeof v.name, "%%v%d", g->next++);
    return v;
}

/* Makes the value one that later statements may use. */
value gen_keep(gen *g, value v)
{
    if (g->nvalues < MAX_VALUES)
        g->values[g->nvalues++] = v;
    return v;
}

num_type gen_any_type(gen *g)
{
    static const num_type common[] = {NUM_I32, NUM_F32, NUM_I1, NUM_I64,
                                      NUM_F16};
    return num_below(&g->rng, 2) ? common[num_below(&g->rng, 5)]
                                 : (num_type)num_below(&g->rng, NUM_TYPE_COUNT);
}

shape gen_any_shape(gen *g)
{
    return g->in_function ? gen_shapes[0]
                          : gen_shapes[num_below(&g->rng, GEN_SHAPES)];
}

/* Values to compute with */

/* The first seven are values of every type. */
static void constant_text(gen *g, num_type t, char text[32])
{
    static const char *const floats[] = {"0.0",   "-0.0", "1.0",  "-1.5",
                                         "0.5",   "3.0",  "-7.0", "inf",
                                         "0.125", "nan",  "2.5",  "100.0"};
    static const int ints[] = {0, 1, -1, 2, 3, -5, 7, 16, 63, 100, -128, 127};
    int i = num_below(&g->rng, num_bytes(t) == 1 ? 7 : 12);
    if (t == NUM_I1)
        strcpy(text, i & 1 ? "true" : "false");
    else if (num_is_float(t))
        strcpy(text, floats[i]);
    else
        sprintf(text, "%d", ints[i]);
}

static value constant(gen *g, num_type t)
{
    char text[32];
    constant_text(g, t, text);
    value v = gen_fresh(g, t, gen_shapes[0]);
    gen_line(g, "%s = const %s : %s", v.name, text, num_name(t));
    return v;
}

value gen_whole(gen *g, int n)
{
    value v = gen_fresh(g, NUM_I32, gen_shapes[0]);
    gen_line(g, "%s = const %d : i32", v.name, n);
    return v;
}

static bool find(gen *g, num_type t, shape s, value *found)
{
    int n = 0;
    for (int i = 0; i < g->nvalues; i++) {
        value *v = &g->values[i];
        if (v->type == t && gen_shape_is(v->shape, s) &&
            num_below(&g->rng, ++n) == 0)
            *found = *v;
    }
    return n > 0;
}

value gen_cast_to(gen *g, value from, num_type t)
{
    value v = gen_fresh(g, t, from.shape);
    gen_line(g, "%s = cast %s : %s", v.name, from.name,
             gen_type_text(t, from.shape));
    return v;
}

value gen_splat_to(gen *g, value scalar, shape s)
{
    if (s.rank == 0)
        return scalar;
    value v = gen_fresh(g, scalar.type, s);
    gen_line(g, "%s = splat %s : %s", v.name, scalar.name,
             gen_type_text(scalar.type, s));
    return v;
}

/* Any value of this type and shape: an old one, or a new one made of what is
 * there. */
value gen_need(gen *g, num_type t, shape s)
{
    value v;
    if (num_below(&g->rng, 8) && find(g, t, s, &v))
        return v;
    for (int tries = 0; tries < 3; tries++)
        if (find(g, gen_any_type(g), s, &v) && v.type != t)
            return gen_keep(g, gen_cast_to(g, v, t));
    if (num_below(&g->rng, 2) && find(g, t, gen_shapes[0], &v))
        return gen_keep(g, gen_splat_to(g, v, s));
    return gen_keep(g, gen_splat_to(g, constant(g, t), s));
}

/* Small whole numbers in a float type: sums and products of them are exact in
 * every order. */
value gen_small(gen *g, num_type t, shape s, int mask)
{
    value x = gen_need(g, NUM_I32, s),
          m = gen_splat_to(g, gen_whole(g, mask), s);
    value v = gen_fresh(g, NUM_I32, s);
    gen_line(g, "%s = and %s, %s", v.name, x.name, m.name);
    return gen_cast_to(g, v, t);
}
