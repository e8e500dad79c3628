/* SPDX-License-Identifier: Apache-2.0
 *
 * A ring's records in the order of time. A ring that was written around begins
 * where the next record would go; that of a writer that did not end, where the
 * clock goes back.
 */
#include "tools/profile/profile.h"

#include "tools/common/doubles.h"

#include <stdlib.h>
#include <string.h>

static bool ended(const profile_ring *ring)
{
    return ring->head.next & TC_PROFILE_ENDED;
}

/* Clocks are the low 32 bits. */
static bool is_before(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) < 0;
}

static unsigned find_next(const recording *r, const profile_ring *ring)
{
    const tc_profile_record *c = ring->records;
    unsigned i = 0;
    while (i < r->records && c[i].mark &&
           (i == 0 || !is_before(c[i].clock, c[i - 1].clock)))
        i++;
    return i % r->records;
}

static long damaged(const recording *r, const profile_ring *ring,
                    const char *why)
{
    const profile_writer *w = &r->table.writers[ring->writer];
    report("the ring of program %u, %s %u: %s: record it again", ring->program,
           w->role, w->group, why);
    return -1;
}

long decode_ring(const recording *r, const profile_ring *ring,
                 profile_event **out)
{
    const char *role = r->table.writers[ring->writer].role;
    unsigned next = ended(ring) ? ring->head.next / sizeof *ring->records
                                : find_next(r, ring);
    if (next >= r->records)
        return damaged(r, ring, "its end lies outside of it");
    bool around = ring->records[next].mark != 0;
    unsigned n = around ? r->records : next, first = around ? next : 0;
    profile_event *e = *out = malloc((n + 1) * sizeof *e);
    if (!e)
        return damaged(r, ring, "there is no memory for it");
    for (unsigned i = 0; i < n; i++) {
        const tc_profile_record *c =
            &ring->records[(first + i) & (r->records - 1)];
        e[i].mark = c->mark;
        e[i].at = c->clock - ring->head.begin_clock;
        if (c->mark < 1 || c->mark > r->table.nmarks)
            return damaged(r, ring, "a record is of no mark of the kernel");
        if (strcmp(r->table.marks[c->mark - 1].role, role) != 0)
            return damaged(r, ring, "a record is of another role's mark");
        if (i && e[i].at < e[i - 1].at)
            return damaged(r, ring, "its clock goes back");
    }
    return n;
}

double decode_mhz(const recording *r)
{
    double *all = malloc((r->nrings + 1) * sizeof *all), mhz = 0;
    size_t n = 0;
    for (size_t i = 0; all && i < r->nrings; i++) {
        const tc_profile_head *h = &r->rings[i].head;
        if (ended(&r->rings[i]) && h->end_ns > h->begin_ns)
            all[n++] = 1e3 * (double)(uint32_t)(h->end_clock - h->begin_clock) /
                       (double)(h->end_ns - h->begin_ns);
    }
    if (n) {
        sort_doubles(all, n);
        mhz = all[n / 2];
    }
    free(all);
    return mhz;
}

bool loop_contains(const profile_table *t, int loop, int inner)
{
    while (inner >= 0 && inner != loop)
        inner = t->loops[inner].parent;
    return inner == loop;
}
