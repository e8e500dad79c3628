# SPDX-License-Identifier: Apache-2.0
"""What decode.py compares with: torch's cuDNN, FlashAttention-2 and
FlexAttention, and of FlashAttention-3 and FlashInfer the wheels that are on
the path: flash_attn_interface, fa3_fwd_interface (MLA), flashinfer. Without a
wheel its contender is left out.

A function takes a Decode and its pages, and gives a call for (k, v) of a cache.
Whatever can be planned once for all layers of a step is made before.
"""
import functools
import importlib

import torch
from decode_cases import is_latent
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

torch._dynamo.config.recompile_limit = 1000
PAGE = 64  # of peers that have no other cache
WORKSPACE = 256 << 20


def sdpa(backend, problem, _):
    def call(k, v):
        with sdpa_kernel(backend):
            return scaled_dot_product_attention(
                problem.q, k, v, enable_gqa=problem.q.shape[1] != k.shape[1])
    return call


def flex(problem, _):
    compiled = torch.compile(flex_attention, dynamic=False)
    m, n = problem.q.shape[2], problem.c["lens"][0]
    mask = create_block_mask(lambda b, h, i, j: n - m + i >= j, None, None, m,
                             n, device="cuda") if m > 1 else None
    return lambda k, v: compiled(problem.q, k, v, block_mask=mask,
                                 enable_gqa=True)


# ---- Wheels ----


@functools.cache
def wheel(name):
    """The module, or None with a line that says why."""
    try:
        return importlib.import_module(name)
    except Exception as e:
        print("without %s: %s" % (name, str(e).splitlines()[0][:200]),
              flush=True)
        return None


def rows_first(x):
    """[B, H, N, D] as [B, N, H, D] of the same memory."""
    return x.transpose(1, 2)


def fa3(problem, table):
    module = wheel("flash_attn_interface")
    c, q = problem.c, rows_first(problem.q).contiguous()
    page = problem.pool_page if table is not None else None
    metadata = module.get_scheduler_metadata(
        len(c["lens"]), c["queries"], max(c["lens"]), c["heads"],
        c["key_heads"], c["dim"], problem.lens, qkv_dtype=q.dtype,
        page_size=page, causal=c["queries"] > 1)

    def call(k, v):
        o = module.flash_attn_with_kvcache(
            q, rows_first(k), rows_first(v), cache_seqlens=problem.lens,
            page_table=table, causal=c["queries"] > 1,
            scheduler_metadata=metadata)
        return rows_first(o[0] if isinstance(o, (tuple, list)) else o)
    return call


def fa3_latent(problem, _):
    module = wheel("fa3_fwd_interface")
    q = rows_first(problem.q)
    at = problem.c["dv"]
    scale = problem.c["dim"] ** -0.5

    def call(k, v):
        k = rows_first(k)
        o = module.flash_attn_with_kvcache(
            q[..., at:], k[..., at:], k[..., :at], qv=q[..., :at],
            cache_seqlens=problem.lens, softmax_scale=scale)
        return rows_first(o[0] if isinstance(o, (tuple, list)) else o)
    return call


def pages_of(table):
    """(indptr, indices) of a table whose rows are full."""
    b, n = table.shape
    return (torch.arange(0, b * n + 1, n, device="cuda", dtype=torch.int32),
            table.flatten())


def flashinfer(problem, table):
    module, c = wheel("flashinfer"), problem.c
    room = torch.zeros(WORKSPACE, dtype=torch.uint8, device="cuda")
    run = module.BatchDecodeWithPagedKVCacheWrapper(room, "HND",
                                                    use_tensor_cores=True)
    indptr, indices = pages_of(table)
    last = torch.full_like(problem.lens, problem.pool_page)
    run.plan(indptr, indices, last, c["heads"], c["key_heads"], c["dim"],
             problem.pool_page, q_data_type=problem.q.dtype,
             kv_data_type=problem.q.dtype)
    q = problem.q[:, :, 0].contiguous()
    return lambda k, v: run.run(q, (k, v))[:, :, None]


def flashinfer_latent(problem, table):
    module, c, at = wheel("flashinfer"), problem.c, problem.c["dv"]
    room = torch.zeros(WORKSPACE, dtype=torch.uint8, device="cuda")
    run = module.mla.BatchMLAPagedAttentionWrapper(room, backend="fa3")
    indptr, indices = pages_of(table)
    starts = torch.arange(len(c["lens"]) + 1, device="cuda",
                          dtype=torch.int32)
    run.plan(starts, indptr, indices, problem.lens, c["heads"], at,
             c["dim"] - at, problem.pool_page, False, c["dim"] ** -0.5,
             problem.q.dtype, problem.q.dtype)
    q = problem.q[:, :, 0]
    parts = q[..., :at].contiguous(), q[..., at:].contiguous()
    return lambda k, v: run.run(*parts, k[:, 0, :, :at],
                                k[:, 0, :, at:])[:, :, None]


def peers_of(c):
    """(name, function, whether it wants pages) for a case."""
    found = []
    if not c["peers"]:
        return found
    if is_latent(c):
        if wheel("fa3_fwd_interface"):
            found.append(("FlashAttention-3", fa3_latent, False))
        if wheel("flashinfer"):
            found.append(("FlashInfer, pages of %d" % PAGE, flashinfer_latent,
                          True))
        return found
    if c["queries"] == 1:
        found += [(name, functools.partial(sdpa, backend), False)
                  for name, backend in (
                      ("cuDNN", SDPBackend.CUDNN_ATTENTION),
                      ("FlashAttention-2", SDPBackend.FLASH_ATTENTION))]
    found.append(("FlexAttention", flex, False))
    if wheel("flash_attn_interface"):
        found += [("FlashAttention-3", fa3, False),
                  ("FlashAttention-3, pages of %d" % PAGE, fa3, True)]
    if wheel("flashinfer") and c["queries"] == 1:
        found.append(("FlashInfer, pages of %d" % PAGE, flashinfer, True))
    return found
