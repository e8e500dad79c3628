/* SPDX-License-Identifier: Apache-2.0
 *
 * Derivatives of functions of scalars, by reverse mode (reverse.c), and what
 * each op contributes (rules.c).
 */
#ifndef TC_REVERSE_H
#define TC_REVERSE_H

#include "ir/base/map.h"
#include "passes/passes.h"

/* A derivative under construction. Values of the function being differentiated
 * hold in `data` what stands for them in the derivative. */
typedef struct tc_adjoints {
    tc_builder b;
    tc_map active; /* depends on what a gradient is wanted for */
    tc_map sums;   /* active value -> its adjoint so far */
} tc_adjoints;

bool tc_is_active(const tc_adjoints *a, const tc_value *v);
/* NULL: zero. */
tc_value *tc_adjoint(const tc_adjoints *a, const tc_value *v);
void tc_adjoint_add(tc_adjoints *a, tc_value *v, tc_value *g);

/* activity.c: marks what depends on the values marked so far. */
void tc_gradient_activate(tc_adjoints *a, tc_region *r);

/* The active scalars of outside that an op's regions use. */
typedef struct tc_outers {
    tc_value **all;
    tc_value **sums; /* their adjoints outside; NULL: zero */
    unsigned n, room;
} tc_outers;
tc_outers tc_outers_of(tc_adjoints *a, const tc_op *op);
/* Before a region: there their adjoints begin at zero. */
void tc_outers_set_aside(tc_adjoints *a, tc_outers *o);
/* After it: gives what it has added up (NULL: nothing); the adjoints are as
 * they were before. */
tc_value **tc_outers_take_back(tc_adjoints *a, const tc_outers *o);

/* Adds what `op`, whose result has the adjoint g, contributes to the adjoints
 * of its operands. False: the op has no rule. */
bool tc_gradient_rule(tc_adjoints *a, const tc_op *op,
                      tc_value *g) TC_MUST_CHECK;

/* ---- What is captured ---- */

/* A place where the function reads what a gradient is wanted for: one index,
 * one value. */
typedef struct tc_gradient_site {
    unsigned param; /* of the function: a float, or a tensor of floats */
    tc_op *gather;  /* NULL: of a float */
    /* `@NAME.index`: the indices, from the parameters that they depend on;
     * NULL: of a float. */
    tc_func *at;
    unsigned nfrom;
    const unsigned *from;
} tc_gradient_site;

/* sites.c: moves the gathers from wanted tensors out of branches and
 * finds the sites; gathers that must stay where they are have none. False:
 * such a tensor is used in another way; reported. */
bool tc_gradient_find_sites(tc_pass_env *env, tc_func *f, const char *name,
                            const bool *wanted, unsigned *nsites,
                            tc_gradient_site **sites) TC_MUST_CHECK;
/* The contribution `g` of a lane whose seed is 0 as 0, whatever infinities and
 * NaNs it was computed from. */
tc_value *tc_gradient_guard(tc_adjoints *a, tc_value *seed, tc_value *g);

/* ---- The derivative ---- */

/* `@NAME.vjp`: takes what f takes, a seed, and a tensor for each of the params
 * `scattered`, to which it adds by itself; gives the gradient for the first
 * parameter, then the contribution of each site in f32. */
/* How: nothing, f32, or the bins of exact_sums.h. */
typedef enum tc_scatter {
    TC_SCATTER_NONE,
    TC_SCATTER_FLOATS,
    TC_SCATTER_BINS
} tc_scatter;

typedef struct tc_gradient {
    tc_func *func;
    unsigned nsites, nscattered;
    const tc_gradient_site *sites;
    const unsigned *scattered;
} tc_gradient;

/* `f` has no compile-time parameters and is used up: it goes. wanted[i]: a
 * gradient is wanted for parameter i, too. False: it has no gradient;
 * reported, with a note at `loc`. */
bool tc_gradient_build(tc_pass_env *env, tc_func *f, const char *name,
                       tc_loc loc, const bool *wanted, tc_scatter scatter,
                       tc_gradient *out) TC_MUST_CHECK;

/* ---- Adding up (sums.c) ---- */

/* Adds g to the element of the tensor at these indices (to element 0 where
 * there are none), in each lane where the condition holds (NULL: in all), in
 * any order. Outside of the tensor it adds nothing. A tensor of i64 holds bins,
 * in one dim more. */
void tc_gradient_scatter(tc_builder *b, tc_value *tensor, unsigned n,
                         tc_value *const *indices, tc_value *g,
                         tc_value *condition);

/* Which contributions count, and how: the values of `accumulate`. */
typedef enum tc_accumulate {
    TC_ACCUMULATE_ANY = 1, /* all; floats in any order */
    /* The same bits in every run: what is the same along some axis of the tile;
     * what differs along all. */
    TC_ACCUMULATE_SUMS,
    TC_ACCUMULATE_ELEMENTS
} tc_accumulate;

/* Is there a tensor of bins for it? It is one, or an argument of a kernel that
 * `accumulate` has added. */
bool tc_gradient_has_bins(const tc_func *f, const tc_value *tensor);
/* That tensor, an argument of the kernel that is added where it is missing. */
tc_value *tc_gradient_bins(tc_pass_env *env, tc_func *f, tc_value *tensor);

/* Adds result `i` of a call of the derivative, the contributions of a site, to
 * the tensor. `args` are those of the vjp. alone: no other site adds to it. */
void tc_gradient_add_up(tc_pass_env *env, const tc_op *call, unsigned i,
                        const tc_gradient_site *site, tc_value *tensor,
                        tc_value *const *args, tc_accumulate how, bool alone);

#endif
