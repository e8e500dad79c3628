/* SPDX-License-Identifier: Apache-2.0
 *
 * The files that a program needs besides its sources: those that texts import,
 * and those that bindings and mods name, as `FILE.tile@function`.
 */
#ifndef TC_IMPORTS_H
#define TC_IMPORTS_H

#include "lib/program/compile.h"
#include "lib/program/link.h"

/* The caller's way to files; `read` as tilec_compile_options.read_source. */
typedef struct tc_reader {
    int (*read)(void *user, const char *file, char **text);
    void *user;
} tc_reader;

/* A whole file, in the arena of job->cx. False: it cannot be read; nothing is
 * reported. */
bool tc_file_read(tc_job *job, const tc_reader *reader, const char *file,
                  tc_source *out) TC_MUST_CHECK;

/* Whether a text defines @name; where not, *near may be a name that it does. */
bool tc_file_defines(tc_arena *a, const tc_source *text, const char *name,
                     const char **near) TC_MUST_CHECK;

/* Texts without imports, with room for as many files as bindings may name. */
tc_texts tc_texts_new(tc_arena *a, tc_source *sources, unsigned nsources);

/* For a binding whose value is `FILE.tile@function`: reads the file, and leaves
 * `@function`. Others stay. *function: for tc_link. */
bool tc_texts_bind(tc_job *job, const tc_reader *reader, tc_texts *texts,
                   tilec_binding *binding, tc_wanted *function) TC_MUST_CHECK;

/* The file that `text` imports as `file`: relative to the folder of the text,
 * without `.` and `a/..`. */
char *tc_import_path(tc_arena *a, const char *text, const char *file);

/* Reads what sources and imports import, once each: files relative to the
 * folder of the text that imports them, an imported one before the one that
 * imports it. No two of the texts define a kernel or plan of the same
 * name. */
bool tc_texts_import(tc_job *job, const tc_reader *reader,
                     tc_texts *texts) TC_MUST_CHECK;

#endif
