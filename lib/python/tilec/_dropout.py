# SPDX-License-Identifier: Apache-2.0
"""Dropout: its probability and seed, passed together with captured values."""
from . import _captured, _tensors

SEED = "dropout_seed"


def _drawn(q, generator):
    """A seed from a generator of torch; None: torch's own, or numpy's. Nothing
    waits for a GPU, and a CUDA graph draws another one at each replay."""
    if _tensors.is_torch(q):
        import torch
        if generator is not None and generator.device != q.device:
            # One of the CPU, for tensors on a GPU.
            return torch.randint(-2**63, 2**63 - 1, (1,), generator=generator,
                                 device=generator.device).to(q.device)
        return torch.randint(-2**63, 2**63 - 1, (1,), generator=generator,
                             device=q.device)
    import numpy
    return numpy.random.randint(-2**63, 2**63 - 1, 1, numpy.int64)


def _seed(q, seed):
    """int64 [1] on q's device."""
    if seed is None:
        return _drawn(q, None)
    if type(seed).__name__ == "Generator" and _tensors.is_torch(q):
        return _drawn(q, seed)
    number = _tensors.number_of(seed)
    if number is not None:
        x = _tensors.new(q, (1,), "int64")
        x[...] = (int(number) + 2**63) % 2**64 - 2**63
        return x
    x = _captured.in_library_of(_tensors.adopt(seed, SEED), q, SEED)
    if _tensors.dtype_name(x) != "int64" or x.shape not in ((), (1,)):
        raise ValueError("dropout_seed is %s of shape %s, expected int64 [1]" %
                         (x.dtype, tuple(x.shape)))
    return x.reshape(1)


def given(q, p, seed):
    """{name: value} for the captured values of a call."""
    if not 0 <= p <= 1:
        raise ValueError("dropout_p is %s, expected 0 to 1" % p)
    return {SEED: _seed(q, seed), "dropout_p": float(p)} if p else {}
