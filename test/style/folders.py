#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the include graph between folders against folders.txt.

    folders.py SOURCE [--list]

An include of a higher folder, a folder without a line, a line without a
folder and a folder with more than MOST files are errors; so is a folder
without a README.md that names each of its .c files. --list prints each folder
with its number of files and the folders that it includes.
"""
import collections
import pathlib
import re
import sys

MOST = 25
INCLUDE = re.compile(r'^#include "((?:ir|passes|codegen|lib|tools)/[^"]+)"',
                     re.MULTILINE)
NOT_OURS = ("lib/example/", "lib/tilec/")


def read_order(path):
    lines = path.read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def sources(root):
    for top in ("ir", "passes", "codegen", "lib", "tools"):
        for path in sorted((root / top).rglob("*.[ch]")):
            name = path.relative_to(root).as_posix()
            if not name.startswith(NOT_OURS):
                yield name


def folder_of(name):
    return name.rpartition("/")[0]


def unnamed(root, folder):
    """Complaints about .c files that the folder's README.md does not name."""
    readme = root / folder / "README.md"
    if not readme.exists():
        return [f"{folder}: no README.md"]
    text = readme.read_text()
    return [f"{folder}/README.md does not name {path.name}"
            for path in sorted((root / folder).glob("*.c"))
            if not re.search(rf"(?<!\w){path.stem}\.(c\b|\[ch\])", text)]


def check(root, order):
    """Complaints, and for each folder the files and folders it includes."""
    rank = {folder: i for i, folder in enumerate(order)}
    files, uses = collections.Counter(), collections.defaultdict(set)
    wrong = []
    for name in sources(root):
        folder = folder_of(name)
        files[folder] += 1
        if folder not in rank:
            wrong.append(f"{name}: {folder} has no line in folders.txt")
            continue
        for include in INCLUDE.findall((root / name).read_text()):
            other = folder_of(include)
            if include.startswith(NOT_OURS) or other == folder:
                continue
            uses[folder].add(other)
            if rank.get(other, len(order)) > rank[folder]:
                wrong.append(f"{name}: includes {include}, whose folder is "
                             f"higher than {folder} in folders.txt")
    wrong += [f"{f}: {n} source files, more than {MOST}: split the folder"
              for f, n in files.items() if n > MOST]
    wrong += [f"folders.txt: {f}: no such folder" for f in order
              if f not in files]
    for folder in order:
        if folder in files:
            wrong += unnamed(root, folder)
    return wrong, files, uses


def main():
    root = pathlib.Path(sys.argv[1])
    order = read_order(pathlib.Path(__file__).parent / "folders.txt")
    wrong, files, uses = check(root, order)
    if "--list" in sys.argv:
        for folder in order:
            print(f"{folder}: {files[folder]} files; includes",
                  *sorted(uses[folder], key=order.index))
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
