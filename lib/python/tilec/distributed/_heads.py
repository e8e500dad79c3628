# SPDX-License-Identifier: Apache-2.0
"""Heads exchanged for positions (DeepSpeed Ulysses): each rank of a group gets
some heads of all positions that the group holds, and gives o back.

Grouped heads: a rank's query heads are whole groups, or a part of one group; then
several ranks get the same head of k and v, whose gradients add up.
"""
import torch


def of_queries(heads, size, rank):
    return rank * heads // size, (rank + 1) * heads // size


def of_keys(heads, kv_heads, size, rank):
    group = heads // kv_heads
    a, b = of_queries(heads, size, rank)
    return a // group, -(-b // group)


def check(heads, kv_heads, size):
    own, group = heads // size, heads // max(kv_heads, 1)
    if heads % size or own % group and group % own:
        raise ValueError(
            "strategy heads: %d query heads over %d ranks, %d of which share a "
            "head of key: expected whole groups for each rank, or parts of one" %
            (heads, size, group))


class Layout:
    """Where positions of a group lie: rows of each member, and in order."""

    def __init__(self, sharding, first, size):
        parts = sharding.parts[first:first + size]
        self.sizes = [sum(b - a for a, b in part) for part in parts]
        runs, row = [], 0
        for part in parts:
            for a, b in part:
                runs.append((a, b, row))
                row += b - a
        self.rows = [(row, row + b - a) for a, b, row in sorted(runs)]
        self.by_member, at = [], {}
        n = 0
        for a, b, row in sorted(runs):
            at[row] = n
            n += b - a
        row = 0
        for part in parts:
            mine = []
            for a, b in part:
                mine.append((at[row], at[row] + b - a))
                row += b - a
            self.by_member.append(mine)

    def ordered(self, pieces):
        """Members' rows, in the order of positions."""
        x = torch.cat(pieces, 2)
        if len(self.rows) < 2:
            return x
        return torch.cat([x[:, :, a:b] for a, b in self.rows], 2)

    def of_member(self, x, i):
        runs = self.by_member[i]
        if not runs:
            return x[:, :, :0].contiguous()
        return torch.cat([x[:, :, a:b] for a, b in runs], 2)


def _exchange(group, sends, shapes, like, what):
    """Pieces of all members; sends and shapes by member."""
    found = [sends[r] if r == group.rank else
             like.new_empty(shapes[r]) for r in range(group.size)]
    others = [r for r in range(group.size) if r != group.rank]
    group.begin([(r, 0, sends[r]) for r in others],
                [(r, 0, found[r]) for r in others], what).wait()
    return found


def _to_heads(group, layout, x, spans):
    b, _, _, d = x.shape
    own = spans[group.rank]
    sends = [x[:, h0:h1].contiguous() for h0, h1 in spans]
    shapes = [(b, own[1] - own[0], n, d) for n in layout.sizes]
    return layout.ordered(_exchange(group, sends, shapes, x, "heads"))


def _to_positions(group, layout, x, spans, heads):
    """The other way; heads that several members have add up, in float32."""
    b, _, _, d = x.shape
    n = layout.sizes[group.rank]
    sends = [layout.of_member(x, i) for i in range(group.size)]
    shapes = [(b, h1 - h0, n, d) for h0, h1 in spans]
    pieces = _exchange(group, sends, shapes, x, "positions")
    if spans[-1][1] == sum(h1 - h0 for h0, h1 in spans):
        return torch.cat(pieces, 1)
    total = torch.zeros(b, heads, n, d, dtype=torch.float32, device=x.device)
    for (h0, h1), piece in zip(spans, pieces):
        total[:, h0:h1] += piece
    return total.to(x.dtype)


class ToHeads(torch.autograd.Function):
    @staticmethod
    def forward(ctx, group, layout, x, spans):
        ctx.rest = group, layout, spans, x.shape[1]
        return _to_heads(group, layout, x, spans)

    @staticmethod
    def backward(ctx, dx):
        group, layout, spans, heads = ctx.rest
        return None, None, _to_positions(group, layout, dx, spans, heads), None


class ToPositions(torch.autograd.Function):
    @staticmethod
    def forward(ctx, group, layout, x, spans):
        ctx.rest = group, layout, spans
        return _to_positions(group, layout, x, spans, spans[-1][1])

    @staticmethod
    def backward(ctx, dx):
        group, layout, spans = ctx.rest
        return None, None, _to_heads(group, layout, dx, spans), None
