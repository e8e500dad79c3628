# SPDX-License-Identifier: Apache-2.0
"""Traces a Python mod with torch's make_fx.

    score, b, h, q, k, the captured tensors, the captured numbers -> a graph of
    aten operators

Sizes of captured tensors and captured numbers are symbols, so that the graph
holds for others too. Where Python must know one (`if w > 3`, `range(n)`), torch
records a guard on its symbol; the mod is traced again with the value itself,
which then is part of what the trace depends on.
"""
import dataclasses
import typing

import torch
from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic, ShapeEnv, StatelessSymbolicContext)

from . import _asked, _foreign
from ._closures import Closure

POSITIONS = ("b", "h", "q", "k")


@dataclasses.dataclass
class Trace:
    graph: torch.fx.GraphModule
    closure: Closure
    # What torch's symbols stand for: {symbol: ("number", index) or ("size",
    # index of the tensor, dim)}.
    symbols: typing.Dict[object, tuple]
    placeholders: list  # what each is: a name, ("tensor", i), ("number", i)
    attributes: typing.Dict[str, int]  # the graph's tensors in the closure


class _Symbols:
    """Tensors without data and numbers without values."""

    def __init__(self, mode):
        self._mode, self._env, self.meaning = mode, mode.shape_env, {}

    def number(self, i, x):
        source = ConstantSource("number%d" % i)
        make = (self._env.create_symintnode if type(x) is int
                else self._env.create_symfloatnode)
        found = make(self._env.create_unspecified_symbol(
            x, source, DimDynamic.DYNAMIC), hint=x, source=source)
        self.meaning[found.node.expr] = ("number", i)
        return found

    def tensor(self, i, x, fixed):
        if fixed or x.ndim == 0:
            return self._mode.from_tensor(x, static_shapes=True)
        found = self._mode.from_tensor(
            x, source=ConstantSource("tensor%d" % i),
            symbolic_context=StatelessSymbolicContext(
                dynamic_sizes=[DimDynamic.DYNAMIC] * x.ndim,
                constraint_sizes=[None] * x.ndim))
        for d, n in enumerate(found.shape):
            if isinstance(n, torch.SymInt) and n.node.expr.is_symbol:
                self.meaning.setdefault(n.node.expr, ("size", i, d))
        return found


_decompositions = {}  # of operators that have no text of their own


def decompose(error):
    """Whether traces from now on have other operators in the place of the one
    that is Unsupported. What decompositions end in, prims, are made of aten's
    operators in turn."""
    op = getattr(error, "op", None)
    if op is None or op in _decompositions or error.operands or \
            getattr(op, "namespace", "") == "prims":
        return False
    found = torch._decomp.get_decompositions([op])
    made = torch._library.custom_ops.OPDEFS.get(getattr(
        getattr(op, "_schema", None), "name", None))
    if made is not None:  # of torch.library.custom_op: its Python function
        found[op] = made._init_fn
    _decompositions.update(found)
    return op in found


def _guarded(env):
    """The symbols whose values the trace depends on."""
    found = set()
    for guard in env.guards:
        found |= guard.expr.free_symbols
    for symbol, expr in env.replacements.items():
        found |= {symbol} | expr.free_symbols
    return found


@torch.inference_mode(False)
def _attempt(mod, device, scored, known):
    """One trace; `known` says of which numbers and tensors values and sizes are
    part of it. Gives a Trace, and what else Python had to know."""
    env = ShapeEnv(duck_shape=False)
    mode = FakeTensorMode(shape_env=env, allow_non_fake_inputs=True)
    symbols = _Symbols(mode)
    found = Closure(mod)
    with mode:
        given = [torch.zeros((), device=device)] if scored else []
        given += [torch.zeros((), dtype=torch.int32, device=device)
                  for _ in POSITIONS]
    fixed = {i for i in found.constants
             if not _foreign.is_foreign(found.tensors[i])}
    tensors = [x if i in fixed else symbols.tensor(
                   i, _foreign.stand_in(x),
                   i in found.constants or ("tensor", i) in known)
               for i, x in enumerate(found.tensors)]
    instead = _foreign.Instead({id(found.tensors[i]): tensors[i]
                                for i in found.constants - fixed})
    numbers = [x if ("number", i) in known else symbols.number(i, x)
               for i, x in enumerate(found.numbers)]
    free = [("tensor", i) for i in range(len(tensors))
            if i not in fixed]
    free += [("number", i) for i in range(len(numbers))
             if ("number", i) not in known]
    function = Closure(mod, (tensors, numbers)).function

    def run(*args):
        with TransformGetItemToIndex(), instead:
            return function(*args[:len(given)])

    with mode, torch.no_grad():
        graph = make_fx(run, dict(_decompositions), tracing_mode="real",
                        _allow_non_fake_inputs=True)(
            *given, *[tensors[i] if kind == "tensor" else numbers[i]
                      for kind, i in free])
    names = (["score"] if scored else []) + [*POSITIONS]
    guards = _guarded(env)
    more = {m[:2] if m[0] == "number" else ("tensor", m[1])
            for s, m in symbols.meaning.items() if s in guards}
    return Trace(graph, found, symbols.meaning, names + free,
                 _attributes(graph, found)), more


def _attributes(graph, closure):
    """Which tensors of the closure the graph holds. It lets go of them."""
    found = {}
    for node in graph.graph.nodes:
        if node.op == "get_attr" and node.target not in found:
            x = getattr(graph, node.target)
            for i, mine in enumerate(closure.tensors):
                if mine is x:
                    found[node.target] = i
    for target in found:
        delattr(graph, target)
    return found


def trace(mod, device, scored, known):
    """The Trace of a mod. Adds to `known`, a set of ("number", i) and
    ("tensor", i), what the trace turns out to depend on."""
    try:
        while True:
            found, more = _attempt(mod, device, scored, known)
            if not more - known:
                return found
            known |= more
    except Exception as e:
        # Perhaps a function that takes no symbols. With all values known it
        # is the mod's own error.
        all_known = {("number", i) for i in range(len(Closure(mod).numbers))}
        all_known |= {("tensor", i) for i in range(len(Closure(mod).tensors))}
        if all_known <= known:
            asked = _asked.of(e)
            if asked is None:
                raise
            raise asked from e
        known |= all_known
        return trace(mod, device, scored, known)


class _Found(Exception):
    pass


class _StopAt(torch.utils._python_dispatch.TorchDispatchMode):
    def __init__(self, op):
        super().__init__()
        self._op = op

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is self._op:
            raise _Found
        return func(*args, **(kwargs or {}))


def line_of(mod, device, scored, op):
    """Where the mod uses an operator, "file:line" or None."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode:
        given = [torch.zeros((), device=device)] if scored else []
        given += [torch.zeros((), dtype=torch.int32, device=device)
                  for _ in POSITIONS]
    try:
        with mode, torch.no_grad(), TransformGetItemToIndex(), _StopAt(op):
            mod(*given)
    except _Found as e:
        found = _asked.last_frame(e.__traceback__)
        return found and "%s:%d" % found
    except Exception:
        pass
    return None
