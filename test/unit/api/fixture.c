/* SPDX-License-Identifier: Apache-2.0 */
#include "test/unit/api/fixture.h"

const char scale_text[] =
    "kernel @scale[T: type = f32, BN: int = 16, D: int](\n"
    "    %x: tensor<[?, D] x T>, %y: tensor<[?, D] x T>, %by: f32, %add: i32)\n"
    "    grid {\n"
    "      assert size(%x, 0) == size(%y, 0), \"x and y must have the same "
    "rows\"\n"
    "      yield cdiv(size(%x, 0), BN)\n"
    "    }\n"
    "{\n"
    "  %r = program_id(0) * BN\n"
    "  %a = load %x[%r +: BN, 0 +: D] boundary(0)\n"
    "  store %y[%r +: BN, 0 +: D], %a * cast(%by, T) + cast(%add, T) "
    "boundary(0)\n"
    "}\n";

tilec_context *cx;

void api_make_context(void)
{
    tilec_context_options o = TILEC_INIT(tilec_context_options);
    o.cache_folder = ""; /* all is compiled, each time */
    ck_assert_int_eq(tilec_context_new(&o, &cx), TILEC_OK);
}

void api_free_context(void)
{
    tilec_context_free(cx);
}

tilec_status api_compile_text(tilec_context *c, const char *text,
                              const char *const *bindings, size_t n,
                              tilec_kernel **out)
{
    tilec_source source = tilec_text("test.tile", text, 0);
    tilec_binding b[8];
    for (size_t i = 0; i < n; i++)
        b[i] = (tilec_binding){bindings[2 * i], bindings[2 * i + 1]};
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    o.bindings = b;
    o.nbindings = n;
    return tilec_compile(c, &source, 1, &o, out);
}

tilec_kernel *api_scale_kernel(tilec_context *c)
{
    static const char *const b[] = {"D", "8"};
    tilec_kernel *k;
    tilec_status s = api_compile_text(c, scale_text, b, 1, &k);
    ck_assert_msg(s == TILEC_OK, "%s",
                  s == TILEC_OK ? "" : tilec_diagnostics(c)->message);
    return k;
}

void api_fill(matrix *m, int64_t rows, float value)
{
    m->shape[0] = rows;
    m->shape[1] = 8;
    for (int64_t i = 0; i < 8 * rows; i++)
        m->data[i] = value + (float)i;
    m->dl = (DLTensor){.data = m->data,
                       .device = {kDLCPU, 0},
                       .ndim = 2,
                       .dtype = {kDLFloat, 32, 1},
                       .shape = m->shape};
}
