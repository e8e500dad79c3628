# SPDX-License-Identifier: Apache-2.0
"""Cases that memory bounds: softmax, cross entropy, norms, rotary embedding."""
import pathlib

import torch
import torch.nn.functional as F
from case import (DEVICE, Case, randn, tilec_kernel, torch_function,
                  triton_function)

EPS = 1e-5
TUTORIAL = pathlib.Path(__file__).resolve().parents[3] / "kernels/tutorial"


class Rows(Case):
    """size: rows, columns. Sub-classes say which kernel of tilec (`text`,
    `name`, `arguments`, `outputs`), which of Triton, and what torch does."""

    dtype = torch.bfloat16
    bindings = {}
    options = ()  # of variants: (warps, bindings)

    def __init__(self, *size, dtype=torch.bfloat16, **bindings):
        self.size, self.dtype = size, dtype
        self.bindings = dict(self.bindings, **bindings)
        self.label = "%s_%s%s" % (self.word, "x".join(map(str, size)), "" if
                                  dtype == torch.bfloat16 else "_f32")
        self.bytes = self.traffic()

    def traffic(self):
        """Tiles of the size of x that are read or written."""
        return self.tensors * self.size[0] * self.size[1] * self.dtype.itemsize

    def randn(self):
        return randn(*self.size, dtype=self.dtype)

    def tilec(self, warps=0, **bindings):
        return tilec_kernel(self.text, self.name, self.arguments, self.outputs,
                            warps, **dict(self.bindings, **bindings))

    def variants(self):
        return {"w%d %s" % (w, b): self.tilec(w, **b) for w, b in self.options}

    def contenders(self):
        found = {"tilec": self.tilec(),
                 "triton": triton_function("rows_triton", self.word)}
        if hasattr(self, "torch"):
            found["torch"] = torch_function(self.torch)
            found["compiled"] = torch_function(self.torch, compiled=True)
        return found

    def reference(self, s):
        wide = {n: t.float() if torch.is_tensor(t) and t.is_floating_point()
                else t for n, t in s.items()}
        return self.torch(wide)


class Add(Rows):
    word, name, tensors = "add", "vector_add", 3
    text = (TUTORIAL / "01_vector_add.tile").read_text()
    options = [(w, dict(BLOCK=b)) for w in (4, 8) for b in (1024, 2048, 4096)]

    def inputs(self):
        x, y = self.randn().flatten(), self.randn().flatten()
        return dict(x=x, y=y, z=torch.empty_like(x))

    def arguments(self, s):
        return [s["x"], s["y"], s["z"]]

    def outputs(self, s):
        return (s["z"],)

    def torch(self, s):
        return (s["x"] + s["y"],)


class Softmax(Rows):
    word, text, name, tensors = "softmax", "softmax_rows", "softmax_rows", 2
    options = [(w, dict(BM=b)) for w in (2, 4, 8, 16) for b in (1, 2, 4)]

    def inputs(self):
        x = self.randn()
        return dict(x=x, y=torch.empty_like(x))

    def arguments(self, s):
        return [s["x"], s["y"]]

    def outputs(self, s):
        return (s["y"],)

    def torch(self, s):
        return (torch.softmax(s["x"], 1),)


class SoftmaxBackward(Rows):
    word, text, tensors = "softmax_backward", "softmax_rows", 3
    name = "softmax_rows_backward"
    options = Softmax.options

    def inputs(self):
        p = torch.softmax(self.randn().float(), 1).to(self.dtype)
        return dict(p=p, dy=self.randn(), dx=torch.empty_like(p))

    def arguments(self, s):
        return [s["p"], s["dy"], s["dx"]]

    def outputs(self, s):
        return (s["dx"],)

    def torch(self, s):
        p, dy = s["p"], s["dy"]
        return (torch.ops.aten._softmax_backward_data(dy, p, 1, p.dtype),)


class CrossEntropy(Rows):
    word, text, name, tensors = "cross_entropy", "cross_entropy", \
        "cross_entropy", 1
    options = [(w, dict(BN=b)) for w in (4, 8, 16)
               for b in (2048, 4096, 8192, 16384) if 8 <= b // w // 32 <= 64]

    def inputs(self):
        m, n = self.size
        return dict(x=self.randn(), labels=torch.randint(n, (m,),
                                                         device=DEVICE),
                    loss=torch.empty(m, device=DEVICE),
                    lse=torch.empty(m, device=DEVICE))

    def arguments(self, s):
        return [s["x"], s["labels"], s["loss"], s["lse"]]

    def outputs(self, s):
        return s["loss"], s["lse"]

    def torch(self, s):
        return (F.cross_entropy(s["x"], s["labels"], reduction="none"),)


class CrossEntropyBackward(CrossEntropy):
    word, name, tensors = "cross_entropy_backward", "cross_entropy_backward", 2

    def inputs(self):
        s = super().inputs()
        s["lse"] = torch.cat([torch.logsumexp(x.float(), 1)
                              for x in s["x"].split(512)])
        s["dloss"] = randn(self.size[0], dtype=torch.float32)
        s["dx"] = torch.empty_like(s["x"])
        return s

    def arguments(self, s):
        return [s[n] for n in ("x", "labels", "lse", "dloss", "dx")]

    def outputs(self, s):
        return (s["dx"],)

    def torch(self, s):
        x = s["x"]
        p = torch.exp(x.float() - s["lse"][:, None])
        columns = torch.arange(x.shape[1], device=DEVICE)
        p = p - (columns == s["labels"][:, None]).float()
        return ((p * s["dloss"][:, None]).to(x.dtype),)


class Layernorm(Rows):
    word, text, name, tensors = "layernorm", "norm", "layernorm_rows", 2
    options = Softmax.options

    def inputs(self):
        x, n = self.randn(), self.size[1]
        mean = torch.empty(len(x), device=DEVICE)
        return dict(x=x, w=randn(n, dtype=self.dtype), mean=mean,
                    b=randn(n, dtype=self.dtype), y=torch.empty_like(x),
                    rstd=torch.empty_like(mean))

    def arguments(self, s):
        return [*(s[n] for n in ("x", "w", "b", "y", "mean", "rstd")), EPS]

    def outputs(self, s):
        return s["y"], s["mean"], s["rstd"]

    def torch(self, s):
        return torch.native_layer_norm(s["x"], s["x"].shape[1:], s["w"],
                                       s["b"], EPS)[:1]


class Rmsnorm(Layernorm):
    word, name = "rmsnorm", "rmsnorm"

    def arguments(self, s):
        return [*(s[n] for n in ("x", "w", "y", "rstd")), EPS]

    def outputs(self, s):
        return s["y"], s["rstd"]

    def torch(self, s):
        return (F.rms_norm(s["x"], s["x"].shape[1:], s["w"], EPS),)


class LayernormBackward(Layernorm):
    word, name, tensors = "layernorm_backward", "layernorm_backward", 3
    options = [(w, dict(PARTS=p)) for w in (4, 8, 16)
               for p in (132, 264, 528)]

    def inputs(self):
        s = super().inputs()
        _, mean, rstd = torch.native_layer_norm(
            s["x"], s["x"].shape[1:], s["w"], s["b"], EPS)
        s.update(mean=mean.float().flatten(), rstd=rstd.float().flatten(),
                 dy=self.randn(), dx=torch.empty_like(s["x"]),
                 dw=torch.empty_like(s["w"]), db=torch.empty_like(s["b"]))
        return s

    def arguments(self, s):
        return [s[n] for n in ("x", "w", "mean", "rstd", "dy", "dx", "dw",
                               "db")]

    def outputs(self, s):
        return s["dx"], s["dw"], s["db"]

    def torch(self, s):
        return torch.ops.aten.native_layer_norm_backward(
            s["dy"], s["x"], s["x"].shape[1:], s["mean"][:, None],
            s["rstd"][:, None], s["w"], s["b"], [True, True, True])

    def contenders(self):
        return {"tilec": self.tilec(),
                "triton": triton_function("rows_triton", "norm_backward",
                                          self.is_layer),
                "torch": torch_function(self.torch),
                "compiled": torch_function(self.torch, compiled=True)}

    is_layer = True


class RmsnormBackward(LayernormBackward):
    word, name, is_layer = "rmsnorm_backward", "rmsnorm_backward", False

    def inputs(self):
        s = super().inputs()
        s["rstd"] = torch.rsqrt(s["x"].float().square().mean(1) + EPS)
        return s

    def arguments(self, s):
        return [s[n] for n in ("x", "w", "rstd", "dy", "dx", "dw")]

    def outputs(self, s):
        return s["dx"], s["dw"]

    def torch(self, s):
        x, w, r = s["x"].float(), s["w"].float(), s["rstd"][:, None]
        u, g = x * r, s["dy"].float()
        wg = g * w
        dx = (wg - u * (u * wg).mean(1, keepdim=True)) * r
        return dx.to(s["x"].dtype), (u * g).sum(0).to(s["w"].dtype)


class QkNorm(Rows):
    """size: tokens, heads of q, of k, head dim."""

    word, text, name = "qk_norm", "qk_norm", "qk_norm"
    options = [(w, dict(BM=b)) for w in (1, 2, 4, 8) for b in (1, 2)]

    def traffic(self):
        m, hq, hk, d = self.size
        return 2 * 2 * m * (hq + hk) * d + 2 * 4 * m * d // 2

    def inputs(self):
        m, hq, hk, d = self.size
        angle = torch.randn(m, d // 2, device=DEVICE)
        q, k = randn(m, hq, d), randn(m, hk, d)
        return dict(q=q, k=k, wq=randn(d), wk=randn(d), cos=angle.cos(),
                    sin=angle.sin(), qo=torch.empty_like(q),
                    ko=torch.empty_like(k))

    def arguments(self, s):
        return [*(s[n] for n in ("q", "k", "wq", "wk", "cos", "sin", "qo",
                                 "ko")), 1e-6]

    def outputs(self, s):
        return s["qo"], s["ko"]

    def torch(self, s):
        def one(x, w):
            u = F.rms_norm(x.float(), x.shape[-1:], w.float(), 1e-6)
            a, b = u.chunk(2, -1)
            c, z = s["cos"][:, None], s["sin"][:, None]
            return torch.cat((a * c - b * z, b * c + a * z), -1).to(x.dtype)
        return one(s["q"], s["wq"]), one(s["k"], s["wk"])


CASES = [
    Add(8192, 8192, dtype=torch.float32), Add(4096, 8192),
    Softmax(8192, 4096, dtype=torch.float32), Softmax(16384, 1000),
    SoftmaxBackward(8192, 4096), SoftmaxBackward(16384, 1000),
    CrossEntropy(4096, 128256), CrossEntropy(8192, 32000),
    CrossEntropyBackward(4096, 128256), CrossEntropyBackward(8192, 32000),
    Layernorm(8192, 4096), Layernorm(8192, 2880),
    LayernormBackward(8192, 4096), LayernormBackward(8192, 2880),
    Rmsnorm(8192, 4096), Rmsnorm(8192, 2880),
    RmsnormBackward(8192, 4096), RmsnormBackward(8192, 2880),
    QkNorm(8192, 32, 8, 128), QkNorm(8192, 64, 8, 64),
]

SMALL = [
    Add(60, 70), Softmax(9, 100), SoftmaxBackward(9, 100),
    CrossEntropy(9, 1000), CrossEntropyBackward(9, 1000), Layernorm(9, 100),
    LayernormBackward(9, 100), Rmsnorm(9, 100), RmsnormBackward(9, 100),
    QkNorm(9, 4, 2, 64),
]
