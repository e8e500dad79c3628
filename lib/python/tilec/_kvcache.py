# SPDX-License-Identifier: Apache-2.0
"""Attention over a cache: plans, schedules, calls.

    schedule = tilec.schedule(q, k_cache, v_cache, kv_lens=lens, page_table=table)
    for layer in layers:
        o = tilec.attention(q, k_cache, v_cache, kv_lens=lens, page_table=table,
                            mask_mod="causal", schedule=schedule)
"""
import ctypes as C
import dataclasses
import typing

from . import _abi, _attention, _captured, _context, _plan, _tensors, _texts
from ._types import AnyTensor

DENSE, RAGGED, PAGED, INDEXED = range(4)
FACTORS = ("descale_k", "descale_v")

NO_GRADIENTS = ("attention over a cache has no gradients: give tensors that "
                "need none")

# The fields of tilec_kvcache_tensors that say where keys and queries lie.
PLACES = ("kv_lens", "page_table", "kv_indptr", "kv_indices",
          "kv_last_page_len", "cu_seqlens_q", "cu_seqlens_k",
          "query_offsets")


def places(*given):
    """{name: tensor or None}, of tensors in the order of PLACES."""
    return dict(zip(PLACES, given))


@dataclasses.dataclass(frozen=True)
class Spec:
    """Attention over a cache as it was asked for."""

    score_mod: str = ""
    mask_mod: str = ""
    scale: float = 0.0
    layout: int = DENSE
    ragged_queries: bool = False
    query_offsets: bool = False
    piece: int = 0
    sinks: bool = False
    factors: tuple = ()  # shapes that descale_k and descale_v have, in kinds
    target: typing.Optional[str] = None


def layout_of(given):
    """By which tensors there are."""
    if "page_table" in given:
        return PAGED
    if "kv_indptr" in given:
        return INDEXED
    return RAGGED if "cu_seqlens_k" in given else DENSE


_NEEDS = {DENSE: ("kv_lens",), RAGGED: ("cu_seqlens_k",),
          PAGED: ("kv_lens", "page_table"),
          INDEXED: ("kv_indptr", "kv_indices", "kv_last_page_len")}


def _check_places(layout, given):
    for name in _NEEDS[layout]:
        if name not in given:
            raise ValueError("%s is missing, expected together with %s" % (
                name, ", ".join(sorted(given)) or "a cache"))
    for name in given:
        if name not in (*_NEEDS[layout], "cu_seqlens_q", "query_offsets"):
            raise ValueError("%s does not go with %s" % (
                name, ", ".join(_NEEDS[layout])))


class Plan(_plan.Plan):
    """Compiled attention over a cache."""

    kind = "kvcache"

    def __init__(self, spec, q, k, v, extra):
        self.spec = spec
        device = _tensors.device_of(q)
        asked = _asked(spec, device, k, v)
        like = {n: _tensors.View(extra[n], n) for n in FACTORS if n in extra}
        for name, view in like.items():
            setattr(asked, name, view.pointer)
        views = [_tensors.View(t, n) for t, n in zip((q, k, v), "qkv")]
        super().__init__(device, *[view.pointer for view in views],
                         C.byref(asked))
        self.captured = _captured.parameters(
            _abi.lib.tilec_kvcache_kernel(self.handle))

    def call(self, function, *args):
        error = _abi.tilec_error()
        with _context.on_device(self.device):
            _plans.note_capture(self)
            status = getattr(_abi.lib, "tilec_kvcache_" + function)(
                self.handle, *args, C.byref(error))
        _context.check(status, error)


def _asked(spec, device, k, v):
    """The library's options, but for factors."""
    texts = _attention._Texts(spec)
    return _abi.new(
        _abi.tilec_kvcache_options, scale=spec.scale,
        target=_context.target_for(device, spec.target),
        mask=_texts.encoded(texts.mask, "mask_mod"),
        score=_texts.encoded(texts.score, "score_mod"), sources=texts.sources,
        nsources=texts.nsources, read_source=_context.read_source,
        layout=spec.layout, ragged_queries=spec.ragged_queries,
        query_offsets=spec.query_offsets,
        piece=spec.piece, sinks=spec.sinks,
        v_in_k=_tensors.begins_with(k, v))


# Prepared calls (_torch/_cache.py), which hold plans: none stays when one goes.
ready: typing.Dict[tuple, dict] = {}
_plans = _plan.Plans(dropped=ready.clear)
MOST_VARIANTS = 4096
_variants: typing.Dict[tuple, int] = {}  # by what they follow from


def _variant(spec, q, k, v, *key):
    """tilec_kvcache_variant: what plans for tensors of these types and dims
    depend on in addition."""
    key = (spec.layout, spec.ragged_queries, spec.piece, spec.target,
           tuple(q.shape), *key)
    found = _variants.get(key)
    if found is None:
        views = [_tensors.View(t, n) for t, n in zip((q, k, v), "qkv")]
        device = _tensors.device_of(q)
        with _context.context() as cx, _context.on_device(device):
            found = _abi.lib.tilec_kvcache_variant(
                cx, *[view.pointer for view in views],
                C.byref(_asked(spec, device, k, v)))
        if len(_variants) >= MOST_VARIANTS:
            _variants.clear()
        _variants[key] = found
    return found


def _kinds(spec, q, k, v):
    """What a plan is compiled for, and a schedule is good for."""
    return (_tensors.device_of(q), q.dtype, k.dtype, v.dtype, q.shape[3],
            v.shape[3], q.shape[1], k.shape[1],
            k.shape[2] if spec.layout >= PAGED else 0,
            _tensors.begins_with(k, v))


def plan_for(spec, q, k, v, extra=()):
    kinds = _kinds(spec, q, k, v)
    return _plans.get_or_make(
        (spec, kinds, _variant(spec, q, k, v, *kinds)),
        lambda: Plan(spec, q, k, v, dict(extra)))


# ---- Calls ----


class Schedule:
    """How the keys of a batch are dealt to programs: what `tilec.schedule`
    gives. For all layers of a step; `update` makes it again, in the same
    memory, for other lengths."""

    def __init__(self, plan: typing.Any, tensors: typing.Any,
                 places: typing.Any, size: int,
                 captured: typing.Sequence[typing.Any] = ()) -> None:
        """places: as they were given, of other ints too; captured: [(name,
        value)] of the mask."""
        self.plan: typing.Any = plan
        self._places, self._tensors = places, tensors
        self._captured = captured
        self._made_for = _described(plan.spec, places=places, **tensors)
        self._repeated = None  # what `update` calls
        self.memory: _tensors.Memory = _tensors.Memory(tensors["q"], size)
        self.update()

    # Of those that callers have: equal if good for equal calls.
    kind: typing.Optional[int] = None

    def named(self) -> "Schedule":
        self.kind = _kinds_of_schedules.setdefault(
            tuple(self._made_for.items()), len(_kinds_of_schedules))
        return self

    def check(self, spec: typing.Any, q: AnyTensor, k: AnyTensor, v: AnyTensor,
              places: typing.Any) -> None:
        """Refuses tensors of other shapes than it was made for."""
        got = _described(spec, q, k, v, places)
        for name, made_for in self._made_for.items():
            if got.get(name) != made_for and (name, made_for) != _NO_MASK:
                raise ValueError(
                    "schedule was made for %s %s, not %s: make another one "
                    "with tilec.schedule(query, key, value, ..)" %
                    (name, made_for, got.get(name)))

    def update(self) -> None:
        """Reads the lengths again: they may have changed in place. May be
        captured in a CUDA graph."""
        if self._repeated is not None and self._repeated():
            return
        places = {n: _captured.integers(n, x, self._tensors["q"])
                  for n, x in self._places.items()}
        call, held = _call(self._tensors, places, _captured.fitted(
            self._captured, self.plan.captured, self.plan.device))
        call.schedule = self.memory.address
        call.schedule_bytes = self.memory.size
        launch = _context.launch_options(self.plan.device)
        self.plan.call("schedule", C.byref(call), C.byref(launch))
        del held
        if self.kind is not None and all(
                places[n] is x for n, x in self._places.items()):
            self._repeat({**self._tensors, **places})

    def _repeat(self, given):
        if _tensors.is_torch(given["q"]):
            from . import _torch
            self._repeated = _torch.cache.repeated_schedule(
                self.plan, given, self.memory, self._captured)


_kinds_of_schedules: typing.Dict[tuple, int] = {}


def described_by(kind):
    return dict(list(_kinds_of_schedules)[kind])


_NO_MASK = "mask", ""  # all keys are dealt: good for any mask
_LAYOUTS = ("kv_lens", "cu_seqlens_k", "page_table", "kv_indptr")
_SEQUENCES = ("kv_lens", "cu_seqlens_k", "kv_indptr", "cu_seqlens_q")


def _described(spec, q, k, v, places):
    """What a schedule depends on, but for lengths."""
    found = {"keys that lie by": _LAYOUTS[spec.layout],
             "piece": spec.piece, "mask": spec.mask_mod,
             "a query of shape": tuple(q.shape),
             "a key of heads, length and dim": tuple(k.shape[1:]),
             "a value of dim": v.shape[3],
             "a value in the columns of key:": _tensors.begins_with(k, v),
             "data types": ", ".join(str(t.dtype) for t in (q, k, v)),
             "tensors on": _tensors.device_of(q)}
    if spec.mask_mod:
        found["queries that stand at"] = ("query_offsets" if spec.query_offsets
                                          else "the last keys")
    for name in _SEQUENCES:
        if name in places:
            found["a %s of" % name] = len(places[name])
    return found


def _call(tensors, places, captured=()):
    held = []
    views = {n: _tensors.View(t, n) for n, t in {**tensors, **places}.items()}
    given, n = _tensors.arguments(captured, held)
    call = _abi.new(_abi.tilec_kvcache_tensors, captured=given, ncaptured=n,
                    **{n: view.pointer for n, view in views.items()})
    return call, (views, held)


def _sizes(plan, call):
    schedule, workspace = C.c_uint64(), C.c_uint64()
    plan.call("workspace", C.byref(call), C.byref(schedule),
              C.byref(workspace))
    return schedule.value, workspace.value


def _four(x, name):
    """[T, H, D] as [1, H, T, D]."""
    if len(x.shape) == 4:
        return x
    if len(x.shape) != 3:
        raise ValueError("%s has %d dims, expected 4: batch, heads, length, "
                         "dim; or 3 if it is ragged: all lengths, heads, dim" %
                         (name, len(x.shape)))
    return (x.permute(1, 0, 2) if _tensors.is_torch(x) else
            x.transpose(1, 0, 2))[None]


def inputs(query, key, value, places):
    """q, k, v as [.., heads, length, dim], places as int32, whether q came
    without a batch."""
    q = _tensors.adopt(query, "query")
    given = {n: _captured.integers(n, x, q) for n, x in places.items() if x is not None}
    layout = layout_of(given)
    _check_places(layout, given)
    k, v = _tensors.adopt(key, "key"), _tensors.adopt(value, "value")
    if "cu_seqlens_q" in given:
        q4 = _four(q, "query")
    elif len(q.shape) == 3:
        raise ValueError("query has 3 dims, expected 4: batch, heads, length, "
                         "dim; of 3 dims it needs cu_seqlens_q")
    else:
        q4 = q
    if layout == RAGGED:
        k, v = _four(k, "key"), _four(v, "value")
    for name, x in (("query", q4), ("key", k), ("value", v)):
        if len(x.shape) != 4:
            raise ValueError("%s has %d dims, expected 4" %
                             (name, len(x.shape)))
    return q4, k, v, given, layout, len(q.shape) == 3


def factors_of(q, given):
    """{"descale_k": tensor}: a number as a tensor of one; their kinds."""
    found = {}
    for name, x in given.items():
        number = None if x is None else _tensors.number_of(x)
        if number is not None:
            x = _tensors.filled(q, (1,), number)
        if x is not None:
            x = _captured.in_library_of(_tensors.adopt(x, name), q, name)
            found[name] = _tensors.cast(x, "float32")
    return found, tuple((n, len(x.shape), len(x.shape) == 1 and x.shape[0] == 1)
                        for n, x in found.items())


class Request(typing.NamedTuple):
    """A call, checked."""

    q: object  # [.., heads, length, dim], as k and v
    k: object
    v: object
    places: dict  # int32
    spec: Spec
    captured: list  # [(name, value)]
    extra: dict  # sinks and factors, by their fields
    want_lse: bool
    is_flat: bool  # query came as [T, HQ, D]


def _as_given(x, is_flat):
    """[1, HQ, T, ..] as [T, HQ, ..], if query came so."""
    return x[0].swapaxes(0, 1) if is_flat else x


def new_results(r):
    """o, and lse if it is wanted, in the order of the kernel's dims."""
    q = r.q
    o = _tensors.empty(q, (*q.shape[:3], r.v.shape[3]))
    return [o] + ([_tensors.new(q, q.shape[:3], "float32")] if r.want_lse
                  else [])


def keep_for_graphs(plan):
    """A CUDA graph captures a launch of the plan."""
    _plans.in_graphs.add(plan)


def attention(r, schedule):
    """The results as a list, and the parts of the call: plan, tensors by field,
    sizes of schedule and workspace."""
    if schedule is not None:
        schedule.check(r.spec, r.q, r.k, r.v, r.places)
    plan = plan_for(r.spec, r.q, r.k, r.v, r.extra)
    new = new_results(r)
    t = dict(q=r.q, k=r.k, v=r.v, **r.extra, **dict(zip(("o", "lse"), new)))
    call, held = _call(
        t, r.places, _captured.fitted(r.captured, plan.captured, plan.device))
    sizes = _sizes(plan, call)
    if schedule is None:
        schedule = Schedule(plan, dict(q=r.q, k=r.k, v=r.v), r.places,
                            sizes[0], r.captured)
    memory = _tensors.Memory(r.q, sizes[1])
    call.workspace, call.workspace_bytes = memory.address, memory.size
    call.schedule = schedule.memory.address
    call.schedule_bytes = schedule.memory.size
    launch = _context.launch_options(plan.device)
    plan.call("attention", C.byref(call), C.byref(launch))
    del held
    return [_as_given(x, r.is_flat) for x in new], (plan, t, sizes)


def schedule_for(q, k, v, places, given, spec, captured):
    """given: the places before they became int32; captured: [(name, value)]
    of the mask."""
    plan = plan_for(spec, q, k, v)
    call, held = _call(dict(q=q, k=k, v=v), places)
    need, _ = _sizes(plan, call)
    del held
    return Schedule(plan, dict(q=q, k=k, v=v), {n: given[n] for n in places},
                    need, captured).named()
