/* SPDX-License-Identifier: Apache-2.0
 *
 * The tree of a mod expression, between its parser and its composer.
 */
#ifndef TC_MODS_TREE_H
#define TC_MODS_TREE_H

#include "lib/mods/mods.h"

typedef enum tc_mod_node_kind {
    TC_MOD_USE,     /* of a function */
    TC_MOD_NOT,     /* a */
    TC_MOD_AND,     /* a, b */
    TC_MOD_OR,      /* a, b */
    TC_MOD_THEN,    /* score functions: a, and b on what it gives */
    TC_MOD_SHIFTED, /* a, at positions that begin elsewhere */
    TC_MOD_MAPPED,  /* a, at positions that tensors give */
} tc_mod_node_kind;

/* `w=1024`, or `offsets=my_offsets`. */
typedef struct tc_mod_arg tc_mod_arg;
struct tc_mod_arg {
    tc_mod_arg *next;
    const char *name;
    bool is_number;
    tc_number number;
    const char *rename;
    const char *at; /* in the expression's text */
};

struct tc_mod_node {
    tc_mod_node_kind kind;
    tc_mod_node *a, *b;
    const char *at;
    /* USE: */
    const char *name, *file;
    const char *symbol; /* of the function in the module */
    bool is_placed;     /* in SHIFTED or MAPPED */
    tc_mod_arg *args;
    tc_mod_node *next_use;
    /* The names of its captured parameters in the composed function. */
    const char **captured;
};

#endif
