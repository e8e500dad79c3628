/* SPDX-License-Identifier: Apache-2.0
 *
 * Bindings of clauses: `-D for.pingpong=none` writes pingpong(none) at all
 * loops of the kernel whose text leaves that open, `-D dot.operands=keep`
 * operands(keep) at all its dots, `-D kernel.raster=plain`
 * writes raster(plain) at the kernel, `-D kernel.split=4` split(4) and `-D
 * kernel.profile=2048` profile(2048). So the schedule can be given where
 * parameters are: on the command line, by `tilec tune`, in a configuration.
 * Tests: test/ir/passes/bind-params/clauses.tile.
 */
#include "passes/bind/bind_params.h"

#include <stdlib.h>
#include <string.h>

typedef struct clause {
    tc_context *cx;
    tc_loc loc;
    tc_func *kernel;
    const char *name, *word;
} clause;

/* Clauses of ops: attributes that the compiler chooses if they are `auto`. */
typedef struct op_clauses {
    const char *prefix;
    tc_opcode code;
    const char *attrs, *expected;
} op_clauses;

static const op_clauses clauses_of_ops[] = {
    {"for.", TC_FOR, "pingpong|schedule|trim|epilogue|l2_prefetch|column_bias",
     "for.pingpong, schedule, trim, epilogue, l2_prefetch or column_bias"},
    {"dot.", TC_DOT, "operands", "dot.operands"},
};

/* NULL: it is no clause of an op. */
static const op_clauses *op_clauses_of(const char *name)
{
    for (size_t i = 0; i < sizeof clauses_of_ops / sizeof *clauses_of_ops; i++)
        if (strncmp(name, clauses_of_ops[i].prefix,
                    strlen(clauses_of_ops[i].prefix)) == 0)
            return &clauses_of_ops[i];
    return NULL;
}

bool tc_is_clause(const char *name)
{
    return op_clauses_of(name) || strncmp(name, "kernel.", 7) == 0;
}

static bool refuse(const clause *c, const char *expected)
{
    return tc_error(c->cx, c->loc, "bind-params: %s=%s, expected %s", c->name,
                    c->word, expected);
}

static void write_at_ops(const clause *c, const tc_region *r, tc_opcode code,
                         const char *attr)
{
    tc_each_nested_first (op, r) {
        if (op->code == code && tc_op_is_word(op, attr, "auto"))
            tc_op_set_word(op, attr, c->word);
    }
}

static bool bind_ops(const clause *c, const op_clauses *o)
{
    const char *attr = c->name + strlen(o->prefix);
    if (!tc_words_have(o->attrs, attr))
        return refuse(c, o->expected);
    tc_attr_decl d =
        tc_op_attr_decl(o->code, (unsigned)tc_op_attr_index(o->code, attr));
    if (!tc_words_have(d.words, c->word))
        return refuse(c, tc_arena_printf(&c->cx->diag_arena, "one of %.*s",
                                         (int)strcspn(d.words, " "), d.words));
    write_at_ops(c, c->kernel->body, o->code, attr);
    return true;
}

static bool bind_split(const clause *c)
{
    unsigned n = tc_split_parse(c->word);
    if (!n)
        return refuse(c, tc_arena_printf(&c->cx->diag_arena,
                                         "auto, stream, or 1 to %d pieces",
                                         TC_MAX_SPLIT));
    if (!c->kernel->split)
        c->kernel->split = n;
    return true;
}

static bool bind_profile(const clause *c)
{
    char *end;
    long n = strtol(c->word, &end, 10);
    if (end == c->word || *end || !tc_is_profile(n))
        return refuse(c, tc_arena_printf(&c->cx->diag_arena,
                                         "a power of two from %d to %d records",
                                         TC_MIN_PROFILE, TC_MAX_PROFILE));
    if (!c->kernel->profile)
        c->kernel->profile = (unsigned)n;
    return true;
}

bool tc_bind_clause(tc_func *kernel, tc_loc loc, const tc_binding *given)
{
    tc_context *cx = kernel->module->cx;
    clause c = {cx, loc, kernel, given->name, tc_string_get(cx, given->value)};
    if (!kernel->is_kernel)
        return refuse(&c, "a kernel to bind it at, not a plan");
    const op_clauses *of_ops = op_clauses_of(c.name);
    if (of_ops)
        return bind_ops(&c, of_ops);
    if (strcmp(c.name, "kernel.split") == 0)
        return bind_split(&c);
    if (strcmp(c.name, "kernel.profile") == 0)
        return bind_profile(&c);
    tc_raster raster = tc_raster_parse(c.word);
    if (strcmp(c.name, "kernel.raster") != 0 || !raster ||
        raster == TC_RASTER_GROUPED)
        return refuse(&c,
                      "kernel.raster=plain, ascending or descending, "
                      "kernel.split=N, stream or auto, or kernel.profile=N");
    if (!kernel->raster)
        kernel->raster = raster;
    return true;
}
