/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/common/progress.h"

#include "tools/common/commands.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CLEAR_LINE "\r\033[K"

enum { INTERVAL = 5, NEVER = 1000000 }; /* seconds */

/* One line of work at a time in this program. */
static struct {
    char text[160];
    double begin, last; /* when the work began, when a line was written */
    double interval;    /* of lines in a log; 0: none */
    double launch;      /* when the launch began */
    bool on_terminal;   /* a line stands there, to be cleared */
    bool off;
} now;

int progress_read(const tool_args *args)
{
    const char *text = tool_value(args, "--progress");
    char *end;
    now.interval = INTERVAL;
    if (!text)
        return EXIT_DONE;
    now.interval = strtod(text, &end);
    if (end == text || *end || !(now.interval >= 0))
        return tool_usage(args->command,
                          "--progress is `%s`, expected seconds, 0 or more",
                          text);
    return EXIT_DONE;
}

void progress_off(void)
{
    now.off = true;
}

double progress_interval(void)
{
    return now.off || now.interval == 0 ? NEVER : now.interval;
}

static void write_line(void)
{
    fprintf(stderr, "%s, %.0f s\n", now.text, seconds_now() - now.begin);
    now.last = seconds_now();
}

void progress_tick(void)
{
    if (*now.text && !isatty(STDERR_FILENO) &&
        seconds_now() - now.last >= progress_interval())
        write_line();
}

void progress_show(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(now.text, sizeof now.text, fmt, args);
    va_end(args);
    if (now.begin == 0)
        now.begin = now.last = seconds_now();
    if (!now.off && isatty(STDERR_FILENO)) {
        fprintf(stderr, CLEAR_LINE "%s", now.text);
        fflush(stderr);
        now.on_terminal = true;
    }
    progress_tick();
}

void progress_end(void)
{
    if (now.on_terminal)
        fputs(CLEAR_LINE, stderr);
    now.on_terminal = false;
    *now.text = 0;
    now.begin = now.launch = 0;
}

void progress_launch(void *user, int64_t done, int64_t total)
{
    (void)user;
    if (total == 0)
        return;
    if (now.launch == 0)
        now.launch = seconds_now();
    double gone = seconds_now() - now.launch;
    if (gone >= 1)
        progress_show("%3d %%  %.0f s", (int)(100 * done / total), gone);
}
