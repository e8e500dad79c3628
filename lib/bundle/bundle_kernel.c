/* SPDX-License-Identifier: Apache-2.0
 *
 * A kernel's handle from what a bundle has of it. Nothing of the bundle is kept
 * but copies.
 *
 *   code    sections -> code of each variant; `header` -> function, grid
 *   plan    `text` -> steps; `parts` -> kernels
 *
 * Anything may be in a bundle, so that all is checked as if it came from a
 * user: the header is parsed and verified, maps and arguments are compared with
 * it. Machine code is not: it is trusted.
 */
#include "lib/bundle/bundle.h"

#include "codegen/host/jit/cpus.h"
#include "codegen/host/jit/image.h"
#include "lib/cache/code_meta.h"
#include "lib/gpu/gpu.h"
#include "lib/host/host_code.h"
#include "lib/program/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Kernels that one entry may have, those of plans within plans included. */
enum { MOST_KERNELS = 256, MOST_DEPTH = 4, WHY = 400 };

/* All that is made for one entry. */
struct order {
    const tilec_context *owner;
    const tc_bundle *bundle;
    unsigned nmade;
    char why[WHY]; /* it is not sound; "": out of memory */
};

/* One kernel; what is malloc'd is given back by drop() if it fails. */
struct making {
    struct order *order;
    unsigned depth, index;
    tc_record r;
    tc_context *cx;
    tc_module *module;
    tc_gpu *gpu;
    tc_host_code *host;
    tc_launch_plan *plan;
    tilec_kernel *k;
    bool ok;
};

static bool refuse(struct making *m, const char *what)
{
    if (!*m->order->why)
        snprintf(m->order->why, WHY, "kernel %u: %.360s", m->index, what);
    return false;
}

static bool refuse_text(struct making *m, const char *what)
{
    char text[WHY];
    const tc_diag *d = m->cx->diags;
    snprintf(text, sizeof text, "%s: %s (line %u)", what,
             d ? d->message : "it is not sound", d ? d->loc.line : 0);
    return refuse(m, text);
}

/* ---- Sections ---- */

static bool make_entry(struct making *m, tc_record list, tc_entry *out)
{
    tc_cache_section s[TC_ENTRY_MOST_SECTIONS];
    uint32_t n = tc_record_count(list) / 2;
    if (n > TC_ENTRY_MOST_SECTIONS)
        return refuse(m, "it has too many sections");
    for (uint32_t i = 0; i < n; i++) {
        s[i].name = tc_record_text(tc_record_at(list, 2 * i));
        s[i].data = tc_record_bytes(tc_record_at(list, 2 * i + 1), &s[i].size);
        if (!s[i].name || !s[i].data)
            return refuse(m, "a section has no name or no bytes");
    }
    if (!tc_entry_make(out, (tc_key){0}, s, n))
        tc_memory_fail(&m->cx->memory);
    return true;
}

/* ---- Code for the CPU ---- */

static bool read_size(tc_record link, const char *name, size_t *out)
{
    unsigned n;
    bool ok = tc_record_unsigned(tc_record_get(link, name), 0, 1 << 30, &n);
    *out = n;
    return ok;
}

static bool read_image(const tc_entry *entry, tc_image *m, const char **cpu)
{
    const tc_cache_section *bytes = tc_entry_find(entry, "image"),
                           *s = tc_entry_find(entry, "link");
    tc_record link;
    if (!bytes || !s || !tc_record_read(s->data, s->size, &link))
        return false;
    *m = (tc_image){.bytes = bytes->data, .size = bytes->size};
    *cpu = tc_record_text(tc_record_get(link, "cpu"));
    tc_record names = tc_record_get(link, "names");
    m->nnames = tc_record_count(names);
    if (!*cpu || m->nnames > TC_IMAGE_MOST_NAMES ||
        !read_size(link, "text", &m->text_size) ||
        !read_size(link, "data", &m->data_at) ||
        !read_size(link, "table", &m->table_at) ||
        !read_size(link, "entry", &m->entry))
        return false;
    for (unsigned i = 0; i < m->nnames; i++) {
        m->names[i] = tc_record_text(tc_record_at(names, i));
        if (!m->names[i])
            return false;
    }
    return true;
}

static bool load_image(tc_host_kernel *k, const tc_entry *entry, char *why,
                       size_t room)
{
    tc_image m;
    const char *cpu;
    if (!read_image(entry, &m, &cpu)) {
        snprintf(why, room, "it has no sound image");
        return false;
    }
    if (tc_host_cpu_rank(cpu) < 0) {
        snprintf(why, room,
                 "it is code for the CPU %.32s, which this one is not", cpu);
        return false;
    }
    return tc_image_load(k, &m, why, room);
}

static const tc_code *make_host(struct making *m, tc_record variants)
{
    char why[TC_HOST_WHY];
    tc_entry entry;
    if (!make_entry(m, tc_record_at(variants, 0), &entry))
        return NULL;
    m->host = tc_host_decode(&entry, load_image, why, sizeof why);
    if (!m->host) {
        refuse(m, why);
        return NULL;
    }
    return &m->host->code;
}

/* ---- Code for GPUs ---- */

static const tc_gpu_settings *settings_of(struct making *m)
{
    const tilec_context *owner = m->order->owner;
    tc_arena *a = &m->cx->arena;
    tc_gpu_settings *s = tc_arena_new(a, tc_gpu_settings);
    s->cuda_library = tc_arena_string(a, owner->cuda_library);
    s->no_graphs = owner->no_graphs;
    return s;
}

static const tc_code *make_gpu(struct making *m, tc_record variants,
                               const tc_target *target)
{
    m->gpu = tc_arena_new(&m->cx->arena, tc_gpu);
    m->gpu->settings = settings_of(m);
    for (unsigned i = 0; i < TC_GPU_VARIANTS; i++) {
        tc_entry entry;
        tc_record list = tc_record_at(variants, i);
        if (tc_record_count(list) == 0)
            continue;
        if (!make_entry(m, list, &entry))
            return NULL;
        tc_gpu_code *c = tc_gpu_code_new(&entry, false);
        if (!c) {
            refuse(m, "its code for GPUs is not sound");
            return NULL;
        }
        atomic_store(&m->gpu->variants[i], c);
    }
    const tc_gpu_code *first = atomic_load(&m->gpu->variants[TC_GPU_ALIGNED]);
    if (!first || tc_gpu_code_meta(first)->target != target) {
        refuse(m, "it has no code for its target");
        return NULL;
    }
    return (const tc_code *)first;
}

static bool variants_fit(const struct making *m)
{
    for (int i = 0; i < TC_GPU_VARIANTS; i++) {
        const tc_gpu_code *c = atomic_load(&m->gpu->variants[i]);
        if (c && !tc_gpu_maps_fit(m->k, tc_gpu_code_meta(c)))
            return false;
    }
    return true;
}

/* ---- The function ---- */

static bool read_bindings(struct making *m, unsigned *n,
                          const tilec_binding **out)
{
    tc_arena *a = &m->cx->arena;
    tc_record list = tc_record_get(m->r, "bindings");
    *n = tc_record_count(list) / 2;
    tilec_binding *b = tc_arena_array(a, tilec_binding, *n);
    for (unsigned i = 0; i < *n; i++) {
        const char *name = tc_record_text(tc_record_at(list, 2 * i)),
                   *value = tc_record_text(tc_record_at(list, 2 * i + 1));
        if (!name || !value)
            return refuse(m, "a binding is not sound");
        b[i] = (tilec_binding){tc_arena_string(a, name),
                               *value ? tc_arena_string(a, value) : NULL};
    }
    *out = b;
    return true;
}

static bool make_handle(struct making *m, const tc_target *target, tc_func *f)
{
    unsigned nbindings, nown;
    const tilec_binding *bindings = NULL;
    if (!tc_record_unsigned(tc_record_get(m->r, "own"), 0, f->body->nargs,
                            &nown))
        return refuse(m, "it has fewer parameters than it says");
    if (!read_bindings(m, &nbindings, &bindings))
        return false;
    m->k = tc_kernel_new(m->module, target, f, nbindings, bindings, nown);
    return true;
}

/* The one kernel of a header, as is: nothing of it is bound later. */
static tc_func *read_header(struct making *m, const tc_code *c)
{
    const tc_cache_section *header = tc_entry_find(&c->entry, "header");
    tc_func *f = tc_meta_read_header(c->meta, header->data, header->size, m->cx,
                                     m->module);
    if (!f || !tc_module_verify(m->module)) {
        refuse_text(m, "its header");
        return NULL;
    }
    if (f != m->module->first || f->next || f->nparams || !f->grid) {
        refuse(m, "its header is not that of a kernel");
        return NULL;
    }
    return f;
}

static bool make_code(struct making *m, const tc_target *target)
{
    tc_record variants = tc_record_get(m->r, "variants");
    const tc_code *c = tc_target_is_gpu(target) ? make_gpu(m, variants, target)
                                                : make_host(m, variants);
    tc_func *f = c ? read_header(m, c) : NULL;
    if (!f || !make_handle(m, target, f))
        return false;
    tilec_kernel *k = m->k;
    for (unsigned i = 0; i < k->nparams; i++) {
        k->params[i].info.written = tc_meta_lists(c->meta, "written", i);
        k->params[i].info.unused = tc_meta_lists(c->meta, "unused", i);
    }
    if (m->host ? !tc_host_fits(m->host, k) : !variants_fit(m))
        return refuse(m, "its code is not that of its header");
    k->gpu = m->gpu;
    k->host_code = m->host;
    k->host = m->host ? m->host->kernel : NULL;
    return true;
}

/* ---- Plans ---- */

static tilec_kernel *make(struct order *o, unsigned index, unsigned depth);

static unsigned set_places(tc_context *cx, tc_region *r, tc_record places,
                           unsigned next)
{
    tc_each_op (op, r) {
        op->loc = tc_meta_place(cx, tc_record_at(places, next++));
        for (unsigned i = 0; i < op->nregions; i++)
            next = set_places(cx, op->regions[i], places, next);
    }
    return next;
}

static tc_func *read_plan(struct making *m)
{
    size_t n;
    tc_func *plan = NULL;
    const char *text = tc_record_bytes(tc_record_get(m->r, "text"), &n);
    if (!text) {
        refuse(m, "it has neither code nor the text of a plan");
        return NULL;
    }
    if (!tc_parse(m->module, tc_source_add(m->cx, "plan", text, n)) ||
        !tc_module_verify(m->module)) {
        refuse_text(m, "its plan");
        return NULL;
    }
    tc_each_func (f, m->module)
        if (f->is_plan && !plan)
            plan = f;
        else if (f->is_plan || f->nparams) {
            plan = NULL;
            break;
        }
    if (!plan || plan->nparams) {
        refuse(m, "its text is not that of one plan");
        return NULL;
    }
    set_places(m->cx, plan->body, tc_record_get(m->r, "places"), 0);
    return plan;
}

/* Launches give each kernel as many arguments as it takes. */
static bool launches_fit(const tc_launch_plan *plan)
{
    for (unsigned i = 0; i < plan->nsteps; i++) {
        const tc_plan_step *s = &plan->steps[i];
        if (s->kind == TC_STEP_LAUNCH &&
            plan->kernels[s->index]->nparams != s->op->nin)
            return false;
    }
    return true;
}

static bool make_parts(struct making *m)
{
    tc_record parts = tc_record_get(m->r, "parts");
    if (tc_record_count(parts) != m->plan->nkernels || m->plan->nkernels == 0)
        return refuse(m, "its plan launches other kernels than it has");
    for (unsigned i = 0; i < m->plan->nkernels; i++) {
        unsigned index;
        if (m->index == 0 || !tc_record_unsigned(tc_record_at(parts, i), 0,
                                                 m->index - 1, &index))
            return refuse(m, "a part of its plan is not a kernel before it");
        m->plan->kernels[i] = make(m->order, index, m->depth + 1);
        if (!m->plan->kernels[i])
            return false;
        if (m->plan->kernels[i]->target != m->k->target)
            return refuse(m, "a part of its plan is for another target");
    }
    return launches_fit(m->plan) ||
           refuse(m, "a part of its plan takes other arguments");
}

static bool make_plan(struct making *m, const tc_target *target)
{
    const char *const *names;
    tc_func *f = read_plan(m);
    if (!f || !make_handle(m, target, f))
        return false;
    m->plan = m->k->plan = tc_plan_steps(f, &m->cx->arena, &names);
    if (!make_parts(m))
        return false;
    tc_plan_find_written(m->k);
    return true;
}

/* ---- All of it ---- */

static void run(void *arg)
{
    struct making *m = arg;
    m->module = tc_module_new(m->cx);
    const char *name = tc_record_text(tc_record_get(m->r, "target"));
    const tc_target *target = name ? tc_target_get(name) : NULL;
    if (!target) {
        refuse(m, "its target is unknown to this version of tilec");
        return;
    }
    m->ok = tc_record_get(m->r, "variants").at ? make_code(m, target)
                                               : make_plan(m, target);
}

static void drop(struct making *m)
{
    tc_gpu_free(m->gpu);
    tc_code_unref(m->host ? &m->host->code : NULL);
    tc_launch_plan_free(m->plan);
    tc_module_free(m->module);
    tc_context_free(m->cx);
}

static tilec_kernel *make(struct order *o, unsigned index, unsigned depth)
{
    struct making m = {.order = o,
                       .depth = depth,
                       .index = index,
                       .r = o->bundle->kernels[index],
                       .cx = tc_context_new()};
    if (!m.cx)
        return NULL;
    if (++o->nmade > MOST_KERNELS || depth > MOST_DEPTH) {
        refuse(&m, "its plans have too many kernels");
        tc_context_free(m.cx);
        return NULL;
    }
    bool ok = tc_guard(&m.cx->memory, run, &m) && m.ok;
    if (!ok) {
        drop(&m);
        return NULL;
    }
    m.k->workers = o->owner->workers;
    tc_host_pool_ref(o->owner->workers.pool);
    pthread_mutex_init(&m.k->lock, NULL);
    return m.k;
}

bool tc_bundle_has(const tc_bundle_entry *e, const char *role)
{
    return tc_record_get(e->kernels, role).at != NULL;
}

tilec_status tc_bundle_kernel(const tilec_context *cx, const tc_bundle_entry *e,
                              const char *role, tilec_kernel **out,
                              tilec_error *error)
{
    const tc_bundle *b = e->bundle;
    struct order o = {.owner = cx, .bundle = b};
    unsigned index;
    *out = NULL;
    if (b->nkernels == 0 || !tc_record_unsigned(tc_record_get(e->kernels, role),
                                                0, b->nkernels - 1, &index))
        return tc_fail(error, TILEC_INPUT, "%s: entry `%s` has no kernel %s",
                       b->name, *e->name ? e->name : e->key, role);
    *out = make(&o, index, 0);
    if (*out)
        return TILEC_OK;
    return *o.why ? tc_fail(error, TILEC_INPUT, "%s: entry `%s`: %s", b->name,
                            *e->name ? e->name : e->key, o.why)
                  : tc_fail_memory(error);
}

/* ---- By name ---- */

tilec_status tilec_bundle_kernel(tilec_context *cx, const char *name,
                                 const char *target, tilec_kernel **out,
                                 tilec_error *error)
{
    if (!out)
        return tc_fail(error, TILEC_USAGE, "tilec_bundle_kernel: out is NULL");
    *out = NULL;
    if (!cx || !name)
        return tc_fail(error, TILEC_USAGE,
                       "tilec_bundle_kernel: context or name is NULL");
    const char *wanted = target ? target : cx->target;
    char why[WHY];
    tc_bundle_request r = {.kind = "kernel",
                           .key = name,
                           .target = tc_target_find(cx, wanted),
                           .any_target = tc_target_is_auto(wanted)};
    if (!r.target)
        return tc_fail(error, TILEC_USAGE, "there is no target `%s`", wanted);
    const tc_bundle_entry *e = tc_bundle_find(cx, &r, why, sizeof why);
    return e ? tc_bundle_kernel(cx, e, "kernel", out, error)
             : tc_fail(error, TILEC_INPUT, "%s", why);
}

/* ---- All of them ---- */

tilec_status tilec_bundle_verify(tilec_context *cx, tilec_error *error)
{
    if (!cx)
        return tc_fail(error, TILEC_USAGE,
                       "tilec_bundle_verify: context is NULL");
    tilec_status s = TILEC_OK;
    for (const tc_bundle *b = cx->bundles; s == TILEC_OK && b; b = b->next)
        for (unsigned i = 0; s == TILEC_OK && i < b->nentries; i++) {
            const tc_bundle_entry *e = &b->entries[i];
            /* Code for a better CPU cannot be loaded here. */
            if (*e->cpu && tc_host_cpu_rank(e->cpu) < 0)
                continue;
            uint32_t n = tc_record_count(e->kernels);
            for (uint32_t r = 0; s == TILEC_OK && r < n; r += 2) {
                tilec_kernel *k;
                s = tc_bundle_kernel(
                    cx, e, tc_record_text(tc_record_item(e->kernels, r)), &k,
                    error);
                tilec_kernel_free(k);
            }
        }
    return s;
}
