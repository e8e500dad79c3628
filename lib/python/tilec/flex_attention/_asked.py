# SPDX-License-Identifier: Apache-2.0
"""Values that a mod asks of Python, which only the kernel has.

    if q > k: ..       float(q)       [1, 2, 3][h]       np.sqrt(q)

A trace has none, and torch's errors speak of its own symbols. Here they become
the line of the mod, and what to write in its place.
"""
import linecache

import torch
from torch.fx.experimental import symbolic_shapes

from ._values import Asked

_VALUE = (
    "a value in Python, which only the kernel has",
    "torch.where(c, x, y) for if, & | ~ for and, or and not, torch.minimum and "
    "torch.maximum for min and max, torch.tensor(x)[i] for x[i], the tensor "
    "itself or x.to(dtype) for int(x) and float(x)")
_NUMPY = "a function of numpy", "torch's function of that name"
_LIST = "a tensor made of values of the kernel", "torch.stack"
_OF_LISTS = torch.tensor, torch.as_tensor, torch.asarray
_FUNCTIONS = {torch.Tensor.numpy: _NUMPY, torch.Tensor.__array__: _NUMPY}
_OF_TORCH = {
    symbolic_shapes.GuardOnDataDependentSymNode: _VALUE,
    symbolic_shapes.PendingUnbackedSymbolNotFound: (
        "a result whose size depends on values", "torch.where")}


def _has_tensors(x):
    return any(map(_has_tensors, x)) if isinstance(x, (list, tuple)) else \
        isinstance(x, torch.Tensor)


def check(function, args):
    """Refuses what a trace cannot do, before torch does it."""
    found = _FUNCTIONS.get(function)
    if function in _OF_LISTS and args and isinstance(args[0], (
            list, tuple)) and _has_tensors(args[0]):
        found = _LIST
    if found:
        raise Asked(*found)


def of(error):
    """The Asked for an error of a trace, or None."""
    found = error if isinstance(error, Asked) else next(
        (Asked(*said) for kind, said in _OF_TORCH.items()
         if isinstance(error, kind)), None)
    at = found and last_frame(error.__traceback__)
    if at:
        found.line = "%s:%d" % at
        source = linecache.getline(*at).strip()
        found.why = "%s%s" % (found.why, source and " (`%s`)" % source)
    return found


def last_frame(tb):
    """The last file and line that are not of torch, this package or what they
    use."""
    found = None
    while tb:
        name = tb.tb_frame.f_globals.get("__name__", "")
        if name.partition(".")[0] not in ("torch", "tilec", "numpy", "sympy"):
            found = tb.tb_frame.f_code.co_filename, tb.tb_lineno
        tb = tb.tb_next
    return found
