/* SPDX-License-Identifier: Apache-2.0
 *
 * libtilec_runtime has no compiler: what its bundles lack is an error.
 */
#include "lib/handles.h"

const tc_compiler *const tc_the_compiler = NULL;
