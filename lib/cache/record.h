/* SPDX-License-Identifier: Apache-2.0
 *
 * A small binary form of structured data, for what lies in cache entries and
 * bundles. All numbers are little-endian. A value is one of
 *
 *   'i'  an integer: 8 bytes, two's complement
 *   's'  a text: its length (4 bytes), the bytes, a NUL
 *   'b'  bytes: the same
 *   'l'  a list: bytes of its values (4), how many (4), the values
 *   'm'  a map: the same, where names (texts) and values alternate
 *
 *   {"warps": 8, "maps": [1]}  m ........ s 5 warps i 8  s 4 maps l .. i 1
 *
 * tc_record_read checks a whole value once; all that is read from it
 * afterwards stays inside of it.
 */
#ifndef TC_RECORD_H
#define TC_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Reading ---- */

/* A value that was checked; at NULL: there is none, and nothing is in it. */
typedef struct tc_record {
    const unsigned char *at;
} tc_record;

/* Is the memory exactly one sound value? */
bool tc_record_read(const void *data, size_t size, tc_record *out);

/* Of a map; none: there is no value of that name. */
tc_record tc_record_get(tc_record map, const char *name);
/* Of a list; none: past its end. */
tc_record tc_record_at(tc_record list, uint32_t index);
/* Of a list or map: its index-th name or value; none: past its end. */
tc_record tc_record_item(tc_record r, uint32_t index);
/* All of them, in the time of one walk; room for as many as there are. */
void tc_record_each(tc_record list, tc_record *out);
/* Bytes of the value; 0: there is none. */
size_t tc_record_size(tc_record r);
/* How many values a list has (a map: names and values); 0: it is none. */
uint32_t tc_record_count(tc_record list);
bool tc_record_is_list(tc_record r);
/* NULL: it is no text. */
const char *tc_record_text(tc_record r);
/* Of bytes or a text; NULL: it is neither. A NUL follows. */
const void *tc_record_bytes(tc_record r, size_t *size);
/* False: it is no integer from `least` to `most`; *out is 0. */
bool tc_record_int(tc_record r, int64_t least, int64_t most, int64_t *out);
bool tc_record_unsigned(tc_record r, unsigned least, unsigned most,
                        unsigned *out);
/* An integer that is not 0? */
bool tc_record_is_set(tc_record r);

/* ---- Writing ---- */

enum { TC_RECORD_MOST_DEPTH = 16 };

/* Zeroed to begin with. What goes wrong (memory, 4 GiB) shows in `failed`. */
typedef struct tc_record_writer {
    unsigned char *data; /* malloc'd: the caller's to free */
    size_t size, room;
    bool failed;
    unsigned depth;
    size_t open[TC_RECORD_MOST_DEPTH];
    uint32_t counts[TC_RECORD_MOST_DEPTH];
} tc_record_writer;

/* name: of a map's next value; NULL in a list. */
void tc_record_open_list(tc_record_writer *w, const char *name);
void tc_record_open_map(tc_record_writer *w, const char *name);
void tc_record_close(tc_record_writer *w);
void tc_record_add_int(tc_record_writer *w, const char *name, int64_t value);
void tc_record_add_text(tc_record_writer *w, const char *name,
                        const char *text);
void tc_record_add_bytes(tc_record_writer *w, const char *name,
                         const void *data, size_t size);
/* A copy of a value. */
void tc_record_add_value(tc_record_writer *w, const char *name, tc_record r);

#endif
