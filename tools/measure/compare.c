/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/measure/compare.h"

#include "ir/eval/eval.h"
#include "lib/handles.h"
#include "tools/common/commands.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const double relative_tolerance[TC_F64 + 1] = {
    [TC_F8E4M3] = 0.1, [TC_F8E5M2] = 0.1, [TC_F16] = 1e-3,
    [TC_BF16] = 3e-3,  [TC_F32] = 2e-6,   [TC_F64] = 1e-12,
};
static const char *compare_place(const DLTensor *t, int64_t i)
{
    size_t bytes = (t->dtype.bits + 7u) / 8u;
    return (const char *)t->data + t->byte_offset + (size_t)i * bytes;
}

double tensor_element(const DLTensor *t, int64_t i)
{
    tc_kind kind = tc_kind_from_dl(t->dtype);
    uint64_t bits = 0;
    memcpy(&bits, compare_place(t, i), (t->dtype.bits + 7u) / 8u);
    if (kind == TC_F8E8M0)
        return bits == 255 ? NAN : ldexp(1, (int)bits - 127);
    if (tc_kind_is_stored(kind)) /* u8, u16, u32 */
        return (double)bits;
    return tc_scalar_infos[kind].is_float
               ? tc_float_from_bits(kind, bits)
               : (double)tc_int_wrap(kind, (int64_t)bits);
}

static bool is_float(const DLTensor *t)
{
    tc_kind k = tc_kind_from_dl(t->dtype);
    return k <= TC_F64 && tc_scalar_infos[k].is_float;
}

static bool same_shape(const DLTensor *a, const DLTensor *b)
{
    return a->ndim == b->ndim &&
           memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) == 0;
}

double tolerance_of(DLDataType dtype)
{
    tc_kind kind = tc_kind_from_dl(dtype);
    return kind <= TC_F64 ? relative_tolerance[kind] : 0;
}

difference measure(const DLTensor *got, const DLTensor *ref,
                   const DLTensor *before)
{
    difference d = {0};
    double off = 0, norm = 0;
    size_t bytes = (ref->dtype.bits + 7u) / 8u;
    for (int64_t i = 0, n = tensor_count(got); i < n; i++) {
        if (before &&
            memcmp(compare_place(ref, i), compare_place(before, i), bytes) == 0)
            continue;
        double x = tensor_element(got, i), y = tensor_element(ref, i);
        d.compared++;
        if (x == y || (isnan(x) && isnan(y))) {
            norm += isfinite(y) ? y * y : 0;
            continue;
        }
        if (!isfinite(x) || !isfinite(y)) {
            d.strange++;
            continue;
        }
        off += (x - y) * (x - y);
        norm += y * y;
        if (fabs(x - y) > d.largest) {
            d.largest = fabs(x - y);
            d.where = i;
        }
    }
    d.relative = off == 0 ? 0 : sqrt(off / norm);
    return d;
}

/* JSON has no infinities. */
static void put_number(const char *key, double x)
{
    if (isfinite(x))
        printf("\"%s\": %.3g, ", key, x);
    else
        printf("\"%s\": null, ", key);
}

/* The reference's name comes from a file: any text. */
static void put_json(const char *name, const char *ref_name,
                     const difference *d, bool ok)
{
    cJSON *text = cJSON_CreateString(ref_name);
    char *ref = cJSON_PrintUnformatted(text);
    printf("{\"tensor\": \"%s\", \"reference\": %s, ", name,
           ref ? ref : "null");
    put_number("relative_error", d->relative);
    put_number("max_abs_error", d->largest);
    printf("\"nonfinite_mismatches\": %lld, \"ok\": %s}\n",
           (long long)d->strange, ok ? "true" : "false");
    cJSON_free(ref);
    cJSON_Delete(text);
}

bool compare(const char *name, const DLTensor *got, const char *ref_name,
             const DLTensor *ref, double most, bool absolute, bool json)
{
    if (!same_shape(got, ref) || !is_float(ref)) {
        report("%s cannot be compared with %s: expected a "
               "tensor of floats in the shape of the result",
               name, ref_name);
        return false;
    }
    difference d = measure(got, ref, NULL);
    double error = absolute ? d.largest : d.relative;
    if (most == 0)
        most = absolute ? TOLERANCE_ABSOLUTE : tolerance_of(got->dtype);
    bool ok = d.strange == 0 && error <= most;
    if (json) {
        put_json(name, ref_name, &d, ok);
        return ok;
    }
    printf("  %s against %s: relative error %.3g, largest absolute error %.3g "
           "(%s at most %.3g)%s\n",
           name, printable(ref_name).text, d.relative, d.largest,
           absolute ? "absolute" : "relative", most, ok ? "" : "  FAILED");
    if (d.strange)
        printf("  %lld infinities or NaNs do not agree\n",
               (long long)d.strange);
    return ok;
}
