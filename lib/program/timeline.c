/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/program/timeline.h"

#include "ir/types/layout.h"
#include "lib/program/json_text.h"
#include "passes/profile/steady_state.h"
#include "passes/sync/shared_memory.h"

#include <string.h>

typedef struct drawing {
    tc_text *out;
    tc_context *cx;
    const tc_steady_state *s;
} drawing;

/* ---- Tracks: producer, groups, units ---- */

static unsigned track_of(const tc_steady_state *s, const tc_span *p)
{
    unsigned first = s->nproducer ? 1 : 0, units = first + s->ngroups;
    switch (p->track) {
    case TC_TRACK_PRODUCER: return 0;
    case TC_TRACK_GROUP: return first + p->group;
    case TC_TRACK_PRODUCTS: return units;
    case TC_TRACK_SPECIAL: return units + 1;
    default: return units + 2;
    }
}

static void put_track(const drawing *d, bool first, const char *name,
                      const char *kind)
{
    tc_text_add(d->out, first ? "{" : ",{");
    tc_json_put_member(d->out, "name", name);
    tc_json_put_member(d->out, "kind", kind);
    tc_text_add(d->out, "}");
}

static void put_tracks(const drawing *d)
{
    tc_text_add(d->out, ",\"tracks\":[");
    if (d->s->nproducer)
        put_track(d, true, "producer", "role");
    for (unsigned i = 0; i < d->s->ngroups; i++)
        put_track(d, i == 0 && !d->s->nproducer,
                  tc_arena_printf(&d->cx->diag_arena, "group %u", i), "role");
    put_track(d, false, "tensor cores", "unit");
    put_track(d, false, "special functions", "unit");
    put_track(d, false, "copies", "unit");
    tc_text_add(d->out, "]");
}

/* ---- Spans and sections ---- */

static const char *name_of(const drawing *d, const tc_step_section *s)
{
    const char *words = tc_section_words(s->is.kind);
    return s->is.label ? tc_arena_printf(&d->cx->diag_arena, "%s %s", words,
                                         s->is.label)
                       : words;
}

static const char *span_kind(const tc_span *p)
{
    switch (p->track) {
    case TC_TRACK_PRODUCTS: return "product";
    case TC_TRACK_SPECIAL: return "special";
    case TC_TRACK_COPIES: return "copy";
    default: return tc_section_span(p->section->is.kind);
    }
}

static const char *span_name(const drawing *d, const tc_span *p)
{
    const char *label = p->section->is.label;
    if (p->track == TC_TRACK_PRODUCER || p->track == TC_TRACK_GROUP)
        return name_of(d, p->section);
    if (p->track == TC_TRACK_COPIES)
        return label ? label : "copy";
    return tc_arena_printf(&d->cx->diag_arena, "group %u: %s", p->group,
                           label ? label : tc_section_words("math"));
}

static void put_span(const drawing *d, bool first, const tc_span *p)
{
    tc_text_printf(d->out, "%s{\"track\":%u,\"start\":%.0f,\"end\":%.0f",
                   first ? "" : ",", track_of(d->s, p), p->start, p->end);
    tc_json_put_member(d->out, "kind", span_kind(p));
    tc_json_put_member(d->out, "name", span_name(d, p));
    tc_text_printf(d->out, ",\"step\":%u", p->step);
    tc_json_put_place(d->out, p->section->op->loc);
    tc_text_add(d->out, "}");
}

static void put_section(const drawing *d, bool first, const char *role,
                        const tc_step_section *s)
{
    tc_text_add(d->out, first ? "{" : ",{");
    tc_json_put_member(d->out, "role", role);
    tc_json_put_member(d->out, "kind", tc_section_span(s->is.kind));
    tc_json_put_member(d->out, "name", name_of(d, s));
    tc_text_printf(d->out, ",\"model\":%.0f", s->cycles);
    if (s->mark)
        tc_text_printf(d->out, ",\"mark\":%u", s->mark);
    tc_json_put_place(d->out, s->op->loc);
    tc_text_add(d->out, "}");
}

static void put_sections(const drawing *d)
{
    tc_text_add(d->out, ",\"sections\":[");
    for (unsigned i = 0; i < d->s->nsections; i++)
        put_section(d, i == 0, "consumers", &d->s->sections[i]);
    for (unsigned i = 0; i < d->s->nproducer; i++)
        put_section(d, false, "producer", &d->s->producer[i]);
    tc_text_add(d->out, "]");
}

/* ---- Notes ---- */

static void put_notes(const drawing *d)
{
    const tc_steady_state *s = d->s;
    tc_arena *a = &d->cx->diag_arena;
    tc_text_add(d->out, ",\"notes\":[");
    tc_json_put_string(
        d->out,
        tc_arena_printf(a,
                        "%s: a step takes %.0f cycles; it asks %.0f of the "
                        "tensor cores, %.0f of special functions, %.0f of the "
                        "lanes, %.0f of copies",
                        tc_section_loop(d->cx, s->loop), s->cycles, s->products,
                        s->special, s->lanes, s->copies));
    tc_text_add(d->out, ",");
    tc_json_put_string(d->out,
                       "modelled: barriers, stores and the issue of "
                       "instructions take no time, all copies are in L2");
    tc_text_add(d->out, "]");
}

/* ---- Shared memory ---- */

static void put_buffer(const drawing *d, bool first, const tc_lifetime *l)
{
    const tc_type *t = l->alloc->out[0]->type;
    tc_text type = {.arena = &d->cx->diag_arena};
    tc_type_print(&type, t);
    tc_text_add(d->out, first ? "{" : ",{");
    tc_json_put_member(d->out, "name", tc_value_name(d->cx, l->alloc->out[0]));
    tc_json_put_member(d->out, "type", type.data);
    tc_text_printf(d->out,
                   ",\"offset\":%lld,\"bytes\":%u,\"slots\":%u,\"from\":%u,"
                   "\"to\":%u",
                   (long long)tc_op_int(l->alloc, "offset"), l->bytes,
                   t->slots ? t->slots : 1, l->first, l->last);
    tc_json_put_place(d->out, l->alloc->loc);
    tc_text_add(d->out, "}");
}

static void put_buffers(const drawing *d, tc_func *f)
{
    tc_lifetimes all = tc_find_lifetimes(&f->module->arena, f, true);
    tc_text_add(d->out, ",\"buffers\":[");
    unsigned last = 0;
    for (unsigned i = 0; i < all.n; i++) {
        put_buffer(d, i == 0, &all.of[i]);
        last = all.of[i].last > last ? all.of[i].last : last;
    }
    tc_text_printf(d->out, "],\"ops\":%u,\"shared_bytes\":%u", last + 1,
                   f->shared_bytes);
}

/* ---- The object ---- */

void tc_timeline_json(tc_text *out, tc_func *f, const tc_target *target)
{
    const tc_steady_state *s = tc_steady_state_of(&f->module->arena, f, target);
    drawing d = {out, f->module->cx, s};
    if (!s) {
        tc_text_add(out, "null");
        return;
    }
    tc_text_add(out, "{\"schema\":\"tilec.timeline\",\"version\":1");
    tc_json_put_member(out, "source", "model");
    tc_json_put_member(out, "kernel", f->name);
    tc_json_put_member(out, "target", target->name);
    tc_json_put_member(out, "unit", "cycles");
    tc_json_put_member(out, "loop", tc_section_loop(d.cx, s->loop));
    tc_text_printf(out, ",\"length\":%.0f,\"step\":%.0f", s->shown, s->cycles);
    put_tracks(&d);
    tc_text_add(out, ",\"spans\":[");
    for (unsigned i = 0; i < s->nspans; i++)
        put_span(&d, i == 0, &s->spans[i]);
    tc_text_add(out, "]");
    put_sections(&d);
    put_buffers(&d, f);
    put_notes(&d);
    tc_text_add(out, "}");
}
