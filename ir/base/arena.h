/* SPDX-License-Identifier: Apache-2.0
 *
 * Arenas: memory that is given back all at once.
 *
 * Everything that the compiler builds lives in an arena: the context's
 * (interned strings, types), the module's (ops, values), or a scratch arena
 * that the pass runner resets. Nothing is freed alone.
 *
 * Out of memory is handled in one place: tc_arena_alloc never returns NULL; it
 * jumps to the arena's `unwind` point, which every public entry sets. Under
 * AddressSanitizer each object is a malloc of its own, so that overruns and
 * stale pointers are seen.
 */
#ifndef TC_ARENA_H
#define TC_ARENA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where an allocation failure goes, and how to ask for memory. Owned by the
 * context and shared by its arenas. `fail_after`: the allocation test's
 * countdown; 0 is off, n makes the n-th chunk request from now on fail. */
typedef struct tc_memory {
    jmp_buf *unwind;
    unsigned long fail_after;
} tc_memory;

typedef struct tc_chunk tc_chunk;
typedef struct tc_arena {
    tc_memory *memory;
    tc_chunk *chunks; /* newest first */
    size_t used;      /* bytes taken from the newest chunk */
} tc_arena;

/* Jumps to the unwind point, when memory that is no arena's was not to be had.
 */
_Noreturn void tc_memory_fail(const tc_memory *memory);

void tc_arena_init(tc_arena *a, tc_memory *memory);
/* Gives back all memory; the arena is empty and can be used again. */
void tc_arena_reset(tc_arena *a);
/* Zeroed memory aligned for any type; jumps to memory->unwind on failure. */
void *tc_arena_alloc(tc_arena *a, size_t size);
void *tc_arena_copy(tc_arena *a, const void *from, size_t size);
char *tc_arena_string(tc_arena *a, const char *s); /* NULL of NULL */
char *tc_arena_printf(tc_arena *a, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
char *tc_arena_vprintf(tc_arena *a, const char *fmt, va_list args);

#define tc_arena_new(a, T)      ((T *)tc_arena_alloc((a), sizeof(T)))
#define tc_arena_array(a, T, n) ((T *)tc_arena_alloc((a), sizeof(T) * (n)))

/* A growing text in an arena (the printer's output, messages). */
typedef struct tc_text {
    tc_arena *arena;
    char *data; /* always ends in NUL once anything was added */
    size_t len, room;
} tc_text;

void tc_text_add(tc_text *t, const char *s);
void tc_text_addn(tc_text *t, const char *s, size_t n);
void tc_text_printf(tc_text *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
