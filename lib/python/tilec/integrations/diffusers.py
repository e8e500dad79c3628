# SPDX-License-Identifier: Apache-2.0
"""Hugging Face diffusers by tilec's kernels.

    import tilec.integrations.diffusers
    tilec.integrations.diffusers.register()
    pipe.transformer.set_attention_backend("tilec")

or `with diffusers.models.attention_dispatch.attention_backend("tilec")`. Needs
diffusers 0.35 or later, with models that dispatch attention (Flux, Wan, Qwen
Image, SD 3, ..). Masks may be bool or float, of [B, keys] or broadcast; context
parallelism is refused.
"""
import typing

from .. import _sdpa

__all__ = ["register"]


def _attention(query, key, value, attn_mask=None, dropout_p=0.0,
               is_causal=False, scale=None, enable_gqa=False, return_lse=False,
               _parallel_config=None):
    """diffusers' interface of attention: [B, length, H, D]."""
    if return_lse or _parallel_config is not None:
        raise ValueError("the attention backend tilec has no %s" % (
            "return_lse" if return_lse else "context parallelism"))
    if attn_mask is not None and tuple(attn_mask.shape) == (
            query.shape[0], key.shape[1]):
        attn_mask = attn_mask[:, None, None]
    o = _sdpa.scaled_dot_product_attention(
        *[x.transpose(1, 2) for x in (query, key, value)], attn_mask=attn_mask,
        dropout_p=dropout_p, is_causal=is_causal, scale=scale,
        enable_gqa=enable_gqa)
    return o.transpose(1, 2)


def _member(names, value):
    """The member of an enum of texts; a new one, where there is none."""
    if value in names._value2member_map_:
        return names(value)
    found = str.__new__(names, value)
    found._name_, found._value_ = value.upper(), value
    names._value2member_map_[value] = found
    names._member_map_[found._name_] = found
    names._member_names_.append(found._name_)
    return found


def register(name: str = "tilec") -> typing.Callable:
    """Makes `name` an attention backend of diffusers. Gives the function that
    is registered."""
    from diffusers.models import attention_dispatch as dispatch
    dispatch._AttentionBackendRegistry.register(
        _member(dispatch.AttentionBackendName, name))(_attention)
    return _attention
