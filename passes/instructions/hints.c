/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/instructions/hints.h"

void tc_hints_move(const char *pass, tc_op *to, tc_op *from, const char *why)
{
    const char *lost = tc_op_copy_hints(to, from);
    if (!lost)
        return;
    tc_missed(tc_op_context(from), from->loc, pass,
              "%s: cache(%s) has no effect: %s", tc_op_name(from), lost, why);
    tc_op_set_word(from, "cache", "auto");
}
