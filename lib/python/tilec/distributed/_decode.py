# SPDX-License-Identifier: Apache-2.0
"""Decode over ranks: each holds a part of the cache's keys."""
import typing

import torch

from .. import _api, _merge
from . import _group

# o, or o and the logsumexp
Found = typing.Union[torch.Tensor, typing.Tuple[torch.Tensor, torch.Tensor]]


def decode(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
           group: typing.Any = None, *,
           key_starts: typing.Optional[torch.Tensor] = None,
           query_offsets: typing.Optional[torch.Tensor] = None,
           return_lse: bool = False, timeout: typing.Optional[float] = None,
           **options: typing.Any) -> Found:
    """tilec.attention over a cache whose keys ranks hold in parts.

    query: the same on all ranks; key, value, kv_lens, page_table, ..: this rank's
    keys, some in a row of each sequence (docs/serving.md). Gives o of all keys, on
    each rank the same bits: partial states are gathered and merged in the order
    of the ranks.

    key_starts [B]: the position of this rank's first key of each sequence, and
    query_offsets [B]: that of the first query, for masks: they see positions
    relative to this rank's first key, so only masks of the distance of query and
    key may be used (causal, windows). None of both: no mask.
    """
    ring, heads = _group.of(group, timeout)
    if heads is not None:
        raise ValueError("the mesh has two dims, expected a group or one dim")
    _group.check_device(ring, query)
    if (key_starts is None) != (query_offsets is None):
        raise ValueError("give both key_starts and query_offsets, or neither")
    if key_starts is not None:
        options["query_offsets"] = (query_offsets - key_starts).to(torch.int32)
    elif options.get("mask_mod"):
        raise ValueError("mask_mod needs key_starts and query_offsets: where "
                         "this rank's keys begin")
    if options.get("sinks") is not None:
        sinks = options.pop("sinks")
    else:
        sinks = None
    o, lse = _api.attention(query, key, value, return_lse=True, **options)
    parts, lses = _gather(ring, o), _gather(ring, lse)
    if sinks is not None:
        shape = [1, -1] + [1] * (lse.dim() - 2) if lse.dim() == 3 else [1, -1]
        parts.append(torch.zeros_like(o))
        lses.append(sinks.float().reshape(shape).expand_as(lse).contiguous())
    o, lse = _merged(parts, lses)
    return (o, lse) if return_lse else o


def _gather(group, x):
    x = x.contiguous()
    found = [x if r == group.rank else torch.empty_like(x)
             for r in range(group.size)]
    others = [r for r in range(group.size) if r != group.rank]
    group.begin([(r, 0, x) for r in others],
                [(r, 0, found[r]) for r in others], "decode").wait()
    return found


def _merged(parts, lses):
    """Of [B, H, M, D], or of packed queries [T, H, D]."""
    if parts[0].dim() == 4:
        return _merge.merge(torch.stack(parts), torch.stack(lses))
    o, lse = _merge.merge(torch.stack(parts).transpose(1, 2)[:, None],
                          torch.stack(lses).transpose(1, 2)[:, None])
    return o[0].transpose(0, 1), lse[0].transpose(0, 1)
