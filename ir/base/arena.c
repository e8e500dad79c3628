/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/base/arena.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define CHUNK_SIZE 1 /* one malloc an object */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CHUNK_SIZE 1
#endif
#endif
#ifndef CHUNK_SIZE
#define CHUNK_SIZE ((size_t)64 * 1024)
#endif

struct tc_chunk {
    tc_chunk *next;
    size_t size;
    _Alignas(max_align_t) char data[];
};

void tc_arena_init(tc_arena *a, tc_memory *memory)
{
    *a = (tc_arena){.memory = memory};
}

void tc_arena_reset(tc_arena *a)
{
    while (a->chunks) {
        tc_chunk *c = a->chunks;
        a->chunks = c->next;
        free(c);
    }
    a->used = 0;
}

void tc_memory_fail(const tc_memory *m)
{
    assert(m->unwind && "allocation outside of a public entry");
    longjmp(*m->unwind, 1);
}

/* The one place where running out of memory is noticed. */
static tc_chunk *new_chunk(tc_memory *m, size_t size)
{
    tc_chunk *c = NULL;
    bool planned = m->fail_after && --m->fail_after == 0;
    if (!planned && size <= SIZE_MAX - sizeof *c)
        c = calloc(1, sizeof *c + size);
    if (!c)
        tc_memory_fail(m);
    c->size = size;
    return c;
}

void *tc_arena_alloc(tc_arena *a, size_t size)
{
    const size_t align = _Alignof(max_align_t);
    if (size > SIZE_MAX - align)
        size = SIZE_MAX - align;
    size = size ? (size + align - 1) / align * align : align;
    if (!a->chunks || a->chunks->size - a->used < size) {
        tc_chunk *c =
            new_chunk(a->memory, size > CHUNK_SIZE ? size : CHUNK_SIZE);
        c->next = a->chunks;
        a->chunks = c;
        a->used = 0;
    }
    void *p = a->chunks->data + a->used;
    a->used += size;
    return p;
}

void *tc_arena_copy(tc_arena *a, const void *from, size_t size)
{
    void *p = tc_arena_alloc(a, size);
    if (size)
        memcpy(p, from, size);
    return p;
}

char *tc_arena_string(tc_arena *a, const char *s)
{
    return s ? tc_arena_copy(a, s, strlen(s) + 1) : NULL;
}

char *tc_arena_vprintf(tc_arena *a, const char *fmt, va_list args)
{
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    assert(n >= 0);
    char *s = tc_arena_alloc(a, (size_t)n + 1);
    vsnprintf(s, (size_t)n + 1, fmt, again);
    va_end(again);
    return s;
}

char *tc_arena_printf(tc_arena *a, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char *s = tc_arena_vprintf(a, fmt, args);
    va_end(args);
    return s;
}

void tc_text_addn(tc_text *t, const char *s, size_t n)
{
    if (t->len + n + 1 > t->room) {
        size_t room = t->room ? t->room : 128;
        while (room < t->len + n + 1)
            room *= 2;
        char *data = tc_arena_alloc(t->arena, room);
        if (t->len)
            memcpy(data, t->data, t->len);
        t->data = data;
        t->room = room;
    }
    if (n)
        memcpy(t->data + t->len, s, n);
    t->len += n;
    t->data[t->len] = 0;
}

void tc_text_add(tc_text *t, const char *s)
{
    tc_text_addn(t, s, strlen(s));
}

void tc_text_printf(tc_text *t, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    char small[256];
    if (n < (int)sizeof small) {
        vsnprintf(small, sizeof small, fmt, again);
        tc_text_addn(t, small, (size_t)n);
    } else {
        char *s = tc_arena_vprintf(t->arena, fmt, again);
        tc_text_addn(t, s, (size_t)n);
    }
    va_end(again);
}
