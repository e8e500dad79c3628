#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tilec.attention against torch: results and gradients, streams, graphs.

    TILEC_LIBRARY=build/libtilec.so python3 test/gpu/torch_attention.py
        [--device cpu] [--forward] [--only TEXT] [--seed N] [--list]

Every result and gradient is compared with the same in float64: the error, as
norm(x - want) / norm(want), may be at most twice that of torch's own math in
the same data type, which materialises the scores, or what rounding alone may
cost where that happens to be exact. The inputs of a case follow
from its name and the seed. Ends with `N passed, N failed`; exit status 77: no
torch, or no such device.
"""
import collections
import concurrent.futures
import itertools
import math
import random
import zlib

import torch_cases  # first: finds tilec, and ends where there is no torch

import tilec
import torch
from tilec import _attention

# ---- Mods: tilec's text, what it captures, and the same in torch ----

Mod = collections.namedtuple("Mod", "mask score captured numbers mask_fn "
                                    "score_fn")


def mod(mask=None, score=None, captured=None, numbers=None, mask_fn=None,
        score_fn=None):
    """captured: a function of the case and a maker of tensors; mask_fn(q, k,
    case, captured); score_fn(s, h, q, k, captured), h [H, 1, 1]. `sinks` among
    what is captured are those of the call."""
    return Mod(mask, score, captured or (lambda c, rand: {}), numbers or {},
               mask_fn, score_fn)


def document_starts(c, rand):
    n = max(c.M, c.N)
    return {"offsets": torch.tensor([0, n // 7, n // 3, n // 3 + 1, n // 2],
                                    dtype=torch.int32)}


def same_document(q, k, c, t):
    # bucketize wants the offsets contiguous, the tests give them strided.
    starts = t["offsets"].contiguous()
    return (torch.bucketize(q, starts, right=True) ==
            torch.bucketize(k, starts, right=True))


SINKS = """
func @sinks(%b: i32, %h: i32, %q: i32, %k: i32, %w: i32) -> i1 {
  return %k <= %q and (%q - %k < %w or %k < 4)
}
"""
# Reads a bias that is learned for each query and key, and squashes the score.
SQUASHED = """
func @squashed(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32,
               %pair: tensor<[?, ?] x f32>, %gain: tensor<[?] x f32>) -> f32 {
  %x = %s * %gain[%h] + %pair[%q, %k]
  return %x / (1.0 + abs(%x) * 0.1)
}
"""

MODS = {
    "none": mod(),
    "causal": mod("causal", mask_fn=lambda q, k, c, t: k <= q),
    "bottom_right": mod("causal_bottom_right", mask_fn=lambda q, k, c, t:
                        k <= q + (c.N - c.M)),
    "window": mod("sliding_window", numbers={"w": 100},
                  mask_fn=lambda q, k, c, t: (k <= q) & (q - k < 100)),
    "sinks": mod(SINKS, numbers={"w": 33}, mask_fn=lambda q, k, c, t:
                 (k <= q) & ((q - k < 33) | (k < 4))),
    "document": mod("causal & document", captured=document_starts,
                    mask_fn=lambda q, k, c, t:
                    (k <= q) & same_document(q, k, c, t)),
    "alibi": mod("causal", "alibi", mask_fn=lambda q, k, c, t: k <= q,
                 captured=lambda c, rand: {"slopes": rand(c.H) * 0.1},
                 score_fn=lambda s, h, q, k, t:
                 s + t["slopes"][:, None, None] * (k - q)),
    "head_bias": mod(score="head_bias",
                     captured=lambda c, rand: {"bias": rand(c.H)},
                     score_fn=lambda s, h, q, k, t:
                     s + t["bias"][:, None, None]),
    "relative_bias": mod(score="relative_bias", score_fn=lambda s, h, q, k, t:
                         s + (q - k)),
    "bias_table": mod("causal", "relative_bias_table",
                      mask_fn=lambda q, k, c, t: k <= q,
                      captured=lambda c, rand: {"table": rand(c.H, 33)},
                      score_fn=lambda s, h, q, k, t:
                      s + t["table"][h, (k - q + 16).clamp(0, 32)]),
    "soft_cap": mod("causal", "soft_cap", numbers={"cap": 3.5},
                    mask_fn=lambda q, k, c, t: k <= q,
                    score_fn=lambda s, h, q, k, t: 3.5 * torch.tanh(s / 3.5)),
    "global": mod("global_sliding_window", numbers={"global": 5, "w": 20},
                  mask_fn=lambda q, k, c, t:
                  ((q - k).abs() <= 20) | (k < 5) | (q < 5)),
    "dilated": mod("dilated_sliding_window", numbers={"d": 3, "w": 60},
                   mask_fn=lambda q, k, c, t:
                   ((q - k).abs() <= 60) & ((q - k) % 3 == 0)),
    "natten": mod("natten", numbers=dict(width=16, height=64, kernel_width=5,
                                         kernel_height=7),
                  mask_fn=lambda q, k, c, t: near(q // 16, k // 16, 7, 64) &
                  near(q % 16, k % 16, 5, 16)),
    "ids": mod("document_ids", mask_fn=lambda q, k, c, t:
               t["ids"].long()[q] == t["ids"].long()[k],
               captured=lambda c, rand:
               {"ids": (rand(max(c.M, c.N)) * 2).to(torch.int32)}),
    "head_scale": mod("causal", "head_scale",
                      mask_fn=lambda q, k, c, t: k <= q,
                      captured=lambda c, rand: {"scales": rand(c.H)},
                      score_fn=lambda s, h, q, k, t:
                      s * t["scales"][:, None, None]),
    "pair_bias": mod(score="pair_bias", captured=lambda c, rand:
                     {"pair_bias": rand(c.H, c.M, c.N)},
                     score_fn=lambda s, h, q, k, t: s + t["pair_bias"]),
    "row_and_column": mod(score="row_bias, head_scale, column_bias",
                          captured=lambda c, rand: {
                              "row_bias": rand(c.M), "scales": rand(c.H),
                              "column_bias": rand(c.N)},
                          score_fn=lambda s, h, q, k, t:
                          (s + t["row_bias"][:, None]) *
                          t["scales"][:, None, None] + t["column_bias"]),
    "learned_sinks": mod("causal", mask_fn=lambda q, k, c, t: k <= q,
                         captured=lambda c, rand: {"sinks": rand(c.H) * 2}),
    # Of 16 bits, and rows that see no key.
    "narrow_sinks": mod("causal_bottom_right", mask_fn=lambda q, k, c, t:
                        k <= q + (c.N - c.M), captured=lambda c, rand:
                        {"sinks": rand(c.H).to(torch.bfloat16)}),
    "squashed": mod(None, SQUASHED,
                    captured=lambda c, rand: {"pair": rand(c.M, c.N),
                                              "gain": rand(c.H)},
                    score_fn=lambda s, h, q, k, t: squash(
                        s * t["gain"][:, None, None] + t["pair"])),
}


def squash(x):
    return x / (1.0 + x.abs() * 0.1)


def near(q, k, size, count):
    """k in the neighbourhood of q, which stays inside."""
    return (k - q.clamp(size // 2, count - 1 - size // 2)).abs() <= size // 2


# ---- Cases ----

Case = collections.namedtuple("Case", "mod dtype layout B H HK M N D DV")
LAYOUTS = ("bhsd", "bshd", "packed")
# B, H, HK, M, N, D, DV
SHAPES = [
    (2, 4, 4, 256, 256, 64, 64),
    (2, 4, 2, 333, 333, 64, 64),
    (1, 6, 2, 200, 517, 128, 128),
    (1, 8, 1, 517, 200, 64, 64),
    (1, 2, 2, 1000, 1000, 128, 128),
    (2, 2, 2, 129, 129, 32, 32),
    (1, 4, 4, 300, 300, 192, 128),
    (1, 2, 2, 300, 300, 256, 256),
    (1, 3, 1, 77, 1, 80, 48),
    (3, 2, 2, 1, 300, 64, 64),
    (1, 2, 2, 65, 64, 40, 72),
]


def cases(device):
    """Every mod with a few shapes, every shape with a few mods."""
    names = list(MODS)
    found = []
    for i, shape in enumerate(SHAPES):
        for j, name in enumerate(names):
            if (i + j) % 3 and shape != SHAPES[0]:
                continue
            dtype = ("bfloat16", "bfloat16", "float16", "float32")[
                (i + 2 * j) % 4]
            found.append(Case(name, dtype, LAYOUTS[(i + j // 3) % 3], *shape))
    if device == "cuda":  # what takes minutes on a CPU
        for name in ("none", "causal", "document", "bias_table"):
            for d, hk in itertools.product((64, 128, 256), (1, 4)):
                found.append(Case(name, "bfloat16", "bshd", 2, 4, hk, 2048,
                                  2048, d, d))
    return found


def label(c):
    return "%s %s %s %dx%d/%dx%d/%dx%d/%d" % c


def tensors_of(c, device, seed):
    """q, k, v in the case's layout, and what is captured."""
    g = torch.Generator().manual_seed(zlib.crc32(label(c).encode()) + seed)
    dtype = getattr(torch, c.dtype)

    def rand(*shape):
        return torch.randn(shape, generator=g)

    def heads(h, length, dim):
        if c.layout == "bhsd":
            return rand(c.B, h, length, dim).to(device, dtype)
        room = 1 if c.layout == "bshd" else 3  # q, k and v of one product
        whole = rand(c.B, length, room, h, dim).to(device, dtype)
        return whole[:, :, room - 1].transpose(1, 2)

    q, k, v = (heads(c.H, c.M, c.D), heads(c.HK, c.N, c.D),
               heads(c.HK, c.N, c.DV))
    captured = {n: t.to(device) for n, t in
                MODS[c.mod].captured(c, rand).items()}
    grads = (rand(c.B, c.H, c.M, c.DV).to(device, dtype),
             rand(c.B, c.H, c.M).to(device))
    return q, k, v, captured, grads


def math_attention(c, q, k, v, captured):
    """The scores in full, products in the tensors' data type, all else in
    float32 or better. o and lse."""
    m = MODS[c.mod]
    wide = torch.promote_types(q.dtype, torch.float32)
    group = c.H // c.HK
    k, v = (t.repeat_interleave(group, dim=1) for t in (k, v))
    s = (q @ k.mT).to(wide) * (1 / math.sqrt(c.D))
    i = torch.arange(c.M, device=q.device)[:, None]
    j = torch.arange(c.N, device=q.device)[None]
    h = torch.arange(c.H, device=q.device)[:, None, None]
    if m.score_fn:
        s = m.score_fn(s, h, i, j, captured)
    see = (m.mask_fn(i, j, c, captured) if m.mask_fn else
           torch.ones(c.M, c.N, dtype=torch.bool, device=q.device))
    # Rows without a key: no infinity meets another. No clamp: at its bound,
    # where each row's maximum lies, its gradient is 0 since torch 2.15.
    top = s.masked_fill(~see, -1e30).amax(-1, keepdim=True).detach()
    sinks = captured.get("sinks")
    if sinks is not None:
        sinks = sinks.to(wide)[:, None, None]
        top = torch.maximum(top, sinks).detach()
    p = (s.masked_fill(~see, -math.inf) - top).exp()
    total = p.sum(-1, keepdim=True)
    if sinks is not None:
        total = total + (sinks - top).exp()
    some = total > 0
    p = p / torch.where(some, total, 1)
    lse = torch.where(some, top + torch.where(some, total, 1).log(), -math.inf)
    return p.to(q.dtype) @ v, lse[..., 0]


def tilec_attention(c, q, k, v, captured, **options):
    m = MODS[c.mod]
    of_mods = {n: t for n, t in captured.items() if n != "sinks"}
    return tilec.attention(q, k, v, mask_mod=m.mask, score_mod=m.score,
                           enable_gqa=c.H != c.HK, return_lse=True,
                           sinks=captured.get("sinks"),
                           **{"captured": {**of_mods, **m.numbers}},
                           **options)


def run(function, c, inputs, dtype=None, backward=True):
    """{name: result or gradient}, from leaves of their own."""
    q, k, v, captured, (do, dlse) = inputs
    leaves = {}

    def leaf(name, t):
        wanted = t.is_floating_point()
        kind = dtype if wanted and dtype else t.dtype
        # Strides are kept: they are part of the case.
        x = torch.empty_strided(t.shape, t.stride(), dtype=kind,
                                device=t.device).copy_(t)
        leaves[name] = x.requires_grad_(backward and wanted)
        return x

    q, k, v = leaf("q", q), leaf("k", k), leaf("v", v)
    captured = {n: leaf(n, t) for n, t in captured.items()}
    o, lse = function(c, q, k, v, captured)
    found = {"o": o.detach(), "lse": lse.detach()}
    if backward:
        # A row without a key has no logsumexp to change.
        finite = torch.isfinite(lse)
        loss = (o * do).sum() + torch.where(finite, lse * dlse, 0).sum()
        loss.backward()
        found.update({"d" + n: x.grad for n, x in leaves.items()
                      if x.grad is not None})
    return found


def error_of(x, want):
    x, want = x.double(), want.double()
    if not torch.equal(torch.isinf(x), torch.isinf(want)):
        return math.inf
    finite = torch.isfinite(want)
    x, want = x[finite], want[finite]
    if not torch.isfinite(x).all():
        return math.inf
    size = want.norm().item()
    return (x - want).norm().item() / size if size else x.norm().item()


# What rounding alone may cost where torch's math happens to be exact: one key,
# say, or sums of one element. Of a result that is rounded to the data type; of
# few sums made from a rounded o (gradients of what is captured), which torch
# has in full; of gradients in float32, whose probabilities come from scores and
# logsumexps that are rounded at their own size.
FLOORS = {"float32": (2e-6, 1e-5), "float16": (5e-4, 1e-3),
          "bfloat16": (3e-3, 8e-3)}


def floor_of(name, dtype):
    if name == "lse":
        return FLOORS["float32"][0]
    in_full = ("o",) if dtype == "float32" else ("o", "dq", "dk", "dv")
    return FLOORS[dtype][name not in in_full]


def check_case(c, device, seed, backward):
    inputs = tensors_of(c, device, seed)
    want = run(math_attention, c, inputs, torch.float64, backward)
    plain = run(math_attention, c, inputs, None, backward)
    ours = run(tilec_attention, c, inputs, None, backward)
    missing = set(want) - set(ours)
    assert not missing, "no gradient of %s" % ", ".join(sorted(missing))
    wrong, worst = [], 0.0
    for name in want:
        mine, theirs = (error_of(x[name], want[name]) for x in (ours, plain))
        floor = floor_of(name, c.dtype)
        worst = max(worst, mine / max(theirs, floor))
        if not mine <= max(2 * theirs, floor):
            wrong.append("%s: error %.2e, torch's %.2e" % (name, mine, theirs))
    assert not wrong, "; ".join(wrong)
    return "%.2f of torch's error" % worst


# ---- What only a device shows, and what only torch does ----


def small(device, mod="causal", n=300, dtype="bfloat16", d=64):
    c = Case(mod, dtype, "bhsd", 2, 4, 2, n, n, d, d)
    return c, tensors_of(c, device, 1)


def equal(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b))


def test_stream(device, backward):
    c, inputs = small(device, n=2000)
    q, k, v, captured, _ = inputs
    want = tilec_attention(c, q, k, v, captured)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(20_000_000)
        late = q.clone()  # after the sleep: without a wait rubbish is read
        got = tilec_attention(c, late, k, v, captured)
    side.synchronize()
    assert equal(got, want)


TWICE = """
kernel @add(%x: tensor<[?] x f32>, %y: tensor<[?] x f32>)
    grid { yield cdiv(size(%x, 0), 1024) } {
  %i = program_id(0) * 1024
  %a = load %x[%i +: 1024] boundary(0)
  store %y[%i +: 1024], %a + splat(1.0, tile<1024 x f32>) boundary(0)
}

plan @twice(%x: tensor<[?] x f32>, %y: tensor<[?] x f32>) {
  %between = workspace size(%x, 0) : tensor<[?] x f32>
  launch @add(%x, %between)
  launch @add(%between, %y)
}
"""


def test_stream_by_number(device, backward):
    """torch gives a workspace out again only after the launch that has it."""
    n = 1 << 20
    k = tilec.compile(TWICE, name="twice")
    x, side = torch.rand(n, device=device), torch.cuda.Stream()
    ys = [torch.empty_like(x) for _ in range(4)]
    k(x, ys[0])  # loads it
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(20_000_000)
    others = []
    for y in ys:
        k(x, y, stream=side.cuda_stream)
        # Where the workspace is free at once, this is filled there and then,
        # and the kernels, who sleep yet, write to it later.
        others.append(torch.full_like(x, -1))
    torch.cuda.synchronize()
    assert all(torch.equal(y, x + 1 + 1) for y in ys)
    assert all(bool((other == -1).all()) for other in others)


def test_cuda_graph(device, backward):
    c, inputs = small(device, "head_bias", n=500)
    q, k, v, captured, (do, dlse) = inputs
    leaves = [q, k, v, captured["bias"]]

    def step():
        o, lse = tilec_attention(c, q, k, v, captured)
        if not backward:
            return o, lse
        return (o, lse, *torch.autograd.grad((o, lse), leaves, (do, dlse)))

    if backward:
        for x in leaves:
            x.requires_grad_()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        got = step()
    for _ in range(2):
        with torch.no_grad():
            for x in leaves:
                x.copy_(torch.randn_like(x))
        graph.replay()
        torch.cuda.synchronize()
        for x, want in zip(got, step()):
            # Sums in the order of arrival differ in their last bits.
            assert error_of(x, want) < 1e-2


def test_compile(device, backward):
    # Without a GPU inductor wants a C++ compiler, and its time.
    backend = "inductor" if device == "cuda" else "aot_eager"
    compiled = torch.compile(tilec_attention, fullgraph=True, backend=backend)
    for captures in ("bias_table", "learned_sinks"):
        c, inputs = small(device, captures)
        got = run(compiled, c, inputs, None, backward)
        want = run(tilec_attention, c, inputs, None, backward)
        assert set(got) == set(want)
        for name in want:
            assert error_of(got[name], want[name]) < 1e-2, name


def test_opcheck(device, backward):
    c, inputs = small(device, "head_bias", n=40, dtype="float32", d=16)
    q, k, v, captured, _ = inputs
    tests = ["test_schema", "test_faketensor"]
    if backward:
        tests += ["test_autograd_registration", "test_aot_dispatch_static"]
    torch.library.opcheck(
        torch.ops.tilec.attention.default,
        (q.requires_grad_(backward), k, v, True,
         [captured["bias"].requires_grad_(backward)], "bias", "", "head_bias",
         "", 0.0, "", False), test_utils=tests)


def test_threads(device, backward):
    tasks = [small(device, mod, n=n) for mod in ("causal", "sinks", "alibi")
             for n in (100, 333, 600)]
    want = [run(tilec_attention, c, i, None, backward) for c, i in tasks]
    _attention.forget()

    def work(at):
        c, inputs = tasks[at % len(tasks)]
        stream = torch.cuda.Stream() if device == "cuda" else None
        with torch.cuda.stream(stream):
            if stream:
                stream.wait_stream(torch.cuda.default_stream())
            got = run(tilec_attention, c, inputs, None, backward)
            if stream:
                stream.synchronize()
        return all(error_of(got[n], x) < 1e-2
                   for n, x in want[at % len(tasks)].items())

    if device == "cuda":
        torch.cuda.synchronize()
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        assert all(pool.map(work, range(4 * len(tasks))))


def test_lengths(device, backward):
    _attention.forget()
    for n in (600, 513, 777, 800, 850):
        c, inputs = small(device, n=n, d=32)
        run(tilec_attention, c, inputs, None, backward)
    assert len(_attention._plans) == 1 + backward, len(_attention._plans)


def test_numbers(device, backward):
    """Another number is no other plan."""
    c, (q, k, v, _, _) = small(device, n=128, d=32)
    before = None
    for w in (1, 5, 128):
        got = tilec.attention(q, k, v, mask_mod="sliding_window", w=w,
                              enable_gqa=True)
        if w == 1:
            assert error_of(got, v.repeat_interleave(2, 1)) < 1e-6
            before = len(_attention._plans)
    assert len(_attention._plans) == before


def test_deterministic(device, backward):
    if not backward:
        return "skipped"
    for captures in ("bias_table", "learned_sinks"):
        c, inputs = small(device, captures, n=900)

        def once():
            return run(lambda *a: tilec_attention(*a, deterministic=True), c,
                       inputs)

        first = once()
        for _ in range(3):
            again = once()
            for name in first:
                assert torch.equal(first[name], again[name]), name


def test_errors(device, backward):
    c, (q, k, v, _, _) = small(device, n=64, d=32)

    def refused(kind, text, *args, **options):
        return torch_cases.refused(
            kind, text, lambda: tilec.attention(*args, **options))

    refused(ValueError, "enable_gqa", q, k, v)
    e = refused(tilec.Error, "did you mean `causal`", q, q, q,
                mask_mod="causul")
    assert e.diagnostics[0].line == 1
    refused(ValueError, "expected the same", q, q.float(), q)
    refused(ValueError, "expected f32", q, q, q, score_mod="head_bias",
            bias=torch.zeros(4, device=device, dtype=torch.int32))
    if device == "cuda":
        refused(ValueError, "device", q, q.cpu(), q)
        refused(ValueError, "bias", q, q, q, score_mod="head_bias",
                bias=torch.zeros(4))


def test_other_device(device, backward):
    if device != "cuda" or torch.cuda.device_count() < 2:
        return "skipped"
    c, inputs = small("cuda:1")  # not the current one
    want = run(math_attention, c, inputs, torch.float64, backward)
    got = run(tilec_attention, c, inputs, None, backward)
    assert all(error_of(got[n], want[n]) < 2e-2 for n in want)


TESTS = [test_lengths, test_numbers, test_errors, test_threads, test_compile,
         test_opcheck, test_deterministic, test_other_device]
GPU_TESTS = [test_stream, test_stream_by_number, test_cuda_graph]


def main():
    p = torch_cases.parser(__doc__)
    p.add_argument("--forward", action="store_true", help="no gradients")
    p.add_argument("--sample", type=int, default=0,
                   help="so many cases, by the seed; 0: all")
    p.add_argument("--list", action="store_true")
    args = torch_cases.parse(p)
    torch.backends.cuda.matmul.allow_tf32 = False
    backward = not args.forward
    tasks = [(label(c), lambda c=c: check_case(c, args.device, args.seed,
                                               backward))
             for c in cases(args.device)]
    if args.sample:
        tasks = random.Random(args.seed).sample(tasks, args.sample)
    tasks += [(t.__name__, lambda t=t: t(args.device, backward))
              for t in TESTS + (GPU_TESTS if args.device == "cuda" else [])]
    if args.list:
        print("\n".join(name for name, _ in tasks))
        return
    torch_cases.run(tasks, args)


if __name__ == "__main__":
    main()
