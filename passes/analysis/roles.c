/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/analysis/roles.h"

tc_op *tc_roles_of(const tc_func *f)
{
    tc_op *op = f->body->last;
    while (op && op->code != TC_WARP_GROUPS)
        op = op->prev;
    return op;
}

tc_op *tc_roles_around(const tc_op *op)
{
    tc_op *around = op->parent->op;
    while (around && around->code != TC_WARP_GROUPS)
        around = around->parent->op;
    return around;
}

tc_region *tc_producer(const tc_op *roles)
{
    return roles->regions[TC_PRODUCER_REGION];
}

tc_region *tc_consumers(const tc_op *roles)
{
    return roles->regions[TC_CONSUMERS_REGION];
}

tc_region *tc_transposer(const tc_op *roles)
{
    return roles->nregions > TC_TRANSPOSER_REGION
               ? roles->regions[TC_TRANSPOSER_REGION]
               : NULL;
}
