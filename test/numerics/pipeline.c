/* SPDX-License-Identifier: Apache-2.0 */
#include "test/numerics/pipeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ARGUMENTS = 32 };

char *pipeline_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) {
        printf("cannot read %s\n", path);
        exit(3);
    }
    char *text = calloc(1, 65536);
    if (fread(text, 1, 65535, f) == 65535)
        exit(3);
    fclose(f);
    return text;
}

void pipeline_bind(pipeline_setting *s, const char *name, const char *value)
{
    s->bindings[s->nbindings++] = (tc_binding){name, value};
}

tc_launch_arg pipeline_tensor(const num_tensor *t)
{
    return (tc_launch_arg){
        .sizes = t->size, .strides = t->stride, .data = t->data};
}

bool pipeline_run(const pipeline_setting *s, const tc_launch_arg *args,
                  unsigned nargs,
                  bool (*capture)(void *user, const char *name, bool is_tensor,
                                  tc_launch_arg *arg),
                  void *user)
{
    tc_context *cx = tc_context_new();
    tc_module *m = tc_module_new(cx);
    tc_pass_options o = {.kernel = s->kernel,
                         .bindings = s->bindings,
                         .nbindings = s->nbindings,
                         .round_trip = true,
                         .verify_each = true};
    tc_host_report report = {0};
    tc_host_kernel *k = NULL;
    tc_launch_arg all[MOST_ARGUMENTS];
    int32_t grid[3];
    memcpy(all, args, nargs * sizeof *args);
    cx->want_remarks = s->print;
    bool ok =
        tc_parse(m, tc_source_add(cx, "text", s->text, strlen(s->text))) &&
        tc_run_pipeline(m, s->pipeline, &o);
    tc_func *f = ok ? tc_func_find(m, s->kernel) : NULL;
    for (unsigned i = nargs; ok && capture && i < f->body->nargs; i++) {
        const tc_value *arg = f->body->args[i];
        ok = i < MOST_ARGUMENTS &&
             capture(user, arg->name, arg->type->kind == TC_TENSOR, &all[i]);
        if (!ok)
            printf("nothing is known of %s\n", arg->name);
    }
    ok = ok && tc_eval_grid(cx, f, all, 1, grid) &&
         (k = tc_host_compile(f, NULL)) &&
         tc_host_launch(k, all, grid, NULL, &report);
    for (tc_diag *d = cx->diags; d; d = d->next)
        printf("%s: %u:%u: %s\n", s->pipeline, d->loc.line, d->loc.col,
               d->message);
    if (report.failed)
        printf("launch: %s\n", report.message);
    tc_host_free(k);
    tc_module_free(m);
    tc_context_free(cx);
    return ok;
}
