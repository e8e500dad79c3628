# SPDX-License-Identifier: Apache-2.0
"""A traced mod as a function in tile text.

    def mod(score, b, h, q, k):             func @score_mod(%score: f32, ..,
        return score + slopes[h]                %slopes: tensor<[?] x f32>) -> f32 {
                                              %1 = %slopes[%h]
                                              %2 = %score + %1
                                              return %2
                                            }
"""
import dataclasses
import operator
import re

import torch

from . import _numbers, _ops
from ._ops import POINTWISE
from ._shapes import SHAPES, broadcast, element
from ._trace import POSITIONS
from ._values import (
    STORED, TYPES, Array, Scalar, Unsupported, literal)
from ._writer import Writer, load

# Positions are at most what a tensor's size can be.
_POSITION = (0, 2**31 - 2**16 - 1)
# Operators that a known second operand makes cheaper.
_DIVISIONS = frozenset((
    "div", "divide", "true_divide", "floor_divide", "remainder", "fmod", "pow",
    "bitwise_right_shift", "__rshift__", "bitwise_left_shift", "__lshift__"))
_COMPARISONS = frozenset((
    "eq", "ne", "lt", "le", "gt", "ge", "not_equal", "less", "greater",
    "less_equal", "greater_equal"))
_OF_PYTHON = {
    operator.add: "add", operator.sub: "sub", operator.mul: "mul",
    operator.floordiv: "floor_divide", operator.mod: "remainder",
    operator.neg: "neg", operator.lshift: "__lshift__",
    operator.rshift: "__rshift__",
}


class Names:
    """Names of captured values: those of Python, made unique."""

    def __init__(self, closure):
        self._closure = closure
        # What the parameters are called, and what kernels offer.
        self._taken = {"score", "q_len", "kv_len", *POSITIONS}

    def unique(self, name):
        name = re.sub(r"\W", "_", name, flags=re.A).strip("_") or "value"
        if name[0].isdigit():
            name = "_" + name
        found, n = name, 2
        while found in self._taken:
            found, n = "%s_%d" % (name, n), n + 1
        self._taken.add(found)
        return found

    def new(self, host):
        """For a number of the host: the name of what it is computed of."""
        for kind, i, *_ in sorted(host.leaves):
            names = self._closure.names[1 if kind == "number" else 0]
            return self.unique(names[i] if kind == "number"
                               else names[i] + "_size")
        return self.unique("number")


@dataclasses.dataclass
class Text:
    """What a mod becomes."""

    text: str
    name: str  # of the function, with @
    parameters: list  # of captured values: "%slopes: tensor<[?] x f32>"
    tensors: list  # (name, index of the tensor in the closure, or a tensor)
    numbers: list  # of _numbers.Argument
    fixed: set  # leaves whose values are in the text
    is_none: bool  # changes no score, hides no pair


class Emitter:
    def __init__(self, trace, tensors, numbers, varied, in_memory):
        self.writer = Writer()
        self.trace = trace
        self._names = Names(trace.closure)
        self.numbers = _numbers.Numbers(tensors, numbers, self._names, varied,
                                        in_memory)
        self._values = {}  # by node
        self._tensors = {}  # name by index or id: captured ones in use
        self.captured = []  # (name, index or tensor, parameter)
        self._arrays = {}

    # ---- What a mod captures ----

    def _capture(self, at, x, name, shape):
        """A tensor, by its index in the closure or as it is."""
        key = at if isinstance(at, int) else id(at)
        if key not in self._arrays:
            if x.dtype not in STORED:
                raise Unsupported("a captured tensor of %s" % x.dtype)
            name = self._names.unique(name)
            self.captured.append((name, at, "%%%s: tensor<[%s] x %s>" % (
                name, ", ".join("?" * max(x.ndim, 1)), STORED[x.dtype])))
            shape = tuple([n if isinstance(n, int) else _numbers.dim(
                at, d, "size(%%%s, %d)" % (name, d))
                for d, n in enumerate(shape)])
            self._arrays[key] = load(self.writer, name, shape, x.dtype)
        return self._arrays[key]

    def _leaf(self, i, value):
        closure = self.trace.closure
        return lambda: self._capture(i, closure.tensors[i],
                                     closure.names[0][i], tuple(value.shape))

    def _attribute(self, node):
        """A tensor that the graph holds."""
        i = self.trace.attributes.get(node.target)
        if i is not None:
            return self._leaf(i, self.trace.closure.tensors[i])()
        x = getattr(self.trace.graph, node.target)
        if not isinstance(x, torch.Tensor):
            raise Unsupported("an operator that takes functions (torch.cond)",
                              "torch.where")
        if not all(u.target in (torch.ops.aten.lift_fresh_copy.default,
                                torch.ops.aten.lift_fresh.default)
                   for u in node.users):
            self.stray = True
        if x.ndim == 0:
            value = literal(x.item(), x.dtype)
            return Array((), x.dtype, lambda _: value)
        return self._capture(x, x, "constant", tuple(x.shape))

    stray = False  # whether the mod reads a tensor that the closure lacks

    # ---- Operands ----

    def operand(self, x, dtype, fixed=False):
        """A number of Python or the host as a Scalar; an Array as it is."""
        if isinstance(x, _numbers.Host):
            return self.numbers.scalar(x, dtype, fixed)
        if isinstance(x, (bool, int, float)):
            return literal(x, dtype)
        return x

    def _argument(self, x):
        if isinstance(x, torch.fx.Node):
            found = self._values[x]
            if callable(found) and not isinstance(found, Array):
                found = self._values[x] = found()
            return found
        if isinstance(x, (list, tuple)):
            return type(x)([self._argument(y) for y in x])
        if isinstance(x, (torch.SymInt, torch.SymFloat)):
            return self._symbol(x)
        return x

    def _symbol(self, x):
        meaning = self.trace.symbols.get(x.node.expr)
        if meaning is None:
            raise Unsupported("the number %s" % x)
        return _numbers.leaf(*meaning)

    # ---- Nodes ----

    def _pointwise(self, name, node, args, named):
        value = node.meta["val"]
        out = value.dtype if isinstance(value, torch.Tensor) else torch.int64
        if out not in TYPES:
            raise Unsupported("values of %s" % out, operands=True)
        f = POINTWISE[name]
        kind = out
        if name in _COMPARISONS:
            kind = named["dtype"] = torch.result_type(*[
                x.meta["val"] if isinstance(x, torch.fx.Node) else x
                for x in node.args[:2]])
        if f is _ops.to_copy:
            args, named = args[:1], {}
        args = [self.operand(x, kind, i > 0 and name in _DIVISIONS)
                for i, x in enumerate(args)]
        named = {n: self.operand(x, kind) for n, x in named.items()
                 if n not in ("layout", "device", "pin_memory",
                              "memory_format")}
        if "alpha" in named:
            named["alpha"] = named["alpha"].literal
        if "decimals" in named:
            named["decimals"] = named["decimals"].literal
        shape = broadcast(*[x.shape for x in [*args, *named.values()]
                            if isinstance(x, Array)])

        def at(index):
            def one(x):
                return element(x, index) if isinstance(x, Array) else x
            return f(self.writer, out, *[one(x) for x in args],
                     **{n: one(x) for n, x in named.items()})
        return Array(shape, out, at)

    def _call(self, node):
        target = node.target
        args = [self._argument(x) for x in node.args]
        named = {n: self._argument(x) for n, x in node.kwargs.items()}
        if not isinstance(target, torch._ops.OpOverload):
            return self._python(node, target, args, named)
        space, _, name = target._schema.name.partition("::")
        if space not in ("aten", "prims"):
            name = "%s::%s" % (space, name)
        if name == "sym_size":
            return self._size(node)
        if name in POINTWISE:
            return self._pointwise(name, node, args, named)
        if name in SHAPES:
            value = node.meta["val"]
            out = value.dtype if isinstance(value, torch.Tensor) else None
            return SHAPES[name](self, *args, **{
                n: x for n, x in named.items()
                if n not in ("layout", "device", "pin_memory", "dtype",
                             "memory_format")}, out=out)
        raise Unsupported("the operator %s" % target)

    def _size(self, node):
        x, d = self._argument(node.args[0]), node.args[1]
        if isinstance(x.shape[d], int):
            return x.shape[d]
        return self._symbol(node.meta["val"])

    def _python(self, node, target, args, named):
        """Numbers that Python computes."""
        if not any(isinstance(x, (Array, Scalar)) for x in args):
            return _numbers.computed(
                lambda *x: target(*x, **named), args)
        if target in _OF_PYTHON:
            return self._pointwise(_OF_PYTHON[target], node, args, named)
        raise Unsupported("%s of a value that is computed by the mod" %
                          getattr(target, "__name__", target))

    def _node(self, node, given):
        if node.op == "placeholder":
            return self._given(next(given), node)
        if node.op == "get_attr":
            return self._attribute(node)
        try:
            found = self._call(node)
            if isinstance(found, Array) and not found.shape:
                value = found.at([])  # once, where it stands
                found = Array((), found.dtype, lambda _: value)
            return found
        except Unsupported as e:
            e.op = node.target
            raise

    def _given(self, what, node):
        if what == "score":
            x = Scalar("%score", torch.float32, "f32")
        elif isinstance(what, str):
            x = Scalar("%" + what, torch.int32, "i32", _POSITION)
        elif what[0] == "number":
            return _numbers.leaf(*what)
        else:
            return self._leaf(what[1], node.meta["val"])
        return Array((), x.dtype, lambda _: x)

    def run(self, result):
        """The Scalar that the mod returns, in that type."""
        given = iter(self.trace.placeholders)
        for node in self.trace.graph.graph.nodes:
            if node.op == "output":
                x = self._argument(node.args[0])
                while isinstance(x, (list, tuple)) and len(x) == 1:
                    x, = x
                if not isinstance(x, (Array, _numbers.Host, bool, int, float)):
                    raise TypeError("the mod returns %s, expected one tensor" %
                                    ("None" if x is None else "a " +
                                     type(x).__name__))
                x = self.operand(x, result)
                return self.writer.cast(self.writer.force(x), result)
            self._values[node] = self._node(node, given)


def emit(trace, tensors, numbers, varied, name, scored, in_memory=False):
    """The Text of a trace, and whether it may be kept: a tensor that the
    closure lacks may be another one in the next call. `in_memory`: numbers are
    read from tensors of one element."""
    e = Emitter(trace, tensors, numbers, varied, in_memory)
    result = e.run(torch.float32 if scored else torch.bool)
    parameters = [p for _, _, p in e.captured] + e.numbers.parameters()
    head = (["%score: f32"] if scored else []) + [
        "%%%s: i32" % p for p in POSITIONS] + parameters
    is_none = result.text == "%score" if scored else result.literal is True
    result = e.writer.typed(result)
    body = e.writer.body()
    text = "func %s(%s) -> %s {\n%s  return %s\n}\n" % (
        name, ", ".join(head), "f32" if scored else "i1",
        body + "\n" if body else "", result.text)
    return Text(text, name, parameters, [(n, at) for n, at, _ in e.captured],
                e.numbers.arguments, e.numbers.fixed, is_none), not e.stray
