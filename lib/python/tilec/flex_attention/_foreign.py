# SPDX-License-Identifier: Apache-2.0
"""Mods where something watches or transforms torch: torch.export, FakeTensor
modes, torch.func.

A mod is traced outside of all that. Tensors that exist only in there (without
data, or of a transform) have stand-ins of the same kind in the trace.
"""
import contextlib

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode
from torch.utils import _python_dispatch, _pytree

from . import _asked

_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor


def is_foreign(x):
    return isinstance(x, FakeTensor) or x.is_meta or _is_wrapped(x)


def is_watched(device):
    """Whether a mod must be traced outside of something."""
    return (device.type == "meta" or torch.compiler.is_compiling() or
            torch._C._len_torch_dispatch_stack() > 0 or
            torch._C._are_functorch_transforms_active())


def is_without_data(device):
    """Whether tensors may have no data that a kernel could read."""
    return is_watched(device) and (
        device.type == "meta" or torch.compiler.is_compiling() or
        torch._C._are_functorch_transforms_active() or
        torch._guards.detect_fake_mode() is not None)


def size(n):
    """What a size that may be a symbol is now."""
    if isinstance(n, torch.SymInt):
        hint = getattr(n.node, "hint", None)
        return int(hint) if hint is not None else 2
    return n


def stand_in(x):
    """A tensor of the same kind, whose data do not matter."""
    if not is_foreign(x):
        return x
    return torch.zeros((), dtype=x.dtype).expand([size(n) for n in x.shape])


@contextlib.contextmanager
def outside():
    """Leaves modes and transforms."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch._guards.tracing(None))
        if torch._C._are_functorch_transforms_active():
            from torch._functorch import pyfunctorch
            stack.enter_context(
                pyfunctorch.temporarily_clear_interpreter_stack())
        for _ in range(torch._C._len_torch_function_stack()):
            stack.enter_context(torch.overrides._pop_mode_temporarily())
        stack.enter_context(_python_dispatch._disable_current_modes())
        yield


def _is_position(x):
    return isinstance(x, torch.Tensor) and x.ndim == 0 and \
        x.dtype in (torch.int32, torch.int64)


def _mixes(index):
    """Whether positions stand beside slices: torch asks for their values."""
    return isinstance(index, tuple) and any(map(_is_position, index)) and any(
        isinstance(x, slice) for x in index) and all(
            isinstance(x, slice) or _is_position(x) for x in index)


def _indexed(x, index):
    whole = tuple(slice(None) if _is_position(i) else i for i in index)
    return torch.ops.aten.index.Tensor(
        x[whole], [i if _is_position(i) else None for i in index])


class Instead(TorchFunctionMode):
    """Others in the place of tensors, by id: for those that a mod reaches
    through attributes. Positions index them beside slices too."""

    def __init__(self, others):
        super().__init__()
        self._others = others

    def _other(self, x):
        return self._others.get(id(x), x)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        args, kwargs = _pytree.tree_map(self._other, (args, kwargs or {}))
        if func is torch.Tensor.__getitem__ and _mixes(args[1]):
            return _indexed(*args)
        _asked.check(func, args)
        return func(*args, **kwargs)
