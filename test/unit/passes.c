/* SPDX-License-Identifier: Apache-2.0
 *
 * The pass runner, and the evaluation of launch grids.
 */
#include "passes/passes.h"
#include "ir/eval/eval.h"
#include "passes/order.h"
#include "test/unit/fixture/fixture.h"
#include "test/unit/run.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *note(void)
{
    const tc_diag *d = cx->diags ? cx->diags->notes : NULL;
    while (d && d->next)
        d = d->next;
    return d ? d->message : "no note";
}

/* ---- Pipelines ---- */

START_TEST(test_unknown_pass)
{
    tc_module *m = fixture_parse("func @f() { return }");
    ck_assert(!tc_run_pipeline(m, "cse, lcim", NULL));
    ck_assert_str_eq(fixture_message(0),
                     "pipeline: there is no pass `lcim`, did you "
                     "mean `licm`?");
    ck_assert(!tc_check_pipeline(cx, "cse,xyzzy"));
    ck_assert_str_eq(fixture_message(1), "pipeline: there is no pass `xyzzy`");
    ck_assert(tc_check_pipeline(cx, " cse ,dce,, cpu"));
    ck_assert(tc_check_pipeline(cx, ""));
    tc_module_free(m);
}
END_TEST

struct record {
    char text[2048];
};

static void on_event(void *user, const tc_pass_event *e)
{
    struct record *r = user;
    size_t n = strlen(r->text);
    static const char *const changes[] = {"unchanged", "changed", "failed"};
    snprintf(r->text + n, sizeof r->text - n, "%u %s %s%s%s;", e->index,
             e->after ? "after" : "before", e->pass, e->after ? " " : "",
             e->after ? changes[e->change] : "");
    if (e->text) {
        n = strlen(r->text);
        snprintf(r->text + n, sizeof r->text - n, "[%s]", e->text);
    }
}

START_TEST(test_events)
{
    tc_module *m = fixture_parse("func @f(%x: i32) -> i32 { return %x + 0 }");
    struct record r = {{0}};
    const tc_pass_options o = {.verify_each = true,
                               .print_after = "dce",
                               .on_event = on_event,
                               .user = &r};
    ck_assert(tc_run_pipeline(m, "canonicalize,cse,dce", &o));
    ck_assert_str_eq(r.text, "0 before canonicalize;"
                             "0 after canonicalize changed;"
                             "1 before cse;1 after cse unchanged;"
                             "2 before dce;2 after dce unchanged;"
                             "[func @f(%x: i32) -> i32 {\n"
                             "  return %x\n"
                             "}\n]");
    tc_module_free(m);
}
END_TEST

/* A program that does not verify, as a wrong pass would leave it. */
static tc_module *broken_module(void)
{
    tc_module *m = fixture_parse("func @f(%x: i32) -> i32 { return %x + %x }");
    m->first->body->first->out[0]->type = tc_type_scalar(cx, TC_F32);
    return m;
}

START_TEST(test_verifier_failure_is_a_bug_of_the_pass)
{
    tc_module *m = broken_module();
    const tc_pass_options o = {.verify_each = true};
    ck_assert(!tc_run_pipeline(m, "licm,cse", &o));
    ck_assert(cx->nerrors > 0);
    const tc_diag *d = cx->last_diag;
    ck_assert_ptr_nonnull(d->notes);
    ck_assert_str_eq(d->notes->message, "found after pass `licm`: this is a "
                                        "bug in tilec, not in your program");
    tc_module_free(m);
}
END_TEST

/* ---- The order of passes (passes.def) ---- */

static bool is_fact(const char *fact, size_t n)
{
    for (unsigned i = 0; i < tc_npass_facts; i++)
        if (strlen(tc_pass_facts[i].name) == n &&
            memcmp(tc_pass_facts[i].name, fact, n) == 0)
            return true;
    return false;
}

static void check_facts(const char *list)
{
    for (; *list; list += strspn(list, " ")) {
        size_t n = strcspn(list, " ");
        ck_assert_msg(is_fact(list, n), "%.*s is no FACT", (int)n, list);
        list += n;
    }
}

START_TEST(test_facts_are_named_and_made)
{
    for (unsigned i = 0; i < tc_npass_infos; i++) {
        const tc_pass_info *p = &tc_pass_infos[i];
        if (!p->needs)
            continue;
        check_facts(p->needs);
        check_facts(p->makes);
        check_facts(p->before);
    }
    for (unsigned k = 0; k < tc_npass_facts; k++) {
        unsigned makers = 0;
        for (unsigned i = 0; i < tc_npass_infos; i++)
            makers +=
                tc_pass_infos[i].makes &&
                tc_has_fact(tc_pass_infos[i].makes, tc_pass_facts[k].name);
        ck_assert_msg(makers > 0, "%s", tc_pass_facts[k].name);
    }
}
END_TEST

/* The pipeline with the passes a and b exchanged. */
static const char *exchanged(const char *list, const char *a, const char *b)
{
    static char text[4096];
    const char *x = strstr(list, a), *y = strstr(list, b);
    ck_assert(x && y && x < y);
    snprintf(text, sizeof text, "%.*s%s%.*s%s%s", (int)(x - list), list, b,
             (int)(y - x - (int)strlen(a)), x + strlen(a), a, y + strlen(b));
    return text;
}

static const char *passes_of(const char *pipeline)
{
    for (unsigned i = 0; i < tc_npass_infos; i++)
        if (strcmp(tc_pass_infos[i].name, pipeline) == 0)
            return tc_pass_infos[i].passes;
    ck_abort_msg("%s", pipeline);
}

START_TEST(test_order_of_pipelines)
{
    static const struct {
        const char *pipeline, *first, *second;
    } pairs[] = {
        {"gpu-tile", "hoist-biases", "elide-masks"},
        {"gpu-tile", "fuse-exp2-scale", "elide-masks"},
        {"gpu-tile", "hoist-biases", "fuse-exp2-scale"},
        {"gpu-tile", "elide-masks", "skip-row-max"},
        {"gpu-tile", "elide-masks", "limit-masks"},
        {"gpu-tile", "differentiate", "inline"},
        {"gpu-schedule", "persist-tiles", "assign-layouts"},
        {"gpu-schedule", "tma-stores", "specialize-warps"},
        {"gpu-schedule", "specialize-warps", "trim-warpgroups"},
        {"gpu-schedule", "trim-warpgroups", "schedule-mma"},
        {"gpu", "overlap-mma", "pingpong"},
        {"gpu", "overlap-mma", "split-index-sets"},
        {"gpu-schedule", "defer-atomic-adds", "specialize-warps"},
        {"gpu", "prefetch-fragments", "version-in-bounds"},
        {"gpu", "gpu-schedule", "overlap-epilogue"},
        {"gpu", "lower-conversions", "allocate-shared"},
        {"gpu", "insert-barriers", "split-barriers"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const char *list = passes_of(pairs[i].pipeline);
        ck_assert(tc_check_pipeline(cx, list));
        ck_assert_msg(!tc_check_pipeline(
                          cx, exchanged(list, pairs[i].first, pairs[i].second)),
                      "%s and %s", pairs[i].first, pairs[i].second);
    }
    ck_assert(tc_check_pipeline(cx, "cpu"));
    ck_assert(tc_check_pipeline(cx, "gpu"));
    ck_assert(tc_check_pipeline(cx, "plan"));
}
END_TEST

static void read_file(const char *path, char *text, size_t room)
{
    FILE *f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    size_t n = fread(text, 1, room - 1, f);
    text[n] = 0;
    fclose(f);
}

START_TEST(test_reproducer)
{
    char dir[] = "/tmp/tilec-test-XXXXXX", path[64], text[1024];
    ck_assert_ptr_nonnull(mkdtemp(dir));
    const tc_binding bindings[] = {{"N", "\"8\\"}};
    const tc_pass_options o = {.kernel = "k",
                               .bindings = bindings,
                               .nbindings = 1,
                               .round_trip = true,
                               .reproducer_dir = dir};
    for (int i = 0; i < 2; i++) { /* the second one takes another name */
        tc_module *m = fixture_parse("kernel @k[N: int]() grid(1) { }");
        ck_assert(!tc_run_pipeline(m, "bind-params,dce", &o));
        snprintf(path, sizeof path, "%s/tilec-bind-params-%d.tile", dir, i);
        ck_assert(strstr(note(), path));
        read_file(path, text, sizeof text);
        const char *head = "// tilec opt -p bind-params,dce --kernel \"k\" "
                           "-D \"N=\\\"8\\\\\" --round-trip\n"
                           "kernel @k[N: int]() grid {\n";
        ck_assert_msg(strncmp(text, head, strlen(head)) == 0, "%s", text);
        unlink(path);
        if (i == 0) {
            FILE *taken = fopen(path, "w");
            fclose(taken);
        }
        tc_diags_clear(cx);
        tc_module_free(m);
    }
    snprintf(path, sizeof path, "%s/tilec-bind-params-0.tile", dir);
    unlink(path);
    rmdir(dir);
}
END_TEST

START_TEST(test_reproducer_cannot_be_written)
{
    const tc_pass_options o = {.reproducer_dir = "/nonexistent"};
    tc_module *m = fixture_parse("kernel @k[N: int]() grid(1) { }");
    ck_assert(!tc_run_pipeline(m, "bind-params", &o));
    ck_assert_str_eq(note(), "no reproducer: cannot write "
                             "/nonexistent/tilec-bind-params-0.tile: No such "
                             "file or directory");
    tc_module_free(m);
}
END_TEST

START_TEST(test_remarks_only_when_wanted)
{
    const char *text = "func @f(%n: i32, %p: ptr<f32>) {\n"
                       "  for %i = 0 to %n {\n"
                       "    %a = load %p\n"
                       "    store %p, %a\n"
                       "  }\n"
                       "  return\n"
                       "}\n";
    for (int want = 0; want < 2; want++) {
        tc_module *m = fixture_parse(text);
        cx->want_remarks = want;
        ck_assert(tc_run_pipeline(m, "licm", NULL));
        ck_assert_int_eq(cx->diags != NULL, want);
        if (want) {
            ck_assert_int_eq(cx->diags->severity, TC_REMARK);
            ck_assert_str_eq(cx->diags->pass, "licm");
            ck_assert_uint_eq(cx->diags->loc.line, 3);
        }
        tc_diags_clear(cx);
        tc_module_free(m);
    }
}
END_TEST

/* ---- Out of memory ---- */

static const char kernel_text[] =
    "func @mod(%s: f32, %q: i32, %t: tensor<[?] x f32>) -> f32 {\n"
    "  %r = if %q > 3 { yield %s * %t[%q] } else { yield %s }\n"
    "  return %r\n"
    "}\n"
    "kernel @k[N: int = 64, mod: func(f32, i32) -> f32 = @mod](\n"
    "    %x: tensor<[?, N] x f32>) grid(size(%x, 0)) {\n"
    "  %i = program_id(0)\n"
    "  %a = load %x[%i, 0 +: N] boundary(0)\n"
    "  %m = for %j = 0 to %i carry(%m0 = %a) {\n"
    "    yield mod(%m0, range(N)) + 0.0 * 2.0\n"
    "  }\n"
    "  store %x[%i, 0 +: N], %m boundary(0)\n"
    "}\n";

static bool compile(tc_context *c)
{
    jmp_buf out;
    tc_module *volatile m = NULL;
    volatile bool ok = false;
    if (!setjmp(out)) {
        c->memory.unwind = &out;
        m = tc_module_new(c);
        uint32_t source =
            tc_source_add(c, "oom", kernel_text, strlen(kernel_text));
        const tc_pass_options o = {.verify_each = true, .round_trip = true};
        ok = tc_parse(m, source) && tc_module_verify(m) &&
             tc_run_pipeline(m, "cpu", &o);
    }
    tc_module_free(m);
    return ok;
}

/* The n-th request for memory fails, for many n: everything unwinds, nothing
 * leaks (the sanitizers see), and the next compile works. */
START_TEST(test_out_of_memory_at_every_place)
{
    unsigned failed = 0;
    for (unsigned long n = 1;; n += 1 + n / 32) {
        tc_context *c = tc_context_new();
        c->memory.fail_after = n;
        bool ok = compile(c);
        bool reached = c->memory.fail_after == 0;
        c->memory.fail_after = 0;
        ck_assert(ok || reached);
        failed += !ok;
        if (!ok)
            ck_assert(compile(c));
        tc_context_free(c);
        if (!reached)
            break;
    }
    ck_assert(failed > 0);
}
END_TEST

/* ---- Grids ---- */

static bool grid_of(const char *text, tc_launch_arg *args, int32_t grid[3])
{
    tc_module *m = fixture_parse(text);
    bool ok = tc_run_pipeline(m, "cpu", NULL) &&
              tc_eval_grid(cx, m->first, args, 132, grid);
    tc_module_free(m);
    return ok;
}

static const int32_t sizes[] = {2, 1000, 64};
static const int64_t strides[] = {64000, 64, 1};

START_TEST(test_grid_of_sizes_and_scalars)
{
    tc_launch_arg args[] = {{.sizes = sizes, .strides = strides},
                            {.scalar = {.i = 5}}};
    int32_t grid[3];
    ck_assert(grid_of("kernel @k(%t: tensor<[?, ?, 64] x f32>, %n: i32)\n"
                      "    grid(cdiv(size(%t, 1), 128) * %n, size(%t, 2)) { }",
                      args, grid));
    ck_assert_int_eq(grid[0], 40);
    ck_assert_int_eq(grid[1], 64);
    ck_assert_int_eq(grid[2], 1);
}
END_TEST

START_TEST(test_grid_of_strides)
{
    tc_launch_arg args[] = {{.sizes = sizes, .strides = strides}};
    int32_t grid[3];
    ck_assert(grid_of("kernel @k(%t: tensor<[?, ?, 64] x f32>)\n"
                      "    grid { %s = stride %t dim(1) : i64\n"
                      "           yield cast(%s, i32) } { }",
                      args, grid));
    ck_assert_int_eq(grid[0], 64);
}
END_TEST

START_TEST(test_failed_assert_of_a_grid)
{
    tc_launch_arg args[] = {{.scalar = {.i = 5}}};
    int32_t grid[3];
    const char *text = "kernel @k(%n: i32) grid {\n"
                       "  assert rem(%n, 2) == 0, \"n must be even\"\n"
                       "  yield %n\n"
                       "} { }";
    ck_assert(!grid_of(text, args, grid));
    ck_assert_str_eq(fixture_message(0),
                     "launch of @k: n must be even: found 1, expected 0");
    ck_assert_uint_eq(cx->diags->loc.line, 2);
    args[0].scalar.i = 4;
    ck_assert(grid_of(text, args, grid));
    ck_assert_int_eq(grid[0], 4);
}
END_TEST

START_TEST(test_negative_axis_of_a_grid)
{
    tc_launch_arg args[] = {{.scalar = {.i = -3}}};
    int32_t grid[3];
    ck_assert(!grid_of("kernel @k(%n: i32) grid(1, %n) { }", args, grid));
    ck_assert_str_eq(fixture_message(0), "launch of @k: grid axis 1 is -3");
}
END_TEST

START_TEST(test_multiprocessors_of_a_grid)
{
    tc_launch_arg args[] = {{.scalar = {.i = 500}}};
    int32_t grid[3];
    const char *text = "kernel @k(%n: i32) grid {\n"
                       "  %s = num_sms\n"
                       "  yield min(%n, %s)\n"
                       "} { }";
    ck_assert(grid_of(text, args, grid));
    ck_assert_int_eq(grid[0], 132);
    args[0].scalar.i = 5;
    ck_assert(grid_of(text, args, grid));
    ck_assert_int_eq(grid[0], 5);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("passes");
    TCase *t = tcase_create("runner");
    tcase_add_checked_fixture(t, fixture_setup, fixture_teardown);
    tcase_add_test(t, test_unknown_pass);
    tcase_add_test(t, test_events);
    tcase_add_test(t, test_verifier_failure_is_a_bug_of_the_pass);
    tcase_add_test(t, test_facts_are_named_and_made);
    tcase_add_test(t, test_order_of_pipelines);
    tcase_add_test(t, test_reproducer);
    tcase_add_test(t, test_reproducer_cannot_be_written);
    tcase_add_test(t, test_remarks_only_when_wanted);
    suite_add_tcase(s, t);
    TCase *memory = tcase_create("memory");
    tcase_add_test(memory, test_out_of_memory_at_every_place);
    suite_add_tcase(s, memory);
    TCase *grid = tcase_create("grid");
    tcase_add_checked_fixture(grid, fixture_setup, fixture_teardown);
    tcase_add_test(grid, test_grid_of_sizes_and_scalars);
    tcase_add_test(grid, test_grid_of_strides);
    tcase_add_test(grid, test_failed_assert_of_a_grid);
    tcase_add_test(grid, test_negative_axis_of_a_grid);
    tcase_add_test(grid, test_multiprocessors_of_a_grid);
    suite_add_tcase(s, grid);
    return run_suite(s);
}
