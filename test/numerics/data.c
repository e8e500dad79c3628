/* SPDX-License-Identifier: Apache-2.0
 *
 * Real activations (test/data): o and logsumexp, full and causal, against the
 * float64 results in the files, and those against the reference here.
 *
 *   data FOLDER
 */
#include "test/numerics/reference.h"
#include "test/numerics/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct file {
    const char *name;
    double tolerance; /* relative, of o */
    double row;       /* the same of a row: four times the type's */
} file;

static const file files[] = {
    {"encoder_l0_s128_d64_f32.safetensors", 1e-6, 8e-6},
    {"encoder_l1_s1000_d128_bf16.safetensors", 3e-3, 12e-3},
};

static const struct {
    const char *mask, *o, *lse;
} variants[] = {
    {NULL, "o_full", "lse_full"},
    {"causal", "o_causal", "lse_causal"},
};

static bool causal(const ref_position *at)
{
    return at->q >= at->k;
}

static num_type type_of(const DLTensor *t)
{
    for (int i = 0; i < NUM_TYPE_COUNT; i++) {
        DLDataType d = run_dtype((num_type)i);
        if (d.code == t->dtype.code && d.bits == t->dtype.bits)
            return (num_type)i;
    }
    return NUM_TYPE_COUNT;
}

/* A view that owns nothing: the data stays with the file. */
static num_tensor view(const DLTensor *t)
{
    num_tensor v = {.type = type_of(t), .rank = t->ndim};
    v.data = (unsigned char *)t->data + t->byte_offset;
    int64_t stride = 1;
    for (int d = t->ndim - 1; d >= 0; d--) {
        v.size[d] = (int32_t)t->shape[d];
        v.stride[d] = stride;
        stride *= t->shape[d];
    }
    return v;
}

static num_tensor get(const tilec_safetensors *f, const char *name)
{
    DLTensor t;
    tilec_error error = {0};
    if (tilec_safetensors_get(f, name, &t, &error) == TILEC_OK)
        return view(&t);
    printf("FAILED %s: %s\n", name, error.message);
    exit(1);
}

/* The stored results must be those of the reference: one more witness that
 * both are right. */
static void check_reference(const tilec_safetensors *f, const file *info,
                            int variant, run_counts *counts)
{
    num_tensor q = get(f, "q"), k = get(f, "k"), v = get(f, "v");
    num_tensor o = get(f, variants[variant].o);
    num_tensor lse = get(f, variants[variant].lse);
    const char *scale = tilec_safetensors_metadata(f, "scale");
    ref_attention a = {.q = &q,
                       .k = &k,
                       .v = &v,
                       .scale = scale ? atof(scale) : 1 / sqrt(q.size[3]),
                       .mask = variants[variant].mask ? causal : NULL};
    double *want_o = num_tensor_read(&o), *want_lse = num_tensor_read(&lse);
    double *my_o = num_tensor_read(&o), *my_lse = num_tensor_read(&lse);
    ref_attention_forward(&a, my_o, my_lse);
    num_error e = num_compare(my_o, want_o, num_count(&o), o.size[3]);
    num_error l = num_compare(my_lse, want_lse, num_count(&lse), 1);
    run_check(counts, e.overall < 1e-7 && l.absolute < 2e-6,
              "%s %s: the reference differs by %.2e, lse %.2e", info->name,
              variants[variant].o, e.overall, l.absolute);
    free(want_o);
    free(want_lse);
    free(my_o);
    free(my_lse);
}

static void compare(const tilec_safetensors *f, const file *info, int variant,
                    const num_tensor *o, const num_tensor *lse,
                    run_counts *counts)
{
    num_tensor stored_o = get(f, variants[variant].o);
    num_tensor stored_lse = get(f, variants[variant].lse);
    double *got = num_tensor_read(o), *want = num_tensor_read(&stored_o);
    num_error e = num_compare(got, want, num_count(o), o->size[3]);
    free(got);
    free(want);
    got = num_tensor_read(lse);
    want = num_tensor_read(&stored_lse);
    num_error l = num_compare(got, want, num_count(lse), 1);
    free(got);
    free(want);
    printf("%s %s: error %.2e, worst row %.2e, lse %.2e\n", info->name,
           variants[variant].o, e.overall, e.worst_row, l.absolute);
    run_check(counts, e.overall <= info->tolerance, "%s %s: error %.2e",
              info->name, variants[variant].o, e.overall);
    run_check(counts, e.worst_row <= info->row, "%s %s: row %.2e", info->name,
              variants[variant].o, e.worst_row);
    run_check(counts, l.absolute <= 2e-5, "%s %s: lse %.2e", info->name,
              variants[variant].o, l.absolute);
}

static void run_variant(tilec_context *cx, const tilec_safetensors *f,
                        const file *info, int variant, run_counts *counts)
{
    num_tensor q = get(f, "q"), k = get(f, "k"), v = get(f, "v");
    const char *scale = tilec_safetensors_metadata(f, "scale");
    tilec_attention_options options = TILEC_INIT(tilec_attention_options);
    options.mask = variants[variant].mask;
    options.scale = scale ? atof(scale) : 0;
    num_tensor o = num_tensor_new(q.type, 4, q.size, NULL);
    num_tensor lse = num_tensor_new(NUM_F32, 3, q.size, NULL);
    run_view views[5];
    tilec_attention_tensors t = TILEC_INIT(tilec_attention_tensors);
    t.q = run_view_of(&views[0], &q);
    t.k = run_view_of(&views[1], &k);
    t.v = run_view_of(&views[2], &v);
    t.o = run_view_of(&views[3], &o);
    t.lse = run_view_of(&views[4], &lse);
    tilec_attention *plan = NULL;
    tilec_error error = {0};
    if (tilec_attention_plan(cx, t.q, t.k, t.v, &options, &plan) != TILEC_OK)
        run_print_diagnostics(cx);
    if (run_check(counts, plan, "%s: does not compile", info->name)) {
        bool ok = run_forward(plan, &t, NULL, &error) == TILEC_OK;
        if (run_check(counts, ok, "%s: %s", info->name, error.message))
            compare(f, info, variant, &o, &lse, counts);
    }
    tilec_attention_free(plan);
    num_tensor_free(&o);
    num_tensor_free(&lse);
}

static void run_file(tilec_context *cx, const char *folder, const file *info,
                     run_counts *counts)
{
    char path[1024];
    tilec_safetensors *f = NULL;
    tilec_error error = {0};
    snprintf(path, sizeof path, "%s/%s", folder, info->name);
    bool ok = tilec_safetensors_open(path, &f, &error) == TILEC_OK;
    run_check(counts, ok, "%s: %s", path, error.message);
    for (int variant = 0; ok && variant < 2; variant++) {
        check_reference(f, info, variant, counts);
        run_variant(cx, f, info, variant, counts);
    }
    tilec_safetensors_free(f);
}

int main(int argc, char **argv)
{
    tilec_context *cx = run_context();
    run_counts counts = {0};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        run_file(cx, argc > 1 ? argv[1] : "test/data", &files[i], &counts);
    run_context_free(cx);
    return run_finish(&counts);
}
