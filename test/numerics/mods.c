/* SPDX-License-Identifier: Apache-2.0 */
#include "test/numerics/mods.h"

#include <math.h>
#include <string.h>

const char mods_text[] =
    "// Keys up to a length for each batch.\n"
    "func @short_keys(%b: i32, %h: i32, %q: i32, %k: i32,\n"
    "                 %lengths: tensor<[?] x i32>) -> i1 {\n"
    "  return %k < %lengths[%b]\n"
    "}\n"
    "// Hides keys from the side of the score.\n"
    "func @thirds(%score: f32, %b: i32, %h: i32, %q: i32, %k: i32) -> f32 {\n"
    "  return select(rem(%q + %k + %h, 3) == 0, -inf, %score)\n"
    "}\n";

/* Masks */

static int element(const num_tensor *t, int i)
{
    return (int)num_read(t->type, num_at(t, i));
}

static bool causal(const ref_position *at)
{
    return at->q >= at->k;
}

static bool bottom_right(const ref_position *at)
{
    return at->k_len - at->k >= at->q_len - at->q;
}

static bool window(const ref_position *at)
{
    const mod_data *d = at->data;
    return at->k > at->q - d->w && at->k <= at->q;
}

static bool local(const ref_position *at)
{
    const mod_data *d = at->data;
    return at->k >= at->q - d->left && at->k <= at->q + d->right;
}

static bool prefix(const ref_position *at)
{
    const mod_data *d = at->data;
    return causal(at) || at->k < d->prefix;
}

static bool prefix_batch(const ref_position *at)
{
    const mod_data *d = at->data;
    return causal(at) || at->k < element(&d->prefixes, at->b);
}

static int document_of(const mod_data *d, int position)
{
    int n = 0;
    for (int i = 0; i < d->offsets.size[0]; i++)
        n += element(&d->offsets, i) <= position;
    return n;
}

static bool document(const ref_position *at)
{
    return document_of(at->data, at->q) == document_of(at->data, at->k);
}

static bool ids(const ref_position *at)
{
    const mod_data *d = at->data;
    return element(&d->ids, at->q) == element(&d->ids, at->k);
}

static bool short_keys(const ref_position *at)
{
    const mod_data *d = at->data;
    return at->k < element(&d->lengths, at->b);
}

static bool not_causal(const ref_position *at)
{
    return !causal(at);
}

static bool causal_document(const ref_position *at)
{
    return causal(at) && document(at);
}

static bool causal_elsewhere(const ref_position *at)
{
    return causal(at) && !document(at);
}

static bool window_or_prefix(const ref_position *at)
{
    return window(at) || (prefix(at) && !bottom_right(at));
}

static bool short_causal(const ref_position *at)
{
    return bottom_right(at) && short_keys(at);
}

const mask_case masks[] = {
    {NULL, NULL},
    {"causal", causal},
    {"causal_bottom_right", bottom_right},
    {"sliding_window", window},
    {"local_window", local},
    {"prefix_lm", prefix},
    {"prefix_lm_batch", prefix_batch},
    {"document", document},
    {"document_ids", ids},
    {"short_keys", short_keys},
    {"!causal", not_causal},
    {"causal & document", causal_document},
    {"causal & !document", causal_elsewhere},
    {"sliding_window | (prefix_lm & !causal_bottom_right)", window_or_prefix},
    {"causal_bottom_right & short_keys", short_causal},
};
const int nmasks = sizeof masks / sizeof *masks;

/* Scores */

static double read_at(const num_tensor *t, int64_t i)
{
    return num_read(t->type, num_at(t, i));
}

static double alibi(double score, const ref_position *at)
{
    const mod_data *d = at->data;
    return score - read_at(&d->slopes, at->h) * (at->q - at->k);
}

static double soft_cap(double score, const ref_position *at)
{
    const mod_data *d = at->data;
    return tanh(score / d->cap) * d->cap;
}

static double relative(double score, const ref_position *at)
{
    return score + at->q - at->k;
}

static double relative_table(double score, const ref_position *at)
{
    const mod_data *d = at->data;
    int width = d->table.size[1];
    int column = at->k - at->q + width / 2;
    column = column < 0 ? 0 : column >= width ? width - 1 : column;
    return score + read_at(&d->table, (int64_t)at->h * width + column);
}

static double head_bias(double score, const ref_position *at)
{
    const mod_data *d = at->data;
    return score + read_at(&d->bias, at->h);
}

static double capped_alibi(double score, const ref_position *at)
{
    return soft_cap(alibi(score, at), at);
}

static double thirds(double score, const ref_position *at)
{
    return (at->q + at->k + at->h) % 3 == 0 ? -INFINITY : score;
}

const score_case scores[] = {
    {NULL, NULL, true, false},
    {"alibi", alibi, false, false},
    {"soft_cap", soft_cap, true, false},
    {"relative_bias", relative, false, true},
    {"relative_bias_table", relative_table, false, false},
    {"head_bias", head_bias, false, false},
    {"alibi, soft_cap", capped_alibi, false, false},
    {"thirds", thirds, true, false},
};
const int nscores = sizeof scores / sizeof *scores;

/* Captured values. All floats are short binary fractions, so that adding them
 * to a whole score does not round. */

static num_tensor vector(num_type type, int n)
{
    return num_tensor_new(type, 1, (int32_t[]){n}, NULL);
}

static void set(num_tensor *t, int64_t i, double x)
{
    num_write(t->type, num_at(t, i), x);
}

void mod_data_init(mod_data *d, num_rng *r, int batch, int heads, int m, int n)
{
    int longest = m > n ? m : n;
    d->w = num_between(r, 1, longest + 2);
    d->left = num_between(r, 0, n + 2);
    d->right = num_between(r, 0, n + 2);
    d->prefix = num_between(r, 0, n + 1);
    d->cap = num_between(r, 4, 200) / 4.0;
    d->prefixes = vector(NUM_I32, batch);
    d->lengths = vector(NUM_I32, batch);
    for (int b = 0; b < batch; b++) {
        set(&d->prefixes, b, num_between(r, 0, n));
        set(&d->lengths, b, num_between(r, 0, 3) ? num_between(r, 0, n) : 0);
    }
    d->offsets = vector(NUM_I32, num_between(r, 1, 6));
    for (int i = 0, at = 0; i < d->offsets.size[0]; i++) {
        set(&d->offsets, i, at);
        at += num_between(r, 0, longest / 2 + 1);
    }
    d->ids = vector(NUM_I32, longest + 1);
    for (int i = 0; i <= longest; i++)
        set(&d->ids, i, num_below(r, 3));
    d->slopes = vector(NUM_F32, heads);
    d->bias = vector(NUM_F32, heads);
    d->table = num_tensor_new(NUM_F32, 2,
                              (int32_t[]){heads, num_between(r, 1, 65)}, NULL);
    for (int h = 0; h < heads; h++) {
        set(&d->slopes, h, ldexp(1, -num_between(r, 5, 9)));
        set(&d->bias, h, num_between(r, -32, 32) / 16.0);
    }
    for (int64_t i = 0; i < num_count(&d->table); i++)
        set(&d->table, i, num_between(r, -32, 32) / 16.0);
}

void mod_data_free(mod_data *d)
{
    num_tensor *all[] = {&d->prefixes, &d->offsets, &d->ids,  &d->lengths,
                         &d->slopes,   &d->bias,    &d->table};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        num_tensor_free(all[i]);
}

static const num_tensor *tensor_named(const mod_data *d, const char *name)
{
    const struct {
        const char *name;
        const num_tensor *tensor;
    } tensors[] = {{"prefixes", &d->prefixes}, {"offsets", &d->offsets},
                   {"ids", &d->ids},           {"lengths", &d->lengths},
                   {"slopes", &d->slopes},     {"bias", &d->bias},
                   {"table", &d->table}};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        if (strcmp(tensors[i].name, name) == 0)
            return tensors[i].tensor;
    return NULL;
}

static int int_named(const mod_data *d, const char *name)
{
    const struct {
        const char *name;
        int value;
    } ints[] = {{"w", d->w},
                {"left", d->left},
                {"right", d->right},
                {"prefix", d->prefix}};
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++)
        if (strcmp(ints[i].name, name) == 0)
            return ints[i].value;
    return 0;
}

size_t mod_arguments(const mod_data *d, const tilec_kernel *k,
                     tilec_argument *args, run_view *views)
{
    const tilec_parameter *p;
    size_t n = 0;
    for (size_t i = 0; (p = tilec_kernel_parameter(k, i)); i++) {
        if (!p->captured)
            continue;
        const char *dot = strrchr(p->name, '.');
        const char *name = dot ? dot + 1 : p->name;
        const num_tensor *t = tensor_named(d, name);
        if (t)
            args[n] = tilec_tensor(p->name, run_view_of(&views[n], t));
        else if (p->kind == TILEC_PARAM_FLOAT)
            args[n] = tilec_float(p->name, d->cap);
        else
            args[n] = tilec_int(p->name, int_named(d, name));
        n++;
    }
    return n;
}
