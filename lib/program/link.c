/* SPDX-License-Identifier: Apache-2.0
 *
 * Linking is by name and on the text: each `@name` that a text mentions is
 * looked up in the text itself, the other texts and the embedded ones. Of a
 * file only the needed functions are kept; the others become blanks, so that
 * lines and columns stay those of the file:
 *
 *     func @causal(...) -> i1 {          func @causal(...) -> i1 {
 *       ...                                ...
 *     }                            ->    }
 *     func @sliding_window(...)
 *
 * A function is private to its file as far as names go, like `static` in C:
 *
 *     main.tile: kernel @k .. @half      means main.tile's @half
 *     act.tile:  func @gelu .. @half     means its own, @half.1 in the module
 *
 * Kernels and plans are public: they keep their names, and the parser refuses a
 * second one. Packs are unknown outside of their file.
 */
#include "lib/program/link.h"

#include "lib/program/imports.h"

#include <string.h>

/* What a file is, in the order in which names are looked up; embedded texts are
 * functions of any kernel; masks and score functions, which may use them;
 * kernels. */
typedef enum file_kind { SOURCE, IMPORT, STD, MODS, KERNELS } file_kind;

typedef struct function {
    tc_definition at;
    const char *name, *symbol; /* interned; symbol NULL: not wanted */
    bool is_wanted;
    struct file *file;
    struct function *next; /* of those whose text is to be looked at */
    struct function *same; /* a pack before it, of its name; the parser says */
} function;

typedef struct file {
    tc_source source;
    file_kind kind;
    function *all;
    unsigned n, nwanted;
    tc_map defined;  /* by name: functions, not packs */
    tc_map packs;    /* by name, the last ones */
    tc_map meanings; /* of names in the wanted text: functions */
    const char **names;
    unsigned nnames, room;
} file;

typedef struct linker {
    tc_context *cx;
    tc_arena *arena;
    const tc_texts *texts;
    file *files; /* in the order of their kinds */
    unsigned nfiles;
    tc_map symbols; /* that are taken */
    function *todo; /* wanted: what they mention is not yet */
    bool ok;
} linker;

/* ---- Files ---- */

static file_kind kind_of(const tc_embedded *e)
{
    return strncmp(e->name, "mods/", 5) == 0  ? MODS
           : strncmp(e->name, "std/", 4) == 0 ? STD
                                              : KERNELS;
}

static function *find_in(const file *f, const char *name)
{
    return tc_map_get(&f->defined, name);
}

static void read_file(linker *l, const tc_source *s, file_kind kind)
{
    file *f = &l->files[l->nfiles++];
    unsigned n;
    tc_definition *defs = tc_definitions(l->arena, s->text, s->len, &n);
    *f = (file){.source = *s,
                .kind = kind,
                .all = tc_arena_array(l->arena, function, n),
                .n = n,
                .defined.arena = l->arena,
                .packs.arena = l->arena,
                .meanings.arena = l->arena};
    for (unsigned i = 0; i < n; i++) {
        f->all[i] = (function){.at = defs[i],
                               .name = tc_string_get(l->cx, defs[i].name),
                               .is_wanted = kind == SOURCE,
                               .file = f};
        function *one = &f->all[i];
        if (one->at.is_pack) {
            one->same = tc_map_get(&f->packs, one->name);
            tc_map_set(&f->packs, one->name, one);
        } else if (!find_in(f, one->name)) {
            tc_map_set(&f->defined, one->name, one);
        }
    }
    f->nwanted = kind == SOURCE ? n : 0;
}

/* An embedded text may be a source. */
static bool is_source(const linker *l, const tc_embedded *e)
{
    for (unsigned i = 0; i < l->texts->nsources; i++)
        if (l->texts->sources[i].text == e->text)
            return true;
    return false;
}

static void read_embedded(linker *l, file_kind kind)
{
    for (const tc_embedded *e = tc_embedded_texts; e->name; e++)
        if (kind_of(e) == kind && !is_source(l, e))
            read_file(
                l,
                &(tc_source){.name = e->file, .text = e->text, .len = e->len},
                kind);
}

static bool has_plan(const linker *l)
{
    for (unsigned i = 0; i < l->nfiles && l->files[i].kind == SOURCE; i++)
        for (unsigned j = 0; j < l->files[i].n; j++)
            if (l->files[i].all[j].at.is_plan)
                return true;
    return false;
}

static void read_files(linker *l)
{
    const tc_texts *t = l->texts;
    unsigned room = t->nsources + t->nimports;
    for (const tc_embedded *e = tc_embedded_texts; e->name; e++)
        room++;
    l->files = tc_arena_array(l->arena, file, room);
    for (unsigned i = 0; i < t->nsources; i++)
        read_file(l, &t->sources[i], SOURCE);
    for (unsigned i = 0; i < t->nimports; i++)
        read_file(l, &t->imports[i], IMPORT);
    read_embedded(l, STD);
    read_embedded(l, MODS);
    if (has_plan(l))
        read_embedded(l, KERNELS);
}

/* ---- What a name means ---- */

/* Where a name is looked up: in a file, or NULL: in a binding. */
typedef struct place {
    file *in;
    size_t at, len;
    const char *name; /* interned */
} place;

static bool is_imported_by(linker *l, const file *f, const file *by)
{
    unsigned n;
    if (!by || by->kind > IMPORT)
        return false;
    const tc_import *all =
        tc_imports_of(l->arena, by->source.text, by->source.len, &n);
    for (unsigned i = 0; i < n; i++)
        if (strcmp(tc_import_path(l->arena, by->source.name, all[i].file),
                   f->source.name) == 0)
            return true;
    return false;
}

/* Sources are parsed in their order, after imports, of which an imported one
 * is parsed first; embedded texts before all. */
static bool is_before(const file *f, const file *in)
{
    return !in || in->kind > f->kind ? f->kind > IMPORT || !in
           : f->kind == in->kind     ? f < in
                                     : true;
}

static bool refuse(linker *l, const place *at, const function *a,
                   const function *b)
{
    tc_loc loc = {0};
    if (at->in)
        loc = tc_source_place(l->cx, &at->in->source, at->at, at->len);
    l->ok = tc_error(l->cx, loc,
                     a->file->kind > IMPORT
                         ? "@%s is not defined here, and `%s` and `%s` of the "
                           "library have one each: define it in this file"
                         : "@%s is defined in `%s` and in `%s`: define it in "
                           "this file, or rename one of the two",
                     at->name, a->file->source.name, b->file->source.name);
    for (int i = 0; i < 2; i++) {
        const function *f = i ? b : a;
        tc_note(l->cx,
                tc_source_place(l->cx, &f->file->source, f->at.at,
                                strlen(f->name) + 1),
                "one is here");
    }
    return false;
}

/* Steps of a search; a step that finds a function ends it. */
typedef enum step { NEAR, TEXTS, OF_STD, OF_MODS, OF_KERNELS, STEPS } step;

static bool is_of_step(linker *l, step s, const file *f, const place *at)
{
    if (s == NEAR) /* bindings are near the sources */
        return at->in ? f->kind == IMPORT && is_imported_by(l, f, at->in)
                      : f->kind == SOURCE;
    if (s == TEXTS)
        return f->kind <= IMPORT && is_before(f, at->in);
    return f->kind == STD + (file_kind)(s - OF_STD);
}

static function *look_up(linker *l, const place *at)
{
    function *own = at->in ? find_in(at->in, at->name) : NULL;
    for (int s = 0; !own && s < STEPS; s++)
        for (unsigned i = 0; i < l->nfiles; i++) {
            function *f = find_in(&l->files[i], at->name);
            if (!f || !is_of_step(l, (step)s, &l->files[i], at))
                continue;
            if (own && own != f) {
                refuse(l, at, own, f);
                return own;
            }
            own = f;
        }
    return own;
}

static void want(linker *l, function *f)
{
    if (f->is_wanted)
        return;
    f->is_wanted = true;
    f->file->nwanted++;
    f->next = l->todo;
    l->todo = f;
}

/* Packs are of their file, and have names of their own. */
static void want_packs(linker *l, file *f, const char *name)
{
    for (function *p = tc_map_get(&f->packs, name); p; p = p->same)
        want(l, p);
}

static void note_name(linker *l, file *f, const char *name, function *meaning)
{
    if (f->nnames == f->room) {
        f->room = f->room ? 2 * f->room : 16;
        const char **more = tc_arena_array(l->arena, const char *, f->room);
        if (f->nnames)
            memcpy(more, f->names, f->nnames * sizeof *more);
        f->names = more;
    }
    f->names[f->nnames++] = name;
    tc_map_set(&f->meanings, name, meaning);
}

static void want_text(linker *l, file *f, size_t begin, size_t end)
{
    tc_mention m = {.at = begin};
    while (tc_next_mention(&f->source, end, &m)) {
        place at = {f, m.at, m.len, tc_string_getn(l->cx, m.name, m.len - 1)};
        if (tc_map_get(&f->meanings, at.name))
            continue;
        want_packs(l, f, at.name);
        function *meaning = look_up(l, &at);
        if (!meaning)
            continue; /* the parser says so */
        note_name(l, f, at.name, meaning);
        want(l, meaning);
    }
}

static void want_mentioned(linker *l)
{
    while (l->todo) {
        function *f = l->todo;
        l->todo = f->next;
        want_text(l, f->file, f->at.begin, f->at.end);
    }
}

/* What `names` mean. */
static function **want_names(linker *l, const tc_wanted *names, unsigned n)
{
    function **all = tc_arena_array(l->arena, function *, n);
    for (unsigned i = 0; i < n; i++) {
        place at = {.name = tc_string_get(l->cx, names[i].name)};
        for (unsigned k = 0; names[i].file && k < l->nfiles; k++)
            if (!all[i] && l->files[k].kind <= IMPORT &&
                strcmp(l->files[k].source.name, names[i].file) == 0)
                all[i] = find_in(&l->files[k], at.name);
        if (!all[i])
            all[i] = look_up(l, &at);
        if (all[i])
            want(l, all[i]);
    }
    return all;
}

/* ---- Symbols ---- */

static bool is_public(const function *f)
{
    return f->at.is_kernel || f->at.is_plan;
}

static bool is_embedded(const char *name)
{
    for (const tc_embedded *e = tc_embedded_texts; e->name; e++)
        if (strstr(e->text, name)) {
            tc_source s = {.text = e->text};
            tc_mention m = {0};
            while (tc_next_mention(&s, e->len, &m))
                if (strlen(name) == m.len - 1 &&
                    memcmp(name, m.name, m.len - 1) == 0)
                    return true;
        }
    return false;
}

static bool is_free(const linker *l, const function *f, const char *symbol)
{
    const tc_texts *t = l->texts;
    return !tc_map_get(&l->symbols, symbol) &&
           !(t->before && tc_func_find(t->before, symbol)) &&
           !(t->more_to_come && f->file->kind <= IMPORT && is_embedded(symbol));
}

/* The first of @f, @f.1, @f.2 .. that is free. */
static void give_symbol(linker *l, function *f)
{
    if (f->symbol || !f->is_wanted || f->at.is_pack)
        return;
    f->symbol = f->name;
    for (unsigned i = 1; !is_public(f) && !is_free(l, f, f->symbol); i++)
        f->symbol = tc_string_get(
            l->cx, tc_arena_printf(l->arena, "%s.%u", f->name, i));
    tc_map_set(&l->symbols, f->symbol, f);
}

/* A name that is only there once stays as it is: kernels first, which must
 * keep theirs, then what bindings name. */
static void give_symbols(linker *l, function **named, unsigned nnamed)
{
    for (int pass = 0; pass < 3; pass++) {
        for (unsigned i = 0; pass == 1 && i < nnamed; i++)
            if (named[i])
                give_symbol(l, named[i]);
        for (unsigned i = 0; pass != 1 && i < l->nfiles; i++)
            for (unsigned j = 0; j < l->files[i].n; j++)
                if (pass || is_public(&l->files[i].all[j]))
                    give_symbol(l, &l->files[i].all[j]);
    }
}

static void set_aliases(linker *l, const file *f, tc_source *to)
{
    tc_alias *all = tc_arena_array(&l->cx->arena, tc_alias, f->nnames);
    to->aliases = all;
    to->naliases = 0;
    for (unsigned i = 0; i < f->nnames; i++) {
        const function *meaning = tc_map_get(&f->meanings, f->names[i]);
        if (meaning->symbol != f->names[i])
            all[to->naliases++] = (tc_alias){f->names[i], meaning->symbol};
    }
}

/* ---- Texts ---- */

static tc_source excerpt(linker *l, const file *f)
{
    tc_source s = f->source;
    char *text = tc_arena_copy(l->arena, s.text, s.len + 1);
    for (unsigned i = 0; i < f->n; i++)
        for (size_t at = f->all[i].at.begin;
             !f->all[i].is_wanted && at < f->all[i].at.end; at++)
            if (text[at] != '\n')
                text[at] = ' ';
    s.text = text;
    set_aliases(l, f, &s);
    return s;
}

/* In the order in which they are parsed: an import may mention what is
 * embedded, but not the other way round. */
static tc_source *write_texts(linker *l, unsigned *n)
{
    tc_source *out = tc_arena_array(l->arena, tc_source, l->nfiles);
    *n = 0;
    for (int imports = 0; imports < 2; imports++)
        for (unsigned i = 0; i < l->nfiles; i++) {
            const file *f = &l->files[i];
            if (f->kind != SOURCE && (f->kind == IMPORT) == imports &&
                f->nwanted)
                out[(*n)++] = excerpt(l, f);
        }
    for (unsigned i = 0; i < l->texts->nsources; i++)
        set_aliases(l, &l->files[i], &l->texts->sources[i]);
    return out;
}

static linker new_linker(tc_context *cx, const tc_texts *texts)
{
    return (linker){.cx = cx,
                    .arena = &cx->arena,
                    .texts = texts,
                    .symbols.arena = &cx->arena,
                    .ok = true};
}

tc_source *tc_link(tc_context *cx, const tc_texts *texts, tc_wanted *names,
                   unsigned nnames, unsigned *n)
{
    linker l = new_linker(cx, texts);
    read_files(&l);
    for (unsigned i = 0; i < texts->nsources; i++)
        want_text(&l, &l.files[i], 0, l.files[i].source.len);
    function **named = want_names(&l, names, nnames);
    want_mentioned(&l);
    give_symbols(&l, named, nnames);
    for (unsigned i = 0; i < nnames; i++)
        if (named[i])
            names[i].name = named[i]->symbol;
    tc_source *out = write_texts(&l, n);
    return l.ok ? out : NULL;
}

const char **tc_mod_names(tc_arena *a, unsigned *n)
{
    const char **names = NULL;
    *n = 0;
    for (int counted = 0; counted < 2; counted++) {
        unsigned k = 0, ndefs;
        for (const tc_embedded *e = tc_embedded_texts; e->name; e++) {
            if (kind_of(e) != MODS)
                continue;
            tc_definition *defs = tc_definitions(a, e->text, e->len, &ndefs);
            for (unsigned i = 0; i < ndefs; i++, k++)
                if (counted)
                    names[k] = defs[i].name;
        }
        if (!counted)
            names = tc_arena_array(a, const char *, *n = k);
    }
    return names;
}
