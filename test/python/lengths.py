# SPDX-License-Identifier: Apache-2.0
"""Which lengths of keys one prepared call serves (_prepared.lengths_of): where
plan and workspace are those of the first and the last, all between have them."""
import contextlib
import ctypes
import itertools
import random
import unittest

import numpy as np
from reference import random as normal  # finds tilec
from tilec import _abi, _attention, _prepared, _tensors, _texts

TARGET = {"target": "sm_90a"}
BATCH, HEADS, D = 8, 8, 64


def keys(n, batch=BATCH):
    """Keys or values without memory."""
    return np.broadcast_to(np.float16(0), (batch, HEADS, n, D))


def windows(count):
    """First and last lengths, some of them at the borders of choices."""
    chosen = random.Random(0)
    first = [n + by for n in (256, 512, 1024, 2048, 4096)
             for by in (-255, -130, -1, 0, 1)]
    first += [chosen.randrange(1, 9000) for _ in range(count)]
    return [(n, _prepared.last_ahead(n)) for n in first]


@contextlib.contextmanager
def machine(multiprocessors):
    """A context for a GPU that is not there."""
    handle = ctypes.c_void_p()
    options = _abi.new(_abi.tilec_context_options,
                       multiprocessors=multiprocessors)
    assert not _abi.lib.tilec_context_new(ctypes.byref(options),
                                          ctypes.byref(handle))
    yield handle
    _abi.lib.tilec_context_free(handle)


def variants(context, q, first, last):
    """What plans depend on, of all lengths."""
    options = _texts.options_of(_texts.options_text(TARGET))
    asked, _ = _attention._asked(_attention.Spec(), _tensors.device_of(q),
                                 options, {})
    found = []
    for n in range(first, last + 1):
        k = keys(n, q.shape[0])
        views = [_tensors.View(t, name) for t, name in zip((q, k, k), "qkv")]
        found.append(_abi.lib.tilec_attention_variant(
            context, *[view.pointer for view in views], ctypes.byref(asked)))
    return found


class Lengths(unittest.TestCase):
    def check(self, values, where):
        """Whether the first and the last are equal, and then all are."""
        if values[0] != values[-1]:
            return False
        self.assertEqual(set(values), {values[0]}, where)
        return True

    def test_variants(self):
        seen, alike = set(), set()
        with machine(132) as context:
            for batch, heads, rows in itertools.product((1, 8), (8, 32),
                                                        (1, 3, 40)):
                q = np.broadcast_to(np.float16(0), (batch, heads, rows, D))
                for window in windows(2):
                    found = variants(context, q, *window)
                    seen |= set(found)
                    alike.add(self.check(found, (q.shape, window)))
        self.assertIn(0, seen)
        self.assertGreater(len(seen), 4)
        self.assertIn(True, alike)

    def test_workspaces(self):
        q = normal(0, BATCH, 32, 1, D, dtype="float16")
        offsets = np.zeros(4, np.int32)
        seen = set()
        for options, mask in (({}, ""), ({"SPLIT_KEYS": True}, ""),
                              ({"block_lists": True}, "document")):
            spec = _attention.Spec(
                kernel_options=_texts.options_text({**TARGET, **options}),
                mask_mod=mask)
            ready = _prepared.Forward(
                spec, q, keys(3000), keys(3000), ["offsets"] if mask else [],
                [offsets] if mask else [], False)
            for first, last in windows(8):
                found = [ready._launch.workspace_with({1: keys(n), 2: keys(n)})
                         for n in range(first, last + 1)]
                self.check(found, (options, first, last))
                seen |= set(found)
        self.assertGreater(len(seen), 4)


if __name__ == "__main__":
    unittest.main()
