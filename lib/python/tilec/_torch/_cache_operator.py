# SPDX-License-Identifier: Apache-2.0
"""Calls over a cache as operators of torch, for what watches calls:
torch.compile, torch.export, FakeTensor and other modes.

    tilec::cache_attention, tilec::append, tilec::merge

tilec::append writes to its caches. None has gradients.
"""
import torch

from .. import _api, _append, _kvcache, _merge, _tensors
from .._texts import numbers_of
from . import _operator

_library = _operator.library


def _define(schema, run, shapes):
    name = "tilec::" + schema.partition("(")[0]
    _library.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
    _library.impl(name, run, "CompositeExplicitAutograd")
    torch.library.register_fake(name, shapes, lib=_library)


def _named(names, tensors):
    return dict(zip(names.split(","), tensors)) if tensors else {}


# ---- Attention over a cache ----


class _Schedule(_kvcache.Schedule):
    """A schedule of which the memory is known, and what it is good for."""

    def __init__(self, memory, kind):
        self.memory, self.kind = _tensors.Aligned(memory), kind
        self._made_for = _kvcache.described_by(kind)


_EXTRAS = ("sinks", *_kvcache.FACTORS)


@torch._disable_dynamo
def _attention(q, k, v, places, place_names, schedule, kind, extras,
               extra_names, captured, names, numbers, score_mod, mask_mod, scale, piece,
               want_lse):
    extras = _named(extra_names, extras)
    found = _api.with_cache(
        q, k, v, {**dict.fromkeys(_kvcache.PLACES),
                  **_named(place_names, places)},
        (score_mod or None, mask_mod or None, scale, piece, True),
        None if schedule is None else _Schedule(schedule, kind),
        tuple([extras.get(n) for n in _EXTRAS]),
        {**_named(names, captured), **dict(numbers_of(numbers))})
    return found[0], found[1] if want_lse else found[1].new_empty(0)


def _attention_shapes(q, k, v, places, place_names, *rest):
    is_flat = q.ndim == 3
    q4 = q.permute(1, 0, 2)[None] if is_flat else q
    o = _tensors.empty(q4, (*q4.shape[:3], v.shape[-1]))
    lse = q.new_empty(q4.shape[:3], dtype=torch.float32)
    if is_flat:
        o, lse = o[0].transpose(0, 1), lse[0].transpose(0, 1)
    return o, lse if rest[-1] else lse.new_empty(0)


_define("cache_attention(Tensor query, Tensor key, Tensor value, "
        "Tensor[] places, str place_names, Tensor? schedule, "
        "int kind_of_schedule, Tensor[] extras, str extra_names, Tensor[] captured, str names, str numbers, "
        "str score_mod, str mask_mod, float? scale, int piece, "
        "bool want_lse) "
        "-> (Tensor, Tensor)", _attention, _attention_shapes)


def attention(q, k, v, places, options, schedule, extras, captured):
    """As _api.with_cache."""
    score_mod, mask_mod, scale, piece, want_lse = options
    if any([x.requires_grad for x in (q, k, v)]) and torch.is_grad_enabled():
        raise ValueError(_kvcache.NO_GRADIENTS)
    places = {n: _as_tensor(x, q) for n, x in places.items() if x is not None}
    extras = {n: _as_float(x, q) for n, x in zip(_EXTRAS, extras)
              if x is not None}
    found = torch.ops.tilec.cache_attention(
        q, k, v, list(places.values()), ",".join(places),
        None if schedule is None else schedule.memory.owner,
        0 if schedule is None else schedule.kind,
        list(extras.values()), ",".join(extras), *_operator.parts(captured),
        score_mod or "", mask_mod or "", scale, piece, want_lse)
    return found if want_lse else found[:1]


def _as_tensor(x, like):
    """Lengths of a list as a tensor."""
    return x if isinstance(x, torch.Tensor) else torch.tensor(
        x, dtype=torch.int32, device=like.device)


def _as_float(x, like):
    return x if isinstance(x, torch.Tensor) else torch.full(
        (1,), float(x), device=like.device)


# ---- Append ----

_WRITTEN = ("k_cache", "v_cache", "k_scales", "v_scales", "q_out")


@torch._disable_dynamo
def _run_append(k_cache, v_cache, k_scales, v_scales, q_out, given, names,
                target, interleaved, offset):
    fields = {**_named(names, given), "k_cache": k_cache, "v_cache": v_cache,
              "k_scales": k_scales, "v_scales": v_scales, "q_out": q_out}
    tensors = tuple([fields.get(n) for n in _append.FIELDS])
    with torch.no_grad():
        from . import _cache
        found = _cache.append(tensors, (target or None, interleaved, offset),
                              _append.run)
    return found if q_out is None and found is not None else \
        k_cache.new_empty(0)


def _append_shapes(k_cache, v_cache, k_scales, v_scales, q_out, given, names,
                   *_):
    q = _named(names, given).get("q")
    return k_cache.new_empty(0) if q is None or q_out is not None else \
        _tensors.empty(q, q.shape)


_define("append(Tensor(a!) k_cache, Tensor(b!)? v_cache, Tensor(c!)? k_scales, "
        "Tensor(d!)? v_scales, Tensor(e!)? q_out, Tensor[] given, str names, "
        "str target, bool interleaved, int offset) -> Tensor",
        _run_append, _append_shapes)


def append(tensors, options):
    """tilec.append; tensors: in the order of _append.FIELDS."""
    target, interleaved, offset = options
    fields = {n: x for n, x in zip(_append.FIELDS, tensors) if x is not None}
    k = fields["k"]
    for n, x in fields.items():
        if not isinstance(x, torch.Tensor):
            fields[n] = _as_float(x, k) if n.endswith("_scales") else \
                _as_tensor(x, k)
    written = [fields.pop(n, None) for n in _WRITTEN]
    found = torch.ops.tilec.append(
        *written, list(fields.values()), ",".join(fields), target or "",
        interleaved, offset)
    if "q" not in fields:
        return None
    return found if written[-1] is None else written[-1]


# ---- Merge ----

_define("merge(Tensor o, Tensor lse) -> (Tensor, Tensor)",
        torch._disable_dynamo(_merge.run),
        lambda o, lse: (o.new_empty(o.shape[1:]),
                        lse.new_empty(lse.shape[1:])))


def merge(parts, lses):
    """tilec.merge of stacked parts."""
    if torch.is_grad_enabled() and (parts.requires_grad or lses.requires_grad):
        raise ValueError("merge has no gradients: give tensors that need none")
    return torch.ops.tilec.merge(parts, lses)
