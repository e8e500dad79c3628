# SPDX-License-Identifier: Apache-2.0
"""tilec.compile and tilec.kernel on numpy arrays."""
import contextlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import numpy as np
from reference import random

import tilec

SCALED = """
kernel @scaled[N: int, T: type = f32](%x: tensor<[?, N] x T>,
    %y: tensor<[?, N] x T>, %by: f32, %add: i32)
    grid {
      assert size(%x, 0) == size(%y, 0), "x and y must have the same rows"
      yield cdiv(size(%x, 0), 8)
    }
{
  %r = program_id(0) * 8
  %t = load %x[%r +: 8, 0 +: N] boundary(0)
  %s = cast(%t, f32) * %by + cast(%add, f32)
  store %y[%r +: 8, 0 +: N], cast(%s, T) boundary(0)
}
"""


class Kernels(unittest.TestCase):
    def test_compile(self):
        k = tilec.compile(SCALED, target="cpu", bindings={"N": 8})
        self.assertEqual((k.name, k.target), ("scaled", "cpu"))
        self.assertEqual(
            [(p.name, p.kind, p.shape, p.written) for p in k.parameters],
            [("x", "tensor", (-1, 8), False), ("y", "tensor", (-1, 8), True),
             ("by", "float", (), False), ("add", "int", (), False)])
        self.assertEqual((k.binding("N"), k.binding("T"), k.binding("Z")),
                         ("8", "f32", None))
        x, y = random(1, 10, 8), np.zeros((10, 8), "float32")
        k(x, y, 2.0, 3)
        np.testing.assert_allclose(y, 2 * x + 3, rtol=1e-6)
        k(x, by=1, add=0, y=y, threads=1)
        np.testing.assert_array_equal(y, x)
        self.assertEqual(k.grid(x, y, 2.0, 3), (2, 1, 1))
        k.synchronize()
        self.assertIn("kernel @scaled", k.emit("tile"))
        self.assertIn("@scaled", repr(k))

    def test_functions_of_files(self):
        text = """
import "%s"
kernel @k[act: func(f32) -> f32 = @twice](%%x: tensor<[?] x f32>) grid(1) {
  %%v = load %%x[0 +: 8] boundary(0)
  store %%x[0 +: 8], call act(%%v) boundary(0)
}
"""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "act.tile")
            with open(path, "w") as f:
                f.write("func @twice(%x: f32) -> f32 {\n  return %x * 2.0\n}\n"
                        "func @less(%x: f32) -> f32 {\n  return %x - 1.0\n}\n")
            for bindings, want in (None, 6.0), ({"act": path + "@less"}, 2.0):
                x = np.full(8, 3.0, "float32")
                tilec.compile(text % path, target="cpu", bindings=bindings)(x)
                np.testing.assert_array_equal(x, want)
            with self.assertRaisesRegex(tilec.Error, "cannot be read"):
                tilec.compile(text % (path + "x"), target="cpu")

    def test_examples(self):
        x = random(1, 10, 8, dtype="float16")
        k = tilec.compile(SCALED, examples={"x": x})
        self.assertEqual((k.target, k.binding("N"), k.binding("T")),
                         ("cpu", "8", "f16"))

    def test_other_targets(self):
        k = tilec.compile("softmax", target="sm_80", no_cache=True,
                          bindings={"T": "f16"})
        self.assertEqual(k.target, "sm_80")
        self.assertIn(".target sm_80", k.emit("ptx"))

    def test_launcher(self):
        scaled = tilec.kernel(SCALED)
        for dtype in ("float32", "float16"):
            for n in (8, 16, 8):
                x = random(n, 9, n, dtype=dtype)
                y = np.zeros_like(x)
                scaled(x, y, by=1.5, add=1)
                np.testing.assert_allclose(y, 1.5 * x.astype("f") + 1,
                                           rtol=2e-3, atol=2e-3)
        self.assertEqual(len(scaled._kernels), 4)
        first = scaled.compiled(x, y, by=1, add=0)
        self.assertIs(first, scaled.compiled(x[:3], y[:3], 1.0, 2))

    def test_embedded(self):
        x, y = random(1, 20, 300), np.zeros((20, 300), "float32")
        tilec.kernel("softmax")(x, y)
        e = np.exp(x - x.max(1, keepdims=True))
        np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-5)

    def test_errors(self):
        with self.assertRaises(tilec.Error) as e:
            tilec.compile(SCALED.replace("%by +", "%bye +"), target="cpu")
        self.assertEqual(e.exception.diagnostics[0].line, 11)
        k = tilec.compile(SCALED, target="cpu", bindings={"N": 8})
        x = random(1, 10, 8)
        for text, args in (
                ("same rows", (x, x[:4], 1.0, 0)),
                ("%by", (x, x)), ("f16", (x.astype("float16"), x, 1.0, 0)),
                ("dim 1", (x[:, :4], x, 1.0, 0))):
            with self.assertRaises(ValueError) as e:
                k(*args)
            self.assertIn(text.strip("%"), str(e.exception))
        with self.assertRaises(ValueError):
            k.emit("nothing")

    def test_read_only(self):
        k = tilec.compile(SCALED, target="cpu", bindings={"N": 8})
        x, y = random(1, 10, 8), np.zeros((10, 8), "float32")
        x.flags.writeable = False
        k(x, y, 1.0, 0)
        np.testing.assert_array_equal(y, x)
        for call in (lambda: k(y, x, 1.0, 0),
                     lambda: k(x=y, by=1.0, add=0, y=x)):
            with self.assertRaisesRegex(ValueError, "y is a read-only array"):
                call()

    def test_numpy_numbers(self):
        k = tilec.compile(SCALED, target="cpu", bindings={"N": 8})
        x, y = random(1, 10, 8), np.zeros((10, 8), "float32")
        k(x, y, np.float32(2), np.int64(3))
        np.testing.assert_allclose(y, 2 * x + 3, rtol=1e-6)
        scaled = tilec.kernel(SCALED)
        for add in (1, np.int32(1), np.bool_(True)):
            scaled(x, y, by=np.float64(1), add=add)
            np.testing.assert_allclose(y, x + 1, rtol=1e-6)
        self.assertEqual(len(scaled._kernels), 1)

    def test_end_of_the_process(self):
        """A kernel may be collected after the modules that it needs."""
        text = """if True:
            import gc, tilec
            cycle = [tilec.compile("softmax", target="cpu")]
            cycle.append(cycle)
            gc.freeze()
            """
        done = subprocess.run(
            [sys.executable, "-c", text], capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": str(
                pathlib.Path(tilec.__file__).parents[1])})
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_workspaces_of_streams(self):
        """torch learns of a stream that it does not know to use memory."""
        memory = tilec._tensors.Memory(np.zeros(1), 64)
        memory.record_stream(7)  # numpy's is nobody else's
        owner = mock.Mock(is_cuda=True)
        torch = mock.Mock(Tensor=mock.Mock)
        memory.owner = owner
        with mock.patch.dict(sys.modules, torch=torch):
            memory.record_stream(7)
        torch.cuda.ExternalStream.assert_called_once_with(
            7, device=owner.device)
        owner.record_stream.assert_called_once_with(
            torch.cuda.ExternalStream.return_value)
        with mock.patch.dict(sys.modules, torch=torch):
            memory.record_stream(0)
        owner.record_stream.assert_called_with(
            torch.cuda.default_stream.return_value)

    def test_resources_and_remarks(self):
        text = """
kernel @k(%a: tensor<[?, ?] x f32>, %b: tensor<[?, ?] x f32>, %c: tensor<[?, ?] x f32>) grid(1) {
  %s = for %k = 0 to size(%a, 1) step 32 carry(%acc = splat(0.0, tile<64x64 x f32>)) {
    %x = load %a[0 +: 64, %k +: 32] boundary(0, 1)
    %y = load %b[%k * 3 +: 32, 0 +: 64] boundary(0, 1)
    yield dot(%x, %y, %acc)
  }
  store %c[0 +: 64, 0 +: 64], %s boundary(0, 1)
}
"""
        k = tilec.compile(text, target="sm_80", precision="tf32", no_cache=True)
        self.assertIn("tf32", k.emit("ptx"))
        self.assertNotIn("tf32", tilec.compile(text, target="sm_80").emit("ptx"))
        resources = k.resources()
        self.assertGreater(resources["warps"], 0)
        self.assertGreater(resources["shared_bytes"], 0)
        self.assertGreaterEqual(resources.get("registers", 32), 16)
        missed, done = k.remarks(), k.remarks(done=True)
        self.assertLess(len(missed), len(done))
        said = [d for d in done if "dot: " in d.message]
        self.assertEqual((said[0].severity, said[0].line), ("remark", 6))
        self.assertIn("dot(%x", said[0].source)
        cpu = tilec.compile(text, target="cpu")
        self.assertGreater(cpu.resources(target="sm_90a")["warps"], 0)
        with self.assertRaisesRegex(ValueError, "GPU"):
            cpu.resources()
        with self.assertRaisesRegex(ValueError, "float32_precision"):
            tilec.compile(text, target="sm_80", precision="f32")

    def test_print(self):
        k = tilec.compile("""
kernel @k(%x: tensor<[?] x f32>) grid(1) { print "100% of", 2, load(%x[0 +: 4]) }
""", target="cpu")
        with contextlib.redirect_stdout(io.StringIO()) as out:
            k(np.arange(4, dtype="float32"))
        self.assertEqual(out.getvalue(),
                         "program (0, 0, 0): 100% of 2\n  [:] 0 1 2 3\n")

    def test_facts(self):
        self.assertIn("cpu", tilec.targets())
        self.assertIn("func @causal", tilec.mods()["mods/masks"])
        self.assertRegex(tilec.version(), r"^\d+\.\d+")
        self.assertEqual(tilec.version(), tilec.__version__)


if __name__ == "__main__":
    unittest.main()
