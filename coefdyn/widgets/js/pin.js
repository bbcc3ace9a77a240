// A design kept beside the next one: two matrices, or their difference.

import { element, setAttribute, setText } from "./dom.js";
import { largestMagnitude } from "./math.js";
import { drawMatrix } from "./matrix.js";
import { designWords, formatNumber } from "./text.js";

export function pinButton(app) {
  return element("button", { type: "button", class: "cdx-button cdx-quiet", "data-cd": "pin", text: "Pin this design", onclick: () => {
    app.pinned = { model: app.model, name: designWords(app.settings), view: "pinned" };
    app.schedule();
  } });
}

// The pinned matrix, or what the present one has more (or less) than it.
export function makePinned(app) {
  const canvas = element("canvas", { class: "cdx-canvas", role: "img", "aria-label": "Nothing is pinned", "data-cd": "pinned" });
  const words = element("p", { class: "cdx-reading", "data-cd": "pinned-words" });
  const views = ["pinned", "difference"].map((view) => element("button", { type: "button", class: "cdx-button", "data-cd": `pin-${view}`, text: view,
    onclick: () => {
      app.pinned.view = view;
      app.schedule();
    } }));
  const end = element("button", { type: "button", class: "cdx-button cdx-end", "data-cd": "pin-end", "aria-label": "× unpin", text: "×",
    onclick: () => {
      app.pinned = null;
      app.schedule();
    } });
  const node = element("figure", { class: "cdx-figure cdx-figure-pin", hidden: true }, element("figcaption", {}, ...views, end), canvas, words);
  app.updaters.push((model) => {
    const { pinned } = app;
    node.hidden = !pinned;
    setAttribute(app.root, "data-pinned", Boolean(pinned));
    if (!pinned) return;
    const alike = pinned.model.g.L === model.g.L;
    views.forEach((button, m) => setAttribute(button, "aria-pressed", (m === 1) === (pinned.view === "difference" && alike)));
    views[1].disabled = !alike;
    const shown = pinned.view === "difference" && alike ? differenceOf(model, pinned.model) : pinned.model;
    drawMatrix(canvas, { ...shown, row: Math.min(model.row, shown.g.L - 1), column: Math.min(model.column, shown.g.L - 1) }, app.theme);
    setText(words, pinnedWords(model, pinned, alike));
    setAttribute(canvas, "aria-label", words.textContent);
  });
  return node;
}

function differenceOf(model, pinned) {
  const shown = model.shown.map((x, at) => (x === pinned.shown[at] ? 0 : x - pinned.shown[at]));
  return { ...model, shown, top: largestMagnitude(shown) };
}

function pinnedWords(model, { model: kept, name, view }, alike) {
  const { row, column } = model;
  if (!alike) return `Pinned: ${name}, with ${kept.g.L} tokens.`;
  const at = row * model.g.L + column;
  const pair = `${kept.symbol} was ${formatNumber(kept.shown[at])}, ${model.symbol} is ${formatNumber(model.shown[at])}`;
  return `${view === "difference" ? "Now minus pinned" : "Pinned"}: ${name}. In the chosen cell ${pair}.`;
}
