#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tilec.distributed.attention beside one GPU and torch's context_parallel.

    torchrun --nproc-per-node 2 test/bench/distributed.py
        [--lengths 65536 131072 262144] [--strategies all_gather ring heads]
        [--trace FILE] [--no-peer]

1 x 32/8 heads, D=128, bf16, causal and packed documents, forward and backward. A
time is that of the slowest rank, the least of --repeat runs in turns. speedup:
the time of tilec.attention on one GPU over it. context_parallel takes no
documents, and gets keys and values repeated for grouped heads. --trace writes a
timeline of rank 0 (chrome://tracing), where copies and kernels overlap. --device
cpu: by gloo, a trial of the program.
"""
import argparse
import os
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib" /
                       "python"))
import torch
import torch.distributed as dist

import tilec
import tilec.distributed as td

HEADS, KV_HEADS, DIM = 32, 8, 128


class Run:
    def __init__(self, args):
        self.args, self.device = args, torch.device(args.device)
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        if self.device.type == "cuda":
            self.device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
            torch.cuda.set_device(self.device)

    def wait(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def once(self, call):
        self.wait()
        dist.barrier()
        start = time.perf_counter()
        found = call()
        self.wait()
        took = torch.tensor([time.perf_counter() - start], device=self.device)
        dist.all_reduce(took, dist.ReduceOp.MAX)
        return took.item() * 1e3, found

    def times(self, calls):
        """{name: (least, median) in ms}, in turns."""
        found = {name: [] for name in calls}
        for i in range(self.args.repeat + 2):
            for name, call in calls.items():
                took, _ = self.once(call)
                if i >= 2:
                    found[name].append(took)
        return {n: (min(x), statistics.median(x)) for n, x in found.items()}

    def say(self, *words):
        if self.rank == 0:
            print(*words, flush=True)


def documents(n, device):
    """Lengths from 300 to a quarter of the sequence, no multiples of anything."""
    g = torch.Generator().manual_seed(n)
    starts, at = [], 0
    while at < n:
        starts.append(at)
        at += int(torch.randint(300, max(301, n // 4), (1,), generator=g))
    return torch.tensor(starts, dtype=torch.int32, device=device)


def flops(mods, n):
    """Of both products forward, of the pairs that are seen."""
    if "offsets" not in mods:
        pairs = n * (n + 1) / 2
    else:
        ends = mods["offsets"].tolist() + [n]
        pairs = sum((b - a) * (b - a + 1) / 2 for a, b in zip(ends, ends[1:]))
    return 4 * HEADS * DIM * pairs


def grads(o, do, inputs):
    return torch.autograd.grad(o, inputs, do, retain_graph=True)


def case(run, name, n, mods):
    g = torch.Generator(device=run.device).manual_seed(1)
    dtype = torch.bfloat16 if run.device.type == "cuda" else torch.float32
    q, do = (torch.randn(1, HEADS, n, DIM, device=run.device, dtype=dtype,
                         generator=g) for _ in range(2))
    k, v = (torch.randn(1, KV_HEADS, n, DIM, device=run.device, dtype=dtype,
                        generator=g) for _ in range(2))
    whole = [x.requires_grad_() for x in (q, k, v)]
    s = td.sharding(n, device=run.device, **mods)
    mine = [s.shard(x.detach(), 2).requires_grad_() for x in whole]
    dmine = s.shard(do, 2)

    def one():
        return tilec.attention(*whole, enable_gqa=True, **mods)

    def several(strategy):
        return lambda: td.attention(*mine, sharding=s, enable_gqa=True,
                                    strategy=strategy, **mods)
    forward = {"one GPU": one, **{x: several(x) for x in run.args.strategies}}
    results = {name: call() for name, call in forward.items()}
    want = s.shard(results["one GPU"].detach(), 2).float()
    for x, o in results.items():
        if x != "one GPU":
            off = ((o.detach().float() - want).norm() / want.norm()).item()
            if off > 1e-2:
                sys.exit("%s %s %d is off by %g" % (name, x, n, off))
    backward = {x: (lambda o=o, x=x: grads(o, do if x == "one GPU" else dmine,
                                           whole if x == "one GPU" else mine))
                for x, o in results.items()}
    if "offsets" not in mods and not run.args.no_peer:
        peer = torchs(run, n, q, k, v, do)
        if peer:
            forward["context_parallel"], backward["context_parallel"] = peer
    products = flops(mods, n)
    for way, calls, factor in (("forward", forward, 1),
                               ("backward", backward, 2.5)):
        times = run.times(calls)
        base = times["one GPU"][0]
        for x, (least, median) in times.items():
            run.say("%-10s %7d %-9s %-17s %9.2f ms (median %9.2f) %7.0f TFLOP/s "
                    "in all, speedup %.2f, %.3f of %d" % (
                        name, n, way, x, least, median,
                        products * factor / least / 1e9, base / least,
                        base / least / run.ranks, run.ranks))
    if run.args.trace:
        trace(run, name, n, forward, backward)


def torchs(run, n, q, k, v, do):
    """torch's context_parallel, causal, (forward, backward), or None."""
    try:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor.experimental import context_parallel
        mesh = init_device_mesh(run.device.type, (run.ranks,))
        group = HEADS // KV_HEADS
        inputs = [x.detach().clone() for x in (
            q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1))]
        dout = do.clone()

        def inside(call):
            parts = [x.clone() for x in inputs + [dout]]
            with context_parallel(mesh, buffers=parts, buffer_seq_dims=[2] * 4,
                                  no_restore_buffers=set(parts)):
                return call(parts)
        state = {}

        def sdpa(parts):
            *x, d = parts
            x = [y.detach().requires_grad_() for y in x]
            o = torch.nn.functional.scaled_dot_product_attention(
                *x, is_causal=True)
            state.update(o=o, x=x, d=d)
            return o
        inside(sdpa)
        # The same calls, without the sharding of these buffers: of one that is
        # small, since torch wants a buffer.
        x, d = state["x"], state["d"]

        def sharded():
            small = torch.zeros(2 * run.ranks, device=run.device)
            return context_parallel(mesh, buffers=[small], buffer_seq_dims=[0],
                                    no_restore_buffers={small})

        def forward():
            with sharded():
                return torch.nn.functional.scaled_dot_product_attention(
                    *x, is_causal=True)

        def backward():
            with sharded():
                return grads(state["o"], d, x)
        forward()
        backward()
        return forward, backward
    except Exception as e:
        run.say("context_parallel %d: %s: %s" % (
            n, type(e).__name__, str(e).split("\n")[0][:200]))
        return None


def trace(run, name, n, forward, backward):
    from torch.profiler import ProfilerActivity, profile
    kinds = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (
        run.device.type == "cuda")
    for x in run.args.strategies:
        with profile(activities=kinds) as p:
            run.once(forward[x])
            run.once(backward[x])
        if run.rank == 0:
            p.export_chrome_trace("%s.%s.%s.%d.json" % (run.args.trace, name, x,
                                                        n))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", type=int, nargs="+",
                        default=[65536, 131072, 262144])
    parser.add_argument("--strategies", nargs="+",
                        default=["all_gather", "ring"])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--trace", default="")
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    dist.init_process_group("nccl" if args.device == "cuda" else "gloo")
    run = Run(args)
    for n in args.lengths:
        case(run, "causal", n, dict(mask_mod="causal"))
        case(run, "documents", n, dict(
            mask_mod="document_causal", offsets=documents(n, run.device)))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
