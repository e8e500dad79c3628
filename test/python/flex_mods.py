# SPDX-License-Identifier: Apache-2.0
"""tilec.flex_attention with masks and scores that people write (flex_zoo.py):
results and gradients against whole matrices in float64.

    flex_mods.py [--device cuda] --all | [PART OF A NAME]..

Without a name every fourth is tried.
"""
import argparse

import flex_reference as reference
import flex_zoo
import torch

from tilec.flex_attention import AuxRequest, create_block_mask, flex_attention

SHAPES = {"tree": (2, 4, 56, 90), "draft_blocks": (2, 4, 56, 90)}


def check(name, score_mod, leaves, mask_mod, shape, device):
    b, h, m, n = shape
    torch.manual_seed(0)
    q, k, v = [torch.randn(shape, device=device, requires_grad=True)
               for shape in ((b, h, m, 32), (b, h // 2, n, 32),
                             (b, h // 2, n, 16))]
    mask = mask_mod and create_block_mask(mask_mod, b, h, m, n, device=device,
                                          BLOCK_SIZE=64)
    o, aux = flex_attention(q, k, v, score_mod, mask, enable_gqa=True,
                            return_aux=AuxRequest(lse=True, max_scores=True))
    want, lse, largest = reference.attention(q, k, v, score_mod, mask)
    seed = torch.randn_like(o)
    leaves = [q, k, v, *leaves]
    got = torch.autograd.grad((o * seed).sum(), leaves)
    true = torch.autograd.grad((want * seed).sum(), leaves)
    some = lse > -1e29
    bounds = [1e-5 if x.dtype == torch.float32 else 1e-2 for x in leaves]
    errors = [reference.error(x, y) for x, y in zip(got, true)]
    assert (aux.lse[~some] == -torch.inf).all()
    for said, x, y in (("o", o, want), ("lse", aux.lse[some], lse[some]), (
            "max", aux.max_scores[some], largest[some])):
        assert reference.error(x, y) < 3e-6, (said, reference.error(x, y))
    for i, (e, bound) in enumerate(zip(errors, bounds)):
        assert e < bound, ("gradient %d" % i, e)
    print("%-20s o %.0e, gradients %s" % (
        name, reference.error(o, want),
        " ".join("%.0e" % e for e in errors)), flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default="cpu")
    p.add_argument("--all", action="store_true")
    p.add_argument("names", nargs="*")
    args = p.parse_args()
    done = 0
    for scored, zoo in ((False, flex_zoo.MASKS), (True, flex_zoo.SCORES)):
        for i, (name, make) in enumerate(zoo.items()):
            wanted = any(part in name for part in args.names) \
                if args.names else i % 4 == 2
            if not (args.all or wanted):
                continue
            shape = SHAPES.get(name, (2, 4, 192, 192))
            mod, leaves = make(shape, args.device)
            check(name, mod if scored else None, leaves,
                  None if scored else mod, shape, args.device)
            done += 1
    assert done
    print("%d passed" % done)


main()
