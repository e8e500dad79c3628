/* SPDX-License-Identifier: Apache-2.0
 *
 * Files are taken depth first, so that an imported text is parsed before the
 * one that imports it:
 *
 *     main.tile: import "act/gelu.tile"     reads act/gelu.tile, and first
 *     act/gelu.tile: import "common.tile"   act/common.tile
 */
#include "lib/program/imports.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_FILES = 256 };

struct importer {
    tc_job *job;
    const tc_reader *reader;
    tc_texts *texts;
};

/* A text whose imports are being read, and the one that imports it. */
struct frame {
    const tc_source *text;
    const struct frame *above;
};

/* Where a file is asked for. */
struct place {
    const struct frame *in; /* NULL: in a binding */
    const tc_import *import;
    const char *binding;
};

/* The reader's text is malloc'd: copied at once, so that no way out of here
 * can lose it. */
bool tc_file_read(tc_job *job, const tc_reader *reader, const char *file,
                  tc_source *out)
{
    char *text = NULL;
    if (!reader->read || !reader->read(reader->user, file, &text) || !text)
        return false;
    job->foreign = text;
    tc_arena *a = &job->cx->arena;
    size_t n = strlen(text);
    *out = (tc_source){.name = tc_arena_string(a, file),
                       .text = tc_arena_copy(a, text, n + 1),
                       .len = n};
    job->foreign = NULL;
    free(text);
    return true;
}

bool tc_file_defines(tc_arena *a, const tc_source *text, const char *name,
                     const char **near)
{
    unsigned n, k = 0;
    tc_definition *defs = tc_definitions(a, text->text, text->len, &n);
    const char **names = tc_arena_array(a, const char *, n);
    for (unsigned i = 0; i < n; i++) {
        if (defs[i].is_pack)
            continue;
        names[k++] = defs[i].name;
        if (strcmp(defs[i].name, name) == 0)
            return true;
    }
    *near = tc_nearest_name(name, names, k);
    return false;
}

static bool fail(struct importer *im, const struct place *at, const char *why)
{
    if (!at->in)
        return tc_job_error(im->job, TILEC_USAGE, "%s: %s", at->binding, why);
    tc_context *cx = im->job->cx;
    return tc_error(
        cx, tc_source_place(cx, at->in->text, at->import->at, at->import->len),
        "%s", why);
}

/* ---- Paths ---- */

/* Drops `.` and `a/..`, so that one file has one name. */
static void shorten(char *path)
{
    enum { DEEPEST = 64 };
    char *starts[DEEPEST], *to = path + (*path == '/');
    unsigned n = 0;
    for (char *from = to; *from;) {
        size_t len = strcspn(from, "/");
        bool up = len == 2 && memcmp(from, "..", 2) == 0;
        bool none = len == 0 || (len == 1 && *from == '.');
        char *next = from + len + (from[len] == '/');
        bool last = from[len] == 0;
        if (up && n) {
            to = starts[--n];
        } else if (!none) {
            if (!up && n < DEEPEST)
                starts[n++] = to;
            memmove(to, from, len);
            to += len;
            if (!last)
                *to++ = '/';
        }
        from = next;
    }
    *to = 0;
}

char *tc_import_path(tc_arena *a, const char *text, const char *file)
{
    const char *slash = strrchr(text, '/');
    char *path =
        *file == '/' || !slash
            ? tc_arena_string(a, file)
            : tc_arena_printf(a, "%.*s/%s", (int)(slash - text), text, file);
    shorten(path);
    return path;
}

/* ---- Files ---- */

static const tc_source *find(const tc_source *all, unsigned n, const char *name)
{
    for (unsigned i = 0; i < n; i++)
        if (strcmp(all[i].name, name) == 0)
            return &all[i];
    return NULL;
}

static bool is_open(const struct frame *f, const char *path)
{
    while (f && strcmp(f->text->name, path) != 0)
        f = f->above;
    return f != NULL;
}

static bool is_public(const tc_definition *d)
{
    return d->is_kernel || d->is_plan;
}

/* A kernel or plan of `text` that `other` defines, too. */
static const char *common_name(tc_arena *a, const tc_source *text,
                               const tc_source *other)
{
    unsigned n, m;
    tc_definition *own = tc_definitions(a, text->text, text->len, &n);
    tc_definition *others = tc_definitions(a, other->text, other->len, &m);
    for (unsigned i = 0; i < n; i++)
        for (unsigned j = 0; is_public(&own[i]) && j < m; j++)
            if (is_public(&others[j]) &&
                strcmp(own[i].name, others[j].name) == 0)
                return own[i].name;
    return NULL;
}

static bool check_names(struct importer *im, const struct place *at,
                        const tc_source *file)
{
    tc_arena *a = &im->job->cx->arena;
    const tc_texts *t = im->texts;
    for (unsigned i = 0; i < t->nsources + t->nimports; i++) {
        const tc_source *other =
            i < t->nsources ? &t->sources[i] : &t->imports[i - t->nsources];
        const char *name = common_name(a, file, other);
        if (name)
            return fail(im, at,
                        tc_arena_printf(a,
                                        "`%s` defines the kernel or plan @%s, "
                                        "which `%s` defines already",
                                        file->name, name, other->name));
    }
    return true;
}

static bool import_all(struct importer *im, const struct frame *f);

static bool take(struct importer *im, const struct place *at, const char *path)
{
    tc_arena *a = &im->job->cx->arena;
    tc_texts *t = im->texts;
    tc_source file;
    if (is_open(at->in, path))
        return fail(im, at,
                    tc_arena_printf(a, "`%s` imports this file, too", path));
    if (find(t->sources, t->nsources, path) ||
        find(t->imports, t->nimports, path))
        return true;
    if (!im->reader->read)
        return fail(im, at,
                    "files cannot be read here: expected the option "
                    "read_source");
    if (t->nimports == MOST_FILES)
        return fail(im, at, "too many files are imported");
    if (!tc_file_read(im->job, im->reader, path, &file))
        return fail(im, at, tc_arena_printf(a, "`%s` cannot be read", path));
    if (!import_all(im, &(struct frame){&file, at->in}) ||
        !check_names(im, at, &file))
        return false;
    t->imports[t->nimports++] = file;
    return true;
}

static bool import_all(struct importer *im, const struct frame *f)
{
    tc_arena *a = &im->job->cx->arena;
    unsigned n;
    tc_import *all = tc_imports_of(a, f->text->text, f->text->len, &n);
    bool ok = true;
    for (unsigned i = 0; i < n; i++)
        ok &= take(im, &(struct place){.in = f, .import = &all[i]},
                   tc_import_path(a, f->text->name, all[i].file));
    return ok;
}

tc_texts tc_texts_new(tc_arena *a, tc_source *sources, unsigned nsources)
{
    return (tc_texts){.sources = sources,
                      .nsources = nsources,
                      .imports = tc_arena_array(a, tc_source, MOST_FILES)};
}

bool tc_texts_import(tc_job *job, const tc_reader *reader, tc_texts *texts)
{
    struct importer im = {job, reader, texts};
    bool ok = true;
    for (unsigned i = 0; i < texts->nsources; i++)
        ok &= import_all(&im, &(struct frame){&texts->sources[i], NULL});
    return ok;
}

bool tc_texts_bind(tc_job *job, const tc_reader *reader, tc_texts *texts,
                   tilec_binding *binding, tc_wanted *function)
{
    tc_arena *a = &job->cx->arena;
    struct importer im = {job, reader, texts};
    const char *mark = strrchr(binding->value, '@'), *near;
    *function = (tc_wanted){NULL, binding->value + (mark == binding->value)};
    if (!mark || mark == binding->value)
        return true;
    struct place at = {
        .binding = tc_arena_printf(a, "%s=%s", binding->name, binding->value)};
    char *path = tc_arena_printf(a, "%.*s", (int)(mark - binding->value),
                                 binding->value);
    shorten(path);
    if (!take(&im, &at, path))
        return false;
    binding->value = tc_arena_string(a, mark);
    *function = (tc_wanted){path, mark + 1};
    const tc_source *file = find(texts->imports, texts->nimports, path);
    file = file ? file : find(texts->sources, texts->nsources, path);
    return tc_file_defines(a, file, mark + 1, &near) ||
           fail(&im, &at,
                tc_arena_printf(a, "there is no function `%s` in `%s`%s%s%s",
                                mark + 1, path, near ? "; did you mean `" : "",
                                near ? near : "", near ? "`?" : ""));
}
