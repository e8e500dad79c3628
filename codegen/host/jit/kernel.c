/* SPDX-License-Identifier: Apache-2.0
 *
 * A compiled kernel, whatever has linked it.
 */
#include "codegen/host/jit/compile.h"

#include <stdlib.h>

tc_host_arg tc_host_arg_of(const tc_type *t)
{
    return (tc_host_arg){t->kind, t->rank};
}

void tc_host_count_words(tc_host_kernel *k)
{
    k->nwords = 0;
    for (unsigned i = 0; i < k->nargs; i++)
        k->nwords += k->args[i].kind == TC_TENSOR ? 1 + 2 * k->args[i].rank : 1;
}

void tc_host_free(tc_host_kernel *k)
{
    if (!k)
        return;
    if (k->unlink)
        k->unlink(k);
    tc_arena_reset(&k->arena);
    free(k->object);
    free(k);
}
