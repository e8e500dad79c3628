#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Host time of calls from Python: tilec beside scaled_dot_product_attention,
FlexAttention (compiled) and Triton, in one process; and the first call of
processes of their own.

    TILEC_LIBRARY=build/libtilec.so python3 test/bench/host.py [--no-flex]
        [--parts] [--rounds 60] [--calls 50] [--first 2] [--only TEXT]
        [--json host.json]

Contenders take turns; a round is so many calls, between two waits for the
device that are not timed. A figure is the median of the rounds' means, in
brackets the least. The problem is small (1x8x128x64), so that the GPU is never
waited for. Without a GPU (or with --device cpu) the calls run their kernels too,
of 1x1x8x64: such figures show what the package adds, and no ratio.

First calls: `torch` is imported and has a CUDA context, then `import tilec` and
one call are timed, with compiled code in the cache and with an empty one. A
call with Python mods imports dynamo, which is timed alone, too.
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "lib" / "python"
sys.path.insert(0, str(PACKAGE))

ADD = """
kernel @add(%x: tensor<[?] x f32>, %y: tensor<[?] x f32>,
            %z: tensor<[?] x f32>) grid(cdiv(size(%x, 0), 1024)) {
  %i = program_id(0) * 1024
  %a = load %x[%i +: 1024] boundary(0)
  %b = load %y[%i +: 1024] boundary(0)
  store %z[%i +: 1024], %a + %b boundary(0)
}
"""

# What a process does that imported torch and made a context.
FIRST = {
    "tilec": 'import tilec; tilec.attention(q, k, v, mask_mod="causal")',
    "tilec, gradients": 'import tilec; tilec.attention(*(x.requires_grad_() '
    'for x in (q, k, v)), mask_mod="causal").sum().backward()',
    "tilec, Python mods": "from tilec.flex_attention import flex_attention, "
    "create_block_mask; flex_attention(q, k, v, block_mask=create_block_mask("
    "lambda b, h, i, j: i >= j, None, None, q.shape[2], q.shape[2], "
    "device=q.device))",
    "dynamo": "import torch._dynamo",
    "sdpa": "torch.nn.functional.scaled_dot_product_attention(q, k, v, "
            "is_causal=True)",
}
CHILD = """
import sys, time
sys.path.insert(0, %r)
import torch
q, k, v = (torch.randn(%r, device=%r, dtype=torch.%s) for _ in range(3))
wait = torch.cuda.synchronize if q.is_cuda else lambda: None
(q + k).sum().item()
known = len(sys.modules)
t = time.perf_counter()
%s
wait()
print(time.perf_counter() - t, len(sys.modules) - known)
"""


def first_call(code, device, shape, dtype, cache):
    """Seconds, and how many modules it imported."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD % (str(PACKAGE), shape, device, dtype,
                                        code)],
        env={**os.environ, "TILEC_CACHE_DIR": cache}, capture_output=True,
        text=True)
    if done.returncode:
        return done.stderr.strip().splitlines()[-1]
    seconds, modules = done.stdout.split()
    return float(seconds), int(modules)


def first_calls(device, shape, dtype, times, only, show):
    found = {}
    for name, code in FIRST.items():
        if only not in "first call: " + name:
            continue
        with tempfile.TemporaryDirectory() as cache:
            for i in range(times + 1):
                what = name + (", code not cached" if not i else "")
                if not name.startswith("tilec") and not i:
                    continue
                got = first_call(code, device, shape, dtype, cache)
                found.setdefault(what, []).append(got)
    for what, got in found.items():
        show("first call: %-30s %s" % (what, "; ".join(
            x if isinstance(x, str) else "%.2f s (%d modules)" % x
            for x in got)))
    return found


class Contenders:
    """Functions by row and name, each of which runs one call."""

    def __init__(self, device, with_flex):
        import torch
        import tilec
        self.torch, self.tilec, self.device = torch, tilec, device
        self.shape = (1, 8, 128, 64) if device == "cuda" else (1, 1, 8, 64)
        self.dtype = torch.bfloat16 if device == "cuda" else torch.float32
        self.options = {} if device == "cuda" else {
            "kernel_options": {"threads": 1}}
        self.with_flex = with_flex

    def inputs(self, grad):
        torch = self.torch
        return [torch.randn(self.shape, device=self.device, dtype=self.dtype,
                            requires_grad=grad) for _ in range(3)]

    def forwards(self, t, **more):
        """By name: tilec's, torch's."""
        torch, tilec = self.torch, self.tilec
        sdpa = torch.nn.functional.scaled_dot_product_attention
        found = {"tilec": lambda: tilec.attention(
                     *t, mask_mod="causal", **self.options),
                 "sdpa": lambda: sdpa(*t, is_causal=True)}
        if self.with_flex:
            from torch.nn.attention.flex_attention import (create_block_mask,
                                                           flex_attention)
            if not hasattr(self, "flex"):
                self.flex = torch.compile(flex_attention)
                n = self.shape[2]
                self.blocks = create_block_mask(
                    lambda b, h, i, j: i >= j, None, None, n, n,
                    device=self.device)
            found["flex"] = lambda: self.flex(*t, block_mask=self.blocks)
        return found

    def with_backward(self, forward, t, dout):
        grad = self.torch.autograd.grad
        return lambda: grad(forward(), t, dout)

    def rows(self):
        torch, tilec = self.torch, self.tilec
        t, g = self.inputs(False), self.inputs(True)
        dout = torch.randn_like(t[0])
        slopes = torch.ones(self.shape[1], device=self.device)
        forward, with_grad = self.forwards(t), self.forwards(g)
        window = {
            "tilec": lambda: tilec.attention(
                *t, mask_mod="sliding_window", score_mod="alibi", w=64,
                slopes=slopes, **self.options),
            "sdpa": forward["sdpa"]}
        rows = {
            "forward": forward,
            "forward, window and slopes captured": window,
            "forward, gradients wanted": with_grad,
            "forward and backward": {
                n: self.with_backward(f, g, dout)
                for n, f in with_grad.items()}}
        rows.update(self.over_a_cache())
        rows["kernel: vector add"] = self.kernels()
        return rows

    def over_a_cache(self):
        """A decode step of a layer; beside sdpa on the same tensors."""
        torch, tilec = self.torch, self.tilec
        q, k, v = self.inputs(False)
        q = q[:, :, :1].clone()
        lens = torch.full((1,), k.shape[2], dtype=torch.int32,
                          device=self.device)
        table = torch.arange(1, dtype=torch.int32, device=self.device)[None]
        paged = dict(kv_lens=lens, page_table=table)
        none = torch.zeros_like(lens)
        schedule = tilec.schedule(q, k, v, **paged)
        new = [x[:, :, :1].clone() for x in (k, v)]
        sdpa = torch.nn.functional.scaled_dot_product_attention
        index = torch.zeros(1, dtype=torch.int64, device=self.device)

        def index_copy():
            k.index_copy_(2, index, new[0])
            v.index_copy_(2, index, new[1])

        return {
            "cache: decode": {
                "tilec": lambda: tilec.attention(q, k, v, schedule=schedule,
                                                 **paged),
                "sdpa": lambda: sdpa(q, k, v)},
            "cache: decode, own schedule": {
                "tilec": lambda: tilec.attention(q, k, v, **paged)},
            "cache: schedule made again": {"tilec": schedule.update},
            "cache: append": {
                "tilec": lambda: tilec.append(*new, k, v, kv_lens=none,
                                              page_table=table),
                "index_copy_": index_copy}}

    def kernels(self):
        torch = self.torch
        x, y, z = (torch.randn(1024, device=self.device) for _ in range(3))
        add = self.tilec.kernel(ADD)
        found = {"tilec": lambda: add(x, y, z),
                 "torch": lambda: torch.add(x, y, out=z)}
        if self.device == "cuda":
            triton_add = triton_vector_add()
            found["triton"] = lambda: triton_add[(1,)](x, y, z, 1024,
                                                       BLOCK=1024)
        return found

    def parts(self):
        """What calls are made of."""
        torch = self.torch
        q = self.inputs(False)[0]
        add = self.tilec.kernel(ADD)
        x, y, z = (torch.randn(1024, device=self.device) for _ in range(3))
        self.kept = add, x, y, z  # the launch has their addresses alone
        add(x, y, z)
        launch = next(iter(add._ready.values()))._launch
        at = [t.data_ptr() for t in (x, y, z)]
        structs = launch._free[0]
        found = {
            "empty_like": lambda: torch.empty_like(q),
            "empty_strided": lambda: torch.empty_strided(
                (1, 8, 128), (1024, 128, 1), dtype=torch.float32,
                device=q.device),
            "kind": lambda: self.tilec._tensors.kind(q),
            "launch from Python": lambda: launch(at, (), x),
            "launch in C": lambda: launch._run(*structs.call),
            "torch.add": lambda: torch.add(x, y)}
        if self.device == "cuda":
            raw = torch._C._cuda_getCurrentRawStream
            found["current stream"] = lambda: raw(0)
            found["current device"] = torch.cuda.current_device
            found["is capturing"] = torch.cuda.is_current_stream_capturing
        return {"part: " + n: {"tilec": f} for n, f in found.items()}


# Triton reads a kernel's source out of its file.
TRITON = """
import triton
import triton.language as tl

@triton.jit
def vector_add(x, y, z, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = at < n
    tl.store(z + at, tl.load(x + at, here) + tl.load(y + at, here), here)
"""


def triton_vector_add():
    import importlib.util
    path = pathlib.Path(tempfile.mkdtemp()) / "vector_add.py"
    path.write_text(TRITON, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("vector_add", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.vector_add


def timed(contenders, rounds, calls, wait):
    """{name: microseconds of each round}"""
    found = {name: [] for name in contenders}
    for f in contenders.values():
        for _ in range(20):
            f()
    for _ in range(rounds):
        for name in random.sample(list(contenders), len(contenders)):
            f = contenders[name]
            wait()
            t = time.perf_counter()
            for _ in range(calls):
                f()
            found[name].append((time.perf_counter() - t) / calls * 1e6)
    wait()
    return found


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"))
    parser.add_argument("--no-flex", action="store_true")
    parser.add_argument("--parts", action="store_true",
                        help="also what calls are made of")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--calls", type=int, default=50)
    parser.add_argument("--first", type=int, default=2,
                        help="first calls with cached code, of each")
    parser.add_argument("--only", default="",
                        help="rows whose names have this part")
    parser.add_argument("--json")
    args = parser.parse_args()
    import torch
    device = args.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if device == "cpu":
        torch.set_num_threads(1)

    def show(line):
        print(line, flush=True)

    c = Contenders(device, device == "cuda" and not args.no_flex)
    rows = c.rows()
    if args.parts:
        rows.update(c.parts())
    rows = {name: row for name, row in rows.items() if args.only in name}
    show("torch %s, %s" % (torch.__version__, torch.cuda.get_device_name()
                           if device == "cuda" else "CPU"))
    show("extension: %s" % c.tilec.extension())
    found, wait = {}, (torch.cuda.synchronize if device == "cuda" else
                       lambda: None)
    for row, contenders in rows.items():
        found[row] = times = timed(contenders, args.rounds, args.calls, wait)
        us = {n: statistics.median(x) for n, x in times.items()}
        show("%-36s %s" % (row, "   ".join(
            "%s %.1f (%.1f)%s" % (
                n, us[n], min(times[n]),
                "" if n == "tilec" else ", ratio %.2f" % (us["tilec"] / us[n]))
            for n in us)))
    found["first"] = first_calls(device, c.shape, str(c.dtype).partition(
        ".")[2], args.first, args.only, show)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
