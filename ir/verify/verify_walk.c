/* SPDX-License-Identifier: Apache-2.0
 *
 * The walk over a function: structure, uses, dominance (verify.c, rules 11 to
 * 16). It trusts nothing: a list or region whose links are wrong is reported
 * and not entered.
 */
#include "ir/verify/verify.h"

#include <string.h>

/* ---- Values ---- */

static const char *describe(const tc_verifier *v, const tc_value *value)
{
    const char *name = value->name ? value->name : "";
    return tc_arena_printf(&v->cx->diag_arena, "%s %u%s%s",
                           value->def ? "result" : "argument", value->index,
                           *name ? ", %" : "", name);
}

/* The op stands in v->f, through all its parents. (Those of a broken program
 * may go in a circle.) */
static bool is_attached(const tc_verifier *v, const tc_op *op)
{
    enum { MOST_PARENTS = 1000 };
    for (unsigned i = 0; op && op->parent && i < MOST_PARENTS; i++) {
        const tc_region *r = op->parent;
        if (!r->op)
            return r == v->f->body || r == v->f->grid;
        op = r->op;
    }
    return false;
}

static bool check_uses(const tc_verifier *v, const tc_value *value, tc_loc loc,
                       const char *owner)
{
    const tc_use *prev = NULL;
    for (const tc_use *u = value->uses; u; prev = u, u = u->next) {
        bool sound = u->prev == prev && u->op && u->index < u->op->nin &&
                     &u->op->uses[u->index] == u &&
                     u->op->in[u->index] == value;
        if (!sound)
            return tc_error(v->cx, loc,
                            "%s: %s has a broken list of uses, expected each "
                            "to be an operand that is this value",
                            owner, describe(v, value));
        if (!is_attached(v, u->op))
            return tc_error(v->cx, loc,
                            "%s: %s is used by %s, which stands nowhere in "
                            "@%s, expected it to be erased",
                            owner, describe(v, value), tc_op_name(u->op),
                            v->f->name);
    }
    return true;
}

/* Does an operand of the op that makes the value have the same problem? */
static bool is_inherited(const tc_verifier *v, const tc_value *value,
                         const char *problem)
{
    const tc_op *op = value->def ? value->def : value->region->op;
    for (unsigned i = 0; op && i < op->nin; i++) {
        const tc_type *t = op->in[i] ? op->in[i]->type : NULL;
        const char *cause = t ? tc_type_problem(v->f, t) : NULL;
        if (cause && strcmp(cause, problem) == 0)
            return true;
    }
    return false;
}

/* The same side is wrong in what is loaded, computed and stored: one mistake,
 * one error. */
static bool is_said(tc_verifier *v, const tc_value *value, const char *problem)
{
    enum { MOST = sizeof v->bad_sides / sizeof *v->bad_sides };
    if (v->cx->nerrors && is_inherited(v, value, problem))
        return true;
    const tc_dim *side = tc_type_bad_side(v->f, value->type);
    for (unsigned i = 0; side && i < v->nbad_sides; i++)
        if (v->bad_sides[i] == side)
            return true;
    if (side && v->nbad_sides < MOST)
        v->bad_sides[v->nbad_sides++] = side;
    return false;
}

/* Where the text writes that side; else the place of the value. */
static tc_loc loc_of_problem(const tc_verifier *v, const tc_value *value,
                             tc_loc loc)
{
    const tc_op *op = value->def;
    const tc_dim *side = tc_type_bad_side(v->f, value->type);
    const tc_attr *sides =
        side && op && op->code == TC_BLOCK ? tc_op_attr(op, "sides") : NULL;
    for (unsigned i = 0; sides && i < sides->n; i++)
        if (sides->dims[i] == side)
            return tc_op_in_loc(op, 1 + i);
    return loc;
}

static bool check_value(tc_verifier *v, const tc_value *value, tc_loc loc,
                        const char *owner)
{
    const char *problem = tc_type_problem(v->f, value->type);
    v->broken |= !value->type;
    if (problem && !value->type)
        return tc_error(v->cx, loc, "%s: %s has no type", owner,
                        describe(v, value));
    bool ok = check_uses(v, value, loc, owner);
    if (problem && !is_said(v, value, problem))
        tc_error(v->cx, loc_of_problem(v, value, loc), "%s: %s is %s: %s",
                 owner, describe(v, value), tc_type_name(v->cx, value->type),
                 problem);
    return ok && !problem;
}

static void open_value(tc_verifier *v, tc_value *value)
{
    value->data = v;
}

/* ---- Operands ---- */

/* Why an operand cannot be used here. */
static const char *why_not_visible(const tc_verifier *v, const tc_value *value,
                                   const tc_op *op)
{
    const tc_region *r = value->def ? value->def->parent : value->region;
    if (!r)
        return "it comes from an op that stands nowhere";
    if (r->func != v->f)
        return "it belongs to another function";
    if (value->def && r == op->parent)
        return value->def == op ? "it is this op's own result"
                                : "it is defined later";
    for (const tc_region *at = op->parent; at;
         at = at->op ? at->op->parent : NULL)
        if (at == r)
            return "it is defined later";
    return "it is defined in a region that does not enclose this op";
}

static bool check_operand(tc_verifier *v, const tc_op *op, unsigned i)
{
    const tc_value *value = op->in[i];
    const tc_use *u = &op->uses[i];
    v->broken |= !value;
    if (!value)
        return tc_error(v->cx, op->loc, "%s: operand %u is missing",
                        tc_op_name(op), i);
    bool linked = u->op == op && u->index == i &&
                  (u->prev ? u->prev->next == u : value->uses == u) &&
                  (!u->next || u->next->prev == u);
    bool ok = linked ||
              tc_error(v->cx, op->loc,
                       "%s: operand %u (%s) is not in the list of uses of its "
                       "value",
                       tc_op_name(op), i, describe(v, value));
    if (value->data != v) {
        ok = tc_error(v->cx, tc_op_in_loc(op, i),
                      "%s: operand %u (%s) cannot be used here: %s",
                      tc_op_name(op), i, describe(v, value),
                      why_not_visible(v, value, op));
        if (value->loc.file)
            tc_note(v->cx, value->loc, "it is defined here");
    }
    return ok;
}

/* An operand without a usable type would be reported again and again. */
static bool has_types(const tc_verifier *v, const tc_op *op)
{
    for (unsigned i = 0; i < op->nin; i++)
        if (!op->in[i] || tc_type_problem(v->f, op->in[i]->type))
            return false;
    for (unsigned i = 0; i < op->nout; i++)
        if (!op->out[i] || tc_type_problem(v->f, op->out[i]->type))
            return false;
    return true;
}

/* ---- Attributes: what tc_op_check_signature takes for granted ---- */

static bool attr_has_content(const tc_attr *a)
{
    switch (a->kind) {
    case TC_ATTR_STRING:
    case TC_ATTR_SYMBOL: return a->s;
    case TC_ATTR_INTS: return a->n == 0 || a->ints;
    case TC_ATTR_LAYOUT: return a->layout;
    case TC_ATTR_DIMS: return a->n == 0 || a->dims;
    case TC_ATTR_STRINGS:
        for (unsigned i = 0; i < a->n; i++)
            if (!a->strings || !a->strings[i])
                return false;
        return true;
    default: return true;
    }
}

static bool check_attrs(const tc_verifier *v, const tc_op *op)
{
    bool ok = true;
    unsigned n = tc_op_nattrs(op->code);
    for (unsigned i = 0; i < n; i++) {
        const tc_attr *a = &op->attrs[i];
        tc_attr_decl decl = tc_op_attr_decl(op->code, i);
        if (!attr_has_content(a))
            ok = tc_error(v->cx, op->loc, "%s: attribute `%s` is empty",
                          tc_op_name(op), decl.name);
        for (unsigned k = 0; ok && a->kind == TC_ATTR_DIMS && k < a->n; k++) {
            const char *problem =
                a->dims[k] ? tc_dim_problem(v->f, a->dims[k]) : NULL;
            if (problem)
                ok = tc_error(v->cx, op->loc, "%s: attribute `%s`: %s",
                              tc_op_name(op), decl.name, problem);
        }
    }
    return ok;
}

/* ---- Ops ---- */

static bool check_results(tc_verifier *v, const tc_op *op)
{
    bool ok = true;
    for (unsigned i = 0; i < op->nout; i++) {
        const tc_value *out = op->out[i];
        v->broken |= !out;
        if (!out || out->def != op || out->index != i)
            return tc_error(v->cx, op->loc,
                            "%s: result %u is not linked to its op",
                            tc_op_name(op), i);
        ok &= check_value(v, out, op->loc, tc_op_name(op));
        if (out->type && out->type->kind == TC_TENSOR &&
            op->code != TC_WORKSPACE && op->code != TC_MAKE_TENSOR)
            ok = tc_error(v->cx, op->loc,
                          "%s: result %u is %s, expected no tensor (tensors "
                          "are parameters, or made by `tensor`)",
                          tc_op_name(op), i, tc_type_name(v->cx, out->type));
    }
    return ok;
}

static bool is_scalar_op(const tc_op *op)
{
    for (unsigned i = 0; i < op->nout; i++)
        if (op->out[i] && op->out[i]->type &&
            !tc_type_is_scalar(op->out[i]->type))
            return false;
    return true;
}

/* Adds to memory, which adding zeros leaves as it was; or keeps an order of
 * that. */
static bool only_adds(const tc_op *op)
{
    if (op->code == TC_FOLLOW || op->code == TC_FOLLOW_END)
        return true;
    bool has_kind = op->code == TC_STORE || op->code == TC_ATOMIC;
    if (!has_kind || !tc_op_is_word(op, "kind", "add"))
        return false;
    for (unsigned i = 0; i < op->nout; i++)
        if (op->out[i] && op->out[i]->uses)
            return false;
    return true;
}

/* The host knows no addresses. */
static bool has_pointers(const tc_op *op)
{
    bool any = false;
    for (unsigned i = 0; i < op->nin; i++)
        any |= op->in[i] && op->in[i]->type &&
               tc_type_elem(op->in[i]->type)->kind == TC_PTR;
    for (unsigned i = 0; i < op->nout; i++)
        any |= op->out[i] && op->out[i]->type &&
               tc_type_elem(op->out[i]->type)->kind == TC_PTR;
    return any;
}

bool tc_verify_fits_grid(const tc_op *op)
{
    bool launched = op->code == TC_PROGRAM_ID || op->code == TC_NUM_PROGRAMS;
    return op->code == TC_ASSERT ||
           (tc_op_has(op, TC_PURE) && !op->nregions && !launched &&
            !has_pointers(op) && is_scalar_op(op));
}

/* Checks the places of ops: in a grid region, in the region of a `reduce`, and
 * where they may run although the condition is false. */
static bool check_place(const tc_verifier *v, const tc_op *op)
{
    if (tc_op_has(op, TC_TERMINATOR))
        return true;
    bool ok = tc_verify_plan_place(v, op);
    if (op->code == TC_NUM_SMS && !v->in_grid)
        ok =
            tc_error(v->cx, op->loc,
                     "num_sms: expected it in a grid, which the host computes");
    if (v->in_grid && !tc_verify_fits_grid(op) && op->code != TC_CALL)
        ok = tc_error(v->cx, op->loc,
                      "%s: cannot stand in a grid, expected pure ops on "
                      "scalars and sizes, or assert",
                      tc_op_name(op));
    /* Calls are inlined and looked at again. */
    bool nested = op->nregions > 0 || tc_op_is_call(op);
    if (v->combiner &&
        (!(tc_op_has(op, TC_PURE) || nested) || !is_scalar_op(op) ||
         op->code == TC_WHILE || tc_op_combines(op)))
        ok = tc_error(v->cx, op->loc,
                      "%s: cannot stand in the region of %s, expected pure "
                      "ops on scalars",
                      tc_op_name(op), tc_op_name(v->combiner));
    if (v->speculated && tc_op_has(op, TC_WRITES) && !only_adds(op))
        ok = tc_error(v->cx, op->loc,
                      "%s: it has an effect, and stands in the first region of "
                      "an `if` that is speculatable",
                      tc_op_name(op));
    return ok;
}

/* Stops where check_links stopped: nothing after that was opened. */
static void close_region(const tc_verifier *v, tc_region *r)
{
    for (unsigned i = 0; i < r->nargs; i++)
        if (r->args[i])
            r->args[i]->data = NULL;
    const tc_op *prev = NULL;
    for (tc_op *op = r->first; op && op->prev == prev && op->parent == r;
         prev = op, op = op->next)
        for (unsigned i = 0; i < op->nout; i++)
            if (op->out[i] && op->out[i]->data == v)
                op->out[i]->data = NULL;
}

static bool walk_region(tc_verifier *v, tc_region *r);

static bool check_regions(tc_verifier *v, tc_op *op)
{
    const tc_op *outer = v->combiner;
    bool speculated = v->speculated;
    bool speculatable =
        op->code == TC_IF && op->attrs && tc_op_int(op, "speculatable");
    if (tc_op_combines(op))
        v->combiner = op;
    /* The second region of `while` sees the values of the first. */
    tc_region *open = NULL;
    bool ok = true;
    for (unsigned i = 0; i < op->nregions; i++) {
        tc_region *r = op->regions[i];
        if (!r || r->op != op || r->func != v->f) {
            v->broken = true;
            ok = tc_error(v->cx, op->loc,
                          "%s: region %u is not linked to its op",
                          tc_op_name(op), i);
            break;
        }
        v->speculated = speculated || (speculatable && i == 0);
        ok &= walk_region(v, r);
        if (op->code == TC_WHILE && i == 0)
            open = r;
        else
            close_region(v, r);
    }
    if (open)
        close_region(v, open);
    v->combiner = outer;
    v->speculated = speculated;
    return ok;
}

static bool is_placed(const tc_op *op)
{
    bool placed = tc_op_has(op, TC_MACHINE);
    for (unsigned i = 0; i < op->nout; i++)
        placed |= op->out[i] && op->out[i]->type && op->out[i]->type->layout;
    return placed;
}

/* Layouts are of known types: what has parameters is at tile level. */
static bool check_generic(tc_verifier *v, const tc_op *op)
{
    if (v->f->nparams == 0 || !is_placed(op))
        return true;
    if (!v->refused_generic)
        tc_error(v->cx, op->loc,
                 "%s: at machine level, in a function with compile-time "
                 "parameters: expected them to be bound before tiles get "
                 "layouts",
                 tc_op_name(op));
    v->refused_generic = true;
    return false;
}

static bool check_op(tc_verifier *v, tc_op *op)
{
    bool attrs = check_attrs(v, op), ok = attrs;
    for (unsigned i = 0; i < op->nin; i++)
        ok &= check_operand(v, op, i);
    ok &= check_results(v, op);
    ok &= check_place(v, op);
    /* Rules about types look at sound ops only: no rule has to expect the
     * worst, and one mistake is reported once. */
    bool typed = check_generic(v, op) && has_types(v, op);
    ok &= typed;
    bool sound = typed && attrs && tc_op_check_signature(op) &&
                 tc_verify_op_rules(v, op);
    bool regions = check_regions(v, op);
    if (sound && !(op->nregions && v->broken))
        sound = tc_op_check_results(op);
    if (sound && tc_op_has(op, TC_TERMINATOR))
        sound = tc_verify_terminator(v, op);
    return ok && sound && regions;
}

/* ---- Regions ---- */

/* Whether the list of ops can be walked at all. */
static bool links_are_right(const tc_verifier *v, const tc_region *r)
{
    const tc_op *prev = NULL;
    for (const tc_op *op = r->first; op; prev = op, op = op->next) {
        if (op->prev != prev)
            return tc_error(v->cx, op->loc, "%s: the list of ops is broken",
                            tc_region_name(v->cx, r));
        if (op->code >= TC_OPCODE_COUNT)
            return tc_error(v->cx, op->loc, "%s: op number %d is not known",
                            tc_region_name(v->cx, r), (int)op->code);
        if (op->parent != r || op->func != v->f)
            return tc_error(v->cx, op->loc,
                            "%s: %s is not linked to its region or function",
                            tc_region_name(v->cx, r), tc_op_name(op));
    }
    return r->last == prev ||
           tc_error(v->cx, prev ? prev->loc : v->f->loc,
                    "%s: the list of ops is broken", tc_region_name(v->cx, r));
}

static bool check_links(tc_verifier *v, const tc_region *r)
{
    if (links_are_right(v, r))
        return true;
    v->broken = true;
    return false;
}

static tc_loc loc_of_region(const tc_verifier *v, const tc_region *r)
{
    return r->last ? r->last->loc : r->op ? r->op->loc : v->f->loc;
}

static bool check_args(tc_verifier *v, tc_region *r)
{
    bool ok = true;
    tc_loc loc = r->op ? r->op->loc : v->f->loc;
    for (unsigned i = 0; i < r->nargs; i++) {
        tc_value *arg = r->args[i];
        if (!arg || arg->region != r || arg->def || arg->index != i)
            return tc_error(v->cx, loc,
                            "%s: argument %u is not linked to its region",
                            tc_region_name(v->cx, r), i);
        ok &= check_value(v, arg, arg->loc.file ? arg->loc : loc,
                          tc_region_name(v->cx, r));
        open_value(v, arg);
    }
    return ok;
}

static bool check_end(const tc_verifier *v, const tc_region *r)
{
    bool ok = true;
    const char *want = tc_op_infos[tc_expected_terminator(r)].name;
    tc_each_op (op, r)
        if (op != r->last && tc_op_has(op, TC_TERMINATOR))
            ok = tc_error(v->cx, op->loc,
                          "%s: stands before the end of its region, expected "
                          "it to be the last op",
                          tc_op_name(op));
    if (!r->last)
        return tc_error(v->cx, loc_of_region(v, r),
                        "%s: is empty, expected it to end in %s",
                        tc_region_name(v->cx, r), want);
    if (r->last->code != tc_expected_terminator(r))
        ok = tc_error(v->cx, loc_of_region(v, r), "%s: ends in %s, expected %s",
                      tc_region_name(v->cx, r), tc_op_name(r->last), want);
    return ok;
}

static bool walk_region(tc_verifier *v, tc_region *r)
{
    if (v->depth == TC_MAX_DEPTH)
        return tc_error(v->cx, loc_of_region(v, r),
                        "%s: nested too deeply, expected at most %d regions",
                        tc_region_name(v->cx, r), TC_MAX_DEPTH);
    if (!check_links(v, r))
        return false;
    v->depth++;
    bool ok = check_args(v, r);
    tc_each_op (op, r) {
        ok &= check_op(v, op);
        for (unsigned i = 0; i < op->nout; i++)
            if (op->out[i])
                open_value(v, op->out[i]);
    }
    ok &= check_end(v, r);
    v->depth--;
    return ok;
}

bool tc_verify_region(tc_verifier *v, tc_region *r)
{
    bool ok = walk_region(v, r);
    close_region(v, r);
    return ok;
}
