/* SPDX-License-Identifier: Apache-2.0
 *
 * What 64 KiB of text can cost: time and memory of compiling each of
 * test/unit/growth/texts.c for each target, in a process of its own, and how
 * it ended.
 *
 *   growth [--only NAME] [--target TARGET] [--pieces N]
 *
 * Fails where one takes more than 30 s of a core, or 4 GiB.
 */
#include "lib/tilec.h"
#include "test/numerics/run.h"
#include "test/unit/growth/texts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_SECONDS = 30, MOST_MEGABYTES = 4096 };

static const char *const targets[] = {"cpu", "sm_80", "sm_90a"};

/* In the child: the exit status is that of the compile. */
static int compile_case(const struct growth_case *c, const char *target,
                        unsigned pieces, int out)
{
    tilec_context *cx;
    if (tilec_context_new(NULL, &cx) != TILEC_OK)
        return TILEC_MACHINE;
    tilec_kernel *k;
    tilec_status s = growth_compile(cx, c, target, pieces, &k);
    const tilec_diagnostic *d = tilec_diagnostics(cx);
    while (d && d->severity != TILEC_ERROR)
        d = d->next;
    if (d)
        dprintf(out, "%u:%u: %.100s", d->line, d->column, d->message);
    return s;
}

static double seconds_of(const struct rusage *u)
{
    return (double)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) +
           1e-6 * (double)(u->ru_utime.tv_usec + u->ru_stime.tv_usec);
}

/* False: it took too much. */
static bool measure(const struct growth_case *c, const char *target,
                    unsigned pieces)
{
    int ends[2], status = 0;
    if (pipe(ends) != 0)
        exit(3);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(compile_case(c, target, pieces, ends[1]));
    close(ends[1]);
    char said[160] = "";
    struct rusage use;
    wait4(child, &status, 0, &use);
    if (read(ends[0], said, sizeof said - 1) < 0)
        said[0] = 0;
    close(ends[0]);
    double seconds = seconds_of(&use), megabytes = (double)use.ru_maxrss / 1024;
    bool ok = WIFEXITED(status) && seconds <= MOST_SECONDS &&
              megabytes <= MOST_MEGABYTES;
    printf("%-22s %-7s %7.2f s %6.0f MB  %s%s\n", c->name, target, seconds,
           megabytes,
           ok                  ? ""
           : WIFEXITED(status) ? "TOO MUCH "
                               : "CRASHED ",
           said);
    return ok;
}

static const char *text_option(int argc, char **argv, const char *name)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return argv[i + 1];
    return NULL;
}

int main(int argc, char **argv)
{
    const char *only = text_option(argc, argv, "--only");
    const char *target = text_option(argc, argv, "--target");
    unsigned pieces = (unsigned)run_option(argc, argv, "pieces", 0);
    bool ok = true;
    for (unsigned i = 0; i < growth_ncases; i++)
        for (unsigned t = 0; t < 3; t++) {
            const struct growth_case *c = &growth_cases[i];
            if ((only && strcmp(only, c->name) != 0) ||
                (target && strcmp(target, targets[t]) != 0) ||
                (c->gpu_only && t == 0))
                continue;
            ok &= measure(c, targets[t], pieces);
        }
    return !ok;
}
