/* SPDX-License-Identifier: Apache-2.0
 *
 * What mods capture: the caller's names to parameters of a kernel.
 */
#include "lib/mods/captured.h"

#include <string.h>

static const char gradient_prefix[] = "grad.";
enum { PREFIX = sizeof gradient_prefix - 1 };

bool tc_is_gradient(const char *name)
{
    return strncmp(name, gradient_prefix, PREFIX) == 0;
}

/* "score.offsets", or "offsets"; of a gradient also "grad.score.offsets". */
static bool is_named(const char *full, const char *name, bool *exactly)
{
    const char *rest = tc_is_gradient(full) ? full + PREFIX : full;
    const char *dot = strchr(rest, '.');
    *exactly = strcmp(full, name) == 0 || strcmp(rest, name) == 0;
    return *exactly || (dot && strcmp(dot + 1, name) == 0);
}

/* The captured parameter (or gradient) of that name. -1: none, -2: several. */
static int captured_index(const tilec_kernel *k, const char *name,
                          bool gradients)
{
    int found = -1;
    for (unsigned i = k->nown; i < k->nparams; i++) {
        const char *full = k->params[i].info.name;
        bool exactly;
        if (tc_is_gradient(full) != gradients ||
            !is_named(full, name, &exactly))
            continue;
        if (exactly)
            return (int)i;
        found = found == -1 ? (int)i : -2;
    }
    return found;
}

/* One that is given: all of them begin at `first`. */
static tilec_status place_one(const tilec_kernel *k,
                              const tilec_argument *first,
                              const tilec_argument *given, bool gradient,
                              tilec_argument *out, tilec_error *error)
{
    const char *what = gradient ? "gradient" : "argument";
    if (!given->name)
        return tc_fail(error, TILEC_USAGE, "captured %s %td has no name", what,
                       given - first);
    int at = captured_index(k, given->name, gradient);
    if (at == -2)
        return tc_fail(error, TILEC_USAGE,
                       "both mods capture `%.64s`: say mask.%.64s or "
                       "score.%.64s",
                       given->name, given->name, given->name);
    if (at < 0 && gradient)
        return tc_fail(error, TILEC_USAGE, "there is no gradient for `%.64s`",
                       given->name);
    if (at < 0)
        return tc_fail(error, TILEC_USAGE, "no mod captures `%.64s`",
                       given->name);
    out[at] = *given;
    out[at].name = k->params[at].info.name;
    return TILEC_OK;
}

static tilec_status place_all(const tilec_kernel *k,
                              const tilec_argument *given, size_t n,
                              bool gradients, tilec_argument *out,
                              tilec_error *error)
{
    tilec_status s = TILEC_OK;
    for (size_t i = 0; s == TILEC_OK && i < n; i++)
        s = place_one(k, given, &given[i], gradients, out, error);
    return s;
}

void tc_captured_values(const tilec_kernel *k, const tilec_argument *values,
                        unsigned n, tilec_argument *out)
{
    for (unsigned i = 0; i < n; i++) {
        int at = tc_kernel_param_index(k, values[i].name);
        if (at >= 0)
            out[at] = values[i];
    }
}

tilec_status tc_captured_place(const tilec_kernel *k,
                               const tilec_argument *given, size_t n,
                               tilec_argument *out, tilec_error *error)
{
    return place_all(k, given, n, false, out, error);
}

tilec_status tc_captured_place_gradients(const tilec_kernel *k,
                                         const tilec_argument *given, size_t n,
                                         tilec_argument *out,
                                         tilec_error *error)
{
    return place_all(k, given, n, true, out, error);
}
