/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON from outside: members one at a time, whatever the text is; want of
 * memory told from a wrong text.
 */
#include "lib/files/json.h"
#include "test/unit/run.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* The members, as `name=value;`, then `.` at the end or `!` and a place. */
static const char *walk(const char *text)
{
    static char out[400];
    size_t n = 0;
    char *copy = strdup(text); /* its end is seen by sanitizers */
    tc_json_walk w = tc_json_walk_begin(copy, strlen(text));
    tc_json_step step;
    while ((step = tc_json_next(&w)) == TC_JSON_MEMBER)
        n += (size_t)snprintf(out + n, sizeof out - n, "%.*s=%.*s;",
                              (int)w.name_size, w.name, (int)w.value_size,
                              w.value);
    snprintf(out + n, sizeof out - n, "%c%d", step == TC_JSON_END ? '.' : '!',
             (int)(w.at - copy));
    free(copy);
    return out;
}

START_TEST(members_one_at_a_time)
{
    ck_assert_str_eq(walk("{}"), ".2");
    ck_assert_str_eq(walk("{ \"a\" : 1 , \"b\":[1,{\"c\":2}] } x"),
                     "\"a\"=1 ;\"b\"=[1,{\"c\":2}] ;.29");
    ck_assert_str_eq(walk("{\"a,}\":\"]\\\"}\"}"), "\"a,}\"=\"]\\\"}\";.14");
    ck_assert_str_eq(walk("{\"a\":1"), "!6");
    ck_assert_str_eq(walk("{\"a\":"), "!5");
    ck_assert_str_eq(walk("{\"a\""), "!4");
    ck_assert_str_eq(walk("{\"a"), "!3");
    ck_assert_str_eq(walk("{\"a\\"), "!4");
    ck_assert_str_eq(walk("{"), "!1");
    ck_assert_str_eq(walk("{a:1}"), "!1");
    ck_assert_str_eq(walk("{\"a\":}"), "!5");
    ck_assert_str_eq(walk("{\"a\":1 \"b\":2}"), "\"a\"=1 \"b\":2;.13");
    ck_assert_str_eq(walk("{\"a\":1,}"), "\"a\"=1;!7");
    ck_assert_str_eq(walk("{\"a\":[1}"), "!8");
    ck_assert_uint_eq(tc_json_commas("{\"a,,\":[1,2,3],\"b\":0}", 22), 3);
    ck_assert_uint_eq(tc_json_commas("\"a,", 3), 0);
}
END_TEST

/* 0: parsed; 1: no JSON; 2: no memory. */
static int parse(const char *text, size_t size)
{
    bool no_memory = true;
    const char *end = NULL;
    errno = EDOM;
    cJSON *j = tc_json_parse(text, size, &end, &no_memory);
    ck_assert_int_eq(errno, EDOM);
    ck_assert_ptr_nonnull(end);
    int is = j ? 0 : no_memory ? 2 : 1;
    cJSON_Delete(j);
    return is;
}

START_TEST(wrong_texts_are_no_want_of_memory)
{
    ck_assert_int_eq(parse("{\"a\":1} x", 9), 0);
    ck_assert_int_eq(parse("{\"a\":1", 6), 1);
    ck_assert_int_eq(parse("1e999999", 8), 0);
    ck_assert_int_eq(parse("", 0), 1);
}
END_TEST

#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
static unsigned long used_bytes(void)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    ck_assert(f && fscanf(f, "%lu", &pages) == 1);
    fclose(f);
    return pages * (unsigned long)sysconf(_SC_PAGESIZE);
}

START_TEST(want_of_memory_is_no_wrong_text)
{
    enum { SIZE = 4 << 20 };
    char *text = malloc(SIZE);
    memset(text, '1', SIZE);
    text[0] = '[';
    for (int i = 2; i < SIZE; i += 2)
        text[i] = ',';
    text[SIZE - 2] = '1';
    text[SIZE - 1] = ']';
    for (int is_tight = 0; is_tight < 2; is_tight++) {
        pid_t child = fork();
        if (child == 0) {
            struct rlimit most;
            most.rlim_cur = most.rlim_max = used_bytes() + (16 << 20);
            if (is_tight && setrlimit(RLIMIT_AS, &most))
                _exit(9);
            _exit(parse(text, SIZE));
        }
        int status = 0;
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_int_eq(WEXITSTATUS(status), is_tight ? 2 : 0);
    }
    free(text);
}
END_TEST
#endif

int main(void)
{
    Suite *s = suite_create("json");
    TCase *c = tcase_create("json");
    tcase_add_test(c, members_one_at_a_time);
    tcase_add_test(c, wrong_texts_are_no_want_of_memory);
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
    tcase_add_test(c, want_of_memory_is_no_wrong_text);
#endif
    suite_add_tcase(s, c);
    return run_suite(s);
}
