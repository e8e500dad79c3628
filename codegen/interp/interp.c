/* SPDX-License-Identifier: Apache-2.0
 *
 * A run: values get memory, the programs of the grid run one after another,
 * each op by the function that the table gives it. All threads of a block do an
 * op together; shared.c covers the fact that they really need not: it asks for
 * a barrier between any two accesses that could collide.
 */
#include "codegen/interp/state.h"

#include <string.h>

/* ---- Findings ---- */

static bool found_before(const tc_interp *it, const tc_ifinding *f)
{
    for (unsigned i = 0; i < it->nfindings; i++)
        if (it->findings[i].fmt == f->fmt && it->findings[i].op == f->op &&
            it->findings[i].other == f->other)
            return true;
    return false;
}

bool tc_interp_find(tc_interp *it, const tc_op *op, const tc_op *other,
                    const char *note, const char *fmt, ...)
{
    tc_ifinding finding = {fmt, op, other};
    if (found_before(it, &finding))
        return true;
    it->findings[it->nfindings++] = finding;
    va_list args;
    va_start(args, fmt);
    const char *text = tc_arena_vprintf(&it->cx->diag_arena, fmt, args);
    va_end(args);
    tc_error(it->cx, op->loc, "%s: %s, in program (%d, %d, %d)", tc_op_name(op),
             text, it->program[0], it->program[1], it->program[2]);
    if (other)
        tc_note(it->cx, other->loc, "%s", note);
    return it->nfindings < it->max_findings;
}

tc_ipoison tc_interp_reason(tc_interp *it, const tc_op *op, const char *text,
                            const tc_op *other)
{
    for (unsigned i = 0; i < it->nreasons; i++) {
        const tc_ireason *r = &it->reasons[i];
        if (r->text == text && r->op == op && r->other == other)
            return (tc_ipoison)(i + 1);
    }
    if (it->nreasons == UINT16_MAX)
        return UINT16_MAX;
    if (it->nreasons == it->room_reasons) {
        unsigned room = 2 * it->room_reasons + 16;
        tc_ireason *more = tc_arena_array(&it->arena, tc_ireason, room);
        if (it->nreasons)
            memcpy(more, it->reasons, it->nreasons * sizeof *more);
        it->reasons = more;
        it->room_reasons = room;
    }
    it->reasons[it->nreasons++] = (tc_ireason){text, op, other};
    return (tc_ipoison)it->nreasons;
}

bool tc_interp_poisoned(tc_interp *it, const tc_op *op, tc_ipoison poison,
                        const char *use)
{
    const tc_ireason *r = &it->reasons[poison - 1];
    unsigned before = it->nfindings;
    bool go_on = tc_interp_find(it, op, r->op, r->text,
                                "%s comes from data that is not there", use);
    if (it->nfindings > before && r->other)
        tc_note(it->cx, r->other->loc, "this is to blame");
    return go_on;
}

bool tc_interp_decide(tc_interp *it, const tc_op *op, unsigned operand,
                      tc_inum *out)
{
    const tc_ivalue *v = tc_ivalue_of(op->in[operand]);
    *out = v->x[0];
    return !v->poison[0] ||
           tc_interp_poisoned(it, op, v->poison[0], "what decides");
}

/* ---- Values ---- */

void tc_interp_copy(tc_ivalue *to, const tc_ivalue *from)
{
    memcpy(to->x, from->x, to->n * sizeof *to->x);
    memcpy(to->poison, from->poison, to->n * sizeof *to->poison);
    to->tensor = from->tensor;
    memcpy(to->offset, from->offset, sizeof to->offset);
    memcpy(to->axis, from->axis, sizeof to->axis);
    to->at = from->at;
    to->alloc = from->alloc;
    to->product = from->product;
}

uint64_t tc_interp_random(tc_interp *it)
{
    uint64_t z = it->random += 0x9e3779b97f4a7c15u; /* splitmix64 */
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static bool make_value(tc_interp *it, tc_value *v)
{
    tc_ivalue *i = tc_arena_new(&it->arena, tc_ivalue);
    v->data = i;
    i->n = 1;
    if (v->type->kind == TC_TILE) {
        const tc_layout *l = v->type->layout;
        if (!l || tc_layout_size(l, TC_LANE) != TC_LANES ||
            tc_layout_size(l, TC_WARP) != it->nwarps)
            return tc_error(it->cx, v->loc,
                            "%s is %s, expected a layout of %u warps of 32 "
                            "lanes",
                            tc_value_name(it->cx, v),
                            tc_type_name(it->cx, v->type), it->nwarps);
        i->nregs = tc_layout_size(l, TC_REGISTER);
        i->n = i->nregs * it->nthreads;
    }
    i->x = tc_arena_array(&it->arena, tc_inum, i->n);
    i->poison = tc_arena_array(&it->arena, tc_ipoison, i->n);
    return true;
}

static bool make_region(tc_interp *it, tc_region *r)
{
    bool ok = true;
    for (unsigned i = 0; i < r->nargs; i++)
        ok &= make_value(it, r->args[i]);
    tc_each_op (op, r) {
        tc_iop *info = tc_arena_new(&it->arena, tc_iop);
        op->data = info;
        info->id = (uint16_t)++it->nops;
        it->ops[it->nops] = op;
        for (unsigned i = 0; i < op->nout; i++)
            ok &= make_value(it, op->out[i]);
        for (unsigned i = 0; i < op->nregions; i++)
            ok &= make_region(it, op->regions[i]);
    }
    return ok;
}

/* ---- Ops ---- */

static bool run_const(tc_interp *it, const tc_op *op)
{
    tc_scalar x;
    if (!tc_eval_op(op, NULL, &x))
        return tc_interp_find(it, op, NULL, NULL, "its value is not known") &&
               false;
    tc_ivalue *v = tc_ivalue_of(op->out[0]);
    if (tc_type_is_float(op->out[0]->type))
        v->x[0].f = x.f;
    else
        v->x[0].i = x.i;
    return true;
}

static bool run_program_id(tc_interp *it, const tc_op *op)
{
    const int32_t *of = op->code == TC_PROGRAM_ID ? it->program : it->grid;
    tc_ivalue_of(op->out[0])->x[0].i = of[tc_op_int(op, "axis")];
    return true;
}

/* Groups go together, as one that has all rows, or those of one of them. */
static bool run_warpgroup_row(tc_interp *it, const tc_op *op)
{
    int64_t rows = tc_op_int(op, "rows"), first = 0;
    if (it->options->group) {
        rows /= it->nwarps / 4;
        first = rows * (it->options->group - 1);
    }
    tc_ivalue_of(op->out[0])->x[0].i =
        tc_op_int(op, "last") ? first + rows - 1 : first;
    return true;
}

/* No thread of the program sees the ring; another role may go on here. */
static bool run_mark(tc_interp *it, const tc_op *op)
{
    (void)it;
    (void)op;
    return true;
}

static tc_interp_fn *const runners[TC_OPCODE_COUNT] = {
    [TC_CONST] = run_const,
    [TC_DIM] = run_const,
    [TC_PROGRAM_ID] = run_program_id,
    [TC_WARPGROUP_ROW] = run_warpgroup_row,
    [TC_NUM_PROGRAMS] = run_program_id,
    [TC_FOR] = tc_interp_for,
    [TC_IF] = tc_interp_if,
    [TC_WHILE] = tc_interp_while,
    [TC_ASSERT] = tc_interp_assert,
    [TC_ASSUME] = tc_interp_assume,
    [TC_EXIT_IF] = tc_interp_exit_if,
    [TC_PRINT] = tc_interp_print,
    [TC_SPLAT] = tc_interp_splat,
    [TC_RANGE] = tc_interp_range,
    [TC_RAMP] = tc_interp_ramp,
    [TC_EXPAND_DIMS] = tc_interp_moved,
    [TC_BROADCAST] = tc_interp_moved,
    [TC_TRANS] = tc_interp_moved,
    [TC_RESHAPE] = tc_interp_moved,
    [TC_SLICE] = tc_interp_parts,
    [TC_JOIN] = tc_interp_parts,
    [TC_INTERLEAVE] = tc_interp_parts,
    [TC_CONVERT_LAYOUT] = tc_interp_convert,
    [TC_REDUCE] = tc_interp_reduce,
    [TC_SCAN] = tc_interp_scan,
    [TC_SCAN_CARRY] = tc_interp_scan_carry,
    [TC_SIZE] = tc_interp_size,
    [TC_STRIDE] = tc_interp_size,
    [TC_BASE] = tc_interp_base,
    [TC_MAKE_TENSOR] = tc_interp_make_tensor,
    [TC_BLOCK] = tc_interp_block,
    [TC_ADVANCE] = tc_interp_advance,
    [TC_LOAD] = tc_interp_load,
    [TC_STORE] = tc_interp_store,
    [TC_GATHER] = tc_interp_gather_op,
    [TC_ATOMIC] = tc_interp_atomic,
    [TC_ATOMIC_CAS] = tc_interp_atomic,
    [TC_FOLLOW] = tc_interp_follow,
    [TC_FOLLOW_END] = tc_interp_follow,
    [TC_MMA] = tc_interp_mma,
    [TC_SMEM_ALLOC] = tc_interp_smem_alloc,
    [TC_SMEM_INDEX] = tc_interp_smem_index,
    [TC_SMEM_TRANS] = tc_interp_smem_trans,
    [TC_SMEM_RESHAPE] = tc_interp_smem_trans,
    [TC_SMEM_SLICE] = tc_interp_smem_slice,
    [TC_SMEM_LOAD] = tc_interp_smem_load,
    [TC_SMEM_TAKE] = tc_interp_smem_take,
    [TC_SMEM_COUNT] = tc_interp_smem_count,
    [TC_SMEM_STORE] = tc_interp_smem_store,
    [TC_SMEM_COPY] = tc_interp_smem_copy,
    [TC_ASYNC_COPY] = tc_interp_async_copy,
    [TC_ASYNC_COMMIT] = tc_interp_async_commit,
    [TC_ASYNC_WAIT] = tc_interp_async_wait,
    [TC_BARRIER] = tc_interp_barrier,
    [TC_MMA_WAIT] = tc_interp_mma_wait,
    [TC_WARP_GROUPS] = tc_interp_warp_groups,
    [TC_MBARRIER_ALLOC] = tc_interp_mbarrier_alloc,
    [TC_MBARRIER_WAIT] = tc_interp_mbarrier_wait,
    [TC_MBARRIER_ARRIVE] = tc_interp_mbarrier_arrive,
    [TC_TMA_LOAD] = tc_interp_tma_load,
    [TC_TMA_PREFETCH] = tc_interp_tma_prefetch,
    [TC_TMA_STORE] = tc_interp_tma_store,
    [TC_TMA_STORE_WAIT] = tc_interp_tma_store_wait,
    [TC_ORDER_WAIT] = tc_interp_turn,
    [TC_ORDER_ARRIVE] = tc_interp_turn,
    [TC_MARK] = run_mark,
    [TC_FENCE_ASYNC] = tc_interp_fence_async,
    [TC_SMEM_STORE_SCALAR] = tc_interp_smem_store_scalar,
    [TC_SMEM_LOAD_SCALAR] = tc_interp_smem_load_scalar,
    [TC_NEXT_TILE] = tc_interp_next_tile,
    [TC_END_TILES] = tc_interp_end_tiles,
};

static bool run_op(tc_interp *it, const tc_op *op)
{
    if (it->steps++ == it->max_steps)
        return tc_interp_find(it, op, NULL, NULL,
                              "no end after %llu steps: a loop that never "
                              "ends, or max_steps is too small",
                              (unsigned long long)it->max_steps) &&
               false;
    if (runners[op->code])
        return runners[op->code](it, op);
    if (tc_op_has(op, TC_ELEMENTWISE))
        return tc_interp_elementwise(it, op);
    return tc_interp_find(it, op, NULL, NULL,
                          "no op of finished machine-level IR") &&
           false;
}

bool tc_interp_step(tc_interp *it)
{
    tc_iagent *a = it->agent;
    unsigned at = a->depth - 1;
    const tc_op *op = a->frames[at].next;
    if (!tc_interp_products_ok(it, op))
        return false;
    if (tc_op_has(op, TC_TERMINATOR))
        return tc_interp_leave(it, op);
    if (!run_op(it, op))
        return false;
    if (!a->waits) /* else once more, later */
        a->frames[at].next = op->next;
    a->to_switch = tc_op_has(op, TC_READS) || tc_op_has(op, TC_WRITES);
    return true;
}

bool tc_interp_region(tc_interp *it, const tc_region *r)
{
    unsigned outer = it->agent->depth;
    tc_interp_enter(it, r);
    while (it->agent->depth > outer)
        if (!tc_interp_step(it))
            return false;
    return true;
}

/* ---- Arguments ---- */

static void set_scalar(const tc_value *v, const tc_launch_arg *arg)
{
    tc_ivalue *i = tc_ivalue_of(v);
    if (v->type->kind == TC_PTR)
        i->x[0].i = (int64_t)(intptr_t)arg->data;
    else if (v->type->kind <= TC_F64 && tc_type_is_float(v->type))
        i->x[0].f = tc_round_to(v->type->kind, arg->scalar.f);
    else if (v->type->kind <= TC_F64)
        i->x[0].i = tc_int_wrap(v->type->kind, arg->scalar.i);
}

tc_irange tc_interp_extent(const tc_type *t, const tc_launch_arg *arg)
{
    int64_t bytes = tc_type_bytes(t->elem), low = 0, high = bytes;
    for (unsigned i = 0; i < t->rank; i++) {
        if (arg->sizes[i] <= 0)
            return (tc_irange){0, 0};
        int64_t span = (arg->sizes[i] - 1) * arg->strides[i] * bytes;
        low += span < 0 ? span : 0;
        high += span > 0 ? span : 0;
    }
    uintptr_t at = (uintptr_t)arg->data;
    return (tc_irange){at + (uintptr_t)low, at + (uintptr_t)high};
}

static bool is_aligned(const tc_type *t, const tc_launch_arg *arg, bool ragged)
{
    int64_t bytes = tc_type_bytes(t->elem);
    bool ok = (uintptr_t)arg->data % 16 == 0;
    if (t->rank == 0)
        return ok;
    unsigned unit = tc_type_contiguous(t);
    ok &= arg->strides[unit] == 1 &&
          (ragged || arg->sizes[unit] * bytes % 16 == 0);
    for (unsigned i = 0; i < t->rank; i++)
        ok &= i == unit || arg->strides[i] * bytes % 16 == 0;
    return ok;
}

/* See tc_func.multiples. */
static bool are_multiples(const tc_func *f, const tc_launch_arg *args)
{
    bool ok = true;
    for (unsigned i = 0; i < f->nmultiples; i++) {
        const tc_multiple *m = &f->multiples[i];
        const tc_type *t = f->body->args[m->arg]->type;
        int64_t last = 0;
        for (unsigned k = 0; k < t->rank; k++)
            last += (args[m->arg].sizes[k] - 1) * args[m->arg].strides[k];
        ok &= args[m->arg].sizes[m->dim] % (int64_t)m->of == 0 &&
              last < INT32_MAX;
    }
    return ok;
}

static bool keeps_promise(const tc_func *f, const tc_launch_arg *args,
                          unsigned i)
{
    return !(f->aligned >> i & 1) ||
           is_aligned(f->body->args[i]->type, &args[i], f->ragged >> i & 1);
}

bool tc_interp_takes(const tc_func *kernel, const tc_launch_arg *args)
{
    bool ok = are_multiples(kernel, args);
    for (unsigned i = 0; i < kernel->body->nargs; i++)
        if (kernel->body->args[i]->type->kind == TC_TENSOR)
            ok &= keeps_promise(kernel, args, i);
    return ok;
}

static bool is_pointer_of_int(const tc_op *op)
{
    return op->code == TC_BITCAST &&
           tc_type_elem(op->out[0]->type)->kind == TC_PTR &&
           tc_type_elem(op->in[0]->type)->kind != TC_PTR;
}

static void add_tensor(tc_interp *it, unsigned number, const tc_value *v,
                       tc_launch_arg arg)
{
    it->args[number] = arg;
    it->tensors[number] = v;
    tc_ivalue_of(v)->tensor = number;
}

/* Room for the tensors that ops make, after the launch's arguments. */
static void find_tensors(tc_interp *it, const tc_launch_arg *args)
{
    const tc_region *body = it->f->body;
    unsigned n = body->nargs, most = n;
    for (unsigned i = 1; i <= it->nops; i++)
        most += it->ops[i]->code == TC_MAKE_TENSOR;
    it->args = tc_arena_array(&it->arena, tc_launch_arg, most);
    it->tensors = tc_arena_array(&it->arena, const tc_value *, most);
    for (unsigned i = 0; i < n; i++)
        add_tensor(it, i, body->args[i], args[i]);
    for (unsigned i = 1; i <= it->nops; i++)
        if (it->ops[i]->code == TC_MAKE_TENSOR)
            add_tensor(it, n++, it->ops[i]->out[0],
                       (tc_launch_arg){.sizes = tc_arena_array(
                                           &it->arena, int32_t, TC_MAX_RANK),
                                       .strides = tc_arena_array(
                                           &it->arena, int64_t, TC_MAX_RANK)});
}

static bool take_arguments(tc_interp *it)
{
    const tc_region *body = it->f->body;
    bool ok = true;
    it->pointers_checked = true;
    for (unsigned i = 1; i <= it->nops; i++)
        it->pointers_checked &= !is_pointer_of_int(it->ops[i]);
    it->ranges = tc_arena_array(&it->arena, tc_irange, body->nargs);
    for (unsigned i = 0; i < body->nargs; i++) {
        const tc_value *v = body->args[i];
        const tc_launch_arg *arg = &it->args[i];
        set_scalar(v, arg);
        if (v->type->kind == TC_TENSOR) {
            it->ranges[it->nranges++] = tc_interp_extent(v->type, arg);
            if (!keeps_promise(it->f, it->args, i))
                ok = tc_error(it->cx, v->loc,
                              "launch of @%s: %s is not aligned, as the kernel "
                              "wants it",
                              it->f->name, tc_value_name(it->cx, v));
        } else if (v->type->kind == TC_PTR) {
            const uint64_t *extents = it->options->pointer_bytes;
            uintptr_t at = (uintptr_t)arg->data;
            it->pointers_checked &= extents != NULL;
            if (extents)
                it->ranges[it->nranges++] = (tc_irange){at, at + extents[i]};
        }
    }
    return ok;
}

/* ---- Programs ---- */

static bool run_program(tc_interp *it, int64_t index)
{
    tc_interp_programs_enter(it, (uint32_t)index);
    it->program[0] = (int32_t)(index % it->grid[0]);
    index /= it->grid[0];
    it->program[1] = (int32_t)(index % it->grid[1]);
    it->program[2] = (int32_t)(index / it->grid[1]);
    it->steps = 0;
    it->epoch = 1;
    it->npieces = 0;
    it->group = 0;
    it->wait = NULL;
    tc_interp_sync_reset(it);
    tc_interp_shared_reset(it);
    tc_interp_global_reset(it);
    return tc_interp_region(it, it->f->body) && tc_interp_async_end(it) &&
           tc_interp_bulk_end(it) && tc_interp_mbarrier_end(it) &&
           tc_interp_products_end(it) && tc_interp_tiles_end(it);
}

/* The program that runs as number i of n. */
static int64_t turn_of(const tc_interp *it, const int64_t *shuffled, int64_t i,
                       int64_t n)
{
    if (shuffled)
        return shuffled[i];
    return it->options->programs == TC_INTERP_LAST_TO_FIRST ? n - 1 - i : i;
}

static int64_t *shuffle(tc_interp *it, int64_t n)
{
    int64_t *all = tc_arena_array(&it->arena, int64_t, n);
    for (int64_t i = 0; i < n; i++) {
        int64_t k = (int64_t)(tc_interp_random(it) % (uint64_t)(i + 1));
        all[i] = all[k];
        all[k] = i;
    }
    return all;
}

static bool run_programs(tc_interp *it, bool ordered)
{
    int64_t total = (int64_t)it->grid[0] * it->grid[1] * it->grid[2];
    int64_t first = it->options->first, n = total - first;
    const int64_t *shuffled = NULL;
    if (it->options->count && it->options->count < n)
        n = it->options->count;
    if (it->options->programs == TC_INTERP_SHUFFLED && n > 0 && !ordered)
        shuffled = shuffle(it, n);
    tc_interp_programs_new(it, (uint32_t)total);
    for (int64_t i = 0; i < n; i++) {
        int64_t turn = ordered ? i : turn_of(it, shuffled, i, n);
        if (!run_program(it, first + turn))
            return false;
    }
    return it->nfindings == 0;
}

static bool run_kernel(tc_interp *it, const tc_launch_arg *args)
{
    const tc_func *f = it->f;
    if (!f->is_kernel || f->warps == 0)
        return tc_error(it->cx, f->loc,
                        "@%s is no kernel of machine level (`warps(n)`)",
                        f->name);
    it->nwarps = f->warps;
    it->nthreads = TC_LANES * f->warps;
    /* Programs that follow others go through all tiles in their order. */
    bool ordered = tc_region_has_op(f->body, TC_FOLLOW) ||
                   tc_region_has_op(f->body, TC_FOLLOW_END);
    int32_t sms = ordered || !it->options->num_sms ? 1 : it->options->num_sms;
    unsigned nops = tc_region_count(f->body);
    if (nops >= UINT16_MAX)
        return tc_error(it->cx, f->loc, "@%s: too many ops", f->name);
    it->ops = tc_arena_array(&it->arena, const tc_op *, nops + 1);
    it->findings = tc_arena_array(&it->arena, tc_ifinding, it->max_findings);
    if (!make_region(it, f->body))
        return false;
    find_tensors(it, args);
    if (!take_arguments(it) ||
        !tc_eval_grid(it->cx, f, it->args, sms, it->grid) ||
        !tc_interp_shared_new(it))
        return false;
    tc_interp_sync_new(it);
    tc_interp_global_new(it);
    return run_programs(it, ordered);
}

/* Running out of memory unwinds through here. */
static bool run_guarded(tc_interp *it, const tc_launch_arg *args)
{
    jmp_buf *outer = it->cx->memory.unwind, unwind;
    volatile bool ok = false, unwound = true;
    if (!setjmp(unwind)) {
        it->cx->memory.unwind = &unwind;
        ok = run_kernel(it, args);
        unwound = false;
    }
    it->cx->memory.unwind = outer;
    tc_arena_reset(&it->arena);
    tc_arena_reset(&it->scratch);
    if (unwound)
        longjmp(*outer, 1);
    return ok;
}

bool tc_interp_run(tc_func *kernel, const tc_launch_arg *args,
                   const tc_interp_options *options)
{
    static const tc_interp_options none;
    const tc_interp_options *o = options ? options : &none;
    tc_interp it = {.cx = kernel->module->cx,
                    .f = kernel,
                    .options = o,
                    .random = o->seed,
                    .max_steps = o->max_steps ? o->max_steps : 4000000,
                    .max_findings = o->max_findings ? o->max_findings : 8};
    tc_arena_init(&it.arena, &it.cx->memory);
    tc_arena_init(&it.scratch, &it.cx->memory);
    it.places.arena = it.offsets.arena = it.groups.arena = &it.arena;
    it.follow.members.arena = &it.arena;
    return run_guarded(&it, args);
}
