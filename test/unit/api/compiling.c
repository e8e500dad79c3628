/* SPDX-License-Identifier: Apache-2.0
 *
 * Contexts, compiles, what a kernel says of itself.
 */
#include "test/unit/api/fixture.h"

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
    ck_assert_int_eq(api_compile_text(cx, text, bindings, n, &k), status);
    ck_assert_ptr_null(k);
    ck_assert_ptr_nonnull(tilec_diagnostics(cx));
    ck_assert_str_eq(tilec_diagnostics(cx)->message, message);
    ck_assert_uint_ge(tilec_error_count(cx), 1);
}

START_TEST(compile_refuses)
{
    tilec_kernel *k = (tilec_kernel *)cx;
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    tilec_source s = tilec_text("a", scale_text, 0);
    ck_assert_int_eq(tilec_compile(NULL, &s, 1, NULL, &k), TILEC_USAGE);
    ck_assert_ptr_null(k);
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
                     "there is no target `vax`, expected auto or one of cpu, "
                     "sm_80, sm_86, sm_89, sm_90, sm_90a");
    o = TILEC_INIT(tilec_compile_options);
    o.enforce = (tilec_enforce)(TILEC_ENFORCE_ERROR + 1);
    ck_assert_int_eq(tilec_compile(cx, &s, 1, &o, &k), TILEC_USAGE);
    ck_assert_str_eq(tilec_diagnostics(cx)->message,
                     "tilec_compile: enforce is none of tilec_enforce");
    o = TILEC_INIT(tilec_compile_options);
    o.tiles = (tilec_tiles)(TILEC_TILES_DYNAMIC + 1);
    ck_assert_int_eq(tilec_compile(cx, &s, 1, &o, &k), TILEC_USAGE);
    ck_assert_str_eq(tilec_diagnostics(cx)->message,
                     "tilec_compile: tiles is none of tilec_tiles");
    o = TILEC_INIT(tilec_compile_options);
    o.stages = 17;
    ck_assert_int_eq(tilec_compile(cx, &s, 1, &o, &k), TILEC_USAGE);
    ck_assert_str_eq(tilec_diagnostics(cx)->message,
                     "tilec_compile: expected at most 16 stages, a "
                     "ptxas_level of at most 3");
    o = TILEC_INIT(tilec_compile_options);
    tilec_source generic = tilec_text("softmax", NULL, 0);
    o.pipeline = "canonicalize";
    ck_assert_int_eq(tilec_compile(cx, &generic, 1, &o, &k), TILEC_USAGE);
    ck_assert_str_eq(tilec_diagnostics(cx)->message,
                     "pipeline: @softmax is still to be bound: expected "
                     "`bind-params` in it");
    s.name = NULL;
    ck_assert_int_eq(tilec_compile(cx, &s, 1, NULL, &k), TILEC_USAGE);
    ck_assert_str_eq(tilec_diagnostics(cx)->message, "a source has no name");
    s = tilec_text("attention_fwt", NULL, 0);
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
    tilec_source s = tilec_text("two.tile", two, 0);
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
    ck_assert_int_eq(api_compile_text(cx,
                                      "kernel @a() grid(1) {\n  %x = nope\n}\n",
                                      NULL, 0, &k),
                     TILEC_INPUT);
    const tilec_diagnostic *d = tilec_diagnostics(cx);
    ck_assert_ptr_nonnull(d);
    ck_assert_int_eq(d->severity, TILEC_ERROR);
    ck_assert_str_eq(d->file, "test.tile");
    ck_assert_uint_eq(d->line, 2);
    ck_assert_uint_eq(d->column, 8);
    ck_assert_uint_eq(d->end_column, 12);
    ck_assert_str_eq(d->source, "  %x = nope");
    k = api_scale_kernel(cx);
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
    tilec_status s = api_compile_text(cx, text, b, 1, &k);
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
    tilec_error e = TILEC_INIT(tilec_error);
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
    tilec_source s = tilec_text("test.tile", scale_text, 0);
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
    api_fill(&x, 3, 0);
    api_fill(&y, 5, 0);
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
    api_fill(&y, 5, 0);
    y.dl.dtype.bits = 16;
    ck_assert_int_eq(compile_like(args, 2, NULL, 0, &k), TILEC_INPUT);
    ck_assert_str_eq(tilec_diagnostics(cx)->message,
                     "argument y: data type is f16, but T is f32 (from x)");
    y.dl.dtype = (DLDataType){kDLUInt, 32, 1};
    ck_assert_int_eq(compile_like(args, 2, NULL, 0, &k), TILEC_INPUT);
    ck_assert_str_eq(tilec_diagnostics(cx)->message,
                     "argument y: data type is u32, but T is f32 (from x)");
    y.dl.dtype = (DLDataType){kDLUInt, 64, 1};
    ck_assert_int_eq(compile_like(args, 2, NULL, 0, &k), TILEC_INPUT);
    ck_assert_str_eq(tilec_diagnostics(cx)->message,
                     "argument y: data type uint64 is none of tilec's");
    api_fill(&y, 5, 0);
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

/* The dim that a tensor is contiguous in follows from its strides: the last of
 * those that could be it. */
START_TEST(infers_contiguous_dims)
{
    static const struct {
        int64_t shape[2], strides[2];
        const char *dim;
    } cases[] = {{{4, 8}, {8, 1}, "1"},  {{4, 8}, {1, 4}, "0"},
                 {{4, 8}, {1, 16}, "0"}, {{4, 8}, {1, 1}, "1"},
                 {{4, 1}, {1, 1}, "0"},  {{1, 4}, {1, 7}, "1"},
                 {{4, 8}, {16, 2}, "1"}};
    tilec_source s = tilec_text(
        "test.tile",
        "kernel @k[C: int = 1](%x: tensor<[?, ?] x f32, contiguous(C)>,\n"
        "                      %y: tensor<[?, ?] x f32, contiguous(C)>)\n"
        "    grid(1) { store %x[0 +: 8, 0 +: 8], 0.0 boundary(0, 1) }\n",
        0);
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t shape[] = {cases[i].shape[0], cases[i].shape[1]};
        int64_t strides[] = {cases[i].strides[0], cases[i].strides[1]};
        DLTensor x = {.ndim = 2, .shape = shape, .dtype = {kDLFloat, 32, 1}};
        DLTensor y = x;
        x.strides = strides;
        /* What the first one says holds. */
        tilec_argument args[] = {tilec_tensor("x", &x), tilec_tensor("y", &y)};
        o.examples = args;
        o.nexamples = 2;
        tilec_kernel *k;
        ck_assert_int_eq(tilec_compile(cx, &s, 1, &o, &k), TILEC_OK);
        ck_assert_str_eq(tilec_kernel_binding(k, "C"), cases[i].dim);
        ck_assert_str_eq(tilec_kernel_parameter(k, 0)->type,
                         *cases[i].dim == '1'
                             ? "tensor<[?, ?] x f32>"
                             : "tensor<[?, ?] x f32, contiguous(0)>");
        tilec_kernel_free(k);
    }
}
END_TEST

/* ---- Metadata ---- */

START_TEST(describes_itself)
{
    tilec_kernel *k = api_scale_kernel(cx);
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
    tilec_kernel *k = api_scale_kernel(cx);
    char *text;
    tilec_error e = TILEC_INIT(tilec_error);
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
    ck_assert_int_eq(tilec_kernel_emit(k, "schedule", &text, &e), TILEC_OK);
    ck_assert_str_eq(text, "@scale on cpu\n");
    tilec_free(text);
    ck_assert_int_eq(tilec_kernel_emit(k, "ptx", &text, &e), TILEC_USAGE);
    ck_assert_str_eq(e.message, "target cpu cannot emit `ptx`, only tile, "
                                "schedule, json, llvm, llvm-opt and asm");
    ck_assert_int_eq(tilec_kernel_emit(k, NULL, &text, &e), TILEC_USAGE);
    ck_assert_str_eq(e.message, "tilec_kernel_emit: an argument is NULL");
    tilec_kernel_free(k);
}
END_TEST

static const char tuned[] =
    "kernel @k[BM: int, BN: block = 8](%x: tensor<[?] x f32>)\n"
    "    tune(BM=64, 2 * 64; BN=8; warps=4, 8; tiles=none, static) grid(1) {\n"
    "}\n"
    "kernel @plain(%x: tensor<[?] x f32>) grid(1) {\n}\n";

START_TEST(lists_what_to_tune)
{
    tilec_source s = tilec_text("t.tile", tuned, 0);
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    tilec_binding bm = {"BM", "64"};
    char *text = NULL;
    o.kernel = "k";
    ck_assert_int_eq(tilec_tuning_space(cx, &s, 1, &o, &text), TILEC_OK);
    ck_assert_str_eq(text, "BM=64,128\nBN=8\nwarps=4,8\ntiles=none,static\n");
    tilec_free(text);
    o.bindings = &bm;
    o.nbindings = 1;
    o.warps = 4;
    ck_assert_int_eq(tilec_tuning_space(cx, &s, 1, &o, &text), TILEC_OK);
    ck_assert_str_eq(text, "BN=8\ntiles=none,static\n");
    tilec_free(text);
    o.target = "cpu";
    ck_assert_int_eq(tilec_tuning_space(cx, &s, 1, &o, &text), TILEC_OK);
    ck_assert_str_eq(text, "BN=8\n");
    tilec_free(text);
    o.kernel = "plain";
    ck_assert_int_eq(tilec_tuning_space(cx, &s, 1, &o, &text), TILEC_OK);
    ck_assert_str_eq(text, "");
    tilec_free(text);
    o.kernel = "none";
    ck_assert_int_eq(tilec_tuning_space(cx, &s, 1, &o, &text), TILEC_USAGE);
    ck_assert_ptr_null(text);
    ck_assert_int_eq(tilec_tuning_space(NULL, &s, 1, &o, &text), TILEC_USAGE);
    ck_assert_int_eq(tilec_tuning_space(cx, &s, 1, &o, NULL), TILEC_USAGE);
    s = tilec_text("t.tile", "kernel @k() tune(warps=64) grid(1) {\n}\n", 0);
    o.kernel = NULL;
    ck_assert_int_eq(tilec_tuning_space(cx, &s, 1, &o, &text), TILEC_INPUT);
    ck_assert_str_eq(tilec_diagnostics(cx)->message,
                     "tune: warps=64, expected 1 to 32");
}
END_TEST

START_TEST(inspects)
{
    tilec_source s = tilec_text("matmul", NULL, 0);
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    char *text = NULL;
    o.target = "sm_90a";
    ck_assert_int_eq(tilec_inspect(cx, &s, 1, &o, &text), TILEC_OK);
    ck_assert_ptr_nonnull(strstr(text, "@matmul for sm_90a: "));
    ck_assert_ptr_nonnull(strstr(text, "TMA copy"));
    tilec_free(text);
    o.target = "cpu";
    ck_assert_int_eq(tilec_inspect(cx, &s, 1, &o, &text), TILEC_USAGE);
    ck_assert_ptr_null(text);
    ck_assert_int_eq(tilec_inspect(NULL, &s, 1, &o, &text), TILEC_USAGE);
    ck_assert_int_eq(tilec_inspect(cx, &s, 1, &o, NULL), TILEC_USAGE);
    s.name = "matmull";
    ck_assert_int_eq(tilec_inspect(cx, &s, 1, &o, &text), TILEC_USAGE);
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
    tilec_source s = tilec_text("test.tile", scale_text, 0);
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

void api_compiling_tests(TCase *t)
{
    tcase_add_test(t, states_facts);
    tcase_add_test(t, context_options);
    tcase_add_test(t, compile_refuses);
    tcase_add_test(t, compile_finds_the_kernel);
    tcase_add_test(t, diagnostics_are_located_and_start_afresh);
    tcase_add_test(t, mods_are_linked_by_name);
    tcase_add_test(t, infers_from_examples);
    tcase_add_test(t, infers_contiguous_dims);
    tcase_add_test(t, describes_itself);
    tcase_add_test(t, emits);
    tcase_add_test(t, lists_what_to_tune);
    tcase_add_test(t, inspects);
    tcase_add_test(t, tells_of_passes);
}
