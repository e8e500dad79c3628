/* SPDX-License-Identifier: Apache-2.0
 *
 * GPU targets without a GPU: a driver that records what it is asked
 * (test/fake) stands in. What is loaded and when, what a launch hands over,
 * what each failure says.
 */
#include "test/unit/gpu/fixture.h"
#include "test/unit/run.h"

int main(void)
{
    Suite *s = suite_create("gpu");
    static const struct {
        const char *name;
        void (*add)(TCase *t);
    } cases[] = {
        {"launching", gpu_launching_tests}, {"threads", gpu_threads_tests},
        {"again", gpu_again_tests},         {"loading", gpu_loading_tests},
        {"cache", gpu_cache_tests},         {"failures", gpu_failures_tests},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        TCase *t = tcase_create(cases[i].name);
        tcase_add_checked_fixture(t, gpu_set_up, gpu_tear_down);
        cases[i].add(t);
        suite_add_tcase(s, t);
    }
    return run_suite(s);
}
