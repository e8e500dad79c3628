/* SPDX-License-Identifier: Apache-2.0
 *
 * The entry of a context's bundles that fits a request best.
 */
#include "lib/bundle/bundle.h"

#include "codegen/host/jit/cpus.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* How far lengths are from those that an entry was made for, in powers of two.
 */
static double distance(const tc_bundle_entry *e, const tc_bundle_request *r)
{
    double d = 0;
    for (unsigned i = 0; i < e->nsides && i < r->nsides; i++) {
        double a = (double)(e->sides[i] < 1 ? 1 : e->sides[i]),
               b = (double)(r->sides[i] < 1 ? 1 : r->sides[i]);
        d += fabs(log2(a / b));
    }
    return d;
}

/* Higher: better code. -1: it does not run where the request's target does. */
static int rank(const tc_bundle_entry *e, const tc_bundle_request *r)
{
    const tc_target *t = tc_target_get(e->target);
    if (!t || (t != r->target && !r->any_target))
        return -1;
    if (!tc_target_is_gpu(r->target))
        return t == r->target ? tc_host_cpu_rank(e->cpu) : -1;
    if (t == r->target)
        return 1 << 20;
    bool is_lesser =
        tc_target_is_gpu(t) && !t->exact &&
        (t->major < r->target->major ||
         (t->major == r->target->major && t->minor <= r->target->minor));
    return is_lesser ? (int)(t->major * 100 + t->minor) : -1;
}

static bool is_key(const tc_bundle_entry *e, const tc_bundle_request *r)
{
    return strcmp(e->kind, r->kind) == 0 && strcmp(e->key, r->key) == 0;
}

/* ---- Why there is none ---- */

/* Characters that two texts have in common at their ends. */
static size_t likeness(const char *a, const char *b)
{
    size_t i = 0, j = 0, na = strlen(a), nb = strlen(b);
    while (a[i] && a[i] == b[i])
        i++;
    while (j < na - i && j < nb - i && a[na - 1 - j] == b[nb - 1 - j])
        j++;
    return i + j;
}

static void explain(const tilec_context *cx, const tc_bundle_request *r,
                    char *why, size_t room)
{
    const tc_bundle_entry *near = NULL, *other = NULL;
    for (const tc_bundle *b = cx->bundles; b; b = b->next)
        for (unsigned i = 0; i < b->nentries; i++) {
            const tc_bundle_entry *e = &b->entries[i];
            if (strcmp(e->kind, r->kind) != 0)
                continue;
            if (is_key(e, r))
                other = e;
            if (!near || likeness(e->key, r->key) > likeness(near->key, r->key))
                near = e;
        }
    if (!cx->bundles)
        snprintf(why, room, "no bundle was loaded%s: tilec_bundle_load",
                 tc_the_compiler ? "" : ", and this library has no compiler");
    else if (other && *other->cpu)
        snprintf(why, room,
                 "the bundle has it for target %s and CPU %s, which is not "
                 "what this machine runs: make it for %s",
                 other->target, other->cpu, r->target->name);
    else if (other)
        snprintf(why, room,
                 "the bundle has it for target %s, which is not %s: make it "
                 "for that",
                 other->target, r->target->name);
    else if (near)
        snprintf(why, room,
                 "no bundle has %s `%s`; the nearest is `%s`: make one with "
                 "tilec compile --emit=bundle",
                 r->kind, r->key, near->key);
    else
        snprintf(why, room,
                 "no bundle has %s `%s`, or any %s: make one with tilec "
                 "compile --emit=bundle",
                 r->kind, r->key, r->kind);
}

const tc_bundle_entry *tc_bundle_find(const tilec_context *cx,
                                      const tc_bundle_request *r, char *why,
                                      size_t room)
{
    const tc_bundle_entry *best = NULL;
    int best_rank = -1;
    double best_distance = 0;
    for (const tc_bundle *b = cx->bundles; b; b = b->next)
        for (unsigned i = 0; i < b->nentries; i++) {
            const tc_bundle_entry *e = &b->entries[i];
            int n = is_key(e, r) ? rank(e, r) : -1;
            double d = n < 0 ? 0 : distance(e, r);
            if (n < 0 || (best && (n < best_rank ||
                                   (n == best_rank && d >= best_distance))))
                continue;
            best = e;
            best_rank = n;
            best_distance = d;
        }
    if (!best && why)
        explain(cx, r, why, room);
    return best;
}
