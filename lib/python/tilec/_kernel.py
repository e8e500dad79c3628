# SPDX-License-Identifier: Apache-2.0
"""Kernels of the user: compiles, inspects and launches them."""
import ctypes as C
import dataclasses
import os
import sys
import threading
import typing

from . import _abi, _context, _errors, _inspect, _launch, _tensors, _texts
from ._errors import Diagnostic
from ._texts import encoded
from ._types import Value

Bindings = typing.Mapping[str, typing.Union[str, int, float, bool]]
Examples = typing.Union[typing.Sequence[Value], typing.Mapping[str, Value]]

_KINDS = ("tensor", "pointer", "int", "float")


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel."""

    name: str
    type: str  # "tensor<[?, ?, ?, 128] x bf16>"
    kind: str  # "tensor", "pointer", "int", "float"
    captured: bool  # by a mod
    written: bool  # the kernel may store through it
    dtype: typing.Tuple[int, int]  # DLPack's code and bits
    shape: typing.Tuple[int, ...]  # -1: any size


def parameter(p):
    return Parameter(p.name.decode(), p.type.decode(), _KINDS[p.kind],
                     bool(p.captured), bool(p.written),
                     (p.dtype.code, p.dtype.bits),
                     tuple(p.shape[:p.ndim]) if p.kind == 0 else ())


class _Arguments:
    """The arguments of a launch in C, and the memory that they point to."""

    def __init__(self, positional, named):
        self.views = []
        self.list, self.n = _tensors.arguments(
            [*[(None, x) for x in positional], *named.items()], self.views)
        self.device = next(
            (_tensors.device_of(view.tensor) for view in self.views), None)


class _Launch(_launch.Launch):
    """Of tilec_launch."""

    function = "tilec_launch"

    def __init__(self, handle, arguments, threads):
        """arguments: [(name or None, value)]"""
        views = []
        self._handle = handle
        self._arguments = _launch.Arguments(arguments, views)
        device = (_tensors.device_of(views[0].tensor) if views else
                  (_tensors.CPU, 0))
        super().__init__(device, views, threads)

    def bind(self, s):
        array, n, s.numbers = self._arguments.made(s.tensors)
        s.held = s.options
        s.passed = self._handle, array, C.c_size_t(n), s.options, s.error

    def workspace(self, s):
        found = C.c_uint64()
        _context.check(_abi.lib.tilec_kernel_workspace(
            *s.passed[:3], C.byref(found), C.byref(s.error)), s.error)
        return found.value


class _Ready:
    """Launches of a kernel with arguments like some: tensors of the same types,
    shapes, strides and devices, at the same positions."""

    def __init__(self, kernel, names, values, threads):
        """names: those of the last values."""
        first = len(values) - len(names)
        self._kernel = kernel.name
        self._written = []
        for i, name in kernel.written:
            at = i if i < first else first + names.index(name) \
                if name in names else None
            if at is not None:
                self._written.append((at, name))
        self._check(values)
        self._tensors = [i for i, x in enumerate(values)
                         if _tensors.is_tensor(x)]
        self._numbers = [i for i, x in enumerate(values)
                         if not _tensors.is_tensor(x)]
        self._address = [_tensors.address_function(values[i])
                         for i in self._tensors]
        self._launch = _Launch(kernel.handle, zip(
            (*[None] * first, *names), values), threads)
        self._gpu = _context.gpu_of(self._launch.device)
        self.fast = None
        if self._tensors and all(
                _tensors.is_torch(values[i]) for i in self._tensors):
            self.fast = _launch.fast_call(
                self._launch, self, self._inputs(len(values)),
                like=values[self._tensors[0]],
                written=sum({1 << i for i, _ in self._written}))

    def _inputs(self, n):
        """As of _launch.fast_call."""
        found = {i: -1 - at for at, i in enumerate(self._numbers)}
        found.update({i: at for at, i in enumerate(self._tensors)})
        return [found[i] for i in range(n)]

    def fail(self, status, index):
        _launch.fail(self._launch, status, index)

    def _check(self, values):
        """ValueError where a launch may not write."""
        for i, name in self._written:
            why = _tensors.why_unwritable(values[i])
            if why:
                raise ValueError("%s %s, and @%s writes to it" % (
                    name, why, self._kernel))

    def __call__(self, values, stream):
        if self._gpu is not None and _context.current_gpu() != self._gpu:
            with _context.on_device(self._launch.device):
                return self(values, stream)
        if self._written:
            self._check(values)
            _tensors.will_change([values[i] for i, _ in self._written])
        if self._numbers:
            tensors = [values[i] for i in self._tensors]
            numbers = [values[i] for i in self._numbers]
        else:
            tensors, numbers = values, ()
        self._launch(
            [address(x) for address, x in zip(self._address, tensors)],
            numbers, tensors[0] if tensors else None, stream)


MOST_READY = 256  # of a kernel


def _key(values, names, threads):
    """What a call has in common with those that it is like: all but addresses
    and numbers. None: it is to be looked at each time, like those with arrays
    of numpy."""
    try:
        key = (threads, *names, *map(_tensors.kind, values))
        hash(key)
        return key
    except (AttributeError, TypeError, RuntimeError):
        return None


def _run(table, find, args, named, threads, stream):
    """Runs the _Ready of the table for such arguments; find gives the kernel,
    where there is none."""
    names, values = tuple(named), (*args, *named.values()) if named else args
    fast, ready, key = _launch.fast, None, None
    if fast is not None and stream is None:
        like = table.get((threads, names))
        if like is not None and fast.run(like, *values) is not None:
            return
    key = _key(values, names, threads)
    ready = table.get(key) if key is not None else None
    if ready is None:
        values = [_argument(x) for x in values]
        ready = _Ready(find(), names, values, threads)
        _keep(table, key, ready, (threads, names), values)
    ready(values, stream)


def _keep(table, key, ready, rest, values):
    """rest: what tells calls apart besides values."""
    if len(table) >= MOST_READY:
        table.clear()
    if key is not None:
        table[key] = ready
        if ready.fast is not None:
            like = table.setdefault(rest, {})
            like[_launch.fast.key(*values)] = ready.fast


def _argument(x):
    """A number of Python, or a tensor of torch or numpy."""
    number = _tensors.number_of(x)
    return _tensors.adopt(x, "argument") if number is None else number


class Kernel:
    """A compiled kernel: call it with its arguments, by position or name.

    Tensors are those of torch or numpy, all of the target's device. On a GPU
    the launch goes into torch's current stream, or the one given as `stream`
    (a number), and does not wait; `synchronize` does.
    """

    def __init__(self, handle: typing.Any, request: typing.Any = None) -> None:
        """request: an _inspect.Request, if it was compiled from a text."""
        self.handle: typing.Any = handle
        self._request = request
        n = _abi.lib.tilec_kernel_parameter_count(handle)
        self.parameters: typing.Tuple[Parameter, ...] = tuple(
            parameter(_abi.lib.tilec_kernel_parameter(
                handle, C.c_size_t(i)).contents) for i in range(n))
        self.written: typing.List[typing.Tuple[int, str]] = [
            (i, p.name) for i, p in enumerate(self.parameters) if p.written]
        self._ready = {}
        self.name: str = _abi.lib.tilec_kernel_name(handle).decode()
        self.target: str = _abi.lib.tilec_kernel_target(handle).decode()

    def __del__(self) -> None:
        # A process that ends takes modules apart, this one's too.
        if getattr(self, "handle", None) and not sys.is_finalizing():
            _abi.lib.tilec_kernel_free(self.handle)

    def __repr__(self) -> str:
        return "<tilec.Kernel @%s(%s) for %s>" % (
            self.name, ", ".join("%%%s: %s" % (p.name, p.type)
                                 for p in self.parameters), self.target)

    def __call__(self, *args: Value, stream: typing.Optional[int] = None,
                 threads: int = 0, **named: Value) -> None:
        _run(self._ready, lambda: self, args, named, threads, stream)

    def grid(self, *args: Value, **named: Value) -> typing.Tuple[int, ...]:
        """The grid that a launch with these arguments would run over."""
        a = _Arguments(args, named)
        grid, error = (C.c_int32 * 3)(), _abi.tilec_error()
        _context.check(_abi.lib.tilec_kernel_grid(
            self.handle, a.list, C.c_size_t(a.n), grid, C.byref(error)),
            error)
        return tuple(grid)

    def synchronize(self, stream: typing.Optional[int] = None) -> None:
        """Waits for the launches in a stream (torch's current one, where none
        is given), and raises what an `assert` of the kernel found there."""
        device = (_tensors.CPU, 0)
        if stream is None and self.target != "cpu":
            import torch
            device = (_tensors.CUDA, torch.cuda.current_device())
        stream = _context.launch_options(device, stream).stream
        error = _abi.tilec_error()
        _context.check(_abi.lib.tilec_kernel_synchronize(
            self.handle, C.c_void_p(stream), C.byref(error)), error)

    def emit(self, what: str) -> typing.Union[str, bytes]:
        """The code of a stage as text (a cubin: bytes): "tile", "schedule",
        "json", "llvm", "llvm-opt"; "asm" (CPU); "machine", "ptx", "cubin",
        "sass"."""
        data, size = C.c_void_p(), C.c_size_t()
        error = _abi.tilec_error()
        _context.check(_abi.lib.tilec_kernel_emit_data(
            self.handle, encoded(what, "what"), C.byref(data), C.byref(size),
            C.byref(error)), error)
        try:
            found = C.string_at(data, size.value)
        finally:
            _abi.lib.tilec_free(data)
        return found if what == "cubin" else found.decode()

    def inspect(self, path: typing.Union[str, os.PathLike[str], None] = None, *,
                target: typing.Optional[str] = None,
                against: typing.Union[
                    "Kernel", str, os.PathLike[str], None] = None,
                show: bool = True) -> str:
        """Opens a page in the browser that shows what the compiler did to
        this kernel and why (docs/inspector.md). Returns the path of the page.

        path: where to write the page; None: a new temporary file. With
            the suffix ".json" it is the page's data, and no browser opens.
        target: a GPU target ("sm_90a") to compile for instead of the
            kernel's. A kernel for the CPU needs it.
        against: another Kernel, or a file that `tilec inspect --json` wrote:
            the page shows both, the differences first.
        show: whether to open the page.
        """
        document = self._document(target)
        if path is not None and os.fspath(path).endswith(".json"):
            if against is not None:
                raise ValueError("against puts two kernels on a page, "
                                 "expected a path of HTML")
            return _inspect.write(document, path, False)
        other = None if against is None else (
            against._document(target) if isinstance(against, Kernel)
            else _inspect.other_document(against))
        return _inspect.write(_inspect.page(document, other),
                              path or _inspect.new_path(self.name), show)

    def resources(self, *, target: typing.Optional[str] = None
                  ) -> typing.Dict[str, int]:
        """What it takes of a GPU: "warps" and "shared_bytes" of a block, and,
        where NVIDIA's ptxas is, of a thread "registers" and the bytes of
        "spill_stores", "spill_loads" and "stack". Compiles it once more.

        target: as of inspect().
        """
        return _inspect.resources(self._document(target))

    def remarks(self, *, done: bool = False,
                target: typing.Optional[str] = None
                ) -> typing.List[Diagnostic]:
        """What the compiler did not do, why, and what helps, for a GPU
        (docs/remarks.md). Compiles it once more.

        done: also what it did.
        target: as of inspect().
        """
        return _inspect.remarks(self._document(target), done)

    def _document(self, target):
        """The JSON document of the inspector."""
        if self._request is None:
            raise ValueError("@%s comes from a bundle, which has no text of "
                             "the kernel to inspect" % self.name)
        # The target that `auto` became, also without the device.
        return self._request.document(target or self.target)

    def binding(self, name: str) -> typing.Optional[str]:
        """The value of a compile-time parameter as text, or None."""
        found = _abi.lib.tilec_kernel_binding(self.handle,
                                              encoded(name, "name"))
        return found.decode() if found is not None else None

    def fits(self, positional: typing.Sequence[Value],
             named: typing.Mapping[str, Value]) -> bool:
        """Whether these arguments have its data types, ranks and fixed dims.
        """
        by_name = {p.name: p for p in self.parameters}
        given = [*zip(self.parameters, positional),
                 *[(by_name.get(n), x) for n, x in named.items()]]
        return all(p is not None and _fits(p, x) for p, x in given)


def _fits(p, x):
    if p.kind in ("int", "float"):
        return not _tensors.is_tensor(x)
    if not _tensors.is_tensor(x):
        return False
    x = _tensors.adopt(x, p.name)
    if _tensors.dl_dtype(x, p.name) != p.dtype:
        return False
    return p.kind == "pointer" or (
        len(x.shape) == len(p.shape) and
        all(want in (-1, n) for want, n in zip(p.shape, x.shape)))


def _code(text):
    if not isinstance(text, str):
        raise TypeError("text is a %s, expected text in tile IR, or the name "
                        "of a kernel of the library" % type(text).__name__)
    return encoded(text, "text")


def source_of(text):
    """The source of a text, or of the library's kernel of that name."""
    code = _code(text)
    embedded = _abi.lib.tilec_embedded_text(code) is not None
    return _abi.tilec_source(code if embedded else b"kernel",
                             None if embedded else code, 0)


def device_of_arguments(args, named):
    """Of their tensors; the CPU, where there are none."""
    return _Arguments(args, named).device or (_tensors.CPU, 0)


_TILES = ("", "none", "static", "dynamic")  # as of tilec_tiles


def compile(text: str, *, name: typing.Optional[str] = None,
            target: typing.Optional[str] = None,
            bindings: typing.Optional[Bindings] = None,
            examples: Examples = (), num_warps: int = 0, num_stages: int = 0,
            no_cache: bool = False, enforce: str = "warn",
            ptxas_level: int = 0, tiles: str = "",
            precision: str = "") -> Kernel:
    """A Kernel of a text in tile IR, or of the library's kernel of that name.

    name: which kernel of the text; None: the only one.
    target: "cpu", "sm_80", "sm_90a", ... (`tilec.targets()`); None: "cpu" if
        the examples lie there, else the GPU's best, else "cpu".
    bindings: {name: value} of compile-time parameters: {"N": 60, "T": "bf16",
        "mask_mod": "@causal", "act": "gelu.tile@gelu"} (a function of a file).
    examples: arguments, a list by position or a dict by name, from which
        compile-time parameters that are not bound are inferred.
    enforce: "warn", "error" or "off" where a product on a GPU cannot take an
        operand in the order in which it lies in memory.
    ptxas_level: of NVIDIA's assembler, 1 to 3; 0: its own.
    tiles: which programs compute the tiles on a GPU: "none", "static",
        "dynamic"; "": as the text says, else as the compiler chooses.
    precision: of products of f32 on a GPU: "ieee", "tf32" or "tf32x3"; "":
        "ieee".
    """
    source = source_of(text)
    if tiles not in _TILES:
        raise ValueError("tiles is %r, expected one of %s" % (
            tiles, ", ".join(map(repr, _TILES))))
    if bindings is not None and not isinstance(bindings, dict):
        raise TypeError("bindings is a %s, expected a dict" %
                        type(bindings).__name__)
    named = examples if isinstance(examples, dict) else {}
    a = _Arguments(() if named else tuple(examples), named)
    device = a.device or (_tensors.CUDA, 0)
    pairs, npairs = _context.bindings((bindings or {}).items())
    options = _abi.new(
        _abi.tilec_compile_options, kernel=encoded(name, "name"),
        target=_context.target_for(device, target), bindings=pairs,
        nbindings=npairs, examples=a.list, nexamples=a.n, warps=num_warps,
        stages=num_stages, no_cache=int(no_cache),
        enforce=_texts.enforce_of(enforce), ptxas_level=ptxas_level,
        tiles=_TILES.index(tiles),
        float32_precision=encoded(precision, "precision") if precision else
        None, read_source=_context.read_source, may_split=1)
    handle = C.c_void_p()
    with _context.context() as cx, _context.on_device(a.device or (1, 0)):
        status = _abi.lib.tilec_compile(cx, C.byref(source), C.c_size_t(1),
                                        C.byref(options), C.byref(handle))
        if status:
            raise _errors.compile_failed(cx, status)
        made = Kernel(handle, _inspect.Request(source, options))
        _errors.warn(cx)
    return made


class _Launcher:
    """A kernel that is compiled for the arguments of its calls."""

    def __init__(self, text: str,
                 options: typing.Dict[str, typing.Any]) -> None:
        _code(text)
        self._text, self._options = text, options
        self._kernels, self._lock = [], threading.Lock()
        self._ready = {}

    def __call__(self, *args: Value, stream: typing.Optional[int] = None,
                 threads: int = 0, **named: Value) -> None:
        _run(self._ready, lambda: self.compiled(*args, **named), args, named,
             threads, stream)

    def compiled(self, *args: Value, **named: Value) -> Kernel:
        """The Kernel for arguments like these."""
        device = _Arguments(args, named).device
        for known, k in self._kernels:
            if known == device and k.fits(args, named):
                return k
        with self._lock:
            k = compile(self._text, examples=named if not args else args,
                        **self._options)
            self._kernels.append((device, k))
        return k


def kernel(text: str, **options: typing.Any) -> _Launcher:
    """A function that launches a kernel of the text (or the library's kernel
    of that name), compiled for the data types and fixed dims of the arguments:

        softmax = tilec.kernel("softmax")
        softmax(x, y)                       # torch tensors, numpy arrays

    options: as of `tilec.compile`, but for the examples.
    """
    return _Launcher(text, options)


def version() -> str:
    return _abi.lib.tilec_version().decode()


def _names(function):
    found, i = [], 0
    while True:
        name = function(C.c_size_t(i))
        if name is None:
            return found
        found.append(name.decode())
        i += 1


def targets() -> typing.List[str]:
    """The names of the targets that kernels can be compiled for."""
    return _names(_abi.lib.tilec_target_name)


def mods() -> typing.Dict[str, str]:
    """The texts of mask and score functions that come with the library."""
    return {name: _abi.lib.tilec_embedded_text(name.encode()).decode()
            for name in _names(_abi.lib.tilec_embedded_name)
            if name.startswith("mods/")}
