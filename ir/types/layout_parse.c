/* SPDX-License-Identifier: Apache-2.0
 *
 * Text to layouts:
 *
 *   layout := #mma(WxW) | #mma_a(WxW) | #mma_b(WxW)
 *           | #wgmma(WxW) | #wgmma_a(WxW)
 *           | #blocked(N x.., N x.., N x.. [, order(AXIS, ..)])
 *           | #rows [(order(..))] | #swizzle128 | #swizzle64 | #swizzle32
 *           | #xor(N, N, N [, order(..)])
 *           | #slice(AXIS of SIDE, layout) | #expand(AXIS, layout)
 *           | #reorder(AXIS, BIT BIT .., layout)
 *           | #bases(register [mode, ..], lane [..], warp [..])
 *           | #bases(offset [mode, ..])
 *   mode   := [COUNT *] (N, ..)
 */
#include "ir/types/layout.h"

#include <string.h>

typedef struct reader {
    tc_context *cx;
    const char *text;
    size_t len, at;
    tc_loc loc;
    unsigned depth; /* of layouts within layouts */
} reader;

/* The tile or buffer of the layout. */
typedef struct subject {
    unsigned rank, bits;
    int32_t shape[TC_MAX_RANK];
} subject;

static tc_loc loc_of(const reader *r, size_t at)
{
    tc_loc loc = r->loc;
    loc.end = 0;
    for (size_t i = 0; i < at; i++) {
        loc.col++;
        if (r->text[i] == '\n') {
            loc.line++;
            loc.col = 1;
        }
    }
    return loc;
}

#define COMPLAIN(r, at, ...) tc_error((r)->cx, loc_of(r, at), __VA_ARGS__)

/* ---- Tokens ---- */

static void skip_blanks(reader *r)
{
    while (r->at < r->len && strchr(" \t\r\n", r->text[r->at]) &&
           r->text[r->at])
        r->at++;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           c == '_';
}

static bool accept(reader *r, char c)
{
    skip_blanks(r);
    if (r->at == r->len || r->text[r->at] != c)
        return false;
    r->at++;
    return true;
}

/* The text here, for a message. */
static const char *found(reader *r)
{
    skip_blanks(r);
    size_t n = 0;
    while (r->at + n < r->len && is_word(r->text[r->at + n]) && n < 32)
        n++;
    if (n == 0 && r->at < r->len)
        n = 1;
    if (n == 0)
        return "the end";
    return tc_arena_printf(&r->cx->diag_arena, "`%.*s`", (int)n,
                           r->text + r->at);
}

static bool expect(reader *r, char c)
{
    return accept(r, c) ||
           COMPLAIN(r, r->at, "layout: found %s, expected `%c`", found(r), c);
}

static bool accept_word(reader *r, const char *word)
{
    skip_blanks(r);
    size_t n = strlen(word);
    if (r->len - r->at < n || memcmp(r->text + r->at, word, n) != 0 ||
        (r->len - r->at > n && is_word(r->text[r->at + n])))
        return false;
    r->at += n;
    return true;
}

static bool expect_word(reader *r, const char *word)
{
    return accept_word(r, word) ||
           COMPLAIN(r, r->at, "layout: found %s, expected `%s`", found(r),
                    word);
}

static bool read_number(reader *r, int32_t *out)
{
    skip_blanks(r);
    int64_t n = 0;
    size_t begin = r->at;
    while (r->at < r->len && is_digit(r->text[r->at])) {
        n = 10 * n + (r->text[r->at++] - '0');
        if (n > INT32_MAX)
            return COMPLAIN(r, begin, "layout: the number is too large");
    }
    if (r->at == begin)
        return COMPLAIN(r, begin, "layout: found %s, expected a number",
                        found(r));
    *out = (int32_t)n;
    return true;
}

/* A number with a least value, for what counts something. */
static bool read_count(reader *r, const char *what, int32_t most, bool power,
                       int32_t *out)
{
    skip_blanks(r);
    size_t begin = r->at;
    if (!read_number(r, out))
        return false;
    if (*out < 1 || *out > most)
        return COMPLAIN(r, begin, "layout: %s are %d, expected 1 to %d", what,
                        (int)*out, (int)most);
    if (power && (*out & (*out - 1)))
        return COMPLAIN(r, begin, "layout: %s are %d, expected a power of two",
                        what, (int)*out);
    return true;
}

/* `4x8`: one number an axis. */
static bool read_sides(reader *r, const char *what, unsigned rank, int32_t most,
                       bool power, int32_t *out)
{
    for (unsigned a = 0; a < rank; a++)
        if ((a && !expect(r, 'x')) ||
            !read_count(r, what, most, power, &out[a]))
            return false;
    skip_blanks(r);
    if (r->at < r->len && r->text[r->at] == 'x')
        return COMPLAIN(r, r->at,
                        "layout: %s for more than the %u axes of "
                        "the tile",
                        what, rank);
    return true;
}

/* ---- Parts that several have ---- */

/* `order(0, 1)`, the fastest axis first. */
static bool read_order(reader *r, unsigned rank, unsigned *order)
{
    unsigned seen = 0;
    if (!expect_word(r, "order") || !expect(r, '('))
        return false;
    for (unsigned i = 0; i < rank; i++) {
        int32_t axis;
        if (i && !expect(r, ','))
            return false;
        skip_blanks(r);
        size_t begin = r->at;
        if (!read_number(r, &axis))
            return false;
        if ((unsigned)axis >= rank || seen >> axis & 1)
            return COMPLAIN(r, begin,
                            "layout: axis %d in order, expected each of the "
                            "%u axes once",
                            (int)axis, rank);
        seen |= 1u << axis;
        order[i] = (unsigned)axis;
    }
    return expect(r, ')');
}

static void default_order(unsigned rank, unsigned *order)
{
    for (unsigned i = 0; i < rank; i++)
        order[i] = rank - 1 - i;
}

/* `, order(..)` or nothing, then `)`. */
static bool read_tail(reader *r, unsigned rank, unsigned *order)
{
    default_order(rank, order);
    if (accept(r, ',') && !read_order(r, rank, order))
        return false;
    return expect(r, ')');
}

enum { MOST_WARPS = 64 };

static bool needs_rank(reader *r, const subject *s, const char *name,
                       unsigned rank)
{
    return s->rank == rank ||
           COMPLAIN(r, 0, "layout: #%s is for tiles of rank %u, not %u", name,
                    rank, s->rank);
}

/* ---- The named ones ---- */

typedef const tc_layout *read_fn(reader *r, const subject *s, const char *name);

/* `(4x1)` after a name for tiles of rank 2. */
static bool read_grid(reader *r, const subject *s, const char *name,
                      int32_t grid[2])
{
    size_t begin = r->at;
    if (!needs_rank(r, s, name, 2) || !expect(r, '(') ||
        !read_sides(r, "warps", 2, MOST_WARPS, false, grid) || !expect(r, ')'))
        return false;
    if (grid[0] * grid[1] > MOST_WARPS)
        return COMPLAIN(r, begin, "layout: %d warps, expected at most %d",
                        (int)(grid[0] * grid[1]), MOST_WARPS);
    return true;
}

static bool has_operand_bits(reader *r, const subject *s, const char *name)
{
    return s->bits == 8 || s->bits == 16 || s->bits == 32 ||
           COMPLAIN(r, 0,
                    "layout: #%s is for elements of 8, 16 or 32 bits, "
                    "not %u",
                    name, s->bits);
}

static const tc_layout *read_mma(reader *r, const subject *s, const char *name)
{
    int32_t grid[2];
    bool operand = strcmp(name, "mma") != 0;
    if (!read_grid(r, s, name, grid) ||
        (operand && !has_operand_bits(r, s, name)))
        return NULL;
    if (!operand)
        return tc_layout_mma_c(r->cx, s->shape, grid[0], grid[1]);
    return (name[4] == 'a' ? tc_layout_mma_a : tc_layout_mma_b)(
        r->cx, s->shape, grid[0], grid[1], s->bits);
}

static const tc_layout *read_wgmma(reader *r, const subject *s,
                                   const char *name)
{
    int32_t grid[2];
    bool operand = strcmp(name, "wgmma") != 0;
    if (!read_grid(r, s, name, grid) ||
        (operand && !has_operand_bits(r, s, name)))
        return NULL;
    if (!operand)
        return tc_layout_wgmma_c(r->cx, s->shape, grid[0], grid[1]);
    return tc_layout_wgmma_a(r->cx, s->shape, grid[0], grid[1], s->bits);
}

static int32_t product(const int32_t *n, unsigned rank)
{
    int64_t p = 1;
    for (unsigned i = 0; i < rank; i++)
        p = p * n[i] > INT32_MAX ? INT32_MAX : p * n[i];
    return (int32_t)p;
}

static const tc_layout *read_blocked(reader *r, const subject *s,
                                     const char *name)
{
    int32_t per[TC_MAX_RANK], lanes[TC_MAX_RANK], warps[TC_MAX_RANK];
    unsigned order[TC_MAX_RANK];
    if (!expect(r, '(') ||
        !read_sides(r, "elements of a thread", s->rank, 1 << 20, true, per) ||
        !expect(r, ','))
        return NULL;
    size_t at = r->at;
    if (!read_sides(r, "lanes", s->rank, 32, true, lanes))
        return NULL;
    if (product(lanes, s->rank) != 32) {
        COMPLAIN(r, at + 1, "layout: %d lanes, expected 32 in all",
                 (int)product(lanes, s->rank));
        return NULL;
    }
    if (!expect(r, ','))
        return NULL;
    at = r->at;
    if (!read_sides(r, "warps", s->rank, MOST_WARPS, false, warps))
        return NULL;
    if (product(warps, s->rank) > MOST_WARPS) {
        COMPLAIN(r, at + 1, "layout: %d warps, expected at most %d",
                 (int)product(warps, s->rank), MOST_WARPS);
        return NULL;
    }
    if (!read_tail(r, s->rank, order))
        return NULL;
    return tc_layout_blocked(r->cx, s->rank, s->shape, per, lanes, warps,
                             order);
}

static const tc_layout *read_swizzled(reader *r, const subject *s,
                                      const char *name)
{
    static const struct {
        const char *name;
        unsigned swizzle;
    } kinds[] = {
        {"rows", 0}, {"swizzle128", 128}, {"swizzle64", 64}, {"swizzle32", 32}};
    unsigned swizzle = 0, order[TC_MAX_RANK];
    for (int i = 0; i < 4; i++)
        if (strcmp(kinds[i].name, name) == 0)
            swizzle = kinds[i].swizzle;
    default_order(s->rank, order);
    if (accept(r, '(') && (!read_order(r, s->rank, order) || !expect(r, ')')))
        return NULL;
    int64_t row = (int64_t)s->shape[order[0]] * s->bits / 8;
    if (swizzle && row % swizzle != 0) {
        unsigned widest = tc_layout_widest_swizzle(s->shape[order[0]], s->bits);
        COMPLAIN(r, 0, "layout: #%s does not divide rows of %lld bytes; %s%.0u",
                 name, (long long)row,
                 widest ? "the widest is #swizzle" : "use #rows", widest);
        return NULL;
    }
    return tc_layout_swizzled(r->cx, s->rank, s->shape, order, s->bits,
                              swizzle);
}

static const tc_layout *read_xor(reader *r, const subject *s, const char *name)
{
    int32_t vec, per, phases;
    unsigned order[TC_MAX_RANK];
    if (s->rank < 2) {
        COMPLAIN(r, 0, "layout: #xor is for tiles of rank 2 or more");
        return NULL;
    }
    if (!expect(r, '(') ||
        !read_count(r, "elements of a vector", 1 << 20, true, &vec) ||
        !expect(r, ',') || !read_count(r, "rows", 1 << 20, true, &per) ||
        !expect(r, ',') || !read_count(r, "phases", 1 << 10, true, &phases) ||
        !read_tail(r, s->rank, order))
        return NULL;
    int32_t column = s->shape[order[0]] & -s->shape[order[0]];
    int32_t row = s->shape[order[1]] & -s->shape[order[1]];
    if ((int64_t)vec * phases > column || (int64_t)per * phases > row) {
        COMPLAIN(r, 0,
                 "layout: #xor needs %lld columns and %lld rows, the powers of "
                 "two of the tile's are %d and %d",
                 (long long)vec * phases, (long long)per * phases, (int)column,
                 (int)row);
        return NULL;
    }
    return tc_layout_xor(r->cx, s->rank, s->shape, order, (unsigned)vec,
                         (unsigned)per, (unsigned)phases);
}

/* ---- Built on others ---- */

static const tc_layout *read_layout(reader *r, const subject *s);

static bool has_size(reader *r, const subject *s)
{
    int64_t n = 1;
    for (unsigned a = 0; a < s->rank; a++) {
        if (s->shape[a] < 1)
            return COMPLAIN(r, 0, "layout: of a tile with side %d",
                            (int)s->shape[a]);
        n *= s->shape[a];
        if (n > 1 << 24)
            return COMPLAIN(
                r, 0, "layout: of a tile with more than %d elements", 1 << 24);
    }
    return true;
}

/* A layout, up to `)`. */
static const tc_layout *read_any(reader *r, const subject *s)
{
    skip_blanks(r);
    size_t begin = r->at;
    if (!has_size(r, s))
        return NULL;
    if (++r->depth > 16) {
        COMPLAIN(r, begin, "layout: nested more than 16 deep");
        return NULL;
    }
    const tc_layout *l = read_layout(r, s);
    return l && expect(r, ')') ? l : NULL;
}

static const tc_layout *read_inner(reader *r, const subject *s)
{
    skip_blanks(r);
    size_t begin = r->at;
    const tc_layout *l = read_any(r, s);
    if (!l || !tc_layout_is_shared(l))
        return l;
    COMPLAIN(r, begin,
             "layout: this one is of shared memory, expected one of registers");
    return NULL;
}

static const tc_layout *read_slice(reader *r, const subject *s,
                                   const char *name)
{
    int32_t axis, side;
    if (!expect(r, '(') || !read_number(r, &axis) || !expect_word(r, "of") ||
        !read_count(r, "sides", 1 << 20, false, &side) || !expect(r, ','))
        return NULL;
    if ((unsigned)axis > s->rank || s->rank == TC_MAX_RANK) {
        COMPLAIN(r, 0, "layout: axis %d was not in a tile of rank %u",
                 (int)axis, s->rank + 1);
        return NULL;
    }
    subject parent = *s;
    parent.rank++;
    for (unsigned a = s->rank; a > (unsigned)axis; a--)
        parent.shape[a] = s->shape[a - 1];
    parent.shape[axis] = side;
    const tc_layout *l = read_inner(r, &parent);
    return l ? tc_layout_slice(r->cx, l, (unsigned)axis) : NULL;
}

static const tc_layout *read_expand(reader *r, const subject *s,
                                    const char *name)
{
    int32_t axis;
    if (!expect(r, '(') || !read_number(r, &axis) || !expect(r, ','))
        return NULL;
    if ((unsigned)axis >= s->rank || s->shape[axis] != 1) {
        COMPLAIN(r, 0, "layout: axis %d has not side 1, as #expand makes it",
                 (int)axis);
        return NULL;
    }
    subject inner = *s;
    inner.rank--;
    for (unsigned a = (unsigned)axis; a < inner.rank; a++)
        inner.shape[a] = s->shape[a + 1];
    inner.shape[inner.rank] = 0;
    const tc_layout *l = read_inner(r, &inner);
    return l ? tc_layout_expand(r->cx, l, (unsigned)axis) : NULL;
}

/* Every bit once. */
static bool read_bits(reader *r, tc_bit_order *o)
{
    unsigned seen = 0;
    size_t begin = r->at;
    *o = (tc_bit_order){0};
    while (!accept(r, ',')) {
        int32_t bit;
        if (!read_number(r, &bit))
            return false;
        if (o->n == TC_MAX_ORDER_BITS || bit < 0 || bit >= TC_MAX_ORDER_BITS)
            return COMPLAIN(r, begin, "layout: more than %d bits in an order",
                            TC_MAX_ORDER_BITS);
        o->to[o->n++] = (uint8_t)bit;
        seen |= 1u << bit;
    }
    return seen + 1 == 1u << o->n ||
           COMPLAIN(r, begin,
                    "layout: an order of %u bits has each of 0 to %u once",
                    o->n, o->n - 1);
}

static const tc_layout *read_reorder(reader *r, const subject *s,
                                     const char *name)
{
    int32_t axis;
    tc_bit_order o;
    if (!expect(r, '(') || !read_number(r, &axis) || !expect(r, ','))
        return NULL;
    if ((unsigned)axis >= s->rank) {
        COMPLAIN(r, 0, "layout: a tile of rank %u has no axis %d", s->rank,
                 (int)axis);
        return NULL;
    }
    const tc_layout *l = read_bits(r, &o) ? read_any(r, s) : NULL;
    const tc_layout *made =
        l ? tc_layout_reorder(r->cx, l, (unsigned)axis, &o) : NULL;
    if (l && !made)
        COMPLAIN(r, 0,
                 "layout: axis %d is counted in steps of %d, expected a "
                 "multiple of %d",
                 (int)axis, (int)l->period[axis], 1 << o.n);
    return made;
}

static bool read_mode(reader *r, const subject *s, tc_mode *m)
{
    int32_t count = 2;
    *m = (tc_mode){.count = 2};
    if (!accept(r, '(')) {
        if (!read_count(r, "repeats", 1 << 24, false, &count) ||
            !expect(r, '*') || !expect(r, '('))
            return false;
        m->count = (uint32_t)count;
    }
    for (unsigned a = 0; a < s->rank; a++)
        if ((a && !expect(r, ',')) || !read_number(r, &m->image[a]))
            return false;
    return expect(r, ')');
}

static bool read_modes(reader *r, const subject *s, tc_input in,
                       tc_layout_spec *spec)
{
    static const char *const names[] = {"register", "lane", "warp", "offset"};
    if (!expect_word(r, names[in]) || !expect(r, '['))
        return false;
    if (accept(r, ']'))
        return true;
    do {
        tc_mode m;
        if (!read_mode(r, s, &m))
            return false;
        tc_layout_spec_add_mode(spec, in, &m);
    } while (accept(r, ','));
    return expect(r, ']');
}

static const tc_layout *read_bases(reader *r, const subject *s,
                                   const char *name)
{
    tc_layout_spec spec = {.rank = s->rank};
    memcpy(spec.shape, s->shape, sizeof spec.shape);
    if (!expect(r, '('))
        return NULL;
    skip_blanks(r);
    bool shared = r->at < r->len && r->text[r->at] == 'o';
    bool ok = shared ? read_modes(r, s, TC_OFFSET, &spec)
                     : read_modes(r, s, TC_REGISTER, &spec) && expect(r, ',') &&
                           read_modes(r, s, TC_LANE, &spec) && expect(r, ',') &&
                           read_modes(r, s, TC_WARP, &spec);
    if (!ok || !expect(r, ')'))
        return NULL;
    const char *why = tc_layout_check(r->cx, &spec);
    if (why) {
        COMPLAIN(r, 0, "layout: %s", why);
        return NULL;
    }
    return tc_layout_get(r->cx, &spec);
}

/* ---- All ---- */

static const struct {
    const char *name;
    read_fn *read;
} kinds[] = {
    {"mma", read_mma},
    {"mma_a", read_mma},
    {"mma_b", read_mma},
    {"wgmma", read_wgmma},
    {"wgmma_a", read_wgmma},
    {"blocked", read_blocked},
    {"rows", read_swizzled},
    {"swizzle128", read_swizzled},
    {"swizzle64", read_swizzled},
    {"swizzle32", read_swizzled},
    {"xor", read_xor},
    {"slice", read_slice},
    {"expand", read_expand},
    {"reorder", read_reorder},
    {"bases", read_bases},
};
enum { NKINDS = sizeof kinds / sizeof *kinds };

static void unknown(reader *r, size_t begin, const char *word)
{
    const char *names[NKINDS];
    for (int i = 0; i < NKINDS; i++)
        names[i] = kinds[i].name;
    const char *near = tc_nearest_name(word, names, NKINDS);
    COMPLAIN(r, begin, "layout: unknown name `#%s`%s%s%s", word,
             near ? "; did you mean #" : "", near ? near : "", near ? "?" : "");
}

static const tc_layout *read_layout(reader *r, const subject *s)
{
    char word[32];
    skip_blanks(r);
    size_t begin = r->at, n = 0;
    if (!expect(r, '#'))
        return NULL;
    while (r->at < r->len && is_word(r->text[r->at]) && n + 1 < sizeof word)
        word[n++] = r->text[r->at++];
    word[n] = 0;
    for (int i = 0; i < NKINDS; i++)
        if (strcmp(kinds[i].name, word) == 0) {
            /* Errors about all of it point to its beginning. */
            reader inner = *r;
            inner.text += begin;
            inner.len -= begin;
            inner.at -= begin;
            inner.loc = loc_of(r, begin);
            const tc_layout *l = kinds[i].read(&inner, s, kinds[i].name);
            r->at = inner.at + begin;
            return l;
        }
    unknown(r, begin, word);
    return NULL;
}

const tc_layout *tc_layout_parse(tc_context *cx, const char *text, size_t len,
                                 unsigned rank, const int32_t *shape,
                                 unsigned bits, tc_loc loc, size_t *used)
{
    reader r = {.cx = cx, .text = text, .len = len, .loc = loc};
    subject s = {.rank = rank, .bits = bits};
    if (rank)
        memcpy(s.shape, shape, rank * sizeof *shape);
    if (!has_size(&r, &s))
        return NULL;
    const tc_layout *l = read_layout(&r, &s);
    *used = r.at;
    return l;
}
