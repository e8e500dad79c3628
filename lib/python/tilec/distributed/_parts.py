# SPDX-License-Identifier: Apache-2.0
"""Attention of a rank's queries over a part of the keys: into states of o and
lse, and its gradients into float32 sums."""
import torch

from .. import _api, _merge


def _places(plan, step, call, h_offset, device):
    if call is not None:
        return "shifted", dict(q_offset=call.q_offset, k_offset=call.k_offset,
                               h_offset=h_offset)
    return "mapped", dict(q_map=_map(plan.sharding.parts[plan.sharding.rank],
                                     plan, device),
                          k_map=_map(step.needed, plan, device),
                          h_offset=h_offset)


def _map(runs, plan, device):
    """Positions of rows, kept with the plan."""
    kept = plan.__dict__.setdefault("maps", {})
    found = kept.get((tuple(runs), device))
    if found is None:
        found = torch.cat([torch.arange(a, b, dtype=torch.int32, device=device)
                           for a, b in runs])
        kept[tuple(runs), device] = found
    return found


def _whole(step, q):
    return (0, q.shape[2]), (0, step.keys)


def _is_all(rows, x):
    return rows == (0, x.shape[2])


def _rows(x, rows):
    return x if _is_all(rows, x) else x[:, :, rows[0]:rows[1]]


class Parts:
    """Calls of tilec.attention for the steps of a plan."""

    def __init__(self, plan, mods, h_offset, deterministic):
        self.plan, self.mods, self.h_offset = plan, mods, h_offset
        self.deterministic = deterministic

    def calls(self, step, q):
        """[(rows, keys, call or None)]"""
        if step.is_empty or q.shape[2] == 0:
            return []
        if step.calls is None:
            return [(*_whole(step, q), None)]
        return [(call.rows, call.keys, call) for call in step.calls]

    def _options(self, step, call, like, dtype="float32"):
        scale, gqa, options = self.mods.spec
        kind, places = _places(self.plan, step, call, self.h_offset,
                               like[0].device)
        with_mask = call is None or not call.is_full
        return dict(self.mods.arguments(kind, with_mask, like, dtype, places),
                    scale=scale, enable_gqa=gqa, kernel_options=options)

    def forward(self, step, q, k, v, dtype):
        """[(rows, o, lse)] of each call."""
        found = []
        for rows, keys, call in self.calls(step, q):
            like = _rows(q, rows), _rows(k, keys), _rows(v, keys)
            o, lse = _api.attention(
                *like, return_lse=True, out_dtype=dtype,
                **self._options(step, call, like, dtype))
            found.append((rows, o, lse))
        return found

    def backward(self, step, sums, q, k, v, o, lse, dout, dlse, wanted):
        """Adds to sums.dq and sums.captured; gives dk and dv of the step."""
        dk = dv = None
        for rows, keys, call in self.calls(step, q):
            like = _rows(q, rows), _rows(k, keys), _rows(v, keys)
            options = self._options(step, call, like)
            names = {n: full for n in wanted for full in (n, "score." + n)
                     if full in options["captured"]}
            dq, a, b, more = _api.attention_backward(
                _rows(dout, rows), *like, _rows(o, rows), _rows(lse, rows),
                dlse=None if dlse is None else _rows(dlse, rows),
                gradients=[*names.values()], grad_dtype="float32",
                deterministic=self.deterministic, **options)
            sums.add(rows, dq, {n: more[x] for n, x in names.items()})
            if _is_all(keys, k) and dk is None:
                dk, dv = a, b
                continue
            if dk is None:
                dk, dv = (torch.zeros(x.shape, dtype=torch.float32,
                                      device=x.device) for x in (k, v))
            _rows(dk, keys).add_(a)
            _rows(dv, keys).add_(b)
        return dk, dv


class State:
    """o and lse of a rank's queries over the keys so far, in float32."""

    def __init__(self, q, width, sinks=None):
        self.shape = (*q.shape[:3], width)
        self.q, self.o, self.lse = q, None, None
        if sinks is not None:  # a key whose value is 0
            self._begin()
            self.lse.copy_(sinks.float()[None, :, None].expand_as(self.lse))

    def _begin(self):
        self.o = torch.zeros(self.shape, dtype=torch.float32,
                             device=self.q.device)
        self.lse = torch.full(self.shape[:3], -float("inf"),
                              dtype=torch.float32, device=self.q.device)

    def add(self, parts):
        for rows, o, lse in parts:
            if self.o is None and _is_all(rows, self.q):
                self.o, self.lse = o.float().contiguous(), lse
                continue
            if self.o is None:
                self._begin()
            _merge.merge_into(_rows(self.o, rows),
                              self.lse[:, :, rows[0]:rows[1]], o, lse)

    def result(self, dtype):
        if self.o is None:
            self._begin()
        return self.o.to(dtype), self.lse


class Sums:
    """Gradients of a rank's queries and of captured values, in float32."""

    def __init__(self, q):
        self.q, self.dq, self.captured = q, None, {}

    def add(self, rows, dq, captured):
        if self.dq is None and _is_all(rows, self.q):
            self.dq = dq
        else:
            if self.dq is None:
                self.dq = torch.zeros(self.q.shape, dtype=torch.float32,
                                      device=self.q.device)
            _rows(self.dq, rows).add_(dq)
        for name, x in captured.items():
            x = x.float()
            self.captured[name] = self.captured[name] + x \
                if name in self.captured else x

    def result(self):
        return self.dq if self.dq is not None else torch.zeros(
            self.q.shape, dtype=torch.float32, device=self.q.device)
