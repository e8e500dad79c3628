# SPDX-License-Identifier: Apache-2.0
#
# Attention with roles in the order in which products and softmax overlap, at the
# sizes that registers allow: ptxas must keep it in them, and must not put waits
# or moves between the asynchronous products.
#
#   overlap.py NVPTX_PTX PTXAS_PY
#
#   S[i] = q K[i]^T    and    O += P[i-1] V[i-1]    in flight together
#   P[i] = softmax of S[i] when one is left, O *= alpha when none is
import re
import subprocess
import sys
import tempfile

KERNEL = """
kernel @attention(%q: tensor<[?, {D}] x {T}>, %k: tensor<[?, {D}] x {T}>,
    %v: tensor<[{v_tensor}] x {T}>, %o: tensor<[?, {D}] x bf16>, %factor: f32)
    aligned(0, 1, 2, 3) warps({warps}) shared({shared})
    grid {{
      yield cdiv(size(%q, 0), {BM})
    }}
{{
  %m0 = program_id(0) * {BM}
  %n = size(%k, 0)
  %sq = smem_alloc offset({at_q}) : smem<{BM}x{D} x {T}, {swizzle}>
  %rk = smem_alloc offset({at_k}) : smem<{BN}x{D} x {T}, {swizzle}, {stages}>
  %rv = smem_alloc offset({at_v}) : smem<{v_sides} x {T}, {v_swizzle}, {stages}>
  %fq = mbarrier_alloc arrivals(1) offset({at_b}) : mbarrier<1>
  %fk = mbarrier_alloc arrivals(1) offset({at_b0}) : mbarrier<{stages}>
  %ek = mbarrier_alloc arrivals({groups}) offset({at_b1}) : mbarrier<{stages}>
  %fv = mbarrier_alloc arrivals(1) offset({at_b2}) : mbarrier<{stages}>
  %ev = mbarrier_alloc arrivals({groups}) offset({at_b3}) : mbarrier<{stages}>
  barrier
  warp_groups registers({registers}) producer {{
    mbarrier_arrive %fq, 0 bytes({q_bytes})
    tma_load block %q[%m0 +: {BM}, 0 +: {D}], %sq, %fq, 0
    %slot.e, %phase.e = for %n0 = 0 to %n step {BN} carry(%slot = 0, %phase = 1) {{
      mbarrier_wait %ek, %slot, %phase
      mbarrier_arrive %fk, %slot bytes({k_bytes})
      tma_load block %k[%n0 +: {BN}, 0 +: {D}], smem_index(%rk, %slot), %fk, %slot
      mbarrier_wait %ev, %slot, %phase
      mbarrier_arrive %fv, %slot bytes({k_bytes})
      tma_load block %v[{v_window}], smem_index(%rv, %slot), %fv, %slot
      %wrap = %slot == {stages} - 1
      yield select(%wrap, 0, %slot + 1), %phase ^ cast(%wrap, i32)
    }}
  }} consumer {{
    %no_s = splat(0.0, tile<{BM}x{BN} x f32, {wgmma}>)
    %no_o = splat(0.0, tile<{BM}x{D} x f32, {wgmma}>)
    %first.top0 = splat(-inf, tile<{BM} x f32, #slice(1 of {BN}, {wgmma})>)
    %first.sum0 = splat(0.0, tile<{BM}x4 x f32, #mma_a({warps}x1)>)
    mbarrier_wait %fq, 0, 0
    mbarrier_wait %fk, 0, 0
    %first.s.0 = mma %sq, smem_trans(smem_index(%rk, 0)), %no_s instr({instr}) async(true)
    %first.s = mma_wait %first.s.0 pending(0)
    mbarrier_arrive %ek, 0
    {softmax_first}
    %top, %sum, %acc, %p.last, %kslot.e, %kphase.e, %vslot, %vphase =
        for %n0 = {BN} to %n step {BN}
        carry(%top0 = %first.top.1, %sum0 = %first.sum.1, %acc0 = %no_o, %p0 = %first.p.1,
              %kslot = rem(1, {stages}), %kphase = cdiv(2, {stages}) - 1, %vslot0 = 0, %vphase0 = 0) {{
      mbarrier_wait %fk, %kslot, %kphase
      %s.2 = mma %sq, smem_trans(smem_index(%rk, %kslot)), %no_s instr({instr}) async(true)
      mbarrier_wait %fv, %vslot0, %vphase0
      %acc.2 = mma %p0, {v0}, %acc0 instr({instr}) async(true)
      %s = mma_wait %s.2 pending(1)
      mbarrier_arrive %ek, %kslot
      {softmax}
      {early}
      %acc.3 = mma_wait %acc.2 pending(0)
      {late}
      mbarrier_arrive %ev, %vslot0
      %alpha.o = convert_layout(%alpha, tile<{BM} x f32, #slice(1 of {D}, {wgmma})>)
      %acc.4 = %acc.3 * broadcast(expand_dims(%alpha.o, axis=1), tile<{BM}x{D} x f32, {wgmma}>)
      %kwrap = %kslot == {stages} - 1
      %vwrap = %vslot0 == {stages} - 1
      yield %top.1, %sum.1, %acc.4, %p.1,
        select(%kwrap, 0, %kslot + 1), %kphase ^ cast(%kwrap, i32),
        select(%vwrap, 0, %vslot0 + 1), %vphase0 ^ cast(%vwrap, i32)
    }}
    mbarrier_wait %fv, %vslot, %vphase
    %acc.5 = mma %p.last, {v1}, %acc instr({instr})
    %total = convert_layout(sum(%sum, axis=1), tile<{BM} x f32, #slice(1 of {D}, {wgmma})>)
    %o.1 = %acc.5 / broadcast(expand_dims(%total, axis=1), tile<{BM}x{D} x f32, {wgmma}>)
    store block %o[%m0 +: {BM}, 0 +: {D}], cast(%o.1, bf16) boundary(0)
  }}
}}
"""

SOFTMAX = """
      %factors = splat(%factor, tile<{BM} x f32, #slice(1 of {BN}, {wgmma})>)
      %top.1 = max(%top0, max(%s, axis=1))
      %base = %top.1 * %factors
      %alpha = exp2(%top0 * %factors - %base)
      %base.2 = broadcast(expand_dims(-%base, axis=1), tile<{BM}x{BN} x f32, {wgmma}>)
      %p = exp2(fma(%s, splat(%factor, tile<{BM}x{BN} x f32, {wgmma}>), %base.2))
      %alpha.s = convert_layout(%alpha, tile<{BM} x f32, #slice(1 of 4, #mma_a({warps}x1))>)
      %part = reduce %p axis(1) kind(sum) within(thread)
      %sum.1 = fma(%sum0, broadcast(expand_dims(%alpha.s, axis=1), tile<{BM}x4 x f32, #mma_a({warps}x1)>), %part)
"""
WEIGHTS = """
      %p.1 = convert_layout(cast(%p, {T}), tile<{BM}x{BN} x {T}, #wgmma_a({groups}x1)>)
"""


def swizzle(elements, size):
    return "#swizzle%d" % next(w for w in (128, 64, 32)
                               if elements * size % w == 0)


def kernel(groups, bn, d, stages, registers, t="bf16"):
    bm, size = 64 * groups, 1 if t.startswith("f8") else 2
    f = dict(BM=bm, BN=bn, D=d, T=t, groups=groups, warps=4 * groups,
             stages=stages, registers=registers,
             wgmma="#wgmma(%dx1)" % groups, swizzle=swizzle(d, size),
             instr="m64k16" if size == 2 else "m64k32",
             q_bytes=bm * d * size, k_bytes=bn * d * size)
    slots = ["smem_index(%rv, %vslot0)", "smem_index(%rv, %vslot)"]
    if size == 2:
        f.update(v_tensor="?, %d" % d, v_sides="%dx%d" % (bn, d),
                 v_swizzle=f["swizzle"], v_window="%%n0 +: %d, 0 +: %d" % (bn, d))
    else:  # eight bits are read along K: rows of V^T
        f.update(v_tensor="%d, ?" % d, v_sides="%dx%d" % (d, bn),
                 v_swizzle=swizzle(bn, size),
                 v_window="0 +: %d, %%n0 +: %d" % (d, bn))
        slots = ["smem_trans(%s)" % s for s in slots]
    f["v0"], f["v1"] = slots
    f["at_q"], f["at_k"] = 0, f["q_bytes"]
    f["at_v"] = f["at_k"] + stages * f["k_bytes"]
    f["at_b"] = f["at_v"] + stages * f["k_bytes"]
    for i in range(4):
        f["at_b%d" % i] = f["at_b"] + 128 * (i + 1)
    f["shared"] = f["at_b"] + 1024
    f["softmax"] = SOFTMAX.format(**f)
    # Bytes are exchanged, into registers that the product reads till its end.
    weights = WEIGHTS.format(**f)
    f["early"], f["late"] = (weights, "") if size == 2 else ("", weights)
    # The first one's names are its own.
    f["softmax_first"] = re.sub(r"%(?!factor\b)", "%first.",
                                f["softmax"] + weights)
    return KERNEL.format(**f)


def run(words, text):
    r = subprocess.run(words, input=text, capture_output=True, text=True)
    if r.returncode:
        sys.exit(r.stdout + r.stderr)
    return r.stdout


def check(nvptx_ptx, ptxas, *config):
    with tempfile.NamedTemporaryFile("w", suffix=".tile") as f:
        f.write(kernel(*config))
        f.flush()
        ptx = run([nvptx_ptx, f.name, "--target", "sm_90a"], "")
    groups, bn, d = config[:3]
    k = 32 if "f8e4m3" in config else 16
    found = len(re.findall(r"wgmma\.mma_async", ptx))
    wanted = 2 * d // k + 2 * bn // k
    if found != wanted:
        sys.exit("%s: %d wgmma, expected %d" % (config, found, wanted))
    run([sys.executable, ptxas, "sm_90a"], ptx)
    print(*config)


CONFIGS = [(2, 128, 128, 2, "24, 240"), (2, 176, 128, 1, "24, 240"),
           (3, 128, 64, 2, "32, 160"), (2, 80, 256, 2, "24, 240"),
           (2, 112, 192, 2, "24, 240"), (2, 144, 96, 2, "24, 240"),
           (2, 128, 80, 2, "24, 240"), (2, 128, 128, 2, "24, 240", "f16"),
           (2, 128, 128, 2, "24, 240", "f8e4m3")]
for config in CONFIGS:
    check(sys.argv[1], sys.argv[2], *config)
