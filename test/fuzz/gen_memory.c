/* SPDX-License-Identifier: Apache-2.0
 *
 * Statements that load, store and call.
 */
#include "test/fuzz/gen.h"

#include <string.h>

/* Within the tensor, or just outside of it. */
static value offset(gen *g)
{
    value x = gen_need(g, NUM_I32, gen_shapes[0]), span = gen_whole(g, 60);
    value v = gen_fresh(g, NUM_I32, gen_shapes[0]),
          w = gen_fresh(g, NUM_I32, gen_shapes[0]);
    gen_line(g, "%s = rem %s, %s", v.name, x.name, span.name);
    value back = gen_whole(g, 12);
    gen_line(g, "%s = sub %s, %s", w.name, v.name, back.name);
    return w;
}

/* Hints change no result. */
static const char *hint(gen *g)
{
    static const char *const hints[] = {"", "", " evict(first)", " evict(last)",
                                        " cache(cg)"};
    return hints[num_below(&g->rng, sizeof hints / sizeof *hints)];
}

/* The tensor of that name, or one made of its address: every so many rows of
 * it, and at times rows as columns. */
static value source(gen *g, bool real)
{
    const char *name = real ? "fa" : "ia";
    value whole = {.type = real ? NUM_F32 : NUM_I32};
    snprintf(whole.name, sizeof whole.name, "%%%s", name);
    if (num_below(&g->rng, 3))
        return whole;
    const char *type = real ? "f32" : "i32";
    value p = gen_fresh(g, NUM_I32, gen_shapes[0]), n[2], s[2], t;
    value each = gen_whole(g, num_between(&g->rng, 1, 3)), wide;
    gen_line(g, "%s = base %%%s", p.name, name);
    if (num_below(&g->rng, 2)) {
        value bits = p;
        t = gen_fresh(g, NUM_I32, gen_shapes[0]);
        p = gen_fresh(g, NUM_I32, gen_shapes[0]);
        gen_line(g, "%s = bitcast %s : i64", t.name, bits.name);
        gen_line(g, "%s = bitcast %s : ptr<%s>", p.name, t.name, type);
    }
    for (int i = 0; i < 2; i++) {
        n[i] = gen_fresh(g, NUM_I32, gen_shapes[0]);
        s[i] = gen_fresh(g, NUM_I32, gen_shapes[0]);
        gen_line(g, "%s = size %%%s dim(%d)", n[i].name, name, i);
        gen_line(g, "%s = stride %%%s dim(%d)", s[i].name, name, i);
    }
    value rows = gen_fresh(g, NUM_I32, gen_shapes[0]);
    value stride = gen_fresh(g, NUM_I32, gen_shapes[0]);
    wide = gen_fresh(g, NUM_I32, gen_shapes[0]);
    t = gen_fresh(g, NUM_I32, gen_shapes[0]);
    gen_line(g, "%s = div %s, %s", rows.name, n[0].name, each.name);
    gen_line(g, "%s = cast %s : i64", wide.name, each.name);
    gen_line(g, "%s = mul %s, %s", stride.name, s[0].name, wide.name);
    if (num_below(&g->rng, 2))
        gen_line(g, "%s = tensor %s, %s, %s, %s, %s : tensor<[?, ?] x %s>",
                 t.name, p.name, rows.name, n[1].name, stride.name, s[1].name,
                 type);
    else
        gen_line(g, "%s = tensor %s, %s, %s, %s, %s : tensor<[?, ?] x %s>",
                 t.name, p.name, n[1].name, rows.name, s[1].name, stride.name,
                 type);
    return t;
}

/* By a few rows and columns, back ones too. */
static value advanced(gen *g, value window)
{
    value to = gen_fresh(g, window.type, window.shape);
    value r = gen_whole(g, num_between(&g->rng, -9, 9));
    value c = gen_whole(g, num_between(&g->rng, -9, 9));
    gen_line(g, "%s = advance %s, %s, %s", to.name, window.name, r.name,
             c.name);
    return to;
}

void gen_load(gen *g)
{
    bool real = num_below(&g->rng, 2);
    value from = source(g, real);
    value r = offset(g), c = offset(g);
    value v = gen_fresh(g, real ? NUM_F32 : NUM_I32,
                        gen_shapes[num_between(&g->rng, 3, GEN_SHAPES - 2)]);
    value window = gen_fresh(g, v.type, v.shape);
    static const char *const steps[] = {"", "", " step 2", " step 3"};
    gen_line(g, "%s = block %s[%s +: %d%s, %s +: %d%s]", window.name, from.name,
             r.name, v.shape.side[0], steps[num_below(&g->rng, 4)], c.name,
             v.shape.side[1], steps[num_below(&g->rng, 4)]);
    if (num_below(&g->rng, 4) == 0)
        window = advanced(g, window);
    gen_line(g, "%s = load %s boundary(0, 1)%s%s", v.name, window.name,
             num_below(&g->rng, 2) ? ""
             : real                ? " pad(-2.5)"
                                   : " pad(9)",
             hint(g));
    gen_keep(g, v);
}

void gen_gather(gen *g)
{
    bool real = num_below(&g->rng, 2);
    shape s = gen_any_shape(g);
    value i = gen_need(g, NUM_I32, s), j = gen_need(g, NUM_I32, s);
    value limit = gen_splat_to(g, gen_whole(g, 50), s),
          k = gen_fresh(g, NUM_I32, s);
    gen_line(g, "%s = rem %s, %s", k.name, i.name, limit.name);
    value l = gen_fresh(g, NUM_I32, s),
          v = gen_fresh(g, real ? NUM_F32 : NUM_I32, s);
    gen_line(g, "%s = rem %s, %s", l.name, j.name, limit.name);
    value from = source(g, real);
    gen_line(g, "%s = gather %s, %s, %s%s%s", v.name, from.name, k.name, l.name,
             num_below(&g->rng, 2) ? "" : " pad(1)", hint(g));
    gen_keep(g, v);
}

/* (range(n) * step + from) op number, or that of any value. */
static value indices(gen *g, int n)
{
    static const char *const ops[] = {"div", "rem", "sub"};
    shape s = {1, {n}};
    value at = offset(g), lanes = gen_fresh(g, NUM_I32, s), x = lanes;
    if (num_below(&g->rng, 3)) {
        gen_line(g, "%s = range : %s", lanes.name, gen_type_text(NUM_I32, s));
        value step =
            gen_splat_to(g, gen_whole(g, num_between(&g->rng, 1, 3)), s);
        x = gen_fresh(g, NUM_I32, s);
        gen_line(g, "%s = mul %s, %s", x.name, lanes.name, step.name);
    } else {
        lanes = gen_need(g, NUM_I32, s);
        value limit = gen_splat_to(g, gen_whole(g, 40), s);
        gen_line(g, "%s = rem %s, %s", x.name, lanes.name, limit.name);
    }
    value from = gen_splat_to(g, at, s), sum = gen_fresh(g, NUM_I32, s);
    gen_line(g, "%s = add %s, %s", sum.name, x.name, from.name);
    value number = gen_splat_to(g, gen_whole(g, 1 << num_below(&g->rng, 5)), s);
    value v = gen_fresh(g, NUM_I32, s);
    gen_line(g, "%s = %s %s, %s", v.name, ops[num_below(&g->rng, 3)], sum.name,
             number.name);
    return v;
}

/* Rows or columns by index; at times as one row of them all. */
void gen_load_windows(gen *g)
{
    bool real = num_below(&g->rng, 2), columns = num_below(&g->rng, 3) == 0;
    shape s = gen_shapes[num_between(&g->rng, 3, GEN_SHAPES - 2)];
    value i = indices(g, s.side[0]), at = offset(g);
    value v = gen_fresh(g, real ? NUM_F32 : NUM_I32, s);
    value window = gen_fresh(g, v.type, v.shape);
    value from = source(g, real);
    if (columns)
        gen_line(g, "%s = block %s[%s +: %d, %s]", window.name, from.name,
                 at.name, s.side[1], i.name);
    else
        gen_line(g, "%s = block %s[%s, %s +: %d]", window.name, from.name,
                 i.name, at.name, s.side[1]);
    gen_line(g, "%s = load %s boundary(1)%s", v.name, window.name,
             num_below(&g->rng, 2) ? "" : " pad(3)");
    gen_keep(g, v);
}

/* An element of each pointer; at times some only. */
void gen_load_pointers(gen *g)
{
    bool real = num_below(&g->rng, 2), masked = num_below(&g->rng, 2);
    shape s = gen_any_shape(g);
    num_type t = real ? NUM_F32 : NUM_I32;
    value i = gen_need(g, NUM_I32, s), k = gen_fresh(g, NUM_I32, s);
    value most =
        gen_splat_to(g, gen_whole(g, PROGRAM_ROWS * PROGRAM_COLUMNS), s);
    value p = gen_fresh(g, t, gen_shapes[0]), at = gen_fresh(g, t, s), to = p;
    gen_line(g, "%s = rem %s, %s", k.name, i.name, most.name);
    gen_line(g, "%s = base %%%s", p.name, real ? "fa" : "ia");
    if (s.rank) {
        char like[64];
        snprintf(like, sizeof like, "%s", gen_type_text(NUM_I1, s));
        to = gen_fresh(g, t, s);
        gen_line(g, "%s = splat %s : %.*sptr<%s>>", to.name, p.name,
                 (int)strlen(like) - 3, like, num_name(t));
    }
    gen_line(g, "%s = ptr_add %s, %s", at.name, to.name, k.name);
    value v = gen_fresh(g, t, s);
    if (masked) {
        value c = gen_need(g, NUM_I1, s), other = gen_need(g, t, s);
        gen_line(g, "%s = load %s, %s, %s%s", v.name, at.name, c.name,
                 other.name, hint(g));
    } else {
        gen_line(g, "%s = load %s%s", v.name, at.name, hint(g));
    }
    gen_keep(g, v);
}

void gen_call(gen *g)
{
    int i = num_below(&g->rng, 2);
    const function *f = &g->functions[i];
    shape s = gen_any_shape(g);
    value a = gen_need(g, f->params[0], s), b = gen_need(g, f->params[1], s);
    value v = gen_fresh(g, f->result, s);
    if (num_below(&g->rng, 2))
        gen_line(g, "%s = call @f%d(%s, %s) : %s", v.name, i, a.name, b.name,
                 gen_type_text(v.type, s));
    else
        gen_line(g, "%s = call @g%d[f=@f%d](%s, q=%s) : %s", v.name, i, i,
                 a.name, b.name, gen_type_text(v.type, s));
    gen_keep(g, v);
}

static void put(gen *g, value w, value at)
{
    value window = gen_fresh(g, w.type, w.shape);
    gen_line(g, "%s = block %%out_%s[%%pid, %s +: %d]", window.name,
             num_name(w.type), at.name, w.shape.side[0]);
    gen_line(g, "store %s, %s%s", window.name, w.name, hint(g));
}

/* As a row by index, or an element for each index, the last one first. */
static void put_by_index(gen *g, value w, value at)
{
    int n = w.shape.side[0];
    bool row = num_below(&g->rng, 2);
    shape s = row ? (shape){2, {1, n}} : (shape){2, {n, 1}};
    shape lanes = {1, {row ? 1 : n}};
    value x = gen_fresh(g, w.type, s), window = gen_fresh(g, w.type, s);
    gen_line(g, "%s = reshape %s : %s", x.name, w.name,
             gen_type_text(w.type, s));
    if (row) {
        value i = gen_fresh(g, NUM_I32, lanes);
        gen_line(g, "%s = splat %%pid : %s", i.name,
                 gen_type_text(NUM_I32, lanes));
        gen_line(g, "%s = block %%out_%s[%s, %s +: %d]", window.name,
                 num_name(w.type), i.name, at.name, n);
    } else {
        value steps = gen_fresh(g, NUM_I32, lanes),
              i = gen_fresh(g, NUM_I32, lanes);
        value last = gen_fresh(g, NUM_I32, gen_shapes[0]);
        gen_line(g, "%s = range : %s", steps.name,
                 gen_type_text(NUM_I32, lanes));
        gen_line(g, "%s = add %s, %s", last.name, at.name,
                 gen_whole(g, n - 1).name);
        value from = gen_splat_to(g, last, lanes);
        gen_line(g, "%s = sub %s, %s", i.name, from.name, steps.name);
        gen_line(g, "%s = block %%out_%s[%%pid +: 1, %s]", window.name,
                 num_name(w.type), i.name);
    }
    gen_line(g, "store %s, %s", window.name, x.name);
}

void gen_store_value(gen *g, value v)
{
    int n = gen_shape_count(v.shape);
    shape flat = {1, {n < 8 ? 8 : n}};
    value w = v;
    if (v.shape.rank == 0)
        w = gen_splat_to(g, v, flat);
    if (v.shape.rank > 1) {
        w = gen_fresh(g, v.type, flat);
        gen_line(g, "%s = reshape %s : %s", w.name, v.name,
                 gen_type_text(v.type, flat));
    }
    value at = gen_whole(g, g->p.slots[v.type]);
    if (num_below(&g->rng, 4) == 0)
        put_by_index(g, w, at);
    else
        put(g, w, at);
    g->p.slots[v.type] += flat.side[0];
}

void gen_store(gen *g)
{
    if (g->is_pure)
        return;
    gen_store_value(g, gen_need(g, gen_any_type(g), gen_any_shape(g)));
}

/* Not of a plan's kernels: which of them prints is its own business. */
void gen_print(gen *g)
{
    if (g->p.split)
        return;
    value v = gen_need(g, gen_any_type(g), gen_any_shape(g));
    value x = gen_need(g, gen_any_type(g), gen_shapes[0]);
    gen_line(g, "print \"%d%%\", %s, %s", g->next++, v.name, x.name);
}

/* Ops that are only good to some ulps, on tame input: checked roughly, and
 * nothing else depends on them. */
void gen_rough(gen *g)
{
    static const char *const ops[] = {"exp", "exp2", "log",   "log2", "sin",
                                      "cos", "tanh", "rsqrt", "rcp",  "erf"};
    if (g->is_pure)
        return;
    shape s = {1, {16}};
    value x = gen_small(g, NUM_F32, s, 15), v = gen_fresh(g, NUM_F32, s);
    value one = gen_fresh(g, NUM_F32, gen_shapes[0]),
          y = gen_fresh(g, NUM_F32, s);
    gen_line(g, "%s = const 0.75 : f32", one.name);
    one = gen_splat_to(g, one, s);
    gen_line(g, "%s = add %s, %s", y.name, x.name, one.name);
    gen_line(g, "%s = %s %s", v.name, ops[num_below(&g->rng, 10)], y.name);
    value at = gen_whole(g, g->p.rough), window = gen_fresh(g, NUM_F32, s);
    gen_line(g, "%s = block %%rough[%%pid, %s +: 16]", window.name, at.name);
    gen_line(g, "store %s, %s", window.name, v.name);
    g->p.rough += 16;
}
