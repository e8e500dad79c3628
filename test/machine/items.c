/* SPDX-License-Identifier: Apache-2.0
 *
 * Work items of attention over a cache (kernels/attention_kvcache.tile), dealt
 * otherwise than @kvcache_schedule does: any piece in any place, pieces without
 * keys, items of nothing in between.
 */
#include "test/machine/items.h"

typedef struct dealer {
    const problem *p;
    num_tensor *items;
    int columns, pieces, merged; /* of them, so far */
} dealer;

static int side(const dealer *d, char letter)
{
    return d->p->size[letter - 'A'];
}

static void set(const dealer *d, int row, int column, int x)
{
    num_write(NUM_I32, num_at(d->items, (int64_t)row * side(d, 'I') + column),
              x);
}

/* All keys, none, one, some. */
static int keys_of(const dealer *d, int b)
{
    const int n[] = {side(d, 'K'), 0, side(d, 'K') / 2 + 1, 1};
    return n[b % 4];
}

static void deal(dealer *d, int b, int row, int piece, int pieces)
{
    int n = keys_of(d, b), heads = side(d, 'H') / side(d, 'G');
    /* Of three pieces or more the last ones may begin after the last key. */
    int length = (n + pieces - 1) / pieces + (pieces > 2 ? 16 : 0);
    int end = (piece + 1) * length < n ? (piece + 1) * length : n;
    int column = (d->columns++ * 5 + 2) % side(d, 'I');
    const int rows[] = {b,         n,         piece * length,
                        end,       pieces,    piece,
                        d->pieces, d->merged, b,
                        0,         row,       side(d, 'M') * heads};
    for (int i = 0; i < 12; i++)
        set(d, i, column, rows[i]);
    if (piece == 0 && pieces > 1)
        set(d, 12, d->merged, column);
}

/* A block of rows: of every third sequence one piece. */
static void deal_block(dealer *d, int b, int row)
{
    int pieces = b % 3 == 1 ? 1 : side(d, 'Q');
    for (int i = 0; i < pieces; i++)
        deal(d, b, row, i, pieces);
    d->pieces += pieces > 1 ? pieces : 0;
    d->merged += pieces > 1;
}

void deal_items(const problem *p, num_tensor *items)
{
    static const int nothing[13] = {[4] = 1, [12] = -1}; /* in one piece */
    dealer d = {.p = p, .items = items};
    int rows = side(&d, 'M') * side(&d, 'H') / side(&d, 'G');
    for (int i = 0; i < side(&d, 'I'); i++)
        for (int row = 0; row < 13; row++)
            set(&d, row, i, nothing[row]);
    for (int b = 0; b < side(&d, 'B'); b++)
        for (int row = 0; row < rows; row += side(&d, 'V'))
            deal_block(&d, b, row);
}
