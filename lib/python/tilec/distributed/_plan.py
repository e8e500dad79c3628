# SPDX-License-Identifier: Apache-2.0
"""What a rank computes, and what ranks send each other.

A rank's queries meet the keys of each rank in a step of their own. Of a step
the plan says which runs of keys are needed (others are not sent), and which calls
of attention compute it.
"""
import collections
import dataclasses
import typing

from . import _mods, _sharding, _work

MOST_CALLS = 12  # of a step, by runs; more: one call with maps of positions


@dataclasses.dataclass(frozen=True)
class Call:
    """A call of attention: rows of queries, rows of the step's keys."""

    rows: tuple
    keys: tuple
    is_full: bool  # the mask hides nothing
    q_offset: int
    k_offset: int


@dataclasses.dataclass
class Step:
    """Queries of this rank, keys of some ranks."""

    needed: tuple  # runs of keys, in the order of their rows
    calls: typing.Optional[list]  # None: one, by maps

    @property
    def keys(self):
        return sum(b - a for a, b in self.needed)

    @property
    def is_empty(self):
        return not self.needed


class Plan:
    """Of a rank. needed[q][k]: the runs of rank k's keys that rank q sees."""

    def __init__(self, sharding, kv_sharding, seen, hides, has_score, by):
        self.sharding, self.kv = sharding, kv_sharding
        self._seen, self._hides = seen, hides
        self._has_score, self._by = has_score, by
        self.needed = [[self._needed(q, k) for k in range(kv_sharding.ranks)]
                       for q in range(sharding.ranks)]
        rank = sharding.rank
        self.steps = [self._step(self.needed[rank][k])
                      for k in range(kv_sharding.ranks)]
        self.gathered = self._step(_sharding.coalesced(
            [run for runs in self.needed[rank] for run in runs]))
        self.work = [sum(seen[run, other] for run in part
                         for others in kv_sharding.parts for other in others)
                     for part in sharding.parts]

    def _needed(self, q, k):
        return tuple(run for run in self.kv.parts[k] if any(
            self._seen[own, run] for own in self.sharding.parts[q]))

    def _seen_parts(self, queries, keys):
        """The runs of the kv sharding in this run of a step of which the
        queries see some keys: a call leaves out what is before and after."""
        return sorted(other for part in self.kv.parts for other in part
                      if keys[0] <= other[0] and other[1] <= keys[1] and
                      self._seen[queries, other])

    def _step(self, needed):
        calls, at = [], 0
        if self._by == "mapped":
            return Step(needed, None)
        for a, b, row in self.sharding.rows(self.sharding.rank):
            at = 0
            for c, d in needed:
                parts = self._seen_parts((a, b), (c, d))
                if parts:
                    first, last = parts[0][0], parts[-1][1]
                    full = last - first == sum(y - x for x, y in parts) and \
                        not any(self._hides[(a, b), other] for other in parts)
                    calls.append(Call((row, row + b - a),
                                      (at + first - c, at + last - c),
                                      full, a, first))
                at += d - c
        if not self._has_score:
            calls = _joined(_joined(calls, "keys", "rows"), "rows", "keys")
        if len(calls) > MOST_CALLS and self._by != "shifted":
            return Step(needed, None)
        return Step(needed, calls)


def _joined(calls, side, other):
    """Full calls that adjoin on one side and are the same on the other one, as
    one."""
    found = []
    for call in calls:
        for i, x in enumerate(found):
            if x.is_full and call.is_full and \
                    getattr(x, other) == getattr(call, other) and \
                    getattr(x, side)[1] == getattr(call, side)[0]:
                found[i] = dataclasses.replace(x, **{side: (
                    getattr(x, side)[0], getattr(call, side)[1])})
                break
        else:
            found.append(call)
    return found


# ---- Plans, made together ----

_MOST = 32
_plans: "collections.OrderedDict[tuple, tuple]" = collections.OrderedDict()


def _by_runs(sharding, kv, tables):
    seen, hides = {}, {}
    others = [run for part in kv.parts for run in part]
    for part, (some, hidden) in zip(sharding.parts, tables):
        for run, row, flags in zip(part, some, hidden):
            for other, x, flag in zip(others, row, flags):
                seen[run, other], hides[run, other] = x, flag
    return seen, hides


def plan_for(group, sharding, kv, mods, device, batch, heads, said, by):
    """The Plan of a call, by all ranks of the group: each counts what its own
    queries see. said: what all must agree on."""
    runs = [run for part in kv.parts for run in part]
    of_mask = mods.of_mask(_work.like(
        sharding.size(), kv.length, 1, 1, len(runs), device))
    key = (group.pg.group_name, group.rank, sharding.key, sharding.rank,
           kv.key, mods.key, batch, heads, _mods.state(of_mask), said, by)
    found = _plans.get(key)
    if found is None:
        own = list(sharding.parts[sharding.rank])
        table = _work.counts(mods, own, runs, batch, heads, device)
        tables = meet(group, (said, mods.key, sharding.key, kv.key,
                              _contents(of_mask)), table)
        plan = Plan(sharding, kv, *_by_runs(sharding, kv, tables),
                    bool(mods.score), by)
        # With the captured values: their memory is not given to others.
        found = _plans[key] = plan, of_mask
        if len(_plans) > _MOST:
            _plans.popitem(last=False)
    _plans.move_to_end(key)
    return found[0]


def _contents(values):
    """Captured values as what ranks must agree on."""
    return tuple((n, x.detach().cpu().double().flatten().tolist()
                  if hasattr(x, "detach") else x)
                 for n, x in sorted(values.items()))


_WHAT = ("tensors and options", "mods", "sharding", "sharding of the keys",
         "values that the mask captures")


def meet(group, said, value):
    """The value of each rank, after all have said the same."""
    import hashlib
    digests = [hashlib.sha256(repr(x).encode()).hexdigest()[:16] for x in said]
    found = group.meet((digests, repr(said[0]), value))
    for rank, (theirs, text, _) in enumerate(found):
        for what, a, b in zip(_WHAT, digests, theirs):
            if a != b:
                raise ValueError(
                    "ranks %d and %d disagree on %s%s: all ranks must call "
                    "attention alike" % (
                        group.rank, rank, what, ": %s and %s" % (
                            said[0], text) if what == _WHAT[0] else ""))
    return [x for _, _, x in found]
