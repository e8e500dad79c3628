/* SPDX-License-Identifier: Apache-2.0
 *
 * Bundles: kernels and plans in a file, for programs without a compiler.
 *
 *   0   magic "tilecbnd"
 *   8   format (4 bytes), 0 (4)
 *   16  bytes of the file (8)
 *   24  XXH3-128 of the payload: low, high (8 each)
 *   40  the payload, a record (lib/cache/record.h):
 *
 *   {"tilec": "0.1.0",
 *    "kernels": [kernel, ..],
 *    "entries": [{"kind": "attention", "name": "", "target": "sm_90a",
 *                 "cpu": "", "key": "q=bf16 ..", "sides": [32, 4096, 4096],
 *                 "facts": {..}, "kernels": {"forward": 0, ..}}, ..]}
 *
 * A kernel has `target`, `own` (parameters that no mod captures) and `bindings`
 * [name, value, ..]. One with code has `variants`, a list of sections [name,
 * bytes, ..] for each variant (lib/gpu/gpu.h; empty: it was not made); the
 * sections are those of a cache entry (`meta`, `header`, `ptx`) with
 *
 *   cubin sm_90a   by ptxas, of any driver
 *   image, link    for the CPU: codegen/host/jit/image.h
 *
 * A plan has `text` (the plan after its passes, and headers of its kernels),
 * `places` of its ops, and `parts`: indices of kernels before it.
 *
 * Numbers of all kinds lie in little-endian order. Whoever changes what an
 * entry means, the order of tc_kind, or what code of the CPU is given, changes
 * TC_BUNDLE_FORMAT.
 */
#ifndef TC_BUNDLE_H
#define TC_BUNDLE_H

#include "lib/cache/record.h"
#include "lib/handles.h"

enum { TC_BUNDLE_FORMAT = 1, TC_BUNDLE_HEAD = 40, TC_BUNDLE_SIDES = 4 };

typedef struct tc_bundle tc_bundle;

/* Texts and records are the bundle's. */
typedef struct tc_bundle_entry {
    const tc_bundle *bundle;
    const char *kind, *name, *target, *cpu, *key;
    unsigned nsides;
    int64_t sides[TC_BUNDLE_SIDES];
    tc_record facts, kernels;
} tc_bundle_entry;

struct tc_bundle {
    tc_bundle *next; /* loaded before it */
    char *name;
    void *data;
    unsigned nkernels, nentries;
    tc_record *kernels;
    tc_bundle_entry *entries;
};

/* Accepts NULL; with all that follow. */
void tc_bundles_free(tc_bundle *bundles);

/* ---- Looking (bundle_find.c) ---- */

/* What a caller wants. The key is text, and has all that the code depends on;
 * of entries with the same key the one with the nearest sides is best. */
typedef struct tc_bundle_request {
    const char *kind, *key;
    const tc_target *target;
    bool any_target; /* lesser ones will do, that its device runs */
    unsigned nsides;
    int64_t sides[TC_BUNDLE_SIDES];
} tc_bundle_request;

/* NULL: there is none; `why` (may be NULL) says what there is. */
const tc_bundle_entry *tc_bundle_find(const tilec_context *cx,
                                      const tc_bundle_request *r, char *why,
                                      size_t room);

/* ---- Kernels (bundle_kernel.c) ---- */

/* One of the entry's kernels, such as "forward". */
tilec_status tc_bundle_kernel(const tilec_context *cx, const tc_bundle_entry *e,
                              const char *role, tilec_kernel **out,
                              tilec_error *error);
bool tc_bundle_has(const tc_bundle_entry *e, const char *role);

/* ---- Keys and facts that plans share (bundle_key.c) ---- */

/* Calls make(user, text) to write a key. malloc'd; NULL: out of memory. */
char *tc_bundle_key(void (*make)(const void *user, tc_text *key),
                    const void *user);
/* Each with a blank after it. `name=value`, without blanks in the value; left
 * out if the value is NULL, "" or 0. */
void tc_key_add_text(tc_text *key, const char *name, const char *value);
void tc_key_add_number(tc_text *key, const char *name, int64_t value);
/* Data type, and the contiguous dim if it is not the last. */
void tc_key_add_tensor(tc_text *key, const char *name, const DLTensor *t);
/* Data type and shape. */
void tc_key_add_shape(tc_text *key, const char *name, const DLTensor *t);
void tc_key_add_bindings(tc_text *key, const char *name,
                         const tilec_binding *list, size_t n);
/* Texts of the caller, as one hash. */
void tc_key_add_sources(tc_text *key, const tilec_source *sources, size_t n);

/* Captured values, as a list of that name. */
void tc_facts_add_values(tc_record_writer *facts, const char *name,
                         const tilec_argument *values, unsigned n);
/* In the arena. False: it is no such list. */
bool tc_facts_values(tc_record facts, const char *name, tc_arena *a,
                     tilec_argument **out, unsigned *n);

/* ---- Recording (bundle_write.c): where there is a compiler ---- */

typedef struct tc_recorder tc_recorder;

/* bundle_code.c: opens the map of a kernel, with what all have; all of one with
 * code. */
void tc_bundle_open_kernel(tc_record_writer *w, const tilec_kernel *k);
tilec_status tc_bundle_add_code(tc_record_writer *w, const tilec_context *cx,
                                const tilec_kernel *k, tilec_error *error);

/* Kernels of an entry by role; kernel NULL: there is none. */
typedef struct tc_bundle_role {
    const char *role;
    const tilec_kernel *kernel;
} tc_bundle_role;
/* Facts: a record's writer, which it frees; may be NULL. */
tilec_status tc_bundle_record(tilec_context *cx, const tc_bundle_request *r,
                              const char *name, tc_record_writer *facts,
                              const tc_bundle_role *roles, unsigned nroles,
                              tilec_error *error);

#endif
