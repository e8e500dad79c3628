# SPDX-License-Identifier: Apache-2.0
"""flex_attention by tilec inside of inductor.

A pass over the graph before autograd sees it replaces the operators that
tilec.flex_attention has left there (_compiled.py); with `enable`, torch's own
too.
"""
import functools
import hashlib
import pathlib

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass

from .. import _abi
from . import _compiled, _operator

_all = False


def _is_wanted(options):
    return _all or options.get(_compiled.MARK, False)


@functools.lru_cache(maxsize=None)
def _version():
    """What a cached graph depends on beyond the graph: this package."""
    files = sorted(pathlib.Path(__file__).parent.glob("*.py"))
    return (_abi.VERSION, hashlib.sha256(b"".join(
        f.read_bytes() for f in files)).hexdigest())


class _Pass(CustomGraphPass):
    """In torch's place for passes, with the pass that was there before."""

    def __init__(self, before):
        self._before = before

    def __call__(self, graph):
        _operator.replace(graph.owning_module, _is_wanted)
        if self._before is not None:
            self._before(graph)

    def uuid(self):
        """Part of the key of inductor's cache."""
        before = None
        if self._before is not None:
            before = getattr(self._before, "uuid", lambda: None)()
            if before is None:
                return None
        return "tilec", _version(), _all, before


def install():
    """Once a process; costs nothing until inductor compiles."""
    from torch._inductor import config
    before = config.pre_grad_custom_pass
    if not isinstance(before, _Pass):
        config.pre_grad_custom_pass = _Pass(before)


def enable(on: bool = True) -> None:
    """Whether torch's own flex_attention, too, runs by tilec in what is
    compiled from now on."""
    global _all
    install()
    _all = on
    torch._dynamo.reset()
