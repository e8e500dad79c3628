# SPDX-License-Identifier: Apache-2.0
"""Statuses and diagnostics of the library as Python exceptions."""
import dataclasses
import typing
import warnings

from . import _abi

INPUT, USAGE, MACHINE = 1, 2, 3
_SEVERITIES = ("error", "warning", "remark", "note")


@dataclasses.dataclass(frozen=True)
class Diagnostic:
    """A message of the compiler about a place in a text."""

    severity: str  # "error", "warning", "remark", "note"
    message: str
    file: typing.Optional[str] = None  # None: at no place in a text
    line: int = 0
    column: int = 0  # from 1, in bytes
    source: typing.Optional[str] = None  # the text of that line
    notes: typing.Tuple["Diagnostic", ...] = ()
    end_column: int = 0  # after the range in that line; 0: not known

    def __str__(self) -> str:
        where = ("%s:%d:%d: " % (self.file, self.line, self.column)
                 if self.file and self.line else "")
        lines = ["%s%s: %s" % (where, self.severity, self.message)]
        if self.source is not None and self.line:
            # Tabs stay, so that the caret stands below its column.
            before = self.source.encode()[:max(self.column - 1, 0)].decode(
                errors="replace")
            pad = "".join(c if c == "\t" else " " for c in before)
            end = max(self.end_column, self.column) - 1
            under = self.source.encode()[max(self.column - 1, 0):end].decode(
                errors="replace")
            lines += ["  " + self.source,
                      "  " + pad + "^" + "~" * (len(under) - 1)]
        return "\n".join(lines + [str(note) for note in self.notes])


class Error(ValueError):
    """The library refuses what it was given.

    `diagnostics` says where and why, as a list of Diagnostic; the message has
    the same as text.
    """

    def __init__(self, message: str,
                 diagnostics: typing.Iterable[Diagnostic] = ()) -> None:
        super().__init__(message)
        self.diagnostics: typing.List[Diagnostic] = list(diagnostics)


class CompileWarning(UserWarning):
    """A warning of the compiler: something is slower than it need be."""


class MachineError(RuntimeError):
    """The machine failed: out of memory, no such device, I/O."""


def _text(s):
    return s.decode(errors="replace") if s is not None else None


def diagnostics_of(first):
    """The Diagnostics of a C list that is linked by `next`."""
    found, d = [], first
    while d:
        c = d.contents
        found.append(Diagnostic(
            _SEVERITIES[c.severity], _text(c.message), _text(c.file), c.line,
            c.column, _text(c.source), tuple(diagnostics_of(c.notes)),
            c.end_column))
        d = c.next
    return found


def compile_failed(context, status):
    """The exception for a failed compile of that context."""
    found = diagnostics_of(_abi.lib.tilec_diagnostics(context))
    errors = [d for d in found if d.severity == "error"]
    text = "\n".join(map(str, errors or found)) or "no diagnostics"
    return MachineError(text) if status == MACHINE else Error(text, found)


def warn(context):
    """Issues the warnings of that context's latest compile."""
    for d in diagnostics_of(_abi.lib.tilec_diagnostics(context)):
        if d.severity == "warning":
            warnings.warn(str(d), CompileWarning, stacklevel=4)


def call_failed(error, status):
    """The exception for a tilec_error."""
    message = _text(error.message)
    if status == MACHINE:
        return MachineError(message)
    if not error.line:
        return Error(message)
    d = Diagnostic("error", message, _text(error.file), error.line,
                   error.column)
    return Error(str(d), [d])
