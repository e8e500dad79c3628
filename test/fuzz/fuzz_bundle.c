/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target: any bytes as a bundle, in the library without a compiler.
 * The length and the checksum are made right first, or nothing would get past
 * them. What loads is listed, verified, and its kernels are made; none is
 * launched, for nobody checks machine code.
 */
#include "lib/bundle/bundle.h"
#include "lib/tilec.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile size_t sum;

static void put(uint8_t *at, uint64_t word)
{
    for (int i = 0; i < 8; i++)
        at[i] = (uint8_t)(word >> (8 * i));
}

static void seal(uint8_t *data, size_t size)
{
    XXH128_hash_t h =
        XXH3_128bits(data + TC_BUNDLE_HEAD, size - TC_BUNDLE_HEAD);
    put(data + 16, size);
    put(data + 24, h.low64);
    put(data + 32, h.high64);
}

/* Makes the named kernels, and asks for plans by what the entry says. */
static void visit(void *cx, const tilec_bundle_entry *e)
{
    tilec_error error = TILEC_INIT(tilec_error);
    sum += strlen(e->file) + strlen(e->kind) + strlen(e->name) +
           strlen(e->target) + strlen(e->cpu) + strlen(e->request) +
           strlen(e->hash) + e->bytes;
    for (size_t i = 0; i < e->nsides; i++)
        sum += (size_t)e->sides[i];
    tilec_kernel *k = NULL;
    tilec_status s = tilec_bundle_kernel(cx, e->name, e->target, &k, &error);
    if ((s == TILEC_OK) != (k != NULL) || (s && !error.message[0]))
        abort();
    for (size_t i = 0; k && i < tilec_kernel_parameter_count(k); i++)
        sum += strlen(tilec_kernel_parameter(k, i)->type);
    tilec_kernel_free(k);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char magic[] = "tilecbnd";
    tilec_context_options o = TILEC_INIT(tilec_context_options);
    o.target = "cpu";
    o.cache_folder = "";
    tilec_context *cx;
    uint8_t *bytes = malloc(size ? size : 1);
    if (!bytes || tilec_context_new(&o, &cx) != TILEC_OK) {
        free(bytes);
        return 0;
    }
    memcpy(bytes, data, size);
    if (size >= TC_BUNDLE_HEAD && memcmp(bytes, magic, 8) == 0)
        seal(bytes, size);
    tilec_error error = TILEC_INIT(tilec_error);
    tilec_status s = tilec_bundle_load_memory(cx, bytes, size, &error);
    free(bytes);
    if (s == TILEC_OK) {
        s = tilec_bundle_verify(cx, &error);
        tilec_error listed = TILEC_INIT(tilec_error);
        if (tilec_bundle_list(cx, visit, cx, &listed) != TILEC_OK)
            abort();
    }
    if (s && !error.message[0])
        abort();
    tilec_context_free(cx);
    return 0;
}
