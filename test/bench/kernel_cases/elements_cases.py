# SPDX-License-Identifier: Apache-2.0
"""Cases beside torch alone: tokens of logits, prefix sums, histograms, dropout,
fast transforms."""
import torch
import torch.nn.functional as F
from case import DEVICE, Case, randn, tilec_kernel, torch_function


class Elements(Case):
    """size: rows, columns. Sub-classes say which kernel of tilec (`text`,
    `name`, `arguments`, `outputs`) and what torch does."""

    bindings, options = {}, ()

    def __init__(self, *size, dtype=torch.bfloat16, warps=0, **bindings):
        self.size, self.dtype, self.warps = size, dtype, warps
        self.bindings = dict(self.bindings, **bindings)
        self.label = "%s_%s" % (self.word, "x".join(map(str, size)))
        self.bytes = self.tensors * dtype.itemsize * size[0] * size[1]

    def tilec(self, warps, **bindings):
        return tilec_kernel(self.text, self.name, self.arguments, self.outputs,
                            warps, **dict(self.bindings, **bindings))

    def contenders(self):
        return {"tilec": self.tilec(self.warps),
                "torch": torch_function(self.torch)}

    def variants(self):
        return {"w%d %s" % (w, b): self.tilec(w, **b) for w, b in self.options}

    def reference(self, s):
        wide = {n: t.float() if torch.is_tensor(t) and t.is_floating_point()
                else t for n, t in s.items()}
        return self.torch(wide)


class Sample(Elements):
    """size: rows, columns, top_k, percent of top_p. torch sorts if there is a
    top-p. An error is a token that may not be drawn, as a share of all."""

    word, text, name, tensors = "sample", "sampling", "sample", 1
    options = [(w, dict(BN=b)) for w in (4, 8, 16) for b in (4096, 8192, 16384)]

    def inputs(self):
        m, n, k, p = self.size
        full = lambda value, dtype=torch.float32: torch.full(
            (m,), value, device=DEVICE, dtype=dtype)
        return dict(x=3 * randn(m, n, dtype=self.dtype),
                    tokens=torch.zeros(m, device=DEVICE, dtype=torch.int64),
                    settings=[full(0.8), full(k, torch.int32), full(p / 100),
                              full(0.0), torch.arange(m, device=DEVICE)])

    def arguments(self, s):
        return [s["x"], s["tokens"], *s["settings"]]

    def outputs(self, s):
        return (s["tokens"],)

    def torch(self, s):
        _, n, k, p = self.size
        x = s["x"].float() / 0.8
        x, i = torch.topk(x, k) if k else torch.sort(x, descending=True)
        w = torch.softmax(x, -1, dtype=torch.float32)
        if p < 100:
            w = w.masked_fill(w.cumsum(-1) - w >= p / 100, 0)
        return (i.gather(1, torch.multinomial(w, 1))[:, 0],)

    def reference(self, s):
        """The least number of each row that may be drawn."""
        _, n, k, p = self.size
        x = torch.sort(s["x"].double() / 0.8, descending=True).values
        w = torch.softmax(x.where(x >= x[:, (k or n) - 1:][:, :1], -torch.inf), -1)
        last = ((w.cumsum(-1) - w < p / 100 + 1e-5) & (w > 0)).sum(-1) - 1
        return (x.gather(1, last[:, None])[:, 0],)

    def error(self, s, got, wanted):
        value = s["x"].double().gather(1, got[0][:, None])[:, 0] / 0.8
        return float((value < wanted[0] - 1e-9).double().mean())


class PrefixSum(Elements):
    word, text, name, tensors = "prefix_sum", "prefix_sum", "prefix_sum", 2
    options = [(w, dict(BN=b)) for w in (4, 8) for b in (1024, 2048, 4096)]

    def inputs(self):
        x = randn(*self.size, dtype=self.dtype)
        return dict(x=x, y=torch.empty_like(x))

    def arguments(self, s):
        return [s["x"], s["y"]]

    def outputs(self, s):
        return (s["y"],)

    def torch(self, s):
        return (s["x"].cumsum(1),)


class Hadamard(PrefixSum):
    word, text, name = "hadamard", "butterflies", "hadamard"
    options = [(w, {}) for w in (2, 4, 8)]

    def arguments(self, s):
        return [s["x"], s["y"], self.size[1] ** -0.5]

    def torch(self, s):
        """By the product with a matrix."""
        n = self.size[1]
        h = torch.ones(1, 1, device=DEVICE)
        while len(h) < n:
            h = torch.cat((torch.cat((h, h), 1), torch.cat((h, -h), 1)))
        return (s["x"] @ (h * n ** -0.5).to(s["x"].dtype),)

    def contenders(self):
        return {"tilec": self.tilec(self.warps)}


class Fft(PrefixSum):
    """size: rows, twice the complex numbers of one."""

    word, text, name = "fft", "butterflies", "fft_rows"
    options = [(w, {}) for w in (2, 4, 8)]

    def arguments(self, s):
        return [s["x"][None], s["y"][None]]

    def torch(self, s):
        c = torch.view_as_complex(s["x"].unflatten(1, (-1, 2)))
        return (torch.view_as_real(torch.fft.fft(c)).flatten(1),)


class Dropout(PrefixSum):
    """Results are random: an error is a number that is neither 0 nor x / 0.9."""

    word, text, name = "dropout", "dropout", "dropout"
    options = [(w, dict(BM=b, WORDS=n)) for w in (4, 8) for b in (2048, 4096)
               for n in (1, 4)]

    def arguments(self, s):
        return [s["x"].flatten(), s["y"].flatten(), 0.1, 7]

    def torch(self, s):
        return (F.dropout(s["x"], 0.1),)

    def reference(self, s):
        return (s["x"].float() / 0.9,)

    def error(self, s, got, wanted):
        y = got[0].float()
        wrong = (y != 0) & ((y - wanted[0]).abs() > 1e-2 * wanted[0].abs())
        kept = float((y != 0).float().mean())
        return float(wrong.float().mean()) + (abs(kept - 0.9) > 1e-3)


class Histogram(Elements):
    """size: elements, 1, bins. spread 0: all of one bin."""

    word, text, name, tensors = "histogram", "histogram", "histogram_copies", 1
    bindings = dict(bin="@even_bins")

    def __init__(self, *size, spread=1.0, **more):
        super().__init__(*size, dtype=torch.float32, **more)
        self.spread = spread
        self.label += "" if spread else "_same"

    def inputs(self):
        return dict(x=self.spread * randn(self.size[0], dtype=torch.float32),
                    counts=torch.zeros(self.size[2], device=DEVICE,
                                       dtype=torch.int32))

    def contenders(self):
        plain = tilec_kernel(self.text, "histogram", self.arguments,
                             self.outputs, **self.bindings)
        return {**super().contenders(), "plain": plain}

    def variants(self):
        return {"copies %d" % n: self.tilec(0, COPIES=n)
                for n in (16, 64, 1024)}

    def arguments(self, s):
        return [s["x"], s["counts"], -4.0, 4.0]

    def outputs(self, s):
        return (s["counts"],)

    def torch(self, s):
        return (torch.histc(s["x"], self.size[2], -4, 4),)

    def error(self, s, got, wanted):
        """Kernels add to what is there: shares of all."""
        a, b = (t[0].double() / t[0].double().sum() for t in (got, wanted))
        return float((a - b).abs().max() / b.max())


class Counts(Histogram):
    """size: ints, 1, bins: those of 0 to bins - 1 are counted."""

    word, bindings = "counts", {}

    def inputs(self):
        n, _, bins = self.size
        x = torch.randint(0, bins, (n,), device=DEVICE, dtype=torch.int32)
        counts = torch.zeros(bins, device=DEVICE, dtype=torch.int32)
        return dict(x=x, counts=counts)

    def arguments(self, s):
        return [s["x"], s["counts"]]

    def torch(self, s):
        return (torch.bincount(s["x"], minlength=self.size[2]),)


CASES = [
    Sample(1, 128256, 50, 100), Sample(64, 128256, 50, 100),
    Sample(64, 128256, 0, 90), Sample(256, 32000, 40, 95),
    PrefixSum(8192, 4096, dtype=torch.float32),
    PrefixSum(64, 131072, dtype=torch.float32, BN=4096),
    Hadamard(16384, 1024), Hadamard(8192, 4096),
    Fft(8192, 2048, dtype=torch.float32), Fft(4096, 8192, dtype=torch.float32),
    Dropout(8192, 4096),
    Histogram(1 << 25, 1, 256), Histogram(1 << 25, 1, 256, spread=0),
    Histogram(1 << 25, 1, 4096), Histogram(1 << 25, 1, 65536),
    Counts(1 << 25, 1, 256), Counts(1 << 25, 1, 65536),
]

F32 = torch.float32
SMALL = [
    Sample(3, 5000, 50, 100), Sample(3, 5000, 0, 90),
    PrefixSum(5, 3000, dtype=F32), Hadamard(6, 64), Fft(6, 128, dtype=F32),
    Dropout(1024, 1024), Histogram(5000, 1, 64), Counts(5000, 1, 64),
]
