# SPDX-License-Identifier: Apache-2.0
"""Attention over a cache, against float64 attention of each sequence."""
import pathlib
import re
import sys
import unittest
from unittest import mock

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "lib" / "python"))
import tilec
from tilec import _kvcache, _plan

POISON = 2147480000  # in unused entries of a table
EMPTY = -np.inf


N = 96  # keys of the test of all mods


def ints(*x, type=np.int32):
    return np.array(x, type)


_tile = dict(width=12, height=8, kernel_width=5, kernel_height=5)
# Every mask and score of the library, and what it captures.
MODS = {
    "causal": {}, "causal_bottom_right": {}, "causal_from": {"offset": ints(3)},
    "padding": {"lens": ints(70)}, "valid_from": {"starts": ints(20)},
    "sliding_window": {"w": 30}, "local_window": {"left": 20, "right": 5},
    "local_window_bottom_right": {"left": 20, "right": 5},
    "dilated_sliding_window": {"w": 30, "d": 3},
    "sink_window": {"sink": 4, "w": 20},
    "global_sliding_window": {"global": 5, "w": 20},
    "global_positions": {"is_global": (np.arange(N) % 9 == 0).astype(np.int8)},
    "chunked_causal": {"c": 32}, "prefix_lm": {"prefix": 10},
    "prefix_lm_batch": {"prefixes": ints(10)},
    "document": {"offsets": ints(0, 40, N)},
    "document_causal": {"offsets": ints(0, 40, N)},
    "packed": {"q_starts": ints(0, 40, N), "k_starts": ints(0, 30, N)},
    "packed_local": {"q_starts": ints(0, 40, N), "k_starts": ints(0, 30, N),
                     "left": 20, "right": 3},
    "document_ids": {"ids": np.arange(N, dtype=np.int32) // 30},
    "shared_prefix": {"offsets": ints(0, 10, 60, N),
                      "prefix_of": ints(0, 0, 0)},
    "tree": {"ends": np.arange(N, dtype=np.int32) + 40},
    "tree_ancestors": {"prefix": 64, "ancestors": np.tri(
        N, 32, -64, dtype=np.int8)},
    "draft_blocks": {"prefix": 32, "c": 16},
    "block_diffusion": {"length": 48, "c": 16},
    "vision_cross": {"tokens": 16, "intervals": ints(
        [0, 50], [20, 96], [90, 96], [0, 9], [93, 95], [0, 96])},
    "natten": _tile, "tiled_natten": dict(_tile, tile_width=4, tile_height=4),
    "morton_natten": dict(_tile, width=16, height=16),
    "sliding_tiles": dict(area=4, columns=6, rows=4, kernel_columns=3,
                          kernel_rows=3),
    "sliding_tiles_3d": dict(area=4, columns=2, rows=3, layers=4,
                             kernel_columns=3, kernel_rows=3,
                             kernel_layers=3),
    "alibi": {"slopes": np.float32([.5, .25, .1, .01])},
    "soft_cap": {"cap": 5.0}, "soft_cap_approx": {"cap": 5.0},
    "relative_bias": {},
    # Of pages `table` alone would be the page table, too.
    "relative_bias_table": {"score.table": np.sin(
        np.arange(4 * 2 * N, dtype=np.float32)).reshape(4, 2 * N)},
    "head_bias": {"bias": np.float32([1, 2, 3, 4])},
    "row_bias": {"row_bias": np.sin(np.arange(N, dtype=np.float32))},
    "column_bias": {"column_bias": np.sin(np.arange(N, dtype=np.float32))},
    "pair_bias": {"pair_bias": np.sin(np.arange(
        4 * N * N, dtype=np.float32)).reshape(4, N, N)},
    "head_scale": {"scales": np.float32([1, .5, .25, 2])},
}


def mods_of_the_library():
    """{name: "mask_mod" or "score_mod"}"""
    found = {}
    for kind in ("mask", "score"):
        text = (ROOT / "kernels" / "mods" / (kind + "s.tile")).read_text()
        score = "%\\w+: f32, " if kind == "score" else ""
        for name in re.findall(r"func @(\w+)\(" + score +
                               "%b: i32, %h: i32, %q: i32, %k: i32", text):
            found[name] = kind + "_mod"
    return found


def expected(q, k, v, see=None, bias=None):
    """q [M, H, D], k [N, HK, D]: o [M, H, DV], lse [M, H]."""
    (m, heads, d), n = q.shape, k.shape[0]
    group = heads // k.shape[1]
    o = np.zeros((m, heads, v.shape[2]))
    lse = np.full((m, heads), EMPTY)
    position = n - m + np.arange(m)[:, None]
    seen = np.ones((m, n), bool) if see is None else see(
        position, np.arange(n)[None])
    for h in range(heads):
        s = (q[:, h].astype(float) @ k[:, h // group].T.astype(float)) * d**-.5
        if bias is not None:
            s = s + bias(h, position, np.arange(n)[None])
        for i in range(m):
            x = np.where(seen[i], s[i], EMPTY)
            if not seen[i].any():
                continue
            p = np.exp(x - x.max())
            o[i, h] = p @ v[:, h // group] / p.sum()
            lse[i, h] = x.max() + np.log(p.sum())
    return o, lse


class Batch:
    """Sequences of those lengths, and caches of all layouts that hold them;
    what no sequence owns is NaN."""

    def __init__(self, lens, queries=1, heads=(4, 1), d=64, dv=None, seed=0):
        r = np.random.default_rng(seed)
        self.r, self.lens = r, lens
        (self.h, self.hk), self.d, self.dv = heads, d, dv or d
        self.m = [queries] * len(lens) if np.isscalar(queries) else queries
        self.k = [self.values(n, self.hk, d) for n in lens]
        self.v = [self.values(n, self.hk, self.dv) for n in lens]
        self.q = [self.values(m, self.h, d) for m in self.m]

    def values(self, *shape):
        return self.r.standard_normal(shape).astype(np.float32)

    def queries(self):
        return np.stack([q.swapaxes(0, 1) for q in self.q])

    def ragged_queries(self):
        return np.concatenate(self.q), np.cumsum([0] + self.m).astype(np.int32)

    def dense(self):
        n = max(self.lens) + 5
        k = np.full((len(self.lens), self.hk, n, self.d), np.nan, np.float32)
        v = np.full((*k.shape[:3], self.dv), np.nan, np.float32)
        for b, have in enumerate(self.lens):
            k[b, :, :have] = self.k[b].swapaxes(0, 1)
            v[b, :, :have] = self.v[b].swapaxes(0, 1)
        return k, v, dict(kv_lens=np.array(self.lens, np.int32))

    def ragged(self):
        return (np.concatenate(self.k), np.concatenate(self.v),
                dict(cu_seqlens_k=np.cumsum([0] + self.lens).astype(np.int32)))

    def pages(self, page):
        """Pools whose pages lie in any order, and the pages of each sequence.
        """
        counts = [-(-n // page) for n in self.lens]
        order = self.r.permutation(sum(counts) + 3)
        k = np.full((len(order), self.hk, page, self.d), np.nan, np.float32)
        v = np.full((*k.shape[:3], self.dv), np.nan, np.float32)
        owned, at = [], 0
        for b, n in enumerate(counts):
            owned.append(order[at:at + n])
            at += n
            for j, p in enumerate(owned[b]):
                rows = slice(j * page, (j + 1) * page)
                have = len(self.k[b][rows])
                k[p, :, :have] = self.k[b][rows].swapaxes(0, 1)
                v[p, :, :have] = self.v[b][rows].swapaxes(0, 1)
        return k, v, owned

    def paged(self, page):
        k, v, owned = self.pages(page)
        most = max([len(o) for o in owned] + [1]) + 1
        table = np.full((len(owned), most), POISON, np.int32)
        for b, o in enumerate(owned):
            table[b, :len(o)] = o
        return k, v, dict(page_table=table,
                          kv_lens=np.array(self.lens, np.int32))

    def indexed(self, page):
        k, v, owned = self.pages(page)
        last = [n - (len(o) - 1) * page if n else 0
                for n, o in zip(self.lens, owned)]
        return k, v, dict(
            kv_indptr=np.cumsum([0] + [len(o) for o in owned]).astype(np.int32),
            kv_indices=np.concatenate(owned + [[POISON]]).astype(np.int32),
            kv_last_page_len=np.array(last, np.int32))


class KVCache(unittest.TestCase):
    def check(self, batch, cache, see=None, bias=None, **options):
        k, v, places = cache
        o, lse = tilec.attention(batch.queries(), k, v, return_lse=True,
                                 **places, **options)
        for b in range(len(batch.lens)):
            want, rows = expected(batch.q[b], batch.k[b], batch.v[b], see, bias)
            np.testing.assert_allclose(o[b].swapaxes(0, 1), want, atol=2e-5)
            np.testing.assert_allclose(lse[b].T, rows, atol=2e-5)
        return o

    def test_lengths_at_the_edges_of_pages(self):
        for page in (1, 7, 16, 64):
            lens = [0, 1, page - 1, page, page + 1, 5 * page + 3, 300]
            batch = Batch(lens, seed=page)
            self.check(batch, batch.paged(page))
            self.check(batch, batch.indexed(page))

    def test_layouts(self):
        for heads, queries, d, dv in (((4, 1), 1, 64, 64), ((5, 5), 3, 72, 40),
                                      ((14, 2), 2, 128, 128),
                                      ((16, 1), 4, 64, 256)):
            batch = Batch([33, 0, 700, 2], queries, heads, d, dv)
            for cache in (batch.dense(), batch.ragged(), batch.paged(16),
                          batch.indexed(8)):
                self.check(batch, cache)

    def test_pages_with_heads_inside(self):
        batch = Batch([100, 31], heads=(8, 2))
        k, v, places = batch.paged(16)
        inside = [np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2)
                  for x in (k, v)]
        self.check(batch, (*inside, places))

    def test_ragged_queries(self):
        batch = Batch([40, 3, 0, 500], queries=[7, 1, 2, 100], heads=(6, 2))
        q, starts = batch.ragged_queries()
        for k, v, places in (batch.ragged(), batch.paged(16)):
            o, lse = tilec.attention(q, k, v, cu_seqlens_q=starts,
                                     mask_mod="causal", return_lse=True,
                                     **places)
            for b in range(4):
                rows = slice(starts[b], starts[b + 1])
                want, sums = expected(batch.q[b], batch.k[b], batch.v[b],
                                      lambda i, j: j <= i)
                np.testing.assert_allclose(o[rows], want, atol=2e-5)
                np.testing.assert_allclose(lse[rows], sums, atol=2e-5)

    def test_v_in_the_columns_of_k(self):
        """Of one tensor: the results, and a schedule that is for the other
        case."""
        b = Batch([70, 0, 33], heads=(16, 1), d=96, dv=64)
        b.v = [k[..., :64] for k in b.k]
        k, v, places = b.dense()
        found = tilec.attention(b.queries(), k, k[..., :64], return_lse=True,
                                **places)
        apart = tilec.attention(b.queries(), k, v, return_lse=True, **places)
        for x, y in zip(found, apart):
            np.testing.assert_allclose(x, y, atol=1e-5)
        for i in range(3):
            o, _ = expected(b.q[i], b.k[i], b.v[i])
            np.testing.assert_allclose(found[0][i].swapaxes(0, 1), o,
                                       atol=1e-5)
        schedule = tilec.schedule(b.queries(), k, v, **places)
        with self.assertRaisesRegex(ValueError, "value in the columns of key"):
            tilec.attention(b.queries(), k, k[..., :64], schedule=schedule,
                            **places)

    def test_pieces_without_keys(self):
        # Pieces are rounded up to whole steps: the last ones begin after 481.
        for d, dv in ((128, 192), (64, 64)):
            batch = Batch([481, 1], [2, 10], heads=(8, 1), d=d, dv=dv)
            q, starts = batch.ragged_queries()
            k, v, places = batch.dense()
            o, lse = tilec.attention(q, k, v, cu_seqlens_q=starts,
                                     return_lse=True, **places)
            for b in range(2):
                rows = slice(starts[b], starts[b + 1])
                want, sums = expected(batch.q[b], batch.k[b], batch.v[b])
                np.testing.assert_allclose(o[rows], want, atol=2e-5)
                np.testing.assert_allclose(lse[rows], sums, atol=2e-5)

    def test_mods_see_positions(self):
        batch = Batch([5, 400, 77], queries=3, heads=(4, 2))
        slopes = np.array([.5, .25, .1, .01], np.float32)
        for cache in (batch.paged(16), batch.dense()):
            self.check(batch, cache, see=lambda i, j: (j <= i) & (i - j < 60),
                       mask_mod="causal & sliding_window(w=60)")
            self.check(batch, cache,
                       bias=lambda h, i, j: slopes[h] * (j - i),
                       score_mod="alibi", slopes=slopes)

    def test_query_offsets(self):
        """Masks, scores and windows see where queries stand: before the last
        keys, at them, after them."""
        batch = Batch([5, 400, 77, 300], queries=3, heads=(4, 2))
        slopes = np.array([.5, .25, .1, .01], np.float32)
        offsets = np.array([0, 130, 60, 420], np.int32)
        for piece, cache in ((0, batch.paged(16)), (128, batch.dense())):
            k, v, places = cache
            every = tilec.schedule(batch.queries(), k, v, piece=piece,
                                   query_offsets=offsets, **places)
            for schedule in (None, every):
                o, lse = tilec.attention(
                    batch.queries(), k, v, query_offsets=offsets, piece=piece,
                    mask_mod="sliding_window(w=60)", score_mod="alibi",
                    slopes=slopes, schedule=schedule, return_lse=True,
                    **places)
                for b in range(4):
                    move = offsets[b] - (batch.lens[b] - 3)
                    want, rows = expected(
                        batch.q[b], batch.k[b], batch.v[b],
                        lambda i, j: (j <= i + move) & (i + move - j < 60),
                        lambda h, i, j: slopes[h] * (j - i - move))
                    np.testing.assert_allclose(o[b].swapaxes(0, 1), want,
                                               atol=2e-5)
                    np.testing.assert_allclose(lse[b].T, rows, atol=2e-5)
        mask = "sliding_window(w=60)"
        schedule = tilec.schedule(batch.queries(), k, v, mask_mod=mask, **places)
        with self.assertRaisesRegex(
                ValueError, "stand at the last keys, not query_offsets"):
            tilec.attention(batch.queries(), k, v, query_offsets=offsets,
                            schedule=schedule, mask_mod=mask, **places)
        with self.assertRaisesRegex(ValueError, "query_offsets: dim 0 is 3"):
            tilec.attention(batch.queries(), k, v, query_offsets=offsets[:3],
                            **places)
        with self.assertRaisesRegex(ValueError, "kv_lens is missing"):
            tilec.attention(batch.queries(), k, v, query_offsets=offsets)

    def test_check_memory(self):
        """Says which entry is wrong; a call without it is as before."""
        batch = Batch([40, 33], heads=(4, 2))
        k, v, places = batch.paged(16)
        places["page_table"][1, 2] = 99
        def run():
            return tilec.attention(batch.queries(), k, v, **places)
        where = r"page_table: entry \[1, 2\] is 99, expected 0 to \d+: k has"
        with tilec.check_memory():
            with self.assertRaisesRegex(ValueError, where):
                run()
        with self.assertRaisesRegex(ValueError, "is in no page"):
            run()  # which the CPU finds anyway
        tilec.check_memory(True)
        with self.assertRaisesRegex(ValueError, where):
            tilec.schedule(batch.queries(), k, v, **places)
        tilec.check_memory(False)
        tilec.schedule(batch.queries(), k, v, **places)

    def test_what_a_mask_shows_is_all_that_is_dealt(self):
        """Entries of pages before it may be anything."""
        for queries in (1, 5):
            batch = Batch([5, 900, 77, 0, 333], queries, heads=(4, 2))
            for piece in (0, 128):
                k, v, places = batch.paged(16)
                side = 128  # a step has at most so many keys
                for b, n in enumerate(batch.lens):
                    first = max(n - queries - 60 + 1, 0) // side * side
                    places["page_table"][b, :first // 16] = POISON
                self.check(batch, (k, v, places), piece=piece,
                           see=lambda i, j: (j <= i) & (i - j < 60),
                           mask_mod="sliding_window(w=60)")
        schedule = tilec.schedule(batch.queries(), k, v, mask_mod="causal",
                                  **places)
        with self.assertRaisesRegex(
                ValueError, "made for mask causal, not sliding_window"):
            tilec.attention(batch.queries(), k, v, schedule=schedule,
                            mask_mod="sliding_window(w=60)", **places)

    def test_masks_of_ones_own_are_dealt(self):
        """By tensors and numbers that they capture, which may change; with
        sinks before a gap; with no key at all."""
        lens = [5, 900, 77, 0, 2333]
        first = np.array([0, 300, 90, 4, 1000], np.int32)
        cases = (
            ("%k >= %first[%b] and %k < %first[%b] + %w",
             lambda b, w: lambda i, j: (i > -9) & (j >= first[b]) &
             (j < first[b] + w)),
            ("%k < 4 or %q - %k < %w and %k >= %first[%b]",
             lambda b, w: lambda i, j: (j < 4) | (i - j < w) &
             (j >= first[b])),
            ("bisect(%first, %q) == bisect(%first, %k) and %k > %w",
             lambda b, w: lambda i, j: (np.searchsorted(
                 sorted(first), i, "right") == np.searchsorted(
                     sorted(first), j, "right")) & (j > w)))
        for condition, see in cases:
            mask = ("func @own(%%b: i32, %%h: i32, %%q: i32, %%k: i32, "
                    "%%first: tensor<[?] x i32>, %%w: i32) -> i1 "
                    "{ return %s }" % condition)
            given = np.sort(first) if "bisect" in mask else first
            for queries, piece in ((1, 0), (3, 128)):
                batch = Batch(lens, queries, heads=(4, 2))
                for k, v, places in (batch.paged(16), batch.dense()):
                    schedule = tilec.schedule(
                        batch.queries(), k, v, piece=piece, mask_mod=mask,
                        first=given, w=70, **places)
                    every = tilec.schedule(batch.queries(), k, v, piece=piece,
                                           **places)
                    for made, w in ((None, 40), (schedule, 70), (every, 70)):
                        o, lse = tilec.attention(
                            batch.queries(), k, v, mask_mod=mask, first=given,
                            w=w, piece=piece, schedule=made, return_lse=True,
                            **places)
                        for b in range(len(lens)):
                            want, rows = expected(batch.q[b], batch.k[b],
                                                  batch.v[b], see(b, w))
                            np.testing.assert_allclose(
                                o[b].swapaxes(0, 1), want, atol=2e-5)
                            np.testing.assert_allclose(lse[b].T, rows,
                                                       atol=2e-5)
        with self.assertRaisesRegex(Exception, "argument mask.w is missing"):
            tilec.schedule(batch.queries(), k, v, mask_mod=mask, first=given,
                           **places)

    def test_what_a_mask_hides_is_not_read(self):
        """Without a window: whole steps that are hidden."""
        batch = Batch([900, 300], heads=(4, 2))
        k, v, places = batch.dense()
        for x in (k, v):
            for b, n in enumerate(batch.lens):
                x[b, :, :max(n - 60 - 128, 0) // 128 * 128] = np.nan
        self.check(batch, (k, v, places), mask_mod="sliding_window(w=60)",
                   see=lambda i, j: (j <= i) & (i - j < 60))

    def test_every_mod_as_without_a_cache(self):
        """The last queries of a sequence, over pages, against all of it."""
        self.assertEqual(set(MODS), set(mods_of_the_library()))
        batch = Batch([N], 5, heads=(4, 2), d=16)
        k, v, places = batch.paged(16)
        dense = [x[0].swapaxes(0, 1)[None] for x in (batch.k, batch.v)]
        before = batch.values(1, 4, N - 5, 16)
        q = np.concatenate([before, batch.queries()], axis=2)
        for name, kind in mods_of_the_library().items():
            with self.subTest(name):
                mod = {kind: name, "captured": MODS[name]}
                want = tilec.attention(q, *dense, enable_gqa=True, **mod)
                got = tilec.attention(batch.queries(), k, v, **places, **mod)
                np.testing.assert_allclose(got, want[:, :, -5:], atol=2e-5)

    def test_any_number_of_pieces(self):
        batch = Batch([1000, 129, 128, 1], queries=2, heads=(4, 2))
        for piece in range(128, 1153, 128):
            self.check(batch, batch.paged(16), piece=piece)

    def test_alone_and_among_64(self):
        r = np.random.default_rng(3)
        lens = [int(n) for n in r.integers(0, 700, 64)]
        batch = Batch(lens, heads=(4, 2))
        k, v, places = batch.paged(16)
        q = batch.queries()
        together = tilec.attention(q, k, v, piece=256, **places)
        for b in range(0, 64, 9):
            alone = {n: x[b:b + 1] for n, x in places.items()}
            one = tilec.attention(q[b:b + 1], k, v, piece=256, **alone)
            np.testing.assert_array_equal(one[0], together[b])

    def test_sinks_join_the_sum(self):
        batch = Batch([5, 0, 900], heads=(4, 2))
        sinks = np.array([2, -np.inf, 9, -1], np.float32)
        for piece in (0, 128):
            k, v, places = batch.paged(16)
            o, lse = tilec.attention(batch.queries(), k, v, sinks=sinks,
                                     piece=piece, return_lse=True, **places)
            for b in range(3):
                want, rows = expected(batch.q[b], batch.k[b], batch.v[b])
                joined = np.logaddexp(rows, sinks)
                np.testing.assert_allclose(lse[b].T, joined, atol=2e-5)
                with np.errstate(invalid="ignore"):
                    part = np.where(rows == EMPTY, 0, np.exp(rows - joined))
                np.testing.assert_allclose(o[b].swapaxes(0, 1),
                                           want * part[..., None], atol=2e-5)

    def test_factors_of_narrow_caches(self):
        try:
            from ml_dtypes import float8_e4m3fn
        except ImportError:
            self.skipTest("there is no ml_dtypes")
        batch = Batch([40, 300], heads=(4, 2))
        r = np.random.default_rng(5)
        for cache in (batch.paged(16), batch.dense()):
            k, v, places = cache
            rows = r.uniform(.5, 2, k.shape[:3]).astype(np.float32)
            for factors in ((2.0, .5), (np.array([2, .5], np.float32), 3.0),
                            (rows, rows[..., ::-1].copy())):
                wide = [np.broadcast_to(np.reshape(
                    np.float32(f), np.shape(f) if np.ndim(f) == 3 else
                    (1, -1, 1)), k.shape[:3])[..., None] for f in factors]
                with np.errstate(invalid="ignore", over="ignore"):
                    narrow = [np.nan_to_num(x / f).astype(float8_e4m3fn)
                              for x, f in zip((k, v), wide)]
                want = tilec.attention(
                    batch.queries(), *(x.astype(np.float32) * f
                                       for x, f in zip(narrow, wide)),
                    **places)
                got = tilec.attention(batch.queries(), *narrow, **places,
                                      descale_k=factors[0],
                                      descale_v=factors[1])
                np.testing.assert_allclose(got, want, atol=2e-5)

    def test_placement_does_not_matter(self):
        results = []
        for seed in (1, 2):
            batch = Batch([300, 65, 1000])
            batch.r = np.random.default_rng(seed)  # of the pages
            results.append(self.check(batch, batch.paged(16)))
        np.testing.assert_array_equal(*results)

    def test_pieces_of_constant_length_do_not_depend_on_the_batch(self):
        batch = Batch([900, 70, 2000, 5, 128])
        k, v, places = batch.paged(16)
        q = batch.queries()
        together = tilec.attention(q, k, v, piece=128, **places)
        for b in range(5):
            alone = {n: x[b:b + 1] for n, x in places.items()}
            one = tilec.attention(q[b:b + 1], k, v, piece=128, **alone)
            np.testing.assert_array_equal(one[0], together[b])

    def test_a_schedule_is_made_again_for_other_lengths(self):
        batch = Batch([600, 64])
        k, v, places = batch.paged(16)
        q = batch.queries()
        self.check_schedule_of(batch, q, k, v, places)
        places["kv_lens"] = places["kv_lens"].astype(np.int64)
        self.check_schedule_of(batch, q, k, v, places)

    def check_schedule_of(self, batch, q, k, v, places):
        schedule = tilec.schedule(q, k, v, **places)
        for lens in ([600, 64], [0, 1], [17, 64], [600, 3]):
            places["kv_lens"][:] = lens
            schedule.update()
            o = tilec.attention(q, k, v, schedule=schedule, **places)
            for b, n in enumerate(lens):
                want, _ = expected(batch.q[b], batch.k[b][:n], batch.v[b][:n])
                np.testing.assert_allclose(o[b].swapaxes(0, 1), want, atol=2e-5)

    def test_a_schedule_is_for_its_shapes(self):
        batch = Batch([60, 64])
        k, v, places = batch.paged(16)
        q = batch.queries()
        schedule = tilec.schedule(q, k, v, **places)
        tilec.attention(q, k, v, schedule=schedule, **places)

        def refused(message, q=q, k=k, v=v, **changes):
            with self.assertRaisesRegex(ValueError,
                                        "schedule was made for " + message):
                tilec.attention(q, k, v, schedule=schedule,
                                **{**places, **changes})

        refused(r"a query of shape .*, not .*: make another one",
                q=q[:, :, :1].repeat(2, 2))
        refused("a query of shape", q=q[:1], kv_lens=places["kv_lens"][:1],
                page_table=places["page_table"][:1])
        refused("a key of heads", k=k[:, :, :8])
        refused("a value of dim", v=v[:, :, :, :8])
        refused("piece 0, not 128", piece=128)
        refused("keys that lie by page_table, not kv_lens", k=k[:2], v=v[:2],
                page_table=None)
        half = [x.astype(np.float16) for x in (q, k, v)]
        refused("data types float32, .*, not float16", *half)

    def test_plans_used_last_are_kept(self):
        batch = Batch([20])
        k, v, places = batch.paged(16)
        q = batch.queries()
        _kvcache._plans.clear()
        with mock.patch.object(_plan, "MOST", 2):
            for scale in (0.5, 0.25, 0.5, 0.125):
                tilec.attention(q, k, v, scale=scale, **places)
        self.assertEqual({key[0].scale for key in _kvcache._plans},
                         {0.5, 0.125})

    def test_keys_that_lie_nowhere(self):
        batch = Batch([40])
        k, v, places = batch.paged(16)
        for wrong in (-1, len(k), POISON):
            table = places["page_table"].copy()
            table[0, 1] = wrong
            with self.assertRaisesRegex(Exception, "is in no page"):
                tilec.attention(batch.queries(), k, v, **{
                    **places, "page_table": table})
        with self.assertRaisesRegex(Exception, "exceeds the table"):
            tilec.attention(batch.queries(), k, v, **{
                **places, "kv_lens": np.array([100], np.int32)})
        k, v, places = batch.dense()
        with self.assertRaisesRegex(Exception, "after the last row"):
            tilec.attention(batch.queries(), k, v, kv_lens=np.array(
                [k.shape[2] + 1], np.int32))

    def test_scales_below_0(self):
        batch = Batch([40, 9], queries=20)
        k, v, places = batch.dense()
        for q in (batch.queries(), batch.queries()[:, :, :1]):
            np.testing.assert_array_equal(
                tilec.attention(q, k, v, scale=-0.1, **places),
                tilec.attention(-q, k, v, scale=0.1, **places))

    def test_schedules_of_long_prefills(self):
        # 4 blocks of 16 rows times 2^30 keys are more than 32 bits hold.
        schedule = tilec.kernel("attention_kvcache", name="kvcache_schedule",
                                bindings={"GROUP": 1})
        items = np.zeros((13, 64), np.int32)
        schedule(items, np.zeros(64, np.int32), 1, 8, 64, 1 << 30)
        begins = items[2][items[11] > 0].reshape(2, 4)
        ends = items[3][items[11] > 0].reshape(2, 4)
        self.assertEqual(begins.tolist(), [[0] * 4, [1 << 29] * 4])
        self.assertEqual(ends.tolist(), [[1 << 29] * 4, [1 << 30] * 4])
        # Blocks of the same keys side by side, the last one first.
        blocks = items[10][items[11] > 0].reshape(2, 4)
        self.assertEqual(blocks.tolist(), [[48, 32, 16, 0]] * 2)

    def check_items(self, lens, items):
        """Each sequence's pieces come one after the other, and are all of its
        keys; partial results and counters are of one piece and block each."""
        parts, counters, whole = [], [], []
        by = {b: [] for b in range(len(lens))}
        for w in np.flatnonzero(items[11] > 0):
            by[items[0][w]].append(w)
        for b, of in by.items():
            self.assertEqual(len(of), items[4][of[0]], b)
            self.assertEqual(items[5][of].tolist(), list(range(len(of))), b)
            begins = np.minimum(items[2][of], lens[b]).tolist()  # or none
            self.assertEqual([0, *items[3][of].tolist()], [*begins, lens[b]], b)
            if len(of) == 1:
                whole.append(of[0])
                continue
            parts += (items[6] + items[5])[of].tolist()
            counters += {*items[7][of].tolist()}
            self.assertEqual(items[12][items[7][of[0]]], of[0], b)
        self.assertEqual(parts, list(range(len(parts))))
        self.assertEqual(counters, list(range(len(counters))))
        self.assertEqual(whole, [len(parts) + i for i in range(len(whole))])
        self.assertTrue((items[12][len(counters):] == -1).all())

    def test_schedules_of_many_sequences(self):
        schedule = tilec.kernel(
            "attention_kvcache", name="kvcache_schedule",
            bindings={"GROUP": 4, "key_count": "counted_keys"})
        r = np.random.default_rng(4)
        for n in (1, 2, 31, 127, 128, 129, 255, 256, 257, 700):
            for parts, most in ((16, 300), (66, 2000), (4, 100000)):
                lens = r.integers(1, most, n).astype(np.int32)
                lens[r.random(n) < 0.3] = 1
                items = np.full((13, n + 2 * parts), 7, np.int32)
                counters = np.full(8 * n, 7, np.int32)
                schedule(items, counters, n, parts, 1, most, lens)
                self.check_items(lens, items)
                self.assertFalse(counters.any())

    def test_queries_that_lie_nowhere(self):
        batch = Batch([40, 9], queries=[3, 2])
        k, v, places = batch.paged(16)
        q, starts = batch.ragged_queries()
        q = q.swapaxes(0, 1)[None]
        want = tilec.attention(q, k, v, cu_seqlens_q=starts, **places)
        # The second sequence claims rows after the last one of q.
        o = tilec.attention(q, k, v, cu_seqlens_q=starts + [0, 0, 5], **places)
        np.testing.assert_array_equal(o[:, :, :3], want[:, :, :3])
        for starts in ([0, 3], [0, 3, 4, 5]):
            with self.assertRaisesRegex(ValueError, "cu_seqlens_q: dim 0 is"):
                tilec.attention(q, k, v, cu_seqlens_q=np.array(
                    starts, np.int32), **places)

    def test_errors(self):
        batch = Batch([40])
        k, v, places = batch.paged(16)
        q = batch.queries()
        for change, message in (
                (dict(kv_lens=None), "kv_lens is missing"),
                (dict(kv_lens=np.zeros(1, np.float32)), "expected int32"),
                (dict(cu_seqlens_k=np.zeros(2, np.int32)), "does not go with"),
                (dict(page_table=np.zeros(3, np.int32)), "rank is 1"),
                (dict(piece=100), "multiple of 128"),
                (dict(scale_o=2.0), "has no scale_o")):
            with self.assertRaisesRegex(ValueError, message):
                tilec.attention(q, k, v, **{**places, **change})
        with self.assertRaisesRegex(ValueError, "cu_seqlens_q"):
            tilec.attention(q[0], k, v, **places)


class Merge(unittest.TestCase):
    def parts(self, lens=(40, 7, 300)):
        """Attention over parts of the keys of one sequence."""
        r = np.random.default_rng(1)
        q = r.standard_normal((2, 4, 3, 64)).astype(np.float32)
        k, v = (r.standard_normal((2, 4, sum(lens), 64)).astype(np.float32)
                for _ in "kv")
        ends = np.cumsum((0, *lens))
        found = [tilec.attention(q, k[:, :, a:b], v[:, :, a:b],
                                 return_lse=True)
                 for a, b in zip(ends, ends[1:])]
        return found, tilec.attention(q, k, v, return_lse=True)

    def test_parts_make_the_whole(self):
        parts, (o, lse) = self.parts()
        merged = tilec.merge(*(x for part in parts for x in part))
        np.testing.assert_allclose(merged[0], o, atol=1e-5)
        np.testing.assert_allclose(merged[1], lse, atol=1e-5)
        stacked = tilec.merge(*(np.stack(x) for x in zip(*parts)))
        np.testing.assert_array_equal(merged[0], stacked[0])

    def test_parts_without_keys_do_not_matter(self):
        parts, (o, _) = self.parts()
        nothing = np.full_like(o, np.nan), np.full(o.shape[:3], EMPTY,
                                                   np.float32)
        merged = tilec.merge(*parts[0], *nothing)
        np.testing.assert_allclose(merged[0], parts[0][0], rtol=1e-6)
        alone = tilec.merge(*nothing, *nothing)
        self.assertTrue((alone[0] == 0).all() and (alone[1] == EMPTY).all())

    def test_errors(self):
        parts, _ = self.parts()
        (o, lse), _, _ = parts
        for states, message in (
                ((o,), "takes o, lse"), ((o, lse, o), "takes o, lse"),
                ((o, lse), "expected o"), ((o, lse, o[:1], lse), "one shape"),
                ((o, lse.astype(np.float64)) * 2, "expected float32")):
            with self.assertRaisesRegex(ValueError, message):
                tilec.merge(*states)


if __name__ == "__main__":
    unittest.main()
