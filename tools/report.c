/* SPDX-License-Identifier: Apache-2.0
 *
 * What the subcommands say to people: diagnostics, errors, progress.
 */
#include "tools/commands.h"
#include "tools/render.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int report_compile(const tilec_context *cx, tilec_status status)
{
    render_list(stderr, tilec_diagnostics(cx), tilec_error_count(cx));
    return (int)status;
}

void report_remarks(const tilec_context *cx)
{
    render_list(stderr, tilec_diagnostics(cx), 0);
}

int report_error(const tilec_error *e)
{
    end_progress();
    if (e->line)
        fprintf(stderr, "%s:%u:%u: error: %s\n", e->file, e->line, e->column,
                e->message);
    else
        fprintf(stderr, "tilec: error: %s\n", e->message);
    return (int)e->status;
}

int report_file(const char *path)
{
    int code = errno == ENOSPC || errno == EIO || errno == ENOMEM ? EXIT_MACHINE
                                                                  : EXIT_INPUT;
    fprintf(stderr, "tilec: error: %s: %s\n", path, strerror(errno));
    return code;
}

double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* One launch at a time in this program. */
static double progress_start;
static bool progress_shown;

void show_progress(void *user, int64_t done, int64_t total)
{
    (void)user;
    if (!isatty(STDERR_FILENO) || total == 0)
        return;
    if (progress_start == 0.0)
        progress_start = seconds_now();
    double gone = seconds_now() - progress_start;
    if (gone < 1.0)
        return;
    fprintf(stderr, "\r%3d %%  %.0f s", (int)(100 * done / total), gone);
    fflush(stderr);
    progress_shown = true;
}

void end_progress(void)
{
    if (progress_shown)
        fputs("\r               \r", stderr);
    progress_shown = false;
    progress_start = 0.0;
}

void show_line(void *user, const char *line)
{
    (void)user;
    puts(line);
}
