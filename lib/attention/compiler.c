/* SPDX-License-Identifier: Apache-2.0
 *
 * The compiler of libtilec; lib/runtime/no_compiler.c stands in for it.
 */
#include "lib/append/append.h"
#include "lib/attention/attention.h"
#include "lib/kvcache/kvcache.h"

static const tc_compiler compiler = {.attention = tc_attention_compile,
                                     .kvcache = tc_kvcache_compile,
                                     .append = tc_append_compile};

const tc_compiler *const tc_the_compiler = &compiler;
