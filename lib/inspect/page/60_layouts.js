// SPDX-License-Identifier: Apache-2.0
// Layouts drawn: who holds an element, banks, conflicts of an access.

// Coordinates of index {register, lane, warp, offset}: see ir/types/layout.h.
// Below an axis's period images are xored, above it added.
function applyLayout(l, index) {
  const coord = l.shape.map(() => 0);
  for (const input of ["register", "lane", "warp", "offset"]) {
    let rest = index[input] || 0;
    for (const [count, ...image] of l[input]) {
      if (!rest) break;
      const digit = rest % count;
      rest = Math.floor(rest / count);
      if (digit)
        image.forEach((value, a) => {
          const low = l.period[a] - 1;
          coord[a] = (coord[a] ^ (value & low)) + digit * (value & ~low);
        });
    }
  }
  return coord;
}

function layoutSize(l, input) { return l[input].reduce((n, m) => n * m[0], 1); }

function flat(l, coord) { return coord.reduce((n, c, a) => n * l.shape[a] + c, 0); }

// For each element, row by row: its offset, or {thread, register} as numbers.
function placesOf(l) {
  if (l.places) return l.places;
  const n = l.shape.reduce((a, b) => a * b, 1);
  const thread = new Int32Array(n).fill(-1), register = new Int32Array(n);
  const sizes = ["offset", "register", "warp", "lane"].map(x => layoutSize(l, x));
  for (let offset = 0; offset < sizes[0]; offset++)
    for (let r = 0; r < sizes[1]; r++)
      for (let warp = 0; warp < sizes[2]; warp++)
        for (let lane = 0; lane < sizes[3]; lane++) {
          const i = flat(l, applyLayout(l, { offset, register: r, warp, lane }));
          if (thread[i] >= 0) continue;
          thread[i] = l.shared ? offset : warp * 32 + lane;
          register[i] = l.shared ? bankOf(l, offset) : r;
        }
  return l.places = { first: thread, second: register };
}

function bankOf(l, offset) { return Math.floor(offset * l.bits / 32) % 32; }

// The words that a warp's lanes access in one instruction of an access, by
// phase (all lanes of 4 bytes, 8 of 16): per phase the lanes of each bank.
function phasesOf(shared, tile, bytes) {
  const places = placesOf(shared), vector = Math.max(1, Math.floor(bytes * 8 / shared.bits));
  const lanes = Math.max(1, Math.min(32, Math.floor(128 / Math.max(4, bytes))));
  const phases = [];
  for (let from = 0; from < 32; from += lanes) {
    const banks = Array.from({ length: 32 }, () => new Map());
    for (let lane = from; lane < from + lanes; lane++)
      for (let k = 0; k < vector; k++) {
        const offset = places.first[flat(shared, applyLayout(tile, { register: 0, lane, warp: 0 }))] + k;
        const word = Math.floor(offset * shared.bits / 32);
        const bank = banks[word % 32];
        bank.set(word, [...(bank.get(word) || []), lane]);
      }
    phases.push(banks);
  }
  return phases;
}

// How many words of one bank wait for each other.
function waysOf(phases) { return Math.max(...phases.map(banks => Math.max(...banks.map(b => b.size)))); }

class LayoutsView {
  constructor(doc) { this.doc = doc; this.at = null; this.color = "holder"; }

  // What can be drawn: buffers, then operands of products, then tiles, one of
  // each layout.
  entries() {
    if (this.list) return this.list;
    const doc = this.doc, list = [], known = new Set();
    for (const b of doc.buffers)
      if (b.layout >= 0 && doc.layouts[b.layout].shape.reduce((x, y) => x * y, 1) > 1)
        list.push({ group: "Buffers in shared memory", title: `${b.name}: ${b.type}`, layout: b.layout, buffer: b });
    doc.products.forEach(p => p.operands.forEach((l, i) => {
      if (l >= 0) list.push({ group: "Fragments of products", title: `line ${doc.places[p.place][1]}: ${"ABC"[i]} of ${p.instruction}, ${doc.layouts[l].text}`, layout: l });
    }));
    for (const t of doc.tiles)
      if (t.layout >= 0 && !known.has(t.layout)) {
        known.add(t.layout);
        list.push({ group: "Tiles in registers", title: `${t.name}: ${t.type}`, layout: t.layout });
      }
    return this.list = list;
  }

  show(main) {
    const doc = this.doc;
    if (!doc.ok || !this.entries().length) { main.append(el("p", { class: "bar" }, "No layouts.")); return; }
    const select = this.select = el("select", { id: "layout", "aria-label": "what is drawn", onchange: () => this.turn(+select.value) });
    let group = null;
    this.entries().forEach((e, i) => {
      if (!group || group.label !== e.group) { group = el("optgroup", { label: e.group }); select.append(group); }
      group.append(el("option", { value: i }, e.title));
    });
    this.zoom = el("input", { type: "range", min: "2", max: "44", value: "14", "aria-label": "size of an element", oninput: () => this.draw() });
    this.note = el("p", { class: "dim" });
    this.canvas = el("canvas", { tabindex: "0", role: "img", "aria-label": "elements; arrow keys move the cursor" });
    this.canvas.addEventListener("mousemove", e => this.hover(e));
    this.canvas.addEventListener("click", e => this.hover(e));
    this.canvas.addEventListener("keydown", e => this.key(e));
    this.readout = el("div", { class: "readout", "aria-live": "polite" });
    this.accesses = el("div", {});
    main.append(el("div", { class: "bar" }, select, el("label", {}, "size ", this.zoom)), this.note,
      el("div", { class: "drawing" }, el("div", { class: "canvas-box" }, this.canvas), this.readout), this.accesses);
    this.turn(this.at === null ? 0 : this.at);
  }

  go(layout) {
    this.at = Math.max(0, this.entries().findIndex(e => e.layout === layout));
    openTab("layouts");
  }

  turn(i) {
    this.at = i;
    this.select.value = i;
    this.entry = this.entries()[i];
    this.l = this.doc.layouts[this.entry.layout];
    const l = this.l, last = l.shape[l.shape.length - 1];
    this.columns = l.shape.length ? last : 1;
    this.rows = l.shape.slice(0, -1).reduce((a, b) => a * b, 1);
    this.places = placesOf(l);
    this.cell = [0, 0];
    this.lanes = null;
    const most = this.canvas.parentNode.clientWidth - 40;
    this.zoom.value = Math.max(2, Math.min(26, Math.floor(most / this.columns)));
    this.note.textContent = `${l.text} of ${l.shape.join("x")} elements of ${l.bits} bits: ` + (l.shared
      ? "a color is a bank, the number the offset in elements" : `a color is a warp, its shade the lane; ${layoutSize(l, "register")} elements a thread`);
    this.fillAccesses();
    this.draw();
    this.tell();
  }

  colorOf(i) {
    const l = this.l;
    if (l.shared) return `hsl(${this.places.second[i] * 360 / 32} 65% ${dark() ? 42 : 76}%)`;
    const warps = layoutSize(l, "warp"), thread = this.places.first[i];
    const shade = (thread % 32) / 32;
    return `hsl(${Math.floor(thread / 32) * 360 / warps + 200} 60% ${dark() ? 30 + 24 * shade : 90 - 30 * shade}%)`;
  }

  draw() {
    const z = +this.zoom.value, left = 34, top = 18, ratio = Math.min(2, devicePixelRatio || 1);
    const width = left + z * this.columns + 1, height = top + z * this.rows + 1;
    this.canvas.width = width * ratio; this.canvas.height = height * ratio;
    this.canvas.style.width = width + "px"; this.canvas.style.height = height + "px";
    const g = this.canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
    const text = style.getPropertyValue("--text"), dim = style.getPropertyValue("--dim");
    g.scale(ratio, ratio);
    g.font = "10px monospace"; g.textBaseline = "middle";
    const gap = z > 6 ? 1 : 0;
    for (let r = 0; r < this.rows; r++)
      for (let c = 0; c < this.columns; c++) {
        const i = r * this.columns + c;
        g.fillStyle = this.colorOf(i);
        g.fillRect(left + c * z, top + r * z, z - gap, z - gap);
        if (z >= 26) {
          g.fillStyle = text; g.textAlign = "center";
          g.fillText(this.l.shared ? this.places.first[i] : this.places.first[i] + ":" + this.places.second[i], left + c * z + z / 2, top + r * z + z / 2);
        }
      }
    g.fillStyle = dim;
    const every = Math.max(1, 2 ** Math.ceil(Math.log2(26 / z)));
    g.textAlign = "center";
    for (let c = 0; c < this.columns; c += every) g.fillText(c, left + c * z + z / 2, top / 2);
    g.textAlign = "right";
    for (let r = 0; r < this.rows; r += Math.max(1, 2 ** Math.ceil(Math.log2(12 / z)))) g.fillText(r, left - 5, top + r * z + z / 2);
    this.drawLanes(g, z, left, top);
    g.strokeStyle = text; g.lineWidth = 2;
    g.strokeRect(left + this.cell[1] * z, top + this.cell[0] * z, z, z);
  }

  // The elements that the lanes of the shown access touch first.
  drawLanes(g, z, left, top) {
    if (!this.lanes) return;
    g.strokeStyle = dark() ? "#ffffff" : "#000000"; g.lineWidth = 1.5;
    for (const [r, c] of this.lanes) g.strokeRect(left + c * z + 1, top + r * z + 1, z - 2, z - 2);
  }

  hover(e) {
    const box = this.canvas.getBoundingClientRect(), z = +this.zoom.value;
    const c = Math.floor((e.clientX - box.left - 34) / z), r = Math.floor((e.clientY - box.top - 18) / z);
    if (r >= 0 && c >= 0 && r < this.rows && c < this.columns) this.moveTo(r, c);
  }

  key(e) {
    const step = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[e.key];
    if (!step) return;
    e.preventDefault();
    this.moveTo(Math.max(0, Math.min(this.rows - 1, this.cell[0] + step[0])), Math.max(0, Math.min(this.columns - 1, this.cell[1] + step[1])));
  }

  moveTo(r, c) {
    if (r === this.cell[0] && c === this.cell[1]) return;
    this.cell = [r, c];
    this.draw();
    this.tell();
  }

  tell() {
    const [r, c] = this.cell, i = r * this.columns + c, l = this.l;
    const a = this.places.first[i], b = this.places.second[i];
    const rows = l.shared
      ? [["offset", a + " elements"], ["byte", a * l.bits / 8], ["bank", b], ["128-byte line", Math.floor(a * l.bits / 8 / 128)]]
      : [["thread", a], ["warp", a >> 5], ["lane", a & 31], ["register", `${b} (element ${b} of ${layoutSize(l, "register")} of the thread)`]];
    this.readout.dataset.element = `${r},${c}`;
    this.readout.dataset.holds = `${a}:${b}`;
    this.readout.textContent = "";
    this.readout.append(el("h3", {}, `element [${this.coordinates(r, c)}]`),
      el("table", {}, rows.map(([k, v]) => el("tr", {}, el("th", { scope: "row" }, k), el("td", { class: "mono" }, v)))),
      el("p", { class: "dim" }, "hover, tap or arrow keys: another element"));
  }

  coordinates(r, c) {
    const shape = this.l.shape, out = [c];
    for (let a = shape.length - 2, rest = r; a >= 0; a--) { out.unshift(rest % shape[a]); rest = Math.floor(rest / shape[a]); }
    return (shape.length ? out : [0]).join(", ");
  }

  fillAccesses() {
    const b = this.entry.buffer, box = this.accesses;
    box.textContent = "";
    if (!b || !b.accesses || !b.accesses.length) return;
    const chart = el("div", {});
    box.append(el("h2", {}, "Accesses of this buffer"),
      table(["line", "op", "how", "bank conflicts", ""], b.accesses.map(a => el("tr", {},
        el("td", { class: "num" }, el("button", { type: "button", class: "go mono", onclick: () => views.source.go({ ...placeObject(this.doc, a.line), machine: a.line }) }, a.line)),
        el("td", {}, el("code", {}, a.op)),
        el("td", {}, a.by === "wgmma" ? "wgmma, by descriptor" : a.by === "matrices" ? "ldmatrix or stmatrix" : a.bytes + " bytes a thread"),
        el("td", { class: a.ways > 1 ? "grave-text" : "good-text" }, a.ways > 1 ? a.ways + "-way" : "none"),
        el("td", {}, a.tile >= 0 && a.by === "vectors" ? el("button", { type: "button", onclick: () => this.showAccess(a, chart) }, "show banks") : "")))), chart);
  }

  showAccess(a, chart) {
    const tile = this.doc.layouts[a.tile], view = this.doc.layouts[a.view];
    const phases = phasesOf(view, tile, a.bytes), most = waysOf(phases);
    this.lanes = Array.from({ length: 32 }, (_, lane) => {
      const coord = applyLayout(tile, { register: 0, lane, warp: 0 });
      const i = this.places.first.indexOf(placesOf(view).first[flat(view, coord)]);
      return [Math.floor(i / this.columns), i % this.columns];
    });
    this.draw();
    const w = 20, h = 16, tall = Math.max(...phases.map(p => Math.max(...p.map(b => b.size))));
    chart.textContent = "";
    chart.append(el("h3", {}, `${a.op} by ${a.bytes} bytes: the banks of warp 0's first access, ${plural(phases.length, "phase")}`),
      el("p", { class: "dim" }, `Lanes are framed above. Each cell is a 4-byte word, with its lanes; words above each other in one column wait for each other: ${most > 1 ? most + "-way conflicts" : "no conflicts"}.`),
      el("div", { class: "scroll" }, phases.slice(0, 4).map((banks, p) => svg("svg", { width: 60 + 32 * w, height: tall * h + 24, viewBox: `0 0 ${60 + 32 * w} ${tall * h + 24}` },
        svg("text", { x: 0, y: tall * h - 2, class: "dim" }, "phase " + p),
        banks.map((words, bank) => [...words.entries()].map(([word, lanes], k) => svg("g", {},
          svg("rect", { x: 58 + bank * w, y: (tall - 1 - k) * h, width: w - 2, height: h - 2, fill: k ? "var(--bad)" : "var(--accent)" }),
          svg("title", {}, `bank ${bank}, word ${word}, lanes ${lanes.join(", ")}`)))),
        Array.from({ length: 32 }, (_, b) => b % 4 ? "" : svg("text", { x: 58 + b * w, y: tall * h + 14, class: "dim" }, b))))));
  }
}

function placeObject(doc, machine) {
  const [file, line] = doc.placeOfMachine(machine);
  return { file, line };
}

function dark() { return document.documentElement.dataset.theme === "dark"; }
