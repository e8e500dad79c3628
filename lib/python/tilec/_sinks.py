# SPDX-License-Identifier: Apache-2.0
"""Attention sinks: a logit a head, passed together with captured values, under
the name that the kernel has for it.
"""
from . import _captured, _tensors

NAME = "sink.sinks"
_TYPES = ("float32", "bfloat16", "float16", "float64")


def given(q, sinks):
    """{NAME: tensor}, or nothing."""
    if sinks is None:
        return {}
    if _tensors.number_of(sinks) is not None:
        raise TypeError("sinks is a number, expected a tensor of %d, one for "
                        "each head of query" % q.shape[1])
    x = _captured.in_library_of(_tensors.adopt(sinks, "sinks"), q, "sinks")
    if tuple(x.shape) != (q.shape[1],):
        raise ValueError("sinks is of shape %s, expected (%d,): one for each "
                         "head of query" % (tuple(x.shape), q.shape[1]))
    if _tensors.dtype_name(x) not in _TYPES:
        raise ValueError("sinks is %s, expected float32, or %s to be converted"
                         % (x.dtype, ", ".join(_TYPES[1:])))
    if not _tensors.is_beside(x, q):
        raise ValueError("sinks is on another device than query")
    return {NAME: x}


def taken(captured):
    """[(name, value)] without the sinks; and these in float32, or None."""
    found = dict(captured).get(NAME)
    return ([(n, x) for n, x in captured if n != NAME],
            None if found is None else _tensors.cast(found, "float32"))


def in_kernel(names, sinks):
    """Of captured values, as a caller says them."""
    return [NAME if n == "sinks" and sinks is not None else n for n in names]


def said(name):
    """The other way round."""
    return "sinks" if name == NAME else name
