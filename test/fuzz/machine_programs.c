/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutants of machine-level programs. The repository's texts go through a part
 * of a target's pipeline; what is printed there is changed, and goes through
 * parser, verifier, the rest of the pipeline and code generation. Whatever the
 * text, there must be code or an error that blames the text: no crash, no
 * report of a sanitizer, no message that blames the compiler, no input that
 * takes more than 60 s or 4 GiB.
 *
 *   machine_programs [--seed N] [--count N] [--seconds N] [--out FOLDER]
 *                    PATH...
 *   machine_programs --replay FILE
 *
 * Programs come in batches, each in a process of its own: `count` batches from
 * `seed` on, or as many as fit into `seconds`. A finding is made smaller, line
 * by line, and written to FOLDER (".") as a file for --replay. Works in any
 * build; AddressSanitizer's finds most.
 */
#define _GNU_SOURCE
#include "passes/passes.h"
#include "test/fuzz/attempt.h"
#include "test/fuzz/mutant.h"
#include "test/fuzz/texts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PER_BATCH = 40, MOST_SECONDS = 60, MOST_MIB = 4096, MOST_KINDS = 64 };

/* Parent and children share it. */
struct shared {
    attempt now;
    int mutant; /* in the batch */
    unsigned long tried, parsed, verified, passed, coded;
    char base[ATTEMPT_MOST];
};

struct run {
    struct shared *shared;
    texts texts;
    const char *out, *replay;
    uint64_t seed;
    long count, seconds;
    int log; /* what children write */
    char kinds[MOST_KINDS][256];
    unsigned nkinds, nfound, by_kind[MOST_KINDS];
};

/* ---- In a child: programs ---- */

struct printed {
    char *to;
    const char *after; /* the last pass */
};

static void keep(void *user, const tc_pass_event *e)
{
    struct printed *p = user;
    if (e->after && e->text && strlen(e->text) < ATTEMPT_MOST / 2)
        strcpy(p->to, e->text);
}

/* A value for a parameter that must have one. */
static unsigned bind(const tc_func *f, num_rng *r, tc_binding *b, unsigned most)
{
    static const char *const sizes[] = {"16", "32", "64", "64", "128"};
    static const char *const types[] = {"f16", "bf16", "f32", "f8e4m3"};
    unsigned n = 0;
    for (unsigned i = 0; i < f->nparams && n < most; i++) {
        const tc_param *p = &f->params[i];
        bool usual = p->dim || p->type || p->symbol;
        if (p->kind == TC_PARAM_FUNC || (usual && num_below(r, 6)))
            continue;
        if (p->kind == TC_PARAM_INT && usual && strlen(p->name) != 2)
            continue;
        b[n++] = (tc_binding){p->name, p->kind == TC_PARAM_INT
                                           ? sizes[num_below(r, 5)]
                                           : types[num_below(r, 4)]};
    }
    return n;
}

static const tc_func *any_kernel(const tc_module *m, num_rng *r)
{
    const tc_func *found = NULL;
    int n = 0;
    tc_each_func (f, m)
        if (f->is_kernel && num_below(r, ++n) == 0)
            found = f;
    return found;
}

/* Runs passes on a text; the program after the last one that did its work, or
 * the text itself. */
static void lower(num_rng *r, const char *text, const char *target,
                  const char *passes, char *to)
{
    tc_context *cx = tc_context_new();
    tc_module *volatile m = NULL;
    jmp_buf unwind;
    strcpy(to, strlen(text) < ATTEMPT_MOST / 2 ? text : "");
    if (!cx)
        return;
    if (!setjmp(unwind)) {
        cx->memory.unwind = &unwind;
        m = tc_module_new(cx);
        struct printed printed = {to, NULL};
        tc_binding bindings[16];
        tc_pass_options o = {.target = tc_target_get(target),
                             .bindings = bindings,
                             .print_after = "all",
                             .on_event = keep,
                             .user = &printed};
        const tc_func *f = NULL;
        if (tc_parse(m, tc_source_add(cx, "text", text, strlen(text))) &&
            tc_module_verify(m) && (f = any_kernel(m, r))) {
            o.kernel = f->name;
            o.nbindings = bind(f, r, bindings, 16);
            if (!tc_run_pipeline(m, passes, &o))
                to[strlen(to)] = 0;
        }
    }
    tc_module_free(m);
    tc_context_free(cx);
}

static const char *full_pipeline(const char *target)
{
    return tc_target_get(target)->pipeline;
}

/* The program that a batch changes: a text after `*done` passes. */
static void make_base(const struct run *run, num_rng *r, const char *target,
                      char *to, unsigned *done)
{
    static const char before[] =
        "bind-params,check-indices,differentiate,inline";
    char passes[1500] = "";
    const char *text = "";
    unsigned n = attempt_passes(full_pipeline(target), 0, 0, passes, 1);
    for (int tries = 0; tries < 8; tries++) { /* small ones rather */
        text = run->texts.all[num_below(r, (int)run->texts.n)];
        if (strlen(text) < 6000 || num_below(r, 4) == 0)
            break;
    }
    *done = 1 + (unsigned)num_below(r, (int)n);
    if (num_below(r, 3))
        *done = *done < n / 2 ? *done + n / 2 : *done;
    attempt_passes(full_pipeline(target), 0, *done, passes, sizeof passes);
    if (num_below(r, 6) == 0)
        strcpy(passes, before);
    lower(r, text, target, passes, to);
}

static const char *any_target(num_rng *r)
{
    static const char *const names[] = {"sm_80",  "sm_80",  "sm_90a", "sm_90a",
                                        "sm_90a", "sm_90a", "cpu",    "sm_89"};
    return names[num_below(r, 8)];
}

/* What is run on the mutant: what is left of the pipeline, all of it, any
 * passes, or none; after those that make one kernel without calls. */
static void choose_passes(num_rng *r, const char *target, unsigned done,
                          char *to, size_t room)
{
    int how = num_below(r, 20);
    strcpy(to, "");
    if (how > 2)
        strcpy(to, "bind-params,check-indices,differentiate,inline");
    if (how <= 2)
        attempt_passes(full_pipeline(target), 0, 1000, to, room);
    else if (how <= 14)
        attempt_passes(full_pipeline(target), done, 1000, to, room);
    else if (how <= 16)
        for (int n = num_between(r, 1, 4); n--;) {
            int i = num_below(r, (int)tc_npass_infos);
            if (!tc_pass_infos[i].passes && tc_pass_infos[i].run_func)
                attempt_passes(tc_pass_infos[i].name, 0, 1, to, room);
        }
}

/* Mutant `n` of the batch, wherever it is made. */
static void make_mutant(struct shared *s, uint64_t seed, const char *donor,
                        const char *target, unsigned done)
{
    static const unsigned warps[] = {0, 0, 0, 0, 0, 4, 8, 1};
    num_rng r = {seed * 0x9e3779b97f4a7c15u + (uint64_t)s->mutant};
    tc_memory memory = {0};
    tc_arena arena;
    tc_arena_init(&arena, &memory);
    attempt *t = &s->now;
    const char *other = num_below(&r, 8) ? target : any_target(&r);
    snprintf(t->target, sizeof t->target, "%s", other);
    choose_passes(&r, other, other == target ? done : 1000, t->pipeline,
                  sizeof t->pipeline);
    t->warps = warps[num_below(&r, 8)];
    t->round_trip = num_below(&r, 10) == 0;
    const char *text = mutant_new(&arena, &r, s->base, donor);
    snprintf(t->text, sizeof t->text, "%s", text);
    tc_arena_reset(&arena);
}

/* Ends this process after so many seconds of its own time, and ten times as
 * many of any. 0: no more. */
static void limit_time(unsigned seconds)
{
    struct itimerval own = {{0, 0}, {seconds, 0}};
    struct itimerval any = {{0, 0}, {10 * seconds, 0}};
    setitimer(ITIMER_PROF, &own, NULL);
    setitimer(ITIMER_REAL, &any, NULL);
}

static void count(struct shared *s)
{
    s->tried++;
    s->parsed += s->now.parsed;
    s->verified += s->now.verified;
    s->passed += s->now.passed;
    s->coded += s->now.coded;
}

/* The rest of the batch, from the mutant `from` on. */
static void run_batch(struct run *run, uint64_t seed, int from)
{
    struct shared *s = run->shared;
    num_rng r = {seed * 0xbf58476d1ce4e5b9u};
    const char *target = any_target(&r);
    unsigned done, ignored;
    char *donor = malloc(ATTEMPT_MOST);
    limit_time(10 * MOST_SECONDS);
    s->mutant = -1;
    make_base(run, &r, target, donor, &ignored);
    make_base(run, &r, target, s->base, &done);
    for (s->mutant = from; s->mutant < PER_BATCH; s->mutant++) {
        make_mutant(s, seed, donor, target, done);
        limit_time(MOST_SECONDS);
        bool ok = attempt_run(&s->now);
        limit_time(0);
        count(s);
        if (!ok)
            _exit(2);
    }
    _exit(0);
}

/* ---- In the parent: children, and what became of them ---- */

static long resident_mib(pid_t pid)
{
    char path[64];
    long pages = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%*d %ld", &pages) != 1)
        pages = 0;
    if (f)
        fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / 1024) / 1024;
}

typedef void child_fn(struct run *run, uint64_t seed, int from);

static void run_attempt(struct run *run, uint64_t seed, int from)
{
    limit_time(MOST_SECONDS);
    _exit(attempt_run(&run->shared->now) ? 0 : 2);
}

/* Its exit status; *fat: it was ended, for its memory. */
static int run_child(struct run *run, child_fn *f, uint64_t seed, int from,
                     bool *fat)
{
    int ends[2], status = 0;
    *fat = false;
    if (pipe(ends) || ftruncate(run->log, 0))
        exit(1);
    lseek(run->log, 0, SEEK_SET);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        dup2(run->log, 2);
        f(run, seed, from);
    }
    close(ends[1]);
    struct pollfd p = {ends[0], POLLIN, 0};
    while (poll(&p, 1, 200) == 0)
        if (resident_mib(pid) > MOST_MIB) {
            *fat = true;
            kill(pid, SIGKILL);
        }
    close(ends[0]);
    waitpid(pid, &status, 0);
    return status;
}

/* The first line of the log that has `mark`. */
static bool find_in_log(const char *log, const char *mark, char *to, size_t n)
{
    const char *s = strstr(log, mark);
    while (s && s > log && s[-1] != '\n')
        s--;
    if (s)
        snprintf(to, n, "%.*s", (int)strcspn(s, "\n"), s);
    return s != NULL;
}

/* The first function of ours on the stack: `in NAME FILE:LINE`. */
static void find_place(const char *log, char *to, size_t n)
{
    static const char *const folders[] = {"/codegen/", "/passes/", "/ir/",
                                          "/lib/"};
    for (const char *s = log; (s = strstr(s, " in ")); s += 4) {
        size_t len = strcspn(s, "\n");
        for (int i = 0; i < 4; i++)
            if (memmem(s, len, folders[i], strlen(folders[i])) &&
                !memmem(s, len, "libLLVM", 7)) {
                snprintf(to, n, "%.*s", (int)len, s);
                return;
            }
    }
    *to = 0;
}

/* A message without its numbers and names. */
static void blur(const char *said, char *to, size_t n)
{
    size_t k = 0;
    for (; *said && k + 1 < n; said++)
        if (*said == '%' || *said == '@') {
            to[k++] = '%';
            said += strspn(said + 1, "abcdefghijklmnopqrstuvwxyz0123456789._"
                                     "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
        } else if (*said >= '0' && *said <= '9') {
            k -= k && to[k - 1] == '#';
            to[k++] = '#';
        } else {
            to[k++] = *said == '\n' ? ' ' : *said;
        }
    to[k] = 0;
}

/* What is wrong with a child that ended so; false: nothing. */
static bool name_finding(struct run *run, int status, bool fat, char kind[256])
{
    static char log[1 << 18];
    char what[120] = "", where[120] = "";
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return false;
    ssize_t n = pread(run->log, log, sizeof log - 1, 0);
    log[n > 0 ? n : 0] = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
        blur(run->shared->now.said, kind, 200);
    else if (fat)
        snprintf(kind, 256, "more than %d MiB", MOST_MIB);
    else if (WIFSIGNALED(status) &&
             (WTERMSIG(status) == SIGALRM || WTERMSIG(status) == SIGPROF))
        snprintf(kind, 256, "more than %d s", MOST_SECONDS);
    else if (find_in_log(log, "runtime error: ", what, sizeof what) ||
             find_in_log(log, "SUMMARY: ", what, sizeof what) ||
             find_in_log(log, "LLVM ERROR", what, sizeof what) ||
             find_in_log(log, "", what, sizeof what)) {
        find_place(log, where, sizeof where);
        snprintf(kind, 256, "%s%s, status %x", what, where, (unsigned)status);
    }
    return true;
}

/* ---- Findings ---- */

/* Whether this text is wrong in the same way. */
static bool fails_so(struct run *run, const char *text, const char *kind)
{
    bool fat;
    char now[256];
    snprintf(run->shared->now.text, ATTEMPT_MOST, "%s", text);
    int status = run_child(run, run_attempt, 0, 0, &fat);
    return name_finding(run, status, fat, now) && strcmp(now, kind) == 0;
}

/* Without lines begin .. begin + n - 1. */
static bool without(const char *text, unsigned begin, unsigned n, char *to)
{
    bool cut = false;
    for (unsigned line = 0; *text; line++) {
        size_t len = strcspn(text, "\n");
        len += text[len] == '\n';
        if (line < begin || line >= begin + n) {
            memcpy(to, text, len);
            to += len;
        } else {
            cut = true;
        }
        text += len;
    }
    *to = 0;
    return cut;
}

/* Takes out lines, many at once, then few. */
static void reduce(struct run *run, char *text, const char *kind)
{
    char *less = malloc(ATTEMPT_MOST);
    unsigned lines = 1;
    int tries = strstr(kind, "more than") ? 6 : 400;
    for (const char *s = text; *s; s++)
        lines += *s == '\n';
    for (unsigned n = lines / 2; n && tries > 0; n /= 2)
        for (unsigned at = 0; tries > 0 && without(text, at, n, less);) {
            tries--;
            if (fails_so(run, less, kind))
                strcpy(text, less);
            else
                at += n;
        }
    free(less);
}

static void write_finding(struct run *run, const char *text, const char *kind,
                          unsigned index)
{
    char path[4096];
    const attempt *t = &run->shared->now;
    snprintf(path, sizeof path, "%s/finding_%llu_%u_%u.tile", run->out,
             (unsigned long long)run->seed, index, run->by_kind[index]);
    FILE *f = fopen(path, "w");
    if (!f) {
        printf("%s: %s\n", path, strerror(errno));
        return;
    }
    fprintf(f, "// attempt: %s %u %d %s\n// %s\n%s", t->target, t->warps,
            t->round_trip, *t->pipeline ? t->pipeline : "-", kind, text);
    fclose(f);
    printf("  written to %s\n", path);
}

/* Two of each kind are kept. */
static void report(struct run *run, const char *kind, uint64_t seed, int mutant)
{
    unsigned i = 0;
    run->nfound++;
    while (i < run->nkinds && strcmp(run->kinds[i], kind) != 0)
        i++;
    if (i == MOST_KINDS)
        return;
    if (i == run->nkinds)
        snprintf(run->kinds[run->nkinds++], 256, "%s", kind);
    if (++run->by_kind[i] > 2)
        return;
    printf("FAILED --seed %llu --count 1, mutant %d: %s\n",
           (unsigned long long)seed, mutant, kind);
    if (mutant < 0)
        return; /* of a text of the repository, on its way */
    char *text = strdup(run->shared->now.text);
    reduce(run, text, kind);
    write_finding(run, text, kind, i);
    free(text);
    fflush(stdout);
}

static void put_counts(const struct run *run, long batches, time_t start)
{
    const struct shared *s = run->shared;
    printf("%ld batches, %ld s: %lu programs, %lu parsed, %lu verified, %lu "
           "through passes, %lu code; %u findings\n",
           batches, (long)(time(NULL) - start), s->tried, s->parsed,
           s->verified, s->passed, s->coded, run->nfound);
    fflush(stdout);
}

static void fuzz(struct run *run)
{
    struct shared *s = run->shared;
    time_t start = time(NULL);
    long n = 0;
    for (uint64_t seed = run->seed; n < run->count; seed++, n++) {
        if (run->seconds && time(NULL) - start >= run->seconds)
            break;
        for (int from = 0; from < PER_BATCH;) {
            bool fat;
            char kind[256];
            int status = run_child(run, run_batch, seed, from, &fat);
            if (!name_finding(run, status, fat, kind))
                break;
            from = s->mutant < 0 ? PER_BATCH : s->mutant + 1;
            report(run, kind, seed, s->mutant);
        }
        if (n % 100 == 99)
            put_counts(run, n + 1, start);
    }
    put_counts(run, n, start);
}

static bool replay(struct run *run)
{
    attempt *t = &run->shared->now;
    FILE *f = fopen(run->replay, "r");
    int trip;
    bool fat;
    char kind[256];
    if (!f || fscanf(f, "// attempt: %15s %u %d %1499s", t->target, &t->warps,
                     &trip, t->pipeline) != 4) {
        printf("%s: expected a file of --out\n", run->replay);
        return false;
    }
    t->round_trip = trip;
    if (strcmp(t->pipeline, "-") == 0)
        t->pipeline[0] = 0;
    size_t n = fread(t->text, 1, sizeof t->text - 1, f);
    t->text[n] = 0;
    fclose(f);
    int status = run_child(run, run_attempt, 0, 0, &fat);
    bool bad = name_finding(run, status, fat, kind);
    printf("%s: %s\n", run->replay, bad ? kind : "right");
    return !bad;
}

/* ---- The command line ---- */

static bool read_options(struct run *run, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (strcmp(argv[i], "--seed") == 0 && more)
            run->seed = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--count") == 0 && more)
            run->count = strtol(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--seconds") == 0 && more)
            run->seconds = strtol(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--out") == 0 && more)
            run->out = argv[++i];
        else if (strcmp(argv[i], "--replay") == 0 && more)
            run->replay = argv[++i];
        else if (argv[i][0] == '-')
            return false;
        else
            texts_read(&run->texts, argv[i]);
    }
    if (run->seconds && !run->count)
        run->count = LONG_MAX;
    return run->replay || (run->texts.n && run->count);
}

int main(int argc, char **argv)
{
    struct run run = {.seed = 1, .out = "."};
    FILE *log = tmpfile();
    run.shared = mmap(NULL, sizeof *run.shared, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!log || run.shared == MAP_FAILED)
        return 1;
    run.log = fileno(log);
    bool ok = read_options(&run, argc, argv);
    if (!ok)
        printf(
            "expected --count N or --seconds N and paths, or --replay FILE\n");
    else if (run.replay)
        ok = replay(&run);
    else
        fuzz(&run);
    for (unsigned i = 0; i < run.nkinds; i++)
        printf("%5u  %s\n", run.by_kind[i], run.kinds[i]);
    texts_free(&run.texts);
    fclose(log);
    return !ok || run.nfound;
}
