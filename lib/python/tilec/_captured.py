# SPDX-License-Identifier: Apache-2.0
"""Captured values: converts what callers give to the parameters of mods.

    ids = torch.tensor([0, 0, 1])   # int64, and the mod has tensor<[?] x i32>
    cap = torch.tensor(30.0)        # rank 0, and the mod has f32

A conversion keeps each value: an integer outside of the parameter's type is an
error. Only float64 is rounded, to float32. The library refuses all other types.
"""
import ctypes as C
import re
import sys

from . import _abi, _context, _kernel, _tensors, _texts

_RANGES = {
    "bool": (0, 1), "int8": (-2**7, 2**7 - 1), "int16": (-2**15, 2**15 - 1),
    "int32": (-2**31, 2**31 - 1), "int64": (-2**63, 2**63 - 1),
    "uint8": (0, 2**8 - 1), "uint16": (0, 2**16 - 1), "uint32": (0, 2**32 - 1),
}
_FLOATS = ("float16", "bfloat16", "float32", "float64")
_DTYPE_NAMES = _tensors.dtype_names()


def given(captured, q):
    """{name: number of Python or tensor of q's library}."""
    found = {}
    for name, value in captured.items():
        if not isinstance(name, str):
            raise TypeError("captured: %r is no name" % (name,))
        if not re.fullmatch(r"[\w.]+", name):
            raise ValueError("captured: %r is no name of a parameter" % name)
        number = _tensors.number_of(value)
        found[name] = in_library_of(_tensors.adopt(value, name), q, name) \
            if number is None else number
    return found


def in_library_of(x, q, name):
    """x of numpy as a tensor of torch, if q is one."""
    if not _tensors.is_torch(q) or _tensors.is_torch(x):
        return x
    if not q.is_cpu:
        raise ValueError("%s is a numpy array, query a torch tensor on %s: "
                         "give torch.as_tensor(%s, device=query.device), made "
                         "once" % (name, q.device, name))
    if not x.flags.writeable or any(s < 0 for s in x.strides):
        x = x.copy()  # torch knows neither
    try:
        return sys.modules["torch"].from_numpy(x)
    except TypeError as e:
        raise ValueError("%s: %s" % (name, e)) from None


def integers(name, x, like):
    """Lengths or indices as int32, in like's library; a list becomes one."""
    if isinstance(x, (list, tuple)):
        import numpy
        x = numpy.array(x, numpy.int32)
    x = in_library_of(_tensors.adopt(x, name), like, name)
    have = _tensors.dtype_name(x)
    if have not in ("int32", "int64"):
        raise ValueError("%s is %s, expected int32" % (name, have))
    return x if have == "int32" else _tensors.cast(x, "int32")


def parameters(kernel):
    """The parameters that mods capture, by full name (`mask.w`) and, if only
    one mod has it, by own name (`w`)."""
    kernel = C.c_void_p(kernel)
    n = _abi.lib.tilec_kernel_parameter_count(kernel)
    found = [_kernel.parameter(_abi.lib.tilec_kernel_parameter(
        kernel, C.c_size_t(i)).contents) for i in range(n)]
    full = {p.name: p for p in found if p.captured}
    return {**{name.partition(".")[2]: p for name, p in full.items()}, **full}


def fitted(captured, parameters, device):
    """[(name, value)], each value in the type of its parameter."""
    return [(n, _fitted(n, x, parameters[n], device)
             if n in parameters and _tensors.is_tensor(x) else x)
            for n, x in captured]


def _fitted(name, x, p, device):
    if p.kind in ("int", "float"):
        return _number(name, x, device) if _tensors.rank(x) == 0 else x
    if _tensors.rank(x) == 0 and len(p.shape) == 1:
        x = x.reshape(1)
    have, want = _tensors.dtype_name(x), _DTYPE_NAMES.get(p.dtype)
    if have == want:
        return x
    if have in _RANGES and want in _RANGES:
        return _integer(name, x, have, want)
    if have in _FLOATS and want in ("float32", "float64"):
        return _converted(x, want)
    return x


def _number(name, x, device):
    if _tensors.device_of(x) != (_tensors.CPU, 0) and \
            _context.is_capturing(device):
        raise ValueError(
            "captured %s is a tensor of rank 0 on the GPU, and the mod wants a "
            "number: none can be read while a CUDA graph is captured. Give the "
            "mod `%%%s: tensor<[1] x ..>`, and read %%%s[0] there" %
            (name, name, name))
    return x.item()


def _integer(name, x, have, want):
    (least, most), (low, high) = _RANGES[have], _RANGES[want]
    if have == "bool" and want == "int8":
        return x.view(sys.modules["torch"].int8 if _tensors.is_torch(x)
                      else "int8")
    if least < low or most > high:
        _check_range(name, x, low, high)
    return _converted(x, want)


def _check_range(name, x, low, high):
    """On a GPU an assertion checks it there; nothing waits for it."""
    said = "captured %s has %s, the mod's parameter %d to %d"
    if not _tensors.is_torch(x):
        for extreme in (x.min(), x.max()) if x.size else ():
            if not low <= extreme <= high:
                raise ValueError(said % (name, extreme, low, high))
        return
    torch = sys.modules["torch"]
    x = x.to(torch.int64)
    if not x.is_cpu:
        torch._assert_async(((x >= low) & (x <= high)).all(), said % (
            name, "others", low, high))
        return
    for extreme in torch.aminmax(x) if x.numel() else ():
        if not low <= extreme.item() <= high:
            raise ValueError(said % (name, extreme.item(), low, high))


def _converted(x, want):
    """x in that type; of a broadcast tensor only the data that it repeats."""
    strides = x.stride() if _tensors.is_torch(x) else x.strides
    if 0 not in strides or 0 in x.shape:
        return _tensors.cast(x, want)
    small = _tensors.cast(x[tuple([slice(1) if s == 0 else slice(None)
                                   for s in strides])], want)
    if _tensors.is_torch(x):
        return small.expand(x.shape)
    return sys.modules["numpy"].broadcast_to(small, x.shape)
