/* SPDX-License-Identifier: Apache-2.0
 *
 * Literals between text and value: strings with escapes, whole numbers, floats.
 * Independent of the process's locale, as a library must be.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* strtod_l */
#endif
#include "ir/base/escape.h"
#include "ir/eval/eval.h"
#include "ir/text/lex.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Strings ---- */

static unsigned hex_digit(char c)
{
    return (unsigned)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
}

const char *tc_string_unescape(tc_context *cx, tc_arena *a, const char *s,
                               size_t n)
{
    char *bytes = tc_arena_alloc(a, n + 1);
    size_t len = 0;
    for (size_t i = 0; i < n; i++) {
        char c = s[i];
        if (c == '\\' && i + 1 < n) {
            c = s[++i];
            if (c == 'x' && i + 2 < n) {
                c = (char)(hex_digit(s[i + 1]) * 16 + hex_digit(s[i + 2]));
                i += 2;
            } else {
                c = c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
            }
        }
        bytes[len++] = c;
    }
    return tc_string_getn(cx, bytes, len);
}

void tc_string_print(tc_text *out, const char *s)
{
    static const char escapes[][2] = {
        {'\n', 'n'}, {'\t', 't'}, {'\r', 'r'}, {'"', '"'}, {'\\', '\\'}};
    size_t n = strlen(s);
    tc_text_add(out, "\"");
    for (size_t i = 0, len; i < n; i += len) {
        len = tc_utf8_length(s + i, n - i);
        unsigned e = 0;
        while (e < 5 && escapes[e][0] != s[i])
            e++;
        if (e < 5)
            tc_text_printf(out, "\\%c", escapes[e][1]);
        else if (len && (unsigned char)s[i] >= ' ')
            tc_text_addn(out, s + i, len);
        else
            tc_text_printf(out, "\\x%02x", (unsigned char)s[i]);
        len += !len;
    }
    tc_text_add(out, "\"");
}

/* ---- Numbers ---- */

bool tc_int_parse(const char *s, size_t n, uint64_t *value)
{
    unsigned base = 10;
    if (n > 2 && s[0] == '0' && (s[1] | 0x20) == 'x') {
        base = 16;
        s += 2;
        n -= 2;
    }
    *value = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned digit = hex_digit(s[i]);
        if (*value > (UINT64_MAX - digit) / base)
            return false;
        *value = *value * base + digit;
    }
    return true;
}

static double parse_in_c_locale(const char *s)
{
    locale_t c = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    double value = c ? strtod_l(s, NULL, c) : strtod(s, NULL);
    if (c)
        freelocale(c);
    return value;
}

double tc_float_parse(tc_arena *a, const char *s, size_t n)
{
    char *copy = tc_arena_alloc(a, n + 1);
    memcpy(copy, s, n);
    return parse_in_c_locale(copy);
}

/* The decimal digits of |value|, `precision` of them, and the exponent of the
 * first. printf's decimal point is the locale's: only digits are read. */
static int digits_of(double value, int precision, char digits[32])
{
    char text[48];
    snprintf(text, sizeof text, "%.*e", precision - 1, fabs(value));
    const char *e = strchr(text, 'e');
    int n = 0;
    for (const char *p = text; p < e && n < precision; p++)
        if (*p >= '0' && *p <= '9')
            digits[n++] = *p;
    digits[n] = 0;
    return atoi(e + 1);
}

/* Infinity stays what it is, also where conversions saturate. */
static double rounded(double value, tc_kind kind)
{
    bool narrow = kind <= TC_F64 && tc_scalar_infos[kind].is_float;
    return narrow && isfinite(value) ? tc_round_to(kind, value) : value;
}

/* Digits d.ddd times ten to the exponent, plainly where that is short. */
static void print_digits(tc_text *out, const char *digits, int exponent)
{
    int n = (int)strlen(digits);
    if (exponent < -5 || exponent > 15) {
        tc_text_printf(out, "%c%s%se%d", digits[0], n > 1 ? "." : "",
                       digits + 1, exponent);
        return;
    }
    tc_text_add(out, exponent < 0 ? "0." : "");
    for (int i = exponent + 1; i < 0; i++)
        tc_text_add(out, "0");
    for (int i = 0; i < n || (exponent >= 0 && i < exponent + 2); i++) {
        if (i && i == exponent + 1)
            tc_text_add(out, ".");
        tc_text_addn(out, i < n ? digits + i : "0", 1);
    }
}

void tc_number_print(tc_text *out, double value, tc_kind kind)
{
    value = rounded(value, kind);
    if (isnan(value)) {
        tc_text_add(out, "nan");
        return;
    }
    if (signbit(value))
        tc_text_add(out, "-");
    if (isinf(value)) {
        tc_text_add(out, "inf");
        return;
    }
    /* A narrow one as the f32 that it is: 448.0 in f8e4m3, not 450.0. */
    if (kind < TC_F32)
        kind = TC_F32;
    char digits[32], text[48];
    int exponent = 0;
    value = fabs(value);
    for (int precision = 1; precision <= 17; precision++) {
        exponent = digits_of(value, precision, digits);
        snprintf(text, sizeof text, "%c%s%se%d", digits[0],
                 digits[1] ? "." : "", digits + 1, exponent);
        if (rounded(parse_in_c_locale(text), kind) == value)
            break;
    }
    print_digits(out, digits, exponent);
}
