# SPDX-License-Identifier: Apache-2.0
"""Kernel.inspect writes the inspector's page and opens it."""
import json
import os
import pathlib
import tempfile
import unittest
from unittest import mock

import numpy as np
import reference  # noqa: F401: the path to lib/python

import tilec


def data_of(path):
    """The documents in a page: {"main": .., "against": ..}."""
    text = pathlib.Path(path).read_text()
    begin = text.index('id="data">') + len('id="data">')
    return json.loads(text[begin:text.index("</script>", begin)])


def bindings_of(document):
    return {b["name"]: b["value"] for b in document["bindings"]}


class Inspect(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        patch = mock.patch("webbrowser.open")
        self.opened = patch.start()
        self.addCleanup(patch.stop)
        self.k = tilec.compile("softmax", target="sm_80",
                               bindings={"T": "f16"}, num_warps=8)

    def path(self, name):
        return os.path.join(self.folder, name)

    def test_opens(self):
        with mock.patch("tempfile.tempdir", self.folder):
            path = self.k.inspect()
        self.opened.assert_called_once_with(pathlib.Path(path).as_uri())
        self.assertTrue(path.startswith(self.folder + os.sep), path)
        data = data_of(path)
        self.assertIsNone(data["against"])
        d = data["main"]
        self.assertEqual((d["status"], d["kernel"], d["target"]["name"]),
                         ("ok", "softmax", "sm_80"))
        self.assertEqual(bindings_of(d)["T"], "f16")
        self.assertEqual(d["resources"]["warps"], 8)

    def test_path(self):
        for path in self.path("a.html"), pathlib.Path(self.path("b.html")):
            self.assertEqual(self.k.inspect(path, show=False), str(path))
            self.assertEqual(data_of(path)["main"]["kernel"], "softmax")
        self.opened.assert_not_called()

    def test_json(self):
        path = self.k.inspect(self.path("a.json"))
        self.opened.assert_not_called()
        with open(path) as f:
            self.assertEqual(json.load(f)["schema"], "tilec.inspect")
        with self.assertRaisesRegex(ValueError, "path of HTML"):
            self.k.inspect(path, against=self.k)

    def test_against(self):
        other = tilec.compile("softmax", target="sm_80",
                              bindings={"T": "bf16"})
        file = other.inspect(self.path("other.json"))
        for against in other, file:
            path = self.k.inspect(self.path("a.html"), against=against)
            data = data_of(path)
            self.assertEqual([bindings_of(data[x])["T"]
                              for x in ("main", "against")], ["f16", "bf16"])
        with self.assertRaisesRegex(ValueError, "a.html: expected the output"):
            self.k.inspect(self.path("b.html"), against=path)

    def test_examples(self):
        """Types come from the examples, which need not live any more."""
        k = tilec.compile("softmax", examples=[
            np.zeros((9, 300), "float16"), np.zeros((9, 300), "float16")])
        self.assertEqual(k.target, "cpu")
        with self.assertRaisesRegex(ValueError, "expected a GPU target"):
            k.inspect(self.path("a.html"))
        self.assertFalse(os.path.exists(self.path("a.html")))
        d = data_of(k.inspect(self.path("a.html"), target="sm_90a"))["main"]
        self.assertEqual(d["target"]["name"], "sm_90a")
        self.assertEqual(bindings_of(d)["T"], "f16")

    def test_no_text(self):
        """A kernel of a bundle has none."""
        k = tilec._kernel.Kernel(self.k.handle)
        try:
            with self.assertRaisesRegex(ValueError, "comes from a bundle"):
                k.inspect(self.path("a.html"))
        finally:
            k.handle = None


if __name__ == "__main__":
    unittest.main()
