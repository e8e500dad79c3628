# SPDX-License-Identifier: Apache-2.0
"""Plans: attention compiled for a few data types and dims, and its launches.

A Spec is what a caller asks for: texts and numbers, no tensors. A Spec and the
types of tensors make a Plan, which is compiled once and kept. Forward
and backward have a plan each, so that forward does not wait for backward's
compilation.
"""
import ctypes as C
import dataclasses
import typing

from . import _abi, _captured, _context, _factors, _plan, _tensors
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
    dropout: bool = False

    def asked(self):
        """What a call says; the rest follows from what it gives and wants."""
        return (self.score_mod, self.mask_mod, self.scale, self.kernel_options,
                self.deterministic)


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


def _kernel_options(spec, options):
    """Nobody runs the forward kernel of a plan for gradients: not split, it is
    one to compile in place of four. Bundles have plans as `tilec compile` makes
    them, without that option."""
    spares = spec.backward and not _context.has_bundles
    unsplit = (("SPLIT_KEYS", "false"),) if spares else ()
    return (*options.kernel, *unsplit)


def _asked(spec, device, options, factors):
    """The library's options."""
    texts = _Texts(spec)
    asked = _abi.new(
        _abi.tilec_attention_options, scale=spec.scale,
        target=_context.target_for(device, options.target),
        mask=encoded(texts.mask, "mask_mod"),
        score=encoded(texts.score, "score_mod"), sources=texts.sources,
        nsources=texts.nsources, read_source=_context.read_source,
        backward=spec.backward, deterministic=spec.deterministic,
        captured_gradients=spec.captured_gradients, max=spec.max,
        sinks=spec.sinks, dropout=spec.dropout,
        block_lists=options.lists, enforce=options.enforce)
    for field, pairs in (("kernel_options", _kernel_options(spec, options)),
                         ("bindings", _bindings(options)),
                         ("backward_bindings", options.backward_bindings)):
        list_, n = _context.bindings(pairs)
        setattr(asked, field, list_)
        setattr(asked, "n" + field, n)
    like = {n: _tensors.View(t, n) for n, t in factors.items()}
    for name, view in like.items():
        setattr(asked, name, view.pointer)
    return asked, like


class Plan(_plan.Plan):
    """Compiled attention."""

    kind = "attention"

    def __init__(self, spec, q, k, v, factors):
        options = options_of(spec.kernel_options)
        device = _tensors.device_of(q)
        asked, held = _asked(spec, device, options, factors)
        views = [_tensors.View(t, n) for t, n in zip((q, k, v), "qkv")]
        super().__init__(device, *[view.pointer for view in views],
                         C.byref(asked))
        del held
        self.threads = options.threads
        self.gradients = self._gradients()
        self.captured = _captured.parameters(
            _abi.lib.tilec_attention_kernel(self.handle))

    def _gradients(self):
        """The names of the gradients of captured values."""
        found = []
        while True:
            p = _abi.lib.tilec_attention_gradient(self.handle,
                                                  C.c_size_t(len(found)))
            if not p:
                return found
            found.append(p.contents.name.decode())


# Prepared calls (_prepared.py) by what their tensors are like. They hold plans,
# so none stays when a plan goes.
MOST_READY = 1024
ready: typing.Dict[tuple, object] = {}
_plans = _plan.Plans(dropped=ready.clear)


def keep_ready(table, key, prepared):
    """Keeps a prepared call in `ready`, or in a table that one there has."""
    if len(table) >= MOST_READY:
        table.clear()
    table[key] = prepared


def forget():
    """Drops all plans that nothing uses: the next calls make them again."""
    ready.clear()
    _plans.clear()


def keep_for_graphs(plan):
    """A CUDA graph captures a launch of the plan."""
    _plans.in_graphs.add(plan)


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


_MOST_PIECES = 4096
_pieces_of: typing.Dict[tuple, int] = {}  # by what they follow from


def _pieces(spec, q, k, v):
    """Whether keys are split over programs, and how: tilec_attention_variant."""
    forced = "SPLIT_KEYS" in spec.kernel_options
    device = _tensors.device_of(q)
    if spec.backward or not (forced or device[0] == _tensors.CUDA):
        return 0
    options = options_of(spec.kernel_options)
    key = (device, options.target, spec.kernel_options if forced else None,
           *[(x.dtype, tuple(x.shape)) for x in (q, k, v)])
    found = _pieces_of.get(key)
    if found is None:
        asked, held = _asked(spec, device, options, {})
        views = [_tensors.View(t, n) for t, n in zip((q, k, v), "qkv")]
        with _context.context() as cx, _context.on_device(device):
            found = _abi.lib.tilec_attention_variant(
                cx, *[view.pointer for view in views], C.byref(asked))
        del held
        if len(_pieces_of) >= _MOST_PIECES:
            _pieces_of.clear()
        _pieces_of[key] = found
    return found


def plan_for(spec, q, k, v, captured=()):
    """The plan for tensors like these. A plan depends on the class of the
    lengths, on whether all queries have keys, on what gradients of grouped
    heads share, on how keys are split, on the dim of v that is contiguous, and, with 8 bits, on how
    often v is read; not on batch, heads and other strides."""
    factors = _factors.of(captured)
    kinds = tuple([(n, _factors.kind(x, {"k": k, "v": v}.get(n[-1], q)))
                   for n, x in factors.items()])
    few = 16 if q.shape[2] <= 16 else 32 if q.shape[2] <= 32 else 0
    key = (spec, _tensors.device_of(q), q.dtype, k.dtype, v.dtype, q.shape[3],
           v.shape[3], few, _lengths(spec, q, k), q.shape[2] <= k.shape[2],
           _tensors.contiguous_dim(v), _reuse(q, k, v), _sharing(spec, q, k),
           _pieces(spec, q, k, v), kinds)
    return _plans.get_or_make(key, lambda: Plan(
        spec, q, k, v, _factors.tensors(q, factors)))


def empty_output(spec, q, v):
    return _tensors.empty_output(q, (*q.shape[:3], v.shape[3]),
                                 options_of(spec.kernel_options).out_dtype)
