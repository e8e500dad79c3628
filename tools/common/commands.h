/* SPDX-License-Identifier: Apache-2.0
 *
 * The subcommands, and the functions by which they talk to the library.
 */
#ifndef TOOL_COMMANDS_H
#define TOOL_COMMANDS_H

#include "lib/tilec.h"
#include "tools/common/args.h"

#include <stdio.h>

extern const tool_command tool_attention, tool_run, tool_compile, tool_opt,
    tool_info, tool_cache, tool_bench, tool_tune, tool_inspect, tool_quantize,
    tool_append, tool_bundle, tool_profile, tool_fmt, tool_completion, tool_lsp;
/* All of them, in the order of `tilec --help`; the last one is NULL. */
extern const tool_command *const tool_commands[];

#define LISTS_HELP                                                             \
    "always, never: list the blocks that the mask leaves first\n"              \
    "(default: where the compiler cannot tell which they are)"
#define ENFORCE_HELP                                                           \
    "GPU targets: warn (default), error or off (a remark) where products\n"    \
    "cannot take an operand in the order in which it lies in memory"
#define TARGET_HELP                                                            \
    "auto (the GPU if there is one, the default), cpu,\n"                      \
    "sm_80, ... (`tilec info targets`)"

/* An error at no place in a text: `tilec: error: ...`. */
void report(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Says on stderr what went wrong (all diagnostics of a compile; one error) and
 * returns the exit code for the status. */
int report_compile(const tilec_context *cx, tilec_status status);
int report_error(const tilec_error *e);
/* After success: warnings and remarks. */
void report_remarks(const tilec_context *cx);
/* `path: why`, from errno; returns EXIT_INPUT or EXIT_MACHINE. */
int report_file(const char *path);

/* A name from outside as a terminal may be shown it (ir/base/escape.h). */
typedef struct printable_text {
    char text[512];
} printable_text;
printable_text printable(const char *text);

double seconds_now(void);
/* "AMD EPYC 9654, 2 cores": what the CPU target runs on. */
void machine_name(char *out, size_t size);
/* A print callback: to stdout. */
void show_line(void *user, const char *line);

/* A whole file (`-`: standard input) with a NUL after it; malloc'd. NULL:
 * reported. */
char *read_text(const char *path, size_t *length);
/* tilec_attention_options.read_source */
int read_source(void *user, const char *file, char **text);
/* Writes out what is left. False: that, or something before, failed; errno. */
bool flush_stream(FILE *out);
/* Is the value of -o (NULL: none given) standard output? */
bool is_stdout(const char *path);
/* Where tensors are written; false: said that this is no place for them. */
bool is_tensor_file(const tool_command *command, const char *path);
/* text to the file of -o, else (or where that is `-`) to stdout; the exit code.
 * Where that fails, what was in the file is still there. */
int write_text(const char *path, const char *text);
int write_data(const char *path, const char *data, size_t size);
/* As many as a tensor of a safetensors file may have. */
enum { TENSOR_DIMS = 32 };
/* A row-major tensor with its own memory (zeroed); data NULL: out of memory. */
typedef struct owned_tensor {
    DLTensor dl;
    int64_t shape[TENSOR_DIMS];
} owned_tensor;
bool tensor_new(owned_tensor *t, DLDataType dtype, int ndim,
                const int64_t *shape);
int64_t tensor_count(const DLTensor *t);
size_t tensor_bytes(const DLTensor *t);

#endif
