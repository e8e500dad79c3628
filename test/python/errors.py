# SPDX-License-Identifier: Apache-2.0
"""What is refused, with which exception, and what it says."""
import gc
import os
import pathlib
import subprocess
import sys
import unittest
import warnings
from unittest import mock

import numpy as np
from reference import random

import tilec

Q = random(1, 2, 4, 33, 16)
K = random(2, 2, 2, 40, 16)


class Errors(unittest.TestCase):
    def refused(self, text, *args, kind=ValueError, **options):
        with self.assertRaises(kind) as caught:
            tilec.attention(*args, **options)
        self.assertIn(text, str(caught.exception))
        return caught.exception

    def test_shapes(self):
        self.refused("query has 3 dims, expected 4", Q[0], K, K)
        self.refused("say enable_gqa=True", Q, K, K)
        self.refused("no multiple", Q[:, :3], K, K, enable_gqa=True)
        self.refused("batches differ: query has 2, key 1, value 1", Q, K[:1],
                     K[:1], enable_gqa=True)
        self.refused("head dims differ: query has 16, key 8", Q, K[..., :8], K,
                     enable_gqa=True)
        self.refused("key has 2 heads of length 40, value 2 of 39", Q, K,
                     K[:, :, :39], enable_gqa=True)

    def test_types(self):
        self.refused("key is float64, query is float32", Q,
                     K.astype("float64"), K, enable_gqa=True)
        self.refused("scale is nan", Q, Q, Q, scale=float("nan"))
        self.refused("complex64 is none that tilec knows",
                     *[Q.astype("complex64")] * 3)
        self.refused("expected a torch tensor, a numpy array", [[1.0]], K, K,
                     kind=TypeError)
        self.refused("mask_mod is a function, expected text", Q, Q, Q,
                     mask_mod=lambda b, h, q, k: True, kind=TypeError)
        odd = np.frombuffer(bytearray(4 * Q.size + Q.size), "uint8")
        odd = np.lib.stride_tricks.as_strided(
            odd[:4].view("float32"), (1, 1, 8, 16), (4, 4, 5 * 16, 5))
        self.refused("no multiples of the element's 4 bytes", odd, odd, odd)

    def test_mods(self):
        e = self.refused("did you mean `causal`?", Q, Q, Q, mask_mod="causul",
                         kind=tilec.Error)
        self.assertEqual([(d.severity, d.line, d.column)
                          for d in e.diagnostics], [("error", 1, 1)])
        e = self.refused("%z is not defined", Q, Q, Q, mask_mod="""
// a mistake
func @mine(%b: i32, %h: i32, %q: i32, %k: i32) -> i1 {
  return %k <= %z
}
""", kind=tilec.Error)
        d = e.diagnostics[0]
        self.assertEqual((d.file, d.line, d.column), ("mask_mod", 4, 16))
        self.assertEqual(str(e).splitlines(), [
            "mask_mod:4:16: error: %z is not defined",
            "    return %k <= %z", "                 ^~"])
        self.refused("is a mask function, expected a score function", Q, Q, Q,
                     score_mod="causal")
        self.refused("cannot be read", Q, Q, Q, mask_mod="none.tile@f")

    def test_captured(self):
        self.refused("argument mask.w of @attention_fwd is missing", Q, Q, Q,
                     mask_mod="sliding_window")
        self.refused("no mod captures `enable_gaq`", Q, Q, Q, enable_gaq=True)
        self.refused('attention has no is_causal; in its place: '
                     'mask_mod="causal"', Q, Q, Q, is_causal=True,
                     kind=TypeError)
        self.refused("more than 64 bits", Q, Q, Q, mask_mod="sliding_window",
                     w=2**70)
        self.refused("score.bias", Q, Q, Q, score_mod="head_bias",
                     bias=np.zeros(4, "int32"))
        self.refused('attention has no return_aux; in its place: return_lse',
                     Q, Q, Q, return_aux=1, kind=TypeError)
        self.refused("both mods capture `x`", Q, Q, Q, x=1, mask_mod="""
func @m(%b: i32, %h: i32, %q: i32, %k: i32, %x: i32) -> i1 {
  return %k <= %x
}
""", score_mod="""
func @s(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32, %x: f32) -> f32 {
  return %s + %x
}
""")

    def test_options(self):
        self.refused("BLOK_M", Q, Q, Q, kernel_options=dict(BLOK_M=3))
        self.refused("BLOCK_M is `17`, expected a multiple of 8, 8 to 1024", Q,
                     Q, Q, kernel_options=dict(BLOCK_M=17))
        self.refused("out_dtype is float64, expected f", Q, Q, Q,
                     out_dtype=np.float64)
        self.refused("threads is 'x'", Q, Q, Q,
                     kernel_options=dict(threads="x"))
        self.refused("vax", Q, Q, Q, kernel_options=dict(target="vax"))

    def test_options_of_torch(self):
        """What chooses among FlexAttention's kernels: a warning for each
        name."""
        tilec._api._warned.clear()
        for name in ("BACKEND", "fwd_USE_TMA", "bwd_WRITE_DQ", "kpack"):
            options = {name: "AUTO", "BLOCK_M": 16}
            with self.assertWarnsRegex(UserWarning, name) as caught:
                tilec.attention(Q, Q, Q, kernel_options=options)
            self.assertEqual(caught.filename, __file__)
            tilec.attention(Q, Q, Q, kernel_options=options)  # -W error
        self.refused("no kernel option `BACKND`", Q, Q, Q,
                     kernel_options=dict(BACKND="AUTO"))

    def test_option_types(self):
        for kind, text, options in (
                (TypeError, "kernel_options is a list", []),
                (TypeError, "kernel_options: 5 is no name", {5: 3}),
                (ValueError, "cannot be read", {"a": "b;target=sm_80"}),
                (ValueError, "cannot be read", {"target": "cpu\0"}),
                (ValueError, "cannot be read", {"bindings": {"a;b": 3}})):
            self.refused(text, Q, Q, Q, kernel_options=options, kind=kind)
        for kind, given in ((TypeError, 5), (TypeError, [np.float16]),
                            (ValueError, int), (ValueError, "float"),
                            (ValueError, "float64")):
            self.refused("out_dtype is ", Q, Q, Q, out_dtype=given, kind=kind)
        with self.assertRaisesRegex(TypeError, "dtype is 5"):
            tilec.quantize(Q, 5)
        with self.assertRaisesRegex(TypeError, "expected a list of names"):
            tilec.attention_backward(Q, Q, Q, Q, Q, Q, gradients="bias")

    def test_texts(self):
        """A NUL would end a text early, without a word."""
        for name in ("mask_mod", "score_mod"):
            self.refused(name + " has a NUL at position 6", Q, Q, Q,
                         **{name: "causal\0 & !causal"})
            self.refused("expected text", Q, Q, Q, kind=TypeError,
                         **{name: b"causal"})
        compiled = tilec.compile("softmax", target="cpu")
        for make in (tilec.compile, tilec.kernel):
            for text in (5, b"", None):
                with self.assertRaisesRegex(TypeError, "text is a"):
                    make(text)
            with self.assertRaisesRegex(ValueError, "text has a NUL"):
                make("softmax\0")
        for kind, text, call in (
                (TypeError, "target is a", dict(target=5)),
                (TypeError, "name is a", dict(name=5)),
                (ValueError, "name has a NUL", dict(name="softmax\0")),
                (TypeError, "bindings is a list", dict(bindings=["N"])),
                (ValueError, "binding N has a NUL",
                 dict(bindings={"N": "8\0"})),
                (ValueError, "name has a NUL", dict(bindings={"N\0": "8"}))):
            with self.assertRaisesRegex(kind, text):
                tilec.compile("softmax", **call)
        for call in (compiled.emit, compiled.binding):
            with self.assertRaisesRegex(TypeError, "is a int, expected text"):
                call(5)
            with self.assertRaisesRegex(ValueError, "has a NUL"):
                call("ptx\0")

    def test_library_of_another_version(self):
        done = subprocess.run(
            [sys.executable, "-c", "import tilec; tilec.version()"],
            capture_output=True, text=True,
            env={**os.environ, "TILEC_LIBRARY": "libc.so.6",
                 "PYTHONPATH": str(pathlib.Path(tilec.__file__).parents[1])})
        self.assertIn("ImportError: tilec: libc.so.6 is another version's",
                      done.stderr)
        done = subprocess.run(
            [sys.executable, "-c", "import tilec; tilec._abi.VERSION = '0.0.9'"
             "; tilec.version()"], capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": str(
                pathlib.Path(tilec.__file__).parents[1])})
        self.assertIn("is version %s, this package 0.0.9" % tilec.version(),
                      done.stderr)

    def test_warnings(self):
        """By rows v is read byte by byte on sm_89."""
        narrow = {"D": 64, "T": "f8e4m3", "TO": "bf16"}
        options = dict(bindings=narrow, target="sm_89", no_cache=True)
        with self.assertWarnsRegex(tilec.CompileWarning, "byte by byte"):
            tilec.compile("attention_fwd", **options)
        # As errors they leave no kernel behind.
        free = tilec._abi.lib.tilec_kernel_free
        with mock.patch.object(tilec._abi.lib, "tilec_kernel_free",
                               side_effect=free) as freed:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                with self.assertRaises(tilec.CompileWarning):
                    tilec.compile("attention_fwd", **options)
            gc.collect()
            self.assertEqual(freed.call_count, 1)
        tilec.compile("attention_fwd", enforce="off", **options)
        with self.assertRaisesRegex(tilec.Error, "byte by byte"):
            tilec.compile("attention_fwd", enforce="error", **options)
        options["bindings"] = dict(narrow, V_CONTIG_DIM=2)
        tilec.compile("attention_fwd", enforce="error", **options)
        with self.assertRaisesRegex(ValueError, "enforce is 'no'"):
            tilec.compile("softmax", enforce="no")
        self.refused("enforce is 'no'", Q, Q, Q,
                     kernel_options={"enforce": "no"})

    def test_no_library(self):
        done = subprocess.run(
            [sys.executable, "-c", "import tilec; tilec.version()"],
            capture_output=True, text=True,
            env={**os.environ, "TILEC_LIBRARY": "/none/libtilec.so",
                 "PYTHONPATH": str(pathlib.Path(tilec.__file__).parents[1])})
        self.assertIn("set TILEC_LIBRARY to its path", done.stderr)


if __name__ == "__main__":
    unittest.main()
