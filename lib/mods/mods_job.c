/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/mods/mods_job.h"

#include "lib/program/imports.h"

#include <string.h>

struct reader {
    tc_job *job;
    tc_arena *arena;
    const tc_mods_texts *from;
    tc_mod *mods;       /* two, by tc_mod_kind */
    tc_source *sources; /* the caller's, and the files that mods name */
    unsigned nsources;
    tc_reader files;
};

static bool parse_mods(struct reader *p)
{
    bool ok = true;
    for (int i = 0; i < 2; i++) {
        const char *text = p->from->texts[i];
        p->mods[i].wanted = text != NULL;
        if (text)
            ok &= tc_mods_parse(p->job, (tc_mod_kind)i, text, &p->mods[i].expr);
    }
    return ok;
}

static unsigned count_uses(const struct reader *p)
{
    return p->mods[0].expr.nuses + p->mods[1].expr.nuses;
}

static tc_source *find_source(struct reader *p, const char *name)
{
    for (unsigned i = 0; i < p->nsources; i++)
        if (strcmp(p->sources[i].name, name) == 0)
            return &p->sources[i];
    return NULL;
}

static bool read_file(struct reader *p, const tc_mod_expr *e,
                      const tc_mod_node *use)
{
    const char *file = tc_mod_file(use);
    if (find_source(p, file))
        return true;
    return tc_file_read(p->job, &p->files, file, &p->sources[p->nsources++]) ||
           tc_error(p->job->cx, tc_mod_loc(e, use), "`%s` cannot be read",
                    file);
}

/* A function that is named with its file must be in it. */
static bool check_in_file(struct reader *p, const tc_mod_expr *e,
                          const tc_mod_node *use)
{
    const tc_source *s = find_source(p, tc_mod_file(use));
    const char *near;
    return tc_file_defines(p->arena, s, tc_mod_name(use), &near) ||
           tc_error(p->job->cx, tc_mod_loc(e, use),
                    "there is no function `%s` in `%s`%s%s%s", tc_mod_name(use),
                    s->name, near ? "; did you mean `" : "", near ? near : "",
                    near ? "`?" : "");
}

static bool read_sources(struct reader *p)
{
    const tc_mods_texts *o = p->from;
    p->sources =
        tc_arena_array(p->arena, tc_source, o->nsources + count_uses(p));
    for (size_t i = 0; i < o->nsources; i++)
        if (!tc_job_source(p->job, &o->sources[i], &p->sources[p->nsources++]))
            return false;
    bool ok = true;
    for (int m = 0; m < 2; m++)
        for (unsigned i = 0; i < p->mods[m].expr.nuses; i++) {
            const tc_mod_expr *e = &p->mods[m].expr;
            if (tc_mod_file(e->uses[i]))
                ok &= read_file(p, e, e->uses[i]) &&
                      check_in_file(p, e, e->uses[i]);
        }
    return ok;
}

static bool parse_sources(struct reader *p)
{
    unsigned n = count_uses(p), k = 0, nmods;
    tc_wanted *names = tc_arena_array(p->arena, tc_wanted, n);
    tc_mod_node **uses = tc_arena_array(p->arena, tc_mod_node *, n);
    for (int m = 0; m < 2; m++)
        for (unsigned i = 0; i < p->mods[m].expr.nuses; i++) {
            uses[k] = p->mods[m].expr.uses[i];
            names[k] = (tc_wanted){tc_mod_file(uses[k]), tc_mod_name(uses[k])};
            k++;
        }
    tc_texts texts = tc_texts_new(p->arena, p->sources, p->nsources);
    texts.before = p->job->module;
    texts.more_to_come = true;
    if (!tc_texts_import(p->job, &p->files, &texts))
        return false;
    tc_source *mods = tc_link(p->job->cx, &texts, names, n, &nmods);
    for (unsigned i = 0; i < n; i++)
        tc_mod_link(uses[i], names[i].name);
    return mods && tc_job_parse(p->job, mods, nmods) &&
           tc_job_parse(p->job, p->sources, p->nsources);
}

static bool compose(struct reader *p, tc_mod *m)
{
    if (!m->wanted)
        return true;
    if (!tc_mods_compose(p->job, &m->expr, &m->func))
        return false;
    m->binding = tc_arena_printf(p->arena, "@%s", m->func.name);
    return tc_job_parse(p->job, &m->func.source, 1);
}

bool tc_mods_add(tc_job *job, const tc_mods_texts *from, tc_mods *out)
{
    *out = (tc_mods){0};
    struct reader p = {.job = job,
                       .arena = &job->cx->arena,
                       .from = from,
                       .mods = out->all,
                       .files = {from->read_source, from->user}};
    return parse_mods(&p) && read_sources(&p) && parse_sources(&p) &&
           compose(&p, &out->all[TC_MOD_MASK]) &&
           compose(&p, &out->all[TC_MOD_SCORE]);
}

unsigned tc_mods_values(const tc_mods *mods, tc_arena *arena,
                        tilec_argument **values)
{
    unsigned n = 0;
    *values =
        tc_arena_array(arena, tilec_argument,
                       mods->all[0].func.nvalues + mods->all[1].func.nvalues);
    for (int i = 0; i < 2; i++)
        for (unsigned j = 0; j < mods->all[i].func.nvalues; j++) {
            const tc_mod_value *v = &mods->all[i].func.values[j];
            (*values)[n++] = v->number.is_float
                                 ? tilec_float(v->name, v->number.f)
                                 : tilec_int(v->name, v->number.i);
        }
    return n;
}
