# SPDX-License-Identifier: Apache-2.0
"""flex_attention: torch's signature, tilec's kernels."""
import typing

import torch
from torch import Tensor
from torch.nn.attention import flex_attention as torchs

from .. import _api
from . import _block_mask, _compiled, _foreign, _lists, _mods

try:
    from torch.nn.attention.flex_attention import AuxOutput, AuxRequest
except ImportError:  # torch before 2.9
    class AuxRequest(typing.NamedTuple):
        lse: bool = False
        max_scores: bool = False

    class AuxOutput(typing.NamedTuple):
        lse: typing.Optional[torch.Tensor] = None
        max_scores: typing.Optional[torch.Tensor] = None


def _check_mask(mask, q, k):
    if not isinstance(mask, torchs.BlockMask):
        raise TypeError("block_mask is a %s, expected a BlockMask: "
                        "create_block_mask(mask_mod, ..) makes one" %
                        type(mask).__name__)
    if mask.mask_mod is getattr(torchs, "_sliced_mask_mod_error", None):
        raise RuntimeError(
            "Cannot use mask_mod from a sliced BlockMask: its positions count "
            "from 0 again. Set block_mask.mask_mod")
    if tuple(mask.BLOCK_SIZE) == (_block_mask.LARGE,) * 2:
        return
    lengths = tuple(mask.shape[-2:])
    if lengths != (q.shape[2], k.shape[2]) and not _covers(mask, q, k):
        raise ValueError(
            "block_mask was created for %d queries and %d keys, query has %d "
            "and key %d: create one for these lengths, or call "
            "block_mask._adjust(q_len, kv_len)" % (
                *lengths, q.shape[2], k.shape[2]))
    for what, n, have in (("batch", mask.shape[0], q.shape[0]),
                          ("heads", mask.shape[1], q.shape[1])):
        if n not in (1, have):
            raise ValueError("block_mask is for %s %d, query has %d" % (
                what, n, have))
    if mask.kv_num_blocks.device != q.device:
        raise ValueError("block_mask is on %s, query on %s: "
                         "block_mask.to(query.device)" % (
                             mask.kv_num_blocks.device, q.device))


def _covers(mask, q, k):
    """Whether its lengths are those of the tensors but for a last block that
    is filled up, as from_kv_blocks without seq_lengths says them."""
    return all(have % side == 0 and have - side < n <= have
               for have, n, side in zip(mask.shape[-2:], (
                   q.shape[2], k.shape[2]), mask.BLOCK_SIZE)) and \
        not _block_mask.is_its_mod(mask)


def _spread_batch(x, n):
    return x.expand(n, *x.shape[1:]) if x.shape[0] == 1 and n > 1 else x


def _score(score_mod, device):
    """The text of a score_mod, and what it captures."""
    if score_mod is None or score_mod is getattr(torchs, "_identity", None):
        return None, {}
    mod = _mods.of(score_mod, True, device)
    return (None, {}) if mod.is_none else (mod.text, mod.captured)


def flex_attention(query: Tensor, key: Tensor, value: Tensor,
                   score_mod: typing.Optional[typing.Callable] = None,
                   block_mask: typing.Optional[torchs.BlockMask] = None,
                   scale: typing.Optional[float] = None,
                   enable_gqa: bool = False, return_lse: bool = False,
                   kernel_options: typing.Optional[typing.Dict[
                       str, typing.Any]] = None, *,
                   return_aux: typing.Optional[AuxRequest] = None
                   ) -> typing.Union[
                       Tensor, typing.Tuple[Tensor, Tensor],
                       typing.Tuple[Tensor, AuxOutput]]:
    """torch's flex_attention by tilec's kernels: on the CPU and GPUs, with
    gradients of query, key, value and what score_mod captures.

    The mods are traced at the first call, and found by their code and the kinds
    of what they capture at later ones; their tensors are read, and their
    numbers are taken, at each call. docs/pytorch.md has what differs."""
    if torch.compiler.is_dynamo_compiling():
        o, lse, largest = _compiled.flex_attention(
            query, key, value, score_mod, block_mask, scale, enable_gqa,
            return_lse, kernel_options, return_aux)
        if return_aux is None:
            return (o, lse) if return_lse else o
        return o, AuxOutput(lse=lse if return_aux.lse else None,
                            max_scores=largest if return_aux.max_scores
                            else None)
    if return_lse and return_aux is not None:
        raise ValueError("return_lse and return_aux are given: return_aux="
                         "AuxRequest(lse=True) is enough")
    if block_mask is not None:
        _check_mask(block_mask, query, key)
        key = _spread_batch(key, query.shape[0])
        value = _spread_batch(value, query.shape[0])
    score, captured = _score(score_mod, query.device)
    lse = return_lse or return_aux is not None and return_aux.lse
    largest = return_aux is not None and return_aux.max_scores
    options, mask = _options(kernel_options), None
    if block_mask is not None:
        mask, more, has_blocks = _block_mask.mask_of(block_mask, query.device)
        captured = {**captured, **more}
        has_blocks &= not _foreign.is_without_data(query.device)
        lists = has_blocks and _lists.known(
            block_mask, "mask.blocks.kinds" not in more, query, key, value,
            score, mask, scale, options, largest)
        if lists:
            options, table = lists
            captured.update(table)
    found = _api.attention(
        query, key, value, score_mod=score, mask_mod=mask, scale=scale,
        enable_gqa=enable_gqa, return_lse=lse, return_max=largest,
        kernel_options=options, captured=captured)
    if return_aux is None:
        return found
    o, *rest = found if lse or largest else (found,)
    return o, AuxOutput(lse=rest.pop(0) if lse else None,
                        max_scores=rest.pop(0) if largest else None)


# What torch's own front end adds to kernel_options.
_INTERNAL = ("OUTPUT_LOGSUMEXP", "OUTPUT_MAX")


def _options(options):
    if not options:
        return None
    return {n: x for n, x in options.items()
            if x is not None and n not in _INTERNAL}


__all__ = ["AuxOutput", "AuxRequest", "flex_attention"]
