# SPDX-License-Identifier: Apache-2.0
"""FlexAttention's operator in a graph of torch.compile -> tilec's.

    o, lse, max = flex_attention(q, k, v, score_graph, block_mask, ..)
->  o, lse, max = attend(q, k, v, lists, captured, .., score_text, mask_text)

Both have gradients of their own, so this is done before autograd sees the
graph. Lengths may be symbols.
"""
import math
import operator
import typing

import torch
from torch._higher_order_ops.flex_attention import \
    flex_attention as flex_operator

from .. import _texts, _torch
from . import _block_mask, _compiled, _foreign, _lists, _mods

# What torch's front end always says, and what its kernels alone read.
_INTERNAL = ("OUTPUT_LOGSUMEXP", "OUTPUT_MAX", _compiled.MARK)


def _stand_in(x):
    """For tracing: a value of the same kind, whose data do not matter."""
    if isinstance(x, torch.SymInt):
        return _foreign.size(x)
    if isinstance(x, torch.SymFloat):
        return float(x.node.hint)
    if not isinstance(x, torch.Tensor):
        return x
    return torch.zeros((), dtype=x.dtype).expand(
        [_foreign.size(n) for n in x.shape])


def _value(x):
    if not isinstance(x, torch.fx.Node):
        return x
    return x.meta.get("example_value", x.meta.get("val"))


class _Traced:
    """A subgraph as text: what it captures are nodes of the outer graph."""

    def __init__(self, graph, buffers, scored):
        self.buffers = tuple(buffers)
        stand_ins = tuple([_stand_in(_value(x)) for x in buffers])

        def mod(*positions):
            return graph(*positions, *stand_ins)
        with torch._guards.tracing(None):
            self.text, self._closure = _mods.traced(
                mod, scored, torch.device("cpu"))
        # Where the closure's values come from.
        at = {id(x): i for i, x in enumerate(stand_ins) if torch.is_tensor(x)}
        self._tensors = [at.get(id(x)) for x in self._closure.tensors]
        self._numbers = [i for i, x in enumerate(stand_ins)
                         if type(x) in (int, float)]
        self._side = "score." if scored else "mask."
        self.captured = {
            self._side + name: buffers[self._tensors[i]]
            if isinstance(i, int) else i for name, i in self.text.tensors}
        self._specialize()

    def _specialize(self):
        """What the text holds as a constant must stay what it is."""
        for kind, i, *dim in self.text.fixed:
            if kind == "number":
                x = _value(self.buffers[self._numbers[i]])
                float(x) if isinstance(x, torch.SymFloat) else int(x)
                continue
            x = _value(self.buffers[self._tensors[i]])
            for d in dim or range(x.ndim):
                int(x.shape[d])

    def numbers(self, buffers):
        """[(name, type, value)] that the text takes, of the values that the
        graph has now."""
        tensors = [None if i is None else buffers[i] for i in self._tensors]
        given = [buffers[i] for i in self._numbers]
        return [(self._side + a.name, a.type, a.host.value(tensors, given))
                for a in self.text.numbers]


def _tensor_number(x, kind, like):
    """A number that may be a symbol, as the tensor that the operator takes."""
    dtype = {"i32": torch.int32, "i64": torch.int64, "f64": torch.float64,
             "f32": torch.float32}[kind]
    return torch.full((1,), x, dtype=dtype, device=like.device)


class _Spec(typing.NamedTuple):
    """What is constant in a call."""

    score: str
    mask: str
    scale: float
    options: str
    wants_max: bool
    by_lists: bool  # of the BlockMask


def _constant(x):
    """What an option is; a symbol becomes what it is now."""
    x = _value(x)
    return int(x) if isinstance(x, torch.SymInt) else x


def _options(given):
    return _texts.without_hints({
        n: _constant(x) for n, x in given.items() if n not in _INTERNAL and
        x is not None})[0]


def _attend(q, k, v, captured, buffers, lists, names, traced, spec):
    """The call in the new graph; traced by what compiles it."""
    q, k, v = _torch.autocast(q, k, v)
    if q.shape[0] != k.shape[0]:
        k, v = [x.expand(q.shape[0], -1, -1, -1) for x in (k, v)]
    tensors, names = list(captured), list(names)
    for mod, given in zip(traced, buffers):
        for name, kind, x in mod.numbers(given):
            names.append(name)
            tensors.append(_tensor_number(x, kind, q))
    if lists:
        kinds = _block_mask.kinds_of_lists(*lists)
        names.append("mask.blocks.kinds")
        tensors.append(kinds)
        if spec.by_lists:
            names.append(_lists.TABLE)
            tensors.append(kinds)
    deterministic = torch.are_deterministic_algorithms_enabled()
    o, lse, largest = torch.ops.tilec.attention(
        q, k, v, spec.wants_max, tensors, ",".join(names), "", spec.score,
        spec.mask, spec.scale, spec.options, deterministic)
    # The operator counts in powers of 2.
    return o, lse / math.log(2.0), largest / math.log(2.0)


def _mask_parts(block_mask):
    """(lists, sides, graph) of the operator's tuple, whose length differs
    between versions of torch."""
    *most, side_q, side_k, graph = block_mask
    start = 0 if isinstance(_value(most[0]), torch.Tensor) else 2
    return most[start:start + 4], tuple(
        [_foreign.size(_value(x)) for x in (side_q, side_k)]), graph


def _wants_max(node):
    return any(u.target is not operator.getitem or u.args[1] == 2
               for u in node.users)


def _replace(gm, node):
    args = dict(zip(("q", "k", "v", "score", "mask", "scale", "options",
                     "score_buffers", "mask_buffers"), node.args))
    args.update(node.kwargs)
    score_buffers = tuple(args.get("score_buffers", ()))
    mask_buffers = tuple(args.get("mask_buffers", ()))
    lists, sides, mask_graph = _mask_parts(args["mask"])
    score = _Traced(getattr(gm, args["score"].target), score_buffers, True)
    mask = _Traced(getattr(gm, mask_graph.target), mask_buffers, False)
    traced = [m for m in (score, mask) if not m.text.is_none]
    options, text, by_lists = _options(args["options"] or {}), "", False
    if sides != (_block_mask.LARGE,) * 2:
        text = _with_lists(mask, lists, sides)
        lengths = [_foreign.size(_value(args[n]).shape[2]) for n in "qk"]
        by_lists = _lists.may_be_taken(*lengths, options)
    elif not mask.text.is_none:
        text = mask.text.text
    if by_lists:
        options = _lists.options_with(options, sides)
    spec = _Spec(score.text.text if score in traced else "", text,
                 float(_value(args["scale"])), _texts.options_text(options),
                 _wants_max(node), by_lists)
    captured = {}
    for mod in traced:
        captured.update(mod.captured)
    with gm.graph.inserting_before(node):
        _own_constants(gm, captured, node.name)
        new = gm.graph.call_function(
            _bound(_attend, tuple(captured), traced, spec), (
                args["q"], args["k"], args["v"], tuple(captured.values()),
                tuple([m.buffers for m in traced]),
                tuple(lists) if sides != (_block_mask.LARGE,) * 2 else ()))
    node.replace_all_uses_with(new)
    gm.graph.erase_node(node)


def _with_lists(mask, lists, sides):
    """The text of a mask that the lists of a BlockMask restrict."""
    # Symbols are sizes above 1: torch compiles 0 and 1 by themselves.
    shape = [n if isinstance(n, int) else 2
             for n in _value(lists[1]).shape[:2]]
    return _block_mask.text_of_blocks(mask.text, shape, sides)[1]


def _own_constants(gm, captured, prefix):
    """Tensors that a mod makes itself become attributes of the graph."""
    for i, (name, x) in enumerate(captured.items()):
        if not isinstance(x, torch.fx.Node):
            target = "_tilec_%s_%d" % (prefix, i)
            gm.register_buffer(target, x)
            captured[name] = gm.graph.get_attr(target)


def _bound(f, *rest):
    """f with its last arguments, as a function that a graph can call."""
    def tilec_attention(*args):
        return f(*args, *rest)
    return tilec_attention


def replace(gm, which=None):
    """Puts tilec's operator in the place of each flex_attention in a
    GraphModule of dynamo; `which(options)`: only of those. Whether any was."""
    found = [n for n in gm.graph.nodes
             if n.op == "call_function" and n.target is flex_operator and
             (which is None or which(n.args[6] or {}))]
    for node in found:
        _replace(gm, node)
    if found:
        gm.graph.lint()
        gm.recompile()
    return bool(found)
