/* SPDX-License-Identifier: Apache-2.0
 *
 * DLPack's tensors: the header of the program or the system, 0.6 or newer, else
 * the one that is installed along.
 */
#ifndef TILEC_DLPACK_H
#define TILEC_DLPACK_H

#if defined(__has_include)
#if __has_include(<dlpack/dlpack.h>)
#include <dlpack/dlpack.h>
#endif
#endif
#ifndef DLPACK_DLPACK_H_
#include "dlpack/dlpack.h"
#endif
#if defined(DLPACK_VERSION) && DLPACK_VERSION < 60
#error "tilec.h needs DLPack 0.6 or newer"
#endif

#endif
