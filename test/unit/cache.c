/* SPDX-License-Identifier: Apache-2.0
 *
 * The disk cache: what is written is read again, whatever is damaged counts as
 * missing, and nothing that the file system does is worse than a miss.
 */
#define _GNU_SOURCE
#include "lib/cache/cache.h"
#include "test/unit/run.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64];
static tc_cache cache;

static void make_folder(void)
{
    strcpy(folder, "/tmp/tilec-cache-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    cache = (tc_cache){.folder = folder};
}

static void remove_folder(void)
{
    size_t n;
    tc_cache_clear(&cache, &n);
    rmdir(folder);
}

static tc_key number_key(uint64_t i)
{
    return tc_key_of(&i, sizeof i);
}

/* An entry whose sections say which it is. */
static tc_entry number_entry(uint64_t i, size_t bulk)
{
    char text[32];
    snprintf(text, sizeof text, "entry %llu", (unsigned long long)i);
    /* Nothing that packs. */
    unsigned char *data = malloc(bulk + 1);
    uint64_t state = i + 1;
    for (size_t k = 0; k < bulk; k++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        data[k] = (unsigned char)(state >> 56);
    }
    tc_cache_section s[] = {{"text", text, strlen(text)},
                            {"nothing", NULL, 0},
                            {"bulk", data, bulk}};
    tc_entry e;
    ck_assert(tc_entry_make(&e, number_key(i), s, 3));
    free(data);
    return e;
}

static bool write_number(uint64_t i, size_t bulk)
{
    char why[200];
    tc_entry e = number_entry(i, bulk);
    bool ok = tc_cache_write(&cache, &e, why, sizeof why);
    tc_entry_free(&e);
    return ok;
}

static bool has_number(uint64_t i)
{
    char text[32];
    tc_entry e;
    if (!tc_cache_read(&cache, number_key(i), &e))
        return false;
    snprintf(text, sizeof text, "entry %llu", (unsigned long long)i);
    ck_assert_str_eq(tc_entry_find(&e, "text")->data, text);
    ck_assert_uint_eq(tc_entry_find(&e, "nothing")->size, 0);
    ck_assert_ptr_null(tc_entry_find(&e, "else"));
    tc_entry_free(&e);
    return true;
}

static void path_of(uint64_t i, char *path, size_t room)
{
    snprintf(path, room, "%s/%s.tilec", folder,
             tc_key_print(number_key(i)).text);
}

START_TEST(keeps_entries)
{
    ck_assert(!has_number(1));
    ck_assert(write_number(1, 100));
    ck_assert(write_number(2, 0));
    ck_assert(has_number(1));
    ck_assert(has_number(2));
    ck_assert(!has_number(3));
    ck_assert(write_number(1, 50));
    tc_entry e, wanted = number_entry(1, 50);
    ck_assert(tc_cache_read(&cache, number_key(1), &e));
    ck_assert_uint_eq(e.n, wanted.n);
    ck_assert_uint_eq(tc_entry_find(&e, "bulk")->size, 50);
    ck_assert_mem_eq(tc_entry_find(&e, "bulk")->data,
                     tc_entry_find(&wanted, "bulk")->data, 50);
    tc_entry_free(&e);
    tc_entry_free(&wanted);
    tc_cache_file *files;
    size_t n;
    ck_assert(tc_cache_files(&cache, &files, &n));
    ck_assert_uint_eq(n, 2);
    free(files);
    ck_assert(tc_cache_clear(&cache, &n));
    ck_assert_uint_eq(n, 2);
    ck_assert(!has_number(1));
}
END_TEST

START_TEST(too_many_sections)
{
    tc_cache_section s[TC_ENTRY_MOST_SECTIONS + 1];
    for (int i = 0; i <= TC_ENTRY_MOST_SECTIONS; i++)
        s[i] = (tc_cache_section){"s", "x", 1};
    tc_entry e;
    ck_assert(tc_entry_make(&e, number_key(0), s, TC_ENTRY_MOST_SECTIONS));
    tc_entry_free(&e);
    ck_assert(!tc_entry_make(&e, number_key(0), s, TC_ENTRY_MOST_SECTIONS + 1));
}
END_TEST

static char *slurp(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *bytes = malloc(1 << 16);
    ck_assert_ptr_nonnull(f);
    *n = fread(bytes, 1, 1 << 16, f);
    fclose(f);
    return bytes;
}

static void spill(const char *path, const char *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

/* Every shorter file, and every file with one bit turned, is a miss; the next
 * write makes it good. */
START_TEST(damage_is_a_miss)
{
    char path[200];
    size_t n;
    ck_assert(write_number(7, 64));
    path_of(7, path, sizeof path);
    char *bytes = slurp(path, &n);
    for (size_t k = 0; k < n; k++) {
        spill(path, bytes, k);
        ck_assert_msg(!has_number(7), "cut to %zu bytes", k);
        spill(path, bytes, n);
        bytes[k] ^= (char)(1 << k % 8);
        spill(path, bytes, n);
        ck_assert_msg(!has_number(7), "byte %zu changed", k);
        bytes[k] ^= (char)(1 << k % 8);
    }
    char more = 0;
    FILE *f = fopen(path, "ab");
    fwrite(&more, 1, 1, f);
    fclose(f);
    ck_assert(!has_number(7));
    ck_assert(write_number(7, 64));
    ck_assert(has_number(7));
    /* A sound file under another's name. */
    char other[200];
    path_of(8, other, sizeof other);
    ck_assert_int_eq(rename(path, other), 0);
    ck_assert(!has_number(8));
    free(bytes);
}
END_TEST

/* What has an entry's name and is none of the user's files is not read, not
 * waited for, and deleted with the others. */
enum { FIFO, LINK, DIRECTORY, SHARED, FOREIGN, NKINDS };

static void put_other(int kind, const char *path)
{
    char aside[220];
    snprintf(aside, sizeof aside, "%s/aside", folder);
    switch (kind) {
    case FIFO:
        unlink(path);
        ck_assert_int_eq(mkfifo(path, 0600), 0);
        break;
    case LINK:
        ck_assert_int_eq(rename(path, aside), 0);
        ck_assert_int_eq(symlink(aside, path), 0);
        break;
    case DIRECTORY:
        unlink(path);
        ck_assert_int_eq(mkdir(path, 0700), 0);
        break;
    case SHARED: ck_assert_int_eq(chmod(path, 0620), 0); break;
    default: ck_assert_int_eq(chown(path, 65534, 65534), 0);
    }
}

START_TEST(only_own_files_are_entries)
{
    for (int kind = 0; kind < NKINDS; kind++) {
        char path[200];
        tc_cache_file *files;
        size_t n;
        if (kind == FOREIGN && geteuid() != 0)
            continue;
        path_of(5, path, sizeof path);
        for (int way = 0; way < 2; way++) {
            ck_assert(write_number(5, 10));
            ck_assert(has_number(5));
            put_other(kind, path);
            ck_assert_msg(!has_number(5), "kind %d", kind);
            ck_assert(tc_cache_files(&cache, &files, &n));
            ck_assert_uint_eq(n, 1);
            free(files);
            /* An entry takes the place of anything but a folder. */
            ck_assert_int_eq(write_number(5, 10), kind != DIRECTORY);
            ck_assert_int_eq(has_number(5), kind != DIRECTORY);
            if (way == 1 && kind != DIRECTORY)
                put_other(kind, path);
            ck_assert(tc_cache_clear(&cache, &n));
            ck_assert_uint_eq(n, 1);
            ck_assert_int_ne(access(path, F_OK), 0);
        }
        snprintf(path, sizeof path, "%s/aside", folder);
        unlink(path);
    }
}
END_TEST

/* Nothing is read, written or deleted in it. */
static void expect_unsafe(const char *words)
{
    char why[TC_CACHE_WHY], path[200];
    tc_entry e = number_entry(2, 10);
    tc_cache_file *files;
    size_t n;
    ck_assert(!tc_cache_is_safe(&cache, why, sizeof why));
    ck_assert_msg(strstr(why, words) != NULL, "%s", why);
    ck_assert_ptr_nonnull(strstr(why, folder));
    ck_assert_ptr_nonnull(strstr(why, "TILEC_CACHE_DIR"));
    ck_assert(!has_number(1));
    *why = 0;
    ck_assert(!tc_cache_write(&cache, &e, why, sizeof why));
    ck_assert_msg(strstr(why, words) != NULL, "%s", why);
    path_of(2, path, sizeof path);
    ck_assert_int_ne(access(path, F_OK), 0);
    ck_assert(!tc_cache_files(&cache, &files, &n));
    ck_assert_int_eq(errno, EPERM);
    ck_assert(!tc_cache_clear(&cache, &n));
    ck_assert_uint_eq(n, 0);
    path_of(1, path, sizeof path);
    ck_assert_int_eq(access(path, F_OK), 0);
    tc_entry_free(&e);
}

START_TEST(folders_of_others_are_not_used)
{
    char why[TC_CACHE_WHY], link[80];
    ck_assert(write_number(1, 10));
    ck_assert_int_eq(chmod(folder, 0777), 0);
    expect_unsafe("all users may write to the folder (mode 0777)");
    ck_assert_int_eq(chmod(folder, 01777), 0);
    expect_unsafe("all users may write to the folder (mode 1777)");
    ck_assert_int_eq(chmod(folder, 0770), 0);
    expect_unsafe("a group may write to the folder (mode 0770)");
    ck_assert_int_eq(chmod(folder, 0755), 0);
    ck_assert(tc_cache_is_safe(&cache, why, sizeof why));
    ck_assert(has_number(1));
    if (geteuid() == 0) {
        ck_assert_int_eq(chown(folder, 65534, 65534), 0);
        expect_unsafe("belongs to user 65534, and this is user 0");
        ck_assert_int_eq(chown(folder, 0, 0), 0);
    }
    /* By a link it is the same folder. */
    snprintf(link, sizeof link, "%s.link", folder);
    ck_assert_int_eq(symlink(folder, link), 0);
    tc_cache by_link = {.folder = link};
    ck_assert(tc_cache_is_safe(&by_link, why, sizeof why));
    ck_assert_int_eq(chmod(folder, 0777), 0);
    ck_assert(!tc_cache_is_safe(&by_link, why, sizeof why));
    ck_assert_int_eq(chmod(folder, 0700), 0);
    unlink(link);
    ck_assert(has_number(1));
}
END_TEST

/* A write that was broken off long ago; one that may be in flight. */
START_TEST(leftovers_go)
{
    char stale[200], fresh[200];
    struct timespec old[2] = {{1, 0}, {1, 0}};
    snprintf(stale, sizeof stale, "%s/.tilec-abcdef", folder);
    snprintf(fresh, sizeof fresh, "%s/.tilec-ghijkl", folder);
    spill(stale, "x", 1);
    spill(fresh, "x", 1);
    utimensat(AT_FDCWD, stale, old, 0);
    ck_assert(write_number(1, 10));
    ck_assert_int_ne(access(stale, F_OK), 0);
    ck_assert_int_eq(access(fresh, F_OK), 0);
}
END_TEST

START_TEST(no_folder_is_no_failure)
{
    char why[200], file[100];
    tc_entry e = number_entry(1, 10), missing;
    snprintf(file, sizeof file, "%s/file", folder);
    spill(file, "x", 1);
    char inside[120];
    snprintf(inside, sizeof inside, "%s/cache", file);
    tc_cache in_file = {.folder = inside}, none = {0};
    ck_assert(!tc_cache_write(&in_file, &e, why, sizeof why));
    ck_assert_ptr_nonnull(strstr(why, "Not a directory"));
    ck_assert(!tc_cache_read(&in_file, e.key, &missing));
    ck_assert(!tc_cache_write(&none, &e, why, sizeof why));
    ck_assert_ptr_nonnull(strstr(why, "TILEC_CACHE_DIR"));
    ck_assert(!tc_cache_read(&none, e.key, &missing));
    tc_cache_file *files;
    size_t n;
    ck_assert(!tc_cache_files(&in_file, &files, &n));
    ck_assert(tc_cache_files(&none, &files, &n));
    ck_assert_uint_eq(n, 0);
    free(files);
    unlink(file);
    /* Folders are made where they can be. */
    char deep[120];
    snprintf(deep, sizeof deep, "%s/a/b", folder);
    tc_cache far = {.folder = deep};
    ck_assert(tc_cache_write(&far, &e, why, sizeof why));
    ck_assert(tc_cache_clear(&far, &n));
    ck_assert_uint_eq(n, 1);
    rmdir(deep);
    *strrchr(deep, '/') = 0;
    rmdir(deep);
    tc_entry_free(&e);
}
END_TEST

/* The disk is full in the middle of a file. */
START_TEST(full_disk_leaves_nothing)
{
    struct rlimit most = {1000, 1000};
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &most), 0);
    ck_assert(!write_number(1, 5000));
    ck_assert(!has_number(1));
    ck_assert(write_number(2, 100));
    ck_assert(has_number(2));
    size_t n;
    ck_assert(tc_cache_clear(&cache, &n));
    ck_assert_int_eq(rmdir(folder), 0); /* no temporary file either */
}
END_TEST

static void make_older(uint64_t i, int hours)
{
    char path[200];
    path_of(i, path, sizeof path);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    now.tv_sec -= 3600 * hours;
    struct timespec times[2] = {now, now};
    ck_assert_int_eq(utimensat(AT_FDCWD, path, times, 0), 0);
}

START_TEST(least_recently_used_goes)
{
    cache.most = 10500;
    for (uint64_t i = 0; i < 8; i++) {
        ck_assert(write_number(i, 1000));
        make_older(i, 10 - (int)i);
    }
    ck_assert(has_number(0)); /* used now */
    ck_assert(write_number(8, 1000));
    make_older(8, 1);
    char stale[200];
    snprintf(stale, sizeof stale, "%s/.tilec-abcdef", folder);
    spill(stale, "x", 1);
    struct timespec old[2] = {{1, 0}, {1, 0}};
    utimensat(AT_FDCWD, stale, old, 0);
    ck_assert(write_number(9, 1000));
    ck_assert(write_number(10, 1000));
    ck_assert(access(stale, F_OK) != 0);
    ck_assert(has_number(0));
    ck_assert(has_number(9));
    ck_assert(has_number(10));
    ck_assert(!has_number(1));
    tc_cache_file *files;
    size_t n, bytes = 0;
    ck_assert(tc_cache_files(&cache, &files, &n));
    for (size_t i = 0; i < n; i++) {
        bytes += files[i].bytes;
        ck_assert(i == 0 || files[i - 1].used >= files[i].used);
    }
    ck_assert_uint_le(bytes, cache.most);
    ck_assert_uint_ge(n, 5);
    free(files);
    /* One that is too large all by itself serves this process's successors. */
    cache.most = 100;
    ck_assert(write_number(11, 1000));
    ck_assert(has_number(11));
}
END_TEST

static void *read_and_write(void *arg)
{
    uint64_t seed = (uint64_t)(uintptr_t)arg, seen = 0;
    for (int i = 0; i < 300; i++) {
        uint64_t which = (seed + (uint64_t)i * 7) % 5;
        seen += has_number(which);
        if (!write_number(which, 3000))
            return NULL;
    }
    return (void *)(uintptr_t)(seen + 1);
}

/* Four processes of two threads, in a cache too small for all five entries. */
START_TEST(many_at_once)
{
    cache.most = 14000;
    pid_t children[4];
    for (int c = 0; c < 4; c++)
        if ((children[c] = fork()) == 0) {
            pthread_t t[2];
            void *seen[2];
            for (uintptr_t i = 0; i < 2; i++)
                pthread_create(&t[i], NULL, read_and_write,
                               (void *)((uintptr_t)c + i));
            for (int i = 0; i < 2; i++)
                pthread_join(t[i], &seen[i]);
            _exit(seen[0] && seen[1] ? 0 : 1);
        }
    for (int c = 0; c < 4; c++) {
        int status;
        waitpid(children[c], &status, 0);
        ck_assert_int_eq(status, 0);
    }
    tc_cache_file *files;
    size_t n;
    ck_assert(tc_cache_files(&cache, &files, &n));
    ck_assert_uint_ge(n, 1);
    free(files);
    ck_assert(tc_cache_clear(&cache, &n));
    ck_assert_int_eq(rmdir(folder), 0);
}
END_TEST

START_TEST(default_folder)
{
    char *path;
    unsetenv("TILEC_CACHE_DIR");
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", "/home/x", 1);
    ck_assert_str_eq(path = tc_cache_default_folder(), "/home/x/.cache/tilec");
    free(path);
    setenv("XDG_CACHE_HOME", "relative", 1);
    ck_assert_str_eq(path = tc_cache_default_folder(), "/home/x/.cache/tilec");
    free(path);
    setenv("XDG_CACHE_HOME", "/var/x", 1);
    ck_assert_str_eq(path = tc_cache_default_folder(), "/var/x/tilec");
    free(path);
    setenv("TILEC_CACHE_DIR", "/here", 1);
    ck_assert_str_eq(path = tc_cache_default_folder(), "/here");
    free(path);
    unsetenv("TILEC_CACHE_DIR");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    ck_assert_ptr_null(tc_cache_default_folder());
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cache");
    TCase *c = tcase_create("cache");
    tcase_add_checked_fixture(c, make_folder, remove_folder);
    tcase_add_test(c, keeps_entries);
    tcase_add_test(c, too_many_sections);
    tcase_add_test(c, damage_is_a_miss);
    tcase_add_test(c, only_own_files_are_entries);
    tcase_add_test(c, folders_of_others_are_not_used);
    tcase_add_test(c, leftovers_go);
    tcase_add_test(c, no_folder_is_no_failure);
    tcase_add_test(c, full_disk_leaves_nothing);
    tcase_add_test(c, least_recently_used_goes);
    tcase_add_test(c, many_at_once);
    tcase_add_test(c, default_folder);
    suite_add_tcase(s, c);
    return run_suite(s);
}
