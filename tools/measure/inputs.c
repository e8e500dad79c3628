/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/measure/inputs.h"

#include "lib/handles.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int bad_argument(const inputs *in, const char *word)
{
    return tool_usage(in->command,
                      "argument `%s`: expected NAME=FILE.safetensors[:TENSOR], "
                      "NAME=NUMBER, NAME=zeros:8x128xf32, "
                      "NAME=random:8x128xf32, the same with :order(1,0), "
                      "NAME=[0,300] or NAME=like:OTHER",
                      word);
}

static int out_of_memory(void)
{
    report("no memory for the tensors");
    return EXIT_MACHINE;
}

const DLTensor *inputs_find(const inputs *in, const char *name)
{
    for (size_t i = 0; i < in->n; i++)
        if (in->arguments[i].tensor && strcmp(in->list[i].name, name) == 0)
            return in->arguments[i].tensor;
    return NULL;
}

bool kernel_writes(const tilec_kernel *kernel, const char *name)
{
    const tilec_parameter *p;
    for (size_t i = 0; (p = tilec_kernel_parameter(kernel, i)); i++)
        if (strcmp(p->name, name) == 0)
            return p->written;
    return false;
}

bool dtype_read(const char *text, DLDataType *out)
{
    tc_kind kind = tc_kind_parse(text, strlen(text));
    if (kind > TC_LAST_SCALAR || tc_kind_is_packed(kind))
        return false;
    *out = tc_kind_to_dl(kind);
    return true;
}

/* ---- Random numbers ---- */

/* SplitMix64 (Steele, Lea and Flood 2014). */
static uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

/* The sum of four uniform numbers, scaled to variance 1. */
static double nearly_normal(uint64_t bits)
{
    double sum = 0;
    for (int i = 0; i < 4; i++)
        sum += (double)(bits >> 16 * i & 0xffff) / 65536.0 - 0.5;
    return sum * sqrt(3.0);
}

/* Elements of a tensor of any size come from a table of so many: four of them
 * for each random number. */
enum { DRAWS = 1 << 16 };

/* Bytes from the first element to that of this row-major number. */
static size_t place_of(const DLTensor *t, int64_t number, size_t bytes)
{
    int64_t at = 0;
    if (!t->strides)
        return (size_t)number * bytes;
    for (int i = t->ndim - 1; i >= 0; i--) {
        at += number % t->shape[i] * t->strides[i];
        number /= t->shape[i];
    }
    return (size_t)at * bytes;
}

static void fill(DLTensor *t, uint64_t seed)
{
    static uint64_t draws[DRAWS];
    tc_kind kind = tc_kind_from_dl(t->dtype);
    size_t bytes = (t->dtype.bits + 7u) / 8u;
    char *to = t->data;
    for (int i = 0; i < DRAWS; i++) {
        uint64_t bits = next_random(&seed);
        draws[i] = tc_scalar_infos[kind].is_float
                       ? tc_float_to_bits(kind, nearly_normal(bits))
                   : kind == TC_I1 ? bits & 1
                                   : bits & 15;
    }
    uint64_t four = 0;
    for (int64_t i = 0, n = tensor_count(t); i < n; i++, four >>= 16) {
        if (i % 4 == 0)
            four = next_random(&seed);
        memcpy(to + place_of(t, i, bytes), &draws[four & (DRAWS - 1)], bytes);
    }
}

/* ---- Values ---- */

/* order: of the dims in memory, the closest last; NULL: row-major. */
static int new_tensor(inputs *in, input *to, DLDataType dtype, int ndim,
                      const int64_t *shape, const int *order, bool is_random)
{
    if (!tensor_new(&to->own, dtype, ndim, shape))
        return out_of_memory();
    int64_t stride = 1;
    for (int i = ndim - 1; order && i >= 0; i--) {
        to->strides[order[i]] = stride;
        stride *= shape[order[i]];
    }
    to->own.dl.strides = order ? to->strides : NULL;
    to->is_blank = !is_random;
    if (is_random)
        fill(&to->own.dl, in->seed + in->n * 0x632be59bd9b4e019);
    return EXIT_DONE;
}

/* "1,0)" */
static bool read_order(const char *text, int ndim, int order[8])
{
    unsigned seen = 0;
    for (int i = 0; i < ndim; i++, text++) {
        char *end;
        long dim = strtol(text, &end, 10);
        if (end == text || dim < 0 || dim >= ndim || seen >> dim & 1 ||
            *end != (i + 1 < ndim ? ',' : ')'))
            return false;
        seen |= 1u << dim;
        order[i] = (int)dim;
        text = end;
    }
    return ndim > 0 && *text == 0;
}

/* 8x128xf32 or 8x128xf32:order(1,0) */
static int read_shape(inputs *in, input *to, const char *text, bool is_random,
                      const char *word)
{
    int64_t shape[8];
    int ndim = 0;
    while (*text >= '0' && *text <= '9' && ndim < 8) {
        char *end;
        errno = 0;
        shape[ndim++] = strtoll(text, &end, 10);
        if (errno || *end != 'x' || shape[ndim - 1] > INT32_MAX)
            return bad_argument(in, word);
        text = end + 1;
    }
    static const char after[] = ":order(";
    char type[16];
    const char *colon = strchr(text, ':');
    int n = (int)(colon ? (size_t)(colon - text) : strlen(text)), order[8];
    snprintf(type, sizeof type, "%.*s", n, text);
    DLDataType dtype;
    if (!dtype_read(type, &dtype) ||
        (colon && (strncmp(colon, after, strlen(after)) != 0 ||
                   !read_order(colon + strlen(after), ndim, order))))
        return bad_argument(in, word);
    return new_tensor(in, to, dtype, ndim, shape, colon ? order : NULL,
                      is_random);
}

static int read_like(inputs *in, input *to, const char *other, const char *word)
{
    const DLTensor *t = inputs_find(in, other);
    if (!t)
        return tool_usage(in->command,
                          "argument `%s`: there is no tensor `%s` before it",
                          word, other);
    return new_tensor(in, to, t->dtype, t->ndim, t->shape, NULL, false);
}

/* FILE[:TENSOR]; without a tensor the one of the argument's name, or the only
 * one. A file name may hold a colon itself: the last one counts. */
static int open_tensor(input *to, const char *value)
{
    tilec_error e = TILEC_INIT(tilec_error);
    const char *colon = strrchr(value, ':');
    char *path =
        strndup(value, colon ? (size_t)(colon - value) : strlen(value));
    if (!path)
        return out_of_memory();
    int code = tilec_safetensors_open(path, &to->file, &e) ? report_error(&e)
                                                           : EXIT_DONE;
    free(path);
    if (code)
        return code;
    const char *name = colon ? colon + 1 : to->name;
    if (!colon && tilec_safetensors_count(to->file) == 1)
        name = tilec_safetensors_name(to->file, 0);
    return tilec_safetensors_get(to->file, name, &to->view, &e)
               ? report_error(&e)
               : EXIT_DONE;
}

/* A number, or true or false. */
static bool read_number(const char *text, const char *name, tilec_argument *out)
{
    char *end;
    errno = 0;
    long long i = strtoll(text, &end, 0);
    if (end != text && !*end && !errno) {
        *out = tilec_int(name, i);
        return true;
    }
    double f = strtod(text, &end);
    if (end != text && !*end) {
        *out = tilec_float(name, f);
        return true;
    }
    bool yes = strcmp(text, "true") == 0;
    *out = tilec_int(name, yes);
    return yes || strcmp(text, "false") == 0;
}

static bool fits_list(DLDataType dtype, int64_t x)
{
    if (dtype.bits == 64)
        return true;
    return dtype.code == kDLUInt ? x >> dtype.bits == 0
                                 : x >> (dtype.bits - 1) == x >> 63;
}

/* [0,300,800], or [0,1,1]xi8: as many whole numbers; i32 where nothing else is
 * said. */
static int read_list(inputs *in, input *to, const char *value, const char *word)
{
    DLDataType dtype = {kDLInt, 32, 1};
    const char *close = strchr(value, ']');
    int64_t n = close != value + 1;
    if (!close ||
        (close[1] && (close[1] != 'x' || !dtype_read(close + 2, &dtype))) ||
        (dtype.code != kDLInt && dtype.code != kDLUInt))
        return bad_argument(in, word);
    for (const char *at = value; at < close; at++)
        n += *at == ',';
    if (!tensor_new(&to->own, dtype, 1, &n))
        return out_of_memory();
    int bytes = dtype.bits / 8;
    const char *at = value + 1;
    for (int64_t i = 0; i < n; i++) {
        char *end;
        errno = 0;
        int64_t x = strtoll(at, &end, 0);
        if (end == at || errno || (end != close && *end != ',') ||
            !fits_list(dtype, x))
            return bad_argument(in, word);
        memcpy((char *)to->own.dl.data + i * bytes, &x, (size_t)bytes);
        at = end + 1;
    }
    return at == close + 1 || n == 0 ? EXIT_DONE : bad_argument(in, word);
}

static int read_tensor(inputs *in, input *to, const char *value,
                       const char *word)
{
    if (*value == '[')
        return read_list(in, to, value, word);
    if (strncmp(value, "zeros:", 6) == 0)
        return read_shape(in, to, value + 6, false, word);
    if (strncmp(value, "random:", 7) == 0)
        return read_shape(in, to, value + 7, true, word);
    if (strncmp(value, "like:", 5) == 0)
        return read_like(in, to, value + 5, word);
    return open_tensor(to, value);
}

/* Also after a failure, so that inputs_free finds it. */
static void keep(inputs *in, input *to)
{
    const DLTensor *t = to->file ? &to->view : &to->own.dl;
    in->arguments[in->n++] = tilec_tensor(to->name, t);
}

int inputs_add(inputs *in, const char *word)
{
    const char *equals = strchr(word, '=');
    if (!equals || equals == word || !equals[1] ||
        equals - word >= (long)sizeof in->list[0].name)
        return bad_argument(in, word);
    if (in->n == INPUTS_MOST)
        return tool_usage(in->command,
                          "argument `%s`: there are more than %d arguments",
                          word, INPUTS_MOST);
    input *to = &in->list[in->n];
    memcpy(to->name, word, (size_t)(equals - word));
    if (read_number(equals + 1, to->name, &in->arguments[in->n])) {
        in->n++;
        return EXIT_DONE;
    }
    int code = read_tensor(in, to, equals + 1, word);
    keep(in, to);
    return code;
}

int inputs_add_tensor(inputs *in, const char *name, DLDataType dtype, int ndim,
                      const int64_t *shape, bool is_random)
{
    input *to = &in->list[in->n];
    snprintf(to->name, sizeof to->name, "%s", name);
    int code = new_tensor(in, to, dtype, ndim, shape, NULL, is_random);
    keep(in, to);
    return code;
}

int inputs_want_rows(const inputs *in, const tilec_kernel *kernel)
{
    for (size_t i = 0; i < in->n; i++)
        if (in->list[i].own.dl.strides &&
            kernel_writes(kernel, in->list[i].name))
            return tool_usage(in->command,
                              "argument `%s`: @%s writes it, expected no order",
                              in->list[i].name, tilec_kernel_name(kernel));
    return EXIT_DONE;
}

int inputs_copy_written(inputs *in, const tilec_kernel *kernel)
{
    for (size_t i = 0; i < in->n; i++) {
        input *from = &in->list[i];
        if (!from->file || from->own.dl.data ||
            !kernel_writes(kernel, from->name))
            continue;
        if (!tensor_new(&from->own, from->view.dtype, from->view.ndim,
                        from->view.shape))
            return out_of_memory();
        memcpy(from->own.dl.data,
               (const char *)from->view.data + from->view.byte_offset,
               tensor_bytes(&from->view));
        in->arguments[i].tensor = &from->own.dl;
    }
    return EXIT_DONE;
}

void inputs_free(inputs *in)
{
    for (size_t i = 0; i < in->n; i++) {
        free(in->list[i].own.dl.data);
        tilec_safetensors_free(in->list[i].file);
    }
    in->n = 0;
}
