/* SPDX-License-Identifier: Apache-2.0
 *
 * The compilation context and its diagnostics.
 *
 * A context owns interned strings, types, the texts that were parsed and the
 * list of diagnostics. Nothing here prints: a caller reads the list. The
 * tools render it as `file:line:col: error: message`, the line and a caret
 * with `~` to the end of the range.
 */
#ifndef TC_DIAG_H
#define TC_DIAG_H

#include "ir/base/arena.h"

#define TC_MUST_CHECK __attribute__((warn_unused_result))
#define TC_MAX_ERRORS 20

typedef struct tc_type tc_type;
typedef struct tc_dim tc_dim;
typedef struct tc_layout tc_layout;
struct tc_value;

/* file: 1 + index into the context's sources, 0 for none. line and column
 * count from 1, columns in bytes. end: the column after the range, which is of
 * one line; 0 where only its first column is known. */
typedef struct tc_loc {
    uint32_t file, line, col, end;
} tc_loc;
bool tc_loc_is(tc_loc a, tc_loc b); /* they begin at the same place */

typedef enum tc_severity {
    TC_ERROR,
    TC_WARNING,
    TC_REMARK,
    TC_NOTE
} tc_severity;

typedef struct tc_diag tc_diag;
struct tc_diag {
    tc_diag *next;
    tc_severity severity;
    tc_loc loc;
    const char *message;
    const char *pass; /* remarks: the pass that says so; else NULL */
    bool missed;      /* remarks: a faster way was not taken */
    bool is_syntax;   /* errors of the parser: the text has no valid form */
    tc_diag *notes;   /* list through next */
};

/* What @name is called in the module: several files may have one of that
 * name. */
typedef struct tc_alias {
    const char *name, *symbol;
} tc_alias;

typedef struct tc_source {
    const char *name, *text;
    size_t len;
    unsigned naliases;
    const tc_alias *aliases; /* of this text, by lib/program/link.h */
} tc_source;

/* A name of a value in a text, and where it is defined; v NULL: not known. */
typedef void tc_name_seen(void *user, tc_loc at, tc_loc definition,
                          const struct tc_value *v);

typedef struct tc_context {
    tc_memory memory;
    tc_arena arena; /* until tc_context_free: strings, types, sources */
    tc_source *sources;
    unsigned nsources;
    struct tc_intern *strings; /* hash tables, see context.c and type.c */
    struct tc_intern *types;
    struct tc_intern *dims;
    struct tc_intern *layouts;
    const tc_type *scalars[32]; /* by tc_kind */
    /* Multiprocessors of the target's machine model; 0: not known yet. */
    unsigned machine_sms;

    tc_arena diag_arena; /* emptied by tc_diags_clear */
    tc_diag *diags, *last_diag;
    unsigned nerrors;
    unsigned most_errors; /* that are kept: TC_MAX_ERRORS, or as a caller sets
                           * it; the parser stops there */
    bool want_remarks;

    tc_name_seen *name_seen; /* called by the parser; NULL: nobody asks */
    void *name_user;
} tc_context;

/* NULL when out of memory. */
tc_context *tc_context_new(void);
/* Accepts NULL. */
void tc_context_free(tc_context *cx);

/* The same pointer for the same text, for as long as the context lives. */
const char *tc_string_get(tc_context *cx, const char *s);
const char *tc_string_getn(tc_context *cx, const char *s, size_t n);

/* NULL: no such text was interned. */
const char *tc_string_find(tc_context *cx, const char *s);

/* Keeps a copy of name and text; returns the number for tc_loc.file. */
uint32_t tc_source_add(tc_context *cx, const char *name, const char *text,
                       size_t len);
/* Gives a source the aliases of `from`, interned. */
void tc_source_alias(tc_context *cx, uint32_t number, const tc_source *from);

/* Appends an error and returns false, so that `return tc_error(...)` says it
 * all. After TC_MAX_ERRORS further ones are only counted. */
bool tc_error(tc_context *cx, tc_loc loc, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void tc_warning(tc_context *cx, tc_loc loc, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Attaches a note to the newest diagnostic. */
void tc_note(tc_context *cx, tc_loc loc, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Dropped unless cx->want_remarks. */
void tc_remark(tc_context *cx, tc_loc loc, const char *pass, const char *fmt,
               ...) __attribute__((format(printf, 4, 5)));
/* The same for an optimization that was missed: `--remarks` shows these
 * first. */
void tc_missed(tc_context *cx, tc_loc loc, const char *pass, const char *fmt,
               ...) __attribute__((format(printf, 4, 5)));
void tc_diags_clear(tc_context *cx);

/* The name among `names` nearest to `got`, for "did you mean"; NULL when none
 * is near. Near are names that differ by a letter, long ones by a third of
 * their letters (a swap of neighbours is one), and short ones begin alike; else
 * a name that goes on as the other one ends: pad and padding. */
const char *tc_nearest_name(const char *got, const char *const *names,
                            size_t n);

#endif
