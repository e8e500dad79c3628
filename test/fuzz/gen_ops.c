/* SPDX-License-Identifier: Apache-2.0
 *
 * Statements of one op on values.
 */
#include "test/fuzz/gen.h"

void gen_binary(gen *g)
{
    static const char *const ints[] = {
        "add", "sub", "mul", "div",  "rem",   "min",  "max",  "and",  "or",
        "xor", "shl", "shr", "shru", "mulhi", "divu", "remu", "minu", "maxu"};
    static const char *const floats[] = {"add", "sub", "mul", "div",
                                         "rem", "min", "max"};
    static const char *const bools[] = {"and", "or", "xor"};
    num_type t = gen_any_type(g);
    shape s = gen_any_shape(g);
    value a = gen_need(g, t, s), b = gen_need(g, t, s), v = gen_fresh(g, t, s);
    const char *op = t == NUM_I1       ? bools[num_below(&g->rng, 3)]
                     : num_is_float(t) ? floats[num_below(&g->rng, 7)]
                                       : ints[num_below(&g->rng, 18)];
    gen_line(g, "%s = %s %s, %s", v.name, op, a.name, b.name);
    gen_keep(g, v);
    if (!num_is_float(t) || op[0] != 'm' || op[1] == 'u')
        return;
    /* min and max may give either zero; adding 0 makes them one. */
    value zero = gen_fresh(g, t, gen_shapes[0]), sum = gen_fresh(g, t, s);
    gen_line(g, "%s = const 0.0 : %s", zero.name, num_name(t));
    zero = gen_splat_to(g, zero, s);
    gen_line(g, "%s = add %s, %s", sum.name, v.name, zero.name);
    g->nvalues--;
    gen_keep(g, sum);
}

void gen_unary(gen *g)
{
    static const char *const ints[] = {"neg", "not", "abs"};
    static const char *const floats[] = {"neg",  "abs",   "floor",
                                         "ceil", "round", "sqrt"};
    num_type t = gen_any_type(g);
    shape s = gen_any_shape(g);
    value a = gen_need(g, t, s), v = gen_fresh(g, t, s);
    const char *op = t == NUM_I1       ? "not"
                     : num_is_float(t) ? floats[num_below(&g->rng, 6)]
                                       : ints[num_below(&g->rng, 3)];
    gen_line(g, "%s = %s %s", v.name, op, a.name);
    gen_keep(g, v);
}

void gen_fma(gen *g)
{
    num_type t = num_below(&g->rng, 3) ? NUM_F32 : NUM_F16;
    shape s = gen_any_shape(g);
    value a = gen_need(g, t, s), b = gen_need(g, t, s), c = gen_need(g, t, s);
    value v = gen_fresh(g, t, s);
    gen_line(g, "%s = fma %s, %s, %s", v.name, a.name, b.name, c.name);
    gen_keep(g, v);
}

void gen_compare(gen *g)
{
    static const char *const preds[] = {"eq", "ne",  "lt",  "le",  "gt",
                                        "ge", "ult", "ule", "ugt", "uge"};
    num_type t = gen_any_type(g);
    shape s = gen_any_shape(g);
    value a = gen_need(g, t, s), b = gen_need(g, t, s),
          v = gen_fresh(g, NUM_I1, s);
    int n = t == NUM_I1 ? 2 : num_is_float(t) ? 6 : 10;
    gen_line(g, "%s = cmp %s, %s pred(%s)", v.name, a.name, b.name,
             preds[num_below(&g->rng, n)]);
    gen_keep(g, v);
}

void gen_select(gen *g)
{
    num_type t = gen_any_type(g);
    shape s = gen_any_shape(g);
    value c = gen_need(g, NUM_I1, s), a = gen_need(g, t, s),
          b = gen_need(g, t, s);
    value v = gen_fresh(g, t, s);
    gen_line(g, "%s = select %s, %s, %s", v.name, c.name, a.name, b.name);
    gen_keep(g, v);
}

void gen_cast(gen *g)
{
    value a = gen_need(g, gen_any_type(g), gen_any_shape(g));
    gen_keep(g, gen_cast_to(g, a, gen_any_type(g)));
}

void gen_bitcast(gen *g)
{
    static const num_type pairs[][2] = {
        {NUM_I8, NUM_F8E4M3}, {NUM_I8, NUM_F8E5M2}, {NUM_I16, NUM_F16},
        {NUM_I16, NUM_BF16},  {NUM_I32, NUM_F32},   {NUM_I64, NUM_F64}};
    const num_type *pair = pairs[num_below(&g->rng, 6)];
    shape s = gen_any_shape(g);
    value a = gen_need(g, pair[0], s), v = gen_fresh(g, pair[1], s);
    gen_line(g, "%s = bitcast %s : %s", v.name, a.name,
             gen_type_text(pair[1], s));
    gen_keep(g, v);
}

static shape tile_shape(gen *g)
{
    return gen_shapes[num_between(&g->rng, 1, GEN_SHAPES - 1)];
}

void gen_range(gen *g)
{
    value v = gen_fresh(g, NUM_I32, gen_shapes[num_between(&g->rng, 1, 2)]);
    gen_line(g, "%s = range : %s", v.name, gen_type_text(NUM_I32, v.shape));
    gen_keep(g, v);
}

void gen_expand(gen *g)
{
    int n = num_below(&g->rng, 2) ? 8 : 16;
    num_type t = gen_any_type(g);
    value a = gen_need(g, t, (shape){1, {n}});
    int axis = num_below(&g->rng, 2);
    value v = gen_fresh(g, t, axis ? (shape){2, {n, 1}} : (shape){2, {1, n}});
    gen_line(g, "%s = expand_dims %s axis(%d)", v.name, a.name, axis);
    gen_keep(g, v);
}

void gen_broadcast(gen *g)
{
    num_type t = gen_any_type(g);
    bool row = num_below(&g->rng, 2);
    value a = gen_need(g, t, row ? (shape){2, {1, 16}} : (shape){2, {8, 1}});
    value v = gen_fresh(g, t,
                        row && num_below(&g->rng, 2) ? (shape){2, {16, 16}}
                                                     : (shape){2, {8, 16}});
    gen_line(g, "%s = broadcast %s : %s", v.name, a.name,
             gen_type_text(t, v.shape));
    gen_keep(g, v);
}

void gen_trans(gen *g)
{
    num_type t = gen_any_type(g);
    value a = gen_need(g, t, tile_shape(g));
    if (a.shape.rank != 2)
        return;
    value v = gen_fresh(g, t, (shape){2, {a.shape.side[1], a.shape.side[0]}});
    gen_line(g, "%s = trans %s", v.name, a.name);
    gen_keep(g, v);
}

void gen_reshape(gen *g)
{
    num_type t = gen_any_type(g);
    value a = gen_need(g, t, tile_shape(g));
    for (int i = 1; i < GEN_SHAPES; i++) {
        if (gen_shape_count(gen_shapes[i]) != gen_shape_count(a.shape) ||
            gen_shape_is(gen_shapes[i], a.shape) || num_below(&g->rng, 2))
            continue;
        value v = gen_fresh(g, t, gen_shapes[i]);
        gen_line(g, "%s = reshape %s : %s", v.name, a.name,
                 gen_type_text(t, v.shape));
        gen_keep(g, v);
        return;
    }
}

/* A tile of another known shape that is a part of this one. */
void gen_slice(gen *g)
{
    num_type t = gen_any_type(g);
    shape s = gen_shapes[num_between(&g->rng, 2, GEN_SHAPES - 2)];
    int axis = num_below(&g->rng, s.rank), side = s.side[axis];
    if (side < 16)
        return;
    int step = side == 16 ? 1 << num_below(&g->rng, 2) : 1;
    int at = num_below(&g->rng, side - 7 * step);
    shape part = s;
    part.side[axis] = 8;
    value a = gen_need(g, t, s), v = gen_fresh(g, t, part);
    gen_line(g, "%s = slice %s axis(%d) at(%d) side(8) step(%d)", v.name,
             a.name, axis, at, step);
    gen_keep(g, v);
}

void gen_join(gen *g)
{
    num_type t = gen_any_type(g);
    shape part = {2, {num_below(&g->rng, 2) ? 8 : 16, 8}}, whole = part;
    int axis = part.side[0] == 8 ? num_below(&g->rng, 2) : 1;
    whole.side[axis] *= 2;
    value a = gen_need(g, t, part), b = gen_need(g, t, part),
          v = gen_fresh(g, t, whole);
    gen_line(g, "%s = %s %s, %s axis(%d)", v.name,
             num_below(&g->rng, 2) ? "join" : "interleave", a.name, b.name,
             axis);
    gen_keep(g, v);
}

/* Most indices are inside of the tile. */
static value index_near(gen *g, shape s, int side)
{
    value i = gen_need(g, NUM_I32, s), r = gen_fresh(g, NUM_I32, s);
    value most = gen_splat_to(g, gen_whole(g, side + 1), s);
    gen_line(g, "%s = rem %s, %s", r.name, i.name, most.name);
    return gen_keep(g, r);
}

static shape without(shape s, int axis)
{
    shape r = {s.rank - 1, {0}};
    for (int i = 0, j = 0; i < s.rank; i++)
        if (i != axis)
            r.side[j++] = s.side[i];
    return r;
}

/* An operand whose sums are exact in any order. */
static value combined(gen *g, num_type t, shape s)
{
    return num_is_float(t) ? gen_small(g, t, s, num_bytes(t) == 1 ? 0 : 7)
                           : gen_need(g, t, s);
}

static const char *any_kind(gen *g, num_type t)
{
    static const char *const ints[] = {"sum", "prod", "max", "min",
                                       "and", "or",   "xor"};
    static const char *const floats[] = {"sum", "max", "min"};
    return t == NUM_I1       ? ints[num_between(&g->rng, 4, 6)]
           : num_is_float(t) ? floats[num_below(&g->rng, 3)]
                             : ints[num_below(&g->rng, 7)];
}

void gen_reduce(gen *g)
{
    num_type t = gen_any_type(g);
    shape s = tile_shape(g);
    value a = combined(g, t, s);
    int axis = num_below(&g->rng, s.rank);
    const char *kind = any_kind(g, t);
    value v = gen_fresh(g, t, without(s, axis));
    gen_line(g, "%s = reduce %s axis(%d) kind(%s)", v.name, a.name, axis, kind);
    gen_keep(g, v);
}

void gen_scan(gen *g)
{
    num_type t = gen_any_type(g);
    shape s = tile_shape(g);
    value a = combined(g, t, s), v = gen_fresh(g, t, s);
    gen_line(g, "%s = scan %s axis(%d) kind(%s)%s%s", v.name, a.name,
             num_below(&g->rng, s.rank), any_kind(g, t),
             num_below(&g->rng, 2) ? " reverse(true)" : "",
             num_below(&g->rng, 3) ? "" : " exclusive(true)");
    gen_keep(g, v);
}

/* Maps x -> a x + b of wrapping ints, each after those before it. */
void gen_scan_maps(gen *g)
{
    num_type t = num_below(&g->rng, 2) ? NUM_I32 : NUM_I64;
    shape s = tile_shape(g);
    int id = g->next++;
    value a = gen_need(g, t, s), b = gen_need(g, t, s);
    value v = gen_fresh(g, t, s), w = gen_fresh(g, t, s);
    const char *of = num_name(t);
    gen_line(g,
             "%s, %s = scan %s, %s axis(%d)%s (%%a%d: %s, %%b%d: %s, %%c%d: "
             "%s, %%d%d: %s) {",
             v.name, w.name, a.name, b.name, num_below(&g->rng, s.rank),
             num_below(&g->rng, 2) ? " reverse(true)" : "", id, of, id, of, id,
             of, id, of);
    gen_line(g, "  %%e%d = mul %%a%d, %%c%d", id, id, id);
    gen_line(g, "  %%f%d = mul %%b%d, %%c%d", id, id, id);
    gen_line(g, "  %%g%d = add %%f%d, %%d%d", id, id, id);
    gen_line(g, "  yield %%e%d, %%g%d", id, id);
    gen_line(g, "}");
    gen_keep(g, v);
    gen_keep(g, w);
}

/* A line of 8 or 16, by itself or with another tile that moves with it; at
 * times the first 8. */
void gen_sort(gen *g)
{
    num_type t = gen_any_type(g), other = gen_any_type(g);
    shape s = tile_shape(g);
    int axis = num_below(&g->rng, s.rank), side = s.side[axis];
    if (t == NUM_I1 || side > 16 || (side & (side - 1)))
        return;
    value a = gen_need(g, t, s), b = gen_need(g, other, s);
    bool two = num_below(&g->rng, 2), some = side > 8 && num_below(&g->rng, 2);
    shape to = s;
    to.side[axis] = some ? 8 : side;
    value v = gen_fresh(g, t, to), w = gen_fresh(g, other, to);
    gen_line(g, "%s%s%s = sort %s%s%s axis(%d)%s%s", v.name, two ? ", " : "",
             two ? w.name : "", a.name, two ? ", " : "", two ? b.name : "",
             axis, num_below(&g->rng, 2) ? " descending(true)" : "",
             some ? " first(8)" : "");
    gen_keep(g, v);
    if (two)
        gen_keep(g, w);
}

/* Elements by index: of another known shape, or without the axis. */
void gen_take(gen *g)
{
    num_type t = gen_any_type(g);
    shape s = tile_shape(g), to = s;
    int axis = num_below(&g->rng, s.rank), side = s.side[axis];
    bool one = num_below(&g->rng, 3) == 0;
    if (one)
        to = without(s, axis);
    else if (num_below(&g->rng, 2))
        to.side[axis] = num_below(&g->rng, 2) ? 8 : 16;
    value a = gen_need(g, t, s), v = gen_fresh(g, t, to);
    value i = index_near(g, one ? gen_shapes[0] : to, side);
    gen_line(g, "%s = take %s, %s axis(%d)%s", v.name, a.name, i.name, axis,
             num_below(&g->rng, 2) ? "" : " pad(1)");
    gen_keep(g, v);
}

/* Of some shape: how many are 0, 1, .., most of them in range. */
void gen_histogram(gen *g)
{
    int side = num_below(&g->rng, 2) ? 8 : 16;
    value i = index_near(g, tile_shape(g), side);
    value v = gen_fresh(g, NUM_I32, (shape){1, {side}});
    gen_line(g, "%s = histogram %s : tile<%d x i32>", v.name, i.name, side);
    gen_keep(g, v);
}

/* Position and value of the largest element, the first of equals. */
void gen_argmax(gen *g)
{
    shape s = gen_shapes[num_between(&g->rng, 3, 5)];
    int axis = num_below(&g->rng, 2), id = g->next++;
    value x = gen_need(g, NUM_I32, s), lanes = gen_fresh(g, NUM_I32, s);
    value steps = gen_fresh(g, NUM_I32, (shape){1, {s.side[axis]}});
    value spread = gen_fresh(g, NUM_I32,
                             axis ? (shape){2, {1, s.side[1]}}
                                  : (shape){2, {s.side[0], 1}});
    gen_line(g, "%s = range : %s", steps.name,
             gen_type_text(NUM_I32, steps.shape));
    gen_line(g, "%s = expand_dims %s axis(%d)", spread.name, steps.name, !axis);
    gen_line(g, "%s = broadcast %s : %s", lanes.name, spread.name,
             gen_type_text(NUM_I32, s));
    value best = gen_fresh(g, NUM_I32, without(s, axis)), at = best;
    snprintf(at.name, sizeof at.name, "%%v%d", g->next++);
    gen_line(g,
             "%s, %s = reduce %s, %s axis(%d) (%%a%d: i32, %%i%d: i32, "
             "%%b%d: i32, %%j%d: i32) {",
             best.name, at.name, x.name, lanes.name, axis, id, id, id, id);
    gen_line(g, "  %%g%d = cmp %%a%d, %%b%d pred(gt)", id, id, id);
    gen_line(g, "  %%e%d = cmp %%a%d, %%b%d pred(eq)", id, id, id);
    gen_line(g, "  %%f%d = cmp %%i%d, %%j%d pred(lt)", id, id, id);
    gen_line(g, "  %%h%d = and %%e%d, %%f%d", id, id, id);
    gen_line(g, "  %%c%d = or %%g%d, %%h%d", id, id, id);
    gen_line(g, "  %%m%d = select %%c%d, %%a%d, %%b%d", id, id, id, id);
    gen_line(g, "  %%n%d = select %%c%d, %%i%d, %%j%d", id, id, id, id);
    gen_line(g, "  yield %%m%d, %%n%d", id, id);
    gen_line(g, "}");
    gen_keep(g, best);
    gen_keep(g, at);
}

static shape matrices(int batch, int rows, int columns)
{
    return batch ? (shape){3, {batch, rows, columns}}
                 : (shape){2, {rows, columns}};
}

/* Of any ints, also as codes of unsigned ones: sums wrap. */
static void dot_ints(gen *g, int batch, int m, int n, int k)
{
    static const char *const words[] = {"", " unsigned(a)", " unsigned(b)",
                                        " unsigned(both)"};
    value a = gen_need(g, NUM_I8, matrices(batch, m, k));
    value b = gen_need(g, NUM_I8, matrices(batch, k, n));
    value v = gen_fresh(g, NUM_I32, matrices(batch, m, n));
    gen_line(g, "%s = dot %s, %s%s", v.name, a.name, b.name,
             words[num_below(&g->rng, 4)]);
    gen_keep(g, v);
}

/* Some are of a batch, some sums of f16 (exact: below 2048). The only products
 * in loops of a program that is split are the sums of that loop. */
void gen_dot(gen *g)
{
    static const num_type types[] = {NUM_F32,    NUM_F16,    NUM_BF16,
                                     NUM_F8E4M3, NUM_F8E5M2, NUM_I8};
    static const int sides[] = {8, 16, 32};
    int m = num_below(&g->rng, 2) ? 8 : 16, n = num_below(&g->rng, 2) ? 8 : 16;
    int k = sides[num_below(&g->rng, 3)];
    if (g->p.split && g->depth)
        return;
    int batch = num_below(&g->rng, 4) ? 0 : 1 << num_below(&g->rng, 3);
    num_type t = types[num_below(&g->rng, 6)];
    if (t == NUM_I8 && num_below(&g->rng, 2)) {
        dot_ints(g, batch, m, n, k);
        return;
    }
    num_type sum = t == NUM_I8 ? NUM_I32 : NUM_F32;
    value a = gen_small(g, t, matrices(batch, m, k), 7);
    value b = gen_small(g, t, matrices(batch, k, n), 7);
    bool adds = num_below(&g->rng, 2) != 0;
    if (adds && t == NUM_F16 && num_below(&g->rng, 2))
        sum = NUM_F16;
    value v = gen_fresh(g, sum, matrices(batch, m, n));
    if (adds) {
        value c = gen_small(g, sum, v.shape, 1023);
        gen_line(g, "%s = dot %s, %s, %s", v.name, a.name, b.name, c.name);
    } else {
        gen_line(g, "%s = dot %s, %s", v.name, a.name, b.name);
    }
    gen_keep(g, v);
}

/* Whole numbers: exact. */
void gen_ramp(gen *g)
{
    value a = gen_small(g, NUM_F32, gen_shapes[0], 63);
    value b = gen_small(g, NUM_F32, gen_shapes[0], 7);
    value v = gen_fresh(g, NUM_F32, gen_shapes[num_between(&g->rng, 1, 2)]);
    gen_line(g, "%s = ramp %s, %s : %s", v.name, a.name, b.name,
             gen_type_text(NUM_F32, v.shape));
    gen_keep(g, v);
}

/* Of any axis that a grid may have. */
void gen_axis(gen *g)
{
    value v = gen_fresh(g, NUM_I32, gen_shapes[0]);
    gen_line(g, "%s = %s axis(%d)", v.name,
             num_below(&g->rng, 2) ? "program_id" : "num_programs",
             num_below(&g->rng, PROGRAM_AXES));
    gen_keep(g, v);
}
