/* SPDX-License-Identifier: Apache-2.0
 *
 * How long the language server takes for a keystroke: from didChange, through a
 * pipe, to the diagnostics that answer it.
 *
 *   bench_lsp --tilec PATH [--lines 20000] [--function-lines 25] [--keys 200]
 *             [--goal MILLISECONDS]
 *
 * The text consists of functions and kernels of --function-lines lines. Keys
 * are typed into names of values: half of them make an error, and the next one
 * takes it back. Prints the median, the 95th percentile, and the CPU time of a
 * keystroke, which a busy machine changes less; a median beyond the goal fails.
 */
#include "test/numerics/run.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_KEYS = 10000, SHORTEST = 8 };

struct server {
    FILE *to, *from;
    pid_t child;
};

static void fail(const char *why)
{
    printf("FAILED %s\n", why);
    exit(1);
}

static struct server start(const char *tilec)
{
    int in[2], out[2];
    signal(SIGPIPE, SIG_IGN);
    if (pipe(in) || pipe(out))
        fail("there are no pipes");
    pid_t child = fork();
    if (child == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[1]);
        close(out[0]);
        execl(tilec, tilec, "lsp", NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    return (struct server){fdopen(in[1], "w"), fdopen(out[0], "r"), child};
}

static void tell(struct server *s, const char *message)
{
    fprintf(s->to, "Content-Length: %zu\r\n\r\n%s", strlen(message), message);
    if (fflush(s->to))
        fail("the server has ended");
}

/* The next message, malloc'd. */
static char *listen(struct server *s)
{
    size_t n;
    char gap[4];
    if (fscanf(s->from, "Content-Length: %zu", &n) != 1 ||
        fread(gap, 1, sizeof gap, s->from) != sizeof gap)
        fail("expected an answer");
    char *text = calloc(1, n + 1);
    if (!text || fread(text, 1, n, s->from) != n)
        fail("expected an answer");
    return text;
}

/* Whether the diagnostics that come next have any. */
static bool listen_for_errors(struct server *s)
{
    char *text = listen(s);
    if (!strstr(text, "publishDiagnostics"))
        fail("expected diagnostics");
    bool any = strstr(text, "\"message\"") != NULL;
    free(text);
    return any;
}

/* ---- The text ---- */

static void write_function(FILE *f, long number, long lines)
{
    fprintf(f,
            "func @f%ld(%%x: tile<64x64 x f32>, %%s: f32) -> "
            "tile<64x64 x f32> {\\n",
            number);
    fprintf(f, "  %%v0 = %%x * %%s // scaled\\n");
    for (long i = 1; i < lines - 4; i++)
        fprintf(f,
                i % 3 ? "  %%v%ld = exp2(%%v%ld - %%x) + %%v%ld\\n"
                      : "  %%v%ld = max(%%v%ld, %%x * 0.5) / %%v%ld\\n",
                i, i - 1, i / 2);
    fprintf(f, "  return %%v%ld\\n}\\n\\n", lines - 5);
}

static void write_kernel(FILE *f, long number, long lines)
{
    fprintf(f,
            "kernel @k%ld(%%a: tensor<[?, 64] x f32>)"
            " grid(cdiv(size(%%a, 0), 64)) {\\n"
            "  %%row = program_id(0) * 64\\n"
            "  %%v0 = load %%a[%%row +: 64, 0 +: 64] boundary(0) pad(0)\\n",
            number);
    for (long i = 1; i < lines - 5; i++)
        fprintf(f, "  %%v%ld = @f%ld(%%v%ld, 2.0) * %%v%ld\\n", i,
                number - 1 - i % 3, i - 1, i / 2);
    fprintf(f,
            "  store %%a[%%row +: 64, 0 +: 64], %%v%ld boundary(0)\\n}\\n\\n",
            lines - 6);
}

/* As a text in JSON, malloc'd. */
static char *text_of(long lines, long each)
{
    char *text;
    size_t len;
    FILE *f = open_memstream(&text, &len);
    for (long i = 0; f && i < lines / each; i++)
        (i % 4 == 3 ? write_kernel : write_function)(f, i, each);
    if (!f || fclose(f))
        fail("out of memory");
    return text;
}

/* ---- Keys ---- */

/* Types an `x` after the name of `%v0` in that line, or takes it back; true if
 * there are errors then. */
static bool type_key(struct server *s, long line, bool back)
{
    static int version = 1;
    char message[512];
    snprintf(message, sizeof message,
             "{\"jsonrpc\":\"2.0\",\"method\":\"textDocument/didChange\","
             "\"params\":{\"textDocument\":{\"uri\":\"file:///bench.tile\","
             "\"version\":%d},\"contentChanges\":[{\"range\":{\"start\":{"
             "\"line\":%ld,\"character\":5},\"end\":{\"line\":%ld,"
             "\"character\":%d}},\"text\":\"%s\"}]}}",
             ++version, line, line, back ? 6 : 5, back ? "" : "x");
    tell(s, message);
    return listen_for_errors(s);
}

/* Milliseconds of each key. Lines of `%v0` are the second of a function, the
 * third of a kernel. */
static void type_keys(struct server *s, long functions, long each, int keys,
                      double *ms)
{
    for (int i = 0; i < keys; i++) {
        long number = (i / 2) * 7919L % functions;
        long line = number * each + (number % 4 == 3 ? 2 : 1);
        double begin = run_seconds();
        if (type_key(s, line, i % 2) == (i % 2 == 1))
            fail("an error that is typed is shown, and only that");
        ms[i] = 1e3 * (run_seconds() - begin);
    }
}

static void open_text(struct server *s, const char *text)
{
    static const char head[] =
        "{\"jsonrpc\":\"2.0\",\"method\":\"textDocument/didOpen\",\"params\":"
        "{\"textDocument\":{\"uri\":\"file:///bench.tile\",\"languageId\":"
        "\"tile\",\"version\":1,\"text\":\"";
    size_t room = sizeof head + strlen(text) + 8;
    char *message = malloc(room);
    if (!message)
        fail("out of memory");
    snprintf(message, room, "%s%s\"}}}", head, text);
    tell(s, "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\","
            "\"params\":{}}");
    free(listen(s));
    tell(s, message);
    free(message);
    if (listen_for_errors(s))
        fail("the text has errors");
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Seconds of CPU time that the server took. */
static double finish(struct server *s)
{
    int status = 1;
    struct rusage used;
    tell(s, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"shutdown\"}");
    free(listen(s));
    tell(s, "{\"jsonrpc\":\"2.0\",\"method\":\"exit\"}");
    if (wait4(s->child, &status, 0, &used) < 0 || status)
        fail("the server ends with an error");
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

int main(int argc, char **argv)
{
    static double ms[MOST_KEYS];
    const char *tilec = NULL;
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], "--tilec") == 0)
            tilec = argv[i + 1];
    long lines = run_option(argc, argv, "lines", 20000);
    long each = run_option(argc, argv, "function-lines", 25);
    int keys = (int)run_option(argc, argv, "keys", 200);
    double goal = (double)run_option(argc, argv, "goal", 1 << 30);
    if (!tilec || each < SHORTEST || lines < 4 * each || keys < 1 ||
        keys > MOST_KEYS) {
        printf("expected --tilec PATH, and at least 4 functions of %d lines\n",
               SHORTEST);
        return 2;
    }
    struct server s = start(tilec);
    char *text = text_of(lines, each);
    double begin = run_seconds();
    open_text(&s, text);
    printf("open %ld lines  %8.2f ms\n", lines, 1e3 * (run_seconds() - begin));
    free(text);
    type_keys(&s, lines / each, each, keys, ms);
    double cpu = finish(&s);
    qsort(ms, (size_t)keys, sizeof *ms, by_size);
    printf("a keystroke, median %8.2f ms\n", ms[keys / 2]);
    printf("95th percentile     %8.2f ms\n", ms[keys * 95 / 100]);
    printf("CPU time            %8.2f ms\n", 1e3 * cpu / (keys + 1));
    return ms[keys / 2] > goal;
}
