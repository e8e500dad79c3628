# SPDX-License-Identifier: Apache-2.0
"""tilec.distributed.sharding: parts with as much work as the mask leaves."""
import typing

import torch
import torch.distributed as dist

from .._types import Captured, Mod, Value
from . import _group, _mods, _plan, _sharding, _work

KINDS = ("contiguous", "dealt", "zigzag")
_CHUNKS = 8  # of a rank, if they are dealt
_WORTH = 0.9  # of the work of the fullest rank: more runs, and more keys to send


def _split(parts, n):
    """Each part as n of about as many rows."""
    found = []
    for part in parts:
        rows = sum(b - a for a, b in part)
        for i in range(n):
            first, last = rows * i // n, rows * (i + 1) // n
            at, mine = 0, []
            for a, b in part:
                lo, hi = max(first - at, 0), min(last - at, b - a)
                if lo < hi:
                    mine.append((a + lo, a + hi))
                at += b - a
            found.append(_sharding.coalesced(mine))
    return found


def _chunk_work(group, mods, chunks, kv_length, batch, heads, device):
    """Pairs that the queries of each chunk see; each rank counts some."""
    own = chunks[group.rank::group.size]
    seen, _ = _work.counts(mods, own, [(0, kv_length)], batch, heads, device)
    found = [0.0] * len(chunks)
    for rank, part in enumerate(_plan.meet(
            group, (("sharding", chunks[-1], kv_length), mods.key),
            [row[0] for row in seen])):
        found[rank::group.size] = part
    return found


def _most(parts, chunks, work):
    """The work of the fullest rank, of parts that are made of chunks."""
    by_run = dict(zip(chunks, work))
    return max(sum(x for (a, b), x in by_run.items()
                   if any(c <= a and b <= d for c, d in part))
               for part in parts)


def sharding(length: int, group: typing.Any = None, *,
             mask_mod: typing.Optional[Mod] = None,
             kind: typing.Optional[str] = None,
             kv_length: typing.Optional[int] = None, batch: int = 1,
             heads: int = 1, device: _sharding.Device = None,
             captured: typing.Optional[Captured] = None,
             **captured_by_name: Value) -> _sharding.Sharding:
    """Which positions of a sequence each rank of the group holds, so that all
    have as much work under the mask: a Sharding.

        s = tilec.distributed.sharding(length, mask_mod="causal")
        x = s.shard(tokens, dim=1)             # this rank's
        o = tilec.distributed.attention(q, k, v, sharding=s, mask_mod="causal")

    kind: "contiguous", "zigzag" or "dealt"; None: the one whose fullest rank has
        least work, by counting the pairs that the mask leaves. Any length.
    mask_mod, captured: as for attention. batch, heads: of it, where the mask
        reads them.
    """
    ring, by_heads = _group.of(group)
    nheads = by_heads.size if by_heads else 1
    rank = ring.rank * nheads + (by_heads.rank if by_heads else 0)
    n = ring.size
    if kind is not None and kind not in KINDS:
        raise ValueError("kind is %r, expected %s" % (kind, ", ".join(KINDS)))
    if length < 1:
        raise ValueError("length is %d, expected a positive number" % length)
    if kind is None and mask_mod == "causal":
        kind = "zigzag"
    if kind is None and mask_mod is None:
        kind = "contiguous"
    if kind == "contiguous":
        parts = _sharding.contiguous(length, n)
    elif kind == "zigzag":
        parts = _sharding.zigzag(length, n)
    else:
        parts = _by_work(ring, mask_mod, captured, captured_by_name, length,
                         kv_length or length, batch, heads, device, kind)
    return _sharding.Sharding(length, _split(parts, nheads), rank)


def _by_work(ring, mask_mod, captured, by_name, length, kv_length, batch, heads,
             device, kind):
    if device is None:
        device = "cpu" if dist.get_backend(ring.pg) == "gloo" else \
            torch.device("cuda", torch.cuda.current_device())
    values = {n: x.detach() if torch.is_tensor(x) else x
              for n, x in {**(captured or {}), **by_name}.items()}
    mods = _mods.of(mask_mod, None, values, torch.device(device),
                    (length, kv_length), (1.0, False, None))
    n = ring.size
    chunks = [c for c in _sharding._cut(length, 2 * n * (_CHUNKS // 2),
                                        _sharding.ALIGN) if c[0] < c[1]]
    work = _chunk_work(ring, mods, chunks, kv_length, batch, heads,
                       torch.device(device))
    of_dealt = _sharding.dealt(chunks, work, n)
    if kind == "dealt":
        return of_dealt
    best, least = None, None
    edges = len(chunks) // n
    whole = [_sharding.coalesced(chunks[r * edges:(r + 1) * edges if r < n - 1
                                        else len(chunks)]) for r in range(n)]
    half = edges // 2
    folded = [_sharding.coalesced(
        chunks[r * half:(r + 1) * half] +
        (chunks[(2 * n - 1 - r) * half:(2 * n - r) * half] if r else
         chunks[(2 * n - 1) * half:])) for r in range(n)] if half else None
    for parts in (whole, folded, of_dealt):
        if parts is None:
            continue
        most = _most(parts, chunks, work)
        if least is None or most < _WORTH * least:
            best, least = parts, most
    return best
