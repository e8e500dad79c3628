/* SPDX-License-Identifier: Apache-2.0
 *
 * A mask is a window if the conditions that it joins by `and` bound the key's
 * position from above and from below by numbers that grow with the query's:
 *
 *   %k <= %q and %q - %k < %w         abs(%q - %k) <= %w
 *
 * and causal if it bounds it from above only.
 * That is a guess about speed only (which tiles were measured to be good): it
 * looks at signs, not at sizes.
 */
#include "lib/mods/mod_window.h"

enum { MOST_DEPTH = 16, QUERY = 2, KEY = 3 };

/* How a number goes with the positions. */
typedef struct trend {
    bool is_known;
    int query, key;   /* -1, 0, 1 */
    bool is_distance; /* the size of one that was so */
} trend;

enum { ABOVE = 1, BELOW = 2 }; /* what bounds the key */

struct walk {
    const struct walk *caller;
    const tc_op *call; /* what its parameters are, in the caller */
    unsigned depth;
};

static trend trend_of(const struct walk *w, const tc_value *v, unsigned depth);
static unsigned bounds_of(const struct walk *w, const tc_value *v,
                          unsigned depth);

static int sign(int x)
{
    return (x > 0) - (x < 0);
}

/* The argument of the call for a parameter; NULL: it is named, captured. */
static const tc_value *argument_of(const struct walk *w, const tc_value *v)
{
    unsigned named = tc_op_attr(w->call, "names")->n;
    return v->index + named < w->call->nin ? w->call->in[v->index] : NULL;
}

static trend of_parameter(const struct walk *w, const tc_value *v,
                          unsigned depth)
{
    if (!w->caller)
        return (trend){true, v->index == QUERY, v->index == KEY, false};
    const tc_value *given = argument_of(w, v);
    return given ? trend_of(w->caller, given, depth + 1)
                 : (trend){.is_known = true};
}

static bool is_fixed(trend t)
{
    return t.is_known && !t.query && !t.key;
}

static trend of_sum(trend a, trend b, int by)
{
    b.query *= by;
    b.key *= by;
    /* Terms of opposite signs: not known. */
    bool known = a.is_known && b.is_known && a.query * b.query >= 0 &&
                 a.key * b.key >= 0 && (!a.is_distance || is_fixed(b)) &&
                 !b.is_distance;
    return (trend){known, sign(a.query + b.query), sign(a.key + b.key),
                   a.is_distance};
}

static trend trend_of(const struct walk *w, const tc_value *v, unsigned depth)
{
    const tc_op *op = v->def;
    if (depth == MOST_DEPTH)
        return (trend){0};
    if (!op)
        return of_parameter(w, v, depth);
    trend in[2] = {{true, 0, 0, false}, {true, 0, 0, false}};
    bool all_fixed = op->nregions == 0 && op->code != TC_CALL;
    for (unsigned i = 0; i < op->nin; i++) {
        trend t = trend_of(w, op->in[i], depth + 1);
        all_fixed &= is_fixed(t);
        if (i < 2)
            in[i] = t;
    }
    switch (op->code) {
    case TC_ADD: return of_sum(in[0], in[1], 1);
    case TC_SUB: return of_sum(in[0], in[1], -1);
    case TC_CAST: return in[0];
    case TC_ABS: in[0].is_distance |= !is_fixed(in[0]); return in[0];
    default: return (trend){.is_known = all_fixed};
    }
}

/* a - b is below something, or above. */
static unsigned of_comparison(const struct walk *w, const tc_op *op,
                              unsigned depth)
{
    trend t = of_sum(trend_of(w, op->in[0], depth + 1),
                     trend_of(w, op->in[1], depth + 1), -1);
    bool is_below =
        tc_op_is_word(op, "pred", "lt") || tc_op_is_word(op, "pred", "le");
    bool is_above =
        tc_op_is_word(op, "pred", "gt") || tc_op_is_word(op, "pred", "ge");
    if (!t.is_known || t.query * t.key >= 0 || is_below == is_above)
        return 0;
    if (t.is_distance)
        return is_below ? ABOVE | BELOW : 0;
    return (t.key > 0) == is_below ? ABOVE : BELOW;
}

static unsigned of_call(const struct walk *caller, const tc_op *op)
{
    const tc_func *f = tc_op_callee(op);
    struct walk w = {caller, op, caller->depth + 1};
    if (!f || w.depth == MOST_DEPTH)
        return 0;
    const tc_op *last = f->body->last;
    return last && last->code == TC_RETURN && last->nin == 1
               ? bounds_of(&w, last->in[0], 0)
               : 0;
}

static unsigned bounds_of(const struct walk *w, const tc_value *v,
                          unsigned depth)
{
    const tc_op *op = v->def;
    if (!op || depth == MOST_DEPTH)
        return 0;
    switch (op->code) {
    case TC_AND:
        return bounds_of(w, op->in[0], depth + 1) |
               bounds_of(w, op->in[1], depth + 1);
    case TC_CMP: return of_comparison(w, op, depth);
    case TC_CALL: return of_call(w, op);
    default: return 0;
    }
}

const char *tc_mask_class(const tc_module *m, const char *function)
{
    static const char *const classes[] = {
        "masked", [ABOVE] = "causal", [BELOW] = "masked",
        [ABOVE | BELOW] = "window"};
    const tc_func *f = tc_func_find(m, function);
    const struct walk w = {0};
    const tc_op *last = f ? f->body->last : NULL;
    bool returns = last && last->code == TC_RETURN && last->nin == 1;
    return classes[returns ? bounds_of(&w, last->in[0], 0) : 0];
}
