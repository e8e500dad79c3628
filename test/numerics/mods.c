/* SPDX-License-Identifier: Apache-2.0 */
#include "test/numerics/mods.h"

#include <math.h>
#include <stdlib.h>
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

static bool causal_from(const ref_position *at)
{
    const mod_data *d = at->data;
    int i = at->b < d->offset.size[0] ? at->b : d->offset.size[0] - 1;
    return at->k - at->q <= element(&d->offset, i);
}

static bool valid_from(const ref_position *at)
{
    const mod_data *d = at->data;
    return at->k >= element(&d->prefixes, at->b);
}

static bool local_right(const ref_position *at)
{
    const mod_data *d = at->data;
    int from_last = (at->k_len - at->k) - (at->q_len - at->q);
    return from_last <= d->left && -from_last <= d->right;
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

static bool dilated(const ref_position *at)
{
    const mod_data *d = at->data;
    int away = abs(at->q - at->k);
    return away <= d->w && away % d->d == 0;
}

static bool sink_window(const ref_position *at)
{
    const mod_data *d = at->data;
    return window(at) || (causal(at) && at->k < d->sink);
}

static bool global_window(const ref_position *at)
{
    const mod_data *d = at->data;
    return abs(at->q - at->k) <= d->w || at->q < d->length || at->k < d->length;
}

static bool global_positions(const ref_position *at)
{
    const mod_data *d = at->data;
    return element(&d->global, at->q) || element(&d->global, at->k);
}

static bool chunked(const ref_position *at)
{
    const mod_data *d = at->data;
    return causal(at) && at->k >= at->q - at->q % d->c;
}

static bool shared_prefix(const ref_position *at)
{
    const mod_data *d = at->data;
    int of_q = document_of(d, at->q) - 1, of_k = document_of(d, at->k) - 1;
    int continues = element(&d->prefix_of, of_q);
    if (of_k == of_q)
        return causal(at);
    return of_k == continues;
}

static bool tree(const ref_position *at)
{
    const mod_data *d = at->data;
    return causal(at) && at->q < element(&d->ends, at->k);
}

static bool tree_ancestors(const ref_position *at)
{
    const mod_data *d = at->data;
    int node = at->k - d->prefix, nodes = d->ancestors.size[1];
    return node < 0 ||
           (node < nodes && element(&d->ancestors, at->q * nodes + node));
}

static bool draft_blocks(const ref_position *at)
{
    const mod_data *d = at->data;
    int node = at->k - d->prefix, start = at->q - at->q % d->c;
    return node < 0 || (node >= start && node <= at->q);
}

static bool block_diffusion(const ref_position *at)
{
    const mod_data *d = at->data;
    bool noised_q = at->q < d->length, noised_k = at->k < d->length;
    int q = (noised_q ? at->q : at->q - d->length) / d->c;
    int k = (noised_k ? at->k : at->k - d->length) / d->c;
    if (noised_q)
        return noised_k ? q == k : k < q;
    return !noised_k && k <= q;
}

static bool vision_cross(const ref_position *at)
{
    const mod_data *d = at->data;
    int image = at->k / d->tokens, n = d->intervals.size[0];
    int from = image < n ? element(&d->intervals, 2 * image) : 0;
    int to = image < n ? element(&d->intervals, 2 * image + 1) : 0;
    return at->q >= from && at->q < to;
}

static int clamped(int x, int low, int high)
{
    x = x > low ? x : low;
    return x < high ? x : high;
}

static bool is_near(int x, int c, int size, int count)
{
    return abs(x - clamped(c, size / 2, count - 1 - size / 2)) <= size / 2;
}

static bool natten_at(const mod_data *d, const int q[2], const int k[2])
{
    return is_near(k[0], q[0], d->kernel_width, d->width) &&
           is_near(k[1], q[1], d->kernel_height, d->height);
}

static bool natten(const ref_position *at)
{
    const mod_data *d = at->data;
    int q[] = {at->q % d->width, at->q / d->width};
    int k[] = {at->k % d->width, at->k / d->width};
    return natten_at(d, q, k);
}

/* Where the image is stored tile by tile. */
static void in_tiles(const mod_data *d, int at, int xy[2])
{
    int area = d->tile_width * d->tile_height,
        across = d->width / d->tile_width;
    int tile = at / area, within = at % area;
    xy[0] = tile % across * d->tile_width + within % d->tile_width;
    xy[1] = tile / across * d->tile_height + within / d->tile_width;
}

static bool tiled_natten(const ref_position *at)
{
    int q[2], k[2];
    in_tiles(at->data, at->q, q);
    in_tiles(at->data, at->k, k);
    return natten_at(at->data, q, k);
}

static void in_morton_order(int at, int xy[2])
{
    xy[0] = xy[1] = 0;
    for (int bit = 0; bit < 32; bit++)
        xy[bit % 2] |= (int)((unsigned)at >> bit & 1) << bit / 2;
}

static bool morton_natten(const ref_position *at)
{
    int q[2], k[2];
    in_morton_order(at->q, q);
    in_morton_order(at->k, k);
    return natten_at(at->data, q, k);
}

static bool is_tile_near(int x, int c, int size, int count)
{
    int left = size / 2, right = size % 2 ? left : left - 1;
    c = clamped(c, left, count - 1 - right);
    return x >= c - left && x <= c + right;
}

static bool sliding_tiles(const ref_position *at)
{
    const mod_data *d = at->data;
    int end = d->area * d->columns * d->rows;
    int q = at->q / d->area, k = at->k / d->area;
    return at->q >= end || at->k >= end ||
           (is_tile_near(k / d->columns, q / d->columns, d->kernel_height,
                         d->rows) &&
            is_tile_near(k % d->columns, q % d->columns, d->kernel_width,
                         d->columns));
}

static bool sliding_tiles_3d(const ref_position *at)
{
    const mod_data *d = at->data;
    int layer = d->columns * d->rows, end = d->area * layer * d->layers;
    int q = at->q / d->area, k = at->k / d->area;
    return at->q >= end || at->k >= end ||
           (is_tile_near(k / layer, q / layer, d->sink + 1, d->layers) &&
            is_tile_near(k % layer / d->columns, q % layer / d->columns,
                         d->kernel_height, d->rows) &&
            is_tile_near(k % d->columns, q % d->columns, d->kernel_width,
                         d->columns));
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

/* The sequence of a position, -1: none; and where it ends. */
static int sequence_of(const num_tensor *starts, int position, int *end)
{
    for (int i = 0; i + 1 < starts->size[0]; i++) {
        *end = element(starts, i + 1);
        if (position >= element(starts, i) && position < *end)
            return i;
    }
    return -1;
}

static bool packed(const ref_position *at)
{
    const mod_data *d = at->data;
    int q_end, k_end;
    int i = sequence_of(&d->q_starts, at->q, &q_end);
    return i >= 0 && i == sequence_of(&d->k_starts, at->k, &k_end);
}

static bool packed_local(const ref_position *at)
{
    const mod_data *d = at->data;
    int q_end, k_end;
    int i = sequence_of(&d->q_starts, at->q, &q_end);
    if (i < 0 || i != sequence_of(&d->k_starts, at->k, &k_end))
        return false;
    int from_last = (k_end - at->k) - (q_end - at->q);
    return from_last <= d->left && -from_last <= d->right;
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
    {"dilated_sliding_window", dilated},
    {"sink_window", sink_window},
    {"global_sliding_window", global_window},
    {"global_positions", global_positions},
    {"chunked_causal", chunked},
    {"document_causal", causal_document},
    {"shared_prefix", shared_prefix},
    {"tree", tree},
    {"tree_ancestors", tree_ancestors},
    {"draft_blocks", draft_blocks},
    {"block_diffusion", block_diffusion},
    {"vision_cross", vision_cross},
    {"natten", natten},
    {"tiled_natten", tiled_natten},
    {"morton_natten", morton_natten},
    {"sliding_tiles", sliding_tiles},
    {"sliding_tiles_3d", sliding_tiles_3d},
    {"causal_from", causal_from},
    {"padding", short_keys},
    {"valid_from", valid_from},
    {"local_window_bottom_right", local_right},
    {"packed", packed},
    {"packed_local", packed_local},
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

static double row_bias(double score, const ref_position *at)
{
    const mod_data *d = at->data;
    return score + read_at(&d->row_bias, at->q);
}

static double column_bias(double score, const ref_position *at)
{
    const mod_data *d = at->data;
    return score + read_at(&d->column_bias, at->k);
}

static double pair_bias(double score, const ref_position *at)
{
    const mod_data *d = at->data;
    int64_t m = d->pair_bias.size[1], n = d->pair_bias.size[2];
    return score + read_at(&d->pair_bias, (at->h * m + at->q) * n + at->k);
}

static double head_scale(double score, const ref_position *at)
{
    const mod_data *d = at->data;
    return score * read_at(&d->scales, at->h);
}

const score_case scores[] = {
    {NULL, NULL, true, false},
    {"alibi", alibi, false, false},
    {"soft_cap", soft_cap, true, false},
    {"relative_bias", relative, false, true},
    {"relative_bias_table", relative_table, false, false},
    {"head_bias", head_bias, false, false},
    {"row_bias", row_bias, false, false},
    {"column_bias", column_bias, false, false},
    {"pair_bias", pair_bias, false, false},
    {"head_scale", head_scale, true, false},
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

/* Multiples of 1/16 up to 2. */
static void set_biases(num_tensor *t, num_rng *r)
{
    for (int64_t i = 0, n = num_count(t); i < n; i++)
        set(t, i, num_between(r, -32, 32) / 16.0);
}

/* Sizes of images, which need not be as large as the lengths. */
static void init_images(mod_data *d, num_rng *r)
{
    d->tile_width = 1 << num_below(r, 3);
    d->tile_height = 1 << num_below(r, 3);
    d->width = d->tile_width * num_between(r, 1, 8);
    d->height = d->tile_height * num_between(r, 1, 8);
    d->kernel_width = num_between(r, 1, 5);
    d->kernel_height = num_between(r, 1, 5);
    d->area = num_between(r, 1, 12);
    d->columns = num_between(r, 1, 7);
    d->rows = num_between(r, 1, 5);
    d->layers = num_between(r, 1, 4);
    d->tokens = num_between(r, 1, 40);
}

/* A tree in depth-first order, of any shape. */
static void init_tree(mod_data *d, num_rng *r, int nodes, int m)
{
    d->ends = vector(NUM_I32, nodes);
    for (int i = nodes - 1; i >= 0; i--) {
        int end = i + 1; /* the next node, and what follows its descendants */
        while (end < nodes && num_below(r, 3))
            end = element(&d->ends, end);
        set(&d->ends, i, end);
    }
    d->ancestors = num_tensor_new(NUM_I8, 2, (int32_t[]){m, nodes}, NULL);
    for (int64_t i = 0, n = num_count(&d->ancestors); i < n; i++)
        set(&d->ancestors, i, num_below(r, 2));
}

static void init_lists(mod_data *d, num_rng *r, int longest)
{
    d->global = vector(NUM_I8, longest + 1);
    for (int i = 0; i <= longest; i++)
        set(&d->global, i, num_below(r, 12) == 0);
    int documents = d->offsets.size[0];
    d->prefix_of = vector(NUM_I32, documents);
    for (int i = 0; i < documents; i++)
        set(&d->prefix_of, i, num_between(r, 0, i));
    int images = num_between(r, 1, 8);
    d->intervals = num_tensor_new(NUM_I32, 2, (int32_t[]){images, 2}, NULL);
    for (int i = 0; i < images; i++) {
        int from = num_between(r, 0, longest);
        set(&d->intervals, 2 * i, from);
        set(&d->intervals, 2 * i + 1, num_between(r, from, longest + 1));
    }
}

/* As many sequences of queries as of keys, empty ones too; all positions. */
static void init_packed(mod_data *d, num_rng *r, int m, int n)
{
    int sequences = num_between(r, 1, 6);
    num_tensor *starts[] = {&d->q_starts, &d->k_starts};
    for (int s = 0; s < 2; s++) {
        int length = s ? n : m, at = 0;
        *starts[s] = vector(NUM_I32, sequences + 1);
        for (int i = 0; i <= sequences; i++) {
            set(starts[s], i, at);
            at = i == sequences - 1 ? length : num_between(r, at, length);
        }
    }
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
    set_biases(&d->table, r);
    d->d = num_between(r, 1, 9);
    d->sink = num_between(r, 0, 5);
    d->length = num_between(r, 0, n);
    d->c = num_between(r, 1, 100);
    init_images(d, r);
    init_tree(d, r, n, m);
    init_lists(d, r, longest);
    d->row_bias = vector(NUM_F32, m);
    d->column_bias = vector(NUM_F32, n);
    d->pair_bias = num_tensor_new(NUM_F32, 3, (int32_t[]){heads, m, n}, NULL);
    set_biases(&d->row_bias, r);
    set_biases(&d->column_bias, r);
    set_biases(&d->pair_bias, r);
    d->scales = vector(NUM_F32, heads);
    for (int h = 0; h < heads; h++)
        set(&d->scales, h, ldexp(1, num_between(r, -3, 1)));
    d->offset = vector(NUM_I32, num_below(r, 2) ? batch : 1);
    for (int i = 0; i < d->offset.size[0]; i++)
        set(&d->offset, i, num_between(r, -n, n));
    init_packed(d, r, m, n);
}

void mod_data_free(mod_data *d)
{
    num_tensor *all[] = {
        &d->prefixes, &d->offsets,   &d->ids,         &d->lengths,
        &d->slopes,   &d->bias,      &d->table,       &d->prefix_of,
        &d->ends,     &d->intervals, &d->global,      &d->ancestors,
        &d->scales,   &d->row_bias,  &d->column_bias, &d->pair_bias,
        &d->offset,   &d->q_starts,  &d->k_starts};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        num_tensor_free(all[i]);
}

const num_tensor *mod_tensor(const mod_data *d, const char *name)
{
    const struct {
        const char *name;
        const num_tensor *tensor;
    } tensors[] = {
        {"prefixes", &d->prefixes},   {"starts", &d->prefixes},
        {"lens", &d->lengths},        {"offset", &d->offset},
        {"q_starts", &d->q_starts},   {"k_starts", &d->k_starts},
        {"offsets", &d->offsets},     {"ids", &d->ids},
        {"lengths", &d->lengths},     {"slopes", &d->slopes},
        {"bias", &d->bias},           {"table", &d->table},
        {"prefix_of", &d->prefix_of}, {"ends", &d->ends},
        {"intervals", &d->intervals}, {"is_global", &d->global},
        {"ancestors", &d->ancestors}, {"scales", &d->scales},
        {"row_bias", &d->row_bias},   {"column_bias", &d->column_bias},
        {"pair_bias", &d->pair_bias}};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        if (strcmp(tensors[i].name, name) == 0)
            return tensors[i].tensor;
    return NULL;
}

int mod_int(const mod_data *d, const char *name)
{
    const struct {
        const char *name;
        int value;
    } ints[] = {{"w", d->w},
                {"left", d->left},
                {"right", d->right},
                {"prefix", d->prefix},
                {"d", d->d},
                {"sink", d->sink},
                {"length", d->length},
                {"c", d->c},
                {"tokens", d->tokens},
                {"width", d->width},
                {"height", d->height},
                {"kernel_width", d->kernel_width},
                {"kernel_height", d->kernel_height},
                {"tile_width", d->tile_width},
                {"tile_height", d->tile_height},
                {"area", d->area},
                {"columns", d->columns},
                {"rows", d->rows},
                {"layers", d->layers},
                {"kernel_layers", d->sink + 1},
                {"kernel_columns", d->kernel_width},
                {"kernel_rows", d->kernel_height},
                {"global", d->length}};
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++)
        if (strcmp(ints[i].name, name) == 0)
            return ints[i].value;
    return 0;
}

static bool is_of_a_mod(const tilec_parameter *p)
{
    return p->captured && strncmp(p->name, "sink.", 5) != 0 &&
           strncmp(p->name, "descale_", 8) != 0 &&
           strncmp(p->name, "key_place.", 10) != 0 &&
           strncmp(p->name, "query_position.", 15) != 0;
}

size_t mod_arguments(const mod_data *d, const tilec_kernel *k,
                     tilec_argument *args, run_view *views)
{
    const tilec_parameter *p;
    size_t n = 0;
    for (size_t i = 0; (p = tilec_kernel_parameter(k, i)); i++) {
        if (!is_of_a_mod(p))
            continue;
        const char *dot = strrchr(p->name, '.');
        const char *name = dot ? dot + 1 : p->name;
        const num_tensor *t = mod_tensor(d, name);
        if (t)
            args[n] = tilec_tensor(p->name, run_view_of(&views[n], t));
        else if (p->kind == TILEC_PARAM_FLOAT)
            args[n] = tilec_float(p->name, d->cap);
        else
            args[n] = tilec_int(p->name, mod_int(d, name));
        n++;
    }
    return n;
}
