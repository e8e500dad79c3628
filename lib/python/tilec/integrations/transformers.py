# SPDX-License-Identifier: Apache-2.0
"""Hugging Face transformers by tilec's kernels.

    import tilec.integrations.transformers
    tilec.integrations.transformers.register()
    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="tilec")

A model's own mask function (causal, windows, chunks, padding, packed sequences)
is traced into the kernel: no mask of queries and keys is in memory. Offsets of a
cache are arguments, so no step of a decode compiles. Soft caps, sinks, position
biases and dropout are the kernel's.
"""
import copy
import functools
import typing

import torch
from torch.nn.attention.flex_attention import BlockMask

from .. import _api, _sdpa
from ..flex_attention import _mods

__all__ = ["register"]

_LARGE = 1 << 30


class _MaskFunction(BlockMask):
    """A BlockMask that stands for its mask_mod alone: what transformers passes
    on to the layers as it is."""

    def contiguous(self):  # of generate with a static cache
        return self


@functools.lru_cache(maxsize=None)
def _empty_carrier(device):
    one = torch.ones(1, 1, 1, dtype=torch.int32, device=device)
    return _MaskFunction.from_kv_blocks(
        one, torch.zeros(1, 1, 1, 1, dtype=torch.int32, device=device),
        BLOCK_SIZE=(_LARGE, _LARGE))


def _carrier(mask_mod, device):
    found = copy.copy(_empty_carrier(device))
    found.mask_mod = mask_mod
    return found


def _of_carrier(carrier, device):
    """What _mods_of gives; traced once for all layers: each step has a new
    carrier."""
    found = getattr(carrier, "given", None)
    if found is None:
        mod = _mods.of(carrier.mask_mod, False, device)
        found = None if mod.is_none else mod.text, \
            {} if mod.is_none else mod.captured, None
        if isinstance(carrier, _MaskFunction):
            carrier.given = found
    return found


def _needs_none(masks, function, q_length, kv_length, q_offset, kv_offset,
                named):
    """Whether the layers' is_causal says the same as the function, without
    padding: sdpa_mask's cases. Nothing is traced then, and a prompt's mask is
    one that kernels are tuned for."""
    if function is masks.bidirectional_mask_function:
        return bool(named.get("allow_is_bidirectional_skip"))
    if function is not masks.causal_mask_function or not named.get(
            "allow_is_causal_skip"):
        return False
    return (q_length in (1, kv_length) and isinstance(q_offset, int) and
            q_offset + q_length == kv_offset + kv_length)


def _mask(batch_size, q_length, kv_length, q_offset=0, kv_offset=0,
          mask_function=None, attention_mask=None, device="cpu", **named):
    """transformers' interface of masks, as sdpa_mask has it."""
    from transformers import masking_utils as masks
    mask_function = mask_function or masks.causal_mask_function
    if torch.compiler.is_compiling():  # which traces no closures
        return masks.sdpa_mask(
            batch_size=batch_size, q_length=q_length, kv_length=kv_length,
            q_offset=q_offset, kv_offset=kv_offset, device=device,
            mask_function=mask_function, attention_mask=attention_mask,
            **named)
    is_padded = attention_mask is not None and not attention_mask.all()
    if not is_padded and _needs_none(masks, mask_function, q_length, kv_length,
                                     q_offset, kv_offset, named):
        return None
    if is_padded:
        mask_function = masks.and_masks(
            mask_function, masks.padding_mask_function(
                masks.prepare_padding_mask(attention_mask, kv_length,
                                           kv_offset)))
    return _carrier(masks.add_offsets_to_mask_function(
        mask_function, q_offset, kv_offset), torch.device(device))


def _mods_of(attention_mask, query, key, is_causal):
    """mask_mod, what it captures, and a float mask or None."""
    if isinstance(attention_mask, BlockMask):
        return _of_carrier(attention_mask, query.device)
    if attention_mask is None:
        return ("causal" if is_causal and query.shape[2] > 1 else None), {}, \
            None
    attention_mask = attention_mask[..., :key.shape[2]]
    if attention_mask.dtype != torch.bool:
        return None, {}, attention_mask
    given = _sdpa.mask_mod(attention_mask, (*query.shape[:3], key.shape[2]))
    return given["mask_mod"], {"mask.values": given["values"]}, None


def _score_of(softcap, bias, query, key):
    """score_mod, and what it captures: first the soft cap, then biases."""
    names, text, captured = [], "", {}
    if softcap:
        names.append("soft_cap")
        captured["score.cap"] = float(softcap)
    if bias is not None:
        given = _sdpa.mask_mod(bias, (*query.shape[:3], key.shape[2]))
        names.append("attn_mask")
        text = given["score_mod"]
        captured["score.values"] = given["values"]
    return ", ".join(names) + text, captured


def _attention(module, query, key, value, attention_mask, scaling=None,
               dropout=0.0, is_causal=None, softcap=None, s_aux=None,
               position_bias=None, **named):
    """transformers' interface of attention: [B, H, length, D] to [B, length, H,
    D], and no weights."""
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    mask, captured, bias = _mods_of(attention_mask, query, key, is_causal)
    if position_bias is not None:
        bias = position_bias if bias is None else position_bias + bias
    score = None
    if softcap or bias is not None:
        score, more = _score_of(softcap, bias, query, key)
        captured = {**captured, **more}
    o = _api.attention(query, key, value, mask_mod=mask, score_mod=score,
                       scale=scaling, enable_gqa=True, sinks=s_aux,
                       dropout_p=dropout, captured=captured)
    return o.transpose(1, 2).contiguous(), None


def register(name: str = "tilec") -> typing.Callable:
    """Makes attn_implementation=name an attention of transformers (4.53 or
    later). Gives the function that is registered."""
    from transformers import AttentionInterface, AttentionMaskInterface
    AttentionInterface.register(name, _attention)
    AttentionMaskInterface.register(name, _mask)
    return _attention
