// Each control in one sentence, with the chapter that says more.

import { element, setAttribute, setText } from "./dom.js";

const HELP = {
  structure: ["What one step does to the stored state: nothing, one factor, a factor for each channel, an erasing reflection, or both.", "architectures/table1"],
  direction: ["The direction along which A erases or reflects.", "foundations/coefficient_dynamics"],
  decay: ["The share of the state that is left after one step: 1 keeps all, less forgets, more grows.", "architectures/mamba2"],
  spread: ["How much the channels differ: at 0 all keep the same share, at 1 some keep nearly all.", "architectures/gla"],
  angle: ["How far z is turned away from the key.", "architectures/deltanet"],
  beta: ["How much a write erases along its key: 0 nothing, 1 everything, 2 turns it round.", "architectures/deltanet"],
  variation: ["How much gates differ from word to word; at 0 all words are treated alike.", "architectures/gla"],
  scaling: ["How loudly a key is written into the state.", "principles/principle_5"],
  scale: ["A factor on every key, and so on every score.", "principles/principle_5"],
  readout: ["What makes a coefficient of the score.", "principles/principle_2"],
  beside: ["What acts outside φ: a decay with age, a term of the token's own, a place for unwanted weight, or a window.", "since/exp_row"],
  fade: ["The share of a coefficient that is left after one step; the score and φ know nothing of it.", "since/exp_row"],
  own: ["What every token adds of its own value, past all scores.", "architectures/mamba2"],
  sink: ["exp of this number is added to the row sum: the larger, the less a row hands out.", "since/exp_row"],
  window: ["So many tokens are read, the token itself included.", "since/exp_row"],
  epsilon: ["Coefficients up to this size count as near zero, that is, as switched off.", "principles/principle_2"],
  normalizer: ["What a row of coefficients is divided by.", "principles/principle_6"],
  floor: ["A row sum below this number counts as this number.", "architectures/mlstm"],
  base: ["Row i is divided by this number to the power i.", "principles/principle_6"],
  tokens: ["Words with facts of your own, five letters that repeat, or tokens that are all different.", "start"],
  width: ["Numbers in a key: as many words as that can be kept apart without a trace of each other.", "principles/principle_4"],
  seed: ["Another number draws other keys and gates.", "start"],
  flip: ["The state changes its sign at every step.", "principles/principle_4"],
};

// Why a control that is on show has no effect beside the others; empty where it has one.
export const IDLE = {
  sink(s) {
    if (s.normalizer !== "row_sum") return "No effect here: a sink takes part in a row sum, and η is no row sum.";
    return s.readout === "identity" ? "No effect with the identity: its coefficients have either sign, so their sum is no weight to share with a sink." : "";
  },
};

export function makeIdle(key, app) {
  const note = element("p", { class: "cdx-idle", "data-cd": `idle-${key}`, hidden: true });
  app.updaters.push(({ settings }) => {
    const words = IDLE[key](settings);
    note.hidden = words === "";
    setText(note, words);
  });
  return note;
}

// Where the book's pages are, seen from this one; nowhere in JupyterLab.
const bookRoot = () => document.documentElement.dataset.content_root;

function makeHelp(key, label) {
  const [sentence, chapter] = HELP[key];
  const text = element("span", { class: "cdx-help-text", hidden: true }, `${sentence} `,
    bookRoot() === undefined ? null : element("a", { href: `${bookRoot()}${chapter}.html`, text: "More" }));
  const button = element("button", { type: "button", class: "cdx-help", "data-cd": `help-${key}`, "aria-label": `i, about ${label}`, "aria-expanded": "false", text: "i", title: sentence,
    onclick: () => {
      text.hidden = !text.hidden;
      setAttribute(button, "aria-expanded", !text.hidden);
    } });
  return [button, text];
}

// A control with its sentence: the sign stands after the label.
export function withHelp(key, node) {
  if (!HELP[key]) return node;
  const label = node.querySelector("label");
  const [button, text] = makeHelp(key, label.textContent);
  label.after(button);
  node.append(text);
  return node;
}
