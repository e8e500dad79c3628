/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target: any bytes through the safetensors reader. Whatever it
 * accepts must be readable to the last byte.
 */
#include "lib/tilec.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile unsigned sum;

static void touch(const DLTensor *t)
{
    size_t bytes = t->dtype.bits / 8;
    for (int i = 0; i < t->ndim; i++)
        bytes *= (size_t)t->shape[i];
    for (size_t i = 0; i < bytes; i++)
        sum += ((const unsigned char *)t->data)[i];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* Aligned as a mapping is, and no byte more than there is. */
    uint8_t *bytes = NULL;
    if (posix_memalign((void **)&bytes, 64, size ? size : 1) != 0)
        return 0;
    memcpy(bytes, data, size);
    tilec_safetensors *f = NULL;
    tilec_error error = TILEC_INIT(tilec_error);
    tilec_status s = tilec_safetensors_read(bytes, size, &f, &error);
    if ((s == TILEC_OK) != (f != NULL) || (s && !error.message[0]))
        abort();
    for (size_t i = 0; i < tilec_safetensors_count(f); i++) {
        DLTensor t;
        const char *name = tilec_safetensors_name(f, i);
        s = tilec_safetensors_get(f, name, &t, &error);
        if (s == TILEC_OK)
            touch(&t);
        else if (s != TILEC_INPUT || !error.message[0])
            abort();
    }
    tilec_safetensors_metadata(f, "origin");
    tilec_safetensors_free(f);
    free(bytes);
    return 0;
}
