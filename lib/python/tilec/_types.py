# SPDX-License-Identifier: Apache-2.0
"""Names for annotations. Importing them imports neither torch nor numpy."""
import typing

if typing.TYPE_CHECKING:
    import numpy
    import torch

    Tensor = typing.TypeVar("Tensor", torch.Tensor, "numpy.ndarray[typing.Any, typing.Any]")
    AnyTensor = typing.Union[torch.Tensor, "numpy.ndarray"]
    DType = typing.Union[torch.dtype, "numpy.dtype", str]
    Seed = typing.Union[AnyTensor, int, torch.Generator]
else:
    Tensor = typing.TypeVar("Tensor")
    AnyTensor = DType = Seed = typing.Any

Ints = typing.Union[AnyTensor, typing.Sequence[int]]  # lengths, indices
Scale = typing.Union[AnyTensor, float]  # of a tensor, or of its parts
Value = typing.Union[AnyTensor, float, int, bool]  # what a mod captures
Mod = typing.Union[str, typing.Callable]  # a text, or a Python function
Captured = typing.Mapping[str, Value]
Options = typing.Mapping[str, typing.Any]
