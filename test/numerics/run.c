/* SPDX-License-Identifier: Apache-2.0 */
#include "test/numerics/run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

DLDataType run_dtype(num_type t)
{
    uint8_t bits = (uint8_t)(8 * num_bytes(t));
    switch (t) {
    case NUM_I1: return (DLDataType){TILEC_DL_BOOL, 8, 1};
    case NUM_F8E4M3: return (DLDataType){TILEC_DL_F8E4M3, 8, 1};
    case NUM_F8E5M2: return (DLDataType){TILEC_DL_F8E5M2, 8, 1};
    case NUM_BF16: return (DLDataType){kDLBfloat, 16, 1};
    case NUM_F16:
    case NUM_F32:
    case NUM_F64: return (DLDataType){kDLFloat, bits, 1};
    default: return (DLDataType){kDLInt, bits, 1};
    }
}

const DLTensor *run_view_of(run_view *v, const num_tensor *t)
{
    for (int d = 0; d < t->rank; d++) {
        v->shape[d] = t->size[d];
        v->strides[d] = t->stride[d];
    }
    v->dl = (DLTensor){.data = t->data,
                       .ndim = t->rank,
                       .dtype = run_dtype(t->type),
                       .shape = v->shape,
                       .strides = v->strides};
    v->dl.device.device_type = kDLCPU;
    return &v->dl;
}

bool run_check(run_counts *c, bool ok, const char *fmt, ...)
{
    if (ok) {
        c->passed++;
        return true;
    }
    c->failed++;
    va_list args;
    va_start(args, fmt);
    printf("FAILED ");
    vprintf(fmt, args);
    printf("\n");
    fflush(stdout);
    va_end(args);
    return false;
}

int run_finish(const run_counts *c)
{
    printf("%d passed, %d failed\n", c->passed, c->failed);
    return c->failed || !c->passed;
}

void run_print_diagnostics(const tilec_context *cx)
{
    const tilec_diagnostic *d = tilec_diagnostics(cx);
    for (; d; d = d->next) {
        printf("%s:%u:%u: %s\n", d->file ? d->file : "-", d->line, d->column,
               d->message);
        if (d->source)
            printf("    %s\n", d->source);
    }
}

tilec_kernel *run_compile(tilec_context *cx, const char *text,
                          const tilec_compile_options *options)
{
    tilec_kernel *k = NULL;
    tilec_source source = {.name = "test", .text = text};
    if (tilec_compile(cx, &source, 1, options, &k) != TILEC_OK)
        run_print_diagnostics(cx);
    return k;
}

long run_option(int argc, char **argv, const char *name, long missing)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strncmp(argv[i], "--", 2) == 0 && strcmp(argv[i] + 2, name) == 0)
            return strtol(argv[i + 1], NULL, 0);
    return missing;
}

double run_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
