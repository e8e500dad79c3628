/* SPDX-License-Identifier: Apache-2.0
 *
 * The interpreter of machine-level IR, by programs that are right and by the
 * same programs with one mistake each, which must be found at its line.
 */
#include "test/unit/interp/fixture.h"
#include "test/unit/run.h"

int main(void)
{
    Suite *s = suite_create("interp");
    static const struct {
        const char *name;
        void (*add)(TCase *t);
    } cases[] = {
        {"pipeline", interp_pipeline_tests},
        {"values", interp_value_tests},
        {"memory", interp_memory_tests},
        {"roles", interp_role_tests},
        {"transposers", interp_transposer_tests},
        {"products", interp_product_tests},
        {"tiles", interp_tile_tests},
        {"overlap", interp_overlap_tests},
        {"meeting", interp_meeting_tests},
        {"programs", interp_program_tests},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        TCase *t = tcase_create(cases[i].name);
        tcase_add_checked_fixture(t, NULL, interp_close);
        cases[i].add(t);
        suite_add_tcase(s, t);
    }
    return run_suite(s);
}
