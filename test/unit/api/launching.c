/* SPDX-License-Identifier: Apache-2.0
 *
 * Launches: what is refused, what is reported.
 */
#include "test/unit/api/fixture.h"

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
    tilec_kernel *k = api_scale_kernel(c);
    tilec_context_free(c);
    matrix x, y;
    tilec_error e = TILEC_INIT(tilec_error);
    /* Lengths other than before need no other kernel. */
    for (int64_t rows = 0; rows <= 64; rows += 13) {
        api_fill(&x, rows, 1);
        api_fill(&y, rows, 0);
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
    tilec_kernel *k = api_scale_kernel(cx);
    matrix x, y;
    api_fill(&x, 33, 1);
    api_fill(&y, 33, 1);
    tilec_argument args[] = {tilec_tensor(NULL, &x.dl),
                             tilec_tensor(NULL, &y.dl), tilec_int(NULL, 1),
                             tilec_int(NULL, 1)};
    int32_t grid[3];
    tilec_error e = TILEC_INIT(tilec_error);
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
     "argument 3 has no name, but comes after named ones"},
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
     "launch of @scale: x and y must have the same rows: found 3, expected 5"},
    {spoil_stream, TILEC_USAGE, "tilec_launch: target cpu has no streams"},
    {spoil_threads, TILEC_USAGE,
     "tilec_launch: threads is -1, expected 0 or more"},
    {spoil_every, TILEC_USAGE, "tilec_launch: every is below 0"},
    {spoil_size, TILEC_USAGE,
     "tilec_launch: options have a wrong size: use TILEC_INIT"},
};

/* A view of one element as more than 2^63 of them. */
START_TEST(broadcast_views)
{
    static const char text[] =
        "kernel @corner(%x: tensor<[?, ?, ?] x f32>,\n"
        "    %y: tensor<[8, 8] x f32>) grid(1) {\n"
        "  %a = load %x[size(%x, 0) - 1, size(%x, 1) - 8 +: 8,\n"
        "               size(%x, 2) - 8 +: 8]\n"
        "  store %y[0 +: 8, 0 +: 8], %a\n"
        "}\n";
    tilec_kernel *k;
    ck_assert_int_eq(api_compile_text(cx, text, NULL, 0, &k), TILEC_OK);
    float one = 2, to[64] = {0};
    int64_t far[] = {2147418112, 2147418112, 2147418112}, none[3] = {0},
            square[] = {8, 8};
    DLTensor x = {.data = &one,
                  .device = {kDLCPU, 0},
                  .ndim = 3,
                  .dtype = {kDLFloat, 32, 1},
                  .shape = far,
                  .strides = none},
             y = x;
    y.data = to;
    y.ndim = 2;
    y.shape = square;
    y.strides = NULL;
    tilec_argument args[] = {tilec_tensor(NULL, &x), tilec_tensor(NULL, &y)};
    tilec_error e = TILEC_INIT(tilec_error);
    tilec_status s = tilec_launch(k, args, 2, NULL, &e);
    ck_assert_msg(s == TILEC_OK, "%s", e.message);
    ck_assert(to[0] == 2 && to[63] == 2);
    x.strides = NULL;
    ck_assert_int_eq(tilec_launch(k, args, 2, NULL, &e), TILEC_INPUT);
    tilec_kernel_free(k);
}
END_TEST

START_TEST(launch_refuses)
{
    tilec_kernel *k = api_scale_kernel(cx);
    struct call c = {.nargs = 4, .options = TILEC_INIT(tilec_launch_options)};
    api_fill(&c.x, 5, 0);
    api_fill(&c.y, 5, 0);
    c.args[0] = tilec_tensor(NULL, &c.x.dl);
    c.args[1] = tilec_tensor(NULL, &c.y.dl);
    c.args[2] = tilec_float(NULL, 1);
    c.args[3] = tilec_int(NULL, 1);
    tilec_error e = TILEC_INIT(tilec_error);
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
    ck_assert_int_eq(api_compile_text(cx, text, NULL, 0, &k), TILEC_OK);
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
    tilec_kernel *k = api_scale_kernel(cx);
    matrix x, y;
    api_fill(&x, 2, 0);
    api_fill(&y, 3, 0);
    tilec_argument args[] = {tilec_tensor(NULL, &x.dl),
                             tilec_tensor(NULL, &y.dl), tilec_int(NULL, 1),
                             tilec_int(NULL, 1)};
    tilec_error e = TILEC_INIT(tilec_error);
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
    ck_assert_int_eq(api_compile_text(cx, text, NULL, 0, &k), TILEC_OK);
    tilec_argument n = tilec_int("n", 4);
    tilec_error e = TILEC_INIT(tilec_error);
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
    ck_assert_int_eq(api_compile_text(cx, text, NULL, 0, &k), TILEC_OK);
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
    tilec_kernel *k = api_scale_kernel(cx);
    matrix x, y;
    api_fill(&x, 8, 0);
    api_fill(&y, 8, 0);
    int64_t across[2] = {1, 8}, back[2] = {-8, 1};
    x.dl.strides = across;
    y.dl.strides = back;
    y.dl.byte_offset = 7 * 8 * sizeof(float);
    tilec_argument args[] = {tilec_tensor(NULL, &x.dl),
                             tilec_tensor(NULL, &y.dl), tilec_int(NULL, 1),
                             tilec_int(NULL, 0)};
    tilec_error e = TILEC_INIT(tilec_error);
    ck_assert_int_eq(tilec_launch(k, args, 4, NULL, &e), TILEC_OK);
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++)
            ck_assert_float_eq(y.data[(7 - i) * 8 + j], x.data[j * 8 + i]);
    tilec_kernel_free(k);
}
END_TEST

START_TEST(what_nothing_reads_may_be_left_out)
{
    static const char text[] =
        "kernel @k[ADD: int](%x: tensor<[8, 8] x f32>, %y: tensor<[8, 8] x "
        "f32>, %z: tensor<[?, ?] x f32>, %by: f32) grid {\n"
        "  assert ADD == 0 or size(%z, 0) == 8, \"z is too short\"\n"
        "  yield 1\n"
        "} {\n"
        "  %t = load %x[0 +: 8, 0 +: 8]\n"
        "  store %y[0 +: 8, 0 +: 8], %t\n"
        "  if ADD != 0 {\n"
        "    %u = load %z[0 +: 8, 0 +: 8]\n"
        "    store %y[0 +: 8, 0 +: 8], %t + %u * %by\n"
        "  }\n"
        "}\n";
    matrix x, y;
    tilec_error e = TILEC_INIT(tilec_error);
    tilec_argument args[] = {tilec_int(NULL, 0), tilec_int(NULL, 0),
                             tilec_tensor("z", &x.dl)};
    for (int add = 0; add < 2; add++) {
        tilec_source source = tilec_text("k", text, 0);
        tilec_binding b = {"ADD", add ? "1" : "0"};
        tilec_compile_options o = TILEC_INIT(tilec_compile_options);
        o.bindings = &b;
        o.nbindings = 1;
        tilec_kernel *k;
        ck_assert_int_eq(tilec_compile(cx, &source, 1, &o, &k), TILEC_OK);
        for (size_t i = 0; i < 4; i++)
            ck_assert_int_eq(tilec_kernel_parameter(k, i)->unused,
                             i >= 2 && !add);
        api_fill(&x, 8, 1);
        api_fill(&y, 8, 0);
        args[0] = tilec_tensor("x", &x.dl);
        args[1] = tilec_tensor("y", &y.dl);
        tilec_status s = tilec_launch(k, args, 2, NULL, &e);
        if (add) {
            ck_assert_str_eq(e.message, "argument z of @k is missing: "
                                        "tensor<[?, ?] x f32>");
        } else {
            ck_assert_int_eq(s, TILEC_OK);
            expect_scaled(&x, &y, 1, 0);
            /* What is given is looked at all the same. */
            ck_assert_int_eq(tilec_launch(k, args, 3, NULL, &e), TILEC_OK);
            x.dl.dtype.bits = 16;
            ck_assert_int_eq(tilec_launch(k, args, 3, NULL, &e), TILEC_INPUT);
            x.dl.dtype.bits = 32;
        }
        tilec_kernel_free(k);
    }
}
END_TEST

void api_launching_tests(TCase *t)
{
    tcase_add_test(t, what_nothing_reads_may_be_left_out);
    tcase_add_test(t, kernel_outlives_its_context);
    tcase_add_test(t, grid_is_known_before_launch);
    tcase_add_test(t, broadcast_views);
    tcase_add_loop_test(t, launch_refuses, 0,
                        sizeof wrong_calls / sizeof *wrong_calls);
    tcase_add_test(t, a_sample_runs_each_nth_program_from_the_last);
    tcase_add_test(t, failed_assert_of_the_grid_is_located);
    tcase_add_test(t, failed_assert_of_a_program_is_located);
    tcase_add_test(t, print_goes_to_the_callback);
    tcase_add_test(t, strides_are_taken_as_they_are);
}
