/* SPDX-License-Identifier: Apache-2.0 */
#include "test/numerics/dual.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LOOPS = 2 };

typedef enum node_kind {
    SCORE,
    NUMBER,
    LINE,  /* an element of %t */
    TABLE, /* an element of %u */
    CONST,
    INT,     /* an index as a float */
    CARRIED, /* what loop `depth` carries */
    UNARY,
    BINARY,
    FMA,
    SELECT, /* in[0] < in[1] ? in[2] : in[3] */
    BRANCH, /* a condition on positions, by `if` */
    LOOP    /* `steps` times, from in[0] on: in[1] */
} node_kind;

/* a h + b q + c k + d i + e, of loop i; modulo `rem` where that is not 0. */
typedef struct index {
    int a, b, c, d, e, rem;
} place;

typedef struct node {
    node_kind kind;
    int op, depth, steps;
    double constant;
    place at[2];
    struct node *in[4];
} node;

struct dual_function {
    node *root;
};

/* ---- Operations: text, and value with derivative ---- */

static dual scaled(dual x, double v, double slope)
{
    return (dual){v, slope * x.d};
}

static dual d_neg(dual x)
{
    return scaled(x, -x.v, -1);
}
static dual d_abs(dual x)
{
    return scaled(x, fabs(x.v), x.v > 0 ? 1 : x.v < 0 ? -1 : 0);
}
static dual d_sin(dual x)
{
    return scaled(x, sin(x.v), cos(x.v));
}
static dual d_cos(dual x)
{
    return scaled(x, cos(x.v), -sin(x.v));
}
static dual d_tanh(dual x)
{
    double c = cosh(x.v);
    return scaled(x, tanh(x.v), 1 / (c * c));
}
static dual d_erf(dual x)
{
    return scaled(x, erf(x.v), 2 / sqrt(acos(-1)) * exp(-x.v * x.v));
}
static dual d_exp(dual x)
{
    dual t = d_tanh(x);
    return scaled(t, exp(t.v), exp(t.v));
}
static dual d_exp2(dual x)
{
    dual t = d_sin(x);
    return scaled(t, exp2(t.v), exp2(t.v) * log(2));
}
/* x x + c, which is above 0 */
static dual d_square(dual x, double c)
{
    return scaled(x, x.v * x.v + c, 2 * x.v);
}
static dual d_log(dual x)
{
    dual s = d_square(x, 1);
    return scaled(s, log(s.v), 1 / s.v);
}
static dual d_log2(dual x)
{
    dual s = d_square(x, 0.5);
    return scaled(s, log2(s.v), 1 / (s.v * log(2)));
}
static dual d_sqrt(dual x)
{
    dual s = d_square(x, 0.25);
    return scaled(s, sqrt(s.v), 0.5 / sqrt(s.v));
}
static dual d_rsqrt(dual x)
{
    dual s = d_square(x, 0.5);
    return scaled(s, 1 / sqrt(s.v), -0.5 / (s.v * sqrt(s.v)));
}
static dual d_rcp(dual x)
{
    dual s = d_square(x, 1);
    return scaled(s, 1 / s.v, -1 / (s.v * s.v));
}
static dual d_floor(dual x)
{
    return (dual){floor(x.v), 0};
}
static dual d_ceil(dual x)
{
    return (dual){ceil(x.v), 0};
}
static dual d_round(dual x)
{
    return (dual){nearbyint(x.v), 0};
}
/* Through an int: nothing comes back. */
static dual d_int(dual x)
{
    return (dual){trunc(10 * tanh(x.v)), 0};
}

static const struct {
    const char *text; /* of %s */
    dual (*eval)(dual x);
} unaries[] = {
    {"-%s", d_neg},
    {"abs(%s)", d_abs},
    {"sin(%s)", d_sin},
    {"cos(%s)", d_cos},
    {"tanh(%s)", d_tanh},
    {"erf(%s)", d_erf},
    {"exp(tanh(%s))", d_exp},
    {"exp2(sin(%s))", d_exp2},
    {"log(%s * %s + 1.0)", d_log},
    {"log2(%s * %s + 0.5)", d_log2},
    {"sqrt(%s * %s + 0.25)", d_sqrt},
    {"rsqrt(%s * %s + 0.5)", d_rsqrt},
    {"rcp(%s * %s + 1.0)", d_rcp},
    {"floor(%s)", d_floor},
    {"ceil(%s)", d_ceil},
    {"round(%s)", d_round},
    {"cast(cast(10.0 * tanh(%s), i32), f64)", d_int},
};
enum { NUNARIES = sizeof unaries / sizeof *unaries };

static dual d_add(dual x, dual y)
{
    return (dual){x.v + y.v, x.d + y.d};
}
static dual d_sub(dual x, dual y)
{
    return (dual){x.v - y.v, x.d - y.d};
}
static dual d_mul(dual x, dual y)
{
    return (dual){x.v * y.v, x.d * y.v + x.v * y.d};
}
static dual d_div(dual x, dual y)
{
    dual s = d_square(y, 1);
    return (dual){x.v / s.v, x.d / s.v - x.v * s.d / (s.v * s.v)};
}
static dual d_rem(dual x, dual y)
{
    dual s = d_square(y, 1);
    double times = floor(x.v / s.v);
    return (dual){x.v - times * s.v, x.d - times * s.d};
}
static dual d_min(dual x, dual y)
{
    dual half = {x.v, (x.d + y.d) / 2};
    return x.v < y.v ? x : y.v < x.v ? y : half;
}
static dual d_max(dual x, dual y)
{
    dual half = {x.v, (x.d + y.d) / 2};
    return x.v > y.v ? x : y.v > x.v ? y : half;
}

static const struct {
    const char *text; /* of %1$s and %2$s */
    dual (*eval)(dual x, dual y);
} binaries[] = {
    {"%1$s + %2$s", d_add},
    {"%1$s - %2$s", d_sub},
    {"%1$s * %2$s", d_mul},
    {"%1$s / (%2$s * %2$s + 1.0)", d_div},
    {"rem(%1$s, %2$s * %2$s + 1.0)", d_rem},
    {"min(%1$s, %2$s)", d_min},
    {"max(%1$s, %2$s)", d_max},
};
enum { NBINARIES = sizeof binaries / sizeof *binaries };

/* ---- Random functions ---- */

static const struct {
    node_kind kind;
    int nin;
} inner[] = {{UNARY, 1}, {UNARY, 1},  {BINARY, 2}, {BINARY, 2}, {BINARY, 2},
             {FMA, 3},   {SELECT, 4}, {BRANCH, 2}, {LOOP, 2}};
enum { NINNER = sizeof inner / sizeof *inner };

static place random_index(num_rng *r, int depth, int size)
{
    place at = {num_between(r, -1, 2), num_between(r, -1, 2),
                num_between(r, -1, 2), 0,
                num_between(r, 0, 3),  0};
    int plain = num_below(r, 4);
    if (plain < 3) /* depends on one of h, q, k */
        at = (place){plain == 0, plain == 1, plain == 2, 0, at.e, 0};
    if (depth && num_below(r, 2))
        at.d = num_between(r, 1, 2);
    if (num_below(r, 3))
        at.rem = size;
    return at;
}

static node *leaf(num_rng *r, int depth)
{
    node *n = calloc(1, sizeof *n);
    static const node_kind kinds[] = {SCORE, SCORE, SCORE, NUMBER,
                                      LINE,  TABLE, CONST, INT};
    n->kind = depth && num_below(r, 2) ? CARRIED : kinds[num_below(r, 8)];
    n->constant = num_between(r, -8, 8) / 4.0;
    n->depth = depth ? num_below(r, depth) : 0;
    n->at[0] = random_index(r, depth, n->kind == LINE ? DUAL_LINE : DUAL_ROWS);
    n->at[1] = random_index(r, depth, DUAL_COLUMNS);
    return n;
}

/* `depth` loops are around. */
static node *random_node(num_rng *r, int size, int depth)
{
    if (size <= 0)
        return leaf(r, depth);
    int which;
    do
        which = num_below(r, NINNER);
    while (inner[which].kind == LOOP && depth == MOST_LOOPS);
    node *n = calloc(1, sizeof *n);
    n->kind = inner[which].kind;
    n->op = num_below(r, n->kind == UNARY ? NUNARIES : NBINARIES);
    n->depth = depth;
    n->steps = num_between(r, 0, 3);
    n->at[0] = random_index(r, depth, 3);
    for (int i = 0; i < inner[which].nin; i++)
        n->in[i] = random_node(r, (size - 1) / inner[which].nin,
                               depth + (n->kind == LOOP && i == 1));
    return n;
}

dual_function *dual_random(num_rng *r, int size)
{
    dual_function *f = malloc(sizeof *f);
    f->root = random_node(r, size, 0);
    return f;
}

static void free_node(node *n)
{
    for (int i = 0; n && i < 4; i++)
        free_node(n->in[i]);
    free(n);
}

void dual_free(dual_function *f)
{
    free_node(f->root);
    free(f);
}

/* ---- Values ---- */

typedef struct loops {
    int i[MOST_LOOPS];
    dual carried[MOST_LOOPS];
    int depth;
} loops;

static int floor_rem(int x, int n)
{
    return ((x % n) + n) % n;
}

static int index_of(const place *at, const dual_inputs *in, const loops *l)
{
    int i = l->depth ? l->i[l->depth - 1] : 0;
    int x = at->a * in->h + at->b * in->q + at->c * in->k + at->d * i + at->e;
    return at->rem ? floor_rem(x, at->rem) : x;
}

static dual input(const dual_inputs *in, const double *x)
{
    return (dual){*x, x == in->wrt};
}

static dual eval(const node *n, const dual_inputs *in, loops *l);

static dual eval_loop(const node *n, const dual_inputs *in, loops *l)
{
    dual x = eval(n->in[0], in, l);
    int depth = l->depth++;
    for (int i = 0; i < n->steps; i++) {
        l->i[depth] = i;
        l->carried[depth] = x;
        x = eval(n->in[1], in, l);
    }
    l->depth = depth;
    return x;
}

static dual eval(const node *n, const dual_inputs *in, loops *l)
{
    int x = index_of(&n->at[0], in, l), y = index_of(&n->at[1], in, l);
    dual a, b;
    switch (n->kind) {
    case SCORE: return input(in, &in->score);
    case NUMBER: return input(in, &in->number);
    case LINE:
        return x >= 0 && x < DUAL_LINE ? input(in, &in->line[x]) : (dual){0, 0};
    case TABLE:
        return x >= 0 && x < DUAL_ROWS && y >= 0 && y < DUAL_COLUMNS
                   ? input(in, &in->table[x * DUAL_COLUMNS + y])
                   : (dual){0, 0};
    case CONST: return (dual){n->constant, 0};
    case INT: return (dual){x, 0};
    case CARRIED: return l->carried[n->depth];
    case UNARY: return unaries[n->op].eval(eval(n->in[0], in, l));
    case BINARY:
        a = eval(n->in[0], in, l);
        return binaries[n->op].eval(a, eval(n->in[1], in, l));
    case FMA:
        a = eval(n->in[0], in, l);
        b = eval(n->in[1], in, l);
        return d_add(d_mul(a, b), eval(n->in[2], in, l));
    case SELECT:
        a = eval(n->in[0], in, l);
        b = eval(n->in[1], in, l);
        return eval(n->in[a.v < b.v ? 2 : 3], in, l);
    case BRANCH: return eval(n->in[x > 1 ? 0 : 1], in, l);
    case LOOP: return eval_loop(n, in, l);
    }
    return (dual){0, 0};
}

dual dual_eval(const dual_function *f, const dual_inputs *in)
{
    loops l = {.depth = 0};
    return eval(f->root, in, &l);
}

/* ---- Text ---- */

typedef struct writer {
    FILE *out;
    int next, indent, depth;
} writer;

/* Names are as short as numbers are. */
typedef struct name {
    char text[16];
} name;

static name new_name(writer *w)
{
    name n;
    snprintf(n.text, sizeof n.text, "%%v%d", w->next++);
    return n;
}

static void line(writer *w, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void line(writer *w, const char *fmt, ...)
{
    va_list args;
    fprintf(w->out, "%*s", 2 * w->indent, "");
    va_start(args, fmt);
    vfprintf(w->out, fmt, args);
    va_end(args);
    fputs("\n", w->out);
}

static void index_text(const writer *w, const place *at, char text[128])
{
    char sum[96], i[32] = "";
    if (w->depth)
        snprintf(i, sizeof i, " + %%i%d * %d", w->depth - 1, at->d);
    snprintf(sum, sizeof sum, "%%h * %d + %%q * %d + %%k * %d%s + %d", at->a,
             at->b, at->c, i, at->e);
    if (at->rem)
        snprintf(text, 128, "rem(%s, %d)", sum, at->rem);
    else
        snprintf(text, 128, "%s", sum);
}

static name write_node(writer *w, const node *n);

static void write_region(writer *w, const node *n)
{
    w->indent++;
    name y = write_node(w, n);
    line(w, "yield %s", y.text);
    w->indent--;
}

static void write_branch(writer *w, const node *n, const char *at, name out)
{
    line(w, "%s = if %s > 1 {", out.text, at);
    write_region(w, n->in[0]);
    line(w, "} else {");
    write_region(w, n->in[1]);
    line(w, "}");
}

static void write_loop(writer *w, const node *n, name out)
{
    name init = write_node(w, n->in[0]);
    line(w, "%s = for %%i%d = 0 to %d carry(%%c%d = %s) {", out.text, w->depth,
         n->steps, w->depth, init.text);
    w->depth++;
    write_region(w, n->in[1]);
    w->depth--;
    line(w, "}");
}

#pragma GCC diagnostic ignored "-Wformat-nonliteral"

static void write_ops(writer *w, const node *n, name out)
{
    name in[4];
    char text[128];
    for (int i = 0; i < 4 && n->in[i]; i++)
        in[i] = write_node(w, n->in[i]);
    if (n->kind == UNARY)
        snprintf(text, sizeof text, unaries[n->op].text, in[0].text,
                 in[0].text);
    else if (n->kind == BINARY)
        snprintf(text, sizeof text, binaries[n->op].text, in[0].text,
                 in[1].text);
    else if (n->kind == FMA)
        snprintf(text, sizeof text, "fma(%s, %s, %s)", in[0].text, in[1].text,
                 in[2].text);
    else
        snprintf(text, sizeof text, "select(%s < %s, %s, %s)", in[0].text,
                 in[1].text, in[2].text, in[3].text);
    line(w, "%s = %s", out.text, text);
}

static name write_node(writer *w, const node *n)
{
    char at[2][128];
    index_text(w, &n->at[0], at[0]);
    index_text(w, &n->at[1], at[1]);
    name out = new_name(w);
    switch (n->kind) {
    case SCORE: return (name){"%score"};
    case NUMBER: return (name){"%number"};
    case LINE: line(w, "%s = %%t[%s]", out.text, at[0]); break;
    case TABLE: line(w, "%s = %%u[%s, %s]", out.text, at[0], at[1]); break;
    case CONST: line(w, "%s = %g : f64", out.text, n->constant); break;
    case INT: line(w, "%s = cast(%s, f64)", out.text, at[0]); break;
    case CARRIED: snprintf(out.text, sizeof out.text, "%%c%d", n->depth); break;
    case BRANCH: write_branch(w, n, at[0], out); break;
    case LOOP: write_loop(w, n, out); break;
    default: write_ops(w, n, out); break;
    }
    return out;
}

char *dual_text(const dual_function *f, const char *name_of)
{
    char *text;
    size_t size;
    writer w = {.out = open_memstream(&text, &size), .indent = 1};
    fprintf(w.out,
            "func @%s(%%score: f64, %%h: i32, %%q: i32, %%k: i32,\n"
            "    %%number: f64, %%t: tensor<[?] x f64>, "
            "%%u: tensor<[?, ?] x f64>) -> f64 {\n",
            name_of);
    name y = write_node(&w, f->root);
    line(&w, "return %s", y.text);
    fputs("}\n", w.out);
    fclose(w.out);
    return text;
}
