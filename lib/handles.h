/* SPDX-License-Identifier: Apache-2.0
 *
 * The structs of tilec.h's handles, and how the files of lib/ report errors.
 *
 * Each compile has a tc_context of its own, which on success becomes the
 * kernel's: so a long-lived tilec_context does not grow, and a kernel does not
 * depend on it. A tilec_context keeps settings and a copy of the diagnostics.
 */
#ifndef TC_HANDLES_H
#define TC_HANDLES_H

#include "codegen/host/host.h"
#include "codegen/host/runtime/pool.h"
#include "ir/eval/eval.h"
#include "ir/ir.h"
#include "lib/tilec.h"
#include "passes/target/target.h"

#include <pthread.h>

enum { TC_CODES_KEPT = 64 };

/* Runs the programs of launches on the CPU. */
typedef struct tc_workers {
    tc_host_parallel_for *parallel_for;
    void *user;
    tc_host_pool *pool; /* a reference; NULL: they are the caller's */
} tc_workers;

struct tilec_context {
    char *target; /* as it was given */
    char *cpu;    /* NULL: this machine's */
    bool remarks, no_graphs;
    bool warned_of_cache; /* that its folder is not used */
    tc_workers workers;
    char *cuda_library, *ptxas, *cache_folder; /* NULL: see tilec.h */
    uint64_t cache_most;
    struct tc_code *codes[TC_CODES_KEPT]; /* newest first */
    unsigned ncodes;
    struct tc_bundle *bundles;    /* newest first */
    struct tc_recorder *recorder; /* NULL: nothing is recorded */
    void (*drop_recorder)(struct tc_recorder *r);
    unsigned multiprocessors; /* 0: not given */
    tc_memory memory;         /* of `arena`; fail_after is handed to compiles */
    tc_arena arena;           /* the diagnostics below */
    tilec_diagnostic *diags;
    tilec_diagnostic oom; /* where there is no memory to say so */
    size_t nerrors;
};

/* A parameter of a kernel as the launch sees it. */
typedef struct tc_kernel_param {
    tilec_parameter info;
    const tc_type *type;
} tc_kernel_param;

/* Lives in the arena of its own context. Read-only once made, but for `emit`:
 * what needs the context's arenas takes the lock. */
struct tilec_kernel {
    tc_context *cx;
    tc_module *module; /* holds the one kernel, after the passes */
    tc_func *func;
    const tc_host_kernel *host; /* of the CPU target; else NULL; it is of: */
    struct tc_host_code *host_code; /* a reference */
    tc_workers workers;             /* the context's */
    struct tc_gpu *gpu;             /* of GPU targets; else NULL */
    struct tc_launch_plan *plan; /* of a plan, which has neither; else NULL */
    const tc_target *target;
    const tc_grid *grid; /* NULL of a plan */
    const char *grid_text;
    unsigned nparams, nown; /* own: those before the captured ones */
    tc_kernel_param *params;
    unsigned nbindings;
    const tilec_binding *bindings;
    pthread_mutex_t lock;
};

struct tc_append_request; /* lib/append */

/* The compiler, for what a context's bundles do not have. `request` is what the
 * caller of each passes on (lib/attention, lib/kvcache). */
typedef struct tc_compiler {
    tilec_status (*attention)(tilec_context *cx, void *request,
                              tilec_attention **out);
    tilec_status (*kvcache)(tilec_context *cx, void *request,
                            tilec_kvcache **out);
    tilec_status (*append)(tilec_context *cx,
                           const struct tc_append_request *request,
                           tilec_kernel **out);
} tc_compiler;
/* lib/attention/compiler.c of libtilec; lib/runtime has NULL. */
extern const tc_compiler *const tc_the_compiler;

/* No diagnostics; the one of out of memory, whose status it returns
 * (jit/diagnostics.c). */
void tc_diagnostics_clear(tilec_context *cx);
tilec_status tc_diagnostics_oom(tilec_context *cx);
/* One error as the diagnostics of the context, in place of what was there;
 * returns the status. */
tilec_status tc_say(tilec_context *cx, tilec_status status, const char *text);

/* Calls run(arg) with m's unwind point set. False: out of memory. */
bool tc_guard(tc_memory *m, void (*run)(void *arg), void *arg) TC_MUST_CHECK;

/* Fills in *error (which may be NULL) and returns the status. What a terminal
 * would obey, in names from files, is escaped (ir/base/escape.h). */
tilec_status tc_fail(tilec_error *error, tilec_status status, const char *fmt,
                     ...) __attribute__((format(printf, 3, 4)));
/* The same of what a program said in several lines, which stay. */
tilec_status tc_fail_lines(tilec_error *error, tilec_status status,
                           const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
tilec_status tc_fail_memory(tilec_error *error);
/* More of what tc_fail has filled in. */
void tc_error_at(tilec_error *error, const char *file, uint32_t line,
                 uint32_t column);
void tc_error_program(tilec_error *error, const int32_t program[3]);

/* Lists of the caller whose structs have this library's size. */
bool tc_arguments_fit(const tilec_argument *args, size_t n) TC_MUST_CHECK;
bool tc_sources_fit(const tilec_source *sources, size_t n) TC_MUST_CHECK;

/* An option struct of the caller, of any version: copies what it has (by its
 * leading size) over the zeroed *to. False where the size is impossible. */
bool tc_options_read(void *to, size_t room, const void *from) TC_MUST_CHECK;

/* NULL: there is no such target. "auto" (and NULL) is the best one of the GPU
 * that this thread would use, else the CPU. */
const tc_target *tc_target_find(const tilec_context *cx, const char *name);
bool tc_target_is_gpu(const tc_target *t);
bool tc_target_is_auto(const char *name);

/* dtype.c: TC_KIND_COUNT where tilec has no such type. */
tc_kind tc_kind_from_dl(DLDataType dtype);
/* May a tensor of that data type be given for one of the kind? */
bool tc_dl_holds(DLDataType dtype, tc_kind kind);
DLDataType tc_kind_to_dl(tc_kind kind);
/* "bf16", or DLPack's terms where tilec has no such type: "uint64". */
typedef struct tc_dtype_text {
    char text[32];
} tc_dtype_text;
tc_dtype_text tc_dtype_name(DLDataType dtype);

/* Generated from kernels/ when the library is built; ends in a NULL name. */
typedef struct tc_embedded {
    const char *name; /* "attention_fwd", "mods/masks" */
    const char *file; /* for diagnostics: "attention_fwd.tile" */
    const char *text;
    size_t len;
} tc_embedded;
extern const tc_embedded tc_embedded_texts[];
/* Of kernels/configs: "attention_fwd". */
extern const tc_embedded tc_embedded_configs[];
const tc_embedded *tc_embedded_find(const char *name);

/* plan/kernel.c: a described kernel of a final function of the module, in the
 * arena of its context; its code and lock are still to come. */
tilec_kernel *tc_kernel_new(tc_module *module, const tc_target *target,
                            tc_func *f, unsigned nbindings,
                            const tilec_binding *bindings, unsigned nown);

/* plan/describe.c: fills in params, grid_text of a kernel whose module is
 * final. */
void tc_kernel_describe(tilec_kernel *k, unsigned nown);

/* May the kernel store through its argument? */
bool tc_value_is_written(tc_arena *a, const tc_value *v);
/* By the body or the grid. */
bool tc_parameter_is_used(const tc_func *f, unsigned i);

/* malloc'd; NULL: no memory. */
char *tc_kernel_json(const tilec_kernel *k);

/* The parameter of that name; -1: none. */
int tc_kernel_param_index(const tilec_kernel *k, const char *name);

#endif
