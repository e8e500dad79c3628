/* SPDX-License-Identifier: Apache-2.0
 *
 * The modelled steady state of a kernel, and shared memory over time, as JSON:
 * the object that docs/profile.md describes, with source "model".
 */
#ifndef TC_TIMELINE_H
#define TC_TIMELINE_H

#include "ir/ir.h"
#include "passes/target/target.h"

/* Of a kernel after the passes of a GPU target. `null`: it has no loop of
 * products, or the target is none. */
void tc_timeline_json(tc_text *out, tc_func *f, const tc_target *target);

#endif
