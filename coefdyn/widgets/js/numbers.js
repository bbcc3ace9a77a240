// The matrix with its reading line, and the row of numbers.

import { formatShare } from "./answer.js";
import { mixFinite } from "./blend.js";
import { element, setAttribute, setText } from "./dom.js";
import { largestMagnitude } from "./math.js";
import { cellAt, drawMatrix } from "./matrix.js";
import { CLASS_WORDS, formatNumber, formatPercent, formatSpectrum, halfLifeWords } from "./text.js";

// `plain` says of a model whether it is shown as in the first figure: no switch, and a sentence without scores.
export function makeMatrix(app, plain = () => false) {
  app.plain = plain;
  const canvas = element("canvas", { class: "cdx-canvas", tabindex: "0", role: "application",
    "aria-roledescription": "coefficient matrix", "data-cd": "matrix" });
  const reading = element("p", { class: "cdx-reading", "data-cd": "reading" });
  const legend = makeLegend(app);
  const node = element("figure", { class: "cdx-figure cdx-figure-matrix" },
    element("div", { class: "cdx-matrix-box" }, canvas, legend), reading);
  const choose = (event) => {
    const cell = cellAt(canvas, app.model.g.L, event.offsetX, event.offsetY);
    if (cell) app.change({ row: cell.row + 1, column: cell.column + 1 }, event.type === "pointerup");
  };
  // A finger chooses by a tap: where it slides, the page scrolls.
  canvas.addEventListener("pointerdown", (event) => {
    app.dragging = event.pointerType !== "touch";
    if (app.dragging) choose(event);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (app.dragging && event.buttons) choose(event);
  });
  canvas.addEventListener("pointerup", (event) => {
    app.dragging = false;
    choose(event);
  });
  const hover = (cell) => {
    app.hover = cell;
    app.schedule();
  };
  canvas.addEventListener("pointermove", (event) => {
    if (!event.buttons) hover(cellAt(canvas, app.model.g.L, event.offsetX, event.offsetY));
  });
  canvas.addEventListener("pointerleave", () => hover(null));
  canvas.addEventListener("keydown", (event) => moveCell(app, event));
  app.painters.push((model) => (plain(model) ? drawMatrix(canvas, fadedModel(app, asShares(model)), plainTheme(app.theme)) : drawMatrix(canvas, fadedModel(app, model), app.theme)));
  app.updaters.push((model) => {
    legend.hidden = plain(model);
    const words = plain(model) ? shareWords(model) : readingWords(model);
    setText(reading, words);
    setAttribute(canvas, "aria-label", `${model.g.L} by ${model.g.L} coefficients. ${words} Arrow keys move.`);
  });
  return node;
}

const FADE_MS = 320;

// From one row of Table 1 to the next the picture fades; the numbers are the new ones at once.
export function startFade(app) {
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  const { shown, top } = app.plain(app.model) ? asShares(app.model) : app.model;
  app.fade = { values: shown, top: top || 1, start: performance.now() };
}

function fadedModel(app, model) {
  const { fade } = app;
  const t = fade ? (performance.now() - fade.start) / FADE_MS : 1;
  if (t >= 1 || fade.values.length !== model.shown.length) {
    app.fade = null;
    return model;
  }
  app.schedule();
  const share = t * t * (3 - 2 * t);
  const top = model.top || 1;
  return { ...model, top: 1, epsilonShown: 0,
    shown: model.shown.map((x, at) => mixFinite(fade.values[at] / fade.top, x / top, share)) };
}

const CELL_MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

function moveCell(app, event) {
  app.hover = null;
  const move = CELL_MOVES[event.key];
  if (!move || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  const { L } = app.model.g;
  const row = Math.min(Math.max(app.settings.row + move[0], 1), L);
  const column = Math.min(Math.max(app.settings.column + move[1], 1), L);
  app.change({ row: Math.max(row, move[1] ? column : 1), column: Math.min(column, move[0] ? row : L) }, true);
}

// Whatever the lab's matrix shows, a first look gets what the answer is made of, in the same colours for every design.
const asShares = (model) => ({ ...model, shown: model.weights, top: Math.max(1, largestMagnitude(model.weights)), epsilonShown: 0 });
const plainTheme = (theme) => ({ ...theme, "near-zero": theme.zero });

// How much one word reads of another, as far as the answer has it: the divided coefficient.
function shareWords({ g, cell: { row, column }, weights }) {
  const [output, token] = [g.words[row], g.words[column]];
  if (row < column) return `“${output}” comes before “${token}”.`;
  return `“${output}” reads ${formatShare(weights[row * g.L + column])} of “${token}”.`;
}

export function readingWords({ g, cell: { row, column }, alpha, weights, scores }) {
  const { told } = g;
  const [output, token] = told ? [`“${g.words[row]}” at ${row + 1}`, `“${g.words[column]}” at ${column + 1}`] : [`Output ${row + 1}`, `token ${column + 1}`];
  if (row < column) return `${output} comes before ${token}: no coefficient.`;
  const at = row * g.L + column;
  return `${output} reads ${token}: score ${formatNumber(scores[at])}, α = ${formatNumber(alpha[at])}, α/η = ${formatNumber(weights[at])}.`;
}

// In the empty half of the matrix: what is shown, and what its colours mean.
function makeLegend(app) {
  const low = element("span", {});
  const high = element("span", {});
  const epsilon = element("span", {});
  const toggle = element("div", { class: "cdx-toggle", role: "group", "aria-label": "Matrix shows" },
    ...[["raw", "α"], ["normalized", "α ∕ η"]].map(([view, text]) => {
      const button = element("button", { type: "button", "data-cd": `view-${view}`, text,
        title: view === "raw" ? "raw coefficients" : "normalized coefficients",
        onclick: () => app.change({ view }, true) });
      app.updaters.push((model) => setAttribute(button, "aria-pressed", model.settings.view === view));
      return button;
    }));
  app.updaters.push((model) => {
    const signed = model.shown.some((x) => x < 0);
    setText(low, signed ? formatNumber(-model.top) : "0");
    setText(high, formatNumber(model.top));
    setAttribute(low.parentNode, "data-signed", signed);
    setText(epsilon, `|${model.symbol}| ≤ ${formatNumber(model.settings.epsilon)}`);
  });
  return element("div", { class: "cdx-legend" }, toggle,
    element("div", { class: "cdx-scale" }, low, element("i", { class: "cdx-bar" }), high),
    element("div", { class: "cdx-root", "data-cd": "scale-words", text: "colour ∝ √|value|" }),
    element("div", { class: "cdx-swatch" }, element("i", {}), epsilon));
}

export const NUMBERS = [
  ["near-zero-fraction", "near zero", "readout", (m) => [formatPercent(m.nearZero), m.nearZero, `|${m.symbol}| ≤ ${formatNumber(m.settings.epsilon)}`]],
  ["row-sum", "row sum", "normalizer", (m) => [formatNumber(m.sums[m.row]), m.sums[m.row], `row ${m.row + 1}; all rows ${formatNumber(m.sumLeast)} to ${formatNumber(m.sumMost)}`]],
  ["eigenvalues", "eigenvalues of A", "evolution", (m) => [formatSpectrum(m.spectrum), m.eigenvalues.join(" "), `at step ${m.row + 1}`]],
  ["class", "combination", "normalizer", (m) => [m.className, m.className, classCheck(m)]],
  ["overflow", "float32 overflows", "evolution", (m) => [horizonWords(m.horizon), m.horizon, growthWords(m.rate)]],
];

function classCheck(m) {
  const kept = { convex: ["convex"], conical: ["convex", "conical"], affine: ["convex", "affine"], linear: ["convex", "conical", "affine", "linear"] };
  return kept[m.className].includes(m.dataClass) ? `${CLASS_WORDS[m.className]}; row ${m.row + 1} is ${m.dataClass}` : `row ${m.row + 1} is ${m.dataClass}`;
}

function horizonWords(horizon) {
  if (horizon === Infinity) return "never";
  return horizon === 0 ? "at once" : `after ${horizon.toLocaleString("en")} tokens`;
}

function growthWords(rate) {
  if (!Number.isFinite(rate)) return rate > 0 ? "states leave every number format" : "states vanish";
  if (Math.abs(rate) < 1e-9) return "states keep their length";
  return `states: ${halfLifeWords(rate)} (${formatNumber(Math.abs(rate))} nats a token)`;
}

export function makeNumbers(app) {
  return element("dl", { class: "cdx-numbers" }, ...NUMBERS.map(([hook, name, ingredient, read]) => {
    const value = element("dd", { "data-cd": hook });
    const detail = element("dd", { class: "cdx-detail", "data-cd": `${hook}-detail` });
    app.updaters.push((model) => {
      const [text, raw, more] = read(model);
      setText(value, text);
      setAttribute(value, "data-value", raw);
      setText(detail, more);
    });
    return element("div", { class: `cdx-number cdx-number-${ingredient}` }, element("dt", { text: name }), value, detail);
  }));
}
