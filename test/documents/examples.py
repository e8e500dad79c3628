#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the examples of documents as a reader would, in the root of the source.

    examples.py TILEC SOURCE [--library FILE] DOCUMENT...

A line before a fenced block says what is done with it:
  <!-- test -->             sh, python: it exits with 0
                            c: it compiles without warnings; a main runs too
  <!-- test with MODULE --> python: the same, if Python has that module
  <!-- said -->             text: each line is one that the sh block before it
                            wrote to standard error
  <!-- not run: REASON -->  nothing; Python is parsed
Blocks of sh, python and c without such a line are errors. The blocks of a
document run in one folder, one after the other. Without --library (a build with
sanitizers) python and c are left out.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from importlib.util import find_spec

RUN = ("sh", "python", "c")


class Block:
    def __init__(self, document, line, language, mark):
        self.place = "%s:%d" % (document, line)
        self.language, self.mark, self.lines = language, mark, []

    @property
    def text(self):
        return "\n".join(self.lines) + "\n"


def blocks_of(path):
    blocks, current, before = [], None, ""
    for number, line in enumerate(
            path.read_text(encoding="utf-8").splitlines(), 1):
        if current and line.startswith("```"):
            blocks.append(current)
            current = None
        elif current:
            current.lines.append(line)
        elif line.startswith("```"):
            mark = re.fullmatch(r"<!-- (test|test with \w+|said|not run: .+) -->", before)
            current = Block(path.name, number, line[3:],
                            mark.group(1) if mark else "")
        before = line
    return blocks


class Runner:
    def __init__(self, tilec, source, library, folder):
        self.source, self.library, self.folder = source, library, folder
        self.stderr = ""
        (folder / "build").mkdir()
        (folder / "build" / "tilec").symlink_to(tilec)
        for name in ("test", "kernels", "lib"):
            (folder / name).symlink_to(source / name)
        self.env = dict(os.environ, TILEC_CACHE_DIR=str(folder / "cache"),
                        PYTHONPATH=os.pathsep.join([
                            str(source / "lib" / "python"),
                            *filter(None, [os.environ.get("PYTHONPATH")])]),
                        PYTHONDONTWRITEBYTECODE="1")
        if library:
            self.env["TILEC_LIBRARY"] = str(library)
            self.env["LD_LIBRARY_PATH"] = str(library.parent)

    def call(self, *words):
        """What is wrong, or nothing."""
        done = subprocess.run(words, cwd=self.folder, env=self.env, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True)
        self.stderr = done.stderr
        if done.returncode:
            return "exit code %d\n%s%s" % (done.returncode, done.stdout,
                                           done.stderr)
        return ""

    def sh(self, block):
        return self.call("sh", "-euc", block.text)

    def python(self, block):
        module = block.mark.partition(" with ")[2]
        if not self.library or (module and not find_spec(module)):
            return ""
        return self.call(sys.executable, "-W", "error", "-c", block.text)

    def c(self, block):
        if not self.library:
            return ""
        (self.folder / "example.c").write_text(block.text, encoding="utf-8")
        compile_it = ["cc", "-std=c17", "-Wall", "-Wextra", "-Werror",
                      "-I", self.source / "lib", "example.c"]
        if "int main(" not in block.text:
            return self.call(*compile_it, "-c")
        return (self.call(*compile_it, self.library, "-o", "example") or
                self.call("./example"))

    def said(self, block):
        missing = [x for x in block.lines
                   if x not in self.stderr.splitlines()]
        return missing and "the block before does not say:\n%s\nbut\n%s" % (
            "\n".join(missing), self.stderr)

    def run(self, block):
        if block.mark == "said":
            return self.said(block)
        if block.language == "python":
            compile(block.text, block.place, "exec")
        if block.language not in RUN or block.mark.startswith("not run"):
            return ""
        if not block.mark.startswith("test"):
            return "a line `<!-- test -->` or `<!-- not run: REASON -->` " \
                "must precede the block"
        return getattr(self, block.language)(block)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--library", type=pathlib.Path)
    p.add_argument("tilec", type=pathlib.Path)
    p.add_argument("source", type=pathlib.Path)
    p.add_argument("documents", type=pathlib.Path, nargs="+")
    args = p.parse_args()
    failed = tested = 0
    for document in args.documents:
        with tempfile.TemporaryDirectory() as folder:
            runner = Runner(args.tilec, args.source, args.library,
                            pathlib.Path(folder))
            for block in blocks_of(document):
                tested += block.mark.startswith("test")
                why = runner.run(block)
                if why:
                    failed += 1
                    print("%s: %s" % (block.place, why))
    print("%d examples, %d failures" % (tested, failed))
    return not tested or failed > 0


if __name__ == "__main__":
    sys.exit(main())
