# SPDX-License-Identifier: Apache-2.0
"""flex_attention in torch.export, FakeTensorMode, on meta tensors, and under
torch.func: Python mods are traced outside of what watches them.

    flex_transforms.py [PART OF A NAME]..
"""
import io
import sys
import warnings

import flex_reference as reference
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import tilec
from tilec.flex_attention import create_block_mask, flex_attention
from tilec.integrations import export

B, H, N, D = 2, 2, 40, 32
torch.manual_seed(0)
Q, K, V = (torch.randn(B, H, N, D) for _ in range(3))
SLOPES = torch.rand(H)


def near(got, want, most=1e-6):
    assert reference.error(got, want) < most, reference.error(got, want)


def sloped(q, slopes, k=K, v=V):
    def score(s, b, h, i, j):
        return s + slopes[h] * (j - i)
    return flex_attention(q, k, v, score_mod=score)


def causal(b, h, i, j):
    return i >= j


def masked(q):
    """The mask is made inside of what is transformed."""
    n = q.shape[2]
    return flex_attention(q, q, q, block_mask=create_block_mask(
        causal, None, None, n, n, device=q.device))


def gradients(f, *args):
    leaves = [x.detach().clone().requires_grad_() for x in args]
    return torch.autograd.grad(f(*leaves).square().sum(), leaves)


def test_grad():
    for f, args in ((sloped, (Q, SLOPES)), (masked, (Q,))):
        got = torch.func.grad(lambda *x: f(*x).square().sum(),
                              tuple(range(len(args))))(*args)
        for x, y in zip(got, gradients(f, *args)):
            near(x, y)


def test_jacobians():
    """vjp and jacrev of a mod's tensor are the gradients of its sums."""
    def f(s):
        return sloped(Q, s).square().sum((0, 2, 3))
    found, pull = torch.func.vjp(f, SLOPES)
    want, = torch.autograd.grad(f(x := SLOPES.clone().requires_grad_()).sum(),
                                x)
    near(pull(torch.ones_like(found))[0], want)
    near(torch.func.jacrev(f)(SLOPES).sum(0), want)


def test_vmap():
    q, slopes = torch.randn(3, B, H, N, D), torch.rand(3, H)
    near(torch.vmap(masked)(q), torch.stack([masked(x) for x in q]))
    near(torch.vmap(sloped)(q, slopes),
         torch.stack([sloped(x, s) for x, s in zip(q, slopes)]))
    got = torch.vmap(torch.func.grad(lambda x, s: sloped(x, s).square().sum(),
                                     1))(q, slopes)
    near(got, torch.stack([gradients(sloped, x, s)[1]
                           for x, s in zip(q, slopes)]))


def test_without_data():
    q, slopes = Q.to("meta").requires_grad_(), SLOPES.to("meta")
    o = sloped(q, slopes, K.to("meta"), V.to("meta"))
    assert (o.is_meta, o.shape, masked(q).shape) == (True, q.shape, q.shape)
    with FakeTensorMode() as mode:
        q = mode.from_tensor(Q).requires_grad_()
        masked(q).sum().backward()
        assert q.grad.shape == Q.shape


class Layer(torch.nn.Module):
    """Mods that read attributes, a parameter and a buffer among them."""

    def __init__(self, mask=None):
        super().__init__()
        self.slopes = torch.nn.Parameter(torch.rand(H))
        self.register_buffer("lens", torch.tensor([7, 30]))
        self.width, self.mask = 7, mask
        self.out = torch.nn.Linear(D, D)

    def forward(self, q):
        def score(s, b, h, i, j):
            return s + self.slopes[h] * (i - j)

        def window(b, h, i, j):
            return (i >= j) & (i - j < self.width) & (j < self.lens[b])

        mask = self.mask or create_block_mask(
            window, B, None, q.shape[2], q.shape[2], device=q.device)
        return self.out(flex_attention(q, q, q, score, mask))


def exported(layer, *args, **options):
    """The ExportedProgram, in which attention is one operator."""
    program = torch.export.export(layer, args, **options)
    names = [str(n.target) for n in program.graph.nodes]
    assert names.count("tilec.attention.default") == 1, names
    assert not any("flex" in n for n in names), names
    near(program.module()(*args), layer(*args))
    return program


def test_export():
    layer = Layer()
    exported(layer, Q)
    n = torch.export.Dim("n", min=2, max=4096)
    program = exported(layer, Q, dynamic_shapes=({2: n},))
    longer = torch.randn(B, H, 77, D)
    near(program.module()(longer), layer(longer))
    outside = create_block_mask(causal, None, None, N, N, device="cpu")
    exported(Layer(outside), Q)


def test_strict_export():
    """torch's operator stays, and runs; replaced, the program can be saved."""
    layer = Layer(create_block_mask(causal, None, None, N, N, device="cpu"))
    program = torch.export.export(layer, (Q,), strict=True)
    near(program.module()(Q), layer(Q))
    program = export.replace(program)
    names = [str(n.target) for n in program.graph.nodes]
    assert names.count("tilec.attention.default") == 1, names
    assert "flex_attention" not in names, names
    saved = io.BytesIO()
    torch.export.save(program, saved)
    near(torch.export.load(saved).module()(Q), layer(Q))


class Texts(torch.nn.Module):
    def forward(self, q, slopes):
        return tilec.attention(q, q, q, mask_mod="sliding_window", w=7,
                               score_mod="alibi", slopes=slopes)


def test_export_of_texts():
    exported(Texts(), Q, SLOPES)
    exported(Texts(), Q, SLOPES, strict=True)


def test_autocast():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = sloped(Q, SLOPES)
    assert got.dtype == torch.bfloat16
    near(got, sloped(*[x.bfloat16() if x.ndim == 4 else x
                       for x in (Q, SLOPES, K, V)]), 1e-9)


def refused(text, f):
    try:
        f()
    except (ValueError, RuntimeError) as e:
        assert text in str(e), e
        return
    raise AssertionError("not refused: " + text)


def test_what_has_no_derivative():
    """Of Python mods and of their tensors, as of texts."""
    q = Q.clone().requires_grad_()
    slopes = SLOPES.clone().requires_grad_()
    for x in (q, slopes):
        grad, = torch.autograd.grad(sloped(q, slopes).square().sum(), x,
                                    create_graph=True)
        refused("no second derivative", grad.sum().backward)
    none = "no forward-mode derivative"
    for f, x in ((masked, Q), (lambda q: sloped(q, SLOPES), Q),
                 (lambda s: sloped(Q, s), SLOPES)):
        refused(none, lambda: torch.func.jvp(f, (x,), (x,)))


def test_nested():
    parts = [torch.randn(H, n, D) for n in (5, 9)]
    for layout in (torch.strided, torch.jagged):
        q = torch.nested.nested_tensor(
            [x.transpose(0, 1) for x in parts] if layout is torch.jagged
            else parts, layout=layout)
        refused("nested tensor", lambda: flex_attention(q, q, q))


def main():
    warnings.simplefilter("ignore")
    for name, f in list(globals().items()):
        if name.startswith("test_") and all(
                a in name for a in sys.argv[1:]):
            print(name, flush=True)
            f()
    print("passed")


main()
