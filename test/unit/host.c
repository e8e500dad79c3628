/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU target, by small kernels that each have one thing to get wrong.
 */
#include "test/unit/host/fixture.h"
#include "test/unit/run.h"

static void close_all(void)
{
    host_close();
    host_free_pool();
}

int main(void)
{
    Suite *s = suite_create("host");
    static const struct {
        const char *name;
        void (*add)(TCase *t);
    } cases[] = {
        {"control", host_control_tests},  {"shapes", host_shape_tests},
        {"memory", host_memory_tests},    {"reports", host_report_tests},
        {"machines", host_machine_tests},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        TCase *t = tcase_create(cases[i].name);
        tcase_add_checked_fixture(t, host_make_pool, close_all);
        cases[i].add(t);
        suite_add_tcase(s, t);
    }
    return run_suite(s);
}
