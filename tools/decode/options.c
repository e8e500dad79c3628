/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/decode/decode.h"

#include "lib/handles.h"
#include "tools/common/row.h"

#include <errno.h>
#include <stdlib.h>

static int read_number(const tool_args *args, const char *option, int64_t least,
                       int64_t most, int64_t *out)
{
    const char *text = tool_value(args, option);
    char *end;
    if (!text)
        return EXIT_DONE;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    if (end == text || *end || errno || n < least || n > most)
        return tool_usage(args->command, "%s is `%s`, expected %lld to %lld",
                          option, text, (long long)least, (long long)most);
    *out = n;
    return EXIT_DONE;
}

static int read_type(const tool_args *args, const char *option, DLDataType *out)
{
    const char *text = tool_value(args, option);
    if (!text || dtype_read(text, out))
        return EXIT_DONE;
    return tool_usage(args->command,
                      "%s is `%s`, expected a data type, as bf16", option,
                      text);
}

static int refuse_others(const tool_args *args)
{
    static const char *const others[] = {
        "--shape",     "--kv-length", "--lists",  "--flops",
        "--sweep",     "--warps",     "--stages", "--tiles",
        "--precision", "--no-cache",  "-D",       "--timeout"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (tool_has(args, others[i]))
            return tool_usage(args->command, "%s: `%s decode` has none",
                              others[i], args->command->name);
    return EXIT_DONE;
}

static int read_sizes(decode_options *o, const tool_args *args)
{
    enum { MOST = 1 << 24, MOST_DIM = 1024, MOST_PAGE = 65536 };
    const struct {
        const char *option;
        int64_t least, most, *to;
    } sizes[] = {{"--batch", 1, MOST, &o->batch},
                 {"--heads", 1, MOST, &o->heads},
                 {"--queries", 1, MOST, &o->queries},
                 {"--length", 1, MOST, &o->length},
                 {"--head-dim", 1, MOST_DIM, &o->dim},
                 {"--page-size", 1, MOST_PAGE, &o->page},
                 {"--piece", 0, INT32_MAX, &o->piece},
                 {"--runs", 1, 1000, &o->runs}};
    int code = EXIT_DONE;
    for (size_t i = 0; !code && i < sizeof sizes / sizeof *sizes; i++)
        code = read_number(args, sizes[i].option, sizes[i].least, sizes[i].most,
                           sizes[i].to);
    o->kv_heads = o->heads;
    o->dv = o->dim;
    code = code ? code
                : read_number(args, "--kv-heads", 1, o->heads, &o->kv_heads);
    return code ? code : read_number(args, "--dv", 1, MOST_DIM, &o->dv);
}

static void name_it(decode_options *o)
{
    char pages[48] = "";
    if (o->page)
        snprintf(pages, sizeof pages, " in pages of %lld", (long long)o->page);
    snprintf(o->name, sizeof o->name,
             "decode %lldx%sx%lld on %lld, D=%s, %s over %s%s, mask %.60s, "
             "score %.60s",
             (long long)o->batch, sizes_name(o->heads, o->kv_heads).text,
             (long long)o->queries, (long long)o->length,
             sizes_name(o->dim, o->dv).text, tc_dtype_name(o->type).text,
             tc_dtype_name(o->cache_type).text, pages,
             o->mask ? o->mask : "none", o->score ? o->score : "none");
}

int decode_read_options(decode_options *o, const tool_args *args)
{
    *o = (decode_options){.batch = 16,
                          .heads = 32,
                          .queries = 1,
                          .length = 8192,
                          .dim = 128,
                          .runs = 30,
                          .type = {kDLBfloat, 16, 1},
                          .mask = tool_value(args, "--mask"),
                          .score = tool_value(args, "--score"),
                          .target = tool_value(args, "--target")};
    int code = refuse_others(args);
    code = code ? code : read_sizes(o, args);
    code = code ? code : read_type(args, "--dtype", &o->type);
    o->cache_type = o->type;
    code = code ? code : read_type(args, "--type", &o->cache_type);
    if (!code && o->heads % o->kv_heads)
        return tool_usage(args->command,
                          "%lld --heads are not a multiple of %lld --kv-heads",
                          (long long)o->heads, (long long)o->kv_heads);
    name_it(o);
    return code;
}
