# SPDX-License-Identifier: Apache-2.0
"""Launches: calls of the library whose C structs are made once.

A Launch belongs to a function of the library and to tensors of certain types,
shapes, strides and devices. A call of it sets addresses, numbers and the stream
in structs that are there already. Threads never share structs: a call takes a
set of them from a list (a new one, if the list is empty) and puts it back.

Where the extension `_fast` is (lib/python/fast) and torch has DLPack's exchange
API, `fast_call` makes a _fast.Call of a Launch, which needs no Python.
"""
import ctypes as C
import functools
import importlib.util
import itertools
import os
import sys
import typing
import warnings
import weakref

from . import _abi, _context, _tensors

# Where a DLTensor has its address, in an array of them, in words.
_WORDS = C.sizeof(_abi.DLTensor) // 8
assert _abi.DLTensor.data.offset == 0


class Arguments:
    """tilec_arguments without their addresses and numbers, in order.

    values: [(name, value)], tensors and numbers; views: those of the launch's
    tensors before them, which theirs join.
    """

    def __init__(self, values, views):
        self._list = []
        for name, value in values:
            at = len(views)
            a = _tensors.argument(name, value, views)
            self._list.append((a.name, a.kind,
                               at if a.kind == _abi.TENSOR else None))

    def made(self, tensors):
        """A C array of them, its length, and those that are numbers."""
        array, n = _abi.array(_abi.tilec_argument, [
            _abi.tilec_argument(name, kind, None if at is None else
                                C.pointer(tensors[at]))
            for name, kind, at in self._list])
        numbers = [(array[i], kind == _abi.INT)
                   for i, (_, kind, at) in enumerate(self._list) if at is None]
        return array, n, numbers


class _Structs:
    """What one call at a time uses."""

    __slots__ = ("tensors", "addresses", "numbers", "more", "options", "error",
                 "passed", "call", "held", "__weakref__")

    def __init__(self, launch):
        self.tensors = launch.type.from_buffer_copy(launch.template)
        self.addresses = memoryview(self.tensors).cast("B").cast("Q")
        self.options = _abi.new(_abi.tilec_launch_options,
                                threads=launch.threads,
                                check_memory=_context.checks_memory,
                                print=_context.print_line)
        _structs.add(self)
        self.error = _abi.tilec_error()
        self.numbers = self.more = ()
        launch.bind(self)
        self.call = tuple([x if isinstance(x, _VALUES) else C.byref(x)
                           for x in self.passed])

    def words(self):
        """The arguments of the call as numbers."""
        return tuple([(x.value or 0) if isinstance(x, _VALUES) else
                      C.addressof(x) for x in self.passed])

    def number_at(self, i):
        """The address of an argument's number, or of one of `more`."""
        if i >= len(self.numbers):
            return self.more[i - len(self.numbers)]
        a, is_int = self.numbers[i]
        field = type(a).i if is_int else type(a).f
        return C.addressof(a) + field.offset


_VALUES = (C.c_void_p, C.c_size_t)
_structs = weakref.WeakSet()  # all, for check_memory


class check_memory:
    """Whether calls check lengths, page tables and, on GPUs, the memory of
    tensors, and say which entry or tensor is wrong: for debugging, as calls on
    GPUs then wait for the stream. For this process, from now on; as a context
    manager for a block:

        tilec.check_memory(True)
        with tilec.check_memory():
            o = tilec.attention(q, k_cache, v_cache, kv_lens=lens, ..)

    Not while a CUDA graph is captured; graphs that were captured check
    nothing."""

    def __init__(self, on: bool = True) -> None:
        self._before = _context.checks_memory
        self._set(on)

    @staticmethod
    def _set(on):
        _context.checks_memory = bool(on)
        for s in list(_structs):
            s.options.check_memory = on

    def __enter__(self) -> "check_memory":
        return self

    def __exit__(self, *failure: typing.Any) -> None:
        self._set(self._before)


def _template(like):
    """The type of an array of DLTensors, and its bytes without addresses:
    copies of it cost a tenth of arrays of new DLTensors."""
    found = bytearray().join(like) if like else bytearray(
        C.sizeof(_abi.DLTensor))
    words = memoryview(found).cast("Q")
    for at in range(0, len(words), _WORDS):
        words[at] = 0
    return _abi.DLTensor * max(len(like), 1), bytes(found)


class Launch:
    """Subclasses set `structs.passed`, the arguments of `function`, in bind,
    and what has the fields workspace and workspace_bytes, if there are any, in
    `structs.held`; in `structs.more` addresses of further int64 numbers."""

    function = None

    def __init__(self, device, views, threads=0):
        self.like = [view.dl for view in views]  # not the tensors themselves
        self.type, self.template = _template(self.like)
        self.threads = threads
        self.device, self._gpu = device, _context.gpu_of(device)
        self._run = getattr(_abi.lib, self.function)
        self._free = [_Structs(self)]
        self.needs = self.workspace(self._free[0])

    def bind(self, structs):
        raise NotImplementedError

    def workspace(self, structs):
        """The bytes of memory that a call needs."""
        raise NotImplementedError

    def before_gpu(self):
        """Called before each launch on a GPU."""

    def __call__(self, addresses, numbers, like, stream=None):
        """Runs the function on tensors at these addresses, in the order of the
        views; like: one of the tensors, for memory beside it. Their device is
        the current one."""
        try:
            s = self._free.pop()
        except IndexError:
            s = _Structs(self)
        words, at = s.addresses, 0
        for address in addresses:
            words[at] = address
            at += _WORDS
        if numbers:
            _set_numbers(s.numbers, numbers)
        if self.needs:
            memory = _tensors.Memory(like, self.needs)
            s.held.workspace = memory.address
            s.held.workspace_bytes = memory.size
        if self._gpu is not None:
            s.options.stream = (_context.current_stream(self._gpu)
                                if stream is None else stream)
            self.before_gpu()
        status = self._run(*s.call)
        if self.needs and stream is not None:
            memory.record_stream(stream)
        if status:
            _context.check(status, s.error)
        self._free.append(s)


uses = itertools.count()  # of plans, in their order
fast = None  # the extension, if torch goes with it
_has_looked = False
_without = None  # why there is none
VERSION = 2  # of the extension: as fast.c has it

_IN_USE = "in use"
_REMEDY = ("repeated calls cost more host time without it. Install tilec "
           "again, or in a build folder: ninja tilec_fast")


def _path_of_extension():
    """_fast of the package, or, of a build folder, next to the library."""
    for folder in (os.path.dirname(os.path.abspath(__file__)),
                   os.path.dirname(_abi.lib.path)):
        path = os.path.join(folder, "_fast.abi3.so")
        if folder and os.path.exists(path):
            return path
    return None


@functools.lru_cache(maxsize=None)
def _loaded(path):
    spec = importlib.util.spec_from_file_location(__package__ + "._fast", path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def _extension():
    """The extension, or None, and why there is none."""
    path = _path_of_extension()
    if path is None:
        return None, "it was not built (Python.h was missing)"
    try:
        found = _loaded(path)
    except ImportError as e:
        return None, "%s cannot be loaded: %s" % (path, e)
    version = getattr(found, "version", 1)
    if version != VERSION:
        return None, "%s has version %d, the package needs %d" % (
            path, version, VERSION)
    return found, None


def _look():
    """Looks for the extension, once there is torch."""
    global fast, _has_looked, _without
    _has_looked, torch = True, sys.modules["torch"]
    api = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    found, _without = _extension()
    if found is None:
        if _path_of_extension():
            warnings.warn("tilec's extension: %s; %s" % (_without, _REMEDY),
                          stacklevel=2)
    elif api is None or not found.setup(
            api, torch.Tensor, torch.nn.Parameter, torch.is_grad_enabled,
            torch.autograd.graph.increment_version,
            getattr(torch._C, "_cuda_isCurrentStreamCapturing",
                    torch.cuda.is_current_stream_capturing),
            getattr(torch._C, "_cuda_getDevice", None), uses):
        _without = "torch %s has no C exchange API of DLPack" % (
            torch.__version__)
    else:
        fast = found


def extension() -> str:
    """Whether repeated calls on torch tensors run by the compiled extension:
    "in use", or why they run in Python, which costs more host time and gives
    the same results. It is looked for once torch is imported."""
    if "torch" in sys.modules:
        return _IN_USE if has_fast() else _without
    return _extension()[1] or "torch is not imported"


def has_fast():
    """Whether the extension is there."""
    if not _has_looked:
        _look()
    return fast is not None


_MOST_INPUTS = 31  # of a call of the extension
_NUMBER, _NONE = -1, -2  # as fast.c has them
_STRUCTS = 2  # calls at the same time that need no Python


def _described(s, numbers):
    held = [C.addressof(s.held) + field.offset if field else 0 for field in (
        getattr(type(s.held), "workspace", None),
        getattr(type(s.held), "workspace_bytes", None))]
    return (s.words(), C.addressof(s.tensors),
            C.addressof(s.options) + _abi.tilec_launch_options.stream.offset,
            *held, tuple([0 if i is None else s.number_at(i) for i in numbers]))


def _function_and_arguments(maker):
    return (maker.func, maker.args) if isinstance(
        maker, functools.partial) else (maker, ())


def fast_call(launch, owner, inputs, outputs=(), like=None, **more):
    """A _fast.Call; None where there is no extension.

    For torch tensors. owner: its method `fail` raises the error of a status.
    inputs: the view of each, or, negative, -1 - i of the i-th number, or None
    where the call's argument is None. outputs: (view, maker).
    """
    if not has_fast() or len(inputs) > _MOST_INPUTS:
        return None
    held = [_Structs(launch) for _ in range(_STRUCTS)]
    numbers = [-1 - at if at is not None and at < 0 else None
               for at in inputs]
    if launch.needs:
        memory = _tensors.new(like, (launch.needs + 256,), "uint8")
        more.update(make_workspace=_function_and_arguments(
            _tensors.maker(memory)), workspace=launch.needs)
    gpu = launch.device[1] if launch.device[0] == _tensors.CUDA else -1
    launch.of_fast = held
    return fast.Call(
        C.cast(launch._run, C.c_void_p).value, owner,
        tuple([_described(s, numbers) for s in held]), held,
        (*[_NONE if at is None else max(at, _NUMBER) for at in inputs],
         *[at for at, _ in outputs]),
        len(inputs), tuple([_function_and_arguments(m) for _, m in outputs]),
        gpu, **more)


def fail(launch, status, index):
    """Raises the error of a call of the extension."""
    _context.check(status, launch.of_fast[index].error)


def _set_numbers(arguments, numbers):
    for (a, is_int), x in zip(arguments, numbers):
        if not is_int:
            a.f = x
        elif -2**63 <= x < 2**63:
            a.i = x
        else:
            _tensors.argument(a.name.decode() if a.name else None, x, ())
