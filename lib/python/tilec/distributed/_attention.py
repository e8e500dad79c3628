# SPDX-License-Identifier: Apache-2.0
"""tilec.distributed.attention: the call, its checks, its gradients."""
import typing

import torch
from torch import Tensor

from .. import _api
from .._types import Captured, Mod, Options, Value
from . import _group, _heads, _mods, _parts, _plan, _ring, _sharding

STRATEGIES = ("all_gather", "heads", "ring")
_GATHERED_BYTES = 2 << 30  # of all keys and values: more go around a ring


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, request, sinks, q, k, v, *values):
        o, lse = _ring.forward(request, q, k, v,
                               None if sinks is None else sinks.detach())
        ctx.request = request
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(q, k, v, o, lse, sinks, *values)
        return o, lse

    @staticmethod
    def backward(ctx, dout, dlse):
        q, k, v, o, lse, sinks, *values = ctx.saved_tensors
        r = ctx.request
        dout = torch.zeros_like(o) if dout is None else dout.contiguous()
        dlse = dlse if dlse is None else dlse.contiguous()
        wanted = [n for n, need in zip(r.names, ctx.needs_input_grad[5:])
                  if need]
        dq, dk, dv, found = _ring.backward(r, q, k, v, o, lse, dout, dlse,
                                           wanted)
        by_name = dict(zip(r.names, values))
        sums = [found[n] if n in found else torch.zeros(
            by_name[n].shape, dtype=torch.float32, device=q.device)
            for n in wanted]
        needs_sinks = sinks is not None and ctx.needs_input_grad[1]
        if needs_sinks:
            sums.append(_of_sinks(sinks, o, lse, dout, dlse))
        dsinks = None
        if needs_sinks:  # of own heads
            dsinks, = _ring.sum_over([r.group], [sums.pop()],
                                     "gradients of sinks")
            dsinks = dsinks.to(sinks.dtype)
        sums = _ring.sum_over(r.whole, sums, "gradients of captured values")
        by_wanted = dict(zip(wanted, sums))
        return (None, dsinks, dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype),
                *[by_wanted[n].to(by_name[n].dtype) if n in by_wanted else None
                  for n in r.names])


def _of_sinks(sinks, o, lse, dout, dlse):
    delta = (o.float() * dout.float()).sum(-1)
    if dlse is not None:
        delta = delta - dlse
    weight = (sinks.float()[None, :, None] - lse).exp()
    return -(weight * delta).nan_to_num(0).sum((0, 2))


# ---- The request ----


def _checked(q, k, v, sinks, enable_gqa, sharding, kv, group):
    _api._check_shapes(q, k, v, enable_gqa)
    for name, x in (("query", q), ("key", k), ("value", v)):
        if x.dtype not in (torch.float32, torch.float16, torch.bfloat16):
            raise ValueError("%s is %s, expected float32, float16 or bfloat16" %
                             (name, x.dtype))
    _group.check_device(group, q)
    if sinks is not None and sinks.device != q.device:
        raise ValueError("sinks are on %s, query on %s" % (
            sinks.device, q.device))
    for name, x, s in (("query", q, sharding), ("key", k, kv)):
        if x.shape[2] != s.size():
            raise ValueError(
                "%s has %d positions, rank %d of the sharding holds %d of %d" %
                (name, x.shape[2], s.rank, s.size(), s.length))


def _sharding_of(given, n, rank, ranks, groups):
    """The caller's, or in the order of ranks, by what each has."""
    if given is None:
        sizes = [n]
        for group in groups:  # heads first
            sizes = [x for part in group.meet(sizes) for x in part]
        starts = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
        return _sharding.Sharding(
            starts[-1], [_sharding.coalesced([(a, b)]) for a, b in
                         zip(starts, starts[1:])], rank)
    if given.ranks != ranks:
        raise ValueError("the sharding is for %d ranks, the group has %d" % (
            given.ranks, ranks))
    return _sharding.Sharding(given.length, given.parts, rank)


def _chosen(strategy, k, v, kv, size):
    if strategy is not None and strategy not in STRATEGIES:
        raise ValueError("strategy is %r, expected %s" % (
            strategy, ", ".join(STRATEGIES)))
    if strategy is not None:
        return strategy
    row = k.shape[0] * k.shape[1] * (k.shape[3] + v.shape[3])
    fits = row * kv.length * k.element_size() <= _GATHERED_BYTES
    return "all_gather" if fits else "ring"


def _given(captured, by_name, q):
    values = dict(_api._all_captured(captured, by_name))
    if any(n.startswith("dropout") for n in values):
        raise ValueError("tilec.distributed.attention has no dropout")
    for name, x in values.items():
        if torch.is_tensor(x) and x.device != q.device and x.dim():
            raise ValueError("captured %s is on %s, query on %s" % (
                name, x.device, q.device))
    return values


def attention(query: Tensor, key: Tensor, value: Tensor,
              group: typing.Any = None, *,
              mask_mod: typing.Optional[Mod] = None,
              score_mod: typing.Optional[Mod] = None,
              sharding: typing.Optional[_sharding.Sharding] = None,
              kv_sharding: typing.Optional[_sharding.Sharding] = None,
              scale: typing.Optional[float] = None, enable_gqa: bool = False,
              return_lse: bool = False, sinks: typing.Optional[Tensor] = None,
              strategy: typing.Optional[str] = None,
              positions: typing.Optional[str] = None,
              deterministic: bool = True,
              kernel_options: typing.Optional[Options] = None,
              timeout: typing.Optional[float] = None,
              captured: typing.Optional[Captured] = None,
              **captured_by_name: Value
              ) -> typing.Union[Tensor, typing.Tuple[Tensor, Tensor]]:
    """tilec.attention of a sequence whose positions several ranks hold.

    query [B, HQ, m, D], key [B, HK, n, D], value [B, HK, n, DV]: this rank's
    positions, in the order of the sharding; gives this rank's o, and with
    return_lse the logsumexp. Mods see positions, lengths and heads of the whole:
    the same texts or Python functions, and captured values, as on one device,
    the same on all ranks. Differentiable as tilec.attention is; gradients of
    captured values and sinks are those of all ranks, on each rank.

    group: a process group, a DeviceMesh of one dim, or of two: sequence parts go
        around the first, heads are exchanged in the second; None: all ranks.
    sharding: of `tilec.distributed.sharding`; None: the sequence in the order
        of ranks, each with as many positions as it has.
    kv_sharding: of the keys, if it is another.
    strategy: "ring", "all_gather" or "heads" (docs/distributed.md); None: by
        sizes.
    positions: how kernels learn positions: "shifted", a call for each pair of
        runs, or "mapped", one with maps (docs/masks.md); None: by their number.
    deterministic: gradients have the same bits in every run.
    timeout: seconds, for messages over gloo; None: the group's.

    The first call with some shapes and mods is checked against the other ranks;
    ranks that disagree get a ValueError, one that is lost a
    tilec.distributed.LostRank on the others.
    """
    ring, heads = _group.of(group, timeout)
    if heads is None and strategy == "heads":
        ring, heads = None, ring
    if torch.is_tensor(query) is False:
        raise TypeError("query is a %s, expected a torch tensor" %
                        type(query).__name__)
    nring, nheads = (ring.size if ring else 1), (heads.size if heads else 1)
    rank = (ring.rank if ring else 0) * nheads + (heads.rank if heads else 0)
    groups = [g for g in (heads, ring) if g is not None]
    s = _sharding_of(sharding, query.shape[2], rank, nring * nheads, groups)
    kv = s if kv_sharding is None and (
        sharding is not None or key.shape[2] == query.shape[2]) else \
        _sharding_of(kv_sharding, key.shape[2], rank, nring * nheads, groups)
    _checked(query, key, value, sinks, enable_gqa, s, kv, groups[0])
    options = dict(mask_mod=mask_mod, score_mod=score_mod, scale=scale,
                   gqa=enable_gqa, deterministic=deterministic,
                   kernel_options=kernel_options, positions=positions,
                   values=_given(captured, captured_by_name, query))
    if heads is None:
        o, lse = _around(ring, [ring], s, kv, query, key, value, sinks, 0,
                         strategy, options, query.shape[1])
        return (o, lse) if return_lse else o
    o, lse = _by_heads(ring, heads, s, kv, query, key, value, sinks, strategy,
                       options, return_lse)
    return (o, lse) if return_lse else o


class _Alone:
    """A ring of one rank."""

    class pg:
        group_name = "alone"

    rank, size = 0, 1

    def meet(self, value):
        return [value]


class _SinksOfHeads(torch.autograd.Function):
    """The sinks of one's own heads; the gradient is that of all."""

    @staticmethod
    def forward(ctx, group, sinks, a, b):
        ctx.rest = group, a, b, sinks.shape[0]
        return sinks[a:b].clone()

    @staticmethod
    def backward(ctx, d):
        group, a, b, n = ctx.rest
        whole = torch.zeros(n, dtype=torch.float32, device=d.device)
        whole[a:b] = d
        return None, _ring.sum_over([group], [whole], "gradients of sinks")[
            0].to(d.dtype), None, None


def _around(group, whole, s, kv, q, k, v, sinks, h_offset, strategy, options,
            all_heads):
    """o and lse of queries that stay."""
    group = group or _Alone()
    values = options["values"]
    spec = options["scale"], options["gqa"], options["kernel_options"]
    if spec[0] is None:
        spec = (q.shape[3] ** -0.5, *spec[1:])
    mods = _mods.of(options["mask_mod"], options["score_mod"], values, q.device,
                    (s.length, kv.length), spec)
    strategy = "ring" if strategy == "heads" else \
        _chosen(strategy, k, v, kv, group.size)
    said = (tuple(q.shape[:2]), q.shape[3], tuple(k.shape[:2]), v.shape[3],
            str(q.dtype), strategy, spec[0], repr(spec[2]), sinks is not None,
            options["deterministic"], q.device.type)
    plan = _plan.plan_for(group, s, kv, mods, q.device, q.shape[0], all_heads,
                          said, options["positions"])
    parts = _parts.Parts(plan, mods, h_offset, options["deterministic"])
    trained = {n: x for n, x in mods.captured.items()
               if torch.is_tensor(x) and x.requires_grad}
    request = _ring.Request(group, plan, parts, strategy, list(trained), whole)
    mods.captured = {n: x.detach() if torch.is_tensor(x) else x
                     for n, x in mods.captured.items()}
    return _Attention.apply(request, sinks, q, k, v, *trained.values())


def _by_heads(ring, heads, s, kv, q, k, v, sinks, strategy, options,
              return_lse):
    _heads.check(q.shape[1], k.shape[1], heads.size)
    first = (ring.rank if ring else 0) * heads.size
    sizes = heads.size, q.shape[1]
    spans = [_heads.of_queries(sizes[1], sizes[0], r) for r in range(sizes[0])]
    kv_spans = [_heads.of_keys(sizes[1], k.shape[1], sizes[0], r)
                for r in range(sizes[0])]
    _plan.meet(heads, ((tuple(q.shape[:2]), q.shape[3], tuple(k.shape[:2]),
                        v.shape[3], str(q.dtype)), s.key, kv.key), None) \
        if _is_new((heads.pg.group_name, q.shape[:2], k.shape[:2], s.key,
                    kv.key, q.dtype)) else None
    of_q = _heads.Layout(s, first, heads.size)
    of_kv = _heads.Layout(kv, first, heads.size)
    a, b = spans[heads.rank]
    q1 = _heads.ToHeads.apply(heads, of_q, q, spans)
    k1 = _heads.ToHeads.apply(heads, of_kv, k, kv_spans)
    v1 = _heads.ToHeads.apply(heads, of_kv, v, kv_spans)
    o, lse = _around(ring, [g for g in (heads, ring) if g], s.merged(heads.size),
                     kv.merged(heads.size), q1, k1, v1,
                     None if sinks is None else _SinksOfHeads.apply(
                         heads, sinks, a, b), a, strategy,
                     {**options, "gqa": True}, q.shape[1])
    o = _heads.ToPositions.apply(heads, of_q, o, spans)
    if not return_lse:
        return o, None
    return o, _heads.ToPositions.apply(heads, of_q, lse[..., None],
                                       spans)[..., 0]


_met = set()


def _is_new(key):
    if key in _met:
        return False
    if len(_met) > 4096:
        _met.clear()
    _met.add(key)
    return True
