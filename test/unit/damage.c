/* SPDX-License-Identifier: Apache-2.0
 *
 * The verifier on real programs with random damage: whatever was done to types,
 * operands, attributes, regions and lists, it ends and reports.
 */
#include "ir/ir.h"
#include "ir/types/layout.h"
#include "test/unit/run.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

static tc_context *cx;
static tc_module *m;

static unsigned any(unsigned count)
{
    return (unsigned)rand() % count;
}

static const tc_type *scalar(tc_kind kind)
{
    return tc_type_scalar(cx, kind);
}

static const tc_type *shaped(tc_kind kind, int64_t rows, int64_t cols,
                             const tc_type *elem)
{
    const tc_dim *dims[] = {tc_dim_const(cx, rows), tc_dim_const(cx, cols)};
    return tc_type_shaped(cx, kind, 2, dims, elem);
}

static const tc_layout *rows(unsigned rank, const int32_t *sides)
{
    static const unsigned order[] = {1, 0}, flat[] = {0};
    return tc_layout_swizzled(cx, rank, sides, rank == 2 ? order : flat, 16, 0);
}

/* Layouts of 16x8 tiles, of other tiles, of shared memory. */
static const tc_layout *any_layout(void)
{
    static const int32_t sides[] = {16, 8}, others[] = {64, 64}, one[] = {32};
    static const int32_t per_thread[] = {1, 2}, lanes[] = {8, 4},
                         warps[] = {4, 1};
    static const unsigned order[] = {1, 0};
    switch (any(5)) {
    case 0: return tc_layout_mma_c(cx, sides, 1, 1);
    case 1: return tc_layout_mma_c(cx, others, 4, 1);
    case 2:
        return tc_layout_blocked(cx, 2, sides, per_thread, lanes, warps, order);
    case 3: return rows(2, sides);
    default: return rows(1, one);
    }
}

static const tc_type *any_type_with_layout(void)
{
    const tc_type *tile =
        shaped(TC_TILE, any(2) ? 16 : 64, any(2) ? 8 : 64, scalar(TC_BF16));
    static const unsigned slots[] = {0, 1, 3, 64, 65, ~0u};
    const tc_layout *l = any_layout();
    if (l->rank != tile->rank)
        return tile;
    return any(2) ? tc_type_with_layout(cx, tile, l)
                  : tc_type_smem(cx, tile, l, slots[any(6)]);
}

enum { MOST = 4096 };
static tc_op *ops[MOST];
static tc_value *values[MOST];
static unsigned nops, nvalues;

static void list_values(tc_value **more, unsigned count)
{
    for (unsigned i = 0; i < count && nvalues < MOST; i++)
        values[nvalues++] = more[i];
}

static void list_region(tc_region *r)
{
    list_values(r->args, r->nargs);
    tc_each_op (op, r) {
        if (nops < MOST)
            ops[nops++] = op;
        list_values(op->out, op->nout);
        for (unsigned i = 0; i < op->nregions; i++)
            list_region(op->regions[i]);
    }
}

static const tc_type *any_type(void)
{
    const tc_type *const all[] = {
        NULL,
        scalar(TC_I1),
        scalar(TC_I64),
        scalar(TC_F8E4M3),
        shaped(TC_TILE, 16, 8, scalar(TC_F32)),
        tc_type_ptr(cx, NULL),
        tc_type_param(cx, "T"),
        tc_type_ptr(cx, scalar(TC_F32)),
        shaped(TC_TILE, 0, -8, scalar(TC_I8)),
        shaped(TC_TILE, INT64_MAX, 8, scalar(TC_F64)),
        shaped(TC_TENSOR, 8, 8, scalar(TC_F16)),
        shaped(TC_BLOCK_PTR, 8, 8,
               tc_type_ptr(cx, shaped(TC_TILE, 16, 8, scalar(TC_F32)))),
        tc_type_shaped(cx, TC_TILE, 0, NULL, scalar(TC_F32)),
        tc_type_shaped(cx, TC_TENSOR, 0, NULL, NULL),
    };
    unsigned n = sizeof all / sizeof *all;
    unsigned i = any(n + n / 2);
    return i < n ? all[i] : any_type_with_layout();
}

static tc_attr any_attr(void)
{
    static const int64_t ints[] = {-1, 0, 3, INT64_MAX};
    const char *const strings[] = {"a", NULL};
    const tc_dim *const dims[] = {NULL, tc_dim_param(cx, "Q")};
    tc_attr one = {.kind = (tc_attr_kind)any(TC_ATTR_FLAGS + 1)};
    switch (one.kind) {
    case TC_ATTR_INT:
    case TC_ATTR_FLAGS:
    case TC_ATTR_BOOL: one.i = ints[any(4)]; break;
    case TC_ATTR_NUMBER: one.number.i = ints[any(4)]; break;
    case TC_ATTR_STRING:
    case TC_ATTR_SYMBOL: one.s = any(2) ? "@f" : NULL; break;
    case TC_ATTR_INTS:
        one.n = any(5);
        one.ints = ints;
        break;
    case TC_ATTR_DIMS:
        one.n = any(3);
        one.dims = tc_arena_copy(&m->arena, dims, sizeof dims);
        break;
    case TC_ATTR_STRINGS:
        one.n = any(3);
        one.strings = tc_arena_copy(&m->arena, strings, sizeof strings);
        break;
    case TC_ATTR_LAYOUT: one.layout = any(3) ? any_layout() : NULL; break;
    default: break;
    }
    return one;
}

static void damage(void)
{
    tc_op *op = ops[any(nops)], *other = ops[any(nops)];
    tc_value *v = values[any(nvalues)];
    switch (any(10)) {
    case 0: v->type = any_type(); break;
    case 1:
    case 2:
        if (op->nin)
            tc_op_set_in(op, any(op->nin), v);
        break;
    case 3: /* move it anywhere */
        if (op->parent)
            tc_op_remove(op);
        if (other->parent)
            tc_op_insert(op, other->parent, other);
        break;
    case 4:
        if (tc_op_nattrs(op->code))
            op->attrs[any(tc_op_nattrs(op->code))] = any_attr();
        break;
    case 5:
        if (op->nregions && other->nregions)
            op->regions[any(op->nregions)] = other->regions[0];
        break;
    case 6: op->nregions = op->nregions ? op->nregions - 1 : 0; break;
    case 7: op->nout = op->nout ? op->nout - 1 : 0; break;
    case 8: op->next = any(3) ? other : NULL; break;
    default: v->uses = any(2) ? values[any(nvalues)]->uses : NULL;
    }
}

static void read_module(const char *path)
{
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file, "run from the root of the repository");
    static char text[1 << 16];
    size_t len = fread(text, 1, sizeof text, file);
    fclose(file);
    ck_assert(tc_parse(m, tc_source_add(cx, path, text, len)));
}

/* Whatever was done to a program, the verifier comes to an end. */
START_TEST(test_random_damage)
{
    srand((unsigned)_i);
    cx = tc_context_new();
    jmp_buf unwind;
    ck_assert_int_eq(setjmp(unwind), 0);
    cx->memory.unwind = &unwind;
    m = tc_module_new(cx);
    static const char *const files[] = {"kernels/attention_fwd.tile",
                                        "test/ir/roundtrip/all-ops.tile",
                                        "test/ir/roundtrip/machine.tile"};
    read_module(files[_i % 3]);
    ck_assert(tc_module_verify(m));
    nops = nvalues = 0;
    tc_each_func (g, m) {
        list_region(g->body);
        if (g->grid)
            list_region(g->grid);
    }
    for (unsigned i = 1 + any(4); i > 0; i--)
        damage();
    bool ok = tc_module_verify(m);
    ck_assert_int_eq(ok, cx->nerrors == 0);
    tc_module_free(m);
    tc_context_free(cx);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("damage");
    TCase *t = tcase_create("damage");
    tcase_add_loop_test(t, test_random_damage, 0, 600);
    suite_add_tcase(s, t);
    return run_suite(s);
}
