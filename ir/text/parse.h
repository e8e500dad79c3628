/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of the parser, for each other (the entry is tc_parse in ir.h).
 *
 * Text becomes IR directly: an expression inserts ops at the cursor and leaves
 * an operand. Two kinds of errors:
 *   syntax   the function returns false; parse_stmt.c skips to the next
 *            statement, and the names it would have defined are poison
 *   meaning  reported, and the result is poison; reading goes on in place
 * What touches poison is poison, silently: one mistake, one error.
 *
 *   parse.c         modules, functions, kernels, their parameters
 *   parse_pack.c    params: parameters that several functions share; tune
 *   parse_token.c   the cursor on the tokens, skipping after an error
 *   parse_scope.c   names of values; suggestions
 *   parse_unknown.c names that mean nothing, and what may be meant
 *   parse_type.c    types and sizes
 *   parse_expr.c    infix expressions, literals
 *   parse_index.c   indexing
 *   parse_fit.c     literals get types, scalars and tiles one shape
 *   parse_op.c      ops in statement and call form
 *   parse_attr.c    attributes
 *   parse_call.c    calls of functions
 *   parse_plan.c    launches of kernels
 *   parse_shape.c   assert_shape, tensor(%p, [%m, 64], [64, 1])
 *   parse_region.c  for, if, while, reduce with a region
 *   parse_stmt.c    statements and regions
 */
#ifndef TC_PARSE_H
#define TC_PARSE_H

#include "ir/base/map.h"
#include "ir/ir.h"
#include "ir/text/lex.h"
#include "ir/words.h"

/* Beyond these the stack of this process would be the limit. */
enum {
    TC_MAX_EXPR_DEPTH = 200,
    TC_MAX_REGION_DEPTH = 64,
    TC_MAX_TYPE_DEPTH = 64,
    TC_MAX_ARGS = 1024 /* of a function, a loop; parameters too */
};

typedef enum tc_operand_kind {
    TC_OPERAND_POISON,
    TC_OPERAND_VALUE,
    TC_OPERAND_LITERAL /* gets its type from where it is used */
} tc_operand_kind;

typedef struct tc_operand {
    tc_operand_kind kind;
    tc_loc loc;  /* of its op: an operator, a name */
    tc_loc span; /* of all of its text; no line: loc */
    tc_value *v;
    tc_number number;
    bool is_hex;          /* 0xff: may use all bits of the type */
    const tc_token *name; /* of a carried value or a named argument */
} tc_operand;

typedef struct tc_operands {
    tc_operand *all;
    unsigned n, room;
} tc_operands;

/* The results of a statement. */
typedef struct tc_outcome {
    bool poison;
    unsigned n;
    tc_value **values;
} tc_outcome;

/* A name of a value, visible or from a region that has ended. */
typedef struct tc_scope_name {
    const char *name;
    tc_value *v; /* NULL: poison */
    tc_loc loc;
    bool visible;
} tc_scope_name;

typedef struct tc_scope {
    tc_map names;
    tc_scope_name **visible; /* in order of definition */
    unsigned n, room;
} tc_scope;

typedef struct tc_parser {
    tc_context *cx;
    tc_module *m;
    tc_arena *arena;
    tc_tokens tokens;
    uint32_t at;
    tc_loc where; /* of everything, if the text is no source */
    tc_map funcs; /* by name; &tc_broken_func: its header has an error */
    tc_map packs; /* `params @name`, by name: see parse_pack.c */
    unsigned npacked, depth_of_packs; /* read of packs so far; uses at hand */
    tc_func *f;
    const tc_token **args; /* names of the arguments of f, while its header is
                              read */
    tc_builder b;
    tc_scope scope;
    unsigned expr_depth, region_depth, type_depth, size_ops;
    unsigned nfailed;      /* statements without a result, for an error */
    const tc_token *ended; /* where a region ended too early: said once */
    /* The types that the region's terminator yields, as far as known, for
     * literals. */
    unsigned nyields;
    const tc_type *const *yields;
} tc_parser;

/* ---- parse_token.c ---- */

const tc_token *tc_parser_peek(const tc_parser *p, uint32_t ahead);
bool tc_parser_is(const tc_parser *p, tc_token_kind kind);
/* The word is one of words.def, or an op's name. */
bool tc_parser_is_word(const tc_parser *p, const char *word);
bool tc_parser_is_word_of(const tc_parser *p, tc_word_class class);
/* A name with `(` glued to it. */
bool tc_parser_is_call(const tc_parser *p);
bool tc_parser_accept(tc_parser *p, tc_token_kind kind);
bool tc_parser_accept_word(tc_parser *p, const char *word);
bool tc_parser_expect(tc_parser *p, tc_token_kind kind) TC_MUST_CHECK;
bool tc_parser_expect_word(tc_parser *p, const char *word) TC_MUST_CHECK;
/* The `}` of the `{` that token `open` is. */
bool tc_parser_expect_brace(tc_parser *p, uint32_t open) TC_MUST_CHECK;
/* A `>`, which may be the beginning of `>>`. */
bool tc_parser_expect_gt(tc_parser *p) TC_MUST_CHECK;
/* Reports "expected WHAT, found ...", false. */
bool tc_parser_expected(tc_parser *p, const char *what);
tc_loc tc_parser_loc_of(const tc_parser *p, const tc_token *t);
tc_loc tc_parser_loc(const tc_parser *p);
/* From token `first` to the one before the cursor, on the line of the first. */
tc_loc tc_parser_span(const tc_parser *p, uint32_t first);
/* The text there, for messages; `otherwise` where it is long or no text. */
const char *tc_parser_quote(const tc_parser *p, tc_loc span,
                            const char *otherwise);
/* The text of a token, interned. */
const char *tc_parser_text(const tc_parser *p, const tc_token *t);
/* `func @`, `kernel @`, `plan @` or `params @`: nothing skips over it. */
bool tc_parser_at_top(const tc_parser *p);
/* `%name =` on a new line: an expression has ended without its end. */
bool tc_parser_at_new_statement(const tc_parser *p);
/* From an opening bracket of any kind after its partner. */
void tc_parser_skip_nested(tc_parser *p);
/* To where the next statement may begin; names on the way become poison. */
void tc_parser_recover(tc_parser *p, uint32_t start);

/* ---- parse_scope.c ---- */

/* Begins a scope; its names end with tc_scope_close(mark). */
unsigned tc_scope_open(tc_parser *p);
void tc_scope_close(tc_parser *p, unsigned mark);
/* v == NULL: poison. Reports a name that is visible already. */
void tc_scope_define(tc_parser *p, const tc_token *name, tc_value *v);
/* Poison if nothing else is known of it. */
void tc_scope_poison(tc_parser *p, const tc_token *name);
/* Poison and reported if it is not visible. */
tc_operand tc_scope_find(tc_parser *p, const tc_token *name);
/* The hint that a value keeps of its name; NULL of a number. */
const char *tc_scope_hint(tc_parser *p, const tc_token *name);
/* "; did you mean `exp2`?" or "", for the end of a message. */
const char *tc_did_you_mean(tc_parser *p, const char *got, unsigned n,
                            const char *const *names);
/* Is a value of that name visible? */
bool tc_scope_has(tc_parser *p, const tc_token *name);
/* The compile-time parameter of the function, or NULL. */
const tc_param *tc_parser_param(const tc_parser *p, const tc_token *name);
const tc_param *tc_parser_param_of_kind(const tc_parser *p,
                                        const tc_token *name,
                                        tc_param_kind kind);
extern const tc_func tc_broken_func;

/* ---- parse_unknown.c ---- */

/* Reports the name at hand, which is none of an op, a function, a type, a value
 * of an expression; with what may be meant. False. */
bool tc_parser_unknown_op(tc_parser *p);
bool tc_parser_unknown_func(tc_parser *p);
bool tc_parser_unknown_type(tc_parser *p);
bool tc_parser_unknown_name(tc_parser *p);

/* ---- parse_pack.c ---- */

/* tune(..), or nothing. */
bool tc_parse_tune(tc_parser *p, tc_func *f) TC_MUST_CHECK;

/* At `params @name`; reads it all. */
bool tc_parse_pack(tc_parser *p) TC_MUST_CHECK;
typedef bool tc_parse_item_fn(tc_parser *p, tc_func *f);
/* Items with commas up to `close`, which is read too, after the bracket that
 * opens them; those of a pack for each `*@name`. */
bool tc_parse_packed(tc_parser *p, tc_func *f, tc_token_kind close,
                     tc_parse_item_fn *item) TC_MUST_CHECK;

/* ---- parse_type.c ---- */

/* Whether a type begins here. */
bool tc_parser_at_type(const tc_parser *p);
bool tc_parse_a_type(tc_parser *p, const tc_type **t) TC_MUST_CHECK;
/* The layout token at hand, for a tile or buffer like `t`. */
bool tc_parse_layout(tc_parser *p, const tc_type *t,
                     const tc_layout **layout) TC_MUST_CHECK;
/* One, or several in parentheses. */
bool tc_parse_types(tc_parser *p, unsigned *n,
                    const tc_type *const **types) TC_MUST_CHECK;
bool tc_parse_size(tc_parser *p, const tc_dim **d) TC_MUST_CHECK;

/* ---- parse_expr.c ---- */

bool tc_parse_expr(tc_parser *p, tc_operand *out) TC_MUST_CHECK;
/* The rest of an expression after its first part, which begins at token
 * `first`: * 2 + 1 */
bool tc_parse_expr_from(tc_parser *p, uint32_t first,
                        tc_operand *inout) TC_MUST_CHECK;
bool tc_parse_exprs(tc_parser *p, tc_operands *list) TC_MUST_CHECK;
/* A call of any kind: @f(...), mod(...), exp2(...), cdiv(...). */
bool tc_parser_at_call(const tc_parser *p);
bool tc_parse_call(tc_parser *p, tc_outcome *out) TC_MUST_CHECK;
/* A number with its sign, inf, nan, true or false. */
bool tc_parse_number(tc_parser *p, tc_number *number,
                     bool *is_hex) TC_MUST_CHECK;
void tc_operands_add(tc_parser *p, tc_operands *list, tc_operand o);
tc_operand tc_operand_value(tc_value *v, tc_loc loc); /* v == NULL: poison */
/* A size as a value: a literal, or `dim` of it. */
tc_operand tc_operand_dim(tc_parser *p, tc_loc loc, const tc_dim *d);
tc_operand tc_operand_poison(tc_loc loc);
tc_loc tc_operand_span(const tc_operand *o);

/* ---- parse_index.c ---- */

/* At `[`, after the expression `o`, which becomes what it indexes; is_block:
 * `block` stands before it, at `loc`. */
bool tc_parse_index(tc_parser *p, tc_operand *o, bool is_block,
                    tc_loc loc) TC_MUST_CHECK;

/* ---- parse_fit.c ---- */

/* The operand as a value; literals become a constant of that type (a tile: of
 * its element, in all lanes), or of i32 or f32 for NULL. NULL: poison. */
tc_value *tc_fit_value(tc_parser *p, const tc_operand *o, const tc_type *type);
/* The values of an op's operands, with what conversions of literals and shapes
 * the op allows. False: poison. */
bool tc_fit_op(tc_parser *p, tc_opcode code, tc_loc loc, const tc_operands *ops,
               const tc_type *stated, tc_value **in) TC_MUST_CHECK;
/* Brings the tiles among the values to one shape, and with `splat` the
 * scalars too. `ops` are the operands that have these values. */
bool tc_fit_shapes(tc_parser *p, const char *what, tc_loc loc, unsigned n,
                   const tc_operand *ops, tc_value **values,
                   bool splat) TC_MUST_CHECK;
/* Constants of a group of values that must agree (bounds of a loop). */
bool tc_fit_alike(tc_parser *p, unsigned n, const tc_operand *ops,
                  tc_value **values) TC_MUST_CHECK;
/* Notes where the operands of an op stand in the text. */
void tc_parser_place(tc_parser *p, tc_op *op, const tc_operand *operands);
/* The op with its results inserted, or NULL: reported. */
tc_op *tc_parser_emit(tc_parser *p, tc_op *op, unsigned nstated,
                      const tc_type *const *stated);

/* ---- parse_op.c ---- */

/* An op being read. */
typedef struct tc_op_parts {
    tc_opcode code;
    tc_loc loc;
    tc_operands in;
    tc_attr attrs[TC_MAX_ATTRS];
    bool has_error; /* the op cannot be made, though the text is well formed */
    unsigned nstated;
    const tc_type *const *stated;
    const tc_dim *start; /* of range(start, end), else NULL */
} tc_op_parts;

/* Some name of an op is here. */
bool tc_parser_at_op(const tc_parser *p, tc_opcode *code);
/* name %a, %b clauses : type */
bool tc_parse_op(tc_parser *p, tc_outcome *out) TC_MUST_CHECK;
/* name(%a, %b, key=value) */
bool tc_parse_call_form(tc_parser *p, tc_outcome *out) TC_MUST_CHECK;
/* `: type, type`, if there. */
bool tc_parse_stated(tc_parser *p, tc_op_parts *parts) TC_MUST_CHECK;
void tc_parts_apply_attrs(const tc_op_parts *parts, tc_op *op);
tc_outcome tc_outcome_of_op(tc_op *op); /* NULL: poison */
tc_outcome tc_outcome_of_value(tc_parser *p, tc_value *v);

/* ---- parse_attr.c ---- */

/* A whole number with its sign. */
bool tc_parse_integer(tc_parser *p, int64_t *value) TC_MUST_CHECK;
/* clause(value, ...) after an op, as many as there are. */
bool tc_parse_clauses(tc_parser *p, tc_op_parts *parts) TC_MUST_CHECK;
/* The value of attribute `index`, or the list of them without parentheses. */
bool tc_parse_attr_value(tc_parser *p, tc_op_parts *parts, unsigned index,
                         bool list) TC_MUST_CHECK;
/* ninf, nnan, ..: those allowed of `what`, one or a list. */
bool tc_parse_flags(tc_parser *p, const char *what, unsigned allowed, bool list,
                    unsigned *flags) TC_MUST_CHECK;
/* Makes min or max the reduction of that kind. */
void tc_parts_reduce(tc_parser *p, tc_op_parts *parts);
/* key=value in call form */
bool tc_parse_key_value(tc_parser *p, tc_op_parts *parts) TC_MUST_CHECK;

/* ---- parse_call.c ---- */

/* At `@f(`, `call`, or a function parameter followed by `(`. */
bool tc_parser_at_func_call(const tc_parser *p);
bool tc_parse_func_call(tc_parser *p, tc_outcome *out) TC_MUST_CHECK;

/* ---- parse_plan.c ---- */

/* Values for compile-time parameters, in brackets (ir/given.h). */
typedef struct tc_given {
    unsigned n;
    bool has_star; /* and the parameters of the plan */
    const char **names, **words;
    const tc_dim **sizes;
} tc_given;

/* [N=64, T=bf16, mod=@f], if it is there; may_star: `*` is an entry too. */
bool tc_parse_given(tc_parser *p, tc_given *b, bool may_star) TC_MUST_CHECK;
void tc_given_set(const tc_given *b, tc_op *op);
/* At `launch`. */
bool tc_parse_launch(tc_parser *p, tc_outcome *out) TC_MUST_CHECK;

/* ---- parse_shape.c ---- */

/* At `tensor(`. */
bool tc_parse_tensor(tc_parser *p, tc_outcome *out) TC_MUST_CHECK;

/* At `assert_shape`. */
bool tc_parse_assert_shape(tc_parser *p, tc_outcome *out) TC_MUST_CHECK;

/* ---- parse_region.c ---- */

bool tc_parse_for(tc_parser *p, tc_outcome *out) TC_MUST_CHECK;
bool tc_parse_if(tc_parser *p, unsigned nnames, tc_outcome *out) TC_MUST_CHECK;
bool tc_parse_while(tc_parser *p, tc_outcome *out) TC_MUST_CHECK;
bool tc_parse_warp_groups(tc_parser *p, tc_outcome *out) TC_MUST_CHECK;
/* `parts` are the operands and attributes; a region may follow. */
bool tc_parse_reduce(tc_parser *p, tc_op_parts *parts,
                     tc_outcome *out) TC_MUST_CHECK;

/* ---- parse_stmt.c ---- */

/* Statements up to `}`, which is read too, into the region; what its yield
 * hands over as far as known (types NULL: not). `what` names it in messages.
 * `implicit`: the terminator added where there is none and nothing to hand
 * over, TC_OPCODE_COUNT for none. */
bool tc_parse_region(tc_parser *p, tc_region *r, tc_opcode implicit,
                     unsigned nyields,
                     const tc_type *const *yields) TC_MUST_CHECK;

#endif
