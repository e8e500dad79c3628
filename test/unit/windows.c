/* SPDX-License-Identifier: Apache-2.0
 *
 * Which masks count as windows, and as causal (lib/mods/mod_window.h).
 */
#include "lib/mods/mod_window.h"

#include "ir/base/diag.h"
#include "lib/handles.h"
#include "test/unit/run.h"

#include <check.h>
#include <string.h>

static const char more[] =
    "func @upper(%q: i32, %k: i32, %w: i32) -> i1 {\n"
    "  return %k - %q <= %w\n"
    "}\n"
    "func @exchanged(%b: i32, %h: i32, %q: i32, %k: i32) -> i1 {\n"
    "  return @upper(%k, %q, 9) and @upper(%q, %k, 9)\n"
    "}\n"
    "func @one_side(%b: i32, %h: i32, %q: i32, %k: i32) -> i1 {\n"
    "  return @upper(%q, %k, 9) and %k + 5 < %q\n"
    "}\n"
    "func @without_query(%b: i32, %h: i32, %q: i32, %k: i32) -> i1 {\n"
    "  return %k < 100 and %k > 10\n"
    "}\n"
    "func @far(%b: i32, %h: i32, %q: i32, %k: i32) -> i1 {\n"
    "  return abs(%q - %k) > 9\n"
    "}\n";

static const struct window_case {
    const char *mask, *class;
} masks[] = {
    {"causal", "causal"},
    {"causal_bottom_right", "causal"},
    {"sliding_window", "window"},
    {"local_window", "window"},
    {"dilated_sliding_window", "window"},
    {"sink_window", "causal"},
    {"prefix_lm", "masked"},
    {"document_causal", "causal"},
    {"natten", "masked"},
    {"exchanged", "window"},
    {"one_side", "causal"},
    {"without_query", "masked"},
    {"far", "masked"},
    {"missing", "masked"},
};

START_TEST(windows_go_along_with_the_query)
{
    tc_context *cx = tc_context_new();
    tc_module *m = tc_module_new(cx);
    const tc_embedded *shipped = tc_embedded_find("mods/masks");
    ck_assert(tc_parse(
        m, tc_source_add(cx, "masks.tile", shipped->text, shipped->len)));
    ck_assert(tc_parse(m, tc_source_add(cx, "more.tile", more, strlen(more))));
    for (size_t i = 0; i < sizeof masks / sizeof masks[0]; i++)
        ck_assert_str_eq(tc_mask_class(m, masks[i].mask), masks[i].class);
    tc_module_free(m);
    tc_context_free(cx);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("windows");
    TCase *t = tcase_create("windows");
    tcase_add_test(t, windows_go_along_with_the_query);
    suite_add_tcase(s, t);
    return run_suite(s);
}
