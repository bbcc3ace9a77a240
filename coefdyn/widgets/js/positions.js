// Lemma 3: the same token at two positions. Do its two coefficients separate?

import { controlGroup } from "./controls.js";
import { element, setAttribute, setText } from "./dom.js";
import { formatNumber } from "./text.js";

const POSITION_CASES = [
  ["identity", "A = I", { structure: "identity" }],
  ["decay", "a decay", { structure: "scalar", decay: 0.9, flip: false }],
  ["reflection", "the same reflection every step", { structure: "householder", direction: "fixed", beta: 2, variation: 0 }],
  ["turning", "a turning reflection", { structure: "householder", direction: "turning", angle: 20, beta: 2, variation: 0 }],
];

export function makePositions(app, box) {
  const verdict = element("p", { class: "cdx-sentence", "data-cd": "positions-verdict" });
  const first = element("dd", { "data-cd": "position-first" });
  const second = element("dd", { "data-cd": "position-second" });
  const numbers = element("dl", { class: "cdx-numbers" },
    element("div", { class: "cdx-number cdx-number-evolution" }, element("dt", { text: "α on the token" }), first),
    element("div", { class: "cdx-number cdx-number-evolution" }, element("dt", { text: "α on its copy" }), second));
  const cases = element("div", { class: "cdx-chips" }, ...POSITION_CASES.map(([name, text, patch]) => element("button", {
    type: "button", class: "cdx-button", "data-cd": `position-${name}`, text,
    onclick: () => app.change({ ...patch, ...copyPlace(app.settings) }, true) })));
  box.append(element("p", { class: "cdx-hint", text: "Repeat token j at a later position; the copy is the same input, gates included." }),
    cases, element("div", { class: "cdx-columns" }, ...controlGroup(["duplicate"], app)), numbers, verdict);
  return (model) => {
    const { column, g, alpha } = model;
    const copy = model.settings.duplicate - 1;
    const row = Math.max(model.row, copy);
    numbers.hidden = copy < 0 || copy === column;
    setText(verdict, positionWords(model, copy, row));
    if (numbers.hidden) return;
    const values = [column, copy].map((j) => alpha[row * g.L + j]);
    [first, second].forEach((node, m) => {
      setText(node, formatNumber(values[m], 6));
      setAttribute(node, "data-value", values[m]);
    });
  };
}

// A copy two steps later, read a little after: where a constant reflection fails to separate them.
function copyPlace(s) {
  const column = Math.min(s.column, Math.max(s.length - 3, 1));
  const duplicate = s.duplicate > column ? s.duplicate : Math.min(column + 2, s.length);
  return { column, duplicate, row: Math.max(s.row, duplicate) };
}

function positionWords(model, copy, row) {
  const { column, g, alpha } = model;
  if (copy < 0) return "No copy yet: move the slider, or choose a case.";
  if (copy === column) return "The copy stands on the token itself.";
  const [a, b] = [alpha[row * g.L + column], alpha[row * g.L + copy]];
  const gap = Math.abs(copy - column);
  if (!Number.isFinite(a) && a === b) return "Both coefficients are too large to be told apart.";
  const where = `Output ${row + 1} reads token ${column + 1} and its copy ${gap} ${gap === 1 ? "step" : "steps"} away`;
  if (Math.abs(a - b) > 1e-12 * Math.max(1, Math.abs(a))) return `${where} differently: the product of A between them is felt, and tells the positions apart.`;
  if (g.structure === "identity") return `${where} alike: with A = I nothing separates them (Lemma 3).`;
  return `${where} alike although A ≠ I: the product between them is I, or φ maps both to one value.`;
}
