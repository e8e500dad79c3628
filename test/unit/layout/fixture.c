/* SPDX-License-Identifier: Apache-2.0 */
#include "test/unit/layout/fixture.h"

void layout_at(const tc_layout *l, uint32_t reg, uint32_t lane, uint32_t warp,
               uint32_t offset, int32_t coord[TC_MAX_RANK])
{
    uint32_t index[TC_INPUT_COUNT] = {reg, lane, warp, offset};
    tc_layout_apply(l, index, coord);
}

void layout_is(int32_t got, int32_t expected)
{
    if (got != expected)
        ck_abort_msg("%d, expected %d", got, expected);
}

void layout_has_mode(const tc_layout *l, tc_input in, unsigned i,
                     uint32_t count, int32_t r, int32_t c)
{
    ck_assert_uint_lt(i, l->nmodes[in]);
    const tc_mode *m = &l->modes[in][i];
    ck_assert_msg(m->count == count && m->image[0] == r && m->image[1] == c,
                  "input %d mode %u is %u*(%d,%d), expected %u*(%d,%d)",
                  (int)in, i, m->count, m->image[0], m->image[1], count, r, c);
}

void layout_has_bases(const tc_layout *l, tc_input in, unsigned n,
                      const pair *images)
{
    ck_assert_uint_eq(l->nmodes[in], n);
    for (unsigned i = 0; i < n; i++)
        layout_has_mode(l, in, i, 2, images[i][0], images[i][1]);
}

void layout_is_whole(const tc_layout *l)
{
    tc_layout_spec s;
    tc_layout_spec_of(l, &s);
    const char *why = tc_layout_check(cx, &s);
    ck_assert_msg(!why, "%s", why);
    ck_assert_ptr_eq(tc_layout_get(cx, &s), l);
}

const grid grids[NGRIDS] = {{16, 8, 1, 1},    {64, 64, 4, 1},  {128, 64, 4, 1},
                            {64, 176, 4, 1},  {64, 80, 2, 2},  {192, 96, 12, 1},
                            {192, 64, 3, 1},  {192, 64, 6, 2}, {192, 192, 4, 3},
                            {176, 64, 11, 2}, {48, 24, 3, 1},  {128, 256, 2, 4},
                            {80, 40, 1, 1},   {144, 72, 3, 3}, {32, 128, 2, 8}};
