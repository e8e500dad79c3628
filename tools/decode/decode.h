/* SPDX-License-Identifier: Apache-2.0
 *
 * `tilec bench decode`: attention over a cache, timed. The caches of launches
 * in a row are others each time, so that keys and values come from memory.
 *
 *   options.c   the command line
 *   batch.c     tensors of the host, and plans for them
 *   time.c      where the target is: launches, times
 *   command.c   results: checked, printed
 */
#ifndef TOOL_DECODE_H
#define TOOL_DECODE_H

#include "tools/measure/device.h"
#include "tools/measure/inputs.h"

/* ---- Options (options.c) ---- */

typedef struct decode_options {
    int64_t batch, heads, kv_heads, queries, length, dim, dv;
    int64_t page;  /* keys of a page; 0: contiguous */
    int64_t piece; /* keys of a piece; 0: by the batch */
    int64_t runs;
    DLDataType type, cache_type;
    const char *mask, *score, *target; /* NULL: none */
    char name[400];                    /* "decode 16x32/8x1 on 8192, .." */
} decode_options;
/* Exit code. */
int decode_read_options(decode_options *o, const tool_args *args);

/* ---- A batch (batch.c) ---- */

enum { DECODE_Q, DECODE_O, DECODE_LENS, DECODE_TABLE, DECODE_TENSORS };

typedef struct decode_batch {
    const decode_options *o;
    inputs in; /* what mods capture, after the random numbers */
    owned_tensor all[DECODE_TENSORS];
    owned_tensor k, v; /* of one cache */
} decode_batch;
/* Exit codes; decode_batch_free in any case. */
int decode_batch_new(decode_batch *b, const decode_options *o,
                     const tool_args *args);
void decode_batch_free(decode_batch *b);
int decode_plan(const decode_batch *b, tilec_context *cx, const char *target,
                tilec_kvcache **out);
/* All but memory for schedule and workspace. */
tilec_kvcache_tensors decode_tensors(const decode_batch *b);
/* Bytes of the keys and values of a launch. */
double decode_bytes(const decode_options *o);
/* Of the first n sequences, by the CPU target, to o. */
int decode_reference(const decode_batch *b, int64_t n, owned_tensor *o);

/* ---- Times (time.c) ---- */

typedef struct decode_times {
    double us, fastest_us, schedule_us;
    int64_t caches;
    char target[32], device[128];
} decode_times;
/* o of the batch gets what the first launch gives. Exit code. */
int decode_time(decode_batch *b, decode_times *out);

/* ---- The command (command.c) ---- */

int decode_bench(const tool_args *args);

#define DECODE_OPTIONS                                                         \
    {"--batch", "N", "decode: sequences (default: 16)"},                       \
        {"--heads", "N", "decode: heads of q (default: 32)"},                  \
        {"--queries", "N", "decode: queries of a sequence (default: 1)"},      \
        {"--length", "N", "decode: keys of a sequence (default: 8192)"},       \
        {"--head-dim", "N", "decode: of q and k (default: 128)"},              \
        {"--page-size", "N",                                                   \
         "decode: keys of a page; pages lie in any order (default: no "        \
         "pages)"},                                                            \
        {"--type", "TYPE", "decode: of keys and values (default: --dtype)"},   \
    {                                                                          \
        "--piece", "N",                                                        \
            "decode: keys of a piece, whatever the batch is (default: by it)"  \
    }

#endif
