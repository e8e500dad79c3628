/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target: any text through `tilec fmt`. What is formatted has the
 * tokens of the text (format_text itself checks it), and stays as it is when it
 * is formatted again; what is not has an error that says why.
 */
#include "tools/editors/format.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool format(tc_context *cx, tc_arena *a, const char *text, size_t len,
                   tc_text *out)
{
    tc_diags_clear(cx);
    *out = (tc_text){.arena = a};
    bool ok = format_text(cx, a, tc_source_add(cx, "fuzz", text, len), out);
    if (ok != (cx->nerrors == 0))
        abort();
    for (tc_diag *d = cx->diags; d; d = d->next)
        if (strstr(d->message, "bug in tilec"))
            abort();
    return ok;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    jmp_buf unwind;
    tc_context *cx = tc_context_new();
    if (!cx || setjmp(unwind))
        abort();
    cx->memory.unwind = &unwind;
    tc_arena arena;
    tc_text once, twice;
    tc_arena_init(&arena, &cx->memory);
    if (format(cx, &arena, (const char *)data, size, &once) &&
        (!format(cx, &arena, once.data, once.len, &twice) ||
         once.len != twice.len || memcmp(once.data, twice.data, once.len) != 0))
        abort();
    tc_arena_reset(&arena);
    tc_context_free(cx);
    return 0;
}
