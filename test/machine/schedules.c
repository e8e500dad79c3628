/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes recognise nothing by its name or by how it is put: for sm_90a,
 *
 *   - attention with all of its names changed becomes the same program,
 *   - causal masks put in other words give the same schedule,
 *   - and so do the two products of chain.tile, which have no softmax between:
 *     the roles, the rings, what waits for what in the loops over the keys.
 *
 *   machine_schedules
 */
#include "passes/passes.h"
#include "test/numerics/run.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Other names ---- */

enum { MOST_NAMES = 4000 };
typedef struct names {
    tc_text *out;
    unsigned n;
    const char *name[MOST_NAMES];
    size_t len[MOST_NAMES];
} names;

static bool in_name(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.';
}

static size_t length_of_name(const char *s)
{
    size_t n = 0;
    while (in_name(s[n]))
        n++;
    return n;
}

static unsigned find_name(const names *t, const char *s, size_t n)
{
    unsigned i = 0;
    while (i < t->n && (t->len[i] != n || memcmp(t->name[i], s, n) != 0))
        i++;
    return i;
}

static void add_name(names *t, const char *s, size_t n)
{
    if (find_name(t, s, n) < t->n)
        return;
    if (t->n == MOST_NAMES)
        abort();
    t->name[t->n] = s;
    t->len[t->n++] = n;
}

/* Those in brackets have no sign before them: `D: int`. The kernel takes its
 * parameters from `params`. */
static void take_bracket_names(names *t, const char *text)
{
    const char *s = strchr(strstr(text, "\nparams @"), '[');
    const char *end = strstr(s, "](");
    for (s++; s < end; s++) {
        if (strncmp(s, "//", 2) == 0)
            s += strcspn(s, "\n");
        size_t n = length_of_name(s);
        if (n && s[n] == ':')
            add_name(t, s, n);
        s += n;
    }
}

/* A name without a sign: those of the brackets, also as sides of a tile,
 * `BMxD`. */
static void rename_plain(const names *t, unsigned nbrackets, const char *s,
                         size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t part = 0;
        while (i + part < n && s[i + part] != 'x')
            part++;
        unsigned at = find_name(t, s + i, part);
        if (at < nbrackets)
            tc_text_printf(t->out, "n%u_y", at * 7 + 1);
        else
            tc_text_addn(t->out, s + i, part);
        i += part;
        if (i < n)
            tc_text_addn(t->out, s + i++, 1);
    }
}

/* What is offered by name to a function (`q_len=`) stays. */
static void rename_all(names *t, const char *text)
{
    take_bracket_names(t, text);
    unsigned nbrackets = t->n;
    while (*text) {
        size_t n = length_of_name(text);
        if (strncmp(text, "//", 2) == 0) {
            text += strcspn(text, "\n");
        } else if (*text == '%' || *text == '@') {
            n = length_of_name(text + 1);
            add_name(t, text + 1, n);
            tc_text_printf(t->out, "%cn%u_y", *text,
                           find_name(t, text + 1, n) * 7 + 1);
            text += n + 1;
        } else {
            bool offered = text[n] == '=' && text[n + 1] != '=';
            if (n && !offered)
                rename_plain(t, nbrackets, text, n);
            else
                tc_text_addn(t->out, text, n ? n : 1);
            text += n ? n : 1;
        }
    }
}

/* The text with its names numbered as they appear, without messages: those of
 * assert_shape hold names of values. */
static void number_names(names *t, const char *text)
{
    static const char message[] = "message(\"";
    while (*text) {
        if (strncmp(text, message, sizeof message - 1) == 0) {
            text += sizeof message - 1;
            text += strcspn(text, "\"");
            continue;
        }
        bool signed_name = *text == '%' || *text == '@';
        size_t n = signed_name ? length_of_name(text + 1) : 0;
        if (n) {
            add_name(t, text + 1, n);
            tc_text_printf(t->out, "%c%u", *text, find_name(t, text + 1, n));
        } else {
            tc_text_addn(t->out, text, 1);
        }
        text += n + 1;
    }
}

/* ---- What a schedule is ---- */

typedef struct account {
    tc_text *out;
    tc_context *cx;
    const tc_value *buffers[64];
    unsigned nbuffers;
} account;

static const tc_value *root_of(const tc_value *v)
{
    while (v->def &&
           (v->def->code == TC_SMEM_INDEX || v->def->code == TC_SMEM_TRANS ||
            v->def->code == TC_SMEM_RESHAPE || v->def->code == TC_SMEM_SLICE))
        v = v->def->in[0];
    return v;
}

/* Buffers and mbarriers by their number, at the first time with their type. */
static void tell_buffer(account *a, const tc_value *v)
{
    v = root_of(v);
    unsigned i = 0;
    while (i < a->nbuffers && a->buffers[i] != v)
        i++;
    tc_text_printf(a->out, " #%u", i);
    if (i < a->nbuffers)
        return;
    a->buffers[a->nbuffers++] = v;
    tc_text_printf(a->out, ":%s", tc_type_name(a->cx, v->type));
}

static bool is_told(const tc_op *op)
{
    switch (op->code) {
    case TC_MMA: return tc_op_int(op, "async") != 0;
    case TC_MMA_WAIT:
    case TC_MBARRIER_WAIT:
    case TC_MBARRIER_ARRIVE:
    case TC_TMA_LOAD:
    case TC_NEXT_TILE: return true;
    default: return false;
    }
}

static bool tells(const tc_op *op)
{
    bool any = is_told(op);
    for (unsigned i = 0; i < op->nregions; i++)
        tc_each_op (inner, op->regions[i])
            any |= tells(inner);
    return any;
}

/* Not all ops have it in the table. */
static bool has(const tc_op *op, const char *name)
{
    return tc_op_attr_index(op->code, name) >= 0 && tc_op_has_attr(op, name);
}

static void tell(account *a, const tc_op *op)
{
    static const char *const ints[] = {"async", "pending", "bytes", "stages"};
    if (!tells(op))
        return;
    tc_text_printf(a->out, "%s", tc_op_infos[op->code].name);
    for (unsigned i = 0; i < sizeof ints / sizeof *ints; i++)
        if (has(op, ints[i]))
            tc_text_printf(a->out, " %s(%lld)", ints[i],
                           (long long)tc_op_int(op, ints[i]));
    if (has(op, "schedule"))
        tc_text_printf(a->out, " schedule(%s)", tc_op_word(op, "schedule"));
    if (op->code == TC_MMA)
        tc_text_printf(a->out, " %s %s", tc_op_word(op, "instr"),
                       tc_type_name(a->cx, op->out[0]->type));
    for (unsigned i = 0; i < op->nin; i++)
        if (op->in[i]->type->kind == TC_SMEM ||
            op->in[i]->type->kind == TC_MBARRIER)
            tell_buffer(a, op->in[i]);
    tc_text_add(a->out, op->nregions ? " {\n" : "\n");
    for (unsigned i = 0; i < op->nregions; i++) {
        tc_each_op (inner, op->regions[i])
            tell(a, inner);
        tc_text_add(a->out, "}\n");
    }
}

static const tc_op *find_op(const tc_region *r, tc_opcode code)
{
    const tc_op *found = NULL;
    tc_each_op (op, r) {
        if (!found && op->code == code)
            found = op;
        for (unsigned i = 0; !found && i < op->nregions; i++)
            found = find_op(op->regions[i], code);
    }
    return found;
}

static bool holds(const tc_region *r, tc_opcode code)
{
    tc_each_op (op, r)
        if (op->code == code && is_told(op))
            return true;
    return false;
}

/* The loop over the keys: the last of those that have such an op in the body
 * itself and lie deepest. */
static const tc_op *innermost(const tc_region *r, tc_opcode code)
{
    const tc_op *found = NULL;
    tc_each_op (op, r)
        for (unsigned i = 0; i < op->nregions; i++) {
            const tc_op *deeper = innermost(op->regions[i], code);
            if (deeper)
                found = deeper;
            else if (op->code == TC_FOR && holds(op->regions[i], code))
                found = op;
        }
    return found;
}

/* ---- Programs ---- */

typedef struct program {
    tc_context *cx;
    tc_module *m;
} program;

static void program_free(program *p)
{
    tc_module_free(p->m);
    tc_context_free(p->cx);
}

/* Side, warps: of the shipped configuration for D = 128. */
static bool make(program *p, const char *text, const tc_binding *bindings,
                 unsigned nbindings)
{
    p->cx = tc_context_new();
    p->m = tc_module_new(p->cx);
    tc_pass_options o = {.bindings = bindings,
                         .nbindings = nbindings,
                         .target = tc_target_get("sm_90a"),
                         .warps = 8};
    bool ok =
        tc_parse(p->m, tc_source_add(p->cx, "schedules", text, strlen(text))) &&
        tc_run_pipeline(p->m, "gpu", &o);
    for (tc_diag *d = p->cx->diags; d; d = d->next)
        printf("%u:%u: %s\n", d->loc.line, d->loc.col, d->message);
    return ok;
}

/* All that is told of the roles; malloc'd. */
static char *schedule_of(const program *p)
{
    account a = {.out = &(tc_text){.arena = &p->cx->arena}, .cx = p->cx};
    tc_each_func (f, p->m)
        tc_each_op (op, f->body)
            tell(&a, op);
    return strdup(a.out->data ? a.out->data : "");
}

/* How the tiles are got, and the two loops over the keys. */
static char *loops_of(const program *p)
{
    account a = {.out = &(tc_text){.arena = &p->cx->arena}, .cx = p->cx};
    const tc_op *roles = find_op(p->m->first->body, TC_WARP_GROUPS);
    const tc_op *copies =
        roles ? innermost(roles->regions[0], TC_TMA_LOAD) : NULL;
    const tc_op *products = roles ? innermost(roles->regions[1], TC_MMA) : NULL;
    if (!copies || !products)
        return strdup("");
    bool fetches = find_op(roles->regions[0], TC_NEXT_TILE);
    tc_text_printf(a.out, "tiles are %s\n", fetches ? "fetched" : "counted");
    tell(&a, copies);
    tell(&a, products);
    return strdup(a.out->data);
}

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = calloc(1, 65536);
    if (!f || !text || fread(text, 1, 65535, f) == 65535) {
        printf("cannot read %s\n", path);
        exit(3);
    }
    fclose(f);
    return text;
}

/* A kernel with a mask @mask: q, k. */
static char *with_mask(const char *kernel, const char *mask)
{
    size_t n = strlen(kernel) + strlen(mask) + 200;
    char *text = malloc(n);
    snprintf(text, n,
             "func @mask(%%b: i32, %%h: i32, %%q: i32, %%k: i32) -> i1 {\n"
             "  return %s\n}\n%s",
             mask, kernel);
    return text;
}

static const tc_binding usual[] = {{"D", "128"},
                                   {"T", "bf16"},
                                   {"BM", "128"},
                                   {"BN", "128"},
                                   {"mask_mod", "@mask"}};
enum { USUAL = sizeof usual / sizeof *usual };

/* ---- The tests ---- */

static void check_names(run_counts *c, const char *attention, const char *mask)
{
    char *text = with_mask(attention, mask);
    tc_context *cx = tc_context_new();
    tc_text other = {.arena = &cx->arena};
    names t = {.out = &other};
    rename_all(&t, text);
    tc_binding bindings[USUAL];
    for (unsigned i = 0; i < USUAL; i++) {
        const char *name = usual[i].name, *value = usual[i].value;
        bindings[i].name = tc_arena_printf(
            &cx->arena, "n%u_y", find_name(&t, name, strlen(name)) * 7 + 1);
        bindings[i].value =
            *value != '@'
                ? value
                : tc_arena_printf(
                      &cx->arena, "@n%u_y",
                      find_name(&t, value + 1, strlen(value + 1)) * 7 + 1);
    }
    program p, q;
    tc_text printed[2] = {{.arena = &cx->arena}, {.arena = &cx->arena}};
    tc_text numbered[2] = {{.arena = &cx->arena}, {.arena = &cx->arena}};
    bool ok = make(&p, text, usual, USUAL);
    ok = make(&q, other.data, bindings, USUAL) && ok;
    if (ok) {
        tc_module_print(&printed[0], p.m, TC_PRINT_PLAIN);
        tc_module_print(&printed[1], q.m, TC_PRINT_PLAIN);
        for (unsigned i = 0; i < 2; i++)
            number_names(&(names){.out = &numbered[i]}, printed[i].data);
    }
    ok = ok && !strstr(other.data, "%acc") && !strstr(other.data, "@attention");
    run_check(c, ok && strcmp(numbered[0].data, numbered[1].data) == 0,
              "names: another program with other names, mask %s\n%s\n%s", mask,
              ok ? numbered[0].data : "", ok ? numbered[1].data : "");
    program_free(&p);
    program_free(&q);
    tc_context_free(cx);
    free(text);
}

static char *schedule_with(const char *kernel, const char *mask,
                           char *(*of)(const program *))
{
    char *text = with_mask(kernel, mask);
    program p;
    char *s = make(&p, text, usual, USUAL) ? of(&p) : strdup("");
    program_free(&p);
    free(text);
    return s;
}

static void check_same(run_counts *c, const char *what, const char *want,
                       const char *got)
{
    run_check(c, *want && strcmp(want, got) == 0,
              "%s: expected the schedule\n%s\nfound\n%s", what, want, got);
}

static const char plain_causal[] = "%k <= %q";
static const char *const causal[] = {
    "%q >= %k",
    "not (%q < %k)",
    "%k < %q + 1",
    "%q - %k >= 0",
    "%k - %q < 1",
    "-%k >= -%q",
    "%k * 2 <= %q * 2",
    "select(%k > %q, false, true)",
    "%k + 5 <= %q + 5",
    "%k < %q or %k == %q",
    "%k <= %q and %k <= %q",
    "not (%k - %q > 0)",
};

static void check_masks(run_counts *c, const char *attention)
{
    char *want = schedule_with(attention, plain_causal, schedule_of);
    for (unsigned i = 0; i < sizeof causal / sizeof *causal; i++) {
        char *got = schedule_with(attention, causal[i], schedule_of);
        check_same(c, causal[i], want, got);
        free(got);
    }
    free(want);
}

static void check_chain(run_counts *c, const char *attention, const char *chain,
                        const char *mask)
{
    char *want = schedule_with(attention, mask, loops_of);
    char *got = schedule_with(chain, mask, loops_of);
    check_same(c, "chain", want, got);
    run_check(c, strstr(want, "schedule(modulo)") != NULL,
              "attention's products do not overlap:\n%s", want);
    free(want);
    free(got);
}

/* Other schedules are told apart: of other masks, of a single product. */
static void check_difference(run_counts *c, const char *attention,
                             const char *chain)
{
    char *full = schedule_with(attention, "true", schedule_of);
    char *cut = schedule_with(attention, plain_causal, schedule_of);
    run_check(c, strcmp(full, cut) != 0, "all schedules are told as one");
    free(full);
    free(cut);
    static const char second[] = "dot(cast(%w, T), %ct, %sum0)";
    const char *at = strstr(chain, second);
    char *one = calloc(1, strlen(chain) + 100);
    snprintf(one, strlen(chain) + 100, "%.*s%s%s", (int)(at - chain), chain,
             "%sum0 + sum(%w, axis=1)[:, none]", at + strlen(second));
    char *got = schedule_with(one, "true", loops_of);
    char *want = schedule_with(chain, "true", loops_of);
    run_check(c, strcmp(got, want) != 0, "one product is told as two");
    free(one);
    free(got);
    free(want);
}

int main(void)
{
    char *attention = read_file("kernels/attention_fwd.tile");
    char *chain = read_file("test/machine/chain.tile");
    run_counts c = {0};
    check_names(&c, attention, "true");
    check_names(&c, attention, "%k <= %q and %q - %k < 500");
    check_masks(&c, attention);
    check_chain(&c, attention, chain, "true");
    check_chain(&c, attention, chain, plain_causal);
    check_chain(&c, attention, chain, "%k <= %q and %q - %k < 500");
    check_difference(&c, attention, chain);
    free(attention);
    free(chain);
    return run_finish(&c);
}
