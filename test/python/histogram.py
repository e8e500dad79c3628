# SPDX-License-Identifier: Apache-2.0
"""The histogram kernels against numpy: counts are exact."""
import unittest

import numpy as np
import reference  # the path of tilec

import tilec

KERNELS = ("histogram", "histogram_copies")


class Histogram(unittest.TestCase):
    target = "cpu"

    def run_kernel(self, kernel, *args, **bindings):
        k = tilec.compile("histogram", name=kernel, target=self.target,
                          examples=args,
                          bindings={n: str(v) for n, v in bindings.items()})
        k(*args)

    def check(self, x, bins, want, extra=(), **bindings):
        for kernel in KERNELS:
            counts = np.arange(bins, dtype="int32")  # added to
            self.run_kernel(kernel, x, counts, *extra, **bindings)
            np.testing.assert_array_equal(counts - np.arange(bins), want, kernel)

    def test_ints(self):
        rng = np.random.default_rng(1)
        for dtype, n, bins in (("int32", 0, 5), ("int32", 1, 1),
                               ("int64", 1000, 10), ("int32", 20000, 256),
                               ("int16", 9999, 300), ("int8", 5000, 128),
                               ("int32", 3001, 4096), ("int32", 3001, 50000)):
            most = min(bins + bins // 4 + 2, np.iinfo(dtype).max)
            x = rng.integers(-3, most, n).astype(dtype)
            inside = x[(x >= 0) & (x < bins)]
            self.check(x, bins, np.bincount(inside, minlength=bins))

    def test_one_bin(self):
        self.check(np.full(30000, 7, "int32"), 9,
                   np.bincount([7], minlength=9) * 30000)

    def test_far_outside(self):
        x = np.array([2 ** 40 + 1, -2 ** 40 + 1, 1, 2 ** 31, 2 ** 32 + 1], "int64")
        self.check(x, 3, [0, 1, 0])

    def test_even_bins(self):
        rng = np.random.default_rng(2)
        x = (rng.integers(-80, 81, 5000) / 16).astype("float32")
        x[:5] = np.nan, np.inf, -np.inf, 4, -4
        want, _ = np.histogram(x[np.isfinite(x)], 32, (-4, 4))
        self.check(x, 32, want, (-4.0, 4.0), bin="@even_bins")
        self.check(x.astype("float16"), 32, want, (-4.0, 4.0), bin="@even_bins")

    def test_strides(self):
        x = np.arange(2000, dtype="int32")[::2]
        self.check(x, 500, np.arange(500) % 2 == 0)


if __name__ == "__main__":
    unittest.main()
