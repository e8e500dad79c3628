# SPDX-License-Identifier: Apache-2.0
"""Attention of sequences that several ranks of torch.distributed hold.

    import tilec.distributed
    s = tilec.distributed.sharding(length, mask_mod="causal")
    o = tilec.distributed.attention(q, k, v, sharding=s, mask_mod="causal")

docs/distributed.md is for users, README.md for readers of the code.
"""
from ._attention import attention
from ._balance import sharding
from ._decode import decode
from ._group import LostRank
from ._sharding import Sharding
from ._unshard import unshard

__all__ = ["LostRank", "Sharding", "attention", "decode", "sharding", "unshard"]
