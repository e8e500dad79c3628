/* SPDX-License-Identifier: Apache-2.0
 *
 * The diagnostics of a context, apart from what a compile says (job.c).
 */
#include "lib/handles.h"

void tc_diagnostics_clear(tilec_context *owner)
{
    owner->diags = NULL;
    owner->nerrors = 0;
    owner->oom.next = NULL; /* what came after it is in the arena */
    tc_arena_reset(&owner->arena);
}

tilec_status tc_diagnostics_oom(tilec_context *owner)
{
    tc_diagnostics_clear(owner);
    owner->diags = &owner->oom;
    owner->nerrors = 1;
    return TILEC_MACHINE;
}

struct saying {
    tilec_context *cx;
    const char *text;
};

static void say(void *arg)
{
    const struct saying *s = arg;
    tilec_diagnostic *d = tc_arena_new(&s->cx->arena, tilec_diagnostic);
    d->size = sizeof *d;
    d->severity = TILEC_ERROR;
    d->message = tc_arena_string(&s->cx->arena, s->text);
    s->cx->diags = d;
    s->cx->nerrors = 1;
}

tilec_status tc_say(tilec_context *cx, tilec_status status, const char *text)
{
    struct saying s = {cx, text};
    tc_diagnostics_clear(cx);
    return tc_guard(&cx->memory, say, &s) ? status : tc_diagnostics_oom(cx);
}
