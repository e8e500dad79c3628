/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/common/row.h"

#include "tools/common/commands.h"

int row_print(cJSON *row)
{
    char *text = cJSON_PrintUnformatted(row);
    cJSON_Delete(row);
    if (!text) {
        report("out of memory");
        return EXIT_MACHINE;
    }
    puts(text);
    cJSON_free(text);
    return EXIT_DONE;
}

sizes_text sizes_name(int64_t a, int64_t b)
{
    sizes_text s;
    if (a == b)
        snprintf(s.text, sizeof s.text, "%lld", (long long)a);
    else
        snprintf(s.text, sizeof s.text, "%lld/%lld", (long long)a,
                 (long long)b);
    return s;
}
