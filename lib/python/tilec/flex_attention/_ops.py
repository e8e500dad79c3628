# SPDX-License-Identifier: Apache-2.0
"""aten's pointwise operators as tile text.

POINTWISE[name](w, out, operands..) writes the op for Scalars: `out` is the type
of torch's result. Numbers of Python are operands of the type that torch would
compute in.
"""
import math

import torch

from ._values import I32, TYPES, Unsupported, literal, range_of, within

POINTWISE = {}


def _op(*names):
    def add(f):
        POINTWISE.update(dict.fromkeys(names, f))
        return f
    return add


def _is_int(dtype):
    return not dtype.is_floating_point


def _both(w, out, *values):
    """Operands in the result's type; at most all but one are literals."""
    values = [w.cast(x, out) for x in values]
    if all(x.literal is not None for x in values):
        values[0] = w.typed(values[0])
    return values


def _int_op(w, out, text, range, *values):
    """An op of ints, whose exact results lie in `range`."""
    kind, values = w.together(out, *values, result=range)
    fits = range is not None and within(range, I32 if kind == "i32" and
                                        out == torch.int64 else range_of(out))
    if all(x.literal is not None for x in values):
        values[0] = w.typed(values[0])
    return w.fit(w.let(text % tuple(x.text for x in values), out,
                       range if fits else None, kind), out)


def _hull(*values):
    return min(values), max(values)


def _products(a, b):
    return _hull(*[x * y for x in a.range for y in b.range])


# ---- Arithmetic ----


@_op("add")
def add(w, out, a, b, alpha=1):
    if alpha != 1:
        b = mul(w, out, b, literal(alpha, out))
    a, b = _both(w, out, a, b)
    if out == torch.bool:
        return w.let("%s or %s" % (a.text, b.text), out)
    if _is_int(out):
        return _int_op(w, out, "%s + %s", (a.range[0] + b.range[0],
                                           a.range[1] + b.range[1]), a, b)
    return w.let("%s + %s" % (a.text, b.text), out)


@_op("sub", "subtract")
def sub(w, out, a, b, alpha=1):
    if alpha != 1:
        b = mul(w, out, b, literal(alpha, out))
    a, b = _both(w, out, a, b)
    if _is_int(out):
        return _int_op(w, out, "%s - %s", (a.range[0] - b.range[1],
                                           a.range[1] - b.range[0]), a, b)
    return w.let("%s - %s" % (a.text, b.text), out)


@_op("rsub")
def rsub(w, out, a, b, alpha=1):
    return sub(w, out, b, a if alpha == 1 else mul(w, out, a,
                                                   literal(alpha, out)))


@_op("mul", "multiply")
def mul(w, out, a, b):
    a, b = _both(w, out, a, b)
    if out == torch.bool:
        return w.let("%s and %s" % (a.text, b.text), out)
    if _is_int(out):
        return _int_op(w, out, "%s * %s", _products(a, b), a, b)
    return w.let("%s * %s" % (a.text, b.text), out)


@_op("neg", "negative")
def neg(w, out, a):
    if _is_int(out):
        return sub(w, out, literal(0, out), a)
    return w.let("-%s" % w.typed(a).text, out)


@_op("abs")
def abs_(w, out, a):
    a, = _both(w, out, a)
    if not _is_int(out):
        return w.let("abs(%s)" % a.text, out)
    low, high = a.range
    most = _hull(0 if low <= 0 <= high else min(abs(low), abs(high)),
                 max(abs(low), abs(high)))
    return _int_op(w, out, "abs(%s)", most, a)


@_op("div", "divide", "true_divide")
def div(w, out, a, b, rounding_mode=None):
    if rounding_mode == "floor":
        return floor_divide(w, out, a, b)
    if rounding_mode == "trunc":
        return _trunc_divide(w, out, a, b)
    a, b = _both(w, out, a, b)
    return w.let("%s / %s" % (a.text, b.text), out)


@_op("floor_divide")
def floor_divide(w, out, a, b):
    a, b = _both(w, out, a, b)
    if not _is_int(out):
        return w.let("floor(%s / %s)" % (a.text, b.text), out)
    return _int_op(w, out, "%s / %s", _quotients(a, b), a, b)


def _quotients(a, b):
    """The range of a / b, of b without 0."""
    ends = {y for y in (*b.range, -1, 1) if y and b.range[0] <= y <= b.range[1]}
    return _hull(0, *[x // y for x in a.range for y in ends])


def _trunc_divide(w, out, a, b):
    a, b = _both(w, out, a, b)
    if not _is_int(out):
        return trunc(w, out, div(w, out, a, b))
    if a.range[0] >= 0 and b.range[0] >= 0:
        return floor_divide(w, out, a, b)
    size = floor_divide(w, out, abs_(w, out, a), abs_(w, out, b))
    kind, (a, b, size) = w.together(out, a, b, size)
    a, b = w.typed(a), w.typed(b)
    return w.let("select((%s < 0) ^ (%s < 0), -%s, %s)" % (
        a.text, b.text, size.text, size.text), out,
        _hull(-size.range[1], size.range[1]), kind)


@_op("remainder")
def remainder(w, out, a, b):
    a, b = _both(w, out, a, b)
    if not _is_int(out):
        return w.let("rem(%s, %s)" % (a.text, b.text), out)
    # By 0 it is a itself.
    range = _hull(*a.range, 0, *[y - (y > 0) + (y < 0) for y in b.range]) \
        if b.range[0] <= 0 <= b.range[1] else \
        (0, b.range[1] - 1) if b.range[0] > 0 else (b.range[0] + 1, 0)
    return _int_op(w, out, "rem(%s, %s)", range, a, b)


@_op("fmod")
def fmod(w, out, a, b):
    """The sign of the dividend."""
    a, b = _both(w, out, a, b)
    if _is_int(out) and a.range[0] >= 0 and b.range[0] >= 0:
        return remainder(w, out, a, b)
    size = remainder(w, out, abs_(w, out, a), abs_(w, out, b))
    zero = literal(0, out)
    return where(w, out, lt(w, torch.bool, a, zero), neg(w, out, size), size)


@_op("reciprocal")
def reciprocal(w, out, a):
    return w.let("rcp(%s)" % w.typed(w.cast(a, out)).text, out)


@_op("square")
def square(w, out, a):
    return mul(w, out, a, a)


@_op("pow")
def pow_(w, out, a, b):
    if b.literal is not None and float(b.literal).is_integer() and \
            0 <= b.literal <= 64:
        return _power(w, out, w.typed(w.cast(a, out)), int(b.literal))
    if _is_int(out):
        if a.literal == 2:
            return _shifted(w, out, "shl(%s, %s)", literal(1, out), b)
        raise Unsupported("a power of ints whose exponent is no constant")
    a, b = w.cast(a, out), w.cast(b, out)
    if b.literal == 0.5:
        return w.let("sqrt(%s)" % w.typed(a).text, out)
    if b.literal is not None and b.literal < 0 and float(
            b.literal).is_integer():
        return reciprocal(w, out, pow_(w, out, a, literal(-b.literal, out)))
    if a.literal is not None and a.literal > 0:
        return w.let("exp2(%s * %s)" % (
            w.typed(b).text, literal(math.log2(a.literal), out).text), out)
    a, b = w.typed(a), w.typed(b)
    size = w.let("exp2(log2(abs(%s)) * %s)" % (a.text, b.text), out)
    # Of a negative base a whole exponent makes a number, any other NaN.
    return w.let("select(%s >= 0.0, %s, select(rem(%s, 2.0) == 0.0, %s, "
                 "select(rem(%s, 2.0) == 1.0, -%s, nan)))" % (
                     a.text, size.text, b.text, size.text, b.text, size.text),
                 out)


def _power(w, out, a, n):
    if n == 0:
        return literal(1, out)
    found = None
    while n:
        if n & 1:
            found = a if found is None else mul(w, out, found, a)
        n >>= 1
        if n:
            a = mul(w, out, a, a)
    return found


# ---- Comparing, logic, bits ----


def _compare(pred):
    def compare(w, out, a, b, dtype=None):
        dtype = dtype or torch.promote_types(a.dtype, b.dtype)
        if dtype == torch.bool:
            if pred in ("==", "!="):
                found = w.let("%s ^ %s" % (w.typed(a).text, w.typed(b).text),
                              out)
                return found if pred == "!=" else logical_not(w, out, found)
            dtype = torch.int32
        a, b = _both(w, dtype, a, b)
        if dtype == torch.int64:
            a, b = _narrowed(w, a, b)
        return w.let("%s %s %s" % (a.text, pred, b.text), out)
    return compare


def _narrowed(w, a, b):
    """Ints of 64 bits, one of which surely fits into 32 and is not an end of
    that range: the other one may be clamped."""
    inside = (I32[0] + 1, I32[1] - 1)
    for x in (a, b):
        if within(x.range, inside):
            return [y if y.type == "i32" else w.let(
                "cast(min(max(%s, %d), %d), i32)" % (w.typed(y).text, *I32),
                y.dtype, I32, "i32") for y in (a, b)]
    return w.together(torch.int64, a, b)[1]


for _name, _pred in (("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="),
                     ("gt", ">"), ("ge", ">=")):
    POINTWISE[_name] = _compare(_pred)
lt = POINTWISE["lt"]
for _name, _long in (("ne", "not_equal"), ("lt", "less"), ("gt", "greater"),
                     ("le", "less_equal"), ("ge", "greater_equal")):
    POINTWISE[_long] = POINTWISE[_name]


def _logical(word):
    def logical(w, out, a, b):
        a, b = w.cast(a, torch.bool), w.cast(b, torch.bool)
        a = w.typed(a) if b.literal is not None else a
        return w.let("%s %s %s" % (a.text, word, b.text), out)
    return logical


def _bitwise(word, mark):
    by_logic = _logical(word)

    def bitwise(w, out, a, b):
        if out == torch.bool:
            return by_logic(w, out, a, b)
        a, b = _both(w, out, a, b)
        positive = a.range[0] >= 0 and b.range[0] >= 0
        least = min(a.range[1], b.range[1])
        most = max(a.range[1], b.range[1])
        range = None
        if mark == "&" and (a.range[0] >= 0 or b.range[0] >= 0):
            range = (0, least if positive else
                     a.range[1] if a.range[0] >= 0 else b.range[1])
        elif positive:
            range = (0, (1 << most.bit_length()) - 1)
        else:
            range = _hull(*a.range, *b.range)
            bits = max(abs(x) for x in range).bit_length()
            range = (-(1 << bits), (1 << bits) - 1)
        return _int_op(w, out, "%%s %s %%s" % mark, range, a, b)
    return bitwise


for _name, _word, _mark in (("and", "and", "&"), ("or", "or", "|"),
                            ("xor", "^", "^")):
    for _form in ("bitwise_%s", "__%s__"):
        POINTWISE[_form % _name] = _bitwise(_word, _mark)
    POINTWISE["logical_" + _name] = _logical(_word)


@_op("logical_not")
def logical_not(w, out, a):
    return w.let("not %s" % w.typed(w.cast(a, torch.bool)).text, out)


@_op("bitwise_not")
def bitwise_not(w, out, a):
    if out == torch.bool:
        return logical_not(w, out, a)
    return sub(w, out, literal(-1, out), a)


def _shifted(w, out, text, a, b):
    a, b = _both(w, out, a, b)
    range = None
    if b.literal is not None and 0 <= b.literal < 64:
        range = _hull(*[x << b.literal if "shl" in text else x >> b.literal
                        for x in a.range])
    elif "shr" in text:
        range = _hull(*a.range, 0)
    elif out == torch.int64:
        range = range_of(out)
    return _int_op(w, out, text, range, a, b)


@_op("bitwise_left_shift", "__lshift__")
def left_shift(w, out, a, b):
    return _shifted(w, out, "shl(%s, %s)", a, b)


@_op("bitwise_right_shift", "__rshift__")
def right_shift(w, out, a, b):
    return _shifted(w, out, "shr(%s, %s)", a, b)


@_op("where")
def where(w, out, c, a, b):
    c = w.typed(w.cast(c, torch.bool))
    a, b = w.cast(a, out), w.cast(b, out)
    kind, range = TYPES[out], None
    if _is_int(out) and out != torch.bool:
        kind, (a, b) = w.together(out, a, b)
        range = _hull(*a.range, *b.range)
    if a.literal is not None and b.literal is not None:
        a = w.typed(a)
    return w.let("select(%s, %s, %s)" % (c.text, a.text, b.text), out, range,
                 kind)


@_op("masked_fill")
def masked_fill(w, out, a, mask, value):
    return where(w, out, mask, value, a)


def _extreme(word, pick):
    def extreme(w, out, a, b):
        a, b = _both(w, out, a, b)
        if out == torch.bool:
            return _logical("or" if word == "max" else "and")(w, out, a, b)
        if not _is_int(out):
            return w.let("%s(%s, %s)" % (word, a.text, b.text), out)
        return _int_op(w, out, word + "(%s, %s)", (
            pick(a.range[0], b.range[0]), pick(a.range[1], b.range[1])), a, b)
    return extreme


minimum = POINTWISE["minimum"] = POINTWISE["fmin"] = _extreme("min", min)
maximum = POINTWISE["maximum"] = POINTWISE["fmax"] = _extreme("max", max)


@_op("clamp", "clip")
def clamp(w, out, a, min=None, max=None):
    """Of floats by select: at an end the gradient passes, as torch's does."""
    a = w.cast(a, out)
    for x, extreme, mark in ((min, maximum, "<"), (max, minimum, ">")):
        if x is None:
            continue
        x = w.cast(x, out)
        if _is_int(out):
            a = extreme(w, out, a, x)
        else:
            a = w.typed(a)
            a = w.let("select(%s %s %s, %s, %s)" % (
                a.text, mark, x.text, x.text, a.text), out)
    return a


@_op("clamp_min")
def clamp_min(w, out, a, x):
    return clamp(w, out, a, min=x)


@_op("clamp_max")
def clamp_max(w, out, a, x):
    return clamp(w, out, a, max=x)


# ---- Functions ----


def _function(text):
    """Rounds once, at the end, as torch does."""
    def function(w, out, a):
        inner = torch.float32 if out.itemsize < 4 else out
        a = w.typed(w.cast(a, inner))
        return w.cast(w.let(text.replace("$", a.text), inner), out)
    return function


_FUNCTIONS = {
    "exp": "exp($)", "exp2": "exp2($)", "log": "log($)", "log2": "log2($)",
    "sqrt": "sqrt($)", "rsqrt": "rsqrt($)", "sin": "sin($)", "cos": "cos($)",
    "tanh": "tanh($)", "erf": "erf($)", "sigmoid": "rcp(1.0 + exp(-$))",
    "expm1": "select(abs($) < 0.01, $ * (1.0 + $ * (0.5 + $ * "
             "0.16666666666666666)), exp($) - 1.0)",
    "log1p": "select(abs($) < 0.01, $ * (1.0 - $ * (0.5 - $ * "
             "(0.3333333333333333 - $ * 0.25))), log(1.0 + $))",
    "log10": "log2($) * 0.30102999566398120", "erfc": "1.0 - erf($)",
    "sinh": "(exp($) - exp(-$)) * 0.5", "cosh": "(exp($) + exp(-$)) * 0.5",
    "tan": "sin($) / cos($)", "silu": "$ / (1.0 + exp(-$))",
    "relu": "select($ <= 0.0, 0.0, $)",
    "mish": "$ * tanh(log(1.0 + exp($)))",
    "hardsigmoid": "min(max($ / 6.0 + 0.5, 0.0), 1.0)",
    "hardswish": "$ * min(max($ / 6.0 + 0.5, 0.0), 1.0)",
    "log_sigmoid": "min($, 0.0) - log(1.0 + exp(-abs($)))",
}
for _name, _text in _FUNCTIONS.items():
    POINTWISE[_name] = _function(_text)


def _rounding(text):
    by_text = _function(text)

    def rounding(w, out, a, decimals=0):
        if decimals:
            raise Unsupported("decimals=%d" % decimals)
        return w.cast(a, out) if _is_int(out) else by_text(w, out, a)
    return rounding


for _name, _text in (("floor", "floor($)"), ("ceil", "ceil($)"),
                     ("round", "round($)"),
                     ("trunc", "select($ < 0.0, ceil($), floor($))")):
    POINTWISE[_name] = _rounding(_text)
trunc = POINTWISE["fix"] = POINTWISE["trunc"]
POINTWISE["frac"] = _function("$ - select($ < 0.0, ceil($), floor($))")


@_op("relu")
def relu(w, out, a):
    if _is_int(out):
        return maximum(w, out, a, literal(0, out))
    return _function(_FUNCTIONS["relu"])(w, out, a)


@_op("gelu")
def gelu(w, out, a, approximate="none"):
    return _function(
        "0.5 * $ * (1.0 + erf($ * 0.7071067811865476))"
        if approximate == "none" else
        "0.5 * $ * (1.0 + tanh(0.7978845608028654 * ($ + 0.044715 * $ * $ * $"
        ")))")(w, out, a)


@_op("leaky_relu")
def leaky_relu(w, out, a, slope=None):
    slope = w.cast(literal(0.01, out) if slope is None else slope, out)
    return _function("select($ > 0.0, $, $ * %s)" % slope.text)(w, out, a)


@_op("softplus")
def softplus(w, out, a, beta=None, threshold=None):
    for x, default in ((beta, 1), (threshold, 20)):
        if x is not None and x.literal != default:
            raise Unsupported("beta or threshold other than 1 and 20")
    return _function("select($ > 20.0, $, log(1.0 + exp($)))")(w, out, a)


@_op("elu")
def elu(w, out, a, alpha=None, scale=None, input_scale=None):
    for x in (alpha, scale, input_scale):
        if x is not None and x.literal != 1:
            raise Unsupported("factors other than 1")
    return _function("select($ > 0.0, $, exp($) - 1.0)")(w, out, a)


@_op("sign", "sgn")
def sign(w, out, a):
    a = w.typed(w.cast(a, out))
    one, zero = ("1", "0") if _is_int(out) else ("1.0", "0.0")
    return w.let("select(%s > %s, %s, select(%s < %s, -%s, %s))" % (
        a.text, zero, one, a.text, zero, one, zero), out,
        (-1, 1) if _is_int(out) else None, a.type)


@_op("isnan")
def isnan(w, out, a):
    a = w.typed(a)
    return literal(False, out) if _is_int(a.dtype) else \
        w.let("%s != %s" % (a.text, a.text), out)


@_op("isinf")
def isinf(w, out, a):
    return literal(False, out) if _is_int(a.dtype) else \
        w.let("abs(%s) == inf" % w.typed(a).text, out)


@_op("isneginf")
def isneginf(w, out, a):
    return w.let("%s == (-inf)" % w.typed(a).text, out)


@_op("isfinite")
def isfinite(w, out, a):
    return literal(True, out) if _is_int(a.dtype) else \
        w.let("abs(%s) < inf" % w.typed(a).text, out)


@_op("nan_to_num")
def nan_to_num(w, out, a, nan=None, posinf=None, neginf=None):
    a = w.typed(w.cast(a, out))
    most = literal(torch.finfo(out).max, out)
    least = literal(torch.finfo(out).min, out)
    zero = literal(0.0, out)
    a = where(w, out, isnan(w, torch.bool, a), nan or zero, a)
    a = where(w, out, w.let("%s == inf" % a.text, torch.bool),
              posinf or most, a)
    return where(w, out, isneginf(w, torch.bool, a), neginf or least, a)


@_op("lerp")
def lerp(w, out, a, b, t):
    return add(w, out, a, mul(w, out, t, sub(w, out, b, a)))


@_op("addcmul")
def addcmul(w, out, a, b, c, value=None):
    x = mul(w, out, b, c)
    return add(w, out, a, x if value is None else mul(w, out, x, value))


@_op("_to_copy", "to", "convert_element_type")
def to_copy(w, out, a):
    return w.cast(a, out)


# attn-gym's operator: the GPU's own tanh.
POINTWISE["approx::tanh"] = _function("tanh($, approx=true)")
POINTWISE.update({n: to_copy for n in (
    "alias", "clone", "detach", "lift_fresh_copy", "lift_fresh", "contiguous",
    "positive", "_conj", "resolve_conj")})
