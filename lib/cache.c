/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* mkostemp */
#include "lib/cache.h"

#define XXH_INLINE_ALL
#include <xxhash.h>
#ifdef TILEC_ZSTD
#include <zstd.h>
#endif

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- Keys ---- */

tc_key tc_key_of(const void *data, size_t size)
{
    XXH128_hash_t h = XXH3_128bits(data, size);
    return (tc_key){h.low64, h.high64};
}

bool tc_key_equal(tc_key a, tc_key b)
{
    return a.low == b.low && a.high == b.high;
}

tc_key_text tc_key_print(tc_key key)
{
    tc_key_text t;
    snprintf(t.text, sizeof t.text, "%016llx%016llx",
             (unsigned long long)key.high, (unsigned long long)key.low);
    return t;
}

/* ---- Entries in memory: the payload, and pointers into it ---- */

struct section_head {
    uint64_t name_size, data_size; /* each has a NUL behind it, not counted */
};

static size_t section_room(const tc_section *s)
{
    return sizeof(struct section_head) + strlen(s->name) + 1 + s->size + 1;
}

static char *put(char *to, const void *from, size_t size)
{
    if (size)
        memcpy(to, from, size);
    return to + size;
}

static char *put_section(char *to, const tc_section *s)
{
    struct section_head head = {strlen(s->name), s->size};
    to = put(to, &head, sizeof head);
    to = put(to, s->name, head.name_size);
    to = put(to, "", 1);
    to = put(to, s->data, s->size);
    return put(to, "", 1);
}

/* Reads one section; what is left of the payload shrinks. */
static bool take_section(char **at, size_t *left, tc_section *out)
{
    struct section_head head;
    if (*left < sizeof head)
        return false;
    memcpy(&head, *at, sizeof head);
    *at += sizeof head;
    *left -= sizeof head;
    if (head.name_size >= *left || head.data_size >= *left ||
        head.name_size + head.data_size + 2 > *left)
        return false;
    out->name = *at;
    out->data = *at + head.name_size + 1;
    out->size = head.data_size;
    if (out->name[head.name_size] || ((const char *)out->data)[out->size])
        return false;
    *at += head.name_size + head.data_size + 2;
    *left -= head.name_size + head.data_size + 2;
    return true;
}

/* Takes the block (malloc'd) in any case. */
static bool open_payload(tc_entry *out, tc_key key, void *block, size_t size)
{
    *out = (tc_entry){.key = key, .block = block};
    char *at = block;
    while (size) {
        if (out->n == TC_ENTRY_MOST_SECTIONS ||
            !take_section(&at, &size, &out->sections[out->n])) {
            tc_entry_free(out);
            return false;
        }
        out->n++;
    }
    return true;
}

static void *make_payload(const tc_section *sections, unsigned n, size_t *size)
{
    *size = 0;
    for (unsigned i = 0; i < n; i++)
        *size += section_room(&sections[i]);
    char *block = malloc(*size ? *size : 1), *at = block;
    for (unsigned i = 0; block && i < n; i++)
        at = put_section(at, &sections[i]);
    return block;
}

bool tc_entry_make(tc_entry *out, tc_key key, const tc_section *sections,
                   unsigned n)
{
    size_t size;
    *out = (tc_entry){0};
    if (n > TC_ENTRY_MOST_SECTIONS)
        return false;
    void *block = make_payload(sections, n, &size);
    return block && open_payload(out, key, block, size);
}

void tc_entry_free(tc_entry *entry)
{
    free(entry->block);
    *entry = (tc_entry){0};
}

const tc_section *tc_entry_find(const tc_entry *entry, const char *name)
{
    for (unsigned i = 0; i < entry->n; i++)
        if (strcmp(entry->sections[i].name, name) == 0)
            return &entry->sections[i];
    return NULL;
}

/* ---- Where ---- */

static char *join(const char *a, const char *b)
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
        return join(folder, "tilec");
    folder = getenv("HOME");
    return folder && *folder ? join(folder, ".cache/tilec") : NULL;
}

static const char suffix[] = ".tilec";
/* Files that are being written. */
#define TEMPORARY ".tilec-"

static char *entry_path(const tc_cache *cache, tc_key key)
{
    char name[64];
    snprintf(name, sizeof name, "%s%s", tc_key_print(key).text, suffix);
    return join(cache->folder, name);
}

/* Also for files of this process's own making: `name` may be anything. */
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

/* ---- Files ---- */

static const char magic[8] = "tilecach";
enum { FORMAT = 1, PACKED = 1 };
static const uint64_t most_payload = (uint64_t)1 << 30;

struct file_head {
    char magic[8];
    uint32_t format, flags;
    tc_key key;
    uint64_t stored, size; /* bytes of the payload, in the file and unpacked */
    uint64_t payload_hash; /* as stored */
    uint64_t head_hash;    /* of what stands above */
};

static uint64_t hash_head(const struct file_head *h)
{
    return XXH3_64bits(h, offsetof(struct file_head, head_hash));
}

/* Packs the payload where that can be done; true: it was. */
static bool pack(void **payload, size_t size, size_t *stored)
{
    *stored = size;
#ifdef TILEC_ZSTD
    size_t room = ZSTD_compressBound(size);
    void *packed = malloc(room);
    size_t n = packed ? ZSTD_compress(packed, room, *payload, size, 1) : 0;
    if (packed && !ZSTD_isError(n)) {
        free(*payload);
        *payload = packed;
        *stored = n;
        return true;
    }
    free(packed);
#endif
    return false;
}

/* A new block, or NULL: it is not what was packed. Frees the old one. */
static void *unpack(void *stored, const struct file_head *h)
{
    if (!(h->flags & PACKED)) {
        if (h->stored == h->size)
            return stored;
        free(stored);
        return NULL;
    }
    void *out = NULL;
#ifdef TILEC_ZSTD
    out = malloc(h->size ? h->size : 1);
    if (out && ZSTD_decompress(out, h->size, stored, h->stored) != h->size) {
        free(out);
        out = NULL;
    }
#endif
    free(stored);
    return out;
}

static bool read_all(int fd, void *to, size_t size)
{
    char *at = to;
    while (size) {
        ssize_t n = read(fd, at, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

static bool write_all(int fd, const void *from, size_t size)
{
    const char *at = from;
    while (size) {
        ssize_t n = write(fd, at, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

static bool is_sound(const struct file_head *h, tc_key key, uint64_t file_size)
{
    return memcmp(h->magic, magic, sizeof magic) == 0 && h->format == FORMAT &&
           h->head_hash == hash_head(h) && tc_key_equal(h->key, key) &&
           h->size <= most_payload && h->stored <= most_payload &&
           file_size == sizeof *h + h->stored;
}

static bool read_entry(int fd, tc_key key, tc_entry *out)
{
    struct file_head h;
    struct stat s;
    if (fstat(fd, &s) || !read_all(fd, &h, sizeof h) ||
        !is_sound(&h, key, (uint64_t)s.st_size))
        return false;
    void *stored = malloc(h.stored ? h.stored : 1);
    if (!stored || !read_all(fd, stored, h.stored) ||
        XXH3_64bits(stored, h.stored) != h.payload_hash) {
        free(stored);
        return false;
    }
    void *payload = unpack(stored, &h);
    return payload && open_payload(out, key, payload, h.size);
}

static bool open_file(const tc_cache *cache, tc_key key, bool is_use,
                      tc_entry *out)
{
    *out = (tc_entry){0};
    char *path = cache->folder ? entry_path(cache, key) : NULL;
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    free(path);
    if (fd < 0)
        return false;
    bool ok = read_entry(fd, key, out);
    if (ok && is_use)
        futimens(fd, NULL);
    close(fd);
    return ok;
}

bool tc_cache_read(const tc_cache *cache, tc_key key, tc_entry *out)
{
    return open_file(cache, key, true, out);
}

bool tc_cache_peek(const tc_cache *cache, tc_key key, tc_entry *out)
{
    return open_file(cache, key, false, out);
}

/* ---- Writing ---- */

/* mkdir -p, for its owner only: what is in it will be run. */
static bool make_folder(const char *folder)
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

static bool write_entry(int fd, const tc_entry *entry)
{
    struct file_head h = {.format = FORMAT, .key = entry->key};
    memcpy(h.magic, magic, sizeof magic);
    size_t size, stored;
    void *payload = make_payload(entry->sections, entry->n, &size);
    if (!payload)
        return false;
    h.size = size;
    h.flags = pack(&payload, size, &stored) ? PACKED : 0;
    h.stored = stored;
    h.payload_hash = XXH3_64bits(payload, stored);
    h.head_hash = hash_head(&h);
    bool ok = write_all(fd, &h, sizeof h) && write_all(fd, payload, stored);
    free(payload);
    return ok;
}

/* Not synced: after a crash the hashes tell what did not reach the disk. */
static bool publish(const tc_cache *cache, const tc_entry *entry,
                    const char *path)
{
    char *temporary = join(cache->folder, TEMPORARY "XXXXXX");
    int fd = temporary ? mkostemp(temporary, O_CLOEXEC) : -1;
    bool ok = fd >= 0;
    if (ok) {
        ok = write_entry(fd, entry);
        ok = close(fd) == 0 && ok;
        ok = ok && rename(temporary, path) == 0;
        int why = errno;
        if (!ok)
            unlink(temporary);
        errno = why;
    }
    free(temporary);
    return ok;
}

/* ---- The folder ---- */

/* Calls visit for each name but `.` and `..`. A folder that is not there has
 * none; false: it cannot be read. */
static bool each_name(const tc_cache *cache,
                      bool (*visit)(void *user, const char *path,
                                    const char *name, const struct stat *s),
                      void *user)
{
    DIR *d = cache->folder ? opendir(cache->folder) : NULL;
    if (!d)
        return !cache->folder || errno == ENOENT;
    bool ok = true;
    for (struct dirent *e; ok && (e = readdir(d));) {
        struct stat s;
        char *path = join(cache->folder, e->d_name);
        ok = path != NULL;
        /* What another process deletes meanwhile is not there. */
        if (ok && stat(path, &s) == 0 && S_ISREG(s.st_mode))
            ok = visit(user, path, e->d_name, &s);
        free(path);
    }
    int why = errno;
    closedir(d);
    errno = why;
    return ok;
}

struct files {
    tc_cache_file *list;
    size_t n, room;
};

static bool add_file(void *user, const char *path, const char *name,
                     const struct stat *s)
{
    struct files *f = user;
    tc_key key;
    (void)path;
    if (!read_name(name, &key))
        return true;
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

static int newest_first(const void *a, const void *b)
{
    const tc_cache_file *x = a, *y = b;
    return (x->used < y->used) - (x->used > y->used);
}

bool tc_cache_files(const tc_cache *cache, tc_cache_file **files, size_t *n)
{
    struct files f = {0};
    bool ok = each_name(cache, add_file, &f);
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

static bool is_temporary(const char *name)
{
    return strncmp(name, TEMPORARY, sizeof TEMPORARY - 1) == 0;
}

/* What a write that was broken off an hour ago has left. */
static bool delete_leftover(void *user, const char *path, const char *name,
                            const struct stat *s)
{
    (void)user;
    if (is_temporary(name) && s->st_mtime < time(NULL) - 3600)
        unlink(path);
    return true;
}

/* Deletes the entries that were not used for longest, down to 7/8 of the
 * limit, so that not each write has to. The newest one stays. */
static void trim(const tc_cache *cache)
{
    tc_cache_file *files;
    size_t n, i = 0;
    uint64_t bytes = 0, most = cache->most ? cache->most : TC_CACHE_MOST;
    if (!tc_cache_files(cache, &files, &n))
        return;
    for (size_t k = 0; k < n; k++)
        bytes += files[k].bytes;
    if (bytes > most) {
        for (bytes = 0; i < n && (bytes += files[i].bytes) <= most / 8 * 7;)
            i++;
        for (i = i ? i : 1; i < n; i++) {
            char *path = entry_path(cache, files[i].key);
            if (path)
                unlink(path);
            free(path);
        }
        each_name(cache, delete_leftover, NULL);
    }
    free(files);
}

bool tc_cache_write(const tc_cache *cache, const tc_entry *entry, char *why,
                    size_t room)
{
    if (!cache->folder) {
        snprintf(why, room, "there is no folder for it: set TILEC_CACHE_DIR");
        return false;
    }
    char *path = entry_path(cache, entry->key);
    bool ok = path && make_folder(cache->folder) && publish(cache, entry, path);
    if (!ok)
        snprintf(why, room, "%s: %s", cache->folder, strerror(errno));
    free(path);
    if (ok)
        trim(cache);
    return ok;
}

struct clearing {
    size_t deleted;
    int failed; /* errno */
};

static bool delete_file(void *user, const char *path, const char *name,
                        const struct stat *s)
{
    struct clearing *c = user;
    tc_key key;
    bool is_entry = read_name(name, &key);
    (void)s;
    if (!is_entry && !is_temporary(name))
        return true;
    if (unlink(path) == 0)
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
