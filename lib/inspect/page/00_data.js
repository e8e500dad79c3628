// SPDX-License-Identifier: Apache-2.0
// The documents of the page, and the texts that they hold.
"use strict";
const page = JSON.parse(document.getElementById("data").textContent);

// A document (docs/inspector.md) with what is computed from it.
class Doc {
  constructor(json) {
    Object.assign(this, json);
    this.ok = json.status === "ok";
    this.texts = new Map();
    if (this.ok) this.machine = this.programs.length - 1;
  }

  name() { return this.kernel ? "@" + this.kernel : this.sources.map(s => s.name).join(", "); }

  // The images that can be shown: {id, group, title}.
  images() {
    const list = this.sources.map((s, i) => ({ id: "source:" + i, group: "Source", title: s.name }));
    if (!this.ok) return list;
    const own = this.ownFile();
    list.sort((a, b) => (+b.id.slice(7) === own) - (+a.id.slice(7) === own));
    list.push({ id: "program:0", group: "Program", title: "as parsed" });
    this.passes.forEach((p, i) => {
      if (p.changed) list.push({ id: "program:" + p.program, group: "Program", title: "after " + p.name });
    });
    list.push({ id: "program:" + this.machine, group: "Code", title: "machine level" });
    list.push({ id: "schedule", group: "Code", title: "schedule" });
    for (const image of this.codes) list.push({ id: "image:" + image.name, group: "Code", title: image.title });
    return list;
  }

  // The source that the kernel is in.
  ownFile() {
    const place = this.places[this.programs[this.machine].places[0]];
    return place && place[0] ? place[0] - 1 : 0;
  }

  // The text of an image: {lines, place(i): [file, line, column], machine(i)}.
  text(id) {
    if (!this.texts.has(id)) this.texts.set(id, this.makeText(id));
    return this.texts.get(id);
  }

  makeText(id) {
    const [kind, which] = id.split(":");
    const none = [0, 0, 0];
    if (kind === "source") {
      const lines = splitLines(this.sources[+which].text);
      return { lines, place: i => [+which + 1, i + 1, 1], machine: () => 0 };
    }
    if (kind === "program") {
      const p = this.programs[+which], is = +which === this.machine;
      return { lines: p.lines.map(i => this.lines[i]), ids: p.lines,
        place: i => this.places[p.places[i]] || none, machine: i => is ? i + 1 : 0 };
    }
    if (kind === "schedule")
      return { lines: splitLines(this.schedule || ""), place: () => none, machine: () => 0 };
    const image = this.codes.find(x => x.name === which);
    return { lines: splitLines(image.text), live: image.live,
      place: i => this.placeOfMachine(image.machine[i]), machine: i => image.machine[i] || 0 };
  }

  placeOfMachine(line) {
    return line ? this.places[this.programs[this.machine].places[line - 1]] || [0, 0, 0] : [0, 0, 0];
  }

  placeText(index) {
    const [file, line] = this.places ? this.places[index] || [0, 0] : [0, 0];
    return file ? this.sources[file - 1].name + ":" + line : "";
  }

  sourceLine(file, line) {
    if (!file || !this.sources[file - 1]) return "";
    return this.text("source:" + (file - 1)).lines[line - 1] || "";
  }
}

function splitLines(text) {
  const lines = text.split("\n");
  if (lines.length > 1 && lines[lines.length - 1] === "") lines.pop();
  return lines;
}

function makeDoc(json) {
  if (!json) return null;
  const doc = Object.assign({}, json);
  doc.codes = json.images || [];
  delete doc.images;
  return new Doc(doc);
}

const main = makeDoc(page.main), other = makeDoc(page.against);

// ---- The document's elements ----

function el(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else if (name === "class") e.className = value;
    else e.setAttribute(name, value === true ? "" : value);
  }
  return add(e, children);
}

// Nodes and texts, in lists too; null and false are nothing.
function add(parent, ...children) {
  for (const child of children.flat(9))
    if (child !== null && child !== undefined && child !== false)
      parent.append(child.nodeType ? child : String(child));
  return parent;
}

function svg(tag, attributes, ...children) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes || {}))
    if (value !== null && value !== undefined) e.setAttribute(name, value);
  return add(e, children);
}

function escapeHtml(s) {
  return s.replace(/[&<>]/g, c => c === "&" ? "&amp;" : c === "<" ? "&lt;" : "&gt;");
}

function table(head, rows) {
  return el("div", { class: "scroll", tabindex: "0" }, el("table", {},
    el("thead", {}, el("tr", {}, head.map(h => el("th", { scope: "col" }, h)))),
    el("tbody", {}, rows)));
}

function plural(n, word) { return n.toLocaleString("en") + " " + word + (n === 1 ? "" : "s"); }
