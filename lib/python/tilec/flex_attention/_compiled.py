# SPDX-License-Identifier: Apache-2.0
"""flex_attention inside of torch.compile: torch's operator."""


def flex_attention(query, key, value, score_mod, block_mask, scale, enable_gqa,
                   return_lse, kernel_options, return_aux):
    raise NotImplementedError
