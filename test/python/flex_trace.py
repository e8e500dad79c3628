# SPDX-License-Identifier: Apache-2.0
"""Python mods as tile text: what operators mean, what is kept from call to
call, what is said where there is no text.

    flex_trace.py [PART OF A NAME]..
"""
import gc
import sys
import weakref

import flex_reference as reference
import numpy as np
import torch
from torch.nn.attention.flex_attention import and_masks

from tilec.flex_attention import _mods, _trace, flex_attention

F = torch.nn.functional
CPU = torch.device("cpu")

torch.manual_seed(0)
SCORES = torch.randn(2, 3, 20, 40) * 3
INTS = torch.randint(-50, 50, (100,))
LONG = torch.randint(-2**40, 2**40, (100,))
BYTES = torch.randint(0, 256, (100,), dtype=torch.uint8)
ROWS = torch.randn(3, 100)
PARAMETER = torch.nn.Parameter(ROWS.clone())
BF16, F16, F64 = ROWS.bfloat16(), ROWS.half(), ROWS.double()
FLAGS = ROWS[0] > 0
NUMBER = torch.tensor(2.5)


# ---- Operators: the text gives what torch does ----

OPERATORS = {
    "activations": lambda s, *_: (
        F.gelu(s) + F.gelu(s, approximate="tanh") + F.silu(s) + F.relu(s) +
        torch.sigmoid(s) + F.softplus(s) + F.elu(s) + F.selu(s) + F.mish(s) +
        F.leaky_relu(s, 0.2) + F.hardswish(s) + F.hardtanh(s) + F.relu6(s) +
        F.logsigmoid(s) + F.softsign(s)),
    "functions": lambda s, *_: (
        torch.exp(s) + torch.exp2(s) + torch.expm1(s) + torch.log1p(s.abs()) +
        torch.log(s.abs()) + torch.log2(s.abs()) + torch.sin(s) + torch.cos(s) +
        torch.tan(s / 5) + torch.sinh(s) + torch.tanh(s) + torch.erf(s)),
    "rounding": lambda s, *_: (
        torch.round(s) + 2 * torch.floor(s) + 3 * torch.ceil(s) +
        5 * torch.trunc(s) + torch.frac(s) + torch.sign(s)),
    "powers": lambda s, b, h, q, k: (
        s**2 + s**3 + (s.abs() + .1)**0.5 + (s.abs() + .1)**-1 + 2**s +
        (s.abs() + 1)**1.7 + torch.pow(s, q % 3) + (q + 1)**-0.5 + q**3 +
        2**(k % 5) + torch.rsqrt(s.abs() + 1)),
    "bounds": lambda s, b, h, q, k: (
        s.clamp(-1, 2) + s.clamp(min=0.5) + torch.clamp_max(s, 1) +
        (q - k).clamp(-3, 5) + torch.minimum(s, q * 1.0) + torch.max(q, k)),
    "choices": lambda s, b, h, q, k: torch.where(
        q > k, 1, torch.where(s > 0, 2.5, s)).masked_fill(q == k, 3),
    "floor division": lambda s, b, h, q, k: (
        s + (q - k) // 3 + 10 * ((q - k) % 3) + 100 * ((q - k) // -4) +
        1000 * ((q - k) % -4) + (q - k) // (h + 1) + (q - k) % (h + 2)),
    "truncating division": lambda s, b, h, q, k: (
        s + torch.div(q - k, 3, rounding_mode="trunc") +
        10 * torch.fmod(q - k, 3) +
        torch.div(q - k, h - 5, rounding_mode="trunc") + (q - k) / 7),
    "division of floats": lambda s, *_: (
        torch.remainder(s, 1.5) + torch.fmod(s, 1.5) + s // 0.7 +
        torch.div(s, .3, rounding_mode="trunc")),
    "negative indices": lambda s, b, h, q, k: (
        s + ROWS[h, q - k] + ROWS[h, -1 - k] + ROWS[-1, -3] +
        ROWS[h - 1, (q - k).long()]),
    "types of tables": lambda s, b, h, q, k: (
        s + INTS[q] + INTS.int()[k] + BYTES[q + k] + FLAGS[q] + BF16[h, q] +
        F16[h, k] + F64[h, q] + NUMBER + PARAMETER[h, k]),
    "bytes": lambda s, b, h, q, k: (
        s + (BYTES[q] * BYTES[k] + 200) + BYTES[q] // 3 + (~BYTES[k])),
    "bf16": lambda s, b, h, q, k: (
        (s.to(torch.bfloat16) * 1.1 + BF16[h, q]) * BF16[h, k]),
    "f16": lambda s, b, h, q, k: (s.half() * F16[h, q]).exp() - s.half(),
    "f64": lambda s, b, h, q, k: s.double() * F64[h, q] + 1 / 3,
    "i64": lambda s, b, h, q, k: (
        s + ((q.long() * 2654435761 + k * 40503) % 97) + LONG[q] % 1000 +
        (LONG[q] * 3 - LONG[k]).remainder(11) + (LONG[q] > LONG[k]) +
        (LONG[q] < k) + (q.long() - k < 5)),
    "i32 wraps": lambda s, b, h, q, k: s + ((q + 1) * 2147480000 + k) % 97,
    "bits": lambda s, b, h, q, k: (
        s + (q & k) + (q | k) + (q ^ k) + (~q) + (q << 3) + (k >> 1) +
        ((q - k) >> 2) + ((q - k) & 7) + (((q - k) | 9) ^ 5)),
    "logic": lambda s, b, h, q, k: (
        s + ((q > 3) ^ (k > 4)) + (~(q > 3)) + ((q > 3) == (k > 4)) +
        torch.logical_and(q, k > 2) + torch.logical_not(q) +
        (q > 3) * (k > 4)),
    "numbers that are none": lambda s, b, h, q, k: (
        torch.nan_to_num(torch.where(q == k, float("nan"), s)) +
        torch.isnan(s) + torch.isinf(s)),
    "rows": lambda s, b, h, q, k: (
        s + torch.dot(ROWS[h], PARAMETER[h - 1]) + ROWS[h].sum() +
        ROWS[:, q].mean() + ROWS[h].max() + (ROWS[h] > 0).any()),
    "views": lambda s, b, h, q, k: (
        s + ROWS.T[k][h] + ROWS.view(3, 10, 10)[h, k // 10, k % 10] +
        ROWS[:, 10:90:2][h, q] + torch.stack([s, s * 2, s * 3])[h] +
        torch.cat([ROWS[0], ROWS[1]])[k + 100] + (ROWS @ ROWS.T)[h, 0] +
        torch.softmax(ROWS[:, k], 0)[h]),
    "reversed and gathered": lambda s, b, h, q, k: (
        s + ROWS.flip(0, 1)[h, k] + ROWS.flip(-1)[:, q].sum() +
        ROWS[h].gather(0, k[None].long())[0] +
        ROWS.gather(1, torch.stack([q, k])[None].long())[0, h % 2]),
    "constants": lambda s, b, h, q, k: (
        s + torch.tensor(3.5) + torch.tensor([1., 2, 3])[h] +
        torch.zeros_like(s) + s.new_full((), 2) + torch.arange(5, 50)[k] +
        torch.arange(1, 4, 0.5)[h + k % 3] + torch.eye(20, 40)[q, k]),
}


def check_operator(mod):
    # In both precisions: where torch itself is not that sure, nor are we.
    got = reference.applied(mod, SCORES, True)
    want = reference.by_vmap(mod, SCORES, True).float().expand_as(got)
    assert torch.allclose(got, want, rtol=1e-5, atol=1e-5, equal_nan=True), (
        (got - want).abs().max())


# ---- What is kept ----


class Counted:
    """How often torch traces."""

    def __enter__(self):
        self.n, self._real = 0, _trace.trace

        def trace(*args):
            self.n += 1
            return self._real(*args)
        _trace.trace = trace
        return self

    def __exit__(self, *_):
        _trace.trace = self._real


def mask(mod):
    return _mods.of(mod, False, CPU)


def score(mod):
    return _mods.of(mod, True, CPU)


def window(w):
    return lambda b, h, q, k: q - k < w


def test_numbers_are_arguments():
    with Counted() as traced:
        texts = {mask(window(w)).text for w in (5, 6, 2**20, 0, 1, -3)}
    assert len(texts) == 1 and traced.n == 1, (texts, traced.n)
    assert mask(window(9)).captured == {"mask.w": 9}
    wide = mask(window(2**40))
    assert "%w: i64" in wide.text and wide.captured == {"mask.w": 2**40}


def test_python_computes_numbers():
    def scaled(x, w):
        return lambda s, b, h, q, k: s * (1.0 / x + w * 2)
    found = score(scaled(3.0, 5))
    assert list(found.captured.values()) == [1 / 3 + 10], found.captured


def test_divisors_are_text_until_there_are_two():
    def chunks(c):
        return lambda b, h, q, k: q // c == k // c
    first, again = mask(chunks(64)), mask(chunks(64))
    assert "/ 64" in first.text and first.text == again.text
    others = {mask(chunks(c)).text for c in (32, 48, 7)}
    assert len(others) == 1 and "%c" in others.pop()
    assert mask(chunks(64)).text == first.text


def test_branches_on_numbers():
    def mod_of(n):
        def mod(b, h, q, k):
            return q >= k if n > 3 else q < k
        return mod
    for n in (1, 5, 2, 7):
        assert (">=" in mask(mod_of(n)).text) == (n > 3)


def test_loops_over_numbers():
    def mod_of(n):
        def mod(s, b, h, q, k):
            for i in range(n):
                s = s + ROWS[i, q]
            return s
        return mod
    assert [score(mod_of(n)).text.count("%ROWS[") for n in (1, 3, 2)] == [
        1, 3, 2]


def test_tensors_are_those_of_the_call():
    def lookup(t):
        return lambda s, b, h, q, k: s + t[q]
    with Counted() as traced:
        for n in (10, 20, 30):
            t = torch.randn(n)
            assert score(lookup(t)).captured["score.t"] is t
    assert traced.n == 1, traced.n
    # Another type or rank is another text.
    assert "x f16" in score(lookup(torch.randn(9).half())).text


def test_shapes_that_matter():
    def mean(t):
        return lambda s, b, h, q, k: s + t[q] / t.shape[0]
    for n in (10, 20, 30):
        t = torch.ones(n)
        got = reference.applied(mean(t), torch.zeros(1, 1, 4, 8), True)
        assert abs(got[0, 0, 0, 0].item() - 1 / n) < 1e-7


_WIDTH = 5


def _by_global(b, h, q, k):
    return q - k < _WIDTH


def test_globals_that_change():
    global _WIDTH
    for _WIDTH in (5, 8):
        assert mask(_by_global).captured == {"mask.WIDTH": _WIDTH}


def test_cells_lists_and_attributes_that_change():
    class Settings:
        w, table = 3, ROWS[0]

        def mod(self, s, b, h, q, k):
            return s + self.table[q] * self.w
    o, w, many = Settings(), 1, [1, 2]

    def mod(s, b, h, q, k):
        return s * w + sum(many) + o.w

    def result(f):
        return reference.applied(f, torch.ones(1, 1, 1, 8), True)[
            0, 0, 0, 0].item()
    assert result(mod) == 1 + 3 + 3
    w = 10
    assert result(mod) == 10 + 3 + 3
    many[0] = 5
    assert result(mod) == 10 + 7 + 3
    many.append(1)
    assert result(mod) == 10 + 8 + 3
    o.w = 4
    assert result(mod) == 10 + 8 + 4
    o.table = torch.full((9,), 0.5)
    assert result(o.mod) == 1 + 0.5 * 4
    o.table = torch.full((9,), 2.0)
    assert result(o.mod) == 1 + 2.0 * 4


def test_defaults_and_partials():
    import functools

    def mod(b, h, q, k, w=4):
        return q - k < w

    def wide(w, b, h, q, k):
        return q - k < w
    assert list(mask(mod).captured.values()) == [4]
    for w in (7, 8):
        assert list(mask(functools.partial(wide, w)).captured.values()) == [w]


def test_modules():
    class Bias(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = torch.nn.Parameter(torch.randn(3, 50))

        def forward(self, s, b, h, q, k):
            return s + self.bias[h, q]

        def mod(self):
            return lambda s, b, h, q, k: s + self.bias[h, q]
    m = Bias()
    for f in (m, m.mod()):
        assert score(f).captured == {"score.bias": m.bias}
    m.bias = torch.nn.Parameter(torch.zeros(3, 50))
    assert score(m).captured["score.bias"] is m.bias


def test_nothing_is_kept_alive():
    """Neither tensors nor objects; a new object may have an old one's id."""
    class Table:
        def __init__(self, width):
            self.table, self.w = torch.randn(width), width

        def mod(self, s, b, h, q, k):
            return s + self.table[q] * self.w
    refs = []
    for width in (5, 6, 7, 5, 6, 7):
        o, t = Table(width), torch.randn(8)
        got = reference.applied(o.mod, torch.zeros(1, 1, 4, 8), True)
        assert torch.allclose(got[0, 0, :, 0], o.table[:4] * width)
        score(lambda s, b, h, q, k: s + t[q])
        refs += [weakref.ref(x) for x in (o, o.table, t)]
        del o, t
    gc.collect()
    assert not any(r() is not None for r in refs)


def test_same_closure_of_combined_masks():
    lens = torch.tensor([3, 4])

    def both(w):
        return and_masks(window(w), lambda b, h, q, k: k < lens[b])
    with Counted() as traced:
        texts = {mask(both(w)).text for w in (3, 4)}
    assert len(texts) == 1 and traced.n == 1
    # int64 is compared as i32, by which loops are bounded.
    assert "min(max(" in texts.pop()


# ---- What has no text ----


def refused(kind, *parts, mod, scored=True):
    try:
        _mods.of(mod, scored, CPU)
    except kind as e:
        for part in parts:
            assert part in str(e), (part, str(e))
        return
    raise AssertionError("not refused")


def _inverse(s, b, h, q, k):
    m = torch.stack([torch.stack([s, s + 1]), torch.stack([s + 1, s])])
    m = torch.linalg.inv(m)  # this line
    return m[0, 0]


def test_unknown_operator():
    line = next(i for i, t in enumerate(open(__file__), 1)
                if "# this line" in t)
    refused(NotImplementedError, "aten.linalg_inv_ex", "_inverse",
            "flex_trace.py:%d" % line, mod=_inverse)


def test_results_of_a_shape():
    refused(NotImplementedError, "shape [?]", "<lambda>",
            mod=lambda s, b, h, q, k: s + ROWS[:, q])


def test_functions_indices_and_kinds():
    for mod, said in (
            (lambda s, b, h, q, k: torch.cond(q > k, lambda: s, lambda: -s),
             "In its place: torch.where"),
            (lambda s, b, h, q, k: s + ROWS.max(1)[0][h],
             "In its place: torch.amax"),
            (lambda s, b, h, q, k: (s * 1j).real, "values of torch.complex")):
        refused(NotImplementedError, said, mod=mod)
    refused(TypeError, "the mod returns a str", mod=lambda s, *_: "s")


def test_complex_table():
    table = torch.ones(9, dtype=torch.complex64)
    refused(NotImplementedError, "complex64",
            mod=lambda s, b, h, q, k: s + table[q].real)


def test_mods_own_errors():
    def wrong(s, b, h, q, k):
        return s + undefined  # noqa: F821
    refused(NameError, "undefined", mod=wrong)


def test_asks_for_values():
    """In Python there are none: where, and what to write in its place."""
    values = "a value in Python, which only the kernel has"
    for mod, said in (
            (lambda s, b, h, q, k: s if q > k else -s, values),
            (lambda s, b, h, q, k: s * (q and k), values),
            (lambda s, b, h, q, k: s * max(q, k), values),
            (lambda s, b, h, q, k: s * float(q), values),
            (lambda s, b, h, q, k: s * sum(range(q)), values),
            (lambda s, b, h, q, k: s * [1, 2, 3][h], values),
            (lambda s, b, h, q, k: s if ROWS[0, 0] > 0 else -s, values),
            (lambda s, b, h, q, k: s + ROWS[0, :q].sum(), values),
            (lambda s, b, h, q, k: s + ROWS[0][q > k], "torch.where"),
            (lambda s, b, h, q, k: s * np.sqrt(q), "a function of numpy"),
            (lambda s, b, h, q, k: s + torch.tensor([q, k])[0],
             "torch.stack"),
            (lambda s, b, h, q, k: s + torch.as_tensor([[q], [k]])[0, 0],
             "torch.stack")):
        refused(TypeError, "flex_trace.py:%d: " % mod.__code__.co_firstlineno,
                said, "In its place: torch", mod=mod)

    def chained(b, h, q, k):
        return 0 <= q - k < 3  # that line
    line = next(i for i, t in enumerate(open(__file__), 1)
                if "# that line" in t)
    refused(TypeError, "flex_trace.py:%d: mask_mod `chained`" % line,
            "(`return 0 <= q - k < 3  # that line`)", mod=chained,
            scored=False)


def test_refusals_leave_no_traces():
    """After lengths that positions make, other tables are as before."""
    for mod in (lambda s, b, h, q, k: s + torch.arange(q)[0],
                lambda s, b, h, q, k: s + torch.zeros(q)[0]):
        refused(NotImplementedError, "cannot run in a kernel", mod=mod)
    check_operator(lambda s, b, h, q, k: s + torch.arange(40)[k] +
                   torch.linspace(0, 1, 40)[k] + torch.zeros(3)[h])


def test_inference_mode():
    """Tables made in the mod, and captured ones of that mode."""
    with torch.inference_mode():
        table = torch.arange(40.)
        found = reference.applied(
            lambda s, b, h, q, k: s + torch.tensor(data=[1., 2, 3])[h] +
            table[k], SCORES, True)
    want = SCORES + torch.tensor([1., 2, 3])[:, None, None] + torch.arange(40.)
    assert torch.allclose(found, want)


def test_indices_that_no_element_has():
    """Below 0 they count from the end, beyond the end the value is 0."""
    n, table = 20, torch.arange(1., 11)
    q, k, v = (torch.randn(1, 1, n, 16) for _ in range(3))
    place = torch.arange(n)
    from_end = place[:, None] % 10 - place[None] % 10
    for mod, bias in (
            (lambda s, b, h, i, j: s + table[j], torch.cat(
                [table, torch.zeros(10)]).expand(n, n)),
            (lambda s, b, h, i, j: s + table[i % 10 - j % 10],
             table[from_end])):
        got = flex_attention(q, k, v, score_mod=mod)
        want = torch.softmax(q @ k.mT / 4 + bias, -1) @ v
        assert reference.error(got, want) < 2e-6, reference.error(got, want)


def main():
    wanted = sys.argv[1:]
    tests = {name: (lambda f=f: check_operator(f))
             for name, f in OPERATORS.items()}
    tests.update({n: f for n, f in globals().items() if n.startswith("test_")})
    done = 0
    for name, f in tests.items():
        if not wanted or any(w in name for w in wanted):
            print(name, flush=True)
            f()
            done += 1
    assert done
    print("%d passed" % done)


main()
