/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line of a subcommand: a table of options, read into lists.
 *
 *   --name VALUE, --name=VALUE, -n VALUE, -nVALUE; `--` ends the options.
 */
#ifndef TOOL_ARGS_H
#define TOOL_ARGS_H

#include <stdbool.h>
#include <stdint.h>

/* Exit codes; those of tilec_status. */
enum { EXIT_DONE = 0, EXIT_INPUT = 1, EXIT_USAGE = 2, EXIT_MACHINE = 3 };

typedef struct tool_option {
    const char *name;  /* "--mask", or "-o" */
    const char *value; /* what follows it, for the help; NULL: nothing. Ends
                        * in "..." where all words up to the next option do;
                        * "[=WHICH]" where it may be left out */
    const char *help;  /* lines separated by \n */
} tool_option;

#define REMARKS_OPTION                                                         \
    {                                                                          \
        "--remarks", "[=WHICH]",                                               \
            "say what the compiler did not do and why; all: what it did, too"  \
    }

typedef struct tool_args tool_args;
typedef struct tool_command {
    const char *name;
    const char *words;          /* the words it takes: "FILE [FILE...]" */
    const char *summary;        /* one line */
    const char *help;           /* further lines, or "" */
    const tool_option *options; /* ends in a NULL name */
    int (*run)(const tool_args *args);
} tool_command;

enum { TOOL_MOST_WORDS = 512 };

struct tool_args {
    const tool_command *command;
    int nwords;
    const char *words[TOOL_MOST_WORDS];
    int ngiven;
    struct {
        const char *name, *value; /* value: NULL of a flag */
    } given[TOOL_MOST_WORDS];
};

/* argv[0] is the subcommand. False: said what is wrong on stderr. */
bool tool_parse(const tool_command *c, int argc, char **argv, tool_args *out);
bool tool_has(const tool_args *args, const char *option);
/* The last value given; NULL: none. */
const char *tool_value(const tool_args *args, const char *option);
/* --precision; NULL where it is not given. False: said what is wrong. */
bool tool_precision(const tool_args *args, const char **out);
/* --enforce, as a tc_enforce and tilec_enforce; 0 where it is not given. False:
 * said what is wrong. */
bool tool_enforce(const tool_args *args, int *out);
/* --remarks: are there to be any, and shows those that it names. False: said
 * what is wrong. */
bool tool_remarks(const tool_args *args, bool *want);
/* --lists, as block_lists of tilec_attention_options. Exit code. */
int tool_lists(const tool_args *args, int *out);
/* --dropout and --seed; 0 where they are not given. Exit code. */
int tool_dropout(const tool_args *args, double *p, int64_t *seed);
void tool_help(const tool_command *c);
/* Options of every command; ends in a NULL name. `--help` comes besides. */
extern const tool_option tool_options_everywhere[];
/* Says that the command line is wrong; returns EXIT_USAGE. */
int tool_usage(const tool_command *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
