/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules of ops of the machine level (verify.c, rules 36 to 45).
 */
#include "ir/types/layout.h"
#include "ir/verify/verify.h"

#include <string.h>

/* The element types of mma.sync and wgmma (m64); fma takes any that the sum
 * has. */
static bool mma_fits(const char *instr, tc_kind a, tc_kind b, tc_kind c)
{
    if (strcmp(instr, "fma") == 0 && c == TC_I32)
        return a == TC_I32 && b == TC_I32;
    if (strcmp(instr, "fma") == 0)
        return tc_kind_is_float(a) && tc_kind_is_float(b) &&
               (c == TC_F64 || (c == TC_F32 && a != TC_F64 && b != TC_F64));
    const char *k = strchr(instr, 'k');
    if (c == TC_I32)
        return strcmp(k, "k32") == 0 && a == TC_I8 && b == TC_I8;
    if (c == TC_F16)
        return strcmp(k, "k16") == 0 && a == TC_F16 && b == TC_F16;
    return c == TC_F32 &&
           (strcmp(k, "k8") == 0    ? a == TC_F32 && b == a
            : strcmp(k, "k16") == 0 ? (a == TC_F16 || a == TC_BF16) && b == a
                                    : tc_kind_is_f8(a) && tc_kind_is_f8(b));
}

/* Fragments are whole words along K, and 8 rows or columns. */
static bool check_mma_sides(const tc_verifier *v, const tc_op *op)
{
    const tc_type *a = op->in[0]->type, *c = op->in[2]->type;
    int64_t m = tc_dim_value(c->dims[0]), n = tc_dim_value(c->dims[1]);
    int64_t k = tc_dim_value(a->dims[1]);
    return ((m == 1 || m % 8 == 0) && (n == 1 || n % 8 == 0) && k % 8 == 0) ||
           tc_error(v->cx, op->loc,
                    "mma: %s of %lldx%lldx%lld (M, N, K), expected multiples "
                    "of 8",
                    tc_op_word(op, "instr"), (long long)m, (long long)n,
                    (long long)k);
}

/* A product in flight reads operand A in registers that the next step of the
 * loop may compute its own in. */
static bool check_in_flight(const tc_verifier *v, const tc_op *op)
{
    const tc_op *a = op->in[0]->def;
    if (op->in[0]->type->kind != TC_TILE || !tc_op_int(op, "async") || !a ||
        a->parent != op->parent)
        return true;
    tc_each_use (u, op->out[0])
        if (u->op->code == TC_YIELD && u->op->parent == op->parent)
            return tc_error(v->cx, op->loc,
                            "mma: in flight at the end of the step that "
                            "computes its operand A in registers, expected "
                            "mma_wait before the yield");
    return true;
}

static bool check_mma(const tc_verifier *v, const tc_op *op)
{
    const tc_type *a = op->in[0]->type, *b = op->in[1]->type,
                  *c = op->in[2]->type;
    const char *instr = tc_op_word(op, "instr");
    bool wgmma = strncmp(instr, "m64", 3) == 0;
    if (wgmma && b->kind != TC_SMEM)
        return tc_error(v->cx, op->loc,
                        "mma: operand 1 of %s is %s, expected a buffer in "
                        "shared memory",
                        instr, tc_type_name(v->cx, b));
    if (!wgmma && tc_op_int(op, "async"))
        return tc_error(v->cx, op->loc,
                        "mma: %s is not asynchronous, only m64k8, m64k16 and "
                        "m64k32 are",
                        instr);
    if (!mma_fits(instr, a->elem->kind, b->elem->kind, c->elem->kind))
        return tc_error(
            v->cx, op->loc, "mma: %s cannot multiply %s and %s to %s", instr,
            tc_type_name(v->cx, a->elem), tc_type_name(v->cx, b->elem),
            tc_type_name(v->cx, c->elem));
    if (!tc_op_is_word(op, "unsigned", "none") && a->elem->kind != TC_I8)
        return tc_error(v->cx, op->loc, "mma: unsigned(%s) of %s, expected i8",
                        tc_op_word(op, "unsigned"),
                        tc_type_name(v->cx, a->elem));
    return (strcmp(instr, "fma") == 0 || check_mma_sides(v, op)) &&
           check_in_flight(v, op);
}

static bool check_smem_alloc(const tc_verifier *v, const tc_op *op)
{
    int64_t offset = tc_op_int(op, "offset");
    return (offset >= 0 && offset % TC_SMEM_ALIGN == 0) ||
           tc_error(v->cx, op->loc,
                    "smem_alloc: offset %lld, expected a multiple of %d",
                    (long long)offset, TC_SMEM_ALIGN);
}

static bool check_smem_store(const tc_verifier *v, const tc_op *op)
{
    const tc_type *to = op->in[0]->type, *t = op->in[1]->type;
    bool fits = t->layout && !to->slots && t->elem == to->elem &&
                t->rank == to->rank &&
                memcmp(t->dims, to->dims, t->rank * sizeof *t->dims) == 0;
    return fits || tc_error(v->cx, op->loc,
                            "smem_store: %s cannot be written to %s, expected "
                            "a tile of the same sides with a layout",
                            tc_type_name(v->cx, t), tc_type_name(v->cx, to));
}

/* The elements of a buffer lie in their order, so that an index is an address.
 */
static bool is_in_rows(const tc_verifier *v, const tc_type *t)
{
    int32_t sides[TC_MAX_RANK];
    unsigned order[TC_MAX_RANK];
    tc_type_sides(t, sides);
    for (unsigned i = 0; i < t->rank; i++)
        order[i] = t->rank - 1 - i;
    return !t->slots &&
           t->layout == tc_layout_swizzled(v->cx, t->rank, sides, order,
                                           8 * tc_type_bytes(t->elem), 0);
}

static bool check_smem_take(const tc_verifier *v, const tc_op *op)
{
    const tc_type *t = op->in[0]->type;
    bool fits = is_in_rows(v, t) && op->in[1]->type->kind == TC_TILE &&
                op->in[1]->type->layout;
    return fits ||
           tc_error(v->cx, op->loc,
                    "smem_take: of %s by %s, expected a buffer with the layout "
                    "#rows, and a tile of indices with a layout",
                    tc_type_name(v->cx, t),
                    tc_type_name(v->cx, op->in[1]->type));
}

static bool check_printed(const tc_verifier *v, const tc_op *op)
{
    bool ok = true;
    for (unsigned i = 0; i < op->nin; i++) {
        const tc_type *t = op->in[i]->type;
        if (t->kind == TC_SMEM && !is_in_rows(v, t))
            ok = tc_error(v->cx, tc_op_in_loc(op, i),
                          "print: operand %u is %s, expected a buffer with the "
                          "layout #rows",
                          i, tc_type_name(v->cx, t));
    }
    return ok;
}

static bool check_smem_count(const tc_verifier *v, const tc_op *op)
{
    const tc_type *t = op->in[0]->type, *index = op->in[1]->type;
    bool fits = t->rank == 1 && t->elem->kind == TC_I32 && is_in_rows(v, t) &&
                index->kind == TC_TILE && index->layout;
    return fits ||
           tc_error(v->cx, op->loc,
                    "smem_count: in %s by %s, expected a buffer of i32 with "
                    "one axis and the layout #rows, and a tile of indices with "
                    "a layout",
                    tc_type_name(v->cx, t), tc_type_name(v->cx, index));
}

/* From operand 0 to operand 1. */
static bool check_smem_copy(const tc_verifier *v, const tc_op *op)
{
    const tc_type *from = op->in[0]->type, *to = op->in[1]->type;
    bool fits = !from->slots && !to->slots && from->elem == to->elem &&
                from->rank == to->rank &&
                memcmp(from->dims, to->dims, to->rank * sizeof *to->dims) == 0;
    return fits || tc_error(v->cx, op->loc,
                            "smem_copy: from %s to %s, expected two buffers of "
                            "the same sides and elements",
                            tc_type_name(v->cx, from), tc_type_name(v->cx, to));
}

/* Pointers whose layout holds so many bytes together, as cp.async moves them.
 */
static bool check_copied_bytes(const tc_verifier *v, const tc_op *op)
{
    const tc_type *from = op->in[0]->type;
    int64_t bytes = tc_op_int(op, "bytes");
    if (!tc_op_has_attr(op, "bytes"))
        return true;
    if (from->kind != TC_TILE || (bytes != 4 && bytes != 8 && bytes != 16))
        return tc_error(v->cx, op->loc,
                        "async_copy: bytes(%lld) from %s, expected 4, 8 or 16 "
                        "from a tile of pointers",
                        (long long)bytes, tc_type_name(v->cx, from));
    int64_t n = bytes / tc_type_bytes(from->elem->elem);
    for (unsigned i = 0; from->layout && i < from->rank; i++)
        if (n <= 1 || tc_layout_contiguous(from->layout, i, (unsigned)n) >= n)
            return true;
    return tc_error(v->cx, op->loc,
                    "async_copy: bytes(%lld), but no thread has %lld pointers "
                    "side by side",
                    (long long)bytes, (long long)n);
}

static bool check_async_copy(const tc_verifier *v, const tc_op *op)
{
    const tc_type *from = tc_type_pointee(v->cx, op->in[0]->type);
    const tc_type *to = op->in[1]->type;
    bool block = op->in[0]->type->kind == TC_BLOCK_PTR;
    bool fits = from->kind == TC_TILE && !to->slots && from->elem == to->elem &&
                from->rank == to->rank &&
                memcmp(from->dims, to->dims, to->rank * sizeof *to->dims) == 0;
    if (!fits)
        return tc_error(v->cx, op->loc,
                        "async_copy: from %s to %s, expected the same sides "
                        "and elements",
                        tc_type_name(v->cx, op->in[0]->type),
                        tc_type_name(v->cx, to));
    if (block != tc_op_has_attr(op, "layout"))
        return tc_error(v->cx, op->loc,
                        block ? "async_copy: expected layout(...), which "
                                "thread copies what"
                              : "async_copy: a layout is given for pointers, "
                                "which have one");
    if (block) {
        const tc_layout *l = tc_op_attr(op, "layout")->layout;
        const char *problem = "a layout of another shape";
        if (l->rank == from->rank)
            problem =
                tc_type_problem(v->f, tc_type_with_layout(v->cx, from, l));
        if (problem)
            return tc_error(v->cx, op->loc, "async_copy: %s", problem);
        if (!tc_verify_places(v, op, l))
            return false;
    }
    return check_copied_bytes(v, op) && tc_verify_boundary(v, op);
}

static bool check_pending(const tc_verifier *v, const tc_op *op)
{
    return tc_op_int(op, "pending") >= 0 ||
           tc_error(v->cx, op->loc, "%s: %lld pending, expected 0 or more",
                    tc_op_name(op), (long long)tc_op_int(op, "pending"));
}

static bool check_mbarrier_alloc(const tc_verifier *v, const tc_op *op)
{
    int64_t n = tc_op_int(op, "arrivals"), offset = tc_op_int(op, "offset");
    if (n < 1 || n >= 1 << 20)
        return tc_error(v->cx, op->loc,
                        "mbarrier_alloc: %lld arrivals, expected 1 to 1048575",
                        (long long)n);
    return (offset >= 0 && offset % 8 == 0) ||
           tc_error(v->cx, op->loc,
                    "mbarrier_alloc: offset %lld, expected a multiple of 8",
                    (long long)offset);
}

/* One transaction count holds 20 bits. */
static bool check_mbarrier_arrive(const tc_verifier *v, const tc_op *op)
{
    int64_t n = tc_op_int(op, "bytes");
    return (n >= 0 && n < 1 << 20) ||
           tc_error(v->cx, op->loc,
                    "mbarrier_arrive: %lld bytes, expected 0 to 1048575",
                    (long long)n);
}

static bool check_bulk(const tc_verifier *v, const tc_op *op)
{
    const tc_type *window = op->in[0]->type, *buffer = op->in[1]->type;
    bool fits = !buffer->slots && window->elem == buffer->elem &&
                window->rank == buffer->rank &&
                memcmp(window->dims, buffer->dims,
                       buffer->rank * sizeof *buffer->dims) == 0;
    return fits || tc_error(v->cx, op->loc,
                            "%s: %s and %s, expected the same sides and "
                            "elements",
                            tc_op_name(op), tc_type_name(v->cx, window),
                            tc_type_name(v->cx, buffer));
}

/* Rows of the buffer, as many as the window has and at a multiple of them. */
static bool check_bulk_load(const tc_verifier *v, const tc_op *op)
{
    const tc_type *window = op->in[0]->type, *buffer = op->in[1]->type;
    if (!tc_op_has_attr(op, "row"))
        return check_bulk(v, op);
    bool fits = !buffer->slots && window->elem == buffer->elem &&
                window->rank == buffer->rank;
    for (unsigned i = 1; fits && i < buffer->rank; i++)
        fits = window->dims[i] == buffer->dims[i];
    if (!fits)
        return tc_error(v->cx, op->loc,
                        "%s: %s and %s, expected the same elements, and "
                        "the same sides but for axis 0",
                        tc_op_name(op), tc_type_name(v->cx, window),
                        tc_type_name(v->cx, buffer));
    int64_t row = tc_op_int(op, "row"), n = tc_dim_value(window->dims[0]),
            all = tc_dim_value(buffer->dims[0]);
    return (row >= 0 && row + n <= all && row % n == 0 && all % n == 0) ||
           tc_error(v->cx, op->loc,
                    "%s: row(%lld) of a window of %lld rows in a buffer "
                    "of %lld, expected a multiple of the window's rows, which "
                    "divide the buffer's",
                    tc_op_name(op), (long long)row, (long long)n,
                    (long long)all);
}

static bool check_tma_load(const tc_verifier *v, const tc_op *op)
{
    const tc_op *full = op->in[2]->def;
    if (full && full->code == TC_MBARRIER_ALLOC &&
        !tc_op_is_word(full, "guards", "tiles"))
        return tc_error(v->cx, tc_op_in_loc(op, 2),
                        "tma_load: its mbarrier guards %s, expected one that "
                        "guards tiles",
                        tc_op_word(full, "guards"));
    return check_bulk_load(v, op);
}

static bool check_store(const tc_verifier *v, const tc_op *op)
{
    const tc_type *t = op->in[1]->type;
    int64_t axis = tc_op_int(op, "axis");
    if (!check_bulk(v, op))
        return false;
    if (tc_op_is_word(op, "kind", "add") && t->elem->kind != TC_F32)
        return tc_error(v->cx, op->loc,
                        "tma_store: kind(add) to %s, expected f32",
                        tc_type_name(v->cx, t->elem));
    bool by_group = tc_op_is_word(op, "scope", "group");
    bool may_follow = by_group && tc_op_is_word(op, "kind", "add");
    if (op->nin != 2 && (op->nin != 5 || !may_follow))
        return tc_error(v->cx, op->loc,
                        "tma_store: expected 2 operands, or 5 of scope(group) "
                        "kind(add), found %u",
                        op->nin);
    if (!tc_verify_follow(v, op, 2))
        return false;
    if (!by_group)
        return true;
    if (!v->f->warps || v->f->warps % 4)
        return tc_error(v->cx, op->loc,
                        "tma_store: scope group of %u warps, expected groups "
                        "of four",
                        v->f->warps);
    bool fits = axis >= 0 && axis < t->rank &&
                tc_dim_value(t->dims[axis]) % (v->f->warps / 4) == 0;
    return fits ||
           tc_error(v->cx, op->loc,
                    "tma_store: axis %lld of %s, expected one that %u "
                    "warp groups divide",
                    (long long)axis, tc_type_name(v->cx, t), v->f->warps / 4);
}

/* A buffer of the scalar channel. */
static bool check_smem_scalar(const tc_verifier *v, const tc_op *op)
{
    const tc_type *t = op->in[0]->type;
    bool fits = tc_type_count(t) == 1 && !t->slots &&
                (op->nin == 1 || op->in[1]->type == t->elem);
    return fits || tc_error(v->cx, op->loc,
                            "%s: %s, expected a buffer of one element of the "
                            "scalar's type",
                            tc_op_name(op), tc_type_name(v->cx, t));
}

/* The roles of warp groups. */

static bool has_tiles(const tc_op *op)
{
    for (unsigned i = 0; i < op->nin; i++)
        if (op->in[i]->type->kind == TC_TILE)
            return true;
    for (unsigned i = 0; i < op->nout; i++)
        if (op->out[i]->type->kind == TC_TILE)
            return true;
    return false;
}

static bool check_no_tiles(const tc_verifier *v, const tc_region *r,
                           const char *where)
{
    bool ok = true;
    tc_each_op (op, r) {
        if (has_tiles(op))
            ok = tc_error(v->cx, op->loc, "%s: a tile in the %s",
                          tc_op_name(op), where);
        for (unsigned i = 0; i < op->nregions; i++)
            ok &= check_no_tiles(v, op->regions[i], where);
    }
    return ok;
}

/* Threads that copy from buffer to buffer: what they may do to memory, and to
 * the other roles. */
static bool check_transposer(const tc_verifier *v, const tc_region *r)
{
    bool ok = true;
    tc_each_op (op, r) {
        bool fits = !tc_op_has(op, TC_WRITES) || op->code == TC_SMEM_COPY ||
                    op->code == TC_MBARRIER_WAIT ||
                    op->code == TC_MBARRIER_ARRIVE ||
                    op->code == TC_FENCE_ASYNC || op->code == TC_BARRIER;
        if (!fits)
            ok = tc_error(v->cx, op->loc,
                          "%s: in the transposer, expected it in "
                          "the producer or the consumer",
                          tc_op_name(op));
        for (unsigned i = 0; i < op->nregions; i++)
            ok &= check_transposer(v, op->regions[i]);
    }
    return ok;
}

/* All threads run the ops outside of roles: scalars, and what they need to
 * know of shared memory. */
static bool check_outside_roles(const tc_verifier *v, const tc_op *roles)
{
    tc_each_op (op, roles->parent) {
        bool fits = op == roles || tc_op_has(op, TC_PURE) ||
                    tc_op_has(op, TC_TERMINATOR) || op->code == TC_SMEM_ALLOC ||
                    op->code == TC_MBARRIER_ALLOC || op->code == TC_BARRIER ||
                    op->code == TC_FENCE_ASYNC || op->code == TC_ASSUME ||
                    op->code == TC_ASSERT || op->code == TC_EXIT_IF ||
                    op->code == TC_GATHER;
        if (!fits || has_tiles(op))
            return tc_error(v->cx, op->loc,
                            "%s: next to warp_groups, expected it in one of "
                            "their regions",
                            tc_op_name(op));
    }
    return true;
}

static bool check_registers(const tc_verifier *v, const tc_op *op)
{
    if (!tc_op_has_attr(op, "registers"))
        return true;
    const tc_attr *a = tc_op_attr(op, "registers");
    bool fits = a->n == 2;
    for (unsigned i = 0; fits && i < a->n; i++)
        fits = a->ints[i] >= 24 && a->ints[i] <= 256 && a->ints[i] % 8 == 0;
    return fits || tc_error(v->cx, op->loc,
                            "warp_groups: expected registers of the producer "
                            "and of a consumer, multiples of 8 from 24 to 256");
}

static bool check_warp_groups(const tc_verifier *v, const tc_op *op)
{
    if (op->nregions != 3 && !tc_verify_region_count(v, op, 2))
        return false;
    for (unsigned i = 0; i < op->nregions; i++)
        if (!tc_verify_arg_count(v, op->regions[i], 0))
            return false;
    if (op->parent != v->f->body || !v->f->is_kernel)
        return tc_error(v->cx, op->loc,
                        "warp_groups: expected it in the body of a kernel, not "
                        "in another region");
    if (!v->f->warps || v->f->warps % 4)
        return tc_error(v->cx, op->loc,
                        "warp_groups: the kernel has %u warps, expected a "
                        "multiple of 4",
                        v->f->warps);
    for (const tc_op *o = op->next; o; o = o->next)
        if (o->code == TC_WARP_GROUPS)
            return tc_error(v->cx, o->loc, "warp_groups: expected only one");
    bool ok =
        check_registers(v, op) && check_outside_roles(v, op) &&
        check_no_tiles(v, op->regions[0], "producer, which is one thread");
    if (!ok || op->nregions == 2)
        return ok;
    return check_no_tiles(v, op->regions[2],
                          "transposer, which copies buffers as they are") &&
           check_transposer(v, op->regions[2]);
}

/* The region of warp_groups that the op is in; NULL: none. */
static const tc_region *role_of(const tc_op *op)
{
    const tc_region *r = op->parent;
    while (r->op && r->op->code != TC_WARP_GROUPS)
        r = r->op->parent;
    return r->op ? r : NULL;
}

static bool is_roles(const tc_op *op)
{
    return op->code == TC_WARP_GROUPS;
}

/* Rules of ops that all threads of a role do together. */
static bool check_meeting(const tc_verifier *v, const tc_op *op)
{
    const tc_region *role = role_of(op);
    return !role || role != role->op->regions[0] ||
           tc_error(v->cx, op->loc,
                    "%s: in the producer, which is one thread: expected "
                    "mbarriers",
                    tc_op_name(op));
}

static bool check_barrier(const tc_verifier *v, const tc_op *op)
{
    const tc_region *role = role_of(op);
    bool by_group = tc_op_is_word(op, "scope", "group");
    if (!check_meeting(v, op))
        return false;
    if (!by_group || role || !v->f->is_kernel)
        return true;
    if (tc_region_any(v->f->body, is_roles))
        return tc_error(v->cx, op->loc,
                        "barrier: scope(group) outside of the consumer, where "
                        "all warps of the kernel meet: expected no scope");
    return (v->f->warps && v->f->warps % 4 == 0) ||
           tc_error(v->cx, op->loc,
                    "barrier: scope(group) of %u warps, expected groups of "
                    "four",
                    v->f->warps);
}

static bool check_in_consumer(const tc_verifier *v, const tc_op *op)
{
    const tc_region *r = role_of(op);
    return (r && r == r->op->regions[1]) ||
           tc_error(v->cx, op->loc,
                    "%s: expected it in the consumer of warp_groups",
                    tc_op_name(op));
}

static bool check_fetch(const tc_verifier *v, const tc_op *op)
{
    return op->in[0]->type->kind == TC_I32 ||
           tc_error(v->cx, op->loc, "next_tile: operand 0 is %s, expected i32",
                    tc_type_name(v->cx, op->in[0]->type));
}

static bool meets_all(const tc_op *op)
{
    return op->code == TC_BARRIER && !tc_op_is_word(op, "scope", "group");
}

/* In the consumer, whose groups all take the same turns, by pairs. */
static bool check_turn(const tc_verifier *v, const tc_op *op)
{
    const char *name = tc_op_name(op);
    bool takes = op->code == TC_ORDER_WAIT;
    if (!check_in_consumer(v, op))
        return false;
    const tc_op *other = takes ? op->next : op->prev;
    while (other && other->code != TC_ORDER_WAIT &&
           other->code != TC_ORDER_ARRIVE) {
        if (takes && tc_op_any(other, meets_all))
            return tc_error(v->cx, other->loc,
                            "a barrier of all groups in the turn of one: "
                            "others wait for theirs, expected it before "
                            "order_wait or after order_arrive");
        other = takes ? other->next : other->prev;
    }
    return (other && other->code != op->code) ||
           tc_error(v->cx, op->loc, "%s: expected %s it in the same region",
                    name, takes ? "order_arrive after" : "order_wait before");
}

static bool check_warpgroup_row(const tc_verifier *v, const tc_op *op)
{
    int64_t rows = tc_op_int(op, "rows"), groups = v->f->warps / 4;
    return check_in_consumer(v, op) &&
           ((rows > 0 && rows <= INT32_MAX && groups > 0 &&
             rows % groups == 0) ||
            tc_error(
                v->cx, op->loc,
                "warpgroup_row: %lld rows, expected a multiple of the %lld "
                "groups of four warps, below 2^31",
                (long long)rows, (long long)groups));
}

/* ---- The table ---- */

typedef bool check_fn(const tc_verifier *v, const tc_op *op);

static check_fn *const checks[TC_OPCODE_COUNT] = {
    [TC_MMA] = check_mma,
    [TC_MMA_WAIT] = check_pending,
    [TC_PRINT] = check_printed,
    [TC_SMEM_ALLOC] = check_smem_alloc,
    [TC_SMEM_STORE] = check_smem_store,
    [TC_SMEM_TAKE] = check_smem_take,
    [TC_SMEM_COUNT] = check_smem_count,
    [TC_SMEM_COPY] = check_smem_copy,
    [TC_ASYNC_COPY] = check_async_copy,
    [TC_ASYNC_WAIT] = check_pending,
    [TC_BARRIER] = check_barrier,
    [TC_FOLLOW] = check_meeting,
    [TC_FOLLOW_END] = check_meeting,
    [TC_WARP_GROUPS] = check_warp_groups,
    [TC_MBARRIER_ALLOC] = check_mbarrier_alloc,
    [TC_MBARRIER_ARRIVE] = check_mbarrier_arrive,
    [TC_TMA_LOAD] = check_tma_load,
    [TC_TMA_PREFETCH] = check_bulk_load,
    [TC_TMA_STORE] = check_store,
    [TC_TMA_STORE_WAIT] = check_pending,
    [TC_ORDER_WAIT] = check_turn,
    [TC_ORDER_ARRIVE] = check_turn,
    [TC_WARPGROUP_ROW] = check_warpgroup_row,
    [TC_SMEM_STORE_SCALAR] = check_smem_scalar,
    [TC_SMEM_LOAD_SCALAR] = check_smem_scalar,
    [TC_NEXT_TILE] = check_fetch,
    [TC_MARK] = tc_verify_mark,
};

bool tc_verify_machine_op(const tc_verifier *v, const tc_op *op)
{
    return !checks[op->code] || checks[op->code](v, op);
}
