/* SPDX-License-Identifier: Apache-2.0
 *
 * Blanks between two tokens of one line.
 */
#include "tools/editors/format.h"

bool format_is_prefix(const piece *p, const piece *prev)
{
    switch (p->kind) {
    case TC_TOKEN_TILDE:
    case TC_TOKEN_BANG: return true;
    case TC_TOKEN_STAR: return !prev || !piece_ends_operand(prev);
    case TC_TOKEN_MINUS:
        /* (A `>` that closes a type has no operator after it.) */
        if (!prev || !piece_ends_operand(prev) || prev->kind == TC_TOKEN_GT)
            return true;
        /* `yield -1` and `N - 1`: what its author made of it. */
        return prev->kind == TC_TOKEN_NAME && !p->glued && p[1].glued;
    default: return false;
    }
}

/* A value or word at the beginning of an item of a list. */
static bool begins_item(const piece *p, const piece *before)
{
    return (p->kind == TC_TOKEN_NAME || p->kind == TC_TOKEN_VALUE) && before &&
           (before->kind == TC_TOKEN_LPAREN ||
            before->kind == TC_TOKEN_LBRACKET ||
            before->kind == TC_TOKEN_COMMA ||
            before->kind == TC_TOKEN_SEMICOLON);
}

/* The token before token i, or NULL. */
static const piece *token_before(const pieces *t, uint32_t i)
{
    while (i > 0 && t->all[i - 1].kind == PIECE_COMMENT)
        i--;
    return i ? &t->all[i - 1] : NULL;
}

bool format_is_key(const pieces *t, uint32_t i, bool in_list)
{
    const piece *name = token_before(t, i);
    if (t->all[i].kind != TC_TOKEN_ASSIGN || !in_list || !name ||
        name->kind != TC_TOKEN_NAME)
        return false;
    return begins_item(name, token_before(t, (uint32_t)(name - t->all)));
}

bool format_opens_type(const piece *p, const piece *prev)
{
    static const char *const words[] = {"tile", "tensor",    "ptr",
                                        "smem", "block_ptr", "mbarrier"};
    if (p->kind != TC_TOKEN_LT || !p->glued || !prev ||
        prev->kind != TC_TOKEN_NAME)
        return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (piece_is(prev, words[i]))
            return true;
    return false;
}

/* Of `x` between sides: is it the one before the element? */
static bool is_last_x(const pieces *t, uint32_t i)
{
    int depth = 0;
    for (const piece *p = &t->all[i + 1]; p->kind != TC_TOKEN_END; p++) {
        bool ends = p->kind == TC_TOKEN_GT || p->kind == TC_TOKEN_COMMA;
        if (depth == 0 && (ends || piece_closes(p)))
            return true;
        if (depth == 0 && p->kind == TC_TOKEN_X)
            return false;
        depth += piece_opens(p) - piece_closes(p);
    }
    return true;
}

static uint32_t around_colon(const piece *a, const piece *b,
                             const format_spacing *s)
{
    if (a->kind == TC_TOKEN_COLON)
        return b->kind != TC_TOKEN_COMMA && b->kind != TC_TOKEN_RBRACKET;
    if (!s->in_list)
        return 1;
    return begins_item(a, s->before_a) ? 0 : !b->glued;
}

/* Blanks that have no meaning for the eye, but `f (` and `f(` differ. */
static uint32_t before_opening(const piece *a, const piece *b)
{
    return piece_ends_operand(a) ? !b->glued : 1;
}

uint32_t format_blanks(const pieces *t, uint32_t i, const format_spacing *s)
{
    const piece *a = &t->all[i - 1], *b = &t->all[i];
    if (a->kind == TC_TOKEN_LBRACE && b->kind == TC_TOKEN_RBRACE)
        return 0;
    if (a->kind == TC_TOKEN_LBRACE || b->kind == TC_TOKEN_LBRACE ||
        b->kind == TC_TOKEN_RBRACE)
        return 1;
    if (b->kind == TC_TOKEN_COMMA || b->kind == TC_TOKEN_SEMICOLON ||
        piece_closes(b) || piece_opens(a) || s->a_is_prefix || s->a_is_key ||
        s->a_opens_type || s->b_opens_type || s->b_closes_type)
        return 0;
    if (a->kind == TC_TOKEN_X || b->kind == TC_TOKEN_X)
        return is_last_x(t, a->kind == TC_TOKEN_X ? i - 1 : i);
    if (a->kind == TC_TOKEN_COLON || b->kind == TC_TOKEN_COLON)
        return around_colon(a, b, s);
    if (format_is_key(t, i, s->in_list))
        return 0;
    if (piece_opens(b))
        return before_opening(a, b);
    return 1;
}
