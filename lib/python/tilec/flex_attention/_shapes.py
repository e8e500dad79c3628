# SPDX-License-Identifier: Apache-2.0
"""aten's operators that move, combine or make elements of Arrays: views,
indexing, reductions, products, constants.

SHAPES[name](e, node arguments.., out=dtype) gives an Array. Reductions and
products are loops in the text, so a mod may read whole rows of a captured
tensor: torch.dot(q_rope[b, h, q], k_rope[b, 0, k]).
"""
import math

import torch

from . import _ops
from ._numbers import Host, whole
from ._values import Array, Scalar, Unsupported, literal
from ._writer import shape_text, wrapped

SHAPES = {}


def _op(*names):
    def add(f):
        SHAPES.update(dict.fromkeys(names, f))
        return f
    return add


def number(i):
    return literal(i, torch.int32)


def _known(e, shape):
    """A shape all of ints."""
    return tuple([whole(n, e.numbers, "a shape") for n in shape])


def _dim(d, rank):
    return d + rank if d < 0 else d


def broadcast(*shapes):
    rank = max([len(s) for s in shapes], default=0)
    found = []
    for d in range(-rank, 0):
        sides = [s[d] for s in shapes if len(s) >= -d]
        found.append(next((n for n in sides if not isinstance(n, int) or n != 1),
                          1))
    return tuple(found)


def element(x, index):
    """An element of x, broadcast to the shape that index is of."""
    index = index[len(index) - len(x.shape):]
    return x.at([number(0) if isinstance(n, int) and n == 1 else i
                 for i, n in zip(index, x.shape)])


# ---- Views ----


@_op("expand")
def expand(e, x, sizes, implicit=False, out=None):
    extra = len(sizes) - len(x.shape)
    shape = tuple([x.shape[d - extra] if n == -1 else n
                   for d, n in enumerate(sizes)])
    return Array(shape, x.dtype, lambda i: element(x, i))


@_op("unsqueeze")
def unsqueeze(e, x, d, out=None):
    d = _dim(d, len(x.shape) + 1)
    return Array((*x.shape[:d], 1, *x.shape[d:]), x.dtype,
                 lambda i: x.at([*i[:d], *i[d + 1:]]))


@_op("squeeze")
def squeeze(e, x, dims=None, out=None):
    rank = len(x.shape)
    dims = range(rank) if dims is None else \
        [dims] if isinstance(dims, int) else dims
    gone = {_dim(d, rank) for d in dims}
    gone = {d for d in gone if isinstance(x.shape[d], int) and x.shape[d] == 1}

    def at(index):
        left = iter(index)
        return x.at([number(0) if d in gone else next(left)
                     for d in range(rank)])
    return Array(tuple([n for d, n in enumerate(x.shape) if d not in gone]),
                 x.dtype, at)


@_op("permute")
def permute(e, x, order, out=None):
    order = [_dim(d, len(order)) for d in order]
    return Array(tuple([x.shape[d] for d in order]), x.dtype,
                 lambda i: x.at([i[order.index(d)] for d in range(len(i))]))


@_op("transpose", "swapaxes")
def transpose(e, x, a, b, out=None):
    order = list(range(len(x.shape)))
    order[a], order[b] = order[b], order[a]
    return permute(e, x, order)


@_op("t", "numpy_T")
def t(e, x, out=None):
    return permute(e, x, list(range(len(x.shape)))[::-1])


@_op("view", "_unsafe_view", "reshape", "_reshape_copy")
def view(e, x, sizes, out=None):
    have = _known(e, x.shape)
    sizes = [whole(n, e.numbers, "a shape") for n in sizes]
    total = 1
    for n in have:
        total *= n
    if -1 in sizes:
        rest = 1
        for n in sizes:
            rest *= n if n != -1 else 1
        sizes[sizes.index(-1)] = total // max(rest, 1)
    if tuple(sizes) == have:
        return x
    w = e.writer

    def at(index):
        flat = number(0)
        for i, n in zip(index, sizes):
            flat = _ops.add(w, torch.int32, _ops.mul(
                w, torch.int32, flat, number(n)), i)
        found = []
        for n in reversed(have):
            found.insert(0, _ops.remainder(w, torch.int32, flat, number(n)))
            flat = _ops.floor_divide(w, torch.int32, flat, number(n))
        return x.at(found)
    return Array(tuple(sizes), x.dtype, at)


@_op("slice")
def slice_(e, x, d=0, start=None, end=None, step=1, out=None):
    d = _dim(d, len(x.shape))
    start = 0 if start is None else whole(start, e.numbers, "a slice")
    end = 2**63 - 1 if end is None else whole(end, e.numbers, "a slice")
    if start == 0 and end == 2**63 - 1 and step == 1:
        return x
    length, = _known(e, x.shape[d:d + 1])
    start, end, step = slice(start, end, step).indices(length)
    n = len(range(start, end, step))
    w = e.writer

    def at(index):
        i = _ops.add(w, torch.int32, _ops.mul(
            w, torch.int32, index[d], number(step)), number(start))
        return x.at([*index[:d], i, *index[d + 1:]])
    return Array((*x.shape[:d], n, *x.shape[d + 1:]), x.dtype, at)


@_op("select")
def select(e, x, d, i, out=None):
    d = _dim(d, len(x.shape))
    i = e.operand(i, torch.int32)
    if isinstance(i, Array):
        i = i.at([])
    i = _within(e, i, x, d)
    return Array((*x.shape[:d], *x.shape[d + 1:]), x.dtype,
                 lambda index: x.at([*index[:d], i, *index[d:]]))


def _within(e, i, x, d):
    if x.wraps:
        return i
    length = x.shape[d]
    text = "%d" % length if isinstance(length, int) else length.text
    return wrapped(e.writer, i, length, text)


@_op("flip")
def flip(e, x, dims, out=None):
    gone = {_dim(d, len(x.shape)) for d in dims}
    last = {d: _known(e, x.shape[d:d + 1])[0] - 1 for d in gone}
    return Array(x.shape, x.dtype, lambda index: x.at([
        _ops.sub(e.writer, torch.int32, number(last[d]), i) if d in last else i
        for d, i in enumerate(index)]))


@_op("stack")
def stack(e, parts, d=0, out=None):
    d = _dim(d, len(parts[0].shape) + 1)
    return cat(e, [unsqueeze(e, x, d) for x in parts], d, out=out)


@_op("cat")
def cat(e, parts, d=0, out=None):
    d = _dim(d, len(parts[0].shape))
    sides = [_known(e, x.shape[d:d + 1])[0] for x in parts]
    w = e.writer

    def at(index):
        found, start = None, 0
        for x, n in zip(parts, sides):
            i = _ops.sub(w, torch.int32, index[d], number(start))
            v = w.cast(x.at([*index[:d], i, *index[d + 1:]]), out)
            found = v if found is None else _ops.where(
                w, out, _ops.lt(w, torch.bool, index[d], number(start)),
                found, v)
            start += n
        return found
    return Array((*parts[0].shape[:d], sum(sides), *parts[0].shape[d + 1:]),
                 out, at)


# ---- Indexing ----


@_op("index", "_unsafe_index")
def index(e, x, indices, out=None):
    """NumPy's: indices are broadcast; their dims stand where they stood, or
    first if something lies between."""
    where = [d for d, i in enumerate(indices) if i is not None]
    for d in where:
        if indices[d].dtype == torch.bool:
            raise Unsupported("a mask as an index", "torch.where",
                              operands=True)
    shape = broadcast(*[indices[d].shape for d in where])
    adjacent = where == list(range(where[0], where[-1] + 1))
    first = where[0] if adjacent else 0
    rest = [d for d in range(len(x.shape)) if d not in where]
    sizes = [x.shape[d] for d in rest]
    # Scalars once, not in each loop.
    fixed = {d: _within(e, indices[d].at([]), x, d) for d in where
             if not indices[d].shape}

    def at(i):
        mine, left = i[first:first + len(shape)], iter(
            [*i[:first], *i[first + len(shape):]])
        return x.at([next(left) if d in rest else fixed[d] if d in fixed else
                     _within(e, element(indices[d], mine), x, d)
                     for d in range(len(x.shape))])
    return Array((*sizes[:first], *shape, *sizes[first:]), x.dtype, at)


@_op("index_select")
def index_select(e, x, d, i, out=None):
    d = _dim(d, len(x.shape))
    return index(e, x, [None] * d + [i])


@_op("embedding")
def embedding(e, x, i, *rest, out=None):
    return index(e, x, [i])


@_op("gather")
def gather(e, x, d, i, sparse_grad=False, out=None):
    d = _dim(d, len(x.shape))
    return Array(i.shape, x.dtype, lambda index: x.at(
        [*index[:d], _within(e, i.at(index), x, d), *index[d + 1:]]))


@_op("take")
def take(e, x, i, out=None):
    return index(e, view(e, x, [-1]), [i])


# ---- Reductions ----


def _reduce(e, x, dims, keep, out, start, combine):
    w, rank = e.writer, len(x.shape)
    dims = range(rank) if dims is None or dims == [] else \
        [dims] if isinstance(dims, int) else dims
    dims = sorted({_dim(d, rank) for d in dims})

    def at(index):
        left = iter(index)
        place = [None if d in dims else next(left) for d in range(rank)] \
            if not keep else [None if d in dims else index[d]
                              for d in range(rank)]

        def over(open_, start):
            if not open_:
                return combine(start, w.cast(x.at(place), start.dtype))

            def step(i, so_far):
                place[open_[0]] = i
                return over(open_[1:], so_far)
            return w.loop(x.shape[open_[0]], start, step)
        return w.cast(over(dims, start), out)
    shape = [1 if d in dims else n for d, n in enumerate(x.shape)
             if keep or d not in dims]
    return Array(tuple(shape), out, at)


def _accumulator(dtype):
    return torch.float32 if dtype.is_floating_point and dtype.itemsize < 4 \
        else dtype


def _by(op, start):
    def reduce(e, x, dims=None, keep=False, dtype=None, out=None):
        if isinstance(dims, bool):
            raise Unsupported("these arguments")
        if out is None:
            raise Unsupported("a reduction that gives indices too",
                              "torch.amax or torch.amin")
        kind = _accumulator(out)
        first = start(x.dtype) if callable(start) else start
        return _reduce(e, x, dims, keep, out, literal(first, kind),
                       lambda a, b: op(e.writer, kind, a, b))
    return reduce


def _least(dtype):
    return float("-inf") if dtype.is_floating_point else \
        0 if dtype == torch.bool else torch.iinfo(dtype).min


def _most(dtype):
    return float("inf") if dtype.is_floating_point else \
        1 if dtype == torch.bool else torch.iinfo(dtype).max


sum_ = SHAPES["sum"] = _by(_ops.add, 0)
SHAPES["prod"] = _by(_ops.mul, 1)
SHAPES["amax"] = SHAPES["max"] = _by(_ops.maximum, _least)
SHAPES["amin"] = SHAPES["min"] = _by(_ops.minimum, _most)
SHAPES["any"] = _by(_ops.POINTWISE["logical_or"], False)
SHAPES["all"] = _by(_ops.POINTWISE["logical_and"], True)


@_op("mean")
def mean(e, x, dims=None, keep=False, dtype=None, out=None):
    rank = len(x.shape)
    over = range(rank) if dims is None or dims == [] else \
        [dims] if isinstance(dims, int) else dims
    n = 1
    for length in _known(e, [x.shape[_dim(d, rank)] for d in over]):
        n *= length
    kind = _accumulator(out)
    total = _by(_ops.add, 0)(e, x, dims, keep, out=kind)
    return Array(total.shape, out, lambda i: e.writer.cast(_ops.div(
        e.writer, kind, total.at(i), literal(n, kind)), out))


# ---- Products ----


def _product(e, n, out, a, b):
    """Sums a(i) * b(i) over n."""
    w, kind = e.writer, _accumulator(out)

    def step(i, so_far):
        return _ops.add(w, kind, so_far, _ops.mul(
            w, kind, w.cast(a(i), kind), w.cast(b(i), kind)))
    return w.cast(w.loop(n, literal(0, kind), step), out)


@_op("dot", "vdot")
def dot(e, a, b, out=None):
    return Array((), out, lambda _: _product(
        e, a.shape[0], out, lambda i: a.at([i]), lambda i: b.at([i])))


@_op("mv")
def mv(e, a, b, out=None):
    return Array(a.shape[:1], out, lambda m: _product(
        e, a.shape[1], out, lambda i: a.at([*m, i]), lambda i: b.at([i])))


@_op("mm", "bmm")
def mm(e, a, b, out=None):
    return Array((*a.shape[:-1], b.shape[-1]), out, lambda m: _product(
        e, a.shape[-1], out, lambda i: a.at([*m[:-1], i]),
        lambda i: b.at([*m[:-2], i, m[-1]])))


# ---- Constants ----


def _full(e, shape, x, out):
    x = e.operand(x, out)
    x = e.writer.cast(x.at([]) if isinstance(x, Array) else x, out)
    return Array(tuple(shape), out, lambda i: x)


@_op("full", "new_full")
def full(e, *args, out=None, **_):
    # full(size, value), new_full(tensor, size, value)
    return _full(e, args[-2], args[-1], out)


@_op("full_like")
def full_like(e, x, value, out=None, **_):
    return _full(e, x.shape, value, out)


@_op("scalar_tensor")
def scalar_tensor(e, x, out=None, **_):
    return _full(e, (), x, out)


def _constant(value, like):
    def constant(e, *args, out=None, **_):
        return _full(e, args[0].shape if like else args[-1], value, out)
    return constant


for _name, _value in (("zeros", 0), ("ones", 1), ("empty", 0)):
    SHAPES[_name] = SHAPES["new_" + _name] = _constant(_value, False)
    SHAPES[_name + "_like"] = _constant(_value, True)


@_op("arange")
def arange(e, *args, out=None, **_):
    known = [x if isinstance(x, float) else whole(x, e.numbers, "a length")
             for x in args]
    start, end, step = (0, known[0], 1) if len(known) == 1 else \
        (*known, 1)[:3]
    n = max(math.ceil((end - start) / step), 0)
    w = e.writer
    return Array((n,), out, lambda i: _ops.add(
        w, out, _ops.mul(w, out, i[0], literal(step, out)),
        literal(start, out)))


@_op("_local_scalar_dense", "item")
def item(e, x, out=None):
    """t[:, i] of torch asks for i as a number of Python."""
    return x


__all__ = ["SHAPES", "Host", "Scalar", "broadcast", "element", "shape_text"]
