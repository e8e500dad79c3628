/* SPDX-License-Identifier: Apache-2.0
 *
 * Tuned configurations: kernels/configs/KERNEL.json, embedded in the library.
 *
 *   {"kernel": "attention_fwd", "configs": [
 *     {"target": "sm_80", "dtype": "bf16", "d": 64, "dv": 64, "mask": "none",
 *      "length": 4096,
 *      "use": {"BM": 128, "BN": 64, "warps": 4, "stages": 2}}, ...],
 *    "also": [
 *     {"target": "sm_90a", "d_above": 64, "mask": "masked", "longest": 512,
 *      "use": {"pair": 1}}, ...]}
 *
 * A query fits an entry whose target it can run, whose data type and
 * v_contig_dim (the dim that v is contiguous in) are its own, whose d and dv
 * are not below its own, and whose "d_above" is (a head dim that the query's
 * exceeds); fields that are missing fit all, "exact": 1 only those that want
 * exact sums, "dropout": 1 only those that drop weights, "few": 1 only short
 * ones with few blocks (tc_attention_has_few_blocks). Of those the best: the
 * nearest target, then exact sums, then the data type and the dim that are
 * named, then the smallest d and dv, then dropout, then few, then the mask
 * class ("none"; "masked", and of those "window", "causal", and "listed" where
 * lists say which blocks are visited), then that of the score function
 * ("score": "none"; "scored", and of those "linear" and "nonlinear"), then the
 * nearest length not above its own. Block parameters that "use" leaves out are
 * chosen by the cost model.
 *
 * After that each entry of "also" that fits the query, and the work that only
 * the chosen tiles determine, adds what it uses (tc_config_add). Its further
 * fields: "longest", the most queries and keys; "splits", whether query heads
 * are split over programs; "uneven", whether query heads share key heads and
 * the work of blocks of keys differs (is_uneven of attention_config.c).
 */
#ifndef TC_CONFIG_H
#define TC_CONFIG_H

#include "ir/base/arena.h"
#include "ir/ir.h"
#include "lib/tilec.h"
#include "passes/target/target.h"

typedef struct tc_config_query {
    const char *kernel; /* without `@` */
    const tc_target *target;
    const char *dtype;    /* "bf16" */
    int64_t d, dv;        /* 0: the kernel has none */
    const char *mask;     /* "none", "listed", or see mod_window.h */
    int64_t length;       /* of the keys, or the largest side */
    int64_t v_contig_dim; /* 0: the kernel has none */
    bool exact;           /* sums are (EXACT of attention_fwd) */
    const char *score;    /* "none", or see mod_slope.h */
    bool dropout;         /* weights are dropped */
    bool few;             /* short, with few blocks for the multiprocessors */
} tc_config_query;

enum { TC_CONFIG_BINDINGS = 8 };
typedef struct tc_config {
    int64_t d; /* of the entry; 0: it serves any, or there is none */
    unsigned warps, stages; /* 0: not said */
    unsigned ptxas_level;   /* "ptxas" */
    tc_tiles tiles;         /* "none", "static", "dynamic" */
    /* "pair": two kernels, as for the same bits, are faster than it */
    bool pair;
    bool in_order; /* "in_order": of the same bits, faster than those */
    unsigned nbindings;
    tilec_binding bindings[TC_CONFIG_BINDINGS];
} tc_config;

/* False: no entry fits; *out is empty. Texts are in the arena. */
bool tc_config_find(tc_arena *a, const tc_config_query *query, tc_config *out);
/* The same from a text; false also where the text is no such JSON. */
bool tc_config_find_in(tc_arena *a, const char *json, size_t len,
                       const tc_config_query *query, tc_config *out);

/* Further facts that entries of "also" ask for. */
typedef struct tc_config_work {
    int64_t longest; /* queries or keys, the more */
    bool splits;     /* several programs share the query heads of a block */
    bool uneven;     /* shared key heads, tiles of unequal work */
} tc_config_work;

/* Adds to *c what all fitting entries of "also" use. */
void tc_config_add(tc_arena *a, const tc_config_query *query,
                   const tc_config_work *work, tc_config *c);
/* The same from a text. */
void tc_config_add_in(tc_arena *a, const char *json, size_t len,
                      const tc_config_query *query, const tc_config_work *work,
                      tc_config *c);

/* Are warps and the like meant for these bindings? They share rows, and were
 * measured with the configuration's BM: not with another one. */
bool tc_config_suits(const tc_config *c, const tilec_binding *bindings,
                     size_t n);

#endif
