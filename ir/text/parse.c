/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules: functions and kernels. All headers are read first, bodies are
 * skipped; then the bodies, so that a call may stand before its callee.
 */
#include "ir/text/parse.h"
#include "ir/fastmath.h"

#include <string.h>

/* A function whose header was read and whose body is still to come. */
typedef struct pending {
    tc_func *f;
    const tc_token **args; /* their names */
    uint32_t at;           /* of `grid` or `{` */
    uint32_t body, end;    /* of its `{`, and after its last token */
} pending;

/* ---- Compile-time parameters ---- */

static bool parse_func_param(tc_parser *p, tc_param *param)
{
    param->kind = TC_PARAM_FUNC;
    if (!tc_parser_is(p, TC_TOKEN_LPAREN))
        return tc_parser_expected(p, "the function's types, as (f32, i32) -> "
                                     "f32");
    if (!tc_parse_types(p, &param->nins, &param->ins) ||
        !tc_parser_expect(p, TC_TOKEN_ARROW) ||
        !tc_parse_types(p, &param->nouts, &param->outs))
        return false;
    if (!tc_parser_accept(p, TC_TOKEN_ASSIGN))
        return true;
    param->symbol = tc_parser_text(p, tc_parser_peek(p, 0));
    return tc_parser_expect(p, TC_TOKEN_FUNC);
}

static bool parse_type_param(tc_parser *p, tc_param *param)
{
    param->kind = TC_PARAM_TYPE;
    return !tc_parser_accept(p, TC_TOKEN_ASSIGN) ||
           tc_parse_a_type(p, &param->type);
}

static bool parse_int_param(tc_parser *p, tc_param *param)
{
    param->kind = TC_PARAM_INT;
    return !tc_parser_accept(p, TC_TOKEN_ASSIGN) ||
           tc_parse_size(p, &param->dim);
}

static bool parse_param_kind(tc_parser *p, tc_param *param)
{
    if (tc_parser_accept_word(p, "int"))
        return parse_int_param(p, param);
    param->is_block = tc_parser_accept_word(p, "block");
    if (param->is_block)
        return parse_int_param(p, param);
    if (tc_parser_accept_word(p, "type"))
        return parse_type_param(p, param);
    if (tc_parser_accept_word(p, "func"))
        return parse_func_param(p, param);
    return tc_parser_expected(p, "`int`, `block`, `type` or `func`");
}

/* Names that would read as something else. */
static bool check_param_name(tc_parser *p, const tc_param *param)
{
    static const char *const taken[] = {"x",     "cdiv", "min", "max", "rem",
                                        "block", "call", "not", "and", "or"};
    size_t n = strlen(param->name);
    bool is_taken = tc_kind_parse(param->name, n) != TC_KIND_COUNT ||
                    tc_word_is(TC_WORD_LITERAL, param->name, n) ||
                    tc_word_is(TC_WORD_TYPE, param->name, n);
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        is_taken |= strcmp(param->name, taken[i]) == 0;
    if (is_taken)
        return tc_error(p->cx, param->loc,
                        "`%s` has a meaning of its own, expected another name",
                        param->name);
    return strchr(param->name, 'x') == NULL || tc_parser_is_word(p, "func") ||
           tc_error(p->cx, param->loc,
                    "`%s` holds a lower-case x, which stands between the "
                    "sides of a tile: expected another name",
                    param->name);
}

static bool parse_param(tc_parser *p, tc_param *param)
{
    const tc_token *t = tc_parser_peek(p, 0);
    param->loc = tc_parser_loc(p);
    param->name = tc_parser_text(p, t);
    if (!tc_parser_expect(p, TC_TOKEN_NAME) ||
        !tc_parser_expect(p, TC_TOKEN_COLON) || !check_param_name(p, param))
        return false;
    const tc_param *first = tc_parser_param(p, t);
    if (!first)
        return parse_param_kind(p, param);
    tc_error(p->cx, param->loc, "parameter `%s` is there twice", param->name);
    tc_note(p->cx, first->loc, "the first is here");
    return false;
}

/* Counted when complete: a default names earlier ones only. */
static bool add_param(tc_parser *p, tc_func *f)
{
    enum { MOST = 256 };
    tc_param param = {0};
    if (f->nparams == MOST)
        return tc_error(p->cx, tc_parser_loc(p), "more than %d parameters",
                        MOST);
    if (!parse_param(p, &param))
        return false;
    if ((f->nparams & (f->nparams - 1)) == 0) { /* full: none, or 2^n */
        tc_param *more =
            tc_arena_array(p->arena, tc_param, f->nparams ? 2 * f->nparams : 1);
        if (f->nparams)
            memcpy(more, f->params, f->nparams * sizeof *more);
        f->params = more;
    }
    f->params[f->nparams++] = param;
    return true;
}

static bool parse_params(tc_parser *p, tc_func *f)
{
    return !tc_parser_accept(p, TC_TOKEN_LBRACKET) ||
           tc_parse_packed(p, f, TC_TOKEN_RBRACKET, add_param);
}

/* ---- Headers ---- */

/* Of argument n, which comes next. */
static void note_name(tc_parser *p, unsigned n, const tc_token *name)
{
    if ((n & (n - 1)) == 0) { /* full: none, or 2^i */
        const tc_token **more =
            tc_arena_array(p->arena, const tc_token *, n ? 2 * n : 1);
        if (n)
            memcpy(more, p->args, n * sizeof *more);
        p->args = more;
    }
    p->args[n] = name;
}

static bool parse_arg(tc_parser *p, tc_func *f)
{
    const tc_token *name = tc_parser_peek(p, 0);
    const tc_type *type;
    if (!tc_parser_expect(p, TC_TOKEN_VALUE) ||
        !tc_parser_expect(p, TC_TOKEN_COLON) || !tc_parse_a_type(p, &type))
        return false;
    if (f->body->nargs == TC_MAX_ARGS)
        return tc_error(p->cx, tc_parser_loc(p), "more than %d arguments",
                        TC_MAX_ARGS);
    unsigned errors = p->cx->nerrors;
    tc_loc loc = tc_parser_loc_of(p, name);
    const char *hint = tc_scope_hint(p, name);
    note_name(p, f->body->nargs, name);
    tc_value *v = tc_region_add_arg(f->body, type, hint, loc);
    if (f->is_kernel)
        tc_region_add_arg(f->grid, type, hint, loc);
    tc_scope_define(p, name, v);
    return p->cx->nerrors == errors; /* a name twice */
}

static bool parse_args(tc_parser *p, tc_func *f)
{
    p->args = NULL;
    return tc_parser_expect(p, TC_TOKEN_LPAREN) &&
           tc_parse_packed(p, f, TC_TOKEN_RPAREN, parse_arg);
}

/* aligned(0, 2): tensors by the number of their parameter. */
static bool parse_tensors(tc_parser *p, const tc_func *f, const char *word,
                          uint64_t *which)
{
    const tc_dim *d;
    if (!tc_parser_accept_word(p, word))
        return true;
    if (!tc_parser_expect(p, TC_TOKEN_LPAREN))
        return false;
    do {
        tc_loc loc = tc_parser_loc(p);
        if (!tc_parse_size(p, &d))
            return false;
        int64_t i = tc_dim_value(d);
        if (i < 0 || i >= 64 || i >= f->body->nargs ||
            f->body->args[i]->type->kind != TC_TENSOR)
            return tc_error(p->cx, loc,
                            "%s: expected the number of a tensor parameter",
                            word);
        *which |= (uint64_t)1 << i;
    } while (tc_parser_accept(p, TC_TOKEN_COMMA));
    return tc_parser_expect(p, TC_TOKEN_RPAREN);
}

/* aligned(0, 1) ragged(2) */
static bool parse_alignment(tc_parser *p, tc_func *f)
{
    if (!parse_tensors(p, f, "aligned", &f->aligned) ||
        !parse_tensors(p, f, "ragged", &f->ragged))
        return false;
    f->aligned |= f->ragged;
    return true;
}

static bool parse_multiple(tc_parser *p, tc_func *f)
{
    int64_t n[3];
    tc_loc loc = tc_parser_loc(p);
    for (unsigned i = 0; i < 3; i++) {
        const tc_dim *d;
        if ((i && !tc_parser_expect(p, TC_TOKEN_COMMA)) ||
            !tc_parse_size(p, &d))
            return false;
        n[i] = tc_dim_value(d);
    }
    if (n[0] < 0 || n[0] >= f->body->nargs ||
        f->body->args[n[0]]->type->kind != TC_TENSOR || n[1] < 0 ||
        n[1] >= f->body->args[n[0]]->type->rank || n[2] < 1 || n[2] > 1 << 16)
        return tc_error(p->cx, loc,
                        "multiples: expected the number of a tensor parameter, "
                        "of a dim of it, and what its size is a multiple of");
    if (f->nmultiples == TC_MAX_MULTIPLES)
        return tc_error(p->cx, loc, "multiples: more than %d",
                        TC_MAX_MULTIPLES);
    f->multiples[f->nmultiples++] =
        (tc_multiple){(unsigned)n[0], (unsigned)n[1], (unsigned)n[2]};
    return true;
}

/* multiples(1, 2, 16): parameter, dim, what its size is a multiple of. */
static bool parse_multiples(tc_parser *p, tc_func *f)
{
    if (!tc_parser_accept_word(p, "multiples"))
        return true;
    if (!tc_parser_expect(p, TC_TOKEN_LPAREN))
        return false;
    do {
        if (!parse_multiple(p, f))
            return false;
    } while (tc_parser_accept(p, TC_TOKEN_COMMA));
    return tc_parser_expect(p, TC_TOKEN_RPAREN);
}

static bool parse_count(tc_parser *p, const char *word, unsigned most,
                        unsigned *value)
{
    const tc_dim *d;
    tc_loc loc = tc_parser_loc(p);
    if (!tc_parse_size(p, &d) || !tc_parser_expect(p, TC_TOKEN_RPAREN))
        return false;
    if (tc_dim_value(d) < 1 || tc_dim_value(d) > most)
        return tc_error(p->cx, loc, "%s: expected 1 to %u", word, most);
    *value = (unsigned)tc_dim_value(d);
    return true;
}

/* warps(4) shared(16384) of a kernel at machine level. */
static bool parse_resource(tc_parser *p, const char *word, unsigned most,
                           unsigned *value)
{
    return !tc_parser_accept_word(p, word) ||
           (tc_parser_expect(p, TC_TOKEN_LPAREN) &&
            parse_count(p, word, most, value));
}

/* tiles(static) */
static bool parse_tiles(tc_parser *p, tc_func *f)
{
    if (!tc_parser_accept_word(p, "tiles"))
        return true;
    if (!tc_parser_expect(p, TC_TOKEN_LPAREN))
        return false;
    f->tiles = tc_tiles_parse(tc_parser_text(p, tc_parser_peek(p, 0)));
    if (f->tiles == TC_TILES_ANY)
        return tc_error(p->cx, tc_parser_loc(p),
                        "tiles: expected none, static or dynamic");
    p->at++;
    return tc_parser_expect(p, TC_TOKEN_RPAREN);
}

/* raster(descending), raster(grouped, 8) */
static bool parse_raster(tc_parser *p, tc_func *f)
{
    if (!tc_parser_accept_word(p, "raster"))
        return true;
    if (!tc_parser_expect(p, TC_TOKEN_LPAREN))
        return false;
    f->raster = tc_raster_parse(tc_parser_text(p, tc_parser_peek(p, 0)));
    if (f->raster == TC_RASTER_ANY)
        return tc_error(p->cx, tc_parser_loc(p),
                        "raster: expected plain, grouped, ascending or "
                        "descending");
    p->at++;
    if (f->raster != TC_RASTER_GROUPED)
        return tc_parser_expect(p, TC_TOKEN_RPAREN);
    return tc_parser_expect(p, TC_TOKEN_COMMA) &&
           parse_count(p, "raster", TC_MAX_RASTER_ROWS, &f->raster_rows);
}

/* split(4), split(stream), split(auto) */
static bool parse_split(tc_parser *p, tc_func *f)
{
    if (!tc_parser_accept_word(p, "split"))
        return true;
    if (!tc_parser_expect(p, TC_TOKEN_LPAREN))
        return false;
    f->split = tc_split_parse(tc_parser_text(p, tc_parser_peek(p, 0)));
    if (!f->split)
        return tc_error(p->cx, tc_parser_loc(p),
                        "split: expected auto, stream, or 1 to %d pieces",
                        TC_MAX_SPLIT);
    p->at++;
    return tc_parser_expect(p, TC_TOKEN_RPAREN);
}

/* profile(2048) */
static bool parse_profile(tc_parser *p, tc_func *f)
{
    tc_loc loc = tc_parser_loc(p);
    if (!parse_resource(p, "profile", TC_MAX_PROFILE, &f->profile))
        return false;
    return !f->profile || tc_is_profile(f->profile) ||
           tc_error(p->cx, loc,
                    "profile: %u records, expected a power of two from %d to "
                    "%d",
                    f->profile, TC_MIN_PROFILE, TC_MAX_PROFILE);
}

static bool parse_early(tc_parser *p, tc_func *f)
{
    f->early = tc_parser_accept_word(p, "early");
    return true;
}

/* fastmath(ninf, contract) */
static bool parse_fastmath(tc_parser *p, tc_func *f)
{
    if (!tc_parser_accept_word(p, "fastmath"))
        return true;
    return tc_parser_expect(p, TC_TOKEN_LPAREN) &&
           tc_parse_flags(p, tc_func_word(f), TC_FASTMATH_ALL, true,
                          &f->fastmath) &&
           tc_parser_expect(p, TC_TOKEN_RPAREN);
}

/* func @f[...](...) -> type, up to the body. */
static bool parse_signature(tc_parser *p, tc_func *f)
{
    if (!parse_params(p, f) || !parse_args(p, f))
        return false;
    if (f->is_kernel)
        return parse_alignment(p, f) && parse_multiples(p, f) &&
               parse_resource(p, "warps", TC_MAX_WARPS, &f->warps) &&
               parse_resource(p, "shared", TC_MAX_SHARED, &f->shared_bytes) &&
               parse_resource(p, "ptxas", 3, &f->ptxas_level) &&
               parse_resource(p, "ctas", TC_MAX_CTAS, &f->ctas) &&
               parse_tiles(p, f) && parse_raster(p, f) && parse_split(p, f) &&
               parse_profile(p, f) && parse_early(p, f) &&
               parse_fastmath(p, f) && tc_parse_tune(p, f) &&
               (tc_parser_is_word(p, "grid") ||
                tc_parser_expected(p, "`grid(...)` or `grid { ... }`"));
    if (!f->is_plan && tc_parser_accept(p, TC_TOKEN_ARROW) &&
        !tc_parse_types(p, &f->nresults, &f->results))
        return false;
    if (!f->is_plan && !parse_fastmath(p, f))
        return false;
    return tc_parser_is(p, TC_TOKEN_LBRACE) ||
           tc_parser_expected(p, f->nresults || f->is_plan ? "`{`"
                                                           : "`->` or `{`");
}

/* Over what is left of a function whose header could not be read. */
static void skip_function(tc_parser *p)
{
    uint32_t start = p->at;
    while (!tc_parser_is(p, TC_TOKEN_END) && !tc_parser_at_top(p) &&
           !tc_parser_is(p, TC_TOKEN_LBRACE))
        p->at++;
    while (tc_parser_is(p, TC_TOKEN_LBRACE)) /* grid and body */
        tc_parser_skip_nested(p);
    /* Skips text that is no function at all: an error for each token would be
     * too many. */
    while (p->at == start && !tc_parser_is(p, TC_TOKEN_END) &&
           !tc_parser_at_top(p))
        p->at++;
}

/* Skips `grid (...)`, `grid {...}` and the body, whose first token it returns;
 * what stands in between is an error of parse_body's. */
static uint32_t skip_bodies(tc_parser *p)
{
    if (tc_parser_accept_word(p, "grid") &&
        (tc_parser_is(p, TC_TOKEN_LPAREN) || tc_parser_is(p, TC_TOKEN_LBRACE)))
        tc_parser_skip_nested(p);
    uint32_t body = p->at;
    if (tc_parser_is(p, TC_TOKEN_LBRACE))
        tc_parser_skip_nested(p);
    else if (!tc_parser_at_top(p))
        skip_function(p);
    return body;
}

static tc_func *parse_header(tc_parser *p)
{
    bool is_kernel = tc_parser_is_word(p, "kernel");
    bool is_plan = tc_parser_is_word(p, "plan");
    tc_loc loc = tc_parser_loc_of(p, tc_parser_peek(p, 1));
    const char *name = tc_parser_text(p, tc_parser_peek(p, 1));
    p->at += 2;
    tc_func *f = p->f = tc_func_new(p->m, name, is_kernel, loc);
    f->is_plan = is_plan;
    const tc_func *other = tc_map_get(&p->funcs, name);
    p->scope = (tc_scope){.names.arena = p->arena};
    if (!parse_signature(p, f)) {
        if (!other)
            tc_map_set(&p->funcs, name, (void *)&tc_broken_func);
        return NULL;
    }
    if (other) {
        tc_error(p->cx, loc, "@%s is defined already", name);
        if (other != &tc_broken_func)
            tc_note(p->cx, other->loc, "@%s is defined here", name);
        skip_bodies(p);
        return NULL;
    }
    tc_map_set(&p->funcs, name, f);
    tc_func_append(p->m, f);
    return f;
}

/* ---- Bodies ---- */

/* Binds the names of the arguments to those of a region. */
static void begin_scope(tc_parser *p, const tc_token **names, tc_region *r)
{
    p->scope = (tc_scope){.names.arena = p->arena};
    for (unsigned i = 0; i < r->nargs; i++)
        tc_scope_define(p, names[i], r->args[i]);
}

/* grid(a, b, c) */
static bool parse_grid_list(tc_parser *p)
{
    tc_operands list = {0};
    tc_loc loc = tc_parser_loc(p);
    p->at++;
    if (!tc_parse_exprs(p, &list) || !tc_parser_expect(p, TC_TOKEN_RPAREN))
        return false;
    tc_value **in = tc_arena_array(p->arena, tc_value *, list.n);
    const tc_type *i32 = tc_type_scalar(p->cx, TC_I32);
    bool ok = true;
    for (unsigned i = 0; i < list.n; i++) {
        in[i] = tc_fit_value(p, &list.all[i], i32);
        ok &= in[i] != NULL;
    }
    p->b.loc = loc;
    if (ok)
        tc_build_yield(&p->b, list.n, in);
    return true;
}

static bool parse_grid(tc_parser *p, tc_func *f)
{
    const tc_type *i32 = tc_type_scalar(p->cx, TC_I32);
    const tc_type *axes[TC_MAX_GRID_AXES];
    for (unsigned i = 0; i < TC_MAX_GRID_AXES; i++)
        axes[i] = i32;
    p->at++;
    if (tc_parser_is(p, TC_TOKEN_LBRACE))
        return tc_parse_region(p, f->grid, TC_OPCODE_COUNT, TC_MAX_GRID_AXES,
                               axes);
    if (!tc_parser_is(p, TC_TOKEN_LPAREN))
        return tc_parser_expected(p, "`(` or `{`");
    p->b = tc_builder_at_end(f->grid, tc_parser_loc(p));
    return parse_grid_list(p);
}

/* Of what a kernel's header holds before its grid. */
static bool is_too_late(tc_parser *p)
{
    return tc_parser_is_word_of(p, TC_WORD_CLAUSE) &&
           !tc_error(p->cx, tc_parser_loc(p),
                     "expected `{`, found `%s`, which stands before `grid`",
                     tc_parser_text(p, tc_parser_peek(p, 0)));
}

static void parse_body(tc_parser *p, const pending *header)
{
    tc_func *f = p->f = header->f;
    p->at = header->at;
    if (f->is_kernel) {
        begin_scope(p, header->args, f->grid);
        if (!parse_grid(p, f)) {
            /* The body can still be read for its own errors. */
            p->at = header->at + 1;
            tc_parser_skip_nested(p);
        }
    }
    if (f->is_kernel && is_too_late(p))
        return;
    begin_scope(p, header->args, f->body);
    tc_opcode implicit = f->nresults ? TC_OPCODE_COUNT : TC_RETURN;
    if (!tc_parse_region(p, f->body, implicit, f->nresults, f->results))
        return; /* reported; the next body has a place of its own */
}

/* ---- The module ---- */

static bool unknown_top(tc_parser *p)
{
    const char *words[TC_NWORDS];
    unsigned nwords = tc_words_of(TC_WORD_TOP, words);
    const tc_token *t = tc_parser_peek(p, 0);
    if (t->kind != TC_TOKEN_NAME)
        return tc_parser_expected(
            p, "`func`, `kernel`, `plan`, `params` or `import`");
    const char *text = tc_parser_text(p, t);
    if (tc_parser_is_word_of(p, TC_WORD_TOP)) {
        p->at++;
        return tc_parser_expected(p, strcmp(text, "import") == 0
                                         ? "a file, as \"name.tile\""
                                         : "a function name, as `@name`");
    }
    return tc_error(
        p->cx, tc_parser_loc(p),
        "expected `func`, `kernel`, `plan`, `params` or `import`, found `%s`%s",
        text, tc_did_you_mean(p, text, nwords, words));
}

/* import "FILE": who reads texts has read that file. */
static bool parse_import(tc_parser *p)
{
    if (!tc_parser_is_word(p, "import") ||
        tc_parser_peek(p, 1)->kind != TC_TOKEN_STRING)
        return false;
    p->at += 2;
    return true;
}

static pending *parse_headers(tc_parser *p, unsigned *n)
{
    unsigned room = 16;
    pending *all = tc_arena_array(p->arena, pending, room);
    *n = 0;
    while (!tc_parser_is(p, TC_TOKEN_END) &&
           p->cx->nerrors < p->cx->most_errors) {
        if (parse_import(p))
            continue;
        if (!tc_parser_at_top(p)) {
            unknown_top(p);
            skip_function(p);
            continue;
        }
        if (tc_parser_is_word(p, "params")) {
            if (!tc_parse_pack(p))
                skip_function(p);
            continue;
        }
        tc_func *f = parse_header(p);
        if (!f) {
            skip_function(p);
            continue;
        }
        if (*n == room) {
            pending *more = tc_arena_array(p->arena, pending, room *= 2);
            memcpy(more, all, *n * sizeof *more);
            all = more;
        }
        pending *new = &all[(*n)++];
        *new = (pending){.f = f, .args = p->args, .at = p->at};
        new->body = skip_bodies(p);
        new->end = p->at;
    }
    return all;
}

static void parse_bodies(tc_parser *p, const pending *all, unsigned n)
{
    for (unsigned i = 0; i < n && p->cx->nerrors < p->cx->most_errors; i++)
        parse_body(p, &all[i]);
}

static tc_parser *parser_new(tc_module *m, tc_tokens tokens)
{
    tc_parser *p = tc_arena_new(&m->arena, tc_parser);
    *p = (tc_parser){.cx = m->cx,
                     .m = m,
                     .arena = &m->arena,
                     .tokens = tokens,
                     .funcs.arena = &m->arena,
                     .packs.arena = &m->arena};
    tc_each_func (f, m)
        tc_map_set(&p->funcs, f->name, f);
    return p;
}

/* Do the bytes lie between the braces of the body? */
static bool is_inside(const tc_parser *p, const pending *body, size_t from,
                      size_t to)
{
    const tc_token *all = p->tokens.all;
    return body->end > body->body + 1 &&
           all[body->body].kind == TC_TOKEN_LBRACE &&
           all[body->end - 1].kind == TC_TOKEN_RBRACE &&
           all[body->body].at < from && to <= all[body->end - 1].at;
}

tc_func *tc_parse_body_at(tc_module *m, tc_tokens tokens, size_t from,
                          size_t to, unsigned *nfuncs)
{
    unsigned errors = m->cx->nerrors;
    tc_parser *p = parser_new(m, tokens);
    const pending *all = parse_headers(p, nfuncs);
    for (unsigned i = 0; i < *nfuncs && m->cx->nerrors == errors; i++)
        if (is_inside(p, &all[i], from, to)) {
            parse_body(p, &all[i]);
            return all[i].f;
        }
    return NULL;
}

bool tc_parse_tokens(tc_module *m, tc_tokens tokens)
{
    tc_context *cx = m->cx;
    unsigned errors = cx->nerrors, n;
    tc_parser *p = parser_new(m, tokens);
    const pending *all = parse_headers(p, &n);
    parse_bodies(p, all, n);
    return cx->nerrors == errors;
}

bool tc_parse(tc_module *m, uint32_t source)
{
    tc_context *cx = m->cx;
    const tc_source *s = &cx->sources[source - 1];
    unsigned errors = cx->nerrors;
    tc_tokens tokens =
        tc_lex(cx, &m->arena, source, s->text, s->len, (tc_loc){0});
    return tc_parse_tokens(m, tokens) && cx->nerrors == errors;
}
