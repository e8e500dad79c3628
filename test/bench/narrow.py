# SPDX-License-Identifier: Apache-2.0
"""A case in numbers of 8 bits (e4m3): who takes part, and what is right.

All get the same numbers. What they are times of is one factor each for q, k
and v, since FlexAttention knows no others; tilec is given it for each batch
and head, as it would be used. Right is float64 attention of those numbers;
tilec's error may be 1.2 times what rounding the weights (times 2^8 against the
largest of their row, to e4m3; sums from before that) alone makes of it.

    tilec         v column-major
    tilec_rows    v row-major: copied by columns first, or transposed on the
                  way, as the library chooses
    tilec_off     the same, and nothing done about it: enforce="off"
    tilec_exact   v column-major, the products' sums whole in float32
    tilec_bf16    what was rounded to 8 bits, in bf16
    cudnn_bf16    likewise
    flex          FlexAttention, v column-major; o of 8 bits too
    flex_rows     FlexAttention, v row-major
"""
import functools
import math

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import tilec
from cases import mods_of

DEVICE = "cuda"
E4M3 = torch.float8_e4m3fn
LARGEST = 448.0  # of e4m3
TOLERANCE = {"tilec_bf16": 1e-2, "cudnn_bf16": 1e-2, "flex": 0.1,
             "flex_rows": 0.1}


def narrowed(x):
    """Numbers of 8 bits, and what they are times of."""
    factor = x.abs().amax().float() / LARGEST
    return (x.float() / factor).to(E4M3), factor


def by_columns(v):
    return v.mT.contiguous().mT


class Narrow:
    def __init__(self, case, target=None):
        self.case, self.mods = case, mods_of(case)
        self.target = {"target": target} if target else {}
        b, h, s, d = (case[n] for n in "BHSD")
        self.wide = [torch.randn(b, h, s, d, device=DEVICE,
                                 dtype=torch.bfloat16) for _ in range(3)]
        self.numbers, self.factors = zip(*[narrowed(x) for x in self.wide])
        self.scales = [f.expand(b, h).contiguous() for f in self.factors]

    def makers(self):
        v = self.numbers[2]
        c = by_columns(v)
        return {"tilec": lambda: self._tilec(c, {}),
                "tilec_rows": lambda: self._tilec(v, {}),
                "tilec_off": lambda: self._tilec(v, {"enforce": "off"}),
                "tilec_exact": lambda: self._tilec(c, {"EXACT_SUMS": True}),
                "tilec_bf16": self._tilec_wide,
                "cudnn_bf16": self._cudnn,
                "flex": lambda: self._flex(c),
                "flex_rows": lambda: self._flex(v)}

    def _tilec(self, v, options):
        q, k, _ = self.numbers
        names = ("descale_q", "descale_k", "descale_v")
        return lambda: (tilec.attention(
            q, k, v, mask_mod=self.mods.mask,
            kernel_options={**self.target, **options},
            **dict(zip(names, self.scales))),)

    def _tilec_wide(self):
        return lambda: (tilec.attention(
            *self.wide, mask_mod=self.mods.mask,
            kernel_options=self.target),)

    def _cudnn(self):
        def forward():
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                return (F.scaled_dot_product_attention(
                    *self.wide, is_causal=self.case["causal"]),)
        return forward

    def _flex(self, v):
        compiled = torch.compile(flex_attention, dynamic=False)
        s, (q, k, _) = self.case["S"], self.numbers
        mask = create_block_mask(self.mods.mask_fn, None, None, s, s,
                                 device=DEVICE) if self.mods.mask_fn else None
        scale = (self.factors[0] * self.factors[1]).item() / math.sqrt(
            q.shape[3])
        return lambda: (compiled(q, k, v, block_mask=mask, scale=scale),)

    # ---- What is right ----

    def _meant(self, name, at):
        """q, k, v of one head in float64, as that contender got them."""
        if name.endswith("bf16"):
            return [x[at].double() for x in self.wide]
        return [x[at].double() * f.double()
                for x, f in zip(self.numbers, self.factors)]

    def _attention(self, q, k, v, rounded=False):
        rows = []
        for at in range(0, q.shape[0], 1024):
            s = q[at:at + 1024] @ k.T / math.sqrt(q.shape[1])
            if self.mods.mask_fn:
                i = at + torch.arange(s.shape[0], device=s.device)[:, None]
                j = torch.arange(s.shape[1], device=s.device)[None]
                s.masked_fill_(~self.mods.mask_fn(0, 0, i, j), -math.inf)
            p = torch.exp(s - s.amax(-1, keepdim=True))
            total = p.sum(-1, keepdim=True)
            if rounded:
                p = (p * 256).float().to(E4M3).double() / 256
            rows.append(p @ v / total)
        return torch.cat(rows)

    @functools.cached_property
    def places(self):
        return sorted({(0, 0), (self.case["B"] - 1, self.case["H"] - 1)})

    @functools.cached_property
    def wanted(self):
        return {(suffix, at): self._attention(*self._meant(suffix, at))
                for suffix in ("", "bf16") for at in self.places}

    @functools.cached_property
    def least(self):
        """The error of rounded weights."""
        return max(error_of(
            self._attention(*self._meant("", at), rounded=True),
            self.wanted["", at]) for at in self.places)

    def error(self, name, results):
        unit = self.factors[2].double() if name.startswith("flex") else 1.0
        suffix = "bf16" if name.endswith("bf16") else ""
        return max(error_of(results[0][at].double() * unit,
                            self.wanted[suffix, at]) for at in self.places)

    def tolerance(self, name):
        return TOLERANCE.get(name) or 1.2 * self.least


def error_of(x, wanted):
    e = ((x - wanted).norm() / wanted.norm()).item()
    return e if e == e else math.inf
