/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/decode/decode.h"

#include <stdlib.h>
#include <string.h>

enum {
    RANDOM,  /* the argument that is random numbers, repeated in a cache */
    QUERIES, /* q */
    CAPTURED /* what follows */
};

static int64_t pages_of(const decode_options *o)
{
    return (o->length + o->page - 1) / o->page;
}

double decode_bytes(const decode_options *o)
{
    return (double)(o->cache_type.bits / 8) * (double)o->batch *
           (double)o->kv_heads * (double)o->length * (double)(o->dim + o->dv);
}

/* ---- Tensors ---- */

/* Numbers whose count is no multiple of a row, so that rows differ. */
static int add_random(decode_batch *b)
{
    enum { NUMBERS = 65521 };
    const decode_options *o = b->o;
    const int64_t n[] = {NUMBERS};
    const int64_t q[] = {o->batch, o->heads, o->queries, o->dim};
    int code = inputs_add_tensor(&b->in, "", o->cache_type, 1, n, true);
    return code ? code : inputs_add_tensor(&b->in, "q", o->type, 4, q, true);
}

static void repeat(const DLTensor *from, size_t skip, owned_tensor *to)
{
    size_t n = tensor_bytes(from), bytes = tensor_bytes(&to->dl);
    const char *numbers = from->data;
    for (size_t at = 0; at < bytes; skip = 0) {
        size_t part = n - skip < bytes - at ? n - skip : bytes - at;
        memcpy((char *)to->dl.data + at, numbers + skip, part);
        at += part;
    }
}

/* Page i of sequence b lies at (i * batch + b) * an odd number, by so many. */
static void place(const decode_options *o, const owned_tensor *lens,
                  const owned_tensor *table)
{
    int64_t columns = o->page ? pages_of(o) : 0, pages = columns * o->batch;
    int64_t step = pages % 7919 ? 7919 : 1; /* a prime */
    int32_t *entry = table->dl.data, *length = lens->dl.data;
    for (int64_t s = 0; s < o->batch; s++) {
        length[s] = (int32_t)o->length;
        for (int64_t i = 0; i < columns; i++)
            entry[s * columns + i] =
                (int32_t)((i * o->batch + s) * step % pages);
    }
}

static bool make_tensors(decode_batch *b)
{
    const decode_options *o = b->o;
    const DLDataType i32 = {kDLInt, 32, 1};
    int64_t columns = o->page ? pages_of(o) : 1;
    const int64_t q[] = {o->batch, o->heads, o->queries, o->dv};
    const int64_t table[] = {o->batch, columns};
    const int64_t rows = o->page ? o->page : o->length;
    const int64_t k[] = {o->batch * columns, o->kv_heads, rows, o->dim};
    const int64_t v[] = {k[0], k[1], k[2], o->dv};
    return tensor_new(&b->all[DECODE_O], o->type, 4, q) &&
           tensor_new(&b->all[DECODE_LENS], i32, 1, table) &&
           tensor_new(&b->all[DECODE_TABLE], i32, 2, table) &&
           tensor_new(&b->k, o->cache_type, 4, k) &&
           tensor_new(&b->v, o->cache_type, 4, v);
}

int decode_batch_new(decode_batch *b, const decode_options *o,
                     const tool_args *args)
{
    const char *seed = tool_value(args, "--seed");
    *b = (decode_batch){.o = o};
    b->in.command = args->command;
    b->in.seed = seed ? strtoull(seed, NULL, 10) : 0;
    int code = add_random(b);
    for (int i = 1; !code && i < args->nwords; i++)
        code = inputs_add(&b->in, args->words[i]);
    if (code)
        return code;
    if (!make_tensors(b)) {
        report("no memory for a cache of %.0f MB", decode_bytes(o) / 1e6);
        return EXIT_MACHINE;
    }
    const DLTensor *numbers = b->in.arguments[RANDOM].tensor;
    repeat(numbers, 0, &b->k);
    repeat(numbers, tensor_bytes(numbers) / 2, &b->v);
    place(o, &b->all[DECODE_LENS], &b->all[DECODE_TABLE]);
    return EXIT_DONE;
}

void decode_batch_free(decode_batch *b)
{
    for (int i = 0; i < DECODE_TENSORS; i++)
        free(b->all[i].dl.data);
    free(b->k.dl.data);
    free(b->v.dl.data);
    inputs_free(&b->in);
}

/* ---- Plans ---- */

int decode_plan(const decode_batch *b, tilec_context *cx, const char *target,
                tilec_kvcache **out)
{
    tilec_kvcache_options o = TILEC_INIT(tilec_kvcache_options);
    o.target = target;
    o.mask = b->o->mask;
    o.score = b->o->score;
    o.read_source = read_source;
    o.layout = b->o->page ? TILEC_KV_PAGED : TILEC_KV_DENSE;
    o.piece = b->o->piece;
    tilec_status s = tilec_kvcache_plan(cx, b->in.arguments[QUERIES].tensor,
                                        &b->k.dl, &b->v.dl, &o, out);
    return s ? report_compile(cx, s) : EXIT_DONE;
}

tilec_kvcache_tensors decode_tensors(const decode_batch *b)
{
    tilec_kvcache_tensors t = TILEC_INIT(tilec_kvcache_tensors);
    t.q = b->in.arguments[QUERIES].tensor;
    t.k = &b->k.dl;
    t.v = &b->v.dl;
    t.o = &b->all[DECODE_O].dl;
    t.kv_lens = &b->all[DECODE_LENS].dl;
    if (b->o->page)
        t.page_table = &b->all[DECODE_TABLE].dl;
    t.captured = b->in.arguments + CAPTURED;
    t.ncaptured = b->in.n - CAPTURED;
    return t;
}

/* ---- The reference ---- */

static int run_reference(const tilec_kvcache *plan, tilec_kvcache_tensors *t)
{
    enum { ALIGN = 256 };
    tilec_error e = TILEC_INIT(tilec_error);
    if (tilec_kvcache_workspace(plan, t, &t->schedule_bytes,
                                &t->workspace_bytes, &e))
        return report_error(&e);
    t->schedule =
        aligned_alloc(ALIGN, (t->schedule_bytes + ALIGN - 1) / ALIGN * ALIGN);
    t->workspace =
        aligned_alloc(ALIGN, (t->workspace_bytes + ALIGN) / ALIGN * ALIGN);
    bool ok = t->schedule && t->workspace &&
              !tilec_kvcache_schedule(plan, t, NULL, &e) &&
              !tilec_kvcache_attention(plan, t, NULL, &e);
    free(t->schedule);
    free(t->workspace);
    return ok ? EXIT_DONE : report_error(&e);
}

int decode_reference(const decode_batch *b, int64_t n, owned_tensor *o)
{
    tilec_kvcache_tensors t = decode_tensors(b);
    const DLTensor **const of_sequences[] = {&t.q, &t.kv_lens, &t.page_table,
                                             &t.k, &t.v};
    DLTensor parts[5];
    int64_t shapes[5][4];
    tilec_context *cx;
    tilec_kvcache *plan;
    int64_t shape[4];
    /* Pages are of all sequences. */
    for (int i = 0; i < (t.page_table ? 3 : 5); i++) {
        if (!*of_sequences[i])
            continue;
        parts[i] = **of_sequences[i];
        memcpy(shapes[i], parts[i].shape,
               (size_t)parts[i].ndim * sizeof *shapes[i]);
        shapes[i][0] = n;
        parts[i].shape = shapes[i];
        *of_sequences[i] = &parts[i];
    }
    memcpy(shape, t.o->shape, sizeof shape);
    shape[0] = n;
    if (!tensor_new(o, t.o->dtype, 4, shape) || tilec_context_new(NULL, &cx)) {
        report("out of memory");
        return EXIT_MACHINE;
    }
    t.o = &o->dl;
    int code = decode_plan(b, cx, "cpu", &plan);
    if (!code)
        code = run_reference(plan, &t);
    tilec_kvcache_free(plan);
    tilec_context_free(cx);
    return code;
}
