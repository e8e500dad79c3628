/* SPDX-License-Identifier: Apache-2.0
 *
 * The reader of safetensors files. Every rule of the format is checked when
 * the file is opened, so that a handle is always sound; a data type that
 * tilec lacks is refused only when its tensor is asked for.
 */
#include "lib/safetensors.h"

#include <cjson/cJSON.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
    const char *name;
    unsigned bytes;
    tc_kind kind; /* TC_KIND_COUNT: of the format, but not of tilec */
} dtypes[] = {
    {"BOOL", 1, TC_I1},        {"U8", 1, TC_KIND_COUNT},
    {"I8", 1, TC_I8},          {"F8_E4M3", 1, TC_F8E4M3},
    {"F8_E5M2", 1, TC_F8E5M2}, {"F8_E8M0", 1, TC_KIND_COUNT},
    {"I16", 2, TC_I16},        {"U16", 2, TC_KIND_COUNT},
    {"F16", 2, TC_F16},        {"BF16", 2, TC_BF16},
    {"I32", 4, TC_I32},        {"U32", 4, TC_KIND_COUNT},
    {"F32", 4, TC_F32},        {"I64", 8, TC_I64},
    {"U64", 8, TC_KIND_COUNT}, {"F64", 8, TC_F64},
    {"C64", 8, TC_KIND_COUNT},
};
enum { NDTYPES = sizeof dtypes / sizeof *dtypes };

const char *tc_safetensors_dtype(tc_kind kind)
{
    for (size_t i = 0; i < NDTYPES; i++)
        if (dtypes[i].kind == kind)
            return dtypes[i].name;
    return NULL;
}

struct entry {
    const char *name; /* of the JSON tree */
    unsigned dtype;   /* index of dtypes[] */
    int rank;
    int64_t *shape;
    uint64_t begin, end;
    void *copy; /* aligned, where the file is not; else NULL */
};

struct tilec_safetensors {
    char *path; /* for messages */
    void *map;  /* NULL: the caller's memory */
    size_t map_size;
    const char *data;
    uint64_t data_size;
    cJSON *header;
    struct entry *entries;
    size_t nentries;
};

/* The checks' view: where to report, and what is being read. */
struct reader {
    tilec_safetensors *f;
    const char *path; /* "FILE" for messages */
    tilec_error *error;
};

#define REJECT(r, fmt, ...)                                                    \
    tc_fail((r)->error, TILEC_INPUT, "%s: " fmt, (r)->path, __VA_ARGS__)

/* Names come from the file: a message shows at most this much of one. */
#define NAME "%.64s"

/* A whole number of JSON that a double holds exactly. */
static bool whole(const cJSON *j, uint64_t *out)
{
    if (!cJSON_IsNumber(j) || !(j->valuedouble >= 0) ||
        j->valuedouble > 9007199254740992.0 ||
        floor(j->valuedouble) != j->valuedouble)
        return false;
    *out = (uint64_t)j->valuedouble;
    return true;
}

static tilec_status read_dtype(struct reader *r, const cJSON *tensor,
                               struct entry *e)
{
    const cJSON *j = cJSON_GetObjectItemCaseSensitive(tensor, "dtype");
    if (!j)
        return REJECT(r, "tensor '" NAME "' has no dtype", e->name);
    if (!cJSON_IsString(j))
        return REJECT(r, "tensor '" NAME "': dtype is no string", e->name);
    for (e->dtype = 0; e->dtype < NDTYPES; e->dtype++)
        if (strcmp(dtypes[e->dtype].name, j->valuestring) == 0)
            return TILEC_OK;
    return REJECT(r, "tensor '" NAME "': unknown dtype '%.32s'", e->name,
                  j->valuestring);
}

static tilec_status read_shape(struct reader *r, const cJSON *tensor,
                               struct entry *e)
{
    const cJSON *j = cJSON_GetObjectItemCaseSensitive(tensor, "shape");
    if (!j)
        return REJECT(r, "tensor '" NAME "' has no shape", e->name);
    if (!cJSON_IsArray(j))
        return REJECT(r, "tensor '" NAME "': shape is no array", e->name);
    e->rank = cJSON_GetArraySize(j);
    if (e->rank > TC_SAFETENSORS_MAX_RANK)
        return REJECT(r, "tensor '" NAME "' has %d dims, at most %d are read",
                      e->name, e->rank, TC_SAFETENSORS_MAX_RANK);
    e->shape = calloc(e->rank ? (size_t)e->rank : 1, sizeof *e->shape);
    if (!e->shape)
        return tc_fail_memory(r->error);
    int i = 0;
    const cJSON *side;
    cJSON_ArrayForEach(side, j)
    {
        uint64_t n;
        if (!whole(side, &n))
            return REJECT(r,
                          "tensor '" NAME "': dim %d of the shape is no whole "
                          "number from 0 to 2^53",
                          e->name, i);
        e->shape[i++] = (int64_t)n;
    }
    return TILEC_OK;
}

static tilec_status read_offsets(struct reader *r, const cJSON *tensor,
                                 struct entry *e)
{
    const cJSON *j = cJSON_GetObjectItemCaseSensitive(tensor, "data_offsets");
    if (!j)
        return REJECT(r, "tensor '" NAME "' has no data_offsets", e->name);
    if (!cJSON_IsArray(j) || cJSON_GetArraySize(j) != 2 ||
        !whole(cJSON_GetArrayItem(j, 0), &e->begin) ||
        !whole(cJSON_GetArrayItem(j, 1), &e->end))
        return REJECT(r,
                      "tensor '" NAME "': data_offsets are not two whole "
                      "numbers from 0 to 2^53",
                      e->name);
    if (e->begin > e->end)
        return REJECT(r,
                      "tensor '" NAME "': data_offsets [%llu, %llu] end before "
                      "they begin",
                      e->name, (unsigned long long)e->begin,
                      (unsigned long long)e->end);
    if (e->end > r->f->data_size)
        return REJECT(r,
                      "tensor '" NAME "' ends at byte %llu of the data, which "
                      "has %llu: is the file cut off?",
                      e->name, (unsigned long long)e->end,
                      (unsigned long long)r->f->data_size);
    return TILEC_OK;
}

static tilec_status check_size(struct reader *r, const struct entry *e)
{
    uint64_t bytes = dtypes[e->dtype].bytes;
    for (int i = 0; i < e->rank; i++)
        if (__builtin_mul_overflow(bytes, (uint64_t)e->shape[i], &bytes))
            return REJECT(r,
                          "tensor '" NAME "': the size of its shape "
                          "overflows",
                          e->name);
    if (bytes != e->end - e->begin)
        return REJECT(r,
                      "tensor '" NAME "': shape and dtype %s make %llu bytes, "
                      "data_offsets %llu",
                      e->name, dtypes[e->dtype].name, (unsigned long long)bytes,
                      (unsigned long long)(e->end - e->begin));
    return TILEC_OK;
}

static tilec_status read_tensor(struct reader *r, const cJSON *tensor,
                                struct entry *e)
{
    static const char *const known[] = {"dtype", "shape", "data_offsets"};
    if (!cJSON_IsObject(tensor))
        return REJECT(r, "tensor '" NAME "' is no object", e->name);
    bool seen[3] = {0};
    const cJSON *field;
    cJSON_ArrayForEach(field, tensor)
    {
        int i = 0;
        while (i < 3 && strcmp(field->string, known[i]) != 0)
            i++;
        if (i == 3)
            return REJECT(r, "tensor '" NAME "' has an unknown field '%.32s'",
                          e->name, field->string);
        if (seen[i])
            return REJECT(r, "tensor '" NAME "' has %s twice", e->name,
                          known[i]);
        seen[i] = true;
    }
    tilec_status s = read_dtype(r, tensor, e);
    if (s == TILEC_OK)
        s = read_shape(r, tensor, e);
    if (s == TILEC_OK)
        s = read_offsets(r, tensor, e);
    return s == TILEC_OK ? check_size(r, e) : s;
}

static tilec_status check_metadata(struct reader *r, const cJSON *j)
{
    if (!cJSON_IsObject(j))
        return REJECT(r, "%s", "__metadata__ is no object");
    const cJSON *value;
    cJSON_ArrayForEach(value, j) if (!cJSON_IsString(value)) return REJECT(
        r, "__metadata__: '" NAME "' is no string", value->string);
    return TILEC_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(struct entry *const *)a)->name,
                  (*(struct entry *const *)b)->name);
}

/* Empty tensors may share an offset with what follows them. */
static int by_offset(const void *a, const void *b)
{
    const struct entry *x = *(struct entry *const *)a;
    const struct entry *y = *(struct entry *const *)b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static tilec_status check_names(struct reader *r, struct entry **order)
{
    qsort(order, r->f->nentries, sizeof *order, by_name);
    for (size_t i = 1; i < r->f->nentries; i++)
        if (strcmp(order[i - 1]->name, order[i]->name) == 0)
            return REJECT(r, "two tensors are named '" NAME "'",
                          order[i]->name);
    return TILEC_OK;
}

/* The data is covered from begin to end, each byte once. */
static tilec_status check_layout(struct reader *r, struct entry **order)
{
    qsort(order, r->f->nentries, sizeof *order, by_offset);
    uint64_t at = 0;
    for (size_t i = 0; i < r->f->nentries; i++) {
        const struct entry *e = order[i];
        if (e->begin < at)
            return REJECT(r, "tensors '" NAME "' and '" NAME "' overlap",
                          order[i - 1]->name, e->name);
        if (e->begin > at)
            return REJECT(r,
                          "bytes %llu to %llu of the data, before tensor '" NAME
                          "', belong to no tensor",
                          (unsigned long long)at, (unsigned long long)e->begin,
                          e->name);
        at = e->end;
    }
    if (at != r->f->data_size)
        return REJECT(r, "%llu bytes behind the last tensor belong to none",
                      (unsigned long long)(r->f->data_size - at));
    return TILEC_OK;
}

static tilec_status check_entries(struct reader *r)
{
    tilec_safetensors *f = r->f;
    struct entry **order = calloc(f->nentries ? f->nentries : 1, sizeof *order);
    if (!order)
        return tc_fail_memory(r->error);
    for (size_t i = 0; i < f->nentries; i++)
        order[i] = &f->entries[i];
    tilec_status s = check_names(r, order);
    if (s == TILEC_OK)
        s = check_layout(r, order);
    free(order);
    return s;
}

static tilec_status read_entries(struct reader *r)
{
    tilec_safetensors *f = r->f;
    size_t n = (size_t)cJSON_GetArraySize(f->header);
    f->entries = calloc(n ? n : 1, sizeof *f->entries);
    if (!f->entries)
        return tc_fail_memory(r->error);
    const cJSON *j;
    bool metadata = false;
    cJSON_ArrayForEach(j, f->header)
    {
        tilec_status s;
        if (strcmp(j->string, "__metadata__") == 0) {
            s = metadata ? REJECT(r, "%s", "__metadata__ is there twice")
                         : check_metadata(r, j);
            metadata = true;
        } else {
            struct entry *e = &f->entries[f->nentries++];
            e->name = j->string;
            s = read_tensor(r, j, e);
        }
        if (s != TILEC_OK)
            return s;
    }
    return check_entries(r);
}

/* What cJSON takes, but JSON texts as these must not have: NUL bytes and
 * escapes of them, which would cut names short, and nesting, which would cost
 * stack. The format needs three levels. */
static tilec_status check_text(struct reader *r, const char *text, size_t n)
{
    int depth = 0;
    bool string = false;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == 0)
            return REJECT(r, "the header has a NUL byte at %zu", i);
        if (string && text[i] == '\\') {
            if (n - i >= 6 && memcmp(text + i, "\\u0000", 6) == 0)
                return REJECT(r, "%s", "a string of the header holds a NUL");
            i++;
        } else if (text[i] == '"') {
            string = !string;
        } else if (!string && (text[i] == '{' || text[i] == '[')) {
            if (++depth > 8)
                return REJECT(r, "the header is nested too deep at byte %zu",
                              i);
        } else if (!string && (text[i] == '}' || text[i] == ']')) {
            depth--;
        }
    }
    return TILEC_OK;
}

static tilec_status parse_header(struct reader *r, const char *text, size_t n)
{
    tilec_status s = check_text(r, text, n);
    if (s != TILEC_OK)
        return s;
    if (n == 0 || text[0] != '{')
        return REJECT(r, "%s",
                      "the header does not begin with `{`: is this a "
                      "safetensors file?");
    const char *end = NULL;
    r->f->header = cJSON_ParseWithLengthOpts(text, n, &end, 0);
    if (!r->f->header)
        return REJECT(r, "the header is no JSON (byte %zu)",
                      end ? (size_t)(end - text) : 0);
    for (size_t i = (size_t)(end - text); i < n; i++)
        if (!strchr(" \t\r\n", text[i]))
            return REJECT(r, "text behind the header's JSON (byte %zu)", i);
    return read_entries(r);
}

static uint64_t little_endian(const unsigned char *p)
{
    uint64_t n = 0;
    for (int i = 7; i >= 0; i--)
        n = n << 8 | p[i];
    return n;
}

static tilec_status read_bytes(struct reader *r, const void *bytes, size_t size)
{
    if (size < 8)
        return REJECT(r, "%zu bytes are too short for a safetensors file",
                      size);
    uint64_t n = little_endian(bytes);
    if (n > TC_SAFETENSORS_MAX_HEADER)
        return REJECT(r,
                      "the header's length is %llu, more than the %u that "
                      "are allowed: is this a safetensors file?",
                      (unsigned long long)n, TC_SAFETENSORS_MAX_HEADER);
    if (n > size - 8)
        return REJECT(r,
                      "the header's length is %llu, but only %zu bytes "
                      "follow: is the file cut off?",
                      (unsigned long long)n, size - 8);
    r->f->data = (const char *)bytes + 8 + n;
    r->f->data_size = size - 8 - n;
    return parse_header(r, (const char *)bytes + 8, n);
}

/* Files of old writers need not align their tensors; kernels want aligned
 * ones. What is not gets a copy. */
static tilec_status align_entries(tilec_safetensors *f, tilec_error *error)
{
    for (size_t i = 0; i < f->nentries; i++) {
        struct entry *e = &f->entries[i];
        const char *data = f->data + e->begin;
        size_t size = (size_t)(e->end - e->begin);
        if ((uintptr_t)data % dtypes[e->dtype].bytes == 0)
            continue;
        e->copy = malloc(size + 1);
        if (!e->copy)
            return tc_fail_memory(error);
        memcpy(e->copy, data, size);
    }
    return TILEC_OK;
}

static tilec_status open_bytes(const char *path, const void *bytes, size_t size,
                               void *map, tilec_safetensors **out,
                               tilec_error *error)
{
    tilec_safetensors *f = calloc(1, sizeof *f);
    if (!f) {
        if (map)
            munmap(map, size);
        return tc_fail_memory(error);
    }
    f->map = map;
    f->map_size = size;
    f->path = strdup(path);
    struct reader r = {f, path, error};
    tilec_status s =
        f->path ? read_bytes(&r, bytes, size) : tc_fail_memory(error);
    if (s == TILEC_OK)
        s = align_entries(f, error);
    if (s == TILEC_OK)
        *out = f;
    else
        tilec_safetensors_free(f);
    return s;
}

tilec_status tilec_safetensors_read(const void *bytes, size_t size,
                                    tilec_safetensors **out, tilec_error *error)
{
    if (!out || (!bytes && size))
        return tc_fail(error, TILEC_USAGE,
                       "tilec_safetensors_read: bytes or out is NULL");
    *out = NULL;
    return open_bytes("safetensors", bytes, size, NULL, out, error);
}

static tilec_status map_file(const char *path, int fd, void **map, size_t *size,
                             tilec_error *error)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return tc_fail(error, TILEC_INPUT, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return tc_fail(error, TILEC_INPUT, "%s: is not a regular file", path);
    *size = (size_t)st.st_size;
    *map = NULL;
    if (*size == 0) /* nothing to map; the reader says that it is too short */
        return TILEC_OK;
    void *p = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED)
        return tc_fail(error, TILEC_MACHINE, "%s: can't be mapped: %s", path,
                       strerror(errno));
    *map = p;
    return TILEC_OK;
}

tilec_status tilec_safetensors_open(const char *path, tilec_safetensors **out,
                                    tilec_error *error)
{
    if (!path || !out)
        return tc_fail(error, TILEC_USAGE,
                       "tilec_safetensors_open: path or out is NULL");
    *out = NULL;
    /* Not to hang on a FIFO before fstat can refuse it. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return tc_fail(error, TILEC_INPUT, "%s: %s", path, strerror(errno));
    void *map = NULL;
    size_t size = 0;
    tilec_status s = map_file(path, fd, &map, &size, error);
    close(fd);
    return s == TILEC_OK ? open_bytes(path, map, size, map, out, error) : s;
}

void tilec_safetensors_free(tilec_safetensors *f)
{
    if (!f)
        return;
    for (size_t i = 0; i < f->nentries; i++) {
        free(f->entries[i].shape);
        free(f->entries[i].copy);
    }
    free(f->entries);
    free(f->path);
    cJSON_Delete(f->header);
    if (f->map)
        munmap(f->map, f->map_size);
    free(f);
}

size_t tilec_safetensors_count(const tilec_safetensors *f)
{
    return f ? f->nentries : 0;
}

const char *tilec_safetensors_name(const tilec_safetensors *f, size_t index)
{
    return f && index < f->nentries ? f->entries[index].name : NULL;
}

/* "; did you mean 'q'?", or what there is. */
static void suggest(const tilec_safetensors *f, const char *name, char *out,
                    size_t room)
{
    const char **names = calloc(f->nentries + 1, sizeof *names);
    size_t n = 0;
    for (size_t i = 0; names && i < f->nentries; i++)
        names[i] = f->entries[i].name;
    const char *near = names ? tc_nearest_name(name, names, f->nentries) : NULL;
    free(names);
    out[0] = 0;
    if (near)
        snprintf(out, room, "; did you mean '" NAME "'?", near);
    for (size_t i = 0; !near && i < f->nentries && n + 80 < room; i++)
        n += (size_t)snprintf(out + n, room - n, "%s" NAME,
                              i ? ", " : "; there are ", f->entries[i].name);
}

static tilec_status give(const struct entry *e, const tilec_safetensors *f,
                         DLTensor *out, tilec_error *error)
{
    tc_kind kind = dtypes[e->dtype].kind;
    if (kind == TC_KIND_COUNT)
        return tc_fail(error, TILEC_INPUT,
                       "tensor '" NAME "' is of dtype %s, which tilec does not "
                       "have",
                       e->name, dtypes[e->dtype].name);
    const char *data = e->copy ? e->copy : f->data + e->begin;
    *out = (DLTensor){.data = (void *)(uintptr_t)data,
                      .device = {kDLCPU, 0},
                      .ndim = e->rank,
                      .dtype = tc_kind_to_dl(kind),
                      .shape = e->shape};
    return TILEC_OK;
}

tilec_status tilec_safetensors_get(const tilec_safetensors *f, const char *name,
                                   DLTensor *out, tilec_error *error)
{
    if (!f || !name || !out)
        return tc_fail(error, TILEC_USAGE,
                       "tilec_safetensors_get: an argument is NULL");
    for (size_t i = 0; i < f->nentries; i++)
        if (strcmp(f->entries[i].name, name) == 0)
            return give(&f->entries[i], f, out, error);
    char others[200];
    suggest(f, name, others, sizeof others);
    return tc_fail(error, TILEC_INPUT,
                   "%.160s: there is no tensor '" NAME "'%s", f->path, name,
                   others);
}

const char *tilec_safetensors_metadata(const tilec_safetensors *f,
                                       const char *key)
{
    if (!f || !key)
        return NULL;
    const cJSON *m =
        cJSON_GetObjectItemCaseSensitive(f->header, "__metadata__");
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(m, key));
}
