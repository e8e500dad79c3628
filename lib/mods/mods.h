/* SPDX-License-Identifier: Apache-2.0
 *
 * Mod expressions: `causal & sliding_window(w=1024)` becomes a function of tile
 * IR that calls the mods it names, and values for their captured parameters.
 */
#ifndef TC_MODS_H
#define TC_MODS_H

#include "lib/program/compile.h"

typedef enum tc_mod_kind { TC_MOD_MASK, TC_MOD_SCORE } tc_mod_kind;

typedef struct tc_mod_node tc_mod_node;

/* A parsed expression. Nodes are in the order of the text. */
typedef struct tc_mod_expr {
    tc_mod_kind kind;
    uint32_t source; /* for locations */
    const char *text;
    tc_mod_node *root;
    tc_mod_node **uses; /* those that name a function */
    unsigned nuses;
} tc_mod_expr;

/* Grammar (blanks are free):
 *     mask  := and {"|" and}       and := not {"&" not}
 *     not   := "!" not | "(" mask ")" | place "(" mask ")" | use
 *     score := step {"," step}
 *     step  := place "(" score ")" | use
 *     place := "shifted" | "mapped"
 *     use   := [FILE "@" | "@"] NAME ["(" [NAME "=" value {"," ...}] ")"]
 *     value := number | "true" | "false" | NAME
 * False: reported, at the place in the expression. */
bool tc_mods_parse(tc_job *job, tc_mod_kind kind, const char *text,
                   tc_mod_expr *out) TC_MUST_CHECK;

/* The file and function that a use names. file is NULL where it is no
 * `FILE@FUNC`. */
const char *tc_mod_name(const tc_mod_node *use);
const char *tc_mod_file(const tc_mod_node *use);
/* What the module calls that function; if not the same. */
void tc_mod_link(tc_mod_node *use, const char *symbol);
tc_loc tc_mod_loc(const tc_mod_expr *e, const tc_mod_node *use);
/* Of n bytes of the expression. */
tc_loc tc_mod_place(const tc_mod_expr *e, const char *at, size_t n);

/* A captured scalar whose value the expression gives. */
typedef struct tc_mod_value {
    const char *name; /* of the kernel's parameter: "mask.w" */
    tc_number number;
} tc_mod_value;

typedef struct tc_mod_func {
    tc_source source;
    const char *name; /* of the function in it */
    tc_mod_value *values;
    unsigned nvalues;
} tc_mod_func;

/* The function of an expression whose mods are all in job->module. */
bool tc_mods_compose(tc_job *job, const tc_mod_expr *e,
                     tc_mod_func *out) TC_MUST_CHECK;

#endif
