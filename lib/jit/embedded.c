/* SPDX-License-Identifier: Apache-2.0
 *
 * The texts in the library.
 */
#include "lib/handles.h"

#include <string.h>

const char *tilec_embedded_name(size_t index)
{
    for (const tc_embedded *e = tc_embedded_texts; e->name; e++)
        if (index-- == 0)
            return e->name;
    return NULL;
}

const tc_embedded *tc_embedded_find(const char *name)
{
    for (const tc_embedded *e = tc_embedded_texts; e->name; e++)
        if (strcmp(e->name, name) == 0)
            return e;
    return NULL;
}

const char *tilec_embedded_text(const char *name)
{
    const tc_embedded *e = name ? tc_embedded_find(name) : NULL;
    return e ? e->text : NULL;
}
