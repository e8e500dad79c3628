# SPDX-License-Identifier: Apache-2.0
"""How many pairs of queries and keys a mask leaves, counted on the device.

Attention counts: with scores of 0 each key that a query sees weighs 1, so the sum
of a row's exponentials is their number; with v that is 1 in the column of a
key's run, o says how many of them are in each run.
"""
import torch

from .. import _api
from . import _mods

_DIM = 16
_COLUMNS = 112  # runs of a call: as wide as a head is
_LONGEST = 8192  # keys of a column, so that counts in float32 are exact


def _zeros(batch, heads, n, width, device):
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    return torch.zeros(batch, heads, n, width, dtype=dtype, device=device)


def like(queries, keys, batch, heads, columns, device):
    """Tensors like those of a count, without memory."""
    return [_zeros(1, 1, 1, width, device).expand(batch, heads, max(n, 1), width)
            for n, width in ((queries, _DIM), (keys, _DIM),
                             (keys, _width(min(columns, _COLUMNS))))]


def _width(columns):
    return -(-max(columns, 1) // 16) * 16


def _columns(runs):
    """[(run's number, start, end)], none longer than counts are exact."""
    return [(i, at, min(end, at + _LONGEST)) for i, (start, end) in
            enumerate(runs) for at in range(start, end, _LONGEST)]


def _call(mods, queries, keys, columns, width, batch, heads, device):
    """o * sum of exponentials: [B, H, queries, columns]."""
    q = _zeros(batch, heads, len(queries), _DIM, device)
    k = _zeros(batch, heads, len(keys), _DIM, device)
    v = _zeros(batch, heads, len(keys), width, device)
    v[:, :, torch.arange(len(keys), device=device), columns] = 1
    places = dict(q_map=queries.to(torch.int32), k_map=keys.to(torch.int32),
                  h_offset=0)
    o, lse = _api.attention(
        q, k, v, return_lse=True, out_dtype="float32",
        **mods.arguments("mapped", True, (q, k, v), "float32", places,
                         only_mask=True))
    return o * lse.exp()[..., None]


def counts(mods, query_runs, key_runs, batch, heads, device):
    """(seen, hides): for each run of queries and of keys, how many pairs the mask
    leaves, and whether it hides any. Lists of lists."""
    positions = _positions(query_runs, device)
    rows = torch.tensor([b - a for a, b in query_runs], dtype=torch.int64,
                        device=device)
    owner = torch.repeat_interleave(
        torch.arange(len(query_runs), device=device), rows)
    seen = torch.zeros(len(query_runs), len(key_runs), dtype=torch.float64,
                       device=device)
    hides = torch.zeros_like(seen)
    if not mods.mask or not len(positions):
        area = [[(b - a) * (d - c) for c, d in key_runs]
                for a, b in query_runs]
        return area, [[False] * len(key_runs) for _ in query_runs]
    batch = batch if _mods.reads(mods.mask, 0) else 1
    heads = heads if _mods.reads(mods.mask, 1) else 1
    columns = _columns(key_runs)
    for first in range(0, len(columns), _COLUMNS):
        some = columns[first:first + _COLUMNS]
        keys = _positions([(a, b) for _, a, b in some], device)
        sides = torch.tensor([b - a for _, a, b in some], device=device)
        at = torch.repeat_interleave(torch.arange(len(some), device=device),
                                     sides)
        found = _call(mods, positions, keys, at, _width(len(some)), batch,
                      heads, device)[..., :len(some)].nan_to_num(0).double()
        into = torch.tensor([i for i, _, _ in some], device=device)
        hidden = (sides - found > 0.5).double().sum((0, 1))
        found = found.sum((0, 1)) / (batch * heads)
        for sums, x in ((seen, found), (hides, hidden)):
            by_run = torch.zeros(len(query_runs), len(some),
                                 dtype=torch.float64, device=device)
            by_run.index_add_(0, owner, x)
            sums.index_add_(1, into, by_run)
    return seen.tolist(), (hides > 0).tolist()


def _positions(runs, device):
    if not runs:
        return torch.empty(0, dtype=torch.int64, device=device)
    return torch.cat([torch.arange(a, b, device=device) for a, b in runs])
