/* SPDX-License-Identifier: Apache-2.0
 *
 * tilec compile --emit=bundle: a kernel, or attention for all combinations of
 * targets, data types, head dims and masks, in a file for programs without a
 * compiler.
 */
#include "tools/bundle_make.h"

#include "tools/measure/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 32 };
typedef struct list {
    char *copy;
    int n;
    const char *all[MOST];
} list;

/* Words of a text with commas between. */
static void split(list *l, const char *text)
{
    char *rest;
    *l = (list){.copy = strdup(text)};
    for (char *word = l->copy ? strtok_r(l->copy, ",", &rest) : NULL;
         word && l->n < MOST; word = strtok_r(NULL, ",", &rest))
        l->all[l->n++] = word;
}

static void find_masks(list *l, const tool_args *args)
{
    *l = (list){0};
    for (int i = 0; i < args->ngiven && l->n < MOST; i++)
        if (strcmp(args->given[i].name, "--mask") == 0)
            l->all[l->n++] = args->given[i].value;
    if (l->n == 0)
        l->all[l->n++] = "none";
}

static bool read_type(const char *name, DLDataType *out)
{
    static const struct {
        const char *name;
        DLDataType type;
    } types[] = {{"f32", {kDLFloat, 32, 1}},
                 {"f16", {kDLFloat, 16, 1}},
                 {"bf16", {kDLBfloat, 16, 1}}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, name) == 0) {
            *out = types[i].type;
            return true;
        }
    return false;
}

/* One plan, which the context records. Lengths are those of usual training
 * and prefill: a plan serves all others. */
static int make_attention(const tool_args *args, tilec_context *cx,
                          const char *target, DLDataType type, int64_t dim,
                          const char *mask)
{
    int64_t shape[4] = {1, 16, 4096, dim};
    DLTensor t = {
        .device = {kDLCPU, 0}, .ndim = 4, .dtype = type, .shape = shape};
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    o.target = target;
    o.mask = strcmp(mask, "none") == 0 ? NULL : mask;
    o.score = tool_value(args, "--score");
    o.backward = tool_has(args, "--backward");
    o.read_source = read_source;
    o.no_load = 1;
    o.no_cache = tool_has(args, "--no-cache");
    tilec_attention *plan;
    tilec_status s = tilec_attention_plan(cx, &t, &t, &t, &o, &plan);
    tilec_attention_free(plan);
    return s ? report_compile(cx, s) : EXIT_DONE;
}

static int make_dims(const tool_args *args, tilec_context *cx,
                     const char *target, const char *type, const list *dims)
{
    DLDataType t;
    list masks;
    int code = EXIT_DONE;
    find_masks(&masks, args);
    if (!read_type(type, &t))
        return tool_usage(args->command,
                          "--types has `%s`, expected f32, f16 or bf16", type);
    for (int i = 0; !code && i < dims->n; i++)
        for (int m = 0; !code && m < masks.n; m++) {
            long dim = strtol(dims->all[i], NULL, 10);
            if (dim < 1 || dim > 1024)
                return tool_usage(args->command,
                                  "--dims has `%s`, expected 1 to 1024",
                                  dims->all[i]);
            code = make_attention(args, cx, target, t, dim, masks.all[m]);
        }
    return code;
}

static int make_all(const tool_args *args, tilec_context *cx,
                    const list *targets)
{
    const char *given = tool_value(args, "--types"),
               *sides = tool_value(args, "--dims");
    list types, dims;
    int code = EXIT_DONE;
    split(&types, given ? given : "bf16");
    split(&dims, sides ? sides : "128");
    for (int i = 0; !code && i < targets->n; i++)
        for (int t = 0; !code && t < types.n; t++)
            code = make_dims(args, cx, targets->all[i], types.all[t], &dims);
    free(types.copy);
    free(dims.copy);
    return code;
}

/* The name of a kernel in the bundle is the one that it has in its text. */
static int make_kernel(const tool_args *args, tilec_context *cx,
                       const list *targets)
{
    int code = EXIT_DONE;
    for (int i = 0; !code && i < targets->n; i++) {
        program p;
        tilec_kernel *k = NULL;
        tilec_error e = TILEC_INIT(tilec_error);
        code = program_read(&p, args, args->words[0]);
        p.options.target = targets->all[i];
        p.options.no_load = 1;
        tilec_status s =
            code ? TILEC_OK : tilec_compile(cx, &p.source, 1, &p.options, &k);
        if (s)
            code = report_compile(cx, s);
        if (k && tilec_bundle_add(cx, tilec_kernel_name(k), k, &e))
            code = report_error(&e);
        tilec_kernel_free(k);
        program_free(&p);
    }
    return code;
}

static int make(const tool_args *args, tilec_context *cx)
{
    const char *given = tool_value(args, "--target");
    tilec_error e = TILEC_INIT(tilec_error);
    list targets;
    if (tilec_bundle_record(cx, &e))
        return report_error(&e);
    split(&targets, given ? given : "auto");
    int code = strcmp(args->words[0], "attention") == 0
                   ? make_all(args, cx, &targets)
                   : make_kernel(args, cx, &targets);
    free(targets.copy);
    if (!code && tilec_bundle_save(cx, tool_value(args, "-o"), &e))
        code = report_error(&e);
    return code;
}

int bundle_make(const tool_args *args)
{
    const char *cpu = tool_value(args, "--cpu");
    tilec_context_options o = TILEC_INIT(tilec_context_options);
    tilec_context *cx;
    if (args->nwords != 1 || is_stdout(tool_value(args, "-o")))
        return tool_usage(args->command,
                          "--emit=bundle expects one program and -o FILE");
    o.cpu = cpu ? cpu : "x86-64-v3";
    tilec_status s = tilec_context_new(&o, &cx);
    if (s == TILEC_USAGE)
        return tool_usage(args->command,
                          "--cpu is `%s`, expected x86-64-v2, x86-64-v3 or "
                          "x86-64-v4",
                          cpu);
    if (s) {
        report("out of memory");
        return EXIT_MACHINE;
    }
    int code = make(args, cx);
    tilec_context_free(cx);
    return code;
}
