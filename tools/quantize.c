/* SPDX-License-Identifier: Apache-2.0
 *
 * tilec quantize: q, k and v of a file in 8 bits, with their factors.
 */
#include "tools/measure/quantizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TENSORS = 512 };
static const char *const names[] = {"q", "k", "v"};
static const char *const factors[] = {"descale_q", "descale_k", "descale_v"};

typedef struct job {
    const tool_args *args;
    quantizer z;
    tilec_safetensors *in;
    bool of_cache; /* k and v */
    quantized made[3];
    size_t n;
    tilec_named_tensor tensors[MOST_TENSORS];
    DLTensor kept[MOST_TENSORS];
} job;

static void quantize_put(job *j, const char *name, const DLTensor *t)
{
    j->tensors[j->n++] = (tilec_named_tensor){name, t};
}

static bool is_replaced(const job *j, const char *name)
{
    for (int i = j->of_cache; i < 3; i++)
        if (strcmp(name, names[i]) == 0 || strcmp(name, factors[i]) == 0)
            return true;
    return false;
}

/* Copy the other entries of the file. */
static int keep_others(job *j)
{
    const char *name;
    tilec_error e = TILEC_INIT(tilec_error);
    for (size_t i = 0; (name = tilec_safetensors_name(j->in, i)); i++) {
        if (is_replaced(j, name))
            continue;
        if (j->n + 6 >= MOST_TENSORS) {
            report("%s has more than %d tensors", j->args->words[0],
                   MOST_TENSORS - 6);
            return EXIT_INPUT;
        }
        if (tilec_safetensors_get(j->in, name, &j->kept[i], &e))
            return report_error(&e);
        quantize_put(j, name, &j->kept[i]);
    }
    return EXIT_DONE;
}

static int quantize_one(job *j, int i)
{
    DLTensor x;
    tilec_error e = TILEC_INIT(tilec_error);
    if (tilec_safetensors_get(j->in, names[i], &x, &e))
        return report_error(&e);
    int code = quantize(&j->z, *names[i], &x, false, &j->made[i]);
    quantize_put(j, names[i], &j->made[i].numbers.dl);
    quantize_put(j, factors[i], &j->made[i].scales.dl);
    return code;
}

static int run_job(job *j)
{
    tilec_error e = TILEC_INIT(tilec_error);
    const char *type = tool_value(j->args, "--type"),
               *path = tool_value(j->args, "-o");
    int code = quantizer_read(j->args, type ? type : "f8e4m3", &j->z);
    if (code)
        return code;
    j->of_cache = tool_has(j->args, "--cache");
    if (j->of_cache && j->z.rotates)
        return tool_usage(j->args->command,
                          "--rotate is for q and k alike, --cache leaves q as "
                          "it is");
    if (!path)
        return tool_usage(j->args->command, "-o is missing: where to write");
    if (!is_tensor_file(j->args->command, path))
        return EXIT_USAGE;
    if (tilec_safetensors_open(j->args->words[0], &j->in, &e))
        return report_error(&e);
    if ((code = keep_others(j)))
        return code;
    for (int i = j->of_cache; i < 3; i++)
        if ((code = quantize_one(j, i)))
            return code;
    return tilec_safetensors_write(path, j->tensors, j->n, NULL, 0, &e)
               ? report_error(&e)
               : EXIT_DONE;
}

static int quantize_run(const tool_args *args)
{
    if (args->nwords != 1)
        return tool_usage(args->command, "expected one file, found %d words",
                          args->nwords);
    job *j = calloc(1, sizeof *j);
    if (!j || tilec_context_new(NULL, &j->z.cx)) {
        free(j);
        report("out of memory");
        return EXIT_MACHINE;
    }
    j->args = args;
    int code = run_job(j);
    for (int i = 0; i < 3; i++)
        quantized_free(&j->made[i]);
    tilec_safetensors_free(j->in);
    tilec_context_free(j->z.cx);
    free(j);
    return code;
}

static const tool_option options[] = {
    {"-o", "FILE", "where to write, as safetensors"},
    {"--type", "TYPE", "f8e4m3 (default) or f8e5m2"},
    {"--rows", "N", QUANTIZE_ROWS_HELP},
    {"--rotate", NULL, QUANTIZE_ROTATE_HELP},
    {"--cache", NULL, "k and v only; q stays as it is"},
    {"--target", "TARGET", TARGET_HELP},
    {0}};

const tool_command tool_quantize = {
    "quantize",
    "FILE.safetensors -o FILE [options]",
    "Rounds q, k and v of a file to 8 bits, for `tilec attention`.",
    "Numbers are divided by factors, so that the largest of those that share "
    "one is\nthe largest of the type; factors are written as descale_q, "
    "descale_k, descale_v.\nThe other tensors of the file are copied.\n",
    options,
    quantize_run};
