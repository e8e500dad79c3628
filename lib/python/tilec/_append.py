# SPDX-License-Identifier: Apache-2.0
"""tilec.append: new keys and values into a cache."""
import ctypes as C
import typing

from . import _abi, _captured, _context, _plan, _tensors
from ._types import AnyTensor, Ints, Scale, Tensor

_INTS = ("kv_lens", "cu_seqlens", "page_table", "kv_indptr", "kv_indices",
         "positions")


def _rows(x, name, ragged):
    """[T, H, D] as [1, H, T, D]; other rows as they are."""
    dims = len(x.shape)
    if dims == 3 and ragged:
        return (x.permute(1, 0, 2) if _tensors.is_torch(x) else
                x.transpose(1, 0, 2))[None]
    if dims != 4 or (ragged and x.shape[0] != 1):
        raise ValueError("%s has the shape %s, expected %s" % (
            name, tuple(x.shape), "[T, H, D], as cu_seqlens is given"
            if ragged else "[B, H, M, D]; rows of several lengths, [T, H, D], "
            "need cu_seqlens"))
    return x


def _factors(x, name, like):
    if x is None:
        return None
    number = _tensors.number_of(x)
    if number is not None:
        return _tensors.filled(like, (1,), number)
    x = _captured.in_library_of(_tensors.adopt(x, name), like, name)
    return x.reshape(1) if len(x.shape) == 0 else x


def _check_written(tensors):
    for name, x in tensors.items():
        why = x is not None and _tensors.why_unwritable(x)
        if why:
            raise ValueError("%s %s" % (name, why))


class Plan(_plan.Plan):
    """A compiled tilec_append."""

    kind = "append"

    def __init__(self, tensors, device, target, interleaved, offset):
        asked = _abi.new(_abi.tilec_append_options,
                         target=_context.target_for(device, target),
                         interleaved=interleaved, rotary_offset=offset)
        super().__init__(device, C.byref(tensors), C.byref(asked))

    def run(self, tensors):
        error = _abi.tilec_error()
        launch = _context.launch_options(self.device)
        with _context.on_device(self.device):
            _plans.note_capture(self)
            status = _abi.lib.tilec_append_run(
                self.handle, C.byref(tensors), C.byref(launch),
                C.byref(error))
        _context.check(status, error)


# Prepared calls (_torch/_cache.py), which hold plans: none stays when one goes.
ready: typing.Dict[tuple, dict] = {}
_plans = _plan.Plans(dropped=ready.clear)


def keep_for_graphs(plan):
    """A CUDA graph captures a launch of the plan."""
    _plans.in_graphs.add(plan)


def _plan_for(given, tensors, *options):
    """What a plan is compiled for: types, last dims, which tensors there are.
    """
    device = _tensors.device_of(given["k"])
    key = (device, options) + tuple(
        (n, x.dtype, len(x.shape), x.shape[-1] if n in _COLUMNS else 0)
        for n, x in given.items())
    return _plans.get_or_make(key, lambda: Plan(tensors, device, *options))


_COLUMNS = ("k", "v", "cos")


# Fields of tilec_append_tensors, in the order of what a call gives.
FIELDS = ("k", "v", "k_cache", "v_cache", "k_scales", "v_scales", "cos", "sin",
          "kv_lens", "cu_seqlens", "page_table", "kv_indptr", "kv_indices",
          "positions", "q", "q_out")
_ROWS = {"k": "key", "v": "value", "q": "query"}
_SAID = {"k_cache": "key_cache", "v_cache": "value_cache"}


def _adopted(tensors):
    """{field: tensor} of what a call gives, each as the library takes it."""
    given = {n: x for n, x in zip(FIELDS, tensors) if x is not None}
    k, ragged = _tensors.adopt(tensors[0], "key"), "cu_seqlens" in given
    for n, x in given.items():
        if n in _ROWS:
            given[n] = _rows(_tensors.adopt(x, _ROWS[n]), _ROWS[n], ragged)
        elif n in _SAID:
            given[n] = _tensors.adopt(x, _SAID[n])
        elif n in ("k_scales", "v_scales"):
            given[n] = _factors(x, n[:-1], k)
        elif n in _INTS:
            given[n] = _captured.integers(n, x, k)
        elif n in ("cos", "sin"):
            given[n] = _captured.in_library_of(
                _tensors.adopt(x, "rotary_" + n), k, "rotary_" + n)
    return given


def _with_result(given, query, out):
    """The rotated queries, where there are queries; their rows join given."""
    if query is None:
        if out is not None:
            raise ValueError("query_out is given, and query is not")
        return None
    out = _tensors.empty(query, query.shape) if out is None else \
        _tensors.adopt(out, "query_out")
    given["q_out"] = _rows(out, "query_out", "cu_seqlens" in given)
    return out


def written(given):
    """{field: tensor} of those that the kernel writes."""
    return {n: given[n] for n in ("k_cache", "v_cache", "q_out", "k_scales",
                                  "v_scales")
            if n in given and (not n.endswith("_scales") or
                               len(given[n].shape) == 3)}


def run(tensors, options):
    """The result, tensors by field, and the plan."""
    given = _adopted(tensors)
    query = None if tensors[-2] is None else _tensors.adopt(tensors[-2],
                                                            "query")
    out = _with_result(given, query, tensors[-1])
    _check_written(written(given))
    views = {n: _tensors.View(x, n) for n, x in given.items()}
    call = _abi.new(_abi.tilec_append_tensors,
                    **{n: view.pointer for n, view in views.items()})
    plan = _plan_for(given, call, *options)
    plan.run(call)
    _tensors.will_change(written(given).values())
    return out, given, plan


def append(key: Tensor, value: typing.Optional[Tensor], key_cache: AnyTensor,
           value_cache: typing.Optional[AnyTensor], *, kv_lens: Ints,
           page_table: typing.Optional[Ints] = None,
           kv_indptr: typing.Optional[Ints] = None,
           kv_indices: typing.Optional[Ints] = None,
           cu_seqlens: typing.Optional[Ints] = None,
           query: typing.Optional[Tensor] = None,
           query_out: typing.Optional[Tensor] = None,
           rotary_cos: typing.Optional[AnyTensor] = None,
           rotary_sin: typing.Optional[AnyTensor] = None,
           interleaved: bool = False, rotary_offset: int = 0,
           positions: typing.Optional[Ints] = None,
           k_scale: typing.Optional[Scale] = None,
           v_scale: typing.Optional[Scale] = None,
           target: typing.Optional[str] = None) -> typing.Optional[Tensor]:
    """Writes new keys and values into a cache, in one kernel.

    key [B, HK, M, D], value [B, HK, M, DV]: M new rows of each sequence. With
    cu_seqlens [B + 1] they are [T, HK, D]: rows cu_seqlens[b] to cu_seqlens[b
    + 1] - 1 are those of sequence b, and later ones are written nowhere. value
    and value_cache None: one cache for both, as of MLA.

    key_cache, value_cache: row i of sequence b becomes row kv_lens[b] + i;
        kv_lens [B] are the lengths before the call. Contiguous [B, HK, N, D],
        or, with page_table [B, pages of a sequence], pages [pages, HK, page,
        D]: row n lies in row n % page of page page_table[b, n / page]. With
        kv_indptr [B + 1] and kv_indices the page is kv_indices[kv_indptr[b] +
        n / page]. Any strides; [pages, page, HK, D] as a transposed view. Rows
        for which there is no page, or no such page, are not written on GPUs,
        and a ValueError on the CPU.
    rotary_cos, rotary_sin: [positions, R / 2], for the first R columns (from
        rotary_offset on) of key, and of query. Columns j and j + R / 2 are a
        pair, with interleaved columns 2 j and 2 j + 1. The row is the row in
        the cache, or positions [B, M] (or [T]).
    query: [B, HQ, M, D] or [T, HQ, D]. Its rotated rows are returned: a new
        tensor, or query_out, which may be query.
    k_scale, v_scale: by what numbers are divided before they are rounded to
        the cache's type: a number, or float32 [1] or [HK]; or [B or pages, HK,
        N or page], which is written: each row gets the factor that makes its
        largest magnitude the largest number of the type.

    torch tensors or numpy arrays. Compiles at the first call for some data
    types and head dims. Reads lengths and tables on the device: it may be
    captured in a CUDA graph.
    """
    tensors = (key, value, key_cache, value_cache, k_scale, v_scale, rotary_cos,
               rotary_sin, kv_lens, cu_seqlens, page_table, kv_indptr,
               kv_indices, positions, query, query_out)
    options = target, bool(interleaved), int(rotary_offset)
    if not _tensors.is_torch(key):
        return run(tensors, options)[0]
    from . import _torch
    if _torch.is_watched():
        from ._torch import _cache_operator
        return _cache_operator.append(tensors, options)
    return _torch.cache.append(tensors, options, run)
