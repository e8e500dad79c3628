/* SPDX-License-Identifier: Apache-2.0
 *
 * DLPack's data types and tilec's element kinds.
 */
#include "lib/handles.h"

#include <stdio.h>

/* The first row of a kind is the one that tilec gives out. */
static const struct {
    tc_kind kind;
    uint8_t code, bits, lanes;
} dtypes[] = {
    {TC_I1, TILEC_DL_BOOL, 8, 1},
    {TC_I8, kDLInt, 8, 1},
    {TC_I16, kDLInt, 16, 1},
    {TC_I32, kDLInt, 32, 1},
    {TC_I64, kDLInt, 64, 1},
    {TC_U8, kDLUInt, 8, 1},
    {TC_U16, kDLUInt, 16, 1},
    {TC_U32, kDLUInt, 32, 1},
    {TC_F8E4M3, TILEC_DL_F8E4M3, 8, 1},
    {TC_F8E5M2, TILEC_DL_F8E5M2, 8, 1},
    {TC_F8E8M0, TILEC_DL_F8E8M0, 8, 1},
    {TC_F16, kDLFloat, 16, 1},
    {TC_BF16, kDLBfloat, 16, 1},
    {TC_F32, kDLFloat, 32, 1},
    {TC_F64, kDLFloat, 64, 1},
    /* An element of DLPack is a byte of two. */
    {TC_I4, kDLInt, 4, 2},
    {TC_U4, kDLUInt, 4, 2},
    {TC_F4E2M1, TILEC_DL_F4E2M1, 4, 2},
    /* Before DLPack 1.0 there was no bool: frameworks sent bytes. */
    {TC_I1, kDLUInt, 8, 1},
    /* Frameworks without these types have bytes. */
    {TC_F8E8M0, kDLUInt, 8, 1},
    {TC_I4, kDLUInt, 8, 1},
    {TC_I4, kDLInt, 8, 1},
    {TC_U4, kDLUInt, 8, 1},
    {TC_U4, kDLInt, 8, 1},
    {TC_F4E2M1, kDLUInt, 8, 1},
    {TC_F4E2M1, kDLInt, 8, 1},
};
enum { NDTYPES = sizeof dtypes / sizeof *dtypes };

tc_kind tc_kind_from_dl(DLDataType d)
{
    for (size_t i = 0; i < NDTYPES; i++)
        if (dtypes[i].code == d.code && dtypes[i].bits == d.bits &&
            dtypes[i].lanes == d.lanes)
            return dtypes[i].kind;
    return TC_KIND_COUNT;
}

bool tc_dl_holds(DLDataType d, tc_kind kind)
{
    for (size_t i = 0; i < NDTYPES; i++)
        if (dtypes[i].kind == kind && dtypes[i].code == d.code &&
            dtypes[i].bits == d.bits && dtypes[i].lanes == d.lanes)
            return true;
    return false;
}

DLDataType tc_kind_to_dl(tc_kind kind)
{
    for (size_t i = 0; i < NDTYPES; i++)
        if (dtypes[i].kind == kind)
            return (DLDataType){dtypes[i].code, dtypes[i].bits,
                                dtypes[i].lanes};
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
                                        "float8_e5m2fnuz_",
                                        "float8_e8m0fnu_",
                                        "float6_e2m3fn_",
                                        "float6_e3m2fn_",
                                        "float4_e2m1fn_"};
    return code < sizeof names / sizeof *names ? names[code] : NULL;
}

tc_dtype_text tc_dtype_name(DLDataType d)
{
    tc_dtype_text t;
    tc_kind kind = tc_kind_from_dl(d);
    const char *code = code_name(d.code);
    if (kind != TC_KIND_COUNT)
        snprintf(t.text, sizeof t.text, "%s", tc_scalar_infos[kind].name);
    else if (!code)
        snprintf(t.text, sizeof t.text, "DLPack code %u", d.code);
    else if (d.lanes == 1)
        snprintf(t.text, sizeof t.text, "%s%u", code, d.bits);
    else
        snprintf(t.text, sizeof t.text, "%s%ux%u", code, d.bits, d.lanes);
    return t;
}
