/* SPDX-License-Identifier: Apache-2.0
 *
 * Code of a kernel for any target: its inputs, its sections, and where it is
 * kept.
 *
 *   recipe    the inputs of code, as text: its hash is the cache's key
 *   code      the result: sections of a cache entry, the same in memory and
 *             on disk; shared by kernels, counted
 *
 * A kernel from the cache and one just compiled are put together in the same
 * way, from the code's sections. All targets have
 *
 *   recipe    JSON, all parts but the program
 *   program   the text that was compiled, with the place of each op
 *   meta      a record (code_meta.h)
 *   header    the kernel with its grid and an empty body
 *   tile      the program after the passes, as `emit` gives it
 */
#ifndef TC_CODE_H
#define TC_CODE_H

#include "lib/cache/cache.h"
#include "lib/cache/record.h"
#include "lib/program/compile.h"

#include <stdatomic.h>

/* ---- Recipes (recipe.c) ---- */

typedef struct tc_recipe_part {
    const char *name, *value;
} tc_recipe_part;

/* The last part is the program. */
typedef struct tc_recipe {
    unsigned n;
    tc_recipe_part *parts;
    tc_key key;
} tc_recipe;

/* Of the job's module, as it was parsed. */
void tc_recipe_make(tc_job *job, const tilec_compile_options *options,
                    const tc_target *target, const char *kernel,
                    const tc_bound *bound, tc_recipe *out);
const char *tc_recipe_program(const tc_recipe *r);
/* All parts but the program as JSON, malloc'd. NULL: out of memory. */
char *tc_recipe_print(const tc_recipe *r);
/* Does the entry hold this recipe? Its key alone does not tell: a hash that is
 * fast is not one that nobody can find two texts for. */
bool tc_recipe_is_of(const tc_recipe *r, const tc_entry *entry);

/* ---- Code (code.c) ---- */

/* The first member of each target's own. */
typedef struct tc_code tc_code;
struct tc_code {
    atomic_uint references;
    tc_entry entry;
    tc_record meta; /* the section; none: there is none that is sound */
    void (*drop)(tc_code *code); /* of what the target adds */
};

/* Takes the entry; zeroes but for that, one reference. NULL: no memory. */
tc_code *tc_code_new(size_t size, tc_entry *entry, void (*drop)(tc_code *code));
tc_code *tc_code_ref(tc_code *code);
/* Accepts NULL. */
void tc_code_unref(tc_code *code);
/* NUL-terminated; empty where there is none. */
const char *tc_code_text(const tc_code *code, const char *name);
/* Its bytes. */
size_t tc_code_size(const tc_code *code, const char *name);

/* ---- Keeping it (making.c) ---- */

/* A compile that may find its code. */
typedef struct tc_making {
    tc_job *job;
    const tilec_compile_options *options;
    const tc_target *target;
    const tc_bound *bound;
    const char *kernel;
    unsigned nown; /* parameters of its text */
    tc_recipe recipe;
    tc_cache cache;     /* no folder where it is not to be used: */
    const char *unsafe; /* why, where that is still to be said; or NULL */
} tc_making;

/* With the context's folder. The recipe is made by the caller. */
tc_making tc_making_begin(tc_job *job, const tilec_compile_options *options,
                          const tc_target *target, const char *kernel,
                          const tc_bound *bound);
/* Warns of the folder: after the code was kept, for what warns is not kept. */
void tc_making_end(const tc_making *m);
/* Not where the caller wants to see the passes at work (events, remarks). */
bool tc_making_may_read(const tc_making *m);
/* Code that was compiled with warnings is not kept: each compile warns. */
bool tc_making_may_write(const tc_making *m);
/* To the disk; false: it is not there, and a remark says why. */
bool tc_making_publish(const tc_making *m, const tc_entry *entry);
/* From the context's memory, a reference; NULL: it is not there. */
tc_code *tc_making_find(const tc_making *m);
/* From the disk, with the right recipe. False: it is not there. */
bool tc_making_read(const tc_making *m, tc_entry *out);
/* To the context's memory. */
void tc_making_keep(const tc_making *m, tc_code *code);

/* ---- Entries (code_entry.c) ---- */

/* Code that becomes an entry. */
typedef struct tc_coding tc_coding;
struct tc_coding {
    tc_func *f; /* after the passes; its body is gone thereafter */
    const tc_recipe *recipe;
    const char *tile;
    const void *code; /* the target's own, as is: its members */
    void (*add)(tc_record_writer *meta, const tc_coding *c); /* of `meta` */
    const tc_cache_section *more;                            /* its sections */
    unsigned nmore;
};
/* False: out of memory. */
bool tc_code_encode(const tc_coding *c, tc_entry *out) TC_MUST_CHECK;
/* The kernel as the code's header has it, in `module`; NULL: the header is of
 * another one. The code has a header. */
tilec_kernel *tc_code_kernel(const tc_making *m, const tc_code *c,
                             tc_module *module);

#endif
