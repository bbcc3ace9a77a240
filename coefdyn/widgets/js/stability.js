// Eigenvalues against the unit circle, growth along the sequence, and what eta makes of it.

import { element, setAttribute, setText } from "./dom.js";
import { spectrum } from "./eigenvalues.js";
import { givenNormalizer } from "./ingredients.js";
import { advance, largestMagnitude, normalizerOf, weightsOf } from "./math.js";
import { formatNumber, formatSpectrum } from "./text.js";
import { dot, openCanvas, stroke, write } from "./theme.js";

const ETA_ANSWERS = [["one", "none"], ["geometric", "baseⁱ"], ["row_sum", "row sum"], ["floored", "floored row sum"]];

export function makeStability(app, box) {
  const plane = element("canvas", { class: "cdx-canvas", role: "img", "data-cd": "eigenvalue-plane" });
  const growth = element("canvas", { class: "cdx-canvas", role: "img", "data-cd": "growth" });
  const verdict = element("p", { class: "cdx-sentence", "data-cd": "stability-verdict" });
  const cells = ETA_ANSWERS.map(([name]) => element("td", { "data-cd": `eta-${name}` }));
  const table = element("table", {}, element("caption", { text: "Largest weight in the last row, by normalizer" }),
    element("thead", {}, element("tr", {}, ...ETA_ANSWERS.map(([, text]) => element("th", { scope: "col", text })))),
    element("tbody", {}, element("tr", {}, ...cells)));
  box.append(verdict, element("div", { class: "cdx-columns" },
    element("figure", { class: "cdx-figure" }, element("figcaption", { text: "Eigenvalues of A, unit circle" }), plane),
    element("figure", { class: "cdx-figure" }, element("figcaption", { text: "Largest |α| in row i, powers of ten" }), growth)),
  element("div", { class: "cdx-scroll", tabindex: "0", role: "region", "aria-label": "Largest weight by normalizer" }, table));
  return (model) => {
    const points = pointsOf(model);
    const largest = largestOf(points);
    const words = stabilityWords(model, largest);
    drawEigenvalues(plane, model, points, app.theme);
    drawGrowth(growth, model, app.theme);
    setText(verdict, words);
    setAttribute(plane, "aria-label", eigenvalueWords(model, largest));
    setAttribute(growth, "aria-label", words);
    ETA_ANSWERS.forEach(([name], m) => {
      const value = largestWeight(model, name);
      setText(cells[m], formatNumber(value));
      setAttribute(cells[m], "data-value", value);
      setAttribute(cells[m], "data-current", name === normalizerNow(model.g));
    });
  };
}

// Half way between two normalizers it is neither.
function normalizerNow({ normalizer, blend }) {
  if (!blend || blend.from.normalizer === blend.to.normalizer) return normalizer;
  return blend.t === 1 ? blend.to.normalizer : null;
}

function stabilityWords(model, top) {
  const over = top > 1 + 1e-9;
  const start = over ? `Some eigenvalue has size ${formatNumber(top)}, outside the unit circle.` : `No eigenvalue leaves the unit circle; the largest has size ${formatNumber(top)}.`;
  if (model.horizon === Infinity) return `${start} float32 never overflows at this growth.`;
  return model.horizon === 0 ? `${start} float32 overflows within the first tokens.`
    : `${start} At ${formatNumber(model.rate)} nats a token float32 overflows after about ${model.horizon} tokens.`;
}

// The last row's largest weight had eta been another; exp against a row sum in the logarithm, as everywhere.
function largestWeight(model, name) {
  const { g, alpha, logs, sums } = model;
  const given = name === "geometric" ? givenNormalizer(g, { normalizer: name, base: model.settings.base }, null) : null;
  const other = { ...g, normalizer: name, given };
  const eta = normalizerOf(other, name, given, model.settings.floor, sums);
  const weights = weightsOf(other, alpha, logs, eta);
  return largestMagnitude(weights.slice((g.L - 1) * g.L));
}

// Eigenvalues of one structured A_t are real; those of a dense one, or of two steps together (n = 2), may turn.
// The eigenvalues alone, for a slide.
export function makeEigenvalues(app) {
  const plane = element("canvas", { class: "cdx-canvas", role: "img", "data-cd": "eigenvalue-plane" });
  const words = element("span", { "data-cd": "eigenvalues" });
  const node = element("figure", { class: "cdx-figure cdx-figure-eigenvalues" }, element("figcaption", {}, "Eigenvalues of A: ", words), plane);
  app.painters.push((model) => node.hidden || drawEigenvalues(plane, model, pointsOf(model), app.theme));
  app.updaters.push((model) => {
    setText(words, formatSpectrum(model.spectrum));
    setAttribute(words, "data-value", model.eigenvalues.join(" "));
    setAttribute(plane, "aria-label", eigenvalueWords(model, largestOf(pointsOf(model))));
  });
  return node;
}

const pointsOf = ({ g }) => Array.from({ length: g.L - 1 }, (_, t) => spectrum(g, t + 1)).flat();
const largestOf = (points) => points.reduce((top, point) => Math.max(top, Math.hypot(...point)), 0);
const eigenvalueWords = (model, largest) => `Eigenvalues of A at step ${model.row + 1}: ${formatSpectrum(model.spectrum)}. The largest over all steps is ${formatNumber(largest)}.`;

function drawEigenvalues(canvas, model, points, theme) {
  const { ctx, width, height } = openCanvas(canvas);
  const scale = Math.min(width, height) / 2 / 1.45;
  const at = (re, im) => [width / 2 + re * scale, height / 2 - im * scale];
  stroke(ctx, [[0, height / 2], [width, height / 2]], theme.line);
  stroke(ctx, [[width / 2, 0], [width / 2, height]], theme.line);
  ctx.strokeStyle = theme.muted;
  ctx.lineWidth = 1.5;
  ctx.beginPath();
  ctx.arc(width / 2, height / 2, scale, 0, 2 * Math.PI);
  ctx.stroke();
  const { g } = model;
  const color = (size) => (size > 1 + 1e-9 ? theme.negative : theme.evolution);
  ctx.globalAlpha = 0.35;
  for (const point of points) dot(ctx, ...at(...point), 3, color(Math.hypot(...point)));
  ctx.globalAlpha = 1;
  if (g.n === 2 && model.row > 0) {
    for (const [re, im] of twoStepEigenvalues(g, model.row)) dot(ctx, ...at(re, im), 5, theme.panel, color(Math.hypot(re, im)));
  }
  for (const point of model.spectrum) dot(ctx, ...at(...point), 5, color(Math.hypot(...point)), theme.panel);
  write(ctx, theme, `● A at step ${model.row + 1}`, 4, 12);
  if (g.n === 2) write(ctx, theme, "○ two steps together", 4, 27);
}

// Of A_t A_{t-1} for n = 2, from trace and determinant: pairs [real, imaginary].
function twoStepEigenvalues(g, t) {
  const columns = [[1, 0], [0, 1]].map((unit) => {
    const h = Float64Array.from(unit);
    advance(g, h, t - 1);
    advance(g, h, t);
    return h;
  });
  const half = (columns[0][0] + columns[1][1]) / 2;
  const determinant = columns[0][0] * columns[1][1] - columns[1][0] * columns[0][1];
  const square = half * half - determinant;
  const root = Math.sqrt(Math.abs(square));
  return square >= 0 ? [[half + root, 0], [half - root, 0]] : [[half, root], [half, -root]];
}

// log10 of the largest |alpha| per row, carried on at the measured rate up to float32's limit.
function drawGrowth(canvas, model, theme) {
  const { ctx, width, height } = openCanvas(canvas);
  const { g, alpha, eta, weights } = model;
  const last = Math.min(Math.max(g.L * 2, Number.isFinite(model.horizon) ? model.horizon * 1.15 : 0), g.L * 40);
  const [low, high] = [-8, 42];
  const xAt = (i) => 4 + ((i - 1) / (last - 1)) * (width - 8);
  const yAt = (power) => height - 16 - ((Math.min(Math.max(power, low), high) - low) / (high - low)) * (height - 24);
  stroke(ctx, [[0, yAt(0)], [width, yAt(0)]], theme.line);
  stroke(ctx, [[0, yAt(38.53)], [width, yAt(38.53)]], theme.negative, 1.25, [5, 4]);
  write(ctx, theme, "float32’s largest, 3.4·10³⁸", 4, yAt(38.53) + 13, { color: theme.negative });
  const curve = (values) => Array.from({ length: g.L }, (_, i) => [xAt(i + 1), yAt(Math.log10(largestMagnitude(values.slice(i * g.L, i * g.L + i + 1)) || 1e-300))]);
  stroke(ctx, curve(alpha), theme.evolution, 2.25);
  const divided = eta.some((x) => x !== 1);
  if (divided) stroke(ctx, curve(weights), theme.normalizer, 2.25);
  if (g.readout !== "exp" && g.readout !== "feature_exp") {
    const from = Math.log10(largestMagnitude(alpha.slice((g.L - 1) * g.L)) || 1e-300);
    const end = from + ((last - g.L) * model.rate) / Math.LN10;
    if (model.rate > 1e-9) stroke(ctx, [[xAt(g.L), yAt(from)], [xAt(last), yAt(end)]], theme.evolution, 1.5, [3, 4]);
  }
  write(ctx, theme, "α", width / 2 - 14, height - 3, { color: theme.evolution, align: "center", weight: 600 });
  if (divided) write(ctx, theme, "α/η", width / 2 + 14, height - 3, { color: theme.normalizer, align: "center", weight: 600 });
  write(ctx, theme, "i = 1", 4, height - 3);
  write(ctx, theme, `i = ${Math.round(last)}`, width - 4, height - 3, { align: "right" });
}
