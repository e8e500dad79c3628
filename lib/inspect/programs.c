/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/inspect/programs.h"

#include <string.h>

void tc_programs_init(tc_programs *p, tc_context *cx, tc_arena *arena)
{
    *p = (tc_programs){.cx = cx, .arena = arena};
    p->known.arena = p->line_of.arena = arena;
    p->lines.arena = p->places.arena = p->list.arena = arena;
    p->w_lines.out = &p->lines;
    p->w_places.out = &p->places;
    p->w_list.out = &p->list;
    tc_programs_place(p, (tc_loc){0});
}

/* ---- Lines and places, each once ---- */

static unsigned number_of(tc_programs *p, const char *key, unsigned *count,
                          bool *is_new)
{
    uintptr_t found = (uintptr_t)tc_map_get(&p->known, key);
    *is_new = !found;
    if (found)
        return (unsigned)found - 1;
    tc_map_set(&p->known, key, (void *)(uintptr_t)(*count + 1));
    return (*count)++;
}

unsigned tc_programs_place(tc_programs *p, tc_loc loc)
{
    bool is_new;
    char key[64];
    tc_text text = {.arena = p->arena};
    /* No line of a program begins like this. */
    tc_text_printf(&text, "\1%u:%u:%u", loc.file, loc.line, loc.col);
    size_t n = text.len < sizeof key ? text.len : sizeof key - 1;
    unsigned i =
        number_of(p, tc_string_getn(p->cx, text.data, n), &p->nplaces, &is_new);
    if (is_new) {
        tc_json_open(&p->w_places, NULL, '[');
        tc_json_int(&p->w_places, NULL, loc.file);
        tc_json_int(&p->w_places, NULL, loc.line);
        tc_json_int(&p->w_places, NULL, loc.col);
        tc_json_close(&p->w_places, ']');
    }
    return i;
}

static unsigned line_number(tc_programs *p, const char *line, size_t n)
{
    bool is_new;
    unsigned i =
        number_of(p, tc_string_getn(p->cx, line, n), &p->nlines, &is_new);
    if (is_new)
        tc_json_stringn(&p->w_lines, NULL, line, n);
    return i;
}

/* ---- A text ---- */

/* An op, or with op NULL a function, and where its first line begins. */
typedef struct mark {
    const tc_op *op;
    tc_loc loc;
    size_t at;
} mark;

typedef struct marks {
    tc_arena *arena;
    mark *of;
    unsigned n, room;
} marks;

static void add_mark(marks *m, mark one)
{
    if (m->n == m->room) {
        m->room = m->room ? 2 * m->room : 256;
        mark *more = tc_arena_array(m->arena, mark, m->room);
        if (m->n)
            memcpy(more, m->of, m->n * sizeof *more);
        m->of = more;
    }
    m->of[m->n++] = one;
}

static void on_op(void *user, const tc_op *op, size_t at)
{
    add_mark(user, (mark){op, op->loc, at});
}

static void print_module(tc_text *out, marks *m, const tc_module *module)
{
    tc_text_add(out, "");
    for (const tc_func *f = module->first; f; f = f->next) {
        tc_text_add(out, f->prev ? "\n" : "");
        add_mark(m, (mark){NULL, f->loc, out->len});
        tc_func_print_each(out, f, on_op, m);
    }
}

unsigned tc_programs_add(tc_programs *p, const tc_module *module)
{
    tc_text text = {.arena = p->arena};
    tc_text places = {.arena = p->arena};
    tc_json_writer w = {.out = &places};
    marks m = {.arena = p->arena};
    print_module(&text, &m, module);
    p->line_of = (tc_map){.arena = p->arena};
    p->newest = text.data;
    tc_text_add(&places, "");
    tc_json_open(&p->w_list, NULL, '{');
    tc_json_open(&p->w_list, "lines", '[');
    unsigned line = 1, next = 0;
    for (const char *s = text.data; *s; line++) {
        size_t n = strcspn(s, "\n");
        size_t end = (size_t)(s - text.data) + n;
        tc_loc loc = {0};
        for (bool first = true; next < m.n && m.of[next].at <= end; next++) {
            if (m.of[next].op)
                tc_map_set(&p->line_of, m.of[next].op, (void *)(uintptr_t)line);
            loc = first ? m.of[next].loc : loc;
            first = false;
        }
        tc_json_int(&p->w_list, NULL, line_number(p, s, n));
        tc_json_int(&w, NULL, tc_programs_place(p, loc));
        s += n + (s[n] == '\n');
    }
    tc_json_close(&p->w_list, ']');
    tc_json_open(&p->w_list, "places", '[');
    tc_text_addn(&p->list, places.data, places.len);
    tc_json_close(&p->w_list, ']');
    tc_json_close(&p->w_list, '}');
    return p->n++;
}

unsigned tc_programs_line(const tc_programs *p, const tc_op *op)
{
    return (unsigned)(uintptr_t)tc_map_get(&p->line_of, op);
}

void tc_programs_write(const tc_programs *p, tc_json_writer *w)
{
    const struct {
        const char *name;
        const tc_text *items;
    } lists[] = {
        {"lines", &p->lines}, {"places", &p->places}, {"programs", &p->list}};
    for (unsigned i = 0; i < sizeof lists / sizeof *lists; i++) {
        tc_json_open(w, lists[i].name, '[');
        tc_text_add(w->out, lists[i].items->data ? lists[i].items->data : "");
        tc_json_close(w, ']');
    }
}
