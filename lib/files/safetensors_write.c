/* SPDX-License-Identifier: Apache-2.0
 *
 * The writer of safetensors files. The file appears whole or not at all
 * (replace.h), and is synced before.
 */
#include "lib/files/replace.h"
#include "lib/files/safetensors.h"

#include <cjson/cJSON.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct writer {
    const char *path;
    tilec_error *error;
    const tilec_named_tensor *tensors;
    size_t ntensors;
    size_t *order; /* of the data: wide elements first, so that all align */
    char *place;   /* the path with links followed */
    tc_replace file;
    char *buffer;
    size_t used;
};

enum { BUFFER = 1 << 20 };

#define REJECT(w, fmt, ...)                                                    \
    tc_fail((w)->error, TILEC_INPUT, "%s: " fmt, (w)->path, __VA_ARGS__)

static tilec_status machine_failed(struct writer *w, const char *what)
{
    return tc_fail(w->error, TILEC_MACHINE, "%s: %s: %s", w->path, what,
                   strerror(errno));
}

static tilec_status cannot_create(struct writer *w)
{
    return tc_fail(w->error, TILEC_INPUT, "%s: cannot be created: %s", w->path,
                   strerror(errno));
}

/* ---- What is to be written ---- */

static unsigned element_bytes(const DLTensor *t)
{
    return t->dtype.bits / 8;
}

/* False on overflow. */
static bool count_bytes(const DLTensor *t, int64_t *bytes)
{
    *bytes = element_bytes(t);
    for (int i = 0; i < t->ndim; i++)
        if (__builtin_mul_overflow(*bytes, t->shape[i], bytes))
            return false;
    return true;
}

/* Can the bytes be counted from the first element to each other one? */
static bool reaches_are_counted(const DLTensor *t)
{
    int64_t low = 0, high = 0;
    for (int i = 0; t->strides && i < t->ndim; i++) {
        int64_t reach, *end = t->strides[i] < 0 ? &low : &high;
        if (__builtin_mul_overflow(t->shape[i] - 1, t->strides[i], &reach) ||
            __builtin_mul_overflow(reach, element_bytes(t), &reach) ||
            __builtin_add_overflow(*end, reach, end))
            return false;
    }
    return true;
}

static tilec_status check_tensor(struct writer *w, const tilec_named_tensor *n)
{
    const DLTensor *t = n->tensor;
    if (!n->name || !t || (t->ndim && !t->shape))
        return tc_fail(w->error, TILEC_USAGE,
                       "%s: a tensor has no name, no tensor or no shape",
                       w->path);
    if (strcmp(n->name, "__metadata__") == 0)
        return REJECT(w, "%s", "`__metadata__` is no name for a tensor");
    if (t->ndim < 0 || t->ndim > TC_SAFETENSORS_MAX_RANK)
        return REJECT(w, "tensor '%.64s' has rank %d, expected 0 to %d",
                      n->name, t->ndim, TC_SAFETENSORS_MAX_RANK);
    if (tc_kind_from_dl(t->dtype) == TC_KIND_COUNT)
        return REJECT(w, "tensor '%.64s': data type %s is none of tilec's",
                      n->name, tc_dtype_name(t->dtype).text);
    for (int i = 0; i < t->ndim; i++)
        if (t->shape[i] < 0)
            return REJECT(w, "tensor '%.64s': dim %d is %lld", n->name, i,
                          (long long)t->shape[i]);
    int64_t bytes;
    if (!count_bytes(t, &bytes))
        return REJECT(w, "tensor '%.64s': the size of its shape overflows",
                      n->name);
    if (t->device.device_type != kDLCPU &&
        t->device.device_type != kDLCUDAHost &&
        t->device.device_type != kDLCUDAManaged)
        return REJECT(w,
                      "tensor '%.64s' is on DLPack device %d, expected the "
                      "CPU (%d)",
                      n->name, (int)t->device.device_type, (int)kDLCPU);
    if (!t->data && bytes)
        return REJECT(w, "tensor '%.64s': data is NULL", n->name);
    if (bytes && !reaches_are_counted(t))
        return REJECT(w,
                      "tensor '%.64s': its last element is 2^63 bytes or more "
                      "from its first: strides overflow",
                      n->name);
    return TILEC_OK;
}

static tilec_status check_all(struct writer *w)
{
    for (size_t i = 0; i < w->ntensors; i++) {
        tilec_status s = check_tensor(w, &w->tensors[i]);
        if (s != TILEC_OK)
            return s;
        for (size_t j = 0; j < i; j++)
            if (strcmp(w->tensors[i].name, w->tensors[j].name) == 0)
                return REJECT(w, "two tensors are named '%.64s'",
                              w->tensors[i].name);
    }
    return TILEC_OK;
}

static bool choose_order(struct writer *w)
{
    w->order = calloc(w->ntensors + 1, sizeof *w->order);
    if (!w->order)
        return false;
    size_t n = 0;
    for (unsigned bytes = 8; bytes; bytes /= 2)
        for (size_t i = 0; i < w->ntensors; i++)
            if (element_bytes(w->tensors[i].tensor) == bytes)
                w->order[n++] = i;
    return true;
}

/* ---- The header ---- */

static bool add_number(cJSON *array, int64_t n)
{
    /* Digits, not a double: exact to 2^63. */
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)n);
    return cJSON_AddItemToArray(array, cJSON_CreateRaw(text));
}

static bool add_tensor(cJSON *header, const tilec_named_tensor *n, int64_t *at)
{
    cJSON *j = cJSON_AddObjectToObject(header, n->name);
    const char *dtype = tc_safetensors_dtype(tc_kind_from_dl(n->tensor->dtype));
    if (!j || !cJSON_AddStringToObject(j, "dtype", dtype))
        return false;
    cJSON *shape = cJSON_AddArrayToObject(j, "shape");
    for (int i = 0; shape && i < n->tensor->ndim; i++)
        if (!add_number(shape, n->tensor->shape[i]))
            return false;
    cJSON *offsets = cJSON_AddArrayToObject(j, "data_offsets");
    int64_t bytes = 0;
    count_bytes(n->tensor, &bytes);
    if (!shape || !offsets || !add_number(offsets, *at) ||
        __builtin_add_overflow(*at, bytes, at))
        return false;
    return add_number(offsets, *at);
}

static bool add_metadata(cJSON *header, const tilec_binding *metadata, size_t n)
{
    cJSON *j = n ? cJSON_AddObjectToObject(header, "__metadata__") : NULL;
    for (size_t i = 0; j && i < n; i++)
        if (!cJSON_AddStringToObject(j, metadata[i].name, metadata[i].value))
            return false;
    return j || n == 0;
}

/* NULL: out of memory. */
static char *make_header(struct writer *w, const tilec_binding *metadata,
                         size_t nmetadata)
{
    cJSON *header = cJSON_CreateObject();
    bool ok = header && add_metadata(header, metadata, nmetadata);
    int64_t at = 0;
    for (size_t i = 0; ok && i < w->ntensors; i++)
        ok = add_tensor(header, &w->tensors[w->order[i]], &at);
    char *text = ok ? cJSON_PrintUnformatted(header) : NULL;
    cJSON_Delete(header);
    return text;
}

/* ---- Bytes ---- */

static tilec_status write_all(struct writer *w, const char *p, size_t n)
{
    return tc_replace_write(&w->file, p, n)
               ? TILEC_OK
               : machine_failed(w, "writing failed");
}

static tilec_status flush(struct writer *w)
{
    size_t n = w->used;
    w->used = 0;
    return write_all(w, w->buffer, n);
}

static tilec_status safetensors_write_put(struct writer *w, const char *p,
                                          size_t n)
{
    if (n > BUFFER - w->used) {
        tilec_status s = flush(w);
        if (s != TILEC_OK || n > BUFFER)
            return s == TILEC_OK ? write_all(w, p, n) : s;
    }
    memcpy(w->buffer + w->used, p, n);
    w->used += n;
    return TILEC_OK;
}

static tilec_status write_header(struct writer *w, const char *text)
{
    /* Blanks, so that the data begins at a multiple of 8. */
    size_t len = strlen(text), padded = (len + 7) / 8 * 8;
    if (padded > TC_SAFETENSORS_MAX_HEADER)
        return REJECT(w,
                      "the header would have %zu bytes, at most %u are "
                      "allowed",
                      padded, TC_SAFETENSORS_MAX_HEADER);
    char length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (char)((uint64_t)padded >> 8 * i);
    tilec_status s = safetensors_write_put(w, length, 8);
    if (s == TILEC_OK)
        s = safetensors_write_put(w, text, len);
    return s == TILEC_OK ? safetensors_write_put(w, "        ", padded - len)
                         : s;
}

/* Elements from dim `dim` on, row-major; `inner` dims at the end are dense. */
static tilec_status write_dims(struct writer *w, const DLTensor *t, int dim,
                               int dense_from, size_t dense_bytes,
                               const char *p)
{
    if (dim == dense_from)
        return safetensors_write_put(w, p, dense_bytes);
    tilec_status s = TILEC_OK;
    for (int64_t i = 0; s == TILEC_OK && i < t->shape[dim]; i++)
        s = write_dims(w, t, dim + 1, dense_from, dense_bytes,
                       p + i * t->strides[dim] * element_bytes(t));
    return s;
}

static tilec_status write_tensor(struct writer *w, const DLTensor *t)
{
    int64_t bytes, dense = 1;
    count_bytes(t, &bytes);
    if (bytes == 0)
        return TILEC_OK;
    const char *data = (const char *)t->data + t->byte_offset;
    int from = t->strides ? t->ndim : 0;
    for (;
         from > 0 && (t->strides[from - 1] == dense || t->shape[from - 1] == 1);
         from--)
        dense *= t->shape[from - 1];
    size_t chunk =
        from || t->strides ? (size_t)dense * element_bytes(t) : (size_t)bytes;
    return write_dims(w, t, 0, from, chunk, data);
}

static tilec_status write_file(struct writer *w, const char *header)
{
    tilec_status s = write_header(w, header);
    for (size_t i = 0; s == TILEC_OK && i < w->ntensors; i++)
        s = write_tensor(w, w->tensors[w->order[i]].tensor);
    return s == TILEC_OK ? flush(w) : s;
}

/* ---- The file ---- */

/* Where the file really is: links are followed, so that they stay. Anything
 * but a regular file (a device, a folder) must not be renamed over. */
static tilec_status resolve(struct writer *w, struct stat *st)
{
    if (!*w->path)
        return tc_fail(w->error, TILEC_INPUT,
                       "the name of the file to write is empty");
    w->place = tc_replace_place(w->path, st);
    if (!w->place)
        return errno == ENOMEM ? tc_fail_memory(w->error) : cannot_create(w);
    if (st->st_mode && !S_ISREG(st->st_mode))
        return REJECT(w, "%s", "is there and is not a regular file");
    return TILEC_OK;
}

static tilec_status open_temporary(struct writer *w)
{
    struct stat st;
    tilec_status s = resolve(w, &st);
    if (s != TILEC_OK)
        return s;
    size_t n = strlen(w->place);
    char *base = calloc(1, n + 2);
    w->buffer = malloc(BUFFER);
    if (!base || !w->buffer) {
        free(base);
        return tc_fail_memory(w->error);
    }
    memcpy(base, w->place, n);
    base[n] = '.';
    bool ok = tc_replace_begin(&w->file, w->place, base, 0666);
    free(base);
    if (!ok)
        return cannot_create(w);
    /* A file that was there keeps its mode, where the file system has any. */
    if (st.st_mode && fchmod(w->file.fd, st.st_mode & 0777) != 0)
        errno = 0;
    return TILEC_OK;
}

static tilec_status safetensors_write_run(struct writer *w,
                                          const tilec_binding *metadata,
                                          size_t nmetadata)
{
    tilec_status s = check_all(w);
    if (s != TILEC_OK)
        return s;
    char *header = choose_order(w) ? make_header(w, metadata, nmetadata) : NULL;
    if (!header)
        return tc_fail_memory(w->error);
    s = open_temporary(w);
    if (s == TILEC_OK)
        s = write_file(w, header);
    free(header);
    if (s == TILEC_OK && !tc_replace_publish(&w->file, true))
        return machine_failed(w, "writing failed");
    return s;
}

tilec_status tilec_safetensors_write(const char *path,
                                     const tilec_named_tensor *tensors,
                                     size_t ntensors,
                                     const tilec_binding *metadata,
                                     size_t nmetadata, tilec_error *error)
{
    if (!path || (ntensors && !tensors) || (nmetadata && !metadata))
        return tc_fail(error, TILEC_USAGE,
                       "tilec_safetensors_write: an argument is NULL");
    for (size_t i = 0; i < nmetadata; i++)
        if (!metadata[i].name || !metadata[i].value)
            return tc_fail(error, TILEC_USAGE,
                           "tilec_safetensors_write: metadata without a name "
                           "or value");
    struct writer w = {.path = path,
                       .error = error,
                       .tensors = tensors,
                       .ntensors = ntensors,
                       .file = {.fd = -1}};
    tilec_status s = safetensors_write_run(&w, metadata, nmetadata);
    tc_replace_end(&w.file);
    free(w.place);
    free(w.buffer);
    free(w.order);
    return s;
}
