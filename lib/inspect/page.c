/* SPDX-License-Identifier: Apache-2.0
 *
 * tilec_inspect_page: the page with one or two documents in it.
 */
#include "lib/inspect/page.h"

#include "lib/tilec.h"

#include <stdlib.h>
#include <string.h>

static char *copy(char *to, const char *s)
{
    size_t n = strlen(s);
    memcpy(to, s, n);
    return to + n;
}

/* JSON has `<` in strings only; as an escape it ends no script element. */
static char *copy_json(char *to, const char *s)
{
    for (; *s; s++) {
        if (*s == '<')
            to = copy(to, "\\u003c");
        else
            *to++ = *s;
    }
    return to;
}

static size_t escaped_size(const char *s)
{
    size_t n = 0;
    for (; *s; s++)
        n += *s == '<' ? sizeof "\\u003c" - 1 : 1;
    return n;
}

tilec_status tilec_inspect_page(const char *json, const char *against,
                                char **page)
{
    static const char first[] = "{\"main\":", second[] = ",\"against\":";
    if (!json || !page)
        return TILEC_USAGE;
    if (!against)
        against = "null";
    size_t n = strlen(tc_inspect_page_begin) + strlen(tc_inspect_page_end) +
               escaped_size(json) + escaped_size(against) + sizeof first +
               sizeof second + 1;
    char *to = *page = malloc(n);
    if (!to)
        return TILEC_MACHINE;
    to = copy(to, tc_inspect_page_begin);
    to = copy(to, first);
    to = copy_json(to, json);
    to = copy(to, second);
    to = copy_json(to, against);
    to = copy(to, "}");
    to = copy(to, tc_inspect_page_end);
    *to = 0;
    return TILEC_OK;
}
