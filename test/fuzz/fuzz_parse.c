/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target for lexer, parser, verifier and printer. Whatever the bytes
 * are: no crash; and a text that parses prints to a text that parses and prints
 * to the same again. What the verifier accepts is accepted after that too.
 */
#include "ir/ir.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct parsed {
    tc_module *m;
    bool verified;
    tc_text text;
} parsed;

static bool read_text(tc_context *cx, const char *text, size_t len, parsed *out)
{
    tc_diags_clear(cx);
    out->m = tc_module_new(cx);
    uint32_t source = tc_source_add(cx, "fuzz", text, len);
    if (!tc_parse(out->m, source)) {
        if (!cx->diags)
            abort(); /* an error without a message */
        return false;
    }
    if (cx->nerrors)
        abort();
    out->verified = tc_module_verify(out->m);
    out->text = (tc_text){.arena = &out->m->arena};
    tc_module_print(&out->text, out->m, TC_PRINT_PLAIN);
    return true;
}

static void check_round_trip(tc_context *cx, const uint8_t *data, size_t size)
{
    parsed first, again;
    if (read_text(cx, (const char *)data, size, &first)) {
        if (!read_text(cx, first.text.data, first.text.len, &again) ||
            first.verified != again.verified ||
            strcmp(first.text.data, again.text.data) != 0)
            abort();
        tc_module_free(again.m);
    }
    tc_module_free(first.m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    jmp_buf unwind;
    tc_context *cx = tc_context_new();
    if (!cx || setjmp(unwind))
        abort();
    cx->memory.unwind = &unwind;
    check_round_trip(cx, data, size);
    tc_context_free(cx);
    return 0;
}
