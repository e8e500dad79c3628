# SPDX-License-Identifier: Apache-2.0
"""What a case of kernels.py is: see its head."""
import importlib

import torch

# Without a GPU there are only the small cases, on the CPU, without times.
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Case:
    """A subclass sets label, bytes that are read and written, flops (0: bound
    by memory), and has

        inputs()        a set of tensors, a dict
        reference(s)    the results for a set, in float32
        contenders()    {name: make}; make() gives a function of a set, that
                        gives a function without arguments: a launch, which
                        returns its results
        variants()      the same, more of tilec's
        error(s, results, wanted)
                        how wrong results of a set are, where the largest
                        difference from the reference does not say it
    """

    flops = 0

    def variants(self):
        return {}


def randn(*shape, dtype=torch.bfloat16):
    return torch.randn(*shape, device=DEVICE, dtype=torch.float32).to(dtype)


def tilec_kernel(text, name, arguments, outputs, warps=0, stages=0,
                 **bindings):
    """make of a kernel of the library: `arguments(s)` is its list of arguments
    for a set, `outputs(s)` what it writes of them."""
    def make():
        import tilec
        made = {}

        def of(s):
            args = arguments(s)
            if "k" not in made:
                made["k"] = tilec.compile(
                    text, name=name, examples=args, num_warps=warps,
                    num_stages=stages,
                    bindings={n: str(v) for n, v in bindings.items()})
            k, out = made["k"], outputs(s)

            def call():
                k(*args)
                return out
            return call
        return of
    return make


def torch_function(f, compiled=False):
    """make of f(s) -> results."""
    def make():
        g = torch.compile(f, dynamic=False) if compiled else f
        return lambda s: lambda: g(s)
    return make


def triton_function(module, name, *more):
    """make of a function of a set in one of the files of Triton kernels, which
    are imported here: without triton this contender fails, and says so."""
    def make():
        f = getattr(importlib.import_module(module), name)
        return lambda s: lambda: f(s, *more)
    return make
