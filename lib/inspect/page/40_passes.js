// SPDX-License-Identifier: Apache-2.0
// Passes as a strip, each with its diff and its remarks; those that changed
// nothing are folded.

// Numbers of unnamed values do not count: one more value renames all after it.
function comparable(line) { return line.replace(/%\d+/g, "%#"); }

// Lines of a and b as [kind, i, j] with kind " ", "-", "+": Myers' O(ND).
function diffLines(a, b) {
  const numbers = new Map();
  const numberOf = s => { const c = comparable(s); if (!numbers.has(c)) numbers.set(c, numbers.size); return numbers.get(c); };
  const x = a.map(numberOf), y = b.map(numberOf);
  let start = 0, endX = x.length, endY = y.length;
  while (start < endX && start < endY && x[start] === y[start]) start++;
  while (endX > start && endY > start && x[endX - 1] === y[endY - 1]) { endX--; endY--; }
  const out = [];
  for (let i = 0; i < start; i++) out.push([" ", i, i]);
  out.push(...shortest(x, y, start, endX, endY));
  for (let i = endX, j = endY; i < x.length; i++, j++) out.push([" ", i, j]);
  return out;
}

function shortest(x, y, start, endX, endY) {
  const n = endX - start, m = endY - start, most = Math.min(n + m, 3000);
  const trace = [], v = new Int32Array(2 * most + 3), middle = most + 1;
  for (let d = 0; d <= most; d++) {
    trace.push(v.slice(middle - d - 1, middle + d + 2));
    for (let k = -d; k <= d; k += 2) {
      let i = k === -d || (k !== d && v[middle + k - 1] < v[middle + k + 1]) ? v[middle + k + 1] : v[middle + k - 1] + 1;
      while (i < n && i - k < m && x[start + i] === y[start + i - k]) i++;
      v[middle + k] = i;
      if (i >= n && i - k >= m) return walkBack(trace, d, n, m, start);
    }
  }
  const out = []; // too different: all of one, then all of the other
  for (let i = 0; i < n; i++) out.push(["-", start + i, -1]);
  for (let j = 0; j < m; j++) out.push(["+", -1, start + j]);
  return out;
}

function walkBack(trace, last, n, m, start) {
  const out = [];
  let i = n, j = m;
  for (let d = last; d >= 0; d--) {
    const v = k => trace[d][k + d + 1], k = i - j;
    const before = k === -d || (k !== d && v(k - 1) < v(k + 1)) ? k + 1 : k - 1;
    const fromI = d ? v(before) : 0, fromJ = d ? fromI - before : 0;
    while (i > fromI && j > fromJ) { i--; j--; out.push([" ", start + i, start + j]); }
    if (d && i > fromI) out.push(["-", start + --i, -1]);
    else if (d && j > fromJ) out.push(["+", -1, start + --j]);
  }
  return out.reverse();
}

// Rows for Lines: changes with three lines around them.
function diffRows(a, b) {
  const around = 3, steps = diffLines(a, b);
  const keep = new Uint8Array(steps.length);
  steps.forEach((s, i) => {
    if (s[0] !== " ") for (let k = Math.max(0, i - around); k <= Math.min(steps.length - 1, i + around); k++) keep[k] = 1;
  });
  const rows = [];
  for (let i = 0; i < steps.length; i++) {
    const [kind, from, to] = steps[i];
    if (!keep[i]) {
      let n = 0;
      while (i < steps.length && !keep[i]) { n++; i++; }
      i--;
      rows.push({ text: "⋯ " + plural(n, "line") + " as before", class: "skip" });
    } else {
      rows.push({ text: kind + " " + (kind === "-" ? a[from] : b[to]), number: (kind === "-" ? from : to) + 1,
        class: kind === "-" ? "del" : kind === "+" ? "add" : "", from, to });
    }
  }
  return rows;
}

class PassesView {
  constructor(doc) { this.doc = doc; this.at = 0; }

  show(main) {
    const doc = this.doc;
    main.classList.add("fixed");
    if (!doc.ok) { main.append(el("p", { class: "bar" }, "No pass ran: the text is wrong.")); return; }
    this.strip = el("div", { id: "strip", role: "navigation", "aria-label": "passes" });
    this.said = el("div", { class: "said" });
    this.lines = new Lines(i => this.pick(i), "changes of the pass");
    const first = doc.passes.findIndex(p => p.changed);
    this.at = Math.max(0, Math.min(this.at || first, doc.passes.length - 1));
    this.fill();
    main.append(el("div", { class: "split" }, this.strip,
      el("div", { id: "diff" }, this.said, el("section", { class: "pane" }, this.lines.box, this.lines.ticks))));
    this.turn(this.at);
  }

  fill() {
    let stage = null, folded = null;
    this.buttons = [];
    this.doc.passes.forEach((p, i) => {
      if (p.stage !== stage) { stage = p.stage; folded = null; this.strip.append(el("h3", {}, stage || "Passes")); }
      const remarks = this.remarks(i).length;
      const button = el("button", { type: "button", title: p.summary || "", onclick: () => this.turn(i), "data-pass": p.name },
        p.name, el("span", {}, (remarks ? plural(remarks, "remark") + " · " : "") + (p.us >= 1000 ? (p.us / 1000).toFixed(1) + " ms" : p.us + " µs")));
      this.buttons.push(button);
      if (p.changed || remarks) { folded = null; this.strip.append(button); return; }
      if (!folded) {
        folded = el("details", {}, el("summary", {}, ""));
        folded.count = 0;
        this.strip.append(folded);
      }
      folded.count++;
      folded.firstChild.textContent = plural(folded.count, "pass").replace("passs", "passes") + " without changes";
      folded.append(button);
    });
    this.strip.addEventListener("keydown", e => {
      const way = e.key === "ArrowDown" ? 1 : e.key === "ArrowUp" ? -1 : 0;
      if (!way) return;
      e.preventDefault();
      let i = this.at + way;
      while (this.doc.passes[i] && !this.doc.passes[i].changed) i += way;
      if (this.doc.passes[i]) { this.turn(i); this.buttons[i].focus(); }
    });
  }

  remarks(i) {
    const from = i ? this.doc.passes[i - 1].said : 0;
    return this.doc.diagnostics.slice(from, this.doc.passes[i].said);
  }

  turn(i) {
    const doc = this.doc, p = doc.passes[i];
    this.buttons.forEach((b, k) => b.setAttribute("aria-pressed", String(k === i)));
    this.at = i;
    const before = i ? doc.passes[i - 1].program : 0;
    this.before = doc.text("program:" + before);
    this.after = doc.text("program:" + p.program);
    this.rows = p.changed ? diffRows(this.before.lines, this.after.lines) : [];
    const added = this.rows.filter(r => r.class === "add").length, gone = this.rows.filter(r => r.class === "del").length;
    this.said.textContent = "";
    add(this.said, el("p", {}, el("b", {}, p.name), " ", el("span", { class: "dim" }, p.summary || "")),
      el("p", { class: "dim" }, p.changed ? `+${added} −${gone} lines (numbers of unnamed values do not count). A line picked goes to Source with the program after this pass.` : "It changed nothing."),
      this.remarks(i).map(diagnosticLine));
    this.lines.show(this.rows);
  }

  pick(i) {
    const row = this.rows[i], text = row.to >= 0 && row.to !== undefined ? this.after : this.before;
    const line = row.to >= 0 && row.to !== undefined ? row.to : row.from;
    if (line === undefined) return;
    const [file, at] = text.place(line);
    if (!file) return;
    this.said.querySelector(".at")?.remove();
    this.said.append(el("p", { class: "at" }, el("button", { type: "button", class: "go mono", onclick: () => {
      const source = "source:" + (file - 1);
      views.source.wanted = [source, "program:" + this.doc.passes[this.at].program, ...views.source.wanted.slice(2)];
      views.source.go({ file, line: at, machine: 0 });
    } }, this.doc.sources[file - 1].name + ":" + at), " ", el("code", { class: "dim" }, this.doc.sourceLine(file, at).trim())));
  }
}
