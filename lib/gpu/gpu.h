/* SPDX-License-Identifier: Apache-2.0
 *
 * A kernel's code for NVIDIA GPUs.
 *
 *   code      what was made (code.h)
 *   loaded    the code on one device, ready to be launched
 *
 * Besides the sections that all code has:
 *
 *   meta      entry point, what a launch has to hand over (gpu_code.c)
 *   machine, ptx    what `emit` gives
 *   marks     of a profiled kernel: what its marks mean (lib/program/marks.h)
 *   cubin sm_90 12080     assembled for a device, by that driver version; of
 *             code that one kind of device runs: cubin sm_90a 12080. None where
 *             the driver assembles the code as it loads it (tc_gpu_is_linked)
 */
#ifndef TC_GPU_H
#define TC_GPU_H

#include "codegen/nvptx/nvptx.h"
#include "lib/cache/code.h"
#include "lib/gpu/cuda.h"

#include <stdatomic.h>

/* ---- Code (gpu_code.c) ---- */

typedef struct tc_gpu_code tc_gpu_code;

/* Where a kernel is, and what the code asks of a launch. Texts belong to the
 * code. */
typedef struct tc_gpu_meta {
    const char *entry;
    const tc_target *target;
    unsigned abi, warps, threads, shared_bytes;
    unsigned ptxas_level; /* 0: the assembler's own */
    unsigned nmaps;
    tc_tensor_map maps[TC_MAX_TENSOR_MAPS];
    bool counts_tiles, has_reports, starts_early;
    tc_profile_shape profile;
} tc_gpu_meta;

/* After the passes: the entry of a module, whose body is gone thereafter. tile
 * and machine: its text before and at machine level; marks: NULL if it is not
 * profiled. False: out of memory. */
typedef struct tc_gpu_texts {
    const char *tile, *machine, *marks;
} tc_gpu_texts;
bool tc_gpu_encode(tc_module *m, const tc_nvptx_code *code,
                   const tc_recipe *recipe, const tc_gpu_texts *texts,
                   tc_entry *out) TC_MUST_CHECK;

/* Takes the entry; one reference. NULL: it is no code, or no memory. is_kept:
 * on the disk, where cubins are to join it. */
tc_gpu_code *tc_gpu_code_new(tc_entry *entry, bool is_kept);
tc_gpu_code *tc_gpu_code_ref(tc_gpu_code *code);
/* Accepts NULL. */
void tc_gpu_code_unref(tc_gpu_code *code);

const tc_gpu_meta *tc_gpu_code_meta(const tc_gpu_code *code);
/* NUL-terminated; empty where there is none. */
const char *tc_gpu_code_text(const tc_gpu_code *code, const char *name);
size_t tc_gpu_code_size(const tc_gpu_code *code, const char *name);

/* The assert that a report names; false: there is none of that number. */
typedef struct tc_gpu_assert {
    const char *message, *file;
    uint32_t line, column;
} tc_gpu_assert;
bool tc_gpu_code_assert(const tc_gpu_code *code, unsigned index,
                        tc_gpu_assert *out);

/* ---- Loading (gpu_load.c) ---- */

/* Settings of the library's contexts; in the kernel's arena. */
typedef struct tc_gpu_settings {
    const char *cuda_library; /* NULL: the usual one */
    const char *ptxas;        /* NULL: the driver's own */
    bool no_graphs;           /* of single launches */
    tc_cache cache;           /* for cubins, and what writes them to it: */
    bool (*write)(const tc_cache *cache, const tc_entry *entry, char *why,
                  size_t room);
} tc_gpu_settings;

typedef struct tc_gpu_maps tc_gpu_maps;
typedef struct tc_gpu_counters tc_gpu_counters;

/* Never changes once it can be seen. */
typedef struct tc_gpu_loaded tc_gpu_loaded;
struct tc_gpu_loaded {
    tc_gpu_loaded *next;
    tc_cuda *cuda;
    tc_cuda_context context;
    const tc_cuda_device *device;
    tc_cu_module module;
    tc_cu_function function;
    unsigned registers, local_bytes, static_shared;
    /* Byte of the first tensor map among the parameters: the assembler aligns
     * it where the device keeps them, which is no multiple of 64. */
    size_t maps_at;
    /* On the device: a tc_device_report, and SPARE_BYTES after it for
     * outputs that nobody wants. */
    tc_cu_address report, spare;
    /* Of a profiled kernel (gpu_profile.h): its rings, and the memory that they
     * are in; 0: it has none. */
    tc_cu_address ring, rings;
    tc_gpu_maps *maps;         /* NULL: the code takes none */
    tc_gpu_counters *counters; /* likewise */
};
enum { TC_GPU_SPARE_BYTES = 256 };

/* The newest; NULL: none yet. */
const tc_gpu_loaded *tc_gpu_first(const tc_gpu_code *code);
/* In the context of that number; NULL: not loaded there. */
const tc_gpu_loaded *tc_gpu_find(const tc_gpu_code *code, uint64_t context);

/* Loads it in the scope's context unless it is there. `log` (may be NULL) gets
 * what an assembler said. */
tilec_status tc_gpu_load(tc_gpu_code *code, const tc_gpu_settings *settings,
                         const tc_cuda_scope *scope, const tc_gpu_loaded **out,
                         tc_cuda_log *log, tilec_error *error);

/* Does the driver's linker assemble it, so that there is a cubin to keep? Else
 * the driver does when it loads the PTX, and keeps what it made itself; a ptxas
 * makes cubins of either. */
bool tc_gpu_is_linked(const tc_gpu_code *code);

/* The cubin for the scope's device, assembled if need be; belongs to the code,
 * which is linked or has a ptxas in the settings. */
tilec_status tc_gpu_cubin(tc_gpu_code *code, const tc_gpu_settings *settings,
                          const tc_cuda_scope *scope,
                          const tc_cache_section **out, tilec_error *error);

/* ---- Tensor maps (gpu_maps.c) ---- */

enum { TC_GPU_MAP_BYTES = 128, TC_GPU_MAP_ALIGN = 64 };

/* The most recent tensor maps of a code in one context. NULL: no memory. */
tc_gpu_maps *tc_gpu_maps_new(const tc_gpu_meta *m);
/* Accepts NULL. */
void tc_gpu_maps_free(tc_gpu_maps *maps);
/* Map `index` of a launch's tensors, to TC_GPU_MAP_BYTES at `to`. Not NULL: why
 * there is none of this tensor. From any thread, in l's context. */
const char *tc_gpu_map(const tc_gpu_loaded *l, const tc_gpu_meta *m,
                       unsigned index, const tc_launch_arg *args,
                       unsigned char *to);

/* ---- Counters of tiles (gpu_counters.c) ---- */

/* Of a code in one context, which is current here and below. NULL: *code of the
 * driver says why. */
tc_gpu_counters *tc_gpu_counters_new(const tc_cuda *cuda, int *code);
/* Accepts NULL; no launch is in flight. is_gone: the context is, and has taken
 * its memory along. */
void tc_gpu_counters_free(tc_gpu_counters *c, bool is_gone);
/* Room for as many captured launches as a new one has. A code of the driver. */
int tc_gpu_counters_fill(tc_gpu_counters *c);
/* The counter of a launch into the stream: no other launch that may run at the
 * same time has it. From any thread; a code of the driver. */
int tc_gpu_counter(tc_gpu_counters *c, tc_cu_stream stream, tc_cu_address *out);

/* ---- What makes right code slow (ptxas_advisory.c) ---- */

typedef struct tc_loss {
    const char *mark; /* in the assembler's line */
    const char *what, *remedy;
} tc_loss;
/* The gravest one in an assembler's log; NULL: none. */
const tc_loss *tc_loss_find(const char *log);

/* ---- A kernel's code (gpu_compile.c, gpu_variant.c) ---- */

/* For tensors as the compiler wants them; for aligned ones of any sizes (where
 * the first wants multiples of something); and for any. The others are compiled
 * when they are first needed; where the first asks for nothing, there are none
 * but the last: for any tensors, of a grid whose axis 1 or 2 is longer than a
 * GPU takes, so that programs go along axis 0 through all of it. */
enum { TC_GPU_ALIGNED, TC_GPU_UNEVEN, TC_GPU_ANY, TC_GPU_FAR, TC_GPU_VARIANTS };

typedef struct tc_launch_graph tc_launch_graph;

typedef struct tc_gpu {
    const tc_gpu_settings *settings;
    _Atomic(tc_gpu_code *) variants[TC_GPU_VARIANTS];
    /* Makes a variant that is missing; NULL: of a kernel from a bundle. */
    tilec_status (*compile)(const tilec_kernel *k, int which, tc_gpu_code **out,
                            tilec_error *error);
    /* For the other variants; in the arena. */
    tilec_compile_options options;
    unsigned nsources;
    const uint32_t *sources;          /* as tc_loc.file has them */
    const struct tc_plan_part *part;  /* of a plan's kernel; else NULL */
    _Atomic(tc_launch_graph *) again; /* NULL: not launched yet */
} tc_gpu;

/* The GPU's way through tc_job_finish, after binding. */
bool tc_gpu_finish(tc_job *job, const tilec_compile_options *options,
                   const tc_target *target, tc_func *f,
                   const tc_bound *bound) TC_MUST_CHECK;
/* Drops its codes; accepts NULL. */
void tc_gpu_free(tc_gpu *gpu);
/* Of the GPU that `at` names, or else the current one; 0: there is no GPU, or
 * the target is none. */
unsigned tc_gpu_multiprocessors(const tilec_context *cx, const tc_target *t,
                                DLDevice at);
/* What a variant is for: "tensors that are not aligned". */
const char *tc_gpu_variant_purpose(int which);
/* Are the tensor maps of what the kernel takes? */
bool tc_gpu_maps_fit(const tilec_kernel *k, const tc_gpu_meta *m);
/* Does code for the target run on the device? */
bool tc_gpu_fits(const tc_target *t, const tc_cuda_device *d);
/* Compiles it unless that was done. */
tilec_status tc_gpu_variant(const tilec_kernel *k, int which, tc_gpu_code **out,
                            tilec_error *error);

/* ---- Launching (gpu_launch.c) ---- */

/* The requirements of a variant on tensors: "any", "aligned(q, k, v)",
 * "aligned(q, k, v), mapped(q, k), multiples(k.2: 16)": multiples of 16 bytes;
 * tensor maps that the driver makes; sizes of dims. */
typedef struct tc_gpu_predicate {
    char text[512];
} tc_gpu_predicate;
tc_gpu_predicate tc_gpu_predicate_of(const tilec_kernel *k, int variant);

typedef struct tc_gpu_request {
    const tilec_kernel *k;
    const tilec_argument *given; /* by the caller */
    size_t ngiven;
    const struct tc_slot *slots; /* the same by parameter */
    const tc_launch_arg *args;   /* checked */
    int device;                  /* of the tensors; -1: none says */
    const int32_t *grid;         /* no axis is 0 */
    const tilec_launch_options *options;
    tilec_error *error;
} tc_gpu_request;
tilec_status tc_gpu_launch(const tc_gpu_request *r);

/* Accepts NULL (launch_graph_cache.c). */
void tc_launch_graph_free(tc_launch_graph *g);

/* Multiprocessors of that device (-1: the current one); 1: there is none. */
int32_t tc_gpu_num_sms(const tilec_kernel *k, int device);

/* Puts into the stream that `count` elements of so many bytes become that
 * pattern, on the device of a kernel (-1: the current one). */
tilec_status tc_gpu_fill(const tilec_kernel *k, int device, void *data,
                         uint64_t pattern, unsigned width, uint64_t count,
                         void *stream, tilec_error *error);

/* Copies from the device of a kernel (-1: the current one) to the host, after
 * all that is in the stream, which must not be captured. */
tilec_status tc_gpu_read(const tilec_kernel *k, int device, void *to,
                         const void *from, size_t bytes, void *stream,
                         tilec_error *error);

/* A context on a device (-1: the current one) that runs the kernel; says why
 * there is none. */
tilec_status tc_gpu_enter(const tilec_kernel *k, int device,
                          tc_cuda_scope *scope, tilec_error *error);

/* A variant's code, compiled and loaded in the scope's context where that was
 * not done; a launch into the stream is to follow, and says so where that is
 * being captured, when it is too late. */
tilec_status tc_gpu_get_loaded(const tilec_kernel *k, int which,
                               tc_cu_stream stream, const tc_cuda_scope *scope,
                               tc_gpu_code **code, const tc_gpu_loaded **loaded,
                               tilec_error *error);

/* Memory of TC_GPU_SPARE_BYTES on the device that anyone may write and nobody
 * reads, for a launch into the stream; loads the kernel where that was not
 * done. */
tilec_status tc_gpu_spare(const tilec_kernel *k, DLDevice device,
                          tc_cu_stream stream, void **out, tilec_error *error);

/* ---- Programs of the toolkit (assemble.c) ---- */

/* The path of `ptxas`, `nvdisasm`: as given, else on $PATH, else where NVIDIA
 * installs it; malloc'd. NULL: not found. */
char *tc_find_program(const char *name, const char *given);
/* PTX to a cubin for `arch`; `said` gets its output. */
tilec_status tc_assemble(const char *ptxas, const char *arch, unsigned level,
                         const char *ptx, void **cubin, size_t *size,
                         char *said, size_t room, tilec_error *error);
/* The machine code of a cubin as text, malloc'd. */
tilec_status tc_disassemble(const void *cubin, size_t size, char **text,
                            tilec_error *error);
/* What nvdisasm says of a cubin with up to three options; malloc'd. NULL: it is
 * not there, or it failed. */
enum { TC_NVDISASM_OPTIONS = 3 };
char *tc_nvdisasm(const void *cubin, size_t size,
                  const char *const options[TC_NVDISASM_OPTIONS]);

#endif
