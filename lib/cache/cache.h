/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiled code on disk: a folder with a file an entry, named for its key.
 *
 * An entry is a list of named sections; their meaning is their user's
 * (gpu_code.c). A file is written next to its place and renamed, so that
 * readers in any process see a whole entry or none; it is checked when it is
 * read, and a damaged one counts as missing. Nothing here is an error of a
 * compile: code that cannot be kept is compiled again.
 *
 *   file    magic "tilecache", version, lengths, key, hash of the payload,
 *           hash of all that; then the payload, through zstd where built with
 *   payload sections: length of the name, length of the data, name, data
 */
#ifndef TC_CACHE_H
#define TC_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tc_key {
    uint64_t low, high;
} tc_key;

/* XXH3-128. */
tc_key tc_key_of(const void *data, size_t size);
bool tc_key_equal(tc_key a, tc_key b);
/* 32 hexadecimal digits. */
typedef struct tc_key_text {
    char text[33];
} tc_key_text;
tc_key_text tc_key_print(tc_key key);

typedef struct tc_cache_section {
    const char *name;
    const void *data; /* a NUL stands after it */
    size_t size;
} tc_cache_section;

enum { TC_ENTRY_MOST_SECTIONS = 32 };

/* One malloc'd block; the sections point into it. */
typedef struct tc_entry {
    tc_key key;
    unsigned n;
    tc_cache_section sections[TC_ENTRY_MOST_SECTIONS];
    void *block;
} tc_entry;

/* Copies the sections. False: out of memory, or too many. */
bool tc_entry_make(tc_entry *out, tc_key key, const tc_cache_section *sections,
                   unsigned n);
/* Takes the block (malloc'd, as tc_sections_join makes it) in any case. False:
 * it is not sound. */
bool tc_entry_open(tc_entry *out, tc_key key, void *block, size_t size);
/* One malloc'd block of them all; NULL: out of memory. */
void *tc_sections_join(const tc_cache_section *sections, unsigned n,
                       size_t *size);
void tc_entry_free(tc_entry *entry);
/* NULL: it has none of that name. */
const tc_cache_section *tc_entry_find(const tc_entry *entry, const char *name);

typedef struct tc_cache {
    const char *folder; /* NULL: nothing is read or kept */
    uint64_t most;      /* bytes of all entries */
} tc_cache;

enum { TC_CACHE_MOST = 512 << 20 };

/* $TILEC_CACHE_DIR, else $XDG_CACHE_HOME/tilec, else ~/.cache/tilec; malloc'd.
 * NULL: none of them is set, or no memory. */
char *tc_cache_default_folder(void);

/* Room for why a folder is not used. */
enum { TC_CACHE_WHY = 512 };
/* Is the folder the user's alone (cache_folder.h)? One that is not there yet
 * is. False: nothing is read from it, nor written or deleted; `why` says why
 * and what to do. */
bool tc_cache_is_safe(const tc_cache *cache, char *why, size_t room);

/* False: there is none, or it is damaged or not a file of the user's. Marks it
 * as used now. */
bool tc_cache_read(const tc_cache *cache, tc_key key, tc_entry *out);
/* The same without marking it. */
bool tc_cache_peek(const tc_cache *cache, tc_key key, tc_entry *out);
/* Publishes it, then deletes what was not used for longest if the folder has
 * become too large. False: it was not kept, and `why` says why. */
bool tc_cache_write(const tc_cache *cache, const tc_entry *entry, char *why,
                    size_t room);

/* A file of the folder. */
typedef struct tc_cache_file {
    tc_key key;
    uint64_t bytes;
    int64_t used; /* seconds since 1970 */
} tc_cache_file;
/* All that have an entry's name, newest first; malloc'd. False: the folder
 * cannot be read (errno says why; a folder that is not there has none; EPERM:
 * it is not safe). */
bool tc_cache_files(const tc_cache *cache, tc_cache_file **files, size_t *n);
/* Deletes all of these, whatever they are, and what broken-off writes have
 * left. False: some could not be deleted (errno). */
bool tc_cache_clear(const tc_cache *cache, size_t *deleted);

#endif
