/* SPDX-License-Identifier: Apache-2.0
 *
 * The canonical text: two spaces an indent level, one op a line, types of all
 * results (but of for, if and while, which have them from what they carry and
 * yield). Attributes at their default are left out.
 *
 * Names are given in order of appearance: the hint of a value if it is free in
 * the function, else with _1, _2, ... behind it; values without one are
 * numbered. The names of a text so printed are all different, so parsing and
 * printing it again gives the same text.
 */
#include "ir/ir.h"

#include "ir/layout.h"
#include "ir/lex.h"
#include "ir/map.h"

#include <string.h>

typedef struct printer {
    tc_text *out;
    tc_context *cx;
    unsigned flags;
    const tc_func *f;
    tc_map names; /* value -> its name */
    tc_map taken; /* name -> the number that its next variant tries */
    unsigned next_number;
    unsigned indent;
} printer;

/* ---- Names ---- */

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '_' || c == '.';
}

/* The hint as a name that the lexer reads; NULL where nothing is left of it.
 * (A number would collide with those of unnamed values.) */
static const char *clean_hint(printer *p, const char *hint)
{
    if (!hint || !hint[strspn(hint, "0123456789")])
        return NULL;
    size_t n = strlen(hint), bad = 0;
    for (size_t i = 0; i < n; i++)
        bad += !is_name_char(hint[i]);
    if (!bad)
        return tc_string_get(p->cx, hint);
    char *copy = tc_arena_copy(p->out->arena, hint, n + 1);
    for (size_t i = 0; i < n; i++)
        if (!is_name_char(copy[i]))
            copy[i] = '_';
    return tc_string_get(p->cx, copy);
}

static const char *numbered(printer *p)
{
    return tc_arena_printf(p->out->arena, "%u", p->next_number++);
}

/* The name itself, or the first of its variants that is free. */
static const char *free_variant(printer *p, const char *name)
{
    const char *variant = name;
    uintptr_t next = (uintptr_t)tc_map_get(&p->taken, name);
    if (next) {
        do
            variant = tc_string_get(
                p->cx, tc_arena_printf(p->out->arena, "%s_%lu", name,
                                       (unsigned long)next++));
        while (tc_map_get(&p->taken, variant));
        tc_map_set(&p->taken, name, (void *)next);
    }
    tc_map_set(&p->taken, variant, (void *)(uintptr_t)1);
    return variant;
}

static const char *name_value(printer *p, const tc_value *v)
{
    const char *hint = clean_hint(p, v->name);
    const char *name = hint ? free_variant(p, hint) : numbered(p);
    tc_map_set(&p->names, v, (void *)name);
    return name;
}

/* Also of a value that was not defined before, in a broken program. */
static const char *name_of(printer *p, const tc_value *v)
{
    const char *name = tc_map_get(&p->names, v);
    return name ? name : name_value(p, v);
}

/* ---- Pieces ---- */

static void print_value(printer *p, const tc_value *v)
{
    tc_text_add(p->out, "%");
    tc_text_add(p->out, v ? name_of(p, v) : "?");
}

static void print_values(printer *p, unsigned n, tc_value *const *values)
{
    for (unsigned i = 0; i < n; i++) {
        tc_text_add(p->out, i ? ", " : "");
        print_value(p, values[i]);
    }
}

static void print_types(printer *p, unsigned n, const tc_type *const *types)
{
    if (n != 1)
        tc_text_add(p->out, "(");
    for (unsigned i = 0; i < n; i++) {
        tc_text_add(p->out, i ? ", " : "");
        tc_type_print(p->out, types[i]);
    }
    if (n != 1)
        tc_text_add(p->out, ")");
}

static void print_result_types(printer *p, const tc_op *op)
{
    for (unsigned i = 0; i < op->nout; i++) {
        tc_text_add(p->out, i ? ", " : " : ");
        tc_type_print(p->out, op->out[i]->type);
    }
}

static void print_number(printer *p, tc_number n, const tc_type *type)
{
    tc_kind kind = type ? type->kind : TC_F64;
    bool is_float = kind <= TC_F64 && tc_scalar_infos[kind].is_float;
    if (type && kind == TC_I1)
        tc_text_add(p->out, n.i ? "true" : "false");
    else if (n.is_float || (type && is_float))
        tc_number_print(p->out, n.is_float ? n.f : (double)n.i, kind);
    else
        tc_text_printf(p->out, "%lld", (long long)n.i);
}

/* ---- Attributes ---- */

static bool is_default(const tc_attr *a, const tc_attr_decl *d)
{
    if (a->kind == TC_ATTR_NONE)
        return true;
    size_t n = d->words ? strcspn(d->words, "| ") : 0;
    return d->optional && d->words && strlen(a->s) == n &&
           memcmp(a->s, d->words, n) == 0;
}

static void print_attr_item(printer *p, const tc_op *op, const tc_attr *a,
                            unsigned i)
{
    switch (a->kind) {
    case TC_ATTR_INT: tc_text_printf(p->out, "%lld", (long long)a->i); break;
    case TC_ATTR_NUMBER: print_number(p, a->number, NULL); break;
    case TC_ATTR_BOOL: tc_text_add(p->out, a->i ? "true" : "false"); break;
    case TC_ATTR_STRING: tc_string_print(p->out, a->s); break;
    case TC_ATTR_SYMBOL: tc_text_add(p->out, a->s); break;
    case TC_ATTR_INTS:
        tc_text_printf(p->out, "%lld", (long long)a->ints[i]);
        break;
    case TC_ATTR_DIMS:
        if (a->dims[i])
            tc_dim_print(p->out, a->dims[i]);
        else
            tc_text_add(p->out, "_");
        break;
    case TC_ATTR_STRINGS: tc_string_print(p->out, a->strings[i]); break;
    case TC_ATTR_LAYOUT:
        tc_layout_print(p->out, a->layout,
                        8 * tc_type_bytes(op->in[0]->type->elem));
        break;
    case TC_ATTR_NONE: break;
    }
}

static void print_attr_value(printer *p, const tc_op *op, const tc_attr *a)
{
    bool list = a->kind == TC_ATTR_INTS || a->kind == TC_ATTR_DIMS ||
                a->kind == TC_ATTR_STRINGS;
    unsigned n = list ? a->n : 1;
    for (unsigned i = 0; i < n; i++) {
        tc_text_add(p->out, i ? ", " : "");
        print_attr_item(p, op, a, i);
    }
}

static void print_attrs(printer *p, const tc_op *op)
{
    unsigned n = tc_op_nattrs(op->code);
    for (unsigned i = 0; i < n; i++) {
        tc_attr_decl d = tc_op_attr_decl(op->code, i);
        if (is_default(&op->attrs[i], &d))
            continue;
        tc_text_printf(p->out, " %s(", d.name);
        print_attr_value(p, op, &op->attrs[i]);
        tc_text_add(p->out, ")");
    }
}

/* ---- Ops, a routine for each syntax ---- */

static void print_region(printer *p, const tc_region *r);

static void print_name(printer *p, const tc_op *op)
{
    tc_text_add(p->out, tc_op_name(op));
}

static void print_plain(printer *p, const tc_op *op)
{
    print_name(p, op);
    tc_text_add(p->out, op->nin ? " " : "");
    print_values(p, op->nin, op->in);
    print_attrs(p, op);
    print_result_types(p, op);
}

static void print_const(printer *p, const tc_op *op)
{
    const tc_attr *value = tc_op_attr(op, "value");
    print_name(p, op);
    tc_text_add(p->out, " ");
    if (value->kind == TC_ATTR_NUMBER && op->nout == 1)
        print_number(p, value->number, op->out[0]->type);
    else
        print_attr_value(p, op, value);
    print_result_types(p, op);
}

static void print_block(printer *p, const tc_op *op)
{
    const tc_attr *sides = tc_op_attr(op, "sides");
    tc_text_add(p->out, "block ");
    print_values(p, op->nin ? 1 : 0, op->in);
    tc_text_add(p->out, "[");
    for (unsigned i = 1; i < op->nin; i++) {
        tc_text_add(p->out, i > 1 ? ", " : "");
        print_value(p, op->in[i]);
        if (sides->kind == TC_ATTR_DIMS && i <= sides->n &&
            sides->dims[i - 1]) {
            tc_text_add(p->out, " +: ");
            tc_dim_print(p->out, sides->dims[i - 1]);
        }
    }
    tc_text_add(p->out, "]");
    print_result_types(p, op);
}

/* Of a list whose last values have names: %a, %b, x=%c */
static void print_named(printer *p, unsigned n, tc_value *const *values,
                        const tc_attr *names)
{
    unsigned nnames = names->kind == TC_ATTR_STRINGS ? names->n : 0;
    for (unsigned i = 0; i < n; i++) {
        tc_text_add(p->out, i ? ", " : "");
        if (nnames <= n && i >= n - nnames)
            tc_text_printf(p->out, "%s=", names->strings[i - (n - nnames)]);
        print_value(p, values[i]);
    }
}

static void print_callee(printer *p, const tc_op *op, unsigned nargs)
{
    const char *callee = tc_op_word(op, "callee");
    print_name(p, op);
    tc_text_printf(p->out, " %s(", callee ? callee : "?");
    print_named(p, nargs, op->in, tc_op_attr(op, "names"));
    tc_text_add(p->out, ")");
}

static void print_call(printer *p, const tc_op *op)
{
    print_callee(p, op, op->nin);
    print_result_types(p, op);
}

static void print_vjp(printer *p, const tc_op *op)
{
    const tc_attr *accumulate = tc_op_attr(op, "accumulate");
    const tc_attr *into = tc_op_attr(op, "into");
    unsigned ninto = into->kind == TC_ATTR_STRINGS ? into->n : 0;
    /* A broken one has no seed. */
    unsigned nargs = op->nin > ninto ? op->nin - 1 - ninto : op->nin;
    print_callee(p, op, nargs);
    tc_text_add(p->out, " seed(");
    print_values(p, nargs < op->nin, op->in + nargs);
    tc_text_add(p->out, ")");
    if (accumulate->kind == TC_ATTR_DIMS) {
        tc_text_add(p->out, " accumulate(");
        print_attr_value(p, op, accumulate);
        tc_text_add(p->out, ")");
    }
    if (nargs < op->nin && ninto) {
        tc_text_add(p->out, " into(");
        print_named(p, ninto, op->in + nargs + 1, into);
        tc_text_add(p->out, ")");
    }
    print_result_types(p, op);
}

/* The compile-time parameters of the kernel: N=64, T=bf16, mod=@f */
static void print_bindings(printer *p, const tc_op *op)
{
    const tc_attr *names = tc_op_attr(op, "names");
    const tc_attr *sizes = tc_op_attr(op, "sizes");
    const tc_attr *words = tc_op_attr(op, "words");
    for (unsigned i = 0; i < names->n; i++) {
        tc_text_printf(p->out, "%s%s=", i ? ", " : "[", names->strings[i]);
        if (i < sizes->n && sizes->dims[i])
            tc_dim_print(p->out, sizes->dims[i]);
        else
            tc_text_add(p->out, i < words->n ? words->strings[i] : "?");
    }
    tc_text_add(p->out, names->n ? "]" : "");
}

static void print_launch(printer *p, const tc_op *op)
{
    const char *callee = tc_op_word(op, "callee");
    tc_text_printf(p->out, "launch %s", callee ? callee : "?");
    print_bindings(p, op);
    tc_text_add(p->out, "(");
    print_values(p, op->nin, op->in);
    tc_text_add(p->out, ")");
}

static void print_carried(printer *p, const tc_region *r, unsigned first,
                          unsigned nin, tc_value *const *in)
{
    if (nin == 0)
        return;
    tc_text_add(p->out, " carry(");
    for (unsigned i = 0; i < nin; i++) {
        tc_text_add(p->out, i ? ", " : "");
        print_value(p, first + i < r->nargs ? r->args[first + i] : NULL);
        tc_text_add(p->out, " = ");
        print_value(p, in[i]);
    }
    tc_text_add(p->out, ")");
}

static void print_for(printer *p, const tc_op *op)
{
    const tc_region *body = op->regions[0];
    static const char *const words[] = {" = ", " to ", " step "};
    unsigned nbounds = op->nin < 3 ? op->nin : 3;
    tc_text_add(p->out, "for ");
    print_value(p, body->nargs ? body->args[0] : NULL);
    for (unsigned i = 0; i < nbounds; i++) {
        tc_text_add(p->out, words[i]);
        print_value(p, op->in[i]);
    }
    print_carried(p, body, 1, op->nin - nbounds, op->in + nbounds);
    print_attrs(p, op);
    tc_text_add(p->out, " ");
    print_region(p, body);
}

static bool is_empty_yield(const tc_region *r)
{
    return r->first && r->first == r->last && r->first->code == TC_YIELD &&
           r->first->nin == 0;
}

static void print_if(printer *p, const tc_op *op)
{
    tc_text_add(p->out, "if ");
    print_values(p, op->nin, op->in);
    tc_text_add(p->out, tc_op_int(op, "speculatable") ? " speculatable " : " ");
    print_region(p, op->regions[0]);
    if (is_empty_yield(op->regions[1]) && op->nout == 0)
        return;
    tc_text_add(p->out, " else ");
    print_region(p, op->regions[1]);
}

static void print_while(printer *p, const tc_op *op)
{
    tc_text_add(p->out, "while");
    print_carried(p, op->regions[0], 0, op->nin, op->in);
    tc_text_add(p->out, " ");
    print_region(p, op->regions[0]);
    tc_text_add(p->out, " do ");
    print_region(p, op->regions[1]);
}

static void print_warp_groups(printer *p, const tc_op *op)
{
    print_name(p, op);
    print_attrs(p, op);
    tc_text_add(p->out, " producer ");
    print_region(p, op->regions[0]);
    tc_text_add(p->out, " consumer ");
    print_region(p, op->regions[1]);
    if (op->nregions == 2)
        return;
    tc_text_add(p->out, " mover ");
    print_region(p, op->regions[2]);
}

static void print_args(printer *p, const tc_region *r)
{
    tc_text_add(p->out, "(");
    for (unsigned i = 0; i < r->nargs; i++) {
        tc_text_add(p->out, i ? ", " : "");
        print_value(p, r->args[i]);
        tc_text_add(p->out, ": ");
        tc_type_print(p->out, r->args[i]->type);
    }
    tc_text_add(p->out, ")");
}

static void print_reduce(printer *p, const tc_op *op)
{
    print_name(p, op);
    tc_text_add(p->out, " ");
    print_values(p, op->nin, op->in);
    print_attrs(p, op);
    if (op->nregions) {
        tc_text_add(p->out, " ");
        print_args(p, op->regions[0]);
        tc_text_add(p->out, " ");
        print_region(p, op->regions[0]);
    }
    print_result_types(p, op);
}

typedef void print_fn(printer *p, const tc_op *op);
static print_fn *const by_syntax[] = {
    [TC_SYNTAX_PLAIN] = print_plain,
    [TC_SYNTAX_CONST] = print_const,
    [TC_SYNTAX_BLOCK] = print_block,
    [TC_SYNTAX_CALL] = print_call,
    [TC_SYNTAX_VJP] = print_vjp,
    [TC_SYNTAX_REDUCE] = print_reduce,
    [TC_SYNTAX_FOR] = print_for,
    [TC_SYNTAX_IF] = print_if,
    [TC_SYNTAX_WHILE] = print_while,
    [TC_SYNTAX_WARP_GROUPS] = print_warp_groups,
    [TC_SYNTAX_LAUNCH] = print_launch,
};

static void print_loc(printer *p, tc_loc loc)
{
    if (loc.file && loc.file <= p->cx->nsources)
        tc_text_printf(p->out, " // %s:%u:%u",
                       p->cx->sources[loc.file - 1].name, loc.line, loc.col);
}

static void indent(printer *p)
{
    for (unsigned i = 0; i < p->indent; i++)
        tc_text_add(p->out, "  ");
}

static void print_op(printer *p, const tc_op *op)
{
    indent(p);
    if (op->nout) {
        print_values(p, op->nout, op->out);
        tc_text_add(p->out, " = ");
    }
    by_syntax[tc_op_infos[op->code].syntax](p, op);
    if (p->flags & TC_PRINT_LOCATIONS)
        print_loc(p, op->loc);
    tc_text_add(p->out, "\n");
}

static void print_region(printer *p, const tc_region *r)
{
    tc_text_add(p->out, "{\n");
    p->indent++;
    tc_each_op (op, r)
        print_op(p, op);
    p->indent--;
    indent(p);
    tc_text_add(p->out, "}");
}

/* ---- Functions ---- */

static void print_default(printer *p, const tc_param *param)
{
    if (!param->dim && !param->type && !param->symbol)
        return;
    tc_text_add(p->out, " = ");
    if (param->dim)
        tc_dim_print(p->out, param->dim);
    else if (param->type)
        tc_type_print(p->out, param->type);
    else
        tc_text_printf(p->out, "%s%s", param->symbol[0] == '@' ? "" : "@",
                       param->symbol);
}

static void print_param(printer *p, const tc_param *param)
{
    static const char *const kinds[] = {[TC_PARAM_INT] = "int",
                                        [TC_PARAM_TYPE] = "type",
                                        [TC_PARAM_FUNC] = "func("};
    tc_text_printf(p->out, "%s: %s", param->name, kinds[param->kind]);
    if (param->kind == TC_PARAM_FUNC) {
        for (unsigned i = 0; i < param->nins; i++) {
            tc_text_add(p->out, i ? ", " : "");
            tc_type_print(p->out, param->ins[i]);
        }
        tc_text_add(p->out, ") -> ");
        print_types(p, param->nouts, param->outs);
    }
    print_default(p, param);
}

static void print_params(printer *p)
{
    if (p->f->nparams == 0)
        return;
    tc_text_add(p->out, "[");
    for (unsigned i = 0; i < p->f->nparams; i++) {
        tc_text_add(p->out, i ? ", " : "");
        print_param(p, &p->f->params[i]);
    }
    tc_text_add(p->out, "]");
}

/* The grid has names of its own, but for the arguments. */
static void print_grid(printer *p)
{
    printer inner = *p;
    inner.taken = (tc_map){.arena = p->out->arena};
    const tc_region *grid = p->f->grid;
    for (unsigned i = 0; i < grid->nargs; i++)
        if (i < p->f->body->nargs) {
            const char *name = name_of(p, p->f->body->args[i]);
            tc_map_set(&inner.names, grid->args[i], (void *)name);
            tc_map_set(&inner.taken, tc_string_get(p->cx, name), (void *)1);
        }
    tc_text_add(p->out, " grid ");
    print_region(&inner, grid);
    p->names = inner.names; /* for tc_value_name */
}

static void print_tensors(printer *p, const char *before, uint64_t which)
{
    for (unsigned i = 0; i < 64; i++)
        if (which >> i & 1) {
            tc_text_printf(p->out, "%s%u", before, i);
            before = ", ";
        }
    if (which)
        tc_text_add(p->out, ")");
}

static void print_multiples(printer *p)
{
    for (unsigned i = 0; i < p->f->nmultiples; i++) {
        const tc_multiple *m = &p->f->multiples[i];
        tc_text_printf(p->out, "%s%u, %u, %u", i ? ", " : " multiples(", m->arg,
                       m->dim, m->of);
    }
    if (p->f->nmultiples)
        tc_text_add(p->out, ")");
}

static void print_func(printer *p)
{
    const tc_func *f = p->f;
    tc_text_printf(p->out, "%s @%s", tc_func_word(f), f->name);
    print_params(p);
    print_args(p, f->body);
    print_tensors(p, " aligned(", f->aligned & ~f->ragged);
    print_tensors(p, " ragged(", f->ragged);
    print_multiples(p);
    if (f->warps)
        tc_text_printf(p->out, " warps(%u)", f->warps);
    if (f->shared_bytes)
        tc_text_printf(p->out, " shared(%u)", f->shared_bytes);
    if (f->ptxas_level)
        tc_text_printf(p->out, " ptxas(%u)", f->ptxas_level);
    if (f->tiles)
        tc_text_printf(p->out, " tiles(%s)", tc_tiles_word(f->tiles));
    if (f->is_kernel)
        print_grid(p);
    if (f->nresults) {
        tc_text_add(p->out, " -> ");
        print_types(p, f->nresults, f->results);
    }
    tc_text_add(p->out, " ");
    print_region(p, f->body);
    tc_text_add(p->out, "\n");
}

static printer new_printer(tc_text *out, const tc_func *f, unsigned flags)
{
    printer p = {.out = out, .cx = f->module->cx, .flags = flags, .f = f};
    p.names.arena = p.taken.arena = out->arena;
    return p;
}

void tc_func_print(tc_text *out, const tc_func *f, unsigned flags)
{
    printer p = new_printer(out, f, flags);
    print_func(&p);
}

void tc_module_print(tc_text *out, const tc_module *m, unsigned flags)
{
    tc_text_add(out, ""); /* an empty module is an empty text, not NULL */
    tc_each_func (f, m) {
        tc_text_add(out, f->prev ? "\n" : "");
        tc_func_print(out, f, flags);
    }
}

/* ---- Names in messages ---- */

/* The function that the value belongs to, NULL if it is detached. */
static const tc_func *func_of(const tc_value *v)
{
    const tc_region *r = v->def ? v->def->parent : v->region;
    while (r && r->op)
        r = r->op->parent;
    return r ? r->func : NULL;
}

const char *tc_value_name(tc_context *cx, const tc_value *v)
{
    const tc_func *f = func_of(v);
    const char *name = v->name ? v->name : "?";
    /* Beyond the last error that is kept nobody sees it. */
    if (f && cx->nerrors <= TC_MAX_ERRORS) {
        tc_text text = {.arena = &cx->diag_arena};
        printer p = new_printer(&text, f, TC_PRINT_PLAIN);
        print_func(&p);
        name = name_of(&p, v);
    }
    return tc_arena_printf(&cx->diag_arena, "%%%s", name);
}
