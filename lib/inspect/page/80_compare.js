// SPDX-License-Identifier: Apache-2.0
// Two compiles: what differs first, then the machine level of both as a diff.
class CompareView {
  constructor(a, b) { this.a = a; this.b = b; }

  show(main) {
    const { a, b } = this, title = d => `${d.name()}, ${d.target ? d.target.name : "wrong"}`;
    main.append(el("h2", {}, "Differences"), el("p", { class: "dim" }, `left: ${title(a)}; right: ${title(b)}`));
    if (!a.ok || !b.ok) { main.append(el("p", {}, "One of them is wrong: there is nothing to compare.")); return; }
    const rows = [...this.facts()].filter(([, x, y]) => x !== y);
    const same = [...this.facts()].length - rows.length;
    main.append(rows.length ? table(["what", "left", "right"], rows.map(([words, x, y]) => el("tr", { class: "differs" },
      el("td", {}, words), el("td", {}, el("code", {}, x)), el("td", {}, el("code", {}, y))))) : el("p", {}, "The facts are the same."),
      el("p", { class: "dim" }, plural(same, "fact") + " are the same."));
    main.append(el("h2", {}, "Findings"), el("div", { class: "cards" }, this.findings()));
    const rowsOf = [["Source", this.sourceOf(a), this.sourceOf(b)], ["Machine level", a.text("program:" + a.machine).lines, b.text("program:" + b.machine).lines],
      ["PTX", this.code(a, "ptx"), this.code(b, "ptx")]];
    for (const [words, x, y] of rowsOf) this.diff(main, words, x, y);
  }

  code(d, name) { return d.codes.some(i => i.name === name) ? d.text("image:" + name).lines : []; }
  sourceOf(d) { return d.text(d.images()[0].id).lines; }

  diff(main, words, x, y) {
    const rows = diffRows(x, y), n = rows.filter(r => r.class === "add" || r.class === "del").length;
    const lines = new Lines(() => {}, words + ", differences");
    const box = el("div", { style: "height:360px;display:flex;border:1px solid var(--line)" }, el("section", { class: "pane" }, lines.box, lines.ticks));
    const details = el("details", { ontoggle: () => { if (details.open && !lines.rows.length) lines.show(rows); } },
      el("summary", {}, `${words}: ${n ? plural(n, "line") + " differ" : "the same"}`), box);
    main.append(details);
  }

  *facts() {
    const { a, b } = this, fact = (words, f) => [words, String(f(a) ?? "–"), String(f(b) ?? "–")];
    yield fact("tilec", d => d.tilec);
    yield fact("kernel", d => d.kernel);
    yield fact("target", d => d.target.name);
    const names = new Set([...a.bindings, ...b.bindings].map(x => x.name));
    for (const name of names) yield fact(name, d => d.bindings.find(x => x.name === name)?.value);
    for (const [key, words] of [["warps", "warps"], ["shared_bytes", "bytes of shared memory"], ["registers", "registers at the start"],
      ["spill_stores", "bytes of spill stores"], ["spill_loads", "bytes of spill loads"]]) yield fact(words, d => d.resources[key]);
    yield fact("cycles of a modelled step", d => d.timeline?.step);
    const loads = d => d.loads.filter(l => l.hot);
    const tensors = new Set([...loads(a), ...loads(b)].map(l => l.tensor));
    for (const t of tensors) {
      const of = d => loads(d).find(l => l.tensor === t);
      yield fact(`load of ${t}`, d => { const l = of(d); return l && `${copyWords(l)}, ${l.tile.replace(/,.*$|>$/g, "").replace(/^\w+</, "")}`; });
      yield fact(`layout of ${t}`, d => { const l = of(d); return l && l.layout >= 0 ? d.layouts[l.layout].text : undefined; });
      yield fact(`bank conflicts of ${t}`, d => { const l = of(d); return l && conflictWords(l.accesses); });
    }
    const most = Math.max(a.products.length, b.products.length);
    for (let i = 0; i < most; i++)
      yield fact(`product ${i + 1}`, d => { const p = d.products[i]; return p && `${p.m}x${p.n}x${p.k} ${p.a}, ${p.instruction}${p.async ? ", async" : ""}, A ${p.a_order}, B ${p.b_order}`; });
    yield fact("passes that changed the program", d => d.passes.filter(p => p.changed).length);
    const changed = d => new Set(d.passes.filter(p => p.changed).map(p => p.name));
    const [x, y] = [changed(a), changed(b)], only = (p, q) => [...p].filter(n => !q.has(n)).join(", ") || "–";
    yield ["passes that changed one only", only(x, y), only(y, x)];
    yield fact("missed optimizations", d => d.diagnostics.filter(s => s.missed).length);
  }

  findings() {
    const { a, b } = this, key = f => f.title, inA = new Set(a.findings.map(key)), inB = new Set(b.findings.map(key));
    const card = (f, words) => el("article", { class: "card" + (f.grave ? " grave" : "") }, el("h3", {}, `${words}: ${f.title}`), el("p", {}, f.why));
    const list = [...a.findings.filter(f => !inB.has(key(f))).map(f => card(f, "only left")), ...b.findings.filter(f => !inA.has(key(f))).map(f => card(f, "only right"))];
    return list.length ? list : [el("article", { class: "card good" }, el("h3", {}, "Both have the same findings"))];
  }
}
