# SPDX-License-Identifier: Apache-2.0
"""flex_attention inside of torch.compile: torch's operator, marked as ours.

dynamo traces this file. It leaves the operator in its graph, and the backend
"tilec" or a pass of inductor (_inductor.py) puts tilec's in its place.
"""
import math

import torch
from torch._higher_order_ops.flex_attention import \
    flex_attention as flex_operator
from torch.nn.attention import flex_attention as torchs

MARK = "tilec"  # among kernel_options


def flex_attention(query, key, value, score_mod, block_mask, scale,
                   kernel_options):
    """(o, lse, row maxima); what is not asked for may be anything."""
    if block_mask is None:
        block_mask = torchs._create_empty_block_mask(query, key)
    options = {} if kernel_options is None else dict(kernel_options)
    options[MARK] = True
    for x in (query, key, value):
        torch._dynamo.mark_static(x, -3)
        torch._dynamo.mark_static(x, -1)
    o, lse, largest = flex_operator(
        query, key, value,
        torchs._identity if score_mod is None else score_mod,
        block_mask.as_tuple(),
        1.0 / math.sqrt(query.size(-1)) if scale is None else scale, options)
    # The operator counts in powers of 2.
    return o, lse * math.log(2.0), largest * math.log(2.0)
