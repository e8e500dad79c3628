/* SPDX-License-Identifier: Apache-2.0
 *
 * A program of a user, C and C++ alike: versions, a kernel, an error.
 */
#include <stdio.h>
#include <string.h>
#include <tilec.h>

#if TILEC_VERSION < 100 || TILEC_VERSION_MAJOR > 0
#error "another version was expected"
#endif

static const char text[] = "kernel @twice(%x: tensor<[?] x f32>) grid(1) {\n"
                           "  %a = load %x[0 +: 8]\n"
                           "  store %x[0 +: 8], %a + %a\n"
                           "}\n";

static int run(const tilec_kernel *k)
{
    float data[8] = {1, 2, 3, 4};
    int64_t shape[1] = {8};
    DLTensor x;
    memset(&x, 0, sizeof x);
    x.data = data;
    x.device.device_type = kDLCPU;
    x.ndim = 1;
    x.dtype.code = kDLFloat;
    x.dtype.bits = 32;
    x.dtype.lanes = 1;
    x.shape = shape;
    tilec_argument args[] = {tilec_tensor("x", &x)};
    tilec_error error = TILEC_INIT(tilec_error);
    if (tilec_launch(k, args, 1, NULL, &error) != TILEC_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    printf("%g %g %g %g\n", data[0], data[1], data[2], data[3]);
    shape[0] = 3;
    if (tilec_launch(k, args, 1, NULL, &error) != TILEC_INPUT)
        return 1;
    printf("%s\n", error.message);
    return 0;
}

int main(void)
{
    char version[40];
    snprintf(version, sizeof version, "%d.%d.%d", TILEC_VERSION_MAJOR,
             TILEC_VERSION_MINOR, TILEC_VERSION_PATCH);
    if (strcmp(version, tilec_version()) != 0)
        return 1;
    tilec_context_options options = TILEC_INIT(tilec_context_options);
    options.target = "cpu";
    tilec_context *cx = NULL;
    tilec_kernel *k = NULL;
    tilec_source source = tilec_text("twice.tile", text, 0);
    if (tilec_context_new(&options, &cx) != TILEC_OK ||
        tilec_compile(cx, &source, 1, NULL, &k) != TILEC_OK)
        return 1;
    int failed = run(k);
    tilec_kernel_free(k);
    tilec_context_free(cx);
    return failed;
}
