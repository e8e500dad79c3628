#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The documents of `tilec inspect --json`, `info mask --json` and
`compile --emit=timeline` have the members that docs/inspector.md and
docs/profile.md describe, no others, and their version.

    schema.py TILEC ROOT
"""
import json
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from pages import (BROKEN, KERNELS, check, failures, make_mask,  # noqa: E402
                   make_measured, tilec)

# Members that are objects of another row, or of another schema.
SHARED = {"accesses"}
OTHER_SCHEMAS = {"timeline", "measured", "mask"}
# Only where nvdisasm or ptxas is on the machine.
MAYBE = {"live", "registers", "spill_stores", "spill_loads", "stack"}


def rows_of(path, title):
    """The table after a heading: {first word of a row: all its words}, and the
    version."""
    with open(path) as f:
        text = f.read().split(title + "\n", 1)[1].split("\n## ")[0]
    rows, version = {}, None
    for line in text.split("\n"):
        cells = line.split(" | ")
        if not line.startswith("| `"):
            continue
        names = re.findall(r"`(\w+)`", cells[0])
        words = set(re.findall(r"`(\w+)`", line))
        words |= {w for inside in re.findall(r"`\{([\w, ]+)\}`", line)
                  for w in inside.split(", ")}
        for name in names:
            rows[name] = words
        if "schema" in names:
            version = int(cells[1].split(",")[-1].strip(" |"))
    return rows, version


def objects_in(value):
    """The objects in a list, or the one that it is."""
    if isinstance(value, dict):
        yield value
    for item in value if isinstance(value, list) else ():
        if isinstance(item, dict):
            yield item


def compare(title, rows, version, documents):
    seen, inner = set(), {}
    for d in documents:
        check(d["version"] == version, "%s: the document has version %s, the "
              "description %s" % (title, d["version"], version))
        for name, value in d.items():
            check(name in rows, "%s: `%s` is not described" % (title, name))
            seen.add(name)
            if name in OTHER_SCHEMAS:
                continue
            for o in objects_in(value):
                check_object(title, rows, name, o, inner)
    for name in rows:
        check(name in seen or name in SHARED,
              "%s: `%s` is described, and in no document" % (title, name))
    return inner


def check_object(title, rows, name, o, inner):
    for key, value in o.items():
        if key not in inner.get(name, ()):
            check(key in rows.get(name, ()), "%s: `%s` of `%s` is not described"
                  % (title, key, name))
        inner.setdefault(name, set()).update(
            [key, value] if isinstance(value, str) else [key])
        if key in SHARED:
            for other in objects_in(value):
                check_object(title, rows, key, other, inner)


def check_inner(rows, inner, names):
    """The words of a row are members or values in some document."""
    for name in names:
        for word in rows[name]:
            check(word in inner[name] or word in MAYBE or word in rows,
                  "inspect: `%s` of `%s` is described, and in no document"
                  % (word, name))


def inspect(program, *words, code=0):
    r = tilec(program, "inspect", *words, "--json")
    check(r.returncode == code, "inspect: " + r.stderr)
    return json.loads(r.stdout)


def main():
    program, root = sys.argv[1:3]
    document = root + "/docs/inspector.md"
    with tempfile.TemporaryDirectory() as folder:
        mask = make_mask(program, folder, "causal", "--q-len", "256")
        measured, timeline = make_measured(program, folder,
                                           KERNELS["attention_fwd"])
        broken = os.path.join(folder, "broken.tile")
        with open(broken, "w") as f:
            f.write(BROKEN)
        all_of = [inspect(program, *KERNELS["attention_fwd"], "--mask", mask,
                          "--profile", measured),
                  inspect(program, *KERNELS["attention_bwd"]),
                  inspect(program, *KERNELS["matmul"]),
                  inspect(program, root + "/test/inspector/slow/"
                          "bank_conflicts.tile@slow", "--target", "sm_90a"),
                  inspect(program, broken, "--target", "sm_80", code=1)]
        with open(mask) as f:
            drawn = json.load(f)
    rows, version = rows_of(document, "## The JSON document")
    inner = compare("inspect", rows, version, all_of)
    check_inner(rows, inner, ("loads", "products", "buffers", "accesses",
                              "tiles", "layouts", "findings", "diagnostics",
                              "passes", "target"))
    compare("mask", *rows_of(document, "## Masks as JSON"), [drawn])
    with open(root + "/test/inspector/measured/attention_fwd_h200.json") as f:
        compare("timeline", *rows_of(root + "/docs/profile.md",
                                     "## The timeline as JSON"),
                [timeline, all_of[0]["measured"], all_of[2]["timeline"],
                 json.load(f)])
    return 1 if failures else 0


sys.exit(main())
