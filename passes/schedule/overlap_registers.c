/* SPDX-License-Identifier: Apache-2.0
 *
 * The registers that a step needs, and those that a thread has.
 */
#include "passes/schedule/overlap_mma.h"

#include "ir/types/layout.h"
#include "passes/analysis/roles.h"
#include "passes/target/machine_model.h"

static int64_t registers_of(const tc_type *t)
{
    if (t->kind != TC_TILE || !t->layout)
        return 0;
    return (int64_t)tc_layout_size(t->layout, TC_REGISTER) *
           tc_type_bytes(t->elem) / 4;
}

/* Roles that share registers unequally; NULL: none. */
static tc_op *roles_around(const tc_op *loop)
{
    tc_op *op = tc_roles_around(loop);
    const tc_attr *a = op ? tc_op_attr(op, "registers") : NULL;
    return a && a->kind != TC_ATTR_NONE ? op : NULL;
}

/* Of a thread that runs the step. */
static int64_t registers_there(const tc_step *s)
{
    const tc_op *roles = roles_around(s->loop);
    return roles ? tc_op_attr(roles, "registers")->ints[1]
                 : s->target->max_registers;
}

void tc_take_registers(const tc_step *s)
{
    tc_op *roles = roles_around(s->loop);
    if (!roles)
        return;
    const int64_t *has = tc_op_attr(roles, "registers")->ints;
    tc_role_registers r = {has[0], has[1]};
    if (!tc_lend_registers(tc_warpgroups(roles->func->warps), &r))
        return;
    const int64_t registers[] = {r.producer, r.consumer};
    tc_op_set_ints(roles, "registers", 2, registers);
}

static bool is_needed_late(const tc_step *s, const tc_part *p)
{
    for (unsigned i = 0; i < s->nparts; i++)
        if (s->parts[i]->stage == 1)
            for (unsigned k = 0; k < s->parts[i]->nuses; k++)
                if (tc_part_of(s, s->parts[i]->uses[k]) == p)
                    return true;
    return false;
}

bool tc_adds_to_product(const tc_step *s, const tc_part *p)
{
    const tc_part *sum = tc_part_of(s, p->op->in[2]);
    return sum && sum->kind == TC_PART_PRODUCT;
}

/* Registers of tiles that are live when all products of an iteration's start
 * are in flight: carried values, sums, rows read from shared memory, and what
 * the previous step has left for its own product. */
static int64_t registers_in_turn(const tc_step *s)
{
    int64_t sum = 0;
    for (unsigned i = 0; i < s->loop->nout; i++)
        sum += registers_of(s->loop->out[i]->type);
    for (unsigned i = 0; i < s->nparts; i++) {
        const tc_part *p = s->parts[i];
        const tc_type *t = p->op->nout ? p->op->out[0]->type : NULL;
        bool adds = p->kind == TC_PART_PRODUCT &&
                    (!p->op->in[2]->def || tc_adds_to_product(s, p));
        if ((tc_is_root(p) && !adds) || p->op->code == TC_SMEM_LOAD)
            sum += registers_of(t);
        else if (p->kind == TC_PART_PLAIN && p->stage == 0 && t && !p->late &&
                 is_needed_late(s, p))
            sum += registers_of(t);
    }
    return sum;
}

const char *tc_why_no_room(tc_step *s)
{
    int64_t most = registers_there(s),
            sum = registers_in_turn(s) + TC_SPARE_REGISTERS;
    if (sum <= most || tc_op_is_word(s->loop, "schedule", "modulo"))
        return NULL;
    return tc_arena_printf(s->arena,
                           "their tiles would take %lld registers with %d "
                           "others, expected at most %lld",
                           (long long)sum, TC_SPARE_REGISTERS, (long long)most);
}
