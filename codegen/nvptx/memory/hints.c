/* SPDX-License-Identifier: Apache-2.0
 *
 * Hints to caches: words of an instruction, and a policy for the L2 cache as
 * its last operand.
 *
 *   createpolicy.fractional.L2::evict_first.b64 %rd2, 1.0;
 *   ld.global.L1::evict_first.L2::cache_hint.b32 %r1, [%rd1], %rd2;
 *
 * PTX ISA, ld and st: a cache operator (.cg) and a priority of the L1 cache
 * exclude each other; a policy may come with both. Other accesses have the
 * policy only.
 */
#include "codegen/nvptx/memory/hints.h"

#include <string.h>

/* By the L1 cache; cache, evict: NULL for none. */
static const char *first_level(tc_gen *g, const char *cache, const char *evict)
{
    if (cache && strcmp(cache, "none") == 0)
        return ".L1::no_allocate";
    if (cache)
        return tc_arena_printf(g->arena, ".%s", cache);
    return evict ? tc_arena_printf(g->arena, ".L1::evict_%s", evict) : "";
}

static LLVMValueRef policy_of(tc_gen *g, const char *evict)
{
    const char *text = tc_arena_printf(
        g->arena, "createpolicy.fractional.L2::evict_%s.b64 $0, 1.0;", evict);
    return tc_gen_pure_asm(g, g->i64, text, "=l", 0, NULL);
}

/* Do its instructions have words for the L1 cache? */
static bool is_plain(const tc_op *op)
{
    return op->code == TC_LOAD || op->code == TC_GATHER ||
           (op->code == TC_STORE && !tc_op_is_word(op, "kind", "add"));
}

tc_gen_hints tc_gen_hints_of(tc_gen *g, const tc_op *op)
{
    const char *evict = tc_op_hint(op, "evict"),
               *cache = tc_op_hint(op, "cache");
    tc_gen_hints h = {is_plain(op) ? first_level(g, cache, evict) : "", NULL};
    if (!evict)
        return h;
    h.policy = policy_of(g, evict);
    h.words = tc_arena_printf(g->arena, "%s.L2::cache_hint", h.words);
    return h;
}
