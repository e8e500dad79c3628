// SPDX-License-Identifier: Apache-2.0
// Drawings with parts: the mouse, a tap or arrow keys pick one, which is then
// told below the drawing with a link to its place; Enter follows the link.

// parts: {node, words, place: what views.source.go takes, or null}.
function withParts(picture, parts, hint) {
  const tell = el("p", { class: "dim tell", "aria-live": "polite" }, hint);
  let at = -1;
  const pick = i => {
    if (at >= 0) parts[at].node.classList.remove("picked");
    at = i;
    parts[i].node.classList.add("picked");
    tell.textContent = "";
    add(tell, parts[i].words, " ", parts[i].place && el("button", { type: "button", class: "go", onclick: () => views.source.go(parts[i].place) }, "source"));
  };
  parts.forEach((part, i) => {
    part.node.addEventListener("mouseenter", () => pick(i));
    part.node.addEventListener("click", () => pick(i));
  });
  picture.setAttribute("tabindex", "0");
  picture.addEventListener("keydown", e => {
    const way = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -1e9, End: 1e9 }[e.key];
    if (way && parts.length) pick(Math.max(0, Math.min(parts.length - 1, at + way)));
    else if (e.key === "Enter" && at >= 0 && parts[at].place) views.source.go(parts[at].place);
    else return;
    e.preventDefault();
  });
  return [el("div", { class: "scroll" }, picture), tell];
}
