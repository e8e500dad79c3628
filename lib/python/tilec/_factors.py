# SPDX-License-Identifier: Apache-2.0
"""Scales of 8-bit numbers, and quantization.

Scales are passed together with captured values, under the kernel's names:
"descale_k.scales".
"""
import threading
import typing

from . import _captured, _kernel, _tensors
from ._types import DType, Tensor

NAMES = ("descale_q", "descale_k", "descale_v", "scale_o")
_SUFFIX = ".scales"


def _filled(q, value):
    """A tensor of one scale where the value is a number."""
    number = _tensors.number_of(value)
    return (value if number is None else
            _tensors.filled(q, (1,), float(number)))


def given(q, values):
    """{name in the kernel: tensor} of the scales that are not None; a number
    scales all elements."""
    found = {}
    for name, value in zip(NAMES, values):
        if value is None:
            continue
        value = _filled(q, value)
        value = _captured.in_library_of(_tensors.adopt(value, name), q, name)
        found[name + _SUFFIX] = (value if _tensors.rank(value) else
                                 value.reshape(1))
    return found


def of(captured):
    """{parameter: tensor}, of [(name, value)] of a call."""
    known = {name + _SUFFIX: name for name in NAMES}
    return {known[n]: x for n, x in captured if n in known}


def tensors(q, factors):
    """The same {parameter: tensor}, with numbers as tensors of one scale."""
    return {name: _filled(q, x) for name, x in factors.items()}


def kind(x, of_what):
    """The part of a scale's shape that a plan depends on, as in
    lib/attention/attention_factors.c: one plan serves all lengths. A number
    counts as a tensor of one scale."""
    if _tensors.number_of(x) is not None:
        return 1, True
    shape, size = tuple(x.shape), tuple(of_what.shape)
    if len(shape) < 2:
        return len(shape), shape == (1,)
    if len(shape) == 2:
        return 2, shape[1] == size[1]
    blocks = max(shape[2], 1)
    return 3, 1 << (-(-size[2] // blocks) - 1).bit_length() if blocks > 1 else 0


# ---- Numbers to 8 bits ----

_makers, _lock = {}, threading.Lock()


def _maker(name, rows, hadamard):
    """A kernel of kernels/quantize.tile, compiled as arguments need it."""
    key = name, rows, hadamard
    with _lock:
        if key not in _makers:
            _makers[key] = _kernel.kernel(
                "quantize", name=name,
                bindings={"BM": rows, "HADAMARD": hadamard})
        return _makers[key]


def _result(x, dtype, column_major):
    b, h, n, d = x.shape
    if not column_major:
        return _tensors.empty(x, x.shape, dtype)
    # Rows of whole 16 bytes, for TMA copies.
    room = _tensors.new(x, (b, h, d, -(-n // 16) * 16), dtype)
    return room[..., :n].swapaxes(2, 3)


def quantize(x: Tensor, dtype: DType = "float8_e4m3fn", *,
             rows: typing.Optional[int] = None, hadamard: int = 0,
             column_major: bool = False) -> typing.Tuple[Tensor, Tensor]:
    """x [B, H, N, D] as 8-bit numbers y and their scales in float32: x is about
    y * scales. Each head has a scale, [B, H]; or, with rows (a power of two, 16
    to 128), each block of that many rows of a head, [B, H, blocks]. The largest
    number that shares a scale becomes the largest number of dtype.

    dtype: float8_e4m3fn or float8_e5m2, torch's or by name.
    hadamard: a power of two that divides D: a Hadamard matrix first rotates
        this many neighboring columns at a time, which spreads outliers of
        single columns. q k^T stays the same if both are rotated alike.
    column_major: store y by columns, as products read 8-bit values.
    """
    x = _tensors.adopt(x, "x")
    name = _tensors.name_of(dtype, "dtype")
    if name not in ("float8_e4m3fn", "float8_e5m2"):
        raise ValueError("dtype is %s, expected float8_e4m3fn or float8_e5m2" %
                         name)
    if len(x.shape) != 4:
        raise ValueError("x has %d dims, expected 4: batch, heads, length, dim"
                         % len(x.shape))
    if rows is not None and rows not in (16, 32, 64, 128):
        raise ValueError("rows is %r, expected 16, 32, 64 or 128" % (rows,))
    b, h, n, _ = x.shape
    y = _result(x, name, column_major)
    side = rows or 64
    blocks = _tensors.new(x, (b, h, -(-n // side)), "float32")
    if rows:
        _maker("quantize_block", side, hadamard)(x=x, y=y, scales=blocks)
        return y, blocks
    scales = _tensors.new(x, (b, h), "float32")
    _maker("largest_of_blocks", side, hadamard)(x=x, largest=blocks)
    _maker("quantize_head", side, hadamard)(x=x, y=y, scales=scales,
                                           largest=blocks)
    return y, scales
