/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* O_TMPFILE */
#include "lib/files/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- Where ---- */

/* The target of a link, relative to the folder that it lies in; malloc'd. */
static char *follow(const char *path)
{
    char target[PATH_MAX];
    ssize_t n = readlink(path, target, sizeof target - 1);
    if (n < 0)
        return NULL;
    target[n] = 0;
    const char *slash = strrchr(path, '/');
    size_t folder = *target == '/' || !slash ? 0 : (size_t)(slash - path) + 1;
    char *out = malloc(folder + (size_t)n + 1);
    if (out) {
        memcpy(out, path, folder);
        memcpy(out + folder, target, (size_t)n + 1);
    }
    return out;
}

char *tc_replace_place(const char *path, struct stat *st)
{
    enum { MOST_LINKS = 40 }; /* of Linux */
    struct stat link;
    if (stat(path, st) == 0)
        return S_ISREG(st->st_mode) ? realpath(path, NULL) : strdup(path);
    if (errno != ENOENT)
        return NULL;
    memset(st, 0, sizeof *st);
    char *at = strdup(path);
    for (int i = 0; at && lstat(at, &link) == 0 && S_ISLNK(link.st_mode); i++) {
        char *next = i < MOST_LINKS ? follow(at) : NULL;
        int why = i < MOST_LINKS ? errno : ELOOP;
        free(at);
        errno = why;
        at = next;
    }
    return at;
}

/* ---- Signals ---- */

/* The signals that end this process. Signals with handlers are left to
 * those. */
static void block_signals(tc_replace *r)
{
    static const int deadly[] = {SIGHUP, SIGINT, SIGTERM};
    sigset_t set;
    sigemptyset(&set);
    for (unsigned i = 0; i < sizeof deadly / sizeof *deadly; i++) {
        struct sigaction now;
        if (sigaction(deadly[i], NULL, &now) == 0 && now.sa_handler == SIG_DFL)
            sigaddset(&set, deadly[i]);
    }
    r->blocks = pthread_sigmask(SIG_BLOCK, &set, &r->before) == 0;
}

static bool is_interrupted(const tc_replace *r)
{
    sigset_t pending, blocked;
    if (!r->blocks || sigpending(&pending) ||
        pthread_sigmask(SIG_BLOCK, NULL, &blocked))
        return false;
    for (int i = 1; i < NSIG; i++)
        if (sigismember(&pending, i) == 1 && sigismember(&blocked, i) == 1 &&
            sigismember(&r->before, i) == 0)
            return true;
    return false;
}

/* ---- Names ---- */

static void choose_letters(tc_replace *r, unsigned try)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz012345";
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    uint64_t seed = (uint64_t)t.tv_nsec ^ (uint64_t)t.tv_sec << 30 ^
                    (uint64_t)getpid() << 40 ^ (uint64_t)try << 20 ^
                    (uintptr_t)r->temporary;
    seed = seed * 0x9e3779b97f4a7c15u;
    char *at = r->temporary + strlen(r->temporary) - 6;
    for (unsigned i = 0; i < 6; i++)
        at[i] = letters[seed >> (59 - 5 * i) & 31];
}

enum { MOST_TRIES = 100 };

/* Not mkstemp, whose files only the owner may read: this leaves the mode to
 * the process's mask. */
static bool open_named(tc_replace *r, mode_t mode)
{
    block_signals(r);
    for (unsigned try = 0; try < MOST_TRIES; try++) {
        choose_letters(r, try);
        r->fd =
            open(r->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        r->is_named = r->fd >= 0;
        if (r->is_named || errno != EEXIST)
            return r->is_named;
    }
    return false;
}

/* A file without a name gets one by way of /proc. */
typedef struct fd_path {
    char text[40];
} fd_path;

static fd_path path_of(int fd)
{
    fd_path p;
    snprintf(p.text, sizeof p.text, "/proc/self/fd/%d", fd);
    return p;
}

static bool open_unnamed(tc_replace *r, mode_t mode)
{
    char *slash = strrchr(r->temporary, '/');
    size_t n = slash ? (size_t)(slash - r->temporary) + 1 : 0;
    char *folder = n ? strndup(r->temporary, n) : strdup(".");
    r->fd = folder ? open(folder, O_WRONLY | O_TMPFILE | O_CLOEXEC, mode) : -1;
    free(folder);
    if (r->fd >= 0 && access(path_of(r->fd).text, F_OK) != 0) {
        close(r->fd);
        r->fd = -1;
    }
    return r->fd >= 0;
}

static bool give_name(tc_replace *r)
{
    fd_path from = path_of(r->fd);
    for (unsigned try = 0; !r->is_named && try < MOST_TRIES; try++) {
        choose_letters(r, try);
        r->is_named = linkat(AT_FDCWD, from.text, AT_FDCWD, r->temporary,
                             AT_SYMLINK_FOLLOW) == 0;
        if (!r->is_named && errno != EEXIST)
            return false;
    }
    return r->is_named;
}

/* ---- The file ---- */

bool tc_replace_begin(tc_replace *r, const char *place, const char *base,
                      mode_t mode)
{
    size_t n = strlen(base);
    *r = (tc_replace){.place = place, .fd = -1, .temporary = malloc(n + 7)};
    if (!r->temporary)
        return false;
    memcpy(r->temporary, base, n);
    memcpy(r->temporary + n, "XXXXXX", 7);
    return open_unnamed(r, mode) || open_named(r, mode);
}

bool tc_replace_write(tc_replace *r, const void *data, size_t size)
{
    enum { MOST = 1 << 24 };
    const char *at = data;
    while (size) {
        if (is_interrupted(r)) {
            errno = EINTR;
            return false;
        }
        ssize_t n = write(r->fd, at, size < MOST ? size : MOST);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

bool tc_replace_publish(tc_replace *r, bool is_synced)
{
    if ((is_synced && fsync(r->fd) != 0) || !give_name(r))
        return false;
    int fd = r->fd;
    r->fd = -1;
    if (close(fd) != 0 || rename(r->temporary, r->place) != 0)
        return false;
    r->is_named = false;
    return true;
}

void tc_replace_end(tc_replace *r)
{
    int why = errno;
    if (r->fd >= 0)
        close(r->fd);
    if (r->is_named)
        unlink(r->temporary);
    free(r->temporary);
    if (r->blocks)
        pthread_sigmask(SIG_SETMASK, &r->before, NULL);
    *r = (tc_replace){.fd = -1};
    errno = why;
}
