# SPDX-License-Identifier: Apache-2.0
"""The functions of flash-attn, by tilec.attention.

    from tilec.flash_attn import flash_attn_func     # in place of flash_attn

Tensors are torch's, [batch, length, heads, head dim] or packed [length, heads,
head dim], on the CPU or a GPU. Positional arguments are in the order of
flash-attn 2; those that flash-attn 3 added are keywords. Masks are aligned to
the last query and the last key (bottom-right). Arguments that only choose among
kernels (num_splits, pack_gqa, sm_margin, scheduler_metadata, max_seqlen) change
no result, and nothing here.

With return_attn_probs the result is (out, softmax_lse, None): out and the
logsumexp in float32, [batch, heads, length], or [heads, length] of packed
sequences. There are no probabilities in memory to return.
"""
import typing
from typing import Optional

import torch

from . import _api
from ._append import append

__all__ = ["flash_attn_func", "flash_attn_kvpacked_func",
           "flash_attn_qkvpacked_func", "flash_attn_varlen_func",
           "flash_attn_varlen_kvpacked_func",
           "flash_attn_varlen_qkvpacked_func", "flash_attn_with_kvcache"]

Tensor = torch.Tensor
Window = typing.Tuple[int, int]
Result = typing.Union[
    Tensor, typing.Tuple[Tensor, Tensor], typing.Tuple[Tensor, Tensor, None]]

_EVERYWHERE = (-1, -1)
_UNBOUNDED = 1 << 30

# -slope * the distance; query and key are at %at and %k of one sequence.
_ALIBI = """
func @distance_bias(%%score: f32, %%b: i32, %%h: i32, %%q: i32, %%k: i32%s) -> f32 {
%s
  return %%score - %%slopes[%s] * cast(abs(%%at - %%k), f32)
}
"""
_SLOPES = {1: ("%slopes: tensor<[?] x f32>", "%h"),
           2: ("%slopes: tensor<[?, ?] x f32>", "%b, %h")}
# Within chunks of c keys of one sequence.
_CHUNK = """
func @same_chunk(%%b: i32, %%h: i32, %%q: i32, %%k: i32%s, %%chunk: i32) -> i1 {
%s
  %%first = %s
  return (%%at - %%first) / %%chunk == (%%k - %%first) / %%chunk
}
"""


class _Places(typing.NamedTuple):
    """How a mod finds the key that a query is aligned to."""

    parameters: str
    lines: str  # they define %at
    first: str = "0"  # the first key of the sequence


_DENSE = _Places(", %q_len: i32, %kv_len: i32",
                 "  %at = %q + (%kv_len - %q_len)")
_CACHE = _Places("", "  %at = %q")
_PADDED_CACHE = _Places(", %starts: tensor<[?] x i32>", "  %at = %q",
                        "%starts[%b]")
_PACKED = _Places(
    ", %q_starts: tensor<[?] x i32>, %k_starts: tensor<[?] x i32>",
    "  %i = bisect(%q_starts, %q)\n"
    "  %at = %q - %q_starts[%i] + %k_starts[%i]", "%k_starts[%i - 1]")


def _instead(**given):
    """Refuses what there is no kernel for: name=(value, what to do)."""
    for name, (value, advice) in given.items():
        if isinstance(value, Tensor) or value:
            raise NotImplementedError("tilec has no %s: %s" % (name, advice))


_QV = ("tilec.attention takes q and k of another head dim than v: join qv to "
       "q, and v to k")


def _window(window_size, causal):
    """left, right: how far a query sees; -1: any distance."""
    left, right = window_size
    if causal:
        right = 0
    return left if left >= 0 else -1, right if right >= 0 else -1


def _score(softcap, slopes, places):
    """score_mod and what it captures: first the soft cap, then ALiBi."""
    names, text, captured = [], "", {}
    if softcap:
        names.append("soft_cap")
        captured["cap"] = float(softcap)
    if slopes is not None:
        if slopes.dim() not in _SLOPES:
            raise ValueError("alibi_slopes has %d dims, expected 1 or 2: "
                             "[heads] or [batch, heads]" % slopes.dim())
        parameter, at = _SLOPES[slopes.dim()]
        names.append("distance_bias")
        text = _ALIBI % (places.parameters + ", " + parameter, places.lines,
                         at)
        captured["slopes"] = slopes
    return dict(score_mod=", ".join(names) + text if names else None,
                **captured)


def _chunked(mask, chunk, places):
    """A mask of _dense_mask and the others, within chunks too; 0: none."""
    if not chunk:
        return mask
    if chunk < 0:
        raise ValueError("attention_chunk is %d, expected a number of keys, or "
                         "0" % chunk)
    names = " & ".join([*filter(None, [mask.get("mask_mod")]), "same_chunk"])
    return {**mask, "chunk": chunk, "mask_mod": names + _CHUNK % places}


def _bounds(left, right):
    """left and right as captured numbers."""
    return dict(left=_UNBOUNDED if left < 0 else left,
                right=_UNBOUNDED if right < 0 else right)


def _dense_mask(left, right, square):
    """mask_mod of [batch, length], and what it captures. square: the first
    query is at the first key too."""
    if left < 0 and right < 0:
        return {}
    if left < 0 and right == 0:
        return dict(mask_mod="causal" if square else "causal_bottom_right")
    return dict(mask_mod="local_window" if square else
                "local_window_bottom_right", **_bounds(left, right))


def _packed_mask(left, right, starts_q, starts_k):
    """mask_mod of packed sequences. If queries and keys have the same starts,
    distances in a sequence are distances in memory, which the compiler can
    bound loops by."""
    starts = dict(q_starts=starts_q, k_starts=starts_k)
    if left < 0 and right < 0:
        return dict(mask_mod="packed", **starts)
    if starts_q is not starts_k:
        return dict(mask_mod="packed_local", **_bounds(left, right), **starts)
    if left < 0 and right == 0:
        return dict(mask_mod="packed & causal", **starts)
    return dict(mask_mod="packed & local_window", **_bounds(left, right),
                **starts)


def _heads_first(*tensors):
    """[B, N, H, D] as [B, H, N, D]; views."""
    for x in tensors:
        if x.dim() != 4:
            raise ValueError("a tensor of shape %s, expected [batch, length, "
                             "heads, head dim]" % (tuple(x.shape),))
    return [x.transpose(1, 2) for x in tensors]


def _options(dropout_p, deterministic, q_descale=None, k_descale=None,
             v_descale=None):
    return dict(deterministic=True if deterministic else None,
                enable_gqa=True, return_lse=True,
                descale_q=q_descale, descale_k=k_descale, descale_v=v_descale,
                **(dict(dropout_p=dropout_p) if dropout_p else {}))


def flash_attn_func(
        q: Tensor, k: Tensor, v: Tensor, dropout_p: float = 0.0,
        softmax_scale: Optional[float] = None, causal: bool = False,
        window_size: Window = _EVERYWHERE, softcap: float = 0.0,
        alibi_slopes: Optional[Tensor] = None, deterministic: bool = False,
        return_attn_probs: bool = False, *, qv: Optional[Tensor] = None,
        q_descale: Optional[Tensor] = None, k_descale: Optional[Tensor] = None,
        v_descale: Optional[Tensor] = None, attention_chunk: int = 0,
        num_splits: int = 1, pack_gqa: Optional[bool] = None,
        sm_margin: int = 0) -> Result:
    """q [B, M, HQ, D], k [B, N, HK, D], v [B, N, HK, DV]: out [B, M, HQ, DV].

    softmax_scale: None: 1 / sqrt(D). causal: query i of M sees keys up to i +
    N - M. window_size (left, right): keys from i + N - M - left to i + N - M +
    right; -1: any. softcap: c tanh(score / c). alibi_slopes [HQ] or [B, HQ]:
    -slope |i + N - M - j| is added. attention_chunk c: only keys of the chunk
    of c keys that key i + N - M is in. A query that sees no key gets 0, and lse
    -inf.
    """
    _instead(qv=(qv, _QV))
    left, right = _window(window_size, causal)
    out, lse = _api.attention(
        *_heads_first(q, k, v), scale=softmax_scale,
        **_options(dropout_p, deterministic, q_descale, k_descale, v_descale),
        **_chunked(_dense_mask(left, right, q.shape[1] == k.shape[1]),
                   attention_chunk, _DENSE),
        **_score(softcap, alibi_slopes, _DENSE))
    out = out.transpose(1, 2)
    return (out, lse, None) if return_attn_probs else out


def flash_attn_kvpacked_func(q: Tensor, kv: Tensor, *args: typing.Any,
                             **named: typing.Any) -> Result:
    """kv [B, N, 2, HK, D]; all else as for flash_attn_func."""
    return flash_attn_func(q, *kv.unbind(-3), *args, **named)


def flash_attn_qkvpacked_func(qkv: Tensor, *args: typing.Any,
                              **named: typing.Any) -> Result:
    """qkv [B, N, 3, H, D]; all else as for flash_attn_func."""
    return flash_attn_func(*qkv.unbind(-3), *args, **named)


# ---- Packed sequences ----

# Attention over a cache, whose programs each have queries and keys of one
# sequence, is faster with few queries each, and with many: a block of the packed
# queries may belong to two sequences, and then sees the keys of both. On an H200
# it takes 11 to 28 % less time with 256 queries on average, 17 to 29 % less with
# 1024; with 128 causal ones it is no faster, with 64 slower.
_FEW_QUERIES = 16
_MANY_QUERIES = 256


def _needs_grad(*tensors):
    return torch.is_grad_enabled() and any(
        x is not None and x.requires_grad for x in tensors)


def _is_of_sequences(q, starts_q, most):
    """Whether queries are few, or many, in each sequence or on average."""
    return most <= _FEW_QUERIES or q.element_size() > 1 and \
        q.shape[0] >= _MANY_QUERIES * (starts_q.shape[0] - 1)


def _of_packed(x, name):
    if x.dim() != 3:
        raise ValueError("%s is of shape %s, expected [length of all "
                         "sequences, heads, head dim]" % (
                             name, tuple(x.shape)))
    return x.transpose(0, 1)[None]


def _check_starts(starts_q, starts_k, paged):
    """Of packed sequences; pages need no starts_k."""
    for name, x in (("cu_seqlens_q", starts_q), ("cu_seqlens_k", starts_k)):
        if paged and x is None:
            continue
        if not isinstance(x, Tensor):
            raise TypeError("%s is a %s, expected a tensor of int32: where "
                            "each sequence begins, and the end" % (
                                name, type(x).__name__))
        if x.dim() != 1 or x.dtype not in (torch.int32, torch.int64):
            raise ValueError("%s is %s of shape %s, expected int32 of shape "
                             "[sequences + 1]" % (name, x.dtype,
                                                  tuple(x.shape)))
        if x.shape != starts_q.shape:
            raise ValueError("cu_seqlens_q has %d numbers, cu_seqlens_k %d: "
                             "expected the same" % (len(starts_q), len(x)))


def _cache_mask(left, right):
    """Queries and keys are at positions of their sequence there."""
    if left < 0 and right < 0:
        return {}
    if left < 0 and right == 0:
        return dict(mask_mod="causal")
    return dict(mask_mod="local_window", **_bounds(left, right))


def flash_attn_varlen_func(
        q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: Tensor,
        cu_seqlens_k: Optional[Tensor], max_seqlen_q: int, max_seqlen_k: int,
        dropout_p: float = 0.0, softmax_scale: Optional[float] = None,
        causal: bool = False, window_size: Window = _EVERYWHERE,
        softcap: float = 0.0, alibi_slopes: Optional[Tensor] = None,
        deterministic: bool = False, return_attn_probs: bool = False,
        block_table: Optional[Tensor] = None, *, qv: Optional[Tensor] = None,
        seqused_q: Optional[Tensor] = None, seqused_k: Optional[Tensor] = None,
        attention_chunk: int = 0, num_splits: int = 1,
        pack_gqa: Optional[bool] = None, sm_margin: int = 0) -> Result:
    """Sequences of several lengths, one after the other: q [TQ, HQ, D], k
    [TK, HK, D], v [TK, HK, DV]: out [TQ, HQ, DV].

    cu_seqlens_q, cu_seqlens_k [B + 1]: queries cu_seqlens_q[i] to
    cu_seqlens_q[i + 1] - 1 are those of sequence i, keys likewise. For
    self-attention give one tensor for both: loops then are bounded in both
    directions. With block_table [B, pages] k and v are a paged cache, [pages,
    page, HK, D], whose lengths are seqused_k [B], or follow from cu_seqlens_k;
    forward only.
    """
    paged = block_table is not None
    _instead(qv=(qv, _QV),
             seqused_q=(seqused_q, "leave unused queries out, and out of "
                        "cu_seqlens_q"),
             seqused_k=(None if paged else seqused_k,
                        "with block_table alone; kv_lens of tilec.attention "
                        "are the keys used of a cache"))
    _check_starts(cu_seqlens_q, cu_seqlens_k, paged)
    left, right = _window(window_size, causal)
    if paged or (_is_of_sequences(q, cu_seqlens_q, max_seqlen_q) and
                 not dropout_p and not _needs_grad(q, k, v, alibi_slopes)):
        _instead(dropout_p=(dropout_p if paged else 0,
                            "attention over a paged cache is for inference"))
        places = dict(cu_seqlens_k=cu_seqlens_k)
        if paged:
            k, v = _heads_first(k, v)
            places = dict(page_table=block_table, kv_lens=cu_seqlens_k.diff()
                          if seqused_k is None else seqused_k)
        out, lse = _api.attention(
            q, k, v, scale=softmax_scale, return_lse=True,
            cu_seqlens_q=cu_seqlens_q, **places,
            **_chunked(_cache_mask(left, right), attention_chunk, _CACHE),
            **_score(softcap, alibi_slopes, _CACHE))
        return (out, lse.t(), None) if return_attn_probs else out
    if alibi_slopes is not None and alibi_slopes.dim() == 2:
        _instead(alibi_slopes=(True, "slopes of [batch, heads] with packed "
                               "sequences: give [heads]"))
    out, lse = _api.attention(
        *(_of_packed(x, n) for x, n in ((q, "q"), (k, "k"), (v, "v"))),
        scale=softmax_scale, **_options(dropout_p, deterministic),
        **_together(_chunked(
            _packed_mask(left, right, cu_seqlens_q, cu_seqlens_k),
            attention_chunk, _PACKED), _score(softcap, alibi_slopes, _PACKED)))
    out = out[0].transpose(0, 1)
    return (out, lse[0], None) if return_attn_probs else out


def _together(mask, score):
    """Both mods' arguments; a name of both is captured by both."""
    if score.get("slopes") is None:
        return {**mask, **score}
    mods = ("mask_mod", "score_mod")
    starts = {n: mask[n] for n in ("q_starts", "k_starts")}
    captured = {"mask." + n: x for n, x in starts.items()}
    captured.update({"score." + n: x for n, x in starts.items()})
    for given, kind in ((mask, "mask."), (score, "score.")):
        captured.update({kind + n: x for n, x in given.items()
                         if n not in mods and n not in starts})
    return dict(captured=captured, mask_mod=mask["mask_mod"],
                score_mod=score["score_mod"])


def flash_attn_varlen_kvpacked_func(
        q: Tensor, kv: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor,
        max_seqlen_q: int, max_seqlen_k: int, *args: typing.Any,
        **named: typing.Any) -> Result:
    """kv [TK, 2, HK, D]; all else as for flash_attn_varlen_func."""
    return flash_attn_varlen_func(q, *kv.unbind(-3), cu_seqlens_q, cu_seqlens_k,
                                  max_seqlen_q, max_seqlen_k, *args, **named)


def flash_attn_varlen_qkvpacked_func(
        qkv: Tensor, cu_seqlens: Tensor, max_seqlen: int, *args: typing.Any,
        **named: typing.Any) -> Result:
    """qkv [T, 3, H, D]; all else as for flash_attn_varlen_func."""
    return flash_attn_varlen_func(*qkv.unbind(-3), cu_seqlens, cu_seqlens,
                                  max_seqlen, max_seqlen, *args, **named)


# ---- Caches ----


def _lengths(cache_seqlens, batch, capacity, device):
    """The keys of each sequence before the call, int32 on the device."""
    if isinstance(cache_seqlens, Tensor):
        return cache_seqlens.to(torch.int32)
    return torch.full((batch,), capacity if cache_seqlens is None else
                      cache_seqlens, dtype=torch.int32, device=device)


def _check_rotary(q, k, leftpad, is_local):
    if k is None:
        raise ValueError("rotary_cos is given, and k is not: only new keys "
                         "are rotated")
    if q.shape[-3] != k.shape[-3]:
        raise NotImplementedError(
            "q has %d rows, k %d: rotary embedding of unequal numbers of "
            "queries and new keys is by tilec.append alone" %
            (q.shape[-3], k.shape[-3]))
    if not is_local and (q.dim() == 3 or q.shape[1] > 1):
        raise NotImplementedError(
            "without causal or a window, flash-attn rotates all queries to "
            "the first new position: rotate q yourself, and give rotary_cos "
            "to tilec.append")


def flash_attn_with_kvcache(
        q: Tensor, k_cache: Tensor, v_cache: Tensor,
        k: Optional[Tensor] = None, v: Optional[Tensor] = None,
        rotary_cos: Optional[Tensor] = None,
        rotary_sin: Optional[Tensor] = None,
        cache_seqlens: Optional[typing.Union[int, Tensor]] = None,
        cache_batch_idx: Optional[Tensor] = None,
        cache_leftpad: Optional[Tensor] = None,
        block_table: Optional[Tensor] = None,
        softmax_scale: Optional[float] = None, causal: bool = False,
        window_size: Window = _EVERYWHERE, softcap: float = 0.0,
        rotary_interleaved: bool = True, alibi_slopes: Optional[Tensor] = None,
        num_splits: int = 0, return_softmax_lse: bool = False, *,
        page_table: Optional[Tensor] = None, qv: Optional[Tensor] = None,
        cu_seqlens_q: Optional[Tensor] = None,
        cu_seqlens_k_new: Optional[Tensor] = None,
        max_seqlen_q: Optional[int] = None,
        rotary_seqlens: Optional[Tensor] = None,
        k_descale: Optional[Tensor] = None, v_descale: Optional[Tensor] = None,
        attention_chunk: int = 0, scheduler_metadata: typing.Any = None,
        pack_gqa: Optional[bool] = None, sm_margin: int = 0) -> Result:
    """Attention over a cache, to which k and v are appended first. Forward only.

    q [B, M, HQ, D], or with cu_seqlens_q [T, HQ, D]. k_cache, v_cache [rows,
    N, HK, D]: sequence b has row cache_batch_idx[b], or b; or pages [pages,
    page, HK, D] with block_table [B, pages] (page_table is flash-attn 3's
    name). cache_seqlens: how many keys each has before k and v; None: N.
    k, v [B, new, HK, D], or with cu_seqlens_k_new [T, HK, D], are written to
    the cache in place, rotated by rotary_cos, rotary_sin [positions, R / 2], as
    q is. cache_leftpad [B]: where keys begin. attention_chunk: as of
    flash_attn_func, counted from where keys begin.
    Gives out, with return_softmax_lse also the logsumexp [B, HQ, M] ([HQ, T]).
    """
    _instead(qv=(qv, _QV), rotary_seqlens=(rotary_seqlens, "positions= of tilec.append "
                                           "says where rotary embedding "
                                           "begins"))
    left, right = _window(window_size, causal)
    table = page_table if block_table is None else block_table
    batch = (cu_seqlens_q.numel() - 1 if cu_seqlens_q is not None else
             q.shape[0])
    k_rows, v_rows = _heads_first(k_cache, v_cache)
    if table is None and cache_batch_idx is None:  # it may have more rows
        k_rows, v_rows = k_rows[:batch], v_rows[:batch]
    capacity = k_cache.shape[1] * (1 if table is None else table.shape[1])
    if cache_batch_idx is not None:
        if table is not None:
            raise ValueError("cache_batch_idx and a page table are both "
                             "given: expected one")
        table = cache_batch_idx.to(torch.int32)[:, None]  # a page is a row
    lens = _lengths(cache_seqlens, batch, capacity, q.device)
    places = {} if table is None else dict(page_table=table)
    q = q if cu_seqlens_q is not None else q.transpose(1, 2)
    if rotary_cos is not None:
        _check_rotary(q if q.dim() == 3 else q.transpose(1, 2), k,
                      cache_leftpad, left >= 0 or right >= 0)
    if (k is None) != (v is None):
        raise ValueError("%s is given, and %s is not: new keys and values are "
                         "appended together" % (("k", "v") if v is None else
                                                ("v", "k")))
    if k is not None:
        q, lens = _append(q, k, v, k_rows, v_rows, lens, places, rotary_cos,
                          rotary_sin, rotary_interleaved, cache_leftpad,
                          cu_seqlens_k_new, k_descale, v_descale)
    mask = _cache_mask(left, right)
    if cache_leftpad is not None:
        mask["mask_mod"] = " & ".join(
            [*filter(None, [mask.get("mask_mod")]), "valid_from"])
        mask["starts"] = cache_leftpad
    mask = _chunked(mask, attention_chunk,
                    _CACHE if cache_leftpad is None else _PADDED_CACHE)
    if cu_seqlens_q is not None:
        places["cu_seqlens_q"] = cu_seqlens_q
    out, lse = _api.attention(
        q, k_rows, v_rows, scale=softmax_scale, return_lse=True, kv_lens=lens,
        descale_k=k_descale, descale_v=v_descale, **places, **mask,
        **_score(softcap, alibi_slopes, _CACHE))
    if cu_seqlens_q is None:
        out = out.transpose(1, 2)
    else:
        lse = lse.t()
    return (out, lse) if return_softmax_lse else out


def _append(q, k, v, k_rows, v_rows, lens, places, cos, sin, interleaved,
            leftpad, starts, k_descale, v_descale):
    """Writes k and v; q, rotated, and the new lengths."""
    if starts is None:
        k, v = _heads_first(k, v)
        new = k.shape[2]
    else:
        new = starts.diff().to(torch.int32)
    rotary = {}
    if cos is not None:
        rotary = dict(query=q, rotary_cos=cos, rotary_sin=sin,
                      interleaved=interleaved)
        if leftpad is not None:
            if starts is not None:
                raise NotImplementedError("cache_leftpad, rotary_cos and "
                                          "cu_seqlens_k_new: expected two")
            rotary["positions"] = ((lens - leftpad)[:, None] + torch.arange(
                new, device=q.device)).to(torch.int32)
    rotated = append(k, v, k_rows, v_rows, kv_lens=lens, cu_seqlens=starts,
                     k_scale=k_descale, v_scale=v_descale, **places, **rotary)
    return q if rotated is None else rotated, lens + new
