/* SPDX-License-Identifier: Apache-2.0
 *
 * The folder of a cache: its owner, and the files in it.
 *
 * The process runs the code in the folder, so that only its user may have put
 * it there: the folder and each entry belong to the user that the process runs
 * as, and nobody else may write to them. The folders above it are not checked:
 * a user who may rename them can put another folder in its place, but none of
 * the owner's.
 */
#ifndef TC_CACHE_FOLDER_H
#define TC_CACHE_FOLDER_H

#include "lib/cache/cache.h"

#include <sys/stat.h>

/* A descriptor of it, for openat. -1: there is none, errno says why; EPERM: it
 * is not the user's alone, and `why` says how. */
int tc_folder_open(const char *folder, char *why, size_t room);
/* mkdir -p, for its owner only. */
bool tc_folder_make(const char *folder);

/* Is it a file that only the user can have written? */
bool tc_file_is_own(const struct stat *s);

/* The entry of a key in the folder; malloc'd. */
char *tc_entry_path(const char *folder, tc_key key);
/* Its name there. */
typedef struct tc_entry_name {
    char text[40];
} tc_entry_name;
tc_entry_name tc_entry_name_of(tc_key key);

/* Names of files that are being written begin so. */
#define TC_CACHE_TEMPORARY ".tilec-"

/* Deletes the entries that were not used for longest where all have more bytes
 * than `cache` allows, and what writes have left that were broken off. */
void tc_folder_trim(const tc_cache *cache);

#endif
