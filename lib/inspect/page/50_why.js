// SPDX-License-Identifier: Apache-2.0
// Remarks on their lines, by severity and pass; why a load is no TMA copy.
class WhyView {
  constructor(doc) {
    this.doc = doc;
    this.off = new Set(doc.diagnostics.some(severe) ? ["remark"] : []);
    this.pass = "";
  }

  show(main) {
    this.list = el("div", { id: "remarks" });
    const kinds = [...new Set(this.doc.diagnostics.map(severityOf))];
    const passes = [...new Set(this.doc.diagnostics.map(d => d.pass).filter(Boolean))].sort();
    const words = { missed: "missed", remark: "done", error: "errors", warning: "warnings" };
    main.append(el("div", { class: "bar", role: "group", "aria-label": "filter" },
      kinds.map(k => {
        const count = this.doc.diagnostics.filter(d => severityOf(d) === k).length;
        const button = el("button", { type: "button", "aria-pressed": String(!this.off.has(k)), "data-kind": k, onclick: () => {
          this.off.has(k) ? this.off.delete(k) : this.off.add(k);
          button.setAttribute("aria-pressed", String(!this.off.has(k)));
          this.fill();
        } }, el("span", { class: k }, SEVERITIES[k][1] + " "), `${words[k]} (${count})`);
        return button;
      }),
      el("label", {}, "pass ", el("select", { id: "pass-filter", onchange: e => { this.pass = e.target.value; this.fill(); } },
        el("option", { value: "" }, "all"), passes.map(p => el("option", { value: p, selected: p === this.pass }, p))))),
      this.list);
    if (this.doc.ok) main.append(el("h2", {}, "What would have to be true for a load to be a TMA copy"), tmaTable(this.doc));
    this.fill();
  }

  fill() {
    const byLine = new Map();
    for (const d of this.doc.diagnostics) {
      if (this.off.has(severityOf(d)) || (this.pass && d.pass !== this.pass)) continue;
      const key = d.file + ":" + d.line;
      byLine.set(key, [...(byLine.get(key) || []), d]);
    }
    this.list.textContent = "";
    const keys = [...byLine.keys()].sort((a, b) => compare(a.split(":").map(Number), b.split(":").map(Number)));
    if (!keys.length) this.list.append(el("p", { class: "dim" }, "No remarks of these kinds."));
    for (const key of keys) {
      const [file, line] = key.split(":").map(Number);
      this.list.append(el("article", { class: "line-remarks" },
        el("h3", {}, file ? el("button", { type: "button", class: "go mono", onclick: () => views.source.go({ file, line, machine: 0 }) },
          this.doc.sources[file - 1].name + ":" + line) : "the whole program", " ", el("code", { class: "dim" }, this.doc.sourceLine(file, line).trim().slice(0, 120))),
        byLine.get(key).map(diagnosticLine)));
    }
  }
}

function severe(d) { return severityOf(d) !== "remark"; }
function compare(a, b) { return a[0] - b[0] || a[1] - b[1]; }

// The conditions of passes/instructions/tma.c and passes/warpspec, in words.
function tmaConditions(doc, l) {
  const major = +(/\d+/.exec(doc.target.name) || [0])[0];
  const why = l.why || "";
  const is = words => words.test(why);
  return [
    ["the target has TMA (sm_90a or later)", major >= 90],
    ["a window of a tensor, not a gather of pointers", !is(/gather|pointer|index of its own/)],
    ["it happens in each step, not under a condition", !is(/condition|branch/)],
    ["the tile goes to shared memory as it is, not through registers", !is(/in registers|computed with/)],
    ["16 bytes or more side by side in memory, the tensor aligned to 16", l.contiguous >= 16 && !is(/aligned|contiguous|side by side/)],
    ["zeros outside the tensor", !is(/pad|zeros|outside/)],
    ["the loop's products wait for mbarriers (m64 products, a producer warp)", !is(/wgmma|warp|producer|product/)],
  ];
}

function tmaTable(doc) {
  const rows = doc.loads.slice().sort((a, b) => b.hot - a.hot).map(l => {
    const tma = l.copied === "tma";
    return el("tr", { class: l.hot ? "hot" : "" }, el("td", {}, goButton(doc, l.place, null, l.line)),
      el("td", {}, el("code", {}, l.tensor || "–")), el("td", { class: tma ? "good-text" : "" }, tma ? "✓ it is a TMA copy" : copyWords(l)),
      el("td", {}, tma ? "" : [el("p", {}, l.why || "the compiler gives no reason"),
        tmaConditions(doc, l).map(([words, holds]) => el("p", { class: holds ? "dim" : "grave-text" }, (holds ? "✓ " : "✗ ") + words))]));
  });
  return table(["place", "load", "now", "conditions (✗: this one fails)"], rows);
}
