# SPDX-License-Identifier: Apache-2.0
"""FlexAttention's interface on tilec's kernels.

    from tilec.flex_attention import flex_attention, create_block_mask

in the place of `from torch.nn.attention.flex_attention import ..`; nothing
else changes. docs/pytorch.md.
"""
from torch.nn.attention.flex_attention import (BlockMask, and_masks,
                                               create_mask, noop_mask,
                                               or_masks)

from . import _inductor
from ._backend import register
from ._block_mask import create_block_mask
from ._call import AuxOutput, AuxRequest, flex_attention

__all__ = ["AuxOutput", "AuxRequest", "BlockMask", "and_masks",
           "create_block_mask", "create_mask", "flex_attention", "noop_mask",
           "or_masks"]

register()
_inductor.install()
