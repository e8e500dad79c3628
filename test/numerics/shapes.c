/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions and scans of every kind, axis and type, sorts, and the ops that
 * move elements (trans, expand_dims, broadcast, take, histogram, reshape,
 * slice, join, interleave) of rank 1 to 4, against their definition element by
 * element.
 *
 * All steps of a type make one kernel: step s loads the first elements of
 * %in, gives them a shape, does one op, and stores the result, flat, to row s
 * of %out.
 */
#include "test/numerics/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANK = 4, MAX_STEPS = 200, ROW = 4096 };

typedef struct shape {
    int rank, side[MAX_RANK + 1];
} shape;

typedef enum step_kind {
    REDUCE,
    SCAN,
    SORT,
    TRANS,
    EXPAND,
    BROADCAST,
    TAKE,
    TAKE_ONE,
    HISTOGRAM,
    SLICE,
    JOIN,
    INTERLEAVE
} step_kind;

typedef struct step {
    step_kind kind;
    shape from, to;
    int axis;                /* all but TRANS, BROADCAST */
    const char *reduction;   /* REDUCE, SCAN */
    bool reverse, exclusive; /* SCAN; SORT: descending, alone */
    int perm[MAX_RANK + 1];  /* TRANS: result axis i is axis perm[i] */
    int at, step;            /* SLICE; TAKE_ONE: at */
} step;

typedef struct plan {
    num_type type;
    int nsteps;
    step steps[MAX_STEPS];
} plan;

static const shape shapes[] = {{1, {64}},
                               {2, {16, 24}},
                               {2, {8, 40}},
                               {3, {8, 16, 8}},
                               {4, {8, 1, 8, 16}}};
enum { NSHAPES = sizeof shapes / sizeof *shapes };

static int count_of(shape s)
{
    int n = 1;
    for (int i = 0; i < s.rank; i++)
        n *= s.side[i];
    return n;
}

/* ---- The steps ---- */

static bool is_int(num_type t)
{
    return t >= NUM_I8 && t <= NUM_I64;
}

static bool reduces(const char *reduction, num_type t)
{
    bool arithmetic =
        strcmp(reduction, "sum") == 0 || strcmp(reduction, "prod") == 0 ||
        strcmp(reduction, "max") == 0 || strcmp(reduction, "min") == 0;
    return arithmetic ? t != NUM_I1 : t == NUM_I1 || is_int(t);
}

static void list_reductions(plan *p)
{
    static const char *const all[] = {"sum", "prod", "max", "min",
                                      "and", "or",   "xor"};
    for (int s = 0; s < NSHAPES; s++)
        for (int axis = 0; axis < shapes[s].rank; axis++)
            for (int r = 0; r < 7; r++) {
                if (!reduces(all[r], p->type))
                    continue;
                step t = {.kind = REDUCE, .from = shapes[s], .axis = axis};
                t.reduction = all[r];
                t.to.rank = t.from.rank - 1;
                for (int i = 0; i < t.to.rank; i++)
                    t.to.side[i] = t.from.side[i + (i >= axis)];
                p->steps[p->nsteps++] = t;
            }
}

/* Of the four variants each in turn. */
static void list_scans(plan *p)
{
    static const char *const all[] = {"sum", "prod", "max", "min",
                                      "and", "or",   "xor"};
    for (int s = 0; s < NSHAPES; s++)
        for (int axis = 0; axis < shapes[s].rank; axis++)
            for (int r = 0; r < 7; r++) {
                if (!reduces(all[r], p->type))
                    continue;
                step t = {.kind = SCAN, .from = shapes[s], .to = shapes[s]};
                t.axis = axis;
                t.reduction = all[r];
                t.reverse = p->nsteps & 1;
                t.exclusive = p->nsteps & 2;
                p->steps[p->nsteps++] = t;
            }
}

/* All elements and the first few, alone and with a tile that moves along, which
 * is then the result. */
static void list_sorts(plan *p, shape from)
{
    for (int i = 0; i < 4 * from.rank; i++) {
        int axis = i / 4, side = from.side[axis];
        step t = {.kind = SORT, .from = from, .to = from, .axis = axis};
        t.reverse = (i ^ axis) & 1;
        t.exclusive = i % 4 == 0 || i % 4 == 3;
        if (i & 2)
            t.to.side[axis] = side > 8 ? 8 : 1;
        if ((side & (side - 1)) == 0)
            p->steps[p->nsteps++] = t;
    }
}

/* All orders of the axes: `rest` is how many are still to be placed. */
static void list_perms(plan *p, step t, int placed)
{
    if (placed == t.from.rank) {
        for (int i = 0; i < t.from.rank; i++)
            t.to.side[i] = t.from.side[t.perm[i]];
        p->steps[p->nsteps++] = t;
        return;
    }
    for (int axis = 0; axis < t.from.rank; axis++) {
        bool used = false;
        for (int i = 0; i < placed; i++)
            used |= t.perm[i] == axis;
        t.perm[placed] = axis;
        if (!used)
            list_perms(p, t, placed + 1);
    }
}

static void list_moves(plan *p)
{
    for (int s = 1; s < NSHAPES; s++) {
        step t = {.kind = TRANS, .from = shapes[s], .to = shapes[s]};
        list_perms(p, t, 0);
    }
    for (int s = 0; s < NSHAPES; s++)
        for (int axis = 0; axis <= shapes[s].rank; axis++) {
            step t = {.kind = EXPAND, .from = shapes[s], .axis = axis};
            t.to.rank = t.from.rank + 1;
            for (int i = 0; i < t.to.rank; i++)
                t.to.side[i] = i == axis  ? 1
                               : i < axis ? t.from.side[i]
                                          : t.from.side[i - 1];
            p->steps[p->nsteps++] = t;
        }
    static const shape pairs[][2] = {{{1, {1}}, {1, {24}}},
                                     {{2, {1, 16}}, {2, {8, 16}}},
                                     {{2, {8, 1}}, {2, {8, 40}}},
                                     {{2, {1, 1}}, {2, {16, 8}}},
                                     {{3, {8, 1, 8}}, {3, {8, 16, 8}}},
                                     {{3, {1, 24, 1}}, {3, {8, 24, 8}}},
                                     {{4, {8, 1, 1, 8}}, {4, {8, 8, 1, 8}}},
                                     {{4, {1, 8, 1, 8}}, {4, {8, 8, 8, 8}}}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        p->steps[p->nsteps++] =
            (step){.kind = BROADCAST, .from = pairs[i][0], .to = pairs[i][1]};
}

/* Of every axis: runs, one element, every second and every fourth; elements 8
 * to 15 and 0 to 7, joined and interleaved. */
static void list_parts(plan *p)
{
    for (int s = 0; s < NSHAPES; s++)
        for (int axis = 0; axis < shapes[s].rank; axis++) {
            int side = shapes[s].side[axis];
            step t = {.from = shapes[s], .to = shapes[s], .axis = axis};
            const step parts[] = {
                {.kind = SLICE, .at = side - 8, .step = 1, .to.side = {8}},
                {.kind = SLICE, .at = 3, .step = 1, .to.side = {8}},
                {.kind = SLICE, .at = side / 2, .step = 1, .to.side = {1}},
                {.kind = SLICE, .at = 1, .step = 2, .to.side = {8}},
                {.kind = SLICE, .at = 2, .step = 4, .to.side = {8}},
                {.kind = JOIN, .to.side = {16}},
                {.kind = INTERLEAVE, .to.side = {16}}};
            for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
                t.kind = parts[i].kind;
                t.at = parts[i].at;
                t.step = parts[i].step;
                t.to.side[axis] = parts[i].to.side[0];
                int last = t.at + (t.to.side[axis] - 1) * t.step;
                if (t.kind == SLICE
                        ? t.at >= 0 && last < side && side % t.step == 0
                        : side >= 16)
                    p->steps[p->nsteps++] = t;
            }
        }
}

/* Of ints: fewer and more counters than elements are different. */
static void list_histograms(plan *p)
{
    static const int sides[] = {1, 8, 40, 200};
    for (int s = 0; s < NSHAPES && is_int(p->type); s++)
        for (int i = 0; i < 4; i++) {
            step t = {.kind = HISTOGRAM, .from = shapes[s]};
            t.to = (shape){1, {sides[i]}};
            p->steps[p->nsteps++] = t;
        }
}

enum { PAD = 1 };

/* Element i of the indices of take: from -2 to what is 2 too large. */
static int index_taken(const step *t, int i)
{
    return 7 * i % (t->from.side[t->axis] + 4) - 2;
}

/* Of every axis: fewer and more than it has, and single ones, in and out. */
static void list_takes(plan *p)
{
    for (int s = 0; s < NSHAPES; s++)
        for (int axis = 0; axis < shapes[s].rank; axis++) {
            int side = shapes[s].side[axis];
            step t = {.kind = TAKE, .from = shapes[s], .to = shapes[s]};
            t.axis = axis;
            for (int n = 4; n <= 32; n *= 2) {
                t.to.side[axis] = n;
                if (count_of(t.to) <= ROW)
                    p->steps[p->nsteps++] = t;
            }
            t.kind = TAKE_ONE;
            t.to.rank--;
            for (int i = axis; i < t.to.rank; i++)
                t.to.side[i] = t.from.side[i + 1];
            for (t.at = -1; t.at <= side; t.at += side / 2 + 1)
                p->steps[p->nsteps++] = t;
        }
}

/* ---- The program ---- */

static const char *tile(shape s, num_type t)
{
    static char ring[4][64];
    static int next;
    char *text = ring[next++ % 4];
    int n = sprintf(text, "tile<");
    for (int i = 0; i < s.rank; i++)
        n += sprintf(text + n, i ? "x%d" : "%d", s.side[i]);
    sprintf(text + n, " x %s>", num_name(t));
    return text;
}

/* Alone, or as what moves with an equal key. */
static void write_sort(FILE *f, const step *t, int i)
{
    const char *order = t->reverse ? " descending(true)" : "";
    int first = t->to.side[t->axis];
    if (t->exclusive)
        fprintf(f, "  %%c%d = sort %%b%d axis(%d)%s first(%d)\n", i, i, t->axis,
                order, first);
    else
        fprintf(f, "  %%g%d, %%c%d = sort %%b%d, %%b%d axis(%d)%s first(%d)\n",
                i, i, i, i, t->axis, order, first);
}

static void write_take(FILE *f, const step *t, int i)
{
    int n = count_of(t->to), side = t->from.side[t->axis];
    if (t->kind == TAKE_ONE)
        fprintf(f,
                "  %%c%d = take(%%b%d, size(%%in, 0) - %d, axis=%d, pad=%d)\n",
                i, i, ROW - t->at, t->axis, PAD);
    else
        fprintf(f,
                "  %%g%d = reshape(rem(range(%d) * 7, %d) - 2, %s)\n"
                "  %%c%d = take %%b%d, %%g%d axis(%d) pad(%d)\n",
                i, n, side + 4, tile(t->to, NUM_I32), i, i, i, t->axis, PAD);
}

static void write_step(FILE *f, const plan *p, int index)
{
    const step *t = &p->steps[index];
    shape flat = {1, {count_of(t->to)}};
    fprintf(f,
            "  %%a%d = load %%in[0 +: %d]\n"
            "  %%b%d = reshape %%a%d : %s\n",
            index, count_of(t->from), index, index, tile(t->from, p->type));
    if (t->kind == REDUCE)
        fprintf(f, "  %%c%d = reduce %%b%d axis(%d) kind(%s)\n", index, index,
                t->axis, t->reduction);
    if (t->kind == SCAN)
        fprintf(f, "  %%c%d = scan %%b%d axis(%d) kind(%s)%s%s\n", index, index,
                t->axis, t->reduction, t->reverse ? " reverse(true)" : "",
                t->exclusive ? " exclusive(true)" : "");
    if (t->kind == SORT)
        write_sort(f, t, index);
    if (t->kind == EXPAND)
        fprintf(f, "  %%c%d = expand_dims %%b%d axis(%d)\n", index, index,
                t->axis);
    if (t->kind == BROADCAST)
        fprintf(f, "  %%c%d = broadcast %%b%d : %s\n", index, index,
                tile(t->to, p->type));
    if (t->kind == TRANS) {
        fprintf(f, "  %%c%d = trans %%b%d perm(", index, index);
        for (int i = 0; i < t->from.rank; i++)
            fprintf(f, i ? ", %d" : "%d", t->perm[i]);
        fprintf(f, ")\n");
    }
    if (t->kind == TAKE || t->kind == TAKE_ONE)
        write_take(f, t, index);
    if (t->kind == HISTOGRAM)
        fprintf(f, "  %%c%d = cast(histogram(%%b%d, tile<%d x i32>), %s)\n",
                index, index, t->to.side[0], num_name(p->type));
    if (t->kind == SLICE)
        fprintf(f, "  %%c%d = slice %%b%d axis(%d) at(%d) side(%d) step(%d)\n",
                index, index, t->axis, t->at, t->to.side[t->axis], t->step);
    if (t->kind >= JOIN)
        fprintf(f,
                "  %%e%d = slice %%b%d axis(%d) at(8) side(8)\n"
                "  %%f%d = slice %%b%d axis(%d) side(8)\n"
                "  %%c%d = %s %%e%d, %%f%d axis(%d)\n",
                index, index, t->axis, index, index, t->axis, index,
                t->kind == JOIN ? "join" : "interleave", index, index, t->axis);
    fprintf(f, "  %%d%d = %s %%c%d : %s\n", index,
            t->to.rank ? "reshape" : "splat", index, tile(flat, p->type));
    fprintf(f, "  store %%out[%d, 0 +: %d], %%d%d\n", index, flat.side[0],
            index);
}

static char *program_text(const plan *p)
{
    char *text;
    size_t length;
    FILE *f = open_memstream(&text, &length);
    fprintf(f,
            "kernel @shapes(%%in: tensor<[?] x %s>, "
            "%%out: tensor<[?, ?] x %s>) grid(1) {\n",
            num_name(p->type), num_name(p->type));
    for (int i = 0; i < p->nsteps; i++)
        write_step(f, p, i);
    fprintf(f, "  return\n}\n");
    fclose(f);
    return text;
}

/* ---- What is wanted ---- */

static void coordinates(shape s, int index, int at[MAX_RANK + 1])
{
    for (int i = s.rank - 1; i >= 0; i--) {
        at[i] = index % s.side[i];
        index /= s.side[i];
    }
}

static int index_of(shape s, const int at[MAX_RANK + 1])
{
    int index = 0;
    for (int i = 0; i < s.rank; i++)
        index = index * s.side[i] + at[i];
    return index;
}

/* Whole numbers; wraps to the type's width at the end, as each step would. */
static double combine(const char *reduction, num_type t, double a, double b)
{
    if (strcmp(reduction, "max") == 0)
        return a > b ? a : b;
    if (strcmp(reduction, "min") == 0)
        return a < b ? a : b;
    if (num_is_float(t))
        return reduction[0] == 's' ? a + b : a * b;
    uint64_t x = (uint64_t)(int64_t)a, y = (uint64_t)(int64_t)b;
    uint64_t r = strcmp(reduction, "sum") == 0    ? x + y
                 : strcmp(reduction, "prod") == 0 ? x * y
                 : strcmp(reduction, "and") == 0  ? (x & y)
                 : strcmp(reduction, "or") == 0   ? (x | y)
                                                  : (x ^ y);
    unsigned unused = t == NUM_I1 ? 63 : 64 - 8 * (unsigned)num_bytes(t);
    return t == NUM_I1 ? (double)(r & 1)
                       : (double)((int64_t)(r << unused) >> unused);
}

static double reduced(const plan *p, const step *t, const double *in, int index)
{
    int to[MAX_RANK + 1] = {0}, at[MAX_RANK + 1] = {0};
    coordinates(t->to, index, to);
    for (int i = 0; i < t->from.rank; i++)
        at[i] = i == t->axis ? 0 : to[i - (i > t->axis)];
    double r = in[index_of(t->from, at)];
    for (at[t->axis] = 1; at[t->axis] < t->from.side[t->axis]; at[t->axis]++)
        r = combine(t->reduction, p->type, r, in[index_of(t->from, at)]);
    return r;
}

/* What exclusive scans begin with. */
static double neutral(const char *reduction, num_type t)
{
    double least = t == NUM_F8E4M3   ? -448
                   : t == NUM_F8E5M2 ? -57344
                   : num_is_float(t) ? -INFINITY
                                     : -exp2(8 * (double)num_bytes(t) - 1);
    if (strcmp(reduction, "max") == 0)
        return least;
    if (strcmp(reduction, "min") == 0)
        return num_is_float(t) ? -least : -least - 1;
    if (strcmp(reduction, "and") == 0)
        return t == NUM_I1 ? 1 : -1;
    return strcmp(reduction, "prod") == 0;
}

static double scanned(const plan *p, const step *t, const double *in, int index)
{
    int at[MAX_RANK + 1] = {0};
    coordinates(t->to, index, at);
    int by = t->reverse ? -1 : 1, own = at[t->axis];
    int first = t->reverse ? t->from.side[t->axis] - 1 : 0;
    int end = t->exclusive ? own : own + by;
    double r = neutral(t->reduction, p->type);
    for (at[t->axis] = first; at[t->axis] != end; at[t->axis] += by) {
        double x = in[index_of(t->from, at)];
        r = at[t->axis] == first ? x : combine(t->reduction, p->type, r, x);
    }
    return r;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double sorted(const step *t, const double *in, int index)
{
    int at[MAX_RANK + 1] = {0};
    coordinates(t->to, index, at);
    int own = at[t->axis], side = t->from.side[t->axis];
    double line[128];
    for (at[t->axis] = 0; at[t->axis] < side; at[t->axis]++)
        line[at[t->axis]] = in[index_of(t->from, at)];
    qsort(line, (size_t)side, sizeof *line, ascending);
    return line[t->reverse ? side - 1 - own : own];
}

static double taken(const step *t, const double *in, int index)
{
    int to[MAX_RANK + 1] = {0}, at[MAX_RANK + 1] = {0};
    coordinates(t->to, index, to);
    for (int i = 0; i < t->from.rank; i++)
        at[i] = t->kind == TAKE || i <= t->axis ? to[i] : to[i - 1];
    at[t->axis] = t->kind == TAKE ? index_taken(t, index) : t->at;
    bool inside = at[t->axis] >= 0 && at[t->axis] < t->from.side[t->axis];
    return inside ? in[index_of(t->from, at)] : PAD;
}

/* i8 wraps. */
static double counted(const plan *p, const step *t, const double *in, int index)
{
    int n = 0;
    for (int i = 0; i < count_of(t->from); i++)
        n += in[i] == index;
    return p->type == NUM_I8 ? (int8_t)n : n;
}

static double wanted(const plan *p, const step *t, const double *in, int index)
{
    int to[MAX_RANK + 1] = {0}, at[MAX_RANK + 1] = {0};
    coordinates(t->to, index, to);
    switch (t->kind) {
    case REDUCE: return reduced(p, t, in, index);
    case SCAN: return scanned(p, t, in, index);
    case SORT: return sorted(t, in, index);
    case EXPAND: return in[index];
    case TAKE:
    case TAKE_ONE: return taken(t, in, index);
    case HISTOGRAM: return counted(p, t, in, index);
    case TRANS:
        for (int i = 0; i < t->from.rank; i++)
            at[t->perm[i]] = to[i];
        break;
    case BROADCAST:
        for (int i = 0; i < t->from.rank; i++)
            at[i] = t->from.side[i] == 1 ? 0 : to[i];
        break;
    case SLICE:
    case JOIN:
    case INTERLEAVE:
        memcpy(at, to, sizeof at);
        at[t->axis] = t->kind == SLICE ? t->at + t->step * to[t->axis]
                      : t->kind == JOIN
                          ? (to[t->axis] + 8) % 16
                          : to[t->axis] / 2 + 8 * (1 - to[t->axis] % 2);
        break;
    }
    return in[index_of(t->from, at)];
}

static void check_step(const plan *p, int s, const num_tensor *in,
                       const num_tensor *out, run_counts *counts)
{
    static const char *const names[] = {"reduce", "scan",        "sort",
                                        "trans",  "expand_dims", "broadcast",
                                        "take",   "take of one", "histogram",
                                        "slice",  "join",        "interleave"};
    const step *t = &p->steps[s];
    double *x = num_tensor_read(in);
    char why[128] = "";
    for (int i = count_of(t->to) - 1; i >= 0; i--) {
        double got = num_read(p->type, num_at(out, (int64_t)s * ROW + i));
        double want = wanted(p, t, x, i);
        if (got != want)
            snprintf(why, sizeof why, "element %d is %g, should be %g", i, got,
                     want);
    }
    run_check(counts, !*why, "step %d: %s %s axis %d of %s: %s", s,
              names[t->kind], t->reduction ? t->reduction : "", t->axis,
              tile(t->from, p->type), why);
    free(x);
}

/* ---- Running ---- */

/* Sums and products of these are exact in every order, in every type. */
static double any_element(num_rng *r, num_type t, bool plain)
{
    if (t == NUM_I1)
        return num_below(r, 2);
    if (t == NUM_I64) /* powers of two: products that a double holds */
        return (1 - 2 * num_below(r, 2)) * (1 + num_below(r, 2));
    if (is_int(t))
        return num_between(r, -100, 100);
    if (plain)
        return num_between(r, -8, 8);
    if (num_bytes(t) == 1) /* few: an f8e5m2 counts to 8 */
        return num_below(r, 8) ? 0 : 1 - 2 * num_below(r, 2);
    return num_below(r, 4) ? 1 - 2 * num_below(r, 2) : 0.5 * num_below(r, 2);
}

static void run_plan(tilec_context *cx, const plan *p, bool plain,
                     run_counts *counts)
{
    num_rng r = {(uint64_t)p->type + 9};
    num_tensor in = num_tensor_new(p->type, 1, (int32_t[]){ROW}, NULL);
    num_tensor out =
        num_tensor_new(p->type, 2, (int32_t[]){p->nsteps, ROW}, NULL);
    for (int i = 0; i < ROW; i++)
        num_write(p->type, num_at(&in, i), any_element(&r, p->type, plain));
    char *text = program_text(p);
    tilec_kernel *k = run_compile(cx, text, NULL);
    run_view a, b;
    tilec_argument args[] = {tilec_tensor(NULL, run_view_of(&a, &in)),
                             tilec_tensor(NULL, run_view_of(&b, &out))};
    tilec_error error = {0};
    if (run_check(counts, k, "%s: does not compile", num_name(p->type)) &&
        run_check(counts, run_launch(k, args, 2, NULL, &error) == TILEC_OK,
                  "%s: %s", num_name(p->type), error.message))
        for (int s = 0; s < p->nsteps; s++)
            check_step(p, s, &in, &out, counts);
    tilec_kernel_free(k);
    free(text);
    num_tensor_free(&in);
    num_tensor_free(&out);
}

int main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    static plan p;
    static const num_type moved[] = {NUM_I1, NUM_I8, NUM_BF16, NUM_F32,
                                     NUM_I64};
    run_counts counts = {0};
    tilec_context *cx = run_context();
    for (int t = 0; t < NUM_TYPE_COUNT; t++) {
        p = (plan){.type = (num_type)t};
        list_reductions(&p);
        run_plan(cx, &p, false, &counts);
        p = (plan){.type = (num_type)t};
        list_scans(&p);
        run_plan(cx, &p, false, &counts);
    }
    for (size_t i = 0; i < sizeof moved / sizeof *moved; i++) {
        p = (plan){.type = moved[i]};
        list_moves(&p);
        run_plan(cx, &p, true, &counts);
        p = (plan){.type = moved[i]};
        list_takes(&p);
        list_histograms(&p);
        run_plan(cx, &p, true, &counts);
        p = (plan){.type = moved[i]};
        list_parts(&p);
        run_plan(cx, &p, true, &counts);
    }
    for (size_t i = 1; i < sizeof moved / sizeof *moved; i++)
        for (int s = 0; s < NSHAPES; s++) {
            p = (plan){.type = moved[i]};
            list_sorts(&p, shapes[s]);
            run_plan(cx, &p, true, &counts);
        }
    run_context_free(cx);
    return run_finish(&counts);
}
