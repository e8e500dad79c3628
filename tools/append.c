/* SPDX-License-Identifier: Apache-2.0
 *
 * tilec append: new keys and values of a file into its cache.
 */
#include "tools/common/commands.h"
#include "tools/measure/device.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A tensor of the file, and where it goes; q is its own result. */
#define FIELD(name) offsetof(tilec_append_tensors, name)
static const struct {
    const char *name;
    size_t field;
    int written_rank; /* written where it has that rank; 0: not written */
} places[] = {
    {"k", FIELD(k), 0},
    {"v", FIELD(v), 0},
    {"cu_seqlens", FIELD(cu_seqlens), 0},
    {"k_cache", FIELD(k_cache), 4},
    {"v_cache", FIELD(v_cache), 4},
    {"kv_lens", FIELD(kv_lens), 0},
    {"page_table", FIELD(page_table), 0},
    {"kv_indptr", FIELD(kv_indptr), 0},
    {"kv_indices", FIELD(kv_indices), 0},
    {"q", FIELD(q), 4},
    {"cos", FIELD(cos), 0},
    {"sin", FIELD(sin), 0},
    {"positions", FIELD(positions), 0},
    {"k_scales", FIELD(k_scales), 3},
    {"v_scales", FIELD(v_scales), 3},
};
enum { PLACES = sizeof places / sizeof *places };

typedef struct job {
    const tool_args *args;
    tilec_context *cx;
    tilec_safetensors *in;
    tilec_append *plan;
    DLTensor views[PLACES];
    owned_tensor own[PLACES]; /* data NULL: not written */
    device_tensors device;
    double seconds;
} job;

static void set_field(tilec_append_tensors *t, size_t field, const DLTensor *x)
{
    memcpy((char *)t + field, &x, sizeof x);
}

static const DLTensor *get_field(const tilec_append_tensors *t, size_t field)
{
    const DLTensor *x;
    memcpy(&x, (const char *)t + field, sizeof x);
    return x;
}

static bool is_in_file(const job *j, const char *name)
{
    const char *have;
    for (size_t i = 0; (have = tilec_safetensors_name(j->in, i)); i++)
        if (strcmp(have, name) == 0)
            return true;
    return false;
}

/* A copy of what the kernel writes: files are mapped read-only. */
static bool copy_written(job *j, int i)
{
    const DLTensor *from = &j->views[i];
    if (!tensor_new(&j->own[i], from->dtype, from->ndim, from->shape))
        return false;
    memcpy(j->own[i].dl.data, (const char *)from->data + from->byte_offset,
           tensor_bytes(from));
    return true;
}

static int get_tensors(job *j, tilec_append_tensors *t)
{
    tilec_error e = TILEC_INIT(tilec_error);
    if (tilec_safetensors_open(j->args->words[0], &j->in, &e))
        return report_error(&e);
    for (int i = 0; i < PLACES; i++) {
        if (!is_in_file(j, places[i].name))
            continue;
        if (tilec_safetensors_get(j->in, places[i].name, &j->views[i], &e))
            return report_error(&e);
        const DLTensor *x = &j->views[i];
        if (x->ndim == places[i].written_rank) {
            if (!copy_written(j, i)) {
                report("no memory for %s", places[i].name);
                return EXIT_MACHINE;
            }
            x = &j->own[i].dl;
        }
        set_field(t, places[i].field, x);
    }
    t->q_out = t->q;
    return EXIT_DONE;
}

static int make_plan(job *j, const tilec_append_tensors *t)
{
    tilec_append_options o = TILEC_INIT(tilec_append_options);
    const char *offset = tool_value(j->args, "--rotary-offset");
    char *end = NULL;
    o.target = tool_value(j->args, "--target");
    o.interleaved = tool_has(j->args, "--interleaved");
    o.rotary_offset = offset ? strtoll(offset, &end, 10) : 0;
    if (offset && (!*offset || *end || o.rotary_offset < 0))
        return tool_usage(j->args->command,
                          "--rotary-offset is `%s`, expected a column", offset);
    tilec_status s = tilec_append_plan(j->cx, t, &o, &j->plan);
    return s ? report_compile(j->cx, s) : EXIT_DONE;
}

static int put_tensors(job *j, tilec_append_tensors *t)
{
    int code = device_open(&j->device, j->cx, tilec_append_kernel(j->plan));
    for (int i = 0; !code && i < PLACES; i++) {
        const DLTensor *x = get_field(t, places[i].field);
        if (!x)
            continue;
        code = device_put(&j->device, &x, j->own[i].dl.data != NULL);
        set_field(t, places[i].field, x);
    }
    t->q_out = t->q;
    return code;
}

static int launch(job *j, const tilec_append_tensors *t)
{
    tilec_error e = TILEC_INIT(tilec_error);
    double start = seconds_now();
    int code = tilec_append_run(j->plan, t, NULL, &e)
                   ? report_error(&e)
                   : device_wait(tilec_append_kernel(j->plan));
    j->seconds = seconds_now() - start;
    return code ? code : device_get(&j->device);
}

static int write_output(const job *j)
{
    tilec_named_tensor t[PLACES];
    size_t n = 0;
    tilec_error e = TILEC_INIT(tilec_error);
    for (int i = 0; i < PLACES; i++)
        if (j->own[i].dl.data)
            t[n++] = (tilec_named_tensor){places[i].name, &j->own[i].dl};
    return tilec_safetensors_write(tool_value(j->args, "-o"), t, n, NULL, 0, &e)
               ? report_error(&e)
               : EXIT_DONE;
}

static int run_job(job *j)
{
    const char *path = tool_value(j->args, "-o");
    tilec_append_tensors t = TILEC_INIT(tilec_append_tensors);
    int code;
    if (!path)
        return tool_usage(j->args->command, "-o is missing: where to write");
    if (!is_tensor_file(j->args->command, path))
        return EXIT_USAGE;
    if ((code = get_tensors(j, &t)) || (code = make_plan(j, &t)) ||
        (code = put_tensors(j, &t)) || (code = launch(j, &t)))
        return code;
    printf("%s: appended on %s in %.2f ms\n", printable(j->args->words[0]).text,
           tilec_kernel_target(tilec_append_kernel(j->plan)), 1e3 * j->seconds);
    return write_output(j);
}

static int append_run(const tool_args *args)
{
    if (args->nwords != 1)
        return tool_usage(args->command, "expected one file, found %d words",
                          args->nwords);
    job *j = calloc(1, sizeof *j);
    if (!j || tilec_context_new(NULL, &j->cx)) {
        free(j);
        report("out of memory");
        return EXIT_MACHINE;
    }
    j->args = args;
    int code = run_job(j);
    for (int i = 0; i < PLACES; i++)
        free(j->own[i].dl.data);
    device_close(&j->device);
    tilec_append_free(j->plan);
    tilec_safetensors_free(j->in);
    tilec_context_free(j->cx);
    free(j);
    return code;
}

static const tool_option options[] = {
    {"-o", "FILE", "where to write, as safetensors"},
    {"--interleaved", NULL,
     "rotary pairs are columns 2 j and 2 j + 1 (GPT-J), not\n"
     "j and j + R / 2 (NeoX)"},
    {"--rotary-offset", "N", "the first column that is rotated (default: 0)"},
    {"--target", "TARGET", TARGET_HELP},
    {0}};

const tool_command tool_append = {
    "append",
    "FILE.safetensors -o FILE [options]",
    "Writes new keys and values into a cache, rotated and rounded.",
    "The file has k, v [B, HK, M, D], or [1, HK, T, D] and cu_seqlens [B + 1]; "
    "kv_lens\n[B], the lengths before; k_cache, v_cache [B, HK, N, D], or "
    "[pages, HK, page, D]\nand page_table [B, pages], or kv_indptr and "
    "kv_indices. Optionally cos, sin\n[positions, R / 2] and q for rotary "
    "embedding, positions; k_scales, v_scales: [1]\nor [HK] to divide by, or "
    "of each row of the cache, which are written. Ints are\nint32. Writes "
    "k_cache, v_cache, q and what it makes of k_scales, v_scales.\n",
    options,
    append_run};
