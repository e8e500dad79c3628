/* SPDX-License-Identifier: Apache-2.0
 *
 * Tuning spaces: tune(BM=64, 128; warps=4, 8). A value that fits its parameter
 * may still be one that does not compile; `tilec tune` passes over it.
 */
#include "ir/verify/verify.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* most 0: a word. */
static const struct option {
    const char *name;
    long most;
    const char *expected;
} options[] = {{"warps", TC_MAX_WARPS, "1 to 32"},
               {"stages", 16, "1 to 16"},
               {"ptxas", 3, "1 to 3"},
               {"tiles", 0, "none, static or dynamic"}};
enum { NOPTIONS = sizeof options / sizeof *options };

static const struct option *option_of(const char *name)
{
    for (unsigned i = 0; i < NOPTIONS; i++)
        if (strcmp(options[i].name, name) == 0)
            return &options[i];
    return NULL;
}

bool tc_is_tune_option(const char *name)
{
    return option_of(name) != NULL;
}

static bool is_int(const char *value, long least, long most)
{
    char *end;
    errno = 0;
    long n = strtol(value, &end, 10);
    return end != value && !*end && !errno && n >= least && n <= most;
}

const char *tc_tune_option_problem(const char *name, const char *value)
{
    const struct option *o = option_of(name);
    bool fits = o->most ? is_int(value, 1, o->most)
                        : tc_tiles_parse(value) != TC_TILES_ANY;
    return fits ? NULL : o->expected;
}

/* ---- Names ---- */

static bool unknown_name(const tc_func *f, const tc_tune_axis *axis)
{
    tc_context *cx = f->module->cx;
    const char **names =
        tc_arena_array(&cx->diag_arena, const char *, f->nparams + NOPTIONS);
    unsigned n = 0;
    for (; n < f->nparams; n++)
        names[n] = f->params[n].name;
    for (unsigned i = 0; i < NOPTIONS; i++)
        names[n++] = options[i].name;
    const char *near = tc_nearest_name(axis->name, names, n);
    return tc_error(cx, axis->loc,
                    "tune: `%s` is no compile-time parameter of @%s, expected "
                    "one, or warps, stages, ptxas or tiles%s%s%s",
                    axis->name, f->name, near ? "; did you mean `" : "",
                    near ? near : "", near ? "`?" : "");
}

static bool check_name(const tc_func *f, unsigned n)
{
    const tc_tune_axis *axis = &f->tune[n];
    for (unsigned i = 0; i < n; i++)
        if (strcmp(f->tune[i].name, axis->name) == 0) {
            tc_error(f->module->cx, axis->loc, "tune: `%s` is there twice",
                     axis->name);
            tc_note(f->module->cx, f->tune[i].loc, "the first is here");
            return false;
        }
    if (option_of(axis->name))
        return true;
    const tc_param *p = tc_func_param(f, axis->name);
    if (!p)
        return unknown_name(f, axis);
    if (p->kind == TC_PARAM_INT)
        return true;
    tc_error(f->module->cx, axis->loc,
             "tune: `%s` is a %s, expected an int or block parameter: others "
             "change what the kernel computes",
             axis->name, p->kind == TC_PARAM_TYPE ? "type" : "func");
    tc_note(f->module->cx, p->loc, "parameter `%s` of @%s", p->name, f->name);
    return false;
}

/* ---- Values ---- */

static bool check_value(const tc_func *f, const tc_tune_axis *axis, unsigned n)
{
    const char *value = axis->values[n], *expected = NULL;
    for (unsigned i = 0; i < n; i++)
        if (strcmp(axis->values[i], value) == 0)
            return tc_error(f->module->cx, axis->locs[n],
                            "tune: %s=%s is there twice", axis->name, value);
    if (option_of(axis->name))
        expected = tc_tune_option_problem(axis->name, value);
    else if (!is_int(value, INT32_MIN, INT32_MAX))
        expected = "a whole number of 32 bits";
    return !expected ||
           tc_error(f->module->cx, axis->locs[n], "tune: %s=%s, expected %s",
                    axis->name, value, expected);
}

bool tc_verify_tune(const tc_func *f)
{
    bool ok = true;
    uint64_t variants = 1;
    for (unsigned i = 0; i < f->ntune; i++) {
        const tc_tune_axis *axis = &f->tune[i];
        bool known = check_name(f, i);
        for (unsigned k = 0; known && k < axis->n; k++)
            ok &= check_value(f, axis, k);
        ok &= known;
        variants *= axis->n;
    }
    return variants <= TC_MAX_VARIANTS
               ? ok
               : tc_error(f->module->cx, f->tune[0].loc,
                          "tune: %llu combinations, expected at most %d",
                          (unsigned long long)variants, TC_MAX_VARIANTS);
}
