# SPDX-License-Identifier: Apache-2.0
"""flex_attention in torch.compile: torch's own by the backend "tilec" and the
pass of inductor, ours by any backend.

    flex_compiled.py --all | [PART OF A NAME]..

With --all inductor itself runs too, if there is a C++ compiler.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings

# What inductor has cached needs no pass.
os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"

import flex_reference as reference
import flex_zoo
import torch
import torch._dynamo.testing
from torch.nn.attention import flex_attention as torchs

from tilec import flex_attention as ours
from tilec.flex_attention import _backend, _operator
from tilec.integrations import inductor

B, H, N, D = 2, 4, 160, 32
CALLS = []


def counted(f):
    """Into how many graphs the operator is put."""
    def replace(*args):
        found = f(*args)
        CALLS.extend([1] * found)
        return found
    return replace


def inputs(n=N):
    torch.manual_seed(0)
    return [torch.randn(B, H, n, D) for _ in range(3)]


def backend(f, rest="aot_eager", **options):
    torch._dynamo.reset()
    CALLS.clear()
    return torch.compile(f, backend="tilec", fullgraph=True,
                         options={"rest": rest}, **options)


def near(got, want, most=2e-6):
    assert reference.error(got, want) < most, reference.error(got, want)


SLOPES, LENS, W = torch.rand(H), torch.tensor([100, N]), 40


def score(s, b, h, q, k):
    return torch.tanh((s + SLOPES[h] * (k - q)) / 20) * 20


def mask(b, h, q, k):
    return (q >= k) & (q - k < W) & (k < LENS[b])


def test_torchs_own_code():
    q, k, v = inputs()
    block_mask = torchs.create_block_mask(mask, B, None, N, N, device="cpu")
    want, lse, _ = reference.attention(q, k, v, score, block_mask)
    got, got_lse = backend(torchs.flex_attention)(
        q, k, v, score, block_mask, return_lse=True)
    assert len(CALLS) == 1
    near(got, want)
    some = lse > -1e29
    near(got_lse[some], lse[some])


def test_zoo():
    """A few that differ in what they capture."""
    q, k, v = inputs(192)
    for name in ("documents", "shared_prefix", "selected_tiles", "tree"):
        n = 56 if name == "tree" else 192
        mod, _ = flex_zoo.MASKS[name]((B, H, n, 192), "cpu")
        block_mask = torchs.create_block_mask(mod, B, H, n, 192, device="cpu")
        got = backend(torchs.flex_attention)(q[:, :, :n], k, v,
                                             block_mask=block_mask)
        near(got, reference.attention(q[:, :, :n], k, v, None, block_mask)[0])


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.bias = torch.nn.Parameter(torch.randn(H, 2 * N) * 0.1)
        self.p = torch.nn.Linear(D, D)
        self.block_mask = torchs.create_block_mask(mask, B, None, N, N,
                                                   device="cpu")

    def mod(self):
        return lambda s, b, h, q, k: s + self.bias[h, q - k + N]

    def forward(self, x):
        return ours.flex_attention(self.p(x), x, x, self.mod(),
                                   self.block_mask)

    def true(self, x):
        return reference.attention(self.p(x), x, x, self.mod(),
                                   self.block_mask)[0]


def trains(compiled, model):
    x, seed = inputs()[0], inputs()[1]
    (compiled(x) * seed).sum().backward()
    got = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    (model.true(x) * seed).sum().backward()
    for x, p in zip(got, model.parameters()):
        near(x, p.grad, 5e-6)
    assert len(CALLS) == 1, CALLS


def test_training():
    model = Model()
    trains(backend(model), model)


def test_strides():
    """Dims of results and gradients are in memory in the order of the inputs':
    nothing that follows copies them."""
    def order(x):
        return sorted(range(4), key=lambda i: (-x.stride(i), i))

    def layer(q, k, v):
        return ours.flex_attention(q, k, v, score)
    for f in (layer, backend(layer)):
        for dims in ((0, 1, 2, 3), (0, 2, 1, 3), (1, 0, 2, 3), (2, 0, 1, 3)):
            back = sorted(range(4), key=dims.__getitem__)
            shape = [(B, H, 48, D)[i] for i in dims]
            given = [torch.randn(shape, requires_grad=True).permute(back)
                     for _ in range(3)]
            o = f(*given)
            for x in (o, *torch.autograd.grad(o, given, torch.randn_like(o))):
                assert order(x) == order(given[0]), (dims, x.stride())


def long_training_with_inductor():
    if not _backend._can_compile(torch.device("cpu")):
        return
    model = Model()
    trains(backend(model, "inductor"), model)
    torch._dynamo.reset()
    CALLS.clear()
    model.zero_grad()
    trains(torch.compile(model, fullgraph=True), model)


def long_pass_of_inductor():
    """torch's own operator, once enabled."""
    if not _backend._can_compile(torch.device("cpu")):
        return
    q, k, v = inputs()
    inductor.enable()
    CALLS.clear()
    got = torch.compile(torchs.flex_attention, fullgraph=True)(q, k, v, score)
    assert len(CALLS) == 1
    near(got, reference.attention(q, k, v, score)[0])
    inductor.enable(False)


def test_numbers_and_lengths_may_change():
    def f(q, k, v, by):
        return torchs.flex_attention(
            q, k, v, lambda s, b, h, i, j: s * by + SLOPES[h] * (j - i))
    compiled = backend(f, dynamic=True)
    for n, by in ((160, 2), (120, 5), (96, 3), (200, 7)):
        q, k, v = inputs(n)
        near(compiled(q, k, v, by), reference.attention(
            q, k, v, lambda s, b, h, i, j: s * by + SLOPES[h] * (j - i))[0])


def test_grouped_heads_and_autocast():
    q, k, v = inputs()
    f = backend(torchs.flex_attention)
    near(f(q, k[:, :2], v[:, :2], score, enable_gqa=True),
         reference.attention(q, k[:, :2], v[:, :2], score)[0])
    with torch.autocast("cpu", torch.bfloat16):
        got = f(q, k, v, score)
    assert got.dtype == torch.bfloat16
    near(got, reference.attention(q, k, v, score)[0], 2e-2)


def test_long_lists():
    """The lists of kernels are those of the BlockMask."""
    ids = torch.arange(2100) // 300 * 3 % 7
    block_mask = torchs.create_block_mask(
        lambda b, h, q, k: ids[q] == ids[k], None, None, 520, 2100,
        device="cpu")
    q, k, v = [torch.randn(1, 1, n, 16) for n in (520, 2100, 2100)]
    got = backend(torchs.flex_attention)(q, k, v, block_mask=block_mask)
    near(got, reference.attention(q, k, v, None, block_mask)[0])


def test_several_in_a_graph():
    q, k, v = inputs()

    def f(q, k, v):
        x = torchs.flex_attention(q, k, v, score)
        return torchs.flex_attention(x, k, v) + torchs.flex_attention(
            q, x, v, score)
    got = backend(f)(q, k, v)
    assert len(CALLS) == 1  # one graph
    x = reference.attention(q, k, v, score)[0]
    near(got, reference.attention(x, k, v)[0] +
         reference.attention(q, x, v, score)[0])


def test_batches_of_a_mask_may_change():
    """One graph for all batches above 1, though the BlockMask has as many."""
    frames = torch._dynamo.testing.CompileCounterWithBackend("tilec")
    torch._dynamo.reset()
    f = torch.compile(torchs.flex_attention, backend=frames, dynamic=True,
                      fullgraph=True)
    for n in (3, 5, 6):
        q, k, v = [torch.randn(n, 2, 128, 16) for _ in range(3)]
        seen = torch.rand(n, 128) < 0.5
        block_mask = torchs.create_block_mask(
            lambda b, h, q, k: seen[b, k] | (q == k), n, None, 128, 128,
            device="cpu")
        near(f(q, k, v, block_mask=block_mask),
             reference.attention(q, k, v, None, block_mask)[0])
    assert frames.frame_count == 1, frames.frame_count


def test_options_that_dynamo_takes_for_symbols():
    q, k, v = inputs()
    torch._dynamo.reset()
    f = torch.compile(torchs.flex_attention, backend="tilec", dynamic=True,
                      fullgraph=True, options={"rest": "aot_eager"})
    want = reference.attention(q, k, v)[0]
    for n in (16, 48):
        near(f(q, k, v, kernel_options={"BLOCK_M": n, "BLOCK_N": n}), want)


def test_refusals_of_ours():
    """What is compiled is checked as what is not."""
    q, k, v = inputs()
    block_mask = ours.create_block_mask(mask, B, None, N, N, device="cpu")
    f = torch.compile(ours.flex_attention, backend="eager")
    torch._dynamo.reset()
    for bad, said in (((q[:, :, 1:], k, v), "block_mask was created for"),
                      ((q, k[:, :2], v[:, :2]), "number of heads")):
        try:
            f(*bad, block_mask=block_mask)
            raise AssertionError("not refused")
        except ValueError as e:
            assert said in str(e), e


def test_ours_with_other_backends():
    """Without the pass the operator stays torch's, which runs on the CPU."""
    q, k, v = inputs()
    torch._dynamo.reset()
    f = torch.compile(ours.flex_attention, backend="eager", fullgraph=True)
    o, aux = f(q, k, v, score, return_aux=ours.AuxRequest(lse=True))
    want, lse, _ = reference.attention(q, k, v, score)
    near(o, want)
    near(aux.lse, lse)


def test_unknown_operator():
    def bad(s, b, h, q, k):
        m = torch.stack([torch.stack([s, s + 1]), torch.stack([s + 1, s])])
        return torch.linalg.inv(m)[0, 0]
    try:
        backend(torchs.flex_attention)(*inputs(), bad)
        raise AssertionError("not refused")
    except Exception as e:
        assert "linalg_inv" in str(e), e


ROOT = pathlib.Path(__file__).resolve().parents[2]

IMPORTS = """
import sys, torch
import torch._dynamo, torch.nn.attention.flex_attention
known = set(sys.modules)
import tilec.flex_attention
print(*[m for m in sys.modules if m not in known and
        m.startswith(("torch.", "functorch", "networkx"))])
"""

INSTALLED = """
import torch
%s
from torch.nn.attention.flex_attention import flex_attention
f = torch.compile(flex_attention, backend="tilec", fullgraph=True,
                  options={"rest": "aot_eager"})
q = k = v = torch.randn(1, 2, 40, 32)
want = flex_attention(q, k, v)
assert (f(q, k, v) - want).abs().max() < 1e-5
import tilec
assert tilec._attention.ready and "tilec" in torch._dynamo.list_backends()
"""


def run_alone(code, *folders):
    """What a process of its own prints."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True,
        text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(
            [*folders, *sys.path])})
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


def test_imports():
    """Beyond dynamo nothing of torch's is imported: a second of modules."""
    found = run_alone(IMPORTS)
    assert not found, found


def test_installed():
    """The entry point of pyproject.toml, with and without our own import."""
    line, = re.findall(r"(?m)^tilec = .*$",
                       (ROOT / "pyproject.toml").read_text())
    with tempfile.TemporaryDirectory() as folder:
        info = pathlib.Path(folder) / "tilec-0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Name: tilec\nVersion: 0\n")
        (info / "entry_points.txt").write_text(
            "[torch_dynamo_backends]\n%s\n" % line.replace('"', ""))
        for before in ("", "import tilec.flex_attention"):
            run_alone(INSTALLED % before, folder)


def main():
    warnings.simplefilter("ignore")
    _operator.replace = counted(_operator.replace)
    wanted = sys.argv[1:]
    kinds = ("test_", "long_") if wanted else ("test_",)
    for name, f in list(globals().items()):
        if name.startswith(kinds) and (
                wanted in ([], ["--all"]) or any(a in name for a in wanted)):
            print(name, flush=True)
            f()
    print("passed")


main()
