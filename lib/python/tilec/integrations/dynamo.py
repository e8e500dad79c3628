# SPDX-License-Identifier: Apache-2.0
"""torch.compile(model, backend="tilec") of an installed package.

torch finds `compile` by the package's entry point, registers it under its name,
and asks that loading it registers nothing, as tilec.flex_attention does.
"""


def compile(gm, example_inputs, **named):
    """The backend: tilec.flex_attention._backend's."""
    from ..flex_attention import _backend
    return _backend.compile(gm, example_inputs, **named)
