// SPDX-License-Identifier: Apache-2.0
// Tabs, keys, dark and light.
const views = {};
const tabs = [["summary", "Summary"], ["source", "Source"], ["passes", "Passes"], ["why", "Remarks"], ["layouts", "Layouts"], ["time", "Time"], ["masks", "Masks"]];

function makeViews(doc) {
  Object.assign(views, { summary: new SummaryView(doc), source: new SourceView(doc), passes: new PassesView(doc), why: new WhyView(doc),
    layouts: new LayoutsView(doc), time: new TimeView(doc), masks: new MasksView(doc) });
  if (other) views.compare = new CompareView(main, other);
}

let open = null;

function openTab(name) {
  open = name;
  const box = document.getElementById("main");
  box.className = "";
  box.textContent = "";
  box.scrollTop = 0;
  for (const button of document.querySelectorAll("#tabs button")) {
    const is = button.dataset.tab === name;
    button.setAttribute("aria-selected", String(is));
    button.tabIndex = is ? 0 : -1;
    if (is) button.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
  box.dataset.view = name;
  views[name].show(box);
  history.replaceState(null, "", "#" + name);
}

function fillHead(doc) {
  document.title = doc.name() + " – tilec inspect";
  document.getElementById("title").textContent = doc.name();
  const facts = document.getElementById("facts");
  facts.textContent = "";
  if (!doc.ok) { facts.append(plural(doc.diagnostics.filter(d => d.severity === "error").length, "error")); return; }
  const set = doc.bindings.filter(b => b.value !== null).map(b => `${b.name}=${b.value}`);
  facts.append("for ", el("b", {}, doc.target.name), ` · tilec ${doc.tilec} · `);
  facts.append(el("span", { title: set.join("\n") }, set.slice(0, 7).join(" ") + (set.length > 7 ? " …" : "")));
  if (other) facts.append(" · ", el("select", { "aria-label": "which compile", onchange: e => { fillHead(e.target.value === "b" ? other : main); makeViews(e.target.value === "b" ? other : main); openTab(open); } },
    el("option", { value: "a" }, "left: " + main.target?.name), el("option", { value: "b", selected: doc === other }, "right: " + (other.target ? `${other.name()}, ${other.target.name}` : "wrong"))));
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
}

document.addEventListener("keydown", e => {
  if (e.ctrlKey || e.altKey || e.metaKey || /INPUT|SELECT|TEXTAREA/.test(e.target.tagName)) return;
  if (e.key >= "1" && e.key <= String(tabs.length)) openTab(tabs[+e.key - 1][0]);
  else if (e.key === "/" && open === "source") (views.source.panes.find(p => p.element.contains(document.activeElement)) || views.source.panes[0]).search.focus();
  else if (e.target.role === "tab" && (e.key === "ArrowRight" || e.key === "ArrowLeft")) {
    const at = tabs.findIndex(t => t[0] === open), next = (at + (e.key === "ArrowRight" ? 1 : tabs.length - 1)) % tabs.length;
    openTab(tabs[next][0]);
    document.querySelector("#tabs [aria-selected=true]").focus();
  } else return;
  e.preventDefault();
});

(function start() {
  const wish = /[?&]theme=(dark|light)/.exec(location.search);
  const media = matchMedia("(prefers-color-scheme: dark)");
  setTheme(wish ? wish[1] : media.matches ? "dark" : "light");
  if (!wish) media.addEventListener("change", () => { setTheme(media.matches ? "dark" : "light"); openTab(open); });
  document.getElementById("theme").addEventListener("click", () => { setTheme(dark() ? "light" : "dark"); openTab(open); });
  makeViews(main);
  if (other) tabs.unshift(["compare", "Two at once"]);
  fillHead(main);
  const bar = document.getElementById("tabs");
  tabs.forEach(([name, words], i) => bar.append(el("button", { type: "button", role: "tab", "data-tab": name, onclick: () => openTab(name) }, words, el("kbd", {}, i + 1))));
  const asked = location.hash.slice(1);
  openTab(views[asked] ? asked : other ? "compare" : "summary");
})();
