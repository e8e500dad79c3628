/* SPDX-License-Identifier: Apache-2.0
 *
 * What all calls have in common: statuses and errors, the unwind point for out
 * of memory, option structs of any version.
 */
#include "lib/handles.h"

#include "ir/escape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tilec_free(char *text)
{
    free(text);
}

bool tc_guard(tc_memory *m, void (*run)(void *arg), void *arg)
{
    jmp_buf unwind;
    if (setjmp(unwind)) {
        m->unwind = NULL;
        return false;
    }
    m->unwind = &unwind;
    run(arg);
    m->unwind = NULL;
    return true;
}

static void fill(tilec_error *error, tilec_status status, const char *kept,
                 const char *fmt, va_list args)
{
    char text[sizeof error->message];
    if (!error)
        return;
    memset(error, 0, sizeof *error);
    error->status = status;
    vsnprintf(text, sizeof text, fmt, args);
    tc_escape(error->message, sizeof error->message, text, strlen(text), kept);
}

tilec_status tc_fail(tilec_error *error, tilec_status status, const char *fmt,
                     ...)
{
    va_list args;
    va_start(args, fmt);
    fill(error, status, "", fmt, args);
    va_end(args);
    return status;
}

tilec_status tc_fail_lines(tilec_error *error, tilec_status status,
                           const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fill(error, status, "\n\t", fmt, args);
    va_end(args);
    return status;
}

tilec_status tc_fail_memory(tilec_error *error)
{
    return tc_fail(error, TILEC_MACHINE, "out of memory");
}

bool tc_options_read(void *to, size_t room, const void *from)
{
    if (!from)
        return true;
    size_t size;
    memcpy(&size, from, sizeof size);
    if (size < sizeof size)
        return false;
    /* A caller built against a newer header: what this library does not know
     * must not be set. */
    for (size_t i = room; i < size; i++)
        if (((const char *)from)[i])
            return false;
    memcpy(to, from, size < room ? size : room);
    return true;
}
