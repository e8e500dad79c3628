/* SPDX-License-Identifier: Apache-2.0 */
#include "codegen/code_size.h"

#include "ir/base/limits.h"

/* Counting takes time, too: it is done once ops of this weight have been
 * added. */
enum { STRIDE = TC_MOST_INSTRUCTIONS / 1024 };

static uint64_t count_function(LLVMValueRef fn)
{
    uint64_t n = 0;
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(fn); b;
         b = LLVMGetNextBasicBlock(b), n += TC_BLOCK_INSTRUCTIONS)
        for (LLVMValueRef i = LLVMGetFirstInstruction(b); i;
             i = LLVMGetNextInstruction(i))
            n++;
    return n;
}

static uint64_t count_module(LLVMModuleRef m)
{
    uint64_t n = 0;
    for (LLVMValueRef fn = LLVMGetFirstFunction(m); fn;
         fn = LLVMGetNextFunction(fn))
        n += count_function(fn);
    return n;
}

static bool too_large(const tc_code_size *s, tc_share most)
{
    tc_context *cx = s->kernel->module->cx;
    tc_error(cx, most.loc,
             "@%s gets too large: more than %u instructions, %u%% of them of "
             "this line",
             s->kernel->name, TC_MOST_INSTRUCTIONS,
             (unsigned)(100 * most.weight / (most.total ? most.total : 1)));
    tc_note(cx, most.loc, "%s", s->remedy);
    return false;
}

bool tc_code_size_expect(const tc_code_size *s, tc_arena *scratch)
{
    tc_share most = tc_growth_of_region(scratch, s->kernel->body, s->weigh);
    return most.total <= TC_MOST_INSTRUCTIONS || too_large(s, most);
}

bool tc_code_size_take(tc_code_size *s, const tc_op *op, tc_arena *scratch)
{
    s->since += s->weigh ? s->weigh(op) + 1 : 1;
    if (s->since < STRIDE)
        return true;
    s->since = 0;
    return count_module(s->module) <= TC_MOST_INSTRUCTIONS ||
           too_large(s,
                     tc_growth_of_region(scratch, s->kernel->body, s->weigh));
}
