# SPDX-License-Identifier: Apache-2.0
"""tilec.scaled_dot_product_attention on numpy arrays."""
import unittest

import numpy as np
from reference import Attention, error, random

import tilec


def inputs():
    return (random(0, 2, 4, 30, 32), random(1, 2, 2, 50, 32),
            random(2, 2, 2, 50, 16))


class Sdpa(unittest.TestCase):
    def check(self, want, *tensors, **options):
        o = tilec.scaled_dot_product_attention(*tensors, enable_gqa=True,
                                               **options)
        self.assertLess(error(o, want.o), 2e-6)

    def test_bool_mask(self):
        t = inputs()
        for shape in ((30, 50), (50,), (4, 30, 1), (1, 30, 50)):
            mask = np.random.default_rng(3).random(shape) < 0.7
            self.check(Attention(*t, mask=lambda h, i, j: np.broadcast_to(
                mask, (4, 30, 50))[h, i, j]), *t, attn_mask=mask)

    def test_float_mask(self):
        t = inputs()
        mask = random(4, 4, 1, 50)
        self.check(Attention(*t, score=lambda s, h, i, j: s + mask[h, 0, j]),
                   *t, attn_mask=mask)

    def test_causal_is_top_left(self):
        t = inputs()
        self.check(Attention(*t, mask=lambda h, i, j: j <= i), *t,
                   is_causal=True)

    def test_without_batch(self):
        q, k, v = inputs()
        o = tilec.scaled_dot_product_attention(q[1], k[1], v[1], scale=0.5,
                                               enable_gqa=True)
        self.assertEqual(o.shape, (4, 30, 16))
        self.assertLess(error(o, Attention(q, k, v, scale=0.5).o[1]), 2e-6)

    def test_refused(self):
        t = inputs()
        ones = np.ones((30, 50), bool)
        with self.assertRaisesRegex(ValueError, "both given"):
            tilec.scaled_dot_product_attention(*t, ones, is_causal=True)
        with self.assertRaisesRegex(ValueError, "does not broadcast"):
            tilec.scaled_dot_product_attention(*t, ones[:, :49],
                                               enable_gqa=True)


if __name__ == "__main__":
    unittest.main()
