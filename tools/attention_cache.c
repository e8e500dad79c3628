/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/attention_cache.h"

#include "tools/common/commands.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* An option, and where its tensor goes. */
#define FIELD(name) offsetof(tilec_kvcache_tensors, name)
static const struct {
    const char *option;
    size_t field;
    unsigned layouts; /* bits of those that need it; 0: may be left out */
} places[CACHE_PLACES] = {
    {"--page-table", FIELD(page_table), 1 << TILEC_KV_PAGED},
    {"--kv-indptr", FIELD(kv_indptr), 1 << TILEC_KV_INDEXED},
    {"--cu-seqlens-k", FIELD(cu_seqlens_k), 1 << TILEC_KV_RAGGED},
    {"--kv-lens", FIELD(kv_lens), 1 << TILEC_KV_DENSE | 1 << TILEC_KV_PAGED},
    {"--kv-indices", FIELD(kv_indices), 1 << TILEC_KV_INDEXED},
    {"--kv-last-page-len", FIELD(kv_last_page_len), 1 << TILEC_KV_INDEXED},
    {"--cu-seqlens-q", FIELD(cu_seqlens_q), 0},
    {"--query-offsets", FIELD(query_offsets), 0},
};
/* The first ones tell layouts apart. */
static const tilec_kv_layout layouts[] = {TILEC_KV_PAGED, TILEC_KV_INDEXED,
                                          TILEC_KV_RAGGED};
enum {
    LAYOUTS = sizeof layouts / sizeof *layouts,
    QUERIES = CACHE_PLACES - 2,
    OFFSETS = CACHE_PLACES - 1
};

/* ---- Options ---- */

static int check_places(const attention_cache *c, const tool_args *args)
{
    for (int i = 0; i < QUERIES; i++) {
        bool is_given = tool_has(args, places[i].option);
        bool is_needed = places[i].layouts >> c->layout & 1;
        if (is_given != is_needed)
            return tool_usage(args->command, "%s %s", places[i].option,
                              is_given ? "does not go with the other options "
                                         "that say where keys lie"
                                       : "is missing: where keys lie");
    }
    return EXIT_DONE;
}

static int refuse_others(const tool_args *args)
{
    static const char *const others[] = {
        "--backward", "--max",    "--quantize", "--lists",
        "--enforce",  "--option", "-D",         "--dropout"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (tool_has(args, others[i]))
            return tool_usage(args->command,
                              "%s: attention over a cache has none", others[i]);
    return EXIT_DONE;
}

int cache_read_options(attention_cache *c, const tool_args *args)
{
    for (int i = 0; i < CACHE_PLACES; i++)
        c->is_given |= tool_has(args, places[i].option);
    if (!c->is_given)
        return tool_has(args, "--piece")
                   ? tool_usage(args->command,
                                "--piece is for keys in a cache: --kv-lens, ..")
                   : EXIT_DONE;
    c->layout = TILEC_KV_DENSE;
    for (int i = LAYOUTS; i-- > 0;)
        if (tool_has(args, places[i].option))
            c->layout = layouts[i];
    int code = check_places(c, args);
    return code ? code : refuse_others(args);
}

int cache_get(attention_cache *c, const tool_args *args,
              const tilec_safetensors *in)
{
    tilec_error e = TILEC_INIT(tilec_error);
    for (int i = 0; i < CACHE_PLACES; i++) {
        const char *name = tool_value(args, places[i].option);
        if (name && tilec_safetensors_get(in, name, &c->places[i], &e))
            return report_error(&e);
    }
    return EXIT_DONE;
}

/* ---- The plan ---- */

static int read_piece(const tool_args *args, int64_t *piece)
{
    const char *text = tool_value(args, "--piece");
    char *end = NULL;
    *piece = text ? strtoll(text, &end, 10) : 0;
    return text && (!*text || *end)
               ? tool_usage(args->command,
                            "--piece is `%s`, expected a number of keys", text)
               : EXIT_DONE;
}

int cache_plan(attention_cache *c, tilec_context *cx, const tool_args *args,
               const DLTensor *q, const DLTensor *k, const DLTensor *v,
               const tilec_attention_options *like)
{
    tilec_kvcache_options o = TILEC_INIT(tilec_kvcache_options);
    o.target = like->target;
    o.scale = like->scale;
    o.mask = like->mask;
    o.score = like->score;
    o.read_source = like->read_source;
    o.sinks = like->sinks;
    o.descale_k = c->descale_k = like->descale_k;
    o.descale_v = c->descale_v = like->descale_v;
    o.layout = c->layout;
    o.ragged_queries = c->places[QUERIES].ndim != 0;
    o.query_offsets = c->places[OFFSETS].ndim != 0;
    int code = read_piece(args, &o.piece);
    if (code)
        return code;
    tilec_status s = tilec_kvcache_plan(cx, q, k, v, &o, &c->plan);
    return s ? report_compile(cx, s) : EXIT_DONE;
}

bool cache_owns(const attention_cache *c, const char *parameter)
{
    static const char *const functions[] = {"key_count.",  "key_place.",
                                            "query_span.", "query_position.",
                                            "descale_k.",  "descale_v."};
    for (size_t i = 0; c->plan && i < sizeof functions / sizeof *functions; i++)
        if (strncmp(parameter, functions[i], strlen(functions[i])) == 0)
            return true;
    return false;
}

/* ---- The calls ---- */

static int put_places(attention_cache *c, device_tensors *device)
{
    int code = EXIT_DONE;
    for (int i = 0; !code && i < CACHE_PLACES; i++) {
        const DLTensor *x = &c->places[i];
        if (!x->ndim)
            continue;
        code = device_put(device, &x, false);
        memcpy((char *)&c->tensors + places[i].field, &x, sizeof x);
    }
    return code;
}

/* The schedule lies before the workspace. */
static int put_memory(attention_cache *c, device_tensors *device)
{
    enum { ALIGN = 256 };
    tilec_kvcache_tensors *t = &c->tensors;
    uint64_t schedule, workspace;
    tilec_error e = TILEC_INIT(tilec_error);
    if (tilec_kvcache_workspace(c->plan, t, &schedule, &workspace, &e))
        return report_error(&e);
    t->schedule_bytes = (schedule + ALIGN - 1) / ALIGN * ALIGN;
    t->workspace_bytes = workspace;
    int code =
        device_workspace(device, t->schedule_bytes + workspace, &t->schedule);
    if (!code && t->schedule)
        t->workspace = (char *)t->schedule + t->schedule_bytes;
    return code;
}

int cache_put(attention_cache *c, device_tensors *device,
              const tilec_attention_tensors *like)
{
    tilec_kvcache_tensors *t = &c->tensors;
    *t = TILEC_INIT(tilec_kvcache_tensors);
    t->q = like->q;
    t->k = like->k;
    t->v = like->v;
    t->o = like->o;
    t->lse = like->lse;
    t->sinks = like->sinks;
    t->captured = like->captured;
    t->ncaptured = like->ncaptured;
    t->descale_k = c->descale_k;
    t->descale_v = c->descale_v;
    int code = put_places(c, device);
    if (code ||
        (t->descale_k && (code = device_put(device, &t->descale_k, false))) ||
        (t->descale_v && (code = device_put(device, &t->descale_v, false))))
        return code;
    return put_memory(c, device);
}

int cache_launch(const attention_cache *c, const tilec_launch_options *options)
{
    tilec_error e = TILEC_INIT(tilec_error);
    const tilec_kvcache_tensors *t = &c->tensors;
    return tilec_kvcache_schedule(c->plan, t, NULL, &e) ||
                   tilec_kvcache_attention(c->plan, t, options, &e)
               ? report_error(&e)
               : EXIT_DONE;
}
