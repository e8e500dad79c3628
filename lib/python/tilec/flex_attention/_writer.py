# SPDX-License-Identifier: Apache-2.0
"""Writes the body of a function in tile text, an op a line."""
import torch

from ._values import (I32, STORED, TYPES, Array, Scalar, Unsupported, literal,
                      range_of, within)

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


class Writer:
    def __init__(self):
        self._blocks = [[]]
        self._n = 0

    # ---- Lines ----

    def name(self):
        self._n += 1
        return "%%%d" % self._n

    def line(self, text):
        self._blocks[-1].append("  " * len(self._blocks) + text)

    def let(self, text, dtype, range=None, type=None):
        """A new value; `range` of ints, if more is known than the type says."""
        name = self.name()
        self.line("%s = %s" % (name, text))
        return Scalar(name, dtype, type or TYPES[dtype],
                      range or range_of(dtype))

    def body(self):
        return "\n".join(self._blocks[0])

    def loop(self, length, start, step):
        """Combines elements 0 .. length - 1: step(i, so far) -> the next. Gives
        the last one."""
        n = "%d" % length if isinstance(length, int) else length.text
        start = self.as_type(start, TYPES[start.dtype])
        result, name = self.name(), self.name()
        i, carried = name + ".i", name + ".c"
        most = length - 1 if isinstance(length, int) else I32[1]
        self._blocks.append([])
        value = step(Scalar(i, torch.int32, "i32", (0, max(most, 0))),
                     Scalar(carried, start.dtype, start.type,
                            range_of(start.dtype)))
        self.line("yield %s" % self.typed(
            self.as_type(value, start.type)).text)
        inner = self._blocks.pop()
        self.line("%s = for %s = 0 to %s carry(%s = %s) {" % (
            result, i, n, carried, self.typed(start).text))
        self._blocks[-1] += inner
        self.line("}")
        return Scalar(result, start.dtype, start.type, range_of(start.dtype))

    # ---- Types ----

    def typed(self, x):
        """x as a named value: a literal alone has no type."""
        if x.literal is None:
            return x
        return Scalar(self.let("const %s : %s" % (
            x.text.strip("()"), x.type), x.dtype).text, x.dtype, x.type,
            x.range)

    def as_type(self, x, kind):
        """x of ints in another type that holds its values."""
        if x.literal is not None or x.type == kind:
            return Scalar(x.text, x.dtype, kind, x.range, x.literal)
        return self.let("cast(%s, %s)" % (x.text, kind), x.dtype, x.range,
                        kind)

    def cast(self, x, dtype):
        """x as torch's Tensor.to(dtype)."""
        if x.dtype == dtype:
            return x
        if x.literal is not None:
            return literal(x.literal, dtype)
        if dtype == torch.bool:
            zero = "0.0" if x.dtype in _FLOATS else "0"
            return self.let("%s != %s" % (x.text, zero), dtype)
        if dtype in _FLOATS:
            return self.let("cast(%s, %s)" % (x.text, TYPES[dtype]), dtype)
        if x.dtype in _FLOATS:
            return self.fit(self.let("cast(%s, %s)" % (
                x.text, TYPES[dtype]), dtype), dtype)
        if dtype == torch.int64 and within(x.range, I32):
            return Scalar(self.as_type(x, "i32").text, dtype, "i32", x.range)
        if dtype == torch.uint8:
            return self.fit(self.as_type(x, "i32"), dtype)
        return self.let("cast(%s, %s)" % (x.text, TYPES[dtype]), dtype,
                        x.range if within(x.range, range_of(dtype)) else None)

    def fit(self, x, dtype):
        """The result of arithmetic in a byte, which is computed in i32."""
        if dtype != torch.uint8 or within(x.range, (0, 255)) and \
                x.dtype == dtype and x.literal is not None:
            return x
        return self.let("%s & 255" % x.text, dtype)

    def together(self, dtype, *values, result=None):
        """Ints as operands of one op: in i32 if values and result fit, in i64
        where not. Gives the type and the operands."""
        if dtype != torch.int64:
            return TYPES[dtype], list(values)
        small = all(within(x.range, I32) for x in values) and (
            result is None or within(result, I32))
        kind = "i32" if small else "i64"
        return kind, [self.as_type(x, kind) for x in values]

    # ---- Arrays ----

    def force(self, x):
        """An Array without dims as a Scalar."""
        if isinstance(x, Scalar):
            return x
        if x.shape:
            raise Unsupported("a result with the shape %s, expected one value "
                              "for a query and a key" % (shape_text(x.shape),))
        return x.at([])


def shape_text(shape):
    return "[%s]" % ", ".join(str(n) if isinstance(n, int) else "?"
                              for n in shape)


def load(w, name, shape, dtype):
    """A captured tensor as an Array."""
    kind = STORED[dtype]

    def at(index):
        places = []
        for d, i in enumerate(index):
            i = wrapped(w, i, shape[d], "size(%%%s, %d)" % (name, d))
            places.append(i.text)
        x = "%%%s[%s]" % (name, ", ".join(places or ["0"]))
        if dtype == torch.uint8:
            x = "cast(%s, i32) & 255" % x
        return w.let(x, dtype, None, "i32" if kind == "i8" and
                     dtype == torch.uint8 else None)
    return Array(shape, dtype, at, True)


def wrapped(w, i, length, size):
    """An index as torch reads it: negative ones count from the end."""
    if i.literal is not None and i.literal >= 0 or i.range[0] >= 0:
        return i
    if i.literal is not None and isinstance(length, int):
        return literal(i.literal + length, torch.int32)
    i = w.typed(i)
    if i.type not in ("i32", "i64"):
        i = w.as_type(i, "i32")
    if i.type == "i64":
        size = "cast(%s, i64)" % size
    return w.let("select(%s < 0, %s + %s, %s)" % (i.text, i.text, size, i.text),
                 i.dtype, (0, I32[1]), i.type)
