/* SPDX-License-Identifier: Apache-2.0
 *
 * Text files in and out, and tensors of the tools' own.
 */
#include "tools/commands.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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

static bool is_regular(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

int write_data(const char *path, const char *data, size_t n)
{
    FILE *out = path ? fopen(path, "wb") : stdout;
    if (!out)
        return report_file(path);
    bool ok = fwrite(data, 1, n, out) == n && fflush(out) == 0;
    if (path && fclose(out) != 0)
        ok = false;
    if (ok)
        return EXIT_DONE;
    report_file(path ? path : "standard output");
    if (path && is_regular(path)) /* half of it is worse than nothing */
        remove(path);
    return EXIT_MACHINE;
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
    for (int i = 0; i < ndim; i++)
        t->shape[i] = shape[i];
    t->dl = (DLTensor){
        .device = {kDLCPU, 0}, .ndim = ndim, .dtype = dtype, .shape = t->shape};
    size_t bytes = tensor_bytes(&t->dl);
    /* aligned_alloc wants a multiple; one line more keeps 0 bytes not NULL. */
    size_t room = (bytes / 64 + 1) * 64;
    t->dl.data = aligned_alloc(64, room);
    if (t->dl.data)
        memset(t->dl.data, 0, room);
    return t->dl.data;
}
