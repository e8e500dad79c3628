/* SPDX-License-Identifier: Apache-2.0
 *
 * The canonical text: two spaces an indent level, one op a line, types of all
 * results (except those of for, if and while, which follow from their carried
 * and yielded values). Attributes at their default are left out.
 *
 * Names are given in order of appearance: the hint of a value if it is free in
 * the function, else with the suffix _1, _2, ...; values without one are
 * numbered. The names of a text so printed are all different, so parsing and
 * printing it again gives the same text.
 */
#include "ir/text/print.h"

#include "ir/fastmath.h"
#include "ir/text/lex.h"

#include <string.h>

/* ---- Names ---- */

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '_' || c == '.';
}

/* The hint as a name that the lexer reads; NULL where nothing is left of it.
 * (A number would collide with those of unnamed values.) */
static const char *clean_hint(tc_printer *p, const char *hint)
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

static const char *numbered(tc_printer *p)
{
    return tc_arena_printf(p->out->arena, "%u", p->next_number++);
}

/* The name itself, or the first of its variants that is free. */
static const char *free_variant(tc_printer *p, const char *name)
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

static const char *name_value(tc_printer *p, const tc_value *v)
{
    const char *hint = clean_hint(p, v->name);
    const char *name = hint ? free_variant(p, hint) : numbered(p);
    tc_map_set(&p->names, v, (void *)name);
    return name;
}

const char *tc_print_name_of(tc_printer *p, const tc_value *v)
{
    const char *name = tc_map_get(&p->names, v);
    return name ? name : name_value(p, v);
}

/* ---- Functions ---- */

static void print_default(tc_printer *p, const tc_param *param)
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

static void print_param(tc_printer *p, const tc_param *param)
{
    static const char *const kinds[] = {[TC_PARAM_INT] = "int",
                                        [TC_PARAM_TYPE] = "type",
                                        [TC_PARAM_FUNC] = "func("};
    tc_text_printf(p->out, "%s: %s", param->name,
                   param->is_block ? "block" : kinds[param->kind]);
    if (param->kind == TC_PARAM_FUNC) {
        for (unsigned i = 0; i < param->nins; i++) {
            tc_text_add(p->out, i ? ", " : "");
            tc_type_print(p->out, param->ins[i]);
        }
        tc_text_add(p->out, ") -> ");
        tc_print_types(p, param->nouts, param->outs);
    }
    print_default(p, param);
}

static void print_params(tc_printer *p)
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
static void print_grid(tc_printer *p)
{
    tc_printer inner = *p;
    inner.taken = (tc_map){.arena = p->out->arena};
    const tc_region *grid = p->f->grid;
    for (unsigned i = 0; i < grid->nargs; i++)
        if (i < p->f->body->nargs) {
            const char *name = tc_print_name_of(p, p->f->body->args[i]);
            tc_map_set(&inner.names, grid->args[i], (void *)name);
            tc_map_set(&inner.taken, tc_string_get(p->cx, name), (void *)1);
        }
    tc_text_add(p->out, " grid ");
    tc_print_region(&inner, grid);
    p->names = inner.names; /* for tc_value_name */
}

static void print_tensors(tc_printer *p, const char *before, uint64_t which)
{
    for (unsigned i = 0; i < 64; i++)
        if (which >> i & 1) {
            tc_text_printf(p->out, "%s%u", before, i);
            before = ", ";
        }
    if (which)
        tc_text_add(p->out, ")");
}

static void print_multiples(tc_printer *p)
{
    for (unsigned i = 0; i < p->f->nmultiples; i++) {
        const tc_multiple *m = &p->f->multiples[i];
        tc_text_printf(p->out, "%s%u, %u, %u", i ? ", " : " multiples(", m->arg,
                       m->dim, m->of);
    }
    if (p->f->nmultiples)
        tc_text_add(p->out, ")");
}

static void print_fastmath(tc_printer *p)
{
    if (!p->f->fastmath)
        return;
    tc_text_add(p->out, " fastmath(");
    tc_fastmath_print(p->out, p->f->fastmath);
    tc_text_add(p->out, ")");
}

static void print_tune(tc_printer *p)
{
    for (unsigned i = 0; i < p->f->ntune; i++) {
        const tc_tune_axis *axis = &p->f->tune[i];
        tc_text_printf(p->out, "%s%s=", i ? "; " : " tune(", axis->name);
        for (unsigned k = 0; k < axis->n; k++)
            tc_text_printf(p->out, "%s%s", k ? ", " : "", axis->values[k]);
    }
    tc_text_add(p->out, p->f->ntune ? ")" : "");
}

static void print_func(tc_printer *p)
{
    const tc_func *f = p->f;
    tc_text_printf(p->out, "%s @%s", tc_func_word(f), f->name);
    print_params(p);
    tc_print_args(p, f->body);
    print_tensors(p, " aligned(", f->aligned & ~f->ragged);
    print_tensors(p, " ragged(", f->ragged);
    print_multiples(p);
    if (f->warps)
        tc_text_printf(p->out, " warps(%u)", f->warps);
    if (f->shared_bytes)
        tc_text_printf(p->out, " shared(%u)", f->shared_bytes);
    if (f->ptxas_level)
        tc_text_printf(p->out, " ptxas(%u)", f->ptxas_level);
    if (f->ctas)
        tc_text_printf(p->out, " ctas(%u)", f->ctas);
    if (f->tiles)
        tc_text_printf(p->out, " tiles(%s)", tc_tiles_word(f->tiles));
    if (f->raster)
        tc_text_printf(p->out, " raster(%s", tc_raster_word(f->raster));
    if (f->raster == TC_RASTER_GROUPED)
        tc_text_printf(p->out, ", %u", f->raster_rows);
    tc_text_add(p->out, f->raster ? ")" : "");
    if (f->split)
        tc_text_printf(p->out, " split(%s)",
                       tc_split_word(p->out->arena, f->split));
    if (f->profile)
        tc_text_printf(p->out, " profile(%u)", f->profile);
    tc_text_add(p->out, f->early ? " early" : "");
    if (f->is_kernel) {
        print_fastmath(p);
        print_tune(p);
        print_grid(p);
    }
    if (f->nresults) {
        tc_text_add(p->out, " -> ");
        tc_print_types(p, f->nresults, f->results);
    }
    if (!f->is_kernel)
        print_fastmath(p);
    tc_text_add(p->out, " ");
    tc_print_region(p, f->body);
    tc_text_add(p->out, "\n");
}

static tc_printer new_printer(tc_text *out, const tc_func *f, unsigned flags)
{
    tc_printer p = {.out = out, .cx = f->module->cx, .flags = flags, .f = f};
    p.names.arena = p.taken.arena = out->arena;
    return p;
}

void tc_func_print(tc_text *out, const tc_func *f, unsigned flags)
{
    tc_printer p = new_printer(out, f, flags);
    print_func(&p);
}

void tc_func_print_each(tc_text *out, const tc_func *f, tc_printed *each,
                        void *user)
{
    tc_printer p = new_printer(out, f, TC_PRINT_PLAIN);
    p.each = each;
    p.user = user;
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

/* As the function's text has it: printed to `a`. */
static const char *name_in_text(tc_context *cx, tc_arena *a, const tc_func *f,
                                const tc_value *v)
{
    tc_text text = {.arena = a};
    tc_printer p = new_printer(&text, f, TC_PRINT_PLAIN);
    print_func(&p);
    return tc_arena_printf(&cx->diag_arena, "%%%s", tc_print_name_of(&p, v));
}

/* Texts of whole functions go away again: there may be a name for each op. */
static const char *print_name(tc_context *cx, const tc_func *f,
                              const tc_value *v)
{
    tc_memory *memory = &cx->memory;
    jmp_buf here, *outer = memory->unwind;
    tc_arena a;
    tc_arena_init(&a, memory);
    if (setjmp(here)) {
        memory->unwind = outer;
        tc_arena_reset(&a);
        longjmp(*outer, 1);
    }
    memory->unwind = &here;
    const char *name = name_in_text(cx, &a, f, v);
    memory->unwind = outer;
    tc_arena_reset(&a);
    return name;
}

const char *tc_value_name(tc_context *cx, const tc_value *v)
{
    const tc_func *f = func_of(v);
    /* Beyond the last error that is kept nobody sees it. */
    if (f && cx->nerrors <= cx->most_errors)
        return print_name(cx, f, v);
    return tc_arena_printf(&cx->diag_arena, "%%%s", v->name ? v->name : "?");
}
