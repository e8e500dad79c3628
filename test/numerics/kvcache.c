/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over a cache of keys and values, of all layouts, against float64
 * attention of each sequence. Slots of no key are NaN, entries of no page have
 * numbers that no pool has. Each case is run for several lengths with the same
 * memory for the schedule, then with the pages in another order; with a mask
 * also by a schedule that deals the keys that it hides.
 *
 *   numerics_kvcache [--seed N] [--cases N] [--case N] [--verbose 1]
 */
#include "test/numerics/kvcache/batch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Without the last dim of those of rows, which is 1. */
static const DLTensor *factors_view(run_view *v, const num_tensor *t)
{
    run_view_of(v, t);
    v->dl.ndim = t->rank == 4 ? 3 : 1;
    return &v->dl;
}

static tilec_kvcache *make_plan(tilec_context *cx, const kv_batch *b,
                                const char *mask)
{
    const kv_problem *p = b->p;
    tilec_source source = tilec_text("test mods", mods_text, 0);
    tilec_kvcache_options o = TILEC_INIT(tilec_kvcache_options);
    run_view views[5];
    tilec_kvcache *plan = NULL;
    o.scale = kv_scale(p);
    if (p->factors) {
        o.descale_k = factors_view(&views[3], &b->t[K_FACTORS]);
        o.descale_v = factors_view(&views[4], &b->t[V_FACTORS]);
    }
    o.mask = mask;
    o.score = p->score->expression;
    o.sources = &source;
    o.nsources = 1;
    o.layout = p->layout;
    o.ragged_queries = p->is_ragged;
    o.piece = p->piece;
    o.sinks = p->sinks;
    o.query_offsets = p->offsets;
    o.v_in_k = p->v_in_k;
    if (tilec_kvcache_plan(cx, run_view_of(&views[0], &b->t[Q]),
                           run_view_of(&views[1], &b->t[K]),
                           run_view_of(&views[2], &b->t[V]), &o,
                           &plan) != TILEC_OK)
        run_print_diagnostics(cx);
    return plan;
}

/* Views of all tensors that the layout has. */
static tilec_kvcache_tensors tensors_of(const kv_batch *b, run_view *views)
{
    static const bool wanted[][NTENSORS] = {
        [TILEC_KV_DENSE] = {[KV_LENS] = true},
        [TILEC_KV_RAGGED] = {[CU_K] = true},
        [TILEC_KV_PAGED] = {[KV_LENS] = true, [TABLE] = true},
        [TILEC_KV_INDEXED] = {[INDPTR] = true, [INDICES] = true, [LAST] = true},
    };
    const kv_problem *p = b->p;
    tilec_kvcache_tensors t = TILEC_INIT(tilec_kvcache_tensors);
    const DLTensor **const fields[NTENSORS] = {&t.q,
                                               &t.k,
                                               &t.v,
                                               &t.o,
                                               &t.lse,
                                               &t.kv_lens,
                                               &t.cu_seqlens_k,
                                               &t.page_table,
                                               &t.kv_indptr,
                                               &t.kv_indices,
                                               &t.kv_last_page_len,
                                               &t.cu_seqlens_q,
                                               &t.sinks,
                                               &t.descale_k,
                                               &t.descale_v,
                                               &t.query_offsets};
    for (int i = 0; i < NTENSORS; i++)
        if (i <= LSE || wanted[p->layout][i] || (i == CU_Q && p->is_ragged) ||
            (i == SINKS && p->sinks) || (i == OFFSETS && p->offsets))
            *fields[i] = run_view_of(&views[i], &b->t[i]);
    for (int i = K_FACTORS; i <= V_FACTORS && p->factors; i++)
        *fields[i] = factors_view(&views[i], &b->t[i]);
    return t;
}

typedef struct run {
    const tilec_kvcache *plan;
    const tilec_kvcache *every;  /* without the mask; NULL: there is none */
    const tilec_kvcache *dealer; /* that of these two that makes schedules */
    kv_batch *b;
    run_room schedule;
    char why[256];
} run;

static bool launch(run *r, bool makes_schedule)
{
    run_view views[NTENSORS], captured_views[MAX_CAPTURED];
    tilec_argument captured[MAX_CAPTURED];
    tilec_error error = {0};
    tilec_kvcache_tensors t = tensors_of(r->b, views);
    t.captured = captured;
    t.ncaptured = mod_arguments(&r->b->mods, tilec_kvcache_kernel(r->plan),
                                captured, captured_views);
    tilec_status s = TILEC_OK;
    if (!r->schedule.host) {
        uint64_t bytes;
        s = tilec_kvcache_workspace(r->plan, &t, &bytes, NULL, &error);
        s = s ? s : run_room_new(&r->schedule, bytes, &error);
    }
    s = s ? s
          : run_kvcache(r->plan, &t, &r->schedule,
                        makes_schedule ? r->dealer : NULL, &error);
    if (s != TILEC_OK)
        snprintf(r->why, sizeof r->why, "%.200s", error.message);
    return s == TILEC_OK;
}

static bool is_same(const num_tensor *t, const double *before)
{
    double *now = num_tensor_read(t);
    bool same = true;
    for (int64_t i = 0, n = num_count(t); i < n; i++)
        same &= now[i] == before[i] || (isnan(now[i]) && isnan(before[i]));
    free(now);
    return same;
}

/* Once more, of the same sequences: the same bits. */
static bool repeat(run *r, bool makes_schedule, const char *after)
{
    kv_batch *b = r->b;
    double *o = num_tensor_read(&b->t[O]), *lse = num_tensor_read(&b->t[LSE]);
    kv_place(b);
    bool ok = launch(r, makes_schedule);
    if (ok && !(is_same(&b->t[O], o) && is_same(&b->t[LSE], lse))) {
        snprintf(r->why, sizeof r->why, "not the same bits %s", after);
        ok = false;
    }
    free(o);
    free(lse);
    return ok;
}

/* The rows of a sequence in o, then in lse. */
static double *results_of(const kv_batch *b, int i)
{
    int heads = b->t[LSE].size[1], m = b->queries[i], dv = b->p->dv;
    double *all = malloc(((size_t)heads * m * (dv + 1) + 1) * sizeof *all);
    size_t n = 0;
    for (int j = 0; j < heads * m; j++) {
        int64_t row = kv_row_index(b, i, j / m, j % m);
        for (int d = 0; d <= dv; d++)
            all[n++] =
                d < dv ? num_read(b->p->type, num_at(&b->t[O], row * dv + d))
                       : num_read(NUM_F32, num_at(&b->t[LSE], row));
    }
    return all;
}

/* Pieces of constant length: a sequence has the same bits, whatever the others
 * are. */
static bool run_others(run *r, num_rng *rng)
{
    kv_batch *b = r->b;
    int i = num_below(rng, b->p->seqs);
    double *before = results_of(b, i);
    size_t n = (size_t)b->t[LSE].size[1] * (size_t)b->queries[i] *
               (size_t)(b->p->dv + 1);
    b->kept = i;
    kv_draw_sequences(b, rng);
    b->kept = -1;
    kv_place(b);
    bool ok = launch(r, true) && kv_check(b, r->why);
    double *after = results_of(b, i);
    if (ok && memcmp(before, after, n * sizeof *before) != 0) {
        snprintf(r->why, sizeof r->why,
                 "sequence %d has other bits next to others", i);
        ok = false;
    }
    free(before);
    free(after);
    return ok;
}

/* A schedule that deals all keys is right for any mask. */
static bool deal_every_key(run *r)
{
    kv_place(r->b);
    r->dealer = r->every;
    bool ok = launch(r, true) && kv_check(r->b, r->why);
    r->dealer = r->plan;
    return ok;
}

/* Lengths, then others with the memory of that schedule; a second layer by the
 * same schedule, other pages. */
static bool run_steps(run *r, num_rng *rng)
{
    enum { STEPS = 3 };
    bool ok = true;
    kv_shuffle_pages(r->b, rng);
    for (int i = 0; ok && i < STEPS; i++) {
        kv_draw_sequences(r->b, rng);
        kv_place(r->b);
        ok = launch(r, true) && kv_check(r->b, r->why);
        ok = ok && repeat(r, false, "of a second run by one schedule");
    }
    if (ok && r->b->p->piece)
        ok = run_others(r, rng);
    kv_shuffle_pages(r->b, rng);
    ok = ok && repeat(r, true, "with pages in another order");
    return ok && (!r->every || deal_every_key(r));
}

static void run_case(tilec_context *cx, uint64_t seed, int which, bool verbose,
                     run_counts *counts)
{
    num_rng r = {seed * 1000003 + (uint64_t)which * 1009};
    kv_problem p = kv_problem_draw(&r, which);
    kv_batch *b = calloc(1, sizeof *b);
    char text[256];
    kv_problem_describe(&p, text);
    b->p = &p;
    b->kept = -1;
    mod_data_init(&b->mods, &r, p.seqs, p.hk * p.group, p.room, p.room);
    kv_batch_init(b, &r);
    run x = {.plan = make_plan(cx, b, p.mask->expression), .b = b};
    x.dealer = x.plan;
    if (p.mask->expression)
        x.every = make_plan(cx, b, NULL);
    if (!x.plan)
        snprintf(x.why, sizeof x.why, "does not compile");
    bool ok = x.plan && run_steps(&x, &r);
    run_check(counts, ok, "--seed %llu --case %d: %s: %s",
              (unsigned long long)seed, which, text, x.why);
    if (ok && verbose)
        printf("passed %d: %s\n", which, text);
    tilec_kvcache_free((tilec_kvcache *)x.every);
    tilec_kvcache_free((tilec_kvcache *)x.plan);
    run_room_free(&x.schedule);
    kv_batch_free(b);
    free(b);
}

int main(int argc, char **argv)
{
    run_counts counts = {0};
    uint64_t seed = (uint64_t)run_option(argc, argv, "seed", 1);
    int cases = (int)run_option(argc, argv, "cases", 40);
    int only = (int)run_option(argc, argv, "case", -1);
    bool verbose = run_option(argc, argv, "verbose", 0);
    tilec_context *cx = run_context();
    for (int i = 0; i < cases || i == only; i++)
        if (only < 0 || i == only)
            run_case(cx, seed, i, verbose, &counts);
    run_context_free(cx);
    return run_finish(&counts);
}
