# SPDX-License-Identifier: Apache-2.0
"""Fast Hadamard and Fourier transforms against their definitions in float64."""
import unittest

import numpy as np
from reference import random

import tilec


def hadamard(n):
    h = np.ones((1, 1))
    while len(h) < n:
        h = np.block([[h, h], [h, -h]])
    return h


def complex_of(x):
    """Of elements in turn, real and imaginary."""
    return x[..., ::2].astype("float64") + 1j * x[..., 1::2]


class Butterflies(unittest.TestCase):
    target = "cpu"

    def run_kernel(self, kernel, *args, **bindings):
        k = tilec.compile("butterflies", name=kernel, target=self.target,
                          examples=args,
                          bindings={n: str(v) for n, v in bindings.items()})
        k(*args)

    def near(self, got, want, most, what):
        error = np.linalg.norm(got - want) / np.linalg.norm(want)
        self.assertLess(error, most, what)

    def test_hadamard(self):
        for i in (4, 5, 6, 7, 8, 11):
            n = 1 << i
            for m, dtype, most in ((1, "float32", 1e-6), (7, "float16", 1e-3)):
                x = random(i, m, n, dtype=dtype)
                y = np.empty_like(x)
                self.run_kernel("hadamard", x, y, n ** -0.5)
                want = x.astype("float64") @ hadamard(n) * n ** -0.5
                self.near(y, want, most, "%d, %s" % (n, dtype))

    def test_hadamard_is_exact(self):
        x = np.random.default_rng(1).integers(-8, 8, (3, 16384)).astype("float32")
        y, z = np.empty_like(x), np.empty_like(x)
        self.run_kernel("hadamard", x, y, 1.0)
        self.run_kernel("hadamard", y, z, 1 / 16384)
        self.assertTrue((z == x).all())

    def test_fft(self):
        for i in (4, 5, 6, 7, 8, 12, 13):
            n = 1 << i
            x = random(i, 2, 3, 2 * n)
            y, z = np.empty_like(x), np.empty_like(x)
            self.run_kernel("fft_rows", x, y)
            self.near(complex_of(y), np.fft.fft(complex_of(x)), 1e-6,
                      "fft of %d" % n)
            self.run_kernel("fft_rows", x, z, INVERSE=1)
            self.near(complex_of(z), np.fft.ifft(complex_of(x)), 1e-6,
                      "inverse of %d" % n)

    def test_fft2(self):
        for b, n, m in ((1, 16, 32), (2, 64, 16), (1, 32, 512)):
            x = random(3, b, n, 2 * m)
            y = np.empty_like(x)
            self.run_kernel("fft2", x, y)
            self.near(complex_of(y), np.fft.fft2(complex_of(x)), 1e-6, "fft2")
            self.run_kernel("fft2", y, y, INVERSE=1)
            self.near(y, x, 1e-6, "there and back")

    def test_columns(self):
        x = random(4, 2, 128, 2 * 51)
        y = np.empty_like(x)
        self.run_kernel("fft_columns", x, y)
        self.near(complex_of(y), np.fft.fft(complex_of(x), axis=1), 1e-6,
                  "columns")

    def test_lengths(self):
        for n in (8, 48, 96):
            x = np.zeros((2, n), "float32")
            with self.assertRaisesRegex(Exception, "power of two"):
                self.run_kernel("hadamard", x, x, 1.0)
            with self.assertRaisesRegex(Exception, "power of two"):
                self.run_kernel("fft_rows", x[None], x[None])
        x = np.zeros((1, 24, 8), "float32")
        with self.assertRaisesRegex(Exception, "power of two"):
            self.run_kernel("fft_columns", x, x)


if __name__ == "__main__":
    unittest.main()
