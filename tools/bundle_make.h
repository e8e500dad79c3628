/* SPDX-License-Identifier: Apache-2.0
 *
 * tilec compile --emit=bundle.
 */
#ifndef TOOL_BUNDLE_MAKE_H
#define TOOL_BUNDLE_MAKE_H

#include "tools/common/args.h"

#define BUNDLE_OPTIONS                                                         \
    {"--mask", "MASK",                                                         \
     "--emit=bundle of `attention`: a mask; may be given\n"                    \
     "several times, `none` for none"},                                        \
        {"--score", "SCORE", "likewise: a score function for all of them"},    \
        {"--types", "LIST", "likewise: data types, such as bf16,f16"},         \
        {"--dims", "LIST", "likewise: head dims, such as 64,128"},             \
        {"--backward", NULL, "likewise: the gradients too"},                   \
    {                                                                          \
        "--cpu", "CPU",                                                        \
            "--emit=bundle for cpu: x86-64-v2, x86-64-v3 (default),\n"         \
            "x86-64-v4"                                                        \
    }

/* The exit code. */
int bundle_make(const tool_args *args);

#endif
