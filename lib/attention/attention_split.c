/* SPDX-License-Identifier: Apache-2.0
 *
 * The number of programs that share the query heads of a block of keys when
 * gradients are computed. One each is least work, but too few programs, or
 * unequal ones, leave multiprocessors idle while the longest runs.
 *
 * Times here are fractions of the time of a program that visits all queries of
 * all its heads.
 */
#include "lib/attention/attention.h"

#include <math.h>

enum { MOST = 16 };
static const double WORTH = 0.9; /* of the time without, at most */

/* An element of the parts is written and read, 8 bytes, for 5 flops of each
 * query: an H200's memory moves a byte in the time of some 110 flops. Half of
 * that is seen: parts are written while others compute. */
static double part_cost(const tc_attention_work *w, double programs)
{
    return 0.9 * programs / ((double)w->group * (double)w->queries);
}

/* A program's begin and end, as long as a block of queries and a half of one
 * head. */
static double begin_cost(const tc_attention_work *w)
{
    return 1.5 * (double)w->block / ((double)w->group * (double)w->queries);
}

/* A mask leaves about half of all, and some program all of its own. Where not
 * all have a place at once, the last of those may come when the others are
 * done; or the longest come first, and short ones fill the gaps. */
static double masked_time(const tc_attention_work *w, double programs,
                          double split)
{
    double last = 1 / split, mean = programs / w->sms / 2;
    double blocks = ceil((double)w->keys / (double)w->block);
    double rounds = programs * split / w->sms;
    if (w->longest_first)
        return fmax(last, mean * (1 + 1 / blocks)) + rounds * begin_cost(w);
    return rounds <= 1 ? last : mean + last;
}

static double time_of(const tc_attention_work *w, double programs, double split)
{
    double parts = split > 1 ? split * part_cost(w, programs) : 0;
    return parts + (w->is_masked ? masked_time(w, programs, split)
                                 : ceil(programs * split / w->sms) / split);
}

unsigned tc_attention_split(const tc_attention_work *w)
{
    if (!w->sms || w->group < 2 || w->queries < 1 || w->block < 1)
        return 1;
    double programs = (double)w->batch * (double)w->heads *
                      ceil((double)w->keys / (double)w->block);
    double best = WORTH * time_of(w, programs, 1);
    unsigned split = 1;
    for (unsigned n = 2; programs > 0 && n <= MOST && n <= w->group; n++) {
        double time = time_of(w, programs, n);
        if (w->group % n == 0 && time < best) {
            best = time;
            split = n;
        }
    }
    return split;
}
