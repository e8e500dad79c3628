# SPDX-License-Identifier: Apache-2.0
"""Attention as operators of torch, with gradients.

    tilec::attention, tilec::attention_backward

An operator takes no dicts: captured tensors come as a list and, with commas
between, their names; captured numbers and options as text (_texts.py). Both are
opaque to torch.compile, which learns the shapes of their results from the
functions registered as fake, and backward from `_backward`.
"""
import torch

from . import _attention, _tensors
from ._texts import numbers_of

_SPEC = ("Tensor[] captured, str names, str numbers, str score_mod, "
         "str mask_mod, float scale, str kernel_options, bool deterministic")


def _captured(tensors, names, numbers):
    return [*zip(names.split(","), tensors), *numbers_of(numbers)]


@torch.library.custom_op(
    "tilec::attention", mutates_args=(),
    schema="(Tensor query, Tensor key, Tensor value, bool want_max, " + _SPEC +
    ") -> (Tensor, Tensor, Tensor)")
def _forward(query, key, value, want_max, captured, names, numbers, *spec):
    o, lse, largest = _attention.forward(
        _attention.Spec(*spec), query, key, value,
        _captured(captured, names, numbers), want_max)
    # An operator has as many results whatever is asked for.
    return o, lse, largest if want_max else lse.new_empty(0)


@_forward.register_fake
def _forward_shapes(query, key, value, want_max, captured, names, numbers,
                    *spec):
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
    """A gradient of a sum is one number with strides of 0, which no bulk copy
    takes."""
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


_forward.register_autograd(_backward, setup_context=_keep)


def attention(q, k, v, want_max, spec, tensors, numbers):
    """spec: as the fields of _attention.Spec; tensors: a dict; numbers: text.
    """
    return _forward(q, k, v, want_max, list(tensors.values()),
                    ",".join(tensors), numbers, *spec)
