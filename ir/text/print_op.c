/* SPDX-License-Identifier: Apache-2.0
 *
 * Ops and regions as text: a routine for each syntax of ops.def.
 */
#include "ir/text/print.h"

#include "ir/fastmath.h"
#include "ir/text/lex.h"
#include "ir/types/layout.h"

#include <string.h>

/* ---- Pieces ---- */

static void print_value(tc_printer *p, const tc_value *v)
{
    tc_text_add(p->out, "%");
    tc_text_add(p->out, v ? tc_print_name_of(p, v) : "?");
}

static void print_values(tc_printer *p, unsigned n, tc_value *const *values)
{
    for (unsigned i = 0; i < n; i++) {
        tc_text_add(p->out, i ? ", " : "");
        print_value(p, values[i]);
    }
}

void tc_print_types(tc_printer *p, unsigned n, const tc_type *const *types)
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

static void print_result_types(tc_printer *p, const tc_op *op)
{
    for (unsigned i = 0; i < op->nout; i++) {
        tc_text_add(p->out, i ? ", " : " : ");
        tc_type_print(p->out, op->out[i]->type);
    }
}

static void print_number(tc_printer *p, tc_number n, const tc_type *type)
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

static void print_attr_item(tc_printer *p, const tc_op *op, const tc_attr *a,
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
    case TC_ATTR_FLAGS: tc_fastmath_print(p->out, (unsigned)a->i); break;
    case TC_ATTR_NONE: break;
    }
}

static void print_attr_value(tc_printer *p, const tc_op *op, const tc_attr *a)
{
    bool list = a->kind == TC_ATTR_INTS || a->kind == TC_ATTR_DIMS ||
                a->kind == TC_ATTR_STRINGS;
    unsigned n = list ? a->n : 1;
    for (unsigned i = 0; i < n; i++) {
        tc_text_add(p->out, i ? ", " : "");
        print_attr_item(p, op, a, i);
    }
}

static void print_attr(tc_printer *p, const tc_op *op, unsigned i)
{
    tc_attr_decl d = tc_op_attr_decl(op->code, i);
    if (is_default(&op->attrs[i], &d))
        return;
    tc_text_printf(p->out, " %s(", d.name);
    print_attr_value(p, op, &op->attrs[i]);
    tc_text_add(p->out, ")");
}

static void print_attrs(tc_printer *p, const tc_op *op)
{
    unsigned n = tc_op_nattrs(op->code);
    for (unsigned i = 0; i < n; i++)
        print_attr(p, op, i);
}

/* ---- Ops, a routine for each syntax ---- */

static void print_name(tc_printer *p, const tc_op *op)
{
    tc_text_add(p->out, tc_op_name(op));
}

static void print_plain(tc_printer *p, const tc_op *op)
{
    print_name(p, op);
    tc_text_add(p->out, op->nin ? " " : "");
    print_values(p, op->nin, op->in);
    print_attrs(p, op);
    print_result_types(p, op);
}

static void print_const(tc_printer *p, const tc_op *op)
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

static void print_block(tc_printer *p, const tc_op *op)
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
static void print_named(tc_printer *p, unsigned n, tc_value *const *values,
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

/* Values of compile-time parameters: [N=64, T=bf16, mod=@f] */
static void print_given(tc_printer *p, const tc_op *op)
{
    const tc_attr *names = tc_op_attr(op, "params");
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

static void print_callee(tc_printer *p, const tc_op *op)
{
    const char *callee = tc_op_word(op, "callee");
    print_name(p, op);
    tc_text_printf(p->out, " %s", callee ? callee : "?");
}

static void print_arguments(tc_printer *p, const tc_op *op, unsigned nargs)
{
    tc_text_add(p->out, "(");
    print_named(p, nargs, op->in, tc_op_attr(op, "names"));
    tc_text_add(p->out, ")");
}

static void print_call(tc_printer *p, const tc_op *op)
{
    print_callee(p, op);
    print_given(p, op);
    print_arguments(p, op, op->nin);
    print_attr(p, op, (unsigned)tc_op_attr_index(TC_CALL, "fastmath"));
    print_result_types(p, op);
}

static void print_vjp(tc_printer *p, const tc_op *op)
{
    const tc_attr *accumulate = tc_op_attr(op, "accumulate");
    const tc_attr *into = tc_op_attr(op, "into");
    unsigned ninto = into->kind == TC_ATTR_STRINGS ? into->n : 0;
    /* A broken one has no seed. */
    unsigned nargs = op->nin > ninto ? op->nin - 1 - ninto : op->nin;
    print_callee(p, op);
    print_arguments(p, op, nargs);
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
    print_attr(p, op, (unsigned)tc_op_attr_index(TC_VJP, "fastmath"));
    print_result_types(p, op);
}

static void print_launch(tc_printer *p, const tc_op *op)
{
    print_callee(p, op);
    print_given(p, op);
    tc_text_add(p->out, "(");
    print_values(p, op->nin, op->in);
    tc_text_add(p->out, ")");
}

static void print_carried(tc_printer *p, const tc_region *r, unsigned first,
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

static void print_for(tc_printer *p, const tc_op *op)
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
    tc_print_region(p, body);
}

static bool is_empty_yield(const tc_region *r)
{
    return r->first && r->first == r->last && r->first->code == TC_YIELD &&
           r->first->nin == 0;
}

static void print_if(tc_printer *p, const tc_op *op)
{
    tc_text_add(p->out, "if ");
    print_values(p, op->nin, op->in);
    tc_text_add(p->out, tc_op_int(op, "speculatable") ? " speculatable" : "");
    print_attr(p, op, (unsigned)tc_op_attr_index(TC_IF, "epilogue"));
    tc_text_add(p->out, " ");
    tc_print_region(p, op->regions[0]);
    if (is_empty_yield(op->regions[1]) && op->nout == 0)
        return;
    tc_text_add(p->out, " else ");
    tc_print_region(p, op->regions[1]);
}

static void print_while(tc_printer *p, const tc_op *op)
{
    tc_text_add(p->out, "while");
    print_carried(p, op->regions[0], 0, op->nin, op->in);
    print_attrs(p, op);
    tc_text_add(p->out, " ");
    tc_print_region(p, op->regions[0]);
    tc_text_add(p->out, " do ");
    tc_print_region(p, op->regions[1]);
}

static void print_warp_groups(tc_printer *p, const tc_op *op)
{
    print_name(p, op);
    print_attrs(p, op);
    tc_text_add(p->out, " producer ");
    tc_print_region(p, op->regions[0]);
    tc_text_add(p->out, " consumer ");
    tc_print_region(p, op->regions[1]);
    if (op->nregions == 2)
        return;
    tc_text_add(p->out, " transposer ");
    tc_print_region(p, op->regions[2]);
}

void tc_print_args(tc_printer *p, const tc_region *r)
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

static void print_reduce(tc_printer *p, const tc_op *op)
{
    print_name(p, op);
    tc_text_add(p->out, " ");
    print_values(p, op->nin, op->in);
    print_attrs(p, op);
    if (op->nregions) {
        tc_text_add(p->out, " ");
        tc_print_args(p, op->regions[0]);
        tc_text_add(p->out, " ");
        tc_print_region(p, op->regions[0]);
    }
    print_result_types(p, op);
}

typedef void print_fn(tc_printer *p, const tc_op *op);
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

static void print_loc(tc_printer *p, tc_loc loc)
{
    if (loc.file && loc.file <= p->cx->nsources)
        tc_text_printf(p->out, " // %s:%u:%u",
                       p->cx->sources[loc.file - 1].name, loc.line, loc.col);
}

static void indent(tc_printer *p)
{
    for (unsigned i = 0; i < p->indent; i++)
        tc_text_add(p->out, "  ");
}

static void print_op(tc_printer *p, const tc_op *op)
{
    if (p->each)
        p->each(p->user, op, p->out->len);
    indent(p);
    if (op->nout) {
        print_values(p, op->nout, op->out);
        tc_text_add(p->out, " = ");
    }
    by_syntax[tc_op_infos[op->code].syntax](p, op);
    if (op->place)
        tc_text_printf(p->out, " stage(%u) place(%u)", op->stage,
                       op->place - 1);
    if (p->flags & TC_PRINT_LOCATIONS)
        print_loc(p, op->loc);
    tc_text_add(p->out, "\n");
}

void tc_print_region(tc_printer *p, const tc_region *r)
{
    tc_text_add(p->out, "{\n");
    p->indent++;
    tc_each_op (op, r)
        print_op(p, op);
    p->indent--;
    indent(p);
    tc_text_add(p->out, "}");
}
