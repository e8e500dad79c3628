/* SPDX-License-Identifier: Apache-2.0
 *
 * The library's contracts: contexts, compiles, metadata, launches; one test
 * for each message; out of memory at every place; threads.
 */
#include "lib/handles.h"

#include <cjson/cJSON.h>

#include <check.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const char scale_text[] =
    "kernel @scale[T: type = f32, BN: int = 16, D: int](\n"
    "    %x: tensor<[?, D] x T>, %y: tensor<[?, D] x T>, %by: f32, %add: i32)\n"
    "    grid {\n"
    "      assert size(%x, 0) == size(%y, 0), \"x and y must have the same "
    "rows\"\n"
    "      yield cdiv(size(%x, 0), BN)\n"
    "    }\n"
    "{\n"
    "  %r = program_id(0) * BN\n"
    "  %a = load %x[%r +: BN, 0 +: D] boundary(0)\n"
    "  store %y[%r +: BN, 0 +: D], %a * cast(%by, T) + cast(%add, T) "
    "boundary(0)\n"
    "}\n";

static tilec_context *cx;

static void make_context(void)
{
    ck_assert_int_eq(tilec_context_new(NULL, &cx), TILEC_OK);
}

static void free_context(void)
{
    tilec_context_free(cx);
}

static tilec_status compile_text(tilec_context *c, const char *text,
                                 const char *const *bindings, size_t n,
                                 tilec_kernel **out)
{
    tilec_source source = {"test.tile", text, 0};
    tilec_binding b[8];
    for (size_t i = 0; i < n; i++)
        b[i] = (tilec_binding){bindings[2 * i], bindings[2 * i + 1]};
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    o.bindings = b;
    o.nbindings = n;
    return tilec_compile(c, &source, 1, &o, out);
}

static tilec_kernel *scale_kernel(tilec_context *c)
{
    static const char *const b[] = {"D", "8"};
    tilec_kernel *k;
    tilec_status s = compile_text(c, scale_text, b, 1, &k);
    ck_assert_msg(s == TILEC_OK, "%s",
                  s == TILEC_OK ? "" : tilec_diagnostics(c)->message);
    return k;
}

typedef struct matrix {
    DLTensor dl;
    int64_t shape[2];
    float data[64 * 8];
} matrix;

static void fill(matrix *m, int64_t rows, float value)
{
    m->shape[0] = rows;
    m->shape[1] = 8;
    for (int64_t i = 0; i < 8 * rows; i++)
        m->data[i] = value + (float)i;
    m->dl = (DLTensor){.data = m->data,
                       .device = {kDLCPU, 0},
                       .ndim = 2,
                       .dtype = {kDLFloat, 32, 1},
                       .shape = m->shape};
}

/* ---- Contexts and facts ---- */

START_TEST(states_facts)
{
    ck_assert_str_eq(tilec_target_name(0), "cpu");
    ck_assert_ptr_null(tilec_target_name(99));
    ck_assert_ptr_nonnull(
        strstr(tilec_embedded_text("attention_fwd"), "kernel @attention_fwd"));
    ck_assert_ptr_null(tilec_embedded_text("nothing"));
    bool found = false;
    for (size_t i = 0; tilec_embedded_name(i); i++)
        found |= strcmp(tilec_embedded_name(i), "mods/masks") == 0;
    ck_assert(found);
    ck_assert_str_ne(tilec_version(), "0");
}
END_TEST

START_TEST(context_options)
{
    tilec_context *c = cx;
    tilec_context_options o = TILEC_INIT(tilec_context_options);
    o.target = "vax";
    ck_assert_int_eq(tilec_context_new(&o, &c), TILEC_USAGE);
    ck_assert_ptr_null(c);
    o.target = "cpu";
    o.size = 3;
    ck_assert_int_eq(tilec_context_new(&o, &c), TILEC_USAGE);
    ck_assert_int_eq(tilec_context_new(&o, NULL), TILEC_USAGE);
    tilec_context_free(NULL);
    /* A newer caller's struct: unknown fields must be zero. */
    struct {
        tilec_context_options o;
        int more;
    } newer = {{.size = sizeof newer}, 0};
    ck_assert_int_eq(tilec_context_new(&newer.o, &c), TILEC_OK);
    tilec_context_free(c);
    newer.more = 1;
    ck_assert_int_eq(tilec_context_new(&newer.o, &c), TILEC_USAGE);
    /* An older caller's: fields that it lacks are defaults. */
    tilec_context_options older = {.size = sizeof(size_t), .target = "vax"};
    ck_assert_int_eq(tilec_context_new(&older, &c), TILEC_OK);
    tilec_context_free(c);
}
END_TEST

/* ---- Compiles ---- */

static void expect_compile_error(const char *text, const char *const *bindings,
                                 size_t n, tilec_status status,
                                 const char *message)
{
    tilec_kernel *k = (tilec_kernel *)1;
    ck_assert_int_eq(compile_text(cx, text, bindings, n, &k), status);
    ck_assert_ptr_null(k);
    ck_assert_ptr_nonnull(tilec_diagnostics(cx));
    ck_assert_str_eq(tilec_diagnostics(cx)->message, message);
    ck_assert_uint_ge(tilec_error_count(cx), 1);
}

START_TEST(compile_refuses)
{
    tilec_kernel *k;
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    tilec_source s = {"a", scale_text, 0};
    ck_assert_int_eq(tilec_compile(NULL, &s, 1, NULL, &k), TILEC_USAGE);
    ck_assert_int_eq(tilec_compile(cx, NULL, 0, NULL, &k), TILEC_USAGE);
    ck_assert_str_eq(tilec_diagnostics(cx)->message,
                     "tilec_compile: no sources");
    o.size = 1;
    ck_assert_int_eq(tilec_compile(cx, &s, 1, &o, &k), TILEC_USAGE);
    ck_assert_str_eq(tilec_diagnostics(cx)->message,
                     "tilec_compile: options have a wrong size: use "
                     "TILEC_INIT");
    o = TILEC_INIT(tilec_compile_options);
    o.nbindings = 1;
    ck_assert_int_eq(tilec_compile(cx, &s, 1, &o, &k), TILEC_USAGE);
    ck_assert_str_eq(tilec_diagnostics(cx)->message,
                     "tilec_compile: bindings is NULL");
    tilec_binding b = {"D", NULL};
    o.bindings = &b;
    ck_assert_int_eq(tilec_compile(cx, &s, 1, &o, &k), TILEC_USAGE);
    ck_assert_str_eq(tilec_diagnostics(cx)->message,
                     "tilec_compile: a binding has no name or no value");
    o = TILEC_INIT(tilec_compile_options);
    o.nexamples = 1;
    ck_assert_int_eq(tilec_compile(cx, &s, 1, &o, &k), TILEC_USAGE);
    ck_assert_str_eq(tilec_diagnostics(cx)->message,
                     "tilec_compile: examples is NULL");
    o = TILEC_INIT(tilec_compile_options);
    o.target = "vax";
    ck_assert_int_eq(tilec_compile(cx, &s, 1, &o, &k), TILEC_USAGE);
    ck_assert_str_eq(tilec_diagnostics(cx)->message,
                     "there is no target `vax`");
    s.name = NULL;
    ck_assert_int_eq(tilec_compile(cx, &s, 1, NULL, &k), TILEC_USAGE);
    ck_assert_str_eq(tilec_diagnostics(cx)->message, "a source has no name");
    s = (tilec_source){"attention_fwt", NULL, 0};
    ck_assert_int_eq(tilec_compile(cx, &s, 1, NULL, &k), TILEC_USAGE);
    ck_assert_str_eq(tilec_diagnostics(cx)->message,
                     "there is no embedded text `attention_fwt`; did you mean "
                     "`attention_fwd`?");
}
END_TEST

START_TEST(compile_finds_the_kernel)
{
    static const char two[] = "kernel @abc() grid(1) {}\n"
                              "kernel @xyz() grid(1) {}\n";
    expect_compile_error("func @f() {}", NULL, 0, TILEC_INPUT,
                         "there is no kernel in the text");
    expect_compile_error(two, NULL, 0, TILEC_USAGE,
                         "there are several kernels, name one: @abc, @xyz");
    tilec_source s = {"two.tile", two, 0};
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    tilec_kernel *k;
    o.kernel = "abd";
    ck_assert_int_eq(tilec_compile(cx, &s, 1, &o, &k), TILEC_USAGE);
    ck_assert_str_eq(tilec_diagnostics(cx)->message,
                     "there is no kernel @abd; did you mean @abc?");
    o.kernel = "qqqqqq";
    ck_assert_int_eq(tilec_compile(cx, &s, 1, &o, &k), TILEC_USAGE);
    ck_assert_str_eq(tilec_diagnostics(cx)->message,
                     "there is no kernel @qqqqqq, only @abc, @xyz");
    o.kernel = "xyz";
    ck_assert_int_eq(tilec_compile(cx, &s, 1, &o, &k), TILEC_OK);
    ck_assert_str_eq(tilec_kernel_name(k), "xyz");
    tilec_kernel_free(k);
}
END_TEST

START_TEST(diagnostics_are_located_and_start_afresh)
{
    tilec_kernel *k;
    ck_assert_int_eq(compile_text(cx, "kernel @a() grid(1) {\n  %x = nope\n}\n",
                                  NULL, 0, &k),
                     TILEC_INPUT);
    const tilec_diagnostic *d = tilec_diagnostics(cx);
    ck_assert_ptr_nonnull(d);
    ck_assert_int_eq(d->severity, TILEC_ERROR);
    ck_assert_str_eq(d->file, "test.tile");
    ck_assert_uint_eq(d->line, 2);
    ck_assert_uint_eq(d->column, 8);
    ck_assert_str_eq(d->source, "  %x = nope");
    k = scale_kernel(cx);
    ck_assert_ptr_null(tilec_diagnostics(cx));
    ck_assert_uint_eq(tilec_error_count(cx), 0);
    tilec_kernel_free(k);
}
END_TEST

START_TEST(mods_are_linked_by_name)
{
    static const char text[] =
        "kernel @k[m: func(i32, i32, i32, i32) -> i1](%y: tensor<[?] x i32>)\n"
        "    grid(1) {\n"
        "  %i = range(8)\n"
        "  %see = m(0, 0, %i, 3)\n"
        "  store %y[0 +: 8], cast(%see, i32) boundary(0)\n"
        "}\n";
    tilec_kernel *k;
    static const char *const b[] = {"m", "@prefix_lm"};
    tilec_status s = compile_text(cx, text, b, 1, &k);
    ck_assert_msg(s == TILEC_OK, "%s",
                  s == TILEC_OK ? "" : tilec_diagnostics(cx)->message);
    ck_assert_uint_eq(tilec_kernel_parameter_count(k), 2);
    const tilec_parameter *p = tilec_kernel_parameter(k, 1);
    ck_assert_str_eq(p->name, "m.prefix");
    ck_assert_int_eq(p->captured, 1);
    ck_assert_int_eq(p->kind, TILEC_PARAM_INT);
    int32_t y[8];
    int64_t n = 8;
    DLTensor t = {.data = y,
                  .device = {kDLCPU, 0},
                  .ndim = 1,
                  .dtype = {kDLInt, 32, 1},
                  .shape = &n};
    tilec_argument args[] = {tilec_tensor(NULL, &t), tilec_int("m.prefix", 2)};
    tilec_error e;
    ck_assert_int_eq(tilec_launch(k, args, 2, NULL, &e), TILEC_OK);
    for (int i = 0; i < 8; i++)
        ck_assert_int_eq(y[i], i >= 3);
    tilec_kernel_free(k);
}
END_TEST

/* ---- Inference from examples ---- */

static tilec_status compile_like(const tilec_argument *examples, size_t n,
                                 const char *const *bindings, size_t nb,
                                 tilec_kernel **k)
{
    tilec_source s = {"test.tile", scale_text, 0};
    tilec_binding b[4];
    for (size_t i = 0; i < nb; i++)
        b[i] = (tilec_binding){bindings[2 * i], bindings[2 * i + 1]};
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    o.examples = examples;
    o.nexamples = n;
    o.bindings = b;
    o.nbindings = nb;
    return tilec_compile(cx, &s, 1, &o, k);
}

START_TEST(infers_from_examples)
{
    matrix x, y;
    fill(&x, 3, 0);
    fill(&y, 5, 0);
    tilec_kernel *k;
    tilec_argument args[] = {tilec_tensor("x", &x.dl),
                             tilec_tensor("y", &y.dl)};
    ck_assert_int_eq(compile_like(args, 2, NULL, 0, &k), TILEC_OK);
    ck_assert_str_eq(tilec_kernel_binding(k, "D"), "8");
    ck_assert_str_eq(tilec_kernel_binding(k, "T"), "f32");
    ck_assert_str_eq(tilec_kernel_binding(k, "BN"), "16");
    ck_assert_ptr_null(tilec_kernel_binding(k, "DD"));
    tilec_kernel_free(k);
    y.shape[1] = 9;
    ck_assert_int_eq(compile_like(args, 2, NULL, 0, &k), TILEC_INPUT);
    ck_assert_str_eq(tilec_diagnostics(cx)->message,
                     "argument y: dim 1 is 9, but D is 8 (from x)");
    static const char *const b[] = {"D", "16"};
    ck_assert_int_eq(compile_like(args, 1, b, 1, &k), TILEC_INPUT);
    ck_assert_str_eq(tilec_diagnostics(cx)->message,
                     "argument x: dim 1 is 8, but D is 16 (as given)");
    fill(&y, 5, 0);
    y.dl.dtype.bits = 16;
    ck_assert_int_eq(compile_like(args, 2, NULL, 0, &k), TILEC_INPUT);
    ck_assert_str_eq(tilec_diagnostics(cx)->message,
                     "argument y: data type is f16, but T is f32 (from x)");
    y.dl.dtype = (DLDataType){kDLUInt, 32, 1};
    ck_assert_int_eq(compile_like(args, 2, NULL, 0, &k), TILEC_INPUT);
    ck_assert_str_eq(tilec_diagnostics(cx)->message,
                     "argument y: data type uint32 is none of tilec's");
    fill(&y, 5, 0);
    y.dl.ndim = 1;
    ck_assert_int_eq(compile_like(args, 2, NULL, 0, &k), TILEC_INPUT);
    ck_assert_str_eq(tilec_diagnostics(cx)->message,
                     "argument y: rank is 1, expected 2");
    y.dl.ndim = 2;
    y.dl.shape = NULL;
    ck_assert_int_eq(compile_like(args, 2, NULL, 0, &k), TILEC_USAGE);
    ck_assert_str_eq(tilec_diagnostics(cx)->message,
                     "argument y: shape is NULL");
}
END_TEST

/* ---- Metadata ---- */

START_TEST(describes_itself)
{
    tilec_kernel *k = scale_kernel(cx);
    ck_assert_str_eq(tilec_kernel_name(k), "scale");
    ck_assert_str_eq(tilec_kernel_target(k), "cpu");
    ck_assert_uint_eq(tilec_kernel_parameter_count(k), 4);
    const tilec_parameter *x = tilec_kernel_parameter(k, 0);
    const tilec_parameter *y = tilec_kernel_parameter(k, 1);
    ck_assert_str_eq(x->name, "x");
    ck_assert_str_eq(x->type, "tensor<[?, 8] x f32>");
    ck_assert_int_eq(x->kind, TILEC_PARAM_TENSOR);
    ck_assert_int_eq(x->ndim, 2);
    ck_assert_int_eq(x->shape[0], -1);
    ck_assert_int_eq(x->shape[1], 8);
    ck_assert_int_eq(x->written, 0);
    ck_assert_int_eq(y->written, 1);
    ck_assert_int_eq(y->captured, 0);
    ck_assert_int_eq(tilec_kernel_parameter(k, 2)->kind, TILEC_PARAM_FLOAT);
    ck_assert_int_eq(tilec_kernel_parameter(k, 3)->kind, TILEC_PARAM_INT);
    ck_assert_ptr_null(tilec_kernel_parameter(k, 4));
    ck_assert_int_eq(strncmp(tilec_kernel_grid_text(k), "grid {", 6), 0);
    ck_assert_ptr_nonnull(strstr(tilec_kernel_grid_text(k), "yield"));
    tilec_kernel_free(k);
}
END_TEST

START_TEST(emits)
{
    tilec_kernel *k = scale_kernel(cx);
    char *text;
    tilec_error e;
    ck_assert_int_eq(tilec_kernel_emit(k, "json", &text, &e), TILEC_OK);
    cJSON *j = cJSON_Parse(text);
    const cJSON *params = cJSON_GetObjectItem(j, "parameters");
    const cJSON *x = cJSON_GetArrayItem(params, 0);
    ck_assert_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(j, "name")),
                     "scale");
    ck_assert_int_eq(cJSON_GetArraySize(params), 4);
    ck_assert(
        cJSON_IsNull(cJSON_GetArrayItem(cJSON_GetObjectItem(x, "shape"), 0)));
    ck_assert_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(x, "dtype")),
                     "f32");
    cJSON_Delete(j);
    tilec_free(text);
    static const char *const kinds[] = {"tile", "llvm", "llvm-opt", "asm"};
    for (int i = 0; i < 4; i++) {
        tilec_status s = tilec_kernel_emit(k, kinds[i], &text, &e);
        ck_assert_msg(s == TILEC_OK, "%s: %s", kinds[i], e.message);
        ck_assert_uint_gt(strlen(text), 100);
        tilec_free(text);
    }
    ck_assert_int_eq(tilec_kernel_emit(k, "ptx", &text, &e), TILEC_USAGE);
    ck_assert_str_eq(e.message, "target cpu cannot emit `ptx`, only tile, "
                                "json, llvm, llvm-opt and asm");
    ck_assert_int_eq(tilec_kernel_emit(k, NULL, &text, &e), TILEC_USAGE);
    ck_assert_str_eq(e.message, "tilec_kernel_emit: an argument is NULL");
    tilec_kernel_free(k);
}
END_TEST

static void note_pass(void *user, const tilec_pass_event *event)
{
    unsigned *seen = user;
    seen[event->after]++;
    if (event->after && strcmp(event->pass, "cse") == 0)
        ck_assert_ptr_nonnull(strstr(event->text, "kernel @scale"));
    else
        ck_assert_ptr_null(event->text);
}

START_TEST(tells_of_passes)
{
    tilec_source s = {"test.tile", scale_text, 0};
    tilec_binding b = {"D", "8"};
    unsigned seen[2] = {0};
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    o.bindings = &b;
    o.nbindings = 1;
    o.on_pass = note_pass;
    o.print_after = "cse";
    o.user = seen;
    o.verify_each = 1;
    tilec_kernel *k;
    ck_assert_int_eq(tilec_compile(cx, &s, 1, &o, &k), TILEC_OK);
    ck_assert_uint_ge(seen[0], 4);
    ck_assert_uint_eq(seen[0], seen[1]);
    tilec_kernel_free(k);
}
END_TEST

/* ---- Launches ---- */

static void expect_scaled(const matrix *x, const matrix *y, float by, float add)
{
    for (int64_t i = 0; i < 8 * x->shape[0]; i++)
        ck_assert_float_eq(y->data[i], x->data[i] * by + add);
}

START_TEST(kernel_outlives_its_context)
{
    tilec_context *c;
    ck_assert_int_eq(tilec_context_new(NULL, &c), TILEC_OK);
    tilec_kernel *k = scale_kernel(c);
    tilec_context_free(c);
    matrix x, y;
    tilec_error e;
    /* Lengths other than before need no other kernel. */
    for (int64_t rows = 0; rows <= 64; rows += 13) {
        fill(&x, rows, 1);
        fill(&y, rows, 0);
        tilec_argument args[] = {tilec_tensor(NULL, &x.dl),
                                 tilec_tensor(NULL, &y.dl),
                                 tilec_int("add", -3), tilec_float("by", 2.5)};
        ck_assert_int_eq(tilec_launch(k, args, 4, NULL, &e), TILEC_OK);
        expect_scaled(&x, &y, 2.5f, -3.0f);
    }
    tilec_kernel_free(k);
}
END_TEST

START_TEST(grid_is_known_before_launch)
{
    tilec_kernel *k = scale_kernel(cx);
    matrix x, y;
    fill(&x, 33, 1);
    fill(&y, 33, 1);
    tilec_argument args[] = {tilec_tensor(NULL, &x.dl),
                             tilec_tensor(NULL, &y.dl), tilec_int(NULL, 1),
                             tilec_int(NULL, 1)};
    int32_t grid[3];
    tilec_error e;
    ck_assert_int_eq(tilec_kernel_grid(k, args, 4, grid, &e), TILEC_OK);
    ck_assert_int_eq(grid[0], 3);
    ck_assert_int_eq(grid[1], 1);
    ck_assert_int_eq(tilec_kernel_grid(k, args, 4, NULL, &e), TILEC_USAGE);
    ck_assert_str_eq(e.message, "tilec_kernel_grid: an argument is NULL");
    tilec_kernel_free(k);
}
END_TEST

/* Launches with arguments that are right but for what `spoil` does. */
struct call {
    matrix x, y;
    tilec_argument args[5];
    size_t nargs;
    tilec_launch_options options;
};

static void spoil_missing(struct call *c)
{
    c->nargs = 3;
}
static void spoil_many(struct call *c)
{
    c->nargs = 5;
    c->args[4] = c->args[3];
}
static void spoil_name(struct call *c)
{
    c->args[3].name = "ad";
}
static void spoil_twice(struct call *c)
{
    c->args[3].name = "x";
}
static void spoil_order(struct call *c)
{
    c->args[2].name = "by";
}
static void spoil_scalar_for_tensor(struct call *c)
{
    c->args[0] = tilec_int(NULL, 1);
}
static void spoil_tensor_for_float(struct call *c)
{
    c->args[2] = c->args[0];
}
static void spoil_float_for_int(struct call *c)
{
    c->args[3] = tilec_float(NULL, 1);
}
static void spoil_tensor_for_int(struct call *c)
{
    c->args[3] = c->args[0];
}
static void spoil_int_range(struct call *c)
{
    c->args[3].i = (int64_t)1 << 31;
}
static void spoil_null_tensor(struct call *c)
{
    c->args[1].tensor = NULL;
}
static void spoil_dtype(struct call *c)
{
    c->x.dl.dtype = (DLDataType){kDLBfloat, 16, 1};
}
static void spoil_lanes(struct call *c)
{
    c->x.dl.dtype.lanes = 4;
}
static void spoil_rank(struct call *c)
{
    c->x.dl.ndim = 3;
}
static void spoil_shape(struct call *c)
{
    c->x.dl.shape = NULL;
}
static void spoil_dim(struct call *c)
{
    c->x.shape[1] = 16;
}
static void spoil_negative(struct call *c)
{
    c->x.shape[0] = -1;
}
static void spoil_large(struct call *c)
{
    c->x.shape[0] = (int64_t)1 << 31;
}
static int64_t far_strides[2] = {INT64_MAX / 4, 1};
static void spoil_strides(struct call *c)
{
    c->x.dl.strides = far_strides;
}
static void spoil_device(struct call *c)
{
    c->y.dl.device.device_type = kDLCUDA;
}
static void spoil_data(struct call *c)
{
    c->y.dl.data = NULL;
}
static void spoil_alignment(struct call *c)
{
    c->y.dl.byte_offset = 2;
}
static void spoil_assert(struct call *c)
{
    c->x.shape[0] = 3;
}
static void spoil_stream(struct call *c)
{
    c->options.stream = c;
}
static void spoil_threads(struct call *c)
{
    c->options.threads = -1;
}
static void spoil_every(struct call *c)
{
    c->options.every = -1;
}
static void spoil_size(struct call *c)
{
    c->options.size = 0;
}

static const struct {
    void (*spoil)(struct call *c);
    tilec_status status;
    const char *message;
} wrong_calls[] = {
    {spoil_missing, TILEC_USAGE, "argument add of @scale is missing: i32"},
    {spoil_many, TILEC_USAGE, "@scale takes 4 arguments, 5 are given"},
    {spoil_name, TILEC_USAGE,
     "@scale has no parameter `ad`; did you mean `add`?"},
    {spoil_twice, TILEC_USAGE, "argument x is given twice"},
    {spoil_order, TILEC_USAGE,
     "argument 3 has no name, but stands behind named ones"},
    {spoil_scalar_for_tensor, TILEC_INPUT,
     "argument x: is a number, expected tensor<[?, 8] x f32>"},
    {spoil_tensor_for_float, TILEC_INPUT,
     "argument by: is a tensor, expected a number (f32)"},
    {spoil_float_for_int, TILEC_INPUT,
     "argument add: is a float, expected an integer (i32)"},
    {spoil_tensor_for_int, TILEC_INPUT,
     "argument add: is a tensor, expected an integer (i32)"},
    {spoil_int_range, TILEC_INPUT,
     "argument add: 2147483648 does not fit i32 (-2147483648 to 2147483647)"},
    {spoil_null_tensor, TILEC_USAGE, "argument y: tensor is NULL"},
    {spoil_dtype, TILEC_INPUT, "argument x: data type is bf16, expected f32"},
    {spoil_lanes, TILEC_INPUT,
     "argument x: data type is float32x4, expected f32"},
    {spoil_rank, TILEC_INPUT, "argument x: rank is 3, expected 2"},
    {spoil_shape, TILEC_USAGE, "argument x: shape is NULL"},
    {spoil_dim, TILEC_INPUT, "argument x: dim 1 is 16, expected 8"},
    {spoil_negative, TILEC_INPUT,
     "argument x: dim 0 is -1, expected 0 or more"},
    {spoil_large, TILEC_INPUT,
     "argument x: dim 0 is 2147483648, expected at most 2147418112"},
    {spoil_strides, TILEC_INPUT,
     "argument x: its strides reach beyond 64-bit addresses"},
    {spoil_device, TILEC_INPUT,
     "argument y: is on DLPack device 2, expected the CPU (1)"},
    {spoil_data, TILEC_INPUT, "argument y: data is NULL, but no dim is 0"},
    {spoil_alignment, TILEC_INPUT,
     "argument y: data is not aligned to its element (4 bytes)"},
    {spoil_assert, TILEC_INPUT,
     "launch of @scale: x and y must have the same rows"},
    {spoil_stream, TILEC_USAGE, "tilec_launch: target cpu has no streams"},
    {spoil_threads, TILEC_USAGE,
     "tilec_launch: threads is -1, expected 0 or more"},
    {spoil_every, TILEC_USAGE, "tilec_launch: every is below 0"},
    {spoil_size, TILEC_USAGE,
     "tilec_launch: options have a wrong size: use TILEC_INIT"},
};

START_TEST(launch_refuses)
{
    tilec_kernel *k = scale_kernel(cx);
    struct call c = {.nargs = 4, .options = TILEC_INIT(tilec_launch_options)};
    fill(&c.x, 5, 0);
    fill(&c.y, 5, 0);
    c.args[0] = tilec_tensor(NULL, &c.x.dl);
    c.args[1] = tilec_tensor(NULL, &c.y.dl);
    c.args[2] = tilec_float(NULL, 1);
    c.args[3] = tilec_int(NULL, 1);
    tilec_error e;
    ck_assert_int_eq(tilec_launch(k, c.args, 4, &c.options, &e), TILEC_OK);
    wrong_calls[_i].spoil(&c);
    ck_assert_int_eq(tilec_launch(k, c.args, c.nargs, &c.options, &e),
                     wrong_calls[_i].status);
    ck_assert_str_eq(e.message, wrong_calls[_i].message);
    ck_assert_int_eq(e.status, wrong_calls[_i].status);
    /* Nobody need be told. */
    ck_assert_int_eq(tilec_launch(k, c.args, c.nargs, &c.options, NULL),
                     wrong_calls[_i].status);
    tilec_kernel_free(k);
}
END_TEST

START_TEST(a_sample_runs_each_nth_program_from_the_last)
{
    static const char text[] =
        "kernel @k(%x: tensor<[?] x i32>) grid(size(%x, 0)) {\n"
        "  %i = program_id(0)\n"
        "  store %x[%i +: 1], splat(1, tile<1 x i32>)\n"
        "}\n";
    tilec_kernel *k;
    ck_assert_int_eq(compile_text(cx, text, NULL, 0, &k), TILEC_OK);
    tilec_launch_options o = TILEC_INIT(tilec_launch_options);
    for (o.every = 0; o.every < 14; o.every++) {
        int32_t data[10] = {0};
        int64_t shape[1] = {10};
        DLTensor x = {.data = data,
                      .device = {kDLCPU, 0},
                      .ndim = 1,
                      .dtype = {kDLInt, 32, 1},
                      .shape = shape};
        tilec_argument arg = tilec_tensor("x", &x);
        ck_assert_int_eq(tilec_launch(k, &arg, 1, &o, NULL), TILEC_OK);
        for (int i = 0; i < 10; i++)
            ck_assert_int_eq(data[i], o.every < 2 || (9 - i) % o.every == 0);
    }
    tilec_kernel_free(k);
}
END_TEST

START_TEST(failed_assert_of_the_grid_is_located)
{
    tilec_kernel *k = scale_kernel(cx);
    matrix x, y;
    fill(&x, 2, 0);
    fill(&y, 3, 0);
    tilec_argument args[] = {tilec_tensor(NULL, &x.dl),
                             tilec_tensor(NULL, &y.dl), tilec_int(NULL, 1),
                             tilec_int(NULL, 1)};
    tilec_error e;
    ck_assert_int_eq(tilec_launch(k, args, 4, NULL, &e), TILEC_INPUT);
    ck_assert_str_eq(e.file, "test.tile");
    ck_assert_uint_eq(e.line, 4);
    ck_assert_int_eq(tilec_launch(NULL, args, 4, NULL, &e), TILEC_USAGE);
    ck_assert_str_eq(e.message, "tilec_launch: kernel or args is NULL");
    ck_assert_uint_eq(e.line, 0);
    tilec_kernel_free(k);
}
END_TEST

START_TEST(failed_assert_of_a_program_is_located)
{
    static const char text[] =
        "kernel @k(%n: i32) grid(4) {\n"
        "  assert program_id(0) != %n, \"not that one\"\n"
        "}\n";
    tilec_kernel *k;
    ck_assert_int_eq(compile_text(cx, text, NULL, 0, &k), TILEC_OK);
    tilec_argument n = tilec_int("n", 4);
    tilec_error e;
    ck_assert_int_eq(tilec_launch(k, &n, 1, NULL, &e), TILEC_OK);
    n.i = 2;
    ck_assert_int_eq(tilec_launch(k, &n, 1, NULL, &e), TILEC_INPUT);
    ck_assert_ptr_nonnull(strstr(e.message, "not that one"));
    ck_assert_uint_eq(e.line, 2);
    ck_assert_int_eq(e.program[0], 2);
    tilec_kernel_free(k);
}
END_TEST

static void collect_line(void *user, const char *line)
{
    strncat(user, line, 100);
    strncat(user, "\n", 2);
}

START_TEST(print_goes_to_the_callback)
{
    static const char text[] = "kernel @k(%n: i32) grid(1) {\n"
                               "  print \"n is\", %n\n"
                               "}\n";
    tilec_kernel *k;
    ck_assert_int_eq(compile_text(cx, text, NULL, 0, &k), TILEC_OK);
    tilec_argument n = tilec_int("n", 42);
    char out[300] = "";
    tilec_launch_options o = TILEC_INIT(tilec_launch_options);
    o.print = collect_line;
    o.user = out;
    ck_assert_int_eq(tilec_launch(k, &n, 1, &o, NULL), TILEC_OK);
    ck_assert_ptr_nonnull(strstr(out, "n is"));
    ck_assert_ptr_nonnull(strstr(out, "42"));
    ck_assert_int_eq(tilec_launch(k, &n, 1, NULL, NULL), TILEC_OK);
    tilec_kernel_free(k);
}
END_TEST

START_TEST(strides_are_taken_as_they_are)
{
    tilec_kernel *k = scale_kernel(cx);
    matrix x, y;
    fill(&x, 8, 0);
    fill(&y, 8, 0);
    int64_t across[2] = {1, 8}, back[2] = {-8, 1};
    x.dl.strides = across;
    y.dl.strides = back;
    y.dl.byte_offset = 7 * 8 * sizeof(float);
    tilec_argument args[] = {tilec_tensor(NULL, &x.dl),
                             tilec_tensor(NULL, &y.dl), tilec_int(NULL, 1),
                             tilec_int(NULL, 0)};
    tilec_error e;
    ck_assert_int_eq(tilec_launch(k, args, 4, NULL, &e), TILEC_OK);
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++)
            ck_assert_float_eq(y.data[(7 - i) * 8 + j], x.data[j * 8 + i]);
    tilec_kernel_free(k);
}
END_TEST

/* ---- Out of memory ---- */

/* Each allocation of a compile fails in turn. */
START_TEST(out_of_memory_is_a_status)
{
    static const char *const b[] = {"D", "8"};
    unsigned long n = 1;
    for (;; n += n < 400 ? 1 : n / 40) {
        tilec_kernel *k = NULL;
        cx->memory.fail_after = n;
        tilec_status s = compile_text(cx, scale_text, b, 1, &k);
        bool reached = cx->memory.fail_after == 0;
        cx->memory.fail_after = 0;
        if (!reached) {
            ck_assert_int_eq(s, TILEC_OK);
            tilec_kernel_free(k);
            break;
        }
        ck_assert_int_eq(s, TILEC_MACHINE);
        ck_assert_ptr_null(k);
        ck_assert_str_eq(tilec_diagnostics(cx)->message, "out of memory");
        ck_assert_uint_eq(tilec_error_count(cx), 1);
    }
    ck_assert_uint_gt(n, 1);
    /* The context is as good as new. */
    tilec_kernel_free(scale_kernel(cx));
}
END_TEST

/* ---- Threads ---- */

static void *launch_many(void *arg)
{
    const tilec_kernel *k = arg;
    matrix x, y;
    tilec_error e;
    for (int i = 0; i < 20; i++) {
        fill(&x, 40, (float)i);
        fill(&y, 40, 0);
        tilec_argument args[] = {tilec_tensor(NULL, &x.dl),
                                 tilec_tensor(NULL, &y.dl),
                                 tilec_float(NULL, i), tilec_int(NULL, i)};
        if (tilec_launch(k, args, 4, NULL, &e) != TILEC_OK)
            return "launch failed";
        for (int64_t j = 0; j < 320; j++)
            if (y.data[j] != x.data[j] * (float)i + (float)i)
                return "a wrong value";
        x.shape[0] = 3;
        if (tilec_launch(k, args, 4, NULL, &e) != TILEC_INPUT ||
            strcmp(e.message,
                   "launch of @scale: x and y must have the same rows") != 0)
            return "a wrong error";
        char *text;
        if (i % 10 == 0) {
            if (tilec_kernel_emit(k, "tile", &text, &e) != TILEC_OK)
                return "emit failed";
            tilec_free(text);
        }
    }
    return NULL;
}

static void *compile_some(void *arg)
{
    static const char *const b[] = {"D", "8"};
    (void)arg;
    for (int i = 0; i < 3; i++) {
        tilec_context *c;
        tilec_kernel *k, *bad;
        if (tilec_context_new(NULL, &c) != TILEC_OK)
            return "no context";
        if (compile_text(c, "kernel @bad", NULL, 0, &bad) != TILEC_INPUT ||
            !tilec_diagnostics(c))
            return "no diagnostics";
        if (compile_text(c, scale_text, b, 1, &k) != TILEC_OK)
            return "no kernel";
        tilec_context_free(c);
        void *wrong = launch_many(k);
        tilec_kernel_free(k);
        if (wrong)
            return wrong;
    }
    return NULL;
}

static void run_twice(void *(*run)(void *), void *arg)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, run, arg), 0);
    for (int i = 0; i < 2; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        ck_assert_msg(!wrong, "%s", (char *)wrong);
    }
}

START_TEST(two_contexts_on_two_threads)
{
    run_twice(compile_some, NULL);
}
END_TEST

START_TEST(one_kernel_from_two_threads)
{
    tilec_kernel *k = scale_kernel(cx);
    run_twice(launch_many, k);
    tilec_kernel_free(k);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("api");
    tcase_add_checked_fixture(t, make_context, free_context);
    tcase_set_timeout(t, 300);
    tcase_add_test(t, states_facts);
    tcase_add_test(t, context_options);
    tcase_add_test(t, compile_refuses);
    tcase_add_test(t, compile_finds_the_kernel);
    tcase_add_test(t, diagnostics_are_located_and_start_afresh);
    tcase_add_test(t, mods_are_linked_by_name);
    tcase_add_test(t, infers_from_examples);
    tcase_add_test(t, describes_itself);
    tcase_add_test(t, emits);
    tcase_add_test(t, tells_of_passes);
    tcase_add_test(t, kernel_outlives_its_context);
    tcase_add_test(t, grid_is_known_before_launch);
    tcase_add_loop_test(t, launch_refuses, 0,
                        sizeof wrong_calls / sizeof *wrong_calls);
    tcase_add_test(t, a_sample_runs_each_nth_program_from_the_last);
    tcase_add_test(t, failed_assert_of_the_grid_is_located);
    tcase_add_test(t, failed_assert_of_a_program_is_located);
    tcase_add_test(t, print_goes_to_the_callback);
    tcase_add_test(t, strides_are_taken_as_they_are);
    tcase_add_test(t, out_of_memory_is_a_status);
    tcase_add_test(t, two_contexts_on_two_threads);
    tcase_add_test(t, one_kernel_from_two_threads);
    Suite *s = suite_create("api");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
