/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters that several functions share, by a name:
 *
 *   params @matrices[M: int, T: type](%x: tensor<[?, M] x T>)
 *   kernel @k[*@matrices, BM: int = 64](*@matrices, %n: i32) grid(..) {..}
 *
 * is the same as
 *
 *   kernel @k[M: int, T: type, BM: int = 64](
 *       %x: tensor<[?, M] x T>, %n: i32) ..
 *
 * A pack is only text: the cursor goes back to it where it is used.
 *
 * And values to try for parameters and compile options of a kernel, as
 * tune(BM=64, 128; warps=4, 8). What they may be is said by
 * ir/verify/verify_tune.c.
 */
#include "ir/text/parse.h"

#include "ir/base/limits.h"

/* The tokens after `[` and `(`; 0: it has none. */
typedef struct pack {
    uint32_t params, args;
    tc_loc loc;
    bool is_open; /* it is being read: packs do not hold themselves */
} pack;

/* Over the bracket at hand, whose inside is the pack's; none: 0. */
static uint32_t inside(tc_parser *p, tc_token_kind open)
{
    if (!tc_parser_is(p, open))
        return 0;
    uint32_t at = p->at + 1;
    tc_parser_skip_nested(p);
    return at;
}

bool tc_parse_pack(tc_parser *p)
{
    const char *name = tc_parser_text(p, tc_parser_peek(p, 1));
    tc_loc loc = tc_parser_loc_of(p, tc_parser_peek(p, 1));
    const pack *other = tc_map_get(&p->packs, name);
    pack *k = tc_arena_new(p->arena, pack);
    p->at += 2;
    k->loc = loc;
    k->params = inside(p, TC_TOKEN_LBRACKET);
    k->args = inside(p, TC_TOKEN_LPAREN);
    if (!k->params && !k->args)
        return tc_parser_expected(p, "`[` or `(`");
    if (other) {
        tc_error(p->cx, loc, "params @%s is defined already", name);
        tc_note(p->cx, other->loc, "the first is here");
        return false;
    }
    tc_map_set(&p->packs, name, k);
    return true;
}

static bool unknown_pack(tc_parser *p, const char *name, const pack *k,
                         tc_token_kind close)
{
    const char *what =
        close == TC_TOKEN_RBRACKET ? "compile-time parameters" : "arguments";
    if (!k)
        return tc_error(p->cx, tc_parser_loc(p),
                        "there is no params @%s above, expected `params "
                        "@%s[..](..)`",
                        name, name);
    if (k->is_open)
        return tc_error(p->cx, tc_parser_loc(p), "params @%s holds itself",
                        name);
    return tc_error(p->cx, tc_parser_loc(p), "params @%s has no %s", name,
                    what);
}

/* Counts parameters and uses that stand in packs: a pack may use another one
 * twice, so that n packs can stand for 2^n parameters. */
static bool has_room(tc_parser *p)
{
    if (p->depth_of_packs == 0 || p->npacked++ < TC_MOST_PACKED)
        return true;
    return tc_error(p->cx, tc_parser_loc(p),
                    "the uses of params in this text stand for more than %u "
                    "parameters: use fewer, or smaller, params",
                    TC_MOST_PACKED);
}

/* At `*@name`. */
static bool parse_pack_of(tc_parser *p, tc_func *f, tc_token_kind close,
                          tc_parse_item_fn *item)
{
    p->at++;
    const tc_token *t = tc_parser_peek(p, 0);
    if (t->kind != TC_TOKEN_FUNC)
        return tc_parser_expected(p, "the name of `params`, as `@name`");
    const char *name = tc_parser_text(p, t);
    pack *k = tc_map_get(&p->packs, name);
    uint32_t begin = !k ? 0 : close == TC_TOKEN_RBRACKET ? k->params : k->args;
    if (!begin || k->is_open)
        return unknown_pack(p, name, k, close);
    uint32_t back = p->at + 1;
    p->at = begin;
    k->is_open = true;
    p->depth_of_packs++;
    bool ok = tc_parse_packed(p, f, close, item);
    p->depth_of_packs--;
    k->is_open = false;
    p->at = back;
    return ok;
}

bool tc_parse_packed(tc_parser *p, tc_func *f, tc_token_kind close,
                     tc_parse_item_fn *item)
{
    if (!has_room(p))
        return false;
    if (tc_parser_accept(p, close))
        return true;
    do {
        if (!has_room(p))
            return false;
        bool is_pack = tc_parser_is(p, TC_TOKEN_STAR);
        if (is_pack ? !parse_pack_of(p, f, close, item) : !item(p, f))
            return false;
    } while (tc_parser_accept(p, TC_TOKEN_COMMA));
    return tc_parser_expect(p, close);
}

/* ---- Tuning spaces ---- */

/* A size expression of numbers, or a word. */
static bool parse_value(tc_parser *p, const char **value, tc_loc *loc)
{
    const tc_dim *d;
    uint32_t first = p->at;
    tc_token_kind next = tc_parser_peek(p, 1)->kind;
    if (tc_parser_is(p, TC_TOKEN_NAME) &&
        (next == TC_TOKEN_COMMA || next == TC_TOKEN_SEMICOLON ||
         next == TC_TOKEN_RPAREN)) {
        *loc = tc_parser_loc(p);
        *value = tc_parser_text(p, tc_parser_peek(p, 0));
        p->at++;
        return true;
    }
    if (!tc_parse_size(p, &d))
        return false;
    *loc = tc_parser_span(p, first);
    if (d->kind != TC_DIM_CONST)
        return tc_error(p->cx, *loc,
                        "tune: expected a number, not a size that "
                        "depends on parameters");
    *value = tc_string_get(
        p->cx, tc_arena_printf(p->arena, "%lld", (long long)d->value));
    return true;
}

/* NAME=VALUE, VALUE.. */
static bool parse_axis(tc_parser *p, tc_tune_axis *axis)
{
    const char *values[TC_MAX_TUNE_VALUES];
    tc_loc locs[TC_MAX_TUNE_VALUES];
    *axis = (tc_tune_axis){.loc = tc_parser_loc(p)};
    if (!tc_parser_is(p, TC_TOKEN_NAME))
        return tc_parser_expected(
            p, "a parameter and its values, as tune(BM=64, 128; warps=4, 8)");
    axis->name = tc_parser_text(p, tc_parser_peek(p, 0));
    p->at++;
    if (!tc_parser_expect(p, TC_TOKEN_ASSIGN))
        return false;
    do {
        if (axis->n == TC_MAX_TUNE_VALUES)
            return tc_error(p->cx, tc_parser_loc(p),
                            "tune: more than %d values", TC_MAX_TUNE_VALUES);
        if (!parse_value(p, &values[axis->n], &locs[axis->n]))
            return false;
        axis->n++;
    } while (tc_parser_accept(p, TC_TOKEN_COMMA));
    axis->values = tc_arena_copy(p->arena, values, axis->n * sizeof *values);
    axis->locs = tc_arena_copy(p->arena, locs, axis->n * sizeof *locs);
    return true;
}

bool tc_parse_tune(tc_parser *p, tc_func *f)
{
    tc_tune_axis axes[TC_MAX_TUNE_AXES];
    if (!tc_parser_accept_word(p, "tune"))
        return true;
    if (!tc_parser_expect(p, TC_TOKEN_LPAREN))
        return false;
    do {
        if (f->ntune == TC_MAX_TUNE_AXES)
            return tc_error(p->cx, tc_parser_loc(p), "tune: more than %d names",
                            TC_MAX_TUNE_AXES);
        if (!parse_axis(p, &axes[f->ntune]))
            return false;
        f->ntune++;
    } while (tc_parser_accept(p, TC_TOKEN_SEMICOLON));
    f->tune = tc_arena_copy(p->arena, axes, f->ntune * sizeof *axes);
    return tc_parser_is(p, TC_TOKEN_RPAREN)
               ? tc_parser_expect(p, TC_TOKEN_RPAREN)
               : tc_parser_expected(p, "`,`, `;` or `)`");
}
