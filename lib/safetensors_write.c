/* SPDX-License-Identifier: Apache-2.0
 *
 * The writer of safetensors files. The file appears whole or not at all:
 * written beside its place under another name, synced, then renamed over it;
 * whatever fails on the way, the temporary file goes and the old one stays.
 */
#include "lib/safetensors.h"

#include <cjson/cJSON.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct writer {
    const char *path;
    tilec_error *error;
    const tilec_named_tensor *tensors;
    size_t ntensors;
    size_t *order;   /* of the data: wide elements first, so that all align */
    char *place;     /* the path with links followed */
    char *temporary; /* beside it; "" once it is not there */
    int fd;
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
    while (n) {
        ssize_t done = write(w->fd, p, n < (1u << 30) ? n : 1u << 30);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return machine_failed(w, "writing failed");
        p += done;
        n -= (size_t)done;
    }
    return TILEC_OK;
}

static tilec_status flush(struct writer *w)
{
    size_t n = w->used;
    w->used = 0;
    return write_all(w, w->buffer, n);
}

static tilec_status put(struct writer *w, const char *p, size_t n)
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
    tilec_status s = put(w, length, 8);
    if (s == TILEC_OK)
        s = put(w, text, len);
    return s == TILEC_OK ? put(w, "        ", padded - len) : s;
}

/* Elements from dim `dim` on, row-major; `inner` dims at the end are dense. */
static tilec_status write_dims(struct writer *w, const DLTensor *t, int dim,
                               int dense_from, size_t dense_bytes,
                               const char *p)
{
    if (dim == dense_from)
        return put(w, p, dense_bytes);
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
    w->place = NULL;
    st->st_mode = 0;
    if (!*w->path)
        return tc_fail(w->error, TILEC_INPUT,
                       "the name of the file to write is empty");
    if (stat(w->path, st) == 0) {
        if (!S_ISREG(st->st_mode))
            return REJECT(w, "%s", "is there and is not a regular file");
        w->place = realpath(w->path, NULL);
    } else {
        w->place = strdup(w->path);
    }
    return w->place ? TILEC_OK : tc_fail_memory(w->error);
}

/* Not mkstemp, whose files only the owner may read: this leaves the mode to
 * the process's mask. */
static int create_beside(char *temporary, size_t len)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz012345";
    for (unsigned try = 0; try < 100; try++) {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        uint64_t seed = (uint64_t)t.tv_nsec ^ (uint64_t)t.tv_sec << 30 ^
                        (uint64_t)getpid() << 40 ^ (uint64_t)try << 20 ^
                        (uintptr_t)temporary;
        seed = seed * 0x9e3779b97f4a7c15u;
        for (unsigned i = 1; i <= 6; i++)
            temporary[len + i] = letters[seed >> (64 - 5 * i) & 31];
        int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

static tilec_status open_temporary(struct writer *w)
{
    struct stat st;
    tilec_status s = resolve(w, &st);
    if (s != TILEC_OK)
        return s;
    size_t n = strlen(w->place);
    w->temporary = calloc(1, n + 8);
    w->buffer = malloc(BUFFER);
    if (!w->temporary || !w->buffer)
        return tc_fail_memory(w->error);
    memcpy(w->temporary, w->place, n);
    w->temporary[n] = '.';
    w->fd = create_beside(w->temporary, n);
    if (w->fd < 0) {
        tc_fail(w->error, TILEC_INPUT, "%s: cannot be created: %s", w->path,
                strerror(errno));
        w->temporary[0] = 0;
        return TILEC_INPUT;
    }
    /* A file that was there keeps its mode, where the file system has any. */
    if (st.st_mode && fchmod(w->fd, st.st_mode & 0777) != 0)
        errno = 0;
    return TILEC_OK;
}

static tilec_status publish(struct writer *w)
{
    if (fsync(w->fd) != 0)
        return machine_failed(w, "writing failed");
    int fd = w->fd;
    w->fd = -1;
    if (close(fd) != 0)
        return machine_failed(w, "writing failed");
    if (rename(w->temporary, w->place) != 0)
        return machine_failed(w, "renaming the finished file failed");
    w->temporary[0] = 0;
    return TILEC_OK;
}

static tilec_status run(struct writer *w, const tilec_binding *metadata,
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
    return s == TILEC_OK ? publish(w) : s;
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
                       .fd = -1};
    tilec_status s = run(&w, metadata, nmetadata);
    if (w.fd >= 0)
        close(w.fd);
    if (w.temporary && w.temporary[0])
        unlink(w.temporary);
    free(w.place);
    free(w.temporary);
    free(w.buffer);
    free(w.order);
    return s;
}
