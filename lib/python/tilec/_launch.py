# SPDX-License-Identifier: Apache-2.0
"""Launches: calls of the library whose C structs are made once.

A Launch belongs to a function of the library and to tensors of certain types,
shapes, strides and devices. A call of it sets addresses, numbers and the stream
in structs that are there already. Threads never share structs: a call takes a
set of them from a list (a new one, if the list is empty) and puts it back.
"""
import ctypes as C

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

    __slots__ = ("tensors", "addresses", "numbers", "options", "error", "call",
                 "held")

    def __init__(self, launch):
        self.tensors = (_abi.DLTensor * max(len(launch.like), 1))(*[
            _abi.DLTensor(0, x.device, x.ndim, x.dtype, x.shape, x.strides)
            for x in launch.like])
        self.addresses = memoryview(self.tensors).cast("B").cast("Q")
        self.options = _abi.new(_abi.tilec_launch_options,
                                threads=launch.threads)
        self.error = _abi.tilec_error()
        self.numbers = ()
        launch.bind(self)


class Launch:
    """Subclasses set `structs.call`, the arguments of `function`, in bind, and
    what has the fields workspace and workspace_bytes in `structs.held`."""

    function = None

    def __init__(self, device, views, threads=0):
        self.like = [view.dl for view in views]  # not the tensors themselves
        self.threads = threads
        self.device, self._gpu = device, _context.gpu_of(device)
        self._run = getattr(_abi.lib, self.function)
        self._free = [_Structs(self)]
        self._workspace = self.workspace(self._free[0])

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
        if self._workspace:
            memory = _tensors.Memory(like, self._workspace)
            s.held.workspace = memory.address
            s.held.workspace_bytes = memory.size
        if self._gpu is not None:
            s.options.stream = (_context.current_stream(self._gpu)
                                if stream is None else stream)
            self.before_gpu()
        status = self._run(*s.call)
        if self._workspace and stream is not None:
            memory.record_stream(stream)
        if status:
            _context.check(status, s.error)
        self._free.append(s)


def _set_numbers(arguments, numbers):
    for (a, is_int), x in zip(arguments, numbers):
        if not is_int:
            a.f = x
        elif -2**63 <= x < 2**63:
            a.i = x
        else:
            _tensors.argument(a.name.decode() if a.name else None, x, ())
