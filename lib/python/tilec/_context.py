# SPDX-License-Identifier: Apache-2.0
"""The one tilec_context of this process, and what compiles have in common."""
import contextlib
import ctypes as C
import os
import sys
import threading

from . import _abi, _errors, _tensors
from ._texts import encoded

_lock = threading.Lock()
_handle = None
has_bundles = False  # whether _bundle.load_bundle has loaded one


@contextlib.contextmanager
def context():
    """The context, for one compile: it serves one call at a time."""
    global _handle
    with _lock:
        if _handle is None:
            made = C.c_void_p()
            status = _abi.lib.tilec_context_new(None, C.byref(made))
            if status:
                raise _errors.MachineError("tilec_context_new: out of memory")
            _handle = made
        yield _handle


def bindings(pairs):
    """A C array of {name: value}: sizes, types ("bf16"), functions ("@f")."""
    return _abi.array(_abi.tilec_binding, [
        _abi.tilec_binding(encoded(str(n), "a binding's name"),
                           encoded(str(v), "binding %s" % n))
        for n, v in pairs])


def target_for(device, target=None):
    """The target for tensors on this device: "cpu" for the CPU's."""
    if target is not None:
        return encoded(target, "target")
    return b"cpu" if device[0] == _tensors.CPU else b"auto"


def on_device(device):
    """Makes a CUDA device torch's current one, while it compiles or runs."""
    if device[0] == _tensors.CUDA and "torch" in sys.modules:
        import torch
        if torch.cuda.current_device() != device[1]:
            return torch.cuda.device(device[1])
    return contextlib.nullcontext()


def gpu_of(device):
    """Its number, if it is a CUDA device."""
    return device[1] if device[0] == _tensors.CUDA else None


def current_gpu():
    """The number of torch's current CUDA device."""
    return sys.modules["torch"]._C._cuda_getDevice()


def _current_stream(device):
    import torch
    return torch.cuda.current_stream(device).cuda_stream


def current_stream(device):
    """torch's current stream on a CUDA device, as a number."""
    # Without a torch.cuda.Stream in between: 0.1 us, not 1.
    return getattr(sys.modules["torch"]._C, "_cuda_getCurrentRawStream",
                   _current_stream)(device)


checks_memory = False  # whether launches do: _launch.check_memory


@C.CFUNCTYPE(None, C.c_void_p, C.c_char_p)
def _print_line(_, line):
    print(line.decode(errors="replace"), flush=True)


# What kernels print on CPUs; on GPUs the driver writes it to standard output.
print_line = C.cast(_print_line, C.c_void_p)


def launch_options(device, stream=None, threads=0):
    """Launch options for that device; without a stream torch's current one."""
    if stream is None and device[0] == _tensors.CUDA:
        stream = current_stream(device[1])
    return _abi.new(_abi.tilec_launch_options, stream=stream, threads=threads,
                    check_memory=checks_memory, print=print_line)


def is_capturing(device):
    """Whether a CUDA graph captures torch's current stream there."""
    return (device[0] == _tensors.CUDA and
            sys.modules["torch"].cuda.is_current_stream_capturing())


def check(status, error):
    if status:
        raise _errors.call_failed(error, status)


_libc = None


@_abi.READ_SOURCE
def read_source(user, name, text):
    """The text of FILE in `FILE@FUNC`, in memory that the library frees."""
    global _libc
    try:
        with open(os.fsdecode(name), "rb") as f:
            data = f.read()
    except OSError:
        return 0
    if _libc is None:
        _libc = C.CDLL(None)
        _libc.strdup.restype = C.c_void_p
    text[0] = _libc.strdup(data)
    return 1 if text[0] else 0
