/* SPDX-License-Identifier: Apache-2.0
 *
 * What ops on laid-out tiles compute, by small kernels that print.
 */
#include "test/unit/interp/fixture.h"

void interp_value_tests(TCase *t) {}
