/* SPDX-License-Identifier: Apache-2.0
 *
 * Layouts against their definitions: each known layout at every index, written
 * here as a formula; views; what the check refuses.
 */
#include "test/unit/layout/fixture.h"
#include "test/unit/run.h"

int main(void)
{
    Suite *s = suite_create("layout");
    static const struct {
        const char *name;
        void (*add)(TCase *t);
    } cases[] = {
        {"making", layout_making_tests}, {"fragments", layout_fragments_tests},
        {"shared", layout_shared_tests}, {"views", layout_views_tests},
        {"orders", layout_orders_tests}, {"parts", layout_parts_tests},
        {"scans", layout_scans_tests},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        TCase *t = tcase_create(cases[i].name);
        tcase_add_checked_fixture(t, fixture_setup, fixture_teardown);
        cases[i].add(t);
        suite_add_tcase(s, t);
    }
    return run_suite(s);
}
