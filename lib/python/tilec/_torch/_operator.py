# SPDX-License-Identifier: Apache-2.0
"""Attention as operators of torch: for all that watches or transforms calls of
torch (torch.compile, FakeTensor and other modes, subclasses of Tensor,
torch.func, torch.jit.trace).

    tilec::attention, tilec::attention_backward

An operator takes no dicts: captured tensors come as a list and, with commas
between, their names; captured numbers and options as text (_texts.py). Both are
opaque to torch.compile, which learns the shapes of their results from the
functions registered as fake, and backward from `_differentiate`. They are
registered through torch.library.Library: torch.library.custom_op imports all of
dynamo, which takes seconds.
"""
import torch
from torch.autograd import forward_ad

from .. import _attention, _prepared, _tensors
from .._texts import numbers_of, numbers_text

NO_TANGENT = ("attention has no forward-mode derivative (torch.func.jvp, "
              "torch.autograd.forward_ad): use backward, or finite "
              "differences")
NO_SECOND = ("attention has no second derivative: its gradients are not "
              "differentiable (create_graph=True)")


def spread(t):
    """A tensor without strides of 0, which no TMA copy takes: the gradient of a
    sum is one number with such strides."""
    return t.contiguous() if 0 in t.stride() else t


_SPEC = ("Tensor[] captured, str names, str numbers, str score_mod, "
         "str mask_mod, float scale, str kernel_options, bool deterministic")


def _refuse_tangents(*tensors):
    """Refuses forward-mode AD: an operator without a rule gives tangent 0."""
    if forward_ad._current_level < 0:
        return
    for t in tensors:
        if t is not None and forward_ad.unpack_dual(t).tangent is not None:
            raise ValueError(NO_TANGENT)


def _refuse_traced_tangents():
    """The same under torch.compile, which hides the tangents of tensors."""
    if forward_ad._current_level >= 0:
        raise ValueError(NO_TANGENT)


def _captured(tensors, names, numbers):
    """Names and values."""
    names = names.split(",") if tensors else []
    pairs = numbers_of(numbers)
    return (*names, *[n for n, _ in pairs]), [*tensors, *[x for _, x in pairs]]


@torch._disable_dynamo
def _forward(query, key, value, want_max, captured, names, numbers, *spec):
    _refuse_tangents(query, key, value, *captured)
    names, values = _captured(captured, names, numbers)
    found = _prepared.forward_for(
        _attention.Spec(*spec), query, key, value, names, values,
        want_max)(query, key, value, values)
    # An operator always has the same number of results.
    return (*found, *([] if want_max else [found[1].new_empty(0)]))


def _forward_shapes(query, key, value, want_max, captured, names, numbers,
                    *spec):
    _refuse_traced_tangents()
    o = _attention.empty_output(_attention.Spec(*spec), query, value)
    lse = _tensors.empty(query, query.shape[:3], "float32")
    return o, lse, torch.empty_like(lse) if want_max else lse.new_empty(0)


@torch._disable_dynamo
def _backward(query, key, value, o, lse, dout, dlse, wanted, captured, names,
              numbers, *spec):
    _refuse_tangents(query, key, value, o, lse, dout, dlse, *captured)
    wanted = tuple(n for n in wanted.split(",") if n)
    names, values = _captured(captured, names, numbers)
    dq, dk, dv, found = _prepared.backward(
        _attention.Spec(*spec), _attention.ready, query, key, value, o, lse, dout,
        dlse, names, values, wanted)
    types = dict(zip(names, captured))
    return dq, dk, dv, [found[n].to(types[n].dtype) for n in wanted]


def _backward_shapes(query, key, value, o, lse, dout, dlse, wanted, captured,
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


def _differentiate(ctx, dout, dlse, _):
    query, key, value, o, lse, *captured = ctx.saved_tensors
    needs = ctx.needs_input_grad[4]
    names = ctx.rest[0].split(",")
    wanted = [n for n, need in zip(names, needs) if need]
    dout = torch.zeros_like(o) if dout is None else spread(dout)
    dlse = dlse if dlse is None else spread(dlse)
    dq, dk, dv, found = torch.ops.tilec.attention_backward(
        query, key, value, o, lse, dout, dlse, ",".join(wanted), captured,
        *ctx.rest)
    by_name = dict(zip(wanted, found))
    return (dq, dk, dv, None, [by_name.get(n) for n in names[:len(captured)]],
            *[None] * len(ctx.rest))


def _no_second(ctx, *gradients):
    raise ValueError(NO_SECOND)


library = torch.library.Library("tilec", "FRAGMENT")


def _define(schema, run, shapes, backward, **setup):
    name = "tilec::" + schema.partition("(")[0]
    library.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
    library.impl(name, run, "CompositeExplicitAutograd")
    torch.library.register_fake(name, shapes, lib=library)
    torch.library.register_autograd(name, backward, lib=library, **setup)


_define("attention(Tensor query, Tensor key, Tensor value, bool want_max, " +
        _SPEC + ") -> (Tensor, Tensor, Tensor)",
        _forward, _forward_shapes, _differentiate, setup_context=_keep)
_define("attention_backward(Tensor query, Tensor key, Tensor value, Tensor o, "
        "Tensor lse, Tensor dout, Tensor? dlse, str wanted, " + _SPEC +
        ") -> (Tensor, Tensor, Tensor, Tensor[])",
        _backward, _backward_shapes, _no_second)

# ---- Calls ----

_is_transformed = torch._C._are_functorch_transforms_active


def parts(captured):
    """A dict of captured values as operators take it."""
    tensors = {n: x for n, x in captured.items()
               if isinstance(x, torch.Tensor)}
    return list(tensors.values()), ",".join(tensors), numbers_text(
        {n: x for n, x in captured.items() if n not in tensors})


def forward(q, k, v, want_max, captured, spec):
    """spec: the first fields of an _attention.Spec."""
    tensors, *rest = parts(captured)
    if not torch.compiler.is_compiling():
        _refuse_tangents(q, k, v, *tensors)
        if _is_transformed():
            from . import _transforms
            return _transforms.Attention.apply(_transforms.Call(
                (*rest, *spec), want_max), q, k, v, *tensors)
    return torch.ops.tilec.attention(q, k, v, want_max, tensors, *rest, *spec)


def backward(q, k, v, o, lse, dout, dlse, wanted, captured, spec):
    return torch.ops.tilec.attention_backward(
        q, k, v, o, lse, dout, dlse, ",".join(wanted), *parts(captured),
        *spec)
