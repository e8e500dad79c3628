# SPDX-License-Identifier: Apache-2.0
"""The dropout kernel: the numbers of Triton's tl.rand and tl.rand4x, and the same
elements in both directions."""
import unittest

import numpy as np
from philox import philox, uniform
from reference import random

import tilec


def kept(n, p, seed, words):
    i = np.arange(n)
    if words == 1:
        u = uniform(philox(i, 0, 0, 0, seed)[0])
    else:
        u = uniform(np.stack(philox(np.arange(-(-n // 4)), 0, 0, 0, seed),
                             axis=1).ravel()[:n])
    return u > np.float32(p)


class Dropout(unittest.TestCase):
    target = "cpu"

    def run_kernel(self, *args, **bindings):
        k = tilec.compile("dropout", name="dropout", target=self.target,
                          examples=args,
                          bindings={n: str(v) for n, v in bindings.items()})
        k(*args)

    def test_elements(self):
        for i, (n, p, seed) in enumerate(((0, 0.5, 1), (1, 0.5, 2), (999, 0.1, 3),
                                          (5000, 0.5, -2 ** 61 + 5),
                                          (3000, 0.0, 4), (3000, 1.0, 2 ** 40))):
            for words in (1, 4):
                for dtype, most in (("float32", 3e-7), ("float16", 1e-3)):
                    x = random(i, n, dtype=dtype)
                    y = np.empty_like(x)
                    self.run_kernel(x, y, p, seed, WORDS=words)
                    keep = kept(n, p, seed, words)
                    want = np.where(keep, x.astype("float64") / max(1 - np.float32(p), 1e-9), 0)
                    np.testing.assert_array_equal(y != 0, keep & (x != 0))
                    np.testing.assert_allclose(y, want, rtol=most)

    def test_both_directions(self):
        """The gradient of sum(w y) by x: w where x is kept."""
        x, w = random(1, 4000), random(2, 4000)
        y, dx, other = np.empty_like(x), np.empty_like(x), np.empty_like(x)
        self.run_kernel(x, y, 0.25, 77)
        self.run_kernel(w, dx, 0.25, 77)
        self.run_kernel(x, other, 0.25, 78)
        np.testing.assert_array_equal(dx != 0, y != 0)
        np.testing.assert_allclose(dx[y != 0], w[y != 0] / 0.75, rtol=1e-6)
        self.assertNotEqual(((other != 0) != (y != 0)).sum(), 0)
        self.run_kernel(x, x, 0.25, 77)
        np.testing.assert_array_equal(x, y)
        self.assertLess(abs((y != 0).mean() - 0.75), 4 * np.sqrt(0.25 * 0.75 / 4000))

    def test_refuses(self):
        x = random(1, 8)
        for p in (-0.1, 1.1):
            with self.assertRaisesRegex(Exception, "p must be from 0 to 1"):
                self.run_kernel(x, x, p, 1)


if __name__ == "__main__":
    unittest.main()
