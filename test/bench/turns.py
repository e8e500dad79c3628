# SPDX-License-Identifier: Apache-2.0
"""Contenders timed in turns, each turn a replay of a CUDA graph."""
import gc
import random
import statistics
import time

import torch


class Turn:
    """A CUDA graph of several launches of what `make` makes."""

    def __init__(self, make, target_ms):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.run = make()  # holds the tensors that the graph reads
            for _ in range(3):
                self.results = self.run()
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            once = self._milliseconds(self.run)
        self.n = max(2, min(200, int(target_ms / max(once, 1e-3))))
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            for _ in range(self.n):
                self.results = self.run()
        self.graph.replay()
        torch.cuda.synchronize()

    @staticmethod
    def _milliseconds(f):
        start = torch.cuda.Event(enable_timing=True)
        stop = torch.cuda.Event(enable_timing=True)
        start.record()
        f()
        stop.record()
        torch.cuda.synchronize()
        return start.elapsed_time(stop)

    def microseconds(self, settle):
        """A replay; one before it, which nobody times, brings the GPU to the
        clock and the warmth that this kernel leads to."""
        if settle:
            self.graph.replay()
        return 1e3 * self._milliseconds(self.graph.replay) / self.n


def compile_all(problem, contenders):
    """Runs each contender once, for what it leaves in caches."""
    for name, make in problem.makers().items():
        if contenders and name not in contenders:
            continue
        try:
            make()()
        except Exception:  # the run that is timed says it
            pass
    torch.cuda.synchronize()


def pingpong(problem, contenders, rounds, turn_ms, rest_ms=0):
    """Times in microseconds of all contenders whose results are right: a dict
    with a list for each; relative errors; and why others failed. Before each
    turn the GPU rests, or runs the same."""
    turns, errors, failures = {}, {}, {}
    for name, make in problem.makers().items():
        if contenders and name not in contenders:
            continue
        try:
            turn = Turn(make, turn_ms)
            errors[name] = problem.error(name, turn.results)
            if not errors[name] < problem.tolerance(name):
                raise RuntimeError("the result is wrong: relative error %.3g"
                                   % errors[name])
            turns[name] = turn
        except Exception as e:  # a peer without such a kernel
            failures[name] = (str(e) or type(e).__name__).splitlines()[0][:300]
    times = {name: [] for name in turns}
    for _ in range(rounds):
        # Whoever follows a slow one finds a cooler chip: in any order.
        for name in random.sample(list(turns), len(turns)):
            time.sleep(rest_ms / 1e3)
            times[name].append(turns[name].microseconds(settle=not rest_ms))
    return dict(microseconds=times, errors=errors, failures=failures,
                median={n: statistics.median(t) for n, t in times.items()})


def clean_up():
    gc.collect()
    torch.cuda.empty_cache()
