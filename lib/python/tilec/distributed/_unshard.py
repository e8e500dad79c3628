# SPDX-License-Identifier: Apache-2.0
"""The whole sequence, of the positions that ranks hold."""
import typing

import torch

from . import _group
from ._sharding import Sharding


class _Unshard(torch.autograd.Function):
    @staticmethod
    def forward(ctx, groups, sharding, x, dim):
        ctx.rest = sharding, dim
        parts = [x.contiguous()]
        for group in groups:  # heads first
            parts = _gathered(group, parts, sharding, dim)
        return sharding.joined(parts, dim)

    @staticmethod
    def backward(ctx, d):
        sharding, dim = ctx.rest
        return None, None, sharding.shard(d, dim), None


def _gathered(group, parts, sharding, dim):
    """Of each rank of the group the parts that it has: as many, in order."""
    n = len(parts)
    ours = sharding.rank - sharding.rank % n  # the first of these
    stride = n
    first = ours - group.rank * stride
    found, sends, receives = [], [], []
    for r in range(group.size):
        for i in range(n):
            if r == group.rank:
                found.append(parts[i])
                continue
            shape = list(parts[0].shape)
            shape[dim] = sharding.size(first + r * stride + i)
            found.append(parts[0].new_empty(shape))
            receives.append((r, i, found[-1]))
            sends.append((r, i, parts[i]))
    group.begin(sends, receives, "unshard").wait()
    return found


def unshard(x: torch.Tensor, sharding: Sharding, dim: int,
            group: typing.Any = None) -> torch.Tensor:
    """The whole sequence on each rank, of the rows that each holds. Its
    gradient is this rank's part of the gradient that comes in: for losses that
    all ranks compute alike."""
    ring, heads = _group.of(group)
    groups = [g for g in (heads, ring) if g is not None]
    return _Unshard.apply(groups, sharding, x, dim)
