/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of ops and the attributes that it declares.
 */
#include "ir/fastmath.h"

#include <assert.h>
#include <string.h>

#define PURE        TC_PURE
#define COMMUTES    TC_COMMUTES
#define ELEMENTWISE TC_ELEMENTWISE
#define READS       TC_READS
#define WRITES      TC_WRITES
#define TERMINATOR  TC_TERMINATOR
#define MACHINE     TC_MACHINE
#define OP(id, name, syntax, traits, in, out, attrs, summary)                  \
    [TC_##id] = {name, TC_SYNTAX_##syntax, traits, in, out, attrs, summary},
const tc_op_info tc_op_infos[TC_OPCODE_COUNT] = {
#include "ir/ops.def"
};
#undef OP

tc_opcode tc_opcode_parse(const char *name, size_t n)
{
    for (tc_opcode c = 0; c < TC_OPCODE_COUNT; c++)
        if (n && tc_op_infos[c].name[0] == name[0] &&
            strncmp(tc_op_infos[c].name, name, n) == 0 &&
            tc_op_infos[c].name[n] == 0)
            return c;
    return TC_OPCODE_COUNT;
}

static const char *next_word(const char *s)
{
    while (*s && *s != ' ')
        s++;
    return *s ? s + 1 : s;
}

unsigned tc_op_nattrs(tc_opcode code)
{
    unsigned n = 0;
    for (const char *s = tc_op_infos[code].attrs; *s; s = next_word(s))
        n++;
    return n;
}

static tc_attr_kind attr_kind(const char *s, size_t n)
{
    static const struct {
        const char *name;
        tc_attr_kind kind;
    } kinds[] = {
        {"int", TC_ATTR_INT},       {"number", TC_ATTR_NUMBER},
        {"bool", TC_ATTR_BOOL},     {"string", TC_ATTR_STRING},
        {"symbol", TC_ATTR_SYMBOL}, {"ints", TC_ATTR_INTS},
        {"dims", TC_ATTR_DIMS},     {"strings", TC_ATTR_STRINGS},
        {"layout", TC_ATTR_LAYOUT},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].name[0] == *s && strlen(kinds[i].name) == n &&
            strncmp(kinds[i].name, s, n) == 0)
            return kinds[i].kind;
    return memchr(s, '+', n) ? TC_ATTR_FLAGS : TC_ATTR_SYMBOL; /* words */
}

/* ninf+nnan as bits. */
static unsigned flags_of(const char *s)
{
    unsigned flags = 0;
    for (;; s++) {
        size_t n = strcspn(s, "+ ");
        flags |= tc_fastmath_parse(s, n);
        s += n;
        if (*s != '+')
            return flags;
    }
}

bool tc_words_have(const char *words, const char *word)
{
    size_t n = strlen(word);
    for (const char *w = words;; w++) {
        size_t len = strcspn(w, "| ");
        if (len == n && memcmp(w, word, n) == 0)
            return true;
        w += len;
        if (*w != '|')
            return false;
    }
}

tc_attr_decl tc_op_attr_decl(tc_opcode code, unsigned index)
{
    const char *s = tc_op_infos[code].attrs;
    while (index--)
        s = next_word(s);
    tc_attr_decl d = {0};
    size_t n = strcspn(s, ":?");
    assert(n > 0 && n < sizeof d.name);
    memcpy(d.name, s, n);
    d.optional = s[n] == '?';
    const char *kind = s + n + d.optional + 1;
    size_t len = strcspn(kind, " ");
    d.kind = attr_kind(kind, len);
    if (memchr(kind, '|', len))
        d.words = kind;
    if (d.kind == TC_ATTR_FLAGS)
        d.flags = flags_of(kind);
    return d;
}

static bool declares(const char *decl, const char *name)
{
    for (; *name && *decl == *name; name++)
        decl++;
    return !*name && (*decl == ':' || *decl == '?');
}

int tc_op_attr_index(tc_opcode code, const char *name)
{
    int index = 0;
    for (const char *s = tc_op_infos[code].attrs; *s; s = next_word(s)) {
        if (declares(s, name))
            return index;
        index++;
    }
    return -1;
}

const tc_attr *tc_op_attr(const tc_op *op, const char *name)
{
    int i = tc_op_attr_index(op->code, name);
    assert(i >= 0 && "no such attribute in ops.def");
    return &op->attrs[i];
}

bool tc_op_has_attr(const tc_op *op, const char *name)
{
    return tc_op_attr(op, name)->kind != TC_ATTR_NONE;
}

int64_t tc_op_int(const tc_op *op, const char *name)
{
    const tc_attr *a = tc_op_attr(op, name);
    return a->kind == TC_ATTR_INT || a->kind == TC_ATTR_BOOL ? a->i : 0;
}

const char *tc_op_word(const tc_op *op, const char *name)
{
    const tc_attr *a = tc_op_attr(op, name);
    return a->kind == TC_ATTR_SYMBOL || a->kind == TC_ATTR_STRING ? a->s : NULL;
}

bool tc_op_is_word(const tc_op *op, const char *name, const char *word)
{
    const char *got = tc_op_word(op, name);
    return got && strcmp(got, word) == 0;
}

void tc_op_set_attr(tc_op *op, const char *name, tc_attr value)
{
    int i = tc_op_attr_index(op->code, name);
    assert(i >= 0 && "no such attribute in ops.def");
    op->attrs[i] = value;
}

void tc_op_set_int(tc_op *op, const char *name, int64_t value)
{
    tc_op_set_attr(op, name, (tc_attr){.kind = TC_ATTR_INT, .i = value});
}

void tc_op_set_word(tc_op *op, const char *name, const char *word)
{
    const char *s = tc_string_get(op->func->module->cx, word);
    tc_op_set_attr(op, name, (tc_attr){.kind = TC_ATTR_SYMBOL, .s = s});
}

void tc_op_set_ints(tc_op *op, const char *name, unsigned n,
                    const int64_t *ints)
{
    tc_attr a = {.kind = TC_ATTR_INTS, .n = n};
    a.ints = tc_arena_copy(&op->func->module->arena, ints, n * sizeof *ints);
    tc_op_set_attr(op, name, a);
}

void tc_op_set_layout(tc_op *op, const char *name, const tc_layout *layout)
{
    tc_op_set_attr(op, name,
                   (tc_attr){.kind = TC_ATTR_LAYOUT, .layout = layout});
}

const tc_layout *tc_op_layout(const tc_op *op, const char *name)
{
    const tc_attr *a = tc_op_attr(op, name);
    return a->kind == TC_ATTR_LAYOUT ? a->layout : NULL;
}

void tc_op_set_dims(tc_op *op, const char *name, unsigned n,
                    const tc_dim *const *dims)
{
    tc_attr a = {.kind = TC_ATTR_DIMS, .n = n};
    a.dims = tc_arena_copy(&op->func->module->arena, dims, n * sizeof *dims);
    tc_op_set_attr(op, name, a);
}

bool tc_op_combines(const tc_op *op)
{
    return tc_op_infos[op->code].syntax == TC_SYNTAX_REDUCE;
}

unsigned tc_op_ncombined(const tc_op *op)
{
    return op->code == TC_SCAN_CARRY ? op->nin / 2 : op->nin;
}

bool tc_op_is_call(const tc_op *op)
{
    return op->code == TC_CALL || op->code == TC_VJP;
}

tc_func *tc_op_callee(const tc_op *op)
{
    const char *name = tc_op_is_call(op) ? tc_op_word(op, "callee") : NULL;
    return name && *name == '@' ? tc_func_find(op->func->module, name + 1)
                                : NULL;
}

unsigned tc_vjp_seed(const tc_op *op)
{
    return op->nin - 1 - tc_op_attr(op, "into")->n;
}

unsigned tc_call_npositional(const tc_op *op)
{
    unsigned n = op->code == TC_VJP ? tc_vjp_seed(op) : op->nin;
    return n - tc_op_attr(op, "names")->n;
}
