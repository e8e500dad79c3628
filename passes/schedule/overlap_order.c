/* SPDX-License-Identifier: Apache-2.0
 *
 * Orders the ops of one steady-state iteration after stage assignment, or of a
 * step by itself. Buffers are released as soon as they are known to have been
 * read. Counts for an order what may be in flight: `wgmma.wait_group N`: N is
 * the minimum, over prologue, steady state and epilogue, of wgmmas committed
 * after the awaited one.
 */
#include "passes/schedule/overlap_mma.h"

#include <limits.h>

/* ---- Questions ---- */

bool tc_comes_before(const tc_part *first, const tc_part *p)
{
    for (unsigned i = 0; i < p->nbefore; i++)
        if (p->before[i] == first)
            return true;
    return false;
}

bool tc_is_pure_part(const tc_part *p)
{
    return p->kind == TC_PART_PLAIN && !p->effects;
}

bool tc_has_tiles(const tc_op *op)
{
    for (unsigned i = 0; i < op->nout; i++)
        if (op->out[i]->type->kind == TC_TILE)
            return true;
    return false;
}

bool tc_takes_registers(const tc_part *p)
{
    return p->op->in[0]->type->kind == TC_TILE;
}

/* ---- Places ---- */

static void overlap_order_place(tc_step *s, tc_part *p);

static bool is_ready(const tc_part *p)
{
    for (unsigned i = 0; i < p->nbefore; i++)
        if (p->before[i]->stage == p->stage && !p->before[i]->placed)
            return false;
    return true;
}

static bool has_wait_before(const tc_part *p)
{
    for (unsigned i = 0; i < p->nbefore; i++)
        if (p->before[i]->kind == TC_PART_WAIT)
            return true;
    return false;
}

static void place_releases(tc_step *s, unsigned stage)
{
    for (unsigned i = 0; i < s->nparts; i++) {
        tc_part *p = s->parts[i];
        if (p->kind == TC_PART_RELEASE && p->stage == stage && !p->placed &&
            has_wait_before(p) && is_ready(p))
            overlap_order_place(s, p);
    }
}

/* Does the wait `w` imply that p's product is done, too? Products end in the
 * order in which they were issued. */
static bool implies(const tc_part *w, const tc_part *p)
{
    bool w_before = w->stage != w->product->stage;
    bool p_before = p->stage != p->product->stage;
    return w_before == p_before ? p->product->place < w->product->place
                                : p_before;
}

/* Places waits that are implied by earlier ones, and the releases that they
 * allow. */
static void place_implied(tc_step *s, const tc_part *wait)
{
    for (unsigned i = 0; i < s->nparts; i++) {
        tc_part *p = s->parts[i];
        if (p->kind == TC_PART_WAIT && !p->placed && p->product->placed &&
            implies(wait, p))
            overlap_order_place(s, p);
    }
}

/* Does the wait allow a release, while nothing adds to its product's sum? */
static bool frees(const tc_step *s, const tc_part *wait)
{
    for (unsigned i = 0; i < s->nparts; i++)
        if (s->parts[i]->kind == TC_PART_RELEASE &&
            tc_comes_before(wait, s->parts[i]))
            return tc_value_has_one_use(wait->product->op->out[0]);
    return false;
}

/* Places waits before this one for products that end earlier and have buffers
 * to release. */
static void place_sooner(tc_step *s, const tc_part *wait)
{
    for (unsigned i = 0; i < s->nparts; i++) {
        tc_part *p = s->parts[i];
        if (p->kind == TC_PART_WAIT && p != wait && !p->placed &&
            p->stage == wait->stage && p->product->placed && implies(wait, p) &&
            frees(s, p))
            overlap_order_place(s, p);
    }
}

/* Does the wait allow the release of a ring's only slot, which the producer
 * waits for? Another product may add to the sum already. */
static bool frees_only_slot(const tc_step *s, const tc_part *wait)
{
    for (unsigned i = 0; i < s->nparts; i++) {
        const tc_part *p = s->parts[i];
        if (p->kind == TC_PART_RELEASE && tc_comes_before(wait, p) &&
            p->op->in[0]->type->slots == 1)
            return true;
    }
    return false;
}

/* After a product: places waits for those before it that let the producer fill
 * a ring's only slot. The tensor cores are busy with this one meanwhile, and
 * take no more than about one product ahead: where others are issued first, the
 * wait comes when most of them are done. */
static void place_early_waits(tc_step *s, const tc_part *product)
{
    for (unsigned i = 0; i < s->nparts; i++) {
        tc_part *p = s->parts[i];
        if (p->kind == TC_PART_WAIT && !p->placed &&
            p->stage == product->stage && p->product != product &&
            p->product->stage == p->stage && p->product->placed &&
            frees_only_slot(s, p))
            overlap_order_place(s, p);
    }
}

/* With what it needs of its stage. */
static void overlap_order_place(tc_step *s, tc_part *p)
{
    for (unsigned i = 0; i < p->nbefore && !p->placed; i++)
        if (p->before[i]->stage == p->stage)
            overlap_order_place(s, p->before[i]);
    if (p->kind == TC_PART_WAIT && !p->placed)
        place_sooner(s, p);
    if (p->placed) /* maybe by now: an arrival by its wait */
        return;
    p->placed = true;
    p->place = s->norder;
    s->order[s->norder++] = p;
    if (p->kind == TC_PART_WAIT) {
        place_releases(s, p->stage);
        place_implied(s, p);
    }
    if (p->kind == TC_PART_PRODUCT)
        place_early_waits(s, p);
}

/* Marks parts that are placed, or could be at no more cost than waiting for
 * data. */
static void find_issuable(tc_step *s)
{
    for (unsigned i = 0; i < s->nparts; i++) {
        tc_part *p = s->parts[i];
        bool cheap =
            p->kind == TC_PART_FULL || p->kind == TC_PART_PRODUCT ||
            (tc_is_pure_part(p) && !tc_has_tiles(p->op) && !p->op->nregions);
        p->issuable = p->placed || cheap;
        for (unsigned k = 0; k < p->nbefore && !p->placed; k++)
            p->issuable &=
                p->before[k]->stage != p->stage || p->before[k]->issuable;
    }
}

/* Products of a stage that can be issued now, in the order that they have. */
static void place_products(tc_step *s, unsigned stage)
{
    bool found = false;
    for (unsigned i = 0; i < s->nparts; i++) {
        tc_part *p = s->parts[i];
        if (p->kind != TC_PART_PRODUCT || p->stage != stage || p->placed)
            continue;
        if (!found)
            find_issuable(s);
        found = true;
        if (!p->issuable)
            return;
        overlap_order_place(s, p);
    }
}

/* Skips waits without users: another product adds to the sum of theirs. */
bool tc_is_idle(const tc_step *s, const tc_part *p)
{
    if (p->kind != TC_PART_WAIT || p->in_flight || p->op->out[0]->uses ||
        tc_value_has_one_use(p->product->op->out[0]))
        return false;
    for (unsigned i = p->index + 1; i < s->nparts; i++)
        if (tc_comes_before(p, s->parts[i]))
            return false;
    return true;
}

static bool has_lazy_read_before(const tc_part *p)
{
    for (unsigned i = 0; i < p->nbefore; i++)
        if (p->before[i]->lazy && p->before[i]->kind == TC_PART_PLAIN)
            return true;
    return false;
}

/* Parts that are placed on demand: waits by the ops that need them, arrivals by
 * the waits. Reads of shared memory are placed at their use, as they take
 * registers from then on, and barriers as late as possible. The thread that
 * waits for TMA stores does so while the next step's product is in flight. */
static void find_lazy(tc_step *s, bool ahead)
{
    for (unsigned i = 0; i < s->nparts; i++) {
        tc_part *p = s->parts[i];
        bool follows = tc_is_pure_part(p) || p->kind == TC_PART_RELEASE;
        p->lazy = p->kind == TC_PART_WAIT || p->effects == TC_PART_MEETS ||
                  (p->op->code == TC_SMEM_LOAD) ||
                  (ahead && p->op->code == TC_TMA_STORE_WAIT) ||
                  (p->kind == TC_PART_RELEASE && has_wait_before(p)) ||
                  (follows && has_lazy_read_before(p));
    }
}

/* The sum of a product of the step before, as a loop hands it on. */
static bool is_carried_sum(const tc_step *s, const tc_value *v)
{
    if (!s->loop || v->def || v->region != s->region || !v->index)
        return false;
    const tc_part *from =
        tc_part_of(s, tc_region_terminator(s->region)->in[v->index - 1]);
    return from &&
           (from->kind == TC_PART_WAIT || from->kind == TC_PART_PRODUCT);
}

static bool reads_carried_sum(const tc_step *s, const tc_part *p)
{
    for (unsigned i = 0; p->kind == TC_PART_PLAIN && i < p->nuses; i++)
        if (is_carried_sum(s, p->uses[i]))
            return true;
    return false;
}

/* Is all that the part needs placed, or can it be before any product? */
static bool needs_no_product(const tc_part *p)
{
    if (p->kind == TC_PART_PRODUCT || p->kind == TC_PART_WAIT || p->late)
        return p->placed;
    for (unsigned i = 0; i < p->nbefore && !p->placed; i++)
        if (p->before[i]->stage != p->stage || !needs_no_product(p->before[i]))
            return false;
    return true;
}

/* Places what comes before the products are issued. What reads a carried sum:
 * its registers are a product's, and ptxas would wait for all that are in
 * flight there (C7517). And the stores of operands: one barrier serves all. */
static void place_before_products(tc_step *s, unsigned stage)
{
    for (unsigned i = 0; i < s->nparts; i++) {
        tc_part *p = s->parts[i];
        if (p->stage == stage &&
            (reads_carried_sum(s, p) || p->op->code == TC_SMEM_STORE) &&
            needs_no_product(p))
            overlap_order_place(s, p);
    }
}

static void place_early(tc_step *s)
{
    place_before_products(s, 0);
    for (unsigned i = 0; i < s->nparts; i++)
        if (s->parts[i]->stage == 0 && tc_is_root(s->parts[i]))
            overlap_order_place(s, s->parts[i]);
    place_products(s, 1);
}

/* Places the waits for all products of stage 1 whose operand A is in registers,
 * except for the last: then these registers are free for the sum of another
 * product. */
static void place_waits(tc_step *s)
{
    const tc_part *last = NULL;
    for (unsigned i = 0; i < s->norder; i++)
        if (s->order[i]->kind == TC_PART_PRODUCT)
            last = s->order[i];
    for (unsigned i = 0; i < s->nparts; i++) {
        tc_part *p = s->parts[i];
        if (p->kind == TC_PART_PRODUCT && p->stage == 1 && p != last &&
            tc_takes_registers(p))
            overlap_order_place(s, p->product);
    }
}

static bool all_issued(const tc_step *s, unsigned stage)
{
    for (unsigned i = 0; i < s->nparts; i++)
        if (s->parts[i]->kind == TC_PART_PRODUCT &&
            s->parts[i]->stage == stage && !s->parts[i]->placed)
            return false;
    return true;
}

/* Places parts in program order, with products as soon as they can be issued.
 * One thread starts TMA stores, which takes a while: the product that is issued
 * ahead comes before that, when all others have been issued. */
static void place_eager(tc_step *s, unsigned stage, bool hoist, tc_part *ahead)
{
    for (unsigned i = 0; i < s->nparts; i++) {
        tc_part *p = s->parts[i];
        if (p->stage != stage || p->late || p->lazy)
            continue;
        if (ahead && p->op->code == TC_TMA_STORE && all_issued(s, stage)) {
            place_waits(s);
            overlap_order_place(s, ahead);
        }
        overlap_order_place(s, p);
        if (hoist)
            place_products(s, stage);
    }
}

static void place_rest(tc_step *s)
{
    for (unsigned turn = 0; turn < 3; turn++)
        for (unsigned i = 0; i < s->nparts; i++) {
            tc_part *p = s->parts[i];
            if (turn == 0   ? p->stage == 0 && !p->late
                : turn == 1 ? p->stage == 1
                            : true)
                overlap_order_place(s, p);
        }
}

static void place_all(tc_step *s, bool hoist)
{
    if (hoist)
        place_early(s);
    place_eager(s, 0, hoist, NULL);
    place_rest(s);
}

/* Places waits for data and branches (of masks) first: between a product and
 * the ops that overlap it they would keep the assembler from issuing it piece
 * by piece, as the tensor cores take it. */
static void place_branches(tc_step *s, unsigned stage)
{
    find_issuable(s);
    for (unsigned i = 0; i < s->nparts; i++) {
        tc_part *p = s->parts[i];
        bool branch = p->op->code == TC_IF && !p->effects;
        bool ready = p->stage == stage && (branch || p->kind == TC_PART_FULL);
        for (unsigned k = 0; k < p->nbefore; k++)
            ready &= p->before[k]->stage != stage || p->before[k]->issuable;
        if (ready)
            overlap_order_place(s, p);
    }
}

/* Places the product of the next step. Its sum is carried around the loop in
 * flight, so it must be awaited before anything else is issued (C7514). */
static void place_ahead(tc_step *s, tc_part *first)
{
    overlap_order_place(s, first->product);
    for (unsigned i = 0; i < s->nparts; i++)
        if (s->parts[i]->stage == 1 && tc_is_root(s->parts[i])) {
            place_branches(s, 1);
            overlap_order_place(s, s->parts[i]);
        }
    place_eager(s, 1, true, first);
    place_waits(s);
    overlap_order_place(s, first);
    place_rest(s);
}

/* ---- How many may stay in flight ---- */

/* Products among the places from `first` to before `end`; of one stage, or of
 * both (2). */
static unsigned count_products(const tc_step *s, unsigned first, unsigned end,
                               unsigned stage)
{
    unsigned n = 0;
    for (unsigned i = first; i < end; i++)
        n += s->order[i]->kind == TC_PART_PRODUCT &&
             (stage == 2 || s->order[i]->stage == stage);
    return n;
}

static void count_pending(tc_step *s, tc_part *wait)
{
    enum { ANY = 2 };
    unsigned from = wait->product->place + 1, to = wait->place;
    if (wait->stage == wait->product->stage) {
        wait->pending[TC_PROLOGUE] = count_products(s, from, to, 0);
        wait->pending[TC_TURN] = count_products(s, from, to, ANY);
        wait->pending[TC_EPILOGUE] = count_products(s, from, to, 1);
        return;
    }
    /* The product was issued in the iteration before; before the first
     * iteration there is only the prologue. */
    unsigned rest = count_products(s, from, s->norder, 0);
    wait->pending[TC_TURN] = rest + count_products(s, 0, to, ANY);
    wait->pending[TC_EPILOGUE] = rest + count_products(s, 0, to, 1);
}

/* Another wait of its stage, before it or right after it, does as well, and
 * its result is not used. */
static bool is_spare(const tc_step *s, const tc_part *wait)
{
    if (wait->in_flight || wait->op->out[0]->uses)
        return false;
    unsigned end = wait->place + 2;
    for (unsigned i = 0; i < end && i < s->norder; i++) {
        const tc_part *w = s->order[i];
        if (w != wait && w->kind == TC_PART_WAIT && w->stage == wait->stage &&
            w->product->stage == wait->product->stage && implies(w, wait))
            return true;
    }
    return false;
}

/* Lowers `pending` to the number of products that can be in flight at all,
 * after the waits before and the products since: ptxas takes the number at its
 * word. */
static void tighten_pending(tc_step *s, tc_loop_section section)
{
    unsigned most = UINT_MAX - s->nparts;
    for (unsigned i = 0; i < s->norder; i++) {
        tc_part *p = s->order[i];
        bool here = section == TC_TURN || p->stage == (section == TC_EPILOGUE);
        if (here && p->kind == TC_PART_PRODUCT)
            most++;
        if (!here || p->kind != TC_PART_WAIT)
            continue;
        if (p->pending[section] > most)
            p->pending[section] = most;
        most = p->pending[section];
    }
}

void tc_count_waits(tc_step *s)
{
    for (unsigned i = 0; i < s->norder; i++)
        if (s->order[i]->kind == TC_PART_WAIT) {
            count_pending(s, s->order[i]);
            s->order[i]->spare = is_spare(s, s->order[i]);
        }
    for (unsigned i = 0; i < TC_NSECTIONS; i++)
        tighten_pending(s, (tc_loop_section)i);
}

void tc_order_parts(tc_step *s, bool hoist, tc_part *ahead)
{
    find_lazy(s, ahead != NULL);
    for (unsigned i = 0; i < s->nparts; i++)
        s->parts[i]->placed = tc_is_idle(s, s->parts[i]);
    if (ahead)
        place_ahead(s, ahead);
    else
        place_all(s, hoist);
}
