/* SPDX-License-Identifier: Apache-2.0
 *
 * Layouts: where the elements of a tile live.
 *
 * A layout maps hardware indices to the coordinates of a tile. A distributed
 * layout has the inputs register, lane and warp; a shared layout the input
 * offset (in elements). Each input is a list of modes, the fastest first: its
 * index is a mixed-radix number with one digit a mode.
 *
 *   F2 mode       count 2. Its image is xored into the coordinates when the
 *                 digit is 1.
 *   repeat mode   count 3, 5, 7, ...: digit times the image is added. (An even
 *                 repeat is the same as F2 modes below an odd one.)
 *
 * Each axis has a period: the largest power of two that divides the side and
 * the images of all repeat modes there. What images hold below the period is
 * xored, the rest (multiples of the period) is added, of F2 modes too: with
 * 11*(1024) in an axis, an F2 mode (11264) counts panels of 11 * 1024. Without
 * repeat modes a side of 2^k is its period and everything is xored.
 *
 *   tile<16x8>, the accumulator of mma.m16n8:
 *     register (0,1) (8,0)   lane (0,2) (0,4) (1,0) (2,0) (4,0)   warp
 *
 * A zero image is a broadcast: the input's digit does not matter, and equal
 * elements are held more than once.
 *
 * Layouts are interned in the context: equal ones are the same pointer.
 * Sources: linear layouts of Triton (Zhou et al. 2025), CuTe's nested modes.
 */
#ifndef TC_LAYOUT_H
#define TC_LAYOUT_H

#include "ir/types/type.h"

typedef enum tc_input {
    TC_REGISTER,
    TC_LANE,
    TC_WARP,
    TC_OFFSET,
    TC_INPUT_COUNT
} tc_input;

typedef struct tc_mode {
    uint32_t count;
    int32_t image[TC_MAX_RANK];
} tc_mode;

struct tc_layout {
    tc_context *cx;
    unsigned rank;
    int32_t shape[TC_MAX_RANK];
    int32_t period[TC_MAX_RANK]; /* images are xored below it, added above */
    unsigned nmodes[TC_INPUT_COUNT];
    const tc_mode *modes[TC_INPUT_COUNT];
};

/* The parts from which a layout is made. Even repeat counts are split by the
 * getter, modes of count 1 dropped; all else stays as it is, mode by mode. */
enum { TC_MAX_MODES = 24 };
typedef struct tc_layout_spec {
    unsigned rank;
    int32_t shape[TC_MAX_RANK];
    unsigned nmodes[TC_INPUT_COUNT];
    tc_mode modes[TC_INPUT_COUNT][TC_MAX_MODES];
} tc_layout_spec;
void tc_layout_spec_add(tc_layout_spec *s, tc_input in, uint32_t count,
                        unsigned axis, int32_t stride);
void tc_layout_spec_add_mode(tc_layout_spec *s, tc_input in,
                             const tc_mode *mode);
/* The modes of a layout, to be changed. */
void tc_layout_spec_of(const tc_layout *l, tc_layout_spec *s);
/* The interned layout. The spec must be valid: see tc_layout_check. */
const tc_layout *tc_layout_get(tc_context *cx, const tc_layout_spec *s);
/* NULL, or why the spec is no layout of a tile ("register mode 3 leaves the
 * tile"): there are 32 lanes, every element is held somewhere, offsets hold
 * each exactly once. Results of the algebra (offsets, solve) need not be. The
 * text lives until the diagnostics are cleared. */
const char *tc_layout_check(tc_context *cx, const tc_layout_spec *s);

/* Number of values of an input: product of the counts of its modes. */
uint32_t tc_layout_size(const tc_layout *l, tc_input in);
bool tc_layout_is_shared(const tc_layout *l); /* has offsets */
/* Coordinates of index[register, lane, warp, offset]. */
void tc_layout_apply(const tc_layout *l, const uint32_t index[TC_INPUT_COUNT],
                     int32_t coord[TC_MAX_RANK]);

/* Well-known layouts (layout_known.c). Shapes are whole tiles; what the
 * threads do not fill in one go is repeated over registers (for blocked the
 * fastest axis first, for matrices the inner one: columns of C, K of A and B).
 * What they fill more than once is broadcast. Of a number of lanes or warps the
 * power of two takes bits of a side, an odd rest (12 = 4 * 3) the odd part of
 * it: 192 rows over 12 warps are (16) (32) 3*(64). Such odd modes come last in
 * an input. */
/* order[0] is the fastest axis. Where a side is too small for the threads asked
 * for along it (4 of 2, 3 of 64), the rest moves to the next axes in order, and
 * then becomes broadcast. per_thread and lanes are powers of two. */
const tc_layout *tc_layout_blocked(tc_context *cx, unsigned rank,
                                   const int32_t *shape,
                                   const int32_t *per_thread,
                                   const int32_t *lanes, const int32_t *warps,
                                   const unsigned *order);
/* mma.sync: accumulator [M, N] (m16n8), operands A [M, K] and B [K, N] of
 * elements of `bits` 8, 16 or 32, warps laid wm x wn over the accumulator, rows
 * first (A is broadcast over wn, B over wm). A warp's rows are 16 apart from
 * the next warp's: rows = 16 * wm, then repeated; likewise columns 8 * wn.
 * Warps that a side has no room for are broadcast; A, B and C agree where
 * tc_layout_mma_fits. Sides smaller than the fragment (1 too) leave it out: so
 * mma_c of M x 1 is what collapse makes of mma_c of M x N. */
const tc_layout *tc_layout_mma_c(tc_context *cx, const int32_t shape[2], int wm,
                                 int wn);
const tc_layout *tc_layout_mma_a(tc_context *cx, const int32_t shape[2], int wm,
                                 int wn, unsigned bits);
const tc_layout *tc_layout_mma_b(tc_context *cx, const int32_t shape[2], int wm,
                                 int wn, unsigned bits);
/* Do wm x wn warps divide an accumulator of M x N, none of them idle? */
bool tc_layout_mma_fits(int32_t m, int32_t n, int wm, int wn);
/* wgmma with warp groups of four warps: accumulator and A from registers. Group
 * rows are 64 apart; groups_n cut the columns into contiguous parts. */
const tc_layout *tc_layout_wgmma_c(tc_context *cx, const int32_t shape[2],
                                   int groups_m, int groups_n);
const tc_layout *tc_layout_wgmma_a(tc_context *cx, const int32_t shape[2],
                                   int groups_m, int groups_n, unsigned bits);
/* Shared memory: rows of order[0] cut into panels of `swizzle` bytes (0: no
 * swizzle, whole rows; 32, 64, 128: as TMA writes them), panel after panel
 * along order[0], xor of 16-byte chunks with the row (of bits 4.. of the
 * address with bits 7..). A swizzle must divide the bytes of a row: the widest
 * is tc_layout_widest_swizzle (0 if none does). */
const tc_layout *tc_layout_swizzled(tc_context *cx, unsigned rank,
                                    const int32_t *shape, const unsigned *order,
                                    unsigned bits, unsigned swizzle);
unsigned tc_layout_widest_swizzle(int32_t row_elements, unsigned bits);
/* The general one: rows of order[0] whole, columns in vectors of vec, xored by
 * (row / per) mod phases, where the row counts along order[1]; all three are
 * powers of two. Fewer phases where the powers of two of the sides are too
 * small for them. */
const tc_layout *tc_layout_xor(tc_context *cx, unsigned rank,
                               const int32_t *shape, const unsigned *order,
                               unsigned vec, unsigned per, unsigned phases);

/* Views (layout_view.c): the same elements seen in another shape. NULL: not
 * expressible (reshape only). */
/* Axis i of the result is axis perm[i] of l. */
const tc_layout *tc_layout_trans(tc_context *cx, const tc_layout *l,
                                 const unsigned *perm);
/* Side 1 at `axis`: images lose that coordinate; register modes that become
 * zero are dropped, lane and warp modes stay as broadcasts. */
const tc_layout *tc_layout_collapse(tc_context *cx, const tc_layout *l,
                                    unsigned axis);
/* collapse, then without the axis: the result of a reduction. */
const tc_layout *tc_layout_slice(tc_context *cx, const tc_layout *l,
                                 unsigned axis);
/* A new axis of side 1. slice(expand(l, a), a) == l. */
const tc_layout *tc_layout_expand(tc_context *cx, const tc_layout *l,
                                  unsigned axis);
const tc_layout *tc_layout_reshape(tc_context *cx, const tc_layout *l,
                                   unsigned rank, const int32_t *shape);
/* Of a reduction that stays within warps (apart = TC_WARP) or threads
 * (TC_LANE): along `axis` only what the warp modes (and the lane modes) tell
 * apart is left, renumbered 0, 1, ...; its side there is their number (1: they
 * do not matter). */
const tc_layout *tc_layout_partial(tc_context *cx, const tc_layout *l,
                                   unsigned axis, tc_input apart);

/* Parts (layout_part.c): of an axis the elements at, at + step, ..., `side` of
 * them; step is a power of two. */
typedef struct tc_tile_part {
    unsigned axis;
    int32_t at, step, side;
} tc_tile_part;
/* The part of a tile in layout l if each thread keeps its elements. NULL: which
 * of its registers are in the part depends on the thread. */
const tc_layout *tc_layout_part(tc_context *cx, const tc_layout *l,
                                const tc_tile_part *p);
/* A layout of a tile with that side of which l is such a part, perhaps with
 * other registers: register modes are added. NULL: there is none. */
const tc_layout *tc_layout_whole(tc_context *cx, const tc_layout *l,
                                 const tc_tile_part *p, int32_t side);
/* The part of a buffer in layout l if it is one run of offsets, which begins at
 * element *first. NULL: it is none. */
const tc_layout *tc_layout_run(tc_context *cx, const tc_layout *l,
                               const tc_tile_part *p, uint32_t *first);
/* n copies of the tile along the axis, in registers of their own; elements of
 * n tiles in turn, n a power of two. */
const tc_layout *tc_layout_repeat(tc_context *cx, const tc_layout *l,
                                  unsigned axis, int32_t n);
const tc_layout *tc_layout_spread(tc_context *cx, const tc_layout *l,
                                  unsigned axis, int32_t n);

/* Scans (layout_scan.c): the digits that count the elements along an axis, the
 * lowest first. False: they are no digits of that axis alone. */
typedef struct tc_axis_digit {
    tc_input in;
    unsigned mode;
    uint32_t count;
    int32_t stride;
} tc_axis_digit;
enum { TC_MAX_AXIS_DIGITS = 3 * TC_MAX_MODES };
typedef struct tc_axis_digits {
    unsigned n;
    tc_axis_digit all[TC_MAX_AXIS_DIGITS];
} tc_axis_digits;
bool tc_layout_axis_digits(const tc_layout *l, unsigned axis,
                           tc_axis_digits *out);
/* Are there digits, those of warps the highest? */
bool tc_layout_can_scan(const tc_layout *l, unsigned axis);
/* l with the digits in such an order; NULL: there are none. */
const tc_layout *tc_layout_for_scan(tc_context *cx, const tc_layout *l,
                                    unsigned axis);

/* Orders of an axis (layout_order.c): bit i of what a layout has along it
 * becomes bit to[i], of the n lowest bits; n = 0: nothing changes. */
enum { TC_MAX_ORDER_BITS = 8 };
typedef struct tc_bit_order {
    unsigned n;
    uint8_t to[TC_MAX_ORDER_BITS];
} tc_bit_order;
tc_bit_order tc_bit_order_inverse(const tc_bit_order *o);
/* The same registers, lanes, warps or offsets hold reordered coordinates. NULL:
 * 2^n does not divide the period of the axis. */
const tc_layout *tc_layout_reorder(tc_context *cx, const tc_layout *l,
                                   unsigned axis, const tc_bit_order *o);
/* Is l `plain`, reordered along the axis? */
bool tc_layout_order_of(const tc_layout *plain, const tc_layout *l,
                        unsigned axis, tc_bit_order *out);
/* An order of `from` in which threads have what `to` wants of them: a
 * conversion takes registers only. False: none is found. */
bool tc_layout_find_order(const tc_layout *from, const tc_layout *to,
                          unsigned axis, tc_bit_order *out);

/* Algebra (layout_algebra.c). */
/* b after a: a's coordinates (rank 1, or the shape that b's single input
 * counts row-major) are b's index. NULL where a mode of `a` straddles modes of
 * b in a way that is not linear. */
const tc_layout *tc_layout_compose(tc_context *cx, const tc_layout *a,
                                   const tc_layout *b);
/* Element offsets in shared memory of a distributed tile: inputs of `tile`,
 * one coordinate, the offset that holds the element: inverse(shared) after
 * tile. NULL where that is not linear. */
const tc_layout *tc_layout_offsets(tc_context *cx, const tc_layout *shared,
                                   const tc_layout *tile);
/* The distributed layout `to` in terms of `from`: for each index of `to`, one
 * (register, lane, warp) of `from` that holds the element, keeping lane and
 * warp where possible. Coordinates: [register, lane, warp]. */
const tc_layout *tc_layout_solve(tc_context *cx, const tc_layout *from,
                                 const tc_layout *to);
/* Does `tile` (of the same inputs) come first in l, that is: are the fastest
 * modes of each input of l those of tile? *rest: l without them (images are
 * multiples of tile's sides), in units of tile. */
bool tc_layout_divide(tc_context *cx, const tc_layout *l, const tc_layout *tile,
                      const tc_layout **rest);
/* Both hold the same elements in the same places. */
bool tc_layout_equal(const tc_layout *a, const tc_layout *b);
/* Bit set of lanes (warps) whose modes are broadcasts: of equal holders the
 * one with all these bits 0 stores. */
uint32_t tc_layout_free_bits(const tc_layout *l, tc_input in);

/* Queries for memory (layout_access.c). */
/* Consecutive elements along `axis` that consecutive registers hold: 2^k at
 * most max. For global memory: registers' order is kept. */
unsigned tc_layout_contiguous(const tc_layout *l, unsigned axis, unsigned max);
/* A load or store of a distributed tile in shared memory through
 * ld.shared/st.shared; offsets is from tc_layout_offsets. */
typedef struct tc_access {
    unsigned vector; /* elements an access moves: 1, 2, 4, ... up to 16 bytes */
    /* Which register modes count 0..vector-1, log2(vector) of them. */
    unsigned modes[4];
    unsigned ways; /* words of one bank that a phase of the access hits: 1 is
                    * free of conflicts */
} tc_access;
tc_access tc_layout_access(const tc_layout *offsets, unsigned bits);
/* The same access with fewer conflicts: lanes with a 1 in the lane mode `lane`
 * take what the register mode `reg` counts in the other order. */
typedef struct tc_stagger {
    const tc_layout *offsets; /* of the accesses then; NULL: no better */
    unsigned lane, reg;
    unsigned ways; /* in any case */
} tc_stagger;
tc_stagger tc_layout_stagger(const tc_layout *offsets, unsigned bits);
/* ldmatrix (and stmatrix): 8x8 matrices of 16-bit units. False: the layouts do
 * not fit it. */
typedef struct tc_matrix_access {
    bool trans;
    unsigned count; /* matrices an instruction moves: 1, 2 or 4 */
    /* Register modes within a 32-bit register (0..1 of 16-bit elements, two for
     * 8 bits), then those that select the matrix of one instruction. With trans
     * and 8 bits: within a register whose bytes 1 and 2 are exchanged. */
    unsigned nwithin, within[2], nmatrix, matrix[2];
    /* Address of the row that a lane gives, in elements: inputs register (the
     * register modes left over, in order), lane (3 bits row, then matrix), and
     * warp. */
    const tc_layout *address;
    unsigned ways;
} tc_matrix_access;
bool tc_layout_matrix_access(tc_context *cx, const tc_layout *shared,
                             const tc_layout *tile, unsigned bits,
                             tc_matrix_access *out);
/* How to convert between distributed layouts of one shape. */
typedef enum tc_conversion {
    TC_CONVERT_NOTHING,   /* same registers */
    TC_CONVERT_REGISTERS, /* registers of the same thread */
    TC_CONVERT_SHUFFLES,  /* lanes of the same warp */
    TC_CONVERT_SHARED     /* through shared memory */
} tc_conversion;
tc_conversion tc_layout_conversion(tc_context *cx, const tc_layout *from,
                                   const tc_layout *to);
/* The shared layout through which `from` is stored and `to` loaded with the
 * fewest bank conflicts. */
const tc_layout *tc_layout_scratch(tc_context *cx, const tc_layout *from,
                                   const tc_layout *to, unsigned bits);

/* Text (layout_text.c): after the shape of its type, so without it:
 * `#mma(4x1)`, `#mma_a(4x1)`, `#mma_b(4x1)`, `#wgmma(2x1)`, `#wgmma_a(2x1)`,
 * `#blocked(1x8, 4x8, 4x1)` (per thread, lanes, warps; `order(0, 1)` follows
 * unless the last axis is the fastest), `#swizzle128`, `#swizzle64`,
 * `#swizzle32`, `#rows` (no swizzle), each with `(order(0, 1))` where the last
 * axis is not the fastest, `#xor(8, 1, 8)`, `#slice(1 of 64, LAYOUT)` (the axis
 * and side that were reduced), `#expand(1, LAYOUT)` (the axis of side 1 that
 * was added), `#reorder(1, 0 2 3 1, LAYOUT)` (bits of an axis moved), and in
 * general
 * `#bases(register [(0,1), (8,0), 11*(16,0)], lane [...], warp [...])` or
 * `#bases(offset [...])`. The printer takes the shortest name whose layout it
 * is. `bits`: of an element; the names of operands and swizzles depend on it.
 */
void tc_layout_print(tc_text *out, const tc_layout *l, unsigned bits);
/* `text` begins with `#`; NULL: reported at loc, which counts as the place of
 * text[0]. *used: bytes read. */
const tc_layout *tc_layout_parse(tc_context *cx, const char *text, size_t len,
                                 unsigned rank, const int32_t *shape,
                                 unsigned bits, tc_loc loc, size_t *used);

#endif
