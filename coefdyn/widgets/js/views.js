// The smaller pictures: impulse response, moving state, readout.

import { setAttribute } from "./dom.js";
import { largestMagnitude } from "./math.js";
import { formatNumber } from "./text.js";
import { arrow, dot, openCanvas, sizeOf, stroke, write } from "./theme.js";

// Coefficients of token j over i as stems; the length of its state as a line.
export function drawImpulse(canvas, model, theme) {
  const { ctx, width, height } = openCanvas(canvas);
  const { g, column: j, row } = model;
  const { L, n } = g;
  const plot = { x: 8, y: 18, w: width - 16, h: height - 34 };
  const values = [];
  const norms = [];
  for (let i = j; i < L; i++) {
    values.push(model.shown[i * L + j]);
    let square = 0;
    for (let c = 0; c < n; c++) square += model.path[(i - j) * n + c] ** 2;
    norms.push(Math.sqrt(square));
  }
  const top = largestMagnitude(values) || 1;
  const least = Math.min(0, ...values.filter(Number.isFinite)) / top;
  const most = Math.max(0.25, ...values.filter(Number.isFinite).map((x) => x / top));
  const zero = plot.y + plot.h * (most / Math.max(most - least, 1e-12));
  const unit = plot.h / Math.max(most - least, 1e-12);
  const xAt = (i) => plot.x + ((i + 0.5) / L) * plot.w;
  stroke(ctx, [[plot.x, zero], [plot.x + plot.w, zero]], theme.line);
  drawStems(ctx, model, theme, { values, top, zero, unit, xAt, bar: Math.max(1.5, (plot.w / L) * 0.62), plot });
  const longest = Math.max(...norms.filter(Number.isFinite), 1e-300);
  stroke(ctx, norms.map((x, m) => [xAt(j + m), zero - (zero - plot.y) * Math.min(x / longest, 1)]), theme.evolution, 2);
  if (row >= j) stroke(ctx, [[xAt(row), plot.y], [xAt(row), plot.y + plot.h]], theme.ink, 1, [3, 3]);
  write(ctx, theme, `${model.symbol}, largest ${formatNumber(top)}`, plot.x, 12);
  write(ctx, theme, `|h|, largest ${formatNumber(longest)}`, plot.x + plot.w, 12, { align: "right", color: theme.evolution });
  write(ctx, theme, `i = 1`, plot.x, height - 4);
  write(ctx, theme, `i = ${L}`, plot.x + plot.w, height - 4, { align: "right" });
}

export function drawStems(ctx, model, theme, { values, top, zero, unit, xAt, bar, plot }) {
  values.forEach((value, m) => {
    const x = xAt(model.column + m) - bar / 2;
    if (!Number.isFinite(value)) {
      ctx.fillStyle = theme.overflow;
      ctx.fillRect(x, plot.y, bar, plot.h);
      return;
    }
    const length = (value / top) * unit;
    ctx.fillStyle = value < 0 ? theme.negative : theme.positive;
    ctx.fillRect(x, length >= 0 ? zero - length : zero, bar, Math.max(Math.abs(length), 1));
  });
}

// h_ij in the plane, from the impulse (open) to output i (filled). The circle has the impulse's length: inside it
// the state has shrunk, outside it has grown. The query shows the direction it reads along.
export function drawPlane(canvas, model, theme) {
  const { ctx, width, height } = openCanvas(canvas);
  const view = planeView(model, width, height, canvas.reach);
  const { at } = view;
  stroke(ctx, [[0, view.cy], [width, view.cy]], theme.line);
  stroke(ctx, [[view.cx, 0], [view.cx, height]], theme.line);
  ctx.strokeStyle = theme.line;
  ctx.lineWidth = 1.5;
  ctx.beginPath();
  ctx.arc(view.cx, view.cy, view.scale * view.start, 0, 2 * Math.PI);
  ctx.stroke();
  stroke(ctx, view.points.map(at), theme.evolution, 1.25);
  view.points.slice(1).forEach((point) => dot(ctx, ...at(point), 2, theme.evolution));
  drawQuery(ctx, model, theme, view);
  const current = view.points[model.row - model.column];
  if (current) {
    arrow(ctx, view.cx, view.cy, ...at(current), theme.evolution, 2.5);
    dot(ctx, ...at(current), 4.5, theme.evolution);
    const right = current[0] >= 0 ? 1 : -1;
    write(ctx, theme, `h`, at(current)[0] + 8 * right, at(current)[1] - 6,
      { color: theme.evolution, weight: 600, align: "center", size: 13 });
  }
  dot(ctx, ...at(view.points[0]), 4.5, theme.panel, theme.evolution);
  if (model.g.n > 2) write(ctx, theme, `2 of ${model.g.n} axes`, width - 4, height - 5, { align: "right" });
}

// The direction of q_i, and the foot of h on it: the score is that length times |q|.
function drawQuery(ctx, model, theme, view) {
  const [x, y] = queryInPlane(model);
  const length = Math.hypot(x, y);
  if (length === 0) return;
  const unit = [x / length, y / length];
  const tip = unit.map((u) => (u * view.reach));
  arrow(ctx, view.cx, view.cy, ...view.at(tip), theme.ink, 1.75);
  const [tx, ty] = view.at(tip.map((u) => u * 0.9));
  write(ctx, theme, "q", tx - 9 * unit[1], ty - 9 * unit[0] + 4, { color: theme.ink, weight: 600, align: "center", size: 13 });
  const current = view.points[model.row - model.column];
  if (!current) return;
  const along = current[0] * unit[0] + current[1] * unit[1];
  stroke(ctx, [view.at(current), view.at(unit.map((u) => u * along))], theme.muted, 1, [2, 3]);
}

function queryInPlane({ g, row }) {
  return firstTwo(g.q, row * g.n, g.n);
}

// With n = 1 the plane is a line.
function firstTwo(values, at, n) {
  return [values[at], n > 1 ? values[at + 1] : 0];
}

export function planePoints(model) {
  const { n } = model.g;
  const points = [];
  for (let at = 0; at < model.path.length; at += n) {
    const point = firstTwo(model.path, at, n);
    if (at > 0 && !point.every((x) => Math.abs(x) < 1e30)) break;
    points.push(point);
  }
  return points;
}

// The scale follows the path up to output i, so that growth does not hide where it began; it rests while a hand draws.
export function planeView(model, width, height, held) {
  const points = planePoints(model);
  const upTo = points.slice(0, Math.max(model.row - model.column, 0) + 1);
  const reach = held ?? Math.max(1e-12, ...upTo.map(([x, y]) => Math.hypot(x, y))) * 1.15;
  const scale = (Math.min(width, height) / 2 - 8) / reach;
  const [cx, cy] = [width / 2, height / 2];
  return { cx, cy, scale, reach, points, start: Math.hypot(...points[0]), at: ([x, y]) => [cx + x * scale, cy - y * scale] };
}

// exp and softplus are near zero far on the left; a straight readout is drawn around the scores there are.
export function readoutRange(model) {
  const straight = model.readouts.every((name) => name === "identity" || name === "relu");
  if (!straight) {
    const highest = model.scores.reduce((top, s) => (s < Infinity ? Math.max(top, s) : top), 0);
    return { x0: -8, x1: highest > 4 ? niceCeiling(highest) : 4, y0: -1.6, y1: 4 };
  }
  const reach = niceCeiling(1.1 * Math.max(largestMagnitude(model.scores), 2 * model.settings.epsilon, 1e-9));
  return { x0: -reach, x1: reach, y0: -1.1 * reach, y1: 1.1 * reach };
}

// The next of 1, 2, 5, 10, 20, 50, ...
function niceCeiling(x) {
  const power = 10 ** Math.floor(Math.log10(x));
  return power * [1, 2, 5, 10].find((step) => x <= step * power * (1 + 1e-12));
}

// phi (or one coordinate of psi) with its near-zero set shaded and the scores of the matrix as a rug.
export function drawReadout(canvas, model, theme) {
  const { ctx, width, height } = openCanvas(canvas);
  const { x0, x1, y0, y1 } = readoutRange(model);
  setAttribute(canvas, "data-range", `${x0} ${x1}`);
  const xAt = (s) => ((s - x0) / (x1 - x0)) * width;
  const yAt = (v) => height - 14 - ((v - y0) / (y1 - y0)) * (height - 20);
  for (const [from, to, strength] of model.nearZeroSets) {
    const left = xAt(Math.max(from, x0));
    ctx.globalAlpha = 0.16 * strength;
    ctx.fillStyle = theme.readout;
    ctx.fillRect(left, 0, Math.max(xAt(Math.min(to, x1)) - left, 3), height - 14);
  }
  ctx.globalAlpha = 1;
  stroke(ctx, [[0, yAt(0)], [width, yAt(0)]], theme.line);
  stroke(ctx, [[xAt(0), 0], [xAt(0), height - 14]], theme.line);
  const curve = [];
  for (let m = 0; m <= 120; m++) {
    const s = x0 + ((x1 - x0) * m) / 120;
    const value = model.phi(s);
    if (value <= 1.25 * y1) curve.push([xAt(s), yAt(value)]);
  }
  ctx.save();
  ctx.beginPath();
  ctx.rect(0, 0, width, height - 14);
  ctx.clip();
  stroke(ctx, curve, theme.readout, 2.25);
  ctx.restore();
  if (model.isFeature) write(ctx, theme, "ψ, one coordinate", 6, 12, { color: theme.readout, weight: 600 });
  else drawRug(ctx, model, theme, { xAt, yAt, height });
  write(ctx, theme, formatNumber(x0), 4, height - 3);
  write(ctx, theme, model.isFeature ? "x" : "score s = qᵀh", width / 2, height - 3, { align: "center" });
  write(ctx, theme, formatNumber(x1), width - 4, height - 3, { align: "right" });
}

function drawRug(ctx, model, theme, { xAt, yAt, height }) {
  const { L } = model.g;
  ctx.globalAlpha = 0.45;
  ctx.fillStyle = theme.ink;
  for (let i = 0; i < L; i++) {
    for (let j = 0; j <= i; j++) ctx.fillRect(xAt(model.scores[i * L + j]), height - 19, 1, 5);
  }
  ctx.globalAlpha = 1;
  if (model.row < model.column) return;
  const score = model.scores[model.row * L + model.column];
  const value = model.phi(score);
  dot(ctx, Math.min(Math.max(xAt(score), 4), sizeOf(ctx.canvas)[0] - 4), Math.max(yAt(value), 5), 4, theme.ink, theme.panel);
}
