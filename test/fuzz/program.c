/* SPDX-License-Identifier: Apache-2.0 */
#include "test/fuzz/program.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_VALUES = 400, MAX_RANK = 3, MAX_DEPTH = 3 };

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
    value values[MAX_VALUES];
    function functions[2];
    program p;
} gen;

static const shape shapes[] = {{0, {0}},      {1, {8}},      {1, {16}},
                               {2, {8, 16}},  {2, {16, 8}},  {2, {16, 16}},
                               {2, {1, 16}},  {2, {8, 1}},   {2, {8, 8}},
                               {2, {24, 40}}, {3, {8, 1, 8}}};
enum { NSHAPES = sizeof shapes / sizeof *shapes };

static bool shape_is(shape a, shape b)
{
    bool same = a.rank == b.rank;
    for (int i = 0; i < a.rank && same; i++)
        same = a.side[i] == b.side[i];
    return same;
}

static int shape_count(shape s)
{
    int n = 1;
    for (int i = 0; i < s.rank; i++)
        n *= s.side[i];
    return n;
}

/* Writing */

static void line(gen *g, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void line(gen *g, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fprintf(g->out, "%*s", g->indent, "");
    vfprintf(g->out, fmt, args);
    fputc('\n', g->out);
    va_end(args);
}

static const char *type_text(num_type t, shape s)
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

static value fresh(gen *g, num_type t, shape s)
{
    value v = {.type = t, .shape = s};
    snprintf(v.name, sizeof v.name, "%%v%d", g->next++);
    return v;
}

/* Makes the value one that later statements may use. */
static value keep(gen *g, value v)
{
    if (g->nvalues < MAX_VALUES)
        g->values[g->nvalues++] = v;
    return v;
}

static num_type any_type(gen *g)
{
    static const num_type common[] = {NUM_I32, NUM_F32, NUM_I1, NUM_I64,
                                      NUM_F16};
    return num_below(&g->rng, 2) ? common[num_below(&g->rng, 5)]
                                 : (num_type)num_below(&g->rng, NUM_TYPE_COUNT);
}

static shape any_shape(gen *g)
{
    return g->in_function ? shapes[0] : shapes[num_below(&g->rng, NSHAPES)];
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
    value v = fresh(g, t, shapes[0]);
    line(g, "%s = const %s : %s", v.name, text, num_name(t));
    return v;
}

static value whole(gen *g, int n)
{
    value v = fresh(g, NUM_I32, shapes[0]);
    line(g, "%s = const %d : i32", v.name, n);
    return v;
}

static bool find(gen *g, num_type t, shape s, value *found)
{
    int n = 0;
    for (int i = 0; i < g->nvalues; i++) {
        value *v = &g->values[i];
        if (v->type == t && shape_is(v->shape, s) &&
            num_below(&g->rng, ++n) == 0)
            *found = *v;
    }
    return n > 0;
}

static value cast_to(gen *g, value from, num_type t)
{
    value v = fresh(g, t, from.shape);
    line(g, "%s = cast %s : %s", v.name, from.name, type_text(t, from.shape));
    return v;
}

static value splat_to(gen *g, value scalar, shape s)
{
    if (s.rank == 0)
        return scalar;
    value v = fresh(g, scalar.type, s);
    line(g, "%s = splat %s : %s", v.name, scalar.name,
         type_text(scalar.type, s));
    return v;
}

/* Any value of this type and shape: an old one, or a new one made of what is
 * there. */
static value need(gen *g, num_type t, shape s)
{
    value v;
    if (num_below(&g->rng, 8) && find(g, t, s, &v))
        return v;
    for (int tries = 0; tries < 3; tries++)
        if (find(g, any_type(g), s, &v) && v.type != t)
            return keep(g, cast_to(g, v, t));
    if (num_below(&g->rng, 2) && find(g, t, shapes[0], &v))
        return keep(g, splat_to(g, v, s));
    return keep(g, splat_to(g, constant(g, t), s));
}

/* Small whole numbers in a float type: sums and products of them are exact in
 * every order. */
static value small(gen *g, num_type t, shape s, int mask)
{
    value x = need(g, NUM_I32, s), m = splat_to(g, whole(g, mask), s);
    value v = fresh(g, NUM_I32, s);
    line(g, "%s = and %s, %s", v.name, x.name, m.name);
    return cast_to(g, v, t);
}

/* Statements */

static void binary(gen *g)
{
    static const char *const ints[] = {"add", "sub", "mul",  "div",  "rem",
                                       "min", "max", "and",  "or",   "xor",
                                       "shl", "shr", "shru", "mulhi"};
    static const char *const floats[] = {"add", "sub", "mul", "div",
                                         "rem", "min", "max"};
    static const char *const bools[] = {"and", "or", "xor"};
    num_type t = any_type(g);
    shape s = any_shape(g);
    value a = need(g, t, s), b = need(g, t, s), v = fresh(g, t, s);
    const char *op = t == NUM_I1       ? bools[num_below(&g->rng, 3)]
                     : num_is_float(t) ? floats[num_below(&g->rng, 7)]
                                       : ints[num_below(&g->rng, 14)];
    line(g, "%s = %s %s, %s", v.name, op, a.name, b.name);
    keep(g, v);
    if (!num_is_float(t) || op[0] != 'm' || op[1] == 'u')
        return;
    /* min and max may give either zero; adding 0 makes them one. */
    value zero = fresh(g, t, shapes[0]), sum = fresh(g, t, s);
    line(g, "%s = const 0.0 : %s", zero.name, num_name(t));
    zero = splat_to(g, zero, s);
    line(g, "%s = add %s, %s", sum.name, v.name, zero.name);
    g->nvalues--;
    keep(g, sum);
}

static void unary(gen *g)
{
    static const char *const ints[] = {"neg", "not", "abs"};
    static const char *const floats[] = {"neg",  "abs",   "floor",
                                         "ceil", "round", "sqrt"};
    num_type t = any_type(g);
    shape s = any_shape(g);
    value a = need(g, t, s), v = fresh(g, t, s);
    const char *op = t == NUM_I1       ? "not"
                     : num_is_float(t) ? floats[num_below(&g->rng, 6)]
                                       : ints[num_below(&g->rng, 3)];
    line(g, "%s = %s %s", v.name, op, a.name);
    keep(g, v);
}

static void fma_(gen *g)
{
    num_type t = num_below(&g->rng, 3) ? NUM_F32 : NUM_F16;
    shape s = any_shape(g);
    value a = need(g, t, s), b = need(g, t, s), c = need(g, t, s);
    value v = fresh(g, t, s);
    line(g, "%s = fma %s, %s, %s", v.name, a.name, b.name, c.name);
    keep(g, v);
}

static void compare(gen *g)
{
    static const char *const preds[] = {"eq", "ne",  "lt",  "le",  "gt",
                                        "ge", "ult", "ule", "ugt", "uge"};
    num_type t = any_type(g);
    shape s = any_shape(g);
    value a = need(g, t, s), b = need(g, t, s), v = fresh(g, NUM_I1, s);
    int n = t == NUM_I1 ? 2 : num_is_float(t) ? 6 : 10;
    line(g, "%s = cmp %s, %s pred(%s)", v.name, a.name, b.name,
         preds[num_below(&g->rng, n)]);
    keep(g, v);
}

static void select_(gen *g)
{
    num_type t = any_type(g);
    shape s = any_shape(g);
    value c = need(g, NUM_I1, s), a = need(g, t, s), b = need(g, t, s);
    value v = fresh(g, t, s);
    line(g, "%s = select %s, %s, %s", v.name, c.name, a.name, b.name);
    keep(g, v);
}

static void cast_(gen *g)
{
    value a = need(g, any_type(g), any_shape(g));
    keep(g, cast_to(g, a, any_type(g)));
}

static void bitcast(gen *g)
{
    static const num_type pairs[][2] = {
        {NUM_I8, NUM_F8E4M3}, {NUM_I8, NUM_F8E5M2}, {NUM_I16, NUM_F16},
        {NUM_I16, NUM_BF16},  {NUM_I32, NUM_F32},   {NUM_I64, NUM_F64}};
    const num_type *pair = pairs[num_below(&g->rng, 6)];
    shape s = any_shape(g);
    value a = need(g, pair[0], s), v = fresh(g, pair[1], s);
    line(g, "%s = bitcast %s : %s", v.name, a.name, type_text(pair[1], s));
    keep(g, v);
}

static shape tile_shape(gen *g)
{
    return shapes[num_between(&g->rng, 1, NSHAPES - 1)];
}

static void range(gen *g)
{
    value v = fresh(g, NUM_I32, shapes[num_between(&g->rng, 1, 2)]);
    line(g, "%s = range : %s", v.name, type_text(NUM_I32, v.shape));
    keep(g, v);
}

static void expand(gen *g)
{
    int n = num_below(&g->rng, 2) ? 8 : 16;
    num_type t = any_type(g);
    value a = need(g, t, (shape){1, {n}});
    int axis = num_below(&g->rng, 2);
    value v = fresh(g, t, axis ? (shape){2, {n, 1}} : (shape){2, {1, n}});
    line(g, "%s = expand_dims %s axis(%d)", v.name, a.name, axis);
    keep(g, v);
}

static void broadcast(gen *g)
{
    num_type t = any_type(g);
    bool row = num_below(&g->rng, 2);
    value a = need(g, t, row ? (shape){2, {1, 16}} : (shape){2, {8, 1}});
    value v = fresh(g, t,
                    row && num_below(&g->rng, 2) ? (shape){2, {16, 16}}
                                                 : (shape){2, {8, 16}});
    line(g, "%s = broadcast %s : %s", v.name, a.name, type_text(t, v.shape));
    keep(g, v);
}

static void trans(gen *g)
{
    num_type t = any_type(g);
    value a = need(g, t, tile_shape(g));
    if (a.shape.rank != 2)
        return;
    value v = fresh(g, t, (shape){2, {a.shape.side[1], a.shape.side[0]}});
    line(g, "%s = trans %s", v.name, a.name);
    keep(g, v);
}

static void reshape(gen *g)
{
    num_type t = any_type(g);
    value a = need(g, t, tile_shape(g));
    for (int i = 1; i < NSHAPES; i++) {
        if (shape_count(shapes[i]) != shape_count(a.shape) ||
            shape_is(shapes[i], a.shape) || num_below(&g->rng, 2))
            continue;
        value v = fresh(g, t, shapes[i]);
        line(g, "%s = reshape %s : %s", v.name, a.name, type_text(t, v.shape));
        keep(g, v);
        return;
    }
}

/* A tile of another known shape that is a part of this one. */
static void slice(gen *g)
{
    num_type t = any_type(g);
    shape s = shapes[num_between(&g->rng, 2, NSHAPES - 2)];
    int axis = num_below(&g->rng, s.rank), side = s.side[axis];
    if (side < 16)
        return;
    int step = side == 16 ? 1 << num_below(&g->rng, 2) : 1;
    int at = num_below(&g->rng, side - 7 * step);
    shape part = s;
    part.side[axis] = 8;
    value a = need(g, t, s), v = fresh(g, t, part);
    line(g, "%s = slice %s axis(%d) at(%d) side(8) step(%d)", v.name, a.name,
         axis, at, step);
    keep(g, v);
}

static void join(gen *g)
{
    num_type t = any_type(g);
    shape part = {2, {num_below(&g->rng, 2) ? 8 : 16, 8}}, whole = part;
    int axis = part.side[0] == 8 ? num_below(&g->rng, 2) : 1;
    whole.side[axis] *= 2;
    value a = need(g, t, part), b = need(g, t, part), v = fresh(g, t, whole);
    line(g, "%s = %s %s, %s axis(%d)", v.name,
         num_below(&g->rng, 2) ? "join" : "interleave", a.name, b.name, axis);
    keep(g, v);
}

static shape without(shape s, int axis)
{
    shape r = {s.rank - 1, {0}};
    for (int i = 0, j = 0; i < s.rank; i++)
        if (i != axis)
            r.side[j++] = s.side[i];
    return r;
}

static void reduce(gen *g)
{
    static const char *const ints[] = {"sum", "prod", "max", "min",
                                       "and", "or",   "xor"};
    static const char *const floats[] = {"sum", "max", "min"};
    num_type t = any_type(g);
    shape s = tile_shape(g);
    value a = num_is_float(t) ? small(g, t, s, num_bytes(t) == 1 ? 0 : 7)
                              : need(g, t, s);
    int axis = num_below(&g->rng, s.rank);
    const char *kind = t == NUM_I1       ? ints[num_between(&g->rng, 4, 6)]
                       : num_is_float(t) ? floats[num_below(&g->rng, 3)]
                                         : ints[num_below(&g->rng, 7)];
    value v = fresh(g, t, without(s, axis));
    line(g, "%s = reduce %s axis(%d) kind(%s)", v.name, a.name, axis, kind);
    keep(g, v);
}

/* Position and value of the largest element, the first of equals. */
static void argmax(gen *g)
{
    shape s = shapes[num_between(&g->rng, 3, 5)];
    int axis = num_below(&g->rng, 2), id = g->next++;
    value x = need(g, NUM_I32, s), lanes = fresh(g, NUM_I32, s);
    value steps = fresh(g, NUM_I32, (shape){1, {s.side[axis]}});
    value spread =
        fresh(g, NUM_I32,
              axis ? (shape){2, {1, s.side[1]}} : (shape){2, {s.side[0], 1}});
    line(g, "%s = range : %s", steps.name, type_text(NUM_I32, steps.shape));
    line(g, "%s = expand_dims %s axis(%d)", spread.name, steps.name, !axis);
    line(g, "%s = broadcast %s : %s", lanes.name, spread.name,
         type_text(NUM_I32, s));
    value best = fresh(g, NUM_I32, without(s, axis)), at = best;
    snprintf(at.name, sizeof at.name, "%%v%d", g->next++);
    line(g,
         "%s, %s = reduce %s, %s axis(%d) (%%a%d: i32, %%i%d: i32, "
         "%%b%d: i32, %%j%d: i32) {",
         best.name, at.name, x.name, lanes.name, axis, id, id, id, id);
    line(g, "  %%g%d = cmp %%a%d, %%b%d pred(gt)", id, id, id);
    line(g, "  %%e%d = cmp %%a%d, %%b%d pred(eq)", id, id, id);
    line(g, "  %%f%d = cmp %%i%d, %%j%d pred(lt)", id, id, id);
    line(g, "  %%h%d = and %%e%d, %%f%d", id, id, id);
    line(g, "  %%c%d = or %%g%d, %%h%d", id, id, id);
    line(g, "  %%m%d = select %%c%d, %%a%d, %%b%d", id, id, id, id);
    line(g, "  %%n%d = select %%c%d, %%i%d, %%j%d", id, id, id, id);
    line(g, "  yield %%m%d, %%n%d", id, id);
    line(g, "}");
    keep(g, best);
    keep(g, at);
}

static void dot(gen *g)
{
    static const num_type types[] = {NUM_F32, NUM_F16, NUM_BF16, NUM_F8E4M3,
                                     NUM_F8E5M2};
    int m = num_below(&g->rng, 2) ? 8 : 16, n = num_below(&g->rng, 2) ? 8 : 16;
    int k = num_below(&g->rng, 2) ? 8 : 16;
    num_type t = types[num_below(&g->rng, 5)];
    value a = small(g, t, (shape){2, {m, k}}, 7);
    value b = small(g, t, (shape){2, {k, n}}, 7);
    value v = fresh(g, NUM_F32, (shape){2, {m, n}});
    if (num_below(&g->rng, 2)) {
        value c = small(g, NUM_F32, v.shape, 1023);
        line(g, "%s = dot %s, %s, %s", v.name, a.name, b.name, c.name);
    } else {
        line(g, "%s = dot %s, %s", v.name, a.name, b.name);
    }
    keep(g, v);
}

/* Within the tensor, or just outside of it. */
static value offset(gen *g)
{
    value x = need(g, NUM_I32, shapes[0]), span = whole(g, 60);
    value v = fresh(g, NUM_I32, shapes[0]), w = fresh(g, NUM_I32, shapes[0]);
    line(g, "%s = rem %s, %s", v.name, x.name, span.name);
    value back = whole(g, 12);
    line(g, "%s = sub %s, %s", w.name, v.name, back.name);
    return w;
}

static void load(gen *g)
{
    bool real = num_below(&g->rng, 2);
    value r = offset(g), c = offset(g);
    value v =
        fresh(g, real ? NUM_F32 : NUM_I32, shapes[num_between(&g->rng, 3, 9)]);
    value window = fresh(g, v.type, v.shape);
    line(g, "%s = block %%%s[%s +: %d, %s +: %d]", window.name,
         real ? "fa" : "ia", r.name, v.shape.side[0], c.name, v.shape.side[1]);
    line(g, "%s = load %s boundary(0, 1)%s", v.name, window.name,
         num_below(&g->rng, 2) ? ""
         : real                ? " pad(-2.5)"
                               : " pad(9)");
    keep(g, v);
}

static void gather(gen *g)
{
    bool real = num_below(&g->rng, 2);
    shape s = any_shape(g);
    value i = need(g, NUM_I32, s), j = need(g, NUM_I32, s);
    value limit = splat_to(g, whole(g, 50), s), k = fresh(g, NUM_I32, s);
    line(g, "%s = rem %s, %s", k.name, i.name, limit.name);
    value l = fresh(g, NUM_I32, s), v = fresh(g, real ? NUM_F32 : NUM_I32, s);
    line(g, "%s = rem %s, %s", l.name, j.name, limit.name);
    line(g, "%s = gather %%%s, %s, %s%s", v.name, real ? "fa" : "ia", k.name,
         l.name, num_below(&g->rng, 2) ? "" : " pad(1)");
    keep(g, v);
}

/* (range(n) * step + from) op number, or that of any value. */
static value indices(gen *g, int n)
{
    static const char *const ops[] = {"div", "rem", "sub"};
    shape s = {1, {n}};
    value at = offset(g), lanes = fresh(g, NUM_I32, s), x = lanes;
    if (num_below(&g->rng, 3)) {
        line(g, "%s = range : %s", lanes.name, type_text(NUM_I32, s));
        value step = splat_to(g, whole(g, num_between(&g->rng, 1, 3)), s);
        x = fresh(g, NUM_I32, s);
        line(g, "%s = mul %s, %s", x.name, lanes.name, step.name);
    } else {
        lanes = need(g, NUM_I32, s);
        value limit = splat_to(g, whole(g, 40), s);
        line(g, "%s = rem %s, %s", x.name, lanes.name, limit.name);
    }
    value from = splat_to(g, at, s), sum = fresh(g, NUM_I32, s);
    line(g, "%s = add %s, %s", sum.name, x.name, from.name);
    value number = splat_to(g, whole(g, 1 << num_below(&g->rng, 5)), s);
    value v = fresh(g, NUM_I32, s);
    line(g, "%s = %s %s, %s", v.name, ops[num_below(&g->rng, 3)], sum.name,
         number.name);
    return v;
}

/* Rows or columns by index; at times as one row of them all. */
static void load_windows(gen *g)
{
    bool real = num_below(&g->rng, 2), columns = num_below(&g->rng, 3) == 0;
    shape s = shapes[num_between(&g->rng, 3, 9)];
    value i = indices(g, s.side[0]), at = offset(g);
    value v = fresh(g, real ? NUM_F32 : NUM_I32, s);
    value window = fresh(g, v.type, v.shape);
    if (columns)
        line(g, "%s = block %%%s[%s +: %d, %s]", window.name,
             real ? "fa" : "ia", at.name, s.side[1], i.name);
    else
        line(g, "%s = block %%%s[%s, %s +: %d]", window.name,
             real ? "fa" : "ia", i.name, at.name, s.side[1]);
    line(g, "%s = load %s boundary(1)%s", v.name, window.name,
         num_below(&g->rng, 2) ? "" : " pad(3)");
    keep(g, v);
}

static void call(gen *g)
{
    int i = num_below(&g->rng, 2);
    const function *f = &g->functions[i];
    shape s = any_shape(g);
    value a = need(g, f->params[0], s), b = need(g, f->params[1], s);
    value v = fresh(g, f->result, s);
    line(g, "%s = call @f%d(%s, %s) : %s", v.name, i, a.name, b.name,
         type_text(v.type, s));
    keep(g, v);
}

static void put(gen *g, value w, value at)
{
    value window = fresh(g, w.type, w.shape);
    line(g, "%s = block %%out_%s[%%pid, %s +: %d]", window.name,
         num_name(w.type), at.name, w.shape.side[0]);
    line(g, "store %s, %s", window.name, w.name);
}

/* As a row by index, or an element for each index, the last one first. */
static void put_by_index(gen *g, value w, value at)
{
    int n = w.shape.side[0];
    bool row = num_below(&g->rng, 2);
    shape s = row ? (shape){2, {1, n}} : (shape){2, {n, 1}};
    shape lanes = {1, {row ? 1 : n}};
    value x = fresh(g, w.type, s), window = fresh(g, w.type, s);
    line(g, "%s = reshape %s : %s", x.name, w.name, type_text(w.type, s));
    if (row) {
        value i = fresh(g, NUM_I32, lanes);
        line(g, "%s = splat %%pid : %s", i.name, type_text(NUM_I32, lanes));
        line(g, "%s = block %%out_%s[%s, %s +: %d]", window.name,
             num_name(w.type), i.name, at.name, n);
    } else {
        value steps = fresh(g, NUM_I32, lanes), i = fresh(g, NUM_I32, lanes);
        value last = fresh(g, NUM_I32, shapes[0]);
        line(g, "%s = range : %s", steps.name, type_text(NUM_I32, lanes));
        line(g, "%s = add %s, %s", last.name, at.name, whole(g, n - 1).name);
        value from = splat_to(g, last, lanes);
        line(g, "%s = sub %s, %s", i.name, from.name, steps.name);
        line(g, "%s = block %%out_%s[%%pid +: 1, %s]", window.name,
             num_name(w.type), i.name);
    }
    line(g, "store %s, %s", window.name, x.name);
}

static void store_value(gen *g, value v)
{
    int n = shape_count(v.shape);
    shape flat = {1, {n < 8 ? 8 : n}};
    value w = v;
    if (v.shape.rank == 0)
        w = splat_to(g, v, flat);
    if (v.shape.rank > 1) {
        w = fresh(g, v.type, flat);
        line(g, "%s = reshape %s : %s", w.name, v.name,
             type_text(v.type, flat));
    }
    value at = whole(g, g->p.slots[v.type]);
    if (num_below(&g->rng, 4) == 0)
        put_by_index(g, w, at);
    else
        put(g, w, at);
    g->p.slots[v.type] += flat.side[0];
}

static void store(gen *g)
{
    store_value(g, need(g, any_type(g), any_shape(g)));
}

/* Ops that are only good to some ulps, on tame input: checked roughly, and
 * nothing else depends on them. */
static void rough(gen *g)
{
    static const char *const ops[] = {"exp", "exp2", "log",   "log2", "sin",
                                      "cos", "tanh", "rsqrt", "rcp",  "erf"};
    shape s = {1, {16}};
    value x = small(g, NUM_F32, s, 15), v = fresh(g, NUM_F32, s);
    value one = fresh(g, NUM_F32, shapes[0]), y = fresh(g, NUM_F32, s);
    line(g, "%s = const 0.75 : f32", one.name);
    one = splat_to(g, one, s);
    line(g, "%s = add %s, %s", y.name, x.name, one.name);
    line(g, "%s = %s %s", v.name, ops[num_below(&g->rng, 10)], y.name);
    value at = whole(g, g->p.rough), window = fresh(g, NUM_F32, s);
    line(g, "%s = block %%rough[%%pid, %s +: 16]", window.name, at.name);
    line(g, "store %s, %s", window.name, v.name);
    g->p.rough += 16;
}

/* Control flow */

static void statements(gen *g, int n);

typedef struct carried {
    int n;
    value init[3], arg[3], result[3];
} carried;

static carried carry_some(gen *g)
{
    carried c = {.n = num_between(&g->rng, 1, 3)};
    for (int i = 0; i < c.n; i++) {
        c.init[i] = need(g, any_type(g), any_shape(g));
        c.arg[i] = fresh(g, c.init[i].type, c.init[i].shape);
        c.result[i] = fresh(g, c.init[i].type, c.init[i].shape);
    }
    return c;
}

static void list_results(gen *g, const carried *c)
{
    for (int i = 0; i < c->n; i++)
        fprintf(g->out, "%s%s", i ? ", " : "", c->result[i].name);
}

static void list_inits(gen *g, const carried *c)
{
    for (int i = 0; i < c->n; i++)
        fprintf(g->out, "%s%s = %s", i ? ", " : "", c->arg[i].name,
                c->init[i].name);
}

/* What the body hands on; sometimes the carried values in another order. */
static void yield(gen *g, const carried *c)
{
    value v[3];
    for (int i = 0; i < c->n; i++)
        v[i] = need(g, c->arg[i].type, c->arg[i].shape);
    fprintf(g->out, "%*syield", g->indent, "");
    for (int i = 0; i < c->n; i++)
        fprintf(g->out, "%s %s", i ? "," : "", v[i].name);
    fputc('\n', g->out);
}

static void keep_results(gen *g, int nvalues, const carried *c)
{
    g->nvalues = nvalues;
    for (int i = 0; i < c->n; i++)
        keep(g, c->result[i]);
}

static void for_(gen *g)
{
    carried c = carry_some(g);
    value lo = whole(g, num_between(&g->rng, -3, 3));
    value step = whole(g, num_between(&g->rng, 1, 3));
    if (num_below(&g->rng, 4) == 0) {
        /* One that only the launch knows, and that may be 0 or less. */
        value limit = step;
        step = fresh(g, NUM_I32, shapes[0]);
        line(g, "%s = min %%n, %s", step.name, limit.name);
    }
    value hi = {.name = "%n"};
    if (num_below(&g->rng, 2))
        hi = whole(g, num_between(&g->rng, -3, 6));
    value i = fresh(g, NUM_I32, shapes[0]);
    int nvalues = g->nvalues;
    fprintf(g->out, "%*s", g->indent, "");
    list_results(g, &c);
    fprintf(g->out, " = for %s = %s to %s step %s carry(", i.name, lo.name,
            hi.name, step.name);
    list_inits(g, &c);
    fprintf(g->out, ") {\n");
    g->indent += 2;
    keep(g, i);
    for (int j = 0; j < c.n; j++)
        keep(g, c.arg[j]);
    statements(g, num_between(&g->rng, 1, 5));
    yield(g, &c);
    g->indent -= 2;
    line(g, "}");
    keep_results(g, nvalues, &c);
}

static void if_(gen *g)
{
    carried c = carry_some(g);
    value condition = need(g, NUM_I1, shapes[0]);
    int nvalues = g->nvalues;
    fprintf(g->out, "%*s", g->indent, "");
    list_results(g, &c);
    fprintf(g->out, " = if %s {\n", condition.name);
    for (int side = 0; side < 2; side++) {
        g->indent += 2;
        statements(g, num_between(&g->rng, 0, 4));
        yield(g, &c);
        g->indent -= 2;
        line(g, side ? "}" : "} else {");
        g->nvalues = nvalues;
    }
    keep_results(g, nvalues, &c);
}

/* Counts to a limit; the carried values come along. */
static void while_(gen *g)
{
    carried c = carry_some(g);
    c.n = c.n > 2 ? 2 : c.n;
    value zero = whole(g, 0), one = whole(g, 1);
    value limit = whole(g, num_between(&g->rng, 0, 5));
    value count = fresh(g, NUM_I32, shapes[0]);
    value done = fresh(g, NUM_I32, shapes[0]);
    value go = fresh(g, NUM_I1, shapes[0]);
    value next = fresh(g, NUM_I32, shapes[0]);
    int nvalues = g->nvalues;
    fprintf(g->out, "%*s%s, ", g->indent, "", done.name);
    list_results(g, &c);
    fprintf(g->out, " = while carry(%s = %s, ", count.name, zero.name);
    list_inits(g, &c);
    fprintf(g->out, ") {\n");
    g->indent += 2;
    for (int j = 0; j < c.n; j++)
        keep(g, c.arg[j]);
    keep(g, count);
    statements(g, num_between(&g->rng, 0, 2));
    line(g, "%s = cmp %s, %s pred(lt)", go.name, count.name, limit.name);
    line(g, "condition %s", go.name);
    g->indent -= 2;
    line(g, "} do {");
    g->indent += 2;
    statements(g, num_between(&g->rng, 0, 4));
    line(g, "%s = add %s, %s", next.name, count.name, one.name);
    value v[3];
    for (int i = 0; i < c.n; i++)
        v[i] = need(g, c.arg[i].type, c.arg[i].shape);
    fprintf(g->out, "%*syield %s", g->indent, "", next.name);
    for (int i = 0; i < c.n; i++)
        fprintf(g->out, ", %s", v[i].name);
    fputc('\n', g->out);
    g->indent -= 2;
    line(g, "}");
    keep_results(g, nvalues, &c);
    keep(g, done);
}

/* A statement of each kind, as often as it is listed; the first few also
 * stand in functions, which know only scalars. */
typedef void statement_fn(gen *g);
static statement_fn *const simple[] = {binary,  binary, binary, unary,  compare,
                                       select_, fma_,   cast_,  bitcast};
static statement_fn *const others[] = {
    binary, unary,   compare, select_, cast_,  range,       expand, broadcast,
    trans,  reshape, slice,   join,    reduce, reduce,      argmax, dot,
    load,   gather,  call,    store,   rough,  load_windows};
static statement_fn *const control[] = {for_, if_, while_};

static void statements(gen *g, int n)
{
    for (int i = 0; i < n && g->nvalues < MAX_VALUES - 40; i++) {
        if (g->in_function || num_below(&g->rng, 3) == 0) {
            simple[num_below(&g->rng, sizeof simple / sizeof *simple)](g);
        } else if (g->depth < MAX_DEPTH && num_below(&g->rng, 5) == 0) {
            g->depth++;
            control[num_below(&g->rng, 3)](g);
            g->depth--;
        } else {
            others[num_below(&g->rng, sizeof others / sizeof *others)](g);
        }
    }
}

static void write_function(gen *g, int i)
{
    function *f = &g->functions[i];
    f->params[0] = any_type(g);
    f->params[1] = any_type(g);
    f->result = any_type(g);
    line(g, "func @f%d(%%p: %s, %%q: %s) -> %s {", i, num_name(f->params[0]),
         num_name(f->params[1]), num_name(f->result));
    g->indent = 2;
    g->nvalues = 0;
    g->in_function = true;
    keep(g, (value){"%p", f->params[0], shapes[0]});
    keep(g, (value){"%q", f->params[1], shapes[0]});
    statements(g, num_between(&g->rng, 1, 6));
    line(g, "return %s", need(g, f->result, shapes[0]).name);
    g->in_function = false;
    g->indent = 0;
    line(g, "}");
}

static void write_kernel(gen *g, int n)
{
    line(g, "kernel @random(%%fa: tensor<[?, ?] x f32>, "
            "%%ia: tensor<[?, ?] x i32>, %%n: i32, %%x: f32,");
    for (int t = 0; t < NUM_TYPE_COUNT; t++)
        line(g, "    %%out_%s: tensor<[?, ?] x %s>,", num_name(t), num_name(t));
    line(g, "    %%rough: tensor<[?, ?] x f32>) grid(%d) {", PROGRAM_GRID);
    g->indent = 2;
    g->nvalues = 0;
    line(g, "%%pid = program_id axis(0)");
    keep(g, (value){"%pid", NUM_I32, shapes[0]});
    keep(g, (value){"%n", NUM_I32, shapes[0]});
    keep(g, (value){"%x", NUM_F32, shapes[0]});
    load(g);
    load(g);
    statements(g, n);
    for (int i = 0; i < g->nvalues; i += 1 + num_below(&g->rng, 3))
        store_value(g, g->values[i]);
    line(g, "return");
    g->indent = 0;
    line(g, "}");
}

program program_new(uint64_t seed, int n)
{
    gen g = {.rng = {seed * 0x9e3779b97f4a7c15u + 1}};
    size_t length;
    g.out = open_memstream(&g.p.text, &length);
    write_function(&g, 0);
    write_function(&g, 1);
    write_kernel(&g, n);
    fclose(g.out);
    for (int t = 0; t < NUM_TYPE_COUNT; t++)
        g.p.slots[t] += g.p.slots[t] == 0;
    g.p.rough += g.p.rough == 0;
    return g.p;
}

void program_free(program *p)
{
    free(p->text);
    p->text = NULL;
}
