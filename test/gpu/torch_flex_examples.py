#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Examples of FlexAttention's documentation and articles that are more than a
mask or a score (test/python/flex_zoo.py has those), with tilec's functions.

    TILEC_LIBRARY=build/libtilec.so python3 test/gpu/torch_flex_examples.py
        [--device cpu] [--only TEXT]

In float32, against torch's own eager flex_attention. Exit status 77: no torch,
or no such device.
"""
import sys
import warnings

import torch_cases  # first: finds tilec

try:
    import torch
    from torch.nn.attention import flex_attention as torchs
except ImportError:
    print("no torch here")
    sys.exit(77)
from tilec.flex_attention import (AuxRequest, and_masks, create_block_mask,
                                  flex_attention, noop_mask, or_masks)

B, H, N, D, PAGE = 2, 4, 256, 32, 64


def causal(b, h, q_idx, kv_idx):
    return q_idx >= kv_idx


def distance(score, b, h, q_idx, kv_idx):
    return score + 0.01 * (kv_idx - q_idx)


def inputs(device, heads=H):
    torch.manual_seed(0)
    return [torch.randn(B, n, N, D, device=device) for n in (H, heads, heads)]


def near(x, y):
    off = ((x - y).norm() / y.norm()).item()
    assert off <= 3e-6, "off by %g" % off


def seen(mask_mod, device, b=None, h=None):
    """torch's BlockMask."""
    return torchs.create_block_mask(mask_mod, b, h, N, N, device=device)


# ---- Decoding ----


def decode(device):
    """One query at an offset, by a row of the blocks of the whole mask."""
    q, k, v = inputs(device)
    whole = create_block_mask(causal, None, None, N, N, device=device)
    want = torchs.flex_attention(q, k, v, block_mask=seen(causal, device))

    def shifted(mask_mod, offset):
        return lambda b, h, q_idx, kv_idx: mask_mod(b, h, q_idx + offset,
                                                    kv_idx)

    for at in (3, 130, N - 1):
        mask = whole[:, :, at // whole.BLOCK_SIZE[0]]
        mask.mask_mod = shifted(whole.mask_mod,
                                torch.tensor(at, device=device))
        mask.seq_lengths = (1, N)  # before torch 2.12 a slice has the whole's
        near(flex_attention(q[:, :, at:at + 1], k, v, block_mask=mask),
             want[:, :, at:at + 1])


def grouped_decode(device):
    q, k, v = inputs(device, heads=1)
    one = q[:, :, :1]
    near(flex_attention(one, k, v, distance, enable_gqa=True),
         torchs.flex_attention(one, k, v, distance, enable_gqa=True))


# ---- Paged attention ----


def pages_of(k, v, device):
    """torch's PagedAttention with k and v, and the pool that they are in."""
    from torch.nn.attention.experimental._paged_attention import PagedAttention
    pages = B * N // PAGE + 3
    paged = PagedAttention(pages, PAGE, B, device=device)
    for length in (PAGE, N):  # turns: pages of a sequence are apart
        for b in range(B):
            paged.reserve(torch.tensor(b, device=device),
                          torch.tensor(length, device=device))
    pool = [torch.zeros(1, H, pages * PAGE, D, device=device)
            for _ in range(2)]
    paged.assign(torch.arange(B, device=device),
                 torch.arange(N, device=device).expand(B, N), k, v, *pool)
    return paged, pool


def paged(device):
    """The pool is one batch entry for all; masks and scores see positions."""
    q, k, v = inputs(device)
    pages, pool = pages_of(k, v, device)
    mask = pages.convert_logical_block_mask(create_block_mask(
        causal, B, None, N, N, device=device, BLOCK_SIZE=PAGE))
    near(flex_attention(q, *pool, pages.get_score_mod(distance), mask),
         torchs.flex_attention(q, k, v, distance, seen(causal, device)))


# ---- Training ----


def learned_bias(device):
    """Of relative positions and heads, in one score_mod."""
    q, k, v = inputs(device)
    bias, heads = (torch.randn(n, device=device, requires_grad=True)
                   for n in (2 * N, H))
    at = torch.arange(N, device=device)
    q.requires_grad_()
    scores = q @ k.mT * D ** -0.5 * heads[:, None, None] + bias[
        at[:, None] - at + N]
    o = flex_attention(q, k, v, lambda s, b, h, i, j:
                       s * heads[h] + bias[i - j + N])
    for x, y in zip(*[torch.autograd.grad(x.sin().sum(), (q, heads, bias))
                      for x in (o, torch.softmax(scores, -1) @ v)]):
        near(x, y)


class _Tanh(torch.autograd.Function):
    """As attn-gym approximates it: an operator of its own, that inductor
    lowers to an instruction."""

    @staticmethod
    def forward(x):
        return torch.ops.tilec_test.tanh(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad):
        result, = ctx.saved_tensors
        return grad * (1 - result * result)

    @staticmethod
    def vmap(info, dims, x):
        return torch.tanh(x), 0


def custom_operator(device):
    op = torch.library.custom_op("tilec_test::tanh", torch.tanh,
                                 mutates_args=(),
                                 schema="(Tensor x) -> Tensor")
    op.register_fake(torch.empty_like)
    q, k, v = inputs(device)
    near(flex_attention(q, k, v, lambda s, b, h, i, j:
                        20 * _Tanh.apply(s / 20)),
         torchs.flex_attention(q, k, v, lambda s, b, h, i, j:
                               20 * torch.tanh(s / 20)))


# ---- Masks put together, what else a call gives ----


def combined(device):
    """A prefix of each sequence beside causal, in a window."""
    q, k, v = inputs(device)
    prefixes = torch.tensor([5, 100], device=device, dtype=torch.int32)
    mods = and_masks(
        or_masks(lambda b, h, i, j: j < prefixes[b], causal),
        lambda b, h, i, j: (i - j).abs() < 90, noop_mask)
    near(flex_attention(q, k, v, block_mask=create_block_mask(
            mods, B, None, N, N, device=device, _compile=True)),
         torchs.flex_attention(q, k, v, block_mask=seen(mods, device, B)))


def asked_besides(device):
    q, k, v = inputs(device)
    scores = q @ k.mT * D ** -0.5
    _, aux = flex_attention(q, k, v, return_aux=AuxRequest(
        lse=True, max_scores=True))
    near(aux.lse, scores.logsumexp(-1))
    near(aux.max_scores, scores.amax(-1))
    _, aux = flex_attention(q, k, v, return_aux=AuxRequest(lse=True))
    assert aux.max_scores is None


def kernel_options(device):
    """Tile sizes count, choices of torch's kernels change nothing."""
    q, k, v = inputs(device)
    want = torchs.flex_attention(q, k, v)
    for options in ({"BLOCK_M": 64, "BLOCK_N": 32}, {"PRESCALE_QK": True},
                    {"fwd_num_warps": 4, "bwd_BLOCK_M1": 32},
                    {"BLOCK_M": 32, "BLOCK_N": 32, "num_warps": 4,
                     "num_stages": 2}, {"FORCE_USE_FLEX_ATTENTION": True},
                    {"ROWS_GUARANTEED_SAFE": True, "USE_TMA": True}):
        near(flex_attention(q, k, v, kernel_options=options), want)


CASES = (decode, grouped_decode, paged, learned_bias, custom_operator, combined,
         asked_besides, kernel_options)


def main():
    args = torch_cases.parse(torch_cases.parser(__doc__))
    warnings.simplefilter("ignore")
    torch_cases.run([(f.__name__, lambda f=f: f(args.device)) for f in CASES],
                    args)


if __name__ == "__main__":
    main()
