/* SPDX-License-Identifier: Apache-2.0
 *
 * Loops of all kinds before and after pipelining, run by the interpreter: the
 * same bits, in 1 to 5 stages, for 0 to 6 steps, whenever copies complete.
 *
 *   machine_loops [NAME]
 */
#include "codegen/interp/interp.h"
#include "passes/passes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 6, MOST_STAGES = 5, K = 32, M = 32, N = 16 };

/* What the bodies share: %n rows of b in blocks of 32, %zero, %x (a tile for
 * the left side). They define %acc. */
#define HEAD                                                                   \
    "kernel @k(%a: tensor<[?, 32] x bf16>, %b: tensor<[?, 16] x bf16>,\n"      \
    "          %pages: tensor<[?] x i32>, %list: ptr<i32>,\n"                  \
    "          %o: tensor<[32, 16] x f32>, %n: i32, %by: i32)\n"               \
    "    aligned(0, 1) warps(2) grid { yield 1 } {\n"                          \
    "  %z = const 0.0 : f32\n"                                                 \
    "  %zero = splat %z : tile<32x16 x f32, #mma(2x1)>\n"                      \
    "  %one = const 1.0 : bf16\n"                                              \
    "  %x = splat %one : tile<32x32 x bf16, #mma_a(2x1)>\n"                    \
    "  %steps = %n / 32\n"
#define TAIL                                                                   \
    "  %ow = block %o[0 +: 32, 0 +: 16]\n"                                     \
    "  store %ow, %acc\n"                                                      \
    "}\n"
#define ROWS "#blocked(1x8, 16x2, 2x1)"
/* Loads %w to the buffer %s. */
#define STAGE(w, s, how)                                                       \
    "  %" s "t = load %" w " " how " : tile<32x16 x bf16, " ROWS ">\n"         \
    "  %" s " = smem_alloc : smem<32x16 x bf16, #swizzle32>\n"                 \
    "  smem_store %" s ", %" s "t\n"
#define MMA(d, x, s, c)                                                        \
    "  %" d " = mma %" x ", %" s ", %" c " instr(m16n8k16)\n"

static const struct loop {
    const char *name, *text;
} loops[] = {
    {"plain",
     "%acc = for %i = 0 to %n step 32 carry(%c = %zero) {\n"
     "%w = block %b[%i +: 32, 0 +: 16]\n" STAGE("w", "s", "boundary(0)")
         MMA("c1", "x", "s", "c") "yield %c1 }\n"},
    {"page table", "%acc = for %i = 0 to %steps carry(%c = %zero) {\n"
                   "%p = gather %pages, %i\n"
                   "%at = %p * 32\n"
                   "%w = block %b[%at +: 32, 0 +: 16]\n" STAGE("w", "s", "")
                       MMA("c1", "x", "s", "c") "yield %c1 }\n"},
    {"page table of a page table",
     "%acc = for %i = 0 to %steps carry(%c = %zero) {\n"
     "%p = gather %pages, %i\n"
     "%q = gather %pages, %p\n"
     "%at = (%q + %p - %p) * 32\n"
     "%w = block %b[%at +: 32, 0 +: 16]\n" STAGE("w", "s", "")
         MMA("c1", "x", "s", "c") "yield %c1 }\n"},
    {"index through a pointer",
     "%acc = for %i = 0 to %steps carry(%c = %zero) {\n"
     "%at = ptr_add %list, %i\n"
     "%p = load %at : i32\n"
     "%row = %p * 32\n"
     "%w = block %b[%row +: 32, 0 +: 16]\n" STAGE("w", "s", "")
         MMA("c1", "x", "s", "c") "yield %c1 }\n"},
    {"linked list",
     "%acc, %last = for %i = 0 to %steps carry(%c = %zero, %p = 0) {\n"
     "%row = %p * 32\n"
     "%w = block %b[%row +: 32, 0 +: 16]\n" STAGE("w", "s", "")
         MMA("c1", "x", "s", "c") "%p1 = gather %pages, %p\n"
                                  "yield %c1, %p1 }\n"},
    {"moving window", "%first = block %b[0 +: 32, 0 +: 16]\n"
                      "%acc, %last = for %i = 0 to %n step 32 carry(%c = "
                      "%zero, %w = %first) {\n" STAGE("w", "s", "boundary(0)")
                          MMA("c1", "x", "s", "c") "%w1 = advance %w, 32, 0\n"
                                                   "yield %c1, %w1 }\n"},
    {"step not known",
     "%acc = for %i = 0 to %n step %by carry(%c = %zero) {\n"
     "%w = block %b[%i +: 32, 0 +: 16]\n" STAGE("w", "s", "boundary(0)")
         MMA("c1", "x", "s", "c") "yield %c1 }\n"},
    {"start not 0",
     "%lo = %n / -2\n"
     "%acc = for %i = %lo to %n step 32 carry(%c = %zero) {\n"
     "%w = block %b[%i +: 32, 0 +: 16]\n" STAGE("w", "s", "boundary(0)")
         MMA("c1", "x", "s", "c") "yield %c1 }\n"},
    {"masked pointers",
     "%r = range : tile<32 x i32, #slice(1 of 16, " ROWS ")>\n"
     "%k = range : tile<16 x i32, #slice(0 of 32, " ROWS ")>\n"
     "%r1 = expand_dims %r axis(1)\n"
     "%k1 = expand_dims %k axis(0)\n"
     "%r2 = broadcast %r1 : tile<32x16 x i32, " ROWS ">\n"
     "%k2 = broadcast %k1 : tile<32x16 x i32, " ROWS ">\n"
     "%base = base %b\n"
     "%acc = for %i = 0 to %n step 32 carry(%c = %zero) {\n"
     "%i2 = splat %i : tile<32x16 x i32, " ROWS ">\n"
     "%n2 = splat %n : tile<32x16 x i32, " ROWS ">\n"
     "%row = add %r2, %i2\n"
     "%in = cmp %row, %n2 pred(lt)\n"
     "%sixteen = const 16 : i32\n"
     "%by2 = splat %sixteen : tile<32x16 x i32, " ROWS ">\n"
     "%rows = mul %row, %by2\n"
     "%off = add %rows, %k2\n"
     "%p = splat %base : tile<32x16 x ptr<bf16>, " ROWS ">\n"
     "%w = ptr_add %p, %off\n"
     "%t = load %w, %in : tile<32x16 x bf16, " ROWS ">\n"
     "%s = smem_alloc : smem<32x16 x bf16, #swizzle32>\n"
     "smem_store %s, %t\n" MMA("c1", "x", "s", "c") "yield %c1 }\n"},
    {"two loads, the second late",
     "%acc = for %i = 0 to %n step 32 carry(%c = %zero) {\n"
     "%w = block %b[%i +: 32, 0 +: 16]\n" STAGE("w", "s", "boundary(0)") MMA(
         "c1", "x", "s", "c") "%j = %i + 7\n"
                              "%v = block %b[%j +: 32, 0 +: 16]\n" STAGE(
                                  "v", "u", "boundary(0)")
                                  MMA("c2", "x", "u", "c1") "yield %c2 }\n"},
    {"operand before the loop",
     "%qw = block %a[0 +: 32, 0 +: 32]\n"
     "%qt = load %qw boundary(0) : tile<32x32 x bf16, #blocked(1x8, 8x4, "
     "2x1)>\n"
     "%qs = smem_alloc : smem<32x32 x bf16, #swizzle64>\n"
     "smem_store %qs, %qt\n"
     "%q = smem_load %qs : tile<32x32 x bf16, #mma_a(2x1)>\n"
     "%acc = for %i = 0 to %n step 32 carry(%c = %zero) {\n"
     "%w = block %b[%i +: 32, 0 +: 16]\n" STAGE("w", "s", "boundary(0)")
         MMA("c1", "q", "s", "c") "yield %c1 }\n"},
    {"operand in shared memory",
     "%qw = block %a[0 +: 32, 0 +: 32]\n"
     "%qt = load %qw boundary(0) : tile<32x32 x bf16, #blocked(1x8, 8x4, "
     "2x1)>\n"
     "%qs = smem_alloc : smem<32x32 x bf16, #swizzle64>\n"
     "smem_store %qs, %qt\n"
     "%acc = for %i = 0 to %n step 32 carry(%c = %zero) {\n"
     "%w = block %b[%i +: 32, 0 +: 16]\n" STAGE("w", "s", "boundary(0)")
         MMA("c1", "qs", "s", "c") "yield %c1 }\n"},
    {"one loop after another",
     "%mid = for %i = 0 to %n step 32 carry(%c = %zero) {\n"
     "%w = block %b[%i +: 32, 0 +: 16]\n" STAGE("w", "s", "boundary(0)")
         MMA("c1", "x", "s",
             "c") "yield %c1 }\n"
                  "%acc = for %i = 0 to %n step 64 carry(%c = %mid) {\n"
                  "%w = block %b[%i +: 32, 0 +: 16]\n" STAGE("w", "s",
                                                             "boundary(0)")
                      MMA("c1", "x", "s", "c") "yield %c1 }\n"},
    {"a loop in a loop",
     "%acc = for %j = 0 to 2 carry(%c0 = %zero) {\n"
     "%r = %j * 3\n"
     "%qw = block %a[%r +: 32, 0 +: 32]\n"
     "%qt = load %qw boundary(0) : tile<32x32 x bf16, #blocked(1x8, 8x4, "
     "2x1)>\n"
     "%qs = smem_alloc : smem<32x32 x bf16, #swizzle64>\n"
     "smem_store %qs, %qt\n"
     "%q = smem_load %qs : tile<32x32 x bf16, #mma_a(2x1)>\n"
     "%inner = for %i = 0 to %n step 32 carry(%c = %c0) {\n"
     "%w = block %b[%i +: 32, 0 +: 16]\n" STAGE("w", "s", "boundary(0)")
         MMA("c1", "q", "s", "c") "yield %c1 }\n"
                                  "yield %inner }\n"},
    {"loads under conditions",
     "%few = %n < 100\n"
     "%acc = if %few {\n"
     "%some = for %i = 0 to %n step 32 carry(%c = %zero) {\n"
     "%w = block %b[%i +: 32, 0 +: 16]\n" STAGE("w", "s", "boundary(0)") MMA(
         "c1", "x", "s",
         "c") "%odd = %i == 32\n"
              "%c3 = if %odd {\n"
              "%v = block %b[%i +: 32, 0 +: 16]\n" STAGE("v", "u",
                                                         "boundary(0)")
                  MMA("c2", "x", "u",
                      "c1") "yield %c2 } else { yield %c1 }\n"
                            "yield %c3 }\n"
                            "yield %some } else {\n"
                            "%w = block %b[%n +: 32, 0 +: 16]\n" STAGE(
                                "w", "s", "boundary(0)")
                                MMA("c1", "x", "s", "zero") "yield %c1 }\n"},
    {"while",
     "%acc, %last = while carry(%c = %zero, %i = 0) {\n"
     "%more = %i < %n\n"
     "condition %more } do {\n"
     "%w = block %b[%i +: 32, 0 +: 16]\n" STAGE("w", "s", "boundary(0)")
         MMA("c1", "x", "s", "c") "%i1 = %i + 32\n"
                                  "yield %c1, %i1 }\n"},
    {"exchanges in the loop",
     "%acc = for %i = 0 to %n step 32 carry(%c = %zero) {\n"
     "%w = block %b[%i +: 32, 0 +: 16]\n" STAGE("w", "s", "boundary(0)") MMA(
         "c1", "x", "s",
         "c") "%top = reduce %c1 axis(0) kind(max)\n"
              "%e = expand_dims %top axis(0)\n"
              "%m = broadcast %e : tile<32x16 x f32, #mma(2x1)>\n"
              "%d = sub %c1, %m\n"
              "%u = convert_layout %d : tile<32x16 x f32, #blocked(1x4, 8x4, "
              "2x1)>\n"
              "%v = abs %u\n"
              "%c2 = convert_layout %v : tile<32x16 x f32, #mma(2x1)>\n"
              "yield %c2 }\n"},
};
enum { LOOPS = sizeof loops / sizeof *loops };

/* ---- Data ---- */

static uint16_t a[M * K], b[32 * (STEPS + 2) * N];
static int32_t pages[STEPS + 1];
static float out[M * N];

/* Whole numbers from -4 to 4, so that sums are exact. */
static uint16_t small_bf16(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    float x = (float)((int)(*seed >> 16) % 9 - 4);
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static void fill(void)
{
    uint32_t seed = 1;
    for (unsigned i = 0; i < sizeof a / sizeof *a; i++)
        a[i] = small_bf16(&seed);
    for (unsigned i = 0; i < sizeof b / sizeof *b; i++)
        b[i] = small_bf16(&seed);
    /* Another order: 2, 5, 0, 3, 6, 1, 4. */
    for (int i = 0; i <= STEPS; i++)
        pages[i] = (3 * i + 2) % (STEPS + 1);
}

/* ---- Running ---- */

struct run {
    const struct loop *loop;
    const char *passes;
    unsigned stages;
    int rows;
    tc_interp_order order;
};

static void show_errors(const struct run *r, const tc_context *cx)
{
    printf("%s, %u stages, %d rows, order %d:\n", r->loop->name, r->stages,
           r->rows, (int)r->order);
    for (const tc_diag *d = cx->diags; d; d = d->next)
        if (d->severity == TC_ERROR)
            printf("  line %u: %s\n", d->loc.line, d->message);
}

static bool interpret(const struct run *r, tc_func *f)
{
    int32_t a_sizes[] = {M, K}, b_sizes[] = {r->rows, N}, o_sizes[] = {M, N};
    int32_t p_sizes[] = {STEPS + 1};
    int64_t a_strides[] = {K, 1}, b_strides[] = {N, 1}, o_strides[] = {N, 1};
    int64_t p_strides[] = {1};
    uint64_t bytes[7] = {[3] = 4 * (uint64_t)(r->rows / 32)};
    tc_launch_arg args[] = {
        {.sizes = a_sizes, .strides = a_strides, .data = a},
        {.sizes = b_sizes, .strides = b_strides, .data = b},
        {.sizes = p_sizes, .strides = p_strides, .data = pages},
        {.data = pages},
        {.sizes = o_sizes, .strides = o_strides, .data = out},
        {.scalar = {.i = r->rows}},
        {.scalar = {.i = 32}}};
    /* Pages say where blocks are: all of b is there. */
    if (strstr(r->loop->name, "page") || strstr(r->loop->name, "pointer") ||
        strstr(r->loop->name, "list"))
        b_sizes[0] = 32 * (STEPS + 1);
    tc_interp_options o = {
        .order = r->order, .seed = 7, .pointer_bytes = bytes};
    memset(out, 0xff, sizeof out);
    return tc_interp_run(f, args, &o);
}

static unsigned count_rings(const tc_region *r)
{
    unsigned n = 0;
    tc_each_op (op, r) {
        n += op->code == TC_SMEM_ALLOC && op->out[0]->type->slots;
        for (unsigned i = 0; i < op->nregions; i++)
            n += count_rings(op->regions[i]);
    }
    return n;
}

/* All but the `while` run ahead. */
static bool check_rings(const struct run *r, const tc_module *m)
{
    bool want = r->stages > 1 && strcmp(r->loop->name, "while") != 0;
    bool have = count_rings(m->first->body) > 0;
    return want == have ||
           tc_error(m->cx, m->first->loc, have ? "a ring" : "no ring");
}

static bool compile_and_run(const struct run *r, tc_context *cx, tc_module *m)
{
    char text[8192];
    int n = snprintf(text, sizeof text, "%s%s%s", HEAD, r->loop->text, TAIL);
    tc_pass_options o = {.target = tc_target_get("sm_80"),
                         .stages = r->stages,
                         .verify_each = true,
                         .round_trip = true};
    return tc_parse(m, tc_source_add(cx, r->loop->name, text, (size_t)n)) &&
           tc_module_verify(m) && tc_run_pipeline(m, r->passes, &o) &&
           check_rings(r, m) && interpret(r, m->first);
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

static bool compare(const struct run *r, const float *want)
{
    if (memcmp(out, want, sizeof out) == 0)
        return true;
    printf("%s, %u stages, %d rows, order %d: another result\n", r->loop->name,
           r->stages, r->rows, (int)r->order);
    return false;
}

static bool check_loop(const struct loop *loop, int rows)
{
    float want[M * N];
    struct run r = {.loop = loop,
                    .passes =
                        "lower-conversions,allocate-shared,insert-barriers",
                    .rows = rows};
    if (!run(&r))
        return false;
    memcpy(want, out, sizeof want);
    bool ok = true;
    r.passes = "pipeline-loops,lower-conversions,cse,licm,dce,allocate-shared,"
               "insert-barriers";
    for (r.stages = 1; r.stages <= MOST_STAGES; r.stages++)
        for (int i = 0; i < TC_INTERP_ORDER_COUNT; i++) {
            r.order = (tc_interp_order)i;
            ok = run(&r) && compare(&r, want) && ok;
        }
    return ok;
}

int main(int argc, char **argv)
{
    bool ok = true;
    unsigned nruns = 0;
    fill();
    for (unsigned i = 0; i < LOOPS; i++) {
        if (argc > 1 && strcmp(argv[1], loops[i].name) != 0)
            continue;
        for (int steps = 0; steps <= STEPS; steps++, nruns++)
            ok &= check_loop(&loops[i], 32 * steps);
    }
    printf("%u loops%s\n", nruns, ok ? ", all right" : "");
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
