/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/decode/decode.h"

#include "tools/common/row.h"
#include "tools/measure/compare.h"

#include <stdlib.h>

/* So many products that the CPU takes about a second. */
#define CHECKED_FLOPS 1e10

/* The sequences that are checked: the first ones. */
static int64_t checked_of(const decode_options *o)
{
    double each = 2.0 * (double)o->heads * (double)o->queries *
                  (double)o->length * (double)(o->dim + o->dv);
    double n = CHECKED_FLOPS / each;
    return n < 1 ? 1 : n < (double)o->batch ? (int64_t)n : o->batch;
}

static int check(const decode_batch *b, int64_t n, double *error)
{
    owned_tensor want = {0};
    int code = decode_reference(b, n, &want);
    DLTensor got = b->all[DECODE_O].dl;
    got.shape = want.shape;
    if (!code) {
        difference d = measure(&got, &want.dl, NULL);
        double most = tolerance_of(b->o->type);
        *error = d.relative;
        if (d.strange || !(d.relative <= most)) {
            report("the result is wrong: relative error %.2g, expected at most "
                   "%.2g",
                   d.relative, most);
            code = EXIT_INPUT;
        }
    }
    free(want.dl.data);
    return code;
}

static void print_table(const decode_options *o, const decode_times *t,
                        int64_t checked, double error)
{
    printf("%s\n%s, %s; %lld caches in turn\n", o->name, t->target, t->device,
           (long long)t->caches);
    printf("checked: %lld of %lld sequences against the CPU target, error "
           "%.1e\n",
           (long long)checked, (long long)o->batch, error);
    printf("  %9.1f us  %8.1f GB/s  attention (fastest: %.1f us)\n", t->us,
           decode_bytes(o) * 1e-3 / t->us, t->fastest_us);
    printf("  %9.1f us                 schedule, once a step\n",
           t->schedule_us);
}

static int print_json(const decode_options *o, const decode_times *t,
                      int64_t checked, double error)
{
    const struct {
        const char *name;
        double value;
    } numbers[] = {{"median_us", t->us},
                   {"fastest_us", t->fastest_us},
                   {"schedule_us", t->schedule_us},
                   {"bytes", decode_bytes(o)},
                   {"gbytes_per_second", decode_bytes(o) * 1e-3 / t->us},
                   {"caches", (double)t->caches},
                   {"checked_sequences", (double)checked},
                   {"error", error}};
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "workload", o->name);
    cJSON_AddStringToObject(row, "target", t->target);
    cJSON_AddStringToObject(row, "device", t->device);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        cJSON_AddNumberToObject(row, numbers[i].name, numbers[i].value);
    return row_print(row);
}

static int run(const tool_args *args, const decode_options *o, decode_batch *b)
{
    decode_times t = {0};
    double error = 0;
    int64_t checked = checked_of(o);
    int code = decode_batch_new(b, o, args);
    code = code ? code : decode_time(b, &t);
    code = code ? code : check(b, checked, &error);
    if (code)
        return code;
    if (tool_has(args, "--json"))
        return print_json(o, &t, checked, error);
    print_table(o, &t, checked, error);
    return EXIT_DONE;
}

int decode_bench(const tool_args *args)
{
    decode_options o;
    decode_batch *b = calloc(1, sizeof *b);
    int code = b ? decode_read_options(&o, args) : EXIT_MACHINE;
    if (!code)
        code = run(args, &o, b);
    if (b)
        decode_batch_free(b);
    free(b);
    return code;
}
