# SPDX-License-Identifier: Apache-2.0
"""Numbers of the host in a traced mod: captured ones, sizes, and what Python
computes of them (`w * 2`, `1.0 / cap`).

Python computes them at each call, so they have Python's own semantics, and the
text gets the result as an argument. Where a known value makes better code (a
divisor), the first value becomes text; only when there is a second one does
that number become an argument too.
"""
import dataclasses
import typing

import torch

from ._values import I32, Scalar, Unsupported, literal, within


@dataclasses.dataclass(frozen=True, eq=False)
class Host:
    value: typing.Callable  # (tensors, numbers) -> a number
    leaves: frozenset  # ("number", i), ("size", tensor, dim)


@dataclasses.dataclass(frozen=True, eq=False)
class Dim(Host):
    """A size of a captured tensor, which the text can ask for."""

    text: str = ""


def leaf(kind, *at):
    if kind == "number":
        return Host(lambda t, n: n[at[0]], frozenset({(kind, *at)}))
    return Host(lambda t, n: t[at[0]].shape[at[1]], frozenset({(kind, *at)}))


def dim(tensor, d, text):
    """Of a captured tensor in the text."""
    size = leaf("size", tensor, d)
    return Dim(size.value, size.leaves, text)


def computed(f, args):
    """f of numbers, some of them of the host."""
    values = [x.value if isinstance(x, Host) else (lambda t, n, x=x: x)
              for x in args]
    return Host(lambda t, n: f(*[v(t, n) for v in values]),
                frozenset().union(*[x.leaves for x in args
                                    if isinstance(x, Host)]))


@dataclasses.dataclass
class Argument:
    name: str
    type: str
    host: Host


class Numbers:
    """The numbers of one text. `varied`: the leaves that are no text.
    `in_memory`: arguments are tensors of one element."""

    def __init__(self, tensors, numbers, names, varied, in_memory):
        self._at, self._names, self._varied = (tensors, numbers), names, varied
        self._in_memory = in_memory
        self.arguments = []
        self.fixed = set()  # leaves whose values are in the text

    def value(self, host):
        """The value now, which becomes part of the text."""
        self.fixed |= host.leaves
        return host.value(*self._at)

    def parameters(self):
        return ["%%%s: %s" % (a.name, "tensor<[?] x %s>" % a.type if
                              self._in_memory else a.type)
                for a in self.arguments]

    def scalar(self, host, dtype, fixed):
        """The number as an operand of that type; `fixed`: better as text."""
        now = host.value(*self._at)
        if isinstance(now, bool) or fixed and not host.leaves & self._varied:
            return literal(self.value(host), dtype)
        kind = "f64" if dtype == torch.float64 else "f32"
        if isinstance(now, int):
            kind = "i32" if within((now, now), I32) else "i64"
        for a in self.arguments:
            if a.host is host and a.type == kind:
                break
        else:
            a = Argument(self._names.new(host), kind, host)
            self.arguments.append(a)
        name = "%" + a.name + ("[0]" if self._in_memory else "")
        if kind in ("i32", "i64"):
            own = torch.int32 if kind == "i32" else torch.int64
            return Scalar(name, own, kind, I32 if kind == "i32" else
                          (-2**63, 2**63 - 1))
        return Scalar(name, torch.float64 if kind == "f64" else torch.float32,
                      kind)


def whole(x, numbers, what):
    """A whole number that must be known: a dim, a length."""
    if isinstance(x, Host):
        return numbers.value(x)
    if isinstance(x, Scalar) and x.literal is not None:
        return x.literal
    if not isinstance(x, int):
        raise Unsupported("%s that is not known before the launch" % what,
                          operands=True)
    return x
