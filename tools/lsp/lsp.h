/* SPDX-License-Identifier: Apache-2.0
 *
 * `tilec lsp`: the language server protocol on standard input and output.
 */
#ifndef TOOL_LSP_H
#define TOOL_LSP_H

#include "ir/ir.h"
#include "ir/text/lex.h"
#include "lib/tilec.h"

#include <cjson/cJSON.h>

enum {
    LSP_PARSE_ERROR = -32700,
    LSP_INVALID_REQUEST = -32600,
    LSP_UNKNOWN_METHOD = -32601,
    LSP_INVALID_PARAMS = -32602,
    LSP_NOT_INITIALIZED = -32002
};

/* A name of a value at a place. */
typedef struct lsp_name {
    tc_loc at, definition;
    const tc_value *v; /* NULL: not known */
} lsp_name;

typedef struct lsp_document {
    char *uri, *text; /* malloc'd */
    const char *path; /* of the file; of the last analysis */
    size_t len;
    size_t *lines; /* where each begins; malloc'd */
    size_t nlines;
    tc_context *cx; /* of the last analysis, with all below */
    tc_module *m;
    tc_arena arena;
    uint32_t file; /* of its locations */
    tc_tokens tokens;
    tc_source *imports; /* files that are imported, directly or not */
    unsigned nimports;
    bool is_linked;      /* and have no error */
    const tc_func *only; /* the function whose body was analyzed; NULL: all */
    lsp_name *names;
    size_t nnames, room;
    struct {
        char *text, *kernel; /* of the last compile, malloc'd */
        size_t len;
        cJSON *lines; /* of tc_inspect_lines; NULL: none */
    } compiled;
    struct {
        char *text; /* the last one without errors, malloc'd; NULL: none */
        size_t len;
        unsigned nfuncs;
        size_t near; /* where it was changed last */
    } base;
} lsp_document;

enum { LSP_MOST_DOCUMENTS = 256 };

typedef struct lsp_server {
    lsp_document documents[LSP_MOST_DOCUMENTS];
    unsigned ndocuments;
    bool initialized, shut_down;
    /* By initializationOptions: what hover compiles kernels for. */
    const char *target;
    tilec_binding *bindings;
    size_t nbindings;
    cJSON *settings; /* holds their texts */
    jmp_buf unwind;  /* out of memory */
} lsp_server;

/* ---- wire.c ---- */

/* The next message, malloc'd; NULL at the end. *bad: its header is wrong. */
char *lsp_read(bool *bad);
/* Takes the object. */
void lsp_write(cJSON *message);
/* The result of request `id`; takes it. */
void lsp_reply(const cJSON *id, cJSON *result);
void lsp_fail(const cJSON *id, int code, const char *message);

/* ---- text.c: positions count lines from 0 and UTF-16 units ---- */

/* Takes the text. False: out of memory. */
bool lsp_text_set(lsp_document *d, char *text, size_t len);
/* The byte at a position; one outside is moved to the end of its line. False:
 * it is no position. */
bool lsp_offset(const lsp_document *d, const cJSON *position, size_t *at);
cJSON *lsp_range(const lsp_document *d, size_t from, size_t to);
cJSON *lsp_range_of(const lsp_document *d, tc_loc loc);
size_t lsp_offset_of(const lsp_document *d, uint32_t line, uint32_t col);
/* One of the changes of didChange. */
bool lsp_text_change(lsp_document *d, const cJSON *change);

/* ---- analysis.c ---- */

void lsp_analyze(lsp_server *s, lsp_document *d);
/* Its parts: tokens and imports, and names that the parser sees. */
void lsp_analysis_begin(lsp_server *s, lsp_document *d);
void lsp_names_begin(lsp_document *d);
void lsp_names_end(lsp_document *d);
void lsp_forget(lsp_document *d); /* the analysis */
void lsp_publish(const lsp_document *d);

/* ---- one_body.c ---- */

/* After a change: as lsp_analyze, or of one body only. */
void lsp_update(lsp_server *s, lsp_document *d);
/* The bodies that lsp_update has left out. */
void lsp_analyze_rest(lsp_server *s, lsp_document *d);
void lsp_keep_base(lsp_document *d);
void lsp_free_base(lsp_document *d);

/* ---- imports.c ---- */

/* The file of a URI; a URI that is no file's stays. */
char *lsp_path_of(tc_arena *a, const char *uri);
/* NULL: it is no file, but a text in the library. */
const char *lsp_uri_of(const lsp_server *s, tc_arena *a, const char *path);
bool lsp_imports(const lsp_document *d);
/* Parses what the text needs of other files into d->m. False: reported. */
bool lsp_link(const lsp_server *s, lsp_document *d);
/* Of the import that names the file, else of the first one. */
tc_loc lsp_import_loc(const lsp_document *d, const char *path);

/* ---- symbol.c ---- */

/* The token at a byte, or one that ends there; NULL: none. */
const tc_token *lsp_token_at(const lsp_document *d, size_t at);
/* Where its text begins, with its mark. */
size_t lsp_token_start(const tc_token *t);
/* Is @name there defined, and not used? */
bool lsp_is_definition(const lsp_document *d, const tc_token *t);
const lsp_name *lsp_name_at(const lsp_document *d, const tc_token *t);
cJSON *lsp_definition(const lsp_server *s, lsp_document *d, size_t at);
cJSON *lsp_references(const lsp_server *s, lsp_document *d, size_t at);
/* Edits that give the symbol at the byte another name. */
void lsp_add_edits(const lsp_document *d, cJSON *list, size_t at,
                   const char *name);

/* ---- rename.c ---- */

/* NULL: *why says why not. */
cJSON *lsp_rename(lsp_document *d, const cJSON *params, size_t at,
                  const char **why);

/* ---- compiled.c ---- */

/* Appends what the last compile made of the token's line, and of the value if
 * it is one, which is defined there. */
void lsp_add_compiled(const lsp_server *s, lsp_document *d, const tc_token *t,
                      tc_loc definition, tc_text *out);
void lsp_compiled_free(lsp_document *d);

/* ---- describe.c ---- */

/* The function whose text holds the byte; NULL: none. */
const tc_func *lsp_function_at(const lsp_document *d, size_t at);
cJSON *lsp_hover(const lsp_server *s, lsp_document *d, size_t at);
cJSON *lsp_complete(const lsp_server *s, lsp_document *d, size_t at);

#endif
