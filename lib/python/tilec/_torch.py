# SPDX-License-Identifier: Apache-2.0
"""Attention as operators of torch, with gradients.

    tilec::attention, tilec::attention_backward

An operator takes no dicts: captured tensors come as a list and, with commas
between, their names; captured numbers and options as text (_texts.py). Both are
opaque to torch.compile, which learns the shapes of their results from the
functions registered as fake, and backward from `_backward`.
"""
import torch
from torch.autograd import forward_ad

from . import _attention, _tensors
from ._texts import numbers_of

_SPEC = ("Tensor[] captured, str names, str numbers, str score_mod, "
         "str mask_mod, float scale, str kernel_options, bool deterministic")


_NO_TANGENT = ("attention has no forward-mode derivative (torch.func.jvp, "
               "torch.autograd.forward_ad): use backward, or finite "
               "differences")


def _refuse_tangents(*tensors):
    """Refuses forward-mode AD: an operator without a rule gives tangent 0."""
    if forward_ad._current_level < 0:
        return
    for t in tensors:
        if t is not None and forward_ad.unpack_dual(t).tangent is not None:
            raise ValueError(_NO_TANGENT)


def _refuse_traced_tangents():
    """The same under torch.compile, which hides the tangents of tensors."""
    if forward_ad._current_level >= 0:
        raise ValueError(_NO_TANGENT)


def _captured(tensors, names, numbers):
    return [*zip(names.split(","), tensors), *numbers_of(numbers)]


@torch.library.custom_op(
    "tilec::attention", mutates_args=(),
    schema="(Tensor query, Tensor key, Tensor value, bool want_max, " + _SPEC +
    ") -> (Tensor, Tensor, Tensor)")
def _forward(query, key, value, want_max, captured, names, numbers, *spec):
    _refuse_tangents(query, key, value, *captured)
    o, lse, largest = _attention.forward(
        _attention.Spec(*spec), query, key, value,
        _captured(captured, names, numbers), want_max)
    # An operator always has the same number of results.
    return o, lse, largest if want_max else lse.new_empty(0)


@_forward.register_fake
def _forward_shapes(query, key, value, want_max, captured, names, numbers,
                    *spec):
    _refuse_traced_tangents()
    o = _attention.empty_output(_attention.Spec(*spec), query, value)
    lse = _tensors.empty(query, query.shape[:3], "float32")
    return o, lse, torch.empty_like(lse) if want_max else lse.new_empty(0)


@torch.library.custom_op(
    "tilec::attention_backward", mutates_args=(),
    schema="(Tensor query, Tensor key, Tensor value, Tensor o, Tensor lse, "
           "Tensor dout, Tensor? dlse, str wanted, " + _SPEC +
           ") -> (Tensor, Tensor, Tensor, Tensor[])")
def _gradients(query, key, value, o, lse, dout, dlse, wanted, captured, names,
               numbers, *spec):
    _refuse_tangents(query, key, value, o, lse, dout, dlse, *captured)
    wanted = [n for n in wanted.split(",") if n]
    dq, dk, dv, found = _attention.backward(
        _attention.Spec(*spec), query, key, value, o, lse, dout, dlse,
        _captured(captured, names, numbers), wanted)
    types = dict(_captured(captured, names, ""))
    return dq, dk, dv, [found[n].to(types[n].dtype) for n in wanted]


@_gradients.register_fake
def _gradients_shapes(query, key, value, o, lse, dout, dlse, wanted, captured,
                      names, *rest):
    tensors = dict(zip(names.split(","), captured))
    return (*[_tensors.empty(t, t.shape) for t in (query, key, value)],
            [_tensors.empty(query, tensors[n].shape).to(tensors[n].dtype)
             for n in wanted.split(",") if n])


def _keep(ctx, inputs, output):
    query, key, value, _, captured, *rest = inputs
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(output[2])
    ctx.save_for_backward(query, key, value, *output[:2], *captured)
    ctx.rest = rest


def _spread(t):
    """A tensor without strides of 0, which no TMA copy takes: the gradient of a
    sum is one number with such strides."""
    return t.contiguous() if 0 in t.stride() else t


def _backward(ctx, dout, dlse, _):
    query, key, value, o, lse, *captured = ctx.saved_tensors
    needs = ctx.needs_input_grad[4]
    names = ctx.rest[0].split(",")
    wanted = [n for n, need in zip(names, needs) if need]
    dout = torch.zeros_like(o) if dout is None else _spread(dout)
    dlse = dlse if dlse is None else _spread(dlse)
    dq, dk, dv, found = _gradients(query, key, value, o, lse, dout, dlse,
                                   ",".join(wanted), captured, *ctx.rest)
    by_name = dict(zip(wanted, found))
    return (dq, dk, dv, None, [by_name.get(n) for n in names[:len(captured)]],
            *[None] * len(ctx.rest))


def _no_second(ctx, *gradients):
    raise ValueError("attention has no second derivative: its gradients are "
                     "not differentiable (create_graph=True)")


_forward.register_autograd(_backward, setup_context=_keep)
_gradients.register_autograd(_no_second)


def autocast(*tensors):
    """Casts under torch.autocast as scaled_dot_product_attention does; 8-bit
    tensors stay."""
    kind = tensors[0].device.type
    if kind not in ("cpu", "cuda") or not torch.is_autocast_enabled(kind):
        return tensors
    dtype = torch.get_autocast_dtype(kind)
    return [t.to(dtype) if _tensors.is_torch(t) and t.device.type == kind and
            t.dtype in _CASTED else t for t in tensors]


_CASTED = (torch.float16, torch.bfloat16, torch.float32)


_functorch = torch._C._functorch
_REFUSED = {
    _functorch.TransformType.Vmap: "attention cannot be mapped by torch.vmap: "
    "it has dims for batch and heads",
    _functorch.TransformType.Grad: "attention cannot be differentiated by "
    "torch.func.grad or vjp: use torch.autograd.grad",
}


@torch.compiler.disable  # which cannot read it; it has fakes of its own
def _refuse_transforms(tensors):
    """Refuses transforms of torch.func: they need rules of the operator."""
    _refuse_tangents(*tensors)
    kinds = {x.level(): x.key() for x in
             _functorch.get_interpreter_stack() or ()}
    for t in tensors if kinds else ():
        while _functorch.is_functorch_wrapped_tensor(t):
            why = _REFUSED.get(kinds.get(_functorch.maybe_get_level(t)))
            if why:
                raise ValueError(why)
            t = _functorch.get_unwrapped(t)


def attention(q, k, v, want_max, spec, tensors, numbers):
    """spec: as the fields of _attention.Spec; tensors: a dict; numbers: text.
    """
    if not torch.compiler.is_compiling():
        _refuse_transforms([q, k, v, *tensors.values()])
    return _forward(q, k, v, want_max, list(tensors.values()),
                    ",".join(tensors), numbers, *spec)
