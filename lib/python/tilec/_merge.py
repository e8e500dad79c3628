# SPDX-License-Identifier: Apache-2.0
"""tilec.merge, tilec.merge_into: attention over parts of the keys, put together.
"""
import functools
import typing

from . import _kernel, _tensors
from ._types import Tensor


@functools.lru_cache(maxsize=None)
def _launcher(name="merge_states"):
    """Compiles for each data type and head dim that it meets."""
    return _kernel.kernel("merge_states", name=name)


def _stack(tensors):
    if _tensors.is_torch(tensors[0]):
        import torch
        return torch.stack(tensors)
    import numpy
    return numpy.stack(tensors)


def _check(parts, lses):
    if len(parts.shape) != 5 or tuple(lses.shape) != tuple(parts.shape[:4]):
        raise ValueError("expected o [B, H, M, D] and lse [B, H, M] of each "
                         "part, found %s and %s" % (
                             tuple(parts.shape[1:]), tuple(lses.shape[1:])))
    if _tensors.dtype_name(lses) != "float32":
        raise ValueError("lse is %s, expected float32" % lses.dtype)


def merge(*states: Tensor) -> typing.Tuple[Tensor, Tensor]:
    """o, lse of attention over all keys, from attention over parts of them.

        o, lse = tilec.merge(o1, lse1, o2, lse2)
        o, lse = tilec.merge(o, lse)     # stacked: [N, B, H, M, D], [N, B, H, M]

    o [B, H, M, D] and lse [B, H, M] (natural log, float32), as
    `tilec.attention(.., return_lse=True)` gives them: for example over a prefix
    that sequences share, and over what each has of its own. A part without keys
    has lse = -inf. Parts are added in order: the same bits in every run.
    """
    if len(states) < 2 or len(states) % 2:
        raise ValueError("merge takes o, lse of each part, found %d values" %
                         len(states))
    if len(states) == 2:
        parts, lses = (_tensors.adopt(x, n) for x, n in zip(states,
                                                            ("o", "lse")))
    else:
        adopted = [_tensors.adopt(x, "lse" if i % 2 else "o")
                   for i, x in enumerate(states)]
        if len({tuple(o.shape) for o in adopted[::2]}) > 1:
            raise ValueError("parts have o of shapes %s, expected one shape" %
                             ", ".join(str(tuple(o.shape))
                                       for o in adopted[::2]))
        parts, lses = _stack(adopted[::2]), _stack(adopted[1::2])
    _check(parts, lses)
    if _tensors.is_torch(parts):
        from . import _torch
        if _torch.is_watched():
            from ._torch import _cache_operator
            return _cache_operator.merge(parts, lses)
    return run(parts, lses)


def run(parts, lses):
    o = _tensors.new(parts, parts.shape[1:], _tensors.dtype_name(parts))
    lse = _tensors.new(parts, lses.shape[1:], "float32")
    _launcher()(parts, lses, o, lse)
    return o, lse


def merge_into(o: Tensor, lse: Tensor, part: Tensor, part_lse: Tensor) -> None:
    """Joins attention over one more part of the keys to o and lse, in place.

    o [B, H, M, D] and lse [B, H, M] in float32: a state, which begins as the
    first part (`tilec.attention(.., out_dtype="float32", return_lse=True)`), or
    as zeros and -inf. part may be of any float type. The same bits in every run.
    """
    o, lse = _tensors.adopt(o, "o"), _tensors.adopt(lse, "lse")
    part = _tensors.adopt(part, "part")
    part_lse = _tensors.adopt(part_lse, "part_lse")
    for name, x in (("o", o), ("lse", lse), ("part_lse", part_lse)):
        if _tensors.dtype_name(x) != "float32":
            raise ValueError("%s is %s, expected float32" % (name, x.dtype))
    if len(o.shape) != 4 or tuple(part.shape) != tuple(o.shape):
        raise ValueError("o is %s, part %s: expected [B, H, M, D] of both" % (
            tuple(o.shape), tuple(part.shape)))
    if 0 not in o.shape:
        _launcher("merge_into")(part, part_lse, o, lse)
