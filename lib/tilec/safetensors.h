/* SPDX-License-Identifier: Apache-2.0
 *
 * tilec.h's part on tensor files: it reads and writes the safetensors format.
 * tilec.h includes it.
 */
#ifndef TILEC_SAFETENSORS_H
#define TILEC_SAFETENSORS_H

#include "../tilec.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tilec_safetensors tilec_safetensors;

/* Reads and checks the header of a file, which stays open. A tensor's bytes are
 * read when it is first asked for (from any thread), and stay: a file that
 * changes afterwards does not matter, one that is shorter by then is
 * TILEC_INPUT. */
TILEC_API tilec_status tilec_safetensors_open(const char *path,
                                              tilec_safetensors **out,
                                              tilec_error *error);
/* The same of bytes in memory, which must outlive the handle. */
TILEC_API tilec_status tilec_safetensors_read(const void *bytes, size_t size,
                                              tilec_safetensors **out,
                                              tilec_error *error);
TILEC_API void tilec_safetensors_free(tilec_safetensors *f);
TILEC_API size_t tilec_safetensors_count(const tilec_safetensors *f);
/* Names in the order of the header; NULL past the end. */
TILEC_API const char *tilec_safetensors_name(const tilec_safetensors *f,
                                             size_t index);
/* A row-major tensor on the CPU, aligned to its elements (a copy where bytes in
 * memory are not); its arrays belong to the handle. */
TILEC_API tilec_status tilec_safetensors_get(const tilec_safetensors *f,
                                             const char *name, DLTensor *out,
                                             tilec_error *error);
/* A value of `__metadata__`; NULL: none of that key. */
TILEC_API const char *tilec_safetensors_metadata(const tilec_safetensors *f,
                                                 const char *key);

typedef struct tilec_named_tensor {
    const char *name;
    const DLTensor *tensor; /* on the CPU; any strides, stored row-major */
} tilec_named_tensor;

/* Writes a file whole or not at all: aside, synced, then renamed; a process
 * that is ended by SIGINT or SIGTERM meanwhile leaves nothing. Links are
 * followed, also to what is not there yet. metadata: pairs of names and values,
 * may be NULL. */
TILEC_API tilec_status tilec_safetensors_write(
    const char *path, const tilec_named_tensor *tensors, size_t ntensors,
    const tilec_binding *metadata, size_t nmetadata, tilec_error *error);

#ifdef __cplusplus
}
#endif

#endif
