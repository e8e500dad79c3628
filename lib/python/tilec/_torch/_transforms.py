# SPDX-License-Identifier: Apache-2.0
"""Attention under torch.func: grad, vjp, jacrev, vmap.

vmap puts the mapped dim into the batch, so that there is one launch. Where that
would change a result (a mod that reads the batch index, or captures a tensor
that is mapped), there is a launch for each element.
"""
import functools
import typing

import torch

from .. import _dropout, _kernel, _sinks, _texts
from . import _operator

_READ_BY_HEAD = (_sinks.NAME,)


@functools.lru_cache(maxsize=None)
def _library():
    return "\n".join(_kernel.mods().values())


def _is_of_mods(name):
    """Whether a captured value is read by mods alone."""
    side, dot, _ = name.partition(".")
    return not dot or side in ("mask", "score")


class Call(typing.NamedTuple):
    """What is no tensor in a call."""

    rest: tuple  # names, numbers, and the fields of a Spec
    want_max: bool = False
    has_dlse: bool = False
    wanted: str = ""  # names of captured tensors whose gradients are wanted

    @property
    def names(self):
        return [n for n in self.rest[0].split(",") if n]

    def reads_batch(self):
        """Whether the number of a batch entry may matter to the kernel."""
        _, _, score, mask, _, options, _ = self.rest
        if "bindings" in options or _dropout.SEED in self.names or any(
                not _is_of_mods(n) and n not in _READ_BY_HEAD
                for n in self.names):
            return True
        return (_texts.reads_batch(score, 1, _library()) or
                _texts.reads_batch(mask, 0, _library()))


# ---- vmap ----


def _at(x, dim, i):
    return x if dim is None else x.select(dim, i)


def _one_by_one(run, call, size, dims, tensors):
    """A call for each element, and the results stacked."""
    found = [run(call, *[_at(x, d, i) for x, d in zip(tensors, dims)])
             for i in range(size)]
    return (tuple([torch.stack(x) for x in zip(*found)]),
            (0,) * len(found[0]))


def _into_batch(x, dim, size):
    """[.., B, ..] with a mapped dim as [size * B, ..]."""
    x = x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)
    return x.reshape(size * x.shape[1], *x.shape[2:])


def _mapped(run, call, size, dims, tensors, nbatched):
    """run(call, *tensors), of which the first have a batch and the others are
    captured."""
    if size == 0:
        raise ValueError("attention cannot be mapped by torch.vmap over a dim "
                         "of size 0")
    if call.wanted or call.reads_batch() or any(
            d is not None for d in dims[nbatched:]):
        return _one_by_one(run, call, size, dims, tensors)
    folded = [_into_batch(x, d, size)
              for x, d in zip(tensors[:nbatched], dims)]
    found = run(call, *folded, *tensors[nbatched:])
    return (tuple([x.unflatten(0, (size, -1)) if x.ndim > 1 else x
                   for x in found]),
            tuple([0 if x.ndim > 1 else None for x in found]))


# ---- Functions ----


class Attention(torch.autograd.Function):
    """(Call, q, k, v, captured tensors) -> o, lse, row maxima."""

    @staticmethod
    def forward(call, q, k, v, *captured):
        return torch.ops.tilec.attention(q, k, v, call.want_max, captured,
                                         *call.rest)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.call, *tensors = inputs
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(output[2])
        ctx.save_for_backward(*tensors[:3], *output[:2], *tensors[3:])

    @staticmethod
    def backward(ctx, dout, dlse, _):
        q, k, v, o, lse, *captured = ctx.saved_tensors
        names = ctx.call.names
        wanted = [n for n, need in zip(names, ctx.needs_input_grad[4:])
                  if need]
        call = ctx.call._replace(has_dlse=dlse is not None,
                                 wanted=",".join(wanted))
        dout = torch.zeros_like(o) if dout is None else dout
        more = () if dlse is None else (dlse,)
        dq, dk, dv, *found = Gradients.apply(
            call, q, k, v, o, lse, dout, *more, *captured)
        of = dict(zip(wanted, found))
        return (None, dq, dk, dv, *[of.get(n) for n in names])

    @staticmethod
    def jvp(ctx, *tangents):
        raise ValueError(_operator.NO_TANGENT)

    @staticmethod
    def vmap(info, dims, call, *tensors):
        return _mapped(Attention.apply, call, info.batch_size, dims[1:],
                       tensors, 3)


class Gradients(torch.autograd.Function):
    """(Call, q, k, v, o, lse, dout, dlse if there is one, captured tensors)
    -> dq, dk, dv and the gradients that are wanted."""

    @staticmethod
    def forward(call, q, k, v, o, lse, dout, *more):
        dlse = more[0] if call.has_dlse else None
        dq, dk, dv, found = torch.ops.tilec.attention_backward(
            q, k, v, o, lse, _operator.spread(dout),
            None if dlse is None else _operator.spread(dlse), call.wanted,
            more[call.has_dlse:], *call.rest)
        return (dq, dk, dv, *found)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, *gradients):
        raise ValueError(_operator.NO_SECOND)

    @staticmethod
    def jvp(ctx, *tangents):
        raise ValueError(_operator.NO_TANGENT)

    @staticmethod
    def vmap(info, dims, call, *tensors):
        return _mapped(Gradients.apply, call, info.batch_size, dims[1:],
                       tensors, 6 + call.has_dlse)
