/* SPDX-License-Identifier: Apache-2.0 */
#include "test/numerics/world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The lines of the body count from 1 after the head. */
enum { HEAD_LINES = 3 };

static char *full_text(const char *functions, const char *grid,
                       const char *body)
{
    char *text;
    size_t length;
    FILE *f = open_memstream(&text, &length);
    fprintf(f,
            "%skernel @t(%%x: tensor<[?, ?] x f32>, %%i: "
            "tensor<[?, ?] x i32>, %%n: i32,\n"
            "    %%o: tensor<[?, ?] x f32>, %%p: tensor<[?, ?] x i32>)\n"
            "    grid(%s) {\n%s\n}\n",
            functions ? functions : "", grid, body);
    fclose(f);
    return text;
}

typedef struct tensors {
    num_tensor x, i, o, p;
} tensors;

static world *world_new(int n)
{
    world *w = calloc(1, sizeof *w);
    num_rng r = {42};
    w->n = n;
    for (int y = 0; y < WORLD_ROWS; y++)
        for (int x = 0; x < WORLD_COLUMNS; x++) {
            w->x[y][x] = (float)num_between(&r, -8, 8);
            w->i[y][x] = num_between(&r, -100, 100);
        }
    return w;
}

static tensors tensors_new(const world *w)
{
    int32_t in[] = {WORLD_ROWS, WORLD_COLUMNS}, out[] = {WORLD_OUT, WORLD_OUT};
    tensors t = {num_tensor_new(NUM_F32, 2, in, NULL),
                 num_tensor_new(NUM_I32, 2, in, NULL),
                 num_tensor_new(NUM_F32, 2, out, NULL),
                 num_tensor_new(NUM_I32, 2, out, NULL)};
    memcpy(t.x.data, w->x, sizeof w->x);
    memcpy(t.i.data, w->i, sizeof w->i);
    memset(t.o.data, 0, t.o.bytes);
    memset(t.p.data, 0, t.p.bytes);
    return t;
}

static void tensors_free(tensors *t)
{
    num_tensor_free(&t->x);
    num_tensor_free(&t->i);
    num_tensor_free(&t->o);
    num_tensor_free(&t->p);
}

static bool launch(const tilec_kernel *k, const tensors *t, int n,
                   const tilec_launch_options *options, tilec_error *error)
{
    run_view views[4];
    tilec_argument args[] = {tilec_tensor("x", run_view_of(&views[0], &t->x)),
                             tilec_tensor("i", run_view_of(&views[1], &t->i)),
                             tilec_int("n", n),
                             tilec_tensor("o", run_view_of(&views[2], &t->o)),
                             tilec_tensor("p", run_view_of(&views[3], &t->p))};
    return run_launch(k, args, 5, options, error) == TILEC_OK;
}

static bool close_to(double got, double want, double tolerance)
{
    return got == want || (isnan(got) && isnan(want)) ||
           fabs(got - want) <= tolerance * fabs(want);
}

static void check(const world *w, const tensors *t, const world_test *test,
                  run_counts *counts)
{
    char why[128] = "";
    for (int y = WORLD_OUT - 1; y >= 0; y--)
        for (int x = WORLD_OUT - 1; x >= 0; x--) {
            float o = ((float *)t->o.data)[y * WORLD_OUT + x];
            int32_t p = ((int32_t *)t->p.data)[y * WORLD_OUT + x];
            if (!close_to(o, w->o[y][x], test->tolerance))
                snprintf(why, sizeof why, "o[%d, %d] is %.9g, should be %.9g",
                         y, x, o, w->o[y][x]);
            if (p != w->p[y][x])
                snprintf(why, sizeof why, "p[%d, %d] is %d, should be %d", y, x,
                         p, w->p[y][x]);
        }
    run_check(counts, !*why, "%s, n=%d: %s", test->name, w->n, why);
}

static void run_once(const tilec_kernel *k, const world_test *test, int n,
                     run_counts *counts)
{
    world *w = world_new(n);
    tensors t = tensors_new(w);
    tilec_error error = {0};
    if (run_check(counts, launch(k, &t, n, NULL, &error), "%s, n=%d: %s",
                  test->name, n, error.message)) {
        test->expect(w);
        check(w, &t, test, counts);
    }
    tensors_free(&t);
    free(w);
}

void world_run(tilec_context *cx, const world_test *test, run_counts *counts)
{
    char *text = full_text(test->functions, test->grid, test->body);
    tilec_kernel *k = run_compile(cx, text, NULL);
    if (run_check(counts, k, "%s: does not compile", test->name)) {
        run_once(k, test, test->n[0], counts);
        for (int i = 1; i < 6 && test->n[i]; i++)
            run_once(k, test, test->n[i], counts);
    }
    tilec_kernel_free(k);
    free(text);
}

void world_run_failure(tilec_context *cx, const char *name, const char *grid,
                       const char *body, int n, const char *message, int line,
                       run_counts *counts)
{
    /* A GPU does not check offsets; the launch before checks the grid. */
    if (run_device() && !strstr(body, "assert") && !strstr(grid, "assert"))
        return;
    char *text = full_text(NULL, grid, body);
    world *w = world_new(n);
    tensors t = tensors_new(w);
    tilec_error error = {0};
    tilec_kernel *k = run_compile(cx, text, NULL);
    if (run_check(counts, k, "%s: does not compile", name) &&
        run_check(counts, !launch(k, &t, n, NULL, &error),
                  "%s: no error was seen", name)) {
        run_check(counts, strstr(error.message, message), "%s: message: %s",
                  name, error.message);
        run_check(counts, !line || error.line == (uint32_t)line + HEAD_LINES,
                  "%s: at line %u", name, error.line);
    }
    tilec_kernel_free(k);
    tensors_free(&t);
    free(text);
    free(w);
}

static void collect(void *user, const char *line)
{
    fprintf(user, "%s\n", line);
}

char *world_run_print(tilec_context *cx, const char *name, const char *grid,
                      const char *body, int n, run_counts *counts)
{
    char *text = full_text(NULL, grid, body), *printed;
    size_t length;
    world *w = world_new(n);
    tensors t = tensors_new(w);
    tilec_error error = {0};
    tilec_launch_options options = TILEC_INIT(tilec_launch_options);
    options.print = collect;
    options.user = open_memstream(&printed, &length);
    tilec_kernel *k = run_compile(cx, text, NULL);
    if (run_check(counts, k, "%s: does not compile", name))
        run_check(counts, launch(k, &t, n, &options, &error), "%s: %s", name,
                  error.message);
    fclose(options.user);
    tilec_kernel_free(k);
    tensors_free(&t);
    free(text);
    free(w);
    return printed;
}
