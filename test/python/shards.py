# SPDX-License-Identifier: Apache-2.0
"""Parts of attention, put together: positions of mods that begin elsewhere,
merges in place, gradients of parts in float32."""
import unittest

import numpy as np
from reference import error, random

import tilec

M, N = 300, 260
RUNS = ((0, 100), (100, 180), (180, N))  # of keys
OFFSETS = np.array([0, 90, 130, 131], np.int32)
MODS = (
    ("causal", None, {}),
    ("causal_bottom_right | document", "alibi",
     dict(offsets=OFFSETS, slopes=np.linspace(0.1, 0.4, 4, dtype="f"))),
    ("sliding_window(w=50)", "row_bias, column_bias",
     dict(row_bias=random(8, M), column_bias=random(9, N))),
)


def inputs(dtype="float32"):
    return (random(1, 2, 4, M, 32, dtype=dtype),
            random(2, 2, 2, N, 32, dtype=dtype),
            random(3, 2, 2, N, 16, dtype=dtype))


def places(kind, mask, queries, keys, first_head=0):
    """What shifted and mapped capture."""
    if kind == "shifted":
        one = dict(q_offset=queries[0], k_offset=keys[0])
    else:
        one = dict(q_map=np.arange(*queries, dtype=np.int32),
                   k_map=np.arange(*keys, dtype=np.int32))
    found = {}
    for side, mod in mask.items():
        if mod is None:
            continue
        found.update({"%s.%s" % (side, n): x for n, x in dict(
            one, h_offset=first_head).items()})
        if "bottom_right" in mod:
            found.update({side + ".q_total": M, side + ".kv_total": N})
    return found


def rows(t, run):
    return t[:, :, run[0]:run[1]]


class Parts(unittest.TestCase):
    def options(self, kind, mod, queries, keys, **more):
        mask, score, captured = mod
        return dict(mask_mod="%s(%s)" % (kind, mask),
                    score_mod=score and "%s(%s)" % (kind, score),
                    enable_gqa=True, captured={**captured, **places(
                        kind, dict(mask=mask, score=score), queries, keys)},
                    **more)

    def forward(self, kind, mod, tensors, queries):
        q, k, v = tensors
        shape = (*q.shape[:2], queries[1] - queries[0])
        o = np.zeros((*shape, v.shape[3]), "f")
        lse = np.full(shape, -np.inf, "f")
        for run in RUNS:
            part = tilec.attention(
                rows(q, queries), rows(k, run), rows(v, run), return_lse=True,
                out_dtype="float32", **self.options(kind, mod, queries, run))
            tilec.merge_into(o, lse, *part)
        return o, lse

    def test_forward(self):
        queries = (70, 250)
        for dtype, most in (("float32", 1e-6), ("float16", 6e-4)):
            t = inputs(dtype)
            for mod in MODS:
                o, lse = tilec.attention(
                    *t, mask_mod=mod[0], score_mod=mod[1], captured=mod[2],
                    enable_gqa=True, return_lse=True, out_dtype="float32")
                for kind in ("shifted", "mapped"):
                    with self.subTest(mod=mod[0], kind=kind, dtype=dtype):
                        found = self.forward(kind, mod, t, queries)
                        self.assertLess(error(found[0], rows(o, queries)), most)
                        self.assertLess(error(found[1], rows(lse, queries)),
                                        most)

    def test_gradients(self):
        queries = (70, 250)
        t = inputs("float16")
        for mod in MODS:
            wanted = [n for n, x in mod[2].items() if x.dtype == np.float32]
            options = dict(mask_mod=mod[0], score_mod=mod[1], captured=mod[2],
                           enable_gqa=True)
            o, lse = tilec.attention(*t, return_lse=True, **options)
            do = random(5, *o.shape, dtype="float16")
            do[:, :, :queries[0]] = do[:, :, queries[1]:] = 0
            whole = tilec.attention_backward(
                do, *t, o, lse, gradients=wanted, grad_dtype="float32",
                deterministic=True, **options)
            self.assertEqual({x.dtype for x in whole[:3]},
                             {np.dtype("float32")})
            for kind in ("shifted", "mapped"):
                with self.subTest(mod=mod[0], kind=kind):
                    self.check(self.backward(kind, mod, t, queries, do, o, lse,
                                             wanted), whole, queries)

    def backward(self, kind, mod, tensors, queries, do, o, lse, wanted):
        q, k, v = tensors
        dq, dk, dv, sums = 0, [], [], {n: 0 for n in wanted}
        for run in RUNS:
            a, b, c, more = tilec.attention_backward(
                rows(do, queries), rows(q, queries), rows(k, run),
                rows(v, run), rows(o, queries), lse[:, :, slice(*queries)],
                gradients=wanted, grad_dtype="float32", deterministic=True,
                **self.options(kind, mod, queries, run))
            dq = dq + a
            dk.append(b)
            dv.append(c)
            sums = {n: sums[n] + more[n] for n in wanted}
        return dq, np.concatenate(dk, 2), np.concatenate(dv, 2), sums

    def check(self, found, whole, queries):
        dq, dk, dv, sums = whole
        self.assertLess(error(found[0], rows(dq, queries)), 1e-3)
        self.assertLess(error(found[1], dk), 1e-3)
        self.assertLess(error(found[2], dv), 1e-3)
        for name, x in sums.items():
            self.assertLess(error(found[3][name], x), 1e-3, name)

    def test_heads(self):
        t = inputs()
        slopes = np.linspace(0.1, 0.4, 4, dtype="f")
        o = tilec.attention(*t, score_mod="alibi", slopes=slopes,
                            enable_gqa=True)
        part = tilec.attention(
            t[0][:, 2:], t[1][:, 1:], t[2][:, 1:], score_mod="shifted(alibi)",
            slopes=slopes, q_offset=0, k_offset=0, h_offset=2, enable_gqa=True)
        self.assertLess(error(part, o[:, 2:]), 1e-6)

    def test_long_maps_list_blocks(self):
        """With lists of blocks, for all heads at once."""
        q, k, v = (random(i, 1, 2, 2100, 16) for i in range(3))
        order = np.concatenate([np.arange(1024, 2100), np.arange(1024)]).astype(
            np.int32)
        o = tilec.attention(q, k, v, mask_mod="causal")
        x, y, z = (t[:, :, order] for t in (q, k, v))
        found = tilec.attention(x, y, z, mask_mod="mapped(causal)",
                                q_map=order, k_map=order, h_offset=0)
        self.assertLess(error(found, o[:, :, order]), 1e-6)

    def test_numbers_of_expressions_have_no_gradient(self):
        t = inputs()
        options = dict(score_mod="alibi, soft_cap(cap=3)", enable_gqa=True,
                       slopes=np.linspace(0.1, 0.4, 4, dtype="f"))
        o, lse = tilec.attention(*t, return_lse=True, **options)
        given = dict(options, score_mod="alibi, soft_cap", cap=3.0)
        found, want = [tilec.attention_backward(
            o, *t, o, lse, gradients=["slopes"], deterministic=True, **x)[3]
            for x in (options, given)]
        self.assertEqual(list(found), ["slopes"])
        self.assertLess(error(found["slopes"], want["slopes"]), 1e-6)

    def test_empty_parts(self):
        o, lse = random(1, 1, 2, 5, 16), random(2, 1, 2, 5)
        lse[0, 0, 0] = -np.inf
        o[0, 0, 0] = np.nan  # what a part without keys holds does not matter
        part, part_lse = np.full_like(o, np.nan), np.full_like(lse, -np.inf)
        o1, lse1 = o.copy(), lse.copy()
        tilec.merge_into(o1, lse1, part, part_lse)
        self.assertTrue((o1[0, 0, 0] == 0).all() and lse1[0, 0, 0] == -np.inf)
        o1[0, 0, 0] = o[0, 0, 0]
        np.testing.assert_array_equal(o1, o)
        np.testing.assert_array_equal(lse1, lse)

    def test_refuses(self):
        o, lse = random(1, 1, 2, 5, 16), random(2, 1, 2, 5)
        with self.assertRaisesRegex(ValueError, "o is float16"):
            tilec.merge_into(o.astype("float16"), lse, o, lse)
        with self.assertRaisesRegex(ValueError, r"part \(1, 2, 4, 16\)"):
            tilec.merge_into(o, lse, o[:, :, 1:], lse[:, :, 1:])
        t = inputs()
        with self.assertRaisesRegex(ValueError, "grad_dtype is float16"):
            tilec.attention_backward(t[0][..., :16], *t, t[0][..., :16],
                                     t[0][..., 0], enable_gqa=True,
                                     grad_dtype="float16")


if __name__ == "__main__":
    unittest.main()
