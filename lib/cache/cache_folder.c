/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/cache/cache_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- Where ---- */

static char *cache_folder_join(const char *a, const char *b)
{
    size_t n = strlen(a) + strlen(b) + 2;
    char *path = malloc(n);
    if (path)
        snprintf(path, n, "%s/%s", a, b);
    return path;
}

char *tc_cache_default_folder(void)
{
    const char *folder = getenv("TILEC_CACHE_DIR");
    if (folder && *folder)
        return strdup(folder);
    folder = getenv("XDG_CACHE_HOME");
    /* The XDG specification: what is not absolute is to be ignored. */
    if (folder && *folder == '/')
        return cache_folder_join(folder, "tilec");
    folder = getenv("HOME");
    return folder && *folder ? cache_folder_join(folder, ".cache/tilec") : NULL;
}

static const char suffix[] = ".tilec";

tc_entry_name tc_entry_name_of(tc_key key)
{
    tc_entry_name name;
    snprintf(name.text, sizeof name.text, "%s%s", tc_key_print(key).text,
             suffix);
    return name;
}

char *tc_entry_path(const char *folder, tc_key key)
{
    return cache_folder_join(folder, tc_entry_name_of(key).text);
}

/* `name` may be anything. */
static bool read_name(const char *name, tc_key *key)
{
    unsigned long long high, low;
    if (strlen(name) != 32 + sizeof suffix - 1 ||
        strspn(name, "0123456789abcdef") != 32 ||
        strcmp(name + 32, suffix) != 0 ||
        sscanf(name, "%16llx%16llx", &high, &low) != 2)
        return false;
    *key = (tc_key){low, high};
    return true;
}

/* ---- Whose ---- */

enum { WRITE_BY_OTHERS = S_IWGRP | S_IWOTH };

bool tc_file_is_own(const struct stat *s)
{
    return S_ISREG(s->st_mode) && s->st_uid == geteuid() &&
           !(s->st_mode & WRITE_BY_OTHERS);
}

static bool is_own_folder(const char *folder, const struct stat *s, char *why,
                          size_t room)
{
    if (s->st_uid != geteuid())
        snprintf(why, room,
                 "the folder belongs to user %ld, and this is user %ld: what "
                 "is in it would be run; set TILEC_CACHE_DIR to a folder of "
                 "your own: %s",
                 (long)s->st_uid, (long)geteuid(), folder);
    else if (s->st_mode & WRITE_BY_OTHERS)
        snprintf(why, room,
                 "%s may write to the folder (mode %04o), and what is in it "
                 "would be run; `chmod go-w` it, or set TILEC_CACHE_DIR to "
                 "another one: %s",
                 s->st_mode & S_IWOTH ? "all users" : "a group",
                 (unsigned)s->st_mode & 07777, folder);
    else
        return true;
    return false;
}

int tc_folder_open(const char *folder, char *why, size_t room)
{
    struct stat s;
    /* Links are followed: it is the folder at their end that counts. */
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || (fstat(fd, &s) == 0 && is_own_folder(folder, &s, why, room)))
        return fd;
    close(fd);
    errno = EPERM;
    return -1;
}

bool tc_cache_is_safe(const tc_cache *cache, char *why, size_t room)
{
    *why = 0;
    int fd = cache->folder ? tc_folder_open(cache->folder, why, room) : -1;
    if (fd >= 0)
        close(fd);
    return !*why;
}

bool tc_folder_make(const char *folder)
{
    char *path = strdup(folder);
    if (!path)
        return false;
    for (char *slash = strchr(path + 1, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0777);
        *slash = '/';
    }
    bool ok = mkdir(path, 0700) == 0 || errno == EEXIST;
    free(path);
    return ok;
}

/* ---- The files ---- */

/* Calls visit for each name but `.` and `..`, links not followed. A folder that
 * is not there has none; false: it cannot be read. */
static bool each_name(const tc_cache *cache,
                      bool (*visit)(void *user, int fd, const char *name,
                                    const struct stat *s),
                      void *user)
{
    char why[TC_CACHE_WHY];
    if (!cache->folder)
        return true;
    int fd = tc_folder_open(cache->folder, why, sizeof why);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        int code = errno;
        if (fd >= 0)
            close(fd);
        errno = code;
        return code == ENOENT;
    }
    bool ok = true;
    for (struct dirent *e; ok && (e = readdir(d));) {
        struct stat s;
        bool is_file =
            strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
        /* Files that another process deletes meanwhile do not count. */
        if (is_file && fstatat(fd, e->d_name, &s, AT_SYMLINK_NOFOLLOW) == 0)
            ok = visit(user, fd, e->d_name, &s);
    }
    int code = errno;
    closedir(d);
    errno = code;
    return ok;
}

static bool is_temporary(const char *name)
{
    return strncmp(name, TC_CACHE_TEMPORARY, sizeof TC_CACHE_TEMPORARY - 1) ==
           0;
}

struct files {
    tc_cache_file *list;
    size_t n, room;
};

static bool add_file(struct files *f, tc_key key, const struct stat *s)
{
    if (f->n == f->room) {
        size_t room = f->room ? 2 * f->room : 64;
        tc_cache_file *more = realloc(f->list, room * sizeof *more);
        if (!more)
            return false;
        f->list = more;
        f->room = room;
    }
    f->list[f->n++] =
        (tc_cache_file){key, (uint64_t)s->st_size, (int64_t)s->st_mtime};
    return true;
}

static bool list_entry(void *user, int fd, const char *name,
                       const struct stat *s)
{
    tc_key key;
    (void)fd;
    return !read_name(name, &key) || add_file(user, key, s);
}

/* The same; on the way deletes what a write that was broken off an hour ago has
 * left. */
static bool list_or_sweep(void *user, int fd, const char *name,
                          const struct stat *s)
{
    if (is_temporary(name) && s->st_mtime < time(NULL) - 3600)
        unlinkat(fd, name, 0);
    return list_entry(user, fd, name, s);
}

static int newest_first(const void *a, const void *b)
{
    const tc_cache_file *x = a, *y = b;
    return (x->used < y->used) - (x->used > y->used);
}

static bool list_files(const tc_cache *cache,
                       bool (*visit)(void *user, int fd, const char *name,
                                     const struct stat *s),
                       tc_cache_file **files, size_t *n)
{
    struct files f = {0};
    bool ok = each_name(cache, visit, &f);
    if (!ok) {
        free(f.list);
        f = (struct files){0};
    }
    if (f.n)
        qsort(f.list, f.n, sizeof *f.list, newest_first);
    *files = f.list;
    *n = f.n;
    return ok;
}

bool tc_cache_files(const tc_cache *cache, tc_cache_file **files, size_t *n)
{
    return list_files(cache, list_entry, files, n);
}

/* Down to 7/8 of the limit, so that not each write has to. The newest one
 * stays. */
void tc_folder_trim(const tc_cache *cache)
{
    tc_cache_file *files;
    size_t n, i = 0;
    uint64_t bytes = 0, most = cache->most ? cache->most : TC_CACHE_MOST;
    if (!list_files(cache, list_or_sweep, &files, &n))
        return;
    for (size_t k = 0; k < n; k++)
        bytes += files[k].bytes;
    if (bytes > most) {
        for (bytes = 0; i < n && (bytes += files[i].bytes) <= most / 8 * 7;)
            i++;
        for (i = i ? i : 1; i < n; i++) {
            char *path = tc_entry_path(cache->folder, files[i].key);
            if (path)
                unlink(path);
            free(path);
        }
    }
    free(files);
}

struct clearing {
    size_t deleted;
    int failed; /* errno */
};

static bool delete_file(void *user, int fd, const char *name,
                        const struct stat *s)
{
    struct clearing *c = user;
    tc_key key;
    bool is_entry = read_name(name, &key);
    if (!is_entry && !is_temporary(name))
        return true;
    if (unlinkat(fd, name, S_ISDIR(s->st_mode) ? AT_REMOVEDIR : 0) == 0)
        c->deleted += is_entry;
    else if (errno != ENOENT)
        c->failed = errno;
    return true;
}

bool tc_cache_clear(const tc_cache *cache, size_t *deleted)
{
    struct clearing c = {0};
    bool ok = each_name(cache, delete_file, &c);
    *deleted = c.deleted;
    if (ok && c.failed)
        errno = c.failed;
    return ok && !c.failed;
}
