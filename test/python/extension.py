# SPDX-License-Identifier: Apache-2.0
"""The compiled extension: the one that fits the package is used, and where none
is, it says why."""
import pathlib
import re
import tempfile
import unittest
from unittest import mock

import reference  # noqa: F401: the path to lib/python

import tilec
from tilec import _launch

FAST = pathlib.Path(__file__).resolve().parents[2] / "lib/python/fast/fast.c"


class Extension(unittest.TestCase):
    def says(self, text, **changes):
        with mock.patch.multiple(_launch, **changes):
            found, why = _launch._extension()
            self.assertIsNone(found)
            self.assertIn(text, why)

    def test_its_source_has_the_version_that_the_package_wants(self):
        found = re.search(r"enum { VERSION = (\d+) };", FAST.read_text())
        self.assertEqual(int(found.group(1)), _launch.VERSION)

    def test_of_this_build(self):
        tilec.version()  # loads the library, which tells where the build is
        if _launch._path_of_extension() is None:
            self.skipTest("built without Python.h")
        found, why = _launch._extension()
        self.assertIsNone(why)
        self.assertEqual(found.version, _launch.VERSION)
        # Without torch; test/gpu/torch_cache.py has the same with it.
        self.assertIn(tilec.extension(), ("torch is not imported", "in use"))
        self.says("has version %d, the package needs 99" % found.version,
                  VERSION=99)

    def test_none(self):
        self.says("not built", _path_of_extension=lambda: None)

    def test_no_library(self):
        with tempfile.NamedTemporaryFile(suffix=".abi3.so") as f:
            f.write(b"no library")
            f.flush()
            self.says("cannot be loaded", _path_of_extension=lambda: f.name)


if __name__ == "__main__":
    unittest.main()
