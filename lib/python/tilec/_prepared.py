# SPDX-License-Identifier: Apache-2.0
"""Calls of attention, prepared for tensors like those of an earlier call.

    ready = forward_for(spec, q, k, v, ["w", "slopes"], [128, slopes], False)
    o, lse, _ = ready(q, k, v, [256, slopes])

Tensors are alike if their types, shapes, strides and devices are. For such
tensors checks, plan, shapes of results and the C structs of the launch are the
same, whatever the addresses and the captured numbers are.
"""
import ctypes as C
import dataclasses
import typing

from . import (_abi, _attention, _captured, _context, _dropout, _factors,
               _launch, _sinks, _tensors, _texts)


class _Launch(_launch.Launch):
    """Of tilec_attention_forward or _backward."""

    def __init__(self, plan, tensors, captured, grads=()):
        """tensors: {field: tensor}; captured, grads: [(name, value)]"""
        self.plan, self._fields = plan, list(tensors)
        views = [_tensors.View(x, n) for n, x in tensors.items()]
        self._captured = _launch.Arguments(captured, views)
        self._grads = _launch.Arguments(grads, views)
        super().__init__(plan.device, views, plan.threads)

    def bind(self, s):
        captured, n, s.numbers = self._captured.made(s.tensors)
        grads, ngrads, _ = self._grads.made(s.tensors)
        s.held = _abi.new(
            _abi.tilec_attention_tensors, captured=captured, ncaptured=n,
            captured_grads=grads, ncaptured_grads=ngrads,
            **{field: C.pointer(s.tensors[i])
               for i, field in enumerate(self._fields)})
        s.passed = self.plan.handle, s.held, s.options, s.error

    def workspace(self, s):
        found = C.c_uint64()
        is_forward = self.function == _ForwardLaunch.function
        _context.check(_abi.lib.tilec_attention_workspace(
            self.plan.handle, C.byref(s.held),
            C.byref(found) if is_forward else None,
            None if is_forward else C.byref(found), C.byref(s.error)), s.error)
        return found.value

    def workspace_with(self, others):
        """The bytes that a call needs with other tensors: {view: tensor}."""
        s = _launch._Structs(self)
        views = {i: _tensors.View(x, self._fields[i])
                 for i, x in others.items()}
        for i, view in views.items():
            s.tensors[i] = view.dl
        return self.workspace(s)

    def before_gpu(self):
        if _context.is_capturing(self.device):
            _attention.keep_for_graphs(self.plan)

    def fast_call(self, owner, inputs, outputs, like, **more):
        return _launch.fast_call(self, owner, inputs, outputs, like,
                                 plan=self.plan,
                                 on_capture=_attention.keep_for_graphs, **more)


class _ForwardLaunch(_Launch):
    function = "tilec_attention_forward"


class _BackwardLaunch(_Launch):
    function = "tilec_attention_backward"


class _Captured:
    """Captured values, as the launch wants them: which are tensors (sinks
    first), which are numbers, and which are converted at each call."""

    def __init__(self, plan, names, values):
        self._plan, self._names = plan, names
        self._conversions, self._tensors, self._numbers = [], [], []
        self.pairs, self.sinks = [], None
        for i, (name, x) in enumerate(zip(names, values)):
            fit = self._fitted(i, x)
            if _is_converted(x, fit):
                self._conversions.append((i, kind(fit)))
            if name == _sinks.NAME:
                self._tensors.insert(0, i)
                self.sinks = fit
                continue
            (self._tensors if _tensors.is_tensor(fit) else
             self._numbers).append(i)
            self.pairs.append((name, fit))

    def _fitted(self, i, x):
        if self._names[i] == _sinks.NAME:
            return _tensors.cast(x, "float32")
        (_, fit), = _captured.fitted([(self._names[i], x)],
                                     self._plan.captured, self._plan.device)
        return fit

    def inputs(self, first):
        """As of _launch.fast_call, for views that follow `first` others. None:
        some are converted at each call."""
        if self._conversions:
            return None
        found = {i: -1 - at for at, i in enumerate(self._numbers)}
        found.update({i: first + at for at, i in enumerate(self._tensors)})
        return [found[i] for i in range(len(found))]

    def __call__(self, values):
        """Tensors, to be kept until the launch, and numbers."""
        if self._conversions:
            values = list(values)
            for i, expected in self._conversions:
                values[i] = self._fitted(i, values[i])
                if kind(values[i]) != expected:
                    raise AssertionError("%s: converted to %s, then to %s" % (
                        self._names[i], expected, kind(values[i])))
        return ([values[i] for i in self._tensors],
                [values[i] for i in self._numbers])


def _is_converted(x, fit):
    """Whether the memory is another, or there is none any more."""
    return _tensors.is_tensor(x) and not (
        _tensors.is_tensor(fit) and
        _tensors.address_of(fit) == _tensors.address_of(x))


def kind(x):
    """What a captured value has in common with those that it is like."""
    return _tensors.like(x) if _tensors.is_tensor(x) else type(x)


_KEYS = 1 << 1 | 1 << 2  # k and v, among the inputs of a _fast.Call


def _plan_of(spec, q, k, v, names, values, want_max):
    """Of forward, which always is deterministic."""
    spec = dataclasses.replace(spec, deterministic=False, max=want_max,
                               sinks=_sinks.NAME in names,
                               dropout=_dropout.SEED in names)
    return _attention.plan_for(spec, q, k, v, [
        (n, x) for n, x in zip(names, values) if n != _sinks.NAME])


def _keys(k, v):
    return ((k.shape, k.stride(), v.shape, v.stride())
            if _tensors.is_torch(k) else None)


class Forward:
    """Attention. Any number of threads may call it."""

    def __init__(self, spec, q, k, v, names, values, want_max):
        self.spec, self.names = spec, names
        self.gradients, self.fast_gradients = {}, {}  # Backwards, _fast.Calls
        self._keys = _keys(k, v)
        self.plan = _plan_of(spec, q, k, v, names, values, want_max)
        self._captured = _Captured(self.plan, names, values)
        rows = _tensors.empty(q, q.shape[:3], "float32")
        new = dict(o=_attention.empty_output(spec, q, v), lse=rows)
        if want_max:
            new["max"] = rows
        t = dict(q=q, k=k, v=v, **new)
        if self._captured.sinks is not None:
            t["sinks"] = self._captured.sinks
        self._launch = _ForwardLaunch(self.plan, t, self._captured.pairs)
        self._new = [_tensors.maker(x) for x in new.values()]
        self._address = _tensors.address_function(q)
        self._gpu = _context.gpu_of(self.plan.device)
        self.fast, inputs = None, self._captured.inputs(3 + len(self._new))
        if inputs is not None and _tensors.is_torch(q):
            self.fast = self._launch.fast_call(
                self, [0, 1, 2, *inputs], list(enumerate(self._new, 3)), q,
                has_gradients=True, free=_KEYS)

    def is_of(self, k, v):
        """Whether it was made for keys of this length and these strides."""
        return self._keys == _keys(k, v)

    def fits(self, k, v):
        """Whether `fast` serves keys of this length, too."""
        return self.fast is not None and self._launch.workspace_with(
            {1: k, 2: v}) == self._launch.needs

    def fail(self, status, index):
        _launch.fail(self._launch, status, index)

    def __call__(self, q, k, v, values=()):
        """o, lse and, if it was wanted, the largest scores."""
        if self.fast is not None:
            found = self.fast(q, k, v, *values)
            if found is not None:
                return found
        if self._gpu is not None and _context.current_gpu() != self._gpu:
            with _context.on_device(self.plan.device):
                return self(q, k, v, values)
        self.plan.used = next(_launch.uses)
        found = [new() for new in self._new]
        tensors, numbers = self._captured(values) if values else ((), ())
        self._launch(map(self._address, (q, k, v, *found, *tensors)), numbers,
                     q)
        return found


class Backward:
    """Gradients of a Forward's spec. Any number of threads may call it."""

    def __init__(self, spec, q, k, v, o, lse, dout, dlse, names, values,
                 wanted):
        if any(_tensors.has_8_bits(x) for x in (q, k, v)):
            raise ValueError("Backward pass with mixed query, key, and value "
                             "dtype is not supported: numbers of 8 bits have "
                             "no gradients")
        for name in _factors.of(zip(names, values)):
            raise ValueError("there are no gradients of attention with %s: "
                             "multiply by it outside" % name)
        has_sinks = _sinks.NAME in names
        of_mods = [n for n in wanted if n != _sinks.NAME or not has_sinks]
        spec = dataclasses.replace(spec, backward=True, sinks=has_sinks,
                                   dropout=_dropout.SEED in names,
                                   captured_gradients=bool(of_mods))
        self._plan = _attention.plan_for(spec, q, k, v)
        self._captured = _Captured(self._plan, names, values)
        self._wanted, self._has_dlse = wanted, dlse is not None
        dtype = _texts.gradients_dtype(_texts.options_of(spec.kernel_options))
        new = {"d" + n: _tensors.empty(x, x.shape, *([dtype] if dtype else []))
               for n, x in zip("qkv", (q, k, v))}
        of_captured = self._gradients(q, dict(zip(names, values)), has_sinks)
        self._launch = self._launch_of(
            dict(q=q, k=k, v=v, o=o, lse=lse, dout=dout, dlse=dlse), new,
            of_captured)
        self._new = [_tensors.maker(x) for x in new.values()]
        self._new_captured = [(name, _tensors.maker(x), shape)
                              for name, _, x, shape in of_captured]
        self._nfields = sum(field == "dsinks" for _, field, _, _ in of_captured)
        self._address = _tensors.address_function(q)
        self.fast, given = None, 7 if self._has_dlse else 6
        inputs = self._captured.inputs(given + 3 + self._nfields)
        if inputs is not None and _tensors.is_torch(q):
            first = given + 3 + self._nfields + sum(at >= 0 for at in inputs)
            outputs = [given + i for i in range(3 + self._nfields)]
            outputs += range(first, first + len(of_captured) - self._nfields)
            self.fast = self._launch.fast_call(
                self, [*range(given), *inputs], list(zip(outputs, (
                    *self._new, *[m for _, m, _ in self._new_captured]))), q)

    def fail(self, status, index):
        _launch.fail(self._launch, status, index)

    def _gradients(self, q, values, has_sinks):
        """[(name, field or the kernel's name, tensor, shape)] of gradients of
        captured values, those of sinks first."""
        found = []
        if has_sinks and _sinks.NAME in self._wanted:
            shape = values[_sinks.NAME].shape
            found.append((_sinks.NAME, "dsinks",
                          _tensors.empty(q, shape, "float32"), shape))
        for full in self._plan.gradients:
            name = _captured_of(full, values)
            if name not in values:  # a number that the expression gives
                continue
            shape = values[name].shape if _tensors.rank(values[name]) \
                is not None else ()
            found.append((name, full, _tensors.empty(
                q, shape or (1,), "float32"), shape))
        for name in self._wanted:
            if name not in [f[0] for f in found]:
                raise ValueError("captured `%s` has no gradient: no score mod "
                                 "reads it as float; detach it" % name)
        return found

    def _launch_of(self, given, new, of_captured):
        fields = {n: x for n, x in {**given, **new}.items() if x is not None}
        grads = []
        for _, name, x, _ in of_captured:
            if name == "dsinks":
                fields[name] = x
            else:
                grads.append((name, x))
        if self._captured.sinks is not None:
            fields["sinks"] = self._captured.sinks
        return _BackwardLaunch(self._plan, fields, self._captured.pairs, grads)

    def __call__(self, q, k, v, o, lse, dout, dlse, values=()):
        """dq, dk, dv and {name: gradient} of the captured values that were
        wanted, in float32."""
        given = (q, k, v, o, lse, dout) if dlse is None else (
            q, k, v, o, lse, dout, dlse)
        found = None
        if self.fast is not None:
            found = self.fast(*given, *values)
        if found is None:
            with _context.on_device(self._plan.device):
                found = self._run(given, values)
        if len(found) == 3:
            return (*found, {})
        grads = {name: x if shape else x.reshape(shape) for x, (name, _, shape)
                 in zip(found[3:], self._new_captured)}
        return (*found[:3], {n: grads[n] for n in self._wanted})

    def _run(self, given, values):
        self._plan.used = next(_launch.uses)
        new = [make() for make in self._new]
        grads = [make() for _, make, _ in self._new_captured]
        tensors, numbers = self._captured(values) if values else ((), ())
        n = self._nfields
        self._launch(map(self._address, (*given, *new, *grads[:n], *tensors,
                                         *grads[n:])), numbers, given[0])
        return (*new, *grads)


def _captured_of(gradient, captured):
    """The captured value whose gradient has this name ("grad.score.bias"),
    found by its full name (score.bias) or its own (bias)."""
    full = gradient.partition(".")[2]
    return full if full in captured else full.partition(".")[2]


# ---- By what tensors are like ----


def _kept(table, key, make, *args):
    found = table.get(key)
    if found is None:
        found = make(*args)
        _attention.keep_ready(table, key, found)
    return found


def forward_for(spec, q, k, v, names, values, want_max=False):
    """The Forward for such tensors and captured values."""
    like = _tensors.like
    key = (spec, want_max, names, like(q), like(k), like(v),
           *[kind(x) for x in values])
    return _kept(_attention.ready, key, Forward, spec, q, k, v, names, values,
                 want_max)


def _of_any_length(spec, q, k, v, names, values, want_max):
    """What calls have in common that differ in the length of k and v alone,
    and have the same plan."""
    return (spec, want_max, names, _tensors.like(q),
            *[(x.dtype, x.shape[:2], x.shape[3], x.device, x.is_neg())
              for x in (k, v)], *[kind(x) for x in values],
            _plan_of(spec, q, k, v, names, values, want_max))


def keep_for_lengths(ready, q, k, v, values, want_max):
    """Keeps a Forward for calls with keys of other lengths."""
    key = _of_any_length(ready.spec, q, k, v, ready.names, values, want_max)
    _attention.keep_ready(_attention.ready, key, ready)


def for_lengths(spec, q, k, v, names, values, want_max):
    """A Forward of another length whose `fast` serves this one, or None. In
    a decode with a cache that grows each step has a new length."""
    found = _attention.ready.get(
        _of_any_length(spec, q, k, v, names, values, want_max))
    return found if found is not None and found.fits(k, v) else None


class Lengths(typing.NamedTuple):
    """A _fast.Call that serves keys of these lengths."""

    call: object
    low: int
    high: int


_AHEAD = 255  # steps


def last_ahead(n):
    """The last length that one with n keys may serve: none goes beyond a power
    of two, where plans change."""
    return min(n + _AHEAD, (1 << n.bit_length()) - 1)


def lengths_of(ready, q, k, v, values, want_max):
    """The lengths from k's on that have the Forward's plan and workspace, or
    None. The last one decides for those before it: up to the next power of two
    a plan depends on bounds of the length alone (is it long enough to split
    keys, are there as many as queries), and a workspace grows with it
    (test/python/lengths.py asks the library). Strides of rows, and of 8-bit
    numbers, are other matters."""
    n = k.shape[2]
    if not n or _tensors.has_8_bits(q) or k.stride(3) != 1 or \
            v.stride(3) != 1 or v.shape[3] == 1:
        return None
    high = last_ahead(n)
    longer = [x[:, :, :1].expand(-1, -1, high, -1) for x in (k, v)]
    if _plan_of(ready.spec, q, *longer, ready.names, values,
                want_max) is ready.plan and ready.fits(*longer):
        return Lengths(ready.fast, n, high)
    return None


def backward(spec, table, q, k, v, o, lse, dout, dlse, names, values, wanted):
    """dq, dk, dv and {name: gradient} of the captured values in wanted, in
    float32; dlse may be None. The Backward is kept in the table."""
    # out_dtype gave o another type; the kernels know one.
    o, dout = _tensors.cast(o, q.dtype), _tensors.cast(dout, q.dtype)
    like, t = _tensors.like, (q, k, v, o, lse, dout, dlse)
    key = (spec, names, wanted, *[None if x is None else like(x) for x in t],
           *[kind(x) for x in values])
    ready = _kept(table, key, Backward, spec, *t, names, values, wanted)
    return ready(*t, values)
