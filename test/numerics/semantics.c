/* SPDX-License-Identifier: Apache-2.0
 *
 * What each elementwise op computes at run time, on tiles and on scalars, for
 * each type it takes, against the reference semantics (ir/eval/eval.c): all
 * pairs of edge cases and thousands of random inputs; types of 8 and 16 bits
 * see each of their values.
 *
 *   semantics [--seed N] [--type I] [--text 1]
 */
#include "ir/eval/eval.h"
#include "test/numerics/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* num_type lists the scalar kinds in the order of tc_kind. */
_Static_assert((int)NUM_F64 == (int)TC_F64, "the same types in one order");

enum { MAX_ITEMS = 80, LANES = 128, SCALARS = 64, MAX_OPERANDS = 3 };

/* An op on operands of one type, as it is tested. */
typedef struct item {
    tc_opcode code;
    const char *pred; /* of cmp */
    num_type result;
    bool rough;      /* good to some ulps, not exact */
    bool approx;     /* good to 2^-10 */
    int row;         /* in the outputs of its result type */
    const tc_op *op; /* for tc_eval_op */
} item;

typedef struct suite {
    num_type type;
    int nitems, rows[NUM_TYPE_COUNT];
    item items[MAX_ITEMS];
    num_tensor in[MAX_OPERANDS], out[NUM_TYPE_COUNT];
} suite;

/* ---- Which ops ---- */

static bool is_int(num_type t)
{
    return t >= NUM_I8 && t <= NUM_I64;
}

static bool is_rough(tc_opcode code)
{
    switch (code) {
    case TC_EXP:
    case TC_EXP2:
    case TC_LOG:
    case TC_LOG2:
    case TC_RSQRT:
    case TC_RCP:
    case TC_SIN:
    case TC_COS:
    case TC_TANH:
    case TC_ERF: return true;
    default: return false;
    }
}

static bool takes(tc_opcode code, num_type t)
{
    switch (code) {
    case TC_AND:
    case TC_OR:
    case TC_XOR:
    case TC_NOT: return is_int(t) || t == NUM_I1;
    case TC_CMP:
    case TC_CAST:
    case TC_BITCAST:
    case TC_PTR_ADD: return false; /* listed by themselves, or no arithmetic */
    case TC_SELECT: return true;
    default: break;
    }
    switch (tc_op_infos[code].in[0]) {
    case 'f': return num_is_float(t);
    case 'i': return is_int(t);
    case 'n': return num_is_float(t) || is_int(t);
    default: return false;
    }
}

static void add_item(suite *s, tc_opcode code, const char *pred,
                     num_type result)
{
    s->items[s->nitems++] = (item){.code = code,
                                   .pred = pred,
                                   .result = result,
                                   .rough = is_rough(code),
                                   .row = s->rows[result]++};
}

static void list_items(suite *s)
{
    static const char *const preds[] = {"eq", "ne",  "lt",  "le",  "gt",
                                        "ge", "ult", "ule", "ugt", "uge"};
    num_type t = s->type;
    for (tc_opcode code = 0; code < TC_OPCODE_COUNT; code++)
        if ((tc_op_infos[code].traits & TC_ELEMENTWISE) && takes(code, t))
            add_item(s, code, NULL, t);
    if (t == NUM_F32) {
        add_item(s, TC_TANH, NULL, t);
        s->items[s->nitems - 1].approx = true;
    }
    int npreds = is_int(t) ? 10 : num_is_float(t) ? 6 : 2;
    for (int i = 0; i < npreds; i++)
        add_item(s, TC_CMP, preds[i], NUM_I1);
    for (int to = 0; to < NUM_TYPE_COUNT; to++) {
        if (to != (int)t)
            add_item(s, TC_CAST, NULL, (num_type)to);
        if (to != (int)t && t != NUM_I1 && to != NUM_I1 &&
            num_bytes(t) == num_bytes((num_type)to))
            add_item(s, TC_BITCAST, NULL, (num_type)to);
    }
}

static int operands_of(const item *it)
{
    return it->code == TC_SELECT ? 2 : (int)strlen(tc_op_infos[it->code].in);
}

/* ---- The program ---- */

static const char *const operand_names[] = {"%x", "%y", "%z"};

static void write_item(FILE *f, const item *it, int index, bool lanes)
{
    fprintf(f, "  %%r%d = %s ", index, tc_op_infos[it->code].name);
    if (it->code == TC_SELECT)
        fprintf(f, "%%less, ");
    for (int i = 0; i < operands_of(it); i++)
        fprintf(f, "%s%s", i ? ", " : "", operand_names[i]);
    if (it->pred)
        fprintf(f, " pred(%s)", it->pred);
    if (it->approx)
        fprintf(f, " approx(true)");
    const char *result = num_name(it->result);
    if (it->code == TC_CAST || it->code == TC_BITCAST)
        fprintf(f, lanes ? " : tile<128 x %s>" : " : %s", result);
    if (lanes)
        fprintf(f, "\n  store %%out_%s[%d, %%i +: 128], %%r%d boundary(0)\n",
                result, it->row, index);
    else
        fprintf(f,
                "\n  store %%out_%s[%d, %%i +: 1], "
                "splat(%%r%d, tile<1 x %s>) boundary(0)\n",
                result, it->row, index, result);
}

static void write_inputs(FILE *f, const suite *s, bool lanes)
{
    const char *less = s->type == NUM_I1 ? "ne" : "lt";
    for (int i = 0; i < MAX_OPERANDS; i++)
        if (lanes)
            fprintf(f, "  %s = load %%in%d[%%i +: 128] boundary(0)\n",
                    operand_names[i], i);
        else
            fprintf(f, "  %s = gather %%in%d, %%i\n", operand_names[i], i);
    fprintf(f, "  %%less = cmp %%x, %%y pred(%s)\n", less);
}

static char *program_text(const suite *s, bool lanes)
{
    char *text;
    size_t length;
    FILE *f = open_memstream(&text, &length);
    fprintf(f, "kernel @ops(");
    for (int i = 0; i < MAX_OPERANDS; i++)
        fprintf(f, "%s%%in%d: tensor<[?] x %s>", i ? ", " : "", i,
                num_name(s->type));
    for (int t = 0; t < NUM_TYPE_COUNT; t++)
        if (s->rows[t])
            fprintf(f, ",\n    %%out_%s: tensor<[?, ?] x %s>",
                    num_name((num_type)t), num_name((num_type)t));
    fprintf(f, ")\n    grid(cdiv(size(%%in0, 0), %d)) {\n",
            lanes ? LANES : SCALARS);
    if (lanes)
        fprintf(f, "  %%i = program_id(0) * %d\n", LANES);
    else
        fprintf(f,
                "  for %%j = 0 to %d {\n"
                "  %%i = program_id(0) * %d + %%j\n",
                SCALARS, SCALARS);
    write_inputs(f, s, lanes);
    for (int i = 0; i < s->nitems; i++)
        write_item(f, &s->items[i], i, lanes);
    fprintf(f, lanes ? "  return\n}\n" : "  }\n  return\n}\n");
    fclose(f);
    return text;
}

/* The same ops on scalar arguments, for the reference. */
static void build_references(tc_module *m, suite *s)
{
    tc_loc nowhere = {0, 0, 0, 0};
    tc_func *f = tc_func_new(m, "reference", false, nowhere);
    tc_func_append(m, f);
    const tc_type *type = tc_type_scalar(m->cx, (tc_kind)s->type);
    const tc_type *i1 = tc_type_scalar(m->cx, TC_I1);
    if (!f->body)
        f->body = tc_region_new(f, NULL);
    tc_value *condition = tc_region_add_arg(f->body, i1, "c", nowhere);
    tc_value *x[MAX_OPERANDS];
    for (int i = 0; i < MAX_OPERANDS; i++)
        x[i] = tc_region_add_arg(f->body, type, operand_names[i] + 1, nowhere);
    for (int i = 0; i < s->nitems; i++) {
        item *it = &s->items[i];
        bool select = it->code == TC_SELECT;
        tc_value *in[] = {condition, x[0], x[1], x[2]};
        tc_op *op =
            tc_op_new(f, it->code, nowhere, (unsigned)operands_of(it) + select,
                      select ? in : in + 1, 0);
        if (it->pred)
            tc_op_set_word(op, "pred", it->pred);
        const tc_type *result = tc_type_scalar(m->cx, (tc_kind)it->result);
        tc_op_set_results(op, 1, &result);
        tc_op_insert(op, f->body, NULL);
        it->op = op;
    }
}

/* ---- Inputs ---- */

static const double float_edges[] = {0.0,
                                     -0.0,
                                     1.0,
                                     -1.0,
                                     0.5,
                                     -0.5,
                                     1.5,
                                     -1.5,
                                     2.5,
                                     -2.5,
                                     3.0,
                                     INFINITY,
                                     -INFINITY,
                                     NAN,
                                     3.4028234663852886e38,
                                     1.7976931348623157e308,
                                     0x1p-126,
                                     0x1p-149,
                                     -0x1p-130,
                                     0x1p-1022,
                                     0x1p-14,
                                     0x1p-24,
                                     0x1p-25,
                                     0x1p-6,
                                     0x1p-9,
                                     0x1p-16,
                                     0x1.8p-10,
                                     1.0000001,
                                     0.99999994,
                                     3.1415927,
                                     -3.1415927,
                                     1e-3,
                                     100.0,
                                     -100.0,
                                     127.0,
                                     127.5,
                                     128.0,
                                     -128.0,
                                     -128.5,
                                     255.0,
                                     32767.0,
                                     32768.0,
                                     -32768.0,
                                     65504.0,
                                     65520.0,
                                     -65519.996,
                                     0.6, /* about here tanh goes two ways */
                                     0.59999996,
                                     0.60000005,
                                     -0.6,
                                     0.55,
                                     9.0,
                                     9.25,
                                     -20.0,
                                     448.0,
                                     464.0,
                                     -465.0,
                                     57344.0,
                                     61440.0,
                                     61441.0,
                                     0x1p23,
                                     8388607.5,
                                     0x1p24,
                                     0x1p31,
                                     -0x1p31,
                                     2147483520.0,
                                     0x1p63,
                                     -0x1p63,
                                     0x1p64,
                                     88.7,
                                     -87.3,
                                     -103.9,
                                     127.99,
                                     -126.5,
                                     -149.5,
                                     709.0,
                                     -745.0,
                                     1e-8,
                                     1e30,
                                     -1e-30,
                                     1e10};
static const int64_t int_edges[] = {0,
                                    1,
                                    -1,
                                    2,
                                    -2,
                                    3,
                                    -3,
                                    7,
                                    -7,
                                    8,
                                    15,
                                    16,
                                    31,
                                    32,
                                    33,
                                    63,
                                    64,
                                    65,
                                    127,
                                    128,
                                    -128,
                                    -129,
                                    255,
                                    256,
                                    32767,
                                    32768,
                                    -32768,
                                    65535,
                                    2047,
                                    2049,
                                    16777217,
                                    INT32_MAX,
                                    INT32_MIN,
                                    UINT32_MAX,
                                    0x1000001,
                                    INT64_MAX,
                                    INT64_MIN,
                                    INT64_MAX - 1,
                                    0x20000000000001};
enum {
    NFLOATS = sizeof float_edges / sizeof *float_edges,
    NINTS = sizeof int_edges / sizeof *int_edges
};

/* Bits in the width of the type. */
static uint64_t edge_bits(num_type t, int i)
{
    if (num_is_float(t))
        return num_to_bits(t, num_round(t, float_edges[i]));
    return t == NUM_I1 ? i & 1 : (uint64_t)int_edges[i];
}

static uint64_t random_bits(num_type t, num_rng *r)
{
    if (t == NUM_I1)
        return num_next(r) & 1;
    if (num_below(r, 3) == 0)
        return num_next(r);
    if (num_is_float(t))
        return num_to_bits(t, ldexp(num_normal(r), num_between(r, -6, 8)));
    return (uint64_t)num_between(r, -200, 200);
}

/* Value `i` of operand `which`. */
static uint64_t input_bits(num_type t, int which, int i, num_rng *r)
{
    size_t bytes = num_bytes(t);
    if (bytes == 1 && t != NUM_I1 && which < 2)
        return which ? (uint64_t)i >> 8 : (uint64_t)i;
    if (bytes == 2 && which == 0)
        return (uint64_t)i;
    int n = t == NUM_I1 ? 2 : num_is_float(t) ? NFLOATS : NINTS;
    if (i < n * n && which < 2)
        return edge_bits(t, which ? i / n : i % n);
    return random_bits(t, r);
}

static void fill_inputs(suite *s, int n, num_rng *r)
{
    for (int which = 0; which < MAX_OPERANDS; which++) {
        s->in[which] = num_tensor_new(s->type, 1, (int32_t[]){n}, NULL);
        for (int i = 0; i < n; i++) {
            uint64_t bits = input_bits(s->type, which, i, r);
            memcpy(num_at(&s->in[which], i), &bits, num_bytes(s->type));
        }
    }
    for (int t = 0; t < NUM_TYPE_COUNT; t++)
        s->out[t] =
            num_tensor_new((num_type)t, 2, (int32_t[]){s->rows[t], n}, NULL);
}

static void free_memory(suite *s)
{
    for (int i = 0; i < MAX_OPERANDS; i++)
        num_tensor_free(&s->in[i]);
    for (int t = 0; t < NUM_TYPE_COUNT; t++)
        num_tensor_free(&s->out[t]);
}

/* ---- Comparing ---- */

static tc_scalar read_scalar(num_type t, const void *p)
{
    if (num_is_float(t))
        return (tc_scalar){.f = num_read(t, p)};
    uint64_t bits = 0;
    memcpy(&bits, p, num_bytes(t));
    return (tc_scalar){.i = tc_int_wrap((tc_kind)t, (int64_t)bits)};
}

/* Place of a float among all of its type: neighbours differ by 1. */
static int64_t rank_of(num_type t, double x)
{
    uint64_t bits = num_to_bits(t, x);
    uint64_t sign = (uint64_t)1 << (8 * num_bytes(t) - 1);
    int64_t magnitude = (int64_t)(bits & ~sign);
    return bits & sign ? -magnitude : magnitude;
}

static bool near(num_type t, double got, double want)
{
    if (got == 0 && fabs(want) <= 0x1p-126)
        return true; /* denormals may flush */
    if (isnan(got) || isnan(want))
        return isnan(got) && isnan(want);
    int64_t limit = t == NUM_F32 || t == NUM_F64 ? 2 : 1;
    int64_t a = rank_of(t, got), b = rank_of(t, want);
    return a - limit <= b && b - limit <= a;
}

static bool agree(const item *it, tc_scalar got, tc_scalar want)
{
    if (!num_is_float(it->result))
        return got.i == want.i;
    if (it->approx && isfinite(want.f))
        return fabs(got.f - want.f) <= 0x1p-10 * fabs(want.f);
    if (it->rough)
        return near(it->result, got.f, want.f);
    if (isnan(want.f) || isnan(got.f))
        return isnan(want.f) && isnan(got.f);
    bool sign = it->code == TC_MIN || it->code == TC_MAX ||
                signbit(got.f) == signbit(want.f);
    return got.f == want.f && sign;
}

static void print_scalar(char text[40], num_type t, tc_scalar x)
{
    if (num_is_float(t))
        snprintf(text, 40, "%.17g", x.f);
    else
        snprintf(text, 40, "%lld", (long long)x.i);
}

static void describe(char text[256], const suite *s, const item *it,
                     const tc_scalar *in, tc_scalar got, tc_scalar want)
{
    char x[5][40];
    for (int i = 0; i < 3; i++)
        print_scalar(x[i], s->type, in[i]);
    print_scalar(x[3], it->result, got);
    print_scalar(x[4], it->result, want);
    int n = operands_of(it);
    snprintf(text, 256, "(%s%s%s%s%s) gives %s, should be %s", x[0],
             n > 1 ? ", " : "", n > 1 ? x[1] : "", n > 2 ? ", " : "",
             n > 2 ? x[2] : "", x[3], x[4]);
}

static void check_item(const suite *s, const item *it, const char *path,
                       run_counts *counts)
{
    int n = s->in[0].size[0], wrong = 0;
    char first[256] = "";
    bool less_is_ne = s->type == NUM_I1;
    for (int i = 0; i < n; i++) {
        tc_scalar in[1 + MAX_OPERANDS], want, *x = in + 1;
        for (int k = 0; k < MAX_OPERANDS; k++)
            x[k] = read_scalar(s->type, num_at(&s->in[k], i));
        in[0].i = num_is_float(s->type) ? x[0].f < x[1].f
                  : less_is_ne          ? x[0].i != x[1].i
                                        : x[0].i < x[1].i;
        if (!tc_eval_op(it->op, it->code == TC_SELECT ? in : x, &want))
            continue; /* the bits of a NaN */
        const num_tensor *out = &s->out[it->result];
        tc_scalar got =
            read_scalar(it->result, num_at(out, (int64_t)it->row * n + i));
        if (!agree(it, got, want) && wrong++ == 0)
            describe(first, s, it, x, got, want);
    }
    run_check(counts, wrong == 0, "%s %s%s%s %s -> %s: %d of %d wrong: %s",
              path, tc_op_infos[it->code].name,
              it->pred || it->approx ? " " : "",
              it->pred     ? it->pred
              : it->approx ? "approx"
                           : "",
              num_name(s->type), num_name(it->result), wrong, n, first);
}

/* ---- Running ---- */

static bool launch(const suite *s, const tilec_kernel *k, tilec_error *error)
{
    run_view views[MAX_OPERANDS + NUM_TYPE_COUNT];
    tilec_argument args[MAX_OPERANDS + NUM_TYPE_COUNT];
    size_t n = 0;
    for (int i = 0; i < MAX_OPERANDS; i++, n++)
        args[n] = tilec_tensor(NULL, run_view_of(&views[n], &s->in[i]));
    for (int t = 0; t < NUM_TYPE_COUNT; t++)
        if (s->rows[t]) {
            args[n] = tilec_tensor(NULL, run_view_of(&views[n], &s->out[t]));
            n++;
        }
    return run_launch(k, args, n, NULL, error) == TILEC_OK;
}

static void run_path(tilec_context *cx, suite *s, bool lanes, num_rng *r,
                     run_counts *counts)
{
    const char *path = lanes ? "tile" : "scalar";
    char *text = program_text(s, lanes);
    tilec_kernel *k = run_compile(cx, text, NULL);
    tilec_error error = {0};
    size_t bytes = num_bytes(s->type);
    int n = s->type == NUM_I1                  ? 300
            : bytes <= 2 || s->type == NUM_F32 ? 65536
                                               : 8192 + 37;
    fill_inputs(s, n, r);
    if (run_check(counts, k, "%s %s: does not compile", path,
                  num_name(s->type)) &&
        run_check(counts, launch(s, k, &error), "%s %s: %s", path,
                  num_name(s->type), error.message))
        for (int i = 0; i < s->nitems; i++)
            check_item(s, &s->items[i], path, counts);
    free_memory(s);
    tilec_kernel_free(k);
    free(text);
}

int main(int argc, char **argv)
{
    num_rng r = {(uint64_t)run_option(argc, argv, "seed", 1)};
    long only = run_option(argc, argv, "type", -1);
    run_counts counts = {0};
    tilec_context *cx = run_context();
    tc_context *reference = tc_context_new();
    if (!reference)
        return 1;
    tc_module *m = tc_module_new(reference);
    for (int t = 0; t < NUM_TYPE_COUNT; t++) {
        suite s = {.type = (num_type)t};
        if (only >= 0 && t != only)
            continue;
        list_items(&s);
        if (run_option(argc, argv, "text", 0)) {
            char *text = program_text(&s, true);
            fputs(text, stdout);
            free(text);
            continue;
        }
        build_references(m, &s);
        run_path(cx, &s, true, &r, &counts);
        run_path(cx, &s, false, &r, &counts);
    }
    tc_module_free(m);
    tc_context_free(reference);
    run_context_free(cx);
    return run_finish(&counts);
}
