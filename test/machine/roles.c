/* SPDX-License-Identifier: Apache-2.0
 *
 * Loops with products of warp groups, before and after they get a producer for
 * their copies, run by the interpreter: the same bits, with 1 to 4 slots, for 0
 * to 5 steps, whenever copies complete and whichever role comes first.
 *
 * With each number of slots and steps half of the orders run, with the next
 * number the other half; with --all 1 all of them.
 *
 *   machine_roles [--only NAME] [--all 1]
 */
#include "codegen/interp/interp.h"
#include "passes/passes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 5, MOST_STAGES = 4, SIDE = 64, TILES = 3, PROGRAMS = 2 };

/* What the bodies share: %n rows of b and c in blocks of 64, %tiles blocks of q
 * and o, %zero, %x (a tile for the left side). */
#define HEAD                                                                   \
    "kernel @k(%q: tensor<[?, 64] x bf16>, %b: tensor<[?, 64] x bf16>,\n"      \
    "          %c: tensor<[?, 64] x bf16>, %pages: tensor<[?] x i32>,\n"       \
    "          %list: ptr<i32>, %o: tensor<[?, 64] x f32>, %n: i32)\n"         \
    "    aligned(0, 1, 2) warps(4) grid { yield 2 } {\n"                       \
    "  %tiles = size(%q, 0) / 64\n"                                            \
    "  %pid = program_id(0)\n"                                                 \
    "  %m0 = %pid * 64\n"                                                      \
    "  %z = const 0.0 : f32\n"                                                 \
    "  %zero = splat %z : tile<64x64 x f32, #wgmma(1x1)>\n"                    \
    "  %one = const 1.0 : bf16\n"                                              \
    "  %x = splat %one : tile<64x64 x bf16, #wgmma_a(1x1)>\n"                  \
    "  %steps = %n / 64\n"
/* Rows %at of a tensor go to the buffer %s. */
#define STAGE(t, at, s)                                                        \
    "  %" s "w = block %" t "[%" at " +: 64, 0 +: 64]\n"                       \
    "  %" s "t = load %" s                                                     \
    "w boundary(0) : tile<64x64 x bf16, #blocked(1x8, 4x8, 4x1)>\n"            \
    "  %" s " = smem_alloc : smem<64x64 x bf16, #swizzle128>\n"                \
    "  smem_store %" s ", %" s "t\n"
#define MMA(d, x, s, c) "  %" d " = mma %" x ", %" s ", %" c " instr(m64k16)\n"
#define STORE(at, v)                                                           \
    "  %ow" at " = block %o[%" at " +: 64, 0 +: 64]\n"                         \
    "  store %ow" at ", %" v " boundary(0)\n"
/* Two products, the second of what the first makes. */
#define CHAIN(q)                                                               \
    "%acc = for %i = 0 to %n step 64 carry(%c0 = %zero) {\n" STAGE(            \
        "b", "i", "s") STAGE("c", "i", "u")                                    \
        MMA("p", q, "s",                                                       \
            "zero") "%pc = cast %p : tile<64x64 x bf16, #wgmma(1x1)>\n"        \
                    "%pa = convert_layout %pc : tile<64x64 x bf16, "           \
                    "#wgmma_a(1x1)>\n" MMA("c1", "pa", "u",                    \
                                           "c0") "yield %c1 }\n"

static const struct loop {
    const char *name, *text;
} loops[] = {
    {"one product",
     "%acc = for %i = 0 to %n step 64 carry(%c0 = %zero) {\n" STAGE("b", "i",
                                                                    "s")
         MMA("c1", "x", "s", "c0") "yield %c1 }\n" STORE("m0", "acc")},
    {"both operands",
     "%acc = for %i = 0 to %n step 64 carry(%c0 = %zero) {\n" STAGE(
         "b", "i", "s") STAGE("c", "i", "u")
         MMA("c1", "s", "u", "c0") "yield %c1 }\n" STORE("m0", "acc")},
    {"operand before the loop",
     STAGE("q", "m0", "qs") CHAIN("qs") STORE("m0", "acc")},
    {"operand in registers",
     STAGE("q", "m0", "qs") "%qr = smem_load %qs : tile<64x64 x bf16, "
                            "#wgmma_a(1x1)>\n" CHAIN("qr") STORE("m0", "acc")},
    {"tiles in turn", "for %tile = %pid to %tiles step 2 {\n"
                      "%at = %tile * 64\n" STAGE("q", "at", "qs") CHAIN("qs")
                          STORE("at", "acc") "}\n"},
    {"places that take divisions",
     "%two = %tiles - 1\n"
     "for %tile = %pid to %tiles step 2 {\n"
     "%zh = %tile / %two\n"
     "%low = %tile - %zh * %two\n"
     "%high = %zh / %two\n"
     "%mid = %zh - %high * %two\n"
     "%at = ((%high * %two + %mid) * %two + %low) * 64\n"
     "%from = %low * 64\n" STAGE(
         "q", "at",
         "qs") "%qr = smem_load %qs : tile<64x64 x bf16, #wgmma_a(1x1)>\n"
               "%acc = for %i = %from to %n step 64 carry(%c0 = %zero) "
               "{\n" STAGE("b", "i", "s")
                   MMA("c1", "qr", "s",
                       "c0") "yield %c1 }\n" STORE("at", "acc") "}\n"},
    {"fetched tiles",
     "%last = while carry(%tile = %pid) {\n"
     "%more = cmp %tile, %tiles pred(lt)\n"
     "condition %more\n"
     "} do {\n"
     "%at = %tile * 64\n" STAGE(
         "q", "at",
         "qs") "%qr = smem_load %qs : tile<64x64 x bf16, #wgmma_a(1x1)>\n"
               "%next = next_tile %tiles\n" CHAIN("qr")
                   STORE("at", "acc") "yield %next }\n"
                                      "end_tiles\n"},
    {"fetched, at once used",
     "%last = while carry(%tile = %pid) {\n"
     "%more = cmp %tile, %tiles pred(lt)\n"
     "condition %more\n"
     "} do {\n"
     "%at = %tile * 64\n"
     "%next = next_tile %tiles\n"
     "%one.more = %next + 1\n"
     "%less = %one.more - 1\n" STAGE("q", "at", "qs") CHAIN("qs")
         STORE("at", "acc") "yield %less }\n"
                            "end_tiles\n"},
    {"branch", "%acc = for %i = 0 to %n step 64 carry(%c0 = %zero) {\n" STAGE(
                   "b", "i", "s") "%step = %i / 64\n"
                                  "%page = gather %pages, %step : i32\n"
                                  "%some = cmp %page, 3 pred(lt)\n"
                                  "%c2 = if %some {\n" MMA(
                                      "c1", "x", "s",
                                      "c0") "yield %c1 }\n"
                                            "else { yield %c0 }\n"
                                            "yield %c2 }\n" STORE("m0", "acc")},
    {"page table",
     "%acc = for %i = 0 to %steps carry(%c0 = %zero) {\n"
     "%page = gather %pages, %i : i32\n"
     "%at = %page * 64\n" STAGE("b", "at", "s")
         MMA("c1", "x", "s", "c0") "yield %c1 }\n" STORE("m0", "acc")},
    {"linked list",
     "%acc, %end = for %i = 0 to %steps carry(%c0 = %zero, %page = 0) {\n"
     "%at = %page * 64\n" STAGE("b", "at", "s")
         MMA("c1", "x", "s", "c0") "%page1 = gather %pages, %page : i32\n"
                                   "yield %c1, %page1 }\n" STORE("m0", "acc")},
    {"length from memory",
     "%lp = ptr_add %list, %pid\n"
     "%length = load %lp : i32\n"
     "%steps1 = min %steps, %length\n"
     "%acc = for %i = 0 to %steps1 carry(%c0 = %zero) {\n"
     "%at = %i * 64\n" STAGE("b", "at", "s")
         MMA("c1", "x", "s", "c0") "yield %c1 }\n" STORE("m0", "acc")},
    {"two loops",
     "%acc0 = for %i = 0 to %n step 64 carry(%c0 = %zero) {\n" STAGE("b", "i",
                                                                     "s")
         MMA("c1", "x", "s", "c0") "yield %c1 }\n"
                                   "%acc = for %i = 0 to %n step 64 carry(%c0 "
                                   "= %acc0) {\n" STAGE("c", "i", "s")
                                       MMA("c1", "x", "s",
                                           "c0") "yield %c1 }\n" STORE("m0",
                                                                       "acc")},
    {"three levels",
     "%acc = for %r = 0 to 2 carry(%a0 = %zero) {\n"
     "%a1 = for %h = 0 to %steps carry(%b0 = %a0) {\n"
     "%hat = %h * 64\n" STAGE(
         "q", "hat",
         "qs") "%b1 = for %i = 0 to %n step 128 carry(%c0 = %b0) {\n" STAGE("b",
                                                                            "i",
                                                                            "s")
         MMA("c1", "qs", "s", "c0") "yield %c1 }\n"
                                    "yield %b1 }\n"
                                    "yield %a1 }\n" STORE("m0", "acc")},
    {"a load that stays",
     "%acc = for %i = 0 to %n step 64 carry(%c0 = %zero) {\n" STAGE("b", "i",
                                                                    "s")
         MMA("c1", "x", "s", "c0") "%some = cmp %i, 64 pred(ge)\n"
                                   "%c3 = if %some {\n" STAGE("c", "i", "u")
                                       MMA("c2", "x", "u",
                                           "c1") "yield %c2 }\n"
                                                 "else { yield %c1 }\n"
                                                 "yield %c3 }\n" STORE("m0",
                                                                       "acc")},
};
enum { LOOPS = sizeof loops / sizeof *loops };

/* Small whole numbers: all sums are exact. */
static uint16_t q[TILES * SIDE * SIDE], b[(STEPS + 1) * SIDE * SIDE],
    c[(STEPS + 1) * SIDE * SIDE];
static int32_t pages[STEPS + 1];
static float out[TILES * SIDE * SIDE];

static uint16_t small_bf16(uint32_t *seed)
{
    /* -1, 0, 1 */
    static const uint16_t values[] = {0xbf80, 0x0000, 0x3f80};
    *seed = *seed * 1664525u + 1013904223u;
    return values[(*seed >> 16) % 3];
}

static void fill(void)
{
    uint32_t seed = 1;
    for (unsigned i = 0; i < sizeof q / sizeof *q; i++)
        q[i] = small_bf16(&seed);
    for (unsigned i = 0; i < sizeof b / sizeof *b; i++) {
        b[i] = small_bf16(&seed);
        c[i] = small_bf16(&seed);
    }
    for (int i = 0; i <= STEPS; i++)
        pages[i] = (5 * i + 2) % (STEPS + 1);
}

/* ---- Running ---- */

struct run {
    const struct loop *loop;
    const char *passes;
    unsigned stages;
    int steps;
    tc_interp_order order;
    uint64_t seed;
};

static void show(const struct run *r, const char *what)
{
    printf("%s, %u slots, %d steps, order %d, seed %u: %s\n", r->loop->name,
           r->stages, r->steps, (int)r->order, (unsigned)r->seed, what);
}

static void show_errors(const struct run *r, const tc_context *cx)
{
    show(r, "");
    for (const tc_diag *d = cx->diags; d; d = d->next)
        if (d->severity == TC_ERROR)
            printf("  line %u: %s\n", d->loc.line, d->message);
}

static bool interpret(const struct run *r, tc_func *f)
{
    /* Pages say where blocks are: all of b is there. */
    bool paged = strstr(r->loop->name, "page") || strstr(r->loop->name, "list");
    int rows = SIDE * r->steps, all = SIDE * (STEPS + 1);
    int32_t q_sizes[] = {TILES * SIDE, SIDE}, p_sizes[] = {STEPS + 1};
    int32_t b_sizes[] = {paged ? all : rows, SIDE}, c_sizes[] = {rows, SIDE};
    int64_t strides[] = {SIDE, 1}, p_strides[] = {1};
    uint64_t bytes[7] = {[4] = sizeof pages};
    tc_launch_arg args[] = {
        {.sizes = q_sizes, .strides = strides, .data = q},
        {.sizes = b_sizes, .strides = strides, .data = b},
        {.sizes = c_sizes, .strides = strides, .data = c},
        {.sizes = p_sizes, .strides = p_strides, .data = pages},
        {.data = pages},
        {.sizes = q_sizes, .strides = strides, .data = out},
        {.scalar = {.i = rows}}};
    tc_interp_options o = {
        .order = r->order, .seed = r->seed, .pointer_bytes = bytes};
    memset(out, 0, sizeof out);
    return tc_interp_run(f, args, &o);
}

static bool has_roles(const tc_module *m)
{
    tc_each_op (op, m->first->body)
        if (op->code == TC_WARP_GROUPS)
            return true;
    return false;
}

static bool compile_and_run(const struct run *r, tc_context *cx, tc_module *m)
{
    char text[8192];
    int n = snprintf(text, sizeof text, "%s%s}\n", HEAD, r->loop->text);
    tc_pass_options o = {.target = tc_target_get("sm_90a"),
                         .stages = r->stages,
                         .verify_each = true,
                         .round_trip = true};
    if (!tc_parse(m, tc_source_add(cx, r->loop->name, text, (size_t)n)) ||
        !tc_module_verify(m) || !tc_run_pipeline(m, r->passes, &o))
        return false;
    if (has_roles(m) != (r->stages != 0))
        return tc_error(cx, m->first->loc, "expected roles");
    return interpret(r, m->first);
}

static bool run(const struct run *r)
{
    tc_context *cx = tc_context_new();
    tc_module *volatile m = NULL;
    volatile bool ok = false;
    jmp_buf unwind;
    cx->memory.unwind = &unwind;
    if (!setjmp(unwind)) {
        m = tc_module_new(cx);
        ok = compile_and_run(r, cx, m);
        if (!ok)
            show_errors(r, cx);
    }
    tc_module_free(m);
    tc_context_free(cx);
    return ok;
}

static bool check(struct run *r, const float *want)
{
    bool right = run(r);
    if (right && memcmp(out, want, sizeof out) != 0) {
        show(r, "another result");
        right = false;
    }
    return right;
}

static bool check_loop(const struct loop *loop, int steps, bool all)
{
    static const char *const chains[] = {
        "specialize-warps,pipeline-loops,lower-conversions,cse,licm,dce,"
        "allocate-shared,insert-barriers",
        "specialize-warps,schedule-mma,overlap-mma,pipeline-loops,"
        "lower-conversions,cse,licm,dce,allocate-shared,insert-barriers"};
    static float want[TILES * SIDE * SIDE];
    struct run r = {.loop = loop,
                    .passes =
                        "lower-conversions,allocate-shared,insert-barriers",
                    .steps = steps};
    if (!run(&r))
        return false;
    memcpy(want, out, sizeof want);
    bool ok = true;
    for (r.stages = 1; r.stages <= MOST_STAGES; r.stages++)
        for (unsigned i = 0; i < TC_INTERP_ORDER_COUNT; i++) {
            if (!all && ((unsigned)steps + r.stages + i) % 2)
                continue;
            r.order = (tc_interp_order)i;
            r.seed = (uint64_t)steps * MOST_STAGES + r.stages;
            r.passes = chains[(r.stages / 2 + i / 2) % 2];
            ok &= check(&r, want);
        }
    return ok;
}

int main(int argc, char **argv)
{
    bool ok = true, all = false;
    const char *only = NULL;
    unsigned nruns = 0;
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], "--only") == 0)
            only = argv[i + 1];
        if (strcmp(argv[i], "--all") == 0)
            all = strcmp(argv[i + 1], "0") != 0;
    }
    fill();
    for (unsigned i = 0; i < LOOPS; i++) {
        if (only && strcmp(only, loops[i].name) != 0)
            continue;
        for (int steps = 0; steps <= STEPS; steps++, nruns++)
            ok &= check_loop(&loops[i], steps, all);
    }
    printf("%u loops%s\n", nruns, ok ? ", all right" : "");
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
