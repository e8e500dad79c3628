# SPDX-License-Identifier: Apache-2.0
"""Texts of callers: mods, options, numbers.

torch's operators take text and numbers but no dicts, so the arguments of
`attention` become text. It is parsed here, each text once.
"""
import functools
import re
import typing


def encoded(text, what):
    """text as C reads it; None stays None."""
    if text is None:
        return None
    if not isinstance(text, str):
        raise TypeError("%s is a %s, expected text" % (
            what, type(text).__name__))
    if "\0" in text:
        raise ValueError("%s has a NUL at position %d: C's texts end there" %
                         (what, text.index("\0")))
    return text.encode()


@functools.lru_cache(maxsize=256)
def mod_of(text):
    """A mod's text as (expression, tile IR or None).

    The text is an expression, `causal & sliding_window(w=1024)`; or functions
    in tile IR, the last of which is the mod; or an expression, and after it
    the functions that it names.
    """
    start = re.search(r"^[ \t]*func\b", text, re.M)
    if not start:
        return text.strip() or None, None
    head, body = text[:start.start()], text[start.start():]
    said = " ".join(line.partition("//")[0].strip()
                    for line in head.splitlines()).strip()
    if not said:
        said = (re.findall(r"^[ \t]*func\s+@(\w+)", body, re.M) or [None])[-1]
    # The places in diagnostics are those of the caller's text.
    return said, "\n" * head.count("\n") + body


_FUNCTION = re.compile(r"^[ \t]*func\s+@(\w+)\(([^)]*)\)(.*?)^[ \t]*\}",
                       re.M | re.S)


@functools.lru_cache(maxsize=256)
def reads_batch(text, at, library):
    """Whether a mod may read the batch index, its parameter number `at`.
    library: the texts of the functions that come with tilec."""
    said, body = mod_of(text)
    found = {name: (parameters, rest) for source in (library, body or "")
             for name, parameters, rest in _FUNCTION.findall(source)}
    for name in re.findall(r"[A-Za-z_]\w*(?=\s*(?:\(|[&|!,)]|$))", said or ""):
        if name not in found:
            return True
        parameters, rest = found[name]
        batch = re.findall(r"%[\w.]+(?=\s*:)", parameters)[at]
        if re.search(re.escape(batch) + r"(?![\w.])", rest):
            return True
    return False


def numbers_text(numbers):
    """Captured numbers: `cap=30.0;w=1024`; True is 1."""
    return ";".join(["%s=%s" % (n, numbers[n] + 0) for n in sorted(numbers)])


@functools.lru_cache(maxsize=1024)
def numbers_of(text):
    pairs = [item.partition("=")[::2] for item in text.split(";") if item]
    return tuple((n, int(v) if re.fullmatch(r"[-+]?\d+", v) else float(v))
                 for n, v in pairs)


class Options(typing.NamedTuple):
    target: typing.Optional[str] = None
    threads: int = 0
    lists: int = 0  # 1, -1, 0: as block_lists of the library
    enforce: int = 0  # likewise
    out_dtype: typing.Optional[str] = None
    # Pairs of names and values. Which names there are the library knows.
    kernel: tuple = ()
    bindings: tuple = ()
    backward_bindings: tuple = ()


# tilec's names for what o may be.
O_TYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16",
           "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2"}

# The type of dq, dk and dv among the backward bindings, where it is not q's.
GRADIENTS = "TG"


def gradients_dtype(options):
    """The data type of gradients that options ask for, or None."""
    by_name = {x: n for n, x in O_TYPES.items()}
    return by_name.get(dict(options.backward_bindings).get(GRADIENTS))


# FlexAttention's options (FlexKernelOptions up to torch 2.15, and Triton's
# options that pass through them) that choose among its kernels. None of them
# changes the result, and there are no such kernels here.
_OF_TRITON = frozenset((
    "BACKEND", "BLOCKS_ARE_CONTIGUOUS", "FORCE_USE_FLEX_ATTENTION",
    "PARTITION_SIZE", "SPLIT_KV", "USE_TMA", "WRITE_DQ", "force_flash",
    "kpack", "matrix_instr_nonkdim", "num_buffers_warp_spec",
    "num_consumer_groups", "waves_per_eu"))


def without_hints(options):
    """kernel_options without these options, and the names of those found."""
    hints = [n for n in options
             if isinstance(n, str) and re.sub("^[fb]wd_", "", n) in _OF_TRITON]
    return {n: x for n, x in options.items() if n not in hints}, hints


_ENFORCE = ("warn", "off", "error")  # by tilec_enforce


def enforce_of(word):
    if word not in _ENFORCE:
        raise ValueError("enforce is %r, expected %s" % (
            word, ", ".join(_ENFORCE)))
    return _ENFORCE.index(word)


def _item(name, value):
    if not re.fullmatch(r"[\w.]+", name) or re.search("[;\0]", str(value)):
        raise ValueError("kernel_options: %r: %r cannot be read" % (
            name, value))
    return "%s=%s" % (name, value)


def options_text(options):
    """kernel_options, a dict: `BLOCK_M=128;bindings.BM=64;target=sm_80`."""
    items = []
    for name, value in options.items():
        if not isinstance(name, str):
            raise TypeError("kernel_options: %r is no name" % (name,))
        items += ([_item("%s.%s" % (name, n), x) for n, x in value.items()]
                  if isinstance(value, dict) else [_item(name, value)])
    return ";".join(sorted(items))


@functools.lru_cache(maxsize=1024)
def options_of(text):
    lists = {"kernel": [], "bindings": [], "backward_bindings": []}
    target, threads, by_lists, enforce, out_dtype = None, 0, 0, 0, None
    for item in filter(None, text.split(";")):
        name, _, value = item.partition("=")
        group, _, rest = name.partition(".")
        if name == "target":
            target = value
        elif name == "threads":
            if not value.isdigit():
                raise ValueError("kernel_options: threads is %r, expected a "
                                 "number" % value)
            threads = int(value)
        elif name == "block_lists":
            if value not in ("True", "False"):
                raise ValueError("kernel_options: block_lists is %r, expected "
                                 "True or False" % value)
            by_lists = 1 if value == "True" else -1
        elif name == "enforce":
            enforce = enforce_of(value)
        elif name == "out_dtype":
            if value not in O_TYPES:
                raise ValueError("out_dtype is %s, expected %s" % (
                    value, ", ".join(O_TYPES)))
            out_dtype = value
        elif rest and group in lists:
            lists[group].append((rest, value))
        else:
            # The library's booleans are in lower case.
            low = value.lower()
            lists["kernel"].append(
                (name, low if low in ("true", "false") else value))
    return Options(target, threads, by_lists, enforce, out_dtype,
                   **{n: tuple(x) for n, x in lists.items()})
