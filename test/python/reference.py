# SPDX-License-Identifier: Apache-2.0
"""Attention and its gradients in float64, with numpy, the scores in full."""
import math
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib" /
                       "python"))


def random(seed, *shape, dtype="float32"):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def positions(q, k):
    """h, i, j that broadcast to [heads, queries, keys]."""
    return (np.arange(q.shape[1])[:, None, None],
            np.arange(q.shape[2])[:, None], np.arange(k.shape[2])[None])


class Attention:
    """o, lse and max of inputs; then `gradients`. mask(h, i, j), and
    score(s, h, i, j) with slope(s, h, i, j), its derivative by s; sinks: one
    more score of each row by head, which weighs nothing in o; kept: factors of
    the weights in o, [B, H, M, N]."""

    def __init__(self, q, k, v, mask=None, score=None, slope=None, scale=None,
                 sinks=None, kept=1.0):
        self.scale = 1 / math.sqrt(q.shape[3]) if scale is None else scale
        self.group = q.shape[1] // k.shape[1]
        self.q = q.astype("float64")
        self.k, self.v = (np.repeat(t.astype("float64"), self.group, axis=1)
                          for t in (k, v))
        at = positions(q, k)
        raw = self.q @ self.k.swapaxes(2, 3) * self.scale
        s = score(raw, *at) if score else raw
        self.slope = slope(raw, *at) if slope else 1.0
        see = np.broadcast_to(mask(*at) if mask else True, s.shape)
        s = np.where(see, s, -math.inf)
        self.max = s.max(axis=3, initial=-math.inf)
        self.sinks = (np.full(q.shape[1], -math.inf) if sinks is None else
                      sinks.astype("float64"))[:, None]
        most = np.maximum(self.max, self.sinks)
        safe = np.where(np.isfinite(most), most, 0)[..., None]
        p = np.exp(s - safe)
        total = p.sum(axis=3) + np.exp(self.sinks - safe[..., 0])
        with np.errstate(divide="ignore"):
            self.lse = np.where(total > 0, np.log(total) + safe[..., 0],
                                -math.inf)
        self.p = p / np.where(total > 0, total, 1)[..., None]
        self.kept = kept
        self.o = (self.p * kept) @ self.v

    def gradients(self, do, dlse=None):
        """dq, dk, dv, and the gradient of the modified scores."""
        do = do.astype("float64")
        dlse = np.zeros(do.shape[:3]) if dlse is None else dlse
        delta = (do * self.o).sum(axis=3) - dlse
        ds = self.p * (do @ self.v.swapaxes(2, 3) * self.kept -
                       delta[..., None])
        with np.errstate(invalid="ignore"):
            self.dsinks = np.nansum(-np.exp(self.sinks - self.lse) * delta,
                                    axis=(0, 2))
        raw = ds * self.slope * self.scale
        dk = raw.swapaxes(2, 3) @ self.q
        return (raw @ self.k, self._by_group(dk),
                self._by_group((self.p * self.kept).swapaxes(2, 3) @ do), ds)

    def _by_group(self, t):
        b, h, n, d = t.shape
        return t.reshape(b, h // self.group, self.group, n, d).sum(axis=2)


def error(x, want):
    """norm(x - want) / norm(want); infinities must agree."""
    x = np.asarray(x, dtype="float64")
    if x.shape != want.shape or not np.array_equal(np.isinf(x),
                                                   np.isinf(want)):
        return math.inf
    finite = np.isfinite(want)
    difference = np.linalg.norm(x[finite] - want[finite])
    size = np.linalg.norm(want[finite])
    return difference / size if size else difference
