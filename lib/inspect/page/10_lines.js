// SPDX-License-Identifier: Apache-2.0
// A list of lines with a cursor, marks, and ticks at its edge. Lines are in
// chunks, which the browser lays out when they come into view.
const CHUNK = 200, LINE_HEIGHT = 18;

class Lines {
  // pick(i): a line was clicked, or Enter pressed on it.
  constructor(pick, label) {
    this.pick = pick;
    this.box = el("div", { class: "lines code", tabindex: "0", role: "listbox", "aria-label": label });
    this.ticks = el("div", { class: "ticks", "aria-hidden": "true" });
    this.cursor = 0;
    this.rows = [];
    this.marked = [];
    this.box.addEventListener("click", e => {
      const row = e.target.closest(".l");
      if (row) this.choose(+row.dataset.i);
    });
    this.box.addEventListener("keydown", e => this.key(e));
  }

  // rows: {text, number, mark, title, class}, one a line.
  show(rows) {
    this.rows = rows;
    this.marked = [];
    this.cursor = Math.min(this.cursor, Math.max(0, rows.length - 1));
    const width = Math.max(3, String(rows.length ? Math.max(...rows.slice(-1).map(r => r.number || 0), rows.length) : 0).length);
    const parts = [];
    for (let from = 0; from < rows.length; from += CHUNK) {
      const n = Math.min(CHUNK, rows.length - from);
      parts.push(`<div class="chunk" style="contain-intrinsic-size:auto ${n * LINE_HEIGHT}px">`);
      for (let i = from; i < from + n; i++) parts.push(this.html(rows[i], i, width));
      parts.push("</div>");
    }
    this.box.innerHTML = parts.join("");
    this.ticks.textContent = "";
    this.box.scrollTop = 0;
    this.move(this.cursor, false);
  }

  html(row, i, width) {
    const mark = row.mark ? `<u class="${row.mark[0]}" title="${escapeHtml(row.title || "")}">${row.mark[1]}</u>` : "<u></u>";
    return `<div class="l ${row.class || ""}" role="option" data-i="${i}">` +
      `<i style="width:${width + 2}ch">${row.number || ""}</i>${mark}<span>${escapeHtml(row.text)}</span></div>`;
  }

  row(i) {
    const chunk = this.box.children[Math.floor(i / CHUNK)];
    return chunk && chunk.children[i % CHUNK];
  }

  // exact, weak: line numbers from 0.
  marks(exact, weak, scroll) {
    for (const i of this.marked) this.row(i).classList.remove("mark", "weak");
    for (const i of weak) this.row(i).classList.add("weak");
    for (const i of exact) this.row(i).classList.add("mark");
    this.marked = [...exact, ...weak];
    const shown = exact.length ? exact : weak;
    this.ticks.innerHTML = shown.slice(0, 400).map(i =>
      `<b style="top:${(100 * i / Math.max(1, this.rows.length)).toFixed(2)}%"></b>`).join("");
    if (scroll && shown.length) this.reveal(shown[0]);
  }

  reveal(i) {
    const top = i * LINE_HEIGHT, box = this.box;
    if (top < box.scrollTop || top > box.scrollTop + box.clientHeight - 2 * LINE_HEIGHT)
      box.scrollTop = Math.max(0, top - box.clientHeight / 3);
  }

  move(i, reveal = true) {
    if (!this.rows.length) return;
    const old = this.row(this.cursor);
    if (old) { old.classList.remove("cursor"); old.removeAttribute("aria-selected"); }
    this.cursor = Math.max(0, Math.min(this.rows.length - 1, i));
    const row = this.row(this.cursor);
    row.classList.add("cursor");
    row.setAttribute("aria-selected", "true");
    if (reveal) this.reveal(this.cursor);
  }

  choose(i) {
    this.move(i);
    this.pick(this.cursor);
  }

  key(e) {
    const page = Math.max(1, Math.floor(this.box.clientHeight / LINE_HEIGHT) - 2);
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -1e9, End: 1e9 }[e.key];
    if (e.ctrlKey || e.altKey || e.metaKey) return;
    if (step) this.choose(this.cursor + step);
    else if (e.key === "Enter" || e.key === " ") this.choose(this.cursor);
    else if (e.key === "n" || e.key === "N") this.next(e.key === "n" ? 1 : -1);
    else return;
    e.preventDefault();
    e.stopPropagation();
  }

  // The next marked line.
  next(way) {
    const marked = [...this.marked].sort((a, b) => a - b);
    const i = way > 0 ? marked.find(x => x > this.cursor) : marked.reverse().find(x => x < this.cursor);
    if (i !== undefined) this.move(i);
  }

  find(words) {
    const w = words.toLowerCase();
    for (let k = 1; w && k <= this.rows.length; k++) {
      const i = (this.cursor + k) % this.rows.length;
      if (this.rows[i].text.toLowerCase().includes(w)) return this.choose(i);
    }
  }
}
