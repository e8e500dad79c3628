# SPDX-License-Identifier: Apache-2.0
"""The blocks of a BlockMask in the place of a look at its mask.

Where the compiler cannot bound the loops by a mask, kernels list the blocks that
it leaves at each call (docs/masks.md). A BlockMask has these already: a small
kernel makes the lists of its table of kinds (@known_kinds of block_mask.tile),
whatever the sides of its blocks and of the kernel's tiles are.
"""
import ctypes as C

from .. import _abi, _api, _attention, _texts
from . import _block_mask

# As in lib/attention/attention_lists.c: for less a list costs what it saves.
_LEAST_QUERIES, _LEAST_KEYS = 512, 2048
# With these a caller decides.
_DECIDED = ("block_lists", "bindings", "backward_bindings",
            "SPARSE_Q_BLOCK_SIZE", "SPARSE_KV_BLOCK_SIZE")

_by_lists = {}


def _is_by_lists(q, k, v, score, mask, scale, options, want_max):
    """Whether forward lists the blocks of such a mask."""
    key = (score, mask, scale, repr(options), want_max, q.dtype, k.dtype,
           v.dtype, q.shape[3], v.shape[3], q.device, q.shape[2] <= k.shape[2],
           k.shape[2].bit_length())
    found = _by_lists.get(key)
    if found is None:
        plan = _attention.plan_for(_attention.Spec(
            score_mod=score or "", mask_mod=mask, scale=_api._scale(scale),
            kernel_options=_texts.options_text(
                _texts.without_hints(options or {})[0]), max=want_max),
            q, k, v)
        kernel = C.c_void_p(_abi.lib.tilec_attention_kernel(plan.handle))
        found = _abi.lib.tilec_kernel_name(kernel) == b"attention_forward"
        if len(_by_lists) >= 1024:
            _by_lists.clear()
        _by_lists[key] = found
    return found


TABLE = "known.table"  # what the options make kernels capture


def may_be_taken(queries, keys, options):
    """Whether lists pay, and the caller leaves the choice to us."""
    return queries >= _LEAST_QUERIES and keys >= _LEAST_KEYS and not any(
        name in (options or {}) for name in _DECIDED)


def options_with(options, sides):
    """kernel_options for lists of a table of blocks with these sides."""
    bindings = {"KNOWN": 1, "KQ": sides[0], "KK": sides[1],
                "known": "@table_kinds"}
    return {**(options or {}), "block_lists": True, "bindings": bindings,
            "backward_bindings": bindings}


def known(block_mask, is_own, q, k, v, score, mask, scale, options, want_max):
    """(kernel_options, captured values) of a call that takes its lists from a
    BlockMask, or None. `is_own`: mask is the BlockMask's mask_mod alone."""
    if not may_be_taken(q.shape[2], k.shape[2], options):
        return None
    if is_own and not _is_by_lists(q, k, v, score, mask, scale, options,
                                   want_max):
        return None
    return (options_with(options, block_mask.BLOCK_SIZE),
            {TABLE: _block_mask.kinds_of(block_mask)})
