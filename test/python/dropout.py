# SPDX-License-Identifier: Apache-2.0
"""tilec.attention(dropout_p=) on numpy arrays: which weights are dropped, and
results and gradients against float64 with these weights."""
import unittest

import numpy as np
from reference import Attention, error, random

import tilec

TOLERANCE = {"float32": 5e-6, "float16": 2e-3}
WORD = np.uint64(0xFFFFFFFF)


def philox(counter, key=(0, 0), rounds=7):
    """Philox4x32 by its definition (Salmon et al. 2011)."""
    c = [np.asarray(x, np.uint64) for x in counter]
    key = [np.uint64(x) for x in key]
    for _ in range(rounds):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        high, low = ([x >> np.uint64(32) for x in (a, b)],
                     [x & WORD for x in (a, b)])
        c = [high[1] ^ c[1] ^ key[0], low[1], high[0] ^ c[3] ^ key[1], low[0]]
        key = [key[0] + np.uint64(0x9E3779B9) & WORD,
               key[1] + np.uint64(0xBB67AE85) & WORD]
    return c


def bits(seed, shape):
    """The 32 bits of each pair, [B, H, M, N]: 16 pairs share the four words of
    a call, four of them a word, which they see rotated by bytes."""
    b, h, q, k = (np.asarray(x, np.uint64) for x in np.indices(shape))
    head = philox((seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF, h, b))
    words = philox((q & ~np.uint64(9), k & ~np.uint64(9), *head[:2]))
    word = np.choose(((q & 1) * 2 + (k & 1)).astype(int), words)
    left = (q & 8) + (k & 8) * 2
    return word << left & WORD | word >> (32 - left)


def kept(seed, p, shape):
    """The factors of the weights, [B, H, M, N]."""
    p = np.float64(np.float32(p))
    signed = bits(seed, shape).astype(np.int64)
    signed -= (signed >> 31) * 2**32
    first = min(int(p * 2**32) - 2**31, 2**31 - 1)
    return np.where(signed >= first, 1 / (1 - p), 0)


def inputs(b=2, h=4, hk=2, m=70, n=90, d=32, dv=48, dtype="float32", seed=0):
    return (random(seed, b, h, m, d, dtype=dtype),
            random(seed + 1, b, hk, n, d, dtype=dtype),
            random(seed + 2, b, hk, n, dv, dtype=dtype))


class Dropout(unittest.TestCase):
    def check(self, tensors, p, seed, deterministic=False, gradients=(),
              **options):
        """Forward and all gradients; options of both sides by name."""
        reference = {n: options.pop(n) for n in ("mask", "score", "slope")
                     if n in options}
        if "sinks" in options:
            reference["sinks"] = options["sinks"]
        options = dict(options, dropout_p=p, dropout_seed=seed,
                       enable_gqa=True)
        q, k, _ = tensors
        want = Attention(*tensors, **reference, kept=kept(
            seed, p, (*q.shape[:3], k.shape[2])))
        o, lse = tilec.attention(*tensors, return_lse=True, **options)
        tolerance = TOLERANCE[str(o.dtype)]
        self.assertLess(error(o, want.o), tolerance)
        self.assertLess(error(lse, want.lse), 2e-6)
        do = random(77, *o.shape, dtype=o.dtype)
        dlse = random(78, *lse.shape)
        *got, found = tilec.attention_backward(
            do, *tensors, o, lse, dlse=dlse, gradients=gradients,
            deterministic=deterministic, **options)
        *wanted, ds = want.gradients(do, dlse)
        for name, x, w in zip(("dq", "dk", "dv"), got, wanted):
            self.assertLess(error(x, w), tolerance, name)
        return found, ds

    def test_philox_known_answers(self):
        """Those of the authors' Random123, of 7 and 10 rounds."""
        ones, pi = [0xFFFFFFFF] * 4, [0x243F6A88, 0x85A308D3, 0x13198A2E,
                                      0x03707344]
        for rounds, counter, key, want in (
                (7, [0] * 4, [0, 0],
                 [0x5F6FB709, 0x0D893F64, 0x4F121F81, 0x4F730A48]),
                (10, [0] * 4, [0, 0],
                 [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
                (10, ones, ones[:2],
                 [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
                (10, pi, [0xA4093822, 0x299F31D0],
                 [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1])):
            self.assertEqual(
                [int(x) for x in philox(counter, key, rounds)], want)

    def test_which_weights(self):
        """With the unit matrix as v, o has the weights themselves."""
        q, k, _ = inputs()
        v = np.broadcast_to(np.eye(90, dtype=np.float32), (2, 2, 90, 90))
        for seed in (0, 1, -1, 0x123456789ABCDEF, -2**63, 2**63 - 1):
            for p in (0.1, 0.9):
                o = tilec.attention(q, k, v, enable_gqa=True, dropout_p=p,
                                    dropout_seed=seed)
                want = kept(seed, p, (2, 4, 70, 90))
                np.testing.assert_array_equal(o != 0, want != 0)
                self.assertLess(abs((o != 0).mean() - (1 - p)), 0.01)

    def test_gradients(self):
        for dtype in TOLERANCE:
            for deterministic in (False, True):
                self.check(inputs(dtype=dtype), 0.2, 5,
                           deterministic=deterministic)

    def test_shapes(self):
        for shape in (dict(m=1), dict(n=1), dict(d=72, dv=80),
                      dict(d=256, dv=256, m=20), dict(h=6, hk=6),
                      dict(m=300, n=517), dict(d=128, dtype="float16")):
            with self.subTest(shape):
                self.check(inputs(**shape), 0.5, 8)

    def test_with_masks_scores_and_sinks(self):
        slopes, sinks = np.full(4, 0.1, np.float32), random(5, 4)
        found, ds = self.check(
            inputs(), 0.3, 9, mask_mod="causal", score_mod="alibi",
            slopes=slopes, sinks=sinks, gradients=["slopes", "sinks"],
            mask=lambda h, i, j: j <= i,
            score=lambda s, h, i, j: s + slopes[h] * (j - i))
        i, j = np.arange(70)[:, None], np.arange(90)
        self.assertLess(error(found["slopes"],
                              (ds * (j - i)).sum(axis=(0, 2, 3))), 1e-5)

    def test_block_lists(self):
        ids = np.random.default_rng(3).integers(0, 4, 700).astype(np.int32)
        t = inputs(m=700, n=700, h=2)
        self.check(t, 0.1, 4, mask_mod="document_ids", ids=ids,
                   kernel_options={"block_lists": True},
                   mask=lambda h, i, j: ids[i] == ids[j])

    def test_special_values(self):
        """A dropped weight's value is not seen, infinity or not; the largest
        scores and huge ones take the slow path."""
        q, k, v = inputs(dv=32)
        factors = kept(6, 0.4, (2, 4, 70, 90))
        v[:, :, 7, 3], v[:, :, 50, 5] = np.inf, np.nan
        o = tilec.attention(q, k, v, enable_gqa=True, dropout_p=0.4,
                            dropout_seed=6)
        np.testing.assert_array_equal(np.isposinf(o[..., 3]),
                                      factors[..., 7] != 0)
        np.testing.assert_array_equal(np.isnan(o[..., 5]),
                                      factors[..., 50] != 0)
        self.assertTrue(np.isfinite(o[..., :3]).all())
        self.check((q * 1e5, k * 1e5, inputs()[2]), 0.4, 6)

    def test_all_and_none(self):
        t = inputs()
        np.testing.assert_array_equal(
            tilec.attention(*t, enable_gqa=True, dropout_p=0.0),
            tilec.attention(*t, enable_gqa=True))
        options = dict(enable_gqa=True, dropout_p=1.0, dropout_seed=3)
        o, lse = tilec.attention(*t, return_lse=True, **options)
        self.assertFalse(o.any())
        *found, _ = tilec.attention_backward(np.ones_like(o), *t, o, lse,
                                             **options)
        self.assertFalse(any(x.any() for x in found))

    def test_seeds(self):
        t = inputs()

        def run(seed=None):
            return tilec.attention(*t, enable_gqa=True, dropout_p=0.5,
                                   dropout_seed=seed)

        np.testing.assert_array_equal(run(3), run(np.array([3])))
        self.assertGreater(error(run(3), run(4)), 0.1)
        self.assertGreater(error(run(3), run(3 + 2**32)), 0.1)
        np.random.seed(1)
        first, second = run(), run()
        self.assertGreater(error(first, second), 0.1)
        np.random.seed(1)
        np.testing.assert_array_equal(run(), first)
        o = tilec.scaled_dot_product_attention(*t, None, 0.5, enable_gqa=True)
        np.testing.assert_array_equal(o, second)

    def test_refused(self):
        t = inputs()
        for p in (-0.1, 1.5, float("nan")):
            with self.assertRaisesRegex(ValueError, "expected 0 to 1"):
                tilec.attention(*t, enable_gqa=True, dropout_p=p)
        with self.assertRaisesRegex(ValueError, r"expected int64 \[1\]"):
            tilec.attention(*t, enable_gqa=True, dropout_p=0.5,
                            dropout_seed=np.zeros(2, np.int64))
        with self.assertRaisesRegex(ValueError, "without dropout_seed"):
            tilec.attention_backward(t[0], *t, t[0], t[0], enable_gqa=True,
                                     dropout_p=0.5)
        with self.assertRaisesRegex(ValueError, "has no dropout_p"):
            tilec.attention(*t, kv_lens=[3, 4], dropout_p=0.5)


if __name__ == "__main__":
    unittest.main()
