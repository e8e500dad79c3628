# SPDX-License-Identifier: Apache-2.0
"""Which positions of a sequence each rank holds.

A Sharding has a part for each rank: runs (start, end) of positions, ascending.
A rank's rows are its runs one after the other.

    contiguous   rank r has the r-th W-th of the sequence
    zigzag       2 W chunks; rank r has chunks r and 2 W - 1 - r: as much work for
                 all under a causal mask
    dealt        chunks by the work that a mask leaves, longest first, each to the
                 rank with least work so far; all ranks have as many chunks
"""
import functools
import hashlib
import typing

import torch

Rank = typing.Optional[int]  # None: one's own
Parts = typing.Sequence[typing.Sequence[typing.Tuple[int, int]]]
Runs = typing.Tuple[typing.Tuple[typing.Tuple[int, int], ...], ...]
Device = typing.Union[torch.device, str, int, None]

ALIGN = 128  # runs begin at multiples of the kernels' blocks


def coalesced(runs):
    """Ascending runs, adjoining ones as one, empty ones left out."""
    found = []
    for start, end in sorted(runs):
        if start == end:
            continue
        if found and found[-1][1] == start:
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return tuple(found)


def _cut(length, n, align):
    """n chunks of about one size, multiples of `align` where that leaves none
    much smaller."""
    align = align if length >= 4 * n * align else 1
    blocks = -(-length // align)
    ends = [min(length, align * (blocks * (i + 1) // n)) for i in range(n)]
    return list(zip([0] + ends[:-1], ends))


def contiguous(length, ranks, align=ALIGN):
    return [coalesced([run]) for run in _cut(length, ranks, align)]


def zigzag(length, ranks, align=ALIGN):
    chunks = _cut(length, 2 * ranks, align)
    return [coalesced([chunks[r], chunks[2 * ranks - 1 - r]])
            for r in range(ranks)]


def dealt(chunks, work, ranks):
    """Chunks by their work, longest first: each to the rank with least work of
    those that have room; all have as many, or one less."""
    most = -(-len(chunks) // ranks)
    mine, sums = [[] for _ in range(ranks)], [0] * ranks
    for i in sorted(range(len(chunks)), key=lambda i: (-work[i], i)):
        r = min((r for r in range(ranks) if len(mine[r]) < most),
                key=lambda r: (sums[r], len(mine[r]), r))
        mine[r].append(chunks[i])
        sums[r] += work[i]
    return [coalesced(runs) for runs in mine]


class Sharding:
    """A part of the sequence for each rank; `rank` is one's own."""

    def __init__(self, length: int, parts: Parts, rank: int = 0) -> None:
        self.length: int = int(length)
        self.rank: int = int(rank)
        self.parts: Runs = tuple(tuple((int(a), int(b)) for a, b in part)
                                 for part in parts)
        all_runs = sorted(run for part in self.parts for run in part)
        if coalesced(all_runs) != coalesced([(0, self.length)]) or any(
                a >= b for a, b in all_runs) or any(
                x[1] > y[0] for x, y in zip(all_runs, all_runs[1:])):
            raise ValueError("parts are %s: expected runs that hold each of the "
                             "positions 0 to %d once" % (self.parts, length))
        if any(list(part) != sorted(part) for part in self.parts):
            raise ValueError("the runs of a part must ascend")
        if not 0 <= self.rank < len(self.parts):
            raise ValueError("rank is %d of %d" % (rank, len(self.parts)))

    @property
    def ranks(self) -> int:
        return len(self.parts)

    @property
    def key(self) -> typing.Tuple[typing.Any, ...]:
        return self.length, self.parts

    def digest(self) -> str:
        return hashlib.sha256(repr(self.key).encode()).hexdigest()[:16]

    def __repr__(self) -> str:
        return "Sharding(%d, %s, rank=%d)" % (
            self.length, self.parts if self.ranks < 5 else "..", self.rank)

    def size(self, rank: Rank = None) -> int:
        """How many positions a rank holds."""
        return sum(b - a for a, b in self._part(rank))

    def _part(self, rank):
        return self.parts[self.rank if rank is None else rank]

    def rows(self, rank: int) -> typing.List[typing.Tuple[int, int, int]]:
        """[(start, end, first row)] of a rank's runs."""
        found, row = [], 0
        for a, b in self.parts[rank]:
            found.append((a, b, row))
            row += b - a
        return found

    def positions(self, rank: Rank = None,
                  device: Device = None) -> torch.Tensor:
        """The positions of a rank's rows, int64: of rotary embeddings, ..."""
        part = self._part(rank)
        if not part:
            return torch.empty(0, dtype=torch.int64, device=device)
        return torch.cat([torch.arange(a, b, device=device) for a, b in part])

    def shard(self, x: torch.Tensor, dim: int,
              rank: Rank = None) -> torch.Tensor:
        """A rank's rows of a tensor of the whole sequence."""
        if x.shape[dim] != self.length:
            raise ValueError("dim %d has %d positions, the sharding %d" % (
                dim, x.shape[dim], self.length))
        part = [x.narrow(dim, a, b - a) for a, b in self._part(rank)]
        return torch.cat(part, dim) if part else x.narrow(dim, 0, 0)

    def joined(self, parts: typing.Sequence[torch.Tensor],
               dim: int) -> torch.Tensor:
        """The whole sequence, of each rank's rows."""
        pieces = {}
        for rank, x in enumerate(parts):
            for a, b, row in self.rows(rank):
                pieces[a] = x.narrow(dim, row, b - a)
        return torch.cat([pieces[a] for a in sorted(pieces)], dim) \
            if pieces else parts[0]

    def merged(self, n: int) -> "Sharding":
        """A sharding of fewer ranks: each holds what n in a row held."""
        return _merged(self, n)


@functools.lru_cache(maxsize=64)
def _merged_parts(parts, n):
    return [coalesced([run for part in parts[i:i + n] for run in part])
            for i in range(0, len(parts), n)]


def _merged(sharding, n):
    return Sharding(sharding.length, _merged_parts(sharding.parts, n),
                    sharding.rank // n)
