# SPDX-License-Identifier: Apache-2.0
"""torch's flex_attention in torch.compile(model) by tilec's kernels.

    import tilec.integrations.inductor
    tilec.integrations.inductor.enable()

What is compiled from then on has tilec's operator, forward and backward, where
torch.nn.attention.flex_attention is called. `enable(False)` ends that.
"""
from ..flex_attention._inductor import enable

__all__ = ["enable"]
