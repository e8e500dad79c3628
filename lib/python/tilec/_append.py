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


_plans = _plan.Plans()


def _plan_for(given, tensors, *options):
    """What a plan is compiled for: types, last dims, which tensors there are.
    """
    device = _tensors.device_of(given["k"])
    key = (device, options) + tuple(
        (n, x.dtype, len(x.shape), x.shape[-1] if n in _COLUMNS else 0)
        for n, x in given.items())
    return _plans.get_or_make(key, lambda: Plan(tensors, device, *options))


_COLUMNS = ("k", "v", "cos")


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
    k = _tensors.adopt(key, "key")
    ragged = cu_seqlens is not None
    given = dict(
        k=_rows(k, "key", ragged),
        v=None if value is None else _rows(_tensors.adopt(value, "value"),
                                           "value", ragged),
        k_cache=_tensors.adopt(key_cache, "key_cache"),
        v_cache=None if value_cache is None else _tensors.adopt(
            value_cache, "value_cache"),
        k_scales=_factors(k_scale, "k_scale", k),
        v_scales=_factors(v_scale, "v_scale", k),
        cos=rotary_cos, sin=rotary_sin, kv_lens=kv_lens,
        cu_seqlens=cu_seqlens, page_table=page_table, kv_indptr=kv_indptr,
        kv_indices=kv_indices, positions=positions)
    for name in _INTS:
        if given[name] is not None:
            given[name] = _captured.integers(name, given[name], k)
    for name in ("cos", "sin"):
        if given[name] is not None:
            given[name] = _captured.in_library_of(
                _tensors.adopt(given[name], "rotary_" + name), k,
                "rotary_" + name)
    out = None
    if query is not None:
        q = _tensors.adopt(query, "query")
        out = _tensors.empty(q, q.shape) if query_out is None else \
            _tensors.adopt(query_out, "query_out")
        given["q"] = _rows(q, "query", ragged)
        given["q_out"] = _rows(out, "query_out", ragged)
    elif query_out is not None:
        raise ValueError("query_out is given, and query is not")
    given = {n: x for n, x in given.items() if x is not None}
    written = {n: given.get(n) for n in ("k_cache", "v_cache", "q_out")}
    for name in ("k_scales", "v_scales"):
        if name in given and len(given[name].shape) == 3:
            written[name] = given[name]
    _check_written(written)
    views = {n: _tensors.View(x, n) for n, x in given.items()}
    tensors = _abi.new(_abi.tilec_append_tensors,
                       **{n: view.pointer for n, view in views.items()})
    _plan_for(given, tensors, target, bool(interleaved),
              int(rotary_offset)).run(tensors)
    _tensors.will_change(x for x in written.values() if x is not None)
    return out
