# SPDX-License-Identifier: Apache-2.0
"""flex_attention: torch's signature, tilec's kernels."""
import typing

import torch
from torch import Tensor
from torch.nn.attention import flex_attention as torchs

from .. import _api
from . import _block_mask, _checks, _compiled, _foreign, _lists, _mods

try:
    from torch.nn.attention.flex_attention import AuxOutput, AuxRequest
except ImportError:  # torch before 2.9
    class AuxRequest(typing.NamedTuple):
        lse: bool = False
        max_scores: bool = False

    class AuxOutput(typing.NamedTuple):
        lse: typing.Optional[torch.Tensor] = None
        max_scores: typing.Optional[torch.Tensor] = None


def _warn_of_return_lse():
    """As torch does, once a process; before 2.9 it does not."""
    warn = getattr(torchs, "_warn_once", None)
    if warn is not None:
        warn("deprecated_return_lse", "return_lse is deprecated, "
             "return_aux=AuxRequest(lse=True) is in its place",
             category=FutureWarning)


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
    if return_lse and return_aux is not None:
        raise ValueError("Cannot specify both return_lse and return_aux: "
                         "return_aux=AuxRequest(lse=True) is enough")
    _checks.check(query, key, value, block_mask, enable_gqa, kernel_options,
                  return_aux)
    if torch.compiler.is_dynamo_compiling():
        o, lse, largest = _compiled.flex_attention(
            query, key, value, score_mod, block_mask, scale, kernel_options)
        if return_aux is None:
            return (o, lse) if return_lse else o
        return o, AuxOutput(lse=lse if return_aux.lse else None,
                            max_scores=largest if return_aux.max_scores
                            else None)
    if return_lse:
        _warn_of_return_lse()
    if block_mask is not None:
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
