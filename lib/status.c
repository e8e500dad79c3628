/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by all calls: statuses and errors, the unwind point for out of memory,
 * structs of any version.
 */
#include "lib/handles.h"

#include "ir/base/escape.h"

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

/* The part of a tilec_error that the caller's header has. */
static size_t known_size(const tilec_error *error)
{
    size_t first = offsetof(tilec_error, program) + sizeof error->program;
    size_t size = error->size ? error->size : first;
    return size < sizeof *error ? size : sizeof *error;
}

static void read_error(tilec_error *to, const tilec_error *from)
{
    memcpy(to, from, known_size(from));
}

static void write_error(tilec_error *to, const tilec_error *from)
{
    memcpy(to, from, known_size(to));
}

static void fill(tilec_error *error, tilec_status status, const char *kept,
                 const char *fmt, va_list args)
{
    if (!error)
        return;
    tilec_error full = {.size = error->size, .status = status};
    char text[sizeof full.message];
    vsnprintf(text, sizeof text, fmt, args);
    tc_escape(full.message, sizeof full.message, text, strlen(text), kept);
    write_error(error, &full);
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

void tc_error_at(tilec_error *error, const char *file, uint32_t line,
                 uint32_t column)
{
    if (!error)
        return;
    tilec_error full = {0};
    read_error(&full, error);
    snprintf(full.file, sizeof full.file, "%s", file);
    full.line = line;
    full.column = column;
    write_error(error, &full);
}

void tc_error_program(tilec_error *error, const int32_t program[3])
{
    if (!error)
        return;
    tilec_error full = {0};
    read_error(&full, error);
    memcpy(full.program, program, sizeof full.program);
    write_error(error, &full);
}

tilec_status tc_fail_memory(tilec_error *error)
{
    return tc_fail(error, TILEC_MACHINE, "out of memory");
}

bool tc_arguments_fit(const tilec_argument *args, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (args[i].size != sizeof *args)
            return false;
    return true;
}

bool tc_sources_fit(const tilec_source *sources, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (sources[i].size != sizeof *sources)
            return false;
    return true;
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
