/* SPDX-License-Identifier: Apache-2.0
 *
 * The operands of `tensor`: a pointer to its elements, an i32 for each `?` of
 * the type that the text states, and a stride for each dim.
 *
 *   %t = tensor %p, %m, %s, %one : tensor<[?, 64] x f16>
 *     sizes %m and 64, strides %s and %one
 */
#include "ir/infer/infer.h"

static bool check_pointer(const tc_op *op, const tc_type *t)
{
    const tc_type *p = op->in[0]->type;
    if (p->kind != TC_PTR)
        return tc_error(tc_op_context(op), tc_op_in_loc(op, 0),
                        "tensor: operand 0 is %s, expected one pointer",
                        tc_op_in_type(op, 0));
    return p->elem == t->elem ||
           tc_error(tc_op_context(op), tc_op_in_loc(op, 0),
                    "tensor: operand 0 is %s, expected a pointer to elements "
                    "of %s",
                    tc_op_in_type(op, 0), tc_type_name(tc_op_context(op), t));
}

bool tc_infer_make_tensor(const tc_op *op, tc_results *r)
{
    tc_context *cx = tc_op_context(op);
    const tc_type *t = r->types[0];
    if (t->kind != TC_TENSOR)
        return tc_error(cx, op->loc,
                        "tensor: type is %s, expected a tensor's, as "
                        "`tensor<[?, 64] x f16>`",
                        tc_type_name(cx, t));
    unsigned sizes = tc_made_tensor_sizes(t);
    if (op->nin != 1 + sizes + t->rank)
        return tc_error(cx, op->loc,
                        "tensor: %u operands, expected %u for %s: a pointer, "
                        "a size for each `?`, a stride for each dim",
                        op->nin, 1 + sizes + t->rank, tc_type_name(cx, t));
    for (unsigned i = 0; i < sizes; i++)
        if (op->in[1 + i]->type->kind != TC_I32)
            return tc_error(cx, tc_op_in_loc(op, 1 + i),
                            "tensor: a size is %s, expected i32: cast it",
                            tc_op_in_type(op, 1 + i));
    return check_pointer(op, t);
}
