/* SPDX-License-Identifier: Apache-2.0
 *
 * The reader of safetensors files. Every rule of the format is checked when
 * the file is opened, so that a handle is always sound; a data type that
 * tilec lacks is refused only when its tensor is asked for. Then its bytes are
 * read, too.
 */
#define _DEFAULT_SOURCE /* madvise */
#include "lib/files/safetensors.h"
#include "lib/files/json.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
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
    {"BOOL", 1, TC_I1},        {"U8", 1, TC_U8},
    {"I8", 1, TC_I8},          {"F8_E4M3", 1, TC_F8E4M3},
    {"F8_E5M2", 1, TC_F8E5M2}, {"F8_E8M0", 1, TC_F8E8M0},
    {"I16", 2, TC_I16},        {"U16", 2, TC_U16},
    {"F16", 2, TC_F16},        {"BF16", 2, TC_BF16},
    {"I32", 4, TC_I32},        {"U32", 4, TC_U32},
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
    char *name;
    unsigned dtype; /* index of dtypes[] */
    int rank;
    int64_t *shape;
    uint64_t begin, end;
    void *copy; /* aligned; NULL: none yet, or the caller's memory is */
};

struct tilec_safetensors {
    char *path;                  /* for messages */
    int fd;                      /* -1: the caller's memory */
    pthread_mutex_t lock;        /* for copies from the file */
    const char *data;            /* of the caller's memory */
    uint64_t data_at, data_size; /* in the file */
    char *metadata;              /* names and values, a NUL after each */
    size_t metadata_size;
    struct entry *entries;
    size_t nentries, room;
};

/* The checks' view: where to report, and what is being read. */
struct reader {
    tilec_safetensors *f;
    const char *path; /* "FILE" for messages */
    tilec_error *error;
    const char *header;
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
        return REJECT(r, "%llu bytes after the last tensor belong to none",
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

/* ---- The header, a member at a time ---- */

/* At a text of the header. */
static tilec_status no_json(struct reader *r, const char *at)
{
    return REJECT(r, "the header is no JSON (byte %zu)",
                  (size_t)(at - r->header));
}

/* NULL: *s says why. */
static cJSON *parse(struct reader *r, const char *text, size_t size,
                    tilec_status *s)
{
    bool no_memory;
    const char *end;
    cJSON *j = tc_json_parse(text, size, &end, &no_memory);
    /* All of it, but for blanks. */
    while (j && end < text + size && strchr(" \t\r\n", *end))
        end++;
    if (j && end == text + size)
        return j;
    cJSON_Delete(j);
    *s = no_memory ? tc_fail_memory(r->error) : no_json(r, end);
    return NULL;
}

/* malloc'd; NULL: *s says why. */
static char *parse_name(struct reader *r, const tc_json_walk *w,
                        tilec_status *s)
{
    cJSON *j = parse(r, w->name, w->name_size, s);
    char *name = j ? strdup(j->valuestring) : NULL;
    if (j && !name)
        *s = tc_fail_memory(r->error);
    cJSON_Delete(j);
    return name;
}

static void add_text(tilec_safetensors *f, const char *text)
{
    size_t n = strlen(text) + 1;
    memcpy(f->metadata + f->metadata_size, text, n);
    f->metadata_size += n;
}

static tilec_status read_pair(struct reader *r, const tc_json_walk *w)
{
    tilec_status s = TILEC_OK;
    char *name = parse_name(r, w, &s);
    if (!name)
        return s;
    cJSON *value =
        w->value[0] == '"' ? parse(r, w->value, w->value_size, &s) : NULL;
    if (value) {
        add_text(r->f, name);
        add_text(r->f, value->valuestring);
    } else if (s == TILEC_OK) {
        s = REJECT(r, "__metadata__: '" NAME "' is no string", name);
    }
    cJSON_Delete(value);
    free(name);
    return s;
}

static tilec_status read_metadata(struct reader *r, const tc_json_walk *member)
{
    if (r->f->metadata)
        return REJECT(r, "%s", "__metadata__ is there twice");
    if (member->value[0] != '{')
        return REJECT(r, "%s", "__metadata__ is no object");
    /* A string is no longer than its text with quotes. */
    r->f->metadata = malloc(member->value_size);
    if (!r->f->metadata)
        return tc_fail_memory(r->error);
    tc_json_walk w = tc_json_walk_begin(member->value, member->value_size);
    tc_json_step step;
    while ((step = tc_json_next(&w)) == TC_JSON_MEMBER) {
        tilec_status s = read_pair(r, &w);
        if (s != TILEC_OK)
            return s;
    }
    return step == TC_JSON_END ? TILEC_OK : no_json(r, w.at);
}

/* NULL: no memory. */
static struct entry *add_entry(tilec_safetensors *f)
{
    if (f->nentries == f->room) {
        size_t room = f->room ? f->room + f->room / 2 : 16;
        struct entry *more = realloc(f->entries, room * sizeof *more);
        if (!more)
            return NULL;
        f->entries = more;
        f->room = room;
    }
    f->entries[f->nentries] = (struct entry){0};
    return &f->entries[f->nentries++];
}

/* Takes the name. */
static tilec_status read_entry(struct reader *r, const tc_json_walk *w,
                               char *name)
{
    enum { MOST_COMMAS = 2 * TC_SAFETENSORS_MAX_RANK };
    tilec_status s = TILEC_OK;
    struct entry *e = add_entry(r->f);
    if (!e) {
        free(name);
        return tc_fail_memory(r->error);
    }
    e->name = name;
    if (tc_json_commas(w->value, w->value_size) > MOST_COMMAS)
        return REJECT(r,
                      "tensor '" NAME "' has more than %d dims and fields, at "
                      "most %d dims are read",
                      e->name, MOST_COMMAS, TC_SAFETENSORS_MAX_RANK);
    cJSON *j = parse(r, w->value, w->value_size, &s);
    if (j)
        s = read_tensor(r, j, e);
    cJSON_Delete(j);
    return s;
}

static tilec_status read_member(struct reader *r, const tc_json_walk *w)
{
    tilec_status s = TILEC_OK;
    char *name = parse_name(r, w, &s);
    if (!name)
        return s;
    if (strcmp(name, "__metadata__") != 0)
        return read_entry(r, w, name);
    free(name);
    return read_metadata(r, w);
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
    r->header = text;
    tilec_status s = check_text(r, text, n);
    if (s != TILEC_OK)
        return s;
    if (n == 0 || text[0] != '{')
        return REJECT(r, "%s",
                      "the header does not begin with `{`: is this a "
                      "safetensors file?");
    tc_json_walk w = tc_json_walk_begin(text, n);
    tc_json_step step;
    while ((step = tc_json_next(&w)) == TC_JSON_MEMBER) {
        s = read_member(r, &w);
        if (s != TILEC_OK)
            return s;
    }
    if (step == TC_JSON_WRONG)
        return no_json(r, w.at);
    for (; w.at < w.end; w.at++)
        if (!strchr(" \t\r\n", *w.at))
            return REJECT(r, "text after the header's JSON (byte %zu)",
                          (size_t)(w.at - text));
    return check_entries(r);
}

static uint64_t little_endian(const unsigned char *p)
{
    uint64_t n = 0;
    for (int i = 7; i >= 0; i--)
        n = n << 8 | p[i];
    return n;
}

/* The header's length, by the first 8 bytes of `size`. */
static tilec_status read_length(struct reader *r, const unsigned char *bytes,
                                uint64_t size, size_t *n)
{
    if (size < 8)
        return REJECT(r, "%llu bytes are too short for a safetensors file",
                      (unsigned long long)size);
    uint64_t length = little_endian(bytes);
    if (length > TC_SAFETENSORS_MAX_HEADER)
        return REJECT(r,
                      "the first 8 bytes are no length of a header (0 to %u): "
                      "is this a safetensors file?",
                      TC_SAFETENSORS_MAX_HEADER);
    if (length > size - 8)
        return REJECT(r,
                      "the header's length is %llu, but only %llu bytes "
                      "follow: is the file cut off?",
                      (unsigned long long)length, (unsigned long long)size - 8);
    *n = (size_t)length;
    r->f->data_at = 8 + length;
    r->f->data_size = size - 8 - length;
    return TILEC_OK;
}

/* ---- Memory of the caller ---- */

/* Old writers need not align their tensors; kernels want aligned ones. What is
 * not gets a copy. */
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

static tilec_status read_bytes(struct reader *r, const char *bytes, size_t size)
{
    size_t n = 0;
    tilec_status s = read_length(r, (const unsigned char *)bytes, size, &n);
    r->f->data = bytes + 8 + n;
    if (s == TILEC_OK)
        s = parse_header(r, bytes + 8, n);
    return s == TILEC_OK ? align_entries(r->f, r->error) : s;
}

/* ---- Files ---- */

/* A file is read, not mapped: of one that shrinks meanwhile a mapping gives
 * SIGBUS, and a library handles no signals. False: errno says why, 0: the file
 * ends before. */
static bool read_at(int fd, void *to, size_t size, uint64_t at)
{
    enum { MOST = 1 << 30 };
    char *p = to;
    while (size) {
        ssize_t n = pread(fd, p, size < MOST ? size : MOST, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n ? errno : 0;
            return false;
        }
        p += n;
        at += (uint64_t)n;
        size -= (size_t)n;
    }
    return true;
}

static tilec_status read_failed(const char *path, tilec_error *error)
{
    if (errno)
        return tc_fail(error, TILEC_MACHINE, "%s: cannot be read: %s", path,
                       strerror(errno));
    return tc_fail(error, TILEC_INPUT,
                   "%s: became shorter while it was read: is another program "
                   "writing it?",
                   path);
}

static tilec_status read_file(struct reader *r, int fd, uint64_t size)
{
    unsigned char length[8];
    size_t n = 0;
    if (size >= sizeof length && !read_at(fd, length, sizeof length, 0))
        return read_failed(r->path, r->error);
    tilec_status s = read_length(r, length, size, &n);
    if (s != TILEC_OK)
        return s;
    char *header = malloc(n + 1);
    if (!header)
        return tc_fail_memory(r->error);
    s = read_at(fd, header, n, 8) ? parse_header(r, header, n)
                                  : read_failed(r->path, r->error);
    free(header);
    return s;
}

/* In large pages, where it fills some: those of 4 KiB cost more than reading.
 */
static void *alloc_bytes(size_t size)
{
    enum { LINE = 64, PAGE = 2 << 20 };
    size_t unit = size < PAGE ? LINE : PAGE;
    void *p = aligned_alloc(unit, (size / unit + 1) * unit);
    if (p && unit == PAGE)
        madvise(p, size / unit * unit, MADV_HUGEPAGE);
    return p;
}

/* The bytes of a tensor, once. */
static tilec_status load(tilec_safetensors *f, struct entry *e,
                         tilec_error *error)
{
    size_t size = (size_t)(e->end - e->begin);
    pthread_mutex_lock(&f->lock);
    tilec_status s = TILEC_OK;
    void *copy = e->copy ? NULL : alloc_bytes(size);
    if (!e->copy && !copy) {
        s = tc_fail_memory(error);
    } else if (!e->copy && !read_at(f->fd, copy, size, f->data_at + e->begin)) {
        s = read_failed(f->path, error);
        free(copy);
    } else if (!e->copy) {
        e->copy = copy;
    }
    pthread_mutex_unlock(&f->lock);
    return s;
}

/* ---- Handles ---- */

/* Takes the descriptor. NULL: no memory. */
static tilec_safetensors *new_handle(const char *path, int fd)
{
    tilec_safetensors *f = calloc(1, sizeof *f);
    char *copy = strdup(path);
    if (!f || !copy) {
        if (fd >= 0)
            close(fd);
        free(f);
        free(copy);
        return NULL;
    }
    f->path = copy;
    f->fd = fd;
    pthread_mutex_init(&f->lock, NULL);
    return f;
}

static tilec_status finish(tilec_safetensors *f, tilec_status s,
                           tilec_safetensors **out)
{
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
    tilec_safetensors *f = new_handle("safetensors", -1);
    if (!f)
        return tc_fail_memory(error);
    struct reader r = {f, f->path, error, NULL};
    return finish(f, read_bytes(&r, bytes, size), out);
}

tilec_status tilec_safetensors_open(const char *path, tilec_safetensors **out,
                                    tilec_error *error)
{
    if (!path || !out)
        return tc_fail(error, TILEC_USAGE,
                       "tilec_safetensors_open: path or out is NULL");
    *out = NULL;
    struct stat st;
    /* Not to hang on a FIFO before fstat can refuse it. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return tc_fail(error, TILEC_INPUT, "%s: %s", path, strerror(errno));
    bool is_known = fstat(fd, &st) == 0;
    if (!is_known || !S_ISREG(st.st_mode)) {
        const char *why = is_known ? "is not a regular file" : strerror(errno);
        close(fd);
        return tc_fail(error, TILEC_INPUT, "%s: %s", path, why);
    }
    tilec_safetensors *f = new_handle(path, fd);
    if (!f)
        return tc_fail_memory(error);
    struct reader r = {f, f->path, error, NULL};
    return finish(f, read_file(&r, fd, (uint64_t)st.st_size), out);
}

void tilec_safetensors_free(tilec_safetensors *f)
{
    if (!f)
        return;
    for (size_t i = 0; i < f->nentries; i++) {
        free(f->entries[i].name);
        free(f->entries[i].shape);
        free(f->entries[i].copy);
    }
    free(f->entries);
    free(f->metadata);
    free(f->path);
    if (f->fd >= 0)
        close(f->fd);
    pthread_mutex_destroy(&f->lock);
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

static tilec_status give(struct entry *e, const tilec_safetensors *f,
                         DLTensor *out, tilec_error *error)
{
    tc_kind kind = dtypes[e->dtype].kind;
    if (kind == TC_KIND_COUNT)
        return tc_fail(error, TILEC_INPUT,
                       "tensor '" NAME "' is of dtype %s, which tilec does not "
                       "have",
                       e->name, dtypes[e->dtype].name);
    /* A handle as callers know it is read-only; this makes it whole. */
    tilec_status s =
        f->fd < 0 ? TILEC_OK : load((void *)(uintptr_t)f, e, error);
    if (s != TILEC_OK)
        return s;
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
    for (size_t at = 0; at < f->metadata_size;) {
        const char *name = f->metadata + at, *value = name + strlen(name) + 1;
        if (strcmp(name, key) == 0)
            return value;
        at += strlen(name) + strlen(value) + 2;
    }
    return NULL;
}
