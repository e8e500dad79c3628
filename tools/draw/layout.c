/* SPDX-License-Identifier: Apache-2.0
 *
 * tilec info layout: a layout's modes, the cost of accesses to it, and a table
 * of the thread and register, or the offset and bank, that hold each element.
 */
#include "tools/draw/layout.h"
#include "tools/common/commands.h"
#include "tools/common/render.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct view {
    tc_context *cx;
    const tool_args *args;
    const char *text;
    unsigned rank, bits;
    int32_t shape[TC_MAX_RANK];
    const tc_layout *l;
} view;

/* ---- Places ---- */

static uint32_t count_elements(const tc_layout *l)
{
    uint32_t n = 1;
    for (unsigned a = 0; a < l->rank; a++)
        n *= (uint32_t)l->shape[a];
    return n;
}

static uint32_t row_major(const tc_layout *l, const int32_t *coord)
{
    uint32_t n = 0;
    for (unsigned a = 0; a < l->rank; a++)
        n = n * (uint32_t)l->shape[a] + (uint32_t)coord[a];
    return n;
}

layout_place *layout_places(const tc_layout *l)
{
    layout_place *places =
        tc_arena_array(&l->cx->arena, layout_place, count_elements(l));
    uint32_t i[TC_INPUT_COUNT], n[TC_INPUT_COUNT];
    for (int in = 0; in < TC_INPUT_COUNT; in++)
        n[in] = tc_layout_size(l, (tc_input)in);
    for (i[TC_OFFSET] = 0; i[TC_OFFSET] < n[TC_OFFSET]; i[TC_OFFSET]++)
        for (i[TC_REGISTER] = 0; i[TC_REGISTER] < n[TC_REGISTER];
             i[TC_REGISTER]++)
            for (i[TC_WARP] = 0; i[TC_WARP] < n[TC_WARP]; i[TC_WARP]++)
                for (i[TC_LANE] = 0; i[TC_LANE] < n[TC_LANE]; i[TC_LANE]++) {
                    int32_t coord[TC_MAX_RANK];
                    tc_layout_apply(l, i, coord);
                    layout_place *p = &places[row_major(l, coord)];
                    if (!p->known)
                        memcpy(p->index, i, sizeof i);
                    p->known = true;
                }
    return places;
}

unsigned layout_bank(uint32_t offset, unsigned bits)
{
    return (unsigned)((uint64_t)offset * bits / 32 % 32);
}

/* ---- The modes ---- */

static void put_modes(const tc_layout *l, tc_input in, const char *name)
{
    printf("  %-9s", name);
    for (unsigned i = 0; i < l->nmodes[in]; i++) {
        const tc_mode *m = &l->modes[in][i];
        printf(i ? " " : "");
        if (m->count != 2)
            printf("%u*", m->count);
        for (unsigned a = 0; a < l->rank; a++)
            printf("%s%d", a ? "," : "(", (int)m->image[a]);
        printf(")");
    }
    printf(l->nmodes[in] ? "\n" : "-\n");
}

static void put_summary(const view *v)
{
    const tc_layout *l = v->l;
    tc_text name = {.arena = &v->cx->arena};
    tc_layout_print(&name, l, v->bits);
    printf("%s of ", name.data);
    for (unsigned a = 0; a < l->rank; a++)
        printf("%s%d", a ? "x" : "", (int)l->shape[a]);
    printf(" elements of %u bits\n", v->bits);
    if (tc_layout_is_shared(l)) {
        put_modes(l, TC_OFFSET, "offset");
        printf("%llu bytes\n",
               (unsigned long long)count_elements(l) * v->bits / 8);
        return;
    }
    put_modes(l, TC_REGISTER, "register");
    put_modes(l, TC_LANE, "lane");
    put_modes(l, TC_WARP, "warp");
    uint64_t held = (uint64_t)tc_layout_size(l, TC_REGISTER) *
                    tc_layout_size(l, TC_LANE) * tc_layout_size(l, TC_WARP);
    uint32_t regs = tc_layout_size(l, TC_REGISTER);
    uint32_t copies = (uint32_t)(held / count_elements(l));
    printf("%u element%s a thread, %u warp%s, ", regs, regs == 1 ? "" : "s",
           tc_layout_size(l, TC_WARP),
           tc_layout_size(l, TC_WARP) == 1 ? "" : "s");
    if (copies == 1)
        puts("each held once");
    else
        printf("each held %u times\n", copies);
}

/* ---- What accesses cost ---- */

static void put_ways(unsigned ways)
{
    if (ways == 1)
        puts("no conflicts");
    else
        printf("%u-way conflicts\n", ways);
}

static void put_access(const view *v, const char *what, const tc_layout *shared,
                       const tc_layout *tile)
{
    tc_matrix_access m;
    const tc_layout *offsets = tc_layout_offsets(v->cx, shared, tile);
    if (!offsets)
        return;
    tc_access a = tc_layout_access(offsets, v->bits);
    printf("  %-28s ", what);
    printf("%2u bytes, ", a.vector * v->bits / 8);
    put_ways(a.ways);
    if (tc_layout_matrix_access(v->cx, shared, tile, v->bits, &m)) {
        printf("  %-28s ldmatrix.x%u%s, ", "", m.count,
               m.trans ? ".trans" : "");
        put_ways(m.ways);
    }
}

static const unsigned last_fastest[] = {1, 0}, first_fastest[] = {0, 1};

/* Rows (columns) copied in vectors of 16 bytes by whole warps. */
static const tc_layout *copying(const view *v, const unsigned *order)
{
    int32_t per[2] = {1, 1}, lanes[2] = {1, 1}, warps[2] = {1, 1};
    int32_t side = v->shape[order[0]] & -v->shape[order[0]];
    per[order[0]] = (int32_t)(128 / v->bits);
    if (per[order[0]] > side)
        per[order[0]] = side;
    int32_t along = side / per[order[0]];
    lanes[order[0]] = along < 32 ? along : 32;
    lanes[order[1]] = 32 / lanes[order[0]];
    return tc_layout_blocked(v->cx, 2, v->shape, per, lanes, warps, order);
}

static void put_shared_accesses(const view *v)
{
    bool operands = v->bits == 8 || v->bits == 16 || v->bits == 32;
    if (v->rank != 2)
        return;
    puts("accesses by ld.shared and st.shared, and ldmatrix where it fits:");
    put_access(v, "rows, 16 bytes a thread", v->l, copying(v, last_fastest));
    put_access(v, "columns, 16 bytes a thread", v->l,
               copying(v, first_fastest));
    put_access(v, "accumulator, #mma(1x1)", v->l,
               tc_layout_mma_c(v->cx, v->shape, 1, 1));
    if (!operands)
        return;
    put_access(v, "operand, #mma_a(1x1)", v->l,
               tc_layout_mma_a(v->cx, v->shape, 1, 1, v->bits));
    put_access(v, "operand, #mma_b(1x1)", v->l,
               tc_layout_mma_b(v->cx, v->shape, 1, 1, v->bits));
    const tc_layout *trans = tc_layout_trans(v->cx, v->l, last_fastest);
    put_access(v, "transposed, #mma_b(1x1)", trans,
               tc_layout_mma_b(v->cx, trans->shape, 1, 1, v->bits));
}

static void put_memory(const view *v, const unsigned *order, unsigned swizzle,
                       const char *name)
{
    const tc_layout *shared =
        tc_layout_swizzled(v->cx, 2, v->shape, order, v->bits, swizzle);
    put_access(v, name, shared, v->l);
}

static void put_register_accesses(const view *v)
{
    puts("vectors of consecutive registers:");
    for (unsigned a = 0; a < v->rank; a++)
        printf(
            "  along axis %u: %u elements\n", a,
            tc_layout_contiguous(v->l, a, v->bits <= 8 ? 16 : 128 / v->bits));
    if (v->rank != 2)
        return;
    puts("shared memory:");
    for (int i = 0; i < 2; i++) {
        const unsigned *order = i ? first_fastest : last_fastest;
        unsigned widest = tc_layout_widest_swizzle(v->shape[order[0]], v->bits);
        put_memory(v, order, 0, i ? "#rows(order(0, 1))" : "#rows");
        if (widest) {
            char name[64];
            snprintf(name, sizeof name,
                     i ? "#swizzle%u(order(0, 1))" : "#swizzle%u", widest);
            put_memory(v, order, widest, name);
        }
    }
}

/* ---- The table ---- */

static void put_cell(char *cell, size_t size, const view *v,
                     const layout_place *p)
{
    const uint32_t *i = p->index;
    if (tc_layout_is_shared(v->l))
        snprintf(cell, size, "%u:%u", i[TC_OFFSET],
                 layout_bank(i[TC_OFFSET], v->bits));
    else
        snprintf(cell, size, "%u:%u", i[TC_WARP] * 32 + i[TC_LANE],
                 i[TC_REGISTER]);
}

/* Rows by the last axis; a blank line where an axis before the last two steps
 * on. */
static void put_table(const view *v)
{
    const tc_layout *l = v->l;
    const layout_place *places = layout_places(l);
    uint32_t columns = l->rank ? (uint32_t)l->shape[l->rank - 1] : 1;
    uint32_t all = count_elements(l);
    uint32_t rows = l->rank > 1 ? (uint32_t)l->shape[l->rank - 2] : 1;
    char cell[64];
    int width = 0;
    for (uint32_t i = 0; i < all; i++) {
        put_cell(cell, sizeof cell, v, &places[i]);
        int n = (int)strlen(cell);
        width = n > width ? n : width;
    }
    puts(tc_layout_is_shared(l) ? "offset:bank of each element"
                                : "thread:register of each element");
    for (uint32_t i = 0; i < all; i++) {
        put_cell(cell, sizeof cell, v, &places[i]);
        printf("%*s%s", width, cell, (i + 1) % columns ? " " : "\n");
        if ((i + 1) % (columns * rows) == 0 && i + 1 < all)
            puts("");
    }
}

/* ---- The command line ---- */

static bool read_shape(view *v, const char *word)
{
    const char *at = word;
    do {
        char *end;
        long side = strtol(at, &end, 10);
        if (end == at || side < 1 || side > 1 << 24 || v->rank == TC_MAX_RANK ||
            (*end && *end != 'x')) {
            tool_usage(v->args->command,
                       "the sides are `%s`, expected numbers as in 64x64",
                       word);
            return false;
        }
        v->shape[v->rank++] = (int32_t)side;
        at = end + 1;
        if (!*end)
            return true;
    } while (true);
}

static bool read_bits(view *v)
{
    const char *word = tool_value(v->args, "--bits");
    v->bits = word ? (unsigned)strtoul(word, NULL, 10) : 16;
    if (v->bits == 8 || v->bits == 16 || v->bits == 32 || v->bits == 64)
        return true;
    tool_usage(v->args->command, "--bits is `%s`, expected 8, 16, 32 or 64",
               word);
    return false;
}

static bool read_layout(view *v)
{
    size_t len = strlen(v->text), used;
    tc_loc loc = {tc_source_add(v->cx, "layout", v->text, len), 1, 1, 0};
    v->l = tc_layout_parse(v->cx, v->text, len, v->rank, v->shape, v->bits, loc,
                           &used);
    if (v->l && used < len) {
        loc.col += (uint32_t)used;
        return tc_error(v->cx, loc, "the layout has text after its end");
    }
    return v->l;
}

static int show(view *v)
{
    if (!read_layout(v)) {
        render_diags(stderr, v->cx);
        return EXIT_INPUT;
    }
    const char *path = tool_value(v->args, "-o");
    if (!path || !is_stdout(path)) {
        put_summary(v);
        if (tc_layout_is_shared(v->l))
            put_shared_accesses(v);
        else
            put_register_accesses(v);
    }
    if (!path) {
        put_table(v);
        return EXIT_DONE;
    }
    tc_text svg = {.arena = &v->cx->arena};
    layout_svg(&svg, v->l, v->bits, v->text);
    return write_text(path, svg.data);
}

int info_layout(const tool_args *args)
{
    view v = {.args = args};
    if (args->nwords != 3)
        return tool_usage(args->command,
                          "layout: expected a layout and the tile's sides, as "
                          "in `tilec info layout '#mma(4x1)' 64x64`");
    v.text = args->words[1];
    if (!read_shape(&v, args->words[2]) || !read_bits(&v))
        return EXIT_USAGE;
    int code = EXIT_MACHINE;
    v.cx = tc_context_new();
    jmp_buf unwind;
    if (v.cx && !setjmp(unwind)) {
        v.cx->memory.unwind = &unwind;
        code = show(&v);
    } else {
        report("out of memory");
    }
    tc_context_free(v.cx);
    return code;
}
