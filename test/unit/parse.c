/* SPDX-License-Identifier: Apache-2.0
 *
 * The parser as a function: what it appends to a module, where things are,
 * what it does without memory. What it says of wrong programs is tested in
 * test/ir/parse, what it makes of right ones in test/ir/roundtrip.
 */
#include "ir/ir.h"
#include "test/unit/fixture/fixture.h"
#include "test/unit/run.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static tc_module *m;

static void set_up(void)
{
    fixture_setup();
    m = tc_module_new(cx);
}

static void tear_down(void)
{
    tc_module_free(m);
    fixture_teardown();
}

static bool parse(const char *text)
{
    return tc_parse(m, tc_source_add(cx, "test", text, strlen(text)));
}

static const char *printed(void)
{
    tc_text out = {.arena = &m->arena};
    tc_module_print(&out, m, TC_PRINT_PLAIN);
    return out.data;
}

START_TEST(sources_add_up_in_one_module)
{
    ck_assert(parse("func @a(%x: i32) -> i32 { return %x }"));
    ck_assert(parse("func @b(%x: i32) -> i32 { return @a(%x) }"));
    ck_assert_ptr_nonnull(tc_func_find(m, "b"));
    ck_assert_str_eq(printed(), "func @a(%x: i32) -> i32 {\n"
                                "  return %x\n"
                                "}\n"
                                "\n"
                                "func @b(%x: i32) -> i32 {\n"
                                "  %0 = call @a(%x) : i32\n"
                                "  return %0\n"
                                "}\n");
    ck_assert(!parse("func @a() { }"));
    ck_assert_str_eq(cx->diags->message, "@a is defined already");
    ck_assert_uint_eq(cx->diags->notes->loc.file, 1);
}
END_TEST

START_TEST(an_empty_text_is_an_empty_module)
{
    ck_assert(parse(""));
    ck_assert(parse("// nothing\n"));
    ck_assert_ptr_null(m->first);
    ck_assert_str_eq(printed(), "");
}
END_TEST

START_TEST(layout_of_the_text_does_not_matter)
{
    ck_assert(parse("func @f(%x: i32) -> i32 { %a = add %x, %x %b = %a * %a "
                    "return %b }"));
    const char *one_line = printed();
    tc_module *other = m;
    m = tc_module_new(cx);
    ck_assert(parse("func\n@f\n(\n%x\n:\ni32\n)\n->\ni32\n{\n%a\n=\nadd\n%x\n,"
                    "\n%x\n%b\n=\n%a\n*\n%a\nreturn\n%b\n}\n"));
    ck_assert_str_eq(printed(), one_line);
    tc_module_free(other);
}
END_TEST

static void check_loc(tc_loc loc, uint32_t line, uint32_t col)
{
    ck_assert_uint_eq(loc.file, 1);
    ck_assert_uint_eq(loc.line, line);
    ck_assert_uint_eq(loc.col, col);
}

START_TEST(ops_and_values_have_a_place)
{
    ck_assert(parse("func @f(%x: i32) -> i32 {\n"
                    "  %y = %x + 2\n"
                    "  %z = mul %y, %x\n"
                    "  return %z\n"
                    "}\n"));
    tc_func *f = m->first;
    tc_op *two = f->body->first, *add = two->next, *mul = add->next;
    check_loc(f->loc, 1, 6);
    check_loc(f->body->args[0]->loc, 1, 9);
    check_loc(two->loc, 2, 13);
    check_loc(add->loc, 2, 11); /* the operator */
    check_loc(add->out[0]->loc, 2, 3);
    check_loc(mul->loc, 3, 8);
    check_loc(mul->next->loc, 4, 3);
}
END_TEST

START_TEST(names_are_kept_as_hints)
{
    ck_assert(parse("func @f(%q.len: i32, %3: i32) -> i32 {\n"
                    "  %sum = %q.len + %3\n"
                    "  return %sum\n"
                    "}\n"));
    tc_func *f = m->first;
    ck_assert_str_eq(f->body->args[0]->name, "q.len");
    ck_assert_ptr_null(f->body->args[1]->name);
    ck_assert_str_eq(f->body->first->out[0]->name, "sum");
}
END_TEST

START_TEST(at_most_twenty_errors)
{
    tc_text text = {.arena = &m->arena};
    tc_text_add(&text, "func @f() {\n");
    for (int i = 0; i < 100; i++)
        tc_text_printf(&text, "  %%x%d = %%y%d + 1\n", i, i);
    ck_assert(!parse(text.data));
    unsigned n = 0;
    for (const tc_diag *d = cx->diags; d; d = d->next)
        n++;
    ck_assert_uint_eq(n, TC_MAX_ERRORS);
}
END_TEST

START_TEST(a_type_alone)
{
    tc_loc at = {1, 2, 3, 0};
    const tc_type *t = tc_type_parse(cx, "tile<64x32xbf16>", at);
    ck_assert_ptr_nonnull(t);
    ck_assert_str_eq(tc_type_name(cx, t), "tile<64x32 x bf16>");
    ck_assert_ptr_eq(tc_type_parse(cx, " f32 ", at),
                     tc_type_scalar(cx, TC_F32));
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"f33", "`f33` is no type; did you mean `f32`?"},
        {"f32 f32", "expected the end of the text, found `f32`"},
        {"", "expected a type, found the end of the text"},
        {"tile<Nx8 x f32>", "`N` is no compile-time int parameter"},
        {"ptr<f32", "expected `>`, found the end of the text"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tc_diags_clear(cx);
        ck_assert_ptr_null(tc_type_parse(cx, bad[i].text, at));
        ck_assert_str_eq(cx->diags->message, bad[i].message);
        ck_assert_uint_eq(cx->diags->loc.line, 2);
    }
}
END_TEST

static const char everything[] =
    "func @f(%x: f32) -> f32 { return exp2(%x) * 0.125 }\n"
    "kernel @k[N: int = 16, T: type = f32, g: func(f32) -> f32 = @f](\n"
    "    %q: tensor<[?, N] x T>, %n: i32) grid(cdiv(%n, N)) {\n"
    "  %m0 = program_id(0) * N\n"
    "  %t = load %q[%m0 +: N, 0 +: N] boundary(0) pad(0)\n"
    "  %s = for %i = 0 to %n carry(%a = cast(%t, f32)) {\n"
    "    %b = if %i > 3 { yield g(%a, name=%i) } else { yield %a }\n"
    "    yield %b - max(%b, axis=1)[:, none]\n"
    "  }\n"
    "  store %q[%m0 +: N, 0 +: N], cast(%s, T) boundary(0)\n"
    "  print \"done\", %n\n"
    "}\n";

/* Allocation number n fails, for every n: the jump arrives, nothing leaks
 * (which the sanitizers see). */
START_TEST(out_of_memory_unwinds)
{
    volatile bool done = false;
    for (volatile unsigned long n = 1; !done; n++) {
        tc_context *volatile small = tc_context_new();
        tc_module *volatile module = NULL;
        jmp_buf back;
        if (!setjmp(back)) {
            small->memory.unwind = &back;
            module = tc_module_new(small);
            small->memory.fail_after = n;
            uint32_t source =
                tc_source_add(small, "test", everything, sizeof everything - 1);
            ck_assert(tc_parse(module, source));
            tc_text out = {.arena = &module->arena};
            tc_module_print(&out, module, TC_PRINT_LOCATIONS);
            done = true;
        }
        small->memory.fail_after = 0;
        tc_module_free(module);
        tc_context_free(small);
    }
}
END_TEST

/* A text cut off anywhere gives an error or a program, never a crash. */
START_TEST(every_prefix_is_survived)
{
    for (size_t n = 0; n < sizeof everything; n++) {
        tc_module *cut = tc_module_new(cx);
        bool ok = tc_parse(cut, tc_source_add(cx, "cut", everything, n));
        ck_assert_int_eq(ok, cx->nerrors == 0);
        tc_diags_clear(cx);
        tc_module_free(cut);
    }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("parse");
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, sources_add_up_in_one_module);
    tcase_add_test(tc, an_empty_text_is_an_empty_module);
    tcase_add_test(tc, layout_of_the_text_does_not_matter);
    tcase_add_test(tc, ops_and_values_have_a_place);
    tcase_add_test(tc, names_are_kept_as_hints);
    tcase_add_test(tc, at_most_twenty_errors);
    tcase_add_test(tc, a_type_alone);
    tcase_add_test(tc, out_of_memory_unwinds);
    tcase_add_test(tc, every_prefix_is_survived);
    Suite *s = suite_create("parse");
    suite_add_tcase(s, tc);
    return run_suite(s);
}
