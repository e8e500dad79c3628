/* SPDX-License-Identifier: Apache-2.0
 *
 * Code for the CPU that needs no linker: a position-independent image of bytes,
 * and the functions that it calls.
 *
 *     0        text_size                data_at                    size
 *     | code   | 0 up to a page's end   | constants | addresses    |
 *
 * Code finds constants and addresses relative to itself. The addresses are a
 * table of 8 bytes each at `table_at`: of the functions in `names`, in their
 * order. So to load an image is to copy it to whole pages, fill in the table,
 * and make the first part executable and the rest read-only.
 *
 * x86-64 alone: images are made from ELF objects of its large code model.
 */
#ifndef TC_HOST_IMAGE_H
#define TC_HOST_IMAGE_H

#include "codegen/host/jit/compile.h"

enum { TC_IMAGE_PAGE = 4096, TC_IMAGE_MOST_NAMES = 64 };

typedef struct tc_image {
    const unsigned char *bytes;
    size_t size, text_size, data_at, table_at, entry;
    unsigned nnames;
    const char *names[TC_IMAGE_MOST_NAMES];
} tc_image;

/* From an object; bytes is malloc'd, the names point into the object. False:
 * `why` says why. */
bool tc_image_make(const void *object, size_t object_size, tc_image *out,
                   char *why, size_t room) TC_MUST_CHECK;
/* To k->fn, by the numbers of an image that may be anything. */
bool tc_image_load(tc_host_kernel *k, const tc_image *image, char *why,
                   size_t room) TC_MUST_CHECK;

#endif
