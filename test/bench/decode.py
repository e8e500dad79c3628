#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decode over a cache: tilec, cuDNN and FlashAttention-2 in turns.

    python3 test/bench/decode.py --lib build/libtilec.so [--only 16x32]
        [--json out.json]

Each case has so many caches that a launch finds none of its keys in the L2
cache. A turn is a CUDA graph of launches, each on the next cache; times are
medians over rounds in random order. All results are checked against float32
attention of two sequences. tilec's schedule is made once before, as for all
layers of a step; its own time is a column. `limit` is the bytes of keys and
values by 4.48 TB/s, a read rate measured on an H200.
"""
import argparse
import itertools
import json
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BYTES_PER_US = 4.48e6
MANY_QUERIES = 64  # no decode
ALL_PAGES = (1, 8, 16, 64, 256)
SOME_PAGES = (16, 64)
MODS = {"soft_cap": dict(score_mod="soft_cap(cap=30.0)"),
        "constant pieces": dict(piece=2048)}


def case(batch, heads, key_heads, queries, keys, dim, pages=(), mods=None):
    return dict(lens=[keys] * batch if isinstance(keys, int) else keys,
                heads=heads, key_heads=key_heads, queries=queries, dim=dim,
                pages=pages, mods=mods or {})


CASES = [
    case(16, 32, 8, 1, 8192, 128, ALL_PAGES, MODS),
    case(64, 32, 8, 1, 2048, 128, SOME_PAGES),
    case(128, 32, 8, 1, 1024, 128, SOME_PAGES),
    case(128, 64, 8, 1, 1024, 128, SOME_PAGES),
    case(32, 32, 32, 1, 4096, 128),
    case(1, 32, 8, 1, 32768, 128, SOME_PAGES),
    case(1, 32, 8, 1, 65536, 128, SOME_PAGES),
    case(1, 32, 8, 1, 131072, 128, SOME_PAGES),
    case(1, 32, 4, 1, 1024, 128, SOME_PAGES),
    case(16, 32, 8, 4, 8192, 128, SOME_PAGES),
    case(16, 64, 8, 1, 8192, 64, SOME_PAGES),
    case(8, 16, 8, 1, 8192, 256, SOME_PAGES),
    case(32, 32, 8, 1, 4096, 128),
    case(32, 40, 8, 1, 4096, 128),
    case(32, 16, 4, 1, 4096, 128),
    case(32, 28, 4, 1, 4096, 128),
    case(32, 32, 8, 1, [131072] + [1024] * 31, 128),
    # Prefill, whole and in chunks.
    case(4, 32, 8, 4096, 4096, 128, SOME_PAGES),
    case(8, 32, 8, 512, 8192, 128, SOME_PAGES),
]


def label(c):
    """16x32/8x1 on 8192, D=128: batch, heads, heads of keys, queries."""
    lens = c["lens"]
    keys = str(lens[0]) if len(set(lens)) == 1 else "%d and %d of %d" % (
        lens[0], len(lens) - 1, lens[1])
    return "%dx%d/%dx%d on %s, D=%d" % (
        len(lens), c["heads"], c["key_heads"], c["queries"], keys, c["dim"])


def bytes_of(c):
    return 4 * sum(c["lens"]) * c["key_heads"] * c["dim"]


class Decode:
    """The tensors of a case, its contenders, and the check of what they give.
    """

    def __init__(self, c):
        import torch
        self.torch, self.c = torch, c
        self.causal = dict(mask_mod="causal") if c["queries"] > 1 else {}
        self.q = self._random(len(c["lens"]), c["heads"], c["queries"])
        most, room = max(c["lens"]), 3e8  # several times the L2 cache
        size = 4 * len(c["lens"]) * most * c["key_heads"] * c["dim"]
        shape = len(c["lens"]), c["key_heads"], most
        self.caches = [(self._random(*shape), self._random(*shape))
                       for _ in range(int(room // size) + 1)]
        self.lens = torch.tensor(c["lens"], device="cuda", dtype=torch.int32)

    def _random(self, *shape):
        return self.torch.randn(*shape, self.c["dim"], device="cuda",
                                dtype=self.torch.bfloat16)

    def makers(self):
        import tilec
        found = {"tilec": lambda: self._tilec(self.caches, {}),
                 "schedule": self._schedule}
        for name, mod in self.c["mods"].items():
            found["tilec, " + name] = lambda m=mod: self._tilec(
                self.caches, {}, m)
        if self.c["queries"] >= MANY_QUERIES:
            found["tilec, no cache"] = lambda: self._in_turn(
                lambda k, v: tilec.attention(
                    self.q, k, v, mask_mod="causal_bottom_right",
                    enable_gqa=True), self.caches)
            found["tilec, ragged"] = self._ragged
        for page in self.c["pages"]:
            found["tilec, pages of %d" % page] = lambda p=page: self._paged(p)
        if len(set(self.c["lens"])) == 1 and self.c["queries"] == 1:
            found["cuDNN"] = lambda: self._sdpa("CUDNN_ATTENTION")
            found["FlashAttention-2"] = lambda: self._sdpa("FLASH_ATTENTION")
        return found

    def _in_turn(self, call, caches):
        turn = itertools.cycle(caches)
        return lambda: (call(*next(turn)),)

    def _tilec(self, caches, places, mod=None):
        import tilec
        mod = dict(mod or {})
        piece = {"piece": mod.pop("piece")} if "piece" in mod else {}
        places = dict(places, kv_lens=self.lens)
        schedule = tilec.schedule(self.q, *caches[0], **piece, **places)
        return self._in_turn(lambda k, v: tilec.attention(
            self.q, k, v, schedule=schedule, **piece, **places, **mod,
            **self.causal), caches)

    def _ragged(self):
        """Queries and keys one after the other, as [all of them, heads, D]."""
        import tilec
        torch, b = self.torch, len(self.c["lens"])

        def joined(x):
            return x.transpose(1, 2).flatten(0, 1).contiguous().transpose(
                0, 1)[None]

        def starts(n):
            return torch.arange(0, b * n + 1, n, device="cuda",
                                dtype=torch.int32)

        q = joined(self.q)
        places = dict(cu_seqlens_q=starts(self.c["queries"]),
                      cu_seqlens_k=starts(self.c["lens"][0]))
        caches = [(joined(k), joined(v)) for k, v in self.caches]
        schedule = tilec.schedule(q, *caches[0], **places)

        def call(k, v):
            o = tilec.attention(q, k, v, schedule=schedule, **places,
                                **self.causal)
            return o[0].transpose(0, 1).unflatten(0, (b, -1)).transpose(1, 2)
        return self._in_turn(call, caches)

    def _schedule(self):
        import tilec
        made = tilec.schedule(self.q, *self.caches[0], kv_lens=self.lens)
        return lambda: (made.update(),)

    def _paged(self, page):
        """The caches in pages that lie in any order."""
        torch, (b, h, n, d) = self.torch, self.caches[0][0].shape
        count = -(-n // page)
        order = torch.randperm(b * count, device="cuda")

        def pool(x):
            found = torch.empty(b * count, h, page, d, device="cuda",
                                dtype=x.dtype)
            found[order] = x.view(b, h, count, page, d).transpose(
                1, 2).reshape(b * count, h, page, d)
            return found

        table = order.view(b, count).to(torch.int32)
        return self._tilec([(pool(k), pool(v)) for k, v in self.caches],
                           dict(page_table=table))

    def _sdpa(self, backend):
        from torch.nn.attention import SDPBackend, sdpa_kernel
        from torch.nn.functional import scaled_dot_product_attention

        def call(k, v):
            with sdpa_kernel(getattr(SDPBackend, backend)):
                return scaled_dot_product_attention(
                    self.q, k, v, enable_gqa=self.q.shape[1] != k.shape[1])
        return self._in_turn(call, self.caches)

    def _wanted(self, b, k, v, mods):
        torch, c, n = self.torch, self.c, self.c["lens"][b]
        group = c["heads"] // c["key_heads"]
        q = self.q[b].view(c["key_heads"], group, *self.q.shape[2:]).float()
        s = torch.einsum("hgmd,hnd->hgmn", q, k[b, :, :n].float())
        s *= c["dim"] ** -0.5
        if "soft_cap" in mods:
            s = 30 * torch.tanh(s / 30)
        position = n - c["queries"] + torch.arange(c["queries"], device="cuda")
        late = torch.arange(n, device="cuda")[None] > position[:, None]
        s = s.masked_fill(late, float("-inf"))
        return torch.einsum("hgmn,hnd->hgmd", s.softmax(-1),
                            v[b, :, :n].float()).flatten(0, 1)

    def error(self, name, _):
        """The relative error of a first call, on the first cache."""
        if name == "schedule":
            return 0.0
        o = self.makers()[name]()()[0]
        worst = 0.0
        for b in {0, len(self.c["lens"]) - 1}:
            want = self._wanted(b, *self.caches[0], name)
            worst = max(worst, float((o[b].float() - want).norm() /
                                     want.norm()))
        return worst

    def tolerance(self, _):
        return 1e-2


def table_of(rows):
    lines = []
    for r in rows:
        lines += ["%s, limit %.1f us:" % (r["label"], r["limit"])]
        lines += ["    %-28s %7.1f us, %.2f of the limit" % (
            n, t, t / r["limit"]) for n, t in r["median"].items()]
        lines += ["    %-28s %s" % pair for pair in r["failures"].items()]
    return "\n".join(lines)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--lib", required=True, help="libtilec.so")
    p.add_argument("--only", default="", help="cases whose label holds this")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--turn-ms", type=float, default=3.0)
    p.add_argument("--json", help="where all figures go")
    args = p.parse_args()
    os.environ["TILEC_LIBRARY"] = os.path.abspath(args.lib)
    sys.path[:0] = [str(ROOT / "lib" / "python"), str(ROOT / "test" / "bench")]
    from turns import clean_up, pingpong
    rows = []
    for c in CASES:
        if args.only not in label(c):
            continue
        problem = Decode(c)
        found = pingpong(problem, None, args.rounds, args.turn_ms)
        rows.append(dict(label=label(c), limit=bytes_of(c) / BYTES_PER_US,
                         **found))
        print(table_of(rows[-1:]), flush=True)
        del problem
        clean_up()
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump(dict(command=sys.argv, rows=rows), f, indent=1)


if __name__ == "__main__":
    main()
