/* SPDX-License-Identifier: Apache-2.0
 *
 * tilec_inspect: the table of a kernel's loads and products, as text.
 */
#include "passes/report/inspect.h"
#include "ir/types/layout.h"
#include "lib/program/compile.h"
#include "passes/analysis/axis_info.h"

#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 8 };

typedef struct table {
    tc_arena *arena;
    tc_text *out;
    unsigned ncolumns, width[COLUMNS];
} table;

typedef struct view {
    tc_job *job;
    const tc_func *f;
    const tc_target *target;
    const tc_inspection *seen;
    tc_arena *arena;
    tc_text text;
} view;

/* ---- Tables ---- */

static void measure_row(table *t, const char *const *cells)
{
    for (unsigned i = 0; i < t->ncolumns; i++) {
        unsigned n = (unsigned)strlen(cells[i]);
        t->width[i] = n > t->width[i] ? n : t->width[i];
    }
}

static void put_row(const table *t, const char *const *cells)
{
    tc_text_add(t->out, "  ");
    for (unsigned i = 0; i + 1 < t->ncolumns; i++)
        tc_text_printf(t->out, "%-*s  ", (int)t->width[i], cells[i]);
    tc_text_printf(t->out, "%s\n", cells[t->ncolumns - 1]);
}

/* ---- Words ---- */

/* Line, with the file where that is not the kernel's. */
static const char *inspect_place(const view *v, tc_loc loc)
{
    if (loc.file == v->f->loc.file || !loc.file)
        return tc_arena_printf(v->arena, "%u", loc.line);
    return tc_arena_printf(v->arena, "%s:%u",
                           v->job->cx->sources[loc.file - 1].name, loc.line);
}

static const char *sides(const view *v, const tc_type *t)
{
    tc_text text = {.arena = v->arena};
    for (unsigned i = 0; i < t->rank; i++)
        tc_text_printf(&text, "%s%lld", i ? "x" : "",
                       (long long)tc_dim_value(t->dims[i]));
    return text.data;
}

static const char *layout(const view *v, const tc_type *t)
{
    tc_text text = {.arena = v->arena};
    tc_layout_print(&text, t->layout, 8 * tc_type_bytes(t->elem));
    return text.data;
}

static const char *copying(const view *v, const tc_load_info *l)
{
    static const char *const words[] = {"synchronous", "async copy",
                                        "TMA copy"};
    unsigned slots = l->alloc ? l->alloc->out[0]->type->slots : 0;
    if (slots < 2 || l->copying == TC_COPIED_BY_THREADS)
        return words[l->copying];
    return tc_arena_printf(v->arena, "%s, ring of %u", words[l->copying],
                           slots);
}

static const char *access(const view *v, const tc_buffer_access *a)
{
    const char *ways =
        a->ways > 1 ? tc_arena_printf(v->arena, "%u-way", a->ways) : "none";
    const char *name = tc_op_name(a->op);
    if (a->by_descriptor)
        return tc_arena_printf(v->arena, "wgmma %s", ways);
    if (a->by_matrices)
        return tc_arena_printf(v->arena, "%s by matrices %s", name, ways);
    return tc_arena_printf(v->arena, "%s by %u byte%s %s", name, a->bytes,
                           a->bytes == 1 ? "" : "s", ways);
}

static const char *held_in(const view *v, const tc_load_info *l)
{
    if (l->alloc)
        return layout(v, l->alloc->out[0]->type);
    return tc_arena_printf(v->arena, "registers: %s", layout(v, l->tile));
}

static const char *conflicts(const view *v, const tc_load_info *l)
{
    tc_text text = {.arena = v->arena};
    tc_text_add(&text, l->naccesses ? "" : "-");
    for (unsigned i = 0; i < l->naccesses; i++)
        tc_text_printf(&text, "%s%s", i ? ", " : "",
                       access(v, &l->accesses[i]));
    return text.data;
}

/* ---- Loads ---- */

static const char **load_cells(const view *v, const tc_load_info *l)
{
    const char **c = tc_arena_array(v->arena, const char *, COLUMNS);
    const tc_value *tensor = tc_accessed_tensor(l->op);
    c[0] = inspect_place(v, l->op->loc);
    c[1] = tensor ? tc_value_name(v->job->cx, tensor) : "-";
    c[2] = tc_arena_printf(v->arena, "%s %s", sides(v, l->tile),
                           tc_type_name(v->job->cx, l->tile->elem));
    c[3] = tc_arena_printf(v->arena, "%u B", l->contiguous);
    c[4] = tc_arena_printf(v->arena, "%u B", l->width);
    c[5] = copying(v, l);
    c[6] = held_in(v, l);
    c[7] = conflicts(v, l);
    return c;
}

static void put_loads(view *v, bool hot)
{
    static const char *const head[COLUMNS] = {
        "line",   "load",   "tile",   "contiguous",
        "vector", "copied", "layout", "bank conflicts"};
    table t = {.arena = v->arena, .out = &v->text, .ncolumns = COLUMNS};
    unsigned n = 0;
    measure_row(&t, head);
    for (const tc_load_info *l = v->seen->loads; l; l = l->next)
        if (l->hot == hot) {
            measure_row(&t, load_cells(v, l));
            n++;
        }
    if (n)
        put_row(&t, head);
    for (const tc_load_info *l = v->seen->loads; l; l = l->next) {
        if (l->hot != hot)
            continue;
        put_row(&t, load_cells(v, l));
        if (l->why)
            tc_text_printf(&v->text, "  %*s  %s: %s\n", (int)t.width[0], "",
                           l->copying == TC_COPIED_ASYNC ? "no TMA copy"
                                                         : "not asynchronous",
                           l->why);
        if (l->moved)
            tc_text_printf(&v->text,
                           "  %*s  transposed on the way: to %s, %u bytes, as "
                           "products take nothing else\n",
                           (int)t.width[0], "",
                           layout(v, l->moved->out[0]->type),
                           tc_smem_bytes(l->moved->out[0]->type));
    }
    if (!n)
        tc_text_add(&v->text, "  no loads of tiles\n");
}

/* ---- Pictures ---- */

enum { LINE = 128, PIECE = 16, PICTURE = 8 * LINE }; /* bytes */

/* "8,16": the first element of the piece that lies there. */
static const char *piece(const view *v, const tc_layout *l, unsigned bytes,
                         unsigned at)
{
    uint32_t index[TC_INPUT_COUNT] = {[TC_OFFSET] = at / bytes};
    int32_t coords[TC_MAX_RANK];
    tc_text text = {.arena = v->arena};
    tc_layout_apply(l, index, coords);
    for (unsigned i = 0; i < l->rank; i++)
        tc_text_printf(&text, "%s%d", i ? "," : "", coords[i]);
    return text.data;
}

static void put_picture(view *v, const char *name, const tc_type *t)
{
    unsigned bytes = tc_type_bytes(t->elem);
    uint64_t all = (uint64_t)tc_layout_size(t->layout, TC_OFFSET) * bytes;
    table cells = {.arena = v->arena, .out = &v->text, .ncolumns = COLUMNS};
    const char *row[COLUMNS];
    tc_text_printf(&v->text, "  %s, %s %s as %s\n", name, sides(v, t),
                   tc_type_name(v->job->cx, t->elem), layout(v, t));
    for (unsigned put = 0; put < 2; put++)
        for (unsigned at = 0; at + LINE <= all && at < PICTURE; at += LINE) {
            for (unsigned i = 0; i < COLUMNS; i++)
                row[i] = piece(v, t->layout, bytes, at + PIECE * i);
            if (put)
                put_row(&cells, row);
            else
                measure_row(&cells, row);
        }
}

/* Where the elements of the hot loop's buffers lie. */
static void put_pictures(view *v)
{
    bool any = false;
    for (const tc_load_info *l = v->seen->loads; l; l = l->next) {
        const tc_value *tensor = tc_accessed_tensor(l->op);
        const tc_op *buffers[] = {l->alloc, l->moved};
        for (unsigned i = 0; l->hot && i < 2; i++) {
            if (!buffers[i])
                continue;
            if (!any)
                tc_text_add(
                    &v->text,
                    "buffers of that loop, 128 bytes (32 banks) a line, pieces "
                    "of 16 bytes by their first element:\n");
            any = true;
            put_picture(v, tensor ? tc_value_name(v->job->cx, tensor) : "-",
                        buffers[i]->out[0]->type);
        }
    }
}

/* ---- Products ---- */

static const char *order(tc_order o, unsigned i)
{
    return o == TC_IN_REGISTERS ? "registers"
           : o == TC_K_MAJOR    ? "K-major"
           : i                  ? "N-major"
                                : "M-major";
}

static const char **product_cells(const view *v, const tc_product_info *p)
{
    const char **c = tc_arena_array(v->arena, const char *, COLUMNS);
    tc_context *cx = v->job->cx;
    bool async = tc_op_attr(p->op, "async")->kind != TC_ATTR_NONE &&
                 tc_op_int(p->op, "async");
    c[0] = inspect_place(v, p->op->loc);
    c[1] = tc_arena_printf(v->arena, "%dx%dx%d", p->m, p->n, p->k);
    c[2] = tc_arena_printf(v->arena, "%s x %s",
                           tc_type_name(cx, p->op->in[0]->type->elem),
                           tc_type_name(cx, p->op->in[1]->type->elem));
    c[3] = tc_arena_printf(v->arena, "%s%s", tc_op_word(p->op, "instr"),
                           async ? ", async" : "");
    c[4] = order(p->order[0], 0);
    c[5] = order(p->order[1], 1);
    c[6] = p->k_only ? "K-major only" : "any order";
    return c;
}

static void put_products(view *v)
{
    static const char *const head[] = {
        "line", "product", "elements", "instruction", "A", "B", "takes"};
    table t = {.arena = v->arena, .out = &v->text, .ncolumns = 7};
    if (!v->seen->products)
        return;
    measure_row(&t, head);
    for (const tc_product_info *p = v->seen->products; p; p = p->next)
        measure_row(&t, product_cells(v, p));
    tc_text_add(&v->text, "products (M x N x K):\n");
    put_row(&t, head);
    for (const tc_product_info *p = v->seen->products; p; p = p->next)
        put_row(&t, product_cells(v, p));
}

/* ---- All of it ---- */

static bool has_cold_loads(const tc_inspection *seen)
{
    const tc_load_info *l = seen->loads;
    while (l && l->hot)
        l = l->next;
    return l;
}

static void put_all(view *v)
{
    tc_text_printf(
        &v->text, "@%s for %s: %u warps, %u bytes of shared memory\n",
        v->f->name, v->target->name, v->f->warps, v->f->shared_bytes);
    if (v->seen->loop) {
        tc_text_printf(&v->text, "loads of the hot loop, line %s:\n",
                       inspect_place(v, v->seen->loop->loc));
        put_loads(v, true);
    }
    if (!v->seen->loop || has_cold_loads(v->seen)) {
        tc_text_printf(&v->text, "loads%s:\n",
                       v->seen->loop ? " outside of it" : "");
        put_loads(v, false);
    }
    put_products(v);
    put_pictures(v);
}

static bool inspect_build(tc_job *job)
{
    tc_request *r = job->request;
    const tc_target *target;
    tc_func *f;
    tc_bound bound;
    tc_refusals refusals = {.arena = &job->cx->arena};
    if (!tc_request_read(job) || !tc_request_configure(job) ||
        !tc_job_choose(job, &r->options, &target, &f, &bound))
        return false;
    if (!tc_target_is_gpu(target))
        return tc_job_error(job, TILEC_USAGE,
                            "%s has no shared memory to show: expected a GPU "
                            "target, such as sm_90a",
                            target->name);
    if (f->is_plan)
        return tc_job_error(job, TILEC_USAGE,
                            "@%s is a plan: name one of its kernels", f->name);
    const char *name = f->name;
    job->refusals = &refusals;
    if (!tc_job_passes(job, &r->options, target, name, &bound, NULL))
        return false;
    f = tc_func_find(job->module, name);
    tc_pass_options none = {.target = target};
    tc_pass_env env = {job->cx, &job->cx->arena, &none, target};
    tc_inspection seen = tc_inspect(f, &env, &refusals);
    view v = {
        job, f, target, &seen, &job->cx->arena, {.arena = &job->cx->arena}};
    put_all(&v);
    r->report = strdup(v.text.data);
    return r->report || tc_job_error(job, TILEC_MACHINE, "out of memory");
}

tilec_status tilec_inspect(tilec_context *cx, const tilec_source *sources,
                           size_t nsources,
                           const tilec_compile_options *options, char **text)
{
    return cx && text ? tc_request_report(cx, sources, nsources, options,
                                          inspect_build, text)
                      : TILEC_USAGE;
}
