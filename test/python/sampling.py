# SPDX-License-Identifier: Apache-2.0
"""Sampling from logits: the tokens of the kernel are those of a reference that
sorts, in float64, with the same random numbers; their frequencies are those of
the distribution."""
import math
import unittest

import numpy as np
from philox import philox
from reference import random

import tilec

BN = 8192  # what the kernel has


def exponential(seed, i, turn, which):
    word = philox(i, turn, which, 0, seed)[0]
    u = (word >> np.uint32(1)).astype("float32") + np.float32(0.5)
    u = np.minimum(u * np.float32(2.0 ** -31), np.float32(0.99999994))
    return -np.log1p(-u.astype("float64"))


def allowed(z, temperature, k, p, min_p):
    """Which tokens may be drawn, and the weights, by sorting."""
    slope = min(max(math.log2(math.e) / temperature, 1e-30), 1e30)
    w = np.exp2((z - z.max()) * slope)
    keep = z > -np.inf
    if min_p > 0:
        keep &= w >= min(min_p, 1)
    if 0 < k < keep.sum():
        keep &= z >= np.sort(z[keep])[-k]
    if p < 1:
        order = np.argsort(-np.where(keep, z, -np.inf), kind="stable")
        sums = np.cumsum(np.where(keep, w, 0)[order])
        crossing = min(np.searchsorted(sums, p * sums[-1]), keep.sum() - 1)
        keep &= z >= z[order[crossing]]
    return keep, np.where(keep, w, 0)


def draw(z, w, above, seed, turn, bn):
    """The race of the sums, then that of the columns of the winner's set."""
    n = np.arange(z.size)
    sets = n % bn // 4
    inside = z > above
    sums = np.bincount(sets, np.where(inside, w, 0), minlength=bn // 4)
    with np.errstate(divide="ignore", invalid="ignore"):
        race = exponential(seed, np.arange(bn // 4), turn, 0) / sums
        own = np.argmin(np.where(sums > 0, race, np.inf))
        times = exponential(seed, n, turn, 1) / w
    return np.argmin(np.where(inside & (sets == own), times, np.inf))


def token_of(x, temperature, k, p, min_p, seed, bn=BN):
    z = np.minimum(x.astype("float64"), np.finfo("float32").max)
    z[np.isnan(z)] = -np.inf
    if z.max() == -np.inf:
        return -1
    if not temperature > 0:
        return int(np.argmax(z))
    keep, _ = allowed(z, temperature, k, p, min_p)
    first, w = allowed(z, temperature, k, 1, min_p)
    above, turn = np.max(np.where(first, -np.inf, z)), 0
    while True:
        i = draw(z, w, above, seed, turn, bn)
        if keep[i]:
            return int(i)
        above, turn = z[i], turn + 1


class Sampling(unittest.TestCase):
    target = "cpu"

    def sample(self, x, temperature, k, p, min_p, seeds, **bindings):
        m = x.shape[0]
        rows = [np.broadcast_to(np.asarray(v, t), (m,)).copy() for v, t in
                ((temperature, "float32"), (k, "int32"), (p, "float32"),
                 (min_p, "float32"), (seeds, "int64"))]
        tokens = np.full(m, -7, "int64")
        args = (x, tokens, *rows)
        tilec.compile("sampling", name="sample", target=self.target,
                      examples=args, bindings=bindings)(*args)
        return tokens, rows

    def check(self, what, x, *settings, **bindings):
        got, rows = self.sample(x, *settings, **bindings)
        bn = int(bindings.get("BN", BN))
        for i in range(x.shape[0]):
            own = [v[i].item() for v in rows]
            self.assertEqual(got[i], token_of(x[i], *own, bn=bn),
                             "%s, row %d: %s" % (what, i, own))
        return got

    def test_settings(self):
        for i, n in enumerate((1, 5, 1000, 8192, 40000)):
            x = 3 * random(i, 24, n, dtype=("float32", "float16")[i % 2])
            rng = np.random.default_rng(i)
            t = rng.uniform(0.3, 2, 24)
            t[3] = 0
            k = rng.integers(-1, 60, 24)
            p, min_p = rng.uniform(0.2, 1.1, 24), rng.uniform(-0.1, 0.1, 24)
            seeds = rng.integers(-2 ** 62, 2 ** 62, 24)
            self.check("all, %d" % n, x, t, k, p, min_p, seeds)
            self.check("none, %d" % n, x, 1, 0, 1, 0, seeds)
            self.check("top-p, %d" % n, x, t, 0, p, 0, seeds)
            self.check("top-k, %d" % n, x, t, k, 1, 0, seeds)
            self.check("blocks of 1024, %d" % n, x, t, k, p, 0, seeds,
                       BN="1024")

    def test_large_vocabulary(self):
        x = 2 * random(5, 3, 131072, dtype="float16")
        for k, p in ((0, 0.9), (50, 0.8), (3000, 0.99), (9000, 1)):
            self.check("k %d" % k, x, 0.8, k, p, 0, np.arange(3) + k)

    def test_ties(self):
        x = np.round(random(6, 30, 5000))
        for k in (1, 4, 100, 3000):
            self.check("k %d of equal ones" % k, x, 1, k, 1, 0, np.arange(30))
        self.check("p of equal ones", x, 1, 0, 0.3, 0, np.arange(30))
        zeros = np.zeros((40, 300), "float32")
        zeros[:, ::2] = -0.0
        got = self.check("zeros", zeros, 1, 5, 0.5, 0.5, np.arange(40))
        self.assertGreater(len(set(got)), 30)

    def test_odd_numbers(self):
        x = random(7, 7, 3000)
        x[0] = -np.inf
        x[1, 1:] = -np.inf
        x[2, ::3], x[2, 1::3] = np.nan, -np.inf
        x[3, 17] = np.inf
        x[4, 5:9] = np.inf
        x[5] *= 1e37
        x[6] = np.nan
        for t in (0, 1e-30, 1, 1e30, np.inf):
            got = self.check("temperature %g" % t, x, t, 40, 0.9, 1e-3,
                             np.arange(7))
            self.assertEqual([got[i] for i in (0, 1, 3, 6)], [-1, 0, 17, -1])
        self.check("p is 0", x, 1, 0, 0, 0, np.arange(7))
        self.check("min_p is 2", x, 1, 0, 1, 2, np.arange(7))

    def test_rows_are_independent(self):
        x = random(8, 9, 2000)
        seeds = np.arange(9) * 7
        got, _ = self.sample(x, 1, 20, 0.9, 0, seeds)
        one, _ = self.sample(x[4:5], 1, 20, 0.9, 0, seeds[4:5])
        self.assertEqual(got[4], one[0])

    def test_frequencies(self):
        """Chi-square of 20000 seeds. Seeds are fixed, so the result is, too; a
        right sampler exceeds the bound for one of 10^5 sets of seeds."""
        x = 1.5 * random(9, 1, 60)
        x[0, 7] = x[0, 9]
        many = np.repeat(x, 20000, axis=0)
        for k, p, min_p in ((0, 1, 0), (20, 1, 0), (0, 0.8, 0), (25, 0.7, 0),
                            (0, 1, 0.1)):
            got, _ = self.sample(many, 1.3, k, p, min_p, np.arange(20000),
                                 BN="32")
            z = x[0].astype("float64")
            keep, w = allowed(z, 1.3, k, p, min_p)
            counts = np.bincount(got, minlength=60)
            self.assertEqual(counts[~keep].sum(), 0)
            want = (w / w.sum() * 20000)[keep]
            chi = ((counts[keep] - want) ** 2 / want).sum()
            free = keep.sum() - 1
            self.assertLess(chi, free + 4.3 * np.sqrt(2 * free) + 12,
                            "k %d, p %g" % (k, p))


if __name__ == "__main__":
    unittest.main()
