# SPDX-License-Identifier: Apache-2.0
"""Plans: attention compiled for a few data types and dims, and its launches.

A Spec is what a caller asks for: texts and numbers, no tensors. A Spec and the
types of tensors make a Plan, which is compiled once and kept. Forward
and backward have a plan each, so that forward does not wait for backward's
compilation.
"""
import ctypes as C
import dataclasses
import itertools
import sys
import threading
import typing

from . import _abi, _captured, _context, _errors, _factors, _sinks, _tensors
from ._texts import O_TYPES, encoded, mod_of, options_of


@dataclasses.dataclass(frozen=True)
class Spec:
    """What a caller asks of attention; equal Specs share their plans."""

    score_mod: str = ""
    mask_mod: str = ""
    scale: float = 0.0  # 0: 1 / sqrt(D)
    kernel_options: str = ""  # as `_texts.options_text` writes them
    deterministic: bool = False
    backward: bool = False
    captured_gradients: bool = False
    max: bool = False
    sinks: bool = False


class _Texts:
    """The mods of a Spec for tilec_attention_options."""

    def __init__(self, spec):
        self.mask, bodies = None, {}
        self.mask, mask_body = mod_of(spec.mask_mod)
        self.score, score_body = mod_of(spec.score_mod)
        for name, body in (("mask_mod", mask_body), ("score_mod", score_body)):
            if body and body not in bodies.values():
                bodies[name] = body
        self.sources, self.nsources = _abi.array(_abi.tilec_source, [
            _abi.tilec_source(name.encode(), encoded(body, name), 0)
            for name, body in bodies.items()])


def _bindings(options):
    if not options.out_dtype:
        return options.bindings
    return (*options.bindings, ("TO", O_TYPES[options.out_dtype]))


def _compile(spec, device, options, q, k, v, factors):
    """Compiles; the library's handle for tensors like these."""
    texts = _Texts(spec)
    asked = _abi.new(
        _abi.tilec_attention_options, scale=spec.scale,
        target=_context.target_for(device, options.target),
        mask=encoded(texts.mask, "mask_mod"),
        score=encoded(texts.score, "score_mod"), sources=texts.sources,
        nsources=texts.nsources, read_source=_context.read_source,
        backward=spec.backward, deterministic=spec.deterministic,
        captured_gradients=spec.captured_gradients, max=spec.max,
        sinks=spec.sinks,
        block_lists=options.lists, enforce=options.enforce)
    for field, pairs in (("kernel_options", options.kernel),
                         ("bindings", _bindings(options)),
                         ("backward_bindings", options.backward_bindings)):
        list_, n = _context.bindings(pairs)
        setattr(asked, field, list_)
        setattr(asked, "n" + field, n)
    views = [_tensors.View(t, n) for t, n in zip((q, k, v), "qkv")]
    like = {n: _tensors.View(t, n) for n, t in factors.items()}
    for name, view in like.items():
        setattr(asked, name, view.pointer)
    handle = C.c_void_p()
    with _context.context() as cx, _context.on_device(device):
        status = _abi.lib.tilec_attention_plan(
            cx, *[view.pointer for view in views], C.byref(asked),
            C.byref(handle))
        if status:
            raise _errors.compile_failed(cx, status)
        try:
            _errors.warn(cx)
        except Warning:  # the caller's filters make errors of them
            _abi.lib.tilec_attention_free(handle)
            raise
    return handle


class Plan:
    """Compiled attention. Read-only: any number of threads may call it."""

    def __init__(self, spec, q, k, v, factors):
        options = options_of(spec.kernel_options)
        self.device = _tensors.device_of(q)
        self.threads = options.threads
        self._handle = _compile(spec, self.device, options, q, k, v,
                                factors)
        self.gradients = self._gradients()
        self._captured = _captured.parameters(
            _abi.lib.tilec_attention_kernel(self._handle))
        self.used = 0  # by _clock

    def __del__(self):
        # A process that ends takes the driver along, before or after this.
        if getattr(self, "_handle", None) and not sys.is_finalizing():
            _abi.lib.tilec_attention_free(self._handle)

    def _gradients(self):
        """The names of the gradients of captured values."""
        found = []
        while True:
            p = _abi.lib.tilec_attention_gradient(self._handle,
                                                  C.c_size_t(len(found)))
            if not p:
                return found
            found.append(p.contents.name.decode())

    def workspace(self, which, tensors):
        """The bytes of memory that "forward" or "backward" needs."""
        found, error = C.c_uint64(), _abi.tilec_error()
        asked = [C.byref(found) if which == w else None
                 for w in ("forward", "backward")]
        _context.check(_abi.lib.tilec_attention_workspace(
            self._handle, C.byref(tensors), *asked, C.byref(error)), error)
        return found.value

    def run(self, which, tensors, captured, grads=()):
        """tensors: {"q": .., "o": ..}; captured, grads: [(name, value)]."""
        views = {n: _tensors.View(t, n) for n, t in tensors.items()}
        held = []
        given, ngiven = _tensors.arguments(
            _captured.fitted(captured, self._captured, self.device), held)
        asked, nasked = _tensors.arguments(grads, held)
        call = _abi.new(
            _abi.tilec_attention_tensors, captured=given, ncaptured=ngiven,
            captured_grads=asked, ncaptured_grads=nasked,
            **{n: view.pointer for n, view in views.items()})
        memory = _tensors.Memory(tensors["q"], self.workspace(which, call))
        call.workspace, call.workspace_bytes = memory.address, memory.size
        launch = _context.launch_options(self.device, threads=self.threads)
        error = _abi.tilec_error()
        with _context.on_device(self.device):
            if _context.is_capturing(self.device):
                _in_graphs.add(self)
            status = getattr(_abi.lib, "tilec_attention_" + which)(
                self._handle, C.byref(call), C.byref(launch), C.byref(error))
        _context.check(status, error)


MOST_PLANS = 128
_plans: typing.Dict[tuple, Plan] = {}
_in_graphs: typing.Set[Plan] = set()  # a CUDA graph may launch them at any time
_lock = threading.Lock()
_clock = itertools.count()


def _keep(key, plan):
    """Keeps the plan. If there are too many, the least recently used one goes;
    a thread that runs it keeps it alive."""
    if len(_plans) >= MOST_PLANS:
        oldest = min((k for k, p in _plans.items() if p not in _in_graphs),
                     key=lambda k: _plans[k].used, default=None)
        _plans.pop(oldest, None)
    _plans[key] = plan


def _lengths(spec, q, k):
    """The classes of lengths that have plans of their own. On a GPU these are
    powers of two, because configurations are tuned by length, and short
    gradients have kernels of their own. On the CPU it only matters whether a
    list of the mask's blocks may pay (lib/attention/attention_lists.c)."""
    if _tensors.device_of(q)[0] == _tensors.CPU:
        return q.shape[2] >= 512 and k.shape[2] >= 2048
    return (min(max(k.shape[2].bit_length() - 1, 8), 15),
            spec.backward and max(q.shape[2], k.shape[2]) <= 512)


def _reuse(q, k, v):
    """The class of how often parts of v are read, which decides whether v is
    copied first (COPY_VALUES)."""
    if not _tensors.has_8_bits(q):
        return None
    rows = q.shape[2] * q.shape[1] // max(k.shape[1], 1)
    return (sum(rows > 128 * (n - 1) for n in (2, 8, 16, 32, 64)),
            _tensors.has_vectors(v))


def _sharing(spec, q, k):
    """For gradients of grouped heads: how many heads share one of k, and the
    numbers of blocks of keys and queries as powers of two. If there are few,
    the library splits them over more programs (SPLIT). On the CPU it never
    does."""
    group = q.shape[1] // max(k.shape[1], 1)
    if (not spec.backward or group < 2 or
            _tensors.device_of(q)[0] == _tensors.CPU):
        return None
    blocks = k.shape[0] * k.shape[1] * (k.shape[2] + 127) // 128
    return group, blocks.bit_length(), q.shape[2].bit_length()


def plan_for(spec, q, k, v, captured=()):
    """The plan for tensors like these. A plan depends on the class of the
    lengths, on whether all queries have keys, on what gradients of grouped
    heads share, on the dim of v that is contiguous, and, with 8 bits, on how
    often v is read; not on batch, heads and other strides."""
    factors = _factors.of(captured)
    kinds = tuple([(n, _factors.kind(x, {"k": k, "v": v}.get(n[-1], q)))
                   for n, x in factors.items()])
    few = 16 if q.shape[2] <= 16 else 32 if q.shape[2] <= 32 else 0
    key = (spec, _tensors.device_of(q), q.dtype, k.dtype, v.dtype, q.shape[3],
           v.shape[3], few, _lengths(spec, q, k), q.shape[2] <= k.shape[2],
           _tensors.contiguous_dim(v), _reuse(q, k, v), _sharing(spec, q, k),
           kinds)
    plan = _plans.get(key)
    if plan is None:
        with _lock:
            plan = _plans.get(key)
            if plan is None:
                plan = Plan(spec, q, k, v, factors)
                _keep(key, plan)
    plan.used = next(_clock)
    return plan


def empty_output(spec, q, v):
    return _tensors.empty_output(q, (*q.shape[:3], v.shape[3]),
                                 options_of(spec.kernel_options).out_dtype)


def forward(spec, q, k, v, captured, want_max=False):
    """o, lse, and the scores' maxima or None; captured: [(name, value)]."""
    if spec.deterministic or want_max:  # forward always is deterministic
        spec = dataclasses.replace(spec, deterministic=False, max=want_max)
    captured, sinks = _sinks.taken(captured)
    t = dict(q=q, k=k, v=v,
             o=empty_output(spec, q, v),
             lse=_tensors.empty(q, q.shape[:3], "float32"))
    if want_max:
        t["max"] = _tensors.empty(q, q.shape[:3], "float32")
    if sinks is not None:
        t["sinks"] = sinks
        spec = dataclasses.replace(spec, sinks=True)
    plan_for(spec, q, k, v, captured).run("forward", t, captured)
    return t["o"], t["lse"], t.get("max")


def _captured_of(gradient, captured):
    """The captured value whose gradient has this name ("grad.score.bias"),
    found by its full name (score.bias) or its own (bias)."""
    full = gradient.partition(".")[2]
    return full if full in captured else full.partition(".")[2]


def backward(spec, q, k, v, o, lse, dout, dlse, captured, wanted=()):
    """dq, dk, dv and {name: gradient} of the captured values in wanted, in
    float32; dlse may be None."""
    if any(_tensors.has_8_bits(x) for x in (q, k, v)):
        raise ValueError("there are no gradients of attention on numbers of 8 "
                         "bits")
    for name in _factors.of(captured):
        raise ValueError("there are no gradients of attention with %s: "
                         "multiply by it outside" % name)
    # out_dtype gave o another type; the kernels know one.
    o, dout = _tensors.cast(o, q.dtype), _tensors.cast(dout, q.dtype)
    captured, sinks = _sinks.taken(captured)
    of_mods = [n for n in wanted if sinks is None or n != _sinks.NAME]
    spec = dataclasses.replace(spec, backward=True, sinks=sinks is not None,
                               captured_gradients=bool(of_mods))
    plan = plan_for(spec, q, k, v)
    t = dict(q=q, k=k, v=v, o=o, lse=lse, dout=dout,
             **{"d" + n: _tensors.empty(x, x.shape)
                for n, x in zip("qkv", (q, k, v))})
    if dlse is not None:
        t["dlse"] = dlse
    values, found, grads = dict(captured), {}, []
    if sinks is not None:
        t["sinks"] = values[_sinks.NAME] = sinks
    if len(of_mods) < len(wanted):
        t["dsinks"] = found[_sinks.NAME] = _tensors.empty(q, sinks.shape,
                                                          "float32")
    for full in plan.gradients:
        name = _captured_of(full, values)
        value = values.get(name)
        shape = value.shape if _tensors.rank(value) else (1,)
        found[name] = _tensors.empty(q, shape, "float32")
        grads.append((full, found[name]))
    for name in wanted:
        if name not in found:
            raise ValueError("captured `%s` has no gradient: no score mod "
                             "reads it as float; detach it" % name)
    plan.run("backward", t, captured, grads)
    return t["dq"], t["dk"], t["dv"], {
        n: found[n].reshape(values[n].shape) if _tensors.rank(values[n]) == 0
        else found[n] for n in wanted}
