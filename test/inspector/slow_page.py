#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kernels that are slow on purpose, in a browser: the page's first screen, of
1280x800 and not scrolled, shows the cause and what helps.

    slow_page.py TILEC ROOT
"""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import Browser, find_chromium  # noqa: E402

SKIPPED = 77
WIDTH, HEIGHT = 1280, 800
# File, target, kind of the finding.
KERNELS = (
    ("operand_by_rows", "sm_90a", "operand-order"),
    ("bank_conflicts", "sm_90a", "bank-conflicts"),
    ("one_stage_too_few", "sm_90a", "stages"),
    ("accumulators_spill", "sm_90a", "spills"),
    ("synchronous_load", "sm_90a", "synchronous-load"),
    ("synchronous_load", "sm_80", "synchronous-load"),
)
# What of the card can be seen: its box, and whether its middle is its own.
CARD = """(() => {
  const all = [...document.querySelectorAll(".finding")];
  const card = all.find(c => c.dataset.kind === "%s");
  if (!card) return null;
  const r = card.getBoundingClientRect();
  const seen = [...card.children].every(p => {
    const b = p.getBoundingClientRect();
    const at = document.elementFromPoint(b.left + 5, (b.top + b.bottom) / 2);
    return card.contains(at); });
  return { top: r.top, bottom: r.bottom, right: r.right, seen,
           first: all[0] === card, scrolled: document.getElementById("main").scrollTop,
           remedy: !!card.querySelector(".remedy").textContent }; })()"""
failures = []


def check(holds, what):
    if not holds:
        failures.append(what)
        print("failed: " + what)


def check_card(b, name, page, kind):
    b.open(page)
    card = b.run(CARD % kind)
    check(card is not None, "%s: the page has no finding %s" % (name, kind))
    if card is None:
        return
    check(0 <= card["top"] and card["bottom"] <= HEIGHT and
          card["right"] <= WIDTH and not card["scrolled"] and card["seen"],
          "%s: the finding is not on the first screen: %s" % (name, card))
    check(card["first"] and card["remedy"],
          "%s: the finding is not the first, or has no remedy: %s"
          % (name, card))


def main():
    program, root = sys.argv[1:3]
    chromium = find_chromium()
    if not chromium:
        print("skipped: there is no chromium")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder, Browser(chromium) as b:
        b.resize(WIDTH, HEIGHT)
        for name, target, kind in KERNELS:
            source = "%s/test/inspector/slow/%s.tile" % (root, name)
            for which in ("slow", "mended"):
                page = os.path.join(folder, "%s_%s.html" % (name, which))
                subprocess.run([program, "inspect", source + "@" + which,
                                "--target", target, "-o", page], check=True)
            check_card(b, name, os.path.join(folder, name + "_slow.html"), kind)
            b.open(page)
            check(b.run(CARD % kind) is None,
                  "%s: mended, it still has the finding %s" % (name, kind))
        check(not b.console, "the console has errors: %r" % b.console)
    return 1 if failures else 0


sys.exit(main())
