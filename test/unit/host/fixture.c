/* SPDX-License-Identifier: Apache-2.0 */
#include "test/unit/host/fixture.h"

#include "codegen/host/jit/compile.h"
#include "codegen/host/runtime/pool.h"
#include "passes/passes.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

host_test host;

static const char *const avx2 =
    "+sse,+sse2,+sse3,+ssse3,+sse4.1,+sse4.2,+avx,+avx2,+fma,+f16c,+bmi,+bmi2";
const tc_host_options host_machines[] = {
    {"x86-64-v3", NULL, 0}, {"x86-64", "+sse,+sse2", 0}, {NULL, NULL, 0}};
const unsigned host_nmachines = 3;

bool host_try(const char *text, const tc_host_options *options)
{
    memset(&host, 0, sizeof host);
    host.cx = tc_context_new();
    jmp_buf unwind;
    host.cx->memory.unwind = &unwind;
    if (setjmp(unwind))
        ck_abort_msg("out of memory");
    host.module = tc_module_new(host.cx);
    uint32_t source = tc_source_add(host.cx, "test.tile", text, strlen(text));
    tc_host_options o = options ? *options : (tc_host_options){0};
    if (o.cpu && strcmp(o.cpu, "x86-64-v3") == 0)
        o.features = avx2;
    tc_pass_options none = {0};
    bool ok = tc_parse(host.module, source) &&
              tc_run_pipeline(host.module, "cpu", &none);
    host.func = host.module->first;
    if (ok)
        host.kernel = tc_host_compile(host.func, &o);
    host.cx->memory.unwind = NULL;
    return host.kernel != NULL;
}

const char *host_error(void)
{
    return host.cx->diags ? host.cx->diags->message : "";
}

void host_compile(const char *text)
{
    if (!host_try(text, NULL))
        ck_abort_msg("%u:%u: %s", host.cx->diags ? host.cx->diags->loc.line : 0,
                     host.cx->diags ? host.cx->diags->loc.col : 0,
                     host_error());
}

/* ---- Memory ---- */

typedef struct mapping {
    char *start;
    size_t bytes;
    struct mapping *next;
} mapping;
static mapping *mappings;

static void *guarded(size_t bytes, bool at_end)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t inside = (bytes + page - 1) / page * page;
    char *p = mmap(NULL, inside + 2 * page, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(p, MAP_FAILED);
    if (inside)
        ck_assert_int_eq(mprotect(p + page, inside, PROT_READ | PROT_WRITE), 0);
    mapping *m = malloc(sizeof *m);
    *m = (mapping){p, inside + 2 * page, mappings};
    mappings = m;
    return p + page + (at_end ? inside - bytes : 0);
}

void *host_memory(size_t bytes, bool at_end)
{
    return guarded(bytes, at_end);
}

/* ---- Tensors and launches ---- */

host_tensor host_new(size_t elem_bytes, unsigned rank, const int32_t *sizes)
{
    static unsigned turn;
    host_tensor t = {.count = 1};
    for (unsigned i = rank; i-- > 0;) {
        t.sizes[i] = sizes[i];
        t.strides[i] = (int64_t)t.count;
        t.count *= (size_t)sizes[i];
    }
    t.data = guarded(t.count * elem_bytes, turn++ % 2);
    return t;
}

tc_launch_arg host_arg(const host_tensor *t)
{
    return (tc_launch_arg){t->sizes, t->strides, {0}, t->data};
}

tc_launch_arg host_int(int64_t i)
{
    return (tc_launch_arg){.scalar = {.i = i}};
}

tc_launch_arg host_float(double f)
{
    return (tc_launch_arg){.scalar = {.f = f}};
}

int host_small(void)
{
    static uint32_t state = 1;
    state = state * 1664525 + 1013904223;
    return (int)(state >> 24) % 17 - 8;
}

static void take_line(void *user, const char *line)
{
    host_test *h = user;
    size_t used = strlen(h->printed);
    snprintf(h->printed + used, sizeof h->printed - used, "%s\n", line);
}

/* Of all launches of the process. */
static tc_host_pool *pool;

void host_run(void *user, size_t count, void (*run)(void *task, size_t i),
              void *task)
{
    (void)user;
    tc_host_pool_run(pool, count, run, task);
}

void host_make_pool(void)
{
    pool = tc_host_pool_new();
    ck_assert_ptr_nonnull(pool);
}

void host_free_pool(void)
{
    tc_host_pool_unref(pool);
}

static const tc_host_launch_options taking_lines = {.print = take_line,
                                                    .user = &host};

bool host_launch_threads(const tc_launch_arg *args, unsigned threads)
{
    int32_t grid[3];
    ck_assert(tc_eval_grid(host.cx, host.func, args, 1, grid));
    tc_host_launch_options o = taking_lines;
    o.threads = threads;
    o.parallel_for = host_run;
    return tc_host_launch(host.kernel, args, grid, &o, &host.report);
}

static void pack(const tc_launch_arg *args, int64_t *to)
{
    const tc_host_kernel *k = host.kernel;
    for (unsigned i = 0; i < k->nargs; i++) {
        unsigned rank = k->args[i].kind == TC_TENSOR ? k->args[i].rank : 0;
        if (k->args[i].kind >= TC_PTR)
            *to++ = (int64_t)(intptr_t)args[i].data;
        else if (tc_scalar_infos[k->args[i].kind].is_float)
            memcpy(to++, &args[i].scalar.f, 8);
        else
            *to++ = args[i].scalar.i;
        for (unsigned j = 0; j < rank; j++)
            *to++ = args[i].sizes[j];
        for (unsigned j = 0; j < rank; j++)
            *to++ = args[i].strides[j];
    }
}

bool host_launch(const tc_launch_arg *args)
{
    const tc_host_kernel *k = host.kernel;
    tc_run run = {
        .sites = k->sites, .options = &taking_lines, .report = &host.report};
    ck_assert(tc_eval_grid(host.cx, host.func, args, 1, run.grid));
    pthread_mutex_init(&run.lock, NULL);
    size_t bytes = k->scratch_bytes < 64 ? 64 : k->scratch_bytes;
    void *scratch = guarded(bytes, true);
    int64_t words[128];
    pack(args, words);
    host.report = (tc_host_report){0};
    const int32_t *n = run.grid;
    for (int32_t z = 0; z < n[2]; z++)
        for (int32_t y = 0; y < n[1]; y++)
            for (int32_t x = 0; x < n[0] && !host.report.failed; x++) {
                /* What a program finds in its scratch memory is of no use. */
                memset(scratch, 0xff, bytes);
                tc_run_thread t = {&run, {x, y, z}};
                k->fn(words, scratch, x, y, z, n[0], n[1], n[2], &t);
            }
    pthread_mutex_destroy(&run.lock);
    return !host.report.failed;
}

void host_close(void)
{
    while (mappings) {
        mapping *m = mappings;
        munmap(m->start, m->bytes);
        mappings = m->next;
        free(m);
    }
    tc_host_free(host.kernel);
    tc_module_free(host.module);
    tc_context_free(host.cx);
    host.kernel = NULL;
    host.module = NULL;
    host.cx = NULL;
}
