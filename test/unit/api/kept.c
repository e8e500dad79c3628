/* SPDX-License-Identifier: Apache-2.0
 *
 * Code for the CPU in the cache: found again by another context, as good as
 * compiled, and compiled again where the entry is not sound.
 */
#include "test/unit/api/fixture.h"

#include "lib/cache/cache.h"
#include "lib/host/host_code.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[32];

static const char text[] =
    "kernel @careful(%x: tensor<[?] x f32>, %y: tensor<[?] x f32>,\n"
    "    %bad: i32, %unread: f32)\n"
    "    grid {\n"
    "      assert size(%x, 0) == size(%y, 0), \"lengths differ\"\n"
    "      yield size(%x, 0)\n"
    "    }\n"
    "{\n"
    "  %p = program_id(0)\n"
    "  assert %p != %bad, \"100% bad\"\n"
    "  %a = load %x[%p +: 1]\n"
    "  if %p == 3 {\n"
    "    print \"at 50%\", %p, %a\n"
    "  }\n"
    "  store %y[%p +: 1], %a * 2.0 + 1.0\n"
    "}\n";

enum { N = 8 };

static tilec_context *context_in(const char *where, bool remarks)
{
    tilec_context *c;
    tilec_context_options o = TILEC_INIT(tilec_context_options);
    o.target = "cpu";
    o.cache_folder = where;
    o.remarks = remarks;
    ck_assert_int_eq(tilec_context_new(&o, &c), TILEC_OK);
    return c;
}

static tilec_kernel *compile_in(tilec_context *c)
{
    tilec_kernel *k;
    tilec_status s = api_compile_text(c, text, NULL, 0, &k);
    ck_assert_msg(s == TILEC_OK, "%s",
                  s == TILEC_OK ? "" : tilec_diagnostics(c)->message);
    return k;
}

/* In a context of its own, which ends. */
static tilec_kernel *compile_alone(void)
{
    tilec_context *c = context_in(folder, false);
    tilec_kernel *k = compile_in(c);
    tilec_context_free(c);
    return k;
}

/* ---- What a kernel does ---- */

struct behavior {
    float y[N];
    char printed[256];
    tilec_error failed, refused;
    char *tile, *assembly, *json;
};

static void take_line(void *user, const char *line)
{
    struct behavior *b = user;
    size_t n = strlen(b->printed);
    snprintf(b->printed + n, sizeof b->printed - n, "%s\n", line);
}

static struct behavior observe(const tilec_kernel *k)
{
    struct behavior b = {.failed = TILEC_INIT(tilec_error),
                         .refused = TILEC_INIT(tilec_error)};
    float x[N], y[N];
    int64_t nx = N, ny = N;
    DLTensor tx = {x, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, &nx, NULL, 0};
    DLTensor ty = {b.y, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, &ny, NULL, 0};
    tilec_argument args[] = {tilec_tensor("x", &tx), tilec_tensor("y", &ty),
                             tilec_int("bad", -1)};
    tilec_launch_options o = TILEC_INIT(tilec_launch_options);
    tilec_error e = TILEC_INIT(tilec_error);
    o.print = take_line;
    o.user = &b;
    for (int i = 0; i < N; i++)
        x[i] = (float)i;
    ck_assert_int_eq(tilec_launch(k, args, 3, &o, &e), TILEC_OK);
    ty.data = y;
    args[2].i = 5;
    ck_assert_int_eq(tilec_launch(k, args, 3, NULL, &b.failed), TILEC_INPUT);
    ny = N - 1;
    ck_assert_int_eq(tilec_launch(k, args, 3, NULL, &b.refused), TILEC_INPUT);
    ck_assert_int_eq(tilec_kernel_emit(k, "tile", &b.tile, &e), TILEC_OK);
    ck_assert_int_eq(tilec_kernel_emit(k, "asm", &b.assembly, &e), TILEC_OK);
    ck_assert_int_eq(tilec_kernel_emit(k, "json", &b.json, &e), TILEC_OK);
    return b;
}

static void forget(struct behavior *b)
{
    tilec_free(b->tile);
    tilec_free(b->assembly);
    tilec_free(b->json);
}

static void expect_same_error(const tilec_error *a, const tilec_error *b)
{
    ck_assert_str_eq(a->message, b->message);
    ck_assert_str_eq(a->file, b->file);
    ck_assert_uint_eq(a->line, b->line);
    ck_assert_uint_eq(a->column, b->column);
    ck_assert_mem_eq(a->program, b->program, sizeof a->program);
}

/* Takes the kernel: it does what the text says, as `want` does. */
static void expect_behavior(tilec_kernel *k, const struct behavior *want)
{
    struct behavior b = observe(k);
    for (int i = 0; i < N; i++)
        ck_assert_float_eq(b.y[i], (float)(2 * i + 1));
    ck_assert_str_eq(b.printed, want->printed);
    expect_same_error(&b.failed, &want->failed);
    expect_same_error(&b.refused, &want->refused);
    ck_assert_str_eq(b.tile, want->tile);
    ck_assert_str_eq(b.assembly, want->assembly);
    ck_assert_str_eq(b.json, want->json);
    forget(&b);
    tilec_kernel_free(k);
}

/* ---- The folder ---- */

struct entries {
    unsigned n;
    char key[40], kernel[40], target[40];
};

static void take_entry(void *user, const tilec_cache_entry *e)
{
    struct entries *all = user;
    all->n++;
    snprintf(all->key, sizeof all->key, "%s", e->key);
    snprintf(all->kernel, sizeof all->kernel, "%s", e->kernel ? e->kernel : "");
    snprintf(all->target, sizeof all->target, "%s", e->target ? e->target : "");
}

static struct entries list_entries(void)
{
    struct entries all = {0};
    tilec_error e = TILEC_INIT(tilec_error);
    tilec_context *c = context_in(folder, false);
    ck_assert_int_eq(tilec_cache_list(c, take_entry, &all, &e), TILEC_OK);
    tilec_context_free(c);
    return all;
}

static void entry_file(char path[128])
{
    struct entries all = list_entries();
    ck_assert_uint_eq(all.n, 1);
    snprintf(path, 128, "%s/%s.tilec", folder, all.key);
}

/* A file that is written anew is another one. */
static ino_t identity(void)
{
    char path[128];
    struct stat s;
    entry_file(path);
    ck_assert_int_eq(stat(path, &s), 0);
    return s.st_ino;
}

static struct behavior compiled;

static void make_folder(void)
{
    strcpy(folder, "/tmp/tilec-kept-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    tilec_context *c = context_in("", false);
    tilec_kernel *k = compile_in(c);
    compiled = observe(k);
    tilec_kernel_free(k);
    tilec_context_free(c);
}

static void drop_folder(void)
{
    tilec_error e = TILEC_INIT(tilec_error);
    tilec_context *c = context_in(folder, false);
    ck_assert_int_eq(tilec_cache_clear(c, NULL, &e), TILEC_OK);
    tilec_context_free(c);
    ck_assert_int_eq(rmdir(folder), 0);
    forget(&compiled);
}

/* ---- Tests ---- */

START_TEST(another_context_finds_the_code)
{
    make_folder();
    expect_behavior(compile_alone(), &compiled);
    struct entries all = list_entries();
    ck_assert_uint_eq(all.n, 1);
    ck_assert_str_eq(all.kernel, "careful");
    ck_assert_str_eq(all.target, "cpu");
    ino_t before = identity();
    expect_behavior(compile_alone(), &compiled);
    ck_assert_uint_eq(identity(), before);
    drop_folder();
}
END_TEST

START_TEST(kernels_of_a_context_share_code)
{
    make_folder();
    tilec_context *c = context_in("", false);
    tilec_kernel *first = compile_in(c), *second = compile_in(c);
    ck_assert_ptr_eq(first->host, second->host);
    tilec_context_free(c);
    expect_behavior(first, &compiled);
    expect_behavior(second, &compiled);
    drop_folder();
}
END_TEST

START_TEST(remarks_and_no_cache_compile)
{
    make_folder();
    tilec_kernel_free(compile_alone());
    ino_t before = identity();
    tilec_context *c = context_in(folder, true);
    expect_behavior(compile_in(c), &compiled);
    tilec_context_free(c);
    ck_assert_uint_ne(identity(), before);
    drop_folder();
}
END_TEST

/* Whatever is wrong with the file. */
static void spoil(long at, long size)
{
    char path[128];
    entry_file(path);
    struct stat s;
    ck_assert_int_eq(stat(path, &s), 0);
    if (size >= 0) {
        ck_assert_int_eq(truncate(path, size), 0);
        return;
    }
    FILE *f = fopen(path, "r+b");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fseek(f, at % s.st_size, SEEK_SET), 0);
    int was = fgetc(f);
    ck_assert_int_eq(fseek(f, at % s.st_size, SEEK_SET), 0);
    fputc(was ^ 0x10, f);
    ck_assert_int_eq(fclose(f), 0);
}

START_TEST(damaged_files_are_compiled_again)
{
    static const long places[] = {0, 9, 70, 100, 1000, 1500, -1};
    make_folder();
    tilec_kernel_free(compile_alone());
    for (unsigned i = 0; places[i] >= 0; i++) {
        ino_t before = identity();
        spoil(places[i], i % 2 ? 100 : -1);
        expect_behavior(compile_alone(), &compiled);
        ck_assert_uint_ne(identity(), before);
    }
    drop_folder();
}
END_TEST

/* Whole files, with the right hashes and recipe, that hold something else. */
static void replace_section(const char *name, const char *data, size_t size)
{
    struct entries all = list_entries();
    unsigned long long high, low;
    ck_assert_int_eq(sscanf(all.key, "%16llx%16llx", &high, &low), 2);
    tc_cache cache = {folder, 0};
    tc_entry old, made;
    char why[512];
    ck_assert(tc_cache_peek(&cache, (tc_key){low, high}, &old));
    for (unsigned i = 0; i < old.n; i++)
        if (strcmp(old.sections[i].name, name) == 0) {
            old.sections[i].data = data;
            old.sections[i].size = size;
        }
    ck_assert(tc_entry_make(&made, old.key, old.sections, old.n));
    ck_assert(tc_cache_write(&cache, &made, why, sizeof why));
    tc_entry_free(&made);
    tc_entry_free(&old);
}

static const struct other {
    const char *section, *data;
} others[] = {
    {"object", ""},
    {"object", "\177ELF\2\1\1"},
    {"object", "nonsense that is a little longer than the head of an ELF "
               "file is, so that it is looked at"},
    {"meta", ""},
    {"meta", "[1, 2"},
    {"meta", "{}"},
    {"meta", "{\"scratch\": -1, \"args\": [], \"sites\": []}"},
    {"meta", "{\"scratch\": 1e30, \"args\": [], \"sites\": []}"},
    {"meta", "{\"scratch\": 0, \"args\": 3, \"sites\": []}"},
    {"meta", "{\"scratch\": 0, \"args\": [[1]], \"sites\": []}"},
    {"meta", "{\"scratch\": 0, \"args\": [[1, 99]], \"sites\": []}"},
    {"meta", "{\"scratch\": 0, \"args\": [[999, 0]], \"sites\": []}"},
    {"meta", "{\"scratch\": 0, \"args\": [], \"sites\": [[1]]}"},
    {"meta", "{\"scratch\": 0, \"args\": [], "
             "\"sites\": [[\"a\", 1, 2, \"m\", [1, 7, 3]]]}"},
    {"meta", "{\"scratch\": 0, \"args\": [], "
             "\"sites\": [[\"a\", 1, 2, \"m\", [1, 1, 1e20]]]}"},
    /* Of another kernel: the arguments are not this one's. */
    {"meta", "{\"scratch\": 0, \"args\": [], \"sites\": []}"},
    {"header", ""},
    {"header", "kernel @careful() grid { yield 1 } { return }"},
    {"header", "kernel @careful("},
};
enum { NOTHERS = sizeof others / sizeof *others };

START_TEST(entries_that_are_no_code_are_compiled_again)
{
    const struct other *o = &others[_i];
    make_folder();
    tilec_kernel_free(compile_alone());
    replace_section(o->section, o->data, strlen(o->data));
    ino_t before = identity();
    expect_behavior(compile_alone(), &compiled);
    ck_assert_uint_ne(identity(), before);
    drop_folder();
}
END_TEST

/* Allocations fail on the way from the cache, too. */
START_TEST(out_of_memory_with_code_from_the_cache)
{
    make_folder();
    tilec_kernel_free(compile_alone());
    bool reached = true;
    unsigned long n = 1;
    for (; reached; n++) {
        tilec_context *c = context_in(folder, false);
        tilec_kernel *k;
        c->memory.fail_after = n;
        tilec_status s = api_compile_text(c, text, NULL, 0, &k);
        reached = c->memory.fail_after == 0;
        ck_assert_int_eq(s, reached ? TILEC_MACHINE : TILEC_OK);
        tilec_kernel_free(k);
        tilec_context_free(c);
    }
    ck_assert_uint_gt(n, 2);
    drop_folder();
}
END_TEST

void api_kept_tests(TCase *t)
{
    tcase_add_test(t, another_context_finds_the_code);
    tcase_add_test(t, kernels_of_a_context_share_code);
    tcase_add_test(t, remarks_and_no_cache_compile);
    tcase_add_test(t, damaged_files_are_compiled_again);
    tcase_add_loop_test(t, entries_that_are_no_code_are_compiled_again, 0,
                        NOTHERS);
    tcase_add_test(t, out_of_memory_with_code_from_the_cache);
}
