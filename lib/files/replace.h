/* SPDX-License-Identifier: Apache-2.0
 *
 * A file that appears whole or not at all: written to another name, then
 * renamed over the old file, which stays if anything fails.
 *
 * If the file system has files without a name (O_TMPFILE), the file gets its
 * name when it is whole, so that a process that is killed leaves nothing.
 * Elsewhere it has a temporary name, and signals that would end the process
 * (SIGHUP, SIGINT, SIGTERM, unless they have handlers) end the writing first:
 * the unfinished file is deleted before they arrive. The library installs no
 * handlers.
 */
#ifndef TC_REPLACE_H
#define TC_REPLACE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

typedef struct tc_replace {
    const char *place;
    int fd;
    char *temporary; /* its name; only if is_named is there a file */
    bool is_named, blocks;
    sigset_t before; /* of the thread, if it blocks signals */
} tc_replace;

/* Where a path leads, links followed, be there a file or not (anything but a
 * file: the path itself); malloc'd. *st:
 * of the file, st_mode 0 where there is none. NULL: errno says why. */
char *tc_replace_place(const char *path, struct stat *st);

/* `place` (which lives on) will be replaced; temporary names are `base`, in the
 * same folder, and six letters. `mode` as of open. False: errno says why. After
 * each of these, and whatever they return, comes tc_replace_end. */
bool tc_replace_begin(tc_replace *r, const char *place, const char *base,
                      mode_t mode);
/* False: errno says why; EINTR: a signal is about to end the process. */
bool tc_replace_write(tc_replace *r, const void *data, size_t size);
/* All is written. is_synced: it is on the disk, too, before it gets its name.
 * False: errno says why. */
bool tc_replace_publish(tc_replace *r, bool is_synced);
/* Deletes what was not published. Keeps errno. */
void tc_replace_end(tc_replace *r);

#endif
