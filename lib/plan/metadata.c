/* SPDX-License-Identifier: Apache-2.0
 *
 * The metadata of a kernel as JSON: parameters, bindings, grid.
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
#include "lib/program/plan.h"

#include <cjson/cJSON.h>

#include <stdlib.h>
#include <string.h>

/* cJSON's adders return NULL when out of memory. */

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
