# SPDX-License-Identifier: Apache-2.0
"""tilec.attention_backward on numpy arrays against float64."""
import unittest
from unittest import mock

import numpy as np
from reference import Attention, error, random

import tilec
from tilec import _attention

TOLERANCE = {"float32": 5e-6, "float16": 2e-3}


def inputs(b=2, h=4, hk=2, m=70, n=90, d=32, dv=48, dtype="float32", seed=0):
    return (random(seed, b, h, m, d, dtype=dtype),
            random(seed + 1, b, hk, n, d, dtype=dtype),
            random(seed + 2, b, hk, n, dv, dtype=dtype))


def causal(h, i, j):
    return j <= i


class Gradients(unittest.TestCase):
    def check(self, tensors, want, with_lse=True, captured=None, **options):
        """Gradients of q, k, v; captured: {name: function of the gradient of
        the modified scores that gives the name's}."""
        options = dict(options, enable_gqa=True)
        o, lse = tilec.attention(*tensors, return_lse=True, **options)
        do = random(77, *o.shape, dtype=o.dtype)
        dlse = random(78, *lse.shape) if with_lse else None
        dq, dk, dv, found = tilec.attention_backward(
            do, *tensors, o, lse, dlse=dlse, gradients=list(captured or ()),
            **options)
        *wanted, ds = want.gradients(
            do, np.where(np.isfinite(want.lse), dlse, 0) if with_lse else None)
        tolerance = TOLERANCE[str(o.dtype)]
        for name, x, w in zip(("dq", "dk", "dv"), (dq, dk, dv), wanted):
            self.assertEqual(x.dtype, o.dtype)
            self.assertLess(error(x, w), tolerance, name)
        for name, function in (captured or {}).items():
            self.assertEqual(found[name].dtype, np.float32)
            self.assertLess(error(found[name], function(ds)), 2 * tolerance,
                            name)
        return dq, dk, dv

    def test_plain(self):
        for dtype in TOLERANCE:
            for with_lse in (False, True):
                t = inputs(dtype=dtype)
                self.check(t, Attention(*t), with_lse)

    def test_shapes(self):
        for i, shape in enumerate((
                dict(m=1), dict(n=1), dict(m=1, n=1), dict(d=1, dv=1),
                dict(d=72, dv=80), dict(d=128, dv=128, m=130),
                dict(h=6, hk=1), dict(h=6, hk=6), dict(b=1, m=257, n=31))):
            with self.subTest(shape):
                t = inputs(**shape, seed=10 * i)
                self.check(t, Attention(*t, mask=causal), mask_mod="causal")

    def test_deterministic(self):
        t = inputs(m=200, n=200)
        want = Attention(*t, mask=causal)
        first, again = [self.check(t, want, mask_mod="causal",
                                   deterministic=True) for _ in range(2)]
        for x, y in zip(first, again):
            np.testing.assert_array_equal(x, y)

    def test_strides(self):
        q, k, v = inputs(m=60, n=60, d=32, dv=32)
        packed = np.zeros((2, 60, 3, 4, 32), "float32")
        for i, t in enumerate((q, k, v)):
            packed[:, :, i, :t.shape[1]] = t.transpose(0, 2, 1, 3)
        views = [packed[:, :, i, :t.shape[1]].transpose(0, 2, 1, 3)
                 for i, t in enumerate((q, k, v))]
        dq, _, _ = self.check(views, Attention(q, k, v))
        self.assertTrue(dq.transpose(0, 2, 1, 3).flags.c_contiguous)

    def test_rows_without_keys(self):
        t = inputs(m=40, n=20)
        want = Attention(*t, mask=lambda h, i, j: j <= i + (20 - 40))
        dq, _, _ = self.check(t, want, mask_mod="causal_bottom_right")
        self.assertFalse(dq[:, :, :20].any())

    def test_hidden_nans(self):
        """What no query may see may hold anything."""
        q, k, v = inputs(m=40, n=50)
        want = Attention(q, k[:, :, :40], v[:, :, :40], mask=causal)
        k[:, :, 40:] = v[:, :, 40:] = np.nan
        o, lse = tilec.attention(q, k, v, mask_mod="causal", return_lse=True,
                                 enable_gqa=True)
        do = random(77, *o.shape)
        dq, dk, dv, _ = tilec.attention_backward(
            do, q, k, v, o, lse, mask_mod="causal", enable_gqa=True)
        wq, wk, wv, _ = want.gradients(do)
        self.assertLess(error(dq, wq), 5e-6)
        self.assertLess(error(dk[:, :, :40], wk), 5e-6)
        self.assertLess(error(dv[:, :, :40], wv), 5e-6)
        self.assertFalse(dk[:, :, 40:].any() or dv[:, :, 40:].any())

    def test_score_mods(self):
        t = inputs()
        self.check(t, Attention(
            *t, score=lambda s, h, i, j: 3 * np.tanh(s / 3),
            slope=lambda s, h, i, j: 1 - np.tanh(s / 3) ** 2),
            score_mod="soft_cap(cap=3)")
        slopes = random(9, 4)
        self.check(t, Attention(
            *t, mask=causal, score=lambda s, h, i, j:
            4 * np.tanh((s + slopes[h] * (j - i)) / 4),
            slope=lambda s, h, i, j:
            1 - np.tanh((s + slopes[h] * (j - i)) / 4) ** 2),
            mask_mod="causal", score_mod="alibi, soft_cap(cap=4)",
            slopes=slopes)

    def test_captured(self):
        t = inputs()
        i, j = np.arange(70)[:, None], np.arange(90)[None]
        bias, slopes, table = random(3, 4), random(4, 4), random(5, 4, 9)
        self.check(t, Attention(*t, score=lambda s, h, i, j: s + bias[h]),
                   score_mod="head_bias", bias=bias,
                   captured={"bias": lambda ds: ds.sum((0, 2, 3))})
        self.check(t, Attention(*t, score=lambda s, h, i, j:
                                s + slopes[h] * (j - i)),
                   score_mod="alibi", slopes=slopes,
                   captured={"slopes": lambda ds:
                             (ds * (j - i)).sum((0, 2, 3))})
        column = np.clip(j - i + 4, 0, 8)
        self.check(t, Attention(*t, mask=causal, score=lambda s, h, i, j:
                                s + table[h, column]),
                   mask_mod="causal", score_mod="relative_bias_table",
                   table=table, captured={"table": lambda ds: np.stack(
                       [np.where(column == c, ds, 0).sum((0, 2, 3))
                        for c in range(9)], axis=1)})

    def test_out_dtype(self):
        """o and its gradient may have another type than q, k and v."""
        t = inputs()
        do, want = None, None
        for dtype, tolerance in (("float32", 0), ("float16", 2e-3)):
            o, lse = tilec.attention(*t, enable_gqa=True, return_lse=True,
                                     out_dtype=dtype)
            do = random(77, *o.shape).astype("float16").astype(dtype)
            found = tilec.attention_backward(do, *t, o, lse, enable_gqa=True)
            want = want or found
            for x, w in zip(found[:3], want[:3]):
                self.assertEqual(x.dtype, np.float32)
                self.assertLessEqual(error(x, w), tolerance)

    def test_factors_have_no_gradients(self):
        t = inputs()
        o, lse = tilec.attention(*t, enable_gqa=True, return_lse=True)
        with self.assertRaisesRegex(ValueError, "gradients .* with scale_o"):
            tilec.attention_backward(o, *t, o, lse, enable_gqa=True,
                                     captured={"scale_o.scales": o[0, 0, 0]})

    def test_forward_does_not_wait_for_backward(self):
        t = inputs(d=8, dv=8)
        _attention.forget()
        self.check(t, Attention(*t))
        self.assertEqual([key[0].backward for key in _attention._plans],
                         [False, True])

    def test_all_lengths_and_heads_share_a_plan(self):
        _attention.forget()
        for hk, m, n in ((4, 70, 90), (2, 70, 90), (2, 140, 260), (1, 20, 600)):
            t = inputs(hk=hk, m=m, n=n, d=8, dv=8)
            self.check(t, Attention(*t))
        # `few` queries have tiles of their own.
        self.assertEqual([key[0].backward for key in _attention._plans],
                         [False, True, False, True])

    def test_grouped_heads_share_no_plan_with_others_on_a_gpu(self):
        spec = _attention.Spec(backward=True)
        where = mock.patch.object(_attention._tensors, "device_of",
                                  return_value=(_attention._tensors.CUDA, 0))
        with where:  # the library may split what shares a key
            kinds = {_attention._sharing(spec, *inputs(hk=hk, d=8, dv=8)[:2])
                     for hk in (4, 2, 1)}
        self.assertEqual(len(kinds), 3)

    def test_errors(self):
        t = inputs()
        o, lse = tilec.attention(*t, enable_gqa=True, return_lse=True)
        for text, options in (
                ("captured `w` has no gradient",
                 dict(mask_mod="sliding_window", w=3, gradients=["w"])),
                ("no gradient", dict(gradients=["bias"]))):
            with self.assertRaises(ValueError) as e:
                tilec.attention_backward(o, *t, o, lse, enable_gqa=True,
                                         **options)
            self.assertIn(text, str(e.exception))
        with self.assertRaises(ValueError):
            tilec.attention_backward(o[:, :, :3], *t, o, lse, enable_gqa=True)


if __name__ == "__main__":
    unittest.main()
