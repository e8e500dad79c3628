/* SPDX-License-Identifier: Apache-2.0
 *
 * The library's contracts: contexts, compiles, metadata, launches; one test
 * for each message; out of memory at every place; threads.
 */
#include "test/unit/api/fixture.h"
#include "test/unit/run.h"

int main(void)
{
    Suite *s = suite_create("api");
    static const struct {
        const char *name;
        void (*add)(TCase *t);
    } cases[] = {
        {"compiling", api_compiling_tests}, {"launching", api_launching_tests},
        {"limits", api_limits_tests},       {"sizes", api_sizes_tests},
        {"workers", api_workers_tests},     {"kept", api_kept_tests},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        TCase *t = tcase_create(cases[i].name);
        tcase_add_checked_fixture(t, api_make_context, api_free_context);
        cases[i].add(t);
        suite_add_tcase(s, t);
    }
    return run_suite(s);
}
