# SPDX-License-Identifier: Apache-2.0
"""Values that a linear layer makes, in 8 bits (e4m3), then attention.

Products of 8 bits read v by columns. The plan @projected_attention has the
layer store it so; what else one could do:

    tilec          the plan: v by columns from the layer's own store
    tilec_between  the layer's kernel stores v by rows, a kernel copies it by
                   columns, then attention
    tilec_off      the plan, and nothing done about v: enforce="off"
    tilec_bf16     the plan with q, k and v in bf16

and of the layer alone (the set's other case):

    tilec          v by columns
    tilec_rows     v by rows
    cublas         torch's linear layer: bf16 [B, N, HK DV]

Right is the same in float64, of some heads, from q and k as stored.
"""
import functools
import math
import pathlib

import torch
import torch.nn.functional as F

import tilec

DEVICE = "cuda"
KERNELS = pathlib.Path(__file__).resolve().parents[2] / "kernels"
E4M3 = torch.float8_e4m3fn
TILES = {"BM": 128, "BN": 128}  # the same for all of them
WARPS = 8
TOLERANCE = {"tilec_bf16": 1e-2, "cublas": 1e-2}
ROUNDED = 0.08  # v, and the weights, to three bits


class _Layer:
    """x, a linear layer, and v = x w^T + bias: [B, HK, N, DV]."""

    def __init__(self, case, target=None):
        self.case, self.target = case, target
        b, h, s, d, e = (case[n] for n in ("B", "H", "S", "DV", "E"))

        def random(*shape):
            return torch.randn(*shape, device=DEVICE, dtype=torch.bfloat16)

        self.x, self.bias = random(b, s, e), random(h, d)
        self.w = random(h, d, e) / math.sqrt(e)
        self.factor = torch.full((b, h), 4.0 / 448, device=DEVICE)
        self.places = sorted({(0, 0), (b - 1, h - 1)})

    def _values(self, b, h):
        return (self.x[b].double() @ self.w[h].double().T +
                self.bias[h].double())

    def _project(self, y):
        text = (KERNELS / "project.tile").read_text(encoding="utf-8")
        factors = (KERNELS / "mods/descales.tile").read_text(encoding="utf-8")
        if y.stride(2) == 1:  # what a plan's compiler does to it by itself
            text = text.replace(" x TY>", " x TY, contiguous(2)>")
        names = {"x": self.x, "w": self.w, "bias": self.bias, "y": y,
                 "descale_v.scales": self.factor}
        run = tilec.compile(
            text + factors, name="project_values", target=self.target,
            examples=names, num_warps=WARPS,
            bindings={"TY": "f8e4m3", "descale_v": "@per_batch_head"})
        return lambda: (run(**names), y)[1]

    def tolerance(self, name):
        return TOLERANCE.get(name, ROUNDED)

    def error(self, name, results):
        return max(_error(self._of(name, results[0], at), self.wanted[at])
                   for at in self.places)


class Projection(_Layer):
    def makers(self):
        b, h, s, d = (self.case[n] for n in ("B", "H", "S", "DV"))
        columns = torch.empty(b, h, d, s, device=DEVICE, dtype=E4M3).mT
        rows = torch.empty(b, h, s, d, device=DEVICE, dtype=E4M3)
        flat, bias = self.w.flatten(0, 1), self.bias.flatten()

        def made(y):
            run = self._project(y)
            return lambda: (run(),)
        return {"tilec": lambda: made(columns), "tilec_rows": lambda: made(rows),
                "cublas": lambda: lambda: (F.linear(self.x, flat, bias),)}

    @functools.cached_property
    def wanted(self):
        return {at: self._values(*at) for at in self.places}

    def _of(self, name, found, at):
        if name == "cublas":
            return found.unflatten(2, self.bias.shape)[at[0], :, at[1]].double()
        return found[at].double() * self.factor[at].double()


class Projected(_Layer):
    def __init__(self, case, target=None):
        super().__init__(case, target)
        b, h, s, d = (case[n] for n in ("B", "H", "S", "D"))
        self.wide = [torch.randn(b, h, s, d, device=DEVICE,
                                 dtype=torch.bfloat16) for _ in range(2)]
        self.narrow = [x.to(E4M3) for x in self.wide]

    def makers(self):
        return {"tilec": self._plan, "tilec_between": self._between,
                "tilec_off": lambda: self._plan(enforce="off"),
                "tilec_bf16": lambda: self._plan(dtype="bf16")}

    def _plan(self, dtype="f8e4m3", enforce="warn"):
        narrow = dtype == "f8e4m3"
        q, k = self.narrow if narrow else self.wide
        o = torch.empty_like(q, dtype=torch.bfloat16)
        lse = torch.empty(q.shape[:3], device=DEVICE)
        names = {"q": q, "k": k, "x": self.x, "w": self.w, "bias": self.bias,
                 "o": o, "lse": lse, "max": lse,
                 "scale": 1 / math.sqrt(q.shape[3])}
        bindings = {"T": dtype, "TO": "bf16", "TP": dtype, **TILES}
        if narrow:
            names["descale_v.scales"] = self.factor
            bindings.update(P_SHIFT=8, descale_v="@per_batch_head")
        run = tilec.compile("attention", name="projected_attention",
                            target=self.target, examples=names,
                            bindings=bindings, num_warps=WARPS, enforce=enforce)
        return lambda: (run(**names), (o,))[1]

    def _between(self):
        q, k = self.narrow
        v = torch.empty(k.shape[:3] + (self.case["DV"],), device=DEVICE,
                        dtype=E4M3)
        project = self._project(v)
        options = {"COPY_VALUES": True, "BLOCK_M": TILES["BM"],
                   "BLOCK_N": TILES["BN"], "num_warps": WARPS}
        if self.target:
            options["target"] = self.target

        def run():
            project()
            return (tilec.attention(q, k, v, descale_v=self.factor,
                                    kernel_options=options),)
        return run

    @functools.cached_property
    def wanted(self):
        return {(kind, at): self._attention(kind, *at)
                for kind in ("wide", "narrow") for at in self.places}

    def _attention(self, kind, b, h):
        q, k = (x[b, h].double() for x in getattr(self, kind))
        v = self._values(b, h)
        return torch.cat([
            (part @ k.T / math.sqrt(q.shape[1])).softmax(-1) @ v
            for part in q.split(1024)])

    def error(self, name, results):
        kind = "wide" if name == "tilec_bf16" else "narrow"
        return max(_error(results[0][at].double(), self.wanted[kind, at])
                   for at in self.places)


def _error(x, wanted):
    e = ((x - wanted).norm() / wanted.norm()).item()
    return e if e == e else math.inf
