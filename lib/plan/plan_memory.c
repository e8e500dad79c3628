/* SPDX-License-Identifier: Apache-2.0
 *
 * Places the tensors of a workspace: the largest first, each at the lowest
 * offset that no tensor in use at the same time occupies.
 *
 *     step      0 1 2 3 4        0       4k      6k
 *     a 4k      #####            [  a    ][ b   ]
 *     b 2k        #######        [ c ]
 *     c 1k            #####      6k in all
 */
#include "lib/program/plan.h"

static bool meet_in_time(const tc_piece *a, const tc_piece *b)
{
    return a->first <= b->last && b->first <= a->last;
}

static bool meet_in_place(const tc_piece *a, const tc_piece *b)
{
    return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

static uint64_t round_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

static bool goes_before(const tc_piece *p, unsigned a, unsigned b)
{
    return p[a].bytes > p[b].bytes || (p[a].bytes == p[b].bytes && a < b);
}

/* Moves `p` past all tensors that are in its way, one after the other, until a
 * look at those placed before does not move it any more. */
static void plan_memory_place(tc_piece *pieces, unsigned n, unsigned at)
{
    tc_piece *p = &pieces[at];
    bool moved = true;
    p->offset = 0;
    while (moved) {
        moved = false;
        for (unsigned i = 0; i < n; i++) {
            const tc_piece *other = &pieces[i];
            if (i == at || !other->is_used || !goes_before(pieces, i, at) ||
                !meet_in_time(p, other) || !meet_in_place(p, other))
                continue;
            p->offset = round_up(other->offset + other->bytes, p->align);
            moved = true;
        }
    }
}

uint64_t tc_pieces_place(tc_piece *pieces, unsigned n)
{
    uint64_t total = 0;
    for (unsigned turn = 0; turn < n; turn++) {
        /* The tensor with `turn` others before it. */
        for (unsigned i = 0; i < n; i++) {
            unsigned before = 0;
            for (unsigned k = 0; k < n; k++)
                before += k != i && goes_before(pieces, k, i);
            if (before != turn || !pieces[i].is_used)
                continue;
            plan_memory_place(pieces, n, i);
            uint64_t end = pieces[i].offset + pieces[i].bytes;
            total = end > total ? end : total;
        }
    }
    return total;
}
