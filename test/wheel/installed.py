# SPDX-License-Identifier: Apache-2.0
"""An installed tilec is whole: run by the Python of its environment."""
import importlib.metadata
import pathlib
import sys
import unittest

import tilec
from tilec import _abi, _launch

PACKAGE = pathlib.Path(tilec.__file__).parent


class Installed(unittest.TestCase):
    def test_it_is_that_of_the_environment(self):
        self.assertTrue(PACKAGE.is_relative_to(sys.prefix), PACKAGE)

    def test_the_library_is_its_own(self):
        version = tilec.version()
        self.assertEqual(pathlib.Path(_abi.lib.path), PACKAGE / "libtilec.so")
        self.assertEqual(version, tilec.__version__)
        self.assertEqual(version, importlib.metadata.version("tilec"))
        # From elsewhere there are only the C and C++ runtime's.
        mapped = {pathlib.Path(line.split()[-1]) for line in
                  pathlib.Path("/proc/self/maps").read_text().splitlines()
                  if ".so" in line}
        self.assertIn(PACKAGE / "libtilec.so", mapped)
        for path in mapped:
            self.assertNotRegex(path.name, "LLVM")
            if "cjson" in path.name:
                self.assertTrue(path.is_relative_to(sys.prefix), path)

    def test_the_extension_is_its_own(self):
        """No torch is here: what is missing is torch alone."""
        self.assertEqual(_launch._path_of_extension(),
                         str(PACKAGE / "_fast.abi3.so"))
        self.assertEqual(tilec.extension(), "torch is not imported")

    def test_files(self):
        files = {str(f) for f in importlib.metadata.files("tilec")}
        self.assertIn("tilec/py.typed", files)
        self.assertTrue([f for f in files if f.endswith("/licenses/LICENSE")])
        for name in files:
            self.assertRegex(name, r"^tilec[/-]|^\.\./|^tilec\.libs/")

    def test_metadata(self):
        found = importlib.metadata.metadata("tilec")
        self.assertEqual(found["License-Expression"], "Apache-2.0")
        self.assertIn("Typing :: Typed", found.get_all("Classifier"))
        text = found.get_payload() or found["Description"]
        self.assertIn("# tilec", text)
        # No link of the page leads into a source tree, which an index lacks.
        self.assertNotRegex(text, r"\]\((?!https?://)")

    def test_the_backend(self):
        """torch loads it by name, and registers it then."""
        found, = [e for e in importlib.metadata.distribution(
            "tilec").entry_points if e.group == "torch_dynamo_backends"]
        self.assertEqual(found.name, "tilec")
        self.assertTrue(callable(found.load()))
        self.assertNotIn("tilec.flex_attention", sys.modules)

    def test_code_for_a_gpu(self):
        k = tilec.compile("attention_fwd", target="sm_90",
                          bindings={"D": 64, "T": "bf16"})
        self.assertIn(".target sm_90", k.emit("ptx"))


if __name__ == "__main__":
    unittest.main()
