# SPDX-License-Identifier: Apache-2.0
"""Attention of queries that stay, over keys that ranks send each other.

    ring         step t: rank r computes with the keys of rank r - t, which come
                 while step t - 1 is computed, from their owner. In backward the
                 gradients of keys go back to it as soon as they are there.
    all_gather   all keys that a rank needs come at once; one call for each run of
                 queries

Sums are in the order of the steps: the same bits in every run.
"""
import torch

from . import _parts


class Request:
    """What a call of attention is, besides its tensors."""

    def __init__(self, group, plan, parts, strategy, names, whole):
        self.group, self.plan, self.parts = group, plan, parts
        self.strategy, self.names = strategy, names  # of differentiable values
        self.whole = whole  # all ranks that share captured values

    def tag(self, step, i):
        return 4 * step + i


def _taken(x, runs, rows):
    """Rows of some runs."""
    at = {a: (row, row + b - a) for a, b, row in rows}
    parts = [x[:, :, at[a][0]:at[a][1]] for a, _ in runs]
    if len(parts) == 1:
        return parts[0].contiguous()
    return torch.cat(parts, 2)


class Keys:
    """Keys and values of other ranks."""

    def __init__(self, request, k, v):
        self.r, self.k, self.v = request, k, v
        self.kv, self.me = request.plan.kv, request.group.rank

    def begin(self, step):
        """Sends own keys to the rank that needs them in this step, and receives
        those that are needed here."""
        size, plan = self.kv.ranks, self.r.plan
        to, source = (self.me + step) % size, (self.me - step) % size
        sends = receives = ()
        if plan.needed[to][self.me]:
            rows = self.kv.rows(self.me)
            sends = [(to, self.r.tag(step, i),
                      _taken(x, plan.needed[to][self.me], rows))
                     for i, x in enumerate((self.k, self.v))]
        into = None
        if plan.needed[self.me][source]:
            n = plan.steps[source].keys
            into = [x.new_empty(*x.shape[:2], n, x.shape[3])
                    for x in (self.k, self.v)]
            receives = [(source, self.r.tag(step, i), x)
                        for i, x in enumerate(into)]
        return source, into, self.r.group.begin(
            sends, receives, "keys of step %d" % step)

    def own(self):
        runs = self.r.plan.steps[self.me].needed
        if not runs:
            return None
        rows = self.kv.rows(self.me)
        if runs == self.kv.parts[self.me]:
            return self.k, self.v
        return [_taken(x, runs, rows) for x in (self.k, self.v)]

    def steps(self):
        """(t, step of the plan, its k and v or None), the next ones on their way.
        """
        size = self.kv.ranks
        coming = self.begin(1) if size > 1 else None
        yield 0, self.r.plan.steps[self.me], self.own()
        for t in range(1, size):
            source, into, messages = coming
            messages.wait()
            coming = self.begin(t + 1) if t + 1 < size else None
            yield t, self.r.plan.steps[source], into

    def gathered(self):
        """k and v of all keys that are needed, ascending."""
        plan, size = self.r.plan, self.kv.ranks
        coming = [self.begin(t) for t in range(1, size)]
        pieces, own = {}, self.own()
        arrived = [(self.me, own)] if own is not None else []
        for source, into, messages in coming:
            messages.wait()
            if into is not None:
                arrived.append((source, into))
        for source, kv in arrived:
            at = 0
            for a, b in plan.steps[source].needed:
                pieces[a] = [x[:, :, at:at + b - a] for x in kv]
                at += b - a
        if not pieces:
            return None
        if len(pieces) == 1:
            return next(iter(pieces.values()))
        return [torch.cat([pieces[a][i] for a in sorted(pieces)], 2)
                for i in (0, 1)]


class KeyGradients:
    """dk and dv: sums of what all ranks compute, at the keys' owner."""

    def __init__(self, request, k, v):
        self.r, self.kv, self.me = request, request.plan.kv, request.group.rank
        self.sums = [torch.zeros(x.shape, dtype=torch.float32, device=x.device)
                     for x in (k, v)]
        self.coming = []

    def _add(self, runs, parts):
        at, rows = 0, {a: row for a, _, row in self.kv.rows(self.me)}
        for a, b in runs:
            for sum_, x in zip(self.sums, parts):
                sum_[:, :, rows[a]:rows[a] + b - a].add_(x[:, :, at:at + b - a])
            at += b - a

    def own(self, parts):
        self._add(self.r.plan.steps[self.me].needed, parts)

    def begin(self, step, parts):
        """The gradients of a step go home, and those of own keys come."""
        plan, size = self.r.plan, self.kv.ranks
        to, source = (self.me - step) % size, (self.me + step) % size
        sends, receives, into = (), (), None
        if plan.needed[self.me][to]:
            sends = [(to, self.r.tag(step, 2 + i), x.contiguous())
                     for i, x in enumerate(parts)]
        runs = plan.needed[source][self.me]
        if runs:
            n = sum(b - a for a, b in runs)
            into = [x.new_empty(*x.shape[:2], n, x.shape[3])
                    for x in self.sums]
            receives = [(source, self.r.tag(step, 2 + i), x)
                        for i, x in enumerate(into)]
        self.coming.append((runs, into, self.r.group.begin(
            sends, receives, "gradients of step %d" % step)))

    def result(self):
        self.collect(0)
        return self.sums

    def collect(self, most):
        """Adds what has come, but for the last ones."""
        while len(self.coming) > most:
            runs, into, messages = self.coming.pop(0)
            messages.wait()
            if into is not None:
                self._add(runs, into)


def forward(request, q, k, v, sinks):
    keys, parts = Keys(request, k, v), request.parts
    if request.strategy == "all_gather":
        return _forward_gathered(request, q, keys, v, sinks)
    state = _parts.State(q, v.shape[3], sinks)
    for _, step, kv in keys.steps():
        if kv is not None:
            state.add(parts.forward(step, q, *kv, "float32"))
    return state.result(q.dtype)


def _forward_gathered(request, q, keys, v, sinks):
    gathered, step = keys.gathered(), request.plan.gathered
    calls = request.parts.calls(step, q) if gathered is not None else []
    rows = [c[0] for c in calls]
    is_whole = sinks is None and rows and len(set(rows)) == len(rows) and \
        sum(b - a for a, b in rows) == q.shape[2]
    if is_whole:  # each query in one call: no states
        found = sorted(request.parts.forward(step, q, *gathered, None),
                       key=lambda x: x[0])
        if len(found) == 1:
            return found[0][1:]
        return [torch.cat([x[i] for x in found], 2) for i in (1, 2)]
    state = _parts.State(q, v.shape[3], sinks)
    if gathered is not None:
        state.add(request.parts.forward(step, q, *gathered, "float32"))
    return state.result(q.dtype)


def _split(plan, parts):
    """Gradients of gathered keys, by the ranks that own these."""
    if parts is None:
        return {}
    at, start = {}, 0
    for a, b in plan.gathered.needed:
        at[a, b] = start
        start += b - a

    def row(a):
        for (c, d), first in at.items():
            if c <= a < d:
                return first + a - c
        raise AssertionError(a)
    found = {}
    for rank in range(plan.kv.ranks):
        runs = plan.needed[plan.sharding.rank][rank]
        if runs:
            found[rank] = [torch.cat([x[:, :, row(a):row(a) + b - a]
                                      for a, b in runs], 2) for x in parts]
    return found


def backward(request, q, k, v, o, lse, dout, dlse, wanted):
    """dq, dk, dv in float32, and gradients of captured values of all ranks."""
    keys, grads = Keys(request, k, v), KeyGradients(request, k, v)
    sums, plan, me = _parts.Sums(q), request.plan, request.group.rank
    size, by_rank = plan.kv.ranks, {}
    rest = o, lse, dout, dlse, wanted
    if request.strategy == "all_gather":
        gathered = keys.gathered()
        if gathered is not None:
            dkv = request.parts.backward(plan.gathered, sums, q, *gathered,
                                         *rest)
            by_rank = _split(plan, _filled(dkv, gathered))
        if me in by_rank:
            grads.own(by_rank[me])
        for t in range(1, size):
            grads.begin(t, by_rank.get((me - t) % size))
    else:
        for t, step, kv in keys.steps():
            dkv = None if kv is None else _filled(
                request.parts.backward(step, sums, q, *kv, *rest), kv)
            if t:
                grads.begin(t, dkv)
            elif kv is not None:
                grads.own(dkv)
            grads.collect(2)
    dk, dv = grads.result()
    return sums.result(), dk, dv, sums.captured


def _filled(dkv, kv):
    if dkv[0] is not None:
        return dkv
    return [torch.zeros(x.shape, dtype=torch.float32, device=x.device)
            for x in kv]


def sum_over(groups, tensors, what):
    """Sums over the ranks of each group in turn, in their order: the same bits
    for all."""
    for group in groups:
        if group.size > 1 and tensors:
            tensors = _sum_over(group, tensors, what)
    return tensors


def _sum_over(group, tensors, what):
    flat = torch.cat([x.reshape(-1).float() for x in tensors])
    all_ = [flat if r == group.rank else torch.empty_like(flat)
            for r in range(group.size)]
    others = [r for r in range(group.size) if r != group.rank]
    group.begin([(r, 0, flat) for r in others],
                [(r, 0, all_[r]) for r in others], what).wait()
    total = all_[0].clone()
    for x in all_[1:]:
        total += x
    found, at = [], 0
    for x in tensors:
        found.append(total[at:at + x.numel()].reshape(x.shape))
        at += x.numel()
    return found
