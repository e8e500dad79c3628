/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products. Operands in registers must be in the layouts that the
 * instruction has, those in shared memory are read as a whole: every fragment
 * of them goes to some warp. (When m64 ones are over: products.c.)
 *
 * Sums: the products of the k steps of one instruction (16 of 16-bit floats, 8
 * of tf32, 32 of fp8) are exact and added in double, and with the accumulator
 * rounded to its type, f32 or f16, once. That is more exact than the hardware,
 * which truncates in between; it lies well within what the tests allow.
 * instr(fma): a chain of fma in the accumulator's type, k upwards. Sums of i8
 * are exact, in i32.
 */
#include "codegen/interp/state.h"

#include "passes/instructions/mma.h"
#include "passes/instructions/wgmma.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct product {
    tc_interp *it;
    const tc_op *op;
    uint32_t m, n, k;
    tc_inum *a, *b, *b_columns; /* row-major; b_columns: [N, K] */
    tc_ipoison *a_poison, *b_poison;
    tc_ipoison *row_poison, *column_poison; /* the first of each */
    unsigned step;                          /* k of an instruction; 0: fma */
    bool is_wgmma, checked;
    /* Of elements of a buffer: the warp groups that read them. */
    uint8_t *a_groups, *b_groups;
} product;

/* ---- Operands ---- */

/* Warps (of m64: groups of four) along the rows and columns of the accumulator,
 * as its layout says. */
static bool warps_of(const product *p, const tc_layout *c, int *wm, int *wn)
{
    tc_context *cx = p->it->cx;
    int n = (int)p->it->nwarps / (p->is_wgmma ? 4 : 1);
    if (p->is_wgmma && p->it->nwarps % 4)
        return false;
    for (*wm = 1; *wm <= n; ++*wm) {
        *wn = n / *wm;
        if (*wm * *wn == n &&
            (p->is_wgmma ? tc_layout_wgmma_c(cx, c->shape, *wm, *wn)
                         : tc_layout_mma_c(cx, c->shape, *wm, *wn)) == c)
            return true;
    }
    return false;
}

/* Whether descriptors can say where a buffer's elements are. */
static bool check_buffer(product *p, unsigned i)
{
    const tc_type *t = p->op->in[i]->type;
    tc_wgmma_operand operand;
    tc_bit_order columns;
    const char *why = NULL;
    tc_mma_plain(p->op->in[2]->type->layout, &columns);
    t = tc_mma_plain_operand(p->it->cx, t, i, &columns);
    return tc_wgmma_operand_of(p->it->cx, t, i, tc_op_word(p->op, "instr"),
                               &operand, &why) ||
           (tc_interp_find(p->it, p->op, NULL, NULL,
                           "operand %u is not laid out as the instruction "
                           "reads it: %s",
                           i, why) &&
            false);
}

static bool check_alignment(product *p, unsigned i)
{
    unsigned align = tc_shared_alignment(p->op->in[i]->type);
    uint32_t at = tc_ivalue_of(p->op->in[i])->at;
    return at % align == 0 ||
           (tc_interp_find(p->it, p->op, NULL, NULL,
                           "operand %u is at byte %u, expected a multiple of "
                           "%u",
                           i, at, align) &&
            false);
}

/* Whether a tile's layout is what the instruction reads. */
static bool check_operand(product *p, unsigned i, int wm, int wn)
{
    const tc_type *t = p->op->in[i]->type;
    if (t->kind == TC_SMEM)
        return !p->is_wgmma || check_buffer(p, i);
    unsigned bits = 8 * tc_type_bytes(t->elem);
    unsigned along = tc_mma_depth(i);
    tc_bit_order columns, depth = tc_mma_depth_order(p->it->cx, p->op);
    tc_mma_plain(p->op->in[2]->type->layout, &columns);
    t = tc_mma_plain_operand(p->it->cx, t, i, &columns);
    const tc_layout *want =
        p->is_wgmma
            ? tc_layout_wgmma_a(p->it->cx, t->layout->shape, wm, wn, bits)
        : i == 0 ? tc_layout_mma_a(p->it->cx, t->layout->shape, wm, wn, bits)
                 : tc_layout_mma_b(p->it->cx, t->layout->shape, wm, wn, bits);
    if (depth.n)
        want = tc_layout_reorder(p->it->cx, want, along, &depth);
    return t->layout == want ||
           (tc_interp_find(p->it, p->op, p->op->in[i]->def, "made here",
                           "operand %u is not laid out as the instruction "
                           "reads it",
                           i) &&
            false);
}

static bool check_layouts(product *p)
{
    const tc_op *op = p->op;
    int wm, wn;
    tc_bit_order columns;
    if (p->step == 0) { /* threads read what they need from shared memory */
        for (unsigned i = 0; i < 2; i++)
            if (op->in[i]->type->kind != TC_SMEM)
                return tc_interp_find(p->it, op, NULL, NULL,
                                      "operand %u is a tile, instr(fma) reads "
                                      "shared memory",
                                      i) &&
                       false;
        return true;
    }
    if (p->k % p->step)
        return tc_interp_find(p->it, op, NULL, NULL,
                              "k is %u, expected a multiple of %u", p->k,
                              p->step) &&
               false;
    if (!warps_of(p, tc_mma_plain(op->in[2]->type->layout, &columns), &wm, &wn))
        return tc_interp_find(p->it, op, NULL, NULL,
                              "the accumulator's layout is not the "
                              "instruction's") &&
               false;
    return check_operand(p, 0, wm, wn) && check_operand(p, 1, wm, wn);
}

static unsigned step_of(const tc_op *op)
{
    const char *instr = tc_op_word(op, "instr");
    return strcmp(instr, "fma") == 0 ? 0
                                     : (unsigned)atoi(strchr(instr, 'k') + 1);
}

static product *product_of(tc_interp *it, const tc_op *op)
{
    tc_iop *info = tc_iop_of(op);
    if (info->plan)
        return info->plan;
    product *p = info->plan = tc_arena_new(&it->arena, product);
    int32_t a[TC_MAX_RANK], b[TC_MAX_RANK];
    tc_type_sides(op->in[0]->type, a);
    tc_type_sides(op->in[1]->type, b);
    p->it = it;
    p->op = op;
    p->m = (uint32_t)a[0];
    p->k = (uint32_t)a[1];
    p->n = (uint32_t)b[1];
    p->step = step_of(op);
    p->is_wgmma = tc_is_group_mma(op);
    p->a = tc_arena_array(&it->arena, tc_inum, p->m * p->k);
    p->b = tc_arena_array(&it->arena, tc_inum, p->k * p->n);
    p->b_columns = tc_arena_array(&it->arena, tc_inum, p->k * p->n);
    p->a_poison = tc_arena_array(&it->arena, tc_ipoison, p->m * p->k);
    p->b_poison = tc_arena_array(&it->arena, tc_ipoison, p->k * p->n);
    p->row_poison = tc_arena_array(&it->arena, tc_ipoison, p->m);
    p->column_poison = tc_arena_array(&it->arena, tc_ipoison, p->n);
    return p;
}

/* Which groups read which elements: those that hold the sums of its row, or of
 * its column. */
static void find_readers(product *p)
{
    const uint8_t *c = tc_interp_groups(p->it, p->op->in[2]->type->layout);
    p->a_groups = tc_arena_array(&p->it->arena, uint8_t, p->m * p->k);
    p->b_groups = tc_arena_array(&p->it->arena, uint8_t, p->k * p->n);
    for (uint32_t i = 0; i < p->m * p->n; i++)
        for (uint32_t k = 0; k < p->k; k++) {
            p->a_groups[i / p->n * p->k + k] |= c[i];
            p->b_groups[k * p->n + i % p->n] |= c[i];
        }
}

static bool read_operand(product *p, unsigned i, tc_inum *x, tc_ipoison *poison)
{
    if (p->op->in[i]->type->kind != TC_SMEM)
        return tc_interp_gather(p->it, p->op, i, x, poison);
    if (p->is_wgmma && !check_alignment(p, i))
        return false;
    return tc_interp_shared_read(
        p->it, p->op, i, p->is_wgmma ? TC_READ_PRODUCTS : TC_READ_THREADS,
        i == 0 ? p->a_groups : p->b_groups, x, poison);
}

static void sort_operands(product *p)
{
    memset(p->row_poison, 0, p->m * sizeof *p->row_poison);
    memset(p->column_poison, 0, p->n * sizeof *p->column_poison);
    for (uint32_t i = 0; i < p->m * p->k; i++)
        if (p->a_poison[i])
            p->row_poison[i / p->k] = p->a_poison[i];
    for (uint32_t i = 0; i < p->k * p->n; i++) {
        uint32_t row = i / p->n, column = i % p->n;
        p->b_columns[column * p->k + row] = p->b[i];
        if (p->b_poison[i])
            p->column_poison[column] = p->b_poison[i];
    }
}

/* ---- Sums ---- */

/* f32 to tf32: 10 bits of mantissa, to nearest, ties away from zero
 * (cvt.rna.tf32.f32). */
static double to_tf32(double x)
{
    float f = (float)x;
    uint32_t bits;
    if (!isfinite(f))
        return x;
    memcpy(&bits, &f, 4);
    bits = (bits + 0x1000) & ~0x1fffu;
    memcpy(&f, &bits, 4);
    return f;
}

typedef double sum_fn(const tc_inum *a, const tc_inum *b, uint32_t n);

static double sum_exact(const tc_inum *a, const tc_inum *b, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += a[i].f * b[i].f;
    return sum;
}

static double sum_tf32(const tc_inum *a, const tc_inum *b, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += to_tf32(a[i].f) * to_tf32(b[i].f);
    return sum;
}

/* Three products of high and low parts: nearly f32. */
static double sum_tf32x3(const tc_inum *a, const tc_inum *b, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        double ah = to_tf32(a[i].f), bh = to_tf32(b[i].f);
        /* An infinity has no low part (inf - inf is NaN). */
        double al = isfinite(ah) ? to_tf32(a[i].f - ah) : 0;
        double bl = isfinite(bh) ? to_tf32(b[i].f - bh) : 0;
        sum += ah * bh;
        if (isfinite(ah) && isfinite(bh))
            sum += ah * bl + al * bh;
    }
    return sum;
}

static double chain_fma(const product *p, const tc_inum *a, const tc_inum *b,
                        double c)
{
    bool wide = p->op->out[0]->type->elem->kind == TC_F64;
    for (uint32_t i = 0; i < p->k; i++)
        c = wide ? fma(a[i].f, b[i].f, c)
                 : fmaf((float)a[i].f, (float)b[i].f, (float)c);
    return c;
}

/* Ints wrap. */
static int64_t one_int_sum(const product *p, uint32_t row, uint32_t column,
                           int64_t c)
{
    const tc_inum *a = p->a + row * p->k, *b = p->b_columns + column * p->k;
    int64_t mask_a = tc_dot_is_unsigned(p->op, 0) ? 0xff : -1;
    int64_t mask_b = tc_dot_is_unsigned(p->op, 1) ? 0xff : -1;
    for (uint32_t k = 0; k < p->k; k++)
        c += (a[k].i & mask_a) * (b[k].i & mask_b);
    return (int32_t)(uint32_t)(uint64_t)c;
}

static sum_fn *summing(const product *p)
{
    if (tc_type_bytes(p->op->in[0]->type->elem) != 4)
        return sum_exact;
    return tc_op_is_word(p->op, "precision", "tf32x3") ? sum_tf32x3 : sum_tf32;
}

static double one_sum(const product *p, sum_fn *sum, uint32_t row,
                      uint32_t column, double c)
{
    const tc_inum *a = p->a + row * p->k, *b = p->b_columns + column * p->k;
    if (p->step == 0)
        return chain_fma(p, a, b, c);
    tc_kind kind = p->op->out[0]->type->elem->kind;
    for (uint32_t k = 0; k < p->k; k += p->step)
        c = tc_round_to(kind, c + sum(a + k, b + k, p->step));
    return c;
}

bool tc_interp_mma(tc_interp *it, const tc_op *op)
{
    product *p = product_of(it, op);
    if (!p->checked && !check_layouts(p))
        return false;
    if (!p->checked)
        find_readers(p);
    p->checked = true;
    if (!tc_interp_product_start(it, op) ||
        !read_operand(p, 0, p->a, p->a_poison) ||
        !read_operand(p, 1, p->b, p->b_poison))
        return false;
    sort_operands(p);
    const tc_ivalue *c = tc_ivalue_of(op->in[2]);
    tc_ivalue *out = tc_ivalue_of(op->out[0]);
    const tc_iplaces *places = tc_interp_places(it, op->in[2]->type->layout);
    sum_fn *sum = summing(p);
    bool ints = tc_type_is_int(op->out[0]->type->elem);
    for (uint32_t i = 0; i < out->n; i++) {
        uint32_t row = places->elem[i] / p->n, column = places->elem[i] % p->n;
        if (ints)
            out->x[i].i = one_int_sum(p, row, column, c->x[i].i);
        else
            out->x[i].f = one_sum(p, sum, row, column, c->x[i].f);
        out->poison[i] = c->poison[i]         ? c->poison[i]
                         : p->row_poison[row] ? p->row_poison[row]
                                              : p->column_poison[column];
    }
    tc_interp_product_end(it, op);
    return true;
}
