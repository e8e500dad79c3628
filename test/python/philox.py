# SPDX-License-Identifier: Apache-2.0
"""Philox4x32-10 (Salmon et al. 2011) in numpy, on its own."""
import numpy as np

M = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
W = 0x9E3779B9, 0xBB67AE85
LOW = np.uint64(0xFFFFFFFF)
SHIFT = np.uint64(32)


def philox(c0, c1, c2, c3, seed):
    """The four words of counters, uint32; counters broadcast."""
    c = [np.asarray(x).astype("uint64") & LOW for x in (c0, c1, c2, c3)]
    c = list(np.broadcast_arrays(*c))
    key = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF]
    for _ in range(10):
        a, b = M[0] * c[0], M[1] * c[2]
        c = [b >> SHIFT ^ c[1] ^ np.uint64(key[0]), b & LOW,
             a >> SHIFT ^ c[3] ^ np.uint64(key[1]), a & LOW]
        key = [(k + w) & 0xFFFFFFFF for k, w in zip(key, W)]
    return [x.astype("uint32") for x in c]


def uniform(words):
    """tl.rand's number of a word, in float32."""
    w = words.astype("int32")
    return np.where(w < 0, ~w, w).astype("float32") * np.float32(4.6566127342e-10)
