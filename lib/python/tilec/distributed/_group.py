# SPDX-License-Identifier: Apache-2.0
"""Ranks of torch.distributed, what they tell each other, and which are lost."""
import atexit
import collections
import datetime
import pickle
import threading
import time
import typing

import torch
import torch.distributed as dist

_ANSWER = 8.0  # seconds in which a rank that lives answers an alarm
_POLL = 0.5


class LostRank(RuntimeError):
    """A rank that does not answer; `ranks`: which, as the group counts them."""

    def __init__(self, message: str, ranks: typing.Sequence[int]) -> None:
        super().__init__(message)
        self.ranks: typing.Sequence[int] = ranks


class Group:
    """A process group of torch with one's own place in it."""

    def __init__(self, pg, timeout=None):
        self.pg, self.timeout = pg, timeout
        self.rank, self.size = dist.get_rank(pg), dist.get_world_size(pg)
        if self.rank < 0:
            raise ValueError("this process is no member of the group")
        self.globals = [dist.get_global_rank(pg, r) for r in range(self.size)]
        self.is_gloo = dist.get_backend(pg) == "gloo"

    def meet(self, value):
        """A value of each rank, in their order."""
        if self.size == 1:
            return [value]
        found = [None] * self.size
        _answer_alarms(self)
        try:
            if self.timeout:
                return _met_in_store(self, value)
            dist.all_gather_object(found, value, group=self.pg)
        except RuntimeError as e:
            raise self.lost("meeting", None, e) from e
        return found

    def begin(self, sends, receives, what):
        """Messages [(rank, tag, tensor)], none to oneself."""
        sends = [m for m in sends if m[2].numel()]
        receives = [m for m in receives if m[2].numel()]
        there, ops = [], []
        for op, messages in ((dist.isend, sends), (dist.irecv, receives)):
            for r, tag, x in messages:
                on_host = self._on_host(x, op is dist.isend)
                if on_host is not x and op is dist.irecv:
                    there.append((x, on_host))
                ops.append(dist.P2POp(op, on_host, self.globals[r],
                                      group=self.pg, tag=tag))
        try:
            works = dist.batch_isend_irecv(ops) if ops else []
        except RuntimeError as e:
            raise self.lost(what, None, e) from e
        return Messages(self, works, [m[0] for m in sends + receives], what,
                        ops, there)

    def _on_host(self, x, has_data):
        """gloo sends from the CPU's memory."""
        if not self.is_gloo or x.device.type == "cpu":
            return x
        return x.cpu() if has_data else torch.empty(x.shape, dtype=x.dtype)

    def lost(self, what, peer, error):
        """The error for what has failed, with the ranks that do not answer."""
        missing = _missing(self)
        if missing:
            text = "rank%s %s of %d do%s not answer" % (
                "s" * (len(missing) > 1), ", ".join(map(str, missing)),
                self.size, "es" * (len(missing) == 1))
        else:
            text = "all ranks answer" if peer is None else \
                "rank %d of %d is late, and answers" % (peer, self.size)
        return LostRank("tilec.distributed: rank %d, %s: %s (%s)" % (
            self.rank, what, text, str(error).strip().split("\n")[0]), missing)


class Messages:
    """Messages that are on their way."""

    def __init__(self, group, works, peers, what, ops, there):
        self.group, self.works, self.peers = group, works, peers
        self.what, self.ops, self.there = what, ops, there
        # NCCL's works wait on the stream.
        self.has_timeout = all(op.tensor.device.type == "cpu" for op in ops)

    def wait(self):
        """Until they have arrived: on a GPU the current stream waits."""
        known = len(self.works) == len(self.peers)
        for i, work in enumerate(self.works):
            peer = self.peers[i] if known else None
            try:
                if self.group.timeout and self.has_timeout:
                    work.wait(datetime.timedelta(seconds=self.group.timeout))
                else:
                    work.wait()
            except RuntimeError as e:
                raise self.group.lost(self.what, peer, e) from e
        for x, on_host in self.there:
            x.copy_(on_host)
        self.works, self.ops, self.there = [], [], []


# ---- Meetings with a timeout ----

_rounds = collections.Counter()  # of meetings, by group


def _met_in_store(group, value):
    """A value of each rank; waits for no rank longer than the timeout."""
    name, store = group.pg.group_name, _store()
    now = _rounds[name]
    _rounds[name] += 1

    def key(n, r):
        return "tilec/meet/%s/%d/%d" % (name, n, r)
    store.set(key(now, group.rank), pickle.dumps(value))
    keys = [key(now, r) for r in range(group.size)]
    store.wait(keys, datetime.timedelta(seconds=group.timeout))
    found = [pickle.loads(store.get(k)) for k in keys]
    if now > 1:  # all have read it: they have come to the meeting after it
        store.delete_key(key(now - 2, group.rank))
    return found


# ---- Which ranks live ----
#
# A thread of each process answers an alarm by a key of the group's store, also
# while the process waits for a message.

_threads = {}
_lock = threading.Lock()
_ends = threading.Event()


def _store():
    return dist.distributed_c10d._get_default_store()


def _answer(store, name, rank):
    """Until the process ends."""
    while not _ends.wait(_POLL):
        try:
            if store.check(["tilec/alarm/" + name]):
                store.set("tilec/alive/%s/%d" % (name, rank), "1")
                return
        except (RuntimeError, ValueError):
            return  # the store is gone, and with it the job


@atexit.register
def _end():
    """Before the interpreter goes, in which the threads are."""
    _ends.set()
    for thread in _threads.values():
        thread.join(2 * _POLL)


def _answer_alarms(group):
    with _lock:
        key = group.pg.group_name, dist.get_rank()
        if key in _threads:
            return
        _threads[key] = threading.Thread(
            target=_answer, daemon=True,
            args=(_store(), group.pg.group_name, group.rank))
        _threads[key].start()


def _missing(group):
    """The ranks that do not answer an alarm."""
    name, found = group.pg.group_name, []
    try:
        store = _store()
        store.set("tilec/alarm/" + name, "1")
        store.set("tilec/alive/%s/%d" % (name, group.rank), "1")
        end = time.monotonic() + _ANSWER
        left = set(range(group.size)) - {group.rank}
        while left and time.monotonic() < end:
            left = {r for r in left
                    if not store.check(["tilec/alive/%s/%d" % (name, r)])}
            time.sleep(_POLL / 5)
        return sorted(left)
    except RuntimeError:  # its host is gone
        found = [r for r, g in enumerate(group.globals) if g == 0]
    return found


# ---- Groups and meshes ----


def of(group, timeout=None):
    """(ring, heads): Groups of what a caller gives: None, a process group, a
    DeviceMesh of one dim, or of two, of which the second exchanges heads."""
    if not dist.is_available() or not dist.is_initialized():
        raise RuntimeError("torch.distributed is not initialized: call "
                           "torch.distributed.init_process_group first")
    if group is None:
        return Group(dist.group.WORLD, timeout), None
    if hasattr(group, "get_group"):
        if group.ndim > 2:
            raise ValueError("the mesh has %d dims, expected one, or two: ring "
                             "and heads" % group.ndim)
        if group.ndim == 1:
            return Group(group.get_group(), timeout), None
        return (Group(group.get_group(0), timeout),
                Group(group.get_group(1), timeout))
    return Group(group, timeout), None


def check_device(group, x):
    """NCCL wants tensors on GPUs, gloo on the CPU."""
    backend = dist.get_backend(group.pg)
    if x.device.type not in ("cpu", "cuda"):
        raise ValueError("query is on %s, expected a GPU or the CPU" % x.device)
    if backend == "nccl" and x.device.type != "cuda":
        raise ValueError("query is on %s and the group is of NCCL: expected a "
                         "tensor on this rank's GPU" % x.device)
    if x.device.type == "cuda" and x.device.index != \
            torch.cuda.current_device():
        raise ValueError("query is on %s, the current device is cuda:%d: call "
                         "torch.cuda.set_device with this rank's GPU" % (
                             x.device, torch.cuda.current_device()))
