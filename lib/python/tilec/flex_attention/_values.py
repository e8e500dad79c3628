# SPDX-License-Identifier: Apache-2.0
"""The values of a traced mod, as tile text computes them.

    Scalar   one number: `%7`, or a literal
    Array    a tensor that is never in memory: a shape, and how to compute an
             element of given indices

An int64 whose values surely fit into 32 bits is computed as i32: positions and
their differences are, products may not be. That is faster on GPUs, and the
compiler bounds loops by comparisons of i32 (docs/masks.md).
"""
import dataclasses
import typing

import torch

# The tile language's types. One without unsigned bytes: they are i32 here.
TYPES = {
    torch.bool: "i1", torch.uint8: "i32", torch.int8: "i8",
    torch.int16: "i16", torch.int32: "i32", torch.int64: "i64",
    torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32",
    torch.float64: "f64",
}
# In memory.
STORED = {**TYPES, torch.uint8: "i8"}

_BITS = {torch.int8: 8, torch.int16: 16, torch.int32: 32, torch.int64: 64}
I32 = (-2**31, 2**31 - 1)


def range_of(dtype):
    """The least and the greatest value of a type of ints; None of floats."""
    if dtype == torch.bool:
        return 0, 1
    if dtype == torch.uint8:
        return 0, 255
    bits = _BITS.get(dtype)
    return bits and (-2**(bits - 1), 2**(bits - 1) - 1)


def within(inner, outer):
    return outer[0] <= inner[0] and inner[1] <= outer[1]


@dataclasses.dataclass(frozen=True)
class Scalar:
    text: str
    dtype: torch.dtype  # torch's
    type: str  # the tile language's
    range: typing.Optional[typing.Tuple[int, int]] = None  # of ints
    literal: typing.Union[None, bool, int, float] = None


@dataclasses.dataclass(frozen=True)
class Array:
    shape: tuple  # ints, or Scalars
    dtype: torch.dtype
    at: typing.Callable[[list], Scalar]
    wraps: bool = False  # whether `at` takes negative indices

    def __post_init__(self):
        if any(isinstance(n, Array) for n in self.shape):
            raise Unsupported("a shape that is not known before the launch",
                              operands=True)


class Unsupported(Exception):
    """What the tile language, or this package, has no words for. `operands`:
    because of them, so that other operators in its place do not help."""

    error = NotImplementedError  # what the caller gets

    def __init__(self, why, hint=None, operands=False):
        super().__init__(why)
        self.why, self.hint, self.operands = why, hint, operands


class Asked(Unsupported):
    """Something that needs a value in Python which only the kernel has."""

    error = TypeError
    line = None  # "file:line"


def literal(x, dtype):
    """A Python number as a Scalar of that type."""
    if dtype == torch.bool:
        return Scalar("true" if x else "false", dtype, "i1", (int(bool(x)),) * 2,
                      bool(x))
    if dtype.is_floating_point:
        return Scalar(_float_text(float(x)), dtype, TYPES[dtype], None,
                      float(x))
    x = int(x)
    kind = "i32" if dtype == torch.int64 and within((x, x), I32) \
        else TYPES[dtype]
    low, high = range_of(dtype)
    x = (x - low) % (high - low + 1) + low  # as C++ converts it
    return Scalar(str(x) if x >= 0 else "(%d)" % x, dtype, kind, (x, x), x)


def _float_text(x):
    text = repr(x)
    return "(%s)" % text if text.startswith("-") else text
