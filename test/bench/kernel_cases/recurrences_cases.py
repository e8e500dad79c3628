# SPDX-License-Identifier: Apache-2.0
"""Cases of recurrences: gated linear attention in chunks, a kernel that is not
one of the library's; the gated delta rule beside flash-linear-attention."""
import pathlib

import torch
import torch.nn.functional as F
from case import DEVICE, Case, randn, tilec_kernel, triton_function

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
        gates = 0.05 * torch.rand(b, t // CHUNK, CHUNK, device=DEVICE)
        return dict(q=randn(b, t, d) / d ** 0.5, k=randn(b, t, d) / d ** 0.5,
                    v=randn(b, t, e), g=-gates.cumsum(2).view(b, t),
                    o=randn(b, t, e))

    def reference(self, s):
        b, t, d, e = self.size
        state, out = torch.zeros(b, d, e, device=DEVICE), []
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
        return {"tilec": self.tilec(*self.tiles[0]),
                "triton": triton_function("recurrences_triton", "gla")}



def delta_rule(q, k, v, g, beta, state, scale):
    """In chunks, in the type of the arguments: o and the last state."""
    group, out = v.shape[2] // q.shape[2], []
    q, k = (x.repeat_interleave(group, 2) for x in (q, k))
    q, k, v = (x.transpose(1, 2) for x in (q * scale, k, v))
    g, beta = g.transpose(1, 2), beta.transpose(1, 2)[..., None]
    for i in range(0, q.shape[2], CHUNK):
        qi, ki, vi, gi, bi = (x[:, :, i:i + CHUNK] for x in (q, k, v, g, beta))
        c = gi.cumsum(2)
        decay = (c[..., :, None] - c[..., None, :]).tril().exp().tril()
        c = c[..., None]
        near = (bi * (ki @ ki.mT) * decay).tril(-1)
        u = torch.linalg.solve_triangular(
            near, bi * (vi - c.exp() * (ki @ state)), upper=False,
            unitriangular=True)
        out.append(c.exp() * (qi @ state) + (qi @ ki.mT * decay) @ u)
        last = c[:, :, -1:]
        state = last.exp() * state + (ki * (last - c).exp()).mT @ u
    return torch.cat(out, 2).transpose(1, 2), state


class DeltaRule(Case):
    """size: sequences, tokens, heads of q and k, heads of v, head dim. `fla` is
    flash-linear-attention, where it is installed."""

    word = text = "delta_rule"
    products = 1  # times as many as forward
    INPUTS = ("q", "k", "v", "g", "beta", "initial")

    def __init__(self, *size):
        self.size = size
        b, t, h, hv, d = size
        self.label = "%s_%s" % (self.word, "x".join(map(str, size)))
        self.flops = self.products * 2 * b * t * hv * (4 * CHUNK * d + 3 * d * d)
        self.bytes = 4 * self.products * b * t * d * (h + hv)

    def inputs(self):
        b, t, h, hv, d = self.size
        state = lambda: torch.randn(b, hv, d, d, device=DEVICE)
        number = lambda: torch.rand(b, t, hv, device=DEVICE)
        k = F.normalize(randn(b, t, h, d).float(), dim=-1).bfloat16()
        s = dict(q=randn(b, t, h, d), k=k, v=randn(b, t, hv, d),
                 g=-0.1 * number(), beta=number(), initial=state(),
                 do=randn(b, t, hv, d), dfinal=state())
        s["made"] = [torch.empty_like(s[n]) for n in self.like]
        return s

    like = ("v", "initial")

    def arguments(self, s):
        o, final = s["made"]
        return [*(s[n] for n in self.INPUTS), final, o, self.size[4] ** -0.5]

    def tilec(self, warps=0):
        return tilec_kernel(self.text, self.word, self.arguments,
                            lambda s: tuple(s["made"]), warps, INITIAL=1,
                            FINAL=1)

    def reference(self, s):
        return delta_rule(*(s[n].float() for n in self.INPUTS),
                          self.size[4] ** -0.5)

    def by_fla(self, leaves):
        from fla.ops.gated_delta_rule import chunk_gated_delta_rule
        return chunk_gated_delta_rule(
            *leaves[:5], scale=self.size[4] ** -0.5, initial_state=leaves[5],
            output_final_state=True)

    def fla(self):
        def call(s):
            with torch.no_grad():
                return self.by_fla([s[n] for n in self.INPUTS])
        return lambda s: lambda: call(s)

    def contenders(self):
        return {"tilec": self.tilec(), "fla": self.fla}

    def variants(self):
        return {"w%d" % w: self.tilec(w) for w in (4, 8)}

    def error(self, s, got, wanted):
        return max(float((a.float() - w).norm() / w.norm())
                   for a, w in zip(got, wanted))


class DeltaRuleBackward(DeltaRule):
    """From the inputs and the gradients of o and of the last state; flash-linear-
    attention keeps what its forward made."""

    word = "delta_rule_backward"
    products = 3
    like = DeltaRule.INPUTS

    def arguments(self, s):
        return [*(s[n] for n in (*self.INPUTS, "do", "dfinal")), *s["made"],
                self.size[4] ** -0.5]

    def reference(self, s):
        leaves = [s[n].float().requires_grad_() for n in self.INPUTS]
        return self.gradients(s, leaves, delta_rule(
            *leaves, self.size[4] ** -0.5), s["do"].float())

    def gradients(self, s, leaves, made, do, **more):
        return torch.autograd.grad(made, leaves, (do, s["dfinal"]), **more)

    def fla(self):
        def of(s):
            leaves = [s[n].clone().requires_grad_() for n in self.INPUTS]
            made = self.by_fla(leaves)
            return lambda: self.gradients(s, leaves, made, s["do"],
                                          retain_graph=True)
        return of


CASES = [
    Gla(64, 4096, 64, 128, tiles=[(4, dict(BV=64)), (4, dict(BV=32)),
                                  (8, dict(BV=128))]),
    Gla(128, 2048, 64, 64, tiles=[(4, dict(BV=64)), (4, dict(BV=32))]),
    *(kind(*size, 16, 32, 128) for kind in (DeltaRule, DeltaRuleBackward)
      for size in ((1, 8192), (4, 4096))),
]

SMALL = [Gla(2, 128, 32, 64, tiles=[(4, dict(BV=32))]),
         DeltaRule(1, 150, 2, 4, 32), DeltaRuleBackward(1, 150, 2, 4, 32)]
