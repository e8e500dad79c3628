/* SPDX-License-Identifier: Apache-2.0
 *
 * Where elements live: the layouts of buffers and tiles as modes, from which a
 * reader computes the place of each element (ir/types/layout.h); when buffers
 * are in use; the registers that tiles take at each line.
 */
#include "lib/inspect/collect.h"

#include "ir/types/layout.h"
#include "passes/sync/shared_memory.h"

#include <string.h>

int tc_inspect_layout(tc_collection *c, const tc_layout *l, unsigned bits)
{
    if (!l)
        return -1;
    for (unsigned i = 0; i < c->nlayouts; i++)
        if (c->layouts[i] == l && c->bits_of[i] == bits)
            return (int)i;
    if (c->nlayouts == TC_MOST_INSPECTED_LAYOUTS)
        return -1;
    c->layouts[c->nlayouts] = l;
    c->bits_of[c->nlayouts] = bits;
    return (int)c->nlayouts++;
}

/* ---- The list of layouts ---- */

static void write_sides(tc_json_writer *w, const char *name, unsigned n,
                        const int32_t *sides)
{
    tc_json_open(w, name, '[');
    for (unsigned i = 0; i < n; i++)
        tc_json_int(w, NULL, sides[i]);
    tc_json_close(w, ']');
}

/* [[count, image of axis 0, ..], ..] */
static void write_modes(tc_json_writer *w, const char *name, const tc_layout *l,
                        tc_input in)
{
    tc_json_open(w, name, '[');
    for (unsigned i = 0; i < l->nmodes[in]; i++) {
        const tc_mode *m = &l->modes[in][i];
        tc_json_open(w, NULL, '[');
        tc_json_int(w, NULL, m->count);
        for (unsigned a = 0; a < l->rank; a++)
            tc_json_int(w, NULL, m->image[a]);
        tc_json_close(w, ']');
    }
    tc_json_close(w, ']');
}

static void write_layout(tc_collection *c, const tc_layout *l, unsigned bits)
{
    tc_json_writer *w = &c->w;
    tc_text text = {.arena = c->arena};
    tc_layout_print(&text, l, bits);
    tc_json_open(w, NULL, '{');
    tc_json_string(w, "text", text.data);
    tc_json_int(w, "bits", bits);
    tc_json_bool(w, "shared", tc_layout_is_shared(l));
    write_sides(w, "shape", l->rank, l->shape);
    write_sides(w, "period", l->rank, l->period);
    write_modes(w, "register", l, TC_REGISTER);
    write_modes(w, "lane", l, TC_LANE);
    write_modes(w, "warp", l, TC_WARP);
    write_modes(w, "offset", l, TC_OFFSET);
    tc_json_close(w, '}');
}

void tc_inspect_layouts(tc_collection *c)
{
    tc_json_open(&c->w, "layouts", '[');
    for (unsigned i = 0; i < c->nlayouts; i++)
        write_layout(c, c->layouts[i], c->bits_of[i]);
    tc_json_close(&c->w, ']');
}

/* ---- Buffers ---- */

/* The last line of an op: of the last op in its last region, and its brace. */
static unsigned last_line(const tc_collection *c, const tc_op *op)
{
    unsigned braces = 0;
    while (op->nregions && op->regions[op->nregions - 1]->last) {
        op = op->regions[op->nregions - 1]->last;
        braces++;
    }
    return tc_programs_line(&c->programs, op) + braces;
}

/* As the newest text has it: what stands before " = " in the op's line. */
static const char *name_of(tc_collection *c, const tc_op *op)
{
    unsigned line = tc_programs_line(&c->programs, op);
    const char *s = c->programs.newest;
    while (line > 1) {
        s = strchr(s, '\n') + 1;
        line--;
    }
    s += strspn(s, " ");
    return tc_arena_printf(c->arena, "%.*s", (int)strcspn(s, " ,"), s);
}

static void write_buffer_accesses(tc_collection *c, tc_op *alloc)
{
    enum { MOST = 32 };
    tc_buffer_access all[MOST];
    tc_json_writer *w = &c->w;
    const tc_type *t = alloc->out[0]->type;
    unsigned n = tc_buffer_accesses(&c->env, alloc, MOST, all);
    tc_json_open(w, "accesses", '[');
    for (unsigned i = 0; i < n; i++) {
        const tc_buffer_access *a = &all[i];
        tc_json_open(w, NULL, '{');
        tc_json_string(w, "op", tc_op_name(a->op));
        tc_json_int(w, "line", tc_programs_line(&c->programs, a->op));
        tc_json_string(w, "by",
                       a->by_descriptor ? "wgmma"
                       : a->by_matrices ? "matrices"
                                        : "vectors");
        tc_json_int(w, "bytes", a->bytes);
        tc_json_int(w, "ways", a->ways);
        bool fits = a->tile && a->tile->rank == a->view->rank &&
                    memcmp(a->tile->shape, a->view->shape,
                           a->view->rank * sizeof *a->tile->shape) == 0;
        unsigned bits = 8 * tc_type_bytes(t->elem);
        tc_json_int(w, "tile", fits ? tc_inspect_layout(c, a->tile, bits) : -1);
        tc_json_int(w, "view", fits ? tc_inspect_layout(c, a->view, bits) : -1);
        tc_json_close(w, '}');
    }
    tc_json_close(w, ']');
}

/* The first and the last line of ops that use the buffer: a loop that does not
 * hold the allocation counts with all its lines. */
typedef struct use_lines {
    unsigned first, last;
} use_lines;

static void add_use(const tc_collection *c, use_lines *u, const tc_op *op,
                    const tc_op *alloc)
{
    for (const tc_op *at = op; at && at->parent != alloc->parent;
         at = at->parent ? at->parent->op : NULL)
        if (tc_op_is_loop(at))
            op = at;
    unsigned first = tc_programs_line(&c->programs, op);
    unsigned last = last_line(c, op);
    u->first = !u->first || first < u->first ? first : u->first;
    u->last = last > u->last ? last : u->last;
}

static use_lines lines_of(const tc_collection *c, const tc_op *alloc)
{
    use_lines u = {0, 0};
    tc_buffer buffers[TC_MAX_BUFFERS];
    tc_each_nested (op, c->f->body)
        for (unsigned i = 0; i < op->nin; i++) {
            tc_kind kind = op->in[i]->type->kind;
            unsigned n = kind == TC_SMEM || kind == TC_MBARRIER
                             ? tc_trace_buffers(op->in[i], buffers)
                             : 0;
            for (unsigned k = 0; k < n && k < TC_MAX_BUFFERS; k++)
                if (buffers[k].alloc == alloc)
                    add_use(c, &u, op, alloc);
        }
    return u;
}

static void write_buffer(tc_collection *c, const tc_lifetime *l)
{
    use_lines used = lines_of(c, l->alloc);
    tc_json_writer *w = &c->w;
    const tc_type *t = l->alloc->out[0]->type;
    bool is_buffer = l->alloc->code == TC_SMEM_ALLOC;
    tc_text type = {.arena = c->arena};
    tc_type_print(&type, t);
    tc_json_open(w, NULL, '{');
    tc_json_string(w, "name", name_of(c, l->alloc));
    tc_json_string(w, "type", type.data);
    tc_json_string(w, "kind", is_buffer ? "buffer" : "mbarrier");
    tc_json_int(w, "line", tc_programs_line(&c->programs, l->alloc));
    tc_inspect_place(c, l->alloc->loc);
    tc_json_int(w, "slots", t->slots ? t->slots : 1);
    tc_json_int(w, "bytes", l->bytes);
    tc_json_int(w, "offset",
                tc_op_has_attr(l->alloc, "offset")
                    ? tc_op_int(l->alloc, "offset")
                    : -1);
    tc_json_int(w, "first", used.first);
    tc_json_int(w, "last", used.last);
    tc_json_int(
        w, "layout",
        is_buffer && t->layout
            ? tc_inspect_layout(c, t->layout, 8 * tc_type_bytes(t->elem))
            : -1);
    if (is_buffer && t->layout)
        write_buffer_accesses(c, l->alloc);
    tc_json_close(w, '}');
}

static void write_buffers(tc_collection *c)
{
    tc_lifetimes all = tc_find_lifetimes(c->arena, c->f, false);
    tc_json_open(&c->w, "buffers", '[');
    for (unsigned i = 0; i < all.n; i++)
        write_buffer(c, &all.of[i]);
    tc_json_close(&c->w, ']');
}

/* ---- Tiles in registers ---- */

/* 32-bit registers of a thread. */
static uint32_t registers_of(const tc_type *t)
{
    if (t->kind != TC_TILE || !t->layout)
        return 0;
    return (tc_layout_size(t->layout, TC_REGISTER) * tc_type_bytes(t->elem) +
            3) /
           4;
}

static void write_tile(tc_collection *c, const tc_op *op)
{
    tc_json_writer *w = &c->w;
    const tc_type *t = op->out[0]->type;
    tc_text type = {.arena = c->arena};
    tc_type_print(&type, t);
    tc_json_open(w, NULL, '{');
    tc_json_string(w, "name", name_of(c, op));
    tc_json_string(w, "op", tc_op_name(op));
    tc_json_string(w, "type", type.data);
    tc_json_int(w, "line", tc_programs_line(&c->programs, op));
    tc_json_int(w, "registers", registers_of(t));
    tc_json_int(w, "layout",
                tc_inspect_layout(c, t->layout, 8 * tc_type_bytes(t->elem)));
    tc_json_close(w, '}');
}

static void write_tiles(tc_collection *c)
{
    tc_json_open(&c->w, "tiles", '[');
    tc_each_nested (op, c->f->body)
        if (op->nout == 1 && registers_of(op->out[0]->type))
            write_tile(c, op);
    tc_json_close(&c->w, ']');
}

/* ---- Registers by line ---- */

/* The op of region r that holds `op`; NULL: none does. */
static const tc_op *around_in(const tc_op *op, const tc_region *r)
{
    while (op && op->parent != r)
        op = op->parent ? op->parent->op : NULL;
    return op;
}

/* Is it held in registers of its own, not made of others when it is used? */
static bool is_held(const tc_value *v)
{
    if (v->type->elem && v->type->elem->kind == TC_I1)
        return false; /* predicates */
    switch (v->def ? v->def->code : TC_OPCODE_COUNT) {
    case TC_CONST:
    case TC_SPLAT:
    case TC_BROADCAST:
    case TC_EXPAND_DIMS:
    case TC_RANGE:
    case TC_MMA_WAIT: return false;
    default: return true;
    }
}

/* From the line after `from` to the value's last use in its region. */
static void add_life(const tc_collection *c, int32_t *steps, unsigned n,
                     const tc_value *v, const tc_region *r, unsigned from)
{
    uint32_t registers = registers_of(v->type);
    unsigned to = from;
    if (!registers || !is_held(v))
        return;
    tc_each_use (u, v) {
        const tc_op *user = around_in(u->op, r);
        /* A loop takes its initial values over where it begins. */
        unsigned line = !user           ? 0
                        : user == u->op ? tc_programs_line(&c->programs, user)
                                        : last_line(c, user);
        to = line > to ? line : to;
    }
    if (to >= n || from >= n || !from)
        return;
    steps[from] += (int32_t)registers;
    steps[to] -= (int32_t)registers;
}

static void add_lives(const tc_collection *c, int32_t *steps, unsigned n,
                      const tc_region *r)
{
    tc_each_op (op, r) {
        unsigned line = tc_programs_line(&c->programs, op);
        for (unsigned i = 0; i < op->nout; i++)
            add_life(c, steps, n, op->out[i], r, last_line(c, op));
        for (unsigned k = 0; k < op->nregions && !tc_op_combines(op); k++) {
            const tc_region *in = op->regions[k];
            for (unsigned i = 0; i < in->nargs; i++)
                add_life(c, steps, n, in->args[i], in, line);
            add_lives(c, steps, n, in);
        }
    }
}

static tc_loc place_of_line(const tc_collection *c, unsigned line)
{
    tc_each_nested (op, c->f->body)
        if (line && op->loc.file && tc_programs_line(&c->programs, op) == line)
            return op->loc;
    return c->f->loc;
}

/* The sum of the tiles that live after each line of the machine-level text:
 * constants and copies that the compiler removes later are counted too. */
static void write_registers(tc_collection *c)
{
    unsigned n = 2;
    for (const char *s = c->programs.newest; *s; s++)
        n += *s == '\n';
    int32_t *steps = tc_arena_array(c->arena, int32_t, n);
    memset(steps, 0, n * sizeof *steps);
    add_lives(c, steps, n, c->f->body);
    unsigned peak = 0;
    tc_json_open(&c->w, "registers", '[');
    for (unsigned i = 1, sum = 0; i + 1 < n; i++) {
        sum += (unsigned)steps[i];
        tc_json_int(&c->w, NULL, (int32_t)sum);
        peak = sum > c->peak_registers ? i : peak;
        c->peak_registers = sum > c->peak_registers ? sum : c->peak_registers;
    }
    tc_json_close(&c->w, ']');
    c->peak_place = place_of_line(c, peak);
}

void tc_inspect_values(tc_collection *c)
{
    write_buffers(c);
    write_tiles(c);
    write_registers(c);
}
