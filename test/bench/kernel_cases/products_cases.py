# SPDX-License-Identifier: Apache-2.0
"""Cases of products: matrices, linear layers, groups, experts, convolution."""
import torch
import torch.nn.functional as F
from case import (DEVICE, Case, randn, tilec_kernel, torch_function,
                  triton_function)


class Product(Case):
    """size: rows, columns, depth. tiles: (warps, bindings) of tilec's kernel,
    the first one in the row, the others with --variants."""

    bindings = {}

    def __init__(self, *size, tiles):
        self.size, self.tiles = size, tiles
        self.label = "%s_%s" % (self.word, "x".join(map(str, size)))
        self.flops, self.bytes = self.work()

    def work(self):
        m, n, k = self.size
        return 2 * m * n * k, 2 * (m * k + m * n) + n * k * self.weight

    weight = 2  # bytes of an element of w

    def tilec(self, warps, bindings):
        return tilec_kernel(self.text, self.name, self.arguments,
                            lambda s: (s["y"],), warps,
                            **dict(self.bindings, **bindings))

    def variants(self):
        return {"w%d %s" % t: self.tilec(*t) for t in self.tiles[1:]}

    def contenders(self):
        found = {"tilec": self.tilec(*self.tiles[0]),
                 "triton": triton_function("products_triton", self.word)}
        if hasattr(self, "torch"):
            found["torch"] = torch_function(self.torch)
            found["compiled"] = torch_function(self.torch, compiled=True)
        return found

    def x_and_y(self):
        m, n, k = self.size
        return dict(x=randn(m, k), y=randn(m, n))


class Matmul(Product):
    word, text, name = "matmul", "matmul", "matmul"

    def inputs(self):
        _, n, k = self.size
        return dict(self.x_and_y(), w=randn(k, n))

    def arguments(self, s):
        return [s["x"], s["w"], s["y"]]

    def torch(self, s):
        return (torch.mm(s["x"], s["w"]),)

    def reference(self, s):
        return (s["x"].float() @ s["w"].float(),)


class BatchedMatmul(Matmul):
    """size: matrices, rows, columns, depth."""

    word = text = name = "batched_matmul"

    def work(self):
        b, m, n, k = self.size
        return 2 * b * m * n * k, 2 * b * (m * k + m * n + n * k)

    def inputs(self):
        b, m, n, k = self.size
        return dict(x=randn(b, m, k), w=randn(b, k, n), y=randn(b, m, n))

    def torch(self, s):
        return (torch.bmm(s["x"], s["w"]),)

    def contenders(self):
        return {"tilec": self.tilec(*self.tiles[0]),
                "torch": torch_function(self.torch)}


class HalfSums(Matmul):
    """f16 with sums in f16, and in f32 (`wide`)."""

    word, bindings = "f16_sums", dict(TS="f16")

    def inputs(self):
        m, n, k = self.size
        f16 = torch.float16
        return dict(x=randn(m, k).to(f16) / k ** 0.5, w=randn(k, n).to(f16),
                    y=randn(m, n).to(f16))

    def by_torch(self, half):
        def product(s):
            torch.backends.cuda.matmul.allow_fp16_accumulation = half
            return self.torch(s)
        return torch_function(product)

    def contenders(self):
        warps, tile = self.tiles[0]
        return {"tilec": self.tilec(warps, tile),
                "wide": self.tilec(warps, dict(tile, TS="f32")),
                "torch": self.by_torch(True),
                "torch_wide": self.by_torch(False)}


class Linear(Product):
    word, text, name = "linear", "linear", "linear"
    bindings = dict(RESIDUAL=1, act="@gelu")

    def inputs(self):
        m, n, k = self.size
        return dict(self.x_and_y(), w=randn(n, k) / k ** 0.5, bias=randn(n),
                    residual=randn(m, n))

    def arguments(self, s):
        return [s[name] for name in ("x", "w", "bias", "residual", "y")]

    def torch(self, s):
        return (F.gelu(F.linear(s["x"], s["w"], s["bias"])) + s["residual"],)

    def reference(self, s):
        return self.torch({name: t.float() for name, t in s.items()})


class Swiglu(Product):
    word, text, name = "swiglu", "swiglu", "swiglu"

    def work(self):
        m, n, k = self.size
        return 4 * m * n * k, 2 * (m * k + m * n + 2 * n * k)

    def inputs(self):
        _, n, k = self.size
        return dict(self.x_and_y(), gate=randn(k, n) / k ** 0.5,
                    up=randn(k, n) / k ** 0.5)

    def arguments(self, s):
        return [s[name] for name in ("x", "gate", "up", "y")]

    def torch(self, s):
        return (F.silu(s["x"] @ s["gate"]) * (s["x"] @ s["up"]),)

    def reference(self, s):
        return self.torch({name: t.float() for name, t in s.items()})


class LinearW8(Product):
    word, text, name, weight = "linear_w8", "linear", "linear_w8", 1

    def inputs(self):
        _, n, k = self.size
        w = torch.randint(-128, 128, (n, k), device=DEVICE, dtype=torch.int8)
        return dict(self.x_and_y(), w=w, wide=w.to(torch.bfloat16),
                    factors=torch.rand(n, device=DEVICE) / 64)

    def arguments(self, s):
        return [s[name] for name in ("x", "w", "factors", "y")]

    def torch(self, s):
        return ((s["x"] @ s["w"].to(s["x"].dtype).T * s["factors"]).to(
            s["x"].dtype),)

    def reference(self, s):
        return (s["x"].float() @ s["w"].float().T * s["factors"],)


class LinearW4(Product):
    word, text, name, weight = "linear_w4", "linear", "linear_w4", 0.5

    def inputs(self):
        _, n, k = self.size
        q = torch.randint(0, 16, (n, k // 128, 2, 64), device=DEVICE,
                          dtype=torch.int32)
        packed = (q[:, :, 0] | q[:, :, 1] << 4).to(torch.uint8)
        factors = (torch.rand(k // 128, n, device=DEVICE) / 8)
        return dict(self.x_and_y(), q=(q - 8).reshape(n, k).to(torch.int8),
                    w=packed.reshape(n, k // 2).view(torch.int8),
                    factors=factors.to(torch.bfloat16))

    def arguments(self, s):
        return [s[name] for name in ("x", "w", "factors", "y")]

    def torch(self, s):
        n, half = s["w"].shape
        bytes_ = s["w"].view(torch.uint8).view(n, half // 64, 1, 64)
        q = torch.cat((bytes_ & 15, bytes_ >> 4), 2).to(s["x"].dtype) - 8
        w = q.view(n, half // 64, 128) * s["factors"].T[..., None]
        return (s["x"] @ w.view(n, 2 * half).T,)

    def reference(self, s):
        f = s["factors"].float().T.repeat_interleave(128, 1)
        return (s["x"].float() @ (s["q"].float() * f).T,)


class LinearFp8(Product):
    word, text, name, weight = "linear_fp8", "linear", "linear_fp8", 1
    bindings = dict(TY="bf16")

    def inputs(self):
        m, n, k = self.size
        e4m3 = torch.float8_e4m3fn
        return dict(x=randn(m, k, dtype=e4m3), w=randn(n, k, dtype=e4m3),
                    x_factors=torch.rand(k // 128, m, device=DEVICE),
                    w_factors=torch.rand(n // 128, k // 128, device=DEVICE),
                    y=randn(m, n))

    def arguments(self, s):
        return [s[name] for name in
                ("x", "x_factors", "w", "w_factors", "y")]

    def reference(self, s):
        f = s["x_factors"].T.repeat_interleave(128, 1)
        g = s["w_factors"].repeat_interleave(128, 0).repeat_interleave(128, 1)
        return ((s["x"].float() * f) @ (s["w"].float() * g).T,)


class LinearInt8(LinearW8):
    """torch multiplies in ints, then scales; `int_mm` is the product alone."""

    word, name, weight = "linear_int8", "linear_int8", 1
    bindings = dict(TY="bf16")

    def inputs(self):
        m, n, k = self.size
        x, w = (torch.randint(-128, 128, (side, k), device=DEVICE,
                              dtype=torch.int8) for side in (m, n))
        return dict(x=x, w=w, x_factors=torch.rand(m, device=DEVICE),
                    w_factors=torch.rand(n, device=DEVICE), y=randn(m, n))

    def arguments(self, s):
        return [s[name] for name in
                ("x", "x_factors", "w", "w_factors", "y")]

    def torch(self, s):
        y = torch._int_mm(s["x"], s["w"].T).float()
        return ((y * s["x_factors"][:, None] * s["w_factors"]).bfloat16(),)

    def reference(self, s):
        x, w = (s[n].float() * s[n + "_factors"][:, None] for n in "xw")
        return (x @ w.T,)

    def contenders(self):
        def int_mm(s):
            self.product = torch._int_mm(s["x"], s["w"].T)
            return ()
        return {"tilec": self.tilec(*self.tiles[0]),
                "torch": torch_function(self.torch),
                "compiled": torch_function(self.torch, compiled=True),
                "int_mm": torch_function(int_mm)}


class Grouped(Product):
    """size: rows, columns, depth, groups of random sizes."""

    word, text, name = "grouped", "grouped", "grouped"

    def work(self):
        m, n, k, g = self.size
        return 2 * m * n * k, 2 * (m * k + m * n + g * n * k)

    def inputs(self):
        m, n, k, g = self.size
        cuts = torch.randperm(m, generator=torch.Generator().manual_seed(1))
        starts = [0, *sorted(cuts[:g - 1].tolist()), m]
        starts = torch.tensor(starts, device=DEVICE, dtype=torch.int32)
        return dict(x=randn(m, k), y=randn(m, n), w=randn(g, n, k) / k ** 0.5,
                    starts=starts, ends=starts[1:].contiguous())

    def arguments(self, s):
        return [s[name] for name in ("x", "w", "starts", "y")]

    def torch(self, s):
        return (torch._grouped_mm(s["x"], s["w"].transpose(1, 2),
                                  offs=s["ends"]),)

    def reference(self, s):
        ends = s["starts"].tolist()
        return (torch.cat([s["x"][a:b].float() @ s["w"][i].float().T for
                           i, (a, b) in enumerate(zip(ends, ends[1:]))]),)


class ExpertUp(Product):
    """size: tokens, columns, depth, experts; each token chooses two."""

    word, text, name = "expert_up", "experts", "expert_up"
    BLOCK = 128

    def work(self):
        m, n, k, g = self.size
        return 4 * m * n * k, 2 * (m * k + 2 * m * n + g * n * k)

    def inputs(self):
        m, n, k, g = self.size
        chosen = torch.rand(m, g, device=DEVICE).topk(2).indices.flatten()
        pairs, experts = [], []
        for e in range(g):
            own = (chosen == e).nonzero().flatten().int()
            more = -len(own) % self.BLOCK
            pairs.append(F.pad(own, (0, more), value=-1))
            experts += [e] * ((len(own) + more) // self.BLOCK)
        blocks = 2 * m // self.BLOCK + g
        pairs = torch.cat(pairs)
        pairs = F.pad(pairs, (0, blocks * self.BLOCK - len(pairs)), value=-1)
        experts += [-1] * (blocks - len(experts))
        experts = torch.tensor(experts, device=DEVICE, dtype=torch.int32)
        ends = self.BLOCK * (experts[None] == torch.arange(
            g, device=DEVICE)[:, None]).sum(1).cumsum(0).int()
        ends[-1] = len(pairs)
        x = randn(m + 1, k)
        x[m] = 0  # torch: the row of -1
        return dict(x=x[:m], w=randn(g, n, k) / k ** 0.5, pairs=pairs,
                    experts=experts, top=2, padded=x, ends=ends,
                    rows=torch.where(pairs < 0, m, pairs // 2),
                    y=torch.zeros(len(pairs), n, device=DEVICE,
                                  dtype=torch.bfloat16))

    def arguments(self, s):
        return [s[name] for name in
                ("x", "top", "pairs", "experts", "w", "y")]

    def torch(self, s):
        h = torch._grouped_mm(s["padded"][s["rows"]], s["w"].transpose(1, 2),
                              offs=s["ends"])
        return (F.silu(h),)

    def reference(self, s):
        y = torch.zeros_like(s["y"], dtype=torch.float32)
        for i, e in enumerate(s["experts"].tolist()):
            own = slice(self.BLOCK * i, self.BLOCK * (i + 1))
            on = (s["pairs"][own] >= 0)[:, None]
            x = s["x"][s["pairs"][own].clamp(min=0) // 2].float() * on
            y[own] = F.silu(x @ s["w"][max(e, 0)].float().T)
        return (y,)


class Conv2d(Product):
    """size: images, height, width, channels in and out."""

    word, text, name = "conv2d", "conv2d", "conv2d"

    def work(self):
        b, h, w, ci, co = self.size
        return 18 * b * h * w * ci * co, \
            2 * (b * h * w * (ci + co) + 9 * ci * co)

    def inputs(self):
        b, h, w, ci, co = self.size
        torch.backends.cudnn.benchmark = True
        weights = randn(3, 3, ci, co) / (9 * ci) ** 0.5
        return dict(x=randn(b, h, w, ci), w=weights, y=randn(b, h, w, co),
                    wt=weights.permute(3, 2, 0, 1).contiguous(
                        memory_format=torch.channels_last))

    def arguments(self, s):
        return [s["x"], s["w"], s["y"]]

    def torch(self, s):
        x = s["x"].permute(0, 3, 1, 2)
        return (F.conv2d(x, s["wt"], padding=1).permute(0, 2, 3, 1),)

    def reference(self, s):
        return self.torch({name: t.float() for name, t in s.items()})


def tiles(*choices):
    """(warps, BM, BN, BK)"""
    return [(w, dict(BM=m, BN=n, BK=k)) for w, m, n, k in choices]


WIDE = tiles((8, 128, 192, 64), (8, 128, 128, 64), (8, 128, 256, 64))
BIG = tiles((8, 128, 256, 64), (8, 128, 128, 64), (12, 192, 160, 64))
INTS = tiles((8, 128, 256, 128), (8, 128, 128, 128), (8, 256, 128, 128))
MEDIUM = tiles((8, 128, 128, 64), (8, 128, 256, 64))
TURNED = tiles((8, 256, 128, 64), (8, 128, 256, 64), (8, 128, 128, 64))
PAIRS = tiles((8, 128, 128, 64), (8, 128, 96, 64), (8, 128, 64, 64))
# More slots than the compiler gives steps of few bytes.
DEEP = [(w, dict(b, stages=8)) for w, b in
        tiles((4, 128, 64, 64), (8, 128, 64, 64))]
SPLIT = {"kernel.split": "auto"}
FEW = [(w, dict(b, **s)) for s in (dict(stages=4), {}, SPLIT) for w, b in tiles(
    (4, 16, 64, 256), (4, 16, 64, 128), (4, 16, 128, 128))]
W4 = [(w, dict(BM=m, BN=n)) for w, m, n in
      ((8, 256, 128), (8, 128, 256), (8, 128, 128))]
W4_FEW = [(4, dict(BM=16, BN=n, **s)) for s in (SPLIT, {}) for n in (64, 128)]
PIXELS = [(8, dict(BB=b, BH=h, BW=w, BN=n)) for b, h, w, n in
          ((2, 8, 8, 256), (8, 4, 4, 128), (8, 4, 4, 256), (2, 8, 8, 128))]

CASES = [
    Matmul(2048, 2048, 2048, tiles=tiles(
        (8, 128, 128, 64), (8, 128, 256, 64), (8, 128, 192, 64))),
    Matmul(4096, 4096, 4096, tiles=BIG), Matmul(8192, 8192, 8192, tiles=BIG),
    Matmul(16, 4096, 4096, tiles=tiles(
        (4, 16, 32, 256), (4, 16, 32, 128), (4, 16, 64, 128))),
    Matmul(128, 8192, 8192, tiles=DEEP + tiles(
        (8, 128, 64, 64), (4, 128, 64, 64), (8, 128, 64, 128))),
    BatchedMatmul(64, 1024, 1024, 1024, tiles=MEDIUM + TURNED[:1]),
    HalfSums(4096, 4096, 4096, tiles=BIG),
    Linear(4096, 4096, 4096, tiles=MEDIUM),
    Linear(8192, 11008, 4096, tiles=BIG),
    Swiglu(4096, 11008, 4096, tiles=PAIRS),
    Swiglu(8192, 4096, 4096, tiles=PAIRS),
    LinearW8(16, 8192, 8192, tiles=FEW),
    LinearW8(4096, 4096, 4096, tiles=TURNED),
    LinearW4(16, 8192, 8192, tiles=W4_FEW),
    LinearW4(4096, 4096, 4096, tiles=W4),
    LinearFp8(4096, 4096, 4096, tiles=[(8, dict(BM=128, BN=128)),
                                       (8, dict(BM=256, BN=128))]),
    LinearFp8(8192, 8192, 8192, tiles=[(8, dict(BM=128, BN=128)),
                                       (8, dict(BM=256, BN=128))]),
    LinearInt8(4096, 4096, 4096, tiles=INTS),
    LinearInt8(8192, 8192, 8192, tiles=INTS),
    Grouped(8192, 4096, 4096, 8, tiles=BIG[:2]),
    Grouped(16384, 2048, 4096, 32, tiles=BIG[:2]),
    ExpertUp(4096, 4096, 4096, 8, tiles=WIDE),
    ExpertUp(8192, 2048, 2048, 32, tiles=WIDE),
    Conv2d(32, 56, 56, 256, 256, tiles=PIXELS),
    # Tiles that divide 28 and fill the GPU.
    Conv2d(32, 28, 28, 512, 512, tiles=PIXELS[1:] + PIXELS[:1]),
]

SQUARE = tiles((4, 64, 64, 64))
SMALL = [
    Matmul(70, 72, 200, tiles=SQUARE), BatchedMatmul(3, 70, 72, 200, tiles=SQUARE),
    HalfSums(70, 72, 200, tiles=SQUARE), Linear(70, 72, 200, tiles=SQUARE),
    Swiglu(70, 72, 200, tiles=SQUARE), LinearW8(5, 72, 256, tiles=FEW[:1]),
    LinearW4(5, 72, 256, tiles=W4_FEW[2:3]),
    LinearFp8(70, 128, 256, tiles=[(4, dict(BM=64, BN=128))]),
    LinearInt8(70, 72, 256, tiles=tiles((4, 64, 64, 128))),
    Grouped(150, 48, 64, 3, tiles=SQUARE),
    ExpertUp(100, 48, 64, 3, tiles=tiles((4, 128, 64, 64))),
    Conv2d(2, 14, 14, 32, 64, tiles=[(4, dict(BB=2, BH=4, BW=8, BN=64))]),
]
