/* SPDX-License-Identifier: Apache-2.0
 *
 * Advisories of assemblers: ptxas and the driver assemble the code, it is
 * correct, and it is several times slower than intended. They report that in a
 * line that is no error:
 *
 *   ptxas info : (C7512) Potential Performance Loss: wgmma.mma_async
 *   instructions are serialized due to insufficient register resources for the
 *   function 'attention_fwd'
 *
 * Such code is refused, so that the caller tries another configuration.
 */
#include "lib/gpu/gpu.h"

#include <string.h>

#define FEWER_REGISTERS "compile it with smaller tiles, or more warps"
#define SCHEDULE        "compile it with other tiles or fewer stages"
#define BOUND                                                                  \
    "the kernel's register bound does not reach the assembler: compile it "    \
    "for sm_90, and report this"

static const tc_loss losses[] = {
    {"(C7504)", "setmaxnreg is ignored, as in code to be linked",
     "give a ptxas in the context's options"},
    {"(C7505)", "setmaxnreg is ignored, to allow debugging",
     "assemble it without debugging"},
    {"(C7508)", "setmaxnreg is ignored: the registers at entry are not known",
     BOUND},
    {"(C7510)",
     "wgmma products are serialized: a function is called between their start "
     "and their wait",
     "take `print` out of its loops"},
    {"(C7511)",
     "wgmma products are serialized: their accumulators do not fit into the "
     "registers",
     FEWER_REGISTERS},
    {"(C7512)",
     "wgmma products are serialized: the kernel needs more registers than "
     "there are",
     FEWER_REGISTERS},
    {"(C7514)",
     "wgmma products are serialized: an accumulator is read before its wait",
     SCHEDULE},
    {"(C7515)",
     "wgmma products are serialized: an accumulator is written before its wait",
     SCHEDULE},
    {"(C7517)",
     "a wait for wgmma products is put in: a result is used before its wait",
     SCHEDULE},
    {"(C7519)",
     "a wait before wgmma products is put in: their registers are written "
     "after the fence",
     SCHEDULE},
    /* The codes around these are not documented; their words are alike. */
    {"Potential Performance Loss: wgmma", "wgmma products are serialized",
     SCHEDULE},
    {"Potential Performance Loss: 'setmaxnreg'", "setmaxnreg is ignored",
     FEWER_REGISTERS},
};

const tc_loss *tc_loss_find(const char *log)
{
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++)
        if (strstr(log, losses[i].mark))
            return &losses[i];
    return NULL;
}
