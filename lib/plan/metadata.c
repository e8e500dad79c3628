/* SPDX-License-Identifier: Apache-2.0
 *
 * The metadata of a kernel: parameters, bindings, grid, as structs and as JSON.
 *
 *     {"name": "attention_fwd", "target": "cpu", "tilec": "0.1.0",
 *      "bindings": {"D": "128", "T": "bf16", ...},
 *      "parameters": [{"name": "q", "type": "tensor<[?, ?, ?, 128] x bf16>",
 *        "kind": "tensor", "dtype": "bf16", "shape": [null, null, null, 128],
 *        "captured": false, "written": false, "unused": false}, ...],
 *      "grid": "grid {\n ... }", "scratch_bytes": 40960,
 *      "variants": [{"when": "aligned(q, k), mapped(k)",
 *        "entry": "attention_fwd", "abi": 2, "warps": 8, "threads": 384,
 *        "shared_bytes": 65536,
 *        "tensor_maps": [{"parameter": "k", "dtype": "bf16",
 *          "box": [1, 1, 64, 64], "contiguous": 3, "swizzle": 128}],
 *        "counts_tiles": false, "reports": false,
 *        "registers": 168, "spilled_bytes": 0, "device": "NVIDIA H200"},
 *       {"when": "any"}]}
 *
 * variants: of GPU targets; registers to device once the code is loaded. A plan
 * has "kernels", a list of such objects, instead of a grid and what follows it.
 */
#include "lib/gpu/gpu.h"
#include "lib/program/link.h"
#include "lib/program/plan.h"

#include <cjson/cJSON.h>

#include <stdlib.h>
#include <string.h>

/* ---- Which tensors are written ---- */

/* Values on the way from a parameter to a store. */
struct trace {
    tc_arena *arena;
    const tc_value **seen;
    unsigned nseen, room;
};

static bool is_new(struct trace *t, const tc_value *v)
{
    for (unsigned i = 0; i < t->nseen; i++)
        if (t->seen[i] == v)
            return false;
    if (t->nseen == t->room) {
        t->room = t->room ? 2 * t->room : 16;
        const tc_value **more =
            tc_arena_array(t->arena, const tc_value *, t->room);
        if (t->nseen)
            memcpy(more, t->seen, t->nseen * sizeof *more);
        t->seen = more;
    }
    t->seen[t->nseen++] = v;
    return true;
}

static bool is_address(const tc_value *v)
{
    tc_kind kind = tc_type_elem(v->type)->kind;
    return kind == TC_PTR || kind == TC_TENSOR || kind == TC_BLOCK_PTR;
}

static bool reaches_store(struct trace *t, const tc_value *v);

static bool any_reaches_store(struct trace *t, tc_value *const *values,
                              unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (is_address(values[i]) && reaches_store(t, values[i]))
            return true;
    return false;
}

/* Through ops with regions an address may come out as any address of the
 * region's arguments or the op's results: taken to be all of them. */
static bool use_reaches_store(struct trace *t, const tc_use *u)
{
    const tc_op *op = u->op;
    if (op->code == TC_STORE || op->code == TC_TMA_STORE ||
        op->code == TC_ATOMIC || op->code == TC_ATOMIC_CAS)
        return u->index == 0;
    if (tc_op_has(op, TC_TERMINATOR)) {
        const tc_op *owner = op->parent->op;
        return owner && (any_reaches_store(t, owner->out, owner->nout) ||
                         any_reaches_store(t, owner->regions[0]->args,
                                           owner->regions[0]->nargs));
    }
    for (unsigned i = 0; i < op->nregions; i++)
        if (any_reaches_store(t, op->regions[i]->args, op->regions[i]->nargs))
            return true;
    return any_reaches_store(t, op->out, op->nout);
}

static bool reaches_store(struct trace *t, const tc_value *v)
{
    if (!is_new(t, v))
        return false;
    tc_each_use (u, v)
        if (use_reaches_store(t, u))
            return true;
    return false;
}

bool tc_value_is_written(tc_arena *a, const tc_value *v)
{
    struct trace trace = {.arena = a};
    return is_address(v) && reaches_store(&trace, v);
}

bool tc_parameter_is_used(const tc_func *f, unsigned i)
{
    return f->body->args[i]->uses || (f->grid && f->grid->args[i]->uses);
}

/* ---- Structs ---- */

static tilec_parameter_kind param_kind(const tc_type *t)
{
    if (t->kind == TC_TENSOR)
        return TILEC_PARAM_TENSOR;
    if (t->kind == TC_PTR)
        return TILEC_PARAM_POINTER;
    return tc_type_is_float(t) ? TILEC_PARAM_FLOAT : TILEC_PARAM_INT;
}

static const int64_t *static_shape(tc_arena *a, const tc_type *t)
{
    int64_t *shape = tc_arena_array(a, int64_t, t->rank);
    for (unsigned i = 0; i < t->rank; i++)
        shape[i] = t->dims[i] ? tc_dim_value(t->dims[i]) : -1;
    return shape;
}

static void describe_param(tilec_kernel *k, unsigned i)
{
    tc_arena *a = &k->cx->arena;
    const tc_value *v = k->func->body->args[i];
    const tc_type *t = v->type;
    tc_text text = {.arena = a};
    tc_type_print(&text, t);
    const tc_type *elem = t->elem ? t->elem : t;
    k->params[i].type = t;
    k->params[i].info = (tilec_parameter){
        .size = sizeof(tilec_parameter),
        .name = v->name,
        .type = text.data,
        .kind = param_kind(t),
        .dtype = tc_kind_to_dl(elem->kind),
        .captured = i >= k->nown,
        .written = tc_value_is_written(a, v),
        .ndim = t->kind == TC_TENSOR ? (int32_t)t->rank : 0,
        .shape = t->kind == TC_TENSOR ? static_shape(a, t) : NULL,
        .unused = !tc_parameter_is_used(k->func, i)};
}

void tc_kernel_describe(tilec_kernel *k, unsigned nown)
{
    tc_arena *a = &k->cx->arena;
    k->nparams = k->func->body->nargs;
    k->nown = nown;
    k->params = tc_arena_array(a, tc_kernel_param, k->nparams);
    for (unsigned i = 0; i < k->nparams; i++)
        describe_param(k, i);
    tc_text text = {.arena = a};
    tc_func_print(&text, k->func, TC_PRINT_PLAIN);
    size_t n;
    const char *grid = tc_grid_of_text(text.data, &n);
    char *kept = tc_arena_alloc(a, n + 1);
    memcpy(kept, grid, n);
    k->grid_text = kept;
}

const char *tilec_kernel_name(const tilec_kernel *k)
{
    return k ? k->func->name : NULL;
}

const char *tilec_kernel_target(const tilec_kernel *k)
{
    return k ? k->target->name : NULL;
}

size_t tilec_kernel_parameter_count(const tilec_kernel *k)
{
    return k ? k->nparams : 0;
}

const tilec_parameter *tilec_kernel_parameter(const tilec_kernel *k,
                                              size_t index)
{
    return k && index < k->nparams ? &k->params[index].info : NULL;
}

int tc_kernel_param_index(const tilec_kernel *k, const char *name)
{
    for (unsigned i = 0; i < k->nparams; i++)
        if (strcmp(k->params[i].info.name, name) == 0)
            return (int)i;
    return -1;
}

const char *tilec_kernel_binding(const tilec_kernel *k, const char *name)
{
    for (unsigned i = 0; k && name && i < k->nbindings; i++)
        if (strcmp(k->bindings[i].name, name) == 0)
            return k->bindings[i].value;
    return NULL;
}

const char *tilec_kernel_grid_text(const tilec_kernel *k)
{
    return k ? k->grid_text : NULL;
}

static uint64_t most_scratch(const tc_launch_plan *plan)
{
    uint64_t most = 0;
    for (unsigned i = 0; i < plan->nkernels; i++) {
        uint64_t n = tilec_kernel_scratch_bytes(plan->kernels[i]);
        most = n > most ? n : most;
    }
    return most;
}

uint64_t tilec_kernel_scratch_bytes(const tilec_kernel *k)
{
    if (k && k->plan)
        return most_scratch(k->plan);
    if (!k || !k->gpu)
        return k ? tc_host_scratch_bytes(k->host) : 0;
    return tc_gpu_code_meta(atomic_load(&k->gpu->variants[TC_GPU_ALIGNED]))
        ->shared_bytes;
}

/* ---- JSON; cJSON's adders return NULL when out of memory ---- */

static bool add_shape(cJSON *to, const tilec_parameter *p)
{
    if (p->kind != TILEC_PARAM_TENSOR)
        return true;
    cJSON *shape = cJSON_AddArrayToObject(to, "shape");
    if (!shape)
        return false;
    for (int32_t i = 0; i < p->ndim; i++) {
        cJSON *n = p->shape[i] < 0 ? cJSON_CreateNull()
                                   : cJSON_CreateNumber((double)p->shape[i]);
        if (!cJSON_AddItemToArray(shape, n))
            return false;
    }
    return true;
}

static bool add_param(cJSON *list, const tilec_parameter *p)
{
    static const char *const kinds[] = {"tensor", "pointer", "int", "float"};
    cJSON *j = cJSON_CreateObject();
    if (!cJSON_AddItemToArray(list, j)) {
        cJSON_Delete(j);
        return false;
    }
    return cJSON_AddStringToObject(j, "name", p->name) &&
           cJSON_AddStringToObject(j, "type", p->type) &&
           cJSON_AddStringToObject(j, "kind", kinds[p->kind]) &&
           cJSON_AddStringToObject(j, "dtype", tc_dtype_name(p->dtype).text) &&
           add_shape(j, p) &&
           cJSON_AddBoolToObject(j, "captured", p->captured) &&
           cJSON_AddBoolToObject(j, "written", p->written) &&
           cJSON_AddBoolToObject(j, "unused", p->unused);
}

static bool add_resources(cJSON *j, const tilec_kernel *k)
{
    tilec_resources r = TILEC_INIT(tilec_resources);
    if (tilec_kernel_resources(k, &r, NULL) != TILEC_OK)
        return true;
    if (!r.device)
        return true;
    return cJSON_AddNumberToObject(j, "registers", r.registers) &&
           cJSON_AddNumberToObject(j, "spilled_bytes", r.spilled_bytes) &&
           cJSON_AddStringToObject(j, "device", r.device);
}

static bool add_map(cJSON *list, const tilec_kernel *k,
                    const tc_tensor_map *map)
{
    cJSON *j = cJSON_CreateObject();
    if (!cJSON_AddItemToArray(list, j)) {
        cJSON_Delete(j);
        return false;
    }
    const tilec_parameter *p = &k->params[map->arg].info;
    cJSON *box = NULL;
    if (cJSON_AddStringToObject(j, "parameter", p->name) &&
        cJSON_AddStringToObject(j, "dtype", tc_scalar_infos[map->elem].name))
        box = cJSON_AddArrayToObject(j, "box");
    for (unsigned i = 0; box && i < map->rank; i++) {
        cJSON *n = cJSON_CreateNumber(map->box[i]);
        if (cJSON_AddItemToArray(box, n))
            continue;
        cJSON_Delete(n);
        return false;
    }
    cJSON *parts = map->nparts ? cJSON_AddArrayToObject(j, "parts") : NULL;
    for (unsigned i = 0; i < map->nparts; i++) {
        const int part[] = {(int)map->parts[i].count, (int)map->parts[i].step};
        cJSON *n = cJSON_CreateIntArray(part, 2);
        if (parts && cJSON_AddItemToArray(parts, n))
            continue;
        cJSON_Delete(n);
        return false;
    }
    if (parts && !cJSON_AddNumberToObject(j, "apart", map->apart))
        return false;
    return box && cJSON_AddNumberToObject(j, "contiguous", map->contiguous) &&
           cJSON_AddNumberToObject(j, "swizzle", map->swizzle);
}

static bool add_maps(cJSON *to, const tilec_kernel *k, const tc_gpu_meta *m)
{
    cJSON *list = cJSON_AddArrayToObject(to, "tensor_maps");
    bool ok = list != NULL;
    for (unsigned i = 0; ok && i < m->nmaps; i++)
        ok = add_map(list, k, &m->maps[i]);
    return ok;
}

static bool add_when(cJSON *list, const char *when)
{
    cJSON *j = cJSON_CreateObject();
    if (!cJSON_AddItemToArray(list, j)) {
        cJSON_Delete(j);
        return false;
    }
    return cJSON_AddStringToObject(j, "when", when);
}

/* Of which there is one for all sizes, or one for aligned tensors and one for
 * the others (`any`, which need not be compiled yet). */
static bool add_variants(cJSON *to, const tilec_kernel *k)
{
    const tc_gpu_meta *m =
        tc_gpu_code_meta(atomic_load(&k->gpu->variants[TC_GPU_ALIGNED]));
    cJSON *list = cJSON_AddArrayToObject(to, "variants");
    cJSON *j = cJSON_CreateObject();
    if (!list || !cJSON_AddItemToArray(list, j)) {
        cJSON_Delete(j);
        return false;
    }
    tc_gpu_predicate when = tc_gpu_predicate_of(k, TC_GPU_ALIGNED);
    if (!cJSON_AddStringToObject(j, "when", when.text) ||
        !cJSON_AddStringToObject(j, "entry", m->entry) ||
        !cJSON_AddNumberToObject(j, "abi", m->abi) ||
        !cJSON_AddNumberToObject(j, "warps", m->warps) ||
        !cJSON_AddNumberToObject(j, "threads", m->threads) ||
        !cJSON_AddNumberToObject(j, "shared_bytes", m->shared_bytes) ||
        !add_maps(j, k, m) ||
        !cJSON_AddBoolToObject(j, "counts_tiles", m->counts_tiles) ||
        !cJSON_AddBoolToObject(j, "reports", m->has_reports) ||
        !add_resources(j, k))
        return false;
    if (!k->func->aligned)
        return true;
    when = tc_gpu_predicate_of(k, TC_GPU_UNEVEN);
    return (!k->func->nmultiples || add_when(list, when.text)) &&
           add_when(list, "any");
}

static bool fill_json(cJSON *j, const tilec_kernel *k);

static bool add_kernels(cJSON *to, const tc_launch_plan *plan)
{
    cJSON *list = cJSON_AddArrayToObject(to, "kernels");
    for (unsigned i = 0; list && i < plan->nkernels; i++) {
        cJSON *j = cJSON_CreateObject();
        if (!cJSON_AddItemToArray(list, j)) {
            cJSON_Delete(j);
            return false;
        }
        if (!fill_json(j, plan->kernels[i]))
            return false;
    }
    return list != NULL;
}

static bool fill_json(cJSON *j, const tilec_kernel *k)
{
    if (!cJSON_AddStringToObject(j, "name", k->func->name) ||
        !cJSON_AddStringToObject(j, "target", k->target->name) ||
        !cJSON_AddStringToObject(j, "tilec", tilec_version()))
        return false;
    cJSON *bindings = cJSON_AddObjectToObject(j, "bindings");
    if (!bindings)
        return false;
    for (unsigned i = 0; i < k->nbindings; i++)
        if (k->bindings[i].value &&
            !cJSON_AddStringToObject(bindings, k->bindings[i].name,
                                     k->bindings[i].value))
            return false;
    cJSON *params = cJSON_AddArrayToObject(j, "parameters");
    if (!params)
        return false;
    for (unsigned i = 0; i < k->nparams; i++)
        if (!add_param(params, &k->params[i].info))
            return false;
    if (k->plan)
        return add_kernels(j, k->plan);
    return cJSON_AddStringToObject(j, "grid", k->grid_text) &&
           cJSON_AddNumberToObject(j, "scratch_bytes",
                                   (double)tilec_kernel_scratch_bytes(k)) &&
           (!k->gpu || add_variants(j, k));
}

char *tc_kernel_json(const tilec_kernel *k)
{
    cJSON *j = cJSON_CreateObject();
    char *text = j && fill_json(j, k) ? cJSON_Print(j) : NULL;
    cJSON_Delete(j);
    return text;
}
