# SPDX-License-Identifier: Apache-2.0
"""tilec.attention on numpy arrays against float64."""
import concurrent.futures
import os
import tempfile
import unittest
from unittest import mock

import numpy as np
from reference import Attention, error, random

import tilec
from tilec import _attention, _plan

# Of the data type: what rounding the result costs, and then some.
TOLERANCE = {"float32": 2e-6, "float16": 1e-3}


def inputs(b=2, h=4, hk=2, m=70, n=90, d=32, dv=48, dtype="float32", seed=0):
    return (random(seed, b, h, m, d, dtype=dtype),
            random(seed + 1, b, hk, n, d, dtype=dtype),
            random(seed + 2, b, hk, n, dv, dtype=dtype))


class Forward(unittest.TestCase):
    def check(self, tensors, want, **options):
        o, lse = tilec.attention(*tensors, return_lse=True, enable_gqa=True,
                                 **options)
        self.assertEqual(o.dtype, tensors[0].dtype)
        self.assertLess(error(o, want.o), TOLERANCE[str(o.dtype)])
        self.assertLess(error(lse, want.lse), 2e-6)
        return o

    def test_plain(self):
        for dtype in TOLERANCE:
            t = inputs(dtype=dtype)
            self.check(t, Attention(*t))

    def test_scale(self):
        t = inputs()
        self.check(t, Attention(*t, scale=0.7), scale=0.7)
        self.check(t, Attention(*t, scale=0.0), scale=0.0)
        self.check(t, Attention(*t, scale=-0.7), scale=-0.7)

    def test_shapes(self):
        for i, shape in enumerate((
                dict(m=1), dict(n=1), dict(m=1, n=1), dict(d=1, dv=1),
                dict(d=72, dv=80), dict(d=128, dv=128, m=130),
                dict(h=6, hk=1), dict(h=6, hk=6), dict(b=1, m=257, n=31))):
            with self.subTest(shape):
                t = inputs(**shape, seed=10 * i)
                self.check(t, Attention(*t))

    def test_no_keys(self):
        t = inputs(n=0)
        o, lse = tilec.attention(*t, enable_gqa=True, return_lse=True)
        self.assertEqual(o.shape, (2, 4, 70, 48))
        self.assertFalse(o.any())
        self.assertTrue((lse == -np.inf).all())

    def test_no_queries(self):
        o = tilec.attention(*inputs(m=0), enable_gqa=True)
        self.assertEqual(o.shape, (2, 4, 0, 48))

    def test_strides(self):
        q, k, v = inputs(m=60, n=60, d=32, dv=32)
        want = Attention(q, k, v)
        packed = np.zeros((2, 60, 3, 4, 32), "float32")
        for i, t in enumerate((q, k, v)):
            packed[:, :, i, :t.shape[1]] = t.transpose(0, 2, 1, 3)
        views = [packed[:, :, i, :t.shape[1]].transpose(0, 2, 1, 3)
                 for i, t in enumerate((q, k, v))]
        o = self.check(views, want)
        # Batch, length, heads, dim in memory, as in q.
        self.assertTrue(o.transpose(0, 2, 1, 3).flags.c_contiguous)
        backwards = [np.ascontiguousarray(t[:, :, ::-1])[:, :, ::-1]
                     for t in (q, k, v)]
        self.check(backwards, want)
        one = k[:1, :1]
        self.check((q, np.broadcast_to(one, k.shape), v),
                   Attention(q, np.repeat(np.repeat(one, 2, 0), 2, 1), v))

    def test_read_only(self):
        t = inputs()
        want = Attention(*t)
        for x in t:
            x.flags.writeable = False
        self.check(t, want)

    def test_expressions(self):
        q, k, v = t = inputs()
        self.check(t, Attention(*t, mask=lambda h, i, j: j <= i),
                   mask_mod="causal")
        self.check(t, Attention(
            *t, mask=lambda h, i, j: (j <= i) & (i - j < 7) | (j < 3)),
            mask_mod="sliding_window(w=7) | prefix_lm(prefix=3) & !causal "
                     "| (causal & prefix_lm(prefix=3) & !sliding_window(w=7) "
                     "& first)\nfunc @first(%b: i32, %h: i32, %q: i32, "
                     "%k: i32) -> i1 {\n  return %k < 3\n}\n")
        slopes = random(9, 4)
        self.check(t, Attention(
            *t, score=lambda s, h, i, j:
            5 * np.tanh((s + slopes[h] * (j - i)) / 5)),
            score_mod="alibi, soft_cap(cap=5)", slopes=slopes)

    def test_own_functions(self):
        t = inputs()
        text = """
// A function that the mod calls, and the mod.
func @near(%x: i32, %w: i32) -> i1 {
  return %x < %w and %x > 0 - %w
}
func @around(%b: i32, %h: i32, %q: i32, %k: i32, %w: i32) -> i1 {
  return @near(%q - %k, %w)
}
"""
        want = Attention(*t, mask=lambda h, i, j: abs(i - j) < 11)
        self.check(t, want, mask_mod=text, w=11)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "mine.tile")
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            self.check(t, want, mask_mod=path + "@around(w=11)")

    def test_both_mods_in_one_text(self):
        t = inputs()
        text = """
func @top(%b: i32, %h: i32, %q: i32, %k: i32) -> i1 {
  return %k <= %q
}
func @less(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32) -> f32 {
  return select(@top(%b, %h, %q, %k), %s, %s * 0.5)
}
"""
        want = Attention(*t, mask=lambda h, i, j: j <= i,
                         score=lambda s, h, i, j: np.where(j <= i, s, s / 2))
        self.check(t, want, mask_mod="top\n" + text, score_mod="less\n" + text)

    def test_captured(self):
        t = inputs()
        table = random(5, 4, 9)
        want = Attention(*t, score=lambda s, h, i, j:
                         s + table[h, np.clip(j - i + 4, 0, 8)])
        for given in (dict(table=table), dict(captured={"table": table}),
                      dict(captured={"score.table": table}),
                      dict(table=np.asfortranarray(table))):
            self.check(t, want, score_mod="relative_bias_table", **given)
        starts = np.array([0, 20, 21, 50], "int32")
        where = np.searchsorted(starts, np.arange(90), side="right")
        self.check(t, Attention(*t, mask=lambda h, i, j: where[i] == where[j]),
                   mask_mod="document", offsets=starts)

    def test_rows_without_keys(self):
        t = inputs(m=40, n=20)
        want = Attention(*t, mask=lambda h, i, j: j <= i + (20 - 40))
        o = self.check(t, want, mask_mod="causal_bottom_right")
        self.assertFalse(o[:, :, :20].any())

    def test_max(self):
        t = inputs(m=40, n=20)
        o, largest = tilec.attention(
            *t, mask_mod="causal_bottom_right", enable_gqa=True,
            score_mod="soft_cap(cap=2)", return_max=True)
        want = Attention(*t, mask=lambda h, i, j: j <= i + (20 - 40),
                         score=lambda s, h, i, j: 2 * np.tanh(s / 2))
        self.assertLess(error(largest, want.max), 2e-6)
        self.assertLess(error(o, want.o), 2e-6)

    def test_options(self):
        t = inputs()
        want = Attention(*t)
        for options in (dict(BLOCK_M=32, BLOCK_N=64), dict(threads=1),
                        dict(PRESCALE_QK=True), dict(target="cpu"),
                        dict(bindings=dict(BM=16)), {}):
            self.check(t, want, kernel_options=options)

    def test_out_dtype(self):
        q = random(1, 1, 2, 9, 16)
        for dtype in (np.float16, np.dtype("float16"), "float16"):
            o = tilec.attention(q, q, q, out_dtype=dtype)
            self.assertEqual(o.dtype, np.float16)

    def test_block_lists(self):
        t = inputs(m=150, n=150)
        ids = np.arange(150, dtype=np.int32) // 40
        want = Attention(*t, mask=lambda h, i, j: ids[i] == ids[j])
        for options in (dict(block_lists=True), dict(block_lists=False),
                        dict(block_lists=True, SPARSE_Q_BLOCK_SIZE=64,
                             SPARSE_KV_BLOCK_SIZE=256)):
            self.check(t, want, mask_mod="document_ids", ids=ids,
                       kernel_options=options)
        with self.assertRaisesRegex(ValueError, "block_lists is 'often'"):
            tilec.attention(*t, enable_gqa=True,
                            kernel_options=dict(block_lists="often"))

    def test_split_keys(self):
        """Few queries on many keys: positions, rows without keys, sinks,
        values that are no numbers, and the gradients from o and lse."""
        split = dict(SPLIT_KEYS=True)
        t = inputs(m=3, n=700)
        for mask, see in (("causal", lambda h, i, j: j <= i),
                          ("causal_bottom_right",
                           lambda h, i, j: j <= i + 697),
                          ("sliding_window(w=2)",
                           lambda h, i, j: (j <= i) & (i - j < 2))):
            self.check(t, Attention(*t, mask=see), mask_mod=mask,
                       kernel_options=split)
        slopes = np.float32([.02, .01, .005, .001])
        want = Attention(*t, score=lambda s, h, i, j: s + slopes[h] * (j - i))
        self.check(t, want, score_mod="alibi", slopes=slopes,
                   kernel_options=split)
        lens = np.int32([0, 0])
        o = self.check(t, Attention(*t, mask=lambda h, i, j: j < 0),
                       mask_mod="padding", lens=lens, kernel_options=split)
        self.assertFalse(o.any())
        sinks = np.float32([1, 9, -2, 0])
        self.check(t, Attention(*t, sinks=sinks), sinks=sinks,
                   kernel_options=split)
        dout = random(9, *t[0].shape[:3], 48)
        for given in ({}, split):
            o, lse = tilec.attention(*t, enable_gqa=True, return_lse=True,
                                     kernel_options=given)
            found = tilec.attention_backward(dout, *t, o, lse, enable_gqa=True,
                                             kernel_options=given)
            for x, want in zip(found[:3], Attention(*t).gradients(dout)):
                self.assertLess(error(x, want), 4e-6)
        # What a mask hides does not show, whatever it is.
        t[2][0, 1, 690] = np.nan
        t[2][1, 0, 5, 7] = np.inf
        given = dict(enable_gqa=True, mask_mod="padding",
                     lens=np.int32([600, 700]))
        for x, y in zip(*(tilec.attention(*t, return_lse=True, **given,
                                          kernel_options=options)
                          for options in (split, {}))):
            np.testing.assert_allclose(x, y, atol=1e-5)
        with self.assertRaisesRegex(ValueError, "not split with dropout"):
            tilec.attention(*t, enable_gqa=True, kernel_options=split,
                            dropout_p=.5, dropout_seed=1)

    def test_dlpack(self):
        class Other:
            """What another library's tensor shows of itself."""

            def __init__(self, x):
                self.x = x

            def __dlpack__(self, **options):
                return self.x.__dlpack__(**options)

            def __dlpack_device__(self):
                return self.x.__dlpack_device__()

        t = inputs()
        slopes = random(9, 4)
        self.check([t[0], Other(t[1]), Other(t[2])],
                   Attention(*t, score=lambda s, h, i, j:
                             s + slopes[h] * (j - i)),
                   score_mod="alibi", slopes=Other(slopes))

    def test_lengths_and_numbers_share_a_plan(self):
        q, k, v = inputs(m=100, n=200, d=24)
        tilec.attention(q, k, v, mask_mod="sliding_window", w=3,
                        enable_gqa=True)
        before = len(_attention._plans)
        for n in range(150, 200, 10):
            tilec.attention(q[:1, :, :n // 2], k[:1, :, :n], v[:1, :, :n],
                            mask_mod="sliding_window", w=n, enable_gqa=True)
        self.assertEqual(len(_attention._plans), before)

    def count_compiles(self, lengths):
        """Of calls that follow each other, with so many queries and keys."""
        with mock.patch.object(_attention, "Plan",
                               wraps=_attention.Plan) as compiles:
            for m, n in lengths:
                t = inputs(b=1, m=m, n=n, d=20, dv=20)
                self.check(t, Attention(*t, mask=lambda h, i, j:
                                        j - i <= n - m),
                           mask_mod="causal_bottom_right")
        return compiles.call_count

    def test_decoding_compiles_once(self):
        keys = (1, 100, 255, 256, 257, 511, 512, 600, 1024, 1025, 2048, 4100)
        self.assertEqual(self.count_compiles([(1, n) for n in keys]), 1)
        self.assertEqual(self.count_compiles([(1, n) for n in keys]), 0)

    def test_prompts_of_any_length_compile_once(self):
        self.assertEqual(self.count_compiles(
            [(n, n) for n in (60, 255, 256, 300, 512, 700)]), 1)

    def test_plans_used_last_are_kept(self):
        t = inputs(d=8, dv=8)

        def run(w):
            self.check(t, Attention(*t, mask=lambda h, i, j:
                                    (j <= i) & (i - j < w)),
                       mask_mod="causal & sliding_window(w=%d)" % w)

        def kept():
            return {key[0].mask_mod.rpartition("=")[2][:-1]
                    for key in _attention._plans}

        _attention.forget()
        with mock.patch.object(_plan, "MOST", 3):
            for w in (3, 4, 5, 3, 6):
                run(w)
            self.assertEqual(kept(), set("356"))
            plans = _attention._plans
            with mock.patch.object(plans, "in_graphs", set(plans.values())):
                run(7)
                run(8)
            self.assertEqual(kept(), set("3568"))

    def test_threads(self):
        sizes = [(m, d) for m in (33, 65, 129) for d in (8, 16)]
        tasks = [inputs(m=m, n=m, d=d, dv=d) for m, d in sizes]
        want = [Attention(*t, mask=lambda h, i, j: j <= i).o for t in tasks]

        def work(i):
            o = tilec.attention(*tasks[i % 6], mask_mod="causal",
                                enable_gqa=True)
            return error(o, want[i % 6])

        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            self.assertLess(max(pool.map(work, range(48))), 2e-6)


if __name__ == "__main__":
    unittest.main()
