/* SPDX-License-Identifier: Apache-2.0
 *
 * What became of the lines of a text, for editors: types with layouts of the
 * values that a line made, and remarks.
 */
#include "lib/inspect/lines.h"
#include "lib/inspect/collect.h"

#include <stdlib.h>
#include <string.h>

typedef struct lines {
    tc_job *job;
    const char *file;
    tc_json_writer w;
} lines;

static bool is_of(const lines *l, tc_loc loc)
{
    return loc.file &&
           strcmp(l->job->cx->sources[loc.file - 1].name, l->file) == 0;
}

static void write_value(lines *l, const tc_op *op, const tc_value *v)
{
    tc_json_open(&l->w, NULL, '{');
    tc_json_int(&l->w, "line", op->loc.line);
    tc_json_string(&l->w, "name", v->name);
    tc_json_string(&l->w, "type", tc_type_name(l->job->cx, v->type));
    tc_json_close(&l->w, '}');
}

static void write_values(lines *l, const tc_region *r)
{
    tc_each_op (op, r) {
        for (unsigned i = 0; is_of(l, op->loc) && i < op->nout; i++)
            if (op->out[i]->type->layout)
                write_value(l, op, op->out[i]);
        for (unsigned i = 0; i < op->nregions; i++)
            write_values(l, op->regions[i]);
    }
}

static void write_remarks(lines *l)
{
    for (const tc_diag *d = l->job->cx->diags; d; d = d->next) {
        if (d->severity != TC_REMARK || !is_of(l, d->loc))
            continue;
        tc_json_open(&l->w, NULL, '{');
        tc_json_int(&l->w, "line", d->loc.line);
        tc_json_string(&l->w, "message", d->message);
        tc_json_bool(&l->w, "missed", d->missed);
        tc_json_close(&l->w, '}');
    }
}

static void write_lines(lines *l, const tc_func *f, const tc_target *target)
{
    tc_json_open(&l->w, NULL, '{');
    tc_json_string(&l->w, "kernel", f->name);
    tc_json_string(&l->w, "target", target->name);
    tc_json_open(&l->w, "values", '[');
    write_values(l, f->body);
    tc_json_close(&l->w, ']');
    tc_json_open(&l->w, "remarks", '[');
    write_remarks(l);
    tc_json_close(&l->w, ']');
    tc_json_close(&l->w, '}');
}

static bool lines_build(tc_job *job)
{
    tc_request *r = job->request;
    const tc_target *target;
    tc_func *f;
    tc_bound bound;
    tc_text out = {.arena = &job->cx->arena};
    lines l = {.job = job, .file = r->sources[0].name, .w.out = &out};
    job->cx->want_remarks = true;
    if (!tc_inspect_choose(job, &target, &f, &bound))
        return false;
    const char *name = f->name;
    if (!tc_job_passes(job, &r->options, target, name, &bound, NULL))
        return false;
    write_lines(&l, tc_func_find(job->module, name), target);
    r->report = strdup(out.data);
    return r->report || tc_job_error(job, TILEC_MACHINE, "out of memory");
}

tilec_status tc_inspect_lines(tilec_context *cx, const tilec_source *source,
                              const tilec_compile_options *options, char **json)
{
    return tc_request_report(cx, source, 1, options, lines_build, json);
}
