/* SPDX-License-Identifier: Apache-2.0
 *
 * What shells and manual pages say of the command, made of the tables of
 * options that `--help` prints.
 */
#ifndef TOOL_SHELL_H
#define TOOL_SHELL_H

#include "tools/common/commands.h"

/* The scripts, on stdout. */
void shell_put_bash(void);
void shell_put_zsh(void);
void shell_put_fish(void);
/* A manual page: of the command, or of tilec (NULL). */
void shell_put_man(const tool_command *c);

/* ---- values.c ---- */

typedef enum shell_values {
    SHELL_NONE, /* a number, a name: nothing to offer */
    SHELL_FILES,
    SHELL_FOLDERS,
    SHELL_WORDS
} shell_values;

/* What may follow an option that takes a value; words, blank separated, are in
 * *words, malloc'd. */
shell_values shell_values_of(const tool_option *o, char **words);
/* What the words of a command may be, besides files. malloc'd. */
char *shell_words_of(const tool_command *c);
bool shell_takes_files(const tool_command *c);
/* "--remarks[=WHICH]": the value may be left out. */
bool shell_is_optional(const tool_option *o);
/* The first line of an option's help. */
int shell_line(const char *help);

#endif
