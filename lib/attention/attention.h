/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention, planned (attention.c, with the files named below) and run
 * (attention_run.c).
 */
#ifndef TC_ATTENTION_H
#define TC_ATTENTION_H

#include "lib/files/config.h"
#include "lib/kvcache/kvcache_choice.h"
#include "lib/mods/mods_job.h"

/* Lives in the arena of the forward kernel's context. */
struct tilec_attention {
    tilec_kernel *forward;
    tilec_kernel *backward; /* a plan; NULL: not asked for */
    /* Of a plan that splits keys: the kernel that does not. Else NULL. */
    const tilec_kernel *unsplit;
    bool has_max; /* forward gives it */
    bool has_sinks;
    double scale;
    tilec_argument *values; /* captured scalars */
    unsigned nvalues;
};

typedef enum tc_direction { TC_FORWARD, TC_BACKWARD } tc_direction;

/* The arguments of tilec_attention_plan; a job's `request`. */
typedef struct tc_attention_request {
    const DLTensor *q, *k, *v;
    tilec_attention_options options;
    tc_direction direction;
    unsigned smaller[2]; /* by direction: how often tiles are made smaller */
    tilec_attention *plan;
} tc_attention_request;

/* attention_request.c: the kernel of @split_attention that may run by itself;
 * NULL: it is no such plan. */
const tilec_kernel *tc_attention_unsplit(const tilec_kernel *forward);
double tc_attention_scale(const tc_attention_request *r);
/* How a bundle finds such a plan; the key is malloc'd, *out has it too. NULL:
 * out of memory. */
struct tc_bundle_request;
char *tc_attention_key(tilec_context *cx, const tc_attention_request *r,
                       struct tc_bundle_request *out);
/* attention_record.c: r->plan, which is whole, for the context's bundle. */
tilec_status tc_attention_record(tilec_context *cx,
                                 const tc_attention_request *r,
                                 tilec_error *error);
/* attention.c: for tc_compiler. */
tilec_status tc_attention_compile(tilec_context *cx, void *request,
                                  tilec_attention **out);

/* The kernel_options of one direction. */
enum { TC_ATTENTION_BINDINGS = 8 };
typedef struct tc_attention_tuning {
    unsigned warps, stages;    /* 0: not said */
    const char *precision;     /* of products of float32; NULL: not said */
    const char *list_sides[2]; /* queries and keys; NULL: not said */
    int copy_values;           /* 1: yes, -1: no, 0: not said */
    int split_keys;            /* likewise */
    unsigned nbindings;
    tilec_binding bindings[TC_ATTENTION_BINDINGS];
} tc_attention_tuning;

/* attention_options.c: all are checked, those of the direction are used. False:
 * reported. */
bool tc_attention_read_options(tc_job *job, const tilec_attention_options *o,
                               tc_direction direction,
                               tc_attention_tuning *out) TC_MUST_CHECK;

/* Where lists say which blocks a mask leaves. */
typedef struct tc_attention_lists {
    bool of_queries, of_keys; /* a list for each block of those */
    bool by_batch, by_head;   /* the mask differs between them */
} tc_attention_lists;

/* attention_lists.c: for the job's mods, before anything else is in its
 * module. Does not fail: what is wrong with a mask, its kernel's compile says.
 */
tc_attention_lists tc_attention_find_lists(tc_job *job,
                                           const tilec_attention_options *o,
                                           tc_direction direction,
                                           const DLTensor *q, const DLTensor *k,
                                           const tc_mod *mask);

/* The bindings for factors of 8-bit numbers: functions that read them, the rows
 * of their blocks. */
typedef struct tc_attention_factors {
    unsigned n;
    tilec_binding bindings[8];
} tc_attention_factors;

/* attention_factors.c. False: reported. */
bool tc_attention_find_factors(tc_job *job, const tilec_attention_options *o,
                               const DLTensor *q, const DLTensor *k,
                               const DLTensor *v,
                               tc_attention_factors *out) TC_MUST_CHECK;
/* Tiles' sides become divisors of the rows that share a factor. */
void tc_attention_fit_sides(tc_arena *arena, tilec_binding *all, size_t n);

/* The compile of one direction. */
typedef struct tc_attention_job {
    tc_job *job;
    tc_arena *arena;
    const tc_attention_request *r;
    const tc_target *target; /* NULL: there is none of that name */
    tc_mods mods;
    tc_attention_tuning tuning; /* what kernel_options say */
    tc_attention_lists lists;
    tc_attention_factors factors;
    bool copies_values;
    bool splits_keys;
    tc_kv_choice pieces; /* where keys are split */
    unsigned sms;        /* likewise: multiprocessors; 0: not known */
} tc_attention_job;

/* attention_copy.c: does forward go by @copied_attention? */
bool tc_attention_copies_values(const tc_attention_job *p);

/* attention_keys.c: does forward split keys over programs, by @split_attention?
 * Sets p->splits_keys and p->pieces. False: reported. */
bool tc_attention_find_pieces(tc_attention_job *p) TC_MUST_CHECK;
/* Is it SPLIT_KEYS=true? */
bool tc_attention_forces_pieces(const tilec_binding *option);
/* Is attention of such tensors split? The number tells choices apart that plans
 * are made for; 0: it is not. */
int64_t tc_attention_pieces_of(const DLTensor *q, const DLTensor *k,
                               const DLTensor *v, const tc_target *target,
                               unsigned sms, bool is_forced);
/* Fewer blocks of 128 rows of q than multiprocessors, and fewer than 2048 keys
 * (attention_config.c): smaller blocks share the work among more of them. */
bool tc_attention_has_few_blocks(const DLTensor *q, const DLTensor *k,
                                 unsigned sms);
/* The most programs that are busy at once. */
int64_t tc_attention_programs(const tc_attention_job *p);
/* Where a plan splits keys, at a launch. */
typedef struct tc_attention_limits {
    int64_t keys;   /* at least */
    int64_t pieces; /* at least, that may run at once for a block of rows */
    int64_t rows;   /* at most, of a sequence and a head of k */
} tc_attention_limits;
tc_attention_limits tc_attention_limits_of(const tc_attention_job *p);

/* attention_config.c: what the tuned configurations say of a kernel for these
 * tensors, with tiles made smaller as often as the request says. False:
 * nothing. */
bool tc_attention_config(const tc_attention_job *p, const char *kernel,
                         tc_config *out);
/* The queries and keys of a tile where captured gradients are computed. */
void tc_attention_captured_sides(const tc_attention_job *p, int64_t sides[2]);
/* Two kernels that compute dk and dv, and dq, may be faster than one that adds
 * dq up; captured gradients would lose by what else `deterministic` means. */
bool tc_attention_prefers_pair(const tc_attention_job *p);
/* The same bits by one kernel that adds dq up in order. Once it is known what
 * is by lists. */
bool tc_attention_adds_in_order(const tc_attention_job *p);
/* Over how many programs the heads that share a block of keys are split. */
unsigned tc_attention_split_of(const tc_attention_job *p, int64_t block);

/* attention_bindings.c: what binds sinks and dropout in both directions. */
extern const tilec_binding tc_attention_sink, tc_attention_dropout;
/* The job's kernel from what is in its module. False:
 * reported. */
bool tc_attention_finish_forward(tc_attention_job *p) TC_MUST_CHECK;
bool tc_attention_finish_backward(tc_attention_job *p) TC_MUST_CHECK;

/* The sizes of a computation of gradients: `group` query heads to each of the
 * heads of keys, by programs of `block` keys. */
typedef struct tc_attention_work {
    int64_t batch, heads, group, queries, keys, block;
    bool is_masked;
    bool longest_first; /* programs take the longest blocks first */
    unsigned sms;       /* multiprocessors; 0: not known */
} tc_attention_work;

/* attention_split.c: the programs for the heads of a block of keys, a divisor
 * of their number. */
unsigned tc_attention_split(const tc_attention_work *w);

#endif
