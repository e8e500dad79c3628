/* SPDX-License-Identifier: Apache-2.0
 *
 * DLPack's data types and tilec's element kinds.
 */
#include "lib/handles.h"

#include <stdio.h>

/* The first row of a kind is the one that tilec gives out. */
static const struct {
    tc_kind kind;
    uint8_t code, bits;
} dtypes[] = {
    {TC_I1, TILEC_DL_BOOL, 8},
    {TC_I8, kDLInt, 8},
    {TC_I16, kDLInt, 16},
    {TC_I32, kDLInt, 32},
    {TC_I64, kDLInt, 64},
    {TC_F8E4M3, TILEC_DL_F8E4M3, 8},
    {TC_F8E5M2, TILEC_DL_F8E5M2, 8},
    {TC_F16, kDLFloat, 16},
    {TC_BF16, kDLBfloat, 16},
    {TC_F32, kDLFloat, 32},
    {TC_F64, kDLFloat, 64},
    /* Before DLPack 1.0 there was no bool: frameworks sent bytes. */
    {TC_I1, kDLUInt, 8},
};
enum { NDTYPES = sizeof dtypes / sizeof *dtypes };

tc_kind tc_kind_from_dl(DLDataType d)
{
    for (size_t i = 0; i < NDTYPES; i++)
        if (dtypes[i].code == d.code && dtypes[i].bits == d.bits &&
            d.lanes == 1)
            return dtypes[i].kind;
    return TC_KIND_COUNT;
}

DLDataType tc_kind_to_dl(tc_kind kind)
{
    for (size_t i = 0; i < NDTYPES; i++)
        if (dtypes[i].kind == kind)
            return (DLDataType){dtypes[i].code, dtypes[i].bits, 1};
    return (DLDataType){kDLOpaqueHandle, 0, 0};
}

static const char *code_name(uint8_t code)
{
    static const char *const names[] = {"int",
                                        "uint",
                                        "float",
                                        "opaque",
                                        "bfloat",
                                        "complex",
                                        "bool",
                                        "float8_e3m4_",
                                        "float8_e4m3_",
                                        "float8_e4m3b11fnuz_",
                                        "float8_e4m3fn_",
                                        "float8_e4m3fnuz_",
                                        "float8_e5m2_",
                                        "float8_e5m2fnuz_"};
    return code < sizeof names / sizeof *names ? names[code] : NULL;
}

tc_dtype_text tc_dtype_name(DLDataType d)
{
    tc_dtype_text t;
    tc_kind kind = tc_kind_from_dl(d);
    const char *code = code_name(d.code);
    if (kind != TC_KIND_COUNT && d.code != kDLUInt)
        snprintf(t.text, sizeof t.text, "%s", tc_scalar_infos[kind].name);
    else if (!code)
        snprintf(t.text, sizeof t.text, "DLPack code %u", d.code);
    else if (d.lanes == 1)
        snprintf(t.text, sizeof t.text, "%s%u", code, d.bits);
    else
        snprintf(t.text, sizeof t.text, "%s%ux%u", code, d.bits, d.lanes);
    return t;
}
