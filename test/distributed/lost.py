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
    refused(lambda: td.attention(*[x.to("meta") for x in inputs()],
                                 mask_mod="causal", dropout_p=0.1), "dropout")


def dies(rank, victim):
    x = inputs()
    s = td.sharding(RANKS * N, mask_mod="causal")
    td.attention(*x, sharding=s, mask_mod="causal", strategy="ring")
    if rank == victim:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        for _ in range(3):  # a message to it may still be taken
            td.attention(*x, sharding=s, mask_mod="causal", strategy="ring",
                         timeout=600)
            time.sleep(0.1)
    except td.LostRank as e:
        assert e.ranks == [victim], e
        assert "rank %d of 3 does not answer" % victim in str(e), e
        return
    raise AssertionError("rank %d noticed nothing" % rank)


def process(rank, port, what, victim):
    ranks.join(rank, RANKS, port)
    what(rank) if victim is None else what(rank, victim)
    os._exit(0)  # groups with lost ranks do not end


def run(what, victim=None):
    context = mp.get_context("spawn")
    port = ranks.free_port()
    all_ = [context.Process(target=process, args=(r, port, what, victim))
            for r in range(RANKS)]
    for p in all_:
        p.start()
    for p in all_:
        p.join()
    codes = [p.exitcode for p in all_]
    want = [-signal.SIGKILL if r == victim else 0 for r in range(RANKS)]
    if codes != want:
        print("FAILED: %s: exit codes %s" % (what.__name__, codes))
        sys.exit(1)
    print("ok", what.__name__, flush=True)


if __name__ == "__main__":
    run(disagree)
    run(wrong)
    run(dies, 2)
