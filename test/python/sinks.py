# SPDX-License-Identifier: Apache-2.0
"""tilec.attention(sinks=) on numpy arrays against float64."""
import unittest

import numpy as np
from reference import Attention, error, random

import tilec

TOLERANCE = {"float32": 5e-6, "float16": 2e-3}


def inputs(b=2, h=4, hk=2, m=70, n=90, d=32, dv=48, dtype="float32", seed=0):
    return (random(seed, b, h, m, d, dtype=dtype),
            random(seed + 1, b, hk, n, d, dtype=dtype),
            random(seed + 2, b, hk, n, dv, dtype=dtype))


def causal(h, i, j):
    return j <= i


class Sinks(unittest.TestCase):
    def check(self, tensors, sinks, mask=None, with_lse=True, **options):
        """Forward and all gradients; dsinks."""
        options = dict(options, sinks=sinks, enable_gqa=True)
        want = Attention(*tensors, mask=mask, sinks=sinks)
        o, lse = tilec.attention(*tensors, return_lse=True, **options)
        tolerance = TOLERANCE[str(o.dtype)]
        self.assertLess(error(o, want.o), tolerance)
        self.assertLess(error(lse, want.lse), 2e-6)
        do = random(77, *o.shape, dtype=o.dtype)
        dlse = random(78, *lse.shape) if with_lse else None
        *got, found = tilec.attention_backward(
            do, *tensors, o, lse, dlse=dlse, gradients=["sinks"], **options)
        *wanted, _ = want.gradients(do, dlse)
        for name, x, w in zip(("dq", "dk", "dv"), got, wanted):
            self.assertLess(error(x, w), tolerance, name)
        dsinks = found["sinks"]
        self.assertEqual((dsinks.dtype, dsinks.shape),
                         (np.float32, (tensors[0].shape[1],)))
        self.assertLess(error(dsinks, want.dsinks), tolerance)
        self.assertGreater(error(-dsinks, want.dsinks), 1)
        return dsinks

    def test_plain(self):
        for dtype in TOLERANCE:
            for with_lse in (False, True):
                t = inputs(dtype=dtype)
                self.check(t, random(5, 4), with_lse=with_lse)

    def test_shapes(self):
        for i, shape in enumerate((
                dict(m=1), dict(n=1), dict(d=1, dv=1), dict(d=72, dv=80),
                dict(d=256, dv=256, m=20), dict(h=6, hk=1), dict(h=6, hk=6),
                dict(b=1, m=1300, n=31))):
            with self.subTest(shape):
                t = inputs(**shape, seed=10 * i)
                self.check(t, random(i, t[0].shape[1]) + 1, causal,
                           mask_mod="causal")

    def test_lists(self):
        t = inputs(m=300, n=300)
        for lists in (True, False):
            self.check(t, random(5, 4), causal, mask_mod="causal",
                       kernel_options={"block_lists": lists})

    def test_deterministic(self):
        t = inputs(m=200, n=200)
        first, again = [self.check(t, random(5, 4), deterministic=True)
                        for _ in range(2)]
        np.testing.assert_array_equal(first, again)

    def test_rows_without_keys(self):
        """All of such a row is its sink."""
        t, sinks = inputs(m=40, n=20), random(5, 4)
        self.check(t, sinks, lambda h, i, j: j <= i - 20,
                   mask_mod="causal_bottom_right")
        o, lse = tilec.attention(
            *t, sinks=sinks, mask_mod="causal_bottom_right", enable_gqa=True,
            return_lse=True)
        self.assertFalse(o[:, :, :20].any())
        self.assertTrue((lse[:, :, :20] == sinks[:, None]).all())

    def test_far(self):
        t = inputs()
        sinks = np.array([-np.inf, 300, 1e30, -1e30], "float32")
        o, lse, most = tilec.attention(*t, sinks=sinks, enable_gqa=True,
                                       return_lse=True, return_max=True)
        plain, lse_plain, most_plain = tilec.attention(
            *t, enable_gqa=True, return_lse=True, return_max=True)
        for h in (0, 3):
            np.testing.assert_array_equal(o[:, h], plain[:, h])
            np.testing.assert_array_equal(lse[:, h], lse_plain[:, h])
        self.assertFalse(o[:, 1:3].any())
        self.assertTrue((lse[:, 1:3] == sinks[1:3, None]).all())
        np.testing.assert_array_equal(most, most_plain)

    def test_not_numbers(self):
        t = inputs()
        o, lse = tilec.attention(
            *t, sinks=np.array([np.inf, np.nan, 0, 0], "float32"),
            enable_gqa=True, return_lse=True)
        self.assertFalse(o[:, 0].any())
        self.assertTrue((lse[:, 0] == np.inf).all())
        self.assertTrue(np.isnan(o[:, 1]).all() and np.isnan(lse[:, 1]).all())
        self.assertTrue(np.isfinite(o[:, 2:]).all())

    def test_conversion(self):
        t = inputs()
        exact = np.array([0.5, -2, 3, 0])
        want = tilec.attention(*t, sinks=exact.astype("float32"),
                               enable_gqa=True)
        for sinks in (exact, exact.astype("float16"),
                      np.repeat(exact.astype("float32"), 2)[::2]):
            np.testing.assert_array_equal(
                tilec.attention(*t, sinks=sinks, enable_gqa=True), want)

    def test_not_asked_for(self):
        t, sinks = inputs(), random(5, 4)
        o, lse = tilec.attention(*t, sinks=sinks, enable_gqa=True,
                                 return_lse=True)
        dq, dk, dv, found = tilec.attention_backward(
            o, *t, o, lse, sinks=sinks, enable_gqa=True)
        self.assertEqual(found, {})
        *want, _ = Attention(*t, sinks=sinks).gradients(o)
        for x, w in zip((dq, dk, dv), want):
            self.assertLess(error(x, w), 5e-6)

    def test_errors(self):
        t = inputs()
        for sinks, kind, said in (
                (random(1, 3), ValueError, r"\(3,\), expected \(4,\)"),
                (random(1, 2, 4), ValueError, r"\(2, 4\), expected \(4,\)"),
                (np.arange(4), ValueError, "expected float32, or bfloat16"),
                (0.0, TypeError, "sinks is a number")):
            with self.assertRaisesRegex(kind, said):
                tilec.attention(*t, sinks=sinks, enable_gqa=True)
        with self.assertRaisesRegex(TypeError, "s_aux; in its place: sinks="):
            tilec.attention(*t, s_aux=random(1, 4), enable_gqa=True)


if __name__ == "__main__":
    unittest.main()
