#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tilec among torch's own ways: transforms, autocast, versions, data types.

    TILEC_LIBRARY=build/libtilec.so python3 test/gpu/torch_calls.py
        [--device cpu] [--only TEXT]

What torch_attention.py has no numbers for: what calls take and what they
refuse, with which exception. Ends with `N passed, N failed`; exit status 77: no
torch, or no such device.
"""
import os
import subprocess
import sys
import threading
import warnings

import torch_cases  # first: finds tilec, and ends where there is no torch

import tilec
import torch
from tilec import _attention, _launch, _prepared, _torch
from torch.autograd import forward_ad
from torch_cases import refused

TIMES = """
func @times(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32, %by: f32) -> f32 {
  return %s * %by
}
"""
TIMES_FIRST = """
func @times(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32, %by: tensor<[?] x f32>) -> f32 {
  return %s * %by[0]
}
"""


def inputs(device, dtype=torch.float32):
    torch.manual_seed(0)
    return [torch.randn(1, 2, 40, 32).to(device, dtype) for _ in range(3)]


def near(x, y, most=1e-5):
    x, y = x.double(), y.double()
    return (x - y).norm().item() <= most * y.norm().item()


def grads(f, *leaves):
    """Of f's sum of squares, of leaves made of those."""
    leaves = [x.detach().clone().requires_grad_() for x in leaves]
    f(*leaves).float().square().sum().backward()
    return [x.grad for x in leaves]


# ---- Derivatives of other kinds ----


def test_forward_mode(device):
    """Every way of giving attention a tangent."""
    q, k, v = inputs(device)
    none = "no forward-mode derivative"

    def attend(x):
        return tilec.attention(x, k, v)

    def dual(f, *leaves):
        with forward_ad.dual_level():
            return f(*[forward_ad.make_dual(x, torch.ones_like(x))
                       for x in leaves])

    def jvp(f, x):
        return torch.func.jvp(f, (x,), (torch.ones_like(x),))

    bias = torch.ones(2, device=device)

    def biased(x):
        return tilec.attention(q, k, v, score_mod="head_bias", bias=x)

    for f in (lambda: jvp(attend, q), lambda: dual(attend, q),
              lambda: dual(attend, q.clone().requires_grad_()),
              lambda: jvp(lambda x: tilec.attention(q, k, x), v),
              lambda: jvp(biased, bias), lambda: dual(biased, bias),
              lambda: torch.func.jacfwd(biased)(bias)):
        refused(ValueError, none, f)
    # What has no tangent may stand next to what has one.
    one = torch.ones((), device=device)
    got, tangent = jvp(lambda x: x * attend(q), one)
    assert torch.equal(got, tangent) and torch.equal(got, attend(q))
    got, tangent = jvp(lambda x: attend((x * q).detach()) * x, one)
    assert torch.equal(got, tangent)


def test_forward_mode_compiled(device):
    q, k, v = inputs(device)
    compiled = torch.compile(
        lambda x: torch.func.jvp(lambda y: tilec.attention(y, k, v), (x,),
                                 (x,)), backend="aot_eager")
    refused(Exception, "no forward-mode derivative", lambda: compiled(q))
    compiled = torch.compile(lambda x: tilec.attention(x, k, v),
                             backend="aot_eager")
    with forward_ad.dual_level():
        refused(Exception, "no forward-mode derivative",
                lambda: compiled(forward_ad.make_dual(q, q)))


def by_hand(f, *args):
    """Gradients of f's sum of squares, by backward."""
    leaves = [x.detach().clone().requires_grad_() for x in args]
    return torch.autograd.grad(f(*leaves).square().sum(), leaves)


def test_gradient_transforms(device):
    q, k, v = inputs(device)
    slopes = torch.tensor([0.5, 0.25], device=device)

    def attend(x, s):
        return tilec.attention(x, k, v, score_mod="alibi", slopes=s)

    want = by_hand(attend, q, slopes)
    got = torch.func.grad(lambda *x: attend(*x).square().sum(), (0, 1))(
        q, slopes)
    o, pull = torch.func.vjp(attend, q, slopes)
    for x, y, z in zip(got, want, pull(2 * o)):
        assert near(x, y) and near(z, y)
    rows = torch.func.jacrev(lambda s: attend(q, s).square().sum((0, 2, 3)))(
        slopes)
    assert rows.shape == (2, 2) and near(rows.sum(0), want[1])
    got = torch.func.grad(lambda x: tilec.attention(
        x, k, v, return_lse=True)[1].square().sum())(q)
    assert near(got, by_hand(
        lambda x: (x @ k.mT * 32 ** -0.5).logsumexp(-1), q)[0], 1e-4)
    twice = "no second derivative"
    refused(ValueError, twice, lambda: torch.func.grad(
        lambda x: torch.func.grad(lambda y: attend(y, slopes).sum())(x).sum())(
            q))
    refused(ValueError, "no forward-mode derivative", lambda: (
        torch.func.hessian(lambda x: attend(x, slopes).sum())(q)))
    x = q.clone().requires_grad_()
    first, = torch.autograd.grad(attend(x, slopes).sum(), x, create_graph=True)
    refused(ValueError, twice, lambda: torch.autograd.grad(first.sum(), x))


OWN_BATCH = """
func @own(%s: f32, %batch: i32, %h: i32, %q: i32, %k: i32) -> f32 {
  return %s * cast(%batch, f32)
}
"""


def test_vmap(device):
    """One launch where the batch index is not read, else one for each."""
    torch.manual_seed(1)
    many = [torch.randn(3, 2, 4, 40, 32, device=device) for _ in range(3)]
    q, k, v = many
    lens = torch.tensor([[7, 40], [1, 2], [30, 9]], dtype=torch.int32,
                        device=device)
    slopes = torch.rand(3, 4, device=device)
    sinks = torch.rand(4, device=device)

    def calls(f, *args, dims=0):
        got = torch.vmap(f, in_dims=dims)(*args)
        each = dims if isinstance(dims, tuple) else (dims,) * len(args)
        want = torch.stack([f(*[x if d is None else x.select(d, i)
                                for x, d in zip(args, each)])
                            for i in range(3)])
        assert near(got, want), f

    calls(lambda *t: tilec.attention(*t, mask_mod="causal", sinks=sinks), *many)
    calls(lambda x: tilec.attention(x, k[0], v[0], mask_mod="causal"), q)
    calls(lambda x: tilec.attention(x, k[0, :1, :2], v[0, :1, :2],
                                    enable_gqa=True), q[:, :1])
    calls(lambda x, y: tilec.attention(x, y, y), q.movedim(0, 2),
          k.movedim(0, 4), dims=(2, 4))
    calls(lambda x: tilec.attention(x, k[0], v[0], mask_mod="padding",
                                    lens=lens[0]), q)
    calls(lambda *t: tilec.attention(*t[:3], mask_mod="padding", lens=t[3]),
          *many, lens)
    calls(lambda *t: tilec.attention(*t, score_mod=OWN_BATCH), *many)
    calls(lambda x, s: tilec.attention(x, k[0], v[0], score_mod="alibi",
                                       slopes=s), q, slopes)
    calls(lambda *t: tilec.attention(*t, dropout_p=0.5, dropout_seed=3), *many)
    calls(torch.vmap(lambda x: tilec.attention(x[None], k[0, :1], v[0, :1])), q)
    calls(torch.func.grad(lambda x, s: tilec.attention(
        x, k[0], v[0], score_mod="alibi", slopes=s).square().sum(), 1),
        q, slopes)
    x = q.clone().requires_grad_()
    torch.vmap(lambda y: tilec.attention(y, k[0], v[0]))(x).square().sum(
        ).backward()
    assert near(x.grad, by_hand(lambda y: torch.stack(
        [tilec.attention(z, k[0], v[0]) for z in y]), q)[0])
    refused(ValueError, "size 0", lambda: torch.vmap(
        lambda x: tilec.attention(x, k[0], v[0]))(q[:0]))


def test_meta(device):
    q, k, v = [x.to("meta").requires_grad_() for x in inputs(device)]
    o, lse = tilec.attention(q, k, v, mask_mod="causal", return_lse=True)
    assert (o.is_meta, o.shape, lse.shape) == (True, q.shape, q.shape[:3])
    o.sum().backward()
    assert q.grad.is_meta and k.grad.shape == k.shape


# ---- Kernels that write ----


def test_version(device):
    softmax = tilec.kernel("softmax")
    x, w = (torch.randn(4, 8, device=device) for _ in range(2))
    a = torch.ones(4, 8, device=device, requires_grad=True)
    y = (a * w).sum()
    before, read = w._version, x._version
    softmax(x, w)
    assert (w._version > before, x._version) == (True, read)
    refused(RuntimeError, "modified by an inplace operation", y.backward)
    softmax(x=x, y=w[:])  # a view: its base's version
    assert w._version > before + 1
    with torch.inference_mode():
        z = torch.zeros(4, 8, device=device)
        softmax(x, z)  # which has no version
        assert torch.equal(z, w)


def test_leaves(device):
    softmax = tilec.kernel("softmax")
    x = torch.randn(4, 8, device=device)
    leaf = torch.zeros(4, 8, device=device, requires_grad=True)
    for y in (leaf, leaf * 1, torch.nn.Parameter(x.clone())):
        was = y.detach().clone()
        refused(ValueError, "y requires grad", lambda y=y: softmax(x, y))
        refused(ValueError, "y requires grad", lambda y=y: softmax(x=x, y=y))
        assert torch.equal(y, was)
    with torch.no_grad():
        softmax(x, leaf)
    softmax(x, leaf.detach())
    assert leaf._version == 2 and near(leaf, x.softmax(1))
    softmax(leaf, torch.empty_like(x))  # reading is free


def test_signs(device):
    """Memory that holds the other sign of what torch shows."""
    x = torch.randn(4, 8, device=device)
    lazy = torch.complex(x, x).conj().imag
    y = torch.empty_like(x)
    softmax = tilec.kernel("softmax")
    refused(ValueError, "resolve_neg", lambda: softmax(lazy, y))
    softmax(lazy.resolve_neg(), y)
    assert near(y, (-x).softmax(1))
    q, k, v = inputs(device)
    lazy = torch.complex(q, q).conj().imag
    assert torch.equal(tilec.attention(lazy, k, v),
                       tilec.attention(-q, k, v))


# ---- Data types ----


def test_out_dtype(device):
    """Gradients are those of o in q's own type, but for rounding."""
    for dtype, out, most in ((torch.float32, torch.float16, 5e-3),
                             (torch.float32, torch.bfloat16, 4e-2),
                             (torch.bfloat16, torch.float32, 4e-2),
                             (torch.float16, torch.bfloat16, 4e-2)):
        t = inputs(device, dtype)
        want = grads(tilec.attention, *t)
        got = grads(lambda *x: tilec.attention(*x, out_dtype=out), *t)
        for x, y in zip(got, want):
            assert x.dtype == dtype and near(x, y, most), (dtype, out)
    refused(TypeError, "out_dtype is 5",
            lambda: tilec.attention(*t, out_dtype=5))
    refused(ValueError, "out_dtype is int8",
            lambda: tilec.attention(*t, out_dtype=torch.int8))


def test_autocast(device):
    """As of scaled_dot_product_attention: query, key, value, and no more."""
    q, k, v = inputs(device)
    slopes = torch.tensor([0.5, 0.25], device=device)
    options = dict(score_mod="alibi", slopes=slopes)
    # Whatever the types of the three are.
    mixed = [q, k.bfloat16(), v.half()]
    for dtype in (torch.bfloat16, torch.float16):
        narrow = [t.to(dtype) for t in mixed]
        want = tilec.attention(*narrow, **options)
        slope_want = grads(lambda s: tilec.attention(
            *narrow, score_mod="alibi", slopes=s), slopes)[0]
        with torch.autocast(device, dtype=dtype):
            got = tilec.attention(*mixed, **options)
            theirs = torch.nn.functional.scaled_dot_product_attention(*mixed)
            slope = grads(lambda s: tilec.attention(
                *mixed, score_mod="alibi", slopes=s), slopes)[0]
            three = grads(lambda *t: tilec.attention(*t, **options), *mixed)
        assert got.dtype == theirs.dtype == dtype and torch.equal(got, want)
        assert slope.dtype == torch.float32 and near(slope, slope_want, 1e-2)
        assert [x.dtype for x in three] == [t.dtype for t in mixed]
        with torch.autocast(device, dtype=dtype, enabled=False):
            assert tilec.attention(q, k, v).dtype == torch.float32
    refused(ValueError, "expected the same", lambda: tilec.attention(*mixed))
    with torch.autocast(device, dtype=torch.bfloat16):
        compiled = torch.compile(lambda x: tilec.attention(x, k, v),
                                 fullgraph=True, backend="aot_eager")
        assert compiled(q).dtype == torch.bfloat16
        refused(ValueError, "expected the same", lambda: tilec.attention(
            q.double(), k, v))  # SDPA leaves float64 alone too


def same(device, text, name, values):
    q, k, v = inputs(device)
    want = tilec.attention(q, k, v, **text, **{name: values[0]})
    for value in values[1:]:
        got = tilec.attention(q, k, v, **text, **{name: value})
        assert torch.equal(got, want), (name, value.dtype)


def test_captured_types(device):
    starts = torch.tensor([0, 7, 15], dtype=torch.int32, device=device)
    same(device, dict(mask_mod="document"), "offsets",
         [starts, *[starts.to(t) for t in (torch.int64, torch.uint8,
                                           torch.int16)]])
    marked = torch.arange(40, device=device) % 7 == 2
    same(device, dict(mask_mod="causal | global_positions"), "is_global",
         [marked.to(torch.int8), marked, marked.to(torch.uint8)])
    seen = torch.ones(40, 40, device=device).tril()
    same(device, dict(mask_mod="tree_ancestors", prefix=0), "ancestors",
         [seen.to(torch.int8), seen.bool(), seen.bool().T.contiguous().T])
    slopes = torch.tensor([0.5, 0.25], device=device)
    same(device, dict(score_mod="alibi"), "slopes",
         [slopes, slopes.double(), slopes.half(), slopes.bfloat16()])
    q, k, v = inputs(device)
    refused(tilec.Error, "expected i32", lambda: tilec.attention(
        q, k, v, mask_mod="document", offsets=starts.float()))
    if device == "cpu":  # on a GPU an assertion there, which ends the process
        refused(ValueError, "captured offsets has 1099511627", lambda:
                tilec.attention(q, k, v, mask_mod="document",
                                offsets=starts.long() + (1 << 40)))


def test_gradients_of_captured_types(device):
    """Each gradient has the type and the shape of its tensor."""
    q, k, v = inputs(device)

    def of(bias, shape=None):
        return grads(lambda x: tilec.attention(
            q, k, v, score_mod="head_bias, alibi", bias=torch.zeros(
                2, device=device), slopes=x), bias)[0]

    want = of(torch.tensor([0.5, 0.25], device=device))
    for dtype, most in ((torch.float64, 1e-5), (torch.bfloat16, 1e-2)):
        got = of(torch.tensor([0.5, 0.25], dtype=dtype, device=device))
        assert got.dtype == dtype and near(got, want, most)


def test_rank_0(device):
    """A number to the mod, or the one element of a tensor."""
    q, k, v = inputs(device)

    def dense(by):
        s = (q.double() @ k.double().mT) / 32 ** 0.5 * by
        return s.softmax(-1) @ v.double()

    by = torch.tensor(0.7, device=device)
    want, = grads(dense, by)
    for text in (TIMES, TIMES_FIRST):
        def attend(x, text=text):
            return tilec.attention(q, k, v, score_mod=text, by=x)

        assert near(attend(by), dense(by))
        for x in (by, by.double()):
            got, = grads(attend, x)
            assert got.dtype == x.dtype and got.shape == ()
            assert near(got, want, 1e-4)
        compiled = torch.compile(attend, fullgraph=True, backend="aot_eager")
        assert near(grads(compiled, by)[0], want, 1e-4)
    same(device, dict(mask_mod="sliding_window"), "w",
         [torch.tensor([3])[0].item() * torch.ones((), dtype=torch.int32),
          torch.tensor(3, device=device), torch.tensor(3)])


def test_rank_0_in_a_graph(device):
    """A number cannot be read there; an element can."""
    if device == "cpu":
        return "skipped"
    q, k, v = inputs(device)
    by = torch.tensor(0.5, device=device)
    for text in (TIMES, TIMES_FIRST):
        tilec.attention(q, k, v, score_mod=text, by=by)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        refused(ValueError, "while a CUDA graph is captured", lambda:
                tilec.attention(q, k, v, score_mod=TIMES, by=by))
        got = tilec.attention(q, k, v, score_mod=TIMES_FIRST, by=by)
    for x in (0.5, 2.0):
        by.fill_(x)
        graph.replay()
        assert torch.equal(got, tilec.attention(q, k, v, score_mod=TIMES,
                                                by=x))


def test_integers_in_a_graph(device):
    """int64 is converted, and its range checked, without a wait."""
    if device == "cpu":
        return "skipped"
    q, k, v = inputs(device)
    starts = torch.tensor([0, 7, 15], device=device)

    def attend():
        return tilec.attention(q, k, v, mask_mod="document", offsets=starts)

    attend()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        got = attend()
    for first in (7, 3):
        starts[1] = first
        graph.replay()
        assert torch.equal(got, attend())


def test_numpy_captured(device):
    try:
        import numpy as np
    except ImportError:
        return "skipped"
    q, k, v = inputs(device)
    slopes = np.array([0.5, 0.25], "float32")

    def attend(x):
        return tilec.attention(q, k, v, score_mod="alibi", slopes=x)

    if device == "cuda":
        refused(ValueError, "slopes is a numpy array", lambda: attend(slopes))
        return None
    want = attend(torch.from_numpy(slopes))
    fixed = slopes.copy()
    fixed.flags.writeable = False
    for x in (slopes, slopes.astype("float64"), fixed,
              slopes[::-1].copy()[::-1]):
        assert torch.equal(attend(x), want)
    return None


# ---- Repeated calls ----


def both_ways(test):
    """Runs the test with and without the compiled extension."""
    def run(device):
        tilec.attention(*inputs(device))  # looks for it
        fast = _launch.fast
        for way in {fast, None}:
            _launch.fast = way
            _attention.forget()
            try:
                test(device)
            finally:
                _launch.fast = fast
                _attention.forget()
    run.__name__ = test.__name__
    return run


def dense(q, k, v, w=None, slopes=None):
    s = (q.double() @ k.double().mT) / q.shape[3] ** 0.5
    at = torch.arange(q.shape[2], device=q.device)[:, None]
    to = torch.arange(k.shape[2], device=q.device)[None]
    if slopes is not None:
        s = s + slopes.double()[:, None, None] * (to - at)
    if w is not None:
        s = s.masked_fill((to > at) | (at - to >= w), float("-inf"))
    return s.softmax(-1) @ v.double()


@both_ways
def test_repeated(device):
    """A call is like another only if its tensors are."""
    q, k, v = inputs(device)
    wide = torch.randn(1, 2, 40, 96, device=device)
    shifted = torch.randn(40 * 64 + 1, device=device)[1:].view(1, 2, 40, 32)
    others = [
        (q, k, v), (q[:, :, :39], k, v), (q, k[:, :, 1:], v[:, :, 1:]),
        wide.split(32, 3), (shifted, k, v), (q, shifted, shifted),
        [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)],
        (q[:, :1].expand(1, 2, 40, 32), k, v), (q.clone(), k.mT.contiguous().mT,
                                                v),
        (torch.nn.Parameter(q), k, v)]
    for _ in range(3):
        for t in others:
            with torch.no_grad():
                o, lse = tilec.attention(*t, return_lse=True)
            assert near(o, dense(*t), 1e-4)
            assert not o.requires_grad and lse.shape == o.shape[:3]
            assert tilec.attention(*t).requires_grad == any(
                x.requires_grad for x in t)
        half = [x.half() for x in (q, k, v)]
        assert near(tilec.attention(*half), dense(*half), 1e-2)
        assert tilec.attention(*half).dtype == torch.float16
        refused(ValueError, "head dims differ",
                lambda: tilec.attention(q[..., :16], k, v))


@both_ways
def test_repeated_captures(device):
    q, k, v = inputs(device)
    slopes = torch.tensor([0.5, 0.25], device=device)
    spread = torch.tensor([0.5, 9, 0.125, 9], device=device)[::2]
    for _ in range(3):
        for w in (3, 7, True, 40):
            for x in (slopes, spread, slopes.double(), slopes * 2, slopes.half()):
                got = tilec.attention(q, k, v, mask_mod="sliding_window & "
                                      "causal", score_mod="alibi", w=w,
                                      slopes=x)
                assert near(got, dense(q, k, v, int(w), x.float()), 1e-4)
        for scale, gqa in ((None, False), (0.5, True), (1, False)):
            got = tilec.attention(q, k, v, scale=scale, enable_gqa=gqa)
            by = (scale or 32 ** -0.5) * 32 ** 0.5
            assert near(got, dense(q * by, k, v), 1e-4)
        refused(ValueError, "slopes", lambda: tilec.attention(
            q, k, v, score_mod="alibi"))
        refused(ValueError, "64 bits", lambda: tilec.attention(
            q, k, v, mask_mod="sliding_window & causal", w=1 << 64))


@both_ways
def test_repeated_gradients(device):
    """With other inputs that require gradients, and other gradients of o."""
    slopes = torch.tensor([0.5, 0.25], device=device)
    for turn in range(3):
        t = [*inputs(device), slopes.clone()]
        for wanted in ((0,), (1, 2), (3,), (0, 1, 2, 3)):
            for dout in (torch.ones(1, device=device).expand(1, 2, 40, 32),
                         torch.randn(1, 40, 2, 32, device=device).mT.mT
                         .transpose(1, 2)):
                leaves = [x.detach().clone().requires_grad_(i in wanted)
                          for i, x in enumerate(t)]
                got = tilec.attention(*leaves[:3], score_mod="alibi",
                                      slopes=leaves[3])
                exact = dense(*leaves[:3], slopes=leaves[3])
                of = [leaves[i] for i in wanted]
                for x, y in zip(
                        torch.autograd.grad(got, of, dout),
                        torch.autograd.grad(exact, of, dout.double())):
                    assert x.dtype == y.dtype and near(x, y, 1e-3)
    q, k, v = (x.requires_grad_() for x in inputs(device))
    o = tilec.attention(q, k, v)
    with torch.no_grad():
        k += 1  # which backward would read
    refused(RuntimeError, "modified by an inplace operation",
            lambda: o.sum().backward())


@both_ways
def test_repeated_hooks(device):
    """Saved tensors that come back with other strides."""
    q, k, v = (x.requires_grad_() for x in inputs(device))

    def run():
        return torch.autograd.grad(
            tilec.attention(q, k, v).square().sum(), (q, k, v))

    want = run()
    with torch.autograd.graph.saved_tensors_hooks(
            lambda x: x, lambda x: x.mT.contiguous().mT):
        for x, y in zip(run(), want):
            assert near(x, y)


@both_ways
def test_repeated_modes(device):
    """What watches calls sees the operator, also of calls like earlier ones."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch._subclasses.fake_tensor import FakeTensorMode

    class Names(TorchDispatchMode):
        seen = ()

        def __torch_dispatch__(self, f, types, args=(), kwargs=None):
            self.seen += (str(f),)
            return f(*args, **(kwargs or {}))

    q, k, v = (x.requires_grad_() for x in inputs(device))
    want = tilec.attention(q, k, v)
    for _ in range(2):
        with Names() as names:
            got = tilec.attention(q, k, v)
            got.sum().backward()
        assert "tilec.attention.default" in names.seen
        assert "tilec.attention_backward.default" in names.seen
        assert torch.equal(got, want)
        with torch.inference_mode():
            got = tilec.attention(q, k, v)
            assert got.is_inference() and torch.equal(got, want)
        with FakeTensorMode() as mode:
            got = tilec.attention(*[mode.from_tensor(x) for x in (q, k, v)])
            assert got.shape == want.shape
        assert tilec.attention(q, k, v).requires_grad


@both_ways
def test_repeated_threads(device):
    q, k, v = inputs(device)
    want, wrong = {w: dense(q, k, v, w) for w in range(1, 9)}, []

    def work(w):
        for _ in range(50):
            got = tilec.attention(q, k, v, mask_mod="causal & sliding_window",
                                  w=w)
            if not near(got, want[w], 1e-4):
                wrong.append(w)

    threads = [threading.Thread(target=work, args=(w,)) for w in want]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@both_ways
def test_repeated_lengths(device):
    """Keys that grow: one prepared call serves all lengths of a plan."""
    torch.manual_seed(0)
    q = torch.randn(2, 2, 1, 16, device=device)
    pool = torch.randn(2, 2, 2, 60, 16, device=device)
    slopes = torch.tensor([0.01, 0.02], device=device)
    made, was = [], _prepared.Forward.__init__
    sought, seek = [], _prepared.for_lengths
    _prepared.Forward.__init__ = lambda *a: made.append(1) or was(*a)
    _prepared.for_lengths = lambda *a: sought.append(1) or seek(*a)
    try:
        for n in (*range(20, 50), 30, 20):
            for kv in (pool[:, :, :, :n], pool[:, :, :, :n].contiguous(),
                       pool.transpose(2, 3).contiguous()[:, :, 5:5 + n]
                       .transpose(2, 3)):
                got = tilec.attention(q, *kv, score_mod="alibi", slopes=slopes)
                assert near(got, dense(q, *kv, slopes=slopes))
    finally:
        _prepared.Forward.__init__, _prepared.for_lengths = was, seek
    assert _launch.fast is None or len(made) <= 4, len(made)
    assert len(sought) <= 8, len(sought)  # not for each length
    elsewhere = q.to("meta" if device == "cpu" else "cpu")
    for n in range(51, 54):  # lengths that are known, of another query
        refused(ValueError, "another device", lambda n=n: tilec.attention(
            elsewhere, *pool[:, :, :, :n], score_mod="alibi", slopes=slopes))
    assert _torch._growing((), q, *kv, ()) != _torch._growing(
        (), elsewhere, *kv, ())
    kv = pool[:, :, :, :41]  # known without gradients

    def ours(*t):
        return tilec.attention(*t, score_mod="alibi", slopes=slopes)

    for _ in range(2):
        for x, y in zip(grads(ours, q, *kv), grads(
                lambda *t: dense(*t, slopes=slopes), q, *kv)):
            assert near(x, y)


@both_ways
def test_repeated_kernels(device):
    scaled = tilec.kernel("""
kernel @scaled(%x: tensor<[?] x f32>, %by: f32, %y: tensor<[?] x f32>)
    grid(cdiv(size(%x, 0), 32)) {
  %v = load %x[program_id(0) * 32 +: 32] boundary(0)
  store %y[program_id(0) * 32 +: 32], %v * %by boundary(0)
}
""")
    x = torch.randn(2, 40, device=device)
    for by in (1.5, 2, True, 0.5):
        for rows in (x[0], x[1], x.mT.contiguous().mT[0], x[0, ::2], x[0, 1:]):
            y = torch.zeros_like(rows)
            before = y._version
            for give in (lambda: scaled(rows, by, y),
                         lambda: scaled(x=rows, y=y, by=by),
                         lambda: scaled(rows, y=y, by=by)):
                y.zero_()
                give()
                assert near(y, rows * by)
            assert y._version >= before + 6
    leaf = torch.zeros(40, device=device, requires_grad=True)
    refused(ValueError, "y requires grad", lambda: scaled(x[0], 1.5, leaf))
    with torch.no_grad():
        scaled(x[0], 1.5, leaf)
    refused(Exception, "", lambda: torch.vmap(lambda t: scaled(t, 1.5, t))(x))
    refused(ValueError, "", lambda: scaled(x[0], 1.5))
    refused(ValueError, "resolve_neg", lambda: scaled(
        torch.complex(x, x).conj().imag[0], 1.5, x[1]))


IMPORTS = """
import sys, torch
q = torch.randn(1, 2, 40, 32, device=%r, requires_grad=True)
(q + q).sum().backward()
before = set(sys.modules)
import tilec
tilec.attention(q, q, q, mask_mod="causal").sum().backward()
tilec.kernel("softmax")(q.detach()[0, 0], torch.empty_like(q[0, 0]))
print(*{name.partition(".")[0] for name in set(sys.modules) - before
        if name.startswith(("torch.", "sympy"))})
"""


def test_imports(device):
    """Calls import nothing of torch's that takes seconds (torch._dynamo)."""
    done = subprocess.run([sys.executable, "-c", IMPORTS % device],
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(
                              sys.path)}, capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, ""), (
        done.stdout + done.stderr)


# ---- What is refused, or not needed ----


def test_layouts(device):
    t = inputs(device)
    parts = [torch.randn(2, n, 8, device=device) for n in (3, 4)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, of a prototype
        nested = [torch.nested.nested_tensor(parts, layout=layout)
                  for layout in (torch.strided, torch.jagged)]
        sparse = torch.eye(40, device=device).to_sparse()
    softmax = tilec.kernel("softmax")
    for x in nested:
        refused(ValueError, "query is a nested tensor",
                lambda x=x: tilec.attention(x, x, x))
        refused(ValueError, "nested tensor", lambda x=x: softmax(x, x))
    refused(ValueError, "the layout torch.sparse_coo", lambda: tilec.attention(
        *t, mask_mod="document", offsets=sparse))
    refused(ValueError, "another device", lambda: tilec.attention(
        t[0], t[1].to("meta"), t[2]))
    refused(ValueError, "scale requires grad", lambda: tilec.attention(
        *t, scale=torch.ones((), requires_grad=True)))


def test_options_of_torch(device):
    """All the names that this torch has are taken, some with a warning."""
    t = inputs(device)
    want = tilec.attention(*t, mask_mod="causal")
    try:
        from torch.nn.attention.flex_attention import FlexKernelOptions
        names = set(FlexKernelOptions.__annotations__)
    except ImportError:  # before 2.9
        names = {"BLOCK_M", "BACKEND", "USE_TMA"}
    values = dict(num_warps=4, num_stages=2, BACKEND="AUTO", kpack=2,
                  matrix_instr_nonkdim=16, waves_per_eu=2)
    for name in sorted(names):
        value = values.get(name, 64 if name.startswith("BLOCK_") else True)
        for prefix in ("", "fwd_", "bwd_"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                got = tilec.attention(*t, mask_mod="causal", kernel_options={
                    prefix + name: value})
            assert near(got, want), prefix + name
    compiled = torch.compile(lambda x: tilec.attention(
        x, *t[1:], mask_mod="causal", kernel_options={"WRITE_DQ": False}),
        fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(t[0]), want)


TESTS = [f for name, f in sorted(globals().items())
         if name.startswith("test_")]


def main():
    args = torch_cases.parse(torch_cases.parser(__doc__))
    torch_cases.run([(f.__name__, lambda f=f: f(args.device))
                     for f in TESTS], args)


if __name__ == "__main__":
    main()
