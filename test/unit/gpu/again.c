/* SPDX-License-Identifier: Apache-2.0
 *
 * Launches like the one before: they hand over what any other launch would, and
 * what is not like it is looked at anew.
 */
#include "lib/gpu/launch_graph_cache.h"
#include "test/unit/gpu/fixture.h"

static const char text[] =
    "kernel @again(%x: tensor<[?, ?] x f32>, %y: tensor<[?, ?] x f32>,\n"
    "    %by: f32, %n: i32)\n" SCALE_BODY;

enum { GIVEN = 4 };

/* A launch, which a test changes in one place. */
typedef struct call {
    matrix x, y;
    tilec_argument args[GIVEN];
    size_t nargs;
    tilec_launch_options options;
} call;

static void make_call(call *c)
{
    *c = (call){.nargs = GIVEN, .options = TILEC_INIT(tilec_launch_options)};
    gpu_make_matrix(&c->x, 40, 24, 0x1000);
    gpu_make_matrix(&c->y, 40, 24, 0x2000);
    const tilec_argument args[GIVEN] = {
        tilec_tensor(NULL, &c->x.dl), tilec_tensor(NULL, &c->y.dl),
        tilec_float(NULL, 2.5), tilec_int(NULL, 7)};
    memcpy(c->args, args, sizeof args);
}

static void nothing(call *c)
{
    (void)c;
}

static void move(call *c)
{
    c->x.dl.data = (void *)0x9000;
}

static void move_by_an_offset(call *c)
{
    c->y.dl.byte_offset = 64;
}

static void other_stream(call *c)
{
    c->options.stream = fake;
}

static void less_aligned(call *c)
{
    c->x.dl.data = (void *)0x1004;
}

static void fewer_rows(call *c)
{
    c->x.shape[0] = c->y.shape[0] = 17;
}

static void wider_rows(call *c)
{
    c->y.strides[0] = 32;
}

static void dense(call *c)
{
    c->x.dl.strides = NULL;
}

static void other_factor(call *c)
{
    c->args[2].f = -2.5;
}

static void other_grid(call *c)
{
    c->args[3].i = 9;
}

static void by_name(call *c)
{
    c->args[3].name = "n";
}

static void an_int_for_a_float(call *c)
{
    c->args[2] = tilec_int(NULL, 3);
}

static void rows_differ(call *c)
{
    c->y.shape[0] = 41;
}

static void no_data(call *c)
{
    c->y.dl.data = NULL;
}

static void no_tensor(call *c)
{
    c->args[1].tensor = NULL;
}

static void no_shape(call *c)
{
    c->y.dl.shape = NULL;
}

static void other_type(call *c)
{
    c->x.dl.dtype.code = kDLInt;
}

static void other_rank(call *c)
{
    c->x.dl.ndim = 1;
}

static void on_the_host(call *c)
{
    c->x.dl.device.device_type = kDLCPU;
}

static void on_two_devices(call *c)
{
    c->x.dl.device.device_id = 1;
}

static void one_too_few(call *c)
{
    c->nargs--;
}

/* By name, in another order: like itself only. */
static void all_by_name(call *c)
{
    static const char *const names[GIVEN] = {"x", "y", "by", "n"};
    tilec_argument last = c->args[GIVEN - 1];
    for (int i = 0; i < GIVEN; i++)
        c->args[i].name = names[i];
    last.name = names[GIVEN - 1];
    memmove(c->args + 1, c->args, (GIVEN - 1) * sizeof *c->args);
    c->args[0] = last;
}

static void all_by_name_moved(call *c)
{
    move(c);
    all_by_name(c);
}

static void names_exchanged(call *c)
{
    all_by_name(c);
    c->args[1].name = "y";
    c->args[2].name = "x";
}

static const struct variation {
    void (*change)(call *c);
    bool is_like; /* the unchanged one */
} variations[] = {
    {nothing, true},
    {move, true},
    {move_by_an_offset, true},
    {other_stream, true},
    {less_aligned, 0},
    {fewer_rows, 0},
    {wider_rows, 0},
    {dense, 0},
    {other_factor, 0},
    {other_grid, 0},
    {by_name, 0},
    {an_int_for_a_float, 0},
    {rows_differ, 0},
    {no_data, 0},
    {no_tensor, 0},
    {no_shape, 0},
    {other_type, 0},
    {other_rank, 0},
    {on_the_host, 0},
    {on_two_devices, 0},
    {one_too_few, 0},
    {all_by_name, 0},
    {all_by_name_moved, 0},
    {names_exchanged, 0},
};
enum { NVARIATIONS = sizeof variations / sizeof *variations };

/* What a launch came to. */
typedef struct outcome {
    tilec_status status;
    char message[480];
    unsigned grid[3];
    void *stream;
    size_t n;
    unsigned char bytes[256];
} outcome;

static outcome launch(const tilec_kernel *k, void (*change)(call *c))
{
    outcome o = {0};
    call c;
    make_call(&c);
    change(&c);
    memset(&last_error, 0, sizeof last_error);
    o.status = tilec_launch(k, c.args, c.nargs, &c.options, &last_error);
    memcpy(o.message, last_error.message, sizeof o.message);
    if (o.status == TILEC_OK) {
        memcpy(o.grid, fake->grid, sizeof o.grid);
        o.stream = fake->stream;
        o.n = fake->nbytes;
        memcpy(o.bytes, fake->bytes, o.n);
    }
    return o;
}

static void expect_sizes(void)
{
    static const unsigned char sizes[] = {8, 4, 4, 8, 8, 8, 4, 4, 8, 8, 4, 4};
    memcpy(fake->sizes, sizes, sizeof sizes);
    fake->nsizes = sizeof sizes;
}

/* Each change after each other, compared with a new kernel; and
 * after so many launches that they are graphs. */
START_TEST(no_launch_depends_on_the_one_before)
{
    expect_sizes();
    tilec_kernel *k = gpu_compile(cx, text);
    int times = _i ? 10 : 1;
    ck_assert_ptr_nonnull(fake_use(0, 1));
    for (int i = 0; i < NVARIATIONS * NVARIATIONS; i++) {
        const struct variation *before = &variations[i / NVARIATIONS];
        const struct variation *now = &variations[i % NVARIATIONS];
        tilec_kernel *fresh = gpu_compile(cx, text);
        outcome wanted = launch(fresh, now->change);
        for (int j = 0; j < times; j++)
            launch(k, before->change);
        outcome found = launch(k, now->change);
        ck_assert_msg(memcmp(&found, &wanted, sizeof found) == 0,
                      "variation %d after %d: status %d, expected %d",
                      i % NVARIATIONS, i / NVARIATIONS, found.status,
                      wanted.status);
        tilec_kernel_free(fresh);
    }
    ck_assert_int_gt(fake->graph_launches, _i ? NVARIATIONS : 0);
    tilec_kernel_free(k);
}
END_TEST

START_TEST(what_is_like_the_last_one)
{
    expect_sizes();
    tilec_kernel *k = gpu_compile(cx, text);
    call c;
    make_call(&c);
    /* Of another device too, were it current. */
    ck_assert_ptr_nonnull(fake_use(0, 1));
    ck_assert(!tc_gpu_launch_again(k, c.args, GIVEN, &c.options));
    for (int i = 0; i < NVARIATIONS; i++) {
        ck_assert_int_eq(launch(k, nothing).status, TILEC_OK);
        make_call(&c);
        variations[i].change(&c);
        ck_assert_msg(tc_gpu_launch_again(k, c.args, c.nargs, &c.options) ==
                          variations[i].is_like,
                      "variation %d", i);
    }
    ck_assert_int_eq(launch(k, nothing).status, TILEC_OK);
    make_call(&c);
    ck_assert_ptr_nonnull(fake_use(1, 1));
    ck_assert(!tc_gpu_launch_again(k, c.args, GIVEN, &c.options));
    ck_assert_ptr_nonnull(fake_use(0, 1));
    ck_assert(tc_gpu_launch_again(k, c.args, GIVEN, &c.options));
    tilec_kernel_free(k);
}
END_TEST

START_TEST(names_are_kept)
{
    expect_sizes();
    tilec_kernel *k = gpu_compile(cx, text);
    call c;
    make_call(&c);
    all_by_name_moved(&c);
    ck_assert_ptr_nonnull(fake_use(0, 1));
    ck_assert_int_eq(launch(k, all_by_name).status, TILEC_OK);
    char other[] = "x"; /* the same name elsewhere */
    c.args[1].name = other;
    ck_assert(tc_gpu_launch_again(k, c.args, c.nargs, &c.options));
    *other = 'y';
    ck_assert(!tc_gpu_launch_again(k, c.args, c.nargs, &c.options));
    tilec_kernel_free(k);
}
END_TEST

/* The usual way says why. */
START_TEST(a_refused_launch_is_not_kept)
{
    expect_sizes();
    tilec_kernel *k = gpu_compile(cx, text);
    call c;
    make_call(&c);
    ck_assert_ptr_nonnull(fake_use(0, 1));
    ck_assert_int_eq(launch(k, nothing).status, TILEC_OK);
    fake->launch = 719;
    ck_assert_int_eq(launch(k, nothing).status, TILEC_MACHINE);
    ck_assert_ptr_nonnull(strstr(last_error.message, "719"));
    fake->launch = 0;
    ck_assert(!tc_gpu_launch_again(k, c.args, GIVEN, &c.options));
    ck_assert_int_eq(launch(k, nothing).status, TILEC_OK);
    ck_assert(tc_gpu_launch_again(k, c.args, GIVEN, &c.options));
    c.options.check_memory = 1;
    ck_assert(!tc_gpu_launch_again(k, c.args, GIVEN, &c.options));
    tilec_kernel_free(k);
}
END_TEST

/* ---- Graphs ---- */

static void launch_often(const tilec_kernel *k, int n, void (*change)(call *c))
{
    for (int i = 0; i < n; i++)
        ck_assert_int_eq(launch(k, i % 2 ? change : nothing).status, TILEC_OK);
}

/* The first one is kept; seven more are launches, too. */
enum { PLAIN = 1 + 7, OFTEN = 20 };

START_TEST(many_launches_in_a_row_are_graphs)
{
    expect_sizes();
    ck_assert_ptr_nonnull(fake_use(0, 1));
    tilec_kernel *k = gpu_compile(cx, text);
    fake->made = fake->dropped = 0;
    launch_often(k, OFTEN, nothing);
    ck_assert_int_eq(fake->launches, OFTEN);
    ck_assert_int_eq(fake->graph_launches, OFTEN - PLAIN);
    ck_assert_int_eq(fake->graph_sets, 0);
    launch_often(k, OFTEN, move);
    ck_assert_int_eq(fake->graph_launches, 2 * OFTEN - PLAIN);
    ck_assert_int_eq(fake->graph_sets, OFTEN - 1);
    /* Streams that take turns run concurrently. */
    launch_often(k, OFTEN, other_stream);
    ck_assert_int_eq(fake->graph_launches, 2 * OFTEN - PLAIN + 1);
    /* Another launch, as often. */
    launch(k, fewer_rows);
    launch_often(k, OFTEN, nothing);
    ck_assert_int_eq(fake->graph_launches, 3 * OFTEN - 2 * PLAIN + 1);
    ck_assert_int_eq(fake->made, 2);
    tilec_kernel_free(k);
    ck_assert_int_eq(fake->dropped, 2);
}
END_TEST

/* In that of another stream it would wait for what that one waits for. */
static int stream;

static void one_stream(call *c)
{
    c->options.stream = (char *)fake + 16 * stream;
}

static void launch_in(const tilec_kernel *k, int which, int times)
{
    stream = which;
    for (int i = 0; i < times; i++)
        ck_assert_int_eq(launch(k, one_stream).status, TILEC_OK);
}

START_TEST(streams_get_graphs_of_their_own)
{
    enum { GRAPHS = 4, FEW = 7 };
    expect_sizes();
    ck_assert_ptr_nonnull(fake_use(0, 1));
    tilec_kernel *k = gpu_compile(cx, text);
    launch_often(k, 1, nothing);
    fake->made = fake->dropped = fake->graph_launches = 0;
    for (int i = 0; i < GRAPHS; i++)
        launch_in(k, i, OFTEN);
    ck_assert_int_eq(fake->graph_launches, GRAPHS * (OFTEN - FEW));
    ck_assert_int_eq(fake->made, 2 * GRAPHS);
    /* Those stay. */
    for (int i = 0; i < GRAPHS; i++)
        launch_in(k, i, OFTEN);
    ck_assert_int_eq(fake->graph_launches, 2 * GRAPHS * (OFTEN - FEW));
    ck_assert_int_eq(fake->made, 2 * GRAPHS);
    ck_assert_int_eq(fake->dropped, 0);
    /* One more than there is room for: after more launches each time. */
    fake->graph_launches = 0;
    launch_in(k, GRAPHS, FEW + 1);
    ck_assert_int_eq(fake->graph_launches, 1);
    launch_in(k, 0, 2 * FEW + 1);
    ck_assert_int_eq(fake->graph_launches, 1);
    launch_in(k, 0, 1);
    ck_assert_int_eq(fake->graph_launches, 2);
    ck_assert_int_eq(fake->made, 2 * (GRAPHS + 2));
    ck_assert_int_eq(fake->dropped, 4);
    tilec_kernel_free(k);
    ck_assert_int_eq(fake->dropped, 2 * (GRAPHS + 2));
}
END_TEST

/* Threads have default streams of their own by one handle. */
static void own_stream(call *c)
{
    c->options.stream = (void *)TC_CU_STREAM_PER_THREAD;
}

START_TEST(where_graphs_are_none)
{
    expect_sizes();
    ck_assert_ptr_nonnull(fake_use(0, 1));
    tilec_kernel *k = gpu_compile(cx, text);
    for (int i = 0; i < OFTEN; i++)
        launch(k, own_stream);
    ck_assert_int_eq(fake->graph_launches, 0);
    /* What is captured gets launches, and the capture goes on. */
    for (int i = 0; i < OFTEN; i++)
        launch(k, other_stream);
    ck_assert_int_eq(fake->graph_launches, OFTEN - PLAIN + 1);
    fake->capturing = 1;
    for (int i = 0; i < OFTEN; i++)
        launch(k, other_stream);
    ck_assert_int_eq(fake->graph_launches, OFTEN - PLAIN + 1);
    ck_assert_int_eq(fake->launches, 3 * OFTEN);
    ck_assert_int_eq(fake->capturing, 1);
    tilec_kernel_free(k);
}
END_TEST

/* Nor does the making of one end a capture of somebody else. */
START_TEST(graphs_beside_a_capture)
{
    expect_sizes();
    ck_assert_ptr_nonnull(fake_use(0, 1));
    tilec_kernel *k = gpu_compile(cx, text);
    launch_often(k, PLAIN, nothing);
    fake->capturing = 1;
    fake->made = 0;
    call c;
    make_call(&c);
    (void)tc_gpu_launch_again(k, c.args, GIVEN, &c.options);
    ck_assert_int_eq(fake->made, 2);
    tilec_kernel_free(k);
}
END_TEST

START_TEST(graphs_that_fail)
{
    expect_sizes();
    ck_assert_ptr_nonnull(fake_use(0, 1));
    tilec_kernel *k = gpu_compile(cx, text);
    fake->graph = 801;
    fake->made = fake->dropped = 0;
    launch_often(k, OFTEN, move);
    fake->graph = 0;
    launch_often(k, OFTEN, move);
    ck_assert_int_eq(fake->graph_launches, 0);
    ck_assert_int_eq(fake->made, 1); /* no second attempt */
    ck_assert_int_eq(fake->dropped, 1);
    tilec_kernel_free(k);
    k = gpu_compile(cx, text);
    fake->graph_set = 910;
    launch_often(k, OFTEN, move);
    ck_assert_int_eq(fake->launches, 3 * OFTEN);
    ck_assert_int_eq(fake->graph_launches, 1);
    tilec_kernel_free(k);
}
END_TEST

START_TEST(graphs_of_a_context_that_is_gone)
{
    expect_sizes();
    ck_assert_ptr_nonnull(fake_use(0, 1));
    tilec_kernel *k = gpu_compile(cx, text);
    launch_often(k, OFTEN, nothing);
    int graphs = fake->graph_launches;
    call c;
    make_call(&c);
    fake->age = 100;
    ck_assert(!tc_gpu_launch_again(k, c.args, GIVEN, &c.options));
    launch_often(k, PLAIN, nothing);
    ck_assert_int_eq(fake->graph_launches, graphs);
    fake->age = 200;
    int dropped = fake->dropped;
    tilec_kernel_free(k);
    ck_assert_int_eq(fake->dropped, dropped);
}
END_TEST

START_TEST(graphs_nobody_wants)
{
    tilec_context *c;
    tilec_context_options o = TILEC_INIT(tilec_context_options);
    o.cuda_library = FAKE_CUDA;
    o.cache_folder = folder;
    o.no_graphs = 1;
    ck_assert_int_eq(tilec_context_new(&o, &c), TILEC_OK);
    expect_sizes();
    ck_assert_ptr_nonnull(fake_use(0, 1));
    tilec_kernel *k = gpu_compile(c, text);
    launch_often(k, OFTEN, nothing);
    ck_assert_int_eq(fake->launches, OFTEN);
    ck_assert_int_eq(fake->graph_launches, 0);
    tilec_kernel_free(k);
    tilec_context_free(c);
}
END_TEST

void gpu_again_tests(TCase *t)
{
    tcase_add_test(t, many_launches_in_a_row_are_graphs);
    tcase_add_test(t, streams_get_graphs_of_their_own);
    tcase_add_test(t, where_graphs_are_none);
    tcase_add_test(t, graphs_beside_a_capture);
    tcase_add_test(t, graphs_that_fail);
    tcase_add_test(t, graphs_of_a_context_that_is_gone);
    tcase_add_test(t, graphs_nobody_wants);
    tcase_add_loop_test(t, no_launch_depends_on_the_one_before, 0, 2);
    tcase_add_test(t, what_is_like_the_last_one);
    tcase_add_test(t, names_are_kept);
    tcase_add_test(t, a_refused_launch_is_not_kept);
}
