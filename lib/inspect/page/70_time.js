// SPDX-License-Identifier: Apache-2.0
// The steady state over time, shared memory and registers along the program, a
// roofline.
const KINDS = { product: ["#3b7dd8", "products"], copy: ["#2a9d6f", "copies"], special: ["#c2571a", "special functions"],
  math: ["#d9a441", "other math"], wait: ["#9aa3b0", "waits"], store: ["#8a5fc7", "stores"], barrier: ["#b42318", "barriers"],
  turn: ["#d3579b", "turns"], other: ["#6b7280", "other"] };

class TimeView {
  constructor(doc) { this.doc = doc; }

  show(main) {
    const doc = this.doc;
    if (!doc.ok) { main.append(el("p", { class: "bar" }, "No time: the text is wrong.")); return; }
    const lines = [doc.timeline, doc.measured].filter(Boolean);
    main.append(el("h2", {}, "Steady state"));
    for (const t of lines) main.append(timeline(doc, t, doc.timeline));
    if (doc.measured) add(main, differences(doc, doc.measured));
    else
      main.append(el("p", { class: "dim" }, "Measured on a GPU: tilec profile KERNEL .. --json > t.json, then tilec inspect .. --profile t.json -o page.html."));
    main.append(el("h2", {}, "Shared memory"), sharedPicture(doc), el("h2", {}, "Registers by line"), registersPicture(doc),
      el("h2", {}, "Roofline"), roofline(doc));
    if (doc.schedule)
      main.append(el("h2", {}, "Schedule"), el("pre", { tabindex: "0" }, doc.schedule));
  }
}

// ---- Timelines: docs/inspector.md, `timeline` ----

// Both at one scale, in cycles a pixel, and with the roles in one order.
function timeline(doc, t, model) {
  const unit = t.unit || "cycles", left = 120, row = 30, n = t.tracks.length;
  const ratio = model && model !== t && model.unit === t.unit ? t.length / model.length : 1;
  const width = left + 880 * Math.max(1, Math.min(6, ratio));
  const rank = name => { const i = model ? model.tracks.findIndex(x => x.name === name) : -1; return i < 0 ? 1e3 : i; };
  const order = t.tracks.map((x, i) => i).sort((a, b) => rank(t.tracks[a].name) - rank(t.tracks[b].name) || a - b);
  const rowOf = order.map((x, i) => order.indexOf(i));
  const scale = x => left + (width - left) * x / (t.length || 1);
  const box = el("div", { class: "timeline", "data-source": t.source });
  const picture = svg("svg", { viewBox: `0 0 ${width} ${n * row + 26}`, width, role: "img", style: ratio > 1 ? "max-width:none" : null,
    "aria-label": `${t.source} step: ${t.tracks.map(x => x.name).join(", ")}` });
  t.tracks.forEach((track, i) => picture.append(
    svg("line", { x1: left, x2: width, y1: (i + 1) * row, y2: (i + 1) * row, class: "axis" }),
    svg("text", { x: 0, y: rowOf[i] * row + 19, class: track.kind === "unit" ? "dim" : "" }, track.name)));
  const parts = [];
  for (const s of t.spans) {
    const [color] = KINDS[s.kind] || KINDS.other, w = Math.max(1, scale(s.end) - scale(s.start) - 1);
    const words = `${t.tracks[s.track].name}: ${s.name}, ${s.kind}, ${(s.end - s.start).toLocaleString("en")} ${unit} from ${s.start.toLocaleString("en")}` + (s.step !== undefined ? `, step ${s.step}` : "");
    const g = svg("g", { class: "span" },
      svg("rect", { x: scale(s.start), y: rowOf[s.track] * row + 4, width: w, height: row - 8, rx: 2, fill: color, "fill-opacity": s.kind === "wait" ? .45 : 1 }),
      svg("title", {}, words));
    if (w > 46) g.append(svg("text", { x: scale(s.start) + 4, y: rowOf[s.track] * row + 19, style: s.kind === "wait" ? "" : "fill:#fff", "clip-path": `inset(0)` }, s.name.slice(0, Math.floor((w - 6) / 6.6))));
    parts.push({ node: g, words, place: s.line ? { file: fileOf(doc, s), line: s.line, machine: 0 } : null });
    picture.append(g);
  }
  const ticks = Math.round(8 * (width - left) / 880);
  for (let i = 0; i <= ticks; i++)
    picture.append(svg("text", { x: Math.min(width - 40, scale(t.length * i / ticks)), y: n * row + 18, class: "dim" }, Math.round(t.length * i / ticks).toLocaleString("en")));
  const kinds = [...new Set(t.spans.map(s => s.kind))];
  add(box, el("h3", {}, t.source === "measured" ? "Measured" + (t.device ? " on " + t.device : "") : "Modelled", t.step ? `: a step takes ${t.step.toLocaleString("en")} ${unit}` : ""),
    el("div", { class: "legend" }, kinds.map(k => el("span", {}, el("i", { style: "background:" + (KINDS[k] || KINDS.other)[0] }), (KINDS[k] || KINDS.other)[1]))),
    withParts(picture, parts, "Hover, tap or arrow keys: a span."), (t.notes || []).map(note => el("p", { class: "dim" }, note)));
  if (t.overhead !== undefined) box.append(el("p", { class: "dim" }, `clock reads cost ${(100 * t.overhead).toFixed(1)} %`));
  if (t.sections && t.sections.length) box.append(el("details", {}, el("summary", {}, "sections as a table"), sections(doc, t)));
  return box;
}

// Where the hot loop's measured step is farthest from the modelled one.
function differences(doc, t) {
  const loop = (t.loops || []).filter(l => l.model > 0).sort((a, b) => b.steps - a.steps);
  const known = (t.sections || []).filter(s => s.model !== undefined && s.model !== null && loop.some(l => l.name === s.loop && l.role === s.role));
  if (!known.length) return null;
  const apart = s => s.median - s.model, sorted = known.slice().sort((a, b) => apart(b) - apart(a));
  const words = s => [`${s.role}, ${s.name}: ${s.median.toLocaleString("en")} cycles, by the model ${s.model.toLocaleString("en")} `,
    el("button", { type: "button", class: "go mono", onclick: () => views.source.go({ file: fileOf(doc, s), line: s.line, machine: 0 }) }, "line " + s.line)];
  const longer = sorted[0], shorter = sorted[sorted.length - 1];
  return el("div", { id: "differences" }, el("h3", {}, "Measured against modelled"),
    loop.map(l => el("p", {}, `${l.role}, ${l.name}: a step takes ${l.median.toLocaleString("en")} cycles, by the model ${l.model.toLocaleString("en")}`)),
    apart(longer) > 0 && el("p", {}, "Farthest above the model: ", words(longer)),
    apart(shorter) < 0 && el("p", {}, "Farthest below it: ", words(shorter)),
    el("p", { class: "dim" }, "The model knows how long units are busy and who waits for whom. The issue of instructions, barriers and stores takes no time in it."));
}

function fileOf(doc, span) { return span.file || doc.places[doc.hot.place]?.[0] || 1; }

function sections(doc, t) {
  return table(["role", "loop", "what", "name", "line", "median", "10 %", "90 %", "share", "model"], t.sections.map(s => el("tr", {},
    [s.role, s.loop, s.kind, s.name, s.line, s.median, s.p10, s.p90, s.share === undefined ? "" : (100 * s.share).toFixed(1) + " %", s.model]
      .map((x, i) => el("td", { class: i > 3 ? "num" : "" }, x ?? "")))));
}

// ---- Shared memory: offsets up, the machine-level text along ----

function sharedPicture(doc) {
  const list = doc.buffers.filter(b => b.offset >= 0 && b.bytes), lines = doc.programs[doc.machine].lines.length;
  if (!list.length) return el("p", { class: "dim" }, "No shared memory.");
  const width = 1000, height = 280, left = 70, all = Math.max(doc.resources.shared_bytes, ...list.map(b => b.offset + b.bytes));
  const x = line => left + (width - left) * line / lines, y = byte => height - height * byte / all;
  const parts = [];
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height + 24}`, width, role: "img", "aria-label": "shared memory over the program" });
  picture.append(svg("rect", { x: left, y: 0, width: width - left, height, fill: "var(--panel)" }));
  list.forEach((b, i) => {
    const slots = Math.max(1, b.slots), h = height * b.bytes / all;
    const words = `${b.name}: ${b.bytes.toLocaleString("en")} bytes at ${b.offset.toLocaleString("en")}, ${plural(slots, "slot")}, lines ${b.first} to ${b.last}, ${b.type}`;
    const g = svg("g", {}, svg("rect", { x: x(b.first), y: y(b.offset + b.bytes), width: Math.max(3, x(b.last + 1) - x(b.first)), height: Math.max(1, h - .5),
      fill: `hsl(${(i * 67) % 360} 50% ${dark() ? 38 : 72}%)` }), svg("title", {}, words));
    for (let s = 1; s < slots && h / slots > 4; s++)
      g.append(svg("line", { x1: x(b.first), x2: x(b.last + 1), y1: y(b.offset + b.bytes * s / slots), y2: y(b.offset + b.bytes * s / slots), stroke: "var(--bg)", "stroke-dasharray": "3 3" }));
    if (h > 13 && x(b.last + 1) - x(b.first) > 7 * b.name.length + 50) g.append(svg("text", { x: x(b.first) + 5, y: y(b.offset + b.bytes) + Math.min(14, h / 2 + 4) }, `${b.name} ${(b.bytes / 1024).toFixed(0)} KiB`));
    parts.push({ node: g, words, place: { ...placeObject(doc, b.line), machine: b.line } });
    picture.append(g);
  });
  for (let i = 0; i <= 4; i++)
    picture.append(svg("text", { x: 0, y: Math.max(10, y(all * i / 4)), class: "dim" }, (all * i / 4096).toFixed(0) + " KiB"));
  picture.append(svg("text", { x: left, y: height + 18, class: "dim" }, "line 1"), svg("text", { x: width - 60, y: height + 18, class: "dim" }, "line " + lines));
  return el("div", { id: "shared" }, withParts(picture, parts,
    "Up: bytes; along: lines of the machine-level text, from a buffer's first to its last use. Hover, tap or arrow keys: a buffer."));
}

// ---- Registers ----

// By machine-level line: what nvdisasm says lives there, else the sum of tiles.
function liveRegisters(doc) {
  if (doc.live) return doc.live;
  const sass = doc.codes.find(i => i.live), n = doc.programs[doc.machine].lines.length;
  if (!sass) return doc.live = { by: "the sum of the layouts of live tiles", of: doc.registers };
  const of = new Array(n).fill(0);
  sass.live.forEach((live, i) => { const line = sass.machine[i]; if (line && live > of[line - 1]) of[line - 1] = live; });
  return doc.live = { by: "nvdisasm's live ranges", of };
}

function liveAt(doc, line) { return liveRegisters(doc).of[line - 1] || 0; }

function registersPicture(doc) {
  const { by, of } = liveRegisters(doc), n = of.length, most = Math.max(1, ...of), limit = doc.target.max_registers;
  const width = 1000, height = 160, left = 70, top = Math.max(most, Math.min(limit, most * 1.2));
  const x = i => left + (width - left) * i / n, y = r => height - height * r / top;
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height + 24}`, width, role: "img", "aria-label": "live registers by line" });
  picture.append(svg("rect", { x: left, y: 0, width: width - left, height, fill: "var(--panel)" }),
    svg("path", { d: `M${left} ${height}` + of.map((r, i) => `L${x(i).toFixed(1)} ${y(r).toFixed(1)}L${x(i + 1).toFixed(1)} ${y(r).toFixed(1)}`).join("") + `L${width} ${height}Z`, fill: "var(--accent)", "fill-opacity": .55 }));
  if (limit <= top) picture.append(svg("line", { x1: left, x2: width, y1: y(limit), y2: y(limit), stroke: "var(--bad)", "stroke-dasharray": "5 4" }));
  for (const r of [0, Math.round(most / 2), most]) picture.append(svg("text", { x: 0, y: Math.max(10, y(r)), class: "dim" }, r));
  picture.append(svg("text", { x: left, y: height + 18, class: "dim" }, "line 1"), svg("text", { x: width - 60, y: height + 18, class: "dim" }, "line " + n));
  const text = doc.text("program:" + doc.machine);
  const parts = of.map((r, i) => ({ node: svg("rect", { x: x(i), y: 0, width: Math.max(1, x(i + 1) - x(i)), height, fill: "transparent" }),
    words: `line ${i + 1}: ${plural(r, "register")}: ${text.lines[i].trim().slice(0, 110)}`, place: { ...placeObject(doc, i + 1), machine: i + 1 } }));
  picture.append(...parts.map(p => p.node));
  const peaks = of.map((r, i) => [r, i + 1]).sort((a, b) => b[0] - a[0]).slice(0, 5);
  return el("div", { id: "registers" }, withParts(picture, parts, `By ${by}: at most ${most} at line ${of.indexOf(most) + 1} of the machine level. Hover, tap or arrow keys: a line.`),
    el("details", {}, el("summary", {}, "the five highest lines"), table(["registers", "line", "op"], peaks.map(([r, l]) => el("tr", {}, el("td", { class: "num" }, r),
      el("td", { class: "num" }, el("button", { type: "button", class: "go mono", onclick: () => views.source.go({ ...placeObject(doc, l), machine: l }) }, l)),
      el("td", {}, el("code", {}, text.lines[l - 1].trim().slice(0, 110))))))));
}

// ---- Roofline: of one SM, a cycle ----

// FLOP and bytes of a step of the hot loop; products of 8 bits count double the
// rate, of f32 (tf32) half.
function stepWork(doc) {
  const products = doc.products.filter(p => p.hot), loads = doc.loads.filter(l => l.hot);
  const sides = l => (/<(?:\d+ ?slots ?)?([\dx]+) x (\w+)/.exec(l.tile) || [null, "0", "f32"]);
  const size = { f8e4m3: 1, f8e5m2: 1, i8: 1, f16: 2, bf16: 2, f32: 4, i32: 4, f64: 8, i64: 8 };
  const bytes = loads.reduce((n, l) => { const [, s, t] = sides(l); return n + s.split("x").reduce((a, b) => a * +b, 1) * (size[t] || 4); }, 0);
  const flop = products.reduce((n, p) => n + 2 * p.m * p.n * p.k, 0);
  const rate = products.length ? Math.max(...products.map(p => size[p.a] === 1 ? 2 : size[p.a] === 4 ? .5 : 1)) : 1;
  return { flop, bytes, rate };
}

function roofline(doc) {
  const { flop, bytes, rate } = stepWork(doc), t = doc.target;
  if (!flop || !bytes || !t.products_per_cycle) return el("p", { class: "dim" }, "No hot loop with loads and products: no roofline.");
  const peak = 2 * t.products_per_cycle * rate, intensity = flop / bytes;
  const width = 700, height = 260, left = 80, bottom = 40;
  const x0 = Math.log2(1), x1 = Math.log2(Math.max(2048, intensity * 4)), y1 = Math.log2(peak * 2), y0 = y1 - 9;
  const x = i => left + (width - left - 10) * (Math.log2(i) - x0) / (x1 - x0);
  const y = f => (height - bottom) * (1 - (Math.log2(f) - y0) / (y1 - y0));
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, role: "img", "aria-label": "roofline" });
  const roof = (bandwidth, color, words, before) => {
    const ridge = peak / bandwidth, from = Math.max(1, 2 ** y0 / bandwidth);
    picture.append(svg("path", { d: `M${x(from)} ${y(from * bandwidth)}L${x(ridge)} ${y(peak)}L${width - 10} ${y(peak)}`, fill: "none", stroke: color, "stroke-width": 2 }),
      svg("text", { x: x(ridge / 6) + (before ? -8 : 10), y: y(ridge / 6 * bandwidth) + (before ? -2 : 10), "text-anchor": before ? "end" : "start", style: "fill:" + color }, words));
  };
  roof(t.memory_bytes_per_cycle, "#c2571a", `memory, ${t.memory_bytes_per_cycle} B/cycle`, false);
  roof(t.l2_bytes_per_cycle, "#2a9d6f", `L2, ${t.l2_bytes_per_cycle} B/cycle`, true);
  picture.append(svg("text", { x: width - 10, y: y(peak) - 6, "text-anchor": "end" }, `tensor cores, ${peak.toLocaleString("en")} FLOP/cycle`));
  const points = [["modelled", doc.timeline], ["measured", doc.measured]].filter(p => p[1] && p[1].step && p[1].unit === "cycles");
  let below = y(peak) + 20; // labels under the roof and under each other
  for (const [words, line] of points) {
    const f = flop * (line.groups || 1) / line.step;
    picture.append(svg("circle", { cx: x(intensity), cy: y(Math.min(f, 2 ** y1)), r: 6, fill: "var(--accent)" }),
      svg("text", { x: x(intensity) + 12, y: below = Math.max(below, y(Math.min(f, 2 ** y1)) + 4) }, `${words}: ${Math.round(f).toLocaleString("en")} FLOP/cycle (${Math.round(100 * f / peak)} %)`));
    below += 16;
  }
  if (!points.length) picture.append(svg("line", { x1: x(intensity), x2: x(intensity), y1: y(Math.min(peak, intensity * t.l2_bytes_per_cycle)), y2: height - bottom, stroke: "var(--accent)", "stroke-dasharray": "4 3" }),
    svg("circle", { cx: x(intensity), cy: y(Math.min(peak, intensity * t.l2_bytes_per_cycle)), r: 6, fill: "var(--accent)" }));
  for (let i = 1; i <= 2 ** x1; i *= 4) picture.append(svg("text", { x: x(i) - 8, y: height - bottom + 18, class: "dim" }, i));
  picture.append(svg("text", { x: left, y: height - 4, class: "dim" }, "FLOP of products a byte that the step loads"));
  for (let f = 2 ** Math.ceil(y0); f <= peak; f *= 4) picture.append(svg("text", { x: 0, y: y(f) + 4, class: "dim" }, f.toLocaleString("en")));
  return el("div", { id: "roofline" }, el("div", { class: "scroll" }, picture), el("p", {},
    `A step of the hot loop: ${flop.toLocaleString("en")} FLOP, ${bytes.toLocaleString("en")} bytes loaded: ${intensity.toFixed(0)} FLOP a byte. ` +
    (intensity >= peak / t.memory_bytes_per_cycle ? "Tensor cores bound it, not memory." : intensity >= peak / t.l2_bytes_per_cycle ? "Memory bounds it, unless the L2 cache has the data." : "The L2 cache bounds it.")),
    el("p", { class: "dim" }, "Of one SM; bytes a cycle from the compiler's machine model, if all SMs load."));
}
