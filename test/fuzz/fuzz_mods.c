/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target: any text through the parser of mod expressions, as a mask
 * and as a score.
 */
#include "lib/mods/mods.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    tc_context *cx;
    const char *text;
};

static void parse(void *arg)
{
    struct input *in = arg;
    for (int kind = 0; kind < 2; kind++) {
        tc_job job = {.cx = in->cx};
        tc_mod_expr e;
        tc_diags_clear(in->cx);
        bool ok = tc_mods_parse(&job, (tc_mod_kind)kind, in->text, &e);
        if (ok != (in->cx->nerrors == 0) || (ok && e.nuses == 0))
            abort();
        for (unsigned i = 0; ok && i < e.nuses; i++)
            if (!*tc_mod_name(e.uses[i]) ||
                tc_mod_loc(&e, e.uses[i]).col > strlen(in->text))
                abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    struct input in = {tc_context_new(), text};
    if (in.cx && text) {
        memcpy(text, data, size);
        text[size] = 0;
        if (!tc_guard(&in.cx->memory, parse, &in))
            abort();
    }
    tc_context_free(in.cx);
    free(text);
    return 0;
}
