# SPDX-License-Identifier: Apache-2.0
"""tilec.attention: checks the request and runs it for torch or numpy."""
import typing
import warnings

from . import (_attention, _captured, _dropout, _factors, _kvcache, _prepared,
               _sinks, _tensors, _texts)
from ._types import (AnyTensor, Captured, DType, Ints, Options, Scale, Seed,
                     Tensor, Value)


def _check_mod(name, mod):
    if mod is not None and not isinstance(mod, str):
        raise TypeError(
            "%s is a %s, expected text: an expression ('causal & "
            "sliding_window(w=1024)') or a function in tile IR" %
            (name, type(mod).__name__))
    _texts.encoded(mod, name)


# Arguments of other libraries' attention, and what to write here instead.
_ELSEWHERE = {
    "is_causal": 'mask_mod="causal", or tilec.scaled_dot_product_attention',
    "attn_mask": "tilec.scaled_dot_product_attention",
    "block_mask": "mask_mod: which blocks it leaves is found out",
    "return_aux": "return_lse=True, return_max=True",
    "s_aux": "sinks=",
    "learnable_sink": "sinks=",
}


def _check_names(captured):
    for name in captured:
        if name in _ELSEWHERE:
            raise TypeError("attention has no %s; in its place: %s" %
                            (name, _ELSEWHERE[name]))


def _scale(scale):
    """The scale as the library takes it: 0 means none."""
    if scale is None:
        return 0.0
    if getattr(scale, "requires_grad", False):
        raise ValueError("scale requires grad, and is a number here: multiply "
                         "query by it, or score in a score_mod")
    scale = float(scale)
    if scale != scale:
        raise ValueError("scale is nan, expected a number")
    return scale or 5e-324  # which is 0 in float32


def _check_shapes(q, k, v, enable_gqa):
    for name, t in (("query", q), ("key", k), ("value", v)):
        if len(t.shape) != 4:
            raise ValueError("%s has %d dims, expected 4: batch, heads, "
                             "length, dim" % (name, len(t.shape)))
        if _tensors.is_torch(t) != _tensors.is_torch(q):
            raise ValueError("%s is a %s, query a %s: expected the same" % (
                name, _tensors.library_of(t), _tensors.library_of(q)))
        if not _tensors.is_beside(t, q):
            raise ValueError("%s is on another device than query" % name)
        if t.dtype != q.dtype and not _tensors.has_8_bits(t):
            raise ValueError("%s is %s, query is %s: expected the same" %
                             (name, t.dtype, q.dtype))
    if k.shape[0] != q.shape[0] or v.shape[0] != q.shape[0]:
        raise ValueError("batches differ: query has %d, key %d, value %d" %
                         (q.shape[0], k.shape[0], v.shape[0]))
    if k.shape[3] != q.shape[3]:
        raise ValueError("head dims differ: query has %d, key %d" %
                         (q.shape[3], k.shape[3]))
    if tuple(k.shape[1:3]) != tuple(v.shape[1:3]):
        raise ValueError("key has %d heads of length %d, value %d of %d" %
                         (*k.shape[1:3], *v.shape[1:3]))
    if q.shape[1] == k.shape[1]:
        return
    if not enable_gqa:
        raise ValueError("query has %d heads, key and value %d: say "
                         "enable_gqa=True for grouped heads" %
                         (q.shape[1], k.shape[1]))
    if k.shape[1] == 0 or q.shape[1] % k.shape[1]:
        raise ValueError("query's %d heads are no multiple of the %d of key "
                         "and value" % (q.shape[1], k.shape[1]))


def _all_captured(captured, by_name):
    """The captured values of `captured` and of further keywords in one dict."""
    _check_names(by_name)
    if captured is None:
        return by_name
    if not isinstance(captured, dict):
        raise TypeError("captured is a %s, expected a dict by name" %
                        type(captured).__name__)
    return {**captured, **by_name}


def _deterministic(asked, q):
    if asked is None and _tensors.is_torch(q):
        import torch
        return torch.are_deterministic_algorithms_enabled()
    return bool(asked)


_warned = set()


def _warn_of(hints):
    """Warns of each name once, at the line that called attention."""
    for name in hints:
        if name not in _warned:
            _warned.add(name)
            warnings.warn("kernel_options: %s chooses among FlexAttention's "
                          "kernels, and changes nothing here" % name,
                          stacklevel=6)


def _options(given, out_dtype):
    if given is not None and not isinstance(given, dict):
        raise TypeError("kernel_options is a %s, expected a dict" %
                        type(given).__name__)
    options, hints = _texts.without_hints(given or {})
    if out_dtype is not None:
        options["out_dtype"] = _tensors.name_of(out_dtype, "out_dtype")
    text = _texts.options_text(options)
    if not _tensors.is_traced():
        _texts.options_of(text)  # its errors now, not out of an operator
        _warn_of(hints)
    return text


def _spec(q, k, v, score_mod, mask_mod, scale, enable_gqa, deterministic,
          out_dtype, kernel_options):
    """Checks the request; gives the first fields of an _attention.Spec."""
    _check_mod("score_mod", score_mod)
    _check_mod("mask_mod", mask_mod)
    _check_shapes(q, k, v, enable_gqa)
    return (score_mod or "", mask_mod or "", _scale(scale),
            _options(kernel_options, out_dtype),
            _deterministic(deterministic, q))


def _refuse_with_cache(given):
    for name, value in given.items():
        if value is not None and value is not False:
            raise ValueError("attention over a cache (kv_lens, page_table, ..) "
                             "has no %s" % name)


def _cache_spec(layout, places, piece, mask_mod, score_mod=None, scale=None,
                sinks=False, factors=()):
    _check_mod("score_mod", score_mod)
    _check_mod("mask_mod", mask_mod)
    return _kvcache.Spec(score_mod or "", mask_mod or "", _scale(scale), layout,
                         "cu_seqlens_q" in places, "query_offsets" in places,
                         int(piece), sinks, factors)


def with_cache(query, key, value, places, options, schedule, extras, captured):
    """options: score_mod, mask_mod, scale, piece, return_lse;
    extras: sinks, descale_k, descale_v."""
    global _torch
    score_mod, mask_mod, scale, piece, return_lse = options
    q, k, v, ints, layout, is_flat = _kvcache.inputs(query, key, value, places)
    if any(getattr(x, "requires_grad", False) for x in (q, k, v)):
        raise ValueError(_kvcache.NO_GRADIENTS)
    sinks = _sinks.given(q, extras[0]).get(_sinks.NAME)
    extra, kinds = _kvcache.factors_of(q, dict(zip(_kvcache.FACTORS,
                                                   extras[1:])))
    spec = _cache_spec(layout, ints, piece, mask_mod, score_mod, scale,
                       sinks is not None, kinds)
    if sinks is not None:
        extra["sinks"] = _tensors.cast(sinks, "float32")
    request = _kvcache.Request(
        q, k, v, ints, spec, [*_captured.given(captured, q).items()], extra,
        return_lse, is_flat)
    found, parts = _kvcache.attention(request, schedule)
    if _tensors.is_torch(q):
        from . import _torch
        _torch.cache.keep_attention(
            request, parts, found, query, key, value, places, options,
            schedule, extras, captured)
    return found


def _over_a_cache(query, key, value, places, options, schedule, extras,
                  captured):
    """o and perhaps lse; places: in the order of _kvcache.PLACES."""
    found = None if _torch is None else _torch.cache.attention(
        query, key, value, places, options, schedule, extras, captured)
    if found is not None:
        return found
    _check_names(captured)
    run = with_cache
    if _tensors.is_torch(query) and _is_watched():
        from ._torch import _cache_operator
        run = _cache_operator.attention
    return run(query, key, value, _kvcache.places(*places), options, schedule,
               extras, captured)


# ---- Attention that is prepared ----

_torch = None  # the module, when a torch tensor has come


def _is_watched():
    """Whether calls must be operators of torch."""
    from . import _torch
    return _torch.is_watched()


def _given(q, extras, captured):
    """{name: value} of all that a call captures: tensors of q's library, and
    numbers. extras: factors, sinks."""
    _check_names(captured)
    return {**_captured.given(captured, q), **_factors.given(q, extras[:4]),
            **_sinks.given(q, extras[4])}


def _attend(query, key, value, options, extras, captured, return_max):
    """Checks all, and runs it."""
    global _torch
    q = _tensors.adopt(query, "query")
    k = _tensors.adopt(key, "key")
    v = _tensors.adopt(value, "value")
    if _tensors.is_torch(q):
        from . import _torch
        q, k, v = _torch.autocast(q, k, v)
    spec = _spec(q, k, v, *options)
    given = _given(q, extras, captured)
    names, values = tuple(given), list(given.values())
    if not _tensors.is_torch(q):
        return _prepared.forward_for(_attention.Spec(*spec), q, k, v, names,
                                     values, return_max)(q, k, v, values)
    if not _torch.are_plain([q, k, v, *filter(_tensors.is_torch, values)]):
        return _torch.operator.forward(q, k, v, return_max, given, spec)
    spec = _attention.Spec(*spec)
    found = _torch.with_other_length(spec, q, k, v, names, options, extras,
                                     captured, return_max)
    if found is not None:
        return found
    ready = _prepared.forward_for(spec, q, k, v, names, values, return_max)
    found = _torch.run(ready, q, k, v, values)
    _torch.keep(ready, q, k, v, options, extras, captured, return_max)
    return found


def schedule(query: Tensor, key: Tensor, value: Tensor, *,
             kv_lens: typing.Optional[Ints] = None,
             page_table: typing.Optional[Ints] = None,
             kv_indptr: typing.Optional[Ints] = None,
             kv_indices: typing.Optional[Ints] = None,
             kv_last_page_len: typing.Optional[Ints] = None,
             cu_seqlens_q: typing.Optional[Ints] = None,
             cu_seqlens_k: typing.Optional[Ints] = None,
             query_offsets: typing.Optional[Ints] = None,
             piece: int = 0, mask_mod: typing.Optional[str] = None,
             captured: typing.Optional[Captured] = None,
             **captured_by_name: Value) -> _kvcache.Schedule:
    """How the keys of a batch are dealt to programs, for `schedule=` of all
    calls of tilec.attention with tensors of these shapes and lengths: those of
    the layers of a step. A small kernel on the device makes it. `.update()`
    makes it again from the same tensors, whose contents may have changed.

    mask_mod: only keys that this mask shows are dealt, as far as the compiler
    finds which: for calls with this mask, which captures the same values.
    Without it all keys are dealt, for calls with any mask."""
    places = _kvcache.places(kv_lens, page_table, kv_indptr, kv_indices,
                             kv_last_page_len, cu_seqlens_q, cu_seqlens_k,
                             query_offsets)
    q, k, v, ints, layout, _ = _kvcache.inputs(query, key, value, places)
    return _kvcache.schedule_for(q, k, v, ints, places,
                                 _cache_spec(layout, ints, piece, mask_mod),
                                 [*_captured.given(_all_captured(
                                     captured, captured_by_name), q).items()])


def attention(query: Tensor, key: Tensor, value: Tensor, *,
              score_mod: typing.Optional[str] = None,
              mask_mod: typing.Optional[str] = None,
              scale: typing.Optional[float] = None,
              enable_gqa: bool = False, return_lse: bool = False,
              return_max: bool = False,
              deterministic: typing.Optional[bool] = None,
              kernel_options: typing.Optional[Options] = None,
              captured: typing.Optional[Captured] = None,
              descale_q: typing.Optional[Scale] = None,
              descale_k: typing.Optional[Scale] = None,
              descale_v: typing.Optional[Scale] = None,
              scale_o: typing.Optional[Scale] = None,
              out_dtype: typing.Optional[DType] = None,
              sinks: typing.Optional[AnyTensor] = None,
              dropout_p: float = 0.0,
              dropout_seed: typing.Optional[Seed] = None,
              kv_lens: typing.Optional[Ints] = None,
              page_table: typing.Optional[Ints] = None,
              kv_indptr: typing.Optional[Ints] = None,
              kv_indices: typing.Optional[Ints] = None,
              kv_last_page_len: typing.Optional[Ints] = None,
              cu_seqlens_q: typing.Optional[Ints] = None,
              cu_seqlens_k: typing.Optional[Ints] = None,
              query_offsets: typing.Optional[Ints] = None,
              schedule: typing.Optional[_kvcache.Schedule] = None,
              piece: int = 0, **captured_by_name: Value
              ) -> typing.Union[Tensor, typing.Tuple[Tensor, ...]]:
    """softmax(score_mod(scale * query key^T) where mask_mod) value.

    query [B, HQ, M, D], key [B, HK, N, D], value [B, HK, N, DV], on the CPU or
    a GPU, of any lengths and strides: torch tensors or numpy arrays. Gives o
    [B, HQ, M, DV] in query's data type (bfloat16 if that has 8 bits), with its
    dims in query's order in memory; with return_lse also the logsumexp of each
    row [B, HQ, M] in float32, with return_max the largest modified score of
    each row. A query that sees no
    key gets o = 0 and lse = -inf.

    score_mod, mask_mod: text. An expression of the library's functions
        (`tilec.mods()`), "causal & sliding_window(w=1024)", "alibi, soft_cap(
        cap=30)"; or functions in tile IR, of which the last is the mod; or an
        expression and, on the lines after it, the functions that it names.
    scale: a factor of the scores; None: 1 / sqrt(D).
    enable_gqa: HQ may be a multiple of HK.
    deterministic: backward gives the same bits at every run; None: as
        torch.use_deterministic_algorithms says.
    kernel_options: a dict. FlexAttention's names (BLOCK_M, BLOCK_N, num_warps,
        num_stages, FLOAT32_PRECISION, .., with the prefix `fwd_` or `bwd_` for
        one direction); target ("sm_80"); threads (on the CPU); block_lists:
        whether a kernel lists the blocks that the mask leaves first (not
        given: if the compiler cannot tell which these are); enforce: "error"
        or "off" for a product that cannot take an operand in its order in
        memory; bindings and backward_bindings: dicts of the kernels'
        compile-time parameters. Tuned configurations choose the rest. Options
        that choose among FlexAttention's kernels (BACKEND, USE_TMA, ...) are
        warned of, once each, and change nothing.
    captured, or any further keyword: what the mods capture, tensors and
        numbers, by name: `slopes=t`, `w=1024`; {"mask.w": 5} where both mods
        capture a `w`. Another number needs no other compilation. Tensors of
        other types are converted, where that keeps their values (int64 to
        i32, bool to i8) or rounds float64 to f32; one of rank 0 may stand for
        a number.

    descale_q, descale_k, descale_v: scales of 8-bit numbers, in float32: a
        number, [H], [B, H] (of q also one for each batch and head of k), or
        [B, H, blocks], of blocks of a power of two of rows: `tilec.quantize`
        makes both.
    scale_o: a factor of o, in the same shapes but blocks.
    out_dtype: the data type of o. Backward computes with o in query's type.
    sinks: [HQ], a logit for each query head that joins the sum of exponentials
        of its rows, like the modified score of one more key whose value is 0.
        o and the logsumexp include it, the maximum does not; a query that sees
        no key has lse = its sink. In float32; other floats are converted.
    dropout_p: each weight is dropped with this probability, and the others are
        multiplied by 1 / (1 - dropout_p); lse and the maximum are those of all
        weights. Philox4x32-7 gives the random numbers.
    dropout_seed: int64 [1], or a number: the same seed drops the same weights.
        None, or a torch.Generator: drawn from torch's generator of the device
        or from that one (by torch.randint; numpy's where query is an array),
        so that torch.manual_seed repeats a run.

    key and value may have 8 bits (float8_e4m3fn, float8_e5m2) with any query;
    query may have 8 bits if they do. Products read 8-bit values by columns
    (`tilec.quantize(v, column_major=True)`); others are copied first if that
    is faster (kernel_options: COPY_VALUES).

    kv_lens, page_table, kv_indptr, kv_indices, kv_last_page_len, cu_seqlens_q,
        cu_seqlens_k: key and value are a cache (or several sequences one after
        the other), int32 tensors on query's device say where the keys of each
        sequence lie (docs/serving.md): lengths [B]; page_table [B, pages] with
        key [pages, HK, page, D]; or kv_indptr [B + 1], kv_indices and
        kv_last_page_len [B]; or cu_seqlens_k [B + 1] with key [T, HK, D].
        cu_seqlens_q [B + 1]: query is [T, HQ, D]. Mods see query i of M as at
        position N - M + i of a sequence's N keys, or with query_offsets [B] at
        query_offsets[b] + i. Forward only. descale_k and descale_v are then numbers, [HK], or of each row of the cache, as
        `tilec.append` writes them: [B or pages, HK, N or page].
    schedule: of `tilec.schedule`, for all layers of a step.
    piece: keys of a piece, a multiple of 128: a sequence's bits then do not
        depend on what else is in the batch.

    Differentiable in torch: with respect to query, key, value, sinks and
    captured float tensors of score mods, and through the logsumexp. Once, and
    backward: forward-mode derivatives and second ones are refused. torch.func's
    grad, vjp and jacrev, torch.vmap and meta tensors work. Under
    torch.autocast query, key and value are cast as those of
    scaled_dot_product_attention are.

    Compiles at the first call for some data types, head dims and mods; lengths,
    batch and heads may then change freely. May be called from any thread, in
    torch.compile, and, after a first call outside, while a CUDA graph is
    captured. Raises ValueError (tilec.Error where the library has something
    to say: its `diagnostics` have places) and tilec.MachineError.
    """
    if not (kv_lens is page_table is kv_indptr is kv_indices is
            kv_last_page_len is cu_seqlens_q is cu_seqlens_k is
            query_offsets is None):
        if not (return_max is False and descale_q is scale_o is out_dtype is
                kernel_options is None and not dropout_p):
            _refuse_with_cache(dict(
                return_max=return_max, descale_q=descale_q, scale_o=scale_o,
                out_dtype=out_dtype, kernel_options=kernel_options,
                dropout_p=dropout_p or None))
        found = _over_a_cache(
            query, key, value, (kv_lens, page_table, kv_indptr, kv_indices,
                                kv_last_page_len, cu_seqlens_q, cu_seqlens_k,
                                query_offsets),
            (score_mod, mask_mod, scale, piece, return_lse), schedule,
            (sinks, descale_k, descale_v), captured_by_name
            if captured is None else _all_captured(captured, captured_by_name))
        return tuple(found) if return_lse else found[0]
    extras = descale_q, descale_k, descale_v, scale_o, sinks
    options = (score_mod, mask_mod, scale, enable_gqa, deterministic,
               out_dtype, kernel_options)
    if captured is not None:
        captured_by_name = _all_captured(captured, captured_by_name)
    if dropout_p:
        captured_by_name.update(_dropout.given(
            _tensors.adopt(query, "query"), dropout_p, dropout_seed))
    found = None if _torch is None else _torch.repeated(
        query, key, value, options, extras, captured_by_name, return_max)
    if found is None:
        found = _attend(query, key, value, options, extras, captured_by_name,
                        return_max)
    if return_lse or return_max:
        return (found[0], *([found[1]] if return_lse else []),
                *([found[2]] if return_max else []))
    return found[0]


def _with_gradients(kernel_options, dtype, q):
    """kernel_options for gradients in that type."""
    name = _tensors.name_of(dtype, "grad_dtype")
    if name == _tensors.dtype_name(q):
        return kernel_options
    if name != "float32":
        raise ValueError("grad_dtype is %s, expected float32 or query's, %s" % (
            name, q.dtype))
    options = dict(kernel_options or {})
    options["backward_bindings"] = {
        **options.get("backward_bindings", {}),
        _texts.GRADIENTS: _texts.O_TYPES[name]}
    return options


def attention_backward(dout: Tensor, query: Tensor, key: Tensor,
                       value: Tensor, o: Tensor, lse: Tensor, *,
                       dlse: typing.Optional[Tensor] = None,
                       gradients: typing.Iterable[str] = (),
                       score_mod: typing.Optional[str] = None,
                       mask_mod: typing.Optional[str] = None,
                       scale: typing.Optional[float] = None,
                       enable_gqa: bool = False,
                       deterministic: typing.Optional[bool] = None,
                       kernel_options: typing.Optional[Options] = None,
                       captured: typing.Optional[Captured] = None,
                       sinks: typing.Optional[AnyTensor] = None,
                       dropout_p: float = 0.0,
                       dropout_seed: typing.Optional[Seed] = None,
                       grad_dtype: typing.Optional[DType] = None,
                       **captured_by_name: Value
                       ) -> typing.Tuple[Tensor, Tensor, Tensor,
                                         typing.Dict[str, Tensor]]:
    """The gradients of `attention`, for numpy arrays, or by hand.

    dout, dlse: the gradients of o and lse (None: zero). o, lse: what
    `attention(..., return_lse=True)` gave. gradients: the names of captured
    values whose gradients are wanted, "sinks" among them. All else as for
    `attention`; with dropout_p dropout_seed is needed. Gives dq, dk, dv and
    {name: gradient in float32}.

    key and value may be a part of the keys: with o, lse, dout and dlse of whole
    rows the gradients of all parts add up to those of the whole. grad_dtype:
    the data type of dq, dk and dv, for such sums; None: query's.
    """
    q = _tensors.adopt(query, "query")
    k = _tensors.adopt(key, "key")
    v = _tensors.adopt(value, "value")
    if grad_dtype is not None:
        kernel_options = _with_gradients(kernel_options, grad_dtype, q)
    spec = _spec(q, k, v, score_mod, mask_mod, scale, enable_gqa,
                 deterministic, None, kernel_options)
    values = dict(_all_captured(captured, captured_by_name))
    if dropout_p:
        if dropout_seed is None:
            raise ValueError("dropout_p without dropout_seed: expected the "
                             "seed that attention was given")
        values.update(_dropout.given(q, dropout_p, dropout_seed))
    given = _given(q, (None, None, None, None, sinks), values)
    if isinstance(gradients, str):
        raise TypeError("gradients is one text, expected a list of names")
    dq, dk, dv, found = _prepared.backward(
        _attention.Spec(*spec), _attention.ready, q, k, v,
        _tensors.adopt(o, "o"), _tensors.adopt(lse, "lse"),
        _tensors.adopt(dout, "dout"),
        None if dlse is None else _tensors.adopt(dlse, "dlse"),
        tuple(given), list(given.values()),
        tuple(_sinks.in_kernel(gradients, sinks)))
    return dq, dk, dv, {_sinks.said(n): x for n, x in found.items()}
