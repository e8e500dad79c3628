# SPDX-License-Identifier: Apache-2.0
"""How long the inspector's page takes to load and to open each view, in
chromium.

    page_load.py TILEC [--runs 5] [--goal MILLISECONDS]

For pages of attention_fwd, attention_bwd and matmul: size, the time from the
navigation to the end of the load event (median), and the slowest view. A page
whose load takes longer than the goal fails.
"""
import argparse
import os
import pathlib
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "inspector"))
from browser import Browser, find_chromium  # noqa: E402
from pages import KERNELS, SKIPPED, make_page  # noqa: E402

LOAD = """(() => { const n = performance.getEntriesByType("navigation")[0];
  return n.loadEventEnd - n.startTime; })()"""
# Milliseconds until the view is drawn, and its name, of the slowest one.
VIEWS = """(async () => { let most = [0, ""];
  for (const [name] of tabs) {
    const from = performance.now();
    openTab(name);
    document.body.getBoundingClientRect();
    await new Promise(requestAnimationFrame);
    const ms = performance.now() - from;
    if (ms > most[0]) most = [ms, name];
  }
  return most; })()"""


def measure(b, page, runs):
    loads = []
    for _ in range(runs):
        b.open(page)
        loads.append(b.run(LOAD))
    ms, view = b.run(VIEWS)
    return statistics.median(loads), ms, view


def main():
    p = argparse.ArgumentParser()
    p.add_argument("tilec")
    p.add_argument("--runs", type=int, default=5)
    p.add_argument("--goal", type=float, default=1e9)
    o = p.parse_args()
    if not find_chromium():
        print("skipped: there is no chromium")
        return SKIPPED
    failed = False
    with tempfile.TemporaryDirectory() as folder, Browser(find_chromium()) as b:
        for name, words in KERNELS.items():
            page = make_page(o.tilec, folder, name, words)
            load, ms, view = measure(b, page, o.runs)
            print("%-14s %5.2f MB  load %6.0f ms  slowest view %6.0f ms (%s)"
                  % (name, os.path.getsize(page) / 1e6, load, ms, view))
            failed |= load > o.goal
    return failed


sys.exit(main())
