# SPDX-License-Identifier: Apache-2.0
"""tilec.autotune and tilec.tuning_space on numpy arrays. Times are set."""
import atexit
import glob
import os
import tempfile
import unittest
from unittest import mock

FOLDER = tempfile.TemporaryDirectory()
atexit.register(FOLDER.cleanup)
os.environ["TILEC_CACHE_DIR"] = FOLDER.name

import numpy as np
from reference import random

import tilec
from tilec import _autotune

ADD = """
kernel @add[BM: int, T: type = f32](%x: tensor<[?] x T>, %n: i32)
    tune(BM=16, 32, 64; warps=2, 4; tiles=none, static)
    grid(cdiv(size(%x, 0), BM)) {
  %v = load %x[program_id(0) * BM +: BM] boundary(0)
  store %x[program_id(0) * BM +: BM], %v + cast(%n, T) boundary(0)
}
"""


class Times:
    """In place of `seconds`: by the BM of the kernel that is launched."""

    def __init__(self, times):
        self.times, self.tried = times, []

    def __call__(self, device, launch, runs):
        launch()
        launch()
        kernel = launch.__closure__[[
            type(c.cell_contents) for c in launch.__closure__].index(
                tilec.Kernel)].cell_contents
        self.tried.append(int(kernel.binding("BM")))
        return self.times[self.tried[-1]]


def times(**of):
    return mock.patch.object(_autotune, "seconds", Times(
        {int(n[2:]): t for n, t in of.items()}))


class Autotune(unittest.TestCase):
    def setUp(self):
        for path in glob.glob(os.path.join(FOLDER.name, "tune-*")):
            os.remove(path)
        self.x = np.arange(100, dtype="float32")

    def kept(self):
        return glob.glob(os.path.join(FOLDER.name, "tune-*.json"))

    def test_space(self):
        self.assertEqual(tilec.tuning_space(ADD), {
            "BM": (16, 32, 64), "warps": (2, 4), "tiles": ("none", "static")})
        self.assertEqual(tilec.tuning_space(ADD, target="cpu"),
                         {"BM": (16, 32, 64)})
        self.assertEqual(tilec.tuning_space(
            ADD, target="cpu", bindings={"BM": 8}), {})
        self.assertEqual(tilec.tuning_space("softmax"), {})
        self.assertEqual(tilec.tuning_space("matmul")["BK"], (32, 64))
        with self.assertRaisesRegex(tilec.Error, "tune: warps=0, expected"):
            tilec.tuning_space(ADD.replace("warps=2", "warps=0"))
        with self.assertRaisesRegex(tilec.Error, "there is no kernel @sub"):
            tilec.tuning_space(ADD, name="sub")

    def test_fastest(self):
        add = tilec.autotune(ADD)
        with times(BM16=3, BM32=1, BM64=2) as clock:
            add(self.x, 1)
            self.assertEqual(clock.tried, [16, 32, 64])
            # Once, however often it was timed.
            np.testing.assert_array_equal(self.x, np.arange(100) + 1)
            add(x=self.x, n=2)
            add(self.x, 2)
            self.assertEqual(add.choice(self.x, 2), {"BM": 32})
            self.assertEqual(add.compiled(self.x, 2).binding("BM"), "32")
        np.testing.assert_array_equal(self.x, np.arange(100) + 5)

    def test_real_clock(self):
        add = tilec.autotune(ADD, runs=3, cache=False)
        x = random(1, 100)
        want = x + np.float32(1)
        add(x, 1)
        np.testing.assert_array_equal(x, want)
        self.assertIn(add.choice(x, 1)["BM"], (16, 32, 64))
        self.assertEqual(self.kept(), [])

    def test_kept(self):
        with times(BM16=3, BM32=2, BM64=1):
            self.assertEqual(tilec.autotune(ADD).choice(self.x, 1),
                             {"BM": 64})
        self.assertEqual(len(self.kept()), 1)
        with times() as clock:
            self.assertEqual(tilec.autotune(ADD).choice(self.x, 1),
                             {"BM": 64})
            self.assertEqual(clock.tried, [])
        with times(BM16=1, BM32=2, BM64=3) as clock:
            # Another shape, another type, another text.
            for text, x in ((ADD, np.zeros(7, "float32")),
                            (ADD, np.zeros(100, "float16")),
                            (ADD + "// other\n", self.x)):
                self.assertEqual(tilec.autotune(text).choice(x, 1),
                                 {"BM": 16})
            self.assertEqual(len(clock.tried), 9)
        self.assertEqual(len(self.kept()), 4)

    def test_damaged(self):
        with times(BM16=3, BM32=2, BM64=1):
            tilec.autotune(ADD)(self.x, 1)
        path, = self.kept()
        for text in "", "{", "[1]", '{"choice": {"BM": 8}}', \
                '{"choice": {"BM": 64, "warps": 4}}':
            with open(path, "w") as f:
                f.write(text)
            with times(BM16=1, BM32=2, BM64=3) as clock:
                self.assertEqual(tilec.autotune(ADD).choice(self.x, 1),
                                 {"BM": 16})
                self.assertEqual(clock.tried, [16, 32, 64])

    def test_key(self):
        def key(x, n):
            return len(x) // 100
        with times(BM16=3, BM32=2, BM64=1):
            tilec.autotune(ADD, key=key)(self.x, 1)
        with times() as clock:
            tilec.autotune(ADD, key=key)(np.zeros(150, "float32"), 1)
            self.assertEqual(clock.tried, [])

    def test_own_space(self):
        add = tilec.autotune(ADD, space={"BM": [8, 3, 16]})
        with times(BM8=1, BM16=2) as clock:
            self.assertEqual(add.choice(self.x, 1), {"BM": 8})
            self.assertEqual(clock.tried, [8, 16])  # a side of 3 is none
        one = tilec.autotune(ADD, bindings={"BM": 8})
        with times() as clock:
            self.assertEqual(one.choice(self.x, 1), {})
            self.assertEqual(clock.tried, [])

    def test_none_compiles(self):
        with self.assertRaisesRegex(tilec.Error, "side"):
            tilec.autotune(ADD, space={"BM": [3, 5]})(self.x, 1)

    def test_compile_options(self):
        with self.assertRaisesRegex(ValueError, "tiles is 'some'"):
            tilec.compile(ADD, bindings={"BM": 8}, tiles="some")
        k = tilec.compile(ADD, bindings={"BM": 64}, target="sm_90a",
                          tiles="static", ptxas_level=2, no_cache=True)
        self.assertIn("tiles(static)", k.emit("machine"))
        self.assertIn("ptxas(2)", k.emit("machine"))


if __name__ == "__main__":
    unittest.main()
