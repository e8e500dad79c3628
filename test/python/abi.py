# SPDX-License-Identifier: Apache-2.0
"""The structs of lib/python are those of lib/tilec.h, asked of a C compiler."""
import ctypes as C
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "lib" / "python"))
from tilec import _abi

STRUCTS = sorted(
    (s for s in vars(_abi).values()
     if isinstance(s, type) and issubclass(s, C.Structure) and
    not s.__name__.startswith("_")),
    key=lambda s: s.__name__)


def program():
    """C that prints sizeof and each offset."""
    lines = ['#include "tilec.h"', "#include <stdio.h>", "int main(void) {"]
    for s in STRUCTS:
        name = s.__name__
        lines.append('printf("%s %%zu\\n", sizeof(%s));' % (name, name))
        # `pass` is a keyword of Python only.
        lines += ['printf("%s.%s %%zu %%zu\\n", offsetof(%s, %s), '
                  'sizeof(((%s *)0)->%s));' % (name, f[0], name, f[0], name,
                                               f[0]) for f in s._fields_]
    return "\n".join(lines + ["return 0;", "}"])


class Layout(unittest.TestCase):
    def test_structs(self):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "layout.c"
            source.write_text(program())
            binary = str(pathlib.Path(folder) / "layout")
            subprocess.run([os.environ.get("CC", "cc"), "-I",
                            str(ROOT / "lib"), str(source), "-o", binary],
                           check=True)
            want = subprocess.run([binary], check=True, capture_output=True,
                                  text=True).stdout.splitlines()
        got = []
        for s in STRUCTS:
            got.append("%s %d" % (s.__name__, C.sizeof(s)))
            for name, *_ in s._fields_:
                f = getattr(s, name)
                got.append("%s.%s %d %d" % (s.__name__, name, f.offset,
                                            f.size))
        self.assertGreater(len(got), 100)
        self.assertEqual(got, want)

    def test_version(self):
        """The package, the library and the header are of one version."""
        version = _abi.VERSION
        self.assertEqual(_abi.lib.tilec_version().decode(), version)
        # Where a wheel takes its version from.
        project = (ROOT / "pyproject.toml").read_text()
        found = re.search("^metadata.version.input = \"(.*)\"\n"
                          "metadata.version.regex = '(.*)'$", project, re.M)
        self.assertEqual(re.search(found[2], (ROOT / found[1]).read_text(),
                                   re.M)["value"], version)
        header = (ROOT / "lib" / "tilec" / "version.h").read_text()
        self.assertEqual(
            re.findall(r"^#define TILEC_VERSION_[A-Z]+ (\d+)$", header, re.M),
            version.split("."))

    def test_no_field_is_missing(self):
        """A struct's last field ends where it does: none was added since."""
        for s in STRUCTS:
            last = getattr(s, s._fields_[-1][0])
            self.assertLess(C.sizeof(s) - last.offset - last.size, 8,
                            s.__name__)


if __name__ == "__main__":
    unittest.main()
