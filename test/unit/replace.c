/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that are replaced as a whole: links, modes, and what a process leaves
 * that a signal ends while it writes, with files without a name and on file
 * systems that lack them.
 */
#define _GNU_SOURCE
#include "lib/files/replace.h"
#include "test/unit/run.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64];
static bool lacks_unnamed;

/* Stands before the C library's. */
int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
    va_end(args);
    if (lacks_unnamed && (flags & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

static void set_up(void)
{
    strcpy(folder, "/tmp/tilec-replace-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(chdir(folder), 0);
}

/* Names in the folder but for `.` and `..`. */
static int count_names(void)
{
    int n = 0;
    DIR *d = opendir(folder);
    ck_assert_ptr_nonnull(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n - 2;
}

static void tear_down(void)
{
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d));)
        unlink(e->d_name);
    closedir(d);
    rmdir(folder);
}

static void spill(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

static void expect_text(const char *path, const char *text)
{
    char got[64] = "";
    FILE *f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    got[fread(got, 1, sizeof got - 1, f)] = 0;
    fclose(f);
    ck_assert_str_eq(got, text);
}

static void expect_place(const char *path, const char *wanted, bool is_there)
{
    struct stat st;
    char *place = tc_replace_place(path, &st);
    ck_assert_msg(place != NULL, "%s: %s", path, strerror(errno));
    const char *slash = strrchr(place, '/');
    ck_assert_str_eq(slash ? slash + 1 : place, wanted);
    ck_assert_int_eq(st.st_mode != 0, is_there);
    free(place);
}

START_TEST(links_are_followed)
{
    struct stat st;
    char far[100];
    expect_place("new", "new", false);
    spill("old", "x");
    expect_place("old", "old", true);
    ck_assert_int_eq(symlink("old", "to_old"), 0);
    expect_place("to_old", "old", true);
    /* To what is not there yet: from its folder, in two steps, absolute. */
    ck_assert_int_eq(symlink("new", "to_new"), 0);
    ck_assert_int_eq(symlink("to_new", "to_to_new"), 0);
    expect_place("to_to_new", "new", false);
    snprintf(far, sizeof far, "%s/to_to_new", folder);
    expect_place(far, "new", false);
    ck_assert_int_eq(symlink(far, "far"), 0);
    expect_place("far", "new", false);
    /* Round and round. */
    ck_assert_int_eq(symlink("b", "a"), 0);
    ck_assert_int_eq(symlink("a", "b"), 0);
    ck_assert_ptr_null(tc_replace_place("a", &st));
    ck_assert_int_eq(errno, ELOOP);
}
END_TEST

START_TEST(appears_whole_or_not_at_all)
{
    lacks_unnamed = _i;
    tc_replace r;
    spill("file", "old");
    ck_assert(tc_replace_begin(&r, "file", "file.", 0640));
    ck_assert(tc_replace_write(&r, "n", 1));
    expect_text("file", "old");
    ck_assert_int_eq(count_names(), lacks_unnamed ? 2 : 1);
    ck_assert(tc_replace_write(&r, "ew", 2));
    ck_assert(tc_replace_publish(&r, _i));
    tc_replace_end(&r);
    expect_text("file", "new");
    ck_assert_int_eq(count_names(), 1);
    struct stat st;
    ck_assert_int_eq(stat("file", &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777 & ~0640u, 0);
    /* One that is given up. */
    ck_assert(tc_replace_begin(&r, "file", "file.", 0666));
    ck_assert(tc_replace_write(&r, "other", 5));
    errno = EDOM;
    tc_replace_end(&r);
    ck_assert_int_eq(errno, EDOM);
    expect_text("file", "new");
    ck_assert_int_eq(count_names(), 1);
    ck_assert(!tc_replace_begin(&r, "no/file", "no/file.", 0666));
    ck_assert_int_eq(errno, ENOENT);
    tc_replace_end(&r);
}
END_TEST

/* The child's end. */
static int write_in_child(int signal_of, bool is_handled)
{
    pid_t child = fork();
    if (child == 0) {
        tc_replace r;
        /* Check has handlers of its own. */
        if (signal_of != SIGKILL)
            signal(signal_of, is_handled ? SIG_IGN : SIG_DFL);
        if (!tc_replace_begin(&r, "file", "file.", 0666) ||
            !tc_replace_write(&r, "half", 4))
            _exit(2);
        raise(signal_of);
        bool ok = tc_replace_write(&r, " and half", 9) &&
                  tc_replace_publish(&r, false);
        if (!ok && errno != EINTR)
            _exit(3);
        tc_replace_end(&r);
        _exit(ok ? 0 : 4);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return status;
}

START_TEST(signals_leave_nothing)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGKILL};
    lacks_unnamed = _i;
    for (int i = 0; i < 4; i++) {
        if (lacks_unnamed && signals[i] == SIGKILL)
            continue; /* cannot be waited with */
        int status = write_in_child(signals[i], false);
        ck_assert(WIFSIGNALED(status));
        ck_assert_int_eq(WTERMSIG(status), signals[i]);
        ck_assert_int_eq(count_names(), 0);
    }
    /* One that the program takes care of ends nothing. */
    ck_assert_int_eq(write_in_child(SIGTERM, true), 0);
    expect_text("file", "half and half");
    ck_assert_int_eq(count_names(), 1);
}
END_TEST

START_TEST(signals_are_as_before)
{
    sigset_t before, after;
    tc_replace r;
    lacks_unnamed = true;
    signal(SIGTERM, SIG_DFL);
    ck_assert_int_eq(sigprocmask(SIG_BLOCK, NULL, &before), 0);
    ck_assert(tc_replace_begin(&r, "file", "file.", 0666));
    ck_assert_int_eq(sigprocmask(SIG_BLOCK, NULL, &after), 0);
    ck_assert_int_eq(sigismember(&after, SIGTERM), 1);
    ck_assert(tc_replace_publish(&r, false));
    tc_replace_end(&r);
    ck_assert_int_eq(sigprocmask(SIG_BLOCK, NULL, &after), 0);
    ck_assert_int_eq(sigismember(&before, SIGINT), sigismember(&after, SIGINT));
    ck_assert_int_eq(sigismember(&after, SIGTERM), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("replace");
    TCase *c = tcase_create("replace");
    tcase_add_checked_fixture(c, set_up, tear_down);
    tcase_add_test(c, links_are_followed);
    tcase_add_loop_test(c, appears_whole_or_not_at_all, 0, 2);
    tcase_add_loop_test(c, signals_leave_nothing, 0, 2);
    tcase_add_test(c, signals_are_as_before);
    suite_add_tcase(s, c);
    return run_suite(s);
}
