#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attention with and without dropout, bf16: tilec in turns with torch's sdpa,
as it chooses (torch) and by FlashAttention-2 (flash), forward, and forward and
backward.

    TILEC_LIBRARY=build/libtilec.so python3 test/bench/dropout.py [--p 0.1]
        [--rounds 7] [--only 4096x64] [--json dropout.json]

A turn is a CUDA graph of launches, the draw of a seed included; times are
medians over rounds in random order. Of results with dropout the mean is
checked, which dropping and scaling leave as it is.
"""
import argparse
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "lib" / "python"), str(ROOT / "test" / "bench")]

# Batch, heads, length, head dim; causal.
CASES = [((4, 16, 4096, 128), True), ((4, 16, 4096, 128), False),
         ((4, 32, 4096, 64), True), ((4, 32, 4096, 64), False),
         ((4, 8, 4096, 256), True)]
TOLERANCE = 2e-3


class Problem:
    """What turns.pingpong times: (library, p) and the direction in a name."""

    def __init__(self, shape, causal, backward, p):
        import torch
        self.torch = torch
        generator = torch.Generator("cuda").manual_seed(0)
        self.q, self.k, self.v, self.do = (torch.randn(
            *shape, device="cuda", dtype=torch.bfloat16, generator=generator)
            for _ in range(4))
        self.v += 1
        self.do += 1
        self.causal, self.backward, self.p = causal, backward, p

    def makers(self):
        return {"%s%s" % (library, ", dropout" if p else ""):
                lambda call=call, p=p: self.run(call, p)
                for library, call in (("tilec", self.tilec),
                                      ("torch", self.sdpa),
                                      ("flash", self.flash))
                for p in (0.0, self.p)}

    def tilec(self, q, k, v, p):
        import tilec
        return tilec.scaled_dot_product_attention(q, k, v, None, p,
                                                  self.causal)

    def sdpa(self, q, k, v, p):
        return self.torch.nn.functional.scaled_dot_product_attention(
            q, k, v, None, p, self.causal)

    def flash(self, q, k, v, p):
        from torch.nn import attention
        with attention.sdpa_kernel(attention.SDPBackend.FLASH_ATTENTION):
            return self.sdpa(q, k, v, p)

    def run(self, call, p):
        torch = self.torch
        leaves = [x.detach().requires_grad_(self.backward)
                  for x in (self.q, self.k, self.v)]

        def forward():
            with torch.no_grad():
                return [call(*leaves, p)]

        def both():
            return torch.autograd.grad(call(*leaves, p), leaves, self.do)
        return both if self.backward else forward

    def error(self, name, results):
        """The means of o, or dv, are those of v, or do: rows of weights sum
        up to 1. A causal mask reads the first values more often."""
        got = results[-1].float()
        want = self.do if self.backward else self.v
        if self.backward or not self.causal:
            return abs(float(got.mean() / want.float().mean()) - 1)
        with self.torch.no_grad():
            exact = self.flash(self.q, self.k, self.v, 0.0).float()
        return abs(float(got.mean() / exact.mean()) - 1)

    @staticmethod
    def tolerance(name):
        return TOLERANCE


def measure(args, shape, causal):
    from turns import clean_up, compile_all, pingpong
    rows = []
    for backward in (False, True):
        problem = Problem(shape, causal, backward, args.p)
        compile_all(problem, None)
        timed = pingpong(problem, None, args.rounds, 20)
        rows.append(dict(shape=shape, causal=causal, backward=backward,
                         **timed))
        print("%-16s %-7s %-8s %s" % (
            "x".join(map(str, shape)), "causal" if causal else "",
            "both" if backward else "forward", "  ".join(
                "%s %.3f ms" % (n, t / 1e3)
                for n, t in timed["median"].items())), flush=True)
        for name, why in timed["failures"].items():
            print("    %s: %s" % (name, why), flush=True)
        del problem
        clean_up()
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--p", type=float, default=0.1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="")
    parser.add_argument("--json")
    args = parser.parse_args()
    rows = []
    for shape, causal in CASES:
        if args.only in "x".join(map(str, shape)):
            rows += measure(args, shape, causal)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
