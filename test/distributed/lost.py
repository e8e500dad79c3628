# SPDX-License-Identifier: Apache-2.0
"""Ranks that disagree, and one that dies: errors that name it, no hangs."""
import os
import signal
import sys
import time

import ranks
from ranks import mp, torch

import tilec.distributed as td

N, RANKS = 24, 3
# Seconds that a call under test waits for a rank that never answers: it has to
# fail, however slow the machine is, so that none of these ends a test.
IN_VAIN = 2


def inputs(rows=N, heads=2):
    return [torch.ones(1, heads, rows, 16) for _ in range(3)]


def refused(call, *words):
    try:
        call()
    except ValueError as e:
        assert all(w in str(e) for w in words), str(e)
        return
    raise AssertionError("not refused: %s" % (words,))


def disagree(rank):
    x = inputs(heads=2 if rank else 4)
    refused(lambda: td.attention(*x), "disagree", "tensors and options",
            "(1, 2)", "(1, 4)")
    mask = "causal" if rank != 1 else "sliding_window(w=3)"
    refused(lambda: td.attention(*inputs(), mask_mod=mask), "disagree", "mods",
            "1")
    starts = torch.tensor([0, 5 + (rank == 2)], dtype=torch.int32)
    refused(lambda: td.attention(*inputs(), mask_mod="document",
                                 offsets=starts), "disagree", "captures", "2")


def wrong(rank):
    s = td.sharding(3 * N - 1, kind="contiguous")
    refused(lambda: td.attention(*inputs(N + 1), sharding=s), "query has",
            "rank %d" % rank)
    refused(lambda: td.attention(*inputs(), strategy="rings"), "'rings'",
            "all_gather")
    refused(lambda: td.attention(*[x.long() for x in inputs()]), "int64")
    refused(lambda: td.attention(*inputs(heads=5), strategy="heads"),
            "5 query heads over 3 ranks")
    refused(lambda: td.attention(*inputs(), mask_mod="causal", dropout_p=0.1),
            "dropout")


def elsewhere(rank):
    """Tensors on another device than the CPU, where this group computes."""
    q, k, v = inputs()
    away = k.to("meta")
    refused(lambda: td.attention(*[x.to("meta") for x in (q, k, v)]),
            "query is on meta")
    refused(lambda: td.attention(q, away, v), "key is on another device")
    refused(lambda: td.attention(q, k, v, sinks=torch.ones(2, device="meta")),
            "sinks are on meta, query on cpu")
    refused(lambda: td.attention(q, k, v, score_mod="alibi",
                                 slopes=torch.ones(2, device="meta")),
            "captured slopes is on meta, query on cpu")
    refused(lambda: td.decode(q.to("meta"), k, v), "query is on meta")
    refused(lambda: td.decode(q, away, v), "key is on another device")


def lost(victim, call):
    try:
        for _ in range(3):  # a message to it may still be taken
            call()
            time.sleep(0.1)
    except td.LostRank as e:
        assert e.ranks == [victim], e
        assert "rank %d of 3 does not answer" % victim in str(e), e
        return
    raise AssertionError("noticed nothing")


def loses(rank, victim, strategy, signal_number, timeout):
    """A rank ends, or stops, after the first call."""
    s = td.sharding(RANKS * N, mask_mod="causal")

    def call(timeout):
        x = [t.requires_grad_() for t in inputs(heads=3)]
        td.attention(*x, sharding=s, mask_mod="causal", strategy=strategy,
                     timeout=timeout).sum().backward()
    call(None)
    if rank == victim:
        os.kill(os.getpid(), signal_number)
    lost(victim, lambda: call(timeout))


def dies(rank, victim, strategy):
    loses(rank, victim, strategy, signal.SIGKILL, 600)  # noticed at once


def stops(rank, victim, strategy):
    loses(rank, victim, strategy, signal.SIGSTOP, IN_VAIN)


def dies_in_backward(rank, victim, strategy):
    s = td.sharding(RANKS * N, mask_mod="causal")
    x = [t.requires_grad_() for t in inputs()]
    o = td.attention(*x, sharding=s, mask_mod="causal", strategy=strategy)
    if rank == victim:
        os.kill(os.getpid(), signal.SIGKILL)
    lost(victim, lambda: o.sum().backward(retain_graph=True))


def stops_before_decode(rank, victim, strategy):
    q, k, v = inputs()
    td.decode(q[:, :, :1], k, v)
    if rank == victim:
        os.kill(os.getpid(), signal.SIGSTOP)
    lost(victim, lambda: td.decode(q[:, :, :1], k, v, timeout=IN_VAIN))


def differs_later(rank):
    """One rank repeats a call, the others make a new one."""
    td.attention(*inputs())
    try:
        td.attention(*inputs(heads=4 if rank else 2), timeout=IN_VAIN)
    except td.LostRank as e:
        assert e.ranks == [] and "answer" in str(e), e
        return
    raise AssertionError("noticed nothing")


def process(rank, port, what, args):
    ranks.join(rank, RANKS, port)
    try:
        what(rank, *args)
    finally:
        ended(rank, {*range(RANKS)} - {*args[:1]})
    os._exit(0)  # groups with lost ranks do not end


def ended(rank, live):
    """Rank 0 has the store, by which the others ask who lives: it ends last."""
    store = ranks.dist.distributed_c10d._get_default_store()
    store.set("test/ended/%d" % rank, "1")
    if rank == 0:
        store.wait(["test/ended/%d" % r for r in live])


def run(what, *args):
    """args: a victim, and a strategy; none: all ranks live."""
    context = mp.get_context("spawn")
    port = ranks.free_port()
    all_ = [context.Process(target=process, args=(r, port, what, args))
            for r in range(RANKS)]
    for p in all_:
        p.start()
    victim = args[0] if args else None
    for r, p in enumerate(all_):
        if r != victim:
            p.join()
    if args:  # also one that has stopped
        all_[victim].kill()
        all_[victim].join()
    codes = [p.exitcode for p in all_]
    want = [-signal.SIGKILL if r == victim else 0 for r in range(RANKS)]
    if codes != want:
        print("FAILED: %s %s: exit codes %s" % (what.__name__, args, codes))
        sys.exit(1)
    print("ok", what.__name__, *args, flush=True)


CASES = [(disagree,), (wrong,), (elsewhere,), (differs_later,), (dies, 2, "ring"),
         (dies, 1, "heads"), (stops, 1, "ring"), (stops, 2, "all_gather"),
         (dies_in_backward, 1, "all_gather"),
         (stops_before_decode, 2, "decode")]

if __name__ == "__main__":
    only = sys.argv[1] if len(sys.argv) > 1 else ""
    for case in CASES:
        if only in case[0].__name__:
            run(*case)
