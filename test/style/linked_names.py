#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the names of the functions of kernels/attention*.tile.

    linked_names.py SOURCE

Plans of attention link several of these files, by name: of two functions with
the same name one would be taken for both. So these are equal, comments and
spaces apart.
"""
import collections
import pathlib
import re
import sys

DEFINITION = re.compile(r"^(?:func|kernel|plan|params) @([\w.]+)", re.MULTILINE)


def definitions(path):
    text = path.read_text(encoding="utf-8")
    found = list(DEFINITION.finditer(text))
    ends = [m.start() for m in found[1:]] + [len(text)]
    for m, end in zip(found, ends):
        code = re.sub(r"//.*", "", text[m.start():end])
        yield m.group(1), " ".join(code.split())


def main():
    files = sorted((pathlib.Path(sys.argv[1]) / "kernels").glob("attention*.tile"))
    texts = collections.defaultdict(dict)
    for path in files:
        for name, code in definitions(path):
            texts[name].setdefault(code, path.name)
    bad = {n: t for n, t in texts.items() if len(t) > 1}
    for name, t in bad.items():
        print("@%s differs: %s" % (name, ", ".join(t.values())))
    if len(files) < 2 or not texts:
        print("no functions found in kernels/attention*.tile")
        return 1
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
