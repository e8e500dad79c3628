/* SPDX-License-Identifier: Apache-2.0
 *
 * Launches of what Hopper's code asks for, by a driver that records: tensor
 * maps, counters of tiles, threads that are not of the tiles' warps; targets
 * that one kind of device runs; assemblers that give up.
 *
 * What code asks for stands in its entry of the cache, and is changed there:
 * the library takes it as it takes what was compiled.
 */
#include "test/unit/hopper/fixture.h"
#include "test/unit/run.h"

int main(void)
{
    Suite *s = suite_create("hopper");
    static const struct {
        const char *name;
        void (*add)(TCase *t);
    } cases[] = {
        {"maps", hopper_maps_tests},
        {"counters", hopper_counters_tests},
        {"threads", hopper_maps_threads_tests},
        {"threads", hopper_counters_threads_tests},
        {"entries", hopper_entries_tests},
        {"assemblers", hopper_assemblers_tests},
        {"failures", hopper_failures_tests},
        {"damage", hopper_damage_tests},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        TCase *t = tcase_create(cases[i].name);
        tcase_add_checked_fixture(t, hopper_set_up, hopper_tear_down);
        cases[i].add(t);
        suite_add_tcase(s, t);
    }
    return run_suite(s);
}
