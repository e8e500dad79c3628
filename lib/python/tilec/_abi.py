# SPDX-License-Identifier: Apache-2.0
"""lib/tilec.h for ctypes: structs, functions, and where the library is.

Structs have the header's names and fields; test/python/abi.py compares them
with the header through a C compiler. A struct that begins with its size is
made with `new(Struct, field=value, ...)`.
"""
import ctypes as C
import ctypes.util
import os
import pathlib
import threading


VERSION = "0.1.0"  # of this package: a library may differ in the last number


class DLDevice(C.Structure):
    _fields_ = [("device_type", C.c_int), ("device_id", C.c_int)]


class DLDataType(C.Structure):
    _fields_ = [("code", C.c_uint8), ("bits", C.c_uint8),
                ("lanes", C.c_uint16)]


class DLTensor(C.Structure):
    _fields_ = [("data", C.c_void_p), ("device", DLDevice), ("ndim", C.c_int),
                ("dtype", DLDataType), ("shape", C.POINTER(C.c_int64)),
                ("strides", C.POINTER(C.c_int64)),
                ("byte_offset", C.c_uint64)]


TENSOR, INT, FLOAT = range(3)  # tilec_argument_kind


class _Sized(C.Structure):
    """A struct that begins with its size; the constructor sets it."""

    def __init__(self, *values, **fields):
        super().__init__(C.sizeof(self), *values, **fields)


class tilec_argument(_Sized):
    _fields_ = [("size", C.c_size_t), ("name", C.c_char_p), ("kind", C.c_int),
                ("tensor", C.POINTER(DLTensor)), ("i", C.c_int64),
                ("f", C.c_double)]


class tilec_binding(C.Structure):
    _fields_ = [("name", C.c_char_p), ("value", C.c_char_p)]


class tilec_source(_Sized):
    _fields_ = [("size", C.c_size_t), ("name", C.c_char_p),
                ("text", C.c_char_p), ("length", C.c_size_t)]


class tilec_error(_Sized):
    _fields_ = [("size", C.c_size_t), ("status", C.c_int),
                ("message", C.c_char * 480), ("file", C.c_char * 160),
                ("line", C.c_uint32), ("column", C.c_uint32),
                ("program", C.c_int32 * 3)]


class tilec_diagnostic(C.Structure):
    pass


tilec_diagnostic._fields_ = [
    ("size", C.c_size_t), ("next", C.POINTER(tilec_diagnostic)),
    ("severity", C.c_int), ("message", C.c_char_p), ("pass", C.c_char_p),
    ("missed", C.c_int), ("file", C.c_char_p), ("line", C.c_uint32),
    ("column", C.c_uint32), ("source", C.c_char_p),
    ("notes", C.POINTER(tilec_diagnostic)), ("end_column", C.c_uint32)]


class tilec_context_options(C.Structure):
    _fields_ = [("size", C.c_size_t), ("target", C.c_char_p),
                ("remarks", C.c_int), ("cuda_library", C.c_char_p),
                ("cache_folder", C.c_char_p), ("cache_bytes", C.c_uint64),
                ("ptxas", C.c_char_p), ("no_graphs", C.c_int),
                ("parallel_for", C.c_void_p), ("parallel_user", C.c_void_p),
                ("cpu", C.c_char_p), ("multiprocessors", C.c_uint)]


READ_SOURCE = C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_char_p,
                          C.POINTER(C.c_void_p))


class tilec_compile_options(C.Structure):
    _fields_ = [("size", C.c_size_t), ("kernel", C.c_char_p),
                ("target", C.c_char_p), ("bindings", C.POINTER(tilec_binding)),
                ("nbindings", C.c_size_t),
                ("examples", C.POINTER(tilec_argument)),
                ("nexamples", C.c_size_t), ("pipeline", C.c_char_p),
                ("verify_each", C.c_int), ("print_before", C.c_char_p),
                ("print_after", C.c_char_p), ("on_pass", C.c_void_p),
                ("user", C.c_void_p), ("reproducer_dir", C.c_char_p),
                ("warps", C.c_uint), ("stages", C.c_uint),
                ("ptxas_level", C.c_uint), ("no_load", C.c_int),
                ("no_cache", C.c_int), ("tiles", C.c_int),
                ("float32_precision", C.c_char_p), ("enforce", C.c_int),
                ("read_source", READ_SOURCE), ("may_split", C.c_int)]


class tilec_parameter(C.Structure):
    _fields_ = [("size", C.c_size_t), ("name", C.c_char_p),
                ("type", C.c_char_p), ("kind", C.c_int), ("dtype", DLDataType),
                ("captured", C.c_int), ("written", C.c_int), ("ndim", C.c_int32),
                ("shape", C.POINTER(C.c_int64)), ("unused", C.c_int)]


class tilec_launch_options(C.Structure):
    _fields_ = [("size", C.c_size_t), ("stream", C.c_void_p),
                ("threads", C.c_int), ("print", C.c_void_p),
                ("progress", C.c_void_p), ("user", C.c_void_p),
                ("check_memory", C.c_int), ("every", C.c_int64),
                ("workspace", C.c_void_p), ("workspace_bytes", C.c_uint64)]


class tilec_attention_options(C.Structure):
    _fields_ = [("size", C.c_size_t), ("target", C.c_char_p),
                ("scale", C.c_double), ("mask", C.c_char_p),
                ("score", C.c_char_p), ("sources", C.POINTER(tilec_source)),
                ("nsources", C.c_size_t), ("read_source", READ_SOURCE),
                ("user", C.c_void_p), ("bindings", C.POINTER(tilec_binding)),
                ("nbindings", C.c_size_t), ("warps", C.c_uint),
                ("stages", C.c_uint), ("no_load", C.c_int),
                ("no_cache", C.c_int), ("ptxas_level", C.c_uint),
                ("tiles", C.c_int), ("backward", C.c_int),
                ("deterministic", C.c_int), ("captured_gradients", C.c_int),
                ("kernel_options", C.POINTER(tilec_binding)),
                ("nkernel_options", C.c_size_t),
                ("backward_bindings", C.POINTER(tilec_binding)),
                ("nbackward_bindings", C.c_size_t), ("max", C.c_int),
                ("block_lists", C.c_int)] + [
        (name, C.POINTER(DLTensor))
        for name in ("descale_q", "descale_k", "descale_v", "scale_o")
    ] + [("enforce", C.c_int), ("sinks", C.c_int), ("dropout", C.c_int)]


class tilec_attention_tensors(C.Structure):
    _fields_ = [("size", C.c_size_t)] + [
        (name, C.POINTER(DLTensor)) for name in ("q", "k", "v", "o", "lse")
    ] + [("captured", C.POINTER(tilec_argument)), ("ncaptured", C.c_size_t),
         ("max", C.POINTER(DLTensor)), ("workspace", C.c_void_p),
         ("workspace_bytes", C.c_uint64)] + [
        (name, C.POINTER(DLTensor))
        for name in ("dout", "dlse", "dq", "dk", "dv")
    ] + [("captured_grads", C.POINTER(tilec_argument)),
         ("ncaptured_grads", C.c_size_t), ("sinks", C.POINTER(DLTensor)),
         ("dsinks", C.POINTER(DLTensor))]


class tilec_append_tensors(C.Structure):
    _fields_ = [("size", C.c_size_t)] + [
        (name, C.POINTER(DLTensor))
        for name in ("k", "v", "cu_seqlens", "k_cache", "v_cache", "kv_lens",
                     "page_table", "kv_indptr", "kv_indices", "q", "q_out",
                     "cos", "sin", "positions", "k_scales", "v_scales")]


class tilec_append_options(C.Structure):
    _fields_ = [("size", C.c_size_t), ("target", C.c_char_p),
                ("interleaved", C.c_int), ("rotary_offset", C.c_int64),
                ("no_load", C.c_int), ("no_cache", C.c_int),
                ("bindings", C.POINTER(tilec_binding)),
                ("nbindings", C.c_size_t)]


class tilec_kvcache_options(C.Structure):
    _fields_ = [("size", C.c_size_t), ("target", C.c_char_p),
                ("scale", C.c_double), ("mask", C.c_char_p),
                ("score", C.c_char_p), ("sources", C.POINTER(tilec_source)),
                ("nsources", C.c_size_t), ("read_source", READ_SOURCE),
                ("user", C.c_void_p), ("layout", C.c_int),
                ("ragged_queries", C.c_int), ("piece", C.c_int64),
                ("no_load", C.c_int), ("no_cache", C.c_int),
                ("sinks", C.c_int),
                ("descale_k", C.POINTER(DLTensor)),
                ("descale_v", C.POINTER(DLTensor)), ("v_in_k", C.c_int),
                ("query_offsets", C.c_int)]


class tilec_kvcache_tensors(C.Structure):
    _fields_ = [("size", C.c_size_t)] + [
        (name, C.POINTER(DLTensor))
        for name in ("q", "k", "v", "o", "lse", "kv_lens", "cu_seqlens_k",
                     "page_table", "kv_indptr", "kv_indices",
                     "kv_last_page_len", "cu_seqlens_q")
    ] + [("captured", C.POINTER(tilec_argument)), ("ncaptured", C.c_size_t),
         ("schedule", C.c_void_p), ("workspace", C.c_void_p),
         ("schedule_bytes", C.c_uint64), ("workspace_bytes", C.c_uint64),
         ("sinks", C.POINTER(DLTensor)),
         ("descale_k", C.POINTER(DLTensor)),
         ("descale_v", C.POINTER(DLTensor)),
         ("query_offsets", C.POINTER(DLTensor))]


class tilec_bundle_entry(C.Structure):
    _fields_ = [("size", C.c_size_t)] + [
        (name, C.c_char_p)
        for name in ("file", "kind", "name", "target", "cpu", "request")
    ] + [("sides", C.POINTER(C.c_int64)), ("nsides", C.c_size_t),
         ("hash", C.c_char_p), ("bytes", C.c_uint64)]


VISIT_ENTRY = C.CFUNCTYPE(None, C.c_void_p, C.POINTER(tilec_bundle_entry))


def new(struct, **fields):
    return struct(size=C.sizeof(struct), **fields)


def array(struct, items):
    """A C array and its length, for a pair of fields."""
    return (struct * len(items))(*items), len(items)


# Handles are void pointers; a function that is not named here returns a status.
_RESULTS = {
    "tilec_version": C.c_char_p,
    "tilec_target_name": C.c_char_p,
    "tilec_embedded_name": C.c_char_p,
    "tilec_embedded_text": C.c_char_p,
    "tilec_cache_folder": C.c_char_p,
    "tilec_diagnostics": C.POINTER(tilec_diagnostic),
    "tilec_kernel_name": C.c_char_p,
    "tilec_kernel_target": C.c_char_p,
    "tilec_kernel_binding": C.c_char_p,
    "tilec_kernel_grid_text": C.c_char_p,
    "tilec_kernel_parameter_count": C.c_size_t,
    "tilec_kernel_parameter": C.POINTER(tilec_parameter),
    "tilec_attention_kernel": C.c_void_p,
    "tilec_attention_variant": C.c_int64,
    "tilec_attention_gradient": C.POINTER(tilec_parameter),
    "tilec_append_free": None,
    "tilec_kvcache_kernel": C.c_void_p,
    "tilec_kvcache_variant": C.c_int64,
    "tilec_kvcache_free": None,
    "tilec_kernel_free": None,
    "tilec_attention_free": None,
    "tilec_free": None,
}


def _candidates():
    """Paths at which the library may be, the likeliest first."""
    named = os.environ.get("TILEC_LIBRARY")
    if named:
        return [named]
    here = pathlib.Path(__file__).resolve().parent
    next_to = [here / "libtilec.so",
              here.parents[2] / "build" / "libtilec.so"]  # of a source tree
    found = [str(path) for path in next_to if path.exists()]
    return found + [ctypes.util.find_library("tilec") or "libtilec.so.0.1"]


def _load():
    tried = []
    for path in _candidates():
        try:
            lib = C.CDLL(path)
        except OSError as e:
            tried.append(str(e))
            continue
        try:
            lib.compiles = hasattr(lib, "tilec_compile")
            for name, result in _RESULTS.items():
                if lib.compiles or hasattr(lib, name):
                    getattr(lib, name).restype = result
            theirs = lib.tilec_version().decode()
        except AttributeError as e:
            raise ImportError("tilec: %s is another version's: %s" %
                              (path, e)) from None
        if theirs.split(".")[:2] != VERSION.split(".")[:2]:
            raise ImportError("tilec: %s is version %s, this package %s" % (
                path, theirs, VERSION))
        lib.path = path
        return lib
    raise ImportError(
        "tilec: no libtilec.so: set TILEC_LIBRARY to its path, or install the "
        "package by `pip install .` in the root of the source tree, which "
        "builds one. Tried: " + "; ".join(tried))


class _Library:
    """libtilec.so, loaded when first used: `lib.tilec_version()`."""

    def __init__(self):
        self._lock = threading.Lock()
        self._lib = None

    def __getattr__(self, name):
        if self._lib is None:
            with self._lock:
                if self._lib is None:
                    self._lib = _load()
        try:
            return getattr(self._lib, name)
        except AttributeError:
            if self._lib.compiles:
                raise
            raise RuntimeError(
                "%s has no %s: it runs what loaded bundles have and compiles "
                "nothing; set TILEC_LIBRARY to libtilec.so" %
                (self._lib.path, name)) from None


lib = _Library()
