# SPDX-License-Identifier: Apache-2.0
"""Python mods as tile text, each traced once.

    of(mod, scored, device) -> a Mod: text, and the captured values of this call

Kept by what a mod depends on (_closures.py): a mod that is made anew at each
call, with other tensors and numbers, is found again in microseconds.
"""
import collections
import dataclasses
import threading

import torch

from . import _foreign, _trace
from ._closures import Closure
from ._emit import emit
from ._values import I32, Unsupported

MOST = 512  # traces


@dataclasses.dataclass
class Mod:
    text: str
    name: str
    parameters: list
    captured: dict
    is_none: bool  # changes no score, hides no pair


class _Entry:
    """A trace and its texts."""

    def __init__(self, trace):
        self.trace = trace
        self._held = trace.closure.without_values()
        self.varied = set()  # numbers that have had several values
        self.texts = []  # (values of the fixed leaves, Text)

    def is_valid(self):
        """Whether all objects in the key live: ids are used again."""
        for x in self._held:
            if x() is None:
                return False
        return True


_entries = collections.OrderedDict()  # by key
_known = {}  # by key: what the trace needs to know beyond it
_lock = threading.RLock()


def _value(leaf, closure):
    return closure.numbers[leaf[1]] if leaf[0] == "number" else \
        tuple(closure.tensors[leaf[1]].shape) if leaf[0] == "tensor" else \
        closure.tensors[leaf[1]].shape[leaf[2]]


def _same(a, b):
    """Of numbers whose texts are equal: not 1 and 1.0, 0.0 and -0.0."""
    return type(a) is type(b) and repr(a) == repr(b)


def _failed(mod, device, scored, error):
    """The error for a mod that has no text."""
    op = getattr(error, "op", None)
    line = _trace.line_of(mod, device, scored, op) if op is not None else \
        getattr(error, "line", None)
    code = getattr(mod, "__code__", None)
    if not line and code is not None:
        line = "%s:%d" % (code.co_filename, code.co_firstlineno)
    return error.error(
        "%s: %s `%s` cannot run in a kernel because of %s. What it may use: "
        "elementwise operators, indexing, views, sums and products over rows "
        "of captured tensors, constants.%s" % (
            line or "?", "score_mod" if scored else "mask_mod",
            getattr(mod, "__name__", type(mod).__name__), error.why,
            " In its place: %s." % error.hint if error.hint else ""))


def _text_of(entry, closure, name, scored):
    """A Text whose fixed values are those of the closure; whether to keep."""
    for values, text in entry.texts:
        if all(_same(x, _value(leaf, closure)) for leaf, x in values):
            return text, True
    for values, _ in entry.texts:
        entry.varied |= {leaf for leaf, x in values
                         if not _same(x, _value(leaf, closure))}
    text, keep = emit(entry.trace, closure.tensors, closure.numbers,
                      entry.varied, name, scored)
    if keep:
        entry.texts.append(([(leaf, _value(leaf, closure))
                             for leaf in text.fixed], text))
    return text, keep


def _entry(mod, closure, device, scored):
    key = (closure.key, scored, device.type)
    known = _known.get(key, ())
    full = (key, tuple([_hashed(_value(leaf, closure)) for leaf in known]))
    found = _entries.get(full)
    if found is not None and found.is_valid():
        _entries.move_to_end(full)
        return found, full
    needs = set(known)
    trace = _trace.trace(mod, device, scored, needs)
    if needs != set(known):
        if len(_known) >= 8 * MOST:
            _known.clear()
        _known[key] = tuple(sorted(needs))
    return _Entry(trace), (key, tuple(
        [_hashed(_value(leaf, closure)) for leaf in _known.get(key, ())]))


def _hashed(x):
    return (type(x), repr(x))


def of(mod, scored, device):
    """The Mod of a Python function for this call."""
    closure = Closure(mod)
    if not _foreign.is_watched(device):
        return _of(mod, closure, scored, device)
    with _foreign.outside():
        if device.type == "meta" or any(map(_foreign.is_foreign,
                                            closure.tensors)):
            device = torch.device("cpu")
        return _of(mod, closure, scored, device)


def _of(mod, closure, scored, device):
    name = _name(scored)
    with _lock:
        while True:
            try:
                entry, full = _entry(mod, closure, device, scored)
                text, keep = _text_of(entry, closure, name, scored)
                break
            except Unsupported as e:
                if not _trace.decompose(e):
                    raise _failed(mod, device, scored, e) from None
        values = _values(text, closure)
        if values is None:  # a number that has outgrown its type
            entry.texts = [t for t in entry.texts if t[1] is not text]
            text, keep = _text_of(entry, closure, name, scored)
            values = _values(text, closure)
        if keep:
            _entries[full] = entry
            if len(_entries) > MOST:
                _entries.popitem(last=False)
    return Mod(text.text, text.name, text.parameters, values, text.is_none)


def traced(mod, scored, device):
    """The Text of a function that is used once, and its Closure. Numbers that
    may change are tensors of one element."""
    closure = Closure(mod)
    while True:
        try:
            trace = _trace.trace(mod, device, scored, set())
            text, _ = emit(trace, closure.tensors, closure.numbers, set(),
                           _name(scored), scored, in_memory=True)
            return text, closure
        except Unsupported as e:
            if not _trace.decompose(e):
                raise _failed(mod, device, scored, e) from None


def _name(scored):
    return "@score_mod" if scored else "@mask_mod"


def _values(text, closure):
    """The captured values by name, or None."""
    side = "score." if text.name == "@score_mod" else "mask."
    found = {}
    for name, at in text.tensors:
        x = closure.tensors[at] if isinstance(at, int) else at
        found[side + name] = x.view(torch.int8) if x.dtype == torch.uint8 \
            else x
    for a in text.numbers:
        x = a.host.value(closure.tensors, closure.numbers)
        if a.type == "i32" and not I32[0] <= x <= I32[1]:
            return None
        found[side + a.name] = x
    return found
