/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads code onto a device: assembled once for each kind of device (kept in the
 * cache; code that is not linked, in the driver's own), loaded once in each
 * context.
 *
 * All that may allocate, synchronise or take long is done here, so that a
 * launch does none of it and can be captured into a graph.
 */
#include "lib/gpu/gpu_profile.h"
#include "lib/gpu/gpu_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const tc_gpu_loaded *tc_gpu_first(const tc_gpu_code *c)
{
    return atomic_load_explicit(&c->loaded, memory_order_acquire);
}

const tc_gpu_loaded *tc_gpu_find(const tc_gpu_code *c, uint64_t context)
{
    const tc_gpu_loaded *l = tc_gpu_first(c);
    while (l && l->context.number != context)
        l = l->next;
    return l;
}

/* ---- Cubins ---- */

/* The device that an assembler is to make code for: the loaded device, or the
 * one kind of device that runs it, by the name that has its own
 * instructions. */
static void arch_name(char *name, size_t room, const tc_gpu_meta *m,
                      const tc_cuda_device *d)
{
    if (m->target->exact)
        snprintf(name, room, "%s", m->target->cpu);
    else
        snprintf(name, room, "sm_%u%u", d->major, d->minor);
}

enum { SECTION_ROOM = 40 };

/* A section of the entry that holds for this driver and kind of device: "cubin"
 * or "loss", the log of a driver that assembled slow code. */
static void section_name(char name[SECTION_ROOM], const char *what,
                         const tc_gpu_meta *m, const tc_cuda_scope *scope)
{
    char arch[24];
    arch_name(arch, sizeof arch, m, scope->device);
    snprintf(name, SECTION_ROOM, "%s %s %d", what, arch, scope->cuda->version);
}

static tc_cuda_jit jit_of(const tc_gpu_meta *m)
{
    const tc_target *t = m->target;
    return (tc_cuda_jit){
        .level = m->ptxas_level,
        .target = t->exact ? TC_CU_ACCELERATED + 10 * t->major + t->minor : 0};
}

/* Code that cannot be kept is assembled again: no error. */
static void write_entry(const tc_gpu_code *c, const tc_gpu_settings *settings)
{
    tc_cache_section sections[TC_ENTRY_MOST_SECTIONS];
    unsigned n = c->code.entry.n;
    char why[8];
    tc_entry more;
    memcpy(sections, c->code.entry.sections, n * sizeof *sections);
    for (struct tc_gpu_cubin *k = c->cubins; k; k = k->next)
        if (n < TC_ENTRY_MOST_SECTIONS)
            sections[n++] = k->section;
    if (!tc_entry_make(&more, c->code.entry.key, sections, n))
        return;
    settings->write(&settings->cache, &more, why, sizeof why);
    tc_entry_free(&more);
}

/* Takes the cubin; NULL: no memory. */
static const tc_cache_section *keep(tc_gpu_code *c,
                                    const tc_gpu_settings *settings,
                                    const char *name, void *cubin, size_t size)
{
    struct tc_gpu_cubin *k = malloc(sizeof *k + strlen(name) + 1);
    if (!k) {
        free(cubin);
        return NULL;
    }
    k->section = (tc_cache_section){strcpy((char *)(k + 1), name), cubin, size};
    k->next = c->cubins;
    c->cubins = k;
    if (c->is_kept)
        write_entry(c, settings);
    return &k->section;
}

static const tc_cache_section *find_cubin(const tc_gpu_code *c,
                                          const char *name)
{
    for (const struct tc_gpu_cubin *k = c->cubins; k; k = k->next)
        if (strcmp(k->section.name, name) == 0)
            return &k->section;
    return tc_entry_find(&c->code.entry, name);
}

static tilec_status assemble(const tc_gpu_code *c,
                             const tc_gpu_settings *settings,
                             const tc_cuda_scope *scope, void **cubin,
                             size_t *size, tc_cuda_log *log, tilec_error *error)
{
    const char *ptx = tc_gpu_code_text(c, "ptx");
    char arch[24];
    if (!settings->ptxas) {
        tc_cuda_jit jit = jit_of(&c->meta);
        return tc_cuda_link(scope->cuda, ptx, tc_gpu_code_size(c, "ptx") + 1,
                            &jit, cubin, size, log, error);
    }
    arch_name(arch, sizeof arch, &c->meta, scope->device);
    return tc_assemble(settings->ptxas, arch, c->meta.ptxas_level, ptx, cubin,
                       size, log->errors, sizeof log->errors, error);
}

/* The driver keeps what it has assembled in a cache of its own, and what it
 * takes from there it loads without a word. So its words are kept here. */
static void keep_loss(tc_gpu_code *c, const tc_gpu_settings *settings,
                      const tc_cuda_scope *scope, const tc_cuda_log *log)
{
    char name[SECTION_ROOM];
    char *words = strdup(tc_loss_find(log->info) ? log->info : log->errors);
    section_name(name, "loss", &c->meta, scope);
    if (words)
        keep(c, settings, name, words, strlen(words) + 1);
}

static void recall_loss(const tc_gpu_code *c, const tc_cuda_scope *scope,
                        tc_cuda_log *log)
{
    char name[SECTION_ROOM];
    section_name(name, "loss", &c->meta, scope);
    const tc_cache_section *words = find_cubin(c, name);
    if (words)
        snprintf(log->info, sizeof log->info, "%.*s", (int)words->size,
                 (const char *)words->data);
}

/* Says what an assembler has lost, and leaves its lines among the errors. */
static tilec_status say_loss(const tc_gpu_code *c, const tc_loss *loss,
                             tc_cuda_log *log, tilec_error *error)
{
    size_t used = strlen(log->errors);
    snprintf(log->errors + used, sizeof log->errors - used, "%s%s",
             used ? "\n" : "", log->info);
    return tc_fail(error, TILEC_MACHINE, "@%s would be slow: %s %s: %s",
                   c->meta.entry, loss->what, loss->mark, loss->remedy);
}

static const tc_loss *loss_of(const tc_cuda_log *log)
{
    const tc_loss *loss = tc_loss_find(log->errors);
    return loss ? loss : tc_loss_find(log->info);
}

static tilec_status get_cubin(tc_gpu_code *c, const tc_gpu_settings *settings,
                              const tc_cuda_scope *scope,
                              const tc_cache_section **out, tc_cuda_log *log,
                              tilec_error *error)
{
    char name[SECTION_ROOM];
    void *cubin;
    size_t size;
    section_name(name, "cubin", &c->meta, scope);
    *out = find_cubin(c, name);
    if (*out)
        return TILEC_OK;
    tilec_status s = assemble(c, settings, scope, &cubin, &size, log, error);
    if (s != TILEC_OK)
        return s;
    const tc_loss *loss = loss_of(log);
    if (loss) {
        free(cubin);
        return say_loss(c, loss, log, error);
    }
    *out = keep(c, settings, name, cubin, size);
    return *out ? TILEC_OK : tc_fail_memory(error);
}

/* The driver's linker assembles as if other code came along: then registers
 * cannot move between warps, and products of warp groups wait for each other.
 * What is loaded without it is assembled as a whole. */
bool tc_gpu_is_linked(const tc_gpu_code *c)
{
    const char *ptx = tc_gpu_code_text(c, "ptx");
    return !c->meta.target->wgmma ||
           (!strstr(ptx, "wgmma.") && !strstr(ptx, "setmaxnreg."));
}

/* A cubin of a bundle, which any driver loads that is not older than what made
 * it. Code of one compute capability runs on later ones of the same major
 * number. */
static const tc_cache_section *bundled_cubin(const tc_gpu_code *c,
                                             const tc_cuda_scope *scope)
{
    const tc_target *t = c->meta.target;
    char name[SECTION_ROOM];
    snprintf(name, sizeof name, "cubin %s", t->cpu);
    return scope->device->major == t->major ? find_cubin(c, name) : NULL;
}

static tilec_status get_image(tc_gpu_code *c, const tc_gpu_settings *settings,
                              const tc_cuda_scope *scope,
                              const tc_cache_section **out, tc_cuda_log *log,
                              tilec_error *error)
{
    *out = bundled_cubin(c, scope);
    if (*out)
        return TILEC_OK;
    if (!tc_entry_find(&c->code.entry, "ptx"))
        return tc_fail(error, TILEC_INPUT,
                       "@%s is from a bundle for %s, which %s is not: make the "
                       "bundle for that, too",
                       c->meta.entry, c->meta.target->name,
                       scope->device->name);
    if (settings->ptxas || tc_gpu_is_linked(c))
        return get_cubin(c, settings, scope, out, log, error);
    *out = tc_entry_find(&c->code.entry, "ptx");
    recall_loss(c, scope, log);
    const tc_loss *loss = loss_of(log);
    return loss ? say_loss(c, loss, log, error) : TILEC_OK;
}

/* ---- Modules ---- */

static unsigned get(const tc_gpu_loaded *l, int what)
{
    int value = 0;
    return l->cuda->function_get(&value, what, l->function) || value < 0
               ? 0
               : (unsigned)value;
}

/* A launch beyond a limit only says CUDA_ERROR_INVALID_VALUE: better here. */
static tilec_status check_limits(const tc_gpu_loaded *l, const tc_gpu_meta *m,
                                 tilec_error *error)
{
    unsigned shared = m->shared_bytes + l->static_shared;
    unsigned threads = get(l, TC_CU_MAX_THREADS);
    if (shared > l->device->shared_optin)
        return tc_fail(error, TILEC_MACHINE,
                       "@%s needs %u bytes of shared memory a block, but %s "
                       "has %u: compile it with fewer stages or smaller tiles",
                       m->entry, shared, l->device->name,
                       l->device->shared_optin);
    if (threads && m->threads > threads)
        return tc_fail(error, TILEC_MACHINE,
                       "@%s has blocks of %u threads, but with its %u "
                       "registers a thread %s runs at most %u: compile it with "
                       "fewer warps",
                       m->entry, m->threads, l->registers, l->device->name,
                       threads);
    return TILEC_OK;
}

/* The first parameter of a map's size; without the driver's word launches take
 * the other variant (gpu_maps.c). */
static int find_maps(tc_gpu_loaded *l)
{
    size_t size = 0;
    int code = 0;
    for (size_t i = 0;
         l->cuda->function_parameter && !code && size != TC_GPU_MAP_BYTES; i++)
        code = l->cuda->function_parameter(l->function, i, &l->maps_at, &size);
    return code;
}

static int load_module(tc_gpu_loaded *l, const tc_gpu_meta *m,
                       const tc_cache_section *image, tc_cuda_log *log)
{
    const tc_cuda *cuda = l->cuda;
    tc_cuda_jit jit = jit_of(m);
    bool is_ptx = strcmp(image->name, "ptx") == 0;
    int code = is_ptx
                   ? tc_cuda_load(cuda, image->data, &jit, &l->module, log)
                   : cuda->module_load(&l->module, image->data, 0, NULL, NULL);
    if (!code)
        code = cuda->module_function(&l->function, l->module, m->entry);
    if (code)
        return code;
    l->registers = get(l, TC_CU_REGISTERS);
    l->local_bytes = get(l, TC_CU_LOCAL_BYTES);
    l->static_shared = get(l, TC_CU_STATIC_SHARED);
    return m->nmaps ? find_maps(l) : 0;
}

/* More than 48 KiB have to be asked for. */
static int claim_shared(const tc_gpu_loaded *l, const tc_gpu_meta *m)
{
    if (m->shared_bytes <= 48 << 10)
        return 0;
    return l->cuda->function_set(l->function, TC_CU_MAX_DYNAMIC_SHARED,
                                 (int)m->shared_bytes);
}

static int make_buffers(tc_gpu_loaded *l, const tc_gpu_meta *m)
{
    int code = tc_cuda_zeros(l->cuda, 2 * TC_GPU_SPARE_BYTES, &l->report);
    if (code)
        l->report = 0;
    l->spare = l->report + TC_GPU_SPARE_BYTES;
    if (!code && m->counts_tiles)
        l->counters = tc_gpu_counters_new(l->cuda, &code);
    if (!code && m->profile.records)
        code = tc_gpu_profile_new(l, &m->profile);
    if (!code && m->nmaps)
        l->maps = tc_gpu_maps_new(m);
    return !code && m->nmaps && !l->maps ? TC_CU_OUT_OF_MEMORY : code;
}

/* A context that is gone has taken its modules and memory along. */
static void unload(tc_gpu_loaded *l, bool is_gone)
{
    tc_gpu_counters_free(l->counters, is_gone);
    tc_gpu_maps_free(l->maps);
    if (l->report && !is_gone)
        l->cuda->mem_free(l->report);
    if (l->rings && !is_gone)
        l->cuda->mem_free(l->rings);
    if (l->module && !is_gone)
        l->cuda->module_unload(l->module);
    free(l);
}

/* Of a module; `code` is the driver's answer when it loaded it. */
static tilec_status fill(tc_gpu_loaded *l, const tc_gpu_meta *m, int code,
                         tilec_error *error)
{
    if (!code) {
        tilec_status s = check_limits(l, m, error);
        if (s != TILEC_OK)
            return s;
        code = claim_shared(l, m);
    }
    if (!code)
        code = make_buffers(l, m);
    if (!code)
        return TILEC_OK;
    return tc_fail(error, TILEC_MACHINE, "@%s does not load on %s: %s",
                   m->entry, l->device->name,
                   tc_cuda_error(l->cuda, code).text);
}

static tilec_status load_locked(tc_gpu_code *c, const tc_gpu_settings *settings,
                                const tc_cuda_scope *scope,
                                const tc_gpu_loaded **out, tc_cuda_log *log,
                                tilec_error *error)
{
    *out = tc_gpu_find(c, scope->context.number);
    if (*out)
        return TILEC_OK;
    const tc_cache_section *image;
    tilec_status s = get_image(c, settings, scope, &image, log, error);
    if (s != TILEC_OK)
        return s;
    tc_gpu_loaded *l = calloc(1, sizeof *l);
    if (!l)
        return tc_fail_memory(error);
    l->cuda = scope->cuda;
    l->context = scope->context;
    l->device = scope->device;
    int code = load_module(l, &c->meta, image, log);
    const tc_loss *loss = code ? NULL : loss_of(log);
    if (loss)
        keep_loss(c, settings, scope, log);
    s = loss ? say_loss(c, loss, log, error) : fill(l, &c->meta, code, error);
    if (s != TILEC_OK) {
        unload(l, false);
        return s;
    }
    l->next = atomic_load(&c->loaded);
    atomic_store_explicit(&c->loaded, l, memory_order_release);
    *out = l;
    return TILEC_OK;
}

tilec_status tc_gpu_load(tc_gpu_code *c, const tc_gpu_settings *settings,
                         const tc_cuda_scope *scope, const tc_gpu_loaded **out,
                         tc_cuda_log *log, tilec_error *error)
{
    *out = tc_gpu_find(c, scope->context.number);
    if (*out)
        return TILEC_OK;
    /* Too large for a stack that a caller of a launch may have. */
    tc_cuda_log *own = log ? NULL : malloc(sizeof *own);
    if (!log && !own)
        return tc_fail_memory(error);
    *(log ? log : own)->errors = 0;
    *(log ? log : own)->info = 0;
    pthread_mutex_lock(&c->lock);
    int mode = tc_cuda_relax(scope->cuda);
    tilec_status s =
        load_locked(c, settings, scope, out, log ? log : own, error);
    tc_cuda_restore(scope->cuda, mode);
    pthread_mutex_unlock(&c->lock);
    free(own);
    return s;
}

tilec_status tc_gpu_cubin(tc_gpu_code *c, const tc_gpu_settings *settings,
                          const tc_cuda_scope *scope,
                          const tc_cache_section **out, tilec_error *error)
{
    tc_cuda_log *log = calloc(1, sizeof *log);
    if (!log)
        return tc_fail_memory(error);
    pthread_mutex_lock(&c->lock);
    tilec_status s = get_cubin(c, settings, scope, out, log, error);
    pthread_mutex_unlock(&c->lock);
    free(log);
    return s;
}

void tc_gpu_unload(tc_gpu_code *c)
{
    tc_gpu_loaded *l = atomic_load(&c->loaded);
    while (l) {
        tc_gpu_loaded *next = l->next;
        tc_cu_context popped;
        tc_cuda *cuda = l->cuda;
        bool is_gone = !tc_cuda_resume(cuda, &l->context);
        int mode = tc_cuda_relax(cuda);
        unload(l, is_gone);
        tc_cuda_restore(cuda, mode);
        if (!is_gone)
            cuda->context_pop(&popped);
        l = next;
    }
    while (c->cubins) {
        struct tc_gpu_cubin *next = c->cubins->next;
        free((void *)(uintptr_t)c->cubins->section.data);
        free(c->cubins);
        c->cubins = next;
    }
}
