/* SPDX-License-Identifier: Apache-2.0
 *
 * The dot microkernel.
 *
 * C is cut into blocks of mr rows by nv vectors that live in registers while k
 * runs:
 *
 *   for each panel of nv vectors of columns      B[:, panel] stays in L1
 *     for each block of mr rows
 *       acc[mr][nv] = init
 *       for k: b[nv] = B[k, panel]; acc[i][j] += A[row + i, k] * b[j]
 *       done(acc)
 *
 * A machine with two FMA units of latency 4 needs 8 accumulators in flight, and
 * loads mr scalars and nv vectors for mr * nv FMAs; `block_cost` weighs that,
 * and a search finds the shape, also for sizes that do not divide. Smaller
 * blocks compute the remaining rows, panels and vectors.
 */
#include "codegen/host/emit/dot.h"

#include "codegen/llvm/lanes.h"

#include <assert.h>

enum { MAX_REGS = 32, MAX_VECTORS = 6 };

/* ---- Loops ---- */

static LLVMValueRef index_const(LLVMBuilderRef b, uint64_t value)
{
    LLVMTypeRef i64 = LLVMInt64TypeInContext(LLVMGetBuilderContext(b));
    return LLVMConstInt(i64, value, false);
}

typedef struct loop {
    LLVMBuilderRef b;
    LLVMValueRef fn, index; /* i64 phi */
    LLVMBasicBlockRef before, body;
    uint64_t hi, step;
} loop;

/* Counts lo, lo + step, ... below hi; at least once. The builder moves into
 * the body, where phis may follow the index. */
static loop loop_begin(LLVMBuilderRef b, LLVMValueRef fn, uint64_t lo,
                       uint64_t hi, uint64_t step)
{
    loop l = {.b = b, .fn = fn, .hi = hi, .step = step};
    LLVMContextRef cx = LLVMGetTypeContext(LLVMTypeOf(fn));
    assert(lo < hi && (hi - lo) % step == 0);
    l.before = LLVMGetInsertBlock(b);
    l.body = LLVMAppendBasicBlockInContext(cx, fn, "dot");
    LLVMBuildBr(b, l.body);
    LLVMPositionBuilderAtEnd(b, l.body);
    l.index = LLVMBuildPhi(b, LLVMInt64TypeInContext(cx), "");
    LLVMValueRef first = index_const(b, lo);
    LLVMAddIncoming(l.index, &first, &l.before, 1);
    return l;
}

/* Ends the body where the builder stands and moves it after the loop. Gives
 * the last block of the body, for the loop's other phis. */
static LLVMBasicBlockRef loop_end(loop *l)
{
    LLVMContextRef cx = LLVMGetTypeContext(LLVMTypeOf(l->fn));
    LLVMBasicBlockRef last = LLVMGetInsertBlock(l->b);
    LLVMBasicBlockRef after = LLVMAppendBasicBlockInContext(cx, l->fn, "");
    LLVMValueRef next =
        LLVMBuildNUWAdd(l->b, l->index, index_const(l->b, l->step), "");
    LLVMAddIncoming(l->index, &next, &last, 1);
    LLVMValueRef more =
        LLVMBuildICmp(l->b, LLVMIntULT, next, index_const(l->b, l->hi), "");
    LLVMBuildCondBr(l->b, more, l->body, after);
    LLVMPositionBuilderAtEnd(l->b, after);
    return last;
}

static LLVMValueRef plus(LLVMBuilderRef b, LLVMValueRef x, uint64_t k)
{
    return k ? LLVMBuildNUWAdd(b, x, index_const(b, k), "") : x;
}

/* &base[index], elements. */
static LLVMValueRef element(LLVMBuilderRef b, LLVMTypeRef elem,
                            LLVMValueRef base, LLVMValueRef index)
{
    return LLVMBuildInBoundsGEP2(b, elem, base, &index, 1, "");
}

static LLVMTypeRef vector_of(LLVMTypeRef elem, unsigned width)
{
    return width == 1 ? elem : LLVMVectorType(elem, width);
}

static unsigned elem_bytes(LLVMTypeRef elem)
{
    switch (LLVMGetTypeKind(elem)) {
    case LLVMDoubleTypeKind:
    case LLVMPointerTypeKind: return 8;
    case LLVMFloatTypeKind: return 4;
    case LLVMHalfTypeKind: return 2;
    default: return (LLVMGetIntTypeWidth(elem) + 7) / 8;
    }
}

static LLVMValueRef load(LLVMBuilderRef b, LLVMTypeRef elem, unsigned width,
                         LLVMValueRef p)
{
    LLVMValueRef v = LLVMBuildLoad2(b, vector_of(elem, width), p, "");
    LLVMSetAlignment(v, elem_bytes(elem));
    return v;
}

static void store(LLVMBuilderRef b, LLVMTypeRef elem, LLVMValueRef v,
                  LLVMValueRef p)
{
    LLVMSetAlignment(LLVMBuildStore(b, v, p), elem_bytes(elem));
}

/* ---- One block of C ---- */

typedef struct block {
    const tc_host_dot *d;
    unsigned mr, nv, width;
    LLVMValueRef row, col;
    LLVMValueRef a, bmat; /* at A[row, 0] and B[0, col] */
    LLVMValueRef acc[MAX_REGS];
} block;

static LLVMValueRef broadcast(LLVMBuilderRef b, LLVMValueRef x, unsigned width)
{
    if (width == 1)
        return x;
    LLVMTypeRef vector = LLVMVectorType(LLVMTypeOf(x), width);
    LLVMContextRef cx = LLVMGetTypeContext(vector);
    LLVMTypeRef i32 = LLVMInt32TypeInContext(cx);
    LLVMValueRef none = LLVMGetPoison(vector);
    LLVMValueRef one =
        LLVMBuildInsertElement(b, none, x, LLVMConstInt(i32, 0, false), "");
    LLVMValueRef zeros = LLVMConstNull(LLVMVectorType(i32, width));
    return LLVMBuildShuffleVector(b, one, none, zeros, "");
}

/* Of A or B, as elements of C. */
static LLVMValueRef load_operand(const block *s, unsigned width,
                                 LLVMValueRef base, LLVMValueRef at)
{
    const tc_host_dot *d = s->d;
    LLVMTypeRef to = vector_of(d->elem, width);
    LLVMValueRef x =
        load(d->b, d->from, width, element(d->b, d->from, base, at));
    if (d->from == d->elem)
        return x;
    bool is_unsigned = base == s->a ? d->a_unsigned : d->b_unsigned;
    return is_unsigned ? LLVMBuildZExt(d->b, x, to, "")
                       : LLVMBuildSExt(d->b, x, to, "");
}

static LLVMValueRef multiply_add(const block *s, LLVMValueRef x, LLVMValueRef y,
                                 LLVMValueRef acc)
{
    LLVMBuilderRef b = s->d->b;
    tc_lanes l = tc_lanes_of(b, acc);
    return LLVMGetTypeKind(s->d->elem) == LLVMIntegerTypeKind
               ? LLVMBuildAdd(b, acc, LLVMBuildMul(b, x, y, ""), "")
               : tc_lanes_fma(&l, x, y, acc);
}

/* acc += A[row .., k] * B[k, col ..]. */
static void block_step(block *s, LLVMValueRef k)
{
    const tc_host_dot *d = s->d;
    LLVMBuilderRef b = d->b;
    LLVMValueRef bv[MAX_VECTORS];
    LLVMValueRef brow = LLVMBuildNUWMul(b, k, index_const(b, d->ldb), "");
    for (unsigned j = 0; j < s->nv; j++) {
        LLVMValueRef at = plus(b, brow, (uint64_t)j * s->width);
        bv[j] = load_operand(s, s->width, s->bmat, at);
    }
    for (unsigned i = 0; i < s->mr; i++) {
        LLVMValueRef at = plus(b, k, (uint64_t)i * d->lda);
        LLVMValueRef av = load_operand(s, 1, s->a, at);
        av = broadcast(b, av, s->width);
        for (unsigned j = 0; j < s->nv; j++) {
            LLVMValueRef *acc = &s->acc[i * s->nv + j];
            *acc = multiply_add(s, av, bv[j], *acc);
        }
    }
}

static void block_init(block *s)
{
    const tc_host_dot *d = s->d;
    for (unsigned i = 0; i < s->mr; i++)
        for (unsigned j = 0; j < s->nv; j++)
            s->acc[i * s->nv + j] =
                d->init ? d->init(d->user, plus(d->b, s->row, i),
                                  plus(d->b, s->col, j * s->width), s->width)
                        : LLVMConstNull(vector_of(d->elem, s->width));
}

static void block_done(block *s)
{
    const tc_host_dot *d = s->d;
    for (unsigned i = 0; i < s->mr; i++)
        for (unsigned j = 0; j < s->nv; j++)
            d->done(d->user, plus(d->b, s->row, i),
                    plus(d->b, s->col, j * s->width), s->acc[i * s->nv + j]);
}

/* Steps of k in one turn of the loop: some 64 FMAs. */
static unsigned unrolled(const block *s)
{
    unsigned u = 8;
    while (u > 1 && u * s->mr * s->nv > 96)
        u /= 2;
    return u;
}

/* k from 0 in turns of u, acc going round as phis. */
static void block_loop(block *s, unsigned u, unsigned turns)
{
    const tc_host_dot *d = s->d;
    LLVMValueRef phi[MAX_REGS];
    unsigned n = s->mr * s->nv;
    loop l = loop_begin(d->b, d->fn, 0, (uint64_t)turns * u, u);
    for (unsigned i = 0; i < n; i++) {
        phi[i] = LLVMBuildPhi(d->b, LLVMTypeOf(s->acc[i]), "");
        LLVMAddIncoming(phi[i], &s->acc[i], &l.before, 1);
        s->acc[i] = phi[i];
    }
    for (unsigned i = 0; i < u; i++)
        block_step(s, plus(d->b, l.index, i));
    LLVMBasicBlockRef last = loop_end(&l);
    for (unsigned i = 0; i < n; i++)
        LLVMAddIncoming(phi[i], &s->acc[i], &last, 1);
}

static void emit_block(const tc_host_dot *d, unsigned mr, unsigned nv,
                       unsigned width, LLVMValueRef row, LLVMValueRef col)
{
    LLVMBuilderRef b = d->b;
    block s = {
        .d = d, .mr = mr, .nv = nv, .width = width, .row = row, .col = col};
    LLVMValueRef first = LLVMBuildNUWMul(b, row, index_const(b, d->lda), "");
    s.a = element(b, d->from, d->a, first);
    s.bmat = element(b, d->from, d->bmat, col);
    block_init(&s);
    unsigned u = unrolled(&s), turns = d->k / u;
    if (turns)
        block_loop(&s, u, turns);
    for (unsigned k = turns * u; k < d->k; k++)
        block_step(&s, index_const(b, k));
    block_done(&s);
}

/* ---- Cutting C into blocks ---- */

typedef struct shape {
    unsigned mr, nv;
} shape;

/* The cost of one step of k, in twentieths of half a cycle: two FMAs or loads
 * start in a cycle, and fewer than 8 FMAs wait for each other. Loads that FMAs
 * hide still count a little. */
static unsigned block_cost(unsigned mr, unsigned nv)
{
    unsigned fmas = mr * nv, loads = mr + nv;
    unsigned bound = fmas > loads ? fmas : loads;
    return 20 * (bound > 8 ? bound : 8) + loads;
}

/* A panel of nv vectors and m rows, in blocks of mr. */
static unsigned long panel_cost(unsigned m, unsigned mr, unsigned nv)
{
    unsigned long cost = (unsigned long)(m / mr) * block_cost(mr, nv);
    return m % mr ? cost + block_cost(m % mr, nv) : cost;
}

/* The cheapest block for m rows of nvecs vectors. Besides the accumulators, nv
 * registers hold a row of B and one an element of A. */
static shape choose_shape(unsigned m, unsigned nvecs, unsigned nregs)
{
    shape best = {1, 1};
    unsigned long least = ~0ul;
    for (unsigned nv = 1; nv <= nvecs && nv <= MAX_VECTORS; nv++)
        for (unsigned mr = 1; mr <= m && mr * nv + nv + 1 <= nregs; mr++) {
            unsigned long cost = nvecs / nv * panel_cost(m, mr, nv);
            if (nvecs % nv)
                cost += panel_cost(m, mr, nvecs % nv);
            if (cost < least) {
                least = cost;
                best = (shape){mr, nv};
            }
        }
    return best;
}

static void emit_panel(const tc_host_dot *d, shape s, unsigned width,
                       LLVMValueRef col)
{
    unsigned whole = d->m - d->m % s.mr;
    loop l = loop_begin(d->b, d->fn, 0, whole, s.mr);
    emit_block(d, s.mr, s.nv, width, l.index, col);
    loop_end(&l);
    if (whole < d->m)
        emit_block(d, d->m - whole, s.nv, width, index_const(d->b, whole), col);
}

/* nvecs vectors of `width` columns from col on. */
static void emit_columns(const tc_host_dot *d, unsigned col, unsigned nvecs,
                         unsigned width)
{
    unsigned nregs = d->nregs < MAX_REGS ? d->nregs : MAX_REGS;
    shape s = choose_shape(d->m, nvecs, nregs);
    unsigned rest = nvecs % s.nv, end = col + (nvecs - rest) * width;
    loop l = loop_begin(d->b, d->fn, col, end, (uint64_t)s.nv * width);
    emit_panel(d, s, width, l.index);
    loop_end(&l);
    if (rest)
        emit_columns(d, end, rest, width);
}

void tc_host_emit_dot(const tc_host_dot *d)
{
    unsigned width = d->vector_width, nvecs = d->n / width;
    unsigned col = nvecs * width;
    if (nvecs)
        emit_columns(d, 0, nvecs, width);
    while (col < d->n) {
        width /= 2;
        if (d->n - col >= width) {
            emit_columns(d, col, 1, width);
            col += width;
        }
    }
}

/* ---- Transposes ---- */

/* Lanes of a and b by number, those of b after those of a. */
static LLVMValueRef shuffle(LLVMBuilderRef b, LLVMValueRef x, LLVMValueRef y,
                            unsigned n, const unsigned *lanes)
{
    LLVMContextRef cx = LLVMGetTypeContext(LLVMTypeOf(x));
    LLVMValueRef mask[64];
    for (unsigned i = 0; i < n; i++)
        mask[i] = LLVMConstInt(LLVMInt32TypeInContext(cx), lanes[i], false);
    return LLVMBuildShuffleVector(b, x, y, LLVMConstVector(mask, n), "");
}

/* In each group of 4 lanes: the lanes of `pick`, 4 to 7 being those of y. */
static LLVMValueRef shuffle_groups(LLVMBuilderRef b, LLVMValueRef x,
                                   LLVMValueRef y, const unsigned pick[4])
{
    unsigned lanes[64], n = LLVMGetVectorSize(LLVMTypeOf(x));
    for (unsigned i = 0; i < n; i++) {
        unsigned from = pick[i % 4];
        lanes[i] = i / 4 * 4 + from % 4 + (from >= 4 ? n : 0);
    }
    return shuffle(b, x, y, n, lanes);
}

/* 4 floats from each of the rows first, first + 4, ...: one vector. */
static LLVMValueRef load_groups(LLVMBuilderRef b, LLVMTypeRef elem,
                                LLVMValueRef src, unsigned ldsrc,
                                unsigned first, unsigned n)
{
    if (n == 4) {
        LLVMValueRef at = index_const(b, (uint64_t)first * ldsrc);
        return load(b, elem, 4, element(b, elem, src, at));
    }
    unsigned lanes[64];
    for (unsigned i = 0; i < n; i++)
        lanes[i] = i;
    LLVMValueRef low = load_groups(b, elem, src, ldsrc, first, n / 2);
    LLVMValueRef high = load_groups(b, elem, src, ldsrc, first + n / 2, n / 2);
    return shuffle(b, low, high, n, lanes);
}

/* n rows of 4 columns at src to 4 rows of n at dst. Group g of vector q is row
 * 4 g + q; transposing the groups, each 4 by 4, puts rows in order. */
static void transpose_block(LLVMBuilderRef b, LLVMTypeRef elem,
                            LLVMValueRef src, unsigned ldsrc, LLVMValueRef dst,
                            unsigned lddst, unsigned n)
{
    static const unsigned low[] = {0, 4, 1, 5}, high[] = {2, 6, 3, 7},
                          first[] = {0, 1, 4, 5}, second[] = {2, 3, 6, 7};
    LLVMValueRef r[4], t[4], c[4];
    for (unsigned q = 0; q < 4; q++)
        r[q] = load_groups(b, elem, src, ldsrc, q, n);
    for (unsigned q = 0; q < 4; q += 2) {
        t[q] = shuffle_groups(b, r[q], r[q + 1], low);
        t[q + 1] = shuffle_groups(b, r[q], r[q + 1], high);
    }
    for (unsigned q = 0; q < 2; q++) {
        c[2 * q] = shuffle_groups(b, t[q], t[q + 2], first);
        c[2 * q + 1] = shuffle_groups(b, t[q], t[q + 2], second);
    }
    for (unsigned q = 0; q < 4; q++) {
        LLVMValueRef at = index_const(b, (uint64_t)q * lddst);
        store(b, elem, c[q], element(b, elem, dst, at));
    }
}

typedef struct transpose {
    LLVMBuilderRef b;
    LLVMValueRef fn, src, dst;
    unsigned ldsrc, lddst;
    LLVMTypeRef elem;
} transpose;

/* Rows from r0 to r1, columns from c0 to c1, in blocks of n rows by 4 columns,
 * or n = 1: element by element. */
static void transpose_range(const transpose *t, unsigned r0, unsigned r1,
                            unsigned c0, unsigned c1, unsigned n)
{
    if (r0 == r1 || c0 == c1)
        return;
    LLVMBuilderRef b = t->b;
    loop rows = loop_begin(b, t->fn, r0, r1, n);
    loop cols = loop_begin(b, t->fn, c0, c1, n == 1 ? 1 : 4);
    LLVMValueRef from =
        LLVMBuildNUWMul(b, rows.index, index_const(b, t->ldsrc), "");
    from = LLVMBuildNUWAdd(b, from, cols.index, "");
    LLVMValueRef to =
        LLVMBuildNUWMul(b, cols.index, index_const(b, t->lddst), "");
    to = LLVMBuildNUWAdd(b, to, rows.index, "");
    LLVMValueRef src = element(b, t->elem, t->src, from);
    LLVMValueRef dst = element(b, t->elem, t->dst, to);
    if (n == 1)
        store(b, t->elem, load(b, t->elem, 1, src), dst);
    else
        transpose_block(b, t->elem, src, t->ldsrc, dst, t->lddst, n);
    loop_end(&cols);
    loop_end(&rows);
}

void tc_host_emit_transpose(LLVMBuilderRef b, LLVMValueRef fn, LLVMValueRef src,
                            unsigned rows, unsigned cols, unsigned ldsrc,
                            LLVMValueRef dst, unsigned lddst, LLVMTypeRef elem,
                            unsigned vw)
{
    transpose t = {b, fn, src, dst, ldsrc, lddst, elem};
    unsigned row = 0, c4 = cols - cols % 4;
    if (LLVMGetTypeKind(elem) == LLVMFloatTypeKind) {
        for (unsigned n = vw; n >= 4; n /= 2) {
            unsigned end = rows - (rows - row) % n;
            transpose_range(&t, row, end, 0, c4, n);
            transpose_range(&t, row, end, c4, cols, 1);
            row = end;
        }
    }
    transpose_range(&t, row, rows, 0, cols, 1);
}
