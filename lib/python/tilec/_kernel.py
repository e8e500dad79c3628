# SPDX-License-Identifier: Apache-2.0
"""Kernels of the user: compiles, inspects and launches them."""
import ctypes as C
import dataclasses
import sys
import threading
import typing

from . import _abi, _context, _errors, _tensors, _texts
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


class Kernel:
    """A compiled kernel: call it with its arguments, by position or name.

    Tensors are those of torch or numpy, all of the target's device. On a GPU
    the launch goes into torch's current stream, or the one given as `stream`
    (a number), and does not wait; `synchronize` does.
    """

    def __init__(self, handle):
        self._handle = handle
        n = _abi.lib.tilec_kernel_parameter_count(handle)
        self.parameters = tuple(
            parameter(_abi.lib.tilec_kernel_parameter(
                handle, C.c_size_t(i)).contents) for i in range(n))
        self._written = [(i, p.name) for i, p in enumerate(self.parameters)
                         if p.written]
        self.name = _abi.lib.tilec_kernel_name(handle).decode()
        self.target = _abi.lib.tilec_kernel_target(handle).decode()

    def __del__(self):
        # A process that ends takes modules apart, this one's too.
        if getattr(self, "_handle", None) and not sys.is_finalizing():
            _abi.lib.tilec_kernel_free(self._handle)

    def __repr__(self) -> str:
        return "<tilec.Kernel @%s(%s) for %s>" % (
            self.name, ", ".join("%%%s: %s" % (p.name, p.type)
                                 for p in self.parameters), self.target)

    def __call__(self, *args: Value, stream: typing.Optional[int] = None,
                 threads: int = 0, **named: Value) -> None:
        written = self._written_of(args, named)
        a = _Arguments(args, named)
        device = a.device or (_tensors.CPU, 0)
        options = _context.launch_options(device, stream, threads)
        memory = _tensors.Memory(a.views[0].tensor if a.views else None,
                                 self._workspace(a))
        options.workspace, options.workspace_bytes = (memory.address,
                                                      memory.size)
        error = _abi.tilec_error()
        _tensors.will_change(written)
        with _context.on_device(device):
            status = _abi.lib.tilec_launch(
                self._handle, a.list, C.c_size_t(a.n), C.byref(options),
                C.byref(error))
        if stream is not None:
            memory.record_stream(stream)
        _context.check(status, error)

    def _written_of(self, positional, named):
        """The tensors that a launch writes to; ValueError where it may not."""
        found = []
        for i, name in self._written:
            x = positional[i] if i < len(positional) else named.get(name)
            why = _tensors.why_unwritable(x)
            if why:
                raise ValueError("%s %s, and @%s writes to it" % (
                    name, why, self.name))
            found.append(x)
        return found

    def _workspace(self, a):
        """The bytes that the kernels of a plan pass to each other."""
        found, error = C.c_uint64(), _abi.tilec_error()
        _context.check(_abi.lib.tilec_kernel_workspace(
            self._handle, a.list, C.c_size_t(a.n), C.byref(found),
            C.byref(error)), error)
        return found.value

    def grid(self, *args: Value, **named: Value) -> typing.Tuple[int, ...]:
        """The grid that a launch with these arguments would run over."""
        a = _Arguments(args, named)
        grid, error = (C.c_int32 * 3)(), _abi.tilec_error()
        _context.check(_abi.lib.tilec_kernel_grid(
            self._handle, a.list, C.c_size_t(a.n), grid, C.byref(error)),
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
            self._handle, C.c_void_p(stream), C.byref(error)), error)

    def emit(self, what: str) -> typing.Union[str, bytes]:
        """The code of a stage as text (a cubin: bytes): "tile", "json",
        "llvm", "llvm-opt"; "asm" (CPU); "machine", "ptx", "cubin", "sass"."""
        data, size = C.c_void_p(), C.c_size_t()
        error = _abi.tilec_error()
        _context.check(_abi.lib.tilec_kernel_emit_data(
            self._handle, encoded(what, "what"), C.byref(data), C.byref(size),
            C.byref(error)), error)
        try:
            found = C.string_at(data, size.value)
        finally:
            _abi.lib.tilec_free(data)
        return found if what == "cubin" else found.decode()

    def binding(self, name: str) -> typing.Optional[str]:
        """The value of a compile-time parameter as text, or None."""
        found = _abi.lib.tilec_kernel_binding(self._handle,
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


def compile(text: str, *, name: typing.Optional[str] = None,
            target: typing.Optional[str] = None,
            bindings: typing.Optional[Bindings] = None,
            examples: Examples = (), num_warps: int = 0, num_stages: int = 0,
            no_cache: bool = False, enforce: str = "warn") -> Kernel:
    """A Kernel of a text in tile IR, or of the library's kernel of that name.

    name: which kernel of the text; None: the only one.
    target: "cpu", "sm_80", "sm_90a", ... (`tilec.targets()`); None: "cpu" if
        the examples lie there, else the GPU's best, else "cpu".
    bindings: {name: value} of compile-time parameters: {"N": 60, "T": "bf16",
        "mask_mod": "@causal"}.
    examples: arguments, a list by position or a dict by name, from which
        compile-time parameters that are not bound are inferred.
    enforce: "warn", "error" or "off" where a product on a GPU cannot take an
        operand in the order in which it lies in memory.
    """
    code = _code(text)
    if bindings is not None and not isinstance(bindings, dict):
        raise TypeError("bindings is a %s, expected a dict" %
                        type(bindings).__name__)
    named = examples if isinstance(examples, dict) else {}
    a = _Arguments(() if named else tuple(examples), named)
    device = a.device or (_tensors.CUDA, 0)
    embedded = _abi.lib.tilec_embedded_text(code) is not None
    source = _abi.tilec_source(code if embedded else b"kernel",
                               None if embedded else code, 0)
    pairs, npairs = _context.bindings((bindings or {}).items())
    options = _abi.new(
        _abi.tilec_compile_options, kernel=encoded(name, "name"),
        target=_context.target_for(device, target), bindings=pairs,
        nbindings=npairs, examples=a.list, nexamples=a.n, warps=num_warps,
        stages=num_stages, no_cache=int(no_cache),
        enforce=_texts.enforce_of(enforce))
    handle = C.c_void_p()
    with _context.context() as cx, _context.on_device(a.device or (1, 0)):
        status = _abi.lib.tilec_compile(cx, C.byref(source), C.c_size_t(1),
                                        C.byref(options), C.byref(handle))
        if status:
            raise _errors.compile_failed(cx, status)
        made = Kernel(handle)
        _errors.warn(cx)
    return made


class _Launcher:
    """A kernel that is compiled for the arguments of its calls."""

    def __init__(self, text, options):
        _code(text)
        self._text, self._options = text, options
        self._kernels, self._lock = [], threading.Lock()

    def __call__(self, *args: Value, stream: typing.Optional[int] = None,
                 threads: int = 0, **named: Value) -> None:
        self.compiled(*args, **named)(*args, stream=stream, threads=threads,
                                      **named)

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
