# SPDX-License-Identifier: Apache-2.0
"""What a call of flex_attention refuses: torch's kinds of errors, whose texts
begin as torch's do. dynamo traces this file too.
"""
import typing

import torch
from torch.nn.attention import flex_attention as torchs

from . import _block_mask

_SLICED = getattr(torchs, "_sliced_mask_mod_error", None)
# This torch's names of its kernels; none before 2.10.
_BACKENDS = typing.get_args(getattr(torchs, "_Backend", None))


class LengthError(ValueError, RuntimeError):
    """Both: torch raises one up to 2.11, the other in 2.15."""


def check(query, key, value, block_mask, enable_gqa, options, aux=None):
    """Refuses what has no attention."""
    _check_kinds(query, key, value, options, aux)
    _check_devices(query, key, value)
    if query.dim() != 4 or key.dim() != 4 or value.dim() != 4:
        raise NotImplementedError(
            "query has %d dims, key %d, value %d, expected 4: batch, heads, "
            "length, dim" % (query.dim(), key.dim(), value.dim()))
    if query.size(3) != key.size(3):
        raise ValueError(
            "Expect query and key/value to have the same embedding dimension "
            "but got E=%d and E=%d." % (query.size(3), key.size(3)))
    _check_heads(query.size(1), key.size(1), enable_gqa)
    _check_batch(query.size(0), key.size(0), block_mask)
    _check_backend(options or {})
    if block_mask is not None:
        _check_mask(block_mask, query, key)


def _check_kinds(query, key, value, options, aux):
    for name, x in (("query", query), ("key", key), ("value", value)):
        if not isinstance(x, torch.Tensor):
            raise TypeError("%s is a %s, expected a torch.Tensor" % (
                name, type(x).__name__))
    if options is not None and not isinstance(options, dict):
        raise TypeError("kernel_options is a %s, expected a dict" %
                        type(options).__name__)
    if aux is not None and not (hasattr(aux, "lse") and
                                hasattr(aux, "max_scores")):
        raise TypeError("return_aux is a %s, expected an AuxRequest: "
                        "AuxRequest(lse=True)" % type(aux).__name__)


def _check_devices(query, key, value):
    if query.device != key.device or query.device != value.device:
        raise ValueError(
            "Expected query, key, and value to have the same device type, but "
            "got query.device: %s, key.device: %s, and value.device: %s "
            "instead." % (query.device, key.device, value.device))


def _check_heads(ours, theirs, enable_gqa):
    if not enable_gqa and ours != theirs:
        raise ValueError(
            "Expect query and key/value to have the same number of heads but "
            "got Hq=%d and Hkv=%d. Try setting enable_gqa=True for GQA." % (
                ours, theirs))
    if enable_gqa and ours % theirs != 0:
        raise ValueError(
            "Expect number of query heads to be a multiple of kv heads for "
            "GQA but got Hq=%d and Hkv=%d." % (ours, theirs))


def _check_batch(ours, theirs, mask):
    if ours == theirs:
        return
    if mask is None or theirs != 1:
        raise ValueError(
            "Expect query and key/value to have the same batch size, or "
            "non-none block_mask and one key/value for all: Bq=%d, Bkv=%d" % (
                ours, theirs))


def _check_backend(options):
    backend = options.get("BACKEND")
    if backend is None or not _BACKENDS:
        return
    if options.get("FORCE_USE_FLEX_ATTENTION", False):
        raise RuntimeError(
            "BACKEND cannot be combined with legacy FORCE_USE_FLEX_ATTENTION: "
            "drop the latter")
    if backend not in _BACKENDS:
        raise ValueError("Invalid BACKEND value '%s'. Must be one of %s" % (
            backend, ", ".join(_BACKENDS)))


def _check_mask(mask, query, key):
    if not isinstance(mask, torchs.BlockMask):
        raise TypeError("block_mask is a %s, expected a BlockMask: "
                        "create_block_mask(mask_mod, ..) makes one" %
                        type(mask).__name__)
    if _SLICED is not None and mask.mask_mod is _SLICED:
        raise RuntimeError(
            "Cannot use mask_mod from a sliced BlockMask: its positions count "
            "from 0 again. Set block_mask.mask_mod")
    if tuple(mask.BLOCK_SIZE) == (_block_mask.LARGE, _block_mask.LARGE):
        return
    _check_lengths(mask, query.size(2), key.size(2))
    for what, n, have in (("batch", mask.shape[0], query.size(0)),
                          ("heads", mask.shape[1], query.size(1))):
        if n != 1 and n != have:
            raise ValueError("block_mask is for %s %d, query has %d" % (
                what, n, have))
    if mask.kv_num_blocks.device != query.device:
        raise RuntimeError(
            "Expect q/k/v and block_mask to be on the same device but got %s "
            "and %s: block_mask.to(query.device)" % (
                query.device, mask.kv_num_blocks.device))


def _check_lengths(mask, q_len, kv_len):
    rows, columns = mask.shape[-2], mask.shape[-1]
    if rows == q_len and columns == kv_len:
        return
    if not _covers(mask, q_len, kv_len):
        raise LengthError(
            "block_mask was created for %d queries and %d keys, query has %d "
            "and key %d: create one for these lengths, or call "
            "block_mask._adjust(q_len, kv_len)" % (
                rows, columns, q_len, kv_len))


def _covers(mask, q_len, kv_len):
    """Whether its lengths are those of the tensors but for a last block that
    is filled up, as from_kv_blocks without seq_lengths says them."""
    for have, n, side in zip(mask.shape[-2:], (q_len, kv_len),
                             mask.BLOCK_SIZE):
        if have % side != 0 or n > have or n <= have - side:
            return False
    return not hasattr(mask, _block_mask.MARK)
