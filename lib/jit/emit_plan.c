/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints a plan at any stage: its own text, those of its kernels, or one module
 * of them all.
 */
#include "codegen/nvptx/nvptx.h"
#include "lib/gpu/gpu.h"
#include "lib/jit/emit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The own text ---- */

static void print_plan(void *arg)
{
    tc_emission *e = arg;
    tc_text text = {.arena = &e->k->cx->diag_arena};
    tc_func_print(&text, e->k->func, TC_PRINT_PLAIN);
    e->text = strdup(text.data ? text.data : "");
}

/* The kernel as callers know it is read-only; under the lock its arenas serve
 * once more. */
static tilec_status emit_plan(tc_emission *e)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&e->k->lock;
    pthread_mutex_lock(lock);
    bool ok = tc_guard(&e->k->cx->memory, print_plan, e);
    pthread_mutex_unlock(lock);
    return ok && e->text ? TILEC_OK : tc_fail_memory(e->error);
}

/* ---- Each kernel ---- */

tilec_status tc_emit_parts(tc_emission *e)
{
    const tc_launch_plan *plan = e->k->plan;
    bool is_tile = strcmp(e->what, "tile") == 0;
    tilec_status s = is_tile ? emit_plan(e) : TILEC_OK;
    for (unsigned i = 0; s == TILEC_OK && i < plan->nkernels; i++) {
        char *part = NULL;
        s = tilec_kernel_emit(plan->kernels[i], e->what, &part, e->error);
        if (s != TILEC_OK)
            break;
        size_t n = e->text ? strlen(e->text) : 0;
        char *all = realloc(e->text, n + strlen(part) + 2);
        if (all)
            sprintf(all + n, "%s%s", n ? "\n" : "", part);
        else
            s = tc_fail_memory(e->error);
        e->text = all ? all : e->text;
        free(part);
    }
    if (s != TILEC_OK) {
        free(e->text);
        e->text = NULL;
    }
    return s;
}

/* ---- One module ---- */

struct linking {
    tc_emission *e;
    tc_context *cx; /* of its own */
    char **texts;   /* LLVM modules of the kernels */
};

static void link_kernels(void *arg)
{
    struct linking *l = arg;
    const tilec_kernel *k = l->e->k;
    l->e->text =
        tc_nvptx_link(l->cx, k->func, k->target, (const char *const *)l->texts,
                      k->plan->nkernels);
}

static tilec_status link_texts(tc_emission *e, char **texts)
{
    struct linking l = {e, tc_context_new(), texts};
    if (!l.cx || !tc_guard(&l.cx->memory, link_kernels, &l))
        tc_fail_memory(e->error);
    else if (!e->text)
        tc_fail(e->error, TILEC_MACHINE, "%s",
                l.cx->diags ? l.cx->diags->message : "out of memory");
    tc_context_free(l.cx);
    return e->text ? TILEC_OK : TILEC_MACHINE;
}

/* LLVM links, so names of tables and texts that two kernels have do not
 * clash. */
tilec_status tc_emit_linked_ptx(tc_emission *e)
{
    const tc_launch_plan *plan = e->k->plan;
    char **texts = calloc(plan->nkernels + 1, sizeof *texts);
    tilec_status s = texts ? TILEC_OK : tc_fail_memory(e->error);
    for (unsigned i = 0; s == TILEC_OK && i < plan->nkernels; i++)
        s = tilec_kernel_emit(plan->kernels[i], "llvm-opt", &texts[i],
                              e->error);
    if (s == TILEC_OK)
        s = link_texts(e, texts);
    for (unsigned i = 0; texts && i < plan->nkernels; i++)
        free(texts[i]);
    free(texts);
    return s;
}

/* The lowest that some kernel asks for; 0: none does. */
static unsigned level_of(const tc_launch_plan *plan)
{
    unsigned lowest = 0;
    for (unsigned i = 0; i < plan->nkernels; i++) {
        const tc_gpu_code *c =
            atomic_load(&plan->kernels[i]->gpu->variants[TC_GPU_ALIGNED]);
        unsigned level = tc_gpu_code_meta(c)->ptxas_level;
        if (level && (!lowest || level < lowest))
            lowest = level;
    }
    return lowest;
}

/* The driver links the code of one kernel at a time. */
static char *find_assembler(tc_emission *e)
{
    const tc_gpu_settings *settings = e->k->plan->kernels[0]->gpu->settings;
    char *ptxas = tc_find_program("ptxas", settings->ptxas);
    if (!ptxas)
        tc_fail(e->error, TILEC_MACHINE,
                "a plan's cubin is made by ptxas, which is neither on $PATH "
                "nor in /usr/local/cuda/bin; FILE@%s gives that of a kernel",
                e->k->plan->kernels[0]->func->name);
    return ptxas;
}

tilec_status tc_emit_linked_cubin(tc_emission *e)
{
    char *ptxas = find_assembler(e);
    tilec_status s = ptxas ? tc_emit_linked_ptx(e) : TILEC_MACHINE;
    if (s == TILEC_OK) {
        char *ptx = e->text;
        e->text = NULL;
        s = tc_emit_assembled(e, ptxas, level_of(e->k->plan), ptx);
        free(ptx);
    }
    free(ptxas);
    return s;
}
