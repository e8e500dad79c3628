/* SPDX-License-Identifier: Apache-2.0
 *
 * tilec.h's part on bundles: files of compiled kernels and plans, for programs
 * that run them without a compiler. tilec.h includes it.
 *
 * Two libraries have this interface: libtilec, and libtilec_runtime, which has
 * no compiler and thus no LLVM. The same source links either one, if it calls
 * what both have (docs/engines.md lists that). In both, plans of a context are
 * looked for in its bundles first; libtilec compiles what is not there, the
 * runtime says what is missing.
 *
 * A bundle is code. Its checksum finds damage, not intent: load bundles only
 * from where you would load a shared library from. What is no bundle, or a
 * damaged one, is an error that says so.
 */
#ifndef TILEC_BUNDLE_H
#define TILEC_BUNDLE_H

#include "../tilec.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Reads a bundle. Plans of the context are looked for in what was loaded last
 * first. The memory of tilec_bundle_load_memory is copied. */
TILEC_API tilec_status tilec_bundle_load(tilec_context *cx, const char *path,
                                         tilec_error *error);
TILEC_API tilec_status tilec_bundle_load_memory(tilec_context *cx,
                                                const void *data, size_t size,
                                                tilec_error *error);

/* The kernel (or plan of several) of that name, for `target` (NULL: the
 * context's). */
TILEC_API tilec_status tilec_bundle_kernel(tilec_context *cx, const char *name,
                                           const char *target,
                                           tilec_kernel **out,
                                           tilec_error *error);

typedef struct tilec_bundle_entry {
    size_t size;
    const char *file; /* as it was loaded; "": from memory */
    const char *kind; /* "kernel", "attention", "kvcache", "append" */
    const char *name; /* of a kernel; else "" */
    const char *target;
    const char *cpu;      /* of target cpu: "x86-64-v3"; else "" */
    const char *request;  /* what it was made for, as text */
    const int64_t *sides; /* and batch, lengths, .. then */
    size_t nsides;
    const char *hash; /* of all that is in it; 32 hexadecimal digits */
    uint64_t bytes;   /* of its kernels, shared ones included */
} tilec_bundle_entry;

/* Calls visit for all entries of the context's bundles. */
TILEC_API tilec_status
tilec_bundle_list(const tilec_context *cx,
                  void (*visit)(void *user, const tilec_bundle_entry *entry),
                  void *user, tilec_error *error);
/* Makes all kernels of the context's bundles, and drops them again: what is
 * not sound is an error that names the entry. Loads nothing on a GPU. */
TILEC_API tilec_status tilec_bundle_verify(tilec_context *cx,
                                           tilec_error *error);

/* libtilec only ----------------------------------------------------------- */

/* From now on, what tilec_attention_plan, tilec_kvcache_plan and
 * tilec_append_plan make in this context is recorded for tilec_bundle_save. No
 * GPU is needed: give a target, and options.no_load. The target cpu needs the
 * context's option `cpu`; GPU targets get cubins by the context's ptxas, or
 * the one that is installed, else PTX. */
TILEC_API tilec_status tilec_bundle_record(tilec_context *cx,
                                           tilec_error *error);
/* Records a kernel of that context, or a plan, by a name. */
TILEC_API tilec_status tilec_bundle_add(tilec_context *cx, const char *name,
                                        const tilec_kernel *k,
                                        tilec_error *error);
/* Records all that the context's bundles have. Of two entries for the same
 * request the later one stays. */
TILEC_API tilec_status tilec_bundle_keep(tilec_context *cx, tilec_error *error);
/* Writes what was recorded; the file appears whole or not at all. The same
 * records give the same bytes, in whatever order they were made. */
TILEC_API tilec_status tilec_bundle_save(tilec_context *cx, const char *path,
                                         tilec_error *error);
/* The same to memory, for tilec_free. */
TILEC_API tilec_status tilec_bundle_save_memory(tilec_context *cx, char **data,
                                                size_t *size,
                                                tilec_error *error);

#ifdef __cplusplus
}
#endif

#endif
