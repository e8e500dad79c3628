/* SPDX-License-Identifier: Apache-2.0
 *
 * The verifier on programs that no text can express: broken links, uses,
 * dominance, missing terminators, wrong results. What text can express is in
 * test/ir/verify. One test a rule of ir/verify/verify.c, each with its message.
 */
#include "test/unit/run.h"
#include "test/unit/verify/fixture.h"

int main(void)
{
    Suite *s = suite_create("verify");
    static const struct {
        const char *name;
        void (*add)(TCase *t);
    } cases[] = {
        {"functions", verify_functions_tests},
        {"structure", verify_structure_tests},
        {"ops", verify_ops_tests},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        TCase *t = tcase_create(cases[i].name);
        tcase_add_checked_fixture(t, verify_setup, verify_teardown);
        cases[i].add(t);
        suite_add_tcase(s, t);
    }
    return run_suite(s);
}
