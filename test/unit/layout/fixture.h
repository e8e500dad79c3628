/* SPDX-License-Identifier: Apache-2.0
 *
 * A context that unwinds, and ways to ask of a layout what its definition says.
 */
#ifndef TEST_LAYOUT_FIXTURE_H
#define TEST_LAYOUT_FIXTURE_H

#include "ir/types/layout.h"
#include "test/unit/fixture/fixture.h"
#include <check.h>
#include <stdio.h>
#include <string.h>

typedef int32_t pair[2];
void layout_at(const tc_layout *l, uint32_t reg, uint32_t lane, uint32_t warp,
               uint32_t offset, int32_t coord[TC_MAX_RANK]);

/* ck_assert notes each call in a file: too slow for millions. */
void layout_is(int32_t got, int32_t expected);
void layout_has_mode(const tc_layout *l, tc_input in, unsigned i,
                     uint32_t count, int32_t r, int32_t c);
void layout_has_bases(const tc_layout *l, tc_input in, unsigned n,
                      const pair *images);

/* Every known layout passes its own check. */
void layout_is_whole(const tc_layout *l);

/* Warp grids and tiles that fit. */
typedef struct grid {
    int32_t m, n;
    int wm, wn;
} grid;

enum { NGRIDS = 15 };
extern const grid grids[NGRIDS];
void layout_making_tests(TCase *t);
void layout_fragments_tests(TCase *t);
void layout_orders_tests(TCase *t);
void layout_shared_tests(TCase *t);
void layout_views_tests(TCase *t);
void layout_parts_tests(TCase *t);
void layout_scans_tests(TCase *t);

#endif
