# SPDX-License-Identifier: Apache-2.0
"""Attention on plain torch tensors, and its gradients.

A prepared call (_prepared.py) runs, below a torch.autograd.Function where
gradients are needed. What is not plain gets an operator (_operator.py).
"""
import torch
from torch.autograd import forward_ad

from .. import _attention, _launch, _prepared, _tensors
from . import _cache, _operator

operator, cache = _operator, _cache

# ---- Which calls are plain ----

_PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))
_modes = torch._C._len_torch_dispatch_stack
_is_transformed = torch._C._are_functorch_transforms_active
_is_traced = torch._C._is_tracing
_is_compiling = torch.compiler.is_compiling
_is_grad_enabled = torch.is_grad_enabled


def is_watched():
    """Whether calls of torch are transformed, or seen as operators."""
    return bool(_is_compiling() or _modes() or _is_transformed() or
                _is_traced() or forward_ad._current_level >= 0)


def are_plain(tensors):
    """Whether they are memory with a shape and strides, and no more: torch
    resolves lazy signs and zeros for operators."""
    if is_watched():  # torch.compile does not read the rest
        return False
    for x in tensors:
        if type(x) not in _PLAIN or x.is_meta or x.is_neg() or \
                x._is_zerotensor():
            return False
    return True


_cache._is_watched = is_watched

# ---- Plain calls ----


def _gradients(ready, wanted, q, k, v, o, lse, dout, dlse, values):
    """dq, dk, dv and a gradient for each captured value or None."""
    # The other tensors were plain in forward. Hooks of saved tensors give
    # equal ones, which may have other strides.
    if not are_plain([dout] if dlse is None else [dout, dlse]) or \
            type(q) not in _PLAIN:
        return _by_operator(ready, wanted, q, k, v, o, lse, dout, dlse, values)
    key = (wanted, q.stride(), k.stride(), v.stride(), o.stride(),
           lse.stride(), dout.stride(), dlse is not None and dlse.stride(),
           *map(_tensors.kind, values))
    found = ready.gradients.get(key)
    if found is None:
        found = _prepared.Backward(
            ready.spec, q, k, v, o, lse, dout, dlse, ready.names, values,
            wanted)
        _attention.keep_ready(ready.gradients, key, found)
        if found.fast is not None and not wanted:
            more = () if dlse is None else (dlse,)
            _attention.keep_ready(ready.fast_gradients, _launch.fast.key(
                q, k, v, o, lse, dout, *more, *values), found.fast)
    *three, of_wanted = found(q, k, v, o, lse, dout, dlse, values)
    if not wanted:
        return (*three, *[None] * len(values))
    return (*three, *[of_wanted[n].to(x.dtype) if n in of_wanted else None
                      for n, x in zip(ready.names, values)])


def _by_operator(ready, wanted, q, k, v, o, lse, dout, dlse, values):
    *three, of_wanted = _operator.backward(
        q, k, v, o, lse, dout, dlse, wanted, dict(zip(ready.names, values)),
        ready.spec.asked())
    by_name = dict(zip(wanted, of_wanted))
    return (*three, *[by_name.get(n) for n in ready.names])


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, ready, q, k, v, *values):
        found = ready(q, k, v, values)
        ctx.set_materialize_grads(False)
        ctx.ready = ready
        if values:
            ctx.values = [None if isinstance(x, torch.Tensor) else x
                          for x in values]
            ctx.save_for_backward(q, k, v, found[0], found[1], *[
                x for x in values if isinstance(x, torch.Tensor)])
        else:
            ctx.save_for_backward(q, k, v, found[0], found[1])
        if len(found) > 2:
            ctx.mark_non_differentiable(found[2])
        return tuple(found)

    @staticmethod
    def backward(ctx, dout, dlse, _=None):
        saved, ready, values, wanted = ctx.saved_tensors, ctx.ready, (), ()
        if ready.names:
            left = iter(saved[5:])
            saved = saved[:5]
            values = [next(left) if x is None else x for x in ctx.values]
            wanted = tuple([n for n, needs in zip(
                ready.names, ctx.needs_input_grad[4:]) if needs])
        if not wanted and dout is not None and _launch.fast is not None and \
                not _is_grad_enabled() and not is_watched():
            more = () if dlse is None else (dlse,)
            found = _launch.fast.run(ready.fast_gradients, *saved, dout, *more,
                                     *values)
            if found is not None:
                return (None, *found, *[None] * len(values))
        return (None, *_any_gradients(ready, wanted, *saved, dout, dlse,
                                      values))


# Without functorch's share of Function.apply: is_watched has asked for it.
_record = super(torch.autograd.Function, _Attention).apply


def _any_gradients(ready, wanted, q, k, v, o, lse, dout, dlse, values):
    dout = torch.zeros_like(o) if dout is None else _operator.spread(dout)
    if dout.dtype != q.dtype:  # out_dtype; the kernels know one type
        o, dout = o.to(q.dtype), dout.to(q.dtype)
    dlse = dlse if dlse is None else _operator.spread(dlse)
    run = _Gradients.apply if torch.is_grad_enabled() else _gradients
    return run(ready, wanted, q, k, v, o, lse, dout, dlse, values)


class _Gradients(torch.autograd.Function):
    """Refuses second derivatives (create_graph=True)."""

    @staticmethod
    def forward(ctx, *args):
        return _gradients(*args)

    @staticmethod
    def backward(ctx, *gradients):
        raise ValueError(_operator.NO_SECOND)


def _needs_gradients(q, k, v, values):
    return _is_grad_enabled() and (
        q.requires_grad or k.requires_grad or v.requires_grad or
        values and any([getattr(x, "requires_grad", False) for x in values]))


def run(ready, q, k, v, values):
    """o, lse and perhaps the largest scores, for plain tensors."""
    if _needs_gradients(q, k, v, values):
        return _record(ready, q, k, v, *values)
    return ready(q, k, v, values)


# ---- Autocast ----

_CASTED = (torch.float16, torch.bfloat16, torch.float32)


def autocast(*tensors):
    """Casts under torch.autocast as scaled_dot_product_attention does; 8-bit
    tensors stay."""
    kind = tensors[0].device.type
    if kind not in ("cpu", "cuda") or not torch.is_autocast_enabled(kind):
        return tensors
    dtype = torch.get_autocast_dtype(kind)
    return [t.to(dtype) if _tensors.is_torch(t) and t.device.type == kind and
            t.dtype in _CASTED else t for t in tensors]


# ---- Repeated calls ----

_KEPT = (str, bool, int, float, torch.dtype, type(None))
_is_autocast = getattr(torch._C, "_is_any_autocast_enabled", lambda: True)
_is_deterministic = torch._C._get_deterministic_algorithms


def _rest(options, extras, captured, want_max):
    """What a call has in common with those that it is like, besides its
    tensors, and its captured values."""
    if options[-1] is not None:  # kernel_options
        options = (*options[:-1], repr(options[-1]))
    if not captured and extras[0] is extras[1] is extras[2] is extras[3] is \
            extras[4] is None:
        return (options, want_max, _is_deterministic()), ()
    return ((options, want_max, _is_deterministic(), *captured,
             *[x is None for x in extras]),
            [*captured.values(), *[x for x in extras if x is not None]])


def _key(rest, q, k, v, values):
    """With what tensors and numbers are like; raises for what is neither."""
    return (rest,
            q.dtype, q.shape, q.stride(), q.device, q.is_neg(),
            k.dtype, k.shape, k.stride(), k.device, k.is_neg(),
            v.dtype, v.shape, v.stride(), v.device, v.is_neg(),
            *map(_tensors.kind, values))


def repeated(q, k, v, options, extras, captured, want_max):
    """The results of a call like an earlier one; None, if it is like none."""
    if is_watched() or type(q) not in _PLAIN or type(k) not in _PLAIN or \
            type(v) not in _PLAIN:
        return None
    try:
        if _is_autocast():
            q, k, v = autocast(q, k, v)
        rest, values = _rest(options, extras, captured, want_max)
        if _launch.fast is not None:
            table = _attention.ready.get(rest)
            found = None if table is None else _launch.fast.run(
                table, q, k, v, *values)
            if type(found) is _prepared.Forward:
                if found.is_of(k, v):
                    return _record(found, q, k, v, *values)
            elif found is not None:
                return found
            elif table is not None:
                found = _grown(rest, q, k, v, values)
                if found is not None:
                    return found
        ready = _attention.ready.get(_key(rest, q, k, v, values))
    except (AttributeError, TypeError, RuntimeError):  # _attend says why
        return None
    return None if ready is None else run(ready, q, k, v, values)


def _can_be_kept(options, want_max):
    """Whether options are texts and numbers, which stay what they are."""
    return all(type(x) in _KEPT for x in (*options[:-1], want_max))


def _keep_fast(rest, call, q, k, v, values):
    table = _attention.ready.setdefault(rest, {})
    _attention.keep_ready(table, _launch.fast.key(q, k, v, *values), call)


def keep(ready, q, k, v, options, extras, captured, want_max):
    """Keeps what `repeated` looks for."""
    if not _can_be_kept(options, want_max):
        return
    try:
        rest, values = _rest(options, extras, captured, want_max)
        key = _key(rest, q, k, v, values)
    except (AttributeError, TypeError):
        return
    if len(values) != len(ready.names):
        return
    _attention.keep_ready(_attention.ready, key, ready)
    if ready.fast is not None:
        _keep_fast(rest, ready.fast, q, k, v, values)
        _prepared.keep_for_lengths(ready, q, k, v, values, want_max)


def _growing(rest, q, k, v, values):
    """As _key, whatever the length of k and v is."""
    return (rest, q.dtype, q.shape, q.stride(), q.device, q.is_neg(),
            *[(x.dtype, x.device, x.shape[:2], x.shape[3:], x.stride()[3:],
               x.is_neg()) for x in (k, v)], *map(_tensors.kind, values))


def _grown(rest, q, k, v, values):
    """The results of a call whose k and v are longer than those of the call
    before, as each step of a decode makes them; None: none is known."""
    found = _attention.ready.get(_growing(rest, q, k, v, values))
    if found is None or not found.low <= k.shape[2] <= found.high or \
            k.shape[2] != v.shape[2] or _needs_gradients(q, k, v, values):
        return None
    _keep_fast(rest, found.call, q, k, v, values)
    return found.call(q, k, v, *values)


def with_other_length(spec, q, k, v, names, options, extras, captured,
                      want_max):
    """The results of a call that differs from an earlier one in the length of
    k and v alone; None: there was none. Calls alike find it by `repeated`."""
    if _launch.fast is None or not _can_be_kept(options, want_max):
        return None
    try:
        rest, values = _rest(options, extras, captured, want_max)
        if len(values) != len(names) or _needs_gradients(q, k, v, values):
            return None
        ready = _prepared.for_lengths(spec, q, k, v, names, values, want_max)
    except (AttributeError, TypeError):
        return None
    if ready is None:
        return None
    _keep_fast(rest, ready.fast, q, k, v, values)
    lengths = _prepared.lengths_of(ready, q, k, v, values, want_max)
    if lengths is not None:
        _attention.keep_ready(_attention.ready,
                              _growing(rest, q, k, v, values), lengths)
    return ready.fast(q, k, v, *values)
