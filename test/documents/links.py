#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Links and paths in the *.md files of the repository name what exists.

    links.py SOURCE [FILE...]

Checked are relative links ([text](path), [text](path#section)) and paths that
begin with a folder of the source and stand in backticks (`lib/tilec.h`,
`ir/layout*.c`, `passes/tma.[ch]`). README.md has at most 180 lines.
"""
import pathlib
import re
import subprocess
import sys

MOST_LINES = 180
FOLDERS = "ir|passes|codegen|lib|tools|test|kernels|docs"


def without_code(text):
    return re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)


def anchors_of(path):
    """The names that GitHub gives to the headings of a file."""
    text = without_code(path.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")
            for title in re.findall(r"^#+ +(.*)$", text, re.M)}


def broken_link(source, file, target):
    path, _, anchor = target.partition("#")
    whole = (file.parent / path).resolve() if path else file
    if not whole.exists():
        return "the link %s leads nowhere" % target
    return (anchor and anchor not in anchors_of(whole) and
            "%s has no section #%s" % (whole.name, anchor))


def broken_path(source, file, path):
    pattern = re.sub(r"\[ch\]$", "?", path)
    if any(list(x.glob(pattern)) for x in (source, file.parent)):
        return ""
    return "there is no `%s`" % path


def problems_of(source, file):
    text = without_code(file.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"[a-z]+:", target):
            yield broken_link(source, file, target)
    for path in re.findall(
            r"`((?:%s)/[\w/.*-]+\.(?:\[ch\]|[a-z*]+))`" % FOLDERS, text):
        yield broken_path(source, file, path)
    if file == source / "README.md":
        lines = len(file.read_text(encoding="utf-8").splitlines())
        if lines > MOST_LINES:
            yield "%d lines, expected at most %d" % (lines, MOST_LINES)


def main():
    source = pathlib.Path(sys.argv[1]).resolve()
    files = [pathlib.Path(x).resolve() for x in sys.argv[2:]]
    if not files:
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard", "*.md"],
            cwd=source, capture_output=True, text=True)
        files = [source / x for x in listed.stdout.split()
                 if (source / x).exists()]
        if listed.returncode or not files:  # no checkout
            files = [x for x in source.rglob("*.md")
                     if not x.relative_to(source).parts[0].startswith("build")]
        files = [x for x in files if x.parent != source / "test" / "documents"]
    wrong = ["%s: %s" % (file.relative_to(source), why) for file in files
             for why in problems_of(source, file) if why]
    print("\n".join(dict.fromkeys(wrong)))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
