/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of the subcommands: diagnostics, errors, progress.
 */
#define _GNU_SOURCE /* sched_getaffinity */
#include "tools/common/commands.h"

#include "ir/base/escape.h"
#include "tools/common/progress.h"
#include "tools/common/render.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void report(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    progress_end();
    render_message_v(stderr, TC_ERROR, fmt, args);
    va_end(args);
}

printable_text printable(const char *text)
{
    printable_text s;
    tc_escape(s.text, sizeof s.text, text, strlen(text), "");
    return s;
}

int report_compile(const tilec_context *cx, tilec_status status)
{
    render_list(stderr, tilec_diagnostics(cx), tilec_error_count(cx));
    return (int)status;
}

void report_remarks(const tilec_context *cx)
{
    render_list(stderr, tilec_diagnostics(cx), 0);
}

/* The text that a launch's error points into: embedded, or a file. malloc'd;
 * NULL where it is not to be had. */
static char *text_of(const char *file)
{
    const char *dot = strrchr(file, '.');
    char name[160];
    snprintf(name, sizeof name, "%.*s", (int)(dot ? dot - file : 0), file);
    const char *text = tilec_embedded_text(name);
    if (text)
        return strdup(text);
    size_t length;
    return access(file, R_OK) == 0 ? read_text(file, &length) : NULL;
}

/* Cuts the line out of the text; NULL: it has fewer. */
static char *cut_line(char *text, uint32_t line)
{
    while (text && --line) {
        text = strchr(text, '\n');
        text = text ? text + 1 : NULL;
    }
    if (text)
        text[strcspn(text, "\n")] = 0;
    return text;
}

int report_error(const tilec_error *e)
{
    progress_end();
    char *text = e->line ? text_of(e->file) : NULL;
    tilec_diagnostic d = {.severity = TILEC_ERROR,
                          .message = e->message,
                          .file = e->line ? e->file : NULL,
                          .line = e->line,
                          .column = e->column,
                          .source = cut_line(text, e->line)};
    render_list(stderr, &d, 0);
    free(text);
    return (int)e->status;
}

int report_file(const char *path)
{
    int code = errno == ENOSPC || errno == EIO || errno == ENOMEM ? EXIT_MACHINE
                                                                  : EXIT_INPUT;
    report("%s: %s", path, strerror(errno));
    return code;
}

double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void machine_name(char *out, size_t size)
{
    char line[256], name[128] = "";
    FILE *f = fopen("/proc/cpuinfo", "r");
    while (f && !*name && fgets(line, sizeof line, f))
        sscanf(line, "model name : %127[^\n]", name);
    if (f)
        fclose(f);
    cpu_set_t set;
    int cores = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
    snprintf(out, size, "%s%s%d core%s", name, *name ? ", " : "", cores,
             cores == 1 ? "" : "s");
}

void show_line(void *user, const char *line)
{
    (void)user;
    puts(line);
}
