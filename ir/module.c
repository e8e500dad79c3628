/* SPDX-License-Identifier: Apache-2.0
 *
 * Building and changing a program: functions, regions, ops, uses.
 */
#include "ir/fastmath.h"

#include "ir/base/limits.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

tc_module *tc_module_new(tc_context *cx)
{
    tc_module *m = calloc(1, sizeof *m);
    if (!m)
        tc_memory_fail(&cx->memory);
    m->cx = cx;
    tc_arena_init(&m->arena, &cx->memory);
    m->by_name.arena = &m->arena;
    return m;
}

void tc_module_spend(tc_module *m, uint64_t n)
{
    m->steps += n;
    if (m->steps > TC_MOST_STEPS && m->too_large)
        longjmp(*m->too_large, 1);
}

void tc_module_free(tc_module *m)
{
    if (!m)
        return;
    tc_arena_reset(&m->arena);
    free(m);
}

tc_func *tc_func_new(tc_module *m, const char *name, bool is_kernel, tc_loc loc)
{
    tc_func *f = tc_arena_new(&m->arena, tc_func);
    f->module = m;
    f->name = tc_string_get(m->cx, name);
    f->is_kernel = is_kernel;
    f->loc = loc;
    f->body = tc_region_new(f, NULL);
    if (is_kernel)
        f->grid = tc_region_new(f, NULL);
    return f;
}

const tc_param *tc_func_param(const tc_func *f, const char *name)
{
    for (unsigned i = 0; i < f->nparams; i++)
        if (strcmp(f->params[i].name, name) == 0)
            return &f->params[i];
    return NULL;
}

tc_bindings tc_bindings_of(tc_arena *a, const tc_func *f)
{
    tc_bindings b = {f->nparams, tc_arena_array(a, const char *, f->nparams),
                     tc_arena_array(a, const tc_dim *, f->nparams),
                     tc_arena_array(a, const tc_type *, f->nparams)};
    for (unsigned i = 0; i < f->nparams; i++)
        b.names[i] = f->params[i].name;
    return b;
}

const char *tc_func_word(const tc_func *f)
{
    return f->is_kernel ? "kernel" : f->is_plan ? "plan" : "func";
}

/* Functions of one name are a chain: its first is found by the name, each other
 * one by the function before it. The key of f; of one that is in no chain yet,
 * that of the end. */
static const void *chain_key(const tc_module *m, const tc_func *f)
{
    const void *key = f->name, *other;
    while ((other = tc_map_get(&m->by_name, key)) && other != f)
        key = other;
    return key;
}

void tc_func_append(tc_module *m, tc_func *f)
{
    f->prev = m->last;
    f->next = NULL;
    if (m->last)
        m->last->next = f;
    else
        m->first = f;
    m->last = f;
    tc_map_set(&m->by_name, chain_key(m, f), f);
}

void tc_func_erase(tc_func *f)
{
    tc_module *m = f->module;
    *(f->prev ? &f->prev->next : &m->first) = f->next;
    *(f->next ? &f->next->prev : &m->last) = f->prev;
    tc_map_set(&m->by_name, chain_key(m, f), tc_map_get(&m->by_name, f));
    tc_map_set(&m->by_name, f, NULL);
}

tc_func *tc_func_find(const tc_module *m, const char *name)
{
    const char *known = tc_string_find(m->cx, name);
    return known ? tc_map_get(&m->by_name, known) : NULL;
}

static const char *const tiles_words[TC_TILES_COUNT] = {
    [TC_TILES_NONE] = "none",
    [TC_TILES_STATIC] = "static",
    [TC_TILES_DYNAMIC] = "dynamic",
};

const char *tc_tiles_word(tc_tiles t)
{
    return tiles_words[t];
}

/* The number of a word; 0: it is none of them. */
static unsigned find_word(const char *const *words, unsigned n,
                          const char *word)
{
    for (unsigned i = 1; i < n; i++)
        if (strcmp(words[i], word) == 0)
            return i;
    return 0;
}

tc_tiles tc_tiles_parse(const char *word)
{
    return (tc_tiles)find_word(tiles_words, TC_TILES_COUNT, word);
}

static const char *const raster_words[TC_RASTER_COUNT] = {
    [TC_RASTER_PLAIN] = "plain",
    [TC_RASTER_GROUPED] = "grouped",
    [TC_RASTER_ASCENDING] = "ascending",
    [TC_RASTER_DESCENDING] = "descending",
};

const char *tc_raster_word(tc_raster r)
{
    return raster_words[r];
}

tc_raster tc_raster_parse(const char *word)
{
    return (tc_raster)find_word(raster_words, TC_RASTER_COUNT, word);
}

bool tc_is_profile(int64_t records)
{
    return records >= TC_MIN_PROFILE && records <= TC_MAX_PROFILE &&
           !(records & (records - 1));
}

unsigned tc_split_parse(const char *word)
{
    char *end;
    if (strcmp(word, "auto") == 0)
        return TC_SPLIT_AUTO;
    if (strcmp(word, "stream") == 0)
        return TC_SPLIT_STREAM;
    unsigned long n = strtoul(word, &end, 10);
    bool fits = *word >= '1' && *word <= '9' && !*end && n <= TC_MAX_SPLIT;
    return fits ? (unsigned)n : 0;
}

const char *tc_split_word(tc_arena *a, unsigned split)
{
    return split == TC_SPLIT_AUTO     ? "auto"
           : split == TC_SPLIT_STREAM ? "stream"
                                      : tc_arena_printf(a, "%u", split);
}

tc_region *tc_region_new(tc_func *f, tc_op *owner)
{
    tc_region *r = tc_arena_new(&f->module->arena, tc_region);
    r->func = f;
    r->op = owner;
    return r;
}

tc_value *tc_region_add_arg(tc_region *r, const tc_type *type, const char *name,
                            tc_loc loc)
{
    tc_arena *a = &r->func->module->arena;
    tc_value *v = tc_arena_new(a, tc_value);
    *v = (tc_value){
        .type = type, .name = name, .loc = loc, .region = r, .index = r->nargs};
    tc_value **args = tc_arena_array(a, tc_value *, r->nargs + 1);
    if (r->nargs)
        memcpy(args, r->args, r->nargs * sizeof *args);
    args[r->nargs++] = v;
    r->args = args;
    return v;
}

void tc_region_remove_arg(tc_region *r, unsigned index)
{
    assert(index < r->nargs && !r->args[index]->uses);
    r->nargs--;
    for (unsigned i = index; i < r->nargs; i++) {
        r->args[i] = r->args[i + 1];
        r->args[i]->index = i;
    }
}

tc_op *tc_region_terminator(const tc_region *r)
{
    return r->last && tc_op_has(r->last, TC_TERMINATOR) ? r->last : NULL;
}

static void link_use(tc_op *op, unsigned index, tc_value *v)
{
    tc_use *u = &op->uses[index];
    *u = (tc_use){op, index, v->uses, NULL};
    if (v->uses)
        v->uses->prev = u;
    v->uses = u;
    op->in[index] = v;
}

static void unlink_use(tc_op *op, unsigned index)
{
    tc_use *u = &op->uses[index];
    *(u->prev ? &u->prev->next : &op->in[index]->uses) = u->next;
    if (u->next)
        u->next->prev = u->prev;
    op->in[index] = NULL;
}

tc_op *tc_op_new(tc_func *f, tc_opcode code, tc_loc loc, unsigned nin,
                 tc_value *const *in, unsigned nregions)
{
    tc_module *m = f->module;
    tc_arena *a = &m->arena;
    if (++m->nops > m->most_ops && m->too_large)
        longjmp(*m->too_large, 1);
    tc_op *op = tc_arena_new(a, tc_op);
    op->code = code;
    op->loc = loc;
    op->func = f;
    op->nin = nin;
    op->in = tc_arena_array(a, tc_value *, nin);
    op->uses = tc_arena_array(a, tc_use, nin);
    for (unsigned i = 0; i < nin; i++)
        link_use(op, i, in[i]);
    op->nregions = nregions;
    op->regions = tc_arena_array(a, tc_region *, nregions);
    for (unsigned i = 0; i < nregions; i++)
        op->regions[i] = tc_region_new(f, op);
    unsigned nattrs = tc_op_nattrs(code);
    op->attrs = tc_arena_array(a, tc_attr, nattrs);
    for (unsigned i = 0; i < nattrs; i++) {
        tc_attr_decl d = tc_op_attr_decl(code, i);
        if (d.optional && d.words) {
            op->attrs[i].kind = TC_ATTR_SYMBOL;
            op->attrs[i].s =
                tc_string_getn(f->module->cx, d.words, strcspn(d.words, "| "));
        }
    }
    return op;
}

void tc_op_set_results(tc_op *op, unsigned n, const tc_type *const *types)
{
    assert(op->nout == 0);
    tc_arena *a = &op->func->module->arena;
    op->nout = n;
    op->out = tc_arena_array(a, tc_value *, n);
    for (unsigned i = 0; i < n; i++) {
        op->out[i] = tc_arena_new(a, tc_value);
        *op->out[i] =
            (tc_value){.type = types[i], .loc = op->loc, .def = op, .index = i};
    }
}

void tc_op_insert(tc_op *op, tc_region *r, tc_op *before)
{
    assert(!op->parent && (!before || before->parent == r));
    op->parent = r;
    op->next = before;
    op->prev = before ? before->prev : r->last;
    *(op->prev ? &op->prev->next : &r->first) = op;
    *(op->next ? &op->next->prev : &r->last) = op;
}

void tc_op_remove(tc_op *op)
{
    tc_region *r = op->parent;
    assert(r);
    *(op->prev ? &op->prev->next : &r->first) = op->next;
    *(op->next ? &op->next->prev : &r->last) = op->prev;
    op->parent = NULL;
    op->prev = op->next = NULL;
}

void tc_op_erase(tc_op *op)
{
    for (unsigned i = op->nregions; i-- > 0;)
        while (op->regions[i]->last)
            tc_op_erase(op->regions[i]->last);
    for (unsigned i = 0; i < op->nout; i++)
        assert(!op->out[i]->uses && "erased a value that is still used");
    for (unsigned i = 0; i < op->nin; i++)
        unlink_use(op, i);
    op->nin = 0;
    op->func->module->nops--;
    if (op->parent)
        tc_op_remove(op);
}

void tc_op_set_in(tc_op *op, unsigned index, tc_value *v)
{
    unlink_use(op, index);
    link_use(op, index, v);
}

void tc_value_replace(tc_value *old, tc_value *with)
{
    assert(old != with);
    while (old->uses)
        tc_op_set_in(old->uses->op, old->uses->index, with);
}

bool tc_region_contains(const tc_region *r, const tc_op *a)
{
    for (const tc_region *at = a->parent; at;
         at = at->op ? at->op->parent : NULL)
        if (at == r)
            return true;
    return false;
}

/* The op of region r that `op` is, or is nested in; NULL where it is not. */
static const tc_op *ancestor_in(const tc_region *r, const tc_op *op)
{
    while (op && op->parent != r)
        op = op->parent ? op->parent->op : NULL;
    return op;
}

static bool is_before(const tc_op *a, const tc_op *b)
{
    for (const tc_op *op = a->next; op; op = op->next)
        if (op == b)
            return true;
    return false;
}

bool tc_value_is_visible(const tc_value *v, const tc_op *op)
{
    const tc_region *r = v->def ? v->def->parent : v->region;
    if (!r)
        return false;
    const tc_op *at = ancestor_in(r, op);
    /* The second region of `while` sees what the first computed. */
    if (!at && r->op && r->op->code == TC_WHILE && r == r->op->regions[0])
        return tc_region_contains(r->op->regions[1], op);
    return at && (!v->def || is_before(v->def, at));
}

bool tc_value_has_one_use(const tc_value *v)
{
    return v->uses && !v->uses->next;
}

static tc_value *mapped(tc_value *v)
{
    return v->data ? v->data : v;
}

void tc_region_copy(tc_func *f, tc_region *from, tc_region *to)
{
    for (unsigned i = 0; i < from->nargs; i++) {
        tc_value *arg = from->args[i];
        arg->data = tc_region_add_arg(to, arg->type, arg->name, arg->loc);
    }
    tc_each_op (op, from)
        tc_op_insert(tc_op_clone(f, op), to, NULL);
}

tc_func *tc_func_clone(tc_func *f, const char *name)
{
    tc_func *copy = tc_func_new(f->module, name, f->is_kernel, f->loc);
    tc_region *body = copy->body, *grid = copy->grid;
    name = copy->name;
    *copy = *f;
    copy->name = name;
    copy->body = body;
    copy->grid = grid;
    copy->prev = copy->next = NULL;
    tc_region_clear_data(f->body);
    tc_region_copy(copy, f->body, body);
    tc_region_clear_data(f->body);
    if (grid) {
        tc_region_clear_data(f->grid);
        tc_region_copy(copy, f->grid, grid);
        tc_region_clear_data(f->grid);
    }
    return copy;
}

tc_op *tc_op_clone(tc_func *f, tc_op *op)
{
    tc_arena *a = &f->module->arena;
    tc_value **in = tc_arena_array(a, tc_value *, op->nin);
    for (unsigned i = 0; i < op->nin; i++)
        in[i] = mapped(op->in[i]);
    tc_op *copy = tc_op_new(f, op->code, op->loc, op->nin, in, op->nregions);
    copy->in_locs = op->in_locs;
    unsigned nattrs = tc_op_nattrs(op->code);
    if (nattrs)
        memcpy(copy->attrs, op->attrs, nattrs * sizeof *copy->attrs);
    copy->stage = op->stage;
    copy->place = op->place;
    const tc_type **types = tc_arena_array(a, const tc_type *, op->nout);
    for (unsigned i = 0; i < op->nout; i++)
        types[i] = op->out[i]->type;
    tc_op_set_results(copy, op->nout, types);
    for (unsigned i = 0; i < op->nout; i++) {
        copy->out[i]->name = op->out[i]->name;
        copy->out[i]->loc = op->out[i]->loc;
        op->out[i]->data = copy->out[i];
    }
    for (unsigned i = 0; i < op->nregions; i++)
        tc_region_copy(f, op->regions[i], copy->regions[i]);
    return copy;
}

bool tc_op_has(const tc_op *op, tc_trait trait)
{
    return tc_op_infos[op->code].traits & trait;
}

bool tc_op_is_pure(const tc_op *op)
{
    if (op->nregions == 0)
        return tc_op_has(op, TC_PURE);
    for (unsigned i = 0; i < op->nregions; i++)
        tc_each_op (inner, op->regions[i]) {
            if (!tc_op_has(inner, TC_TERMINATOR) && !tc_op_is_pure(inner))
                return false;
        }
    /* A loop that may not end is an effect too. */
    return op->code != TC_WHILE;
}

tc_builder tc_builder_before(tc_op *op)
{
    return (tc_builder){
        .func = op->func, .region = op->parent, .before = op, .loc = op->loc};
}

tc_builder tc_builder_at_end(tc_region *r, tc_loc loc)
{
    return (tc_builder){.func = r->func, .region = r, .loc = loc};
}

tc_value *tc_build_op(tc_builder *b, tc_op *op, const tc_type *type)
{
    bool ok = tc_op_infer(op, 1, &type);
    assert(ok && op->nout == 1 && "tc_build: operands do not fit the op");
    (void)ok;
    if (b->fastmath)
        tc_op_set_fastmath(op, tc_op_own_fastmath(op) | b->fastmath);
    tc_op_insert(op, b->region, b->before);
    return op->out[0];
}

tc_value *tc_build(tc_builder *b, tc_opcode code, unsigned nin,
                   tc_value *const *in, const tc_type *type)
{
    tc_op *op = tc_op_new(b->func, code, b->loc, nin, in, 0);
    return tc_build_op(b, op, type);
}

tc_value *tc_build_int(tc_builder *b, const tc_type *scalar, int64_t value)
{
    tc_op *op = tc_op_new(b->func, TC_CONST, b->loc, 0, NULL, 0);
    tc_op_set_attr(op, "value",
                   (tc_attr){.kind = TC_ATTR_NUMBER, .number = {.i = value}});
    return tc_build_op(b, op, scalar);
}

tc_value *tc_build_float(tc_builder *b, const tc_type *scalar, double value)
{
    tc_op *op = tc_op_new(b->func, TC_CONST, b->loc, 0, NULL, 0);
    tc_number n = {.is_float = true, .f = value};
    tc_op_set_attr(op, "value", (tc_attr){.kind = TC_ATTR_NUMBER, .number = n});
    return tc_build_op(b, op, scalar);
}

tc_op *tc_build_effect(tc_builder *b, tc_opcode code, unsigned nin,
                       tc_value *const *in)
{
    tc_op *op = tc_op_new(b->func, code, b->loc, nin, in, 0);
    tc_op_insert(op, b->region, b->before);
    return op;
}

tc_op *tc_build_yield(tc_builder *b, unsigned n, tc_value *const *values)
{
    return tc_build_effect(b, TC_YIELD, n, values);
}

tc_op *tc_build_if(tc_builder *b, tc_value *condition, unsigned nout,
                   const tc_type *const *types)
{
    tc_op *op = tc_op_new(b->func, TC_IF, b->loc, 1, &condition, 2);
    tc_op_set_results(op, nout, types);
    tc_op_insert(op, b->region, b->before);
    return op;
}

tc_op *tc_build_when(tc_builder *b, tc_value *condition, tc_builder *then)
{
    tc_op *op = tc_build_if(b, condition, 0, NULL);
    for (unsigned i = 0; i < 2; i++) {
        tc_builder in = tc_builder_at_end(op->regions[i], b->loc);
        tc_build_yield(&in, 0, NULL);
    }
    *then = tc_builder_before(op->regions[0]->first);
    return op;
}
