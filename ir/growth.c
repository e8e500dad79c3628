/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/growth.h"

#include <stdlib.h>

struct list {
    struct entry {
        tc_loc loc;
        uint64_t weight;
    } * entries;
    unsigned n;
    tc_weigh_fn *weigh;
};

static void add_region(struct list *l, const tc_region *r)
{
    tc_each_op (op, r) {
        uint64_t weight = l->weigh ? l->weigh(op) : 1;
        l->entries[l->n++] = (struct entry){op->loc, weight};
        for (unsigned i = 0; i < op->nregions; i++)
            add_region(l, op->regions[i]);
    }
}

static int by_place(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->loc.file != y->loc.file)
        return x->loc.file < y->loc.file ? -1 : 1;
    if (x->loc.line != y->loc.line)
        return x->loc.line < y->loc.line ? -1 : 1;
    return (x->loc.col > y->loc.col) - (x->loc.col < y->loc.col);
}

static bool is_line(const struct entry *a, const struct entry *b)
{
    return a->loc.file == b->loc.file && a->loc.line == b->loc.line;
}

static tc_share find_largest(struct list *l)
{
    tc_share most = {0};
    if (l->n)
        qsort(l->entries, l->n, sizeof *l->entries, by_place);
    for (unsigned i = 0, next; i < l->n; i = next) {
        uint64_t weight = 0;
        for (next = i;
             next < l->n && is_line(&l->entries[i], &l->entries[next]); next++)
            weight += l->entries[next].weight;
        most.total += weight;
        if (weight > most.weight) {
            most.weight = weight;
            most.loc = l->entries[i].loc;
        }
    }
    return most;
}

static unsigned count_funcs(const tc_module *m)
{
    unsigned n = 0;
    tc_each_func (f, m)
        n += tc_region_count(f->body);
    return n;
}

tc_share tc_growth_of_module(tc_arena *a, const tc_module *m,
                             tc_weigh_fn *weigh)
{
    struct list l = {tc_arena_array(a, struct entry, count_funcs(m)), 0, weigh};
    tc_each_func (f, m)
        add_region(&l, f->body);
    return find_largest(&l);
}

tc_share tc_growth_of_region(tc_arena *a, const tc_region *r,
                             tc_weigh_fn *weigh)
{
    struct list l = {tc_arena_array(a, struct entry, tc_region_count(r)), 0,
                     weigh};
    add_region(&l, r);
    return find_largest(&l);
}
