# SPDX-License-Identifier: Apache-2.0
"""Who takes part in a case, and whether what they give is right.

A contender is made by a function without arguments; what it makes runs one
launch (forward, or the gradients of q, k and v) and returns its results. It is
made and run on one stream, which is the one that autograd then uses.
"""
import functools
import math
import pathlib

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import tilec
import tilec.flex_attention
from cases import mods_of
from narrow import Narrow
from projected import Projected, Projection

torch._dynamo.config.recompile_limit = 1000
torch._dynamo.config.accumulated_recompile_limit = 10000
# Backward runs many times on what one forward kept.
torch._functorch.config.donated_buffer = False
torch.backends.cuda.matmul.allow_tf32 = False

# The tilec of another commit (before.py), a contender where there is one.
before = None

TEXTBOOK = (pathlib.Path(__file__).resolve().parents[2] /
            "kernels/tutorial/05_flash_attention.tile")

# The largest relative error of a bf16 result that passes for right.
TOLERANCE = {"forward": 1e-2, "backward": 2e-2}


@functools.cache
def flash_attention_3():
    """The module of its wheel, or None: it takes part where it is installed."""
    try:
        import flash_attn_interface
        return flash_attn_interface
    except ImportError:
        return None


class Attention:
    """The tensors of a case, its contenders, and the check of what they
    give."""

    def __init__(self, case, target=None):
        self.case, self.mods = case, mods_of(case)
        self.options = {"target": target} if target else {}
        b, h, hk, s, d, dv = (case[n] for n in ("B", "H", "HK", "S", "D",
                                                "DV"))
        self.backward = case["direction"] == "backward"
        self.gqa = h != hk

        def random(*shape):
            return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)

        self.inputs = [random(b, h, s, d), random(b, hk, s, d),
                       random(b, hk, s, dv)]
        self.dout = random(b, h, s, dv) if self.backward else None
        for t in self.inputs:
            t.requires_grad_(self.backward)

    @functools.cached_property
    def wanted(self):
        """Of some heads of k and v, with all heads of q that they serve."""
        last = self.case["B"] - 1, self.case["HK"] - 1
        return {at: self._reference(*at) for at in {(0, 0), last}}

    def makers(self):
        found = {"tilec": lambda: self._tilec(tilec, False),
                 "flex": self._flex}
        if before:
            found["before"] = lambda: self._tilec(before, False)
        if self.mods.mask_fn or self.mods.score_fn:
            found["tilec_flex"] = self._tilec_flex
        if self.backward:
            found["tilec_deterministic"] = lambda: self._tilec(tilec, True)
        if self.backward and before:
            found["before_deterministic"] = lambda: self._tilec(before, True)
        if self._is_textbook():
            found["textbook"] = self._textbook
        if not self.case["mod"]:
            found["cudnn"] = lambda: self._sdpa(SDPBackend.CUDNN_ATTENTION)
            found["fa2"] = lambda: self._sdpa(SDPBackend.FLASH_ATTENTION)
            if not self.backward and flash_attention_3():
                found["fa3"] = self._fa3
        return found

    def _run(self, forward):
        if not self.backward:
            return lambda: (forward(),)
        o = forward()
        return lambda: torch.autograd.grad(o, self.inputs, self.dout,
                                           retain_graph=True)

    def _tilec(self, package, deterministic):
        m = self.mods
        return self._run(lambda: package.attention(
            *self.inputs, score_mod=m.score, mask_mod=m.mask,
            captured=m.captured, enable_gqa=self.gqa,
            deterministic=deterministic, kernel_options=self.options))

    def _is_textbook(self):
        """Has the tutorial's kernel what this case needs?"""
        return not (self.backward or self.gqa or self.case["mod"] or
                    self.case["D"] != self.case["DV"])

    def _textbook(self):
        """The tutorial's kernel; the compiler chooses blocks, warps, stages."""
        q, k, v = self.inputs
        run = tilec.kernel(TEXTBOOK.read_text(encoding="utf-8"),
                           bindings={"CAUSAL": int(self.case["causal"])},
                           **self.options)
        o, lse = torch.empty_like(q), q.new_empty(q.shape[:3],
                                                  dtype=torch.float32)
        scale = 1 / math.sqrt(self.case["D"])
        return lambda: (run(q=q, k=k, v=v, o=o, lse=lse, scale=scale), o)[1:]

    def _flex(self):
        compiled = torch.compile(flex_attention, dynamic=False)
        return self._flex_of(compiled, create_block_mask)

    def _tilec_flex(self):
        """tilec with the Python functions that FlexAttention is given."""
        return self._flex_of(tilec.flex_attention.flex_attention,
                             tilec.flex_attention.create_block_mask)

    def _flex_of(self, attention, block_mask):
        """The block mask is made beforehand."""
        m, s = self.mods, self.case["S"]
        mask = block_mask(m.mask_fn, None, None, s, s,
                          device="cuda") if m.mask_fn else None
        return self._run(lambda: attention(
            *self.inputs, score_mod=m.score_fn, block_mask=mask,
            enable_gqa=self.gqa))

    def _sdpa(self, backend):
        def forward():
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(
                    *self.inputs, is_causal=self.case["causal"],
                    enable_gqa=self.gqa)
        return self._run(forward)

    def _fa3(self):
        """Its tensors are [B, S, H, D]."""
        q, k, v = (x.transpose(1, 2).contiguous() for x in self.inputs)

        def forward():
            o = flash_attention_3().flash_attn_func(
                q, k, v, causal=self.case["causal"])
            return (o[0] if isinstance(o, (tuple, list)) else o).transpose(1, 2)
        return lambda: (forward(),)

    def _heads(self, hk):
        group = self.case["H"] // self.case["HK"]
        return range(hk * group, (hk + 1) * group)

    def _reference(self, b, hk):
        """In float32, some rows at a time: (o,) of the query heads of one key
        head, or its (dq, dk, dv)."""
        q, k, v = self.inputs
        kf, vf = (t[b, hk].detach().float().requires_grad_(self.backward)
                  for t in (k, v))
        rows, sums = [], [torch.zeros_like(kf), torch.zeros_like(vf)]
        for h in self._heads(hk):
            for at in range(0, q.shape[2], 2048):
                part = q[b, h, at:at + 2048].detach().float()
                part.requires_grad_(self.backward)
                o = self._rows(part, kf, vf, b, h, at)
                if not self.backward:
                    rows.append(o)
                    continue
                do = self.dout[b, h, at:at + 2048].float()
                dq, *more = torch.autograd.grad(o, (part, kf, vf), do)
                rows.append(dq)
                sums = [x + y for x, y in zip(sums, more)]
        found = torch.cat(rows).view(len(self._heads(hk)), q.shape[2], -1)
        return (found, *sums) if self.backward else (found,)

    def _rows(self, q, k, v, b, h, at):
        s = q @ k.T / math.sqrt(q.shape[1])
        i = at + torch.arange(q.shape[0], device="cuda")[:, None]
        j = torch.arange(k.shape[0], device="cuda")[None]
        if self.mods.score_fn:
            s = self.mods.score_fn(s, b, h, i, j)
        if self.mods.mask_fn:
            s = torch.where(self.mods.mask_fn(b, h, i, j), s, -math.inf)
        return s.softmax(-1) @ v

    def error(self, name, results):
        """The largest relative error of a result, over some heads."""
        worst = 0.0
        for (b, hk), wanted in self.wanted.items():
            heads = self._heads(hk)
            some = [x[b, heads.start:heads.stop] if i == 0 else x[b, hk]
                    for i, x in enumerate(results)]
            for x, w in zip(some, wanted):
                e = ((x.float() - w).norm() / w.norm()).item()
                worst = e if not e <= worst else worst  # NaN is worst
        return worst

    def tolerance(self, name):
        return TOLERANCE[self.case["direction"]]


class Matmul:
    def __init__(self, case, target=None):
        m, n, k = (case[x] for x in "MNK")
        self.target = target
        self.a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
        self.b = torch.randn(k, n, device="cuda", dtype=torch.bfloat16)
        self.wanted = self.a[:64].float() @ self.b.float()

    def makers(self):
        found = {"tilec": lambda: self._tilec(tilec),
                 "cublas": lambda: (lambda: (self.a @ self.b,))}
        if before:
            found["before"] = lambda: self._tilec(before)
        return found

    def _tilec(self, package):
        c = self.a.new_empty(self.a.shape[0], self.b.shape[1])
        run = package.kernel("matmul", target=self.target)
        return lambda: (run(self.a, self.b, c), c)[1:]

    def tolerance(self, name):
        return TOLERANCE["forward"]

    def error(self, name, results):
        x = results[0][:64].float()
        return ((x - self.wanted).norm() / self.wanted.norm()).item()


def problem(case, target=None):
    kinds = {"attention": Attention, "fp8": Narrow, "matmul": Matmul,
             "projection": Projection, "projected": Projected}
    return kinds[case["kind"]](case, target)
