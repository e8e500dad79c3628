# SPDX-License-Identifier: Apache-2.0
"""The kernels of products that are not attention (linear layers, groups,
experts, convolution), against float64."""
import unittest

import numpy as np
from reference import random

import tilec


def erf(x):
    """By its series, for |x| below 4."""
    term, total = x.copy(), x.copy()
    for n in range(1, 80):
        term = -term * x * x / n
        total = total + term / (2 * n + 1)
    return 2 / np.sqrt(np.pi) * total


def gelu(x):
    return 0.5 * x * (1 + erf(x / np.sqrt(2)))


def silu(x):
    return x / (1 + np.exp(-x))


class Products(unittest.TestCase):
    def near(self, got, want, what, most=2e-3):
        error = np.abs(got.astype("float64") - want).max()
        self.assertLess(error, most * max(1.0, np.abs(want).max()), what)

    def run_kernel(self, text, kernel, *args, **bindings):
        k = tilec.compile(text, name=kernel, target="cpu", examples=args,
                          bindings={n: str(v) for n, v in bindings.items()})
        k(*args)

    def test_matmul(self):
        for b, m, n, k in ((1, 5, 7, 9), (3, 70, 130, 100), (2, 64, 64, 0), (0, 5, 7, 9)):
            x, y = random(1, b, m, k, dtype="float16"), random(2, b, k, n, dtype="float16")
            z = np.full((b, m, n), np.nan, "float16")
            made = x.astype("float64") @ y.astype("float64")
            for sums, most in (("f32", 2e-3), ("f16", 1e-2)):
                z[:] = np.nan
                self.run_kernel("batched_matmul", "batched_matmul", x, y, z, TS=sums)
                if b:
                    self.near(z, made, "matrices, sums of " + sums, most)
                    z[0] = np.nan
                    self.run_kernel("matmul", "matmul", x[0], y[0], z[0], TS=sums)
                    self.near(z[0], made[0], "one, sums of " + sums, most)

    def test_matrices_that_do_not_fit(self):
        x, y = random(1, 3, 8, 8, dtype="float16"), random(2, 2, 8, 8, dtype="float16")
        with self.assertRaisesRegex(tilec.Error, "as many matrices"):
            self.run_kernel("batched_matmul", "batched_matmul", x, y, np.empty((3, 8, 8), "float16"))

    def test_linear(self):
        for i, (m, n, k) in enumerate(((5, 7, 9), (70, 130, 200), (64, 64, 0))):
            x, w = random(i, m, k, dtype="float16"), random(i + 9, n, k, dtype="float16")
            bias, residual = random(i + 19, n, dtype="float16"), random(i + 29, m, n, dtype="float16")
            y = np.empty((m, n), "float16")
            made = x.astype("float64") @ w.astype("float64").T
            tiles = dict(BM=64, BN=64)
            self.run_kernel("linear", "linear", x, w, bias, residual, y,
                            RESIDUAL=1, act="@relu", **tiles)
            want = np.maximum(made + bias, 0) + residual
            self.near(y, want, "bias, relu, residual")
            self.run_kernel("linear", "linear", x, w, bias, residual, y, BIAS=0, **tiles)
            self.near(y, made, "the product alone")
            small = x / np.float16(8)
            self.run_kernel("linear", "linear", small, w, bias, residual, y, act="@silu", **tiles)
            self.near(y, silu(made / 8 + bias), "silu")
            if k < 100:
                self.run_kernel("linear", "linear", small, w, bias, residual, y, act="@gelu", **tiles)
                self.near(y, gelu(np.clip(made / 8 + bias, -5, 5)), "gelu", 1e-2)

    def test_ints(self):
        rng = np.random.default_rng(3)
        for i, (m, n, k) in enumerate(((1, 24, 128), (70, 100, 384))):
            x = random(i, m, k, dtype="float16")
            w = rng.integers(-128, 128, (n, k)).astype("int8")
            factors = rng.random(n, dtype="float32") / 64
            y = np.empty((m, n), "float16")
            self.run_kernel("linear", "linear_w8", x, w, factors, y, BM=16, BN=64)
            want = x.astype("float64") @ (w * factors[:, None].astype("float64")).T
            self.near(y, want, "8 bits")
            q = rng.integers(-8, 8, (n, k))
            groups = (rng.random((k // 128, n)) / 8).astype("float16")
            halves = (q + 8).reshape(n, k // 128, 2, 64)
            packed = (halves[:, :, 0] | halves[:, :, 1] << 4).astype("uint8")
            packed = packed.reshape(n, k // 2).view("int8")
            self.run_kernel("linear", "linear_w4", x, packed, groups, y, BM=16, BN=64)
            w = q * np.repeat(groups.astype("float64").T, 128, axis=1)
            self.near(y, x.astype("float64") @ w.T, "4 bits", 4e-3)

    def test_fp8(self):
        m, n, k = 70, 200, 300
        rng = np.random.default_rng(5)
        # numpy has no 8-bit floats: of f16, the same text.
        x, w = (rng.integers(-7, 8, shape).astype("float16") for shape in ((m, k), (n, k)))
        fx = rng.random((3, m), dtype="float32")
        fw = rng.random((2, 3), dtype="float32")
        y = np.empty((m, n), "float32")
        self.run_kernel("linear", "linear_fp8", x, fx, w, fw, y,
                        BM=64, BN=64, TY="f32")
        want = np.zeros((m, n))
        for b in range(3):
            s = slice(128 * b, 128 * b + 128)
            f = fx[b][:, None].astype("float64") * np.repeat(fw[:, b], 128)[:n]
            want += x[:, s].astype("float64") @ w[:, s].astype("float64").T * f
        self.near(y, want, "factors of blocks", 1e-5)

    def test_int8(self):
        rng = np.random.default_rng(6)
        for m, n, k in ((1, 24, 128), (70, 200, 300)):
            x, w = (rng.integers(-128, 128, (rows, k)).astype("int8") for rows in (m, n))
            fx, fw = (rng.random(rows, dtype="float32") / 64 for rows in (m, n))
            y = np.empty((m, n), "float32")
            self.run_kernel("linear", "linear_int8", x, fx, w, fw, y,
                            BM=64, BN=64, TY="f32")
            want = x.astype("float64") @ w.astype("float64").T * fx[:, None] * fw
            self.near(y, want, "ints", 1e-6)

    def test_groups(self):
        x, w = random(1, 150, 40, dtype="float16"), random(2, 5, 48, 40, dtype="float16")
        starts = np.array([0, 0, 65, 70, 70, 150], "int32")
        y = np.full((150, 48), np.nan, "float16")
        self.run_kernel("grouped", "grouped", x, w, starts, y, BM=64, BN=32)
        for g in range(5):
            s = slice(starts[g], starts[g + 1])
            want = x[s].astype("float64") @ w[g].astype("float64").T
            error = np.abs(y[s].astype("float64") - want)
            self.assertLess(error.max(initial=0), 0.05, "group %d" % g)

    def test_experts(self):
        tokens, top, n, wide, hidden, out = 75, 2, 5, 64, 48, 40
        rng = np.random.default_rng(7)
        x = random(1, tokens, wide, dtype="float16")
        up = random(2, n, hidden, wide, dtype="float16") / np.float16(8)
        down = random(3, n, out, hidden, dtype="float16") / np.float16(8)
        chosen = np.stack([rng.permutation([0, 1, 3, 4])[:top] for _ in range(tokens)]).astype("int32")
        weights = rng.random((tokens, top), dtype="float32")
        y = np.empty((tokens, out), "float16")
        self.run_kernel("experts", "experts", x, chosen.reshape(-1), weights, up, down, y,
                        E=8, BM=16, BN=32, BK=32)
        want = np.zeros((tokens, out))
        for t in range(tokens):
            for k in range(top):
                e = chosen[t, k]
                h = silu(up[e].astype("float64") @ x[t].astype("float64"))
                want[t] += weights[t, k] * (down[e].astype("float64") @ h)
        self.near(y, want, "experts", 4e-3)

    def test_conv2d(self):
        b, height, width, ci, co = 3, 9, 11, 24, 40
        x = random(1, b, height, width, ci, dtype="float16")
        w = random(2, 3, 3, ci, co, dtype="float16") / np.float16(8)
        y = np.empty((b, height, width, co), "float16")
        self.run_kernel("conv2d", "conv2d", x, w, y, BN=32, BK=16)
        padded = np.pad(x.astype("float64"), ((0, 0), (1, 1), (1, 1), (0, 0)))
        want = sum(padded[:, r:r + height, c:c + width] @ w[r, c].astype("float64")
                   for r in range(3) for c in range(3))
        self.near(y, want, "convolution")


if __name__ == "__main__":
    unittest.main()
