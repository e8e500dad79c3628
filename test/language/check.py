#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the examples of ir/LANGUAGE.md.

usage: check.py TILEC LANGUAGE.md

A fenced block says by its tag what is done with it:
  tile             `tilec opt --round-trip` takes it
  tile run ARGS    `tilec run` prints what the following text block says; the
                   programs of a grid may do so in any order
  tile fail ARGS   `tilec run` fails with the error in the text block
  tile error       `tilec opt` reports exactly the errors in the text block
  tile machine ARGS  `tilec compile --emit=machine` prints the tile block after it
One without func and kernel is the body of the first block of the file, which
is a function with an empty body. Each op of the table must be in an example.
"""
import os
import re
import subprocess
import sys
import tempfile


class Block:
    def __init__(self, line, tag):
        self.line, self.tag, self.lines = line, tag.split(), []

    @property
    def text(self):
        return "\n".join(self.lines) + "\n"


def blocks_of(path):
    blocks, current = [], None
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            line = line.rstrip("\n")
            if line.startswith("```"):
                if current:
                    blocks.append(current)
                    current = None
                else:
                    current = Block(number, line[3:])
            elif current:
                current.lines.append(line)
    if current:
        sys.exit("%s:%d: the block does not end" % (path, current.line))
    return blocks


def module_of(block, frame):
    """The block as a whole program."""
    if re.search(r"^(func|kernel|plan) ", block.text, re.M):
        return block.text
    return frame.rstrip().removesuffix("}") + block.text + "}\n"


def by_program(text):
    """What is printed, program after program."""
    pieces = re.split(r"^(?=program )", text, flags=re.M)
    return sorted(pieces, key=lambda piece: piece.split(":")[0])


class Checker:
    def __init__(self, tilec, path):
        self.tilec, self.path, self.failed = tilec, path, 0
        self.ops = set()

    def fail(self, block, why):
        self.failed += 1
        print("%s:%d: %s" % (self.path, block.line, why))

    def run(self, *words):
        done = subprocess.run([self.tilec, *words], capture_output=True,
                              text=True)
        return done.returncode, done.stdout, done.stderr

    def errors(self, stderr):
        return re.findall(r"^[^\n]*?: error: (.*)$", stderr, re.M)

    def check_opt(self, block, file):
        code, out, err = self.run("opt", "--round-trip", file)
        if code:
            return self.fail(block, "tilec opt fails:\n" + err)
        self.ops |= set(re.findall(r"^ *(?:%[^=]* = )?([a-z_0-9]+)\b", out,
                                   re.M))

    def check_run(self, block, file, expected):
        code, out, err = self.run("run", file, *block.tag[2:])
        if code:
            self.fail(block, "tilec run fails:\n" + err)
        elif by_program(out) != by_program(expected):
            self.fail(block, "it prints\n%sand not\n%s" % (out, expected))

    def check_fail(self, block, file, expected):
        code, _, err = self.run("run", file, *block.tag[2:])
        if code != 1 or self.errors(err) != expected.splitlines():
            self.fail(block, "tilec run exits with %d and says\n%s" % (code,
                                                                      err))

    def check_machine(self, block, file, expected):
        code, out, err = self.run("compile", file, "--emit=machine",
                                  "--no-cache", *block.tag[2:])
        if code:
            self.fail(block, "tilec compile fails:\n" + err)
        elif out != expected:
            self.fail(block, "it becomes\n%sand not\n%s" % (out, expected))

    def check_error(self, block, file, expected):
        code, _, err = self.run("opt", file)
        if code != 1 or self.errors(err) != expected.splitlines():
            self.fail(block, "tilec opt exits with %d and says\n%s" % (code,
                                                                      err))

    def check(self, block, following, frame, file):
        kind = block.tag[1] if len(block.tag) > 1 else "opt"
        with open(file, "w", encoding="utf-8") as f:
            f.write(module_of(block, frame))
        if kind not in ("opt", "run", "fail", "error", "machine"):
            return self.fail(block, "tag `%s` is not known" % kind)
        if kind in ("opt", "run", "machine"):
            self.check_opt(block, file)
        if kind == "opt":
            return None
        expected = "tile" if kind == "machine" else "text"
        if not following or following.tag != [expected]:
            return self.fail(block, "a %s block must follow" % expected)
        check = getattr(self, "check_" + kind)
        return check(block, file, following.text)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    checker = Checker(sys.argv[1], sys.argv[2])
    blocks = blocks_of(checker.path)
    examples = [b for b in blocks if b.tag[:1] == ["tile"]]
    if not examples:
        sys.exit("%s: no examples" % checker.path)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "example.tile")
        for i, block in enumerate(blocks):
            if block.tag[:1] == ["tile"]:
                following = blocks[i + 1] if i + 1 < len(blocks) else None
                checker.check(block, following, examples[0].text, file)
    _, table, _ = checker.run("info", "ops")
    all_ops = re.findall(r"^\| `([a-z_0-9]+)` \|", table, re.M)
    if not all_ops:
        sys.exit("`tilec info ops` prints no table")
    for op in all_ops:
        if op not in checker.ops:
            print("%s: op `%s` has no example" % (checker.path, op))
            checker.failed += 1
    print("%d examples, %d ops, %d failed" % (len(examples), len(all_ops),
                                              checker.failed))
    sys.exit(checker.failed != 0)


main()
