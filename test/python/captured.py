# SPDX-License-Identifier: Apache-2.0
"""Captured values of other types than the mod's parameters have."""
import unittest

import numpy as np
from reference import random

import tilec

Q, K, V = (random(seed, 1, 2, 20, 16) for seed in (1, 2, 3))
HIDES = """
func @hides(%b: i32, %h: i32, %q: i32, %k: i32, %on: i1) -> i1 {
  return %k <= %q or !%on
}
"""
SEES = """
func @sees(%b: i32, %h: i32, %q: i32, %k: i32, %table: tensor<[?, ?] x i1>) -> i1 {
  return %table[%q, %k]
}
"""
TIMES = """
func @times(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32, %by: f32) -> f32 {
  return %s * %by
}
"""
TIMES_FIRST = """
func @times(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32, %by: tensor<[?] x f32>) -> f32 {
  return %s * %by[0]
}
"""
ADDS = """
func @adds(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32, %bias: tensor<[?, ?, ?, ?] x f32>) -> f32 {
  return %s + %bias[%b, %h, %q, %k]
}
"""


def attend(**options):
    return tilec.attention(Q, K, V, **options)


class Captured(unittest.TestCase):
    def same(self, text, name, values, **options):
        """All values of what is captured give what the first gives."""
        want = attend(**text, **options, **{name: values[0]})
        for value in values[1:]:
            with self.subTest(repr(value)):
                got = attend(**text, **options, **{name: value})
                np.testing.assert_array_equal(got, want)
        return want

    def test_numpy_numbers(self):
        hides = self.same(dict(mask_mod=HIDES), "on",
                          [True, np.bool_(True), np.int64(3) > 2, 1,
                           np.uint8(1), np.array(True)])
        self.assertFalse(np.array_equal(hides, attend()))
        self.same(dict(mask_mod="sliding_window"), "w",
                  [3, np.int8(3), np.uint64(3), np.array(3, "int64")])
        self.same(dict(score_mod=TIMES), "by",
                  [0.5, np.float32(0.5), np.float16(0.5), np.array(0.5)])

    def test_integers(self):
        starts = np.array([0, 7, 15], "int32")
        self.same(dict(mask_mod="document"), "offsets",
                  [starts, *[starts.astype(t) for t in (
                      "int64", "uint8", "uint16", "uint32", "int16")],
                   starts.astype("int64")[::-1].copy()[::-1]])
        with self.assertRaisesRegex(
                ValueError, r"captured offsets has 1099511627776, the mod's "
                r"parameter -2147483648 to 2147483647"):
            attend(mask_mod="document", offsets=starts + np.int64(1 << 40))
        with self.assertRaisesRegex(ValueError, "captured offsets has -"):
            attend(mask_mod="document", offsets=starts - np.int64(1 << 40))
        with self.assertRaisesRegex(tilec.Error, "f32, expected i32"):
            attend(mask_mod="document", offsets=starts.astype("float32"))

    def test_truths(self):
        marked = np.arange(20) % 7 == 2
        self.same(dict(mask_mod="causal | global_positions"),
                  "is_global", [marked.astype("int8"), marked,
                                marked.astype("uint8"), marked.astype("int64")])
        with self.assertRaisesRegex(ValueError, "has 200, .* -128 to 127"):
            attend(mask_mod="global_positions",
                   is_global=marked * np.uint8(200))
        table = np.tri(20, dtype=bool)
        self.same(dict(mask_mod=SEES), "table",
                  [table, table.astype("uint8"), table.astype("int64")])
        with self.assertRaisesRegex(ValueError, "has 2, .* 0 to 1"):
            attend(mask_mod=SEES, table=table * 2)

    def test_floats(self):
        slopes = np.array([0.5, 0.25])
        self.same(dict(score_mod="alibi"), "slopes",
                  [slopes.astype("float32"), slopes,
                   slopes.astype("float16")])
        bias = random(5, 20, 20).astype("float16")
        shape = (1, 2, 20, 20)
        self.same(dict(score_mod=ADDS), "bias", [
            np.broadcast_to(bias, shape).astype("float32"),
            np.broadcast_to(bias, shape),
            np.broadcast_to(bias.astype("float64"), shape)])

    def test_rank_0(self):
        self.same(dict(score_mod=TIMES_FIRST), "by",
                  [np.array([0.5], "float32"), np.array(0.5, "float32"),
                   np.array(0.5)])

    def test_rank_0_has_a_gradient(self):
        o, lse = attend(score_mod=TIMES, by=0.5, return_lse=True)
        for text, by in ((TIMES, np.array(0.5)), (TIMES_FIRST, np.array(0.5))):
            found = tilec.attention_backward(
                o, Q, K, V, o, lse, score_mod=text, by=by, gradients=["by"])[3]
            self.assertEqual(found["by"].shape, ())
            self.assertNotEqual(found["by"], 0)
            first = tilec.attention_backward(
                o, Q, K, V, o, lse, score_mod=TIMES_FIRST, gradients=["by"],
                by=np.array([0.5], "float32"))[3]["by"]
            np.testing.assert_allclose(found["by"], first[0], rtol=1e-5)

    def test_both_mods(self):
        """By full names too, where the types differ."""
        mask = SEES.replace("%table", "%x")
        score = TIMES_FIRST.replace("%by", "%x")
        table, by = np.tri(20, dtype=bool), np.array([0.5])
        want = attend(mask_mod=SEES, score_mod=TIMES, table=table, by=0.5)
        got = attend(mask_mod=mask, score_mod=score, captured={
            "mask.x": table.astype("uint8"), "score.x": by})
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)

    def test_lists(self):
        """The kernel that looks for blocks reads the same tensors."""
        ids = np.arange(20) // 7
        for lists in (True, False):
            self.same(dict(mask_mod="document_ids"), "ids",
                      [ids.astype("int32"), ids],
                      kernel_options=dict(block_lists=lists))

    def test_names(self):
        for kind, captured in ((ValueError, {"a;b=3": 3}),
                               (ValueError, {"a\0": 3}), (TypeError, {5: 3}),
                               (TypeError, [("w", 3)]), (TypeError, {"w": [3]}),
                               (TypeError, {"w": None}), (TypeError, {"w": "3"}),
                               (TypeError, {"w": 3j})):
            with self.subTest(captured), \
                    self.assertRaisesRegex(kind, "captured|^w is a"):
                attend(mask_mod="sliding_window", captured=captured)


if __name__ == "__main__":
    unittest.main()
