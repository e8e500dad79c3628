/* SPDX-License-Identifier: Apache-2.0
 *
 * FlexAttention's kernel_options, by their names there.
 *
 *     {"BLOCK_M", "128"}, {"bwd_num_warps", "8"}
 *
 * binds BM=128 in the forward kernel, and gives those of backward 8 warps.
 */
#include "lib/attention/attention.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum option_kind {
    OPTION_BLOCK,  /* a compile-time parameter */
    OPTION_LIST,   /* the side of a list's blocks */
    OPTION_WARPS,  /* of a block */
    OPTION_STAGES, /* of pipelined loops */
    OPTION_WORD,   /* a precision */
    OPTION_FLAG,   /* true or false: 1 or nothing of a parameter */
    OPTION_COPY,   /* true or false: whether v is copied first */
    OPTION_SPLIT,  /* true or false: whether keys are split */
    OPTION_PROMISE /* true or false, without consequence */
} option_kind;

static const struct option {
    const char *name;
    option_kind kind;
    const char *parameter[2]; /* by direction; NULL: none */
    const char *why;          /* a promise does nothing */
} known[] = {
    {"BLOCK_M", OPTION_BLOCK, {"BM", NULL}, NULL},
    {"BLOCK_N", OPTION_BLOCK, {"BN", NULL}, NULL},
    {"BLOCK_M1", OPTION_BLOCK, {NULL, "BM"}, NULL},
    {"BLOCK_N1", OPTION_BLOCK, {NULL, "BN"}, NULL},
    {"BLOCK_M2", OPTION_BLOCK, {NULL, "BMQ"}, NULL},
    {"BLOCK_N2", OPTION_BLOCK, {NULL, "BNQ"}, NULL},
    {"SPARSE_Q_BLOCK_SIZE", OPTION_LIST, {"q", "q"}, NULL},
    {"SPARSE_KV_BLOCK_SIZE", OPTION_LIST, {"k", "k"}, NULL},
    {"num_warps", OPTION_WARPS, {"", ""}, NULL},
    {"num_stages", OPTION_STAGES, {"", ""}, NULL},
    {"FLOAT32_PRECISION", OPTION_WORD, {"", ""}, NULL},
    {"PRESCALE_QK",
     OPTION_PROMISE,
     {"", ""},
     "the scale is part of the exponent's one multiply-add, and q keeps its "
     "digits"},
    {"ROWS_GUARANTEED_SAFE",
     OPTION_PROMISE,
     {"", ""},
     "a row without keys costs no time"},
    {"EXACT_SUMS", OPTION_FLAG, {"EXACT", NULL}, NULL},
    {"COPY_VALUES", OPTION_COPY, {"", NULL}, NULL},
    {"SPLIT_KEYS", OPTION_SPLIT, {"", NULL}, NULL},
};
enum { NKNOWN = sizeof known / sizeof *known };

static bool unknown(tc_job *job, const char *name)
{
    const char *names[NKNOWN];
    tc_text list = {.arena = &job->cx->diag_arena};
    for (int i = 0; i < NKNOWN; i++) {
        names[i] = known[i].name;
        tc_text_printf(&list, "%s%s", i ? ", " : "", known[i].name);
    }
    const char *near = tc_nearest_name(name, names, NKNOWN);
    return tc_job_error(job, TILEC_USAGE,
                        "there is no kernel option `%s`%s%s%s; there are %s, "
                        "each also as fwd_.. and bwd_..",
                        name, near ? ", did you mean `" : "", near ? near : "",
                        near ? "`?" : "", list.data);
}

static bool wrong(tc_job *job, const tilec_binding *given, const char *expected)
{
    return tc_job_error(job, TILEC_USAGE,
                        "kernel option %s is `%s`, expected %s", given->name,
                        given->value, expected);
}

static bool read_count(tc_job *job, const tilec_binding *given, long most,
                       unsigned *out)
{
    char *end, expected[48];
    long n = strtol(given->value, &end, 10);
    *out = (unsigned)n;
    if (end != given->value && !*end && n > 0 && n <= most)
        return true;
    snprintf(expected, sizeof expected, "a whole number, 1 to %ld", most);
    return wrong(job, given, expected);
}

/* Of a tile. */
static bool read_block(tc_job *job, const tilec_binding *given)
{
    char *end;
    long n = strtol(given->value, &end, 10);
    return (end != given->value && !*end && n > 0 && n <= 1024 && n % 8 == 0) ||
           wrong(job, given, "a multiple of 8, 8 to 1024");
}

/* Of a list's blocks, which are looked into 128 at a time. */
static bool read_side(tc_job *job, const tilec_binding *given)
{
    unsigned n;
    if (!read_count(job, given, 1 << 20, &n))
        return false;
    return n % (n < 128 ? 8 : 128) == 0 ||
           wrong(job, given, "a multiple of 8 below 128, or of 128");
}

static bool read_truth(tc_job *job, const tilec_binding *given, bool *out)
{
    static const char *const words[] = {"true",  "false", "True",
                                        "False", "1",     "0"};
    unsigned i = 0;
    while (i < 6 && strcmp(words[i], given->value) != 0)
        i++;
    if (i == 6)
        return wrong(job, given, "true or false");
    *out = i % 2 == 0;
    return true;
}

static bool read_promise(tc_job *job, const struct option *k,
                         const tilec_binding *given)
{
    bool is_true = false;
    if (!read_truth(job, given, &is_true))
        return false;
    if (is_true)
        tc_remark(job->cx, (tc_loc){0}, "attention", "%s changes nothing: %s",
                  k->name, k->why);
    return true;
}

/* Also with the quotes that FlexAttention wants. */
static bool is_word(const char *text, const char *word)
{
    size_t n = strlen(word), len = strlen(text);
    bool quoted = len == n + 2 && (*text == '"' || *text == '\'') &&
                  text[len - 1] == *text;
    return strcmp(text, word) == 0 ||
           (quoted && strncmp(text + 1, word, n) == 0);
}

static bool read_precision(tc_job *job, const tilec_binding *given,
                           const char **out)
{
    static const char *const words[] = {"ieee", "tf32", "tf32x3"};
    for (int i = 0; i < 3; i++)
        if (is_word(given->value, words[i])) {
            *out = words[i];
            return true;
        }
    return wrong(job, given, "ieee, tf32 or tf32x3");
}

static void bind_parameter(tc_attention_tuning *out, const char *name,
                           const char *value)
{
    if (out->nbindings < TC_ATTENTION_BINDINGS)
        out->bindings[out->nbindings++] = (tilec_binding){name, value};
}

static bool read_option(tc_job *job, const struct option *k,
                        const tilec_binding *given, bool is_meant,
                        tc_direction d, tc_attention_tuning *out)
{
    unsigned n;
    bool is_true = false;
    const char *word = NULL;
    switch (k->kind) {
    case OPTION_PROMISE: return !is_meant || read_promise(job, k, given);
    case OPTION_WORD:
        if (!read_precision(job, given, &word))
            return false;
        out->precision = is_meant ? word : out->precision;
        return true;
    case OPTION_FLAG:
        if (!read_truth(job, given, &is_true))
            return false;
        if (is_meant && is_true)
            bind_parameter(out, k->parameter[d], "1");
        return true;
    case OPTION_COPY:
        if (!read_truth(job, given, &is_true))
            return false;
        if (is_meant)
            out->copy_values = is_true ? 1 : -1;
        return true;
    case OPTION_SPLIT:
        if (!read_truth(job, given, &is_true))
            return false;
        if (is_meant)
            out->split_keys = is_true ? 1 : -1;
        return true;
    case OPTION_WARPS:
        if (!read_count(job, given, 32, &n))
            return false;
        out->warps = is_meant ? n : out->warps;
        return true;
    case OPTION_STAGES:
        if (!read_count(job, given, 16, &n))
            return false;
        out->stages = is_meant ? n : out->stages;
        return true;
    case OPTION_LIST:
        if (!read_side(job, given))
            return false;
        if (is_meant)
            out->list_sides[*k->parameter[d] == 'k'] = given->value;
        return true;
    case OPTION_BLOCK:
        if (!read_block(job, given))
            return false;
        if (is_meant)
            bind_parameter(out, k->parameter[d], given->value);
        return true;
    }
    return true;
}

static bool read_given(tc_job *job, const tilec_binding *given, tc_direction d,
                       tc_attention_tuning *out)
{
    static const char *const prefixes[] = {"fwd_", "bwd_"};
    const char *name = given->name;
    bool is_meant = true;
    for (int i = 0; i < 2; i++)
        if (strncmp(given->name, prefixes[i], 4) == 0) {
            name = given->name + 4;
            is_meant = i == (int)d;
        }
    for (int i = 0; i < NKNOWN; i++)
        if (strcmp(known[i].name, name) == 0)
            return read_option(job, &known[i], given,
                               is_meant && known[i].parameter[d], d, out);
    return unknown(job, given->name);
}

bool tc_attention_read_options(tc_job *job, const tilec_attention_options *o,
                               tc_direction direction, tc_attention_tuning *out)
{
    bool ok = true;
    *out = (tc_attention_tuning){0};
    for (size_t i = 0; i < o->nkernel_options; i++)
        ok &= read_given(job, &o->kernel_options[i], direction, out);
    return ok;
}
