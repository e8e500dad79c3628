/* SPDX-License-Identifier: Apache-2.0
 *
 * The text of a document: bytes here, UTF-16 units in the protocol.
 */
#include "tools/lsp/lsp.h"

#include <stdlib.h>
#include <string.h>

bool lsp_text_set(lsp_document *d, char *text, size_t len)
{
    size_t n = 1;
    for (size_t i = 0; i < len; i++)
        n += text[i] == '\n';
    size_t *lines = malloc(n * sizeof *lines);
    if (!lines) {
        free(text);
        return false;
    }
    lines[0] = 0;
    n = 1;
    for (size_t i = 0; i < len; i++)
        if (text[i] == '\n')
            lines[n++] = i + 1;
    free(d->text);
    free(d->lines);
    d->text = text;
    d->len = len;
    d->lines = lines;
    d->nlines = n;
    return true;
}

/* Without its line break. */
static size_t line_end(const lsp_document *d, size_t line)
{
    size_t end = line + 1 < d->nlines ? d->lines[line + 1] - 1 : d->len;
    return end > d->lines[line] && d->text[end - 1] == '\r' ? end - 1 : end;
}

static bool continues(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* UTF-16 units of the character that begins with c; 0 inside of one. */
static unsigned units(char c)
{
    return continues(c) ? 0 : (unsigned char)c >= 0xf0 ? 2 : 1;
}

static bool count_of(const cJSON *position, const char *name, size_t *n)
{
    const cJSON *j = cJSON_GetObjectItemCaseSensitive(position, name);
    if (!cJSON_IsNumber(j) || !(j->valuedouble >= 0))
        return false;
    *n = j->valuedouble < 1e9 ? (size_t)j->valuedouble : (size_t)1e9;
    return true;
}

bool lsp_offset(const lsp_document *d, const cJSON *position, size_t *at)
{
    size_t line, column;
    if (!count_of(position, "line", &line) ||
        !count_of(position, "character", &column))
        return false;
    *at = d->len;
    if (line >= d->nlines)
        return true;
    size_t i = d->lines[line], end = line_end(d, line), n = 0;
    while (i < end && n < column) {
        n += units(d->text[i++]);
        while (i < end && continues(d->text[i]))
            i++;
    }
    *at = i;
    return true;
}

static cJSON *position_of(const lsp_document *d, size_t at)
{
    size_t low = 0, high = d->nlines, n = 0;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (d->lines[middle] <= at)
            low = middle;
        else
            high = middle;
    }
    for (size_t i = d->lines[low]; i < at; i++)
        n += units(d->text[i]);
    cJSON *position = cJSON_CreateObject();
    cJSON_AddNumberToObject(position, "line", (double)low);
    cJSON_AddNumberToObject(position, "character", (double)n);
    return position;
}

cJSON *lsp_range(const lsp_document *d, size_t from, size_t to)
{
    cJSON *range = cJSON_CreateObject();
    cJSON_AddItemToObject(range, "start", position_of(d, from));
    cJSON_AddItemToObject(range, "end", position_of(d, to));
    return range;
}

size_t lsp_offset_of(const lsp_document *d, uint32_t line, uint32_t col)
{
    if (line == 0 || col == 0)
        return 0;
    if (line > d->nlines)
        return d->len;
    size_t at = d->lines[line - 1] + col - 1, end = line_end(d, line - 1);
    return at < end ? at : end;
}

cJSON *lsp_range_of(const lsp_document *d, tc_loc loc)
{
    uint32_t end = loc.end > loc.col ? loc.end : loc.col + 1;
    return lsp_range(d, lsp_offset_of(d, loc.line, loc.col),
                     lsp_offset_of(d, loc.line, end));
}

bool lsp_text_change(lsp_document *d, const cJSON *change)
{
    const cJSON *range = cJSON_GetObjectItemCaseSensitive(change, "range");
    const cJSON *text = cJSON_GetObjectItemCaseSensitive(change, "text");
    size_t from = 0, to = d->len;
    if (!cJSON_IsString(text) ||
        (range &&
         (!lsp_offset(d, cJSON_GetObjectItemCaseSensitive(range, "start"),
                      &from) ||
          !lsp_offset(d, cJSON_GetObjectItemCaseSensitive(range, "end"), &to) ||
          from > to)))
        return false;
    size_t n = strlen(text->valuestring), len = d->len - (to - from) + n;
    char *all = malloc(len + 1);
    if (!all)
        return false;
    memcpy(all, d->text, from);
    memcpy(all + from, text->valuestring, n);
    memcpy(all + from + n, d->text + to, d->len - to);
    all[len] = 0;
    return lsp_text_set(d, all, len);
}
