# SPDX-License-Identifier: Apache-2.0
"""Tensors of torch and numpy as DLTensors, without a copy.

Each library is imported only when one of its tensors arrives.
"""
import ctypes as C
import functools
import sys
import typing

from . import _abi
from ._texts import encoded

CPU, CUDA = 1, 2  # DLDeviceType

# DLPack's codes by the name that torch and numpy (with ml_dtypes) have for it.
_DTYPES = {
    "bool": (6, 8), "int8": (0, 8), "int16": (0, 16), "int32": (0, 32),
    "int64": (0, 64), "uint8": (1, 8), "uint16": (1, 16), "uint32": (1, 32),
    "float16": (2, 16), "float32": (2, 32), "float64": (2, 64),
    "bfloat16": (4, 16), "float8_e4m3fn": (10, 8), "float8_e5m2": (12, 8),
    "float8_e8m0fnu": (14, 8),
}


def is_torch(x):
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def is_traced():
    """Whether torch.compile is tracing the caller."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.compiler.is_compiling()


def is_numpy(x):
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(x, numpy.ndarray)


def is_tensor(x):
    return is_torch(x) or is_numpy(x) or hasattr(x, "__dlpack__")


def library_of(x):
    return "torch tensor" if is_torch(x) else "numpy array"


def rank(x):
    """The rank of a tensor; None for other objects."""
    return len(x.shape) if is_torch(x) or is_numpy(x) else None


def number_of(x):
    """A number of Python or numpy as a Python number; else None."""
    if not isinstance(x, (bool, int, float)):
        x = x.item() if hasattr(x, "item") and not is_tensor(x) else None
    return x if isinstance(x, (bool, int, float)) else None


def _check_layout(x, name):
    """Refuses torch tensors without one shape and strides (nested, sparse)."""
    if x.is_nested:
        raise ValueError("%s is a nested tensor, expected one shape for all: "
                         "pack the sequences, and separate them by "
                         'mask_mod="document", or pad them' % name)
    if str(x.layout) != "torch.strided":
        raise ValueError("%s has the layout %s, expected a dense tensor" %
                         (name, x.layout))


def adopt(x, name):
    """x as a torch tensor or numpy array; through DLPack if it is neither."""
    if is_torch(x):
        _check_layout(x, name)
        return x
    if is_numpy(x):
        return x
    if not hasattr(x, "__dlpack__"):
        raise TypeError("%s is a %s, expected a torch tensor, a numpy array, "
                        "or what has __dlpack__" % (name, type(x).__name__))
    if "torch" in sys.modules:
        return sys.modules["torch"].from_dlpack(x)
    import numpy
    return numpy.from_dlpack(x)


def dtype_name(x):
    """"float32": the same for torch and numpy."""
    return str(x.dtype).rpartition(".")[2]


def name_of(dtype, what):
    """The same for a dtype; numpy's may be classes (numpy.float16)."""
    name = dtype.__name__ if isinstance(dtype, type) else str(dtype)
    if not isinstance(dtype, (str, type)) and type(dtype).__name__ != "dtype" \
            and type(dtype).__module__.partition(".")[0] != "numpy":
        raise TypeError("%s is %r, expected a data type, or its name" % (
            what, dtype))
    return name.rpartition(".")[2]


def dtype_names():
    """By DLPack's code and bits."""
    return {code: name for name, code in _DTYPES.items()}


def cast(x, dtype):
    """x in another data type of its library, given by name or as a dtype."""
    if is_torch(x):
        return x.to(getattr(sys.modules["torch"], dtype)
                    if isinstance(dtype, str) else dtype)
    return x.astype(dtype, copy=False)


_codes = {}  # by torch's or numpy's own objects, as they are met


def dl_dtype(x, name):
    found = _codes.get(x.dtype)
    if found is None:
        found = _DTYPES.get(dtype_name(x))
        if found is None:
            raise ValueError("%s: dtype %s is none that tilec knows: %s" % (
                name, x.dtype, ", ".join(_DTYPES)))
        _codes[x.dtype] = found
    return found


def begins_with(x, y):
    """Whether y is a view of the first columns of x."""
    def address(t):
        return t.data_ptr() if is_torch(t) else t.ctypes.data

    def strides(t):
        return tuple(t.stride()) if is_torch(t) else t.strides
    return (is_torch(x) == is_torch(y) and x.dtype == y.dtype and
            x.shape[:-1] == y.shape[:-1] and x.shape[-1] >= y.shape[-1] and
            strides(x) == strides(y) and address(x) == address(y))


def device_of(x):
    """(DLPack's device type, number)."""
    if not is_torch(x):
        return CPU, 0
    if x.is_cuda:
        return CUDA, x.device.index or 0
    if x.is_cpu:
        return CPU, 0
    raise ValueError("tensors on %s are not supported: use cpu or cuda"
                     % x.device)


def is_beside(x, y):
    """Whether x is on y's device; both may be without data (meta)."""
    if is_torch(x) and is_torch(y) and (x.is_meta or y.is_meta):
        return x.is_meta and y.is_meta
    return device_of(x) == device_of(y)


def like(x):
    """What tensors have in common that a call need not tell apart."""
    if is_torch(x):
        return x.dtype, x.shape, x.stride(), x.device, x.is_neg()
    return x.dtype, x.shape, x.strides


def _address_of_array(x):
    return x.ctypes.data


def address_function(x):
    """The function that gives the addresses of tensors of x's library."""
    return sys.modules["torch"].Tensor.data_ptr if is_torch(x) else \
        _address_of_array


def address_of(x):
    return address_function(x)(x)


_NUMBERS = frozenset((bool, int, float))


def kind(x):
    """The same for equal types of torch tensors, with shape, strides and
    device, and of numbers. Raises TypeError, AttributeError or RuntimeError for
    all else."""
    t = type(x)
    return t if t in _NUMBERS else (t, x.dtype, x.shape, x.stride(), x.device,
                                    x.is_neg())


def why_unwritable(x):
    """Why no kernel may write to x; None if one may."""
    if is_torch(x):
        if x.requires_grad and sys.modules["torch"].is_grad_enabled():
            return ("requires grad (give it detached, or launch under "
                    "torch.no_grad())")
    elif is_numpy(x) and not x.flags.writeable:
        return "is a read-only array"
    return None


def will_change(tensors):
    """Tells torch that x changes: backward refuses saved tensors that did."""
    for x in tensors:
        if is_torch(x) and not x.is_inference():
            sys.modules["torch"].autograd.graph.increment_version(x)


def version(x):
    """What tells whether a torch tensor was changed in place. Those of
    torch.inference_mode count no versions: such a one may have changed."""
    return object() if x.is_inference() else x._version


_ROWS = [C.c_int64 * n for n in range(9)]


def _row(values):
    n = len(values)
    return (_ROWS[n] if n < len(_ROWS) else C.c_int64 * n)(*values)


class View:
    """A DLTensor of x. It must outlive the calls that read it."""

    __slots__ = ("tensor", "dl", "pointer")

    def __init__(self, x, name):
        code, bits = dl_dtype(x, name)
        if is_torch(x):
            if x.is_neg():  # lazily: memory has the other sign
                raise ValueError("%s is a view with its sign changed: give "
                                 "%s.resolve_neg()" % (name, name))
            data, strides = x.data_ptr(), x.stride()
        else:
            data, strides = x.ctypes.data, _numpy_strides(x, name)
        self.tensor = x
        self.dl = _abi.DLTensor(data, device_of(x), len(strides),
                                (code, bits, 1), _row(x.shape), _row(strides))
        self.pointer = C.pointer(self.dl)


def contiguous_dim(x):
    """The last dim with stride 1; if there is none, the last dim."""
    one = 1 if is_torch(x) else x.itemsize
    strides = x.stride() if is_torch(x) else x.strides
    found = [i for i, n in enumerate(x.shape) if strides[i] == one and n != 1]
    return found[-1] if found else len(x.shape) - 1


def has_vectors(x):
    """Whether its rows (its columns, if these are contiguous) begin at
    multiples of 16 bytes."""
    unit = 16 // x.itemsize if is_torch(x) else 16
    strides = x.stride() if is_torch(x) else x.strides
    closest = contiguous_dim(x)
    return all(i == closest or n <= 1 or strides[i] % unit == 0
               for i, n in enumerate(x.shape))


def _numpy_strides(x, name):
    if any(s % x.itemsize for s in x.strides):
        raise ValueError("%s: strides %s are no multiples of the element's %d "
                         "bytes" % (name, x.strides, x.itemsize))
    return [s // x.itemsize for s in x.strides]


def has_8_bits(x):
    return dtype_name(x).startswith("float8")


def empty_output(q, shape, dtype=None):
    """An output of attention: in q's type, in 16 bits if q has 8."""
    return empty(q, shape, dtype or ("bfloat16" if has_8_bits(q) else None))


def new(like, shape, dtype):
    """A row-major tensor without values, of like's library and device."""
    if is_torch(like):
        import torch
        return like.new_empty(shape, dtype=getattr(torch, dtype))
    import numpy
    return numpy.empty(shape, _numpy_dtype(dtype))


def filled(like, shape, value):
    x = new(like, shape, "float32")
    x[...] = value
    return x


def _numpy_dtype(name):
    import numpy
    try:
        return numpy.dtype(name)
    except TypeError:  # bfloat16 and those of 8 bits are not numpy's own
        pass
    try:
        import ml_dtypes
        return numpy.dtype(getattr(ml_dtypes, name))
    except (ImportError, AttributeError):
        raise ValueError("numpy has no %s: the package ml_dtypes has types "
                         "of 8 bits and bfloat16" % name) from None


def empty(like, shape, dtype=None):
    """A new tensor of like's library and device; dtype by name ("float32"),
    None for like's own. Its dims have like's order in memory, if there are as
    many."""
    if is_torch(like):
        import torch
        make = like.new_empty
        kind = getattr(torch, dtype) if dtype else like.dtype
        strides = like.stride()
    else:
        import numpy
        make = numpy.empty
        kind = _numpy_dtype(dtype) if dtype else like.dtype
        strides = like.strides
    if len(strides) != len(shape):
        return make(tuple(shape), dtype=kind)
    order = sorted(range(len(shape)), key=lambda i: -abs(strides[i]))
    t = make(tuple(shape[i] for i in order), dtype=kind)
    back = sorted(range(len(shape)), key=order.__getitem__)
    return t.permute(back) if is_torch(t) else t.transpose(back)


def _torch_maker(device, shape, strides, dtype):
    """torch.empty_strided without its dispatch, as code of torch's inductor
    calls it, in half the time; on a GPU for the current one."""
    torch = sys.modules["torch"]
    guards = getattr(torch._C._dynamo, "guards", None)
    make = getattr(guards, "_empty_strided_" + device.type, None)
    if make is None:
        return lambda: torch.empty_strided(shape, strides, dtype=dtype,
                                           device=device)
    return functools.partial(make, tuple(shape), strides, dtype)


def maker(example):
    """A function that makes tensors like `example`, which `empty` has made; on
    a GPU while that is the current one."""
    if is_torch(example):
        return _torch_maker(example.device, example.shape, example.stride(),
                            example.dtype)
    order = sorted(range(len(example.shape)),
                   key=lambda i: -abs(example.strides[i]))
    shape = [example.shape[i] for i in order]
    back = sorted(range(len(shape)), key=order.__getitem__)
    import numpy
    return lambda: numpy.empty(shape, example.dtype).transpose(back)


def argument(name, value, views):
    """A tilec_argument of a tensor or a number; its view joins views."""
    name = encoded(name, "the name of an argument")
    number = number_of(value)
    value = value if number is None else number
    if isinstance(value, (bool, int)):
        if not -2**63 <= value < 2**63:
            raise ValueError("%s is %d, which has more than 64 bits" % (
                (name or b"argument").decode(), value))
        return _abi.tilec_argument(name, _abi.INT, None, int(value), 0.0)
    if isinstance(value, float):
        return _abi.tilec_argument(name, _abi.FLOAT, None, 0, value)
    view = View(adopt(value, (name or b"argument").decode()),
                (name or b"argument").decode())
    views.append(view)
    return _abi.tilec_argument(name, _abi.TENSOR, view.pointer, 0, 0.0)


def arguments(pairs, views):
    """A C array of [(name, value)] and its length; views keeps it alive."""
    return _abi.array(_abi.tilec_argument,
                      [argument(n, x, views) for n, x in pairs])


class Aligned:
    """Memory that another one owns: bytes of torch, begun at 256."""

    def __init__(self, owner):
        self.owner, self.size = owner, owner.numel() - 256
        self.address = (owner.data_ptr() + 255) & ~255


class Memory:
    """size bytes on the device of like, aligned to 256."""

    def __init__(self, like: typing.Any, size: int) -> None:
        self.size: int = size
        self.address: typing.Optional[int] = None
        self.owner: typing.Any = None
        if not size:
            return
        if is_torch(like):
            uint8 = sys.modules["torch"].uint8
            self.owner = like.new_empty(size + 256, dtype=uint8)
            start = self.owner.data_ptr()
        else:
            import numpy
            self.owner = numpy.empty(size + 256, numpy.uint8)
            start = self.owner.ctypes.data
        self.address = (start + 255) & ~255

    def record_stream(self, stream: int) -> None:
        """Keeps torch from reusing it before that stream (a number), if it is
        not the current one, is done with it."""
        if self.address is None or device_of(self.owner)[0] != CUDA:
            return
        cuda, device = sys.modules["torch"].cuda, self.owner.device
        self.owner.record_stream(
            cuda.ExternalStream(stream, device=device) if stream else
            cuda.default_stream(device))
