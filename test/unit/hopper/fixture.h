/* SPDX-License-Identifier: Apache-2.0
 *
 * A context with a driver that records (test/fake), and a kernel whose entry of
 * the cache is changed to ask for what Hopper has.
 */
#ifndef TEST_HOPPER_FIXTURE_H
#define TEST_HOPPER_FIXTURE_H

#define _GNU_SOURCE
#include "lib/cache/record.h"
#include "lib/gpu/gpu.h"
#include "test/fake/cuda.h"
#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cjson/cJSON.h>

extern const char text[];

/* x in boxes of 1 x 64 x 64, y of 1 x 32 x 64. */
extern const char maps[];
extern fake_cuda_state *fake;
extern fake_cuda_use_fn *fake_use;
extern tilec_context *cx;
extern char folder[64];
extern tilec_error last_error;
tilec_context *hopper_new_context(const char *library, const char *ptxas);
void hopper_set_up(void);
void hopper_tear_down(void);
tilec_status hopper_compile_text(tilec_context *c, const char *program,
                                 bool loads, tilec_kernel **k);
tilec_status hopper_compile_with(tilec_context *c, bool loads,
                                 tilec_kernel **k);
tilec_kernel *hopper_must_compile(tilec_context *c, const char *program,
                                  bool loads);
tilec_kernel *hopper_compile(tilec_context *c, bool loads);

/* In the entry of the cache that was used last, `from` becomes `to`. */
void hopper_change_meta(const char *from, const char *to);
/* meta.c: what is JSON here is a record in an entry; the record's data is
 * malloc'd. */
cJSON *hopper_meta_json(const tc_cache_section *meta);
tc_record_writer hopper_meta_of(const cJSON *json);

/* The kernel with changes: pairs of texts, then NULL. */
tilec_kernel *hopper_compile_text_changed(tilec_context *c, const char *program,
                                          const char *const *changes);
tilec_kernel *hopper_compile_changed(tilec_context *c,
                                     const char *const *changes);

/* What a launch hands over before what it was changed to; the driver
 * is asked where they are when the code is loaded. */
enum { OWN_BYTES = 2 * (8 + 3 * 4 + 3 * 8) + 4 };
void hopper_expect_params(const unsigned char *more, int n);

typedef struct tensor {
    DLTensor dl;
    int64_t shape[3], strides[3];
} tensor;
void hopper_make_tensor(tensor *t, uintptr_t address);
tilec_status hopper_launch(const tilec_kernel *k, tensor *x, tensor *y,
                           void *stream);
void hopper_expect_says(tilec_status got, tilec_status status,
                        const char *words);
fake_map hopper_map_of(int index);

/* The first makes no maps, the other does not say where they go. */
extern const char *const old_drivers[];
void *hopper_handle(uintptr_t number);
void hopper_maps_tests(TCase *t);
void hopper_counters_tests(TCase *t);
void hopper_maps_threads_tests(TCase *t);
void hopper_counters_threads_tests(TCase *t);
void hopper_entries_tests(TCase *t);
void hopper_assemblers_tests(TCase *t);
void hopper_failures_tests(TCase *t);
void hopper_damage_tests(TCase *t);

#endif
