/* SPDX-License-Identifier: Apache-2.0
 *
 * What makes the kernel slow, the gravest first: read from its loads, from what
 * the assembler said, and from remarks about the hot loop.
 */
#include "lib/inspect/collect.h"

#include "passes/analysis/axis_info.h"
#include "passes/target/machine_model.h"

#include <string.h>

typedef struct finding {
    const char *kind, *title, *why, *remedy;
    bool grave;
    tc_loc loc;
} finding;

static void write_finding(tc_collection *c, const finding *f)
{
    tc_json_writer *w = &c->w;
    tc_json_open(w, NULL, '{');
    tc_json_string(w, "kind", f->kind);
    tc_json_bool(w, "grave", f->grave);
    tc_json_string(w, "title", f->title);
    tc_json_string(w, "why", f->why);
    tc_json_string(w, "remedy", f->remedy);
    tc_inspect_place(c, f->loc);
    tc_json_close(w, '}');
}

/* ---- The assembler ---- */

static void find_spills(tc_collection *c)
{
    const tc_assembled *a = &c->assembled;
    if (!a->spill_stores && !a->spill_loads)
        return;
    finding f = {
        .kind = "spills",
        .grave = true,
        .title =
            tc_arena_printf(c->arena, "%u bytes a thread spill to local memory",
                            a->spill_stores + a->spill_loads),
        .why = tc_arena_printf(
            c->arena,
            "%u bytes of spill stores, %u of spill loads; the kernel starts "
            "with %u registers a thread: its tiles take more than there are",
            a->spill_stores, a->spill_loads, a->registers),
        .remedy = "smaller tiles, or more warps; Time, registers by line, "
                  "shows where they peak",
        .loc = c->f->loc};
    write_finding(c, &f);
}

/* ---- Loads ---- */

static const char *tensor_of(tc_collection *c, const tc_load_info *l)
{
    const tc_value *tensor = tc_accessed_tensor(l->op);
    return tensor ? tc_value_name(c->job->cx, tensor) : "a tile";
}

static bool is_large(const tc_load_info *l)
{
    return tc_type_count(l->tile) >= TC_LOAD_MIN_ELEMENTS;
}

static void find_synchronous(tc_collection *c, const tc_load_info *l)
{
    if (!l->hot || l->copying != TC_COPIED_BY_THREADS)
        return;
    finding f = {
        .kind = "synchronous-load",
        .grave = is_large(l),
        .title = tc_arena_printf(c->arena, "each step waits for the load of %s",
                                 tensor_of(c, l)),
        .why = tc_arena_printf(c->arena, "the load is synchronous: %s",
                               l->why ? l->why : "it is not copied ahead"),
        .remedy = "let the tile go to shared memory as it lies in memory "
                  "(zeros outside the tensor, 4 bytes or more side by side), "
                  "so that it is copied steps ahead",
        .loc = l->op->loc};
    write_finding(c, &f);
}

static void find_conflicts(tc_collection *c, const tc_load_info *l)
{
    const tc_buffer_access *worst = NULL;
    for (unsigned i = 0; i < l->naccesses; i++)
        if (!worst || l->accesses[i].ways > worst->ways)
            worst = &l->accesses[i];
    if (!l->hot || !worst || worst->ways < 2)
        return;
    finding f = {
        .kind = "bank-conflicts",
        .grave = worst->ways > 2,
        .title = tc_arena_printf(c->arena,
                                 "%u-way bank conflicts in the buffer of %s",
                                 worst->ways, tensor_of(c, l)),
        .why = tc_arena_printf(
            c->arena,
            "%s takes %u times as long as without them: no swizzle suits it "
            "and all else that uses the buffer",
            tc_op_name(worst->op), worst->ways),
        .remedy = "other sides of the tile, or one order of its axes for all "
                  "uses; Layouts shows the banks of each access",
        .loc = l->op->loc};
    write_finding(c, &f);
}

/* A copy of one slot is waited for before the next one starts. */
static void find_single_slot(tc_collection *c, const tc_load_info *l)
{
    if (!l->hot || l->copying == TC_COPIED_BY_THREADS || !l->alloc ||
        l->alloc->out[0]->type->slots > 1)
        return;
    finding f = {
        .kind = "stages",
        .grave = true,
        .title = tc_arena_printf(c->arena,
                                 "the buffer of %s has one stage: no copy runs "
                                 "ahead of the step that uses it",
                                 tensor_of(c, l)),
        .why = "a second copy would overwrite what the step still reads",
        .remedy = "stages(2) or more on the loop, and smaller tiles if they do "
                  "not fit into shared memory",
        .loc = l->op->loc};
    write_finding(c, &f);
}

/* ---- Remarks ---- */

/* Remarks that are findings, by words in them. */
static const struct {
    const char *kind, *words, *title, *remedy;
    bool grave, anywhere; /* also of ops outside the hot loop */
} known[] = {
    {"operand-order", "byte by byte",
     "an 8-bit operand is read byte by byte: it lies in rows, the product "
     "wants columns",
     "store the tensor with the product's K side by side (docs/fp8.md)", true,
     true},
    {"operand-order", "is transposed on the way",
     "an 8-bit operand is transposed in each step",
     "store the tensor with the product's K side by side (docs/fp8.md)", true,
     false},
    {"stages", "stages instead of",
     "fewer stages than asked for: shared memory is full",
     "smaller tiles, or fewer buffers", true, false},
    {"stages", "slots instead of",
     "fewer slots in a ring: shared memory is full",
     "smaller tiles, or fewer buffers", true, false},
    {"no-instruction", "no matrix instruction",
     "a product does not use tensor cores",
     "operands of f16, bf16 or 8 bits, or precision=tf32; sides that are "
     "multiples of 16",
     true, false},
    {"spills", "spill to memory", "accumulators take too many registers",
     "more warps, or smaller tiles", true, false},
    {"waits", "products are waited for at once",
     "each product is waited for at once",
     "let TMA fill the buffers: windows of aligned tensors", true, false},
    {"conversion", "a conversion of",
     "a tile changes its layout through shared memory in each step",
     "another order of axes, or sums along the other axis", false, false},
    {"elements", "element by element",
     "a load or store goes element by element",
     "contiguous tensors, a boundary instead of a mask", false, false},
    {"overlap", "steps do not overlap", "steps do not overlap",
     "the remedy that the remark names", false, false},
};

/* Is it the loop, or a line of an op in it? */
static bool is_in_hot_loop(const tc_collection *c, tc_loc loc)
{
    const tc_op *hot = c->seen.loop;
    if (!hot || !loc.file)
        return false;
    if (hot->loc.file == loc.file && hot->loc.line == loc.line)
        return true;
    for (unsigned i = 0; i < hot->nregions; i++)
        tc_each_nested (op, hot->regions[i])
            if (op->loc.file == loc.file && op->loc.line == loc.line)
                return true;
    return false;
}

static void find_remark(tc_collection *c, const tc_diag *d)
{
    bool counts =
        d->severity == TC_WARNING || (d->severity == TC_REMARK && d->missed);
    for (unsigned i = 0; counts && i < sizeof known / sizeof *known; i++) {
        if (!strstr(d->message, known[i].words))
            continue;
        if (!known[i].anywhere && !is_in_hot_loop(c, d->loc))
            return;
        finding f = {.kind = known[i].kind,
                     .grave = known[i].grave,
                     .title = known[i].title,
                     .why = d->message,
                     .remedy = known[i].remedy,
                     .loc = d->loc};
        write_finding(c, &f);
        return;
    }
}

/* ---- All of them ---- */

void tc_inspect_findings(tc_collection *c)
{
    tc_json_open(&c->w, "findings", '[');
    find_spills(c);
    for (const tc_load_info *l = c->seen.loads; l; l = l->next) {
        find_synchronous(c, l);
        find_conflicts(c, l);
        find_single_slot(c, l);
    }
    for (const tc_diag *d = c->job->cx->diags; d; d = d->next)
        find_remark(c, d);
    tc_json_close(&c->w, ']');
}
