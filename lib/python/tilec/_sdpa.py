# SPDX-License-Identifier: Apache-2.0
"""tilec.scaled_dot_product_attention: torch's function of that name."""
import typing

from . import _api, _tensors
from ._types import AnyTensor, Tensor

_BOOL = """
func @attn_mask(%%b: i32, %%h: i32, %%q: i32, %%k: i32, %%values: tensor<[?, ?, ?, ?] x i8>) -> i1 {
  return %%values[%s] != 0
}
"""
_FLOAT = """
func @attn_mask(%%score: f32, %%b: i32, %%h: i32, %%q: i32, %%k: i32, %%values: tensor<[?, ?, ?, ?] x %s>) -> f32 {
  return %%score + cast(%%values[%s], f32)
}
"""
_TYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}


def _index(shape):
    """The element for a pair; dims of 1 are broadcast, so the compiler knows
    that it does not depend on those."""
    return ", ".join(x if n != 1 else "0"
                     for x, n in zip(("%b", "%h", "%q", "%k"), shape))


def _check_mask(mask, shape):
    """mask as [.., .., .., ..]; it broadcasts to that shape."""
    have = tuple(mask.shape)
    if len(have) > 4 or any(n not in (1, want) for n, want in
                            zip(have[::-1], shape[::-1])):
        raise ValueError("attn_mask is of shape %s, which does not broadcast "
                         "to %s" % (have, shape))
    return mask.reshape((1,) * (4 - len(have)) + have)


def mask_mod(mask, shape):
    """The arguments of tilec.attention for a mask."""
    kind = _tensors.dtype_name(mask)
    mask = _check_mask(mask, shape)
    at = _index(mask.shape)
    if kind == "bool":
        return dict(mask_mod=_BOOL % at, values=mask)
    if kind not in _TYPES:
        raise ValueError("attn_mask is %s, expected bool or %s" % (
            mask.dtype, ", ".join(_TYPES)))
    # Gradients are summed in float32.
    kind = "float32" if getattr(mask, "requires_grad", False) else kind
    return dict(score_mod=_FLOAT % (_TYPES[kind], at), values=mask)


def _four(x, name):
    """x of any number of leading dims as [B, H, length, dim]."""
    n = len(x.shape)
    if n < 2:
        raise ValueError("%s has %d dims, expected at least 2: length, dim" %
                         (name, n))
    if n < 4:
        return x.reshape((1,) * (4 - n) + tuple(x.shape))
    return x if n == 4 else x.reshape((-1, *x.shape[-3:]))


def scaled_dot_product_attention(
        query: Tensor, key: Tensor, value: Tensor,
        attn_mask: typing.Optional[AnyTensor] = None, dropout_p: float = 0.0,
        is_causal: bool = False, *, scale: typing.Optional[float] = None,
        enable_gqa: bool = False) -> Tensor:
    """torch.nn.functional.scaled_dot_product_attention, by tilec.attention.

    query [.., HQ, M, D], key [.., HK, N, D], value [.., HK, N, DV]: torch
    tensors or numpy arrays.

    attn_mask: broadcasts to [.., HQ, M, N]; bool (True: the pair is seen) or
        float (added to the scores; it may require grad). It is read as it is:
        dims of 1 are not expanded.
    is_causal: query i sees keys up to i, from the first ones on (top-left),
        also if M and N differ; not together with attn_mask. A step of a decode
        with one query wants False.
    dropout_p: the probability that a weight is dropped, always.
    enable_gqa: HQ may be a multiple of HK.

    A query that sees no key gets 0. Differentiable as tilec.attention is.
    Masks of a rule (causal, windows, documents) are faster as mask_mod of
    tilec.attention: no mask is in memory, and blocks that it hides are skipped.
    """
    if is_causal and attn_mask is not None:
        raise ValueError("attn_mask and is_causal are both given: expected "
                         "one; mask_mod of tilec.attention combines masks")
    q = _tensors.adopt(query, "query")
    given = dict(mask_mod="causal") if is_causal else {}
    q4, k4, v4 = (_four(_tensors.adopt(x, n), n) for x, n in (
        (query, "query"), (key, "key"), (value, "value")))
    if attn_mask is not None:
        given = mask_mod(_tensors.adopt(attn_mask, "attn_mask"),
                          (*q4.shape[:3], k4.shape[2]))
    if dropout_p:
        given["dropout_p"] = dropout_p
    o = _api.attention(q4, k4, v4, scale=scale, enable_gqa=enable_gqa, **given)
    return o if len(q.shape) == 4 else o.reshape((*q.shape[:-1], o.shape[-1]))
