# SPDX-License-Identifier: Apache-2.0
"""Repeated calls over a cache: attention and append.

A call is prepared after the first one with tensors alike, for the extension
`_fast`; without it all calls are made as the first one.
"""
import ctypes as C

import torch

from .. import (_abi, _append, _attention, _kvcache, _launch, _prepared,
                _tensors)

_PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))
_KEPT = frozenset((str, bool, int, float, type(None)))
_is_grad_enabled = torch.is_grad_enabled
_is_watched = None  # set by the package, which has it


def _found(table, rest, args):
    table = table.get(rest)
    if table is None:
        return None
    key = _launch.fast.key(*args)
    return None if key is None else table.get(key)


def _keep(table, rest, args, made):
    key = _launch.fast.key(*args)
    if key is not None:
        _attention.keep_ready(table.setdefault(rest, {}), key, made)


# ---- Attention ----

# What a call has, in its order: tensors or None, then captured values, and for
# `Attention.call` the address of the schedule.
_PLACED = ("q", "k", "v", *_kvcache.PLACES)
_EXTRAS = ("sinks", *_kvcache.FACTORS)


def _inputs(names, fields, captured):
    """Of _launch.fast_call: tensors by name, captured values, an address."""
    at = {n: i for i, n in enumerate(fields)}
    numbers = sum(i < 0 for i in captured)
    return [*[at.get(n) for n in names], *captured, -1 - numbers]


class _CacheLaunch(_launch.Launch):
    """Of tilec_kvcache_attention; `schedule` is an address, set last."""

    function = "tilec_kvcache_attention"

    def __init__(self, plan, fields, captured, sizes):
        """fields: {field: tensor}; captured: [(name, value)]"""
        self.plan, self._fields, self.sizes = plan, list(fields), sizes
        views = [_tensors.View(x, n) for n, x in fields.items()]
        self._captured = _launch.Arguments(captured, views)
        super().__init__(plan.device, views)

    def bind(self, s):
        captured, n, s.numbers = self._captured.made(s.tensors)
        s.held = _abi.new(
            _abi.tilec_kvcache_tensors, captured=captured, ncaptured=n,
            schedule_bytes=self.sizes[0],
            **{field: C.pointer(s.tensors[i])
               for i, field in enumerate(self._fields)})
        s.more = (C.addressof(s.held) +
                  _abi.tilec_kvcache_tensors.schedule.offset,)
        s.passed = self.plan.handle, s.held, s.options, s.error

    def workspace(self, s):
        return self.sizes[1]

    def fast_call(self, owner, inputs, outputs, like):
        return _launch.fast_call(self, owner, inputs, outputs, like,
                                 plan=self.plan, has_gradients=True,
                                 on_capture=_kvcache.keep_for_graphs)


class _ScheduleLaunch(_CacheLaunch):
    function = "tilec_kvcache_schedule"

    def workspace(self, s):
        return 0


class _Schedules:
    """Makes schedules for tensors alike."""

    def __init__(self, plan, given, sizes, names, values):
        """given: {field: tensor}, of q, k, v and places; names and values:
        captured."""
        self._captured = _prepared._Captured(plan, names, values)
        self._launch = _ScheduleLaunch(plan, given, self._captured.pairs,
                                       sizes)
        captured = self._captured.inputs(len(given))
        self.call = None
        if captured is not None:
            self.call = self._launch.fast_call(
                self, _inputs(_PLACED, given, captured), (), given["q"])

    def fail(self, status, index):
        _launch.fail(self._launch, status, index)


def repeated_schedule(plan, given, memory, captured):
    """A function that makes a schedule again, in its memory, and tells whether
    it did; or None."""
    if not _launch.has_fast() or not all(
            type(x) in _PLAIN for x in given.values()):
        return None
    names, values = [n for n, _ in captured], [x for _, x in captured]
    made = _Schedules(plan, given, (memory.size, 0), names, values)
    args = (*[given.get(n) for n in _PLACED], *values, memory.address)
    return made.call and (lambda: made.call(*args) is not None)


class Attention:
    """Attention over a cache for calls alike."""

    def __init__(self, plan, t, places, names, values, results, sizes):
        """t: fields without places; results: o and lse as they are returned;
        sizes: of the schedule and the workspace."""
        self._captured = _prepared._Captured(plan, names, values)
        outputs = [n for n in ("o", "lse") if n in t]
        placed = {**{n: t[n] for n in "qkv"}, **places}
        given = {**placed, **{n: t[n] for n in _EXTRAS if n in t}}
        fields = {**given, **{n: t[n] for n in outputs}}
        self._launch = _CacheLaunch(plan, fields, self._captured.pairs, sizes)
        self._schedules = _Schedules(plan, placed, sizes, names, values)
        size = (sizes[0] + 256,)
        self._memory = _tensors.maker(_tensors.new(t["q"], size, "uint8"))
        captured = self._captured.inputs(len(fields))
        self.call = None
        if captured is not None:
            self.call = self._launch.fast_call(
                self, _inputs((*_PLACED, *_EXTRAS), given, captured),
                [(len(given) + i, _tensors.maker(x))
                 for i, x in enumerate(results)], t["q"])
        self.works = self.call is not None and self._schedules.call is not None

    def fail(self, status, index):
        _launch.fail(self._launch, status, index)

    def needs_gradients(self, args):
        """Whether a call is one that must be refused."""
        return _is_grad_enabled() and any([x.requires_grad for x in args[:3]])

    def with_schedule(self, args, address):
        """The results; None: the call must be made as the first time."""
        return None if self.needs_gradients(args) else self.call(*args, address)

    def without(self, args):
        """The same, with a schedule of its own."""
        memory = self._memory()
        address = (memory.data_ptr() + 255) & ~255
        if self._schedules.call(*args[:len(_PLACED)],
                                *args[len(_PLACED) + len(_EXTRAS):],
                                address) is None:
            return None
        return self.with_schedule(args, address)


def attention(q, k, v, places, options, schedule, extras, captured):
    """The results of a call like an earlier one; None: it is like none. places:
    a tensor or None for each of _kvcache.PLACES."""
    fast = _launch.fast
    if fast is None or _is_watched():
        return None
    try:
        if schedule is None:
            args = (q, k, v, *places, *extras, *captured.values())
            ready = _found(_kvcache.ready, (options, None, *captured), args)
            return None if ready is None else ready.without(args)
        table = _kvcache.ready.get((options, schedule.kind, *captured))
        if table is None:
            return None
        address = schedule.memory.address
        found = fast.run(table, q, k, v, *places, *extras, *captured.values(),
                         address)
    except (AttributeError, TypeError):  # what no call takes
        return None
    if type(found) is Attention:  # something requires a gradient
        return found.with_schedule(
            (q, k, v, *places, *extras, *captured.values()), address)
    return found


def keep_attention(request, parts, results, q, k, v, places, options, schedule,
                   extras, captured):
    """Keeps what `attention` looks for, if calls alike convert nothing."""
    plan, t, sizes = parts
    r, values = request, [x for _, x in request.captured]
    same = [(r.places[n], x) for n, x in places.items() if x is not None]
    same += [(x, y) for x, y in zip([r.extra.get(n) for n in _EXTRAS], extras)]
    if not _launch.has_fast() or any(x is not y for x, y in same) or \
            not all(type(x) in _PLAIN for x in (q, k, v)) or \
            not all(type(x) in _KEPT for x in options):
        return
    made = Attention(plan, t, r.places, [n for n, _ in r.captured], values,
                     results, sizes)
    args = (q, k, v, *places.values(), *extras, *captured.values())
    if not made.works:
        return
    if schedule is None:
        _keep(_kvcache.ready, (options, None, *captured), args, made)
    else:
        _keep(_kvcache.ready, (options, schedule.kind, *captured),
              (*args, schedule.memory.address), made.call)


# ---- Append ----


class _AppendLaunch(_launch.Launch):
    function = "tilec_append_run"

    def __init__(self, plan, fields):
        self.plan, self._fields = plan, list(fields)
        super().__init__(plan.device, [_tensors.View(x, n)
                                       for n, x in fields.items()])

    def bind(self, s):
        s.held = _abi.new(
            _abi.tilec_append_tensors,
            **{field: C.pointer(s.tensors[i])
               for i, field in enumerate(self._fields)})
        s.passed = self.plan.handle, s.held, s.options, s.error

    def workspace(self, s):
        return 0


class Append:
    """tilec_append_run for calls alike."""

    def __init__(self, plan, fields, inputs, out):
        """fields: {field: tensor}; inputs: fields in the order of the call's
        tensors; out: the result, where it is made anew."""
        self._launch = _AppendLaunch(plan, fields)
        at = {n: i for i, n in enumerate(fields)}
        written = _append.written(fields)
        self.call = _launch.fast_call(
            self._launch, self, [at[n] for n in inputs],
            [] if out is None else [(at["q_out"], _tensors.maker(out))],
            fields["k"], plan=plan, on_capture=_append.keep_for_graphs,
            written=sum(1 << i for i, n in enumerate(inputs) if n in written))

    def fail(self, status, index):
        _launch.fail(self._launch, status, index)


def append(tensors, options, run):
    """tilec.append on torch tensors; run: that of the first call."""
    given = [x for x in tensors if x is not None]
    is_plain = not _is_watched() and all([type(x) in _PLAIN for x in given])
    rest = (*options, *[x is None for x in tensors])
    if is_plain and _launch.fast is not None:
        table = _append.ready.get(rest)
        found = table and _launch.fast.run(table, *given)
        if found is not None and type(found) is tuple:
            return found[0] if found else tensors[-1]
    out, fields, plan = run(tensors, options)
    inputs = [n for n, x in zip(_append.FIELDS, tensors) if x is not None]
    if is_plain and _launch.has_fast() and all(
            fields[n].data_ptr() == x.data_ptr()
            for n, x in zip(inputs, given)):
        made = Append(plan, fields, inputs,
                      out if tensors[-1] is None else None)
        if made.call is not None:
            _keep(_append.ready, rest, given, made.call)
    return out
