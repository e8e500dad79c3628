/* SPDX-License-Identifier: Apache-2.0
 *
 * What the main of each program of unit tests ends with.
 */
#ifndef TC_TEST_RUN_H
#define TC_TEST_RUN_H

#include <check.h>

/* Runs and frees the suite: the program's exit status. */
static inline int run_suite(Suite *s)
{
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}

#endif
