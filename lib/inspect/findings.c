/* SPDX-License-Identifier: Apache-2.0
 *
 * What makes the kernel slow, the gravest first: read from its loads, from its
 * buffers, from the modelled step, from what the assembler said, and from
 * remarks about the hot loop.
 */
#include "lib/inspect/collect.h"

#include "passes/analysis/axis_info.h"
#include "passes/analysis/roles.h"
#include "passes/profile/steady_state.h"
#include "passes/target/machine_model.h"

#include <string.h>

typedef struct finding finding;
struct finding {
    const char *kind, *title, *why, *remedy;
    bool grave;
    tc_loc loc;
    finding *next;
};

typedef struct search {
    tc_collection *c;
    finding *first, **end;
    bool stages_suffice; /* the modelled step is no shorter with one more */
} search;

static void add(search *s, finding f)
{
    finding *kept = tc_arena_new(s->c->arena, finding);
    *kept = f;
    *s->end = kept;
    s->end = &kept->next;
}

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

static const tc_diag *find_diag(const tc_collection *c, const char *words)
{
    const tc_diag *d = c->job->cx->diags;
    while (d && !strstr(d->message, words))
        d = d->next;
    return d;
}

/* ---- Registers ---- */

enum {
    /* A few bytes that are spilled once cost nothing that can be measured. */
    FEW_SPILLED_BYTES = 64,
    /* Registers by which live tiles may exceed the limit without a finding:
     * ptxas keeps part of a tile in the registers of the tile that it is
     * computed from, so that the sum of live tiles is too large. Of the kernels
     * of kernels/configs, those above this margin spill, those below do not. */
    SHARED_REGISTERS = 48
};

static const char less_registers[] =
    "smaller tiles, or more warps; Time, registers by line, shows where they "
    "peak";

static unsigned register_limit(const tc_collection *c)
{
    const tc_op *roles = tc_roles_of(c->f);
    return roles && tc_op_has_attr(roles, "registers")
               ? (unsigned)tc_op_attr(roles, "registers")->ints[1]
               : tc_max_registers(c->target, c->f->warps);
}

static void find_spills(search *s)
{
    tc_collection *c = s->c;
    const tc_assembled *a = &c->assembled;
    unsigned bytes = a->spill_stores + a->spill_loads;
    if (!bytes)
        return;
    const tc_diag *known = find_diag(c, "spill to memory");
    add(s, (finding){
               .kind = "spills",
               .grave = bytes > FEW_SPILLED_BYTES,
               .title = tc_arena_printf(
                   c->arena, "%u bytes a thread spill to local memory", bytes),
               .why = tc_arena_printf(
                   c->arena,
                   "ptxas: %u bytes of spill stores, %u of spill loads; the "
                   "kernel starts with %u registers a thread%s%s",
                   a->spill_stores, a->spill_loads, a->registers,
                   known ? "; " : ": its tiles take more than there are",
                   known ? known->message : ""),
               .remedy = less_registers,
               .loc = known ? known->loc : c->peak_place});
}

/* Without an assembler: by the layouts of tiles. */
static void estimate_spills(search *s)
{
    tc_collection *c = s->c;
    unsigned limit = register_limit(c);
    const tc_diag *known = find_diag(c, "spill to memory");
    if (known)
        add(s, (finding){.kind = "spills",
                         .grave = true,
                         .title = "accumulators take too many registers, and "
                                  "spill (an estimate: there is no ptxas)",
                         .why = known->message,
                         .remedy = less_registers,
                         .loc = known->loc});
    else if (c->peak_registers > limit + SHARED_REGISTERS)
        add(s, (finding){
                   .kind = "spills",
                   .grave = c->peak_registers > limit + limit / 2,
                   .title = "tiles take too many registers, and spill (an "
                            "estimate: there is no ptxas)",
                   .why = tc_arena_printf(
                       c->arena,
                       "by their layouts, the tiles that live at once take %u "
                       "registers of a thread, which has %u",
                       c->peak_registers, limit),
                   .remedy = less_registers,
                   .loc = c->peak_place});
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

static void find_synchronous(search *s, const tc_load_info *l)
{
    tc_collection *c = s->c;
    if (!l->hot || l->copying != TC_COPIED_BY_THREADS)
        return;
    add(s,
        (finding){
            .kind = "synchronous-load",
            .grave = is_large(l),
            .title =
                tc_arena_printf(c->arena, "each step waits for the load of %s",
                                tensor_of(c, l)),
            .why = tc_arena_printf(c->arena, "the load is synchronous: %s",
                                   l->why ? l->why : "it is not copied ahead"),
            .remedy = "let the tile go to shared memory as it lies in memory "
                      "(zeros outside the tensor, 4 bytes or more side by "
                      "side), so that it is copied steps ahead",
            .loc = l->op->loc});
}

/* ---- Buffers ---- */

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

/* The load that fills the buffer; NULL: none does. */
static const tc_load_info *filled_by(const tc_collection *c, const tc_op *alloc)
{
    for (const tc_load_info *l = c->seen.loads; l; l = l->next)
        if (l->alloc == alloc || l->moved == alloc)
            return l;
    return NULL;
}

static void list_access(tc_text *out, const tc_buffer_access *a)
{
    tc_text_printf(out, "%s%s by ", out->len ? "; " : "", tc_op_name(a->op));
    if (a->by_descriptor || a->by_matrices)
        tc_text_add(out, a->by_descriptor ? "wgmma" : "matrices");
    else
        tc_text_printf(out, "%u bytes", a->bytes);
    if (a->ways > 1)
        tc_text_printf(out, ": %u ways", a->ways);
    else
        tc_text_add(out, ": none");
}

static bool is_listed(const tc_buffer_access *all, unsigned i)
{
    for (unsigned k = 0; k < i; k++)
        if (all[k].op->code == all[i].op->code && all[k].ways == all[i].ways &&
            all[k].by_matrices == all[i].by_matrices &&
            all[k].by_descriptor == all[i].by_descriptor &&
            all[k].bytes == all[i].bytes)
            return true;
    return false;
}

/* Of a tile that is computed: by its sides. */
static const char *describe_buffer(const tc_collection *c, const tc_op *alloc)
{
    const tc_type *t = alloc->out[0]->type;
    tc_text name = {.arena = c->arena};
    tc_text_add(&name, "a computed tile, ");
    for (unsigned i = 0; i < t->rank; i++)
        tc_text_printf(&name, "%s%lld", i ? "x" : "",
                       (long long)tc_dim_value(t->dims[i]));
    tc_text_printf(&name, " x %s", tc_type_name(c->job->cx, t->elem));
    return name.data;
}

static void find_conflicts(search *s, tc_op *alloc)
{
    enum { MOST = 32 };
    tc_collection *c = s->c;
    tc_buffer_access all[MOST];
    tc_text uses = {.arena = c->arena};
    unsigned n = tc_buffer_accesses(&c->env, alloc, MOST, all), ways = 1;
    for (unsigned i = 0; i < n; i++) {
        if (all[i].ways > ways && is_in_hot_loop(c, all[i].op->loc))
            ways = all[i].ways;
        if (!is_listed(all, i))
            list_access(&uses, &all[i]);
    }
    if (ways < 2)
        return;
    const tc_load_info *l = filled_by(c, alloc);
    const char *of = l ? tensor_of(c, l) : describe_buffer(c, alloc);
    add(s,
        (finding){.kind = "bank-conflicts",
                  .grave = ways > 2,
                  .title = tc_arena_printf(
                      c->arena, "%u-way bank conflicts in the buffer of %s",
                      ways, of),
                  .why = tc_arena_printf(
                      c->arena,
                      "an access with conflicts takes as many times as long, "
                      "and no swizzle suits all uses: %s",
                      uses.data),
                  .remedy = "one order of its axes for all uses (a transposed "
                            "copy of the tensor, or 16-bit elements, which "
                            "ldmatrix and wgmma read in either order), or "
                            "other sides; Layouts shows the banks",
                  .loc = l ? l->op->loc : alloc->loc});
}

/* ---- Stages ---- */

/* Blocks that share an SM hide each other's waits. */
static bool is_alone(const tc_collection *c)
{
    const tc_op *roles = tc_roles_of(c->f);
    unsigned threads = c->threads;
    if (roles && tc_op_has_attr(roles, "registers"))
        return true; /* they are all of an SM's */
    if (2 * (c->f->shared_bytes + TC_BLOCK_RESERVE) > c->target->shared_per_sm)
        return true;
    return c->assembled.known &&
           2 * c->assembled.registers * threads > c->target->registers_per_sm;
}

static bool has_one_slot(const tc_load_info *l)
{
    return l->hot && l->copying != TC_COPIED_BY_THREADS && l->alloc &&
           l->alloc->out[0]->type->slots <= 1;
}

static const char *in_one_slot(tc_collection *c)
{
    tc_text names = {.arena = c->arena};
    for (const tc_load_info *l = c->seen.loads; l; l = l->next)
        if (has_one_slot(l))
            tc_text_printf(&names, "%s%s", names.len ? ", " : "",
                           tensor_of(c, l));
    return names.data;
}

/* Stages of the hot loop's copies: the fewest. */
static unsigned stages_of(const tc_collection *c)
{
    unsigned n = 0;
    for (const tc_load_info *l = c->seen.loads; l; l = l->next) {
        unsigned slots = l->hot && l->alloc && l->copying
                             ? l->alloc->out[0]->type->slots
                             : 0;
        if (slots && (!n || slots < n))
            n = slots;
    }
    return n ? n : 1;
}

/* Does one stage more fit? */
static const char *more_stages(tc_collection *c, const tc_steady_state *now,
                               unsigned stages)
{
    double bytes = now->copies * TC_L2_BYTES_PER_CYCLE;
    unsigned left = c->target->shared_per_block - c->f->shared_bytes;
    return bytes <= left
               ? tc_arena_printf(c->arena,
                                 "stages(%u) on the loop, or --stages %u: %.0f "
                                 "bytes of shared memory more, of %u that are "
                                 "free",
                                 stages + 1, stages + 1, bytes, left)
               : tc_arena_printf(c->arena,
                                 "smaller tiles, or fewer buffers: a stage "
                                 "takes %.0f bytes of shared memory, and %u "
                                 "are free",
                                 bytes, left);
}

/* Copies start too late if the modelled step is shorter with a stage more. */
static void find_stages(search *s)
{
    enum { LEAST_PERCENT = 10 };
    tc_collection *c = s->c;
    const char *single = in_one_slot(c);
    unsigned stages = stages_of(c);
    const tc_steady_state *now = tc_steady_state_of(c->arena, c->f, c->target);
    const tc_steady_state *more =
        now ? tc_steady_state_with(c->arena, c->f, c->target, 1) : NULL;
    if (!more) {
        if (single)
            add(s, (finding){.kind = "stages",
                             .grave = true,
                             .title = tc_arena_printf(
                                 c->arena,
                                 "one stage of %s: no copy runs ahead of the "
                                 "step that uses it",
                                 single),
                             .why = "a second copy would overwrite what the "
                                    "step still reads",
                             .remedy = "stages(2) or more on the loop, and "
                                       "smaller tiles if they do not fit",
                             .loc = c->seen.loop->loc});
        return;
    }
    double gain = 100 - 100 * more->cycles / now->cycles;
    s->stages_suffice = gain < LEAST_PERCENT;
    if (s->stages_suffice || (!single && !is_alone(c)))
        return;
    add(s, (finding){
               .kind = "stages",
               .grave = is_alone(c),
               .title = tc_arena_printf(
                   c->arena,
                   single ? "one stage of %s: no copy runs ahead of the step "
                            "that uses it"
                          : "one stage too few: each step waits for its copies",
                   single),
               .why = tc_arena_printf(
                   c->arena,
                   "modelled: a step takes %.0f cycles with %u stage%s, and "
                   "%.0f with %u; its copies take %.0f, and arrive %u later",
                   now->cycles, stages, stages == 1 ? "" : "s", more->cycles,
                   stages + 1, now->copies, TC_COPY_LATENCY_CYCLES),
               .remedy = more_stages(c, now, stages),
               .loc = c->seen.loop->loc});
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

static void find_remark(search *s, const tc_diag *d)
{
    tc_collection *c = s->c;
    bool counts =
        d->severity == TC_WARNING || (d->severity == TC_REMARK && d->missed);
    for (unsigned i = 0; counts && i < sizeof known / sizeof *known; i++) {
        if (!strstr(d->message, known[i].words))
            continue;
        if (!known[i].anywhere && !is_in_hot_loop(c, d->loc))
            return;
        bool is_small =
            s->stages_suffice && strcmp(known[i].kind, "stages") == 0;
        add(s, (finding){.kind = known[i].kind,
                         .grave = known[i].grave && !is_small,
                         .title = known[i].title,
                         .why = d->message,
                         .remedy = known[i].remedy,
                         .loc = d->loc});
        return;
    }
}

/* ---- All of them ---- */

static void find_all(search *s)
{
    tc_collection *c = s->c;
    if (c->assembled.known)
        find_spills(s);
    else
        estimate_spills(s);
    for (const tc_load_info *l = c->seen.loads; l; l = l->next)
        find_synchronous(s, l);
    tc_each_nested (op, c->f->body)
        if (op->code == TC_SMEM_ALLOC && op->out[0]->type->layout)
            find_conflicts(s, op);
    if (c->seen.loop)
        find_stages(s);
    for (const tc_diag *d = c->job->cx->diags; d; d = d->next)
        find_remark(s, d);
}

void tc_inspect_findings(tc_collection *c)
{
    search s = {.c = c};
    s.end = &s.first;
    find_all(&s);
    tc_json_open(&c->w, "findings", '[');
    for (int grave = 1; grave >= 0; grave--)
        for (const finding *f = s.first; f; f = f->next)
            if (f->grave == grave)
                write_finding(c, f);
    tc_json_close(&c->w, ']');
}
