/* SPDX-License-Identifier: Apache-2.0
 *
 * Storage types: values that are made by loads, casts and bitcasts, go through
 * all that may move them, and end in a store or a cast. They are values of
 * these statements alone: other statements compute.
 */
#include "test/fuzz/gen.h"

#include <string.h>

typedef struct stored {
    char name[12];
    stored_type type;
    shape shape;
} stored;

static const char *type_text(const stored *v)
{
    static _Thread_local char ring[4][64];
    static _Thread_local unsigned next;
    char *text = ring[next++ % 4];
    const char *like = gen_type_text(NUM_I1, v->shape);
    size_t n = strlen(like) - strlen(v->shape.rank ? "i1>" : "i1");
    snprintf(text, sizeof ring[0], "%.*s%s%s", (int)n, like,
             stored_infos[v->type].name, v->shape.rank ? ">" : "");
    return text;
}

static stored fresh(gen *g, stored_type t, shape s)
{
    stored v = {.type = t, .shape = s};
    snprintf(v.name, sizeof v.name, "%%v%d", g->next++);
    return v;
}

static stored_type any_stored(gen *g)
{
    return (stored_type)num_below(&g->rng, STORED_COUNT);
}

/* ---- Where they come from ---- */

static stored cast_from(gen *g, stored_type t, shape s)
{
    value from = gen_need(g, gen_any_type(g), s);
    stored v = fresh(g, t, s);
    gen_line(g, "%s = cast %s : %s", v.name, from.name, type_text(&v));
    return v;
}

/* Of an int, or a float, as wide. */
static stored bits_of(gen *g, stored_type t, shape s)
{
    static const num_type same[][2] = {[STORED_U8] = {NUM_I8, NUM_F8E4M3},
                                       [STORED_U16] = {NUM_I16, NUM_I16},
                                       [STORED_U32] = {NUM_I32, NUM_I32},
                                       [STORED_F8E8M0] = {NUM_I8, NUM_I8}};
    if (stored_infos[t].packed)
        return cast_from(g, t, s);
    num_type as = same[t][num_below(&g->rng, 2)];
    value from = gen_need(g, num_is_float(as) ? NUM_I8 : as, s);
    if (num_is_float(as)) { /* bits of a NaN stay as they are */
        value real = gen_fresh(g, as, s);
        gen_line(g, "%s = bitcast %s : %s", real.name, from.name,
                 gen_type_text(as, s));
        from = real;
    }
    stored v = fresh(g, t, s);
    gen_line(g, "%s = bitcast %s : %s", v.name, from.name, type_text(&v));
    return v;
}

/* An offset within the tensor, or just outside of it; even if it must be. */
static value offset(gen *g, bool even)
{
    value x = gen_need(g, NUM_I32, gen_shapes[0]);
    value span = gen_whole(g, even ? 28 : 60), back = gen_whole(g, 6), two;
    value r = gen_fresh(g, NUM_I32, gen_shapes[0]),
          at = gen_fresh(g, NUM_I32, gen_shapes[0]);
    gen_line(g, "%s = rem %s, %s", r.name, x.name, span.name);
    gen_line(g, "%s = sub %s, %s", at.name, r.name, back.name);
    if (!even)
        return at;
    two = gen_whole(g, 2);
    value doubled = gen_fresh(g, NUM_I32, gen_shapes[0]);
    gen_line(g, "%s = mul %s, %s", doubled.name, at.name, two.name);
    return doubled;
}

static const char *any_pad(gen *g)
{
    return num_below(&g->rng, 2) ? "" : " pad(2)";
}

/* Half a byte is loaded with its neighbor. */
static bool is_loadable(stored_type t, shape s)
{
    int last = s.rank == 2 ? s.side[1] : 0;
    return s.rank == 2 &&
           (!stored_infos[t].packed || last == 8 || last % 16 == 0);
}

static stored load(gen *g, stored_type t, shape s)
{
    if (!is_loadable(t, s))
        return cast_from(g, t, s);
    stored v = fresh(g, t, s), window = fresh(g, t, s);
    value r = offset(g, false), c = offset(g, stored_infos[t].packed);
    const char *name = stored_infos[t].name;
    if (num_below(&g->rng, 3)) {
        bool steps = !stored_infos[t].packed && num_below(&g->rng, 3) == 0;
        gen_line(g, "%s = block %%in_%s[%s +: %d%s, %s +: %d]", window.name,
                 name, r.name, s.side[0], steps ? " step 2" : "", c.name,
                 s.side[1]);
        gen_line(g, "%s = load %s boundary(0, 1)%s", v.name, window.name,
                 any_pad(g));
        return v;
    }
    shape lanes = {1, {s.side[0]}};
    value i = gen_need(g, NUM_I32, lanes), k = gen_fresh(g, NUM_I32, lanes);
    value most = gen_splat_to(g, gen_whole(g, 43), lanes);
    gen_line(g, "%s = rem %s, %s", k.name, i.name, most.name);
    gen_line(g, "%s = block %%in_%s[%s, %s +: %d]", window.name, name, k.name,
             c.name, s.side[1]);
    gen_line(g, "%s = load %s boundary(1)%s", v.name, window.name, any_pad(g));
    return v;
}

static stored gather(gen *g, stored_type t, shape s)
{
    value i = gen_need(g, NUM_I32, s), j = gen_need(g, NUM_I32, s);
    value most = gen_splat_to(g, gen_whole(g, 45), s);
    value k = gen_fresh(g, NUM_I32, s), l = gen_fresh(g, NUM_I32, s);
    stored v = fresh(g, t, s);
    gen_line(g, "%s = rem %s, %s", k.name, i.name, most.name);
    gen_line(g, "%s = rem %s, %s", l.name, j.name, most.name);
    gen_line(g, "%s = gather %%in_%s, %s, %s%s", v.name, stored_infos[t].name,
             k.name, l.name, any_pad(g));
    return v;
}

static stored any_value(gen *g, stored_type t, shape s)
{
    switch (num_below(&g->rng, 5)) {
    case 0: return cast_from(g, t, s);
    case 1: return bits_of(g, t, s);
    case 2: return gather(g, t, s);
    default: return load(g, t, s);
    }
}

/* ---- What moves them ---- */

static stored other_shape(gen *g, stored v)
{
    for (int i = 1; i < GEN_SHAPES; i++) {
        if (gen_shape_count(gen_shapes[i]) != gen_shape_count(v.shape) ||
            gen_shape_is(gen_shapes[i], v.shape))
            continue;
        stored w = fresh(g, v.type, gen_shapes[i]);
        gen_line(g, "%s = reshape %s : %s", w.name, v.name, type_text(&w));
        return w;
    }
    return v;
}

static stored transposed(gen *g, stored v)
{
    if (v.shape.rank != 2)
        return v;
    stored w = fresh(g, v.type, (shape){2, {v.shape.side[1], v.shape.side[0]}});
    gen_line(g, "%s = trans %s", w.name, v.name);
    return w;
}

static stored selected(gen *g, stored v)
{
    value c = gen_need(g, NUM_I1, v.shape);
    stored other = any_value(g, v.type, v.shape), w = fresh(g, v.type, v.shape);
    gen_line(g, "%s = select %s, %s, %s", w.name, c.name, v.name, other.name);
    return w;
}

/* Joined with another one, and a part of that. */
static stored part_of_both(gen *g, stored v)
{
    if (v.shape.rank != 2 || v.shape.side[1] != 8)
        return v;
    stored other = any_value(g, v.type, v.shape);
    stored both = fresh(g, v.type, (shape){2, {v.shape.side[0], 16}});
    stored w = fresh(g, v.type, v.shape);
    bool mixed = num_below(&g->rng, 2), steps = num_below(&g->rng, 2);
    gen_line(g, "%s = %s %s, %s axis(1)", both.name,
             mixed ? "interleave" : "join", v.name, other.name);
    gen_line(g, "%s = slice %s axis(1) at(%d) side(8)%s", w.name, both.name,
             num_below(&g->rng, 2), steps ? " step(2)" : "");
    return w;
}

static stored taken(gen *g, stored v)
{
    if (v.shape.rank == 0)
        return v;
    int axis = num_below(&g->rng, v.shape.rank);
    value i = gen_need(g, NUM_I32, v.shape), r = gen_fresh(g, NUM_I32, v.shape);
    value most = gen_splat_to(g, gen_whole(g, v.shape.side[axis] + 1), v.shape);
    stored w = fresh(g, v.type, v.shape);
    gen_line(g, "%s = rem %s, %s", r.name, i.name, most.name);
    gen_line(g, "%s = take %s, %s axis(%d)%s", w.name, v.name, r.name, axis,
             any_pad(g));
    return w;
}

/* Through a loop, which may end early, or a branch. */
static stored through_loop(gen *g, stored v)
{
    stored arg = fresh(g, v.type, v.shape), w = fresh(g, v.type, v.shape);
    value lo = gen_whole(g, 0), hi = gen_whole(g, num_between(&g->rng, 0, 3));
    value step = gen_whole(g, 1), i = gen_fresh(g, NUM_I32, gen_shapes[0]);
    int nvalues = g->nvalues;
    gen_line(g, "%s = for %s = %s to %s step %s carry(%s = %s) {", w.name,
             i.name, lo.name, hi.name, step.name, arg.name, v.name);
    g->indent += 2;
    if (num_below(&g->rng, 3) == 0)
        gen_line(g, "break_if %s", gen_need(g, NUM_I1, gen_shapes[0]).name);
    gen_line(g, "yield %s", selected(g, arg).name);
    g->indent -= 2;
    gen_line(g, "}");
    g->nvalues = nvalues;
    return w;
}

static stored through_branch(gen *g, stored v)
{
    stored w = fresh(g, v.type, v.shape);
    value c = gen_need(g, NUM_I1, gen_shapes[0]);
    int nvalues = g->nvalues;
    gen_line(g, "%s = if %s {", w.name, c.name);
    g->indent += 2;
    gen_line(g, "yield %s", any_value(g, v.type, v.shape).name);
    g->indent -= 2;
    gen_line(g, "} else {");
    gen_line(g, "  yield %s", v.name);
    gen_line(g, "}");
    g->nvalues = nvalues;
    return w;
}

static stored recoded(gen *g, stored v)
{
    stored w = fresh(g, any_stored(g), v.shape);
    if (w.type == v.type)
        return v;
    gen_line(g, "%s = cast %s : %s", w.name, v.name, type_text(&w));
    return w;
}

static stored moved(gen *g, stored v)
{
    static stored (*const moves[])(gen *, stored) = {
        other_shape, transposed,   selected,       part_of_both,
        taken,       through_loop, through_branch, recoded};
    for (int n = num_below(&g->rng, 4); n--;)
        v = moves[num_below(&g->rng, sizeof moves / sizeof *moves)](g, v);
    return v;
}

/* ---- Where they go ---- */

static void store(gen *g, stored v)
{
    int n = gen_shape_count(v.shape);
    stored flat = fresh(g, v.type, (shape){1, {n < 8 ? 8 : n}});
    if (v.shape.rank == 0)
        gen_line(g, "%s = splat %s : %s", flat.name, v.name, type_text(&flat));
    else if (v.shape.rank == 1)
        flat = v;
    else
        gen_line(g, "%s = reshape %s : %s", flat.name, v.name,
                 type_text(&flat));
    stored window = fresh(g, v.type, flat.shape);
    value at = gen_whole(g, g->p.stored[v.type]);
    gen_line(g, "%s = block %%out_%s[%%pid, %s +: %d]", window.name,
             stored_infos[v.type].name, at.name, flat.shape.side[0]);
    gen_line(g, "store %s, %s", window.name, flat.name);
    g->p.stored[v.type] += flat.shape.side[0];
}

/* u8 by u8, or by i8. */
static void multiplied(gen *g)
{
    static const int sides[] = {8, 16, 32};
    int m = num_below(&g->rng, 2) ? 8 : 16, n = num_below(&g->rng, 2) ? 8 : 16;
    int k = sides[num_below(&g->rng, 3)];
    shape left = {2, {m, k}}, right = {2, {k, n}};
    stored a = any_value(g, STORED_U8, left);
    value v = gen_fresh(g, NUM_I32, (shape){2, {m, n}});
    char b[12];
    if (num_below(&g->rng, 2))
        strcpy(b, gen_need(g, NUM_I8, right).name);
    else
        strcpy(b, any_value(g, STORED_U8, right).name);
    gen_line(g, "%s = dot %s, %s", v.name, a.name, b);
    gen_keep(g, v);
}

void gen_stored(gen *g)
{
    if (!g->p.split && !g->in_function && num_below(&g->rng, 6) == 0) {
        multiplied(g);
        return;
    }
    stored v = moved(g, any_value(g, any_stored(g), gen_any_shape(g)));
    if (!g->is_pure && num_below(&g->rng, 3) == 0) {
        store(g, v);
        return;
    }
    value x = gen_fresh(g, gen_any_type(g), v.shape);
    gen_line(g, "%s = cast %s : %s", x.name, v.name,
             gen_type_text(x.type, x.shape));
    gen_keep(g, x);
}
