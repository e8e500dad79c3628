# SPDX-License-Identifier: Apache-2.0
"""Factors of 8-bit numbers, and the numbers.

Factors travel beside what mods capture, under the names that the kernel has for
them: "descale_k.scales".
"""
import threading

from . import _captured, _kernel, _tensors

NAMES = ("descale_q", "descale_k", "descale_v", "scale_o")
_SUFFIX = ".scales"


def given(q, values):
    """{name in the kernel: tensor} of those that are not None; a number is a
    factor of all."""
    found = {}
    for name, value in zip(NAMES, values):
        if value is None:
            continue
        number = _tensors.number_of(value)
        if number is not None:
            value = _tensors.filled(q, (1,), float(number))
        value = _captured.beside(_tensors.adopt(value, name), q, name)
        found[name + _SUFFIX] = (value if _tensors.rank(value) else
                                 value.reshape(1))
    return found


def of(captured):
    """{parameter: tensor}, of [(name, value)] of a call."""
    known = {name + _SUFFIX: name for name in NAMES}
    return {known[n]: x for n, x in captured if n in known}


def kind(x, of_what):
    """What a plan has to know of a tensor of factors: as lib/attention_factors
    does, for the same plan serves all lengths."""
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
    """A kernel of kernels/quantize.tile, for all that it meets."""
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


def quantize(x, dtype="float8_e4m3fn", *, rows=None, hadamard=0,
             column_major=False):
    """x [B, H, N, D] as numbers of 8 bits and their factors in float32: x is
    nearly y * factors. Each head has one, [B, H]; or, with rows (a power of
    two, 16 to 128), each block of so many rows of a head, [B, H, blocks]; the
    largest number of those that share a factor becomes the largest that dtype
    has.

    dtype: float8_e4m3fn or float8_e5m2, torch's or by name.
    hadamard: a power of two that divides D: so many neighbouring columns at a
        time are rotated by a Hadamard matrix first, which spreads outliers of
        single columns. q k^T stays what it is if both are rotated alike.
    column_major: y lies in memory by columns, which is how products with 8-bit
        v want to read it.
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
