#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attention under the names of other libraries: torch's and flash-attn's.

    TILEC_LIBRARY=build/libtilec.so python3 test/gpu/torch_names.py
        [--device cpu] [--only TEXT] [--seed N]

Results and gradients against attention with all scores in float64, by the
definitions of those libraries' documentation. Exit status 77: no torch, or no
such device.
"""
import inspect
import itertools
import math

import torch_cases  # first: finds tilec, and ends where there is no torch

import tilec
import torch
from tilec import flash_attn
from torch_cases import refused

INF = math.inf


def near(x, y, most=2e-6, floor=1e-9):
    assert x.shape == y.shape, "%s, expected %s" % (x.shape, y.shape)
    x, y = x.double(), y.double()
    infinite = y.isinf()
    assert torch.equal(x[infinite], y[infinite]), "other infinities"
    x, y = x.masked_fill(infinite, 0), y.masked_fill(infinite, 0)
    off = (x - y).norm().item()
    assert off <= most * max(y.norm().item(), floor), "off by %g of %g" % (
        off, y.norm().item())


def randn(device, *shape, grad=True):
    return torch.randn(*shape).to(device).requires_grad_(grad)


def check(got, want, leaves, most=2e-6):
    """Equal results, and gradients of random sums of them."""
    got, want = ([x] if isinstance(x, torch.Tensor) else list(x)
                 for x in (got, want))
    sums = []
    for a, b in zip(got, want):
        near(a, b, most)
        w = torch.randn(a.shape, dtype=torch.float64).to(a.device)
        finite = torch.isfinite(b)
        sums.append(((a.double() * w)[finite].sum(), (b * w)[finite].sum()))
    ours = torch.autograd.grad(sum(a for a, _ in sums), leaves)
    wanted = torch.autograd.grad(sum(b for _, b in sums), leaves)
    for x, y in zip(ours, wanted):  # some are 0: of a bias of whole rows
        near(x, y, 2 * most, wanted[0].norm().item())


# ---- torch.nn.functional.scaled_dot_product_attention ----


def sdpa(q, k, v, attn_mask=None, is_causal=False, scale=None,
         enable_gqa=False):
    """By the program in torch's documentation; a row that sees nothing is 0."""
    q, k, v = q.double(), k.double(), v.double()
    if enable_gqa:
        k, v = (x.repeat_interleave(q.shape[-3] // k.shape[-3], -3)
                for x in (k, v))
    s = q @ k.transpose(-2, -1) * (scale or q.shape[-1] ** -0.5)
    if is_causal:
        attn_mask = torch.ones(s.shape[-2:], dtype=torch.bool,
                               device=s.device).tril()
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        s = s.masked_fill(~attn_mask, -INF)
    elif attn_mask is not None:
        s = s + attn_mask.double()
    p = s.softmax(-1).masked_fill((s == -INF).all(-1, keepdim=True), 0)
    return p @ v


def test_sdpa_masks(device):
    """Each way in which a mask broadcasts, of either kind."""
    b, h, m, n = 2, 4, 37, 70
    q, k, v = (randn(device, b, x, y, 32) for x, y in ((h, m), (2, n), (2, n)))
    shapes = [(m, n), (n,), (m, 1), (1, n), (b, 1, 1, n), (b, 1, m, n),
              (h, m, n), (b, h, m, n), (1, h, 1, 1)]
    for shape, floats in itertools.product(shapes, (False, True)):
        mask = (randn(device, *shape) if floats else
                torch.rand(*shape).to(device) < 0.7)
        options = dict(attn_mask=mask, enable_gqa=True, scale=0.3)
        leaves = [q, k, v] + [mask] * floats
        check(tilec.scaled_dot_product_attention(q, k, v, **options),
              sdpa(q, k, v, **options), leaves)


def test_sdpa_half_mask(device):
    """Masks in 16 bits, with -inf, and rows that see nothing."""
    q, k, v = (randn(device, 2, 2, 33, 32, grad=False) for _ in range(3))
    for dtype in (torch.bfloat16, torch.float16):
        mask = torch.where(torch.rand(33, 33) < 0.5, 0.25, -INF)
        mask[5] = -INF
        mask = mask.to(device, dtype)
        near(tilec.scaled_dot_product_attention(q, k, v, mask),
             sdpa(q, k, v, mask))


def test_sdpa_dims(device):
    """[L, E], [N, L, E], five dims; is_causal is top-left."""
    for lead in ((), (3,), (2, 3), (2, 2, 3)):
        q, k, v = (randn(device, *lead, m, 16) for m in (20, 45, 45))
        for causal in (False, True):
            check(tilec.scaled_dot_product_attention(q, k, v,
                                                     is_causal=causal),
                  sdpa(q, k, v, is_causal=causal), [q, k, v])


def test_sdpa_is_torchs(device):
    """Positional arguments as torch's."""
    q, k, v = (randn(device, 2, 3, 20, 16, grad=False) for _ in range(3))
    mask = torch.rand(20, 20).to(device) < 0.8
    mask[:, 0] = True
    near(tilec.scaled_dot_product_attention(q, k, v, mask, 0.0, False,
                                            scale=0.1),
         torch.nn.functional.scaled_dot_product_attention(
             q, k, v, mask, 0.0, False, scale=0.1), 1e-5)


def test_sdpa_refuses(device):
    q = randn(device, 1, 2, 5, 16, grad=False)
    attend = tilec.scaled_dot_product_attention
    ones = torch.ones(5, 5, dtype=torch.bool, device=device)
    refused(ValueError, "both given",
            lambda: attend(q, q, q, ones, is_causal=True))
    refused(ValueError, "does not broadcast", lambda: attend(q, q, q, ones[:4]))
    refused(ValueError, "attn_mask is torch.int64",
            lambda: attend(q, q, q, ones.long()))
    refused(ValueError, "at least 2", lambda: attend(q[0, 0, 0], q, q))


# ---- Dropout ----


def weights_kept(q, k, p, call):
    """Which weights a call drops: those that are 0 of the unit matrix."""
    b, _, n, _ = k.shape
    unit = torch.eye(n).to(q.device, q.dtype).expand(b, k.shape[1], n, n)
    return call(q.detach(), k.detach(), unit) != 0


def dropped_out(q, k, v, keep, p):
    q, k, v = q.double(), k.double(), v.double()
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    weights = (q @ k.transpose(2, 3) * q.shape[3] ** -0.5).softmax(-1)
    return (weights * keep / (1 - p)) @ v


def test_dropout(device):
    """Gradients of what torch's seed drops; the rate; another call, others."""
    p = 0.2
    q, k, v = (randn(device, 2, *x, 32) for x in ((4, 70), (2, 96), (2, 96)))

    def attend(*t):
        return tilec.scaled_dot_product_attention(*t, None, p, enable_gqa=True)

    torch.manual_seed(3)
    keep = weights_kept(q, k, p, attend)
    assert abs(keep.double().mean().item() - (1 - p)) < 0.02
    torch.manual_seed(3)
    o = attend(q, k, v)
    again = attend(q, k, v)
    check(o, dropped_out(q, k, v, keep, p), [q, k, v])
    assert (again - o).norm() > 0.1 * o.norm()


def test_dropout_half(device):
    """In 16 bits, by tensor cores on a GPU: as exact as torch's own attention
    with the same weights dropped."""
    p = 0.1
    for d, dtype in itertools.product((64, 128), (torch.bfloat16,
                                                  torch.float16)):
        q, k, v = (torch.randn(2, h, 256, d).to(device, dtype)
                   for h in (4, 2, 2))
        for seed, options in enumerate((dict(), dict(mask_mod="causal"),
                                        dict(deterministic=True))):
            def attend(*t):
                return tilec.attention(*t, enable_gqa=True, dropout_p=p,
                                       dropout_seed=seed, **options)
            keep = weights_kept(q, k, p, attend)
            if options.get("mask_mod"):
                s = (q.double() @ k.double().repeat_interleave(
                    2, 1).transpose(2, 3) * d ** -0.5)
                tril = torch.ones_like(s).tril().bool()
                weights = s.masked_fill(~tril, -INF).softmax(-1)
                want = (weights * keep / (1 - p)) @ v.double(
                    ).repeat_interleave(2, 1)
                near(attend(q, k, v), want, 1e-2)
                continue
            leaves = [x.clone().requires_grad_() for x in (q, k, v)]
            check(attend(*leaves), dropped_out(*leaves, keep, p), leaves, 1e-2)


def test_dropout_seeds(device):
    """Generators, numbers, recomputation by checkpoints, torch.compile."""
    q, k, v = (randn(device, 1, 2, 40, 32) for _ in range(3))

    def attend(q, seed=None):
        return tilec.attention(q, k, v, dropout_p=0.5, dropout_seed=seed)

    for kind in {device, "cpu"}:
        first, second = (attend(q, torch.Generator(kind).manual_seed(4))
                         for _ in range(2))
        assert torch.equal(first, second)
    seed = torch.tensor([7], device=device)
    assert torch.equal(attend(q, 7), attend(q, seed))
    for _ in range(3):  # repeated calls are prepared ones
        assert torch.equal(attend(q, seed), attend(q, 7))
        seed, want = seed + 2**32, attend(q, 7 + 2**32)
        assert torch.equal(attend(q, seed), want)
        seed = seed - 2**32
    torch.manual_seed(1)
    plain, = torch.autograd.grad(attend(q).square().sum(), q)
    torch.manual_seed(1)
    from torch.utils.checkpoint import checkpoint
    again, = torch.autograd.grad(
        checkpoint(attend, q, use_reentrant=False).square().sum(), q)
    assert torch.equal(plain, again)
    compiled = torch.compile(attend, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(q, seed), attend(q, seed))
    o = compiled(q)
    assert o.isfinite().all() and not torch.equal(o, compiled(q))
    refused(ValueError, "expected 0 to 1",
            lambda: tilec.attention(q, k, v, dropout_p=2))


def test_dropout_flash(device):
    """flash-attn's, dense and packed."""
    q, k, v = (randn(device, 2, 33, 2, 32) for _ in range(3))
    p, seed = 0.3, 11
    torch.manual_seed(seed)
    keep = weights_kept(
        q.transpose(1, 2), k.transpose(1, 2), p,
        lambda q, k, v: flash_attn.flash_attn_func(
            *(x.transpose(1, 2) for x in (q, k, v)), p).transpose(1, 2))
    torch.manual_seed(seed)
    want = dropped_out(*(x.transpose(1, 2) for x in (q, k, v)), keep, p)
    check(flash_attn.flash_attn_func(q, k, v, p), want.transpose(1, 2),
          [q, k, v])
    starts = starts_of([33], device)
    torch.manual_seed(seed)
    near(flash_attn.flash_attn_varlen_func(q[0], k[0], v[0], starts, starts, 33,
                                           33, p), want[0].transpose(0, 1))


# ---- flash-attn ----


def flash(q, k, v, causal=False, window_size=(-1, -1), softcap=0.0,
          alibi_slopes=None, softmax_scale=None, attention_chunk=0, **_):
    """[B, M, H, D] by flash-attn's documentation: o, lse."""
    q, k, v = (x.double().transpose(1, 2) for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    m, n = q.shape[2], k.shape[2]
    i = torch.arange(m, device=q.device)[:, None] + n - m
    j = torch.arange(n, device=q.device)
    s = q @ k.transpose(2, 3) * (softmax_scale or q.shape[3] ** -0.5)
    if softcap:
        s = softcap * torch.tanh(s / softcap)
    if alibi_slopes is not None:
        slopes = alibi_slopes.double()
        slopes = slopes if slopes.dim() == 2 else slopes[None]
        s = s - slopes[:, :, None, None] * (i - j).abs()
    left, right = window_size
    right = 0 if causal else right
    if left >= 0:
        s = s.masked_fill(j < i - left, -INF)
    if right >= 0:
        s = s.masked_fill(j > i + right, -INF)
    if attention_chunk:
        s = s.masked_fill(i // attention_chunk != j // attention_chunk, -INF)
    lse = torch.logsumexp(s, -1)
    p = torch.exp(s - lse.masked_fill(lse == -INF, 0)[..., None])
    return (p @ v).transpose(1, 2), lse


def variants(device, b, h):
    slopes = torch.rand(h).to(device) * 0.2
    yield {}
    yield dict(causal=True)
    yield dict(causal=True, softcap=3.0, softmax_scale=0.4)
    yield dict(window_size=(9, 4))
    yield dict(causal=True, window_size=(11, 5))
    yield dict(causal=True, attention_chunk=8)
    yield dict(window_size=(9, 4), attention_chunk=7, alibi_slopes=slopes)
    yield dict(window_size=(-1, 6), alibi_slopes=slopes)
    yield dict(causal=True, alibi_slopes=slopes, softcap=5.0)
    yield dict(alibi_slopes=torch.rand(b, h).to(device))


def test_flash_dense(device):
    b, h = 2, 4
    for m, n in ((40, 40), (21, 50), (50, 21)):
        q, k, v = (randn(device, b, *x, 32) for x in ((m, h), (n, 2), (n, 2)))
        for options in variants(device, b, h):
            got = flash_attn.flash_attn_func(q, k, v, return_attn_probs=True,
                                             **options)
            assert got[2] is None and got[0].is_contiguous()
            check(got[:2], flash(q, k, v, **options), [q, k, v])


def test_flash_packed_tensors(device):
    qkv = randn(device, 2, 30, 3, 4, 16)
    check(flash_attn.flash_attn_qkvpacked_func(qkv, causal=True),
          flash(*qkv.unbind(2), causal=True)[0], [qkv])
    q, kv = randn(device, 2, 12, 4, 16), randn(device, 2, 30, 2, 2, 16)
    check(flash_attn.flash_attn_kvpacked_func(q, kv, 0.0, 0.5, True),
          flash(q, *kv.unbind(2), causal=True, softmax_scale=0.5)[0], [q, kv])


def starts_of(lengths, device):
    return torch.tensor([0, *itertools.accumulate(lengths)],
                        dtype=torch.int32, device=device)


def flash_each(q, k, v, lq, lk, **options):
    """Sequence by sequence: o [T, H, DV], lse [H, T]."""
    slopes = options.pop("alibi_slopes", None)
    found, a, c = [], 0, 0
    for i, (x, y) in enumerate(zip(lq, lk)):
        if slopes is not None:
            options["alibi_slopes"] = slopes if slopes.dim() == 1 else \
                slopes[i:i + 1]
        found.append(flash(q[None, a:a + x], k[None, c:c + y],
                           v[None, c:c + y], **options))
        a, c = a + x, c + y
    return (torch.cat([o[0] for o, _ in found]),
            torch.cat([lse[0] for _, lse in found], 1))


def test_flash_varlen(device):
    """Sequences without keys or queries too."""
    h = 4
    for lq, lk in (([30, 1, 0, 44], [30, 17, 9, 44]), ([25, 3], [9, 0])):
        q = randn(device, sum(lq), h, 32)
        k, v = (randn(device, sum(lk), 2, 32) for _ in "kv")
        for options in variants(device, len(lq), h):
            if options.get("alibi_slopes", q[0]).dim() == 2 and \
                    "alibi_slopes" in options:
                continue
            got = flash_attn.flash_attn_varlen_func(
                q, k, v, starts_of(lq, device), starts_of(lk, device), max(lq),
                max(lk), return_attn_probs=True, **options)
            check(got[:2], flash_each(q, k, v, lq, lk, **options), [q, k, v])


def test_flash_varlen_self(device):
    """One tensor of starts for both."""
    lengths = [30, 5, 1, 44]
    qkv = randn(device, sum(lengths), 3, 4, 32)
    for options in variants(device, 4, 4):
        if options.get("alibi_slopes", qkv[0, 0, 0]).dim() == 2:
            continue
        got = flash_attn.flash_attn_varlen_qkvpacked_func(
            qkv, starts_of(lengths, device), max(lengths), **options)
        want, _ = flash_each(*qkv.unbind(1), lengths, lengths, **options)
        check(got, want, [qkv])


def test_flash_varlen_few_and_many_queries(device):
    """Without gradients: attention over a cache."""
    for lq, lk in (([1, 7, 0, 3], [300, 50, 9, 0]),
                   ([700, 0, 1300, 77], [700, 9, 1100, 0])):
        q = randn(device, sum(lq), 4, 32, grad=False)
        kv = randn(device, sum(lk), 2, 2, 32, grad=False)
        for options in variants(device, 4, 4):
            got = flash_attn.flash_attn_varlen_kvpacked_func(
                q, kv, starts_of(lq, device), starts_of(lk, device), max(lq),
                max(lk), return_attn_probs=True, **options)
            want = flash_each(q, *kv.unbind(1), lq, lk, **options)
            for x, y in zip(got, want):
                near(x, y)


def paged(rows, page, device):
    """[B, N, H, D] as pages in another order, and their table."""
    b, n, h, d = rows.shape
    count = -(-n // page)
    table = torch.randperm(b * count + 3)[:b * count].reshape(b, count)
    pool = torch.randn(b * count + 3, page, h, d).to(device)
    for i, at in itertools.product(range(b), range(count)):
        part = rows[i, at * page:(at + 1) * page]
        pool[table[i, at], :len(part)] = part
    return pool, table.to(device, torch.int32)


def rotated(x, cos, sin, positions, interleaved):
    """x [B, M, H, D] rotated to positions [B, M]."""
    c, s = (t.double()[positions][:, :, None] for t in (cos, sin))
    r = c.shape[-1]
    head, rest = x.double()[..., :2 * r], x.double()[..., 2 * r:]
    if interleaved:
        a, b = head[..., ::2], head[..., 1::2]
        y = torch.stack([a * c - b * s, a * s + b * c], -1).flatten(-2)
    else:
        a, b = head.chunk(2, -1)
        y = torch.cat([a * c - b * s, a * s + b * c], -1)
    return torch.cat([y, rest], -1)


def cached(q, caches, lens, leftpad=None, **options):
    """Each sequence of the batch alone: o, lse."""
    found = []
    for i, n in enumerate(lens):
        first = 0 if leftpad is None else leftpad[i]
        slopes = options.get("alibi_slopes")
        own = dict(options)
        if slopes is not None and slopes.dim() == 2:
            own["alibi_slopes"] = slopes[i:i + 1]
        found.append(flash(q[i:i + 1],
                           *(x[i:i + 1, first:n] for x in caches), **own))
    return [torch.cat(x) for x in zip(*found)]


def test_flash_cache(device):
    """Dense and paged caches, with and without new keys."""
    b, n, h, d, new = 3, 70, 4, 32, 3
    lens = [40, 0, 67]
    for page, options in itertools.product((None, 16),
                                           variants(device, b, h)):
        q = randn(device, b, new, h, d, grad=False)
        k, v = (randn(device, b, new, 2, d, grad=False) for _ in "kv")
        rows = [randn(device, b, n, 2, d, grad=False) for _ in "kv"]
        caches, places = [x.clone() for x in rows], {}
        if page:
            torch.manual_seed(1)
            caches[0], places["block_table"] = paged(rows[0], page, device)
            torch.manual_seed(1)
            caches[1], _ = paged(rows[1], page, device)
        full = [x.clone() for x in rows]
        for i, at in enumerate(lens):
            for x, y in zip(full, (k, v)):
                x[i, at:at + new] = y[i]
        seqlens = torch.tensor(lens, dtype=torch.int32, device=device)
        got = flash_attn.flash_attn_with_kvcache(
            q, *caches, k, v, cache_seqlens=seqlens, return_softmax_lse=True,
            **places, **options)
        want = cached(q, full, [x + new for x in lens], **options)
        for x, y in zip(got, want):
            near(x, y)
        # They are in the cache now.
        again = flash_attn.flash_attn_with_kvcache(
            q, *caches, cache_seqlens=seqlens + new, **places, **options)
        assert torch.equal(again, got[0])


def test_flash_cache_rotary(device):
    b, n, h, d, new = 2, 60, 4, 32, 4
    lens, pads = [30, 11], [5, 0]
    angle = torch.arange(n)[:, None] * 100 ** (-torch.arange(12) / 12)
    cos, sin = angle.cos().to(device), angle.sin().to(device)
    for interleaved, leftpad in itertools.product((True, False),
                                                  (None, pads)):
        q = randn(device, b, new, h, d, grad=False)
        k, v = (randn(device, b, new, 2, d, grad=False) for _ in "kv")
        rows = [randn(device, b, n, 2, d, grad=False) for _ in "kv"]
        at = torch.tensor(lens)[:, None] + torch.arange(new)
        if leftpad:
            at = at - torch.tensor(leftpad)[:, None]
        at = at.to(device)
        want_q, want_k = (rotated(x, cos, sin, at, interleaved)
                          for x in (q, k))
        full = [x.double() for x in rows]
        for i, first in enumerate(lens):
            full[0][i, first:first + new] = want_k[i]
            full[1][i, first:first + new] = v[i].double()
        got = flash_attn.flash_attn_with_kvcache(
            q, *rows, k, v, cos, sin, torch.tensor(lens, device=device),
            cache_leftpad=None if leftpad is None else torch.tensor(
                leftpad, dtype=torch.int32, device=device),
            causal=True, rotary_interleaved=interleaved)
        near(got, cached(want_q, full, [x + new for x in lens], leftpad,
                         causal=True)[0])


def test_flash_cache_places(device):
    """Rows by index; lengths as a number, or none; more rows than queries."""
    q = randn(device, 2, 1, 4, 32, grad=False)
    rows = [randn(device, 5, 33, 2, 32, grad=False) for _ in "kv"]
    pick = torch.tensor([3, 1], device=device)
    picked = [x[pick] for x in rows]
    near(flash_attn.flash_attn_with_kvcache(
        q, *rows, cache_batch_idx=pick, cache_seqlens=20),
        cached(q, picked, [20, 20])[0])
    near(flash_attn.flash_attn_with_kvcache(q, *rows),
         cached(q, rows, [33, 33])[0])
    pads = torch.tensor([3, 30], dtype=torch.int32, device=device)
    for chunk in (0, 4):
        near(flash_attn.flash_attn_with_kvcache(
            q, *rows, cache_leftpad=pads, attention_chunk=chunk),
            cached(q, rows, [33, 33], [3, 30], attention_chunk=chunk)[0])


def test_flash_cache_ragged(device):
    """flash-attn 3: queries and new keys of several lengths."""
    lq = [3, 0, 5]
    starts = starts_of(lq, device)
    lens = torch.tensor([10, 4, 0], device=device)
    q = randn(device, sum(lq), 4, 32, grad=False)
    k, v = (randn(device, sum(lq), 2, 32, grad=False) for _ in "kv")
    rows = [randn(device, 3, 20, 2, 32, grad=False) for _ in "kv"]
    full = [torch.cat([torch.cat([x[i, :n], new[starts[i]:starts[i + 1]]])
                       for i, n in enumerate([10, 4, 0])])
            for x, new in zip(rows, (k, v))]
    got = flash_attn.flash_attn_with_kvcache(
        q, *rows, k, v, cache_seqlens=lens, cu_seqlens_q=starts,
        cu_seqlens_k_new=starts, causal=True, return_softmax_lse=True)
    for x, y in zip(got, flash_each(q, *full, lq, [13, 4, 5], causal=True)):
        near(x, y)


def test_flash_paged_varlen(device):
    lq, lk = [20, 3], [40, 33]
    q = randn(device, sum(lq), 4, 32, grad=False)
    rows = [randn(device, 2, 48, 2, 32, grad=False) for _ in "kv"]
    torch.manual_seed(1)
    k, table = paged(rows[0], 16, device)
    torch.manual_seed(1)
    v, _ = paged(rows[1], 16, device)
    flat = [torch.cat([x[i, :n] for i, n in enumerate(lk)]) for x in rows]
    want = flash_each(q, *flat, lq, lk, causal=True)[0]
    starts, used = starts_of(lk, device), torch.tensor(
        lk, dtype=torch.int32, device=device)
    for starts, more in ((starts, {}), (None, dict(seqused_k=used))):
        near(flash_attn.flash_attn_varlen_func(
            q, k, v, starts_of(lq, device), starts, 20, 40, causal=True,
            block_table=table, **more), want)


def test_flash_refuses(device):
    q = randn(device, 1, 5, 2, 16, grad=False)
    attend = flash_attn.flash_attn_func
    refused(ValueError, "attention_chunk is -4, expected",
            lambda: attend(q, q, q, attention_chunk=-4))
    refused(NotImplementedError, "tilec has no seqused_k", lambda:
            flash_attn.flash_attn_varlen_func(
                q[0], q[0], q[0], starts_of([5], device),
                starts_of([5], device), 5, 5, seqused_k=q))
    refused(NotImplementedError, "tilec has no qv", lambda: attend(
        q, q, q, qv=q))
    refused(ValueError, "alibi_slopes has 3 dims", lambda: attend(
        q, q, q, alibi_slopes=q[0]))
    refused(ValueError, "expected [batch, length, heads, head dim]",
            lambda: attend(q[0], q, q))
    starts = starts_of([5], device)
    for kind, text, of_q, of_k in (
            (TypeError, "cu_seqlens_q is a list", [0, 5], starts),
            (TypeError, "cu_seqlens_k is a NoneType", starts, None),
            (ValueError, "cu_seqlens_q is torch.float32 of shape (2,)",
             starts.float(), starts),
            (ValueError, "cu_seqlens_k is torch.int32 of shape (1, 2)",
             starts, starts[None]),
            (ValueError, "cu_seqlens_q has 2 numbers, cu_seqlens_k 1",
             starts, starts[:1])):
        refused(kind, text, lambda: flash_attn.flash_attn_varlen_func(
            q[0], q[0], q[0], of_q, of_k, 5, 5))
    refused(ValueError, "k is given, and v is not",
            lambda: flash_attn.flash_attn_with_kvcache(q, q, q, q))
    # After a call whose k and v are alike but for their length.
    for n in (1, 2):
        tilec.attention(q, q[:, :, :n], q[:, :, :n])
    refused(ValueError, "query has 3 dims, expected 4",
            lambda: tilec.attention(q[0], q[0], q[0]))
    refused(ValueError, "rotary_cos is given, and k is not",
            lambda: flash_attn.flash_attn_with_kvcache(
                q, q, q, rotary_cos=q, rotary_sin=q))


# ---- Signatures ----

# Those of flash-attn 2, by position.
FLASH = {
    "flash_attn_func":
        "q k v dropout_p softmax_scale causal window_size softcap alibi_slopes "
        "deterministic return_attn_probs",
    "flash_attn_varlen_func":
        "q k v cu_seqlens_q cu_seqlens_k max_seqlen_q max_seqlen_k dropout_p "
        "softmax_scale causal window_size softcap alibi_slopes deterministic "
        "return_attn_probs block_table",
    "flash_attn_with_kvcache":
        "q k_cache v_cache k v rotary_cos rotary_sin cache_seqlens "
        "cache_batch_idx cache_leftpad block_table softmax_scale causal "
        "window_size softcap rotary_interleaved alibi_slopes num_splits "
        "return_softmax_lse"}
SDPA = "query key value attn_mask dropout_p is_causal"  # then by keyword alone


def positional(f):
    return [p.name for p in inspect.signature(f).parameters.values()
            if p.kind is p.POSITIONAL_OR_KEYWORD]


def test_signatures(device):
    """Arguments by position and by name are those of the other libraries."""
    for name, names in FLASH.items():
        assert positional(getattr(flash_attn, name)) == names.split(), name
    sdpa = tilec.scaled_dot_product_attention
    assert positional(sdpa)[:6] == SDPA.split()
    assert {"scale", "enable_gqa"} <= set(inspect.signature(sdpa).parameters)
    from torch.nn.attention import flex_attention as torchs
    from tilec import flex_attention as ours
    for name in ("flex_attention", "create_block_mask", "create_mask",
                 "and_masks", "or_masks", "noop_mask"):
        want, got = (inspect.signature(getattr(x, name)).parameters
                     for x in (torchs, ours))
        # Later versions of torch have more, which ours takes by name.
        known = [p for p in want if p in got]
        assert list(got)[:len(known)] == known, name
        assert known == list(want) or any(
            p.kind == p.VAR_KEYWORD for p in got.values()), name
        for p in known:
            assert got[p].kind == want[p].kind, (name, p)
            assert (got[p].default is inspect.Parameter.empty) == (
                want[p].default is inspect.Parameter.empty), (name, p)
        for p in list(got)[len(known):]:  # of later versions of torch
            assert got[p].kind == got[p].VAR_KEYWORD or \
                got[p].default is not inspect.Parameter.empty, (name, p)


TESTS = [f for name, f in sorted(globals().items())
         if name.startswith("test_")]


def main():
    args = torch_cases.parse(torch_cases.parser(__doc__))
    torch.manual_seed(args.seed)
    torch_cases.run([(f.__name__, lambda f=f: f(args.device))
                     for f in TESTS], args)


if __name__ == "__main__":
    main()
