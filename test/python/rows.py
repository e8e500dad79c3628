# SPDX-License-Identifier: Apache-2.0
"""The kernels of rows (softmax, cross entropy, norms, rotary embedding of q and
k) and swiglu, against float64."""
import unittest

import numpy as np
from reference import random

import tilec

WIDTHS = (1, 7, 100, 1000)
TYPES = ("float32", "float16")
TOLERANCE = {"float32": 2e-5, "float16": 2e-3}


def softmax(x):
    top = np.max(x, axis=1, keepdims=True)
    e = np.exp(x - np.where(np.isinf(top), 0, top))
    s = e.sum(axis=1, keepdims=True)
    return e / np.where(s == 0, 1, s)


class Rows(unittest.TestCase):
    def near(self, got, want, dtype, what):
        error = np.abs(got.astype("float64") - want).max()
        most = TOLERANCE[dtype] * max(1.0, np.abs(want).max())
        self.assertLess(error, most, "%s, %s" % (what, dtype))

    def cases(self, widths=WIDTHS):
        for i, n in enumerate(widths):
            yield i, n, TYPES[i % 2], 3 + 5 * (i % 3)

    def run_kernel(self, text, kernel, *args, **bindings):
        k = tilec.compile(text, name=kernel, target="cpu", examples=args,
                          bindings={n: str(v) for n, v in bindings.items()})
        k(*args)

    def test_softmax(self):
        for i, n, dtype, m in self.cases():
            x = 4 * random(i, m, n, dtype=dtype)
            x[0] = -np.inf
            y, dx = np.empty_like(x), np.empty_like(x)
            self.run_kernel("softmax_rows", "softmax_rows", x, y)
            want = softmax(x.astype("float64"))
            self.near(y, want, dtype, "softmax of %d" % n)
            dy = random(i + 99, m, n, dtype=dtype)
            self.run_kernel("softmax_rows", "softmax_rows_backward", y, dy, dx)
            p, g = y.astype("float64"), dy.astype("float64")
            self.near(dx, p * (g - (p * g).sum(axis=1, keepdims=True)), dtype,
                      "gradient of softmax of %d" % n)

    def test_cross_entropy(self):
        for i, n, dtype, m in self.cases((3, 1000, 9001)):
            x = 4 * random(i, m, n, dtype=dtype)
            labels = np.random.default_rng(i).integers(0, n, m)
            labels[1] = -100
            loss, lse = np.empty(m, "float32"), np.empty(m, "float32")
            self.run_kernel("cross_entropy", "cross_entropy", x, labels, loss,
                            lse)
            z = x.astype("float64")
            want = np.log(np.exp(z - z.max(axis=1, keepdims=True))
                          .sum(axis=1)) + z.max(axis=1)
            own = np.where(labels < 0, want, z[np.arange(m), np.maximum(labels, 0)])
            self.near(lse, want, "float32", "lse of %d" % n)
            self.near(loss, want - own, "float32", "loss of %d" % n)
            dloss, dx = random(i, m), np.empty_like(x)
            self.run_kernel("cross_entropy", "cross_entropy_backward", x,
                            labels, lse, dloss, dx)
            p = np.exp(z - want[:, None])
            p[np.arange(m), np.maximum(labels, 0)] -= 1
            self.near(dx, p * np.where(labels < 0, 0, dloss)[:, None], dtype,
                      "gradient of the loss of %d" % n)

    def test_prefix_sum(self):
        for i, n, dtype, m in self.cases((1, 100, 3000)):
            x = random(i, m, n, dtype=dtype)
            y, z = np.empty_like(x), np.empty_like(x)
            self.run_kernel("prefix_sum", "prefix_sum", x, y, BN=512)
            self.run_kernel("prefix_sum", "prefix_sum", x, z, BN=512, BM=2,
                            REVERSE=1)
            want = np.cumsum(x.astype("float64"), axis=1)
            self.near(y, want, dtype, "prefix sums of %d" % n)
            want = np.cumsum(x.astype("float64")[:, ::-1], axis=1)[:, ::-1]
            self.near(z, want, dtype, "reversed prefix sums of %d" % n)
        x = np.arange(20000, dtype="int64") - 7000
        y = np.empty_like(x)
        self.run_kernel("prefix_sum", "prefix_sum_long", x, y, S="i64")
        self.assertTrue((y == np.cumsum(x)).all())

    def norms(self, i, n, dtype, m):
        x, dy = random(i, m, n, dtype=dtype) + 1, random(i + 9, m, n,
                                                         dtype=dtype)
        return x.astype(dtype), dy, random(i + 1, n), random(i + 2, n)

    def gradients(self, x, w, dy, mean, rstd, layer):
        z, g = x.astype("float64"), dy.astype("float64") * w
        u = (z - mean[:, None]) * rstd[:, None]
        d = g - u * (u * g).mean(axis=1, keepdims=True)
        if layer:
            d -= g.mean(axis=1, keepdims=True)
        return (d * rstd[:, None], (u * dy.astype("float64")).sum(axis=0),
                dy.astype("float64").sum(axis=0))

    def test_layernorm(self):
        for i, n, dtype, m in self.cases():
            x, dy, w, b = self.norms(i, n, dtype, m)
            y, mean = np.empty_like(x), np.empty(m, "float32")
            rstd = np.empty_like(mean)
            self.run_kernel("norm", "layernorm_rows", x, w, b, y, mean, rstd,
                            1e-3)
            z = x.astype("float64")
            mu, r = z.mean(axis=1), 1 / np.sqrt(z.var(axis=1) + 1e-3)
            self.near(mean, mu, "float32", "mean of %d" % n)
            self.near(rstd, r, "float32", "rstd of %d" % n)
            self.near(y, (z - mu[:, None]) * r[:, None] * w + b, dtype,
                      "layer norm of %d" % n)
            dx, dw, db = np.empty_like(x), np.empty_like(w), np.empty_like(b)
            self.run_kernel("norm", "layernorm_backward", x, w, mean, rstd, dy,
                            dx, dw, db, PARTS=2)
            for got, want, kind, what in zip(
                    (dx, dw, db), self.gradients(x, w, dy, mu, r, True),
                    (dtype, "float32", "float32"), ("dx", "dw", "db")):
                self.near(got, want, kind, "%s of %d" % (what, n))

    def test_rmsnorm(self):
        for i, n, dtype, m in self.cases():
            x, dy, w, _ = self.norms(i, n, dtype, m)
            y, rstd = np.empty_like(x), np.empty(m, "float32")
            self.run_kernel("norm", "rmsnorm", x, w, y, rstd, 1e-3)
            z = x.astype("float64")
            r = 1 / np.sqrt((z * z).mean(axis=1) + 1e-3)
            self.near(rstd, r, "float32", "rstd of %d" % n)
            self.near(y, z * r[:, None] * w, dtype, "RMS norm of %d" % n)
            dx, dw = np.empty_like(x), np.empty_like(w)
            self.run_kernel("norm", "rmsnorm_backward", x, w, rstd, dy, dx, dw,
                            PARTS=3)
            want = self.gradients(x, w, dy, 0 * r, r, False)
            self.near(dx, want[0], dtype, "dx of %d" % n)
            self.near(dw, want[1], "float32", "dw of %d" % n)

    def test_qk_norm(self):
        for i, (hq, hk, d) in enumerate(((1, 1, 16), (4, 2, 64), (12, 3, 128),
                                         (40, 8, 96))):
            for dtype in TYPES[i % 2:][:1]:
                m = 5
                q, k = (random(i, m, h, d, dtype=dtype) for h in (hq, hk))
                wq, wk = random(7, d), random(8, d)
                angle = random(9, m, d // 2).astype("float64")
                cos, sin = (f(angle).astype("float32")
                            for f in (np.cos, np.sin))
                qo, ko = np.empty_like(q), np.empty_like(k)
                self.run_kernel("qk_norm", "qk_norm", q, k, wq, wk, cos, sin,
                                qo, ko, 1e-3)
                for x, w, got in ((q, wq, qo), (k, wk, ko)):
                    z = x.astype("float64")
                    u = z / np.sqrt((z * z).mean(axis=2, keepdims=True) +
                                    1e-3) * w
                    a, b = u[..., :d // 2], u[..., d // 2:]
                    c, s = cos[:, None], sin[:, None]
                    self.near(got, np.concatenate((a * c - b * s,
                                                   b * c + a * s), axis=2),
                              dtype, "%d heads of %d" % (x.shape[1], d))

    def test_swiglu(self):
        for m, k, n in ((1, 8, 8), (70, 100, 130), (129, 65, 257)):
            for dtype in TYPES:
                x, g, u = (random(i, *shape, dtype=dtype) for i, shape in
                           enumerate(((m, k), (k, n), (k, n))))
                y = np.empty((m, n), dtype)
                self.run_kernel("swiglu", "swiglu", x, g, u, y)
                a, b = (x.astype("float64") @ w.astype("float64")
                        for w in (g, u))
                self.near(y, a / (1 + np.exp(-a)) * b, dtype,
                          "swiglu %dx%dx%d" % (m, k, n))


if __name__ == "__main__":
    unittest.main()
