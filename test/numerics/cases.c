/* SPDX-License-Identifier: Apache-2.0 */
#include "test/numerics/cases.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const input_names[] = {
    "normal", "short", "peaked", "huge", "zeros", "alike", "rising", "special"};

case_options read_case_options(int argc, char **argv, int cases,
                               int nightly_cases)
{
    bool nightly = run_option(argc, argv, "nightly", 0);
    case_options o = {.seed = (uint64_t)run_option(argc, argv, "seed", 1),
                      .cases = (int)run_option(argc, argv, "cases",
                                               nightly ? nightly_cases : cases),
                      .only_group = (int)run_option(argc, argv, "group", -1),
                      .only_case = (int)run_option(argc, argv, "case", -1),
                      .nightly = nightly,
                      .verbose = run_option(argc, argv, "verbose", 0)};
    printf("seed %llu\n", (unsigned long long)o.seed);
    return o;
}

/* Dims: batch, head, position, dim. */
static const num_layout layouts[] = {
    {"dense", {0, 1, 2, 3}, {0}, {0}},
    {"bshd", {0, 2, 1, 3}, {0}, {0}},
    {"packed", {0, 2, 1, 3}, {0, 3, 0, 0}, {0, 5, 0, 0}},
    {"sliced", {0, 1, 2, 3}, {1, 1, 3, 2}, {0, 1, 2, 7}},
    {"sbhd", {2, 0, 1, 3}, {0}, {0, 0, 0, 1}},
    {"transposed", {0, 1, 3, 2}, {0, 0, 1, 0}, {0, 0, 2, 0}},
};
enum { NLAYOUTS = sizeof layouts / sizeof *layouts };

/* Cases */

static int any_length(num_rng *r)
{
    static const int edges[] = {1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129};
    switch (num_below(r, 4)) {
    case 0: return edges[num_below(r, sizeof edges / sizeof *edges)];
    case 1: return num_between(r, 1, 40);
    case 2: return num_between(r, 41, 150);
    default: return num_between(r, 1, 300);
    }
}

/* Scores have to be short fractions, see score_case. */
static bool is_short(const group *g)
{
    return g->type == NUM_F32 && g->score->wants_short;
}

static input_kind any_input(num_rng *r, const group *g)
{
    static const input_kind often[] = {NORMAL, NORMAL,  NORMAL, SHORT, PEAKED,
                                       PEAKED, HUGE_,   ZEROS,  ALIKE, RISING,
                                       RISING, SPECIAL, SPECIAL};
    input_kind kind = often[num_below(r, 13)];
    if (kind == RISING && g->type == NUM_F32)
        kind = ALIKE;
    if (kind == HUGE_ && !g->score->takes_huge)
        kind = PEAKED;
    if (is_short(g) && kind == NORMAL)
        kind = SHORT;
    return kind;
}

/* The power of two near 1 / sqrt(d). */
static double short_scale(int dim)
{
    return ldexp(1, -(int)lround(log2(dim) / 2));
}

static double any_scale(num_rng *r, const group *g, input_kind kind)
{
    static const double factors[] = {1, 1, 0.5, 2, -1, 0.1};
    switch (kind) {
    case NORMAL:
    case ZEROS:
    case SPECIAL:
        if (is_short(g))
            return short_scale(g->dim);
        return factors[num_below(r, 6)] / sqrt(g->dim);
    case SHORT:
    case RISING: return short_scale(g->dim);
    /* Products to 900, sums to about 3 * 300 * sqrt(d). */
    case PEAKED:
    case ALIKE: return 8 * short_scale(g->dim);
    default: return 1;
    }
}

attention_case make_case(num_rng *r, const group *g)
{
    static const int ratios[] = {1, 1, 2, 3, 5, 7, 4};
    attention_case c = {.group = g, .input = any_input(r, g)};
    c.batch = num_between(r, 1, 3);
    c.heads = num_between(r, 1, 3);
    c.ratio = ratios[num_below(r, 7)];
    while (c.batch * c.heads * c.ratio > 9)
        c.batch > 1 ? c.batch-- : c.heads > 1 ? c.heads-- : c.ratio--;
    c.m = any_length(r);
    c.n = any_length(r);
    if (num_below(r, 40) == 0)
        c.n = 0;
    if (num_below(r, 60) == 0)
        c.m = 0;
    c.scale = any_scale(r, g, c.input);
    for (int i = 0; i < 4; i++)
        c.layouts[i] = num_below(r, 2) ? 0 : num_below(r, NLAYOUTS);
    /* Weights much larger than 1, or small: sums of bf16 have room for
     * some of that. */
    if (c.input == RISING && g->type == NUM_BF16)
        c.power = 70 * num_between(r, -1, 1);
    c.shared = num_below(r, 8) == 0;
    c.reversed = num_below(r, 8) == 0;
    return c;
}

void describe_case(const attention_case *c, char text[512])
{
    const group *g = c->group;
    snprintf(text, 512,
             "%s d=%d dv=%d mask=%s score=%s b=%d h=%dx%d m=%d n=%d scale=%g "
             "input=%s v=2^%d q=%s k=%s v=%s o=%s%s%s",
             num_name(g->type), g->dim, g->value_dim,
             g->mask->expression ? g->mask->expression : "none",
             g->score->expression ? g->score->expression : "none", c->batch,
             c->heads, c->ratio, c->m, c->n, c->scale, input_names[c->input],
             c->power, layouts[c->layouts[0]].name, layouts[c->layouts[1]].name,
             layouts[c->layouts[2]].name, layouts[c->layouts[3]].name,
             c->shared ? " shared" : "", c->reversed ? " reversed" : "");
}

/* Inputs */

/* Small whole numbers by a power of two: exact in every type. */
static double whole_by(num_rng *r, int limit, int exponent)
{
    return ldexp(num_between(r, -limit, limit), exponent);
}

static double any_key(num_rng *r, const attention_case *c)
{
    bool f16 = c->group->type == NUM_F16;
    switch (c->input) {
    case SHORT:
    case RISING: return whole_by(r, 8, -2);
    case PEAKED:
    case ALIKE: return whole_by(r, 30, 0);
    case HUGE_: return whole_by(r, 3, f16 ? 13 : 57);
    case ZEROS: return 0;
    default: return is_short(c->group) ? whole_by(r, 8, -2) : num_normal(r);
    }
}

static void fill(num_tensor *t, num_rng *r, const attention_case *c,
                 double (*any)(num_rng *, const attention_case *))
{
    for (int64_t i = 0, n = num_count(t); i < n; i++)
        num_write(t->type, num_at(t, i), any(r, c));
}

/* All keys of a head become its first one, or multiples of it. */
static void repeat_first(num_tensor *k, bool rising)
{
    int64_t row = k->size[3], n = k->size[2];
    for (int64_t i = 0, count = num_count(k); i < count; i++) {
        int64_t key = i / row % n;
        double first = num_read(k->type, num_at(k, i - key * row));
        num_write(k->type, num_at(k, i),
                  rising ? first * (1 + (double)key / 4) : first);
    }
}

static double any_value(num_rng *r, const attention_case *c)
{
    return ldexp(num_normal(r), c->power);
}

/* What no key beyond the mask may bring in. Keys are poisoned for whole
 * columns of v; a mask by length gets all of its hidden keys poisoned. */
static void poison(num_tensor *v, num_rng *r, int n)
{
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    for (int times = num_between(r, 1, 4); n && times--;) {
        int key = num_below(r, 3) ? n - 1 - num_below(r, (n + 3) / 4)
                                  : num_below(r, n);
        double x = bad[num_below(r, 3)];
        for (int64_t i = 0, count = num_count(v); i < count; i++)
            if (i / v->size[3] % n == key && num_below(r, 4))
                num_write(v->type, num_at(v, i), x);
    }
}

static void poison_hidden(num_tensor *x, const num_tensor *lengths)
{
    int64_t row = x->size[3], n = x->size[2];
    for (int64_t i = 0, count = num_count(x); i < count; i++) {
        int64_t b = i / (row * n * x->size[1]);
        if (i / row % n >= num_read(NUM_I32, num_at(lengths, b)))
            num_write(x->type, num_at(x, i), NAN);
    }
}

num_tensor make_tensor(const attention_case *c, int which, int heads,
                       int length, int dim)
{
    bool keys = which == 1 || which == 2;
    int32_t size[] = {keys && c->shared ? 1 : c->batch, heads, length, dim};
    num_tensor t =
        num_tensor_new(c->group->type, 4, size, &layouts[c->layouts[which]]);
    if (keys && c->shared) {
        t.size[0] = c->batch;
        t.stride[0] = 0;
    }
    if (keys && c->reversed && length) {
        t.data += (length - 1) * t.stride[2] * (int64_t)num_bytes(t.type);
        t.stride[2] = -t.stride[2];
    }
    return t;
}

tensors make_tensors(const attention_case *c, num_rng *r, const mod_data *mods)
{
    const group *g = c->group;
    int heads = c->heads * c->ratio;
    tensors t = {
        make_tensor(c, 0, heads, c->m, g->dim),
        make_tensor(c, 1, c->heads, c->n, g->dim),
        make_tensor(c, 2, c->heads, c->n, g->value_dim),
        make_tensor(c, 3, heads, c->m, g->value_dim),
        num_tensor_new(NUM_F32, 3, (int32_t[]){c->batch, heads, c->m}, NULL)};
    fill(&t.q, r, c, any_key);
    fill(&t.k, r, c, any_key);
    if (c->input == ALIKE || c->input == RISING)
        repeat_first(&t.k, c->input == RISING);
    fill(&t.v, r, c, any_value);
    if (c->input != SPECIAL)
        return t;
    if (g->mask->expression && strstr(g->mask->expression, "short_keys") &&
        !c->shared) {
        poison_hidden(&t.v, &mods->lengths);
        poison_hidden(&t.k, &mods->lengths);
    } else {
        poison(&t.v, r, c->n);
    }
    return t;
}

static double any_sink(num_rng *r, const attention_case *c)
{
    static const double far[] = {-INFINITY, INFINITY, 1e30, -1e30, 3e38, 2e6};
    double near = 2 + 3 * num_normal(r);
    switch (num_below(r, 8)) {
    case 0: return far[num_below(r, sizeof far / sizeof *far)];
    case 1: return 100 * near;
    case 2: return 1e4 * num_normal(r);
    case 3: return 0;
    default: return c->input == HUGE_ ? 1e37 * near : near;
    }
}

num_tensor make_sinks(const attention_case *c, num_rng *r)
{
    num_tensor t =
        num_tensor_new(NUM_F32, 1, (int32_t[]){c->heads * c->ratio}, NULL);
    for (int64_t i = 0; i < num_count(&t); i++)
        num_write(NUM_F32, num_at(&t, i), any_sink(r, c));
    return t;
}

void free_tensors(tensors *t)
{
    num_tensor_free(&t->q);
    num_tensor_free(&t->k);
    num_tensor_free(&t->v);
    num_tensor_free(&t->o);
    num_tensor_free(&t->lse);
}
