# SPDX-License-Identifier: Apache-2.0
"""Bundles in Python, with the library and with the runtime alone."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np
from reference import random

import tilec

SCALE = """
kernel @scale(%x: tensor<[?] x f32>, %y: tensor<[?] x f32>, %a: f32)
    grid(cdiv(size(%x, 0), 16))
{
  %i = program_id(0) * 16
  %t = load %x[%i +: 16] boundary(0)
  store %y[%i +: 16], %t * %a boundary(0)
}
"""
LIBRARY = pathlib.Path(os.environ["TILEC_LIBRARY"]).resolve()
COMMAND = LIBRARY.parent / "tilec"
# What a process without a compiler computes, given a folder.
SERVED = """
import sys
import numpy as np, tilec

folder = sys.argv[1]
tilec.load_bundle(folder + "/a.tilecb")
x = dict(np.load(folder + "/in.npz"))
o, lse = tilec.attention(x["q"], x["k"], x["v"], mask_mod="causal",
                         return_lse=True)
dq, dk, dv = tilec.attention_backward(
    x["g"], x["q"], x["k"], x["v"], o, lse, mask_mod="causal")[:3]
np.savez(folder + "/out.npz", o=o, lse=lse, dq=dq, dk=dk, dv=dv)
for call in (lambda: tilec.attention(x["q"], x["k"], x["v"]),
             lambda: tilec.compile("kernel @k() grid(1) {}")):
    try:
        call()
    except (tilec.Error, RuntimeError) as e:
        print(e)
"""


def write(folder, name, *words):
    path = os.path.join(folder, name)
    subprocess.run([COMMAND, "compile", *words, "--emit=bundle", "--target",
                    "cpu", "-o", path], check=True)
    return path


class Bundles(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_a_kernel_by_name(self):
        source = pathlib.Path(self.folder) / "scale.tile"
        source.write_text(SCALE)
        path = write(self.folder, "k.tilecb", str(source))
        tilec.load_bundle(path)
        k = tilec.bundle_kernel("scale")
        x, y = random(1, 40), np.zeros(40, "float32")
        k(x, y, 2.0)
        np.testing.assert_array_equal(y, 2 * x)
        entry = next(e for e in tilec.bundle_entries() if e.name == "scale")
        self.assertEqual((entry.file, entry.kind, entry.target, entry.cpu),
                         (path, "kernel", "cpu", "x86-64-v3"))
        self.assertEqual(len(entry.hash), 32)
        tilec.load_bundle(pathlib.Path(path).read_bytes())
        self.assertIn("", [e.file for e in tilec.bundle_entries()])

    def test_errors(self):
        with self.assertRaisesRegex(tilec.Error, "is no bundle"):
            tilec.load_bundle(b"hello")
        with self.assertRaisesRegex(tilec.Error, "No such file"):
            tilec.load_bundle(os.path.join(self.folder, "none.tilecb"))
        with self.assertRaisesRegex(tilec.Error, "no bundle (has kernel|was)"):
            tilec.bundle_kernel("nothing")
        with self.assertRaises(TypeError):
            tilec.load_bundle(3)

    def test_the_runtime_alone(self):
        runtime = LIBRARY.parent / "libtilec_runtime.so"
        write(self.folder, "a.tilecb", "attention", "--types", "f32",
              "--dims", "32", "--mask", "causal", "--backward")
        x = {name: random(i, 1, 2, 50, 32) for i, name in enumerate("qkvg")}
        np.savez(os.path.join(self.folder, "in.npz"), **x)
        found = subprocess.run(
            [sys.executable, "-c", SERVED, self.folder], check=True,
            capture_output=True, text=True,
            env={**os.environ, "TILEC_LIBRARY": str(runtime),
                 "PYTHONPATH": os.path.dirname(
                     os.path.dirname(tilec.__file__))}).stdout
        self.assertIn("the nearest is `q=f32 k=f32 v=f32 d=32 dv=32 "
                      "mask=causal backward=1`", found)
        self.assertIn("libtilec_runtime.so has no tilec_", found)
        tilec.load_bundle(os.path.join(self.folder, "a.tilecb"))
        got = np.load(os.path.join(self.folder, "out.npz"))
        o, lse = tilec.attention(x["q"], x["k"], x["v"], mask_mod="causal",
                                 return_lse=True)
        want = [o, lse, *tilec.attention_backward(
            x["g"], x["q"], x["k"], x["v"], o, lse, mask_mod="causal")[:3]]
        for name, expected in zip(("o", "lse", "dq", "dk", "dv"), want):
            np.testing.assert_array_equal(got[name], expected, name)


if __name__ == "__main__":
    unittest.main()
