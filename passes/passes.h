/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes and how they are run.
 *
 * A pass changes a function or a module and returns whether it did. It never
 * stops on a valid program: it acts, or leaves the program as it is (with a
 * remark if one would have expected it to act). TC_FAILED means that the
 * program cannot be compiled, and a diagnostic says why.
 */
#ifndef TC_PASSES_H
#define TC_PASSES_H

#include "ir/ir.h"
#include "passes/target/target.h"

typedef enum tc_change {
    TC_UNCHANGED,
    TC_CHANGED,
    TC_FAILED /* a diagnostic says why */
} tc_change;

/* A compile-time parameter's value as text: an int, a type, or `@func`. */
typedef struct tc_binding {
    const char *name, *value;
} tc_binding;

/* Events for the runner's caller, before and after each pass. */
typedef struct tc_pass_event {
    const char *pass;
    unsigned index; /* in the pipeline, from 0 */
    bool after;
    const char *text;   /* the module, where the options ask for it */
    tc_change change;   /* after: what the pass said */
    uint64_t ns;        /* after: time of the pass itself */
    uint64_t verify_ns; /* after: time of the checks that followed */
} tc_pass_event;

/* Why a load did not become a copy to shared memory, for those that ask: what
 * remarks say, as data. */
typedef struct tc_refusal tc_refusal;
struct tc_refusal {
    const char *pass, *why;
    tc_loc loc; /* of the load */
    tc_refusal *next;
};
typedef struct tc_refusals {
    tc_arena *arena;
    tc_refusal *last; /* list through next, the newest first */
} tc_refusals;
/* The last reason that this pass gave for the load there; NULL: none. */
const char *tc_refusal_of(const tc_refusals *list, const char *pass,
                          tc_loc loc);

/* The diagnostic for operands whose order in memory their product cannot take
 * asynchronously: a warning, a remark, an error. */
typedef enum tc_enforce {
    TC_ENFORCE_WARN,
    TC_ENFORCE_OFF,
    TC_ENFORCE_ERROR,
    TC_ENFORCE_COUNT
} tc_enforce;
/* warn, off, error. */
const char *tc_enforce_word(tc_enforce e);
/* TC_ENFORCE_COUNT: it is none of them. */
tc_enforce tc_enforce_parse(const char *word);

/* All zero is a sensible default. Lists of pass names are `,` separated and
 * may be "all"; NULL is none. */
typedef struct tc_pass_options {
    const char *kernel; /* whose parameters are bound; NULL: the only one */
    const tc_binding *bindings;
    unsigned nbindings;
    const tc_target *target; /* NULL: "cpu" */
    unsigned warps, stages;  /* of a GPU kernel; 0: as the passes choose */
    unsigned ptxas_level;    /* see tc_func; 0: as the text says */
    tc_tiles tiles;          /* likewise */
    /* Of products of f32 that leave it open: ieee, tf32 or tf32x3; NULL: ieee.
     */
    const char *precision;
    tc_enforce enforce;    /* GPU targets: see there */
    tc_refusals *refusals; /* GPU targets: to be filled; or NULL */
    bool any_alignment;    /* of a GPU kernel: assume nothing of its tensors (no
                            * vector accesses), see tc_func.aligned */
    bool any_sizes;        /* likewise: nor of sizes, see tc_func.multiples */
    bool no_swizzle; /* of a GPU kernel: shared memory in plain rows (tests) */
    /* Verify after every pass; else only where errors of the user show, after
     * `bind-params` and `inline`. */
    bool verify_each;
    /* Print, parse and print after every pass, and compare (tests). */
    bool round_trip;
    const char *print_before, *print_after;
    void (*on_event)(void *user, const tc_pass_event *event);
    void *user;
    /* Where to write a reproducer when a pass or the verifier after it fails
     * (`tilec opt --run-reproducer`); NULL: nowhere. */
    const char *reproducer_dir;
} tc_pass_options;

/* The environment of a pass. Scratch memory is emptied after each pass; nothing
 * in the program may point into it. */
typedef struct tc_pass_env {
    tc_context *cx;
    tc_arena *scratch;
    const tc_pass_options *options; /* this and the target: never NULL */
    const tc_target *target;
} tc_pass_env;

/* Keeps it, if the options ask for that. */
void tc_refuse_load(const tc_pass_env *env, const char *pass, const tc_op *load,
                    const char *why);

/* Calls visit for the ops of the body, those nested in an op before the op
 * itself; it may erase that op. TC_CHANGED: once or more it said true;
 * TC_FAILED: it has reported an error. */
typedef bool tc_visit_op(tc_pass_env *env, tc_op *op);
tc_change tc_visit_ops(tc_func *f, tc_pass_env *env, tc_visit_op *visit);

typedef tc_change tc_func_pass(tc_func *f, tc_pass_env *env);
typedef tc_change tc_module_pass(tc_module *m, tc_pass_env *env);

#define TC_PASS_TYPE_FUNC    tc_func_pass
#define TC_PASS_TYPE_TILE    tc_func_pass
#define TC_PASS_TYPE_KERNEL  tc_func_pass
#define TC_PASS_TYPE_MACHINE tc_func_pass
#define TC_PASS_TYPE_MODULE  tc_module_pass
#define FACT(name, meaning)
#define STAGE(folder, title)
#define PASS(id, name, scope, needs, makes, before, summary)                   \
    TC_PASS_TYPE_##scope tc_pass_##id;
#define PIPELINE(name, passes, summary)
#include "passes/passes.def"
#undef FACT
#undef STAGE
#undef PASS
#undef PIPELINE

/* Functions that a pass runs on: all; of those without compile-time parameters
 * what is not at machine level; of those the kernels; kernels that have
 * warps, and layouts for all tiles. */
typedef enum tc_pass_scope {
    TC_SCOPE_FUNC,
    TC_SCOPE_TILE,
    TC_SCOPE_KERNEL,
    TC_SCOPE_MACHINE
} tc_pass_scope;

/* A row of passes.def. Of a pass one of the functions is set, of a pipeline
 * `passes`; of a stage neither, its name is "" and its summary the title. */
typedef struct tc_pass_info {
    const char *name;
    const char *folder; /* of a stage */
    tc_func_pass *run_func;
    tc_pass_scope scope; /* of run_func */
    tc_module_pass *run_module;
    const char *needs, *makes, *before; /* facts, ` ` separated; of a pass */
    const char *passes;
    const char *summary;
} tc_pass_info;
extern const tc_pass_info tc_pass_infos[];
extern const unsigned tc_npass_infos;

/* The facts that passes establish and need (FACT of passes.def). */
typedef struct tc_pass_fact {
    const char *name, *meaning;
} tc_pass_fact;
extern const tc_pass_fact tc_pass_facts[];
extern const unsigned tc_npass_facts;

/* Are these passes and pipelines, with `,` between them, in an order in which
 * they may run? Reports those that are not. */
bool tc_check_pipeline(tc_context *cx, const char *pipeline) TC_MUST_CHECK;

/* Runs passes and pipelines by name, "canonicalize,cse" or "cpu". False: a
 * pass failed or the verifier after it did (the module must then be thrown
 * away), or a name is unknown; reported. */
bool tc_run_pipeline(tc_module *m, const char *pipeline,
                     const tc_pass_options *options) TC_MUST_CHECK;

/* ieee, tf32 or tf32x3? */
bool tc_is_precision(const char *word);

#endif
