# SPDX-License-Identifier: Apache-2.0
"""Attention on plain torch tensors, and its gradients.

A prepared call (_prepared.py) runs, below a torch.autograd.Function where
gradients are needed. What is not plain gets an operator (_operator.py).
"""
import torch
from torch.autograd import forward_ad

from . import _attention, _operator, _prepared, _tensors

operator = _operator

# ---- Which calls are plain ----

_PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))
_modes = torch._C._len_torch_dispatch_stack
_transforms = torch._C._are_functorch_transforms_active
_is_traced = torch._C._is_tracing
is_compiling = torch.compiler.is_compiling


def is_watched():
    """Whether calls of torch are transformed, or seen as operators."""
    return bool(is_compiling() or _modes() or _transforms() or _is_traced() or
                forward_ad._current_level >= 0)


def are_plain(tensors):
    """Whether they are memory with a shape and strides, and no more: torch
    resolves lazy signs and zeros for operators."""
    if is_watched():  # torch.compile does not read the rest
        return False
    for x in tensors:
        if type(x) not in _PLAIN or x.is_neg() or x._is_zerotensor():
            return False
    return True


# ---- Plain calls ----


def _gradients(ready, wanted, q, k, v, o, lse, dout, dlse, values):
    """dq, dk, dv and a gradient for each captured value or None."""
    names, spec = ready.names, ready.spec
    tensors = [x for x in (q, k, v, o, lse, dout, dlse, *values)
               if isinstance(x, torch.Tensor)]
    if are_plain(tensors):
        *found, of_wanted = _prepared.backward(
            spec, ready.gradients, q, k, v, o, lse, dout, dlse, names, values,
            wanted)
        of_wanted = {n: x.to(values[names.index(n)].dtype)
                     for n, x in of_wanted.items()}
    else:
        *found, of_wanted = _operator.backward(
            q, k, v, o, lse, dout, dlse, wanted, dict(zip(names, values)),
            spec.asked())
        of_wanted = dict(zip(wanted, of_wanted))
    if not wanted:
        return (*found, *[None] * len(values))
    return (*found, *[of_wanted.get(n) for n in names])


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, ready, q, k, v, *values):
        found = ready(q, k, v, values)
        ctx.set_materialize_grads(False)
        if len(found) > 2:
            ctx.mark_non_differentiable(found[2])
        ctx.ready = ready
        ctx.values = [None if isinstance(x, torch.Tensor) else x
                      for x in values]
        ctx.save_for_backward(q, k, v, found[0], found[1], *[
            x for x in values if isinstance(x, torch.Tensor)])
        return tuple(found)

    @staticmethod
    def backward(ctx, dout, dlse, _=None):
        q, k, v, o, lse, *tensors = ctx.saved_tensors
        values, needs = ctx.values, ctx.needs_input_grad[4:]
        if tensors:
            left = iter(tensors)
            values = [next(left) if x is None else x for x in values]
        wanted = tuple([n for n, need in zip(ctx.ready.names, needs) if need])
        dout = torch.zeros_like(o) if dout is None else _operator.spread(dout)
        dlse = dlse if dlse is None else _operator.spread(dlse)
        run = _Gradients.apply if torch.is_grad_enabled() else _gradients
        return (None, *run(ctx.ready, wanted, q, k, v, o, lse, dout, dlse,
                           values))


class _Gradients(torch.autograd.Function):
    """Refuses second derivatives (create_graph=True)."""

    @staticmethod
    def forward(ctx, *args):
        return _gradients(*args)

    @staticmethod
    def backward(ctx, *gradients):
        raise ValueError(_operator.NO_SECOND)


def run(ready, q, k, v, values):
    """o, lse and perhaps the largest scores, for plain tensors."""
    if torch.is_grad_enabled() and (
            q.requires_grad or k.requires_grad or v.requires_grad or
            any(getattr(x, "requires_grad", False) for x in values)):
        return _Attention.apply(ready, q, k, v, *values)
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

_TEXTS = frozenset((str, type(None)))
_SCALES = frozenset((int, float, type(None)))
_is_autocast = getattr(torch._C, "_is_any_autocast_enabled", lambda: True)
_is_deterministic = torch._C._get_deterministic_algorithms


def _key(q, k, v, options, extras, captured, want_max):
    """What a call has in common with those that it is like: all but addresses
    and numbers; and the captured values."""
    score, mask, scale, gqa, deterministic, kernel_options, out_dtype = options
    if type(score) not in _TEXTS or type(mask) not in _TEXTS or \
            type(scale) not in _SCALES:
        raise TypeError
    values = list(captured.values()) if captured else []
    for x in extras:
        if x is not None:
            values.append(x)
    return (
        score, mask, scale, bool(gqa), bool(want_max),
        deterministic if deterministic is None else bool(deterministic),
        _is_deterministic(),
        kernel_options if kernel_options is None else repr(kernel_options),
        out_dtype,
        q.dtype, q.shape, q.stride(), q.device, q.is_neg(),
        k.dtype, k.shape, k.stride(), k.device, k.is_neg(),
        v.dtype, v.shape, v.stride(), v.device, v.is_neg(),
        *((*captured, *[x is None for x in extras], *map(_tensors.kind, values))
          if values else ())), values


def repeated(q, k, v, options, extras, captured, want_max):
    """The results of a call like an earlier one; None, if it is like none."""
    if type(q) not in _PLAIN or type(k) not in _PLAIN or \
            type(v) not in _PLAIN:
        return None
    try:
        if _is_autocast():
            q, k, v = autocast(q, k, v)
        key, values = _key(q, k, v, options, extras, captured, want_max)
        ready = _attention.ready.get(key)
    except (AttributeError, TypeError, RuntimeError):  # _attend says why
        return None
    return None if ready is None else run(ready, q, k, v, values)


def keep(ready, q, k, v, options, extras, captured, want_max):
    """Keeps what `repeated` looks for."""
    try:
        key, values = _key(q, k, v, options, extras, captured, want_max)
    except (AttributeError, TypeError):
        return
    if len(values) == len(ready.names):
        _attention.keep_ready(_attention.ready, key, ready)
