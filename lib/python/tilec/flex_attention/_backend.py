# SPDX-License-Identifier: Apache-2.0
"""torch.compile(model, backend="tilec"): flex_attention by tilec, the rest by
inductor.

    options={"rest": "aot_eager"}    the rest without a compiler
    other options                    go to inductor
"""
import torch

from . import _operator


def _can_compile(device):
    """Whether inductor has what it needs for a device."""
    if device.type == "cpu":
        try:
            from torch._inductor import cpp_builder
            cpp_builder.get_cpp_compiler()
            return True
        except Exception:
            return False
    return torch.utils._triton.has_triton()


def _rest(example_inputs):
    devices = {x.device for x in example_inputs if isinstance(x, torch.Tensor)}
    return "inductor" if all(_can_compile(d) for d in devices) else "aot_eager"


def compile(gm, example_inputs, options=None, **_):
    """The backend."""
    options = dict(options or {})
    rest = options.pop("rest", None) or _rest(example_inputs)
    _operator.replace(gm)
    if rest == "inductor":
        from torch._inductor.compile_fx import compile_fx
        return compile_fx(gm, example_inputs, config_patches=options)
    if options:
        raise ValueError("options %s are inductor's, and the rest is compiled "
                         "by %s" % (", ".join(sorted(options)), rest))
    return torch._dynamo.lookup_backend(rest)(gm, example_inputs)


def register():
    """Makes the name known to torch.compile. No other backend is imported: they
    take half a second."""
    from torch._dynamo.backends import registry
    if "tilec" not in registry._COMPILER_FNS:
        registry.register_backend(compile, name="tilec")
