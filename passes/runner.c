/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs pipelines: parses their text, runs each pass, and checks the program
 * after it, so that a mistake is found at the pass that made it.
 */
#include "passes/passes.h"

#include "ir/base/limits.h"
#include "ir/growth.h"
#include "passes/order.h"
#include "passes/reproducer.h"
#include "passes/target/machine_model.h"

#include <string.h>
#include <time.h>

#define RUN_FUNC(id)    .run_func = tc_pass_##id, .scope = TC_SCOPE_FUNC
#define RUN_TILE(id)    .run_func = tc_pass_##id, .scope = TC_SCOPE_TILE
#define RUN_KERNEL(id)  .run_func = tc_pass_##id, .scope = TC_SCOPE_KERNEL
#define RUN_MACHINE(id) .run_func = tc_pass_##id, .scope = TC_SCOPE_MACHINE
#define RUN_MODULE(id)  .run_module = tc_pass_##id
#define FACT(fact, text)
#define STAGE(path, title) {.name = "", .folder = path, .summary = title},
#define PASS(id, pass_name, scope, need, make, precede, text)                  \
    {.name = pass_name,                                                        \
     .needs = need,                                                            \
     .makes = make,                                                            \
     .before = precede,                                                        \
     .summary = text,                                                          \
     RUN_##scope(id)},
#define PIPELINE(pipeline_name, list, text)                                    \
    {.name = pipeline_name, .passes = list, .summary = text},
const tc_pass_info tc_pass_infos[] = {
#include "passes/passes.def"
};
#undef FACT
#undef STAGE
#undef PASS
#undef PIPELINE
const unsigned tc_npass_infos = sizeof tc_pass_infos / sizeof *tc_pass_infos;

/* One call of tc_run_pipeline. */
struct run {
    tc_module *m;
    tc_context *cx;
    const tc_pass_options *options;
    tc_arena lasting; /* the list of passes, names */
    tc_arena scratch; /* emptied after each pass */
    tc_module *copy;  /* of the round trip, while it lasts */
    const tc_pass_info **passes;
    unsigned npasses, room;
    unsigned most_ops;
};

/* ---- The text of a pipeline ---- */

static bool unknown_pass(struct run *r, const char *name)
{
    const char **names =
        tc_arena_array(&r->lasting, const char *, tc_npass_infos);
    tc_text list = {.arena = &r->lasting};
    unsigned n = 0;
    for (unsigned i = 0; i < tc_npass_infos; i++) {
        if (!*tc_pass_infos[i].name)
            continue;
        tc_text_printf(&list, "%s%s", n ? ", " : "", tc_pass_infos[i].name);
        names[n++] = tc_pass_infos[i].name;
    }
    const char *near = tc_nearest_name(name, names, n);
    tc_loc nowhere = {0};
    tc_error(r->cx, nowhere, "pipeline: there is no pass `%s`%s%s%s", name,
             near ? ", did you mean `" : "", near ? near : "",
             near ? "`?" : "");
    tc_note(r->cx, nowhere, "passes and pipelines: %s", list.data);
    return false;
}

static const tc_pass_info *find_pass(const char *name)
{
    for (unsigned i = 0; i < tc_npass_infos; i++)
        if (strcmp(tc_pass_infos[i].name, name) == 0)
            return &tc_pass_infos[i];
    return NULL;
}

static void append(struct run *r, const tc_pass_info *info)
{
    if (r->npasses == r->room) {
        r->room = r->room ? 2 * r->room : 16;
        const tc_pass_info **more =
            tc_arena_array(&r->lasting, const tc_pass_info *, r->room);
        if (r->npasses)
            memcpy(more, r->passes, r->npasses * sizeof *more);
        r->passes = more;
    }
    r->passes[r->npasses++] = info;
}

/* A pipeline in passes.def may begin with another one. */
static bool read_pipeline(struct run *r, const char *text)
{
    while (*text) {
        text += strspn(text, " ,");
        size_t n = strcspn(text, " ,");
        if (n == 0)
            continue;
        char *name = tc_arena_alloc(&r->lasting, n + 1);
        memcpy(name, text, n);
        text += n;
        const tc_pass_info *info = find_pass(name);
        if (!info)
            return unknown_pass(r, name);
        if (!info->passes)
            append(r, info);
        else if (!read_pipeline(r, info->passes))
            return false;
    }
    return true;
}

static bool is_listed(const char *list, const char *name)
{
    return list && (strcmp(list, "all") == 0 || tc_has_fact(list, name));
}

/* ---- Checks after a pass ---- */

static const char *print_module(tc_arena *a, const tc_module *m)
{
    tc_text out = {.arena = a};
    tc_text_add(&out, "");
    tc_module_print(&out, m, TC_PRINT_PLAIN);
    return out.data;
}

/* The first line in which two texts differ. */
static unsigned differing_line(const char *a, const char *b)
{
    unsigned line = 1;
    for (; *a && *a == *b; a++, b++)
        line += *a == '\n';
    return line;
}

/* The text of the module must parse back to the same text. */
static bool check_round_trip(struct run *r, const char *pass)
{
    const char *text = print_module(&r->scratch, r->m);
    const char *name = tc_arena_printf(&r->scratch, "<text after %s>", pass);
    uint32_t source = tc_source_add(r->cx, name, text, strlen(text));
    tc_module *copy = r->copy = tc_module_new(r->cx);
    tc_loc start = {source, 1, 1, 0};
    bool ok = tc_parse(copy, source);
    if (!ok)
        tc_note(r->cx, start, "the text after pass `%s` does not parse", pass);
    const char *again = ok ? print_module(&r->scratch, copy) : NULL;
    if (ok && strcmp(text, again) != 0) {
        tc_loc at = {source, differing_line(text, again), 1, 0};
        ok = tc_error(r->cx, at,
                      "round trip after pass `%s`: the text parses to a "
                      "different program",
                      pass);
    }
    tc_module_free(copy);
    r->copy = NULL;
    return ok;
}

/* Errors in values that the user has bound show after these passes, when types
 * are known. */
static bool finds_user_errors(const tc_pass_info *pass)
{
    return pass->run_module != NULL;
}

static bool check(struct run *r, const tc_pass_info *pass)
{
    const tc_pass_options *o = r->options;
    if (o->verify_each || finds_user_errors(pass)) {
        if (!tc_module_verify(r->m)) {
            if (!finds_user_errors(pass))
                tc_note(r->cx, (tc_loc){0},
                        "found after pass `%s`: this is a bug in tilec, not "
                        "in your program",
                        pass->name);
            return false;
        }
    }
    return !o->round_trip || check_round_trip(r, pass->name);
}

/* ---- Running ---- */

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Contents of `data` that a pass has left mean nothing to the next one. */
static void forget_all(tc_module *m)
{
    tc_each_func (f, m) {
        tc_region_clear_all_data(f->body);
        if (f->grid)
            tc_region_clear_all_data(f->grid);
    }
}

static bool is_in_scope(const tc_func *f, tc_pass_scope scope)
{
    switch (scope) {
    case TC_SCOPE_TILE: return f->nparams == 0 && !tc_func_machine_op(f);
    case TC_SCOPE_KERNEL: return f->nparams == 0 && f->is_kernel;
    case TC_SCOPE_MACHINE:
        return f->nparams == 0 && f->is_kernel && f->warps &&
               !tc_func_bare_tile(f);
    default: return true;
    }
}

static bool has_place(const tc_op *op)
{
    return op->place != 0;
}

/* A written schedule holds for the ops that are there: until overlap-mma has
 * built it, no other pass changes them. */
static bool must_wait(const tc_func *f, const tc_pass_info *pass)
{
    return !is_listed(pass->needs, "places") && f->is_kernel && f->warps &&
           tc_region_any(f->body, has_place);
}

/* Passes on bodies know nothing of loops that end early. */
static bool breaks_are_gone(struct run *r, const tc_func *f,
                            const tc_pass_info *pass)
{
    tc_each_nested (op, f->body) {
        if (op->code == TC_BREAK_IF && pass->scope != TC_SCOPE_FUNC)
            return tc_error(r->m->cx, op->loc,
                            "%s: @%s has break_if: expand-breaks comes first",
                            pass->name, f->name);
    }
    return true;
}

static tc_change run_on_funcs(struct run *r, const tc_pass_info *pass,
                              tc_pass_env *env)
{
    tc_change change = TC_UNCHANGED;
    tc_each_func (f, r->m) {
        if (!is_in_scope(f, pass->scope) || must_wait(f, pass))
            continue;
        if (!breaks_are_gone(r, f, pass))
            return TC_FAILED;
        tc_change c = pass->run_func(f, env);
        if (c == TC_FAILED)
            return c;
        if (c == TC_CHANGED)
            change = c;
    }
    return change;
}

static void tell(struct run *r, tc_pass_event event, const char *list)
{
    if (!r->options->on_event)
        return;
    if (event.change != TC_FAILED && is_listed(list, event.pass))
        event.text = print_module(&r->scratch, r->m);
    r->options->on_event(r->options->user, &event);
}

static unsigned count_ops(const tc_module *m)
{
    unsigned n = 0;
    tc_each_func (f, m) {
        n += tc_region_count(f->body);
        if (f->grid)
            n += tc_region_count(f->grid);
    }
    return n;
}

/* The remedy if a pass makes too many ops. */
static const char *remedy(const tc_pass_info *pass)
{
    static const struct {
        tc_module_pass *run;
        const char *text;
    } remedies[] = {
        {tc_pass_inline,
         "each call becomes a copy of the function: call it from fewer places, "
         "or in a loop"},
        {tc_pass_differentiate,
         "gradients compute again what each loop and branch needs: nest fewer, "
         "or differentiate a smaller function"},
    };
    for (unsigned i = 0; i < sizeof remedies / sizeof *remedies; i++)
        if (pass->run_module && pass->run_module == remedies[i].run)
            return remedies[i].text;
    return "loops, branches and products are copied: make it several kernels, "
           "or have fewer of them";
}

static tc_change too_large(struct run *r, const tc_pass_info *pass)
{
    tc_share most = tc_growth_of_module(&r->scratch, r->m, NULL);
    bool steps = r->m->steps > TC_MOST_STEPS;
    tc_error(r->cx, most.loc,
             "the program gets too large: %s %s more than %u %s, %llu of its "
             "%llu ops are of this line",
             pass->name, steps ? "takes" : "makes",
             steps ? TC_MOST_STEPS : r->most_ops, steps ? "steps" : "ops of it",
             (unsigned long long)most.weight, (unsigned long long)most.total);
    tc_note(r->cx, most.loc, "%s", remedy(pass));
    return TC_FAILED;
}

static tc_change call_pass(struct run *r, const tc_pass_info *pass,
                           tc_pass_env *env)
{
    jmp_buf here;
    if (setjmp(here)) {
        r->m->too_large = NULL;
        return too_large(r, pass);
    }
    r->m->steps = 0;
    r->m->nops = count_ops(r->m);
    r->m->most_ops = r->most_ops;
    r->m->too_large = &here;
    tc_change change = pass->run_module ? pass->run_module(r->m, env)
                                        : run_on_funcs(r, pass, env);
    r->m->too_large = NULL;
    return change;
}

static bool run_pass(struct run *r, unsigned index)
{
    const tc_pass_info *pass = r->passes[index];
    const tc_target *target = r->options->target;
    tc_pass_env env = {r->cx, &r->scratch, r->options,
                       target ? target : tc_target_get("cpu")};
    r->cx->machine_sms = tc_machine(env.target)->multiprocessors;
    tc_pass_event event = {.pass = pass->name, .index = index};
    tell(r, event, r->options->print_before);
    const char *before =
        r->options->reproducer_dir ? print_module(&r->lasting, r->m) : NULL;
    forget_all(r->m);
    uint64_t start = now_ns();
    event.change = call_pass(r, pass, &env);
    event.ns = now_ns() - start;
    event.after = true;
    bool ok = event.change != TC_FAILED && check(r, pass);
    event.verify_ns = now_ns() - start - event.ns;
    tell(r, event, r->options->print_after);
    if (!ok && before)
        tc_reproducer_write(r->cx, before, r->passes + index,
                            r->npasses - index, r->options);
    tc_arena_reset(&r->scratch);
    return ok;
}

/* Reads it, and checks the order of what it names. */
static bool read_in_order(struct run *r, const char *text)
{
    return read_pipeline(r, text) &&
           tc_check_order(r->cx, r->passes, r->npasses);
}

static bool run_all(struct run *r, const char *pipeline)
{
    if (!read_in_order(r, pipeline))
        return false;
    unsigned n = count_ops(r->m);
    r->most_ops = n > TC_MOST_OPS / 2 ? 2 * n : TC_MOST_OPS;
    for (unsigned i = 0; i < r->npasses; i++)
        if (!run_pass(r, i))
            return false;
    return true;
}

/* Running out of memory unwinds through here, so that what this call holds is
 * given back on that way too. */
static bool with_arenas(struct run *r, const char *pipeline,
                        bool (*work)(struct run *r, const char *pipeline))
{
    tc_memory *memory = &r->cx->memory;
    jmp_buf *outer = memory->unwind, unwind;
    tc_arena_init(&r->lasting, memory);
    tc_arena_init(&r->scratch, memory);
    volatile bool ok = false, unwound = true;
    if (!setjmp(unwind)) {
        memory->unwind = &unwind;
        ok = work(r, pipeline);
        unwound = false;
    }
    memory->unwind = outer;
    if (r->m)
        r->m->too_large = NULL;
    tc_module_free(r->copy);
    tc_arena_reset(&r->lasting);
    tc_arena_reset(&r->scratch);
    if (unwound)
        longjmp(*outer, 1);
    return ok;
}

bool tc_check_pipeline(tc_context *cx, const char *pipeline)
{
    struct run r = {.cx = cx};
    return with_arenas(&r, pipeline, read_in_order);
}

bool tc_run_pipeline(tc_module *m, const char *pipeline,
                     const tc_pass_options *options)
{
    static const tc_pass_options none;
    struct run r = {.m = m, .cx = m->cx, .options = options ? options : &none};
    return with_arenas(&r, pipeline, run_all);
}
