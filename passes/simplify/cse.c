/* SPDX-License-Identifier: Apache-2.0
 *
 * cse: merges equal ops if one dominates the other.
 *
 *   %a = add %x, %y : i32                   %a = add %x, %y : i32
 *   %b = add %y, %x : i32         becomes   store %p, %a
 *   store %p, %a                            store %p, %a
 *   store %p, %b
 *
 * Applies to pure ops, and to loads with no store between them. A region sees
 * the values computed around it; its own values are forgotten after it. Memory
 * has a number that every store changes; loads are equal if the number is the
 * same. A loop that stores begins with a new number, as an earlier step may
 * have stored. If numerics flags differ, the op that stays keeps the flags that
 * both have. Tests: test/ir/passes/cse.
 */
#include "ir/base/intern.h"
#include "ir/fastmath.h"
#include "passes/analysis/effects.h"
#include "passes/analysis/match.h"
#include "passes/passes.h"

#include <string.h>

/* An op that may be met again. */
struct entry {
    tc_op *op;
    uint64_t hash;
    unsigned memory; /* of a load: the number of memory then */
    struct entry *next_in_bucket;
};

enum { NBUCKETS = 1024 };

struct cse {
    tc_arena *scratch;
    struct entry *buckets[NBUCKETS];
    unsigned memory, last_memory; /* now; the last one given out */
    bool changed;
};

static void new_memory(struct cse *s)
{
    s->memory = ++s->last_memory;
}

/* ---- Equality ---- */

static bool swaps(const tc_op *op)
{
    return tc_op_has(op, TC_COMMUTES) && op->nin == 2;
}

static uint64_t hash_of(const tc_op *op)
{
    uint64_t operands = 0;
    if (swaps(op)) /* operands in either order are equal */
        operands =
            (uint64_t)(uintptr_t)op->in[0] + (uint64_t)(uintptr_t)op->in[1];
    else if (op->nin)
        operands = tc_hash_bytes(0, op->in, op->nin * sizeof *op->in);
    const tc_type *type = op->out[0]->type;
    uint64_t hash = tc_hash_bytes(op->code, &operands, sizeof operands);
    return tc_hash_bytes(hash, &type, sizeof type);
}

static bool same_operands(const tc_op *a, const tc_op *b)
{
    if (a->nin != b->nin)
        return false;
    if (a->nin == 0 || memcmp(a->in, b->in, a->nin * sizeof *a->in) == 0)
        return true;
    return swaps(a) && a->in[0] == b->in[1] && a->in[1] == b->in[0];
}

/* Bits, not values: 0.0 and -0.0 differ. */
static bool same_number(const tc_number *a, const tc_number *b)
{
    return a->is_float == b->is_float &&
           (a->is_float ? memcmp(&a->f, &b->f, sizeof a->f) == 0
                        : a->i == b->i);
}

static bool same_attr(const tc_attr *a, const tc_attr *b)
{
    if (a->kind == TC_ATTR_FLAGS || b->kind == TC_ATTR_FLAGS)
        return true; /* see cse_visit */
    if (a->kind != b->kind || a->n != b->n)
        return false;
    switch (a->kind) {
    case TC_ATTR_NONE: return true;
    case TC_ATTR_INT:
    case TC_ATTR_BOOL: return a->i == b->i;
    case TC_ATTR_NUMBER: return same_number(&a->number, &b->number);
    case TC_ATTR_STRING:
    case TC_ATTR_SYMBOL: return a->s == b->s;
    case TC_ATTR_INTS:
        return !a->n || memcmp(a->ints, b->ints, a->n * sizeof *a->ints) == 0;
    case TC_ATTR_DIMS:
        return !a->n || memcmp(a->dims, b->dims, a->n * sizeof *a->dims) == 0;
    case TC_ATTR_LAYOUT: return a->layout == b->layout;
    case TC_ATTR_FLAGS: break; /* above */
    case TC_ATTR_STRINGS:
        return !a->n ||
               memcmp(a->strings, b->strings, a->n * sizeof *a->strings) == 0;
    }
    return false;
}

/* Constants by value: 0 and 0.0 of a float type are one. */
static bool same_constant(const tc_op *a, const tc_op *b)
{
    tc_scalar x, y;
    return tc_match_const(a->out[0], &x) && tc_match_const(b->out[0], &y) &&
           x.i == y.i && memcmp(&x.f, &y.f, sizeof x.f) == 0;
}

static bool same_attrs(const tc_op *a, const tc_op *b)
{
    if (a->code == TC_CONST && same_constant(a, b))
        return true;
    unsigned n = tc_op_nattrs(a->code);
    for (unsigned i = 0; i < n; i++)
        if (!same_attr(&a->attrs[i], &b->attrs[i]))
            return false;
    return true;
}

static bool same_op(const tc_op *a, const tc_op *b)
{
    return a->code == b->code && a->out[0]->type == b->out[0]->type &&
           same_operands(a, b) && same_attrs(a, b);
}

/* ---- The walk ---- */

/* Ops with regions (a reduce that combines by one) are left alone. */
static bool may_merge(const tc_op *op)
{
    if (op->nout != 1 || op->nregions)
        return false;
    /* Waits count the products in flight. */
    if (op->code == TC_MMA && tc_op_int(op, "async"))
        return false;
    bool load = tc_op_has(op, TC_READS) && !tc_op_has(op, TC_WRITES);
    return tc_op_has(op, TC_PURE) || load;
}

static tc_op *cse_find(const struct cse *s, const tc_op *op, uint64_t hash)
{
    bool load = tc_op_has(op, TC_READS);
    for (struct entry *e = s->buckets[hash % NBUCKETS]; e;
         e = e->next_in_bucket)
        if (e->hash == hash && (!load || e->memory == s->memory) &&
            same_op(e->op, op))
            return e->op;
    return NULL;
}

/* The op is merged into an earlier one, or remembered. */
static struct entry *cse_visit(struct cse *s, tc_op *op)
{
    uint64_t hash = hash_of(op);
    tc_op *first = cse_find(s, op, hash);
    if (first) {
        /* The op that stays keeps the flags that both have. */
        tc_op_set_fastmath(first,
                           tc_op_own_fastmath(first) & tc_op_own_fastmath(op));
        if (!first->out[0]->name)
            first->out[0]->name = op->out[0]->name;
        tc_value_replace(op->out[0], first->out[0]);
        tc_op_erase(op);
        s->changed = true;
        return NULL;
    }
    struct entry *e = tc_arena_new(s->scratch, struct entry);
    *e = (struct entry){op, hash, s->memory, s->buckets[hash % NBUCKETS]};
    s->buckets[hash % NBUCKETS] = e;
    return e;
}

static void visit_region(struct cse *s, tc_region *r, tc_region *then);

static void visit_nested(struct cse *s, tc_op *op)
{
    bool stores = tc_op_effects(op).stores;
    bool loops = tc_op_is_loop(op);
    if (stores && loops)
        new_memory(s);
    if (op->code == TC_WHILE) {
        /* The second region sees what the first computed. */
        visit_region(s, op->regions[0], op->regions[1]);
    } else {
        unsigned before = s->memory;
        for (unsigned i = 0; i < op->nregions; i++) {
            s->memory = before;
            visit_region(s, op->regions[i], NULL);
        }
    }
    if (stores)
        new_memory(s);
}

/* Ops remembered in a region are forgotten after it, in the opposite order,
 * which finds each entry at the head of its bucket. */
static void visit_region(struct cse *s, tc_region *r, tc_region *then)
{
    unsigned n = 0;
    tc_each_op (op, r)
        n++;
    struct entry **own = tc_arena_array(s->scratch, struct entry *, n);
    unsigned nown = 0;
    tc_each_op_safe (op, r) {
        if (op->nregions) {
            visit_nested(s, op);
            continue;
        }
        struct entry *e = may_merge(op) ? cse_visit(s, op) : NULL;
        if (e)
            own[nown++] = e;
        else if (op->parent && tc_op_effects(op).stores)
            new_memory(s);
    }
    if (then)
        visit_region(s, then, NULL);
    while (nown-- > 0)
        s->buckets[own[nown]->hash % NBUCKETS] = own[nown]->next_in_bucket;
}

tc_change tc_pass_cse(tc_func *f, tc_pass_env *env)
{
    struct cse *s = tc_arena_new(env->scratch, struct cse);
    s->scratch = env->scratch;
    if (f->grid)
        visit_region(s, f->grid, NULL);
    visit_region(s, f->body, NULL);
    return s->changed ? TC_CHANGED : TC_UNCHANGED;
}
