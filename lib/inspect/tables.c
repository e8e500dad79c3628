/* SPDX-License-Identifier: Apache-2.0
 *
 * The loads and products of the kernel, as data.
 */
#include "lib/inspect/collect.h"

#include "passes/analysis/axis_info.h"

void tc_inspect_place(tc_collection *c, tc_loc loc)
{
    tc_json_int(&c->w, "place", tc_programs_place(&c->programs, loc));
}

static const char *type_text(tc_collection *c, const tc_type *t)
{
    tc_text text = {.arena = c->arena};
    tc_type_print(&text, t);
    return text.data;
}

static void write_accesses(tc_collection *c, const tc_load_info *l)
{
    tc_json_open(&c->w, "accesses", '[');
    for (unsigned i = 0; i < l->naccesses; i++) {
        const tc_buffer_access *a = &l->accesses[i];
        tc_json_open(&c->w, NULL, '{');
        tc_json_string(&c->w, "op", tc_op_name(a->op));
        tc_json_string(&c->w, "by",
                       a->by_descriptor ? "wgmma"
                       : a->by_matrices ? "matrices"
                                        : "vectors");
        tc_json_int(&c->w, "bytes", a->bytes);
        tc_json_int(&c->w, "ways", a->ways);
        tc_inspect_place(c, a->op->loc);
        tc_json_close(&c->w, '}');
    }
    tc_json_close(&c->w, ']');
}

static void write_load(tc_collection *c, const tc_load_info *l)
{
    static const char *const copying[] = {"synchronous", "async", "tma"};
    tc_json_writer *w = &c->w;
    const tc_value *tensor = tc_accessed_tensor(l->op);
    const tc_type *held = l->alloc ? l->alloc->out[0]->type : l->tile;
    tc_json_open(w, NULL, '{');
    tc_inspect_place(c, l->op->loc);
    tc_json_int(w, "line", tc_programs_line(&c->programs, l->op));
    tc_json_string(w, "tensor",
                   tensor ? tc_value_name(c->job->cx, tensor) : NULL);
    tc_json_string(w, "tile", type_text(c, l->tile));
    tc_json_bool(w, "hot", l->hot);
    tc_json_int(w, "contiguous", l->contiguous);
    tc_json_int(w, "vector", l->width);
    tc_json_string(w, "copied", copying[l->copying]);
    tc_json_int(w, "slots", l->alloc ? held->slots : 0);
    tc_json_string(w, "why", l->why);
    tc_json_bool(w, "buffer", l->alloc != NULL);
    tc_json_int(
        w, "layout",
        tc_inspect_layout(c, held->layout, 8 * tc_type_bytes(held->elem)));
    write_accesses(c, l);
    tc_json_close(w, '}');
}

static const char *order_word(tc_order o, unsigned i)
{
    return o == TC_IN_REGISTERS ? "registers"
           : o == TC_K_MAJOR    ? "K-major"
           : i                  ? "N-major"
                                : "M-major";
}

static bool is_async(const tc_op *op)
{
    return tc_op_attr(op, "async")->kind != TC_ATTR_NONE &&
           tc_op_int(op, "async");
}

static void write_product(tc_collection *c, const tc_product_info *p)
{
    tc_json_writer *w = &c->w;
    const tc_op *op = p->op;
    tc_json_open(w, NULL, '{');
    tc_inspect_place(c, op->loc);
    tc_json_int(w, "line", tc_programs_line(&c->programs, op));
    tc_json_bool(w, "hot", p->hot);
    tc_json_int(w, "m", p->m);
    tc_json_int(w, "n", p->n);
    tc_json_int(w, "k", p->k);
    tc_json_string(w, "a", tc_type_name(c->job->cx, op->in[0]->type->elem));
    tc_json_string(w, "b", tc_type_name(c->job->cx, op->in[1]->type->elem));
    tc_json_string(w, "instruction", tc_op_word(op, "instr"));
    tc_json_bool(w, "async", is_async(op));
    tc_json_string(w, "a_order", order_word(p->order[0], 0));
    tc_json_string(w, "b_order", order_word(p->order[1], 1));
    tc_json_bool(w, "k_major_only", p->k_only);
    tc_json_open(w, "operands", '[');
    for (unsigned i = 0; i < 3; i++) {
        const tc_type *t = op->in[i]->type;
        tc_json_int(w, NULL,
                    t->layout ? tc_inspect_layout(c, t->layout,
                                                  8 * tc_type_bytes(t->elem))
                              : -1);
    }
    tc_json_close(w, ']');
    tc_json_close(w, '}');
}

void tc_inspect_tables(tc_collection *c)
{
    tc_json_writer *w = &c->w;
    tc_json_open(w, "hot", '{');
    tc_inspect_place(c, c->seen.loop ? c->seen.loop->loc : (tc_loc){0});
    tc_json_int(w, "line",
                c->seen.loop ? tc_programs_line(&c->programs, c->seen.loop)
                             : 0);
    tc_json_close(w, '}');
    tc_json_open(w, "loads", '[');
    for (const tc_load_info *l = c->seen.loads; l; l = l->next)
        write_load(c, l);
    tc_json_close(w, ']');
    tc_json_open(w, "products", '[');
    for (const tc_product_info *p = c->seen.products; p; p = p->next)
        write_product(c, p);
    tc_json_close(w, ']');
}
