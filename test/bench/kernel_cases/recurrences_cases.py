# SPDX-License-Identifier: Apache-2.0
"""Cases of recurrences: gated linear attention in chunks, a kernel that is not
one of the library's."""
import pathlib

import torch
from case import Case, randn, tilec_kernel, torch_function

CHUNK = 64


class Gla(Case):
    """size: sequences, tokens, head dim, columns of v."""

    text = pathlib.Path(__file__).with_name("gla.tile").read_text()

    def __init__(self, *size, tiles):
        self.size, self.tiles = size, tiles
        b, t, d, e = size
        self.label = "gla_" + "x".join(map(str, size))
        self.flops = 2 * b * t * (CHUNK * (d + e) + 2 * d * e)
        self.bytes = b * t * (4 * d + 4 * e + 4)

    def inputs(self):
        b, t, d, e = self.size
        gates = 0.05 * torch.rand(b, t // CHUNK, CHUNK, device="cuda")
        return dict(q=randn(b, t, d) / d ** 0.5, k=randn(b, t, d) / d ** 0.5,
                    v=randn(b, t, e), g=-gates.cumsum(2).view(b, t),
                    o=randn(b, t, e))

    def reference(self, s):
        b, t, d, e = self.size
        state, out = torch.zeros(b, d, e, device="cuda"), []
        for i in range(0, t, CHUNK):
            q, k, v, g = (s[n][:, i:i + CHUNK].float() for n in "qkvg")
            q, k = q * g.exp()[..., None], k * (-g).exp()[..., None]
            out.append((q @ k.mT).tril() @ v + q @ state)
            state = state + k.mT @ v
        return (torch.cat(out, 1),)

    def tilec(self, warps, bindings):
        return tilec_kernel(
            self.text, "gla", lambda s: [s[n] for n in "qkvgo"],
            lambda s: (s["o"],), warps, D=self.size[2], C=CHUNK, **bindings)

    def variants(self):
        return {"w%d %s" % t: self.tilec(*t) for t in self.tiles[1:]}

    def contenders(self):
        import recurrences_triton
        return {"tilec": self.tilec(*self.tiles[0]),
                "triton": torch_function(recurrences_triton.gla)}


CASES = [
    Gla(64, 4096, 64, 128, tiles=[(4, dict(BV=64)), (4, dict(BV=32)),
                                  (8, dict(BV=128))]),
    Gla(128, 2048, 64, 64, tiles=[(4, dict(BV=64)), (4, dict(BV=32))]),
]
