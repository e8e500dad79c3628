# SPDX-License-Identifier: Apache-2.0
"""tilec for Python: attention with any mask and score function.

    import tilec
    o = tilec.attention(q, k, v, mask_mod="causal & sliding_window(w=1024)")

q, k and v are torch tensors (on the CPU or a GPU) or numpy arrays. Needs
libtilec.so and nothing else; it is looked for in $TILEC_LIBRARY, next to this
package, in the build folder of a source tree, and where the system has its
libraries. See lib/python/README.md.
"""
from ._abi import VERSION as __version__
from ._append import append
from ._api import attention, attention_backward, schedule
from ._autotune import Autotuned, autotune, tuning_space
from ._bundle import BundleEntry, bundle_entries, bundle_kernel, load_bundle
from ._errors import CompileWarning, Diagnostic, Error, MachineError
from ._factors import quantize
from ._kernel import Kernel, compile, kernel, mods, targets, version
from ._launch import check_memory, extension
from ._merge import merge, merge_into
from ._sdpa import scaled_dot_product_attention

__all__ = ["append", "attention", "attention_backward", "autotune",
           "bundle_entries", "bundle_kernel", "check_memory", "compile",
           "extension", "kernel", "load_bundle", "merge", "merge_into", "mods",
           "quantize", "scaled_dot_product_attention", "schedule", "targets",
           "tuning_space", "version", "Autotuned", "BundleEntry", "Kernel",
           "CompileWarning", "Diagnostic", "Error", "MachineError"]
