/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "test/fuzz/texts.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add(texts *t, const char *s, size_t n)
{
    if (!memmem(s, n, "func @", 6) && !memmem(s, n, "kernel @", 8))
        return;
    if (t->n == t->room) {
        t->room = t->room ? 2 * t->room : 64;
        t->all = realloc(t->all, t->room * sizeof *t->all);
    }
    t->all[t->n++] = strndup(s, n);
}

/* What stands between lines that are `mark`. */
static void add_parts(texts *t, const char *text, const char *mark)
{
    const char *next;
    while ((next = strstr(text, mark))) {
        add(t, text, (size_t)(next - text));
        text = next + strlen(mark);
    }
    add(t, text, strlen(text));
}

static void add_examples(texts *t, const char *text)
{
    while ((text = strstr(text, "\n```tile"))) {
        text = strchr(text + 1, '\n');
        const char *end = text ? strstr(text, "\n```") : NULL;
        if (!end)
            return;
        add(t, text, (size_t)(end - text));
        text = end + 4;
    }
}

static bool ends_in(const char *path, const char *end)
{
    size_t n = strlen(path), m = strlen(end);
    return n > m && strcmp(path + n - m, end) == 0;
}

static void read_file(texts *t, const char *path)
{
    bool markdown = ends_in(path, ".md");
    FILE *f = markdown || ends_in(path, ".tile") ? fopen(path, "rb") : NULL;
    if (!f)
        return;
    char *text = NULL;
    size_t n = 0;
    if (getdelim(&text, &n, 0, f) >= 0) {
        if (markdown)
            add_examples(t, text);
        else
            add_parts(t, text, "// -----");
    }
    free(text);
    fclose(f);
}

static int is_visible(const struct dirent *d)
{
    return d->d_name[0] != '.';
}

void texts_read(texts *t, const char *path)
{
    struct dirent **names;
    int n = scandir(path, &names, is_visible, alphasort);
    if (n < 0) {
        read_file(t, path);
        return;
    }
    for (int i = 0; i < n; i++) {
        char *below;
        if (asprintf(&below, "%s/%s", path, names[i]->d_name) >= 0) {
            texts_read(t, below);
            free(below);
        }
        free(names[i]);
    }
    free(names);
}

void texts_free(texts *t)
{
    for (size_t i = 0; i < t->n; i++)
        free(t->all[i]);
    free(t->all);
}
