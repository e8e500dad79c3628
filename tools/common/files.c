/* SPDX-License-Identifier: Apache-2.0
 *
 * Text files in and out, and tensors that the tools make.
 */
#define _GNU_SOURCE /* asprintf */
#include "tools/common/commands.h"

#include "lib/files/replace.h"
#include "lib/files/safetensors.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* No program is longer, but /dev/zero is. */
enum { LONGEST = 1 << 28 };

static char *read_all(FILE *in, size_t *length)
{
    size_t room = 1 << 16, n = 0;
    char *text = malloc(room);
    while (text) {
        n += fread(text + n, 1, room - n - 1, in);
        if (n + 1 < room)
            break;
        if (room >= LONGEST) {
            free(text);
            errno = EFBIG;
            return NULL;
        }
        char *more = realloc(text, room *= 2);
        if (!more)
            free(text);
        text = more;
    }
    if (text && ferror(in)) {
        free(text);
        return NULL;
    }
    if (!text) {
        errno = ENOMEM;
        return NULL;
    }
    text[n] = 0;
    *length = n;
    return text;
}

char *read_text(const char *path, size_t *length)
{
    bool input = strcmp(path, "-") == 0;
    FILE *in = input ? stdin : fopen(path, "rb");
    char *text = in ? read_all(in, length) : NULL;
    if (!text)
        report_file(path);
    if (in && !input)
        fclose(in);
    return text;
}

int read_source(void *user, const char *file, char **text)
{
    (void)user;
    size_t length;
    *text = read_text(file, &length);
    return *text != NULL;
}

int write_text(const char *path, const char *text)
{
    return write_data(path, text, strlen(text));
}

bool flush_stream(FILE *out)
{
    bool has_failed = ferror(out);
    clearerr(out); /* said once */
    if (fflush(out) != 0)
        return false;
    /* An earlier call's errno is gone: what the file says to one byte more. */
    if (has_failed && write(fileno(out), "\n", 1) == 1)
        errno = EIO;
    return !has_failed;
}

static bool write_all(FILE *out, const char *data, size_t n)
{
    if (!out)
        return false;
    fwrite(data, 1, n, out);
    return flush_stream(out);
}

/* False: errno says why. */
static bool write_close(FILE *out, const char *data, size_t n)
{
    bool ok = write_all(out, data, n);
    int why = errno;
    if (out && fclose(out) != 0 && ok)
        return false;
    errno = why;
    return ok;
}

/* Whole or not at all; the mode of what was there (0: nothing) stays. */
static bool write_file(const char *place, mode_t mode, const char *data,
                       size_t n)
{
    tc_replace r;
    char *base;
    if (asprintf(&base, "%s.", place) < 0)
        return false;
    bool ok = tc_replace_begin(&r, place, base, 0666);
    if (ok && mode)
        (void)!fchmod(r.fd, mode & 0777);
    ok = ok && tc_replace_write(&r, data, n) && tc_replace_publish(&r, false);
    tc_replace_end(&r);
    free(base);
    return ok;
}

bool is_stdout(const char *path)
{
    return !path || strcmp(path, "-") == 0;
}

bool is_tensor_file(const tool_command *command, const char *path)
{
    if (strcmp(path, "-") != 0)
        return true;
    tool_usage(command, "-o -: tensors are not for standard output, expected a "
                        "file (`./-` is one of that name)");
    return false;
}

int write_data(const char *path, const char *data, size_t n)
{
    struct stat st;
    bool ok;
    if (is_stdout(path)) {
        ok = write_all(stdout, data, n);
        return ok ? EXIT_DONE : report_file("standard output");
    }
    char *place = tc_replace_place(path, &st); /* links stay */
    ok = place != NULL;
    if (ok && st.st_mode && !S_ISREG(st.st_mode)) {
        ok = write_close(fopen(place, "wb"), data, n);
    } else if (ok) {
        ok = write_file(place, st.st_mode, data, n);
        /* The folder takes no other file. */
        if (!ok && st.st_mode && errno == EACCES)
            ok = write_close(fopen(place, "wb"), data, n);
    }
    int why = errno;
    free(place);
    errno = why;
    return ok ? EXIT_DONE : report_file(path);
}

int64_t tensor_count(const DLTensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->ndim; i++)
        n *= t->shape[i];
    return n;
}

size_t tensor_bytes(const DLTensor *t)
{
    return (size_t)tensor_count(t) * ((t->dtype.bits + 7u) / 8u);
}

bool tensor_new(owned_tensor *t, DLDataType dtype, int ndim,
                const int64_t *shape)
{
    _Static_assert((int)TENSOR_DIMS == (int)TC_SAFETENSORS_MAX_RANK,
                   "files have more");
    int64_t bytes = (dtype.bits + 7) / 8;
    t->dl = (DLTensor){
        .device = {kDLCPU, 0}, .ndim = ndim, .dtype = dtype, .shape = t->shape};
    for (int i = 0; i < ndim; i++) {
        t->shape[i] = shape[i];
        if (__builtin_mul_overflow(bytes, shape[i], &bytes))
            return false;
    }
    /* aligned_alloc wants a multiple; one line more keeps 0 bytes not NULL. */
    size_t room = ((size_t)bytes / 64 + 1) * 64;
    t->dl.data = aligned_alloc(64, room);
    if (t->dl.data)
        memset(t->dl.data, 0, room);
    return t->dl.data;
}
