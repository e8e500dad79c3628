/* SPDX-License-Identifier: Apache-2.0
 *
 * One compile: the state that tilec_compile and tilec_attention_plan share.
 */
#ifndef TC_COMPILE_H
#define TC_COMPILE_H

#include "lib/handles.h"
#include "passes/passes.h"

/* The work between clean diagnostics and a kernel. All but the fields marked
 * is in the arena of `cx`. */
typedef struct tc_job tc_job;
struct tc_job {
    tilec_context *owner;
    bool (*build)(tc_job *job); /* leaves `kernel` */
    void *request;              /* what build is to do */
    tilec_status status;        /* the class of the first failure */
    tc_context *cx;
    tc_module *module;           /* malloc'd; NULL once the kernel has it */
    tc_module *trial;            /* malloc'd; of tc_job_probe, while it lasts */
    struct tc_host_code *host;   /* of the CPU; a reference, likewise */
    tc_host_kernel *object;      /* its code while it is not linked, likewise */
    struct tc_gpu *gpu;          /* of a GPU target; tc_gpu_free, likewise */
    struct tc_launch_plan *plan; /* of a plan; tc_launch_plan_free, likewise */
    /* A kernel of a plan, within the plan's own job: diagnostics add up. */
    const struct tc_plan_part *part;
    bool is_nested;
    unsigned ntunings; /* of the kernels of a plan */
    const struct tc_plan_tuning *tunings;
    bool any_alignment, any_sizes; /* see tc_pass_options; and so is: */
    tc_refusals *refusals;
    unsigned nparsed; /* programs, by tc_job_parse: their sources */
    const uint32_t *parsed;
    tilec_kernel *kernel;
    void *foreign; /* malloc'd by a callback, not copied yet; else NULL */
};

/* job.c: runs job->build with the unwind point set, copies the diagnostics to
 * the owner, and on failure gives back what the job has made. */
tilec_status tc_job_run(tc_job *job, tilec_kernel **out);

/* A compile that ends at once: the call was wrong. */
tilec_status tc_job_refuse(tilec_context *owner, const char *why,
                           tilec_kernel **out);

/* Calls f with an empty module in job->trial, which goes afterwards; what is
 * said there is forgotten. */
bool tc_job_probe(tc_job *job, bool (*f)(tc_job *job, void *data), void *data);
/* The same with the programs parsed so far, and with remarks. */
bool tc_job_try(tc_job *job, bool (*f)(tc_job *job, void *data), void *data);

/* An error without a place in a text; returns false. */
bool tc_job_error(tc_job *job, tilec_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* A source of the caller; false: reported. */
bool tc_job_source(tc_job *job, const tilec_source *from,
                   tc_source *to) TC_MUST_CHECK;
bool tc_job_parse(tc_job *job, const tc_source *sources,
                  unsigned n) TC_MUST_CHECK;
/* The module's kernel to job->kernel, by the compile options (which have
 * been read: not of another version). */
bool tc_job_finish(tc_job *job,
                   const tilec_compile_options *options) TC_MUST_CHECK;

/* The arguments of tilec_compile; a job's `request`. */
typedef struct tc_request {
    const tilec_source *sources;
    const tc_source *linked; /* not NULL: in place of sources; with aliases */
    size_t nsources;
    tilec_compile_options options;
    const struct tc_plan_part
        *part;    /* not NULL: options.kernel is of that plan */
    char *report; /* of what is no compile: for tilec_free */
} tc_request;
/* Of what makes a report in place of a kernel: `report` sets request->report.
 * *text: that, for tilec_free, or NULL. */
tilec_status tc_request_report(tilec_context *cx, const tilec_source *sources,
                               size_t nsources,
                               const tilec_compile_options *options,
                               bool (*report)(tc_job *job), char **text);
/* The first step of such a job's `build`: to job->module. */
bool tc_request_read(tc_job *job) TC_MUST_CHECK;

/* configure.c, the second one: what the options leave open of an embedded
 * kernel is as it was tuned. */
bool tc_request_configure(tc_job *job) TC_MUST_CHECK;

/* A kernel or plan; without a name the only plan, else the only kernel. NULL:
 * reported. */
tc_func *tc_job_find(tc_job *job, const char *name);

/* The ways through tc_job_finish share: */
typedef struct tc_bound tc_bound;
bool tc_job_choose(tc_job *job, const tilec_compile_options *options,
                   const tc_target **target, tc_func **f,
                   tc_bound *bound) TC_MUST_CHECK;
/* The passes; *tile (where tile is not NULL) is the text before machine level,
 * "" if the pipeline does not get there. */
bool tc_job_passes(tc_job *job, const tilec_compile_options *options,
                   const tc_target *target, const char *kernel,
                   const tc_bound *bound, const char **tile) TC_MUST_CHECK;
/* A described kernel of a final function of job->module. */
tilec_kernel *tc_job_kernel(tc_job *job, const tc_target *target, tc_func *f,
                            const tc_bound *bound, unsigned nown);
/* One of a plan's kernels, in the course of the plan's job, from the texts
 * that were parsed there. */
tilec_status tc_part_compile(tilec_context *cx, const tc_source *linked,
                             size_t nsources,
                             const tilec_compile_options *options,
                             const struct tc_plan_part *part,
                             tilec_kernel **out);
/* A variant (lib/gpu/gpu.h) of a kernel, from the texts that were parsed for
 * it; of a plan's kernel, or with part NULL. */
tilec_status tc_variant_compile(tilec_context *cx, const tc_source *linked,
                                size_t nsources,
                                const tilec_compile_options *options,
                                const struct tc_plan_part *part, int variant,
                                tilec_kernel **out);

/* bind.c: values of compile-time parameters. */
struct tc_bound {
    unsigned ngiven; /* by the options, and inferred from the examples */
    tc_binding *given;
    unsigned nall;      /* every parameter of the kernel, with defaults; the */
    tilec_binding *all; /* value is NULL where it has none */
};
bool tc_bind(tc_job *job, const tc_func *kernel,
             const tilec_compile_options *options, tc_bound *out) TC_MUST_CHECK;
/* The dim in which a tensor's elements lie side by side: of several such the
 * last, as of none. */
int64_t tc_contiguous_dim(const DLTensor *x);

#endif
