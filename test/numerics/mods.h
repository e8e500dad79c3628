/* SPDX-License-Identifier: Apache-2.0
 *
 * The masks and score functions of the attention tests: what is asked of the
 * library, and the same in C from the definitions.
 */
#ifndef TEST_MODS_H
#define TEST_MODS_H

#include "test/numerics/reference.h"
#include "test/numerics/run.h"

/* What all mods of a case capture. */
typedef struct mod_data {
    int w, left, right, prefix, d, sink, c, length, tokens;
    int width, height, kernel_width, kernel_height; /* of images */
    int tile_width, tile_height, area, columns, rows, layers;
    double cap;
    num_tensor prefixes, offsets, ids, lengths, prefix_of, ends; /* i32 */
    num_tensor intervals, offset, q_starts, k_starts;            /* i32 */
    num_tensor global, ancestors;                                /* i8 */
    num_tensor slopes, bias, table, scales;                      /* f32 */
    num_tensor row_bias, column_bias, pair_bias;                 /* f32 */
} mod_data;

typedef struct mask_case {
    const char *expression; /* NULL: no mask */
    ref_mask_mod *reference;
} mask_case;

typedef struct score_case {
    const char *expression;
    ref_score_mod *reference;
    /* Scores may be as large as f32 goes: what is added does not show. */
    bool takes_huge;
    /* Adds whole numbers up to the length: an f32 score must be a short
     * fraction for the sum not to round. */
    bool wants_short;
} score_case;

extern const mask_case masks[];
extern const int nmasks;
extern const score_case scores[];
extern const int nscores;

/* Functions that expressions name beyond the library's own. */
extern const char mods_text[];

/* Values for batch x heads of q and lengths m, n; to be freed. */
void mod_data_init(mod_data *d, num_rng *r, int batch, int heads, int m, int n);
void mod_data_free(mod_data *d);
/* A tensor by the name under which mods capture it, NULL: there is none; and a
 * whole number. */
const num_tensor *mod_tensor(const mod_data *d, const char *name);
int mod_int(const mod_data *d, const char *name);
/* Arguments for what the kernel's mods capture, by name, but no sinks,
 * and of a cache no places and no factors; the count. */
enum { MAX_CAPTURED = 24 };
size_t mod_arguments(const mod_data *d, const tilec_kernel *k,
                     tilec_argument *args, run_view *views);

#endif
