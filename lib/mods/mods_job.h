/* SPDX-License-Identifier: Apache-2.0
 *
 * The mods of a compile: expressions parsed, the functions that they name read
 * and linked, and composed to functions in the job's module.
 */
#ifndef TC_MODS_JOB_H
#define TC_MODS_JOB_H

#include "lib/mods/mods.h"

/* The caller's mods. */
typedef struct tc_mods_texts {
    const char *texts[2]; /* by tc_mod_kind; NULL: none */
    const tilec_source *sources;
    size_t nsources;
    int (*read_source)(void *user, const char *path, char **text);
    void *user;
} tc_mods_texts;

/* A mod expression in the module. */
typedef struct tc_mod {
    bool wanted;
    tc_mod_expr expr;
    tc_mod_func func;
    const char *binding; /* "@mask" */
} tc_mod;

typedef struct tc_mods {
    tc_mod all[2]; /* by tc_mod_kind */
} tc_mods;

/* False: reported. */
bool tc_mods_add(tc_job *job, const tc_mods_texts *from,
                 tc_mods *out) TC_MUST_CHECK;
/* The scalars that expressions give (`window(w=7)`), as arguments in the
 * arena; how many. */
unsigned tc_mods_values(const tc_mods *mods, tc_arena *arena,
                        tilec_argument **values) TC_MUST_CHECK;

#endif
