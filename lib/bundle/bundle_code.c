/* SPDX-License-Identifier: Apache-2.0
 *
 * A kernel's code as a record of a bundle: images for CPUs; cubins and PTX of
 * all variants for GPUs.
 */
#include "lib/bundle/bundle.h"

#include "codegen/host/jit/image.h"
#include "lib/gpu/gpu.h"
#include "lib/host/host_code.h"

#include <stdio.h>
#include <stdlib.h>

void tc_bundle_open_kernel(tc_record_writer *w, const tilec_kernel *k)
{
    tc_record_open_map(w, NULL);
    tc_record_add_text(w, "target", k->target->name);
    tc_record_add_int(w, "own", k->nown);
    tc_record_open_list(w, "bindings");
    for (unsigned i = 0; i < k->nbindings; i++) {
        const char *value = k->bindings[i].value;
        tc_record_add_text(w, NULL, k->bindings[i].name);
        tc_record_add_text(w, NULL, value ? value : "");
    }
    tc_record_close(w);
}

static void add_section(tc_record_writer *w, const char *name, const void *data,
                        size_t size)
{
    tc_record_add_text(w, NULL, name);
    tc_record_add_bytes(w, NULL, data, size);
}

static void copy_section(tc_record_writer *w, const tc_code *c,
                         const char *name)
{
    const tc_cache_section *s = tc_entry_find(&c->entry, name);
    if (s)
        add_section(w, name, s->data, s->size);
}

static tc_record_writer write_link(const tc_image *m, const char *cpu)
{
    tc_record_writer w = {0};
    tc_record_open_map(&w, NULL);
    tc_record_add_text(&w, "cpu", cpu);
    tc_record_add_int(&w, "text", (int64_t)m->text_size);
    tc_record_add_int(&w, "data", (int64_t)m->data_at);
    tc_record_add_int(&w, "table", (int64_t)m->table_at);
    tc_record_add_int(&w, "entry", (int64_t)m->entry);
    tc_record_open_list(&w, "names");
    for (unsigned i = 0; i < m->nnames; i++)
        tc_record_add_text(&w, NULL, m->names[i]);
    tc_record_close(&w);
    tc_record_close(&w);
    return w;
}

static tilec_status add_host(tc_record_writer *w, const tilec_context *cx,
                             const tilec_kernel *k, tilec_error *error)
{
    const tc_code *c = &k->host_code->code;
    const tc_cache_section *object = tc_entry_find(&c->entry, "object");
    char why[TC_HOST_WHY];
    tc_image m;
    if (!cx->cpu)
        return tc_fail(error, TILEC_USAGE,
                       "code in a bundle is for CPUs of one kind: give the "
                       "context a cpu, such as x86-64-v3");
    if (!object)
        return tc_fail(error, TILEC_USAGE,
                       "@%s is from a bundle: tilec_bundle_keep records those",
                       k->func->name);
    if (!tc_image_make(object->data, object->size, &m, why, sizeof why))
        return tc_fail(error, TILEC_MACHINE, "@%s: %s", k->func->name, why);
    tc_record_writer link = write_link(&m, cx->cpu);
    tc_record_open_list(w, NULL);
    copy_section(w, c, "meta");
    copy_section(w, c, "header");
    add_section(w, "image", m.bytes, m.size);
    add_section(w, "link", link.data, link.size);
    tc_record_close(w);
    w->failed |= link.failed;
    free(link.data);
    free((void *)(uintptr_t)m.bytes);
    return TILEC_OK;
}

/* What was assembled with a loss of speed is no cubin to ship. */
static tilec_status assemble(const char *ptxas, const tc_gpu_code *c,
                             void **cubin, size_t *size, tilec_error *error)
{
    const tc_gpu_meta *m = tc_gpu_code_meta(c);
    tc_cuda_log *log = calloc(1, sizeof *log);
    if (!log)
        return tc_fail_memory(error);
    tilec_status s = tc_assemble(ptxas, m->target->cpu, m->ptxas_level,
                                 tc_gpu_code_text(c, "ptx"), cubin, size,
                                 log->errors, sizeof log->errors, error);
    const tc_loss *loss = s == TILEC_OK ? tc_loss_find(log->errors) : NULL;
    if (loss) {
        free(*cubin);
        s = tc_fail(error, TILEC_MACHINE, "@%s would be slow: %s %s: %s",
                    m->entry, loss->what, loss->mark, loss->remedy);
    }
    free(log);
    return s;
}

/* PTX goes along where later devices run the code too, and where nothing
 * assembles it here. */
static tilec_status add_variant(tc_record_writer *w, const tilec_context *cx,
                                const tc_gpu_code *c, tilec_error *error)
{
    const tc_target *t = tc_gpu_code_meta(c)->target;
    char *ptxas = tc_find_program("ptxas", cx->ptxas), name[40];
    void *cubin = NULL;
    size_t size = 0;
    tilec_status s =
        ptxas ? assemble(ptxas, c, &cubin, &size, error) : TILEC_OK;
    if (s == TILEC_OK) {
        tc_record_open_list(w, NULL);
        copy_section(w, (const tc_code *)c, "meta");
        copy_section(w, (const tc_code *)c, "header");
        snprintf(name, sizeof name, "cubin %s", t->cpu);
        if (cubin)
            add_section(w, name, cubin, size);
        if (!cubin || !t->exact)
            copy_section(w, (const tc_code *)c, "ptx");
        tc_record_close(w);
    }
    free(cubin);
    free(ptxas);
    return s;
}

/* The variants that launches with usual grids may take. */
static bool is_wanted(const tilec_kernel *k, int which)
{
    if (which == TC_GPU_ALIGNED)
        return true;
    if (which == TC_GPU_FAR || !k->func->aligned)
        return false;
    return which != TC_GPU_UNEVEN || k->func->nmultiples;
}

static tilec_status add_gpu(tc_record_writer *w, const tilec_context *cx,
                            const tilec_kernel *k, tilec_error *error)
{
    tilec_status s = TILEC_OK;
    if (!k->gpu->compile)
        return tc_fail(error, TILEC_USAGE,
                       "@%s is from a bundle: tilec_bundle_keep records those",
                       k->func->name);
    for (int i = 0; s == TILEC_OK && i < TC_GPU_VARIANTS; i++) {
        tc_gpu_code *c;
        if (!is_wanted(k, i)) {
            tc_record_open_list(w, NULL);
            tc_record_close(w);
            continue;
        }
        s = tc_gpu_variant(k, i, &c, error);
        if (s == TILEC_OK)
            s = add_variant(w, cx, c, error);
    }
    return s;
}

tilec_status tc_bundle_add_code(tc_record_writer *w, const tilec_context *cx,
                                const tilec_kernel *k, tilec_error *error)
{
    tc_bundle_open_kernel(w, k);
    tc_record_open_list(w, "variants");
    tilec_status s =
        k->gpu ? add_gpu(w, cx, k, error) : add_host(w, cx, k, error);
    tc_record_close(w);
    tc_record_close(w);
    return s == TILEC_OK && w->failed ? tc_fail_memory(error) : s;
}
