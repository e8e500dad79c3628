/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands of dots in an order that their instruction cannot take.
 *
 *   %v = load .. : tile<64x128 x f8e4m3>      a row in one piece
 *   dot(%p, %v)                               K is the slow axis of %v
 *
 * Elements of 16 bits are transposed on the way, by ldmatrix or by the
 * descriptors of wgmma; bytes are not. They are then read one by one, and by
 * threads, so that the product is not asynchronous either. All results are
 * right, only late: the kind of thing that is found by a profiler, or not.
 */
#include "passes/assign_layouts.h"
#include "passes/match.h"
#include "passes/mma.h"

#include <string.h>

static const char pass[] = "assign-layouts";

static const char *const words[] = {"warn", "off", "error"};

const char *tc_enforce_word(tc_enforce e)
{
    return words[e];
}

tc_enforce tc_enforce_parse(const char *word)
{
    unsigned e = 0;
    while (e < TC_ENFORCE_COUNT && strcmp(words[e], word) != 0)
        e++;
    return (tc_enforce)e;
}

/* "operand B, %v," or "operand B": what is loaded has a name. */
static const char *operand_name(const tc_placing *s, const tc_value *v,
                                unsigned i)
{
    const char *letter = i ? "B" : "A";
    const tc_value *tensor =
        v->def && v->def->code == TC_LOAD ? tc_accessed_tensor(v->def) : NULL;
    return tensor ? tc_arena_printf(s->scratch, "%s, a tile of %s,", letter,
                                    tc_value_name(s->cx, tensor))
                  : letter;
}

static const char *what_happens(const tc_placing *s, const tc_dot *d,
                                const tc_value *v, unsigned i)
{
    return tc_arena_printf(
        s->scratch,
        "dot: operand %s is read from shared memory byte by byte%s: %s wants "
        "%s, such as %s",
        operand_name(s, v, i),
        s->target->wgmma ? ", by a product that is not asynchronous" : "",
        s->target->wgmma ? "m64k32" : d->instr,
        i ? "each column in one piece" : "each row in one piece",
        i ? "trans of a tile with a row for each column of B"
          : "a tile that is not transposed");
}

static void say_remedies(const tc_placing *s, tc_loc loc)
{
    tc_note(s->cx, loc,
            "remedies: whatever makes the tensor stores it with K side by side "
            "(its last dim, or the one of contiguous(..) in its type); or a "
            "kernel transposes it beforehand; or its "
            "elements have 16 bits. --enforce=off accepts it as it is");
}

unsigned tc_tile_fast_axis(const tc_placing *s, const tc_value *tile)
{
    const tc_op *load = tc_match_op(tile, TC_LOAD);
    return load ? tc_axis_vector(s->axes, load).axis : tile->type->rank - 1;
}

bool tc_dot_is_k_major(const tc_placing *s, const tc_dot *d, unsigned i)
{
    const tc_value *v = d->op->in[i];
    const tc_op *trans = tc_match_op(v, TC_TRANS);
    unsigned fast = tc_tile_fast_axis(s, trans ? trans->in[0] : v);
    return (trans ? 1 - fast : fast) == 1 - i;
}

void tc_dot_enforce_major(tc_placing *s, const tc_dot *d, unsigned i)
{
    const tc_value *v = d->op->in[i];
    const tc_op *trans = tc_match_op(v, TC_TRANS);
    if (!tc_mma_is_k_major_only(d->instr) || tc_dot_is_k_major(s, d, i))
        return;
    const tc_value *from = trans ? trans->in[0] : v;
    const char *what = what_happens(s, d, from, i);
    tc_loc loc = d->op->loc;
    switch (s->env->options->enforce) {
    case TC_ENFORCE_ERROR: s->failed = !tc_error(s->cx, loc, "%s", what); break;
    case TC_ENFORCE_WARN: tc_warning(s->cx, loc, "%s", what); break;
    default: tc_remark(s->cx, loc, pass, "%s", what); return;
    }
    say_remedies(s, from->def ? from->def->loc : loc);
}
