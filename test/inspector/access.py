#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The inspector's page for all who open it: at 1280 pixels, on a phone's width
and at 200 %, nothing is cut off or lies over something else; in dark and light,
texts have contrast; without a mouse, each control and each part of a drawing
can be reached.

    access.py TILEC
"""
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import Browser, find_chromium  # noqa: E402
from pages import (KERNELS, SKIPPED, check, failures, make_broken,  # noqa: E402
                   make_mask, make_measured, make_page)

VIEWS = ("summary", "source", "passes", "why", "layouts", "time", "masks")
# A desktop, a phone, and the desktop at 200 %: half as many CSS pixels.
WINDOWS = ((1280, 800, 1), (390, 800, 1), (640, 400, 2))
LEAST_CONTRAST = 4.5  # WCAG 2.2, 1.4.3
MOST_TABS = 3000

# What is wider than the window, or lies over another block of its view.
LAYOUT = """(() => {
  const bad = [], box = e => e.getBoundingClientRect();
  const wide = document.documentElement.scrollWidth;
  if (wide > innerWidth) bad.push("the page is " + wide + " wide");
  for (const e of document.querySelectorAll("#main > *, #panes > *, .split > *")) {
    const next = e.nextElementSibling;
    if (!next || !box(e).height || !box(next).height) continue;
    const [a, b] = [box(e), box(next)];
    if (a.bottom > b.top + 1 && a.right > b.left + 1)
      bad.push(`${e.id || e.className} lies over ${next.id || next.className}`);
    if (e.scrollHeight > e.clientHeight + 1 && e.clientHeight &&
        getComputedStyle(e).overflowY === "visible")
      bad.push(`${e.id || e.className} is higher than its place`);
  }
  for (const e of document.querySelectorAll(".lines"))
    if (e.getClientRects().length && e.clientHeight < 54)
      bad.push("a pane shows " + e.clientHeight + " pixels of its lines");
  return bad; })()"""

# The text with the least contrast of all that are shown: [contrast, text].
CONTRAST = """(() => {
  const parse = c => { const v = c.match(/[\\d.]+/g).map(Number);
    return v.length < 4 ? [...v, 1] : v; };
  const behind = e => {
    let [r, g, b, left] = [0, 0, 0, 1];
    for (; e; e = e.parentElement) {
      const [x, y, z, a] = parse(getComputedStyle(e).backgroundColor);
      r += x * a * left; g += y * a * left; b += z * a * left; left *= 1 - a;
    }
    return [r + 255 * left, g + 255 * left, b + 255 * left]; };
  const light = c => c.slice(0, 3).map(v => v / 255).map(v =>
    v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((n, v, i) => n + v * [.2126, .7152, .0722][i], 0);
  let least = [99, ""];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let seen = new Set(), t = walker.nextNode(); t; t = walker.nextNode()) {
    const e = t.parentElement;
    if (!t.data.trim() || e.closest("svg, script, option") || !e.offsetParent)
      continue;
    const key = e.className + e.tagName + e.parentElement.className;
    if (seen.has(key)) continue;
    seen.add(key);
    const back = behind(e), [x, y, z, a] = parse(getComputedStyle(e).color);
    let seethrough = a;
    for (let p = e; p; p = p.parentElement) seethrough *= getComputedStyle(p).opacity;
    const front = [x, y, z].map((v, i) => v * seethrough + back[i] * (1 - seethrough));
    const [p, q] = [light(front), light(back)].sort((m, n) => n - m);
    const contrast = (p + .05) / (q + .05);
    if (contrast < least[0]) least = [contrast, t.data.trim().slice(0, 60)];
  }
  return least; })()"""

# Controls of the view that Tab has not reached.
MARK_FOCUS = """(() => { const e = document.activeElement;
  if (e && e !== document.body) e.dataset.reached = 1;
  return e === document.body ? "" : e.tagName; })()"""
UNREACHED = """[...document.querySelectorAll(
    "#main button, #main select, #main input, #main summary, #main canvas, " +
    "#main svg[tabindex], #main .lines")].filter(e => !e.dataset.reached &&
    e.checkVisibility() && !e.closest("details:not([open])")).map(e =>
    e.outerHTML.slice(0, 80))"""


def check_layout(b, what):
    bad = b.run(LAYOUT)
    check(not bad, "%s: %s" % (what, "; ".join(bad)))


def check_contrast(b, what):
    least, text = b.run(CONTRAST)
    check(least >= LEAST_CONTRAST, "%s: the contrast of %r is %.2f"
          % (what, text, least))


def check_windows(b, name, views):
    for width, height, scale in WINDOWS:
        b.resize(width, height, scale)
        for view in views:
            b.run("openTab('%s')" % view)
            b.frames()
            check_layout(b, "%s, %s at %dx%d" % (name, view, width, height))
    b.resize(1280, 800)


def check_themes(b, name, views):
    for theme in ("light", "dark"):
        b.theme(theme)
        check(b.run("document.documentElement.dataset.theme") == theme,
              "%s: the system's %s theme is not taken over" % (name, theme))
        for view in views:
            b.run("openTab('%s')" % view)
            check_contrast(b, "%s, %s in %s" % (name, view, theme))
    b.run("document.getElementById('theme').click()")
    check(b.run("document.documentElement.dataset.theme") == "light",
          name + ": the button does not change dark to light")


def check_tab_key(b, name, views):
    """Tab reaches all controls, whose focus is seen."""
    for view in views:
        b.run("openTab('%s'); document.activeElement.blur()" % view)
        b.run("document.getElementById('theme').focus()")
        for _ in range(MOST_TABS):
            b.key("Tab")
            if not b.run(MARK_FOCUS):
                break
        left = b.run(UNREACHED)
        check(not left, "%s, %s: Tab does not reach %s" % (name, view, left))


def check_parts(b):
    """Parts of drawings by arrow keys; Enter goes to the source."""
    b.run("openTab('time'); document.querySelector('.timeline svg').focus()")
    told = set()
    for _ in range(4):
        b.key("ArrowRight")
        told.add(b.run("document.querySelector('.timeline .tell').textContent"))
    check(len(told) == 4 and all("cycles from" in t for t in told),
          "time: arrow keys tell %r" % told)
    b.run("document.querySelector('#registers svg').focus()")
    b.key("End")
    said = b.run("document.querySelector('#registers .tell').textContent")
    lines = b.run("main.text('program:' + main.machine).lines.length")
    check(said.startswith("line %d:" % lines), "registers: End is at %r" % said)
    b.run("document.querySelector('#shared svg').focus()")
    b.key("ArrowRight")
    b.key("Enter")
    check(b.run("open") == "source" and b.run("views.source.selected.line") > 0,
          "shared memory: Enter does not go to the source")


def check_layout_keys(b):
    b.run("openTab('layouts'); views.layouts.canvas.focus()")
    for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
        b.key(key)
    said = b.run("document.querySelector('.readout').dataset.element")
    check(said == "1,2", "layouts: arrow keys go to %s" % said)


def check_search(b):
    """`/` opens the search of a pane, Enter finds, n goes to the next mark."""
    b.run("openTab('source'); views.source.panes[1].lines.box.focus()")
    b.key("/", "Slash")
    check(b.run("document.activeElement.tagName") == "INPUT",
          "source: / is no search")
    b.run("document.activeElement.value = 'mma'")
    b.key("Enter")
    check("mma" in b.run("""(() => { const p = views.source.panes.find(p =>
        p.element.contains(document.activeElement));
        return p.lines.rows[p.lines.cursor].text; })()"""),
          "source: Enter in a search finds nothing")


def main():
    program = sys.argv[1]
    chromium = find_chromium()
    if not chromium:
        print("skipped: there is no chromium")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder, Browser(chromium) as b:
        mask = make_mask(program, folder, "causal", "--q-len", "512")
        name = "attention_fwd"
        measured, _ = make_measured(program, folder, KERNELS[name])
        pages = (
            (name, make_page(program, folder, name, [
                *KERNELS[name], "--mask", mask, "--profile", measured]), VIEWS),
            ("two", make_page(program, folder, "two", [
                *KERNELS["matmul"], "--against", "-D BN=128"]),
             ("compare", *VIEWS)),
            ("broken", make_broken(program, folder), VIEWS),
        )
        for name, page, views in pages:
            b.resize(1280, 800)
            b.open(page)
            check_windows(b, name, views)
            check_themes(b, name, views)
        b.open(pages[0][1])
        check_tab_key(b, *pages[0][::2])
        check_parts(b)
        check_layout_keys(b)
        check_search(b)
        check(not b.console, "the console has errors: %r" % b.console)
    return 1 if failures else 0


sys.exit(main())
