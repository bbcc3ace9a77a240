// One cell taken apart: every step of the product, and the sentence that says it in words.

import { element, setAttribute, setText, symbol } from "./dom.js";
import { eigenvalues } from "./eigenvalues.js";
import { advance, impulse, largestMagnitude, rowClass } from "./math.js";
import { formatEigenvalues, formatNumber } from "./text.js";
import { openCanvas, stroke, write } from "./theme.js";
import { drawStems } from "./views.js";
import SCHEMA from "../schema.json" with { type: "json" };

const INSPECT_ENDS = 8; // of a long product the first and the last steps are listed

export function makeInspect(app, box) {
  const sentence = element("p", { class: "cdx-sentence", "data-cd": "sentence" });
  const body = element("tbody");
  const heading = ["step t", symbol("A_t", "evolution"), "h", "|h|"].map((text) => element("th", { scope: "col" }, text));
  const table = element("div", { class: "cdx-scroll", tabindex: "0", role: "region", "aria-label": "The product, step by step" },
    element("table", { "data-cd": "product" }, element("thead", {}, element("tr", {}, ...heading)), body));
  const canvas = element("canvas", { class: "cdx-canvas", role: "img", "data-cd": "attention" });
  const caption = element("figcaption", {});
  box.append(sentence, element("div", { class: "cdx-columns" }, table, element("figure", { class: "cdx-figure" }, caption, canvas)));
  return (model) => {
    const cell = model.cell;
    setText(sentence, sentenceFor(model, cell));
    fillRows(body, listedSteps(productSteps(model, cell)), model.g);
    setText(caption, `Attention of output ${cell.row + 1}: α/η over j`);
    drawAttention(canvas, model, app.theme);
    setAttribute(canvas, "aria-label", attentionWords(model, cell.row));
  };
}

// The states on the way from token j to output i.
function productSteps({ g }, { row, column }) {
  if (row < column) return [];
  const h = impulse(g, column);
  const steps = [{ t: column, h: Array.from(h), first: true }];
  for (let t = column + 1; t <= row; t++) {
    advance(g, h, t);
    steps.push({ t, h: Array.from(h) });
  }
  return steps;
}

function listedSteps(steps) {
  if (steps.length <= 2 * INSPECT_ENDS + 1) return steps;
  return [...steps.slice(0, INSPECT_ENDS), null, ...steps.slice(-INSPECT_ENDS)];
}

function factorWords(g, t) {
  const values = eigenvalues(g, t);
  if (values.every((x) => x === 1)) return "× 1";
  const along = g.beta && g.beta[t] !== 0;
  const even = values.slice(0, -1).every((x) => x === values[0]);
  if (along && even) return `× ${formatNumber(values[0])}, along z × ${formatNumber(values.at(-1))}`;
  return `× ${formatEigenvalues(values)}`;
}

// Rows are kept and refilled: a table built anew would cost most of a frame.
function fillRows(body, steps, g) {
  while (body.children.length < steps.length) {
    body.append(element("tr", {}, element("th", { scope: "row" }), element("td"), element("td"), element("td")));
  }
  while (body.children.length > steps.length) body.lastChild.remove();
  steps.forEach((step, m) => stepTexts(step, g).forEach((text, c) => setText(body.children[m].children[c], text)));
}

function stepTexts(step, g) {
  if (!step) return ["⋮", "", "", ""];
  const { t, h, first } = step;
  const factor = first ? `b k, b = ${formatNumber(g.b[t])}` : factorWords(g, t);
  const shown = h.slice(0, 4).map((x) => formatNumber(x)).join(", ") + (h.length > 4 ? ", …" : "");
  return [String(t + 1), factor, shown, formatNumber(Math.hypot(...h))];
}

function sentenceFor(model, { row, column }) {
  const { g, alpha, weights, scores, eta } = model;
  if (row < column) return `Output ${row + 1} comes before token ${column + 1}, so it cannot read it.`;
  const at = row * g.L + column;
  const start = Math.hypot(...impulse(g, column));
  const end = Math.hypot(...productSteps(model, { row, column }).at(-1).h);
  const gap = row - column;
  const travel = gap === 0 ? "It is read at once, before any A acts."
    : `${gap === 1 ? "One step" : `${gap} steps`} of A ${changeWords(end / start)}.`;
  const readout = g.blend ? "the mixed readout" : SCHEMA.choices.readout.options[g.readout].split(":")[0];
  const score = model.isFeature ? "" : `Query ${row + 1} reads the score ${formatNumber(scores[at])}; `;
  const share = `divided by η = ${formatNumber(eta[row])} its weight is ${formatNumber(weights[at])}`;
  return `Token ${column + 1} is written with strength b = ${formatNumber(g.b[column])}. ${travel} ${score}${readout} makes α = ${formatNumber(alpha[at])}; ${share}.`;
}

function changeWords(ratio) {
  if (!Number.isFinite(ratio)) return "leave nothing to measure";
  if (Math.abs(ratio - 1) < 1e-9) return "keep its length";
  return ratio < 1 ? `shrink it to ${formatNumber(100 * ratio)} % of its length` : `stretch it to ${formatNumber(ratio)} times its length`;
}

function attentionWords(model, row) {
  const { g, weights, sums } = model;
  let best = 0;
  for (let j = 0; j <= row; j++) if (Math.abs(weights[row * g.L + j]) > Math.abs(weights[row * g.L + best])) best = j;
  return `Weights of output ${row + 1}. The largest is on token ${best + 1}: ${formatNumber(weights[row * g.L + best])}. Row sum ${formatNumber(sums[row])}, class ${rowClass(weights, g.L, row)}.`;
}

function drawAttention(canvas, model, theme) {
  const { g, weights, sums, cell } = model;
  const { ctx, width, height } = openCanvas(canvas);
  const values = Array.from(weights.slice(cell.row * g.L, cell.row * g.L + cell.row + 1));
  const top = largestMagnitude(values) || 1;
  const finite = values.filter(Number.isFinite).map((x) => x / top);
  const most = Math.max(0.25, ...finite);
  const least = Math.min(0, ...finite);
  const plot = { x: 4, y: 18, w: width - 8, h: height - 34 };
  const unit = plot.h / (most - least);
  const zero = plot.y + most * unit;
  const xAt = (j) => plot.x + ((j + 0.5) / g.L) * plot.w;
  stroke(ctx, [[plot.x, zero], [plot.x + plot.w, zero]], theme.line);
  drawStems(ctx, { column: 0 }, theme, { values, top, zero, unit, xAt, bar: Math.max(1.5, (plot.w / g.L) * 0.62), plot });
  if (cell.column <= cell.row) stroke(ctx, [[xAt(cell.column), plot.y], [xAt(cell.column), plot.y + plot.h]], theme.evolution, 1, [3, 3]);
  write(ctx, theme, `row sum ${formatNumber(sums[cell.row])}, ${rowClass(weights, g.L, cell.row)}`, plot.x, 12, { color: theme.normalizer });
  write(ctx, theme, `largest ${formatNumber(top)}`, plot.x + plot.w, 12, { align: "right" });
  write(ctx, theme, "j = 1", plot.x, height - 4);
  write(ctx, theme, `j = ${g.L}`, plot.x + plot.w, height - 4, { align: "right" });
}
