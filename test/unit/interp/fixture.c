/* SPDX-License-Identifier: Apache-2.0 */
#include "test/unit/interp/fixture.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

interp_test interp;
static jmp_buf unwind;

enum { MOST_TENSORS = 16 };
static void *memory[MOST_TENSORS];
static unsigned ntensors;

static void drop_module(void)
{
    if (interp.module)
        tc_module_free(interp.module);
    tc_context_free(interp.cx);
    interp.module = NULL;
    interp.cx = NULL;
}

void interp_close(void)
{
    drop_module();
    while (ntensors)
        free(memory[--ntensors]);
}

void interp_text(const char *text)
{
    ck_assert_uint_lt(strlen(text), sizeof interp.text);
    strcpy(interp.text, text);
}

void interp_text_from(const char *path, const char *begin)
{
    static char all[1 << 17];
    FILE *f = fopen(path, "rb");
    ck_assert_msg(f != NULL, "cannot read %s", path);
    size_t n = fread(all, 1, sizeof all - 1, f);
    fclose(f);
    all[n] = 0;
    char *at = strstr(all, begin), *end = at ? strstr(at, "\n```") : NULL;
    if (!end)
        ck_abort_msg("%s has no example `%s`", path, begin);
    end[1] = 0;
    interp_text(at);
}

void interp_change(const char *from, const char *to)
{
    char *at = strstr(interp.text, from);
    if (!at)
        ck_abort_msg("the program has no `%s`", from);
    ck_assert_msg(!strstr(at + 1, from), "the program has two `%s`", from);
    static char rest[sizeof interp.text];
    strcpy(rest, at + strlen(from));
    ck_assert_uint_lt(strlen(interp.text) + strlen(to), sizeof interp.text);
    strcpy(at, to);
    strcat(at, rest);
}

static void show_diagnostics(void)
{
    for (const tc_diag *d = interp.cx->diags; d; d = d->next) {
        fprintf(stderr, "%u:%u: %s\n", d->loc.line, d->loc.col, d->message);
        for (const tc_diag *n = d->notes; n; n = n->next)
            fprintf(stderr, "  %u:%u: %s\n", n->loc.line, n->loc.col,
                    n->message);
    }
}

void interp_parse(void)
{
    drop_module();
    interp.cx = tc_context_new();
    interp.cx->memory.unwind = &unwind;
    if (setjmp(unwind))
        ck_abort_msg("out of memory");
    interp.module = tc_module_new(interp.cx);
    uint32_t source =
        tc_source_add(interp.cx, "test.tile", interp.text, strlen(interp.text));
    if (!tc_parse(interp.module, source) || !tc_module_verify(interp.module)) {
        show_diagnostics();
        ck_abort_msg("the program is wrong");
    }
}

static void take_line(void *user, const char *line)
{
    size_t used = strlen(interp.printed);
    snprintf(interp.printed + used, sizeof interp.printed - used, "%s\n", line);
}

bool interp_try(const tc_launch_arg *args, const tc_interp_options *options)
{
    tc_interp_options o = options ? *options : (tc_interp_options){0};
    o.print = take_line;
    interp.printed[0] = 0;
    if (setjmp(unwind))
        ck_abort_msg("out of memory");
    tc_diags_clear(interp.cx);
    return tc_interp_run(interp.module->first, args, &o);
}

/* Line `n` of the program, from 1. */
static const char *line_of(unsigned n)
{
    static char line[512];
    const char *at = interp.text;
    while (--n && at)
        at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL;
    ck_assert_ptr_nonnull(at);
    snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
    return line;
}

static void expect_part(const char *what, const char *all, const char *part)
{
    if (strstr(all, part))
        return;
    show_diagnostics();
    ck_abort_msg("%s: `%s`, expected `%s`", what, all, part);
}

void interp_expect(const char *message, const char *line, const char *note)
{
    const tc_diag *d = interp.cx->diags;
    if (!d)
        ck_abort_msg("nothing was found, expected `%s`", message);
    expect_part("message", d->message, message);
    expect_part("line", line_of(d->loc.line), line);
    if (!note)
        return;
    if (!d->notes)
        ck_abort_msg("no note, expected one at `%s`", note);
    expect_part("line of the note", line_of(d->notes->loc.line), note);
}

void interp_expect_nothing(void)
{
    if (interp.cx->diags) {
        show_diagnostics();
        ck_abort_msg("found: %s", interp.cx->diags->message);
    }
}

/* ---- Tensors ---- */

interp_tensor interp_new(tc_kind kind, unsigned rank, const int32_t *sizes)
{
    interp_tensor t = {.kind = kind, .count = 1};
    for (unsigned i = rank; i-- > 0;) {
        t.sizes[i] = sizes[i];
        t.strides[i] = (int64_t)t.count;
        t.count *= (size_t)sizes[i];
    }
    size_t bytes = t.count * tc_scalar_infos[kind].bits / 8;
    t.data = aligned_alloc(16, (bytes + 31) / 16 * 16);
    memset(t.data, 0, bytes);
    ck_assert_uint_lt(ntensors, MOST_TENSORS);
    memory[ntensors++] = t.data;
    return t;
}

double interp_get(const interp_tensor *t, size_t i)
{
    unsigned bytes = tc_scalar_infos[t->kind].bits / 8;
    uint64_t bits = 0;
    memcpy(&bits, (char *)t->data + i * bytes, bytes);
    return tc_scalar_infos[t->kind].is_float
               ? tc_float_from_bits(t->kind, bits)
               : (double)tc_int_wrap(t->kind, (int64_t)bits);
}

void interp_set(const interp_tensor *t, size_t i, double x)
{
    unsigned bytes = tc_scalar_infos[t->kind].bits / 8;
    uint64_t bits = tc_scalar_infos[t->kind].is_float
                        ? tc_float_to_bits(t->kind, x)
                        : (uint64_t)(int64_t)x;
    memcpy((char *)t->data + i * bytes, &bits, bytes);
}

tc_launch_arg interp_arg(const interp_tensor *t)
{
    return (tc_launch_arg){t->sizes, t->strides, {0}, t->data};
}

bool interp_multiply(interp_matrices *x, tc_interp_order order, uint64_t seed)
{
    x->args[0] = interp_arg(&x->a);
    x->args[1] = interp_arg(&x->b);
    x->args[2] = interp_arg(&x->c);
    return interp_try(x->args,
                      &(tc_interp_options){.order = order, .seed = seed});
}

bool interp_is_product(const interp_matrices *x)
{
    int m = x->a.sizes[0], k = x->a.sizes[1], n = x->b.sizes[1];
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double want = 0;
            for (int l = 0; l < k; l++)
                want += interp_get(&x->a, (size_t)(i * k + l)) *
                        interp_get(&x->b, (size_t)(l * n + j));
            if (interp_get(&x->c, (size_t)(i * n + j)) != want)
                return false;
        }
    return true;
}

const char *interp_print(const char *text)
{
    interp_text(text);
    interp_parse();
    interp_try(NULL, NULL);
    interp_expect_nothing();
    return interp.printed;
}
