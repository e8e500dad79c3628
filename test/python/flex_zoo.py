# SPDX-License-Identifier: Apache-2.0
"""Masks and scores that people write for FlexAttention, by their definitions.

MASKS, SCORES: {name: make}; make(shape, device) gives a mod for tensors of
B, H, M, N = shape, and the captured tensors that have gradients.
"""
import math

import torch
from torch.nn.attention.flex_attention import and_masks, or_masks

MASKS, SCORES = {}, {}


def _add(to):
    def add(f):
        to[f.__name__.strip("_")] = f
        return f
    return add


_mask, _score = _add(MASKS), _add(SCORES)


def causal_mod(b, h, q, k):
    return q >= k


def _ids(offsets):
    lengths = offsets[1:] - offsets[:-1]
    return torch.repeat_interleave(torch.arange(
        len(lengths), device=offsets.device, dtype=torch.int32), lengths)


def _offsets(n, device):
    """int64: what torch.cumsum gives."""
    return torch.tensor([0, n // 5, n // 2, n // 2 + 3, n], device=device)


# ---- Masks ----


@_mask
def causal(shape, device):
    return causal_mod, []


@_mask
def sliding_window(shape, device, w=50):
    return and_masks(causal_mod, lambda b, h, q, k: q - k <= w), []


@_mask
def prefix_lm(shape, device, prefix=40):
    return or_masks(lambda b, h, q, k: k < prefix, causal_mod), []


@_mask
def padding(shape, device):
    lens = torch.linspace(shape[3] // 3, shape[3], shape[0],
                          device=device).long()
    return and_masks(causal_mod, lambda b, h, q, k: k < lens[b]), []


@_mask
def dilated_window(shape, device, w=40, d=3):
    def mod(b, h, q, k):
        far = torch.abs(q - k)
        return (far <= w) & (far % d == 0)
    return mod, []


@_mask
def global_window(shape, device, w=20):
    is_global = torch.arange(max(shape[2:]), device=device) % 50 == 7
    return or_masks(lambda b, h, q, k: (q - k).abs() <= w,
                    lambda b, h, q, k: is_global[q] | is_global[k]), []


@_mask
def documents(shape, device):
    """Ids of documents, and a causal mask of the positions in each."""
    offsets = _offsets(shape[3], device)
    ids = _ids(offsets)

    def mod(b, h, q, k):
        inner = causal_mod(b, h, q - offsets[ids[q]], k - offsets[ids[k]])
        return (ids[q] == ids[k]) & inner
    return mod, []


@_mask
def packed_documents(shape, device):
    offsets = _offsets(shape[3], device)
    ids = _ids(offsets)
    return lambda b, h, q, k: (k >= offsets[ids[q]]) & (q >= k), []


@_mask
def shared_prefix(shape, device):
    offsets = _offsets(shape[3], device)
    ids = _ids(offsets)
    prefix_of = torch.tensor([0, 1, 0, 0], device=device)

    def mod(b, h, q, k):
        doc = ids[q]
        prefix = prefix_of[doc]
        own = (k >= offsets[doc]) & causal_mod(b, h, q, k)
        return own | ((doc != prefix) & (k >= offsets[prefix]) &
                      (k < offsets[prefix + 1]))
    return mod, []


@_mask
def block_diffusion(shape, device, c=16):
    n = shape[2] // 2

    def mod(b, h, q, k):
        noised_q, noised_k = q < n, k < n
        block_q, block_k = q % n // c, k % n // c
        return ((block_q == block_k) & (noised_q == noised_k)) | \
            ((block_q > block_k) & noised_q & ~noised_k) | \
            ((block_q >= block_k) & ~noised_q & ~noised_k)
    return mod, []


@_mask
def vision_cross(shape, device):
    n = shape[3] // 4
    intervals = torch.tensor([[0, 60], [40, 90], [90, 91], [100, 192]],
                             device=device)
    image = torch.repeat_interleave(torch.arange(4, device=device), n)

    def mod(b, h, q, k):
        interval = intervals[image[k]]
        return (q >= interval[0]) & (q < interval[1])
    return mod, []


def _natten(place, width, height, kw, kh):
    def mod(b, h, q, k):
        (qx, qy), (kx, ky) = place(q), place(k)
        cx = qx.clamp(kw // 2, width - 1 - kw // 2)
        cy = qy.clamp(kh // 2, height - 1 - kh // 2)
        return (cx - kw // 2 <= kx) & (kx <= cx + kw // 2) & \
            (cy - kh // 2 <= ky) & (ky <= cy + kh // 2)
    return mod


@_mask
def natten(shape, device, width=12, kernel=5):
    return _natten(lambda i: (i // width, i % width), shape[2] // width, width,
                   kernel, kernel), []


@_mask
def tiled_natten(shape, device, width=16, kernel=5, tile=4):
    def place(i):
        at, inner = i // (tile * tile), i % (tile * tile)
        return (at % (width // tile) * tile + inner % tile,
                at // (width // tile) * tile + inner // tile)
    return _natten(place, width, shape[2] // width, kernel, kernel), []


@_mask
def morton_natten(shape, device, kernel=5):
    def even(x):
        for shift, bits in ((0, 0x55555555), (1, 0x33333333), (2, 0x0F0F0F0F),
                            (4, 0x00FF00FF), (8, 0x0000FFFF)):
            x = (x | (x >> shift)) & bits
        return x
    return _natten(lambda i: (even(i), even(i >> 1)), 16, 16, kernel,
                   kernel), []


def _sliding_tiles(place, tiles, kernels, vision, text):
    def mod(b, h, q, k):
        seen = (q < vision) & (k < vision)
        for at_q, at_k, n, kernel in zip(place(q), place(k), tiles, kernels):
            left, right = kernel // 2, kernel // 2 + (kernel % 2 - 1)
            centre = at_q.clamp(left, n - 1 - right)
            seen = seen & (at_k >= centre - left) & (at_k <= centre + right)
        to_text = (q < vision) & (k >= vision) & (k < vision + text)
        return seen | to_text | ((q >= vision) & (k < vision + text))
    return mod


@_mask
def sliding_tiles(shape, device, text=20):
    """16 x 10 tokens in tiles of 4 x 2, kernels of 3 x 3 tiles."""
    return _sliding_tiles(
        lambda i: (i // 8 // 5, i // 8 % 5), (4, 5), (3, 3), 160, text), []


@_mask
def sliding_tiles_3d(shape, device, text=20):
    """4 x 8 x 4 tokens in tiles of 2 x 2 x 2, kernels of 1 x 3 x 2 tiles."""
    return _sliding_tiles(
        lambda i: (i // 8 // 8, i // 8 % 8 // 2, i // 8 % 2), (2, 4, 2),
        (1, 3, 2), 128, text), []


@_mask
def spatial_head(shape, device, prompt=20, frame=30, width=2):
    def mod(b, h, q, k):
        reach = math.floor(width * frame / 16) * 16
        return (k < prompt) | (q < prompt) | (torch.abs(q - k) < reach)
    return mod, []


@_mask
def temporal_head(shape, device, prompt=20, frame=30, frames=6, width=2):
    def mod(b, h, q, k):
        in_q, in_k = (q - prompt) % frame, (k - prompt) % frame
        return (k < prompt) | (q < prompt) | (
            torch.abs(in_q - in_k) < width * frame // frames)
    return mod, []


@_mask
def batched(shape, device, n=48):
    inner, _ = dilated_window(shape, device)
    return lambda b, h, q, k: (q // n == k // n) & inner(b, h, q % n, k % n), []


@_mask
def tree(shape, device):
    prefix = shape[3] - shape[2]
    parents = [-1] + [(i * 7) % i for i in range(1, shape[2])]
    ancestors = torch.eye(shape[2], dtype=torch.bool)
    for node, parent in enumerate(parents[1:], start=1):
        ancestors[node] |= ancestors[parent]
    ancestors = ancestors.to(device)
    nodes = ancestors.shape[0]

    def mod(b, h, q, k):
        at = (k - prefix).clamp(min=0, max=nodes - 1)
        return (k < prefix) | ((k >= prefix) & (k < prefix + nodes) &
                               ancestors[q, at])
    return mod, []


@_mask
def draft_blocks(shape, device, c=6):
    prefix = shape[3] - shape[2]

    def mod(b, h, q, k):
        at = k - prefix
        own = (k >= prefix) & (q // c == at // c) & (at % c <= q % c)
        return (k < prefix) | own
    return mod, []


@_mask
def selected_tiles(shape, device, tile=16):
    torch.manual_seed(1)
    tiles = shape[3] // tile
    chosen = torch.rand(shape[0], shape[1], -(-shape[2] // tile), tiles).topk(
        3).indices.to(device)
    sizes = torch.arange(tiles, device=device) % 5 + tile - 4

    def mod(b, h, q, k):
        mine = (chosen[b, h, q // tile] == (k // tile).unsqueeze(-1)).any(-1)
        return mine & (k % tile < sizes[k // tile])
    return mod, []


@_mask
def per_head(shape, device):
    windows = torch.tensor([8, 30, 64, 1000], device=device)
    return lambda b, h, q, k: (q - k < windows[h % 4]) & (q >= k) & (b >= 0), []


# ---- Scores ----


@_score
def alibi(shape, device):
    heads = shape[1]

    def mod(s, b, h, q, k):
        return s + (k - q) * torch.exp2(-((h + 1) * 8.0 / heads))
    return mod, []


@_score
def soft_cap(shape, device, cap=20):
    return lambda s, b, h, q, k: cap * torch.tanh(s / cap), []


@_score
def gelu_weights(shape, device, offset=1.0):
    return lambda s, b, h, q, k: torch.log(
        torch.nn.functional.gelu(s) + offset), []


@_score
def relu_weights(shape, device, offset=0.5):
    return lambda s, b, h, q, k: torch.log(torch.relu(s) + offset), []


@_score
def sandwich(shape, device, width=16):
    heads, n = shape[1], max(shape[2:])
    freqs = 10000.0 ** (-2 * torch.arange(width // 2, device=device) / width)
    far = torch.arange(2 * n - 1, device=device) - (n - 1)
    bias = torch.cos(far.abs()[:, None] * freqs).sum(-1)
    scale = heads / (8.0 * torch.arange(1, heads + 1, device=device))
    offset = n - 1
    return lambda s, b, h, q, k: s + bias[q - k + offset] * scale[h], []


@_score
def graph_distance(shape, device):
    torch.manual_seed(1)
    table = torch.randn(shape[1], 6, device=device, requires_grad=True)
    far = torch.randint(0, 6, (shape[0], *shape[2:]), device=device,
                        dtype=torch.int32)
    return lambda s, b, h, q, k: s + table[h, far[b, q, k]], [table]


@_score
def graph_edges(shape, device, hops=3):
    torch.manual_seed(1)
    table = torch.randn(shape[1], hops, 5, device=device, requires_grad=True)
    kinds = torch.randint(0, 5, (shape[0], *shape[2:], hops), device=device)
    lengths = torch.randint(0, hops + 1, (shape[0], *shape[2:]), device=device)
    tables = [table[:, n] for n in range(hops)]

    def mod(s, b, h, q, k):
        length, total = lengths[b, q, k], 0.0
        for n, mine in enumerate(tables):
            total = total + torch.where(
                length > n, mine[h, kinds[b, q, k, n]], 0.0)
        return s + total / torch.clamp(length, min=1)
    return mod, [table]


@_score
def rotary_part(shape, device, width=8, scale=0.5):
    """Multi-head latent attention: a part of the score by whole rows."""
    torch.manual_seed(1)
    heads = shape[1]
    of_q = torch.randn(*shape[:3], width, device=device, requires_grad=True)
    of_k = torch.randn(shape[0], 1, shape[3], width, device=device,
                       requires_grad=True)
    return lambda s, b, h, q, k: s + scale * torch.dot(
        of_q[b, h, q], of_k[b, h // heads, k]), [of_q, of_k]


@_score
def relative(shape, device):
    return lambda s, b, h, q, k: s + (q - k), []


@_score
def relative_table(shape, device):
    torch.manual_seed(1)
    n = max(shape[2:])
    table = torch.randn(shape[1], 2 * n, device=device, requires_grad=True)
    return lambda s, b, h, q, k: s + table[h, q - k + n], [table]


@_score
def checkerboard(shape, device):
    def mod(s, b, h, q, k):
        s = torch.where(torch.abs(k - q) % 2 == 1, s * 0.5, s)
        return torch.where(torch.abs(k - q) % 2 == 0, s * 2.0, s)
    return mod, []


@_score
def causal_score(shape, device):
    return lambda s, b, h, q, k: torch.where(q >= k, s, -float("inf")), []


@_score
def pair_bias(shape, device):
    torch.manual_seed(1)
    bias = torch.randn(shape, device=device, requires_grad=True)
    return lambda s, b, h, q, k: s + bias[b, h, q, k], [bias]


@_score
def wrapped_bias(shape, device):
    """Indices below 0 count from the end."""
    torch.manual_seed(1)
    bias = torch.randn(max(shape[2:]), device=device, requires_grad=True)
    return lambda s, b, h, q, k: s + bias[torch.where(q >= k, q - k, -1)], \
        [bias]


@_score
def slopes_16_bits(shape, device):
    torch.manual_seed(1)
    slopes = torch.rand(shape[1], device=device).to(torch.bfloat16)
    slopes = (slopes / 64).requires_grad_()
    return lambda s, b, h, q, k: s + slopes[h] * (k - q), [slopes]


@_score
def temperature(shape, device):
    """A tensor of rank 0, learned."""
    t = torch.tensor(1.5, device=device, requires_grad=True)
    return lambda s, b, h, q, k: s * t, [t]
