/* SPDX-License-Identifier: Apache-2.0
 *
 * What the main of each program of unit tests ends with; and how long Check
 * waits for a test: its own 4 s are too short for a busy machine.
 */
#ifndef TC_TEST_RUN_H
#define TC_TEST_RUN_H

#include <check.h>
#include <stdlib.h>

/* Before main makes a test case, which reads it. Not where the caller said it.
 */
__attribute__((constructor)) static void only_hangs_reach_the_limit(void)
{
    setenv("CK_DEFAULT_TIMEOUT", "1800", 0);
}

/* What a test may do: ThreadSanitizer starts no thread in a child of fork(). In
 * AddressSanitizer's malloc a lock that another thread held at that moment, one
 * of the pool that just begins for example, stays locked in the child. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { MAY_FORK = 0 };
#else
enum { MAY_FORK = 1 };
#endif

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
