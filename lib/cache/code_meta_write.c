/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/cache/code_meta.h"

#include <string.h>

static const char *file_name(const tc_context *cx, tc_loc loc)
{
    return loc.file ? cx->sources[loc.file - 1].name : "";
}

void tc_meta_open_place(tc_record_writer *to, const tc_context *cx, tc_loc loc)
{
    tc_record_open_list(to, NULL);
    tc_record_add_text(to, NULL, file_name(cx, loc));
    tc_record_add_int(to, NULL, loc.line);
    tc_record_add_int(to, NULL, loc.col);
}

static unsigned list_asserts(const tc_region *r, const tc_op **list)
{
    unsigned n = 0;
    tc_each_op (op, r) {
        if (op->code == TC_ASSERT && list)
            list[n] = op;
        n += op->code == TC_ASSERT;
        for (unsigned i = 0; i < op->nregions; i++)
            n += list_asserts(op->regions[i], list ? list + n : NULL);
    }
    return n;
}

tc_meta_facts tc_meta_facts_of(const tc_func *f)
{
    tc_arena *a = &f->module->arena;
    unsigned n = f->body->nargs;
    tc_meta_facts facts = {.written = tc_arena_array(a, bool, n),
                           .unused = tc_arena_array(a, bool, n)};
    for (unsigned i = 0; i < n; i++) {
        facts.written[i] = tc_value_is_written(a, f->body->args[i]);
        facts.unused[i] = !tc_parameter_is_used(f, i);
    }
    facts.asserts =
        tc_arena_array(a, const tc_op *, list_asserts(f->body, NULL));
    facts.nasserts = list_asserts(f->body, facts.asserts);
    return facts;
}

static void add_list(tc_record_writer *meta, const char *name,
                     const bool *is_in, unsigned n)
{
    tc_record_open_list(meta, name);
    for (unsigned i = 0; i < n; i++)
        if (is_in[i])
            tc_record_add_int(meta, NULL, i);
    tc_record_close(meta);
}

void tc_meta_add_facts(tc_record_writer *meta, const tc_func *f,
                       const tc_meta_facts *facts)
{
    const tc_context *cx = f->module->cx;
    add_list(meta, "written", facts->written, f->body->nargs);
    add_list(meta, "unused", facts->unused, f->body->nargs);
    tc_record_open_list(meta, "grid");
    tc_each_op (op, f->grid) {
        tc_meta_open_place(meta, cx, op->loc);
        tc_record_close(meta);
    }
    tc_record_close(meta);
    tc_record_open_list(meta, "asserts");
    for (unsigned i = 0; i < facts->nasserts; i++) {
        tc_meta_open_place(meta, cx, facts->asserts[i]->loc);
        tc_record_add_text(meta, NULL,
                           tc_op_word(facts->asserts[i], "message"));
        tc_record_close(meta);
    }
    tc_record_close(meta);
}

const char *tc_meta_header(tc_func *f)
{
    for (tc_op *op = f->body->last, *before; op; op = before) {
        before = op->prev;
        tc_op_erase(op);
    }
    tc_text text = {.arena = &f->module->arena};
    tc_func_print(&text, f, TC_PRINT_PLAIN);
    return text.data;
}
