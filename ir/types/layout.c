/* SPDX-License-Identifier: Apache-2.0
 *
 * Layouts as interned lists of modes: making, checking, applying.
 */
#include "ir/types/layout.h"

#include "ir/base/intern.h"

#include <assert.h>
#include <string.h>

/* ---- Specs ---- */

void tc_layout_spec_add_mode(tc_layout_spec *s, tc_input in,
                             const tc_mode *mode)
{
    /* One too many is remembered: the check says so. */
    if (s->nmodes[in] < TC_MAX_MODES)
        s->modes[in][s->nmodes[in]] = *mode;
    if (s->nmodes[in] <= TC_MAX_MODES)
        s->nmodes[in]++;
}

void tc_layout_spec_add(tc_layout_spec *s, tc_input in, uint32_t count,
                        unsigned axis, int32_t stride)
{
    tc_mode mode = {.count = count};
    if (axis < s->rank)
        mode.image[axis] = stride;
    tc_layout_spec_add_mode(s, in, &mode);
}

void tc_layout_spec_of(const tc_layout *l, tc_layout_spec *s)
{
    *s = (tc_layout_spec){.rank = l->rank};
    memcpy(s->shape, l->shape, sizeof s->shape);
    for (int in = 0; in < TC_INPUT_COUNT; in++) {
        s->nmodes[in] = l->nmodes[in];
        for (unsigned i = 0; i < l->nmodes[in]; i++)
            s->modes[in][i] = l->modes[in][i];
    }
}

/* Coordinates that are not there count as 0. */
static tc_mode trimmed(const tc_mode *m, unsigned rank)
{
    tc_mode t = {.count = m->count};
    for (unsigned a = 0; a < rank; a++)
        t.image[a] = m->image[a];
    return t;
}

/* Without modes of count 1, with even repeats as F2 modes below an odd one. */
static void split_evens(const tc_layout_spec *s, tc_layout_spec *out)
{
    *out = (tc_layout_spec){.rank = s->rank};
    memcpy(out->shape, s->shape, s->rank * sizeof *s->shape);
    for (int in = 0; in < TC_INPUT_COUNT; in++)
        for (unsigned i = 0; i < s->nmodes[in]; i++) {
            if (i == TC_MAX_MODES) {
                out->nmodes[in] = TC_MAX_MODES + 1;
                break;
            }
            tc_mode m = trimmed(&s->modes[in][i], s->rank);
            while (m.count > 1 && m.count % 2 == 0) {
                tc_mode f2 = m;
                f2.count = 2;
                tc_layout_spec_add_mode(out, (tc_input)in, &f2);
                m.count /= 2;
                for (unsigned a = 0; a < s->rank; a++)
                    m.image[a] = (int32_t)(2u * (uint32_t)m.image[a]);
            }
            if (m.count > 1)
                tc_layout_spec_add_mode(out, (tc_input)in, &m);
        }
}

static int32_t power_of_two_in(int32_t n)
{
    return n & -n;
}

static int32_t period_of(const tc_layout_spec *s, unsigned axis)
{
    int32_t bits = s->shape[axis];
    for (int in = 0; in < TC_INPUT_COUNT; in++)
        for (unsigned i = 0; i < s->nmodes[in]; i++)
            if (s->modes[in][i].count > 2)
                bits |= s->modes[in][i].image[axis];
    return power_of_two_in(bits);
}

/* ---- Interning ---- */

static bool same_modes(const tc_mode *a, const tc_mode *b, unsigned n)
{
    return n == 0 || memcmp(a, b, n * sizeof *a) == 0;
}

static bool same_layout(const void *stored, const void *key)
{
    const tc_layout *a = stored;
    const tc_layout_spec *b = key;
    if (a->rank != b->rank ||
        memcmp(a->shape, b->shape, sizeof a->shape) != 0 ||
        memcmp(a->nmodes, b->nmodes, sizeof a->nmodes) != 0)
        return false;
    for (int in = 0; in < TC_INPUT_COUNT; in++)
        if (!same_modes(a->modes[in], b->modes[in], a->nmodes[in]))
            return false;
    return true;
}

static uint64_t hash_of(const tc_layout_spec *s)
{
    uint64_t hash = tc_hash_bytes(s->rank, s->shape, s->rank * sizeof(int32_t));
    hash = tc_hash_bytes(hash, s->nmodes, sizeof s->nmodes);
    for (int in = 0; in < TC_INPUT_COUNT; in++)
        for (unsigned i = 0; i < s->nmodes[in]; i++) {
            const tc_mode *m = &s->modes[in][i];
            hash = tc_hash_bytes(hash, &m->count, sizeof m->count);
            hash = tc_hash_bytes(hash, m->image, s->rank * sizeof *m->image);
        }
    return hash;
}

const tc_layout *tc_layout_get(tc_context *cx, const tc_layout_spec *given)
{
    tc_layout_spec s;
    split_evens(given, &s);
    uint64_t hash = hash_of(&s);
    const tc_layout *found = tc_intern_find(cx->layouts, hash, same_layout, &s);
    if (found)
        return found;
    tc_layout *l = tc_arena_new(&cx->arena, tc_layout);
    l->cx = cx;
    l->rank = s.rank;
    memcpy(l->shape, s.shape, sizeof l->shape);
    for (unsigned a = 0; a < s.rank; a++)
        l->period[a] = period_of(&s, a);
    for (int in = 0; in < TC_INPUT_COUNT; in++) {
        assert(s.nmodes[in] <= TC_MAX_MODES);
        l->nmodes[in] = s.nmodes[in];
        l->modes[in] = tc_arena_copy(&cx->arena, s.modes[in],
                                     s.nmodes[in] * sizeof *s.modes[in]);
    }
    tc_intern_add(cx->layouts, &cx->arena, hash, l);
    return l;
}

/* ---- Meaning ---- */

uint32_t tc_layout_size(const tc_layout *l, tc_input in)
{
    uint32_t n = 1;
    for (unsigned i = 0; i < l->nmodes[in]; i++)
        n *= l->modes[in][i].count;
    return n;
}

bool tc_layout_is_shared(const tc_layout *l)
{
    /* One element has no offsets to tell apart; in registers it has lanes. */
    return l->nmodes[TC_OFFSET] > 0 ||
           l->nmodes[TC_REGISTER] + l->nmodes[TC_LANE] + l->nmodes[TC_WARP] ==
               0;
}

static void apply_mode(const tc_layout *l, const tc_mode *m, uint32_t digit,
                       int32_t coord[TC_MAX_RANK])
{
    for (unsigned a = 0; digit && a < l->rank; a++) {
        int32_t low = l->period[a] - 1;
        int32_t xored = coord[a] ^ (m->image[a] & low);
        coord[a] = xored + (int32_t)digit * (m->image[a] & ~low);
    }
}

void tc_layout_apply(const tc_layout *l, const uint32_t index[TC_INPUT_COUNT],
                     int32_t coord[TC_MAX_RANK])
{
    memset(coord, 0, TC_MAX_RANK * sizeof *coord);
    for (int in = 0; in < TC_INPUT_COUNT; in++) {
        uint32_t rest = index[in];
        for (unsigned i = 0; rest && i < l->nmodes[in]; i++) {
            const tc_mode *m = &l->modes[in][i];
            apply_mode(l, m, rest % m->count, coord);
            rest /= m->count;
        }
    }
}

/* ---- Checking ----
 *
 * All modes together must reach every element. Below the periods that is a
 * question of rank over F2. Above, each axis is a sum of digits times strides:
 * sorted by stride, none may be larger than what those before it reach. */

enum { MOST_ELEMENTS = 1 << 24 };
static const char *const input_names[TC_INPUT_COUNT] = {"register", "lane",
                                                        "warp", "offset"};

#define SAY(...) tc_arena_printf(&cx->diag_arena, __VA_ARGS__)

static const char *check_shape(tc_context *cx, const tc_layout_spec *s)
{
    int64_t n = 1;
    for (unsigned a = 0; a < s->rank; a++) {
        if (s->shape[a] < 1)
            return SAY("side %d of the tile is %d, expected at least 1", (int)a,
                       (int)s->shape[a]);
        n *= s->shape[a];
        if (n > MOST_ELEMENTS)
            return SAY("the tile has more than %d elements", MOST_ELEMENTS);
    }
    return NULL;
}

/* Products of counts; a layout may hold each element as often as it likes,
 * within reason. */
static const char *check_counts(tc_context *cx, const tc_layout_spec *s)
{
    for (int in = 0; in < TC_INPUT_COUNT; in++) {
        if (s->nmodes[in] > TC_MAX_MODES)
            return SAY("%s has more than %d modes", input_names[in],
                       TC_MAX_MODES);
        uint64_t n = 1;
        for (unsigned i = 0; i < s->nmodes[in]; i++) {
            if (s->modes[in][i].count == 0)
                return SAY("%s mode %u has count 0", input_names[in], i);
            n *= s->modes[in][i].count;
            if (n > MOST_ELEMENTS)
                return SAY("%s has more than %d values", input_names[in],
                           MOST_ELEMENTS);
        }
        if (in == TC_LANE && !s->nmodes[TC_OFFSET] && n != 32)
            return SAY("lane has %llu values, expected 32",
                       (unsigned long long)n);
    }
    if (s->nmodes[TC_OFFSET] &&
        (s->nmodes[TC_REGISTER] || s->nmodes[TC_LANE] || s->nmodes[TC_WARP]))
        return SAY("offset stands with register, lane or warp, expected one "
                   "or the other");
    return NULL;
}

/* Where the largest index of each mode lands. */
static const char *check_bounds(tc_context *cx, const tc_layout_spec *s,
                                unsigned axis)
{
    int64_t period = period_of(s, axis), low = 0, high = 0;
    for (int in = 0; in < TC_INPUT_COUNT; in++)
        for (unsigned i = 0; i < s->nmodes[in]; i++) {
            const tc_mode *m = &s->modes[in][i];
            int64_t v = m->image[axis];
            if (v < 0)
                return SAY("%s mode %u has a negative image", input_names[in],
                           i);
            low |= v & (period - 1);
            high += (v & ~(period - 1)) * (m->count - 1);
            if (low + high >= s->shape[axis])
                return SAY("%s mode %u leaves the tile along axis %u",
                           input_names[in], i, axis);
        }
    return NULL;
}

/* The part of an image below the periods, one axis next to the other. */
static uint32_t low_bits(const tc_layout_spec *s, const tc_mode *m)
{
    uint32_t bits = 0;
    unsigned shift = 0;
    for (unsigned a = 0; a < s->rank; a++) {
        uint32_t period = (uint32_t)period_of(s, a);
        bits |= ((uint32_t)m->image[a] & (period - 1)) << shift;
        shift += (unsigned)__builtin_ctz(period);
    }
    return bits;
}

/* On how many axes an image reaches the period. */
static unsigned count_high(const tc_layout_spec *s, const tc_mode *m)
{
    unsigned n = 0;
    for (unsigned a = 0; a < s->rank; a++)
        n += m->image[a] >= period_of(s, a);
    return n;
}

static const char *check_diagonals(tc_context *cx, const tc_layout_spec *s)
{
    for (int in = 0; in < TC_INPUT_COUNT; in++)
        for (unsigned i = 0; i < s->nmodes[in]; i++)
            if (count_high(s, &s->modes[in][i]) > 1)
                return SAY("%s mode %u adds along more than one axis",
                           input_names[in], i);
    return NULL;
}

static bool covers_low(const tc_layout_spec *s)
{
    uint32_t basis[32] = {0};
    unsigned rank = 0, wanted = 0;
    for (unsigned a = 0; a < s->rank; a++)
        wanted += (unsigned)__builtin_ctz((uint32_t)period_of(s, a));
    for (int in = 0; in < TC_INPUT_COUNT; in++)
        for (unsigned i = 0; i < s->nmodes[in]; i++) {
            if (count_high(s, &s->modes[in][i]))
                continue;
            uint32_t v = low_bits(s, &s->modes[in][i]);
            while (v && basis[__builtin_clz(v)])
                v ^= basis[__builtin_clz(v)];
            if (v) {
                basis[__builtin_clz(v)] = v;
                rank++;
            }
        }
    return rank == wanted;
}

static bool covers_high(const tc_layout_spec *s, unsigned axis)
{
    int64_t period = period_of(s, axis), reach = 1, before;
    do {
        before = reach;
        for (int in = 0; in < TC_INPUT_COUNT; in++)
            for (unsigned i = 0; i < s->nmodes[in]; i++) {
                const tc_mode *m = &s->modes[in][i];
                int64_t stride = m->image[axis] / period;
                int64_t most = stride * m->count;
                if (stride > 0 && stride <= reach && most > reach)
                    reach = stride * (m->count - 1) + reach;
            }
    } while (reach > before);
    return reach * period >= s->shape[axis];
}

const char *tc_layout_check(tc_context *cx, const tc_layout_spec *given)
{
    const char *why = check_shape(cx, given);
    if (!why)
        why = check_counts(cx, given);
    if (why)
        return why;
    tc_layout_spec s;
    split_evens(given, &s);
    why = check_counts(cx, &s);
    for (unsigned a = 0; !why && a < s.rank; a++)
        why = check_bounds(cx, &s, a);
    if (!why)
        why = check_diagonals(cx, &s);
    for (unsigned a = 0; !why && a < s.rank; a++)
        if (!covers_high(&s, a))
            why = SAY("some elements along axis %u are held nowhere", a);
    if (!why && !covers_low(&s))
        why = SAY("some elements are held nowhere");
    uint64_t places = 1, elements = 1;
    for (unsigned i = 0; !why && i < s.nmodes[TC_OFFSET]; i++)
        places *= s.modes[TC_OFFSET][i].count;
    for (unsigned a = 0; !why && a < s.rank; a++)
        elements *= (uint64_t)s.shape[a];
    if (!why && s.nmodes[TC_OFFSET] && places != elements)
        why = SAY("offset has %llu values for %llu elements, expected one each",
                  (unsigned long long)places, (unsigned long long)elements);
    return why;
}
