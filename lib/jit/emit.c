/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints a kernel at any stage: from the sections of its code.
 */
#include "lib/jit/emit.h"

#include "lib/gpu/gpu.h"
#include "lib/host/host_code.h"
#include "lib/program/schedule.h"
#include "lib/program/timeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct form {
    const char *what;
    tc_emit_fn *emit;
};

/* ---- Both ---- */

static tilec_status emit_json(tc_emission *e)
{
    e->text = tc_kernel_json(e->k);
    return e->text ? TILEC_OK : tc_fail_memory(e->error);
}

/* ---- Kernels ---- */

static const tc_code *code_of(const tc_emission *e)
{
    if (e->k->host)
        return (const tc_code *)e->k->host_code;
    return (const tc_code *)atomic_load(&e->k->gpu->variants[TC_GPU_ALIGNED]);
}

tilec_status tc_emit_copy(tc_emission *e, const void *data, size_t size)
{
    e->text = malloc(size + 1);
    if (!e->text)
        return tc_fail_memory(e->error);
    if (size)
        memcpy(e->text, data, size);
    e->text[size] = 0;
    e->size = size;
    return TILEC_OK;
}

static tilec_status emit_section(tc_emission *e)
{
    const char *text = tc_code_text(code_of(e), e->what);
    if (!*text)
        return tc_fail(e->error, TILEC_USAGE,
                       "there is no `%s`: the passes that were asked for do "
                       "not go through it",
                       e->what);
    return tc_emit_copy(e, text, strlen(text));
}

/* The text after the passes back through code generation, in a context of its
 * own. */
struct reading {
    tc_emission *e;
    tc_context *cx;
    tc_module *m;
};

static void print_schedule(const struct reading *r, tc_func *f)
{
    tc_text text = {.arena = &r->m->arena};
    tc_schedule_print(&text, f, r->e->k->target);
    r->e->text = strdup(text.data);
}

static void print_timeline(const struct reading *r, tc_func *f)
{
    tc_text text = {.arena = &r->m->arena};
    tc_timeline_json(&text, f, r->e->k->target);
    tc_text_add(&text, "\n");
    r->e->text = strdup(text.data);
}

static void read_again(void *arg)
{
    struct reading *r = arg;
    tc_emission *e = r->e;
    const char *form = e->k->host ? "tile" : "machine";
    const char *text = tc_code_text(code_of(e), form);
    r->m = tc_module_new(r->cx);
    if (!tc_parse(r->m, tc_source_add(r->cx, form, text, strlen(text))))
        return;
    tc_func *f = tc_func_find(r->m, e->k->func->name);
    if (strcmp(e->what, "schedule") == 0)
        print_schedule(r, f);
    else if (strcmp(e->what, "timeline") == 0)
        print_timeline(r, f);
    else
        e->text = e->k->host ? tc_host_emit(f, e->what, NULL)
                             : tc_nvptx_llvm(r->m, e->k->target, e->what);
}

static tilec_status emit_again(tc_emission *e)
{
    struct reading r = {e, tc_context_new(), NULL};
    if (!r.cx || !tc_guard(&r.cx->memory, read_again, &r))
        tc_fail_memory(e->error);
    else if (!e->text)
        tc_fail(e->error, TILEC_MACHINE, "%s",
                r.cx->diags ? r.cx->diags->message : "out of memory");
    tc_module_free(r.m);
    tc_context_free(r.cx);
    return e->text ? TILEC_OK : TILEC_MACHINE;
}

/* ---- GPU targets ---- */

static tc_gpu_code *gpu_code_of(const tc_emission *e)
{
    return atomic_load(&e->k->gpu->variants[TC_GPU_ALIGNED]);
}

static tilec_status cubin_by_driver(tc_emission *e, tc_cuda *cuda, int ordinal)
{
    tc_cuda_scope scope;
    const tc_cache_section *cubin;
    tilec_status s = tc_cuda_enter(cuda, ordinal, &scope, e->error);
    if (s != TILEC_OK)
        return s;
    s = tc_gpu_cubin(gpu_code_of(e), e->k->gpu->settings, &scope, &cubin,
                     e->error);
    tc_cuda_leave(&scope);
    return s == TILEC_OK ? tc_emit_copy(e, cubin->data, cubin->size) : s;
}

tilec_status tc_emit_assembled(tc_emission *e, const char *ptxas,
                               unsigned level, const char *ptx)
{
    char said[8192];
    void *cubin;
    size_t size;
    tilec_status s = tc_assemble(ptxas, e->k->target->cpu, level, ptx, &cubin,
                                 &size, said, sizeof said, e->error);
    if (s != TILEC_OK)
        return s;
    /* Its machine code may be looked at to find out why. */
    const tc_loss *loss =
        strcmp(e->what, "cubin") == 0 ? tc_loss_find(said) : NULL;
    s = loss ? tc_fail(e->error, TILEC_MACHINE, "@%s would be slow: %s %s: %s",
                       e->k->func->name, loss->what, loss->mark, loss->remedy)
             : tc_emit_copy(e, cubin, size);
    free(cubin);
    return s;
}

/* For the device that there is, by the driver, which keeps it for the launch;
 * else for the target by ptxas, as is what the driver does not link. */
static tilec_status emit_cubin(tc_emission *e)
{
    const tc_gpu_settings *settings = e->k->gpu->settings;
    tc_cuda *cuda = tc_cuda_get(settings->cuda_library);
    const char *why_not = cuda->why_not;
    if (!settings->ptxas && !*why_not) {
        int ordinal = tc_cuda_current_device(cuda);
        bool fits = tc_gpu_fits(e->k->target, &cuda->devices[ordinal]);
        if (fits && tc_gpu_is_linked(gpu_code_of(e)))
            return cubin_by_driver(e, cuda, ordinal);
        why_not = fits ? "its linker would spoil products of warp groups"
                       : "its device does not run the target";
    }
    char *ptxas = tc_find_program("ptxas", settings->ptxas);
    if (!ptxas)
        return tc_fail(e->error, TILEC_MACHINE,
                       "a cubin is made by the NVIDIA driver, but %s, or by "
                       "ptxas, which is neither on $PATH nor in "
                       "/usr/local/cuda/bin",
                       settings->ptxas ? "another assembler was asked for"
                                       : why_not);
    tilec_status s = tc_emit_assembled(
        e, ptxas, tc_gpu_code_meta(gpu_code_of(e))->ptxas_level,
        tc_gpu_code_text(gpu_code_of(e), "ptx"));
    free(ptxas);
    return s;
}

static tilec_status emit_sass(tc_emission *e)
{
    tilec_status s = emit_cubin(e);
    if (s != TILEC_OK)
        return s;
    char *cubin = e->text;
    e->text = NULL;
    s = tc_disassemble(cubin, e->size, &e->text, e->error);
    free(cubin);
    e->size = e->text ? strlen(e->text) : 0;
    return s;
}

/* ---- Entries ---- */

static const struct form host_forms[] = {{"tile", emit_section},
                                         {"schedule", emit_again},
                                         {"json", emit_json},
                                         {"llvm", emit_again},
                                         {"llvm-opt", emit_again},
                                         {"asm", emit_again},
                                         {0}};
static const struct form gpu_forms[] = {{"tile", emit_section},
                                        {"machine", emit_section},
                                        {"schedule", emit_again},
                                        {"timeline", emit_again},
                                        {"json", emit_json},
                                        {"llvm", emit_again},
                                        {"llvm-opt", emit_again},
                                        {"ptx", emit_section},
                                        {"cubin", emit_cubin},
                                        {"sass", emit_sass},
                                        {0}};

static const struct form plan_host_forms[] = {{"tile", tc_emit_parts},
                                              {"schedule", tc_emit_parts},
                                              {"json", emit_json},
                                              {"llvm", tc_emit_parts},
                                              {"llvm-opt", tc_emit_parts},
                                              {"asm", tc_emit_parts},
                                              {0}};
static const struct form plan_gpu_forms[] = {
    {"tile", tc_emit_parts},     {"machine", tc_emit_parts},
    {"schedule", tc_emit_parts}, {"json", emit_json},
    {"llvm", tc_emit_parts},     {"llvm-opt", tc_emit_parts},
    {"ptx", tc_emit_linked_ptx}, {"cubin", tc_emit_linked_cubin},
    {"sass", tc_emit_parts},     {0}};

static const struct form *forms_of(const tilec_kernel *k)
{
    if (k->plan)
        return tc_target_is_gpu(k->target) ? plan_gpu_forms : plan_host_forms;
    return k->gpu ? gpu_forms : host_forms;
}

static bool has_form(const struct form *forms, const char *what)
{
    while (forms->what && strcmp(forms->what, what) != 0)
        forms++;
    return forms->what;
}

static tilec_status unknown_form(const tc_emission *e, const struct form *forms)
{
    char list[128] = "";
    for (const struct form *f = forms; f->what; f++) {
        strcat(list, f == forms ? "" : f[1].what ? ", " : " and ");
        strcat(list, f->what);
    }
    bool of_kernels = e->k->plan && has_form(gpu_forms, e->what) &&
                      tc_target_is_gpu(e->k->target);
    return tc_fail(e->error, TILEC_USAGE, "%s %s cannot emit `%s`, only %s%s%s",
                   e->k->plan ? "a plan for target" : "target",
                   e->k->target->name, e->what, list,
                   of_kernels ? ": each of its kernels can, as FILE@" : "",
                   of_kernels ? e->k->plan->kernels[0]->func->name : "");
}

tilec_status tilec_kernel_emit_data(const tilec_kernel *k, const char *what,
                                    char **data, size_t *size,
                                    tilec_error *error)
{
    if (!k || !what || !data || !size)
        return tc_fail(error, TILEC_USAGE,
                       "tilec_kernel_emit: an argument is NULL");
    *data = NULL;
    *size = 0;
    tc_emission e = {.k = k, .what = what, .error = error};
    const struct form *forms = forms_of(k), *f = forms;
    while (f->what && strcmp(f->what, what) != 0)
        f++;
    if (!f->what)
        return unknown_form(&e, forms);
    tilec_status s = f->emit(&e);
    if (s != TILEC_OK)
        return s;
    *data = e.text;
    *size = e.size ? e.size : strlen(e.text);
    return TILEC_OK;
}

tilec_status tilec_kernel_emit(const tilec_kernel *k, const char *what,
                               char **text, tilec_error *error)
{
    size_t size;
    if (what && strcmp(what, "cubin") == 0 && k && has_form(forms_of(k), what))
        return tc_fail(error, TILEC_USAGE,
                       "a cubin is no text: use tilec_kernel_emit_data");
    return tilec_kernel_emit_data(k, what, text, text ? &size : NULL, error);
}
