#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Python masks and scores: tilec.flex_attention and torch's compiled one.

    TILEC_LIBRARY=build/libtilec.so python3 test/gpu/torch_flex.py
        [--device cpu] [--only TEXT] [--part I/N] [--dtype float32] [--alone]

Each mod of test/python/flex_zoo.py (attn-gym's, and those of FlexAttention's
documentation), forward and gradients, captured tensors included, with
create_block_mask of both packages. Errors are relative to whole matrices in
float64. Each may be at most 1.5 times the one of torch's flex_attention, or a
quarter of what the type's rounding costs; where torch fails, and with --alone,
at most what the rounding costs. Ends with `N passed, N failed`; exit status
77: no torch, or no such device.
"""
import pathlib
import sys
import warnings

HERE = pathlib.Path(__file__).resolve()
sys.path[:0] = [str(HERE.parents[2] / "lib" / "python"),
                str(HERE.parents[1] / "python")]
warnings.simplefilter("ignore")
try:
    import torch
except ImportError:
    print("no torch here")
    sys.exit(77)
from torch.nn.attention import flex_attention as torchs

import flex_reference
import flex_zoo
import torch_cases
from tilec import flex_attention as ours

ROUNDING = {torch.bfloat16: 1.2e-2, torch.float16: 2e-3, torch.float32: 3e-5}
# Of captured tensors' gradients: sums over all pairs, in which much cancels.
SUMS = 10
HEAD_DIM = 64


def shape_of(name, device):
    n = 2304 if device == "cuda" else 240
    m = 120 if name in ("tree", "draft_blocks") else n
    return 2, 4, m, n


class Case:
    """A mod, its inputs, and what float64 makes of them."""

    def __init__(self, name, args):
        b, h, m, n = shape = shape_of(name, args.device)
        scored = name in flex_zoo.SCORES
        make = (flex_zoo.SCORES if scored else flex_zoo.MASKS)[name]
        mod, captured = make(shape, args.device)
        torch.manual_seed(args.seed)
        dtype = getattr(torch, args.dtype)
        self.rounding = [ROUNDING[dtype]] * 5
        self.inputs = [torch.randn(
            b, h, length, HEAD_DIM, device=args.device, dtype=dtype,
            requires_grad=True) for length in (m, n, n)]
        self.leaves = [*self.inputs, *captured]
        self.rounding += [SUMS * ROUNDING[max(dtype, x.dtype, key=ROUNDING.get)]
                          for x in captured]
        self.score = mod if scored else None
        self.masks = None if scored else [
            package.create_block_mask(mod, b, h, m, n, device=args.device)
            for package in (ours, torchs)]
        o, lse, *_ = flex_reference.attention(
            *self.inputs, self.score, self.masks and self.masks[1])
        self.seed = torch.randn_like(self.inputs[0])
        self.gradients = torch.autograd.grad((o * self.seed).sum(), self.leaves)
        self.o, self.lse = o.detach(), lse.detach()

    def errors(self, run, mask):
        """Of o, lse and each gradient."""
        o, lse = run(*self.inputs, self.score, mask)
        seen = torch.isfinite(self.lse)
        got = torch.autograd.grad((o * self.seed).sum(), self.leaves)
        error = flex_reference.error
        return [error(o, self.o), error(lse[seen], self.lse[seen]),
                *map(error, got, self.gradients)]


def our_attention(q, k, v, score, mask):
    o, aux = ours.flex_attention(q, k, v, score, mask,
                                 return_aux=ours.AuxRequest(lse=True))
    return o, aux.lse


_compiled = torch.compile(torchs.flex_attention)


def torch_attention(q, k, v, score, mask):
    return _compiled(q, k, v, score_mod=score, block_mask=mask,
                     return_lse=True)


def same_blocks(a, b):
    return torch.equal(a.to_dense(), b.to_dense()) and all(
        torch.equal(getattr(a, x), getattr(b, x))
        for x in ("kv_num_blocks", "full_kv_num_blocks"))


def said(errors):
    return " ".join("%.1e" % x for x in errors)


def check(name, args):
    c = Case(name, args)
    if c.masks:
        assert same_blocks(*c.masks), "other blocks than torch's"
    found = [c.errors(our_attention, mask) for mask in c.masks or [None]]
    errors = [max(pair) for pair in zip(*found)]
    bounds, beside = c.rounding, ""
    if not args.alone:
        try:
            theirs = c.errors(torch_attention, c.masks and c.masks[1])
            bounds = [max(1.5 * x, y / 4)
                      for x, y in zip(theirs, c.rounding)]
            beside = "  torch " + said(theirs)
        except Exception as e:
            beside = "  torch: %s" % type(e).__name__
    text = said(errors) + beside
    assert all(x <= y for x, y in zip(errors, bounds)), text
    return text


def main():
    p = torch_cases.parser(__doc__)
    p.add_argument("--dtype", default="bfloat16", 
                   choices=("bfloat16", "float16", "float32"))
    p.add_argument("--alone", action="store_true",
                   help="without torch's flex_attention, which takes seconds "
                        "to compile")
    args = torch_cases.parse(p)
    torch_cases.run([(name, lambda n=name: check(n, args)) for name in
                     (*flex_zoo.MASKS, *flex_zoo.SCORES)], args)


if __name__ == "__main__":
    main()
