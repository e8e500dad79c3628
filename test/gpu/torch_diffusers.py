#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""diffusers' models with the attention backend "tilec" against their own.

    TILEC_LIBRARY=build/libtilec.so python3 test/gpu/torch_diffusers.py
        [--device cpu] [--only TEXT]

Tiny models with random weights, in float32: outputs, and gradients of the input.
Exit status 77: no diffusers, or no such device.
"""
import os
import sys

import torch_cases  # first: finds tilec, and ends where there is no torch

os.environ["HF_HUB_OFFLINE"] = "1"
try:
    import diffusers
    from diffusers.models import attention_dispatch
except ImportError:
    print("no diffusers here")
    sys.exit(77)
import torch
from tilec.integrations.diffusers import register
from torch_cases import refused


def near(x, y, most=1e-5):
    off = ((x - y).norm() / y.norm()).item()
    assert off <= most, "off by %g" % off


def randn(device, *shape):
    return torch.randn(*shape, device=device)


def flux(device):
    model = diffusers.FluxTransformer2DModel(
        patch_size=1, in_channels=4, num_layers=1, num_single_layers=1,
        attention_head_dim=16, num_attention_heads=2, joint_attention_dim=32,
        pooled_projection_dim=32, axes_dims_rope=(4, 4, 8))
    return model, dict(
        encoder_hidden_states=randn(device, 1, 9, 32),
        pooled_projections=randn(device, 1, 32),
        timestep=torch.ones(1, device=device),
        img_ids=torch.zeros(20, 3, device=device),
        txt_ids=torch.zeros(9, 3, device=device)), randn(device, 1, 20, 4)


def qwen_image(device):
    """With a mask of the text's keys."""
    model = diffusers.QwenImageTransformer2DModel(
        patch_size=2, in_channels=16, out_channels=4, num_layers=2,
        attention_head_dim=16, num_attention_heads=2, joint_attention_dim=16,
        axes_dims_rope=(8, 4, 4))
    seen = torch.tensor([[1] * 7, [1] * 4 + [0] * 3], device=device).bool()
    return model, dict(
        encoder_hidden_states=randn(device, 2, 7, 16),
        encoder_hidden_states_mask=seen,
        timestep=torch.ones(2, device=device),
        img_shapes=[[(1, 4, 4)]] * 2), randn(device, 2, 16, 16)


MODELS = {f.__name__: f for f in (flux, qwen_image)}


def check(name, device):
    torch.manual_seed(0)
    model, named, x = MODELS[name](device)
    model = model.to(device).eval()
    calls, found = [], []
    ours = register()
    registry = attention_dispatch._AttentionBackendRegistry
    for backend in ("native", "tilec"):
        model.set_attention_backend(backend)
        given = x.clone().requires_grad_()
        registry._backends["tilec"] = lambda *a, **b: calls.append(1) or ours(
            *a, **b)
        out = model(hidden_states=given, return_dict=False, **named)[0]
        out.square().sum().backward()
        found.append((out, given.grad))
    assert calls
    for got, want in zip(found[1], found[0]):
        near(got, want)


def check_refusals(device):
    register()
    q = randn(device, 1, 5, 2, 16)
    with attention_dispatch.attention_backend("tilec"):
        o = attention_dispatch.dispatch_attention_fn(q, q, q, is_causal=True)
        refused(ValueError, "return_lse", lambda: (
            attention_dispatch.dispatch_attention_fn(
                q, q, q, attention_kwargs={"return_lse": True})))
    near(o, attention_dispatch.dispatch_attention_fn(q, q, q, is_causal=True,
                                                     backend="native"))
    refused(ValueError, "context parallelism", lambda: register()(
        q, q, q, _parallel_config=1))


def main():
    args = torch_cases.parse(torch_cases.parser(__doc__))
    torch_cases.run([(n, lambda n=n: check(n, args.device)) for n in MODELS] +
                    [("refusals", lambda: check_refusals(args.device))], args)


if __name__ == "__main__":
    main()
