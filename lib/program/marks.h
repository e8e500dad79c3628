/* SPDX-License-Identifier: Apache-2.0
 *
 * What the marks of a kernel mean, as JSON: the table by which a profile's
 * records are read.
 *
 *   {"kernel": "attention_fwd", "target": "sm_90a",
 *    "writers": [{"role": "consumers", "group": 0}, ...],
 *    "loops": [{"role": "consumers", "name": "for %n0_1", "line": 93,
 *               "parent": 3}, ...],
 *    "marks": [{"number": 1, "role": "producer", "loop": -1,
 *               "branches": 0, "kind": "begin",
 *               "name": "", "line": 12, "column": 3}, ...],
 *    "model": null or the modelled timeline (timeline.h)}
 *
 * writers: in the order of their rings. loop: an index of `loops`, the
 * innermost one around the mark; branches: `if`s between the two.
 */
#ifndef TC_MARKS_H
#define TC_MARKS_H

#include "ir/ir.h"
#include "passes/target/target.h"

void tc_marks_json(tc_text *out, tc_func *f, const tc_target *target);

#endif
