#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The inspector's page in a browser: every view has its contents, lines are
linked between the source and its images, layouts are those of `info layout`.

    page.py TILEC ROOT
"""
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import Browser, find_chromium  # noqa: E402
from pages import (KERNELS, SKIPPED, check, failures, make_broken,  # noqa: E402
                   make_mask, make_measured, make_page, tilec)

LARGEST = 10 << 20
SLOWEST = 1000  # milliseconds


# ---- Views ----

FILLED = {
    "summary": "document.querySelectorAll('#main table tbody tr').length",
    "source": "Math.min(...views.source.panes.map(p => p.lines.rows.length))",
    "passes": "document.querySelectorAll('#diff .l').length",
    "why": "document.querySelectorAll('#remarks .chip').length",
    "layouts": "document.querySelectorAll('.readout td').length",
    "time": "document.querySelectorAll('#main svg').length",
}


def check_views(b, name):
    for view, script in FILLED.items():
        b.run("openTab('%s')" % view)
        check(b.run(script) > 0, "%s: the view %s is empty" % (name, view))
        check_words(b, "%s: the view %s" % (name, view))
    for i in range(b.run("main.passes.length")):
        b.run("openTab('passes'); views.passes.turn(%d)" % i)
        check_words(b, "%s: pass %d" % (name, i))


def check_words(b, what):
    """No value that is not meant for a reader."""
    shown = b.run("""(/\\[object .*/.exec(document.body.innerText) ||
        [...document.querySelectorAll("#main p, #main td, #main h3, #facts")]
            .map(e => e.textContent).filter(t => /undefined|NaN/.test(t)))[0] ||
        null""")
    check(shown is None, "%s says %r" % (what, shown))


# ---- Links ----

LINES = """(() => { const s = views.source;
  const pane = id => s.panes.find(p => p.id === id);
  const box = pane("%s").lines;
  return box.marked.map(i => box.rows[i].text); })()"""


def show(b, images):
    b.run("openTab('source'); views.source.wanted = %s; openTab('source')"
          % json.dumps(images))


def click_line(b, image, i):
    """With the mouse, on the text of a line."""
    b.run("""(() => { const box = views.source.panes.find(
        p => p.id === "%s").lines; box.reveal(%d); })()""" % (image, i))
    x, y = b.run("""(async () => { const box = views.source.panes.find(
        p => p.id === "%s").lines, frame = () => new Promise(
        requestAnimationFrame);
        await frame(); await frame();
        const r = box.row(%d).getBoundingClientRect();
        return [r.left + 60, r.top + r.height / 2]; })()""" % (image, i))
    b.click(x, y)


def line_with(b, image, words):
    return b.run("main.text('%s').lines.findIndex(l => l.includes('%s'))"
                 % (image, words))


def check_links(b, name, instruction, op):
    """From the source to PTX, and back."""
    source = b.run("main.images()[0].id")
    show(b, [source, "image:ptx", "image:llvm"])
    from_ptx = line_with(b, "image:ptx", instruction)
    click_line(b, "image:ptx", from_ptx)
    marked = b.run(LINES % source)
    check(len(marked) == 1 and op in marked[0],
          "%s: %s marks %r, expected a line with %s"
          % (name, instruction, marked, op))
    line = b.run("views.source.selected.line") - 1
    click_line(b, source, line)
    check(any(instruction in t for t in b.run(LINES % "image:ptx")),
          "%s: the line with %s does not mark %s" % (name, op, instruction))
    check(b.run(LINES % "image:llvm"), name + ": no line of LLVM IR is marked")


def check_keyboard(b):
    """Without a mouse: tabs by their numbers, lines by arrows."""
    show(b, [b.run("main.images()[0].id"), b.run("'program:' + main.machine")])
    b.run("openTab('summary'); document.getElementById('main').focus()")
    b.key("2", "Digit2")
    check(b.run("open") == "source", "the key 2 does not open Source")
    b.run("views.source.panes[1].lines.box.focus()")
    b.key("Home")
    for _ in range(3):
        b.key("ArrowDown")
    check(b.run("views.source.panes[1].lines.cursor") == 3,
          "three times ArrowDown is not line 4")
    check(b.run("views.source.selected.machine") == 4,
          "the keyboard picks no line")


# ---- Documents of other commands ----

def check_time(b, timeline):
    """The modelled step and the measured one, each with its spans."""
    b.run("openTab('time')")
    check_words(b, "time")
    shown = b.run("""[...document.querySelectorAll(".timeline")].map(t =>
        [t.dataset.source, t.querySelector("h3").textContent,
         t.querySelectorAll(".span").length])""")
    spans = len(timeline["spans"])
    wanted = [["model", "Modelled", timeline["step"] // 2, spans],
              ["measured", "Measured", timeline["step"], spans]]
    check(len(shown) == 2, "time: %d timelines, expected 2" % len(shown))
    for (source, title, n), (source_, word, step, n_) in zip(shown, wanted):
        check(source == source_ and title.startswith(word) and n == n_ and
              "{:,} cycles".format(step) in title,
              "time: %r of %r has %d spans" % (title, source, n))


def is_seen(q, k):
    """sink_window with sink=4, w=100."""
    return k <= q and (k < 4 or q - k < 100)


def check_elements(b):
    """What the arrow keys tell of elements is what the mask says."""
    for q, k in ((0, 0), (0, 1), (250, 3), (250, 4), (250, 150), (250, 151),
                 (250, 250), (250, 251), (299, 299)):
        b.run("views.masks.say(%d, %d)" % (q, k))
        said = b.run("views.masks.tell.textContent")
        wanted = "query %d, key %d: %s" % (
            q, k, "seen" if is_seen(q, k) else "hidden")
        check(said.startswith(wanted + ";"), "masks: the page says %r, "
              "expected %r" % (said, wanted))
    b.run("views.masks.canvas.focus()")
    b.key("ArrowUp")
    said = b.run("views.masks.tell.textContent")
    check(said.startswith("query 298, key 299:"),
          "masks: ArrowUp goes to %r" % said)


COLOR = """(() => { const v = views.masks, p = v.pixels();
  const at = v.canvas.getContext("2d").getImageData(
      (%d + .4) * p, (%d + .4) * p, 1, 1);
  return [...at.data].join(); })()"""


def check_masks(b):
    """Blocks are drawn; zoomed in, the elements of a partial one."""
    b.run("openTab('masks')")
    check_words(b, "masks")
    check("300 queries" in b.run("document.getElementById('main').textContent"),
          "masks: no summary")
    seen, hidden = (250, 260), (255, 250)  # key, query
    check_elements(b)
    small = b.run("views.masks.pixels()")
    for _ in range(10):
        b.key("+")
    check(b.run("views.masks.pixels()") >= 12 > small,
          "masks: + does not zoom to elements")
    check(b.run(COLOR % seen) != b.run(COLOR % hidden),
          "masks: a seen pair looks like a hidden one")
    b.move(*b.run("""(() => { const v = views.masks, p = v.pixels();
        v.box.scrollTo(0, 0);
        const r = v.canvas.getBoundingClientRect();
        return [r.left + 5.5 * p, r.top + 2.5 * p]; })()"""))
    said = b.run("views.masks.tell.textContent")
    check(said.startswith("query 2, key 5: hidden"),
          "masks: the mouse is on query 2, key 5, the page says %r" % said)


def check_parts(b, program, folder):
    mask = make_mask(program, folder, "sink_window", "--q-len", "300",
                     "sink=4", "mask.w=100")
    measured, timeline = make_measured(program, folder, KERNELS["matmul"])
    b.open(make_page(program, folder, "parts", [
        *KERNELS["matmul"], "--mask", mask, "--profile", measured]))
    check_time(b, timeline)
    check_masks(b)


# ---- Layouts ----

def check_layouts(b, name, program, most):
    """Each element of the first layouts of each kind, as info layout has it."""
    layouts = b.run("""main.layouts.map((l, i) => [i, l.text,
        l.shape.join("x"), l.bits, l.shared]).filter(l => l[2])""")
    chosen = [l for l in layouts if l[4]][:most] + \
        [l for l in layouts if not l[4]][:most]
    for i, text, sides, bits, shared in chosen:
        r = tilec(program, "info", "layout", text, sides, "--bits", str(bits))
        if r.returncode:
            check(False, "%s: info layout %s %s: %s"
                  % (name, text, sides, r.stderr))
            continue
        cells = r.stdout.split("of each element\n")[1].split()
        drawn = b.run("""(() => { const p = placesOf(main.layouts[%d]);
            return [...p.first].map((x, i) => x + ":" + p.second[i]); })()"""
                      % i)
        check(cells == drawn, "%s: %s of %s is drawn otherwise than info "
              "layout says" % (name, text, sides))
    check(len(chosen) >= 2, name + ": it has fewer than two layouts")


def check_conflicts(b, name):
    """The banks that are drawn have the conflicts that are said."""
    drawn = b.run("""main.buffers.flatMap(f => (f.accesses || []).map(a => [f.name, a]))
        .filter(([, a]) => a.tile >= 0 && a.by === "vectors").map(([n, a]) =>
        [n, a.line, a.ways, waysOf(phasesOf(main.layouts[a.view],
            main.layouts[a.tile], a.bytes))])""")
    for buffer, line, ways, shown in drawn:
        check(ways == shown, "%s: line %d, %s: %d ways, drawn are %d"
              % (name, line, buffer, ways, shown))
    return len(drawn)


def check_readout(b, name):
    """What is said of the element under the mouse is what is drawn there."""
    b.run("openTab('layouts')")
    x, y, row, column = b.run("""(() => { const v = views.layouts,
        z = +v.zoom.value, r = v.canvas.getBoundingClientRect();
        const row = Math.min(2, v.rows - 1), column = Math.min(5, v.columns - 1);
        return [r.left + 34 + (column + .5) * z, r.top + 18 + (row + .5) * z,
                row, column]; })()""")
    b.move(x, y)
    said = b.run("document.querySelector('.readout').dataset.element")
    check(said == "%d,%d" % (row, column),
          "%s: the mouse is on element %d,%d, the page says %s"
          % (name, row, column, said))


# ---- Kernels ----

def check_kernel(b, program, folder, name):
    path = make_page(program, folder, name, KERNELS[name])
    size = os.path.getsize(path)
    check(size < LARGEST, "%s: the page has %d bytes" % (name, size))
    b.open(path)
    ms = b.run("performance.getEntriesByType('navigation')[0].loadEventEnd")
    check(0 < ms < SLOWEST, "%s: the page loads in %d ms" % (name, ms))
    check_views(b, name)
    instruction, op = {"matmul": ("mma.sync", "dot"),
                       }.get(name, ("wgmma.mma_async", "dot"))
    check_links(b, name, instruction, op)
    check_layouts(b, name, program, 12)
    check_readout(b, name)
    check_conflicts(b, name)


def check_broken(b, program, folder):
    b.open(make_broken(program, folder))
    said = b.run("document.querySelector('.finding').textContent")
    check("lod" in said, "a wrong text: the first screen says %r" % said)
    b.run("openTab('source')")
    check(b.run("views.source.panes[0].lines.rows[1].mark") is not None,
          "a wrong text: its line has no mark")
    for view in ("passes", "why", "layouts", "time", "masks"):
        b.run("openTab('%s')" % view)


def check_slow(b, program, root, folder):
    """Conflicts of a buffer that is read transposed."""
    b.open(make_page(program, folder, "conflicts", [
        root + "/test/inspector/slow/bank_conflicts.tile@slow", "--target",
        "sm_90a"]))
    check(check_conflicts(b, "bank_conflicts") > 4,
          "bank_conflicts: accesses are missing")


def check_measured(b, program, root, folder):
    """A profile of an H200: where it is far from the model is said."""
    b.open(make_page(program, folder, "measured", [
        *KERNELS["attention_fwd"], "--profile",
        root + "/test/inspector/measured/attention_fwd_h200.json"]))
    b.run("openTab('time')")
    said = b.run("document.getElementById('differences').innerText")
    check("by the model 2,048" in said and
          "Farthest above the model: consumers, math: 1,250" in said,
          "measured: the page says %r" % said)


def check_two(b, program, folder):
    b.open(make_page(program, folder, "two", [*KERNELS["matmul"], "--against",
                                              "-D BN=128"]))
    rows = b.run("""[...document.querySelectorAll("tr.differs")].map(
        r => [...r.cells].map(c => c.textContent))""")
    check(["BN", "256", "128"] in rows, "--against: BN is not among %r" % rows)


def main():
    program, root = sys.argv[1:3]
    chromium = find_chromium()
    if not chromium:
        print("skipped: there is no chromium")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder, Browser(chromium) as b:
        for name in KERNELS:
            check_kernel(b, program, folder, name)
        check_keyboard(b)
        check_broken(b, program, folder)
        check_two(b, program, folder)
        check_slow(b, program, root, folder)
        check_measured(b, program, root, folder)
        check_parts(b, program, folder)
        check(not b.console, "the console has errors: %r" % b.console)
        outside = [r for r in b.requests if not r.startswith("file://")]
        check(not outside, "the page asks a network: %r" % outside)
    return 1 if failures else 0


sys.exit(main())
