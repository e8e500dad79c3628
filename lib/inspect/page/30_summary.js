// SPDX-License-Identifier: Apache-2.0
// The first screen: what makes the kernel slow, its numbers, loads, products.
class SummaryView {
  constructor(doc) { this.doc = doc; }

  show(main) {
    const doc = this.doc;
    if (!doc.ok) { this.showErrors(main); return; }
    main.append(this.cards(), numbersOf(doc), el("h2", {}, "Loads"), loadsTable(doc),
      el("h2", {}, "Products"), productsTable(doc));
  }

  showErrors(main) {
    const doc = this.doc;
    main.append(el("div", { class: "cards" }, doc.diagnostics.filter(d => d.severity !== "remark").map(d =>
      el("article", { class: "card grave finding", "data-kind": d.severity },
        el("h3", {}, d.message),
        el("p", {}, el("button", { type: "button", class: "go mono", onclick: () => views.source.go({ file: d.file, line: d.line, machine: 0 }) },
          d.file ? doc.sources[d.file - 1].name + ":" + d.line + ":" + d.column : "")),
        caret(doc, d), d.notes.map(n => el("p", { class: "remedy" }, n.message))))));
  }

  cards() {
    const doc = this.doc, list = doc.findings.slice();
    list.sort((a, b) => b.grave - a.grave);
    if (!list.length)
      return el("div", { class: "cards" }, el("article", { class: "card good" },
        el("h3", {}, "No known cause of slowness"),
        el("p", {}, "The hot loop's loads are copied ahead, products use tensor cores, no bank conflicts, no spills. Remarks has what else was not done.")));
    return el("div", { class: "cards" }, list.map(f =>
      el("article", { class: "card finding" + (f.grave ? " grave" : ""), "data-kind": f.kind },
        el("h3", {}, f.title),
        el("p", {}, goButton(doc, f.place), " ", el("code", { class: "dim" }, doc.sourceLine(...doc.places[f.place]).trim().slice(0, 90))),
        el("p", {}, f.why), el("p", { class: "remedy" }, f.remedy))));
  }
}

function caret(doc, d) {
  const line = doc.sourceLine(d.file, d.line);
  if (!line) return "";
  const n = Math.max(1, (d.end || 0) - d.column);
  return el("pre", {}, line + "\n" + " ".repeat(Math.max(0, d.column - 1)) + "^" + "~".repeat(n - 1));
}

function numbersOf(doc) {
  const r = doc.resources, t = doc.target;
  const number = (value, words) => el("div", {}, el("b", {}, value), el("span", {}, words));
  const list = [number(r.warps, "warps that compute"),
    number((r.shared_bytes / 1024).toFixed(1) + " KiB", `shared memory of ${(t.shared_per_block / 1024).toFixed(0)}`)];
  if (r.registers !== undefined) {
    list.push(number(r.registers, "registers a thread at the start"));
    list.push(number(r.spill_stores + r.spill_loads + " B", "spilled a thread"));
  }
  list.push(number(doc.passes.filter(p => p.changed).length + " of " + doc.passes.length, "passes changed the program"));
  const missed = doc.diagnostics.filter(d => d.missed).length;
  list.push(number(missed, "missed optimizations"));
  return el("div", { class: "numbers" }, list);
}

function conflictWords(accesses) {
  if (!accesses.length) return "–";
  return accesses.map(a => `${a.op}${a.by === "matrices" ? " by matrices" : a.by === "vectors" ? ` by ${a.bytes} B` : ""}: ` +
    (a.ways > 1 ? a.ways + "-way" : "none")).join(", ");
}

function loadsTable(doc) {
  const hotFirst = doc.loads.slice().sort((a, b) => b.hot - a.hot);
  return table(["place", "load", "tile", "contiguous", "vector", "copied", "layout", "bank conflicts", "why not better"],
    hotFirst.map(l => el("tr", { class: l.hot ? "hot" : "" },
      el("td", {}, goButton(doc, l.place, null, l.line)), el("td", {}, el("code", {}, l.tensor || "–")),
      el("td", {}, el("code", {}, l.tile.replace(/^tile<|^smem<|,.*$|>$/g, ""))),
      el("td", { class: "num" }, l.contiguous + " B"), el("td", { class: "num" }, l.vector + " B"),
      el("td", { class: l.hot && l.copied === "synchronous" ? "grave-text" : "" }, copyWords(l)),
      el("td", {}, l.layout < 0 ? "–" : el("button", { type: "button", class: "go mono", onclick: () => views.layouts.go(l.layout) },
        (l.buffer ? "" : "registers: ") + doc.layouts[l.layout].text)),
      el("td", { class: l.accesses.some(a => a.ways > 1) ? "grave-text" : "" }, conflictWords(l.accesses)),
      el("td", { class: "dim" }, l.why || ""))));
}

function productsTable(doc) {
  return table(["place", "M x N x K", "elements", "instruction", "A", "B", "takes"],
    doc.products.slice().sort((a, b) => b.hot - a.hot).map(p => el("tr", { class: p.hot ? "hot" : "" },
      el("td", {}, goButton(doc, p.place, null, p.line)),
      el("td", {}, el("code", {}, `${p.m}x${p.n}x${p.k}`)), el("td", {}, el("code", {}, `${p.a} x ${p.b}`)),
      el("td", { class: p.instruction === "fma" ? "grave-text" : "" }, el("code", {}, p.instruction + (p.async ? ", async" : ""))),
      el("td", {}, p.a_order), el("td", {}, p.b_order), el("td", {}, p.k_major_only ? "K-major only" : "any order"))));
}
