# SPDX-License-Identifier: Apache-2.0
"""The masks and scores of the library, with what they capture."""
import ranks  # first: finds tilec

import torch

I32 = torch.int32


def ints(*x):
    return torch.tensor(x, dtype=I32)


def masks(n, batch):
    """{mask: captured} for n queries and keys."""
    image = dict(width=8, height=n // 8, kernel_width=3, kernel_height=5)
    starts = ints(0, n // 7, n // 3, n // 3 + 1, n // 2)
    tree = torch.tensor([min(n, i + 1 + (i * 7) % 13) for i in range(n)],
                        dtype=I32)
    return {
        "causal": {},
        "causal_bottom_right": {},
        "causal_from": dict(offset=ints(*range(3, 3 + batch))),
        "padding": dict(lens=ints(*[n - 9 * i - 5 for i in range(batch)])),
        "valid_from": dict(starts=ints(*[11 * i + 4 for i in range(batch)])),
        "sliding_window(w=21)": {},
        "local_window(left=9, right=14)": {},
        "local_window_bottom_right(left=9, right=14)": {},
        "dilated_sliding_window(w=30, d=3)": {},
        "sink_window(sink=4, w=13)": {},
        "global_sliding_window(global=5, w=9)": {},
        "local_window(left=5, right=0) | global_positions": dict(
            is_global=(torch.arange(n) % 17 == 3).to(torch.int8)),
        "chunked_causal(c=20)": {},
        "prefix_lm(prefix=23)": {},
        "prefix_lm_batch": dict(prefixes=ints(*range(17, 17 + batch))),
        "document": dict(offsets=starts),
        "document_causal": dict(offsets=starts),
        "packed": dict(q_starts=starts, k_starts=starts + ints(0, 1, 2, 3, 4)),
        "packed_local(left=9, right=7)": dict(
            q_starts=torch.cat([ints(-1), starts]),
            k_starts=torch.cat([ints(-1), starts])),
        "document_ids": dict(ids=torch.arange(n, dtype=I32) * 3 % 7),
        "shared_prefix": dict(offsets=starts, prefix_of=ints(0, 0, 1, 3, 0)),
        "tree": dict(ends=tree),
        "tree_ancestors(prefix=40)": dict(ancestors=(
            torch.arange(n)[:, None] * 5 % 3 ==
            torch.arange(n) % 3).to(torch.int8)),
        "draft_blocks(prefix=30, c=7)": {},
        "block_diffusion(c=12)": dict(length=n // 2),
        "vision_cross(tokens=24)": dict(intervals=torch.tensor(
            [[5 * i, 5 * i + 40] for i in range(n // 24 + 1)], dtype=I32)),
        "natten": image,
        "tiled_natten(tile_width=4, tile_height=4)": image,
        "morton_natten": image,
        "sliding_tiles(area=4, columns=4, rows=4, kernel_columns=3, "
        "kernel_rows=1)": {},
        "sliding_tiles_3d(area=4, columns=3, rows=3, layers=2, "
        "kernel_columns=1, kernel_rows=3, kernel_layers=1)": {},
        "(causal & document) | sliding_window(w=5)": dict(offsets=starts),
    }


def scores(n, heads):
    """{score: captured}, floats with gradients."""
    g = torch.Generator().manual_seed(3)

    def rand(*shape):
        return torch.randn(*shape, generator=g)
    return {
        "alibi": dict(slopes=rand(heads)),
        "relative_bias, soft_cap_approx(cap=4)": {},
        "relative_bias_table, soft_cap(cap=4)": dict(table=rand(heads, 31)),
        # A bias of whole rows alone changes no weight.
        "row_bias, column_bias, soft_cap(cap=3), head_scale": dict(
            row_bias=rand(n), column_bias=rand(n), scales=rand(heads)),
        "pair_bias, head_bias, soft_cap(cap=3)": dict(pair_bias=rand(heads, n, n),
                                     bias=rand(heads)),
    }
