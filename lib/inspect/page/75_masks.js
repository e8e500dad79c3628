// SPDX-License-Identifier: Apache-2.0
// Blocks of a mask: full, partial, empty; zoom to elements.
class MasksView {
  constructor(doc) { this.doc = doc; this.scale = 0; }

  show(main) {
    const m = this.doc.mask;
    if (!m) {
      main.append(el("p", { class: "bar" }, "No mask here. To draw one: tilec info mask 'causal' --q-len 1024 --json -o mask.json, then tilec inspect .. --mask mask.json -o page.html."));
      return;
    }
    const count = k => m.blocks.reduce((n, row) => n + [...row].filter(c => c === k).length, 0), all = m.rows * m.columns;
    this.canvas = el("canvas", { tabindex: "0", role: "img", "aria-label": "blocks of the mask; + and - zoom, arrow keys move" });
    this.tell = el("p", { class: "mono", "aria-live": "polite" }, " ");
    this.zoom = el("input", { type: "range", min: "0", max: "100", value: "0", "aria-label": "zoom", oninput: () => this.draw() });
    this.box = el("div", { class: "canvas-box" }, this.canvas);
    this.canvas.addEventListener("mousemove", e => this.hover(e));
    this.canvas.addEventListener("click", e => this.hover(e));
    this.canvas.addEventListener("keydown", e => this.key(e));
    add(main, el("h2", {}, m.expression), el("p", {}, `${m.q_len} queries (down), ${m.kv_len} keys (across), blocks of ${m.q_side}x${m.k_side}: ` +
      `${count("#")} full, ${count("+")} partial, ${count(".")} empty (${(100 * count(".") / all).toFixed(1)} %)`),
      (m.ways || []).map(w => el("p", {}, w)),
      el("div", { class: "legend" }, [["var(--accent)", "full"], ["var(--mark)", "partial"], ["var(--panel)", "empty"]].map(([c, w]) =>
        el("span", {}, el("i", { style: `background:${c};border:1px solid var(--line)` }), w))),
      el("div", { class: "bar" }, el("label", {}, "zoom ", this.zoom), this.tell), this.box);
    this.draw();
  }

  // Pixels of an element.
  pixels() {
    const m = this.doc.mask, fit = Math.min(620, this.box.clientWidth - 4) / Math.max(m.q_len, m.kv_len);
    return fit * (12 / fit) ** (+this.zoom.value / 100);
  }

  // Does query q see key k? null: only known for elements of the document.
  seen(q, k) {
    const m = this.doc.mask, kind = m.blocks[Math.floor(q / m.q_side)][Math.floor(k / m.k_side)];
    if (kind !== "+" || !m.elements) return kind === "#" ? true : kind === "." ? false : null;
    const row = m.elements[q]; // ranges of keys that are seen: from, to, from, to ..
    for (let i = 0; i < row.length; i += 2) if (k >= row[i] && k < row[i + 1]) return true;
    return false;
  }

  draw() {
    const m = this.doc.mask, p = this.pixels(), g = this.canvas.getContext("2d");
    const most = 8000, width = Math.min(most, Math.ceil(m.kv_len * p)), height = Math.min(most, Math.ceil(m.q_len * p));
    this.canvas.width = width; this.canvas.height = height;
    const style = getComputedStyle(document.documentElement), color = n => style.getPropertyValue(n).trim();
    const colors = { "#": color("--accent"), "+": color("--mark"), ".": color("--panel") };
    m.blocks.forEach((row, r) => [...row].forEach((kind, c) => {
      g.fillStyle = colors[kind];
      g.fillRect(c * m.k_side * p, r * m.q_side * p, m.k_side * p, m.q_side * p);
      if (kind === "+" && m.elements && p * m.k_side > 12) this.drawElements(g, r, c, p, colors["#"]);
      g.strokeStyle = color("--line");
      if (m.k_side * p > 5) g.strokeRect(c * m.k_side * p, r * m.q_side * p, m.k_side * p, m.q_side * p);
    }));
  }

  drawElements(g, r, c, p, full) {
    const m = this.doc.mask;
    g.save();
    g.globalAlpha = .65;
    g.fillStyle = full;
    for (let q = r * m.q_side; q < Math.min(m.q_len, (r + 1) * m.q_side); q++) {
      const row = m.elements[q];
      for (let i = 0; i < row.length; i += 2) {
        const from = Math.max(row[i], c * m.k_side), to = Math.min(row[i + 1], (c + 1) * m.k_side);
        if (from < to) g.fillRect(from * p, q * p, (to - from) * p - (p > 4 ? 1 : 0), p > 4 ? p - 1 : p + .5);
      }
    }
    g.restore();
  }

  hover(e) {
    const box = this.canvas.getBoundingClientRect(), p = this.pixels();
    this.say(Math.floor((e.clientY - box.top) / p), Math.floor((e.clientX - box.left) / p));
  }

  say(q, k) {
    const m = this.doc.mask;
    if (q < 0 || k < 0 || q >= m.q_len || k >= m.kv_len) return;
    this.at = [q, k];
    const seen = this.seen(q, k), kind = m.blocks[Math.floor(q / m.q_side)][Math.floor(k / m.k_side)];
    this.tell.textContent = `query ${q}, key ${k}: ` + (seen === null ? "in a partial block" : seen ? "seen" : "hidden") +
      `; block [${Math.floor(q / m.q_side)}, ${Math.floor(k / m.k_side)}] is ${{ "#": "full", "+": "partial", ".": "empty" }[kind]}`;
  }

  key(e) {
    const m = this.doc.mask, [q, k] = this.at || [0, 0];
    const step = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[e.key];
    if (step) this.say(Math.max(0, Math.min(m.q_len - 1, q + step[0])), Math.max(0, Math.min(m.kv_len - 1, k + step[1])));
    else if (e.key === "+" || e.key === "=") { this.zoom.value = +this.zoom.value + 10; this.draw(); }
    else if (e.key === "-") { this.zoom.value = +this.zoom.value - 10; this.draw(); }
    else return;
    e.preventDefault();
  }
}
