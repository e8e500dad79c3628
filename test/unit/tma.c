/* SPDX-License-Identifier: Apache-2.0
 *
 * TMA copies against a model of the hardware: every byte that the copies of a
 * window write must be the one that the buffer's layout has there.
 */
#include "passes/instructions/tma.h"
#include "test/unit/fixture/fixture.h"
#include "test/unit/run.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static tc_module *module;

static void setup(void)
{
    fixture_setup();
    module = tc_module_new(cx);
}

static void teardown(void)
{
    tc_module_free(module);
    fixture_teardown();
}

/* A window of a tensor, a buffer for it. */
typedef struct sample {
    const char *tensor;  /* its type */
    const char *window;  /* what stands between the brackets */
    const char *buffer;  /* its type */
    unsigned swizzle;    /* expected; */
    const char *box;     /* dims with blanks between; */
    unsigned ncopies;    /* 0: none, because of */
    const char *refused; /* a part of the reason */
} sample;

static bool bulk_copy(const sample *s, const char *aligned, tc_tma *t,
                      const tc_type **buffer, const char **why)
{
    const char *text =
        tc_arena_printf(&cx->arena,
                        "kernel @k(%%i: i32, %%x: %s) %s warps(4) grid(1) {\n"
                        "  %%w = block %%x[%s]\n"
                        "  %%s = smem_alloc : %s\n}",
                        s->tensor, aligned, s->window, s->buffer);
    tc_module_free(module);
    module = fixture_parse(text);
    tc_region *body = module->last->body;
    *buffer = fixture_op(body, TC_SMEM_ALLOC)->out[0]->type;
    return tc_tma_of(fixture_op(body, TC_BLOCK)->out[0], *buffer, t, why);
}

/* ---- The hardware ---- */

/* The dims of the tensor that are the tile's axes. */
static unsigned axes_of(const tc_type *buffer, const char *window,
                        unsigned dims[TC_MAX_RANK])
{
    char text[200], *rest = text;
    strcpy(text, window);
    unsigned n = 0, dim = 0;
    for (char *part; (part = strsep(&rest, ",")); dim++)
        if (strstr(part, "+:"))
            dims[n++] = dim;
    ck_assert_uint_eq(n, buffer->rank);
    return dim;
}

static uint32_t swizzled(uint32_t byte, unsigned swizzle)
{
    uint32_t chunks = swizzle ? swizzle / 16 - 1 : 0;
    return byte ^ (byte >> 7 & chunks) << 4;
}

/* What the element at this offset of the tile is called. */
static uint32_t name_of(const tc_type *t, const int32_t *coord)
{
    uint32_t name = 0;
    int32_t sides[TC_MAX_RANK];
    tc_type_sides(t, sides);
    for (unsigned i = 0; i < t->rank; i++)
        name = name * (uint32_t)sides[i] + (uint32_t)coord[i];
    return name;
}

/* As ck_assert, which makes a system call each time. */
#define EACH(x)                                                                \
    do {                                                                       \
        if (!(x))                                                              \
            ck_abort_msg("%s", #x);                                            \
    } while (0)

/* Which row along the dim that is taken apart comes as the i-th one. */
static int32_t row_apart(const tc_tma *t, uint32_t i)
{
    uint32_t row = 0;
    for (unsigned k = 0; k < t->nparts; k++) {
        row += i % t->parts[k].count * t->parts[k].step;
        i /= t->parts[k].count;
    }
    return (int32_t)row;
}

/* One box: densely, the contiguous dim fastest, then the others from the last
 * one on, addresses xored. memory[i]: the name
 * of element i of the buffer, plus 1. */
static void copy_box(const tc_tma *t, unsigned i, const tc_type *buffer,
                     const unsigned *dims, uint32_t *memory)
{
    unsigned bytes = tc_type_bytes(buffer->elem);
    uint32_t n = 1;
    for (unsigned k = 0; k < t->rank; k++)
        n *= t->box[k];
    ck_assert_uint_eq(t->copies[i].byte % (t->swizzle ? 8 * t->swizzle : 128),
                      0);
    for (uint32_t e = 0; e < n; e++) {
        int32_t at[TC_MAX_RANK] = {0}, coord[TC_MAX_RANK];
        uint32_t rest = e / t->box[t->contiguous];
        at[t->contiguous] = t->copies[i].at[t->contiguous] +
                            (int32_t)(e % t->box[t->contiguous]);
        for (unsigned k = t->rank; k-- > 0;) {
            if (k == t->contiguous)
                continue;
            at[k] = t->copies[i].at[k] + (int32_t)(rest % t->box[k]);
            if (t->nparts && k == t->apart)
                at[k] = t->copies[i].at[k] + row_apart(t, rest % t->box[k]);
            rest /= t->box[k];
        }
        for (unsigned k = 0; k < buffer->rank; k++) {
            coord[k] = at[dims[k]];
            at[dims[k]] = 0;
        }
        for (unsigned k = 0; k < t->rank; k++)
            EACH(at[k] == 0); /* the other dims have one element */
        uint32_t byte = swizzled(t->copies[i].byte + e * bytes, t->swizzle);
        EACH(memory[byte / bytes] == 0);
        memory[byte / bytes] = name_of(buffer, coord) + 1;
    }
}

static void check_copies(const sample *s, const tc_tma *t,
                         const tc_type *buffer)
{
    unsigned dims[TC_MAX_RANK] = {0}, bytes = tc_type_bytes(buffer->elem);
    ck_assert_uint_eq(axes_of(buffer, s->window, dims), t->rank);
    uint32_t n = tc_layout_size(buffer->layout, TC_OFFSET);
    ck_assert_uint_eq(t->bytes, n * bytes);
    uint32_t *memory = calloc(n, sizeof *memory);
    ck_assert_ptr_nonnull(memory);
    for (unsigned i = 0; i < t->ncopies; i++)
        copy_box(t, i, buffer, dims, memory);
    for (uint32_t offset = 0; offset < n; offset++) {
        int32_t coord[TC_MAX_RANK];
        tc_layout_apply(buffer->layout,
                        (uint32_t[TC_INPUT_COUNT]){[TC_OFFSET] = offset},
                        coord);
        EACH(memory[offset] == name_of(buffer, coord) + 1);
    }
    free(memory);
}

/* The copies of all groups, as those of the first one. */
static void spread(tc_tma *t, unsigned groups)
{
    unsigned n = t->ncopies;
    for (unsigned i = n; i < n * groups; i++) {
        struct tc_tma_copy *c = &t->copies[i];
        *c = t->copies[i - n];
        c->at[t->group_dim] += t->group_at;
        c->byte += t->group_byte;
    }
    t->ncopies = n * groups;
}

static void check_limits(const tc_tma *t, const tc_type *buffer)
{
    uint32_t row = t->box[t->contiguous] * tc_type_bytes(buffer->elem);
    ck_assert_uint_eq(row % 16, 0);
    ck_assert(!t->swizzle || row <= t->swizzle);
    for (unsigned i = 0; i < t->rank; i++)
        ck_assert(t->box[i] >= 1 && t->box[i] <= TC_TMA_MAX_BOX);
}

/* ---- Samples ---- */

#define MATRIX "tensor<[?, ?] x bf16>"
#define TURNED "tensor<[?, ?, ?, ?] x f8e4m3, contiguous(2)>"
#define HEADS  "tensor<[?, ?, ?, ?] x bf16>"

static const sample samples[] = {
    {MATRIX, "%i +: 64, 0 +: 64", "smem<64x64 x bf16, #swizzle128>", 128,
     "64 64", 1, NULL},
    {MATRIX, "%i +: 128, 0 +: 256", "smem<128x256 x bf16, #swizzle128>", 128,
     "128 64", 4, NULL},
    {MATRIX, "%i +: 176, 0 +: 128", "smem<176x128 x bf16, #swizzle128, 2>", 128,
     "176 64", 2, NULL},
    {MATRIX, "%i +: 80, 0 +: 96", "smem<80x96 x bf16, #swizzle64>", 64, "80 32",
     3, NULL},
    {MATRIX, "%i +: 80, 0 +: 80", "smem<80x80 x bf16, #swizzle32>", 32, "80 16",
     5, NULL},
    {MATRIX, "%i +: 64, 0 +: 64", "smem<64x64 x bf16, #swizzle32>", 32, "64 16",
     4, NULL},
    /* Sides above 256. */
    {MATRIX, "%i +: 512, 0 +: 64", "smem<512x64 x bf16, #swizzle128>", 128,
     "256 64", 2, NULL},
    {MATRIX, "%i +: 384, 0 +: 128", "smem<384x128 x bf16, #swizzle128>", 128,
     "192 64", 4, NULL},
    {MATRIX, "%i +: 264, 0 +: 64", "smem<264x64 x bf16, #swizzle128>", 128, "",
     0, "each must start at a multiple of 1024"},
    /* No swizzle: whole rows. */
    {MATRIX, "%i +: 24, 0 +: 128", "smem<24x128 x bf16, #rows>", 0, "24 128", 1,
     NULL},
    {MATRIX, "%i +: 8, 0 +: 512", "smem<8x512 x bf16, #rows>", 0, "1 256", 16,
     NULL},
    {MATRIX, "%i +: 64, 0 +: 512", "smem<64x512 x bf16, #rows>", 0, "", 0,
     "128 copies of 512 bytes"},
    /* Dims of one element. */
    {HEADS, "%i, 1, 2 +: 128, 0 +: 128", "smem<128x128 x bf16, #swizzle128>",
     128, "1 1 128 64", 2, NULL},
    {HEADS, "%i, 2 +: 128, 1, 0 +: 64", "smem<128x64 x bf16, #swizzle128>", 128,
     "1 128 1 64", 1, NULL},
    {HEADS, "%i +: 8, 1, 2 +: 32, 0 +: 128",
     "smem<8x32x128 x bf16, #swizzle128>", 128, "8 1 32 64", 2, NULL},
    {HEADS, "%i +: 8, 0, 2 +: 512, 0 +: 64",
     "smem<8x512x64 x bf16, #swizzle128>", 128, "1 1 256 64", 16, NULL},
    {HEADS, "%i +: 8, 0, 2 +: 24, 0 +: 64", "smem<8x24x64 x bf16, #swizzle128>",
     128, "8 1 24 64", 1, NULL},
    {HEADS, "%i +: 1, 0, 2 +: 64, 0 +: 64", "smem<1x64x64 x bf16, #swizzle128>",
     128, "1 1 64 64", 1, NULL},
    {"tensor<[?, ?, ?] x f32>", "%i, 0, 8 +: 128", "smem<128 x f32, #rows>", 0,
     "1 1 128", 1, NULL},
    {"tensor<[?] x f32>", "%i +: 512", "smem<512 x f32, #rows>", 0, "256", 2,
     NULL},
    /* Another dim is the fast one. */
    {TURNED, "1, %i, 0 +: 128, 0 +: 64",
     "smem<128x64 x f8e4m3, #swizzle128(order(0, 1))>", 128, "1 1 128 64", 1,
     NULL},
    {TURNED, "1, %i, 0 +: 256, 0 +: 64",
     "smem<256x64 x f8e4m3, #swizzle128(order(0, 1))>", 128, "1 1 128 64", 2,
     NULL},
    {TURNED, "1, %i, 0 +: 224, 0 +: 128",
     "smem<224x128 x f8e4m3, #swizzle32(order(0, 1))>", 32, "1 1 32 128", 7,
     NULL},
    {TURNED, "1, %i +: 16, 0 +: 64, 2", "smem<16x64 x f8e4m3, #rows>", 0,
     "1 16 64 1", 1, NULL},
    {TURNED, "1, %i, 0 +: 128, 0 +: 64", "smem<128x64 x f8e4m3, #swizzle64>", 0,
     "", 0,
     "axis 1 of smem<128x64 x f8e4m3, #swizzle64> is the fast one, TMA copies "
     "want the tensor's contiguous dim there, axis 0"},
    {TURNED, "1, %i, 7, 0 +: 64", "smem<64 x f8e4m3, #rows>", 0, "", 0,
     "one element of the contiguous dim of %x"},
    /* Other elements. */
    {"tensor<[?, ?] x f8e4m3>", "%i +: 224, 0 +: 128",
     "smem<224x128 x f8e4m3, #swizzle128>", 128, "224 128", 1, NULL},
    {"tensor<[?, ?] x f8e4m3>", "%i +: 128, 0 +: 256",
     "smem<128x256 x f8e4m3, #swizzle128>", 128, "128 128", 2, NULL},
    {"tensor<[?, ?] x f8e4m3>", "%i +: 128, 0 +: 224",
     "smem<128x224 x f8e4m3, #swizzle32>", 32, "128 32", 7, NULL},
    {"tensor<[?, ?] x f32>", "%i +: 128, 0 +: 64",
     "smem<128x64 x f32, #swizzle128>", 128, "128 32", 2, NULL},
    {"tensor<[?, ?] x f64>", "%i +: 16, 0 +: 16",
     "smem<16x16 x f64, #swizzle128>", 128, "16 16", 1, NULL},
    /* Panels in another order, by the bases. */
    {MATRIX, "%i +: 16, 0 +: 16",
     "smem<16x16 x bf16, #bases(offset [(0,1), (0,2), (0,4), (1,0), (2,0), "
     "(4,0), (0,8), (8,0)])>",
     0, "8 8", 4, NULL},
    /* What no TMA copy does. */
    {MATRIX, "%i +: 64, 0 +: 64",
     "smem<64x64 x bf16, #swizzle128(order(0, 1))>", 0, "", 0, "axis 0 of"},
    {MATRIX, "%i +: 64, 0 +: 64", "smem<64x64 x bf16, #rows(order(0, 1))>", 0,
     "", 0, "axis 0 of"},
    {MATRIX, "%i +: 64, 0 +: 64", "smem<64x64 x bf16, #xor(8, 2, 4)>", 0, "", 0,
     "in no order"},
    {MATRIX, "%i +: 1, 0 +: 128", "smem<1x128 x bf16, #swizzle128>", 0, "", 0,
     "copies of 128 bytes, where each must start at a multiple of 1024"},
    {MATRIX, "%i +: 64, 0", "smem<64 x bf16, #rows>", 0, "", 0,
     "one element of the contiguous dim of %x"},
    {"tensor<[?, ?] x f8e4m3>", "%i +: 64, 0 +: 8",
     "smem<64x8 x f8e4m3, #rows>", 0, "", 0, "8 contiguous bytes"},
    {MATRIX, "%i +: 64, 0 +: 64", "smem<64x32 x bf16, #rows>", 0, "", 0,
     "differ in sides"},
    {"tensor<[?, ?, ?, ?, ?, ?] x bf16>", "%i, 0, 0, 0, 0, 0 +: 64",
     "smem<64 x bf16, #rows>", 0, "", 0, "6 dims, TMA copies go up to 5"},
};
enum { NSAMPLES = sizeof samples / sizeof *samples };

START_TEST(copies_are_what_the_layout_says)
{
    const sample *s = &samples[_i];
    tc_tma t;
    const tc_type *buffer;
    const char *why = NULL;
    bool ok = bulk_copy(s, "aligned(1)", &t, &buffer, &why);
    if (s->refused) {
        ck_assert_msg(!ok, "%s: a TMA copy", s->buffer);
        ck_assert_msg(strstr(why, s->refused), "%s: %s", s->buffer, why);
        return;
    }
    ck_assert_msg(ok, "%s: %s", s->buffer, why);
    tc_text box = {.arena = &cx->arena};
    for (unsigned i = 0; i < t.rank; i++)
        tc_text_printf(&box, "%s%u", i ? " " : "", t.box[i]);
    ck_assert_str_eq(box.data, s->box);
    ck_assert_uint_eq(t.arg, 1);
    ck_assert_uint_eq(t.swizzle, s->swizzle);
    ck_assert_uint_eq(t.ncopies, s->ncopies);
    check_limits(&t, buffer);
    check_copies(s, &t, buffer);
}
END_TEST

/* Together, groups copy what one thread would. */
START_TEST(groups_copy_their_parts)
{
    static const struct {
        sample s; /* its copies: of one group */
        unsigned axis, groups;
    } all[] = {
        {{MATRIX, "%i +: 128, 0 +: 256", "smem<128x256 x bf16, #swizzle128>",
          128, "64 64", 4, NULL},
         0,
         2},
        {{MATRIX, "%i +: 192, 0 +: 64", "smem<192x64 x bf16, #swizzle128>", 128,
          "64 64", 1, NULL},
         0,
         3},
        {{MATRIX, "%i +: 128, 0 +: 80", "smem<128x80 x bf16, #swizzle32>", 32,
          "64 16", 5, NULL},
         0,
         2},
        {{MATRIX, "%i +: 64, 0 +: 256", "smem<64x256 x bf16, #swizzle128>", 128,
          "64 64", 2, NULL},
         1,
         2},
        {{MATRIX, "%i +: 64, 0 +: 64", "smem<64x64 x bf16, #rows>", 0, "64 32",
          1, "128 copies of 64 bytes"},
         1,
         2},
        {{MATRIX, "%i +: 64, 0 +: 64", "smem<64x64 x bf16, #swizzle128>", 0, "",
          0, "rows of 64 bytes in a swizzle of 128"},
         1,
         2},
        {{MATRIX, "%i +: 64, 0 +: 64", "smem<64x64 x bf16, #swizzle128>", 0, "",
          0, "3 warp groups, which do not divide axis 0"},
         0,
         3},
    };
    const sample *s = &all[_i].s;
    tc_tma t;
    const tc_type *buffer;
    const char *why = NULL;
    ck_assert(bulk_copy(s, "aligned(1)", &t, &buffer, &why) || s->refused);
    bool ok = tc_tma_of_groups(fixture_op(module->last->body, TC_BLOCK)->out[0],
                               buffer, all[_i].axis, all[_i].groups, &t, &why);
    if (!ok) {
        ck_assert_msg(s->refused && strstr(why, s->refused), "%s", why);
        return;
    }
    ck_assert_ptr_null(s->refused);
    ck_assert_uint_eq(t.ncopies, s->ncopies);
    spread(&t, all[_i].groups);
    check_limits(&t, buffer);
    check_copies(s, &t, buffer);
}
END_TEST

/* Together, the boxes of windows by index fill the buffer. */
START_TEST(boxes_of_rows)
{
    static const struct {
        sample s; /* its copies: of one box of rows */
        unsigned dim, rows;
    } all[] = {
        {{HEADS, "%i, 0 +: 64, 3, 0 +: 128",
          "smem<64x128 x bf16, #swizzle128, 2>", 128, "1 16 1 64", 2, NULL},
         1,
         16},
        {{HEADS, "%i, 3, 0 +: 64, 0 +: 128", "smem<64x128 x bf16, #swizzle128>",
          128, "1 1 8 64", 2, NULL},
         2,
         8},
        {{HEADS, "%i, 0 +: 32, 3, 0 +: 80", "smem<32x80 x bf16, #swizzle32>",
          32, "1 32 1 16", 5, NULL},
         1,
         32},
        {{"tensor<[?, ?, ?] x f8e4m3>", "%i, 0 +: 64, 0 +: 64",
          "smem<64x64 x f8e4m3, #swizzle64>", 64, "1 32 64", 1, NULL},
         1,
         32},
        {{HEADS, "%i, 0 +: 64, 3, 0 +: 128", "smem<64x128 x bf16, #swizzle128>",
          0, "", 0, "copies of 512 bytes, where each must start at a multiple"},
         1,
         4},
        {{TURNED, "%i, 3, 0 +: 64, 0 +: 32",
          "smem<64x32 x f8e4m3, #swizzle64(order(0, 1))>", 0, "", 0,
          "comes after a dim with a side"},
         3,
         16},
    };
    const sample *s = &all[_i].s;
    tc_tma t;
    const tc_type *buffer;
    const char *why = NULL;
    bulk_copy(s, "aligned(1)", &t, &buffer, &why);
    bool ok = tc_tma_of_rows(fixture_op(module->last->body, TC_BLOCK),
                             all[_i].dim, all[_i].rows, buffer, &t, &why);
    if (!ok) {
        ck_assert_msg(s->refused && strstr(why, s->refused), "%s", why);
        return;
    }
    ck_assert_ptr_null(s->refused);
    unsigned parts = (unsigned)tc_dim_value(buffer->dims[0]) / all[_i].rows;
    tc_text box = {.arena = &cx->arena};
    for (unsigned i = 0; i < t.rank; i++)
        tc_text_printf(&box, "%s%u", i ? " " : "", t.box[i]);
    ck_assert_str_eq(box.data, s->box);
    ck_assert_uint_eq(t.ncopies, s->ncopies);
    ck_assert_uint_eq(t.bytes * parts, (uint32_t)tc_type_count(buffer) *
                                           tc_type_bytes(buffer->elem));
    ck_assert_uint_eq(
        t.bytes, t.ncopies * tc_tma_box_bytes(&t, tc_type_bytes(buffer->elem)));
    spread(&t, parts);
    t.bytes *= parts;
    check_limits(&t, buffer);
    check_copies(s, &t, buffer);
}
END_TEST

#define KEYS  "tensor<[?, ?, ?, 128] x f8e4m3>"
#define ORDER "#reorder(0, 0 2 3 1, #swizzle128)"

/* Each digit of the rows is a dim of the map. */
START_TEST(rows_in_another_order)
{
    static const struct {
        sample s;
        const char *promise, *parts;
    } all[] = {
        {{KEYS, "1, %i, 32 +: 128, 0 +: 128",
          "smem<128x128 x f8e4m3, " ORDER ", 2>", 128, "1 1 128 128", 1, NULL},
         "multiples(1, 2, 16)",
         "2*1 4*4 2*2 8*16"},
        {{KEYS, "1, %i, 0 +: 224, 0 +: 128",
          "smem<224x128 x f8e4m3, " ORDER ">", 128, "1 1 224 128", 1, NULL},
         "multiples(1, 2, 32)",
         "2*1 4*4 2*2 14*16"},
        {{"tensor<[?, ?, 256] x f8e4m3>", "%i, 0 +: 64, 0 +: 256",
          "smem<64x256 x f8e4m3, " ORDER ">", 128, "1 64 128", 2, NULL},
         "multiples(1, 1, 16)",
         "2*1 4*4 2*2 4*16"},
        {{"tensor<[?, 32] x f32>", "8 +: 64, 0 +: 32",
          "smem<64x32 x f32, #reorder(0, 2 0 1, #swizzle128)>", 128, "64 32", 1,
          NULL},
         "multiples(1, 0, 8)",
         "2*4 4*1 8*8"},
        {{KEYS, "1, %i, 0 +: 128, 0 +: 128",
          "smem<128x128 x f8e4m3, " ORDER ">", 0, "", 0,
          "not promised to be a multiple"},
         "multiples(1, 2, 8)",
         ""},
        {{KEYS, "1, %i, 0 +: 128, 0 +: 128",
          "smem<128x128 x f8e4m3, " ORDER ">", 0, "", 0,
          "rows of %x are wanted in another order, 16 a group"},
         "",
         ""},
        {{KEYS, "1, 0, %i +: 128, 0 +: 128",
          "smem<128x128 x f8e4m3, " ORDER ">", 0, "", 0,
          "not known to begin at a multiple"},
         "multiples(1, 2, 16)",
         ""},
        {{KEYS, "1, 0, 8 +: 128, 0 +: 128", "smem<128x128 x f8e4m3, " ORDER ">",
          0, "", 0, "not known to begin at a multiple"},
         "multiples(1, 2, 16)",
         ""},
        {{"tensor<[?, ?, ?, 120] x f8e4m3>", "1, 0, 0 +: 128, 0 +: 128",
          "smem<128x128 x f8e4m3, " ORDER ">", 0, "", 0,
          "may reach past the ends of rows"},
         "multiples(1, 2, 16)",
         ""},
        {{"tensor<[?, ?] x f8e4m3>", "0 +: 128, 0 +: 128",
          "smem<128x128 x f8e4m3, " ORDER ">", 0, "", 0,
          "may reach past the ends of rows"},
         "multiples(1, 0, 16)",
         ""},
    };
    const sample *s = &all[_i].s;
    tc_tma t;
    const tc_type *buffer;
    const char *why = NULL;
    bool ok = bulk_copy(
        s, tc_arena_printf(&cx->arena, "aligned(1) %s", all[_i].promise), &t,
        &buffer, &why);
    if (s->refused) {
        ck_assert_msg(!ok && strstr(why, s->refused), "%s", ok ? "" : why);
        return;
    }
    ck_assert_msg(ok, "%s", why);
    tc_text box = {.arena = &cx->arena}, parts = {.arena = &cx->arena};
    for (unsigned i = 0; i < t.rank; i++)
        tc_text_printf(&box, "%s%u", i ? " " : "", t.box[i]);
    for (unsigned i = 0; i < t.nparts; i++)
        tc_text_printf(&parts, "%s%u*%u", i ? " " : "", t.parts[i].count,
                       t.parts[i].step);
    ck_assert_str_eq(box.data, s->box);
    ck_assert_str_eq(parts.data, all[_i].parts);
    ck_assert_uint_eq(t.swizzle, s->swizzle);
    ck_assert_uint_eq(t.ncopies, s->ncopies);
    check_limits(&t, buffer);
    check_copies(s, &t, buffer);
}
END_TEST

START_TEST(rows_must_be_aligned)
{
    tc_tma t;
    const tc_type *buffer;
    const char *why = NULL;
    ck_assert(!bulk_copy(&samples[0], "", &t, &buffer, &why));
    ck_assert_ptr_nonnull(strstr(why, "not promised to be aligned"));
}
END_TEST

/* All sides that a named swizzle has: never a wrong copy. */
START_TEST(every_size)
{
    static const char *const elems[] = {"f8e4m3", "bf16", "f32"};
    unsigned ncopied = 0;
    for (unsigned i = 0; i < 3; i++)
        for (int rows = 8; rows <= 272; rows += 24)
            for (int columns = 16; columns <= 256; columns += 16)
                for (unsigned swizzle = 32; swizzle <= 128; swizzle *= 2) {
                    if ((unsigned)columns * (1u << i) % swizzle)
                        continue;
                    sample s = {0};
                    s.tensor = tc_arena_printf(&cx->arena,
                                               "tensor<[?, ?] x %s>", elems[i]);
                    s.window = tc_arena_printf(&cx->arena, "0 +: %d, 0 +: %d",
                                               rows, columns);
                    s.buffer = tc_arena_printf(
                        &cx->arena, "smem<%dx%d x %s, #swizzle%u>", rows,
                        columns, elems[i], swizzle);
                    tc_tma t;
                    const tc_type *buffer;
                    const char *why;
                    if (!bulk_copy(&s, "aligned(1)", &t, &buffer, &why))
                        continue;
                    check_limits(&t, buffer);
                    check_copies(&s, &t, buffer);
                    ncopied++;
                }
    ck_assert_uint_gt(ncopied, 500);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("tma");
    TCase *c = tcase_create("tma");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, copies_are_what_the_layout_says, 0, NSAMPLES);
    tcase_add_loop_test(c, rows_in_another_order, 0, 10);
    tcase_add_loop_test(c, groups_copy_their_parts, 0, 7);
    tcase_add_loop_test(c, boxes_of_rows, 0, 6);
    tcase_add_test(c, rows_must_be_aligned);
    tcase_add_test(c, every_size);
    suite_add_tcase(s, c);
    return run_suite(s);
}
