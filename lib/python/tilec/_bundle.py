# SPDX-License-Identifier: Apache-2.0
"""Bundles: compiled kernels and plans from a file (docs/engines.md)."""
import ctypes as C
import dataclasses
import os
import typing

from . import _abi, _context, _kernel
from ._texts import encoded


@dataclasses.dataclass(frozen=True)
class BundleEntry:
    """A kernel or plan of a loaded bundle."""

    file: str  # as it was loaded; "": from memory
    kind: str  # "kernel", "attention", "kvcache", "append"
    name: str  # of a kernel; else ""
    target: str
    cpu: str  # of target cpu: "x86-64-v3"; else ""
    request: str  # what it was made for: types, head dims, mask, ..
    sides: typing.Tuple[int, ...]  # that it was made for: batch, lengths, ..
    hash: str  # of all that is in it
    bytes: int  # of its kernels, shared ones included


def load_bundle(source: typing.Union[str, os.PathLike[str], bytes]) -> None:
    """Loads a bundle, for all later calls of this process.

    source: the file's path, or its bytes. Calls whose plan or kernel is in a
    loaded bundle compile nothing; what was loaded last is looked at first. With
    libtilec_runtime.so as TILEC_LIBRARY nothing can be compiled, and what no
    bundle has is a tilec.Error that names the nearest entry. Raises tilec.Error
    where the bytes are no bundle, are damaged or are of another version. A
    bundle is code: load what you would load a shared library from.
    """
    error = _abi.tilec_error()
    with _context.context() as handle:
        if isinstance(source, (bytes, bytearray, memoryview)):
            data = bytes(source)
            status = _abi.lib.tilec_bundle_load_memory(
                handle, data, C.c_size_t(len(data)), C.byref(error))
        else:
            status = _abi.lib.tilec_bundle_load(
                handle, os.fsencode(source), C.byref(error))
    _context.check(status, error)
    _context.has_bundles = True


def bundle_entries() -> typing.Tuple[BundleEntry, ...]:
    """The entries of all bundles that this process has loaded."""
    found = []

    @_abi.VISIT_ENTRY
    def visit(_, entry):
        e = entry.contents
        texts = [getattr(e, name).decode() for name in
                 ("kind", "name", "target", "cpu", "request")]
        found.append(BundleEntry(
            os.fsdecode(e.file), *texts, tuple(e.sides[:e.nsides]),
            e.hash.decode(), e.bytes))

    error = _abi.tilec_error()
    with _context.context() as handle:
        status = _abi.lib.tilec_bundle_list(handle, visit, None,
                                            C.byref(error))
    _context.check(status, error)
    return tuple(found)


def bundle_kernel(name: str,
                  target: typing.Optional[str] = None) -> _kernel.Kernel:
    """The kernel (or plan of several) of that name in the loaded bundles.

    target: "cpu", "sm_90a", ..; None: what this machine's device runs best.
    Raises tilec.Error where there is none.
    """
    made, error = C.c_void_p(), _abi.tilec_error()
    with _context.context() as handle:
        status = _abi.lib.tilec_bundle_kernel(
            handle, encoded(name, "name"),
            None if target is None else encoded(target, "target"),
            C.byref(made), C.byref(error))
    _context.check(status, error)
    return _kernel.Kernel(made)
