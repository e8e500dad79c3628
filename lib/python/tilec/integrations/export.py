# SPDX-License-Identifier: Apache-2.0
"""flex_attention by tilec in programs of torch.export: with strict=True torch's
own operator stays in the graph, which runs without a kernel.

    import tilec.integrations.export
    program = torch.export.export(model, args, strict=True)
    program = tilec.integrations.export.replace(program)
"""
import torch

from ..flex_attention import _operator

__all__ = ["replace"]


def replace(program: torch.export.ExportedProgram
            ) -> torch.export.ExportedProgram:
    """A program with the operator tilec::attention in the place of each
    flex_attention, torch's own too; else the same one."""
    if not _operator.replace(program.graph_module):
        return program
    return program.run_decompositions({})
