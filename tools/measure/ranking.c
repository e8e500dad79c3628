/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/measure/ranking.h"

#include "tools/common/commands.h"
#include "tools/common/progress.h"
#include "tools/common/row.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ranking_try(const workload *w, const space *s, const trial_options *o,
                 ranked *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        progress_show("%zu of %zu: %s", i + 1, n,
                      variant_name(s, &list[i].variant).text);
        trial_run_apart(w, &list[i].variant, o, &list[i].trial);
    }
    progress_end();
}

static int by_time(const void *a, const void *b)
{
    const trial *x = &((const ranked *)a)->trial;
    const trial *y = &((const ranked *)b)->trial;
    if (x->state != y->state)
        return x->state < y->state ? -1 : 1;
    return (x->us > y->us) - (x->us < y->us);
}

void ranking_sort(ranked *list, size_t n)
{
    qsort(list, n, sizeof *list, by_time);
}

/* ---- The table ---- */

static const ranked *first_done(const ranked *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (list[i].trial.state == TRIAL_DONE)
            return &list[i];
    return NULL;
}

static void print_head(const workload *w, const trial *t)
{
    char machine[160];
    machine_name(machine, sizeof machine);
    printf("%s\n", w->name);
    if (*t->target) /* else none compiled */
        printf("  on %s (%s)\n", t->target,
               *t->device  ? t->device
               : t->is_gpu ? "not run"
                           : machine);
    if (w->flops > 0)
        printf("  %.4g GFLOP (%s), ", w->flops * 1e-9, w->flops_from);
    else
        printf("  FLOP: %s; ", w->flops_from);
    printf("%.4g MB of tensors\n", w->bytes * 1e-6);
    printf("  checked: %s\n", w->is_checked ? w->checked : "nothing");
}

static void print_rate(double amount, double us)
{
    if (amount > 0 && us > 0)
        printf("  %9.4g", amount / us);
    else
        printf("  %9s", "-");
}

static void print_row(const workload *w, const char *name, int width,
                      const trial *t)
{
    if (t->us > 0)
        printf("  %-*s  %11.2f", width, name, t->us);
    else
        printf("  %-*s  %11s", width, name, "-");
    print_rate(w->flops * 1e-6, t->us);
    print_rate(w->bytes * 1e-3, t->us);
    if (t->is_gpu)
        printf("  %5u  %4u  %7u  %6u", t->warps, t->registers, t->shared_bytes,
               t->spilled_bytes);
    if (w->is_checked && t->us > 0)
        printf("  %8.2g", t->error);
    putchar('\n');
}

static const char *state_name(trial_state s)
{
    static const char *const names[] = {[TRIAL_DONE] = "done",
                                        [TRIAL_REFUSED] = "does not compile",
                                        [TRIAL_PRUNED] = "left out",
                                        [TRIAL_WRONG] = "WRONG",
                                        [TRIAL_FAILED] = "FAILED"};
    return names[s];
}

static int widest(const space *s, const ranked *list, size_t n)
{
    int width = 7;
    for (size_t i = 0; i < n; i++) {
        int len = (int)strlen(variant_name(s, &list[i].variant).text);
        width = len > width ? len : width;
    }
    return width;
}

void ranking_print(const workload *w, const space *s, const ranked *list,
                   size_t n)
{
    const ranked *first = first_done(list, n);
    int width = widest(s, list, n);
    print_head(w, first ? &first->trial : &list[0].trial);
    if (first) {
        printf("  %-*s  %11s  %9s  %9s", width, "variant", "us", "TFLOP/s",
               "GB/s");
        if (first->trial.is_gpu)
            printf("  %5s  %4s  %7s  %6s", "warps", "regs", "shared", "spills");
        printf("%s\n",
               w->is_checked && first->trial.us > 0 ? "     error" : "");
    }
    for (size_t i = 0; i < n; i++) {
        variant_text name = variant_name(s, &list[i].variant);
        const trial *t = &list[i].trial;
        if (t->state == TRIAL_DONE)
            print_row(w, *name.text ? name.text : "-", width, t);
        else
            printf("  %-*s  %s: %s\n", width, *name.text ? name.text : "-",
                   state_name(t->state), t->why);
    }
}

/* ---- JSON ---- */

static void add_taken(cJSON *row, const trial *t)
{
    cJSON_AddNumberToObject(row, "warps", t->warps);
    cJSON_AddNumberToObject(row, "registers", t->registers);
    cJSON_AddNumberToObject(row, "shared_bytes", t->shared_bytes);
    cJSON_AddNumberToObject(row, "spilled_bytes", t->spilled_bytes);
}

static void add_times(cJSON *row, const workload *w, const trial *t)
{
    cJSON_AddNumberToObject(row, "median_us", t->us);
    cJSON_AddNumberToObject(row, "fastest_us", t->fastest_us);
    cJSON_AddNumberToObject(row, "runs", t->runs);
    cJSON_AddNumberToObject(row, "gbytes_per_second", w->bytes * 1e-3 / t->us);
    if (w->flops > 0)
        cJSON_AddNumberToObject(row, "tflops", w->flops * 1e-6 / t->us);
    if (w->is_checked)
        cJSON_AddNumberToObject(row, "error", t->error);
}

static cJSON *row_of(const workload *w, const space *s, const ranked *r)
{
    const trial *t = &r->trial;
    cJSON *row = cJSON_CreateObject();
    cJSON *use = cJSON_AddObjectToObject(row, "variant");
    for (unsigned i = 0; i < s->naxes; i++)
        cJSON_AddStringToObject(use, s->axes[i].name, r->variant.values[i]);
    cJSON_AddStringToObject(row, "workload", w->name);
    cJSON_AddStringToObject(row, "target", t->target);
    cJSON_AddStringToObject(row, "device", t->device);
    cJSON_AddStringToObject(row, "state", state_name(t->state));
    if (t->state != TRIAL_DONE)
        cJSON_AddStringToObject(row, "why", t->why);
    cJSON_AddNumberToObject(row, "compile_ms", t->compile_ms);
    cJSON_AddNumberToObject(row, "bytes", w->bytes);
    cJSON_AddStringToObject(row, "flops_from", w->flops_from);
    if (w->flops > 0)
        cJSON_AddNumberToObject(row, "flops", w->flops);
    cJSON_AddStringToObject(row, "checked", w->checked);
    if (t->is_gpu)
        add_taken(row, t);
    if (t->us > 0)
        add_times(row, w, t);
    return row;
}

int ranking_print_json(const workload *w, const space *s, const ranked *list,
                       size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int code = row_print(row_of(w, s, &list[i]));
        if (code)
            return code;
    }
    return EXIT_DONE;
}

int ranking_code(const ranked *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (list[i].trial.state >= TRIAL_WRONG)
            return list[i].trial.code;
    return first_done(list, n) ? EXIT_DONE : list[0].trial.code;
}
