/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/cache/record.h"

#include <stdlib.h>
#include <string.h>

enum { TAG = 1, INT = 8, LENGTH = 4, HEAD = TAG + 2 * LENGTH };

static uint64_t read_number(const unsigned char *at, int bytes)
{
    uint64_t n = 0;
    for (int i = bytes - 1; i >= 0; i--)
        n = n << 8 | at[i];
    return n;
}

static bool is_container(unsigned char tag)
{
    return tag == 'l' || tag == 'm';
}

/* ---- Checking ---- */

/* Bytes of a value that begins at `at`, of which `left` bytes follow; 0: it
 * does not fit, or has no known tag. What is in a list is not looked at. */
static size_t size_of(const unsigned char *at, size_t left)
{
    size_t n;
    if (left == 0)
        return 0;
    switch (*at) {
    case 'i': n = TAG + INT; break;
    case 's':
    case 'b':
        if (left < TAG + LENGTH)
            return 0;
        n = TAG + LENGTH + (size_t)read_number(at + TAG, LENGTH) + 1;
        break;
    case 'l':
    case 'm':
        if (left < HEAD)
            return 0;
        n = HEAD + (size_t)read_number(at + TAG, LENGTH);
        break;
    default: return 0;
    }
    return n <= left ? n : 0;
}

static bool is_name(const unsigned char *at, size_t n)
{
    return *at == 's' && !memchr(at + TAG + LENGTH, 0, n - TAG - LENGTH - 1);
}

static bool check(const unsigned char *at, size_t size, unsigned depth)
{
    if (*at == 's' || *at == 'b')
        return at[size - 1] == 0;
    if (!is_container(*at))
        return true;
    uint32_t count = (uint32_t)read_number(at + TAG + LENGTH, LENGTH), i = 0;
    const unsigned char *item = at + HEAD, *end = at + size;
    if (depth == TC_RECORD_MOST_DEPTH || (*at == 'm' && count % 2))
        return false;
    for (; i < count; i++) {
        size_t n = size_of(item, (size_t)(end - item));
        if (n == 0 || !check(item, n, depth + 1) ||
            (*at == 'm' && i % 2 == 0 && !is_name(item, n)))
            return false;
        item += n;
    }
    return item == end;
}

bool tc_record_read(const void *data, size_t size, tc_record *out)
{
    size_t n = size_of(data, size);
    *out = (tc_record){NULL};
    if (n != size || n == 0 || !check(data, n, 0))
        return false;
    out->at = data;
    return true;
}

/* ---- Reading ---- */

/* Of a checked value. */
static size_t bytes_of(const unsigned char *at)
{
    return size_of(at, SIZE_MAX);
}

bool tc_record_is_list(tc_record r)
{
    return r.at && *r.at == 'l';
}

uint32_t tc_record_count(tc_record r)
{
    return r.at && is_container(*r.at)
               ? (uint32_t)read_number(r.at + TAG + LENGTH, LENGTH)
               : 0;
}

size_t tc_record_size(tc_record r)
{
    return r.at ? bytes_of(r.at) : 0;
}

tc_record tc_record_item(tc_record r, uint32_t index)
{
    if (index >= tc_record_count(r))
        return (tc_record){NULL};
    const unsigned char *at = r.at + HEAD;
    for (; index; index--)
        at += bytes_of(at);
    return (tc_record){at};
}

tc_record tc_record_at(tc_record r, uint32_t index)
{
    return tc_record_is_list(r) ? tc_record_item(r, index) : (tc_record){NULL};
}

void tc_record_each(tc_record r, tc_record *out)
{
    uint32_t n = tc_record_count(r);
    const unsigned char *at = n ? r.at + HEAD : NULL;
    for (uint32_t i = 0; i < n; i++) {
        out[i].at = at;
        at += bytes_of(at);
    }
}

tc_record tc_record_get(tc_record r, const char *name)
{
    if (!r.at || *r.at != 'm')
        return (tc_record){NULL};
    const unsigned char *at = r.at + HEAD;
    for (uint32_t i = 0, n = tc_record_count(r); i < n; i += 2) {
        const unsigned char *value = at + bytes_of(at);
        if (strcmp((const char *)at + TAG + LENGTH, name) == 0)
            return (tc_record){value};
        at = value + bytes_of(value);
    }
    return (tc_record){NULL};
}

const void *tc_record_bytes(tc_record r, size_t *size)
{
    *size = 0;
    if (!r.at || (*r.at != 's' && *r.at != 'b'))
        return NULL;
    *size = (size_t)read_number(r.at + TAG, LENGTH);
    return r.at + TAG + LENGTH;
}

const char *tc_record_text(tc_record r)
{
    size_t n;
    return r.at && *r.at == 's' ? tc_record_bytes(r, &n) : NULL;
}

bool tc_record_int(tc_record r, int64_t least, int64_t most, int64_t *out)
{
    *out = 0;
    if (!r.at || *r.at != 'i')
        return false;
    int64_t n = (int64_t)read_number(r.at + TAG, INT);
    if (n < least || n > most)
        return false;
    *out = n;
    return true;
}

bool tc_record_unsigned(tc_record r, unsigned least, unsigned most,
                        unsigned *out)
{
    int64_t n;
    bool ok = tc_record_int(r, least, most, &n);
    *out = (unsigned)n;
    return ok;
}

bool tc_record_is_set(tc_record r)
{
    int64_t n;
    return tc_record_int(r, INT64_MIN, INT64_MAX, &n) && n != 0;
}

/* ---- Writing ---- */

/* NULL: it failed. */
static unsigned char *take(tc_record_writer *w, size_t n)
{
    if (w->failed || n > UINT32_MAX - w->size) {
        w->failed = true;
        return NULL;
    }
    if (w->room - w->size < n) {
        size_t room = 2 * w->room + n + 256;
        unsigned char *more = realloc(w->data, room);
        if (!more) {
            w->failed = true;
            return NULL;
        }
        w->data = more;
        w->room = room;
    }
    w->size += n;
    return w->data + w->size - n;
}

static void write_number(unsigned char *to, uint64_t n, int bytes)
{
    for (int i = 0; i < bytes; i++, n >>= 8)
        to[i] = (unsigned char)n;
}

static void add_bytes(tc_record_writer *w, char tag, const void *data,
                      size_t size)
{
    if (size > UINT32_MAX) {
        w->failed = true;
        return;
    }
    unsigned char *to = take(w, TAG + LENGTH + size + 1);
    if (!to)
        return;
    *to = (unsigned char)tag;
    write_number(to + TAG, size, LENGTH);
    if (size)
        memcpy(to + TAG + LENGTH, data, size);
    to[TAG + LENGTH + size] = 0;
}

static void begin(tc_record_writer *w, const char *name)
{
    if (w->depth)
        w->counts[w->depth - 1] += name ? 2 : 1;
    if (name)
        add_bytes(w, 's', name, strlen(name));
}

static void open_container(tc_record_writer *w, const char *name, char tag)
{
    begin(w, name);
    if (w->depth == TC_RECORD_MOST_DEPTH) {
        w->failed = true;
        return;
    }
    w->open[w->depth] = w->size;
    w->counts[w->depth++] = 0;
    unsigned char *to = take(w, HEAD);
    if (to)
        *to = (unsigned char)tag;
}

void tc_record_open_list(tc_record_writer *w, const char *name)
{
    open_container(w, name, 'l');
}

void tc_record_open_map(tc_record_writer *w, const char *name)
{
    open_container(w, name, 'm');
}

void tc_record_close(tc_record_writer *w)
{
    if (w->depth == 0)
        return;
    size_t at = w->open[--w->depth];
    if (w->failed)
        return;
    write_number(w->data + at + TAG, w->size - at - HEAD, LENGTH);
    write_number(w->data + at + TAG + LENGTH, w->counts[w->depth], LENGTH);
}

void tc_record_add_int(tc_record_writer *w, const char *name, int64_t value)
{
    begin(w, name);
    unsigned char *to = take(w, TAG + INT);
    if (!to)
        return;
    *to = 'i';
    write_number(to + TAG, (uint64_t)value, INT);
}

void tc_record_add_text(tc_record_writer *w, const char *name, const char *text)
{
    begin(w, name);
    add_bytes(w, 's', text, strlen(text));
}

void tc_record_add_bytes(tc_record_writer *w, const char *name,
                         const void *data, size_t size)
{
    begin(w, name);
    add_bytes(w, 'b', data, size);
}

void tc_record_add_value(tc_record_writer *w, const char *name, tc_record r)
{
    begin(w, name);
    size_t n = r.at ? bytes_of(r.at) : 0;
    unsigned char *to = n ? take(w, n) : NULL;
    if (to)
        memcpy(to, r.at, n);
    else
        w->failed = true;
}
