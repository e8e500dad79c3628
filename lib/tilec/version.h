/* SPDX-License-Identifier: Apache-2.0
 *
 * The version, and the only place that has it but lib/python/tilec/_abi.py:
 * CMake reads it here.
 */
#ifndef TILEC_VERSION_H
#define TILEC_VERSION_H

/* The version of this header, for #if: 0.1.0 is 100, 1.2.3 is 10203. What the
 * library says at run time is tilec_version(). */
#define TILEC_VERSION_MAJOR 0
#define TILEC_VERSION_MINOR 1
#define TILEC_VERSION_PATCH 0
#define TILEC_VERSION                                                          \
    (TILEC_VERSION_MAJOR * 10000 + TILEC_VERSION_MINOR * 100 +                 \
     TILEC_VERSION_PATCH)

#endif
