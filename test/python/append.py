# SPDX-License-Identifier: Apache-2.0
"""tilec.append against its definition in numpy."""
import pathlib
import sys
import unittest

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "lib" / "python"))
import tilec


def rotated(x, cos, sin, interleaved=False, offset=0):
    """x [.., D]; cos and sin [.., R / 2]."""
    half = cos.shape[-1]
    first = slice(offset, offset + 2 * half, 2) if interleaved else \
        slice(offset, offset + half)
    second = slice(offset + 1, offset + 2 * half, 2) if interleaved else \
        slice(offset + half, offset + 2 * half)
    y = x.astype(np.float64)
    a, b = y[..., first].copy(), y[..., second].copy()
    y[..., first] = a * cos - b * sin
    y[..., second] = b * cos + a * sin
    return y


class Step:
    """New rows for sequences that have `lens` rows."""

    def __init__(self, lens, counts, hk=2, hq=4, d=64, dtype="float32",
                 seed=0):
        self.r = np.random.default_rng(seed)
        self.lens, self.counts = lens, counts
        self.hk, self.d, self.dtype = hk, d, dtype
        t = sum(counts)
        self.k, self.v = self.values(t, hk, d), self.values(t, hk, d)
        self.q = self.values(t, hq, d)
        self.cu = np.cumsum([0] + list(counts)).astype(np.int32)
        angle = self.r.uniform(0, 6.3, (128, d // 2))
        self.cos = np.cos(angle).astype(np.float32)
        self.sin = np.sin(angle).astype(np.float32)

    def values(self, *shape):
        return self.r.standard_normal(shape).astype(self.dtype)

    @property
    def kv_lens(self):
        return np.array(self.lens, np.int32)

    def each(self):
        """(row of the new ones, sequence, position)."""
        for b, (had, count) in enumerate(zip(self.lens, self.counts)):
            for i in range(count):
                yield self.cu[b] + i, b, had + i

    def pages(self, page):
        need = [-(-(n + m) // page) for n, m in zip(self.lens, self.counts)]
        order = self.r.permutation(sum(need) + 2)
        table = np.full((len(need), max(need) + 1), 2147480000, np.int32)
        at = 0
        for b, n in enumerate(need):
            table[b, :n] = order[at:at + n]
            at += n
        return self.values(len(order), self.hk, page, self.d), table


class Append(unittest.TestCase):
    def close(self, got, want, tolerance=2e-6):
        np.testing.assert_allclose(got.astype(np.float64), want,
                                   rtol=tolerance, atol=tolerance)

    def test_pages_and_rotary(self):
        for page, dtype, interleaved in ((16, "float32", False),
                                         (3, "float16", True),
                                         (1, "float32", True)):
            s = Step([5, 0, 33], [1, 4, 0], dtype=dtype)
            kc, table = s.pages(page)
            vc, before = kc.copy(), kc.copy()
            q = tilec.append(s.k, s.v, kc, vc, kv_lens=s.kv_lens,
                             page_table=table, cu_seqlens=s.cu, query=s.q,
                             rotary_cos=s.cos, rotary_sin=s.sin,
                             interleaved=interleaved)
            want_k, want_v = before.astype(float), before.astype(float)
            tolerance = 2e-6 if dtype == "float32" else 1e-3
            for t, b, n in s.each():
                at = table[b, n // page], slice(None), n % page
                want_k[at] = rotated(s.k[t], s.cos[n], s.sin[n], interleaved)
                want_v[at] = s.v[t]
                self.close(q[t], rotated(s.q[t], s.cos[n], s.sin[n],
                                         interleaved), tolerance)
            self.close(kc, want_k, tolerance)
            np.testing.assert_array_equal(vc, want_v)

    def test_contiguous(self):
        s = Step([0, 7], [3, 3])
        k = s.k.reshape(2, 3, s.hk, s.d).swapaxes(1, 2)
        kc = s.values(2, 12, s.hk, s.d).swapaxes(1, 2)
        want = kc.copy()
        want[0, :, 0:3], want[1, :, 7:10] = k
        vc = kc.copy()
        out = tilec.append(k, k, kc, vc, kv_lens=s.kv_lens.astype(np.int64))
        self.assertIsNone(out)
        np.testing.assert_array_equal(kc, want)
        np.testing.assert_array_equal(vc, want)

    def test_in_place_and_partial(self):
        """Columns 16 to 47 of one cache for both; query is its own result."""
        s = Step([2], [5])
        kc = s.values(1, s.hk, 20, s.d)
        q, want_k = s.q.copy(), kc.astype(float)
        positions = np.array([7, 100, 3, 3, 50], np.int32)
        result = tilec.append(
            s.k, None, kc, None, kv_lens=s.kv_lens, cu_seqlens=s.cu, query=q,
            query_out=q, rotary_cos=s.cos[:, :16].copy(),
            rotary_sin=s.sin[:, :16].copy(), rotary_offset=16,
            positions=positions)
        self.assertIs(result, q)
        for t, _, n in s.each():
            c, i = s.cos[positions[t], :16], s.sin[positions[t], :16]
            want_k[0, :, n] = rotated(s.k[t], c, i, offset=16)
            self.close(q[t], rotated(s.q[t], c, i, offset=16))
        self.close(kc, want_k)

    def test_lists_of_pages_and_factors(self):
        s = Step([6, 1], [2, 9])
        kc, table = s.pages(4)
        need = [-(-(n + m) // 4) for n, m in zip(s.lens, s.counts)]
        lists = np.concatenate([table[b, :n] for b, n in enumerate(need)])
        want_k, want_v = kc.copy(), kc.copy()
        vc = kc.copy()
        tilec.append(s.k, s.v, kc, vc, kv_lens=s.kv_lens, cu_seqlens=s.cu,
                     kv_indptr=np.cumsum([0] + need).astype(np.int32),
                     kv_indices=lists, k_scale=2.0,
                     v_scale=np.array([0.5, 4], np.float32))
        for t, b, n in s.each():
            at = table[b, n // 4], slice(None), n % 4
            want_k[at] = s.k[t] / 2
            want_v[at] = s.v[t] / np.array([[0.5], [4]])
        np.testing.assert_array_equal(kc, want_k)
        np.testing.assert_array_equal(vc, want_v)

    def test_8_bits(self):
        try:
            from ml_dtypes import float8_e4m3fn
        except ImportError:
            self.skipTest("numpy has no 8-bit floats without ml_dtypes")
        s = Step([3], [4])
        kc = np.zeros((1, s.hk, 9, s.d), float8_e4m3fn)
        vc, ks = kc.copy(), np.zeros((1, s.hk, 9), np.float32)
        vs = ks.copy()
        tilec.append(s.k, s.v, kc, vc, kv_lens=s.kv_lens, cu_seqlens=s.cu,
                     k_scale=ks, v_scale=vs)
        for t, b, n in s.each():
            self.close(ks[0, :, n], abs(s.k[t]).max(1) / 448)
            np.testing.assert_array_equal(
                vc[0, :, n], (s.v[t] / vs[0, :, n, None]).astype(
                    float8_e4m3fn))

    def test_errors(self):
        s = Step([2], [5])
        kc = s.values(1, s.hk, 6, s.d)
        call = dict(kv_lens=s.kv_lens, cu_seqlens=s.cu)
        with self.assertRaisesRegex(ValueError, "a new row has no place"):
            tilec.append(s.k, None, kc, None, **call)
        with self.assertRaisesRegex(ValueError, "need cu_seqlens"):
            tilec.append(s.k, None, kc, None, kv_lens=s.kv_lens)
        with self.assertRaisesRegex(ValueError, "v needs v_cache"):
            tilec.append(s.k, s.v, kc, None, **call)
        with self.assertRaisesRegex(ValueError, "kv_lens is float32"):
            tilec.append(s.k, None, kc, None, kv_lens=kc[0, 0, 0],
                         cu_seqlens=s.cu)
        kc.flags.writeable = False
        with self.assertRaisesRegex(ValueError, "k_cache is a read-only"):
            tilec.append(s.k, None, kc, None, **call)


if __name__ == "__main__":
    unittest.main()
