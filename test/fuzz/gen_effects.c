/* SPDX-License-Identifier: Apache-2.0
 *
 * Statements with effects that are no stores.
 */
#include "test/fuzz/gen.h"

#include <string.h>

/* A pointer to the program's elements of an output, from column `at` on. */
static value own_elements(gen *g, num_type t, int at)
{
    shape one = gen_shapes[0];
    value p = gen_fresh(g, t, one), s = gen_fresh(g, NUM_I64, one);
    value wide = gen_fresh(g, NUM_I64, one), row = gen_fresh(g, NUM_I64, one);
    value q = gen_fresh(g, t, one), r = gen_fresh(g, t, one);
    gen_line(g, "%s = base %%out_%s", p.name, num_name(t));
    gen_line(g, "%s = stride %%out_%s dim(0)", s.name, num_name(t));
    gen_line(g, "%s = cast %%pid : i64", wide.name);
    gen_line(g, "%s = mul %s, %s", row.name, wide.name, s.name);
    gen_line(g, "%s = ptr_add %s, %s", q.name, p.name, row.name);
    gen_line(g, "%s = ptr_add %s, %s", r.name, q.name, gen_whole(g, at).name);
    return r;
}

static const char *any_order(gen *g)
{
    static const char *const words[] = {"", " order(relaxed)",
                                        " order(acquire) scope(system)",
                                        " order(release) scope(block)"};
    return words[num_below(&g->rng, 4)];
}

/* On memory of the program's own, so that the old value is known: one element,
 * or one for each lane. */
void gen_atomic(gen *g)
{
    static const char *const kinds[] = {"add", "max", "min",     "and",
                                        "or",  "xor", "exchange"};
    if (g->is_pure)
        return;
    num_type t = num_below(&g->rng, 3) ? NUM_I32 : NUM_I64;
    shape s = gen_shapes[num_below(&g->rng, 3)];
    int n = gen_shape_count(s), room = n < 8 ? 8 : n;
    value p = own_elements(g, t, g->p.slots[t]);
    if (s.rank) {
        value each = gen_fresh(g, t, s), lanes = gen_fresh(g, NUM_I32, s);
        value at = gen_fresh(g, t, s);
        gen_line(g, "%s = splat %s : tile<%d x ptr<%s>>", each.name, p.name, n,
                 num_name(t));
        gen_line(g, "%s = range : %s", lanes.name, gen_type_text(NUM_I32, s));
        gen_line(g, "%s = ptr_add %s, %s", at.name, each.name, lanes.name);
        p = at;
    }
    value x = gen_need(g, t, s), v = gen_fresh(g, t, s);
    if (num_below(&g->rng, 4) == 0)
        gen_line(g, "%s = atomic_cas %s, %s, %s%s", v.name, p.name,
                 gen_need(g, t, s).name, x.name, any_order(g));
    else if (num_below(&g->rng, 2))
        gen_line(g, "%s = atomic %s, %s kind(%s)%s", v.name, p.name, x.name,
                 kinds[num_below(&g->rng, 7)], any_order(g));
    else
        gen_line(g, "%s = atomic %s, %s, %s kind(%s)", v.name, p.name, x.name,
                 gen_need(g, NUM_I1, s).name, kinds[num_below(&g->rng, 7)]);
    gen_keep(g, v);
    g->p.slots[t] += room;
}

/* What is true: an assert of a tile, a promise about arguments. */
void gen_promise(gen *g)
{
    if (g->is_pure)
        return;
    shape s = gen_any_shape(g);
    value x = gen_need(g, NUM_I32, s);
    value mask = gen_splat_to(g, gen_whole(g, 7), s), rest, c;
    bool promised = num_below(&g->rng, 2);
    if (promised) {
        s = gen_shapes[0];
        c = gen_fresh(g, NUM_I1, s);
        gen_line(g, "%s = cmp %%n, %s pred(le)", c.name, gen_whole(g, 5).name);
        gen_line(g, "assume %s", c.name);
        return;
    }
    rest = gen_fresh(g, NUM_I32, s), c = gen_fresh(g, NUM_I1, s);
    gen_line(g, "%s = rem %s, %s", rest.name, x.name, mask.name);
    gen_line(g, "%s = cmp %s, %s pred(lt)", c.name, rest.name, mask.name);
    gen_line(g, "assert %s message(\"a remainder\")", c.name);
}

/* At most one program ends here; of stream K none: its programs have many
 * tiles. */
void gen_exit(gen *g)
{
    bool streams = g->p.split && strcmp(g->p.split, "stream") == 0;
    if (streams || g->is_pure || g->depth || num_below(&g->rng, 2))
        return;
    shape s = gen_shapes[0];
    value c = gen_need(g, NUM_I1, s), d = gen_fresh(g, NUM_I1, s);
    value both = gen_fresh(g, NUM_I1, s);
    gen_line(g, "%s = cmp %%pid, %s pred(eq)", d.name,
             gen_whole(g, num_below(&g->rng, PROGRAM_GRID)).name);
    gen_line(g, "%s = and %s, %s", both.name, c.name, d.name);
    gen_line(g, "exit_if %s", both.name);
}
