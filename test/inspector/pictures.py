#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pictures of docs/inspector.md: a view of the page each.

    pictures.py TILEC ROOT [--write]

Without --write it makes them in a temporary folder, and compares sizes and
names with those of the document.
"""
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import Browser, find_chromium  # noqa: E402
from pages import (KERNELS, SKIPPED, check, failures, make_mask,  # noqa: E402
                   make_page)

MOST_BYTES = 100_000
PREFIX = "inspector-"
# Name, page, view, what is done before.
PICTURES = (
    ("summary", "slow", "summary", ""),
    ("source", "attention", "source", """views.source.select(firstLine(
        /wgmma.mma_async/), null)"""),
    ("passes", "attention", "passes", """views.passes.turn(main.passes.findIndex(
        p => p.name === "pipeline-loops" || p.name === "specialize-warps"))"""),
    ("remarks", "attention", "why", ""),
    ("layouts", "attention", "layouts", """views.layouts.turn(
        views.layouts.entries().findIndex(e => e.group.startsWith("Fragments")))"""),
    ("banks", "conflicts", "layouts", """(() => {
        const list = views.layouts.entries();
        views.layouts.turn(list.findIndex(e => e.buffer &&
            (e.buffer.accesses || []).some(a => a.ways > 1)));
        const wanted = views.layouts.accesses.querySelector(".grave-text");
        wanted.parentNode.querySelector("td:last-child button").click();
        views.layouts.accesses.scrollIntoView(); })()"""),
    ("time", "attention", "time", ""),
    ("memory", "attention", "time",
     "document.getElementById('shared').previousSibling.scrollIntoView()"),
    ("masks", "attention", "masks", ""),
    ("two", "two", "compare", ""),
    ("dark", "attention", "summary", ""),
    ("phone", "attention", "source", ""),
)
FIRST_LINE = """function firstLine(words) {
  const image = main.codes.find(i => i.name === "ptx"), lines = image.text.split("\\n");
  const hot = main.hot.line, i = lines.findIndex((t, k) => words.test(t) && image.machine[k] > hot);
  const [file, line] = main.placeOfMachine(image.machine[i]);
  return { file, line, machine: image.machine[i] }; }"""


def make_pages(program, root, folder):
    mask = make_mask(program, folder, "sliding_window(w=192) & causal",
                     "--q-len", "1024")
    measured = root + "/test/inspector/measured/attention_fwd_h200.json"
    slow = root + "/test/inspector/slow/"
    return {
        "attention": make_page(program, folder, "attention", [
            *KERNELS["attention_fwd"], "--mask", mask, "--profile", measured]),
        "slow": make_page(program, folder, "slow", [
            slow + "one_stage_too_few.tile@slow", "--target", "sm_90a"]),
        "conflicts": make_page(program, folder, "conflicts", [
            slow + "bank_conflicts.tile@slow", "--target", "sm_90a"]),
        "two": make_page(program, folder, "two", [
            *KERNELS["matmul"], "--against", "-D BN=128"]),
    }


def draw(b, pages, to):
    shown = None
    for name, page, view, script in PICTURES:
        b.theme("dark" if name == "dark" else "light")
        b.resize(*((390, 780) if name == "phone" else (1120, 700)))
        if page != shown:
            b.open(pages[page])
            b.run(FIRST_LINE + "\nwindow.firstLine = firstLine")
            shown = page
        b.run("openTab('%s')" % view)
        if script:
            b.run(script)
        b.screenshot(os.path.join(to, PREFIX + name + ".webp"))


def check_document(root, to):
    folder = root + "/docs/pictures/"
    with open(root + "/docs/inspector.md") as f:
        named = set(re.findall(r"\]\(pictures/(%s\w+\.webp)\)" % PREFIX, f.read()))
    made = {n for n in os.listdir(to) if n.startswith(PREFIX)}
    kept = {n for n in os.listdir(folder) if n.startswith(PREFIX)}
    check(named == made, "docs/inspector.md shows %s, the script makes %s"
          % (sorted(named), sorted(made)))
    check(kept == made, "docs/pictures has %s, the script makes %s: run it "
          "with --write" % (sorted(kept), sorted(made)))
    for name in sorted(kept):
        size = os.path.getsize(folder + name)
        check(2000 < size < MOST_BYTES, "%s has %d bytes" % (name, size))


def main():
    program, root = sys.argv[1:3]
    chromium = find_chromium()
    if not chromium:
        print("skipped: there is no chromium")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder, Browser(chromium) as b:
        to = root + "/docs/pictures" if "--write" in sys.argv else folder
        draw(b, make_pages(program, root, folder), to)
        check(not b.console, "the console has errors: %r" % b.console)
        check_document(root, to)
    return 1 if failures else 0


sys.exit(main())
