/* SPDX-License-Identifier: Apache-2.0 */
#include "test/fuzz/attempt.h"

#include "codegen/host/host.h"
#include "codegen/nvptx/nvptx.h"
#include "passes/passes.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

unsigned attempt_passes(const char *pipeline, unsigned begin, unsigned end,
                        char *out, size_t room)
{
    unsigned n = 0;
    for (const char *s = pipeline; *s; s += strspn(s, " ,")) {
        size_t len = strcspn(s, " ,");
        const tc_pass_info *info = tc_pass_infos;
        while (info < tc_pass_infos + tc_npass_infos &&
               (strlen(info->name) != len || memcmp(info->name, s, len) != 0))
            info++;
        s += len;
        if (info < tc_pass_infos + tc_npass_infos && info->passes) {
            n += attempt_passes(info->passes, begin > n ? begin - n : 0,
                                end > n ? end - n : 0, out, room);
            continue;
        }
        size_t at = strlen(out);
        if (n >= begin && n < end && at + len + 2 < room)
            snprintf(out + at, room - at, "%s%.*s", at ? "," : "", (int)len,
                     s - len);
        n++;
    }
    return n;
}

/* What no text may make the compiler say. */
static const char *const of_the_compiler[] = {
    "this is a bug in tilec", ": LLVM, ", "round trip after pass",
    "does not parse"};

static bool blames_the_text(const tc_diag *d)
{
    for (; d; d = d->next) {
        for (unsigned i = 0;
             i < sizeof of_the_compiler / sizeof *of_the_compiler; i++)
            if (strstr(d->message, of_the_compiler[i]))
                return false;
        if (!blames_the_text(d->notes))
            return false;
    }
    return true;
}

static tc_func *only_kernel(const tc_module *m)
{
    tc_func *found = NULL;
    tc_each_func (f, m) {
        if (f->is_plan || f->nparams || found)
            return NULL;
        found = f->is_kernel ? f : found;
    }
    return found;
}

static bool make_code(tc_module *m, const tc_target *target)
{
    tc_func *f = only_kernel(m);
    if (!f)
        return false;
    if (strcmp(target->name, "cpu") != 0) {
        tc_nvptx_code code;
        bool ok = tc_nvptx_compile(m, target, &code);
        if (ok)
            tc_nvptx_code_free(&code);
        return ok;
    }
    tc_host_options host = {.cpu = "x86-64-v3"};
    tc_host_kernel *k = tc_host_compile(f, &host);
    tc_host_free(k);
    return k != NULL;
}

static void run_stages(attempt *t, tc_module *m)
{
    const tc_target *target = tc_target_get(t->target);
    tc_pass_options o = {.target = target,
                         .warps = t->warps,
                         .verify_each = true,
                         .round_trip = t->round_trip};
    uint32_t source = tc_source_add(m->cx, "mutant", t->text, strlen(t->text));
    t->parsed = tc_parse(m, source);
    t->verified = t->parsed && tc_module_verify(m);
    t->passed = t->verified && tc_run_pipeline(m, t->pipeline, &o);
    t->coded = t->passed && make_code(m, target);
}

bool attempt_run(attempt *t)
{
    tc_context *cx = tc_context_new();
    tc_module *volatile m = NULL;
    jmp_buf unwind;
    t->parsed = t->verified = t->passed = t->coded = false;
    t->said[0] = 0;
    if (!cx)
        return true;
    cx->want_remarks = true;
    if (!setjmp(unwind)) {
        cx->memory.unwind = &unwind;
        m = tc_module_new(cx);
        run_stages(t, m);
    }
    const tc_diag *d = cx->diags;
    while (d && blames_the_text(
                    &(tc_diag){.message = d->message, .notes = d->notes}))
        d = d->next;
    if (d)
        snprintf(t->said, sizeof t->said, "%u:%u: %s%s%s", d->loc.line,
                 d->loc.col, d->message, d->notes ? "; " : "",
                 d->notes ? d->notes->message : "");
    tc_module_free(m);
    tc_context_free(cx);
    return d == NULL;
}
