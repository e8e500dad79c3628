/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages: a header that says how long the JSON after it is.
 */
#include "tools/lsp/lsp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { LONGEST = 64 << 20 };

/* False: the end of input. *length: -1 where the header has none. */
static bool read_header(long *length)
{
    static const char name[] = "Content-Length:";
    char line[512];
    *length = -1;
    while (fgets(line, sizeof line, stdin)) {
        if (line[strspn(line, "\r\n")] == 0)
            return true;
        if (strncasecmp(line, name, sizeof name - 1) != 0)
            continue;
        char *end;
        *length = strtol(line + sizeof name - 1, &end, 10);
        if (end[strspn(end, " \r\n")] != 0)
            *length = -1;
    }
    return false;
}

char *lsp_read(bool *bad)
{
    long length;
    *bad = false;
    if (!read_header(&length))
        return NULL;
    *bad = length < 0 || length > LONGEST;
    char *text = malloc(*bad ? 1 : (size_t)length + 1);
    if (!text)
        return NULL;
    size_t got = *bad ? 0 : fread(text, 1, (size_t)length, stdin);
    text[got] = 0;
    return text;
}

void lsp_write(cJSON *message)
{
    cJSON_AddStringToObject(message, "jsonrpc", "2.0");
    char *text = cJSON_PrintUnformatted(message);
    if (text)
        printf("Content-Length: %zu\r\n\r\n%s", strlen(text), text);
    fflush(stdout);
    free(text);
    cJSON_Delete(message);
}

static cJSON *answer(const cJSON *id)
{
    cJSON *message = cJSON_CreateObject();
    cJSON_AddItemToObject(message, "id",
                          id ? cJSON_Duplicate(id, true) : cJSON_CreateNull());
    return message;
}

void lsp_reply(const cJSON *id, cJSON *result)
{
    cJSON *message = answer(id);
    cJSON_AddItemToObject(message, "result", result);
    lsp_write(message);
}

void lsp_fail(const cJSON *id, int code, const char *why)
{
    cJSON *message = answer(id);
    cJSON *error = cJSON_AddObjectToObject(message, "error");
    cJSON_AddNumberToObject(error, "code", code);
    cJSON_AddStringToObject(error, "message", why);
    lsp_write(message);
}
