#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decode over a cache: tilec and its peers in turns.

    python3 test/bench/decode.py --lib build/libtilec.so [--set decode,bytes]
        [--only 16x32] [--contenders tilec,cuDNN] [--warm 12]
        [--json out.json]

Each case has so many caches that a launch finds few of its keys in the L2
cache. A turn is a CUDA graph of launches, each on the next cache; times are
medians over rounds in random order. All results are checked against float32
attention of two sequences. A schedule is made once before, as for all layers
of a step; its own time is a column. `limit` is the bytes of keys and values by
4.48 TB/s, a read rate measured on an H200. decode_cases.py has the sets,
decode_peers.py the peers: what torch has, and wheels that are installed.

--warm N has N processes compile everything first, into the caches on disk.
With --only or --contenders rows are added to those of an existing file.
"""
import argparse
import datetime
import itertools
import os
import pathlib
import subprocess
import sys

from decode_cases import CAP, SETS, VARIANTS, bytes_of, is_latent, label
from peers import add, commit, read, write

ROOT = pathlib.Path(__file__).resolve().parents[2]
BYTES_PER_US = 4.48e6
MANY_QUERIES = 64  # no decode
TYPES = {"bf16": "bfloat16", "f8e4m3": "float8_e4m3fn"}
ROOM = 3e8  # several times the L2 cache
FEWEST = 2


class Decode:
    """The tensors of a case, its contenders, and the check of what they give.
    A contender's call gives o and the (k, v, variant) that it is of."""

    def __init__(self, c):
        import torch
        self.torch, self.c = torch, c
        self.causal = dict(mask_mod="causal") if c["queries"] > 1 else {}
        self.q = self._random(torch.bfloat16, len(c["lens"]), c["heads"],
                              c["queries"], c["dim"])
        self.lens = torch.tensor(c["lens"], device="cuda", dtype=torch.int32)
        self.slopes = 0.5 ** torch.arange(c["heads"], device="cuda").float()
        self.caches = self._caches(c["type"])

    def _random(self, dtype, *shape):
        return self.torch.randn(*shape, device="cuda").to(dtype)

    def _caches(self, type_):
        c, dtype = self.c, getattr(self.torch, TYPES[type_])
        shape = len(c["lens"]), c["key_heads"], max(c["lens"])
        copies = max(FEWEST, int(ROOM // bytes_of(c)) + 1)

        def one():
            k = self._random(dtype, *shape, c["dim"])
            return k, (k[..., :c["dv"]] if is_latent(c) else
                       self._random(dtype, *shape, c["dv"]))
        return [one() for _ in range(copies)]

    def makers(self):
        import tilec
        from decode_peers import PAGE, peers_of
        found = {"tilec": lambda: self._tilec({}),
                 "schedule": self._schedule}
        for name in self.c["variants"]:
            found["tilec, " + name] = lambda v=VARIANTS[name]: self._tilec(v)
        if self.c["queries"] >= MANY_QUERIES:
            found["tilec, no cache"] = lambda: self._in_turn(
                lambda k, v: tilec.attention(
                    self.q, k, v, mask_mod="causal_bottom_right",
                    enable_gqa=True), self.caches)
            found["tilec, ragged"] = self._ragged
        for page in self.c["pages"]:
            found["tilec, pages of %d" % page] = lambda p=page: self._paged(p)
        for name, make, wants_pages in peers_of(self.c):
            found[name] = lambda m=make, w=wants_pages: self._peer(
                m, PAGE if w else 0)
        return found

    def _in_turn(self, call, caches, variant=None, dense=None):
        """dense: the caches as [B, HK, N, D], where they are in pages."""
        turn = itertools.cycle(zip(caches, dense or caches))

        def run():
            cache, plain = next(turn)
            return call(*cache), (*plain, variant or {})
        return run

    # ---- tilec ----

    def _factors(self, variant):
        torch, c = self.torch, self.c
        if variant.get("factors") == "one":
            return {n: torch.tensor([x], device="cuda")
                    for n, x in (("descale_k", 0.7), ("descale_v", 1.3))}
        if variant.get("factors") == "row":
            shape = len(c["lens"]), c["key_heads"], max(c["lens"])
            return {n: torch.rand(shape, device="cuda") + 0.5
                    for n in ("descale_k", "descale_v")}
        return {}

    def _tilec(self, variant, caches=None, places=None):
        import tilec
        caches = caches or self.caches
        dense = self.caches
        if "type" in variant:
            caches = dense = self._caches(variant["type"])
        if "apart" in variant:
            caches = [(k, v.clone()) for k, v in caches]
        places = dict(places or {}, kv_lens=self.lens)
        piece = {n: variant[n] for n in ("piece",) if n in variant}
        mods = {n: variant[n] for n in ("score_mod", "mask_mod")
                if n in variant} or self.causal
        if "w" in variant:
            mods = dict(mask_mod="sliding_window(w=%d)" % variant["w"])
        if mods.get("score_mod") == "alibi":
            mods = dict(mods, captured=dict(slopes=self.slopes))
        factors = self._factors(variant)
        mask = {n: mods[n] for n in ("mask_mod",) if "dealt" in variant}
        schedule = tilec.schedule(self.q, *caches[0], **piece, **mask,
                                  **places)
        return self._in_turn(lambda k, v: tilec.attention(
            self.q, k, v, schedule=schedule, **piece, **places, **mods,
            **factors), caches, dict(variant, **factors), dense)

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
        return self._in_turn(call, caches, dense=self.caches)

    def _schedule(self):
        import tilec
        made = tilec.schedule(self.q, *self.caches[0], kv_lens=self.lens)
        return lambda: (made.update(), None)

    # ---- Pages ----

    def _pools(self, page):
        """The caches in pages that lie in any order, and their table."""
        torch, (b, h, n, _) = self.torch, self.caches[0][0].shape
        count = -(-n // page)
        order = torch.randperm(b * count, device="cuda")

        def pool(x):
            d = x.shape[-1]
            found = torch.empty(b * count, h, page, d, device="cuda",
                                dtype=x.dtype)
            bits = torch.int16 if x.element_size() == 2 else torch.int8
            found.view(bits)[order] = x.view(bits).view(
                b, h, count, page, d).transpose(1, 2).reshape(
                    b * count, h, page, d)
            return found

        def pools(k, v):
            k = pool(k)
            return k, (k[..., :self.c["dv"]] if is_latent(self.c) else pool(v))

        return ([pools(k, v) for k, v in self.caches],
                order.view(b, count).to(torch.int32))

    def _paged(self, page):
        pools, table = self._pools(page)
        return self._tilec({}, pools, dict(page_table=table))

    def _peer(self, make, page):
        if not page:
            return self._in_turn(make(self, None), self.caches)
        self.pool_page = page
        pools, table = self._pools(page)
        return self._in_turn(make(self, table), pools, dense=self.caches)

    # ---- What is right ----

    def _scores(self, b, k, variant):
        torch, c, n = self.torch, self.c, self.c["lens"][b]
        group = c["heads"] // c["key_heads"]
        q = self.q[b].view(c["key_heads"], group, *self.q.shape[2:]).float()
        s = torch.einsum("hgmd,hnd->hgmn", q, k[b, :, :n].float())
        s *= c["dim"] ** -0.5
        factor = variant.get("descale_k")
        if factor is not None:
            s *= (factor if factor.ndim == 1 else
                  factor[b][:, None, None, :n])
        i = n - c["queries"] + torch.arange(c["queries"], device="cuda")[:, None]
        j = torch.arange(n, device="cuda")[None]
        heads = torch.arange(c["heads"], device="cuda").view(
            c["key_heads"], group, 1, 1)
        if variant == VARIANTS["soft cap"]:
            s = CAP * torch.tanh(s / CAP)
        if variant == VARIANTS["alibi"]:
            s = s + self.slopes[heads] * (j - i)
        see = j <= i
        if "w" in variant:
            see = see & (i - j < variant["w"])
        if variant == VARIANTS["own mask"]:
            see = see & ((j + heads) % 7 != 3)
        return s.masked_fill(~see, float("-inf"))

    def _wanted(self, b, k, v, variant):
        torch, n = self.torch, self.c["lens"][b]
        values, factor = v[b, :, :n].float(), variant.get("descale_v")
        if factor is not None:
            values = values * (factor if factor.ndim == 1 else
                               factor[b][:, :n, None])
        weights = self._scores(b, k, variant).softmax(-1)
        return torch.einsum("hgmn,hnd->hgmd", weights, values).flatten(0, 1)

    def error(self, name, results):
        """The relative error of the last call."""
        o, of = results
        if of is None:
            return 0.0
        worst = 0.0
        for b in {0, len(self.c["lens"]) - 1}:
            want = self._wanted(b, *of)
            e = float((o[b].float() - want).norm() / want.norm())
            worst = e if not e <= worst else worst  # NaN is worst
        return worst

    def tolerance(self, _):
        return 1e-2


# ---- Runs ----


def table_of(row):
    lines = ["%s, limit %.1f us:" % (row["label"], row["limit"])]
    lines += ["    %-32s %7.1f us, %.2f of the limit, error %.1e" % (
        n, t, t / row["limit"], row["errors"][n])
        for n, t in row["median"].items()]
    lines += ["    %-32s %s" % pair for pair in row["failures"].items()]
    return "\n".join(lines)


def chosen(args):
    names = args.set.split(",") if args.set else list(SETS)
    found = [dict(c, set=name) for name in names for c in SETS[name]]
    found = [c for c in found if args.only in label(c)]
    return found[args.warming[0]::args.warming[1]]


def warm(args):
    """This program again, several times, each for its share of the cases."""
    workers = [subprocess.Popen(
        [sys.executable, *sys.argv, "--warming", str(i), str(args.warm)],
        stdout=subprocess.DEVNULL) for i in range(args.warm)]
    for w in workers:
        w.wait()


def about(args):
    import torch

    import tilec
    return dict(date=datetime.datetime.now(datetime.timezone.utc).isoformat(),
                commit=args.commit, gpu=torch.cuda.get_device_name(),
                torch=torch.__version__, cudnn=torch.backends.cudnn.version(),
                tilec=tilec.version(), command=sys.argv)


def run(args):
    from turns import clean_up, compile_all, pingpong
    data = read(args.json)
    data["runs"].append(about(args))
    order = {(label(c), "forward"): i for i, c in
             enumerate(c for cases in SETS.values() for c in cases)}
    for c in chosen(args):
        problem = Decode(c)
        if args.warming != [0, 1]:
            compile_all(problem, args.contenders)
            continue
        row = dict(case=c, label=label(c), limit=bytes_of(c) / BYTES_PER_US,
                   run=len(data["runs"]) - 1, **pingpong(
                       problem, args.contenders, args.rounds, args.turn_ms))
        print(table_of(row), flush=True)
        add(data, row, order)
        write(args.json, data)
        del problem
        clean_up()


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--lib", required=True, help="libtilec.so")
    p.add_argument("--set", help="sets, with commas; without: all")
    p.add_argument("--only", default="", help="cases whose label holds this")
    p.add_argument("--contenders", type=lambda s: s.split(","))
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--turn-ms", type=float, default=3.0)
    p.add_argument("--warm", type=int, default=0, metavar="N")
    p.add_argument("--warming", type=int, nargs=2, default=[0, 1],
                   help=argparse.SUPPRESS)
    p.add_argument("--commit", default=commit(),
                   help="what the library was built from")
    p.add_argument("--json", help="where all figures go")
    args = p.parse_args()
    os.environ["TILEC_LIBRARY"] = os.path.abspath(args.lib)
    sys.path.insert(0, str(ROOT / "lib" / "python"))
    if args.warm and args.warming == [0, 1]:
        warm(args)
    run(args)


if __name__ == "__main__":
    main()
