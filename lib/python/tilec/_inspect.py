# SPDX-License-Identifier: Apache-2.0
"""The inspector's page of a kernel: Kernel.inspect."""
import ctypes as C
import json
import os
import pathlib
import tempfile
import webbrowser

from . import _abi, _context, _errors
from ._texts import encoded


def _shape_only(argument):
    """A copy of a tilec_argument without the data of its tensor."""
    copy = _abi.tilec_argument(name=argument.name, kind=argument.kind,
                               i=argument.i, f=argument.f)
    if argument.tensor:
        t = argument.tensor.contents
        n = t.ndim
        copy.tensor = C.pointer(_abi.DLTensor(
            None, t.device, n, t.dtype, (C.c_int64 * n)(*t.shape[:n]),
            (C.c_int64 * n)(*t.strides[:n]) if t.strides else None, 0))
    return copy


class Request:
    """What a kernel was compiled from, to compile it once more. It keeps the
    shapes of examples, not the examples."""

    def __init__(self, source, options):
        """options: a tilec_compile_options"""
        self.source, self.options = source, options
        examples, n = _abi.array(_abi.tilec_argument, [
            _shape_only(options.examples[i])
            for i in range(options.nexamples)])
        options.examples, options.nexamples = examples, n

    def document(self, target):
        """The JSON document for that target."""
        text = C.c_void_p()
        with _context.context() as cx:
            own = self.options.target
            self.options.target = encoded(target, "target")
            status = _abi.lib.tilec_inspect_json(
                cx, C.byref(self.source), C.c_size_t(1),
                C.byref(self.options), C.byref(text))
            self.options.target = own
            try:
                if status:
                    raise _errors.compile_failed(cx, status)
                return C.string_at(text.value)
            finally:
                _abi.lib.tilec_free(text)


def resources(document):
    return json.loads(document)["resources"]


def _diagnostic(d, sources):
    source = sources[d["file"] - 1] if d.get("file") else None
    lines = source["text"].split("\n") if source else []
    line = d.get("line", 0)
    return _errors.Diagnostic(
        d["severity"], d["message"], source and source["name"], line,
        d.get("column", 0), lines[line - 1] if 0 < line <= len(lines) else None,
        tuple(_diagnostic(n, sources) for n in d.get("notes", ())),
        d.get("end", 0))


def remarks(document, done):
    d = json.loads(document)
    return [_diagnostic(x, d["sources"]) for x in d["diagnostics"]
            if x["severity"] == "remark" and (done or x["missed"])]


def page(document, against):
    """HTML of one document, or of two."""
    text = C.c_void_p()
    status = _abi.lib.tilec_inspect_page(document, against, C.byref(text))
    if status:
        raise _errors.MachineError("tilec_inspect_page: out of memory")
    try:
        return C.string_at(text.value)
    finally:
        _abi.lib.tilec_free(text)


def other_document(against):
    """Of a file that `tilec inspect --json` wrote."""
    document = pathlib.Path(against).read_bytes()
    if b'"schema":"tilec.inspect"' not in document[:200].replace(b" ", b""):
        raise ValueError("%s: expected the output of `tilec inspect --json`"
                         % os.fspath(against))
    return document


def new_path(name):
    """Of a page in a new folder, which stays: a browser may read it late."""
    return os.path.join(tempfile.mkdtemp(prefix="tilec-inspect-"),
                        name + ".html")


def write(data, path, show):
    """Returns the absolute path of the file."""
    path = pathlib.Path(path).absolute()
    path.write_bytes(data)
    if show:
        webbrowser.open(path.as_uri())
    return str(path)
