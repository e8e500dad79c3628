# SPDX-License-Identifier: Apache-2.0
"""Tuning spaces of kernels, and the launcher that chooses among them."""
import ctypes as C
import hashlib
import itertools
import json
import os
import platform
import tempfile
import threading
import time
import typing

from . import _abi, _context, _errors, _kernel, _tensors
from ._types import Value

Choice = typing.Dict[str, typing.Union[int, str]]
Space = typing.Mapping[str, typing.Sequence[typing.Union[int, str]]]

# Names of compile options in a space; all others are compile-time parameters.
_OPTIONS = {"warps": "num_warps", "stages": "num_stages",
            "ptxas": "ptxas_level", "tiles": "tiles"}


def _number(word):
    try:
        return int(word)
    except ValueError:
        return word


def tuning_space(text: str, *, name: typing.Optional[str] = None,
                 target: typing.Optional[str] = None,
                 bindings: typing.Optional[_kernel.Bindings] = None
                 ) -> typing.Dict[str, typing.Tuple[typing.Union[int, str],
                                                    ...]]:
    """What tune(..) of a kernel lists as worth trying: {"BM": (64, 128),
    "warps": (4, 8)}, without what the bindings give, and for the target "cpu"
    without warps, stages, ptxas and tiles.

    text, name, bindings: as of `tilec.compile`.
    """
    source = _kernel.source_of(text)
    pairs, npairs = _context.bindings((bindings or {}).items())
    options = _abi.new(
        _abi.tilec_compile_options, kernel=_kernel.encoded(name, "name"),
        target=_kernel.encoded(target, "target"), bindings=pairs,
        nbindings=npairs, read_source=_context.read_source)
    found = C.c_void_p()
    with _context.context() as cx:
        status = _abi.lib.tilec_tuning_space(
            cx, C.byref(source), C.c_size_t(1), C.byref(options),
            C.byref(found))
        if status:
            raise _errors.compile_failed(cx, status)
    try:
        lines = C.string_at(found).decode().splitlines()
    finally:
        _abi.lib.tilec_free(found)
    axes = (line.split("=", 1) for line in lines)
    return {n: tuple(map(_number, values.split(","))) for n, values in axes}


# ---- Times ----

def _median(times):
    return sorted(times)[len(times) // 2]


def _time_cpu(launch, runs):
    times, end = [], time.perf_counter() + 1
    for _ in range(max(runs, 1)):
        begin = time.perf_counter()
        launch()
        times.append(time.perf_counter() - begin)
        if begin > end and len(times) >= 3:
            break
    return _median(times)


def _time_gpu(launch, runs):
    """Of launches in a row, so that events and the launch itself do not
    count."""
    import torch

    def events(n):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in "12")
        start.record()
        for _ in range(n):
            launch()
        stop.record()
        stop.synchronize()
        return start.elapsed_time(stop) / 1e3 / n

    n = max(1, min(200, int(300e-6 / max(events(3), 1e-7))))
    return _median([events(n) for _ in range(max(runs, 1))])


def seconds(device, launch, runs):
    """The median time of a launch."""
    launch()
    time_of = _time_cpu if device[0] == _tensors.CPU else _time_gpu
    return time_of(launch, runs)


# ---- Tensors that are written ----

def _copy(x):
    return x.detach().clone() if _tensors.is_torch(x) else x.copy()


def _restore(x, saved):
    if not _tensors.is_torch(x):
        x[...] = saved
        return
    import torch
    with torch.no_grad():
        x.copy_(saved)


# ---- What was chosen before ----

def _device_name(device):
    if device[0] != _tensors.CPU:
        import torch
        return torch.cuda.get_device_name(device[1])
    return "%s, %s" % (platform.processor() or platform.machine(),
                       os.cpu_count())


def _folder():
    with _context.context() as cx:
        found = _abi.lib.tilec_cache_folder(cx)
    return os.fsdecode(found) if found else None


def _read(path):
    try:
        with open(path, encoding="utf-8") as f:
            return json.load(f)["choice"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(path, entry):
    """What cannot be kept is no error."""
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        handle, part = tempfile.mkstemp(dir=os.path.dirname(path))
        with os.fdopen(handle, "w", encoding="utf-8") as f:
            json.dump(entry, f)
        os.replace(part, path)
    except OSError:
        pass


class Autotuned:
    """A kernel whose tile sizes, warps and so on are chosen by the first call
    with arguments of a kind. See `tilec.autotune`."""

    def __init__(self, text: typing.Any, space: typing.Any, key: typing.Any,
                 runs: typing.Any, cache: typing.Any,
                 options: typing.Any) -> None:
        self._source = _kernel.source_of(text)
        self._text, self._options = text, options
        self._space, self._key, self._runs = space, key, runs
        self._cache = cache
        self._kernels = {}  # by kind of the arguments: (kernel, choice)
        self._lock = threading.Lock()

    def __call__(self, *args: Value, stream: typing.Optional[int] = None,
                 threads: int = 0, **named: Value) -> None:
        self._find(args, named)[0](*args, stream=stream, threads=threads,
                                   **named)

    def choice(self, *args: Value, **named: Value) -> Choice:
        """What such a call runs: {"BM": 64, "warps": 4}. Tunes where there is
        none yet; the contents of the tensors stay."""
        return dict(self._find(args, named)[1])

    def compiled(self, *args: Value, **named: Value) -> _kernel.Kernel:
        """The Kernel that such a call runs."""
        return self._find(args, named)[0]

    def _kind(self, args, named):
        values = [("", x) for x in args] + sorted(named.items())
        kinds = []
        for n, x in values:
            if not _tensors.is_tensor(x):
                kinds.append((n, type(x).__name__))
                continue
            x = _tensors.adopt(x, n or "argument")
            strides = x.stride() if _tensors.is_torch(x) else x.strides
            kinds.append((n, str(x.dtype), tuple(x.shape), tuple(strides),
                          _tensors.device_of(x)))
        return tuple(kinds)

    def _find(self, args, named):
        kind = self._kind(args, named)
        with self._lock:
            found = self._kernels.get(kind)
            if found is None:
                found = self._kernels[kind] = self._choose(args, named, kind)
        return found

    def _variants(self, device):
        space = self._space
        if space is None:
            target = "cpu" if device[0] == _tensors.CPU else None
            space = tuning_space(
                self._text, name=self._options.get("name"),
                target=self._options.get("target") or target,
                bindings=self._options.get("bindings"))
        return [dict(zip(space, values))
                for values in itertools.product(*space.values())]

    def _compile(self, choice, args, named):
        options = dict(self._options)
        options["bindings"] = dict(options.get("bindings") or {})
        for n, value in choice.items():
            if n in _OPTIONS:
                options[_OPTIONS[n]] = value
            else:
                options["bindings"][n] = value
        return _kernel.compile(self._text, examples=named if not args else
                               args, **options)

    def _path(self, device, args, named, kind):
        folder = _folder() if self._cache else None
        if folder is None:
            return None
        text = self._source.text or _abi.lib.tilec_embedded_text(
            self._source.name)
        of = self._key(*args, **named) if self._key else kind
        said = repr((_abi.VERSION, text, sorted(
            (n, str(v)) for n, v in self._options.items()),
            _device_name(device), of))
        return os.path.join(folder, "tune-%s.json" % hashlib.sha256(
            said.encode()).hexdigest()[:32])

    def _choose(self, args, named, kind):
        device = _kernel.device_of_arguments(args, named)
        variants = self._variants(device)
        if len(variants) == 1:
            return self._compile(variants[0], args, named), variants[0]
        path = self._path(device, args, named, kind)
        known = _read(path) if path else None
        if known in variants:
            return self._compile(known, args, named), known
        if _context.is_capturing(device):
            raise RuntimeError(
                "autotune: a CUDA graph captures the first call with such "
                "arguments, which times kernels: call it once before")
        best = self._time_all(device, variants, args, named)
        if path:
            _write(path, {"choice": best[2], "seconds": best[0]})
        return best[1], best[2]

    def _time_all(self, device, variants, args, named):
        """(seconds, kernel, choice) of the fastest."""
        best, failed, saved = None, None, None
        with _context.on_device(device):
            for choice in variants:
                try:
                    k = self._compile(choice, args, named)
                    if saved is None:
                        saved = [(x, _copy(x)) for x in _written(
                            k, args, named)]
                    took = seconds(device, lambda: k(*args, **named),
                                   self._runs)
                except (_errors.Error, _errors.MachineError) as e:
                    failed = e
                    continue
                finally:
                    for x, copy in saved or ():
                        _restore(x, copy)
                if best is None or took < best[0]:
                    best = took, k, choice
        if best is None:
            raise failed
        return best


def _written(kernel, args, named):
    """The arguments that the kernel may write to."""
    first = [args[i] if i < len(args) else named.get(n)
             for i, n in kernel.written]
    return [x for x in first if x is not None]


def autotune(text: str, *, space: typing.Optional[Space] = None,
             key: typing.Optional[typing.Callable[..., typing.Any]] = None,
             runs: int = 10, cache: bool = True,
             **options: typing.Any) -> Autotuned:
    """A function that launches a kernel of the text (or the library's kernel
    of that name) with the fastest values of its tune(..):

        matmul = tilec.autotune("matmul")
        matmul(a, b, c)          # the first one of these shapes times them all
        matmul.choice(a, b, c)   # {"BM": 128, "BN": 256, ..., "warps": 8}

    The first call with data types, shapes and strides that are new compiles
    and times all variants on its own arguments (what the kernel writes is put
    back after each), and passes over those that do not compile. What it has
    chosen is kept in the folder of the cache of code, by text, options,
    device and that key.

    space: {"BM": [64, 128], "warps": [4, 8]} in place of the kernel's tune(..).
    key: a function of the arguments that says what the kept choice depends
        on, in place of shapes, strides and types: lambda x, y: x.shape[1].
    runs: a variant's time is the median of so many.
    cache: False: keep nothing on disk, and look there for nothing.
    options: as of `tilec.compile`, but for the examples.
    """
    return Autotuned(text, space, key, runs, cache, options)
