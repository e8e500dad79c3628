// SPDX-License-Identifier: Apache-2.0
// Source and its images side by side: a line picked in one marks the lines that
// belong to it in all.
const SEVERITIES = { error: ["error", "✖"], warning: ["warning", "▲"], missed: ["missed", "●"], remark: ["remark", "·"] };

function severityOf(d) { return d.severity === "remark" && d.missed ? "missed" : d.severity; }

// Diagnostics by "file:line", the gravest first.
function diagnosticsByLine(doc) {
  const map = new Map();
  for (const d of doc.diagnostics) {
    const key = d.file + ":" + d.line;
    if (d.file) map.set(key, [...(map.get(key) || []), d]);
  }
  const order = Object.keys(SEVERITIES);
  for (const list of map.values())
    list.sort((a, b) => order.indexOf(severityOf(a)) - order.indexOf(severityOf(b)));
  return map;
}

class SourceView {
  constructor(doc) {
    this.doc = doc;
    this.said = diagnosticsByLine(doc);
    this.panes = [];
    this.selected = null;
    const images = doc.images().map(x => x.id);
    const code = ["image:ptx", "image:llvm"].find(x => images.includes(x));
    if (doc.ok) this.selected = firstPlace(doc);
    this.wanted = doc.ok ? [images[0], "program:" + doc.machine, code].filter(Boolean) : [images[0]];
  }

  show(main) {
    main.classList.add("fixed");
    this.about = el("div", { id: "about", "aria-live": "polite" });
    this.box = el("div", { id: "panes" });
    const bar = el("div", { class: "bar" },
      el("span", { class: "dim" }, "A line picked (click, or ↑ ↓) marks its lines everywhere; n: next mark; /: search."),
      el("button", { type: "button", id: "more", onclick: () => this.count(+1) }, "+ pane"),
      el("button", { type: "button", id: "fewer", onclick: () => this.count(-1) }, "− pane"));
    main.append(bar, this.box, this.about);
    const most = innerWidth < 800 ? (innerHeight < 600 ? 1 : 2) : innerWidth < 1200 ? 2 : 3;
    this.panes = [];
    for (const id of this.wanted.slice(0, most)) this.addPane(id);
    this.mark(null);
    if (this.selected) this.tell();
  }

  count(by) {
    if (by > 0 && this.panes.length < 5) {
      const images = this.doc.images().map(x => x.id);
      const shown = this.panes.map(p => p.id);
      this.addPane(images.reverse().find(x => !shown.includes(x)) || images[0]);
    } else if (by < 0 && this.panes.length > 1) {
      this.panes.pop().element.remove();
    }
    this.wanted = this.panes.map(p => p.id);
    this.mark(null);
  }

  addPane(id) {
    const pane = { id };
    pane.lines = new Lines(i => this.pick(pane, i), "lines");
    pane.select = el("select", { "aria-label": "image", onchange: () => this.turn(pane, pane.select.value) });
    let group = null;
    for (const image of this.doc.images()) {
      if (!group || group.label !== image.group) {
        group = el("optgroup", { label: image.group });
        pane.select.append(group);
      }
      group.append(el("option", { value: image.id }, image.title));
    }
    const search = el("input", { type: "search", placeholder: "search", "aria-label": "search in this pane",
      onkeydown: e => { if (e.key === "Enter") { pane.lines.find(search.value); e.preventDefault(); } } });
    pane.search = search;
    pane.element = el("section", { class: "pane" }, el("div", { class: "bar" }, pane.select, search),
      pane.lines.box, pane.lines.ticks);
    this.panes.push(pane);
    this.box.append(pane.element);
    this.turn(pane, id);
  }

  turn(pane, id) {
    pane.id = id;
    pane.select.value = id;
    pane.text = this.doc.text(id);
    pane.element.dataset.image = id;
    pane.lines.box.setAttribute("aria-label", pane.select.selectedOptions[0].textContent);
    pane.lines.show(pane.text.lines.map((text, i) => this.rowOf(pane, text, i)));
    this.wanted = this.panes.map(p => p.id);
    this.mark(null);
  }

  rowOf(pane, text, i) {
    const row = { text, number: i + 1 };
    if (pane.id.startsWith("source:")) {
      const list = this.said.get((+pane.id.slice(7) + 1) + ":" + (i + 1));
      if (list) {
        row.mark = SEVERITIES[severityOf(list[0])];
        row.title = list.map(d => d.message).join("\n").replace(/"/g, "'");
      }
    }
    return row;
  }

  pick(pane, i) {
    const [file, line] = pane.text.place(i);
    this.select({ file, line, machine: pane.text.machine(i) }, pane);
  }

  // {file, line, machine}: 0 where it is not known.
  select(what, from) {
    this.selected = what;
    this.mark(from);
    this.tell();
  }

  mark(from) {
    const s = this.selected;
    for (const pane of this.panes) {
      const exact = [], weak = [];
      for (let i = 0; s && i < pane.text.lines.length; i++) {
        const machine = pane.text.machine(i), [file, line] = pane.text.place(i);
        if (s.machine && machine ? machine === s.machine : s.file && !s.machine && file === s.file && line === s.line) exact.push(i);
        else if (s.file && file === s.file && line === s.line) (s.machine && machine ? weak : exact).push(i);
      }
      pane.lines.marks(exact, weak, pane !== from);
    }
  }

  tell() {
    const { file, line, machine } = this.selected, doc = this.doc;
    this.about.textContent = "";
    if (!file && !machine) { this.about.append(el("p", { class: "dim" }, "This line has no place in the source.")); return; }
    const parts = [file ? el("b", {}, doc.sources[file - 1].name + ":" + line) : "", " ",
      el("code", {}, doc.sourceLine(file, line).trim())];
    this.about.append(el("p", {}, parts));
    for (const d of this.said.get(file + ":" + line) || []) this.about.append(diagnosticLine(d));
    for (const l of doc.ok ? doc.loads : [])
      if (doc.places[l.place][0] === file && doc.places[l.place][1] === line)
        this.about.append(el("p", {}, `load of ${l.tensor || "?"}: ${copyWords(l)}, ${l.vector} bytes a row or vector` + (l.why ? ": " + l.why : "")));
    const live = machine && doc.ok ? liveAt(doc, machine) : 0;
    if (live) this.about.append(el("p", { class: "dim" }, `machine level, line ${machine}: up to ${live} registers live`));
  }

  // From other views.
  go(place) {
    openTab("source");
    this.select(place, null);
  }
}

// What is looked at first: what makes the kernel slow, else the hot loop.
function firstPlace(doc) {
  const grave = doc.findings.find(f => f.grave) || doc.findings[0];
  const [file, line] = doc.places[grave ? grave.place : doc.hot.place] || [0, 0];
  return file ? { file, line, machine: 0 } : null;
}

function diagnosticLine(d) {
  const [cls] = SEVERITIES[severityOf(d)];
  return el("p", {}, el("span", { class: "chip " + cls }, severityOf(d) === "missed" ? "missed" : d.severity), " ",
    d.message, d.pass ? el("span", { class: "dim" }, " [" + d.pass + "]") : "",
    d.notes.map(n => el("p", { class: "dim" }, "note: " + n.message)));
}

function copyWords(l) {
  const words = { synchronous: "synchronous", async: "async copy", tma: "TMA copy" }[l.copied];
  return l.slots > 1 && l.copied !== "synchronous" ? `${words}, ring of ${l.slots}` : words;
}

// A button that shows a place (a number in `places`) in the source.
function goButton(doc, place, words, machine) {
  const [file, line] = doc.places[place] || [0, 0];
  if (!file) return words || "";
  return el("button", { type: "button", class: "go mono", onclick: () => views.source.go({ file, line, machine: machine || 0 }) },
    words || doc.placeText(place));
}
