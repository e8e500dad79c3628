# SPDX-License-Identifier: Apache-2.0
"""Shardings and plans, without any group."""
import re
import unittest

import cases  # first: finds tilec

import torch

import tilec
from tilec.distributed import (
    Sharding, _attention, _balance, _plan, _sharding)


def sees(mask, a, b):
    return sum(mask(q, k) for q in range(*a) for k in range(*b))


def plan_of(parts, n, rank, mask, has_score=False, by=None):
    s = Sharding(n, parts, rank)
    runs = [run for part in parts for run in part]
    seen = {(a, b): sees(mask, a, b) for a in runs for b in runs}
    hides = {(a, b): seen[a, b] < (a[1] - a[0]) * (b[1] - b[0])
             for a, b in seen}
    return _plan.Plan(s, s, seen, hides, has_score, by)


def causal(q, k):
    return k <= q


class Shardings(unittest.TestCase):
    def test_each_position_once(self):
        for n in (1, 7, 64, 1000, 5000, 99999):
            for w in (1, 2, 3, 8):
                for make in (_sharding.contiguous, _sharding.zigzag):
                    s = Sharding(n, make(n, w))  # refuses what is not
                    self.assertEqual(sum(s.size(r) for r in range(w)), n)

    def test_long_runs_begin_at_blocks(self):
        for part in _sharding.zigzag(50001, 4):
            for a, _ in part:
                self.assertEqual(a % _sharding.ALIGN, 0)

    def test_refuses(self):
        for parts in ([[(0, 3)], [(4, 6)]], [[(0, 4)], [(3, 6)]],
                      [[(3, 6), (0, 3)], []], [[(0, 5)], []]):
            with self.assertRaisesRegex(ValueError, "runs|ascend"):
                Sharding(6, parts)

    def test_deals_longest_first(self):
        chunks = [(i, i + 1) for i in range(8)]
        parts = _sharding.dealt(chunks, [8, 7, 6, 5, 4, 3, 2, 1], 2)
        self.assertEqual([sum(8 - i for a, b in p for i in range(a, b))
                          for p in parts], [18, 18])
        self.assertEqual([sum(b - a for a, b in p) for p in parts], [4, 4])

    def test_splits_rows(self):
        parts = _balance._split([((0, 3), (10, 15)), ()], 2)
        self.assertEqual(parts, [((0, 3), (10, 11)), ((11, 15),), (), ()])


class Cases(unittest.TestCase):
    def check(self, file, pattern, texts, least):
        """Each mod of a file of the library is in a case of attention.py."""
        of_library = set(re.findall(pattern, tilec.mods()[file], re.M))
        named = set(re.findall(r"\w+", " ".join(texts)))
        self.assertGreater(len(of_library), least)
        self.assertEqual(of_library - named, set())

    def test_every_mask_of_the_library(self):
        self.check("mods/masks", r"^func @(\w+)\(.*-> i1 {",
                   cases.masks(96, 2), 20)

    def test_every_score_of_the_library(self):
        self.check("mods/scores", r"^func @(\w+)\(%score.*-> f32 {",
                   cases.scores(60, 8), 8)


class Strategies(unittest.TestCase):
    """By sizes: keys and values of more than 2 GiB go around a ring."""

    def chosen(self, length, strategy=None, heads=8, dim=128):
        k = torch.empty(1, heads, 1, dim, dtype=torch.bfloat16)
        kv = Sharding(length, [[(0, length)], []])
        return _attention._chosen(strategy, k, k, kv, 2)

    def test_by_sizes(self):
        self.assertEqual(self.chosen(1 << 19), "all_gather")  # 2 GiB
        self.assertEqual(self.chosen((1 << 19) + 1), "ring")
        self.assertEqual(self.chosen(1 << 19, heads=9), "ring")
        self.assertEqual(self.chosen(1 << 20, dim=64), "all_gather")

    def test_by_name(self):
        for name in _attention.STRATEGIES:
            for length in (64, 1 << 24):
                self.assertEqual(self.chosen(length, name), name)
        with self.assertRaisesRegex(ValueError, "'star'.*all_gather"):
            self.chosen(64, "star")


class Plans(unittest.TestCase):
    def test_zigzag_sends_what_is_seen(self):
        """Half of the keys to earlier ranks' queries, full calls as one."""
        n, w = 64, 4
        parts = _sharding.zigzag(n, w, 1)
        for rank in range(w):
            p = plan_of(parts, n, rank, causal)
            # The middle chunks are one run.
            self.assertEqual(len(p.steps[rank].calls), 1 if rank == 3 else 3)
            for other in range(w):
                if other == rank:
                    continue
                step = p.steps[other]
                self.assertEqual(step.keys, 8 if other < rank else 16)
                self.assertEqual(len(step.calls), 1)
                self.assertTrue(step.calls[0].is_full)
        self.assertEqual(len(set(p.work)), 1)

    def test_score_keeps_runs_apart(self):
        p = plan_of(_sharding.zigzag(64, 4, 1), 64, 1, causal, has_score=True)
        self.assertEqual([len(s.calls) for s in p.steps], [2, 3, 2, 1])

    def test_nothing_for_other_documents(self):
        parts = _sharding.contiguous(60, 3, 1)
        p = plan_of(parts, 60, 1, lambda q, k: q // 20 == k // 20)
        self.assertEqual([s.is_empty for s in p.steps], [True, False, True])
        self.assertEqual(p.gathered.needed, ((20, 40),))

    def test_calls_leave_out_unseen_keys(self):
        """Documents of 20: a run's call begins at the first run of keys that it
        sees, and ends after the last one."""
        parts = [[(0, 10), (30, 40), (50, 60)], [(10, 30), (40, 50)]]
        p = plan_of(parts, 60, 0, lambda q, k: k <= q and q // 20 == k // 20)
        self.assertEqual(p.gathered.needed, ((0, 60),))
        self.assertEqual(
            [(c.rows, c.keys, c.q_offset, c.k_offset) for c in p.gathered.calls],
            [((0, 10), (0, 10), 0, 0), ((10, 20), (10, 40), 30, 10),
             ((20, 30), (40, 60), 50, 40)])
        p = plan_of(parts, 60, 0, lambda q, k:
                    not 10 <= k < 50 or 30 <= q < 40)
        self.assertEqual([(c.keys, c.is_full) for c in p.gathered.calls],
                         [((0, 60), False), ((0, 60), True), ((0, 60), False)])

    def test_many_runs_take_maps(self):
        chunks = [(i, i + 2) for i in range(0, 40, 2)]
        parts = [chunks[r::2] for r in range(2)]
        p = plan_of(parts, 40, 0, causal)
        self.assertIsNone(p.steps[0].calls)
        p = plan_of(parts, 40, 0, causal, by="shifted")
        self.assertEqual(len(p.steps[0].calls), 19)  # 10 partial, 9 full


if __name__ == "__main__":
    unittest.main()
