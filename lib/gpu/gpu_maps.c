/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensor maps: descriptions of tensors for TMA copies, made by the driver for
 * each launch's tensors and passed among the parameters.
 *
 *   %k: tensor<[?, ?, ?, 128] x bf16>, 2 x 8 x 1000 x 128, box 1 x 1 x 64 x 64
 *     address; sizes 128, 1000, 8, 2; strides 256, 256000, 2048000 bytes;
 *     box 64, 64, 1, 1; swizzle of 128 bytes
 *
 *   the same with rows taken apart, 2 of 1, 4 of 4, 2 of 2, 8 of 16 rows:
 *     sizes 128 + what heads and batches are apart, 2, 4, 2, 1000 / 16;
 *     strides 256, 1024, 512, 4096 bytes
 *
 * The driver takes a microsecond for one, so the last few of each map are kept:
 * a launch with tensors seen before compares and copies. No lock: a slot has a
 * version, odd while it is written; a reader compares it before and after
 * reading.
 */
#include "lib/gpu/gpu.h"

#include <stdlib.h>
#include <string.h>

/* ---- What is asked of the driver ---- */

enum { MOST_RANK = sizeof((tc_tensor_map *)0)->box / sizeof(uint32_t) };

/* The innermost dim first, whose stride is one element. */
struct view {
    uint64_t address;
    uint64_t sizes[MOST_RANK], strides[MOST_RANK - 1]; /* elements; bytes */
};

/* Numbers of cuda.h. Integers and fp8 are moved as what has their size. */
static const signed char data_types[TC_F64 + 1] = {
    [TC_I1] = -1,  [TC_I8] = 0,     [TC_I16] = 1,    [TC_I32] = 2,
    [TC_I64] = 4,  [TC_F8E4M3] = 0, [TC_F8E5M2] = 0, [TC_F16] = 6,
    [TC_BF16] = 9, [TC_F32] = 7,    [TC_F64] = 8};

static bool is_empty(const tc_tensor_map *map, const tc_launch_arg *a)
{
    for (unsigned i = 0; i < map->rank; i++)
        if (a->sizes[i] == 0)
            return true;
    return false;
}

/* The driver takes no size of 0, and such a tensor may have no memory at all.
 * The kernel copies nothing of it (its loops over keys run zero times); should
 * it look, there is something. */
static void view_nothing(struct view *v, tc_cu_address spare)
{
    v->address = spare;
    for (unsigned i = 0; i < MOST_RANK; i++)
        v->sizes[i] = 1;
    for (unsigned i = 0; i < MOST_RANK - 1; i++)
        v->strides[i] = 16;
}

static unsigned rank_of(const tc_tensor_map *map)
{
    return map->nparts ? 1 + map->nparts : map->rank;
}

/* Rows taken apart (passes/instructions/tma.h). */
static const char *view_apart(const tc_tensor_map *map, const tc_launch_arg *a,
                              struct view *v)
{
    int64_t bytes = tc_scalar_infos[map->elem].bits / 8;
    const int64_t most = (int64_t)1 << 32;
    int64_t row = a->strides[map->apart], last = 0;
    const tc_row_part *groups = &map->parts[map->nparts - 1];
    for (unsigned i = 0; i < map->rank; i++)
        if (i != map->apart && a->sizes[i] > 1) {
            if (a->strides[i] < 0 || a->strides[i] >= most)
                return "a stride is negative, or 2^32 elements or more";
            last += (a->sizes[i] - 1) * a->strides[i];
        }
    if (a->sizes[map->contiguous] > 1 && a->strides[map->contiguous] != 1)
        return "the elements of its contiguous dim do not lie side by side";
    if (last >= most || row < 0 || row >= most || row * bytes % 16)
        return "rows are no multiple of 16 bytes apart, or too far";
    v->sizes[0] = (uint64_t)last + 1;
    for (unsigned i = 0; i < map->nparts; i++) {
        v->sizes[1 + i] = map->parts[i].count;
        v->strides[i] = (uint64_t)(row * bytes * map->parts[i].step);
    }
    v->sizes[map->nparts] = (uint64_t)a->sizes[map->apart] / groups->step;
    return NULL;
}

/* NULL: *v says it. The stride along a side of one element is never walked, and
 * may be anything: here it is as in a dense tensor. */
static const char *view_of(const tc_tensor_map *map, const tc_launch_arg *a,
                           tc_cu_address spare, struct view *v)
{
    int64_t bytes = tc_scalar_infos[map->elem].bits / 8;
    const int64_t most = (int64_t)1 << 40;
    int64_t dense = bytes;
    if (is_empty(map, a)) {
        view_nothing(v, spare);
        return NULL;
    }
    v->address = (uintptr_t)a->data;
    if (v->address % 16)
        return "its address is not a multiple of 16";
    if (map->nparts)
        return view_apart(map, a, v);
    for (unsigned i = 0; i < map->rank; i++) {
        unsigned dim = tc_dim_by_stride(map->rank, map->contiguous, i);
        int64_t size = a->sizes[dim], stride = a->strides[dim];
        if (size == 1 || __builtin_mul_overflow(stride, bytes, &stride))
            stride = size == 1 ? dense : most;
        if (i == 0 && stride != bytes)
            return "the elements of its contiguous dim do not lie side by side";
        if (i > 0 && (stride < 0 || stride >= most || stride % 16))
            return "a stride is negative, no multiple of 16 bytes, or 2^40 "
                   "bytes or more";
        v->sizes[i] = (uint64_t)size;
        if (i > 0)
            v->strides[i - 1] = (uint64_t)stride;
        if (__builtin_mul_overflow(stride, size, &dense) || dense >= most - 16)
            dense = 0;
        dense = (dense + 15) & ~(int64_t)15;
    }
    return NULL;
}

static const char *encode(const tc_cuda *cuda, const tc_tensor_map *map,
                          const struct view *v, void *to)
{
    static const uint32_t steps[MOST_RANK] = {1, 1, 1, 1, 1};
    enum { NO_INTERLEAVE = 0, PROMOTE_TO_256 = 3, FILL_ZEROS = 0 };
    uint32_t box[MOST_RANK] = {0};
    int swizzle = map->swizzle == 128  ? 3
                  : map->swizzle == 64 ? 2
                                       : map->swizzle == 32;
    for (unsigned i = 0; i < map->rank; i++)
        box[i] = map->box[tc_dim_by_stride(map->rank, map->contiguous, i)];
    for (unsigned i = 0; i < map->nparts; i++)
        box[1 + i] = map->parts[i].count;
    if (!cuda->map_encode || !cuda->function_parameter)
        return "the driver has no cuTensorMapEncodeTiled or "
               "cuFuncGetParamInfo: it is older than CUDA 12.4";
    if (cuda->map_encode(to, data_types[map->elem], rank_of(map),
                         (void *)(uintptr_t)v->address, v->sizes, v->strides,
                         box, steps, NO_INTERLEAVE, swizzle, PROMOTE_TO_256,
                         FILL_ZEROS))
        return "the driver makes no tensor map of its sizes and strides";
    return NULL;
}

/* ---- Those that were made last ---- */

enum {
    WAYS = 8,
    MAP_WORDS = TC_GPU_MAP_BYTES / 8,
    VIEW_WORDS = sizeof(struct view) / 8
};

struct place {
    atomic_uint version; /* 0: empty; odd: being written */
    _Atomic uint64_t view[VIEW_WORDS], map[MAP_WORDS];
};

struct tc_gpu_maps {
    struct {
        atomic_uint next; /* to be written over */
        struct place places[WAYS];
    } of[TC_MAX_TENSOR_MAPS];
};

tc_gpu_maps *tc_gpu_maps_new(const tc_gpu_meta *m)
{
    tc_gpu_maps *maps;
    return calloc(1, m->nmaps * sizeof maps->of[0]);
}

void tc_gpu_maps_free(tc_gpu_maps *maps)
{
    free(maps);
}

/* Each load is acquiring: one that sees a word of a writer sees the odd version
 * that the writer has left before, so that the last load here does too. */
static bool read_place(struct place *p, const uint64_t *view, uint64_t *map)
{
    unsigned version = atomic_load_explicit(&p->version, memory_order_acquire);
    if (version == 0 || version & 1)
        return false;
    for (unsigned i = 0; i < VIEW_WORDS; i++)
        if (atomic_load_explicit(&p->view[i], memory_order_acquire) != view[i])
            return false;
    for (unsigned i = 0; i < MAP_WORDS; i++)
        map[i] = atomic_load_explicit(&p->map[i], memory_order_acquire);
    return atomic_load_explicit(&p->version, memory_order_relaxed) == version;
}

/* One that is just being written is left to the other writer. */
static void write_place(struct place *p, const uint64_t *view,
                        const uint64_t *map)
{
    unsigned version = atomic_load_explicit(&p->version, memory_order_relaxed);
    if (version & 1 ||
        !atomic_compare_exchange_strong(&p->version, &version, version + 1))
        return;
    for (unsigned i = 0; i < VIEW_WORDS; i++)
        atomic_store_explicit(&p->view[i], view[i], memory_order_release);
    for (unsigned i = 0; i < MAP_WORDS; i++)
        atomic_store_explicit(&p->map[i], map[i], memory_order_release);
    atomic_store_explicit(&p->version, version + 2, memory_order_release);
}

const char *tc_gpu_map(const tc_gpu_loaded *l, const tc_gpu_meta *m,
                       unsigned index, const tc_launch_arg *args,
                       unsigned char *to)
{
    const tc_tensor_map *map = &m->maps[index];
    struct view v = {0};
    uint64_t view[VIEW_WORDS], words[MAP_WORDS];
    const char *why = view_of(map, &args[map->arg], l->spare, &v);
    if (why)
        return why;
    memcpy(view, &v, sizeof view);
    struct place *places = l->maps->of[index].places;
    for (unsigned i = 0; i < WAYS; i++)
        if (read_place(&places[i], view, words)) {
            memcpy(to, words, sizeof words);
            return NULL;
        }
    _Alignas(TC_GPU_MAP_ALIGN) unsigned char made[TC_GPU_MAP_BYTES];
    why = encode(l->cuda, map, &v, made);
    if (why)
        return why;
    memcpy(to, made, sizeof made);
    memcpy(words, made, sizeof words);
    unsigned next = atomic_fetch_add(&l->maps->of[index].next, 1);
    write_place(&places[next % WAYS], view, words);
    return NULL;
}
