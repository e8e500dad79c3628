/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/measure/space.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Cuts the next word, up to `end`, off *text into `to`. */
static bool take(const char **text, char end, char *to, size_t size)
{
    size_t n = strcspn(*text, (char[]){end, 0});
    if (n == 0 || n >= size)
        return false;
    memcpy(to, *text, n);
    to[n] = 0;
    *text += n + ((*text)[n] == end);
    return true;
}

bool space_add(space *s, const char *text)
{
    if (s->naxes == SPACE_AXES || !strchr(text, '='))
        return false;
    axis *a = &s->axes[s->naxes];
    *a = (axis){0};
    if (!take(&text, '=', a->name, sizeof a->name) || !*text)
        return false;
    for (unsigned i = 0; i < s->naxes; i++)
        if (strcmp(s->axes[i].name, a->name) == 0)
            return false;
    for (; *text; a->n++)
        if (a->n == SPACE_VALUES ||
            !take(&text, ',', a->values[a->n], sizeof a->values[0]) ||
            (tc_is_tune_option(a->name) &&
             tc_tune_option_problem(a->name, a->values[a->n])))
            return false;
    s->naxes++;
    return true;
}

static bool is_bound(const tool_args *args, const char *name)
{
    size_t n = strlen(name);
    for (int i = 0; i < args->ngiven; i++)
        if (strcmp(args->given[i].name, "-D") == 0 &&
            strncmp(args->given[i].value, name, n) == 0 &&
            args->given[i].value[n] == '=')
            return true;
    char option[40];
    snprintf(option, sizeof option, "--%s", name);
    return tc_is_tune_option(name) && tool_has(args, option);
}

int space_read(space *s, const tool_args *args)
{
    for (int i = 0; i < args->ngiven; i++) {
        const char *text = args->given[i].value;
        if (strcmp(args->given[i].name, "--sweep") != 0)
            continue;
        if (!space_add(s, text))
            return tool_usage(
                args->command,
                "--sweep %s: expected NAME=VALUE,VALUE..., each "
                "NAME once, at most %d of them with %d values; "
                "warps are 1 to 32, stages 1 to 16, ptxas 1 to 3, tiles none, "
                "static or dynamic",
                text, SPACE_AXES, SPACE_VALUES);
        if (is_bound(args, s->axes[s->naxes - 1].name))
            return tool_usage(args->command,
                              "--sweep %s: the command line gives %s a value "
                              "as well",
                              text, s->axes[s->naxes - 1].name);
    }
    if (space_count(s) > TC_MAX_VARIANTS)
        return tool_usage(args->command,
                          "these are %zu variants, at most %d are tried",
                          space_count(s), TC_MAX_VARIANTS);
    return EXIT_DONE;
}

size_t space_count(const space *s)
{
    size_t n = 1;
    for (unsigned i = 0; i < s->naxes; i++)
        n *= s->axes[i].n;
    return n;
}

void space_drop_gpu(space *s)
{
    unsigned n = 0;
    for (unsigned i = 0; i < s->naxes; i++)
        if (!tc_is_tune_option(s->axes[i].name))
            s->axes[n++] = s->axes[i];
    s->naxes = n;
}

variant space_at(const space *s, size_t index)
{
    variant v = {0};
    for (unsigned i = s->naxes; i-- > 0;) {
        const axis *a = &s->axes[i];
        v.values[i] = a->values[index % a->n];
        index /= a->n;
    }
    for (unsigned i = 0; i < s->naxes; i++) {
        const char *name = s->axes[i].name;
        if (strcmp(name, "warps") == 0)
            v.warps = (unsigned)atoi(v.values[i]);
        else if (strcmp(name, "stages") == 0)
            v.stages = (unsigned)atoi(v.values[i]);
        else if (strcmp(name, "ptxas") == 0)
            v.ptxas_level = (unsigned)atoi(v.values[i]);
        else if (strcmp(name, "tiles") == 0)
            v.tiles = (tilec_tiles)tc_tiles_parse(v.values[i]);
        else
            v.bindings[v.nbindings++] = (tilec_binding){name, v.values[i]};
    }
    return v;
}

variant_text variant_name(const space *s, const variant *v)
{
    variant_text t = {""};
    size_t n = 0;
    for (unsigned i = 0; i < s->naxes; i++)
        n += (size_t)snprintf(t.text + n, sizeof t.text - n, "%s%s=%s",
                              i ? " " : "", s->axes[i].name, v->values[i]);
    return t;
}
