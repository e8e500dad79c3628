/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/cache/cache_folder.h"
#include "lib/files/replace.h"

#define XXH_INLINE_ALL
#include <xxhash.h>
#ifdef TILEC_ZSTD
#include <zstd.h>
#endif

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Files ---- */

static const char magic[8] = "tilecach";
enum { FORMAT = 2, PACKED = 1 };
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
    if (fstat(fd, &s) || !tc_file_is_own(&s) || !read_all(fd, &h, sizeof h) ||
        !is_sound(&h, key, (uint64_t)s.st_size))
        return false;
    void *stored = malloc(h.stored ? h.stored : 1);
    if (!stored || !read_all(fd, stored, h.stored) ||
        XXH3_64bits(stored, h.stored) != h.payload_hash) {
        free(stored);
        return false;
    }
    void *payload = unpack(stored, &h);
    return payload && tc_entry_open(out, key, payload, h.size);
}

/* Not to hang on a FIFO before fstat can refuse it; where links lead is not
 * looked at. */
static int open_file(const tc_cache *cache, tc_key key)
{
    char why[TC_CACHE_WHY];
    int folder =
        cache->folder ? tc_folder_open(cache->folder, why, sizeof why) : -1;
    if (folder < 0)
        return -1;
    int fd = openat(folder, tc_entry_name_of(key).text,
                    O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    close(folder);
    return fd;
}

static bool read_file(const tc_cache *cache, tc_key key, bool is_use,
                      tc_entry *out)
{
    *out = (tc_entry){0};
    int fd = open_file(cache, key);
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
    return read_file(cache, key, true, out);
}

bool tc_cache_peek(const tc_cache *cache, tc_key key, tc_entry *out)
{
    return read_file(cache, key, false, out);
}

/* ---- Writing ---- */

static bool write_entry(tc_replace *r, const tc_entry *entry)
{
    struct file_head h = {.format = FORMAT, .key = entry->key};
    memcpy(h.magic, magic, sizeof magic);
    size_t size, stored;
    void *payload = tc_sections_join(entry->sections, entry->n, &size);
    if (!payload)
        return false;
    h.size = size;
    h.flags = pack(&payload, size, &stored) ? PACKED : 0;
    h.stored = stored;
    h.payload_hash = XXH3_64bits(payload, stored);
    h.head_hash = hash_head(&h);
    bool ok = tc_replace_write(r, &h, sizeof h) &&
              tc_replace_write(r, payload, stored);
    free(payload);
    return ok;
}

/* Not synced: after a crash the hashes tell what did not reach the disk. */
static bool publish(const char *folder, const tc_entry *entry)
{
    char *path = tc_entry_path(folder, entry->key);
    size_t n = strlen(folder) + sizeof "/" TC_CACHE_TEMPORARY;
    char *base = malloc(n);
    bool ok = path && base;
    if (ok) {
        tc_replace r;
        snprintf(base, n, "%s/" TC_CACHE_TEMPORARY, folder);
        ok = tc_replace_begin(&r, path, base, 0600) && write_entry(&r, entry) &&
             tc_replace_publish(&r, false);
        tc_replace_end(&r);
    }
    free(base);
    free(path);
    return ok;
}

bool tc_cache_write(const tc_cache *cache, const tc_entry *entry, char *why,
                    size_t room)
{
    if (!cache->folder) {
        snprintf(why, room, "there is no folder for it: set TILEC_CACHE_DIR");
        return false;
    }
    int folder = -1;
    *why = 0;
    bool ok = tc_folder_make(cache->folder) &&
              (folder = tc_folder_open(cache->folder, why, room)) >= 0 &&
              publish(cache->folder, entry);
    if (!ok && !*why)
        snprintf(why, room, "%s: %s", cache->folder, strerror(errno));
    if (folder >= 0)
        close(folder);
    if (ok)
        tc_folder_trim(cache);
    return ok;
}
