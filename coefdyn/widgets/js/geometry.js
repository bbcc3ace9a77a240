// Keys and queries under the reader's finger (n = 2), what A_t does to them, and where outputs can be.

import { element, setAttribute, setText } from "./dom.js";
import { drawNormal } from "./draws.js";
import { states } from "./math.js";
import { formatNumber } from "./text.js";
import { arrow, dot, openCanvas, stroke, write, zoomOf } from "./theme.js";
import { planePoints } from "./views.js";

const GEOMETRY_CASES = [
  ["scaling", "scaling", { structure: "scalar", decay: 0.9, flip: false, variation: 0 }],
  ["flipping", "flipping", { structure: "scalar", decay: 0.95, flip: true, variation: 0 }],
  ["projection", "projection", { structure: "householder", direction: "fixed", angle: 30, beta: 1, variation: 0 }],
  ["reflection", "reflection", { structure: "householder", direction: "fixed", angle: 30, beta: 2, variation: 0 }],
  ["rotation", "rotation from reflections", { structure: "householder", direction: "turning", angle: 12, beta: 2, variation: 0 }],
];

export function makeGeometry(app, box) {
  const canvas = element("canvas", { class: "cdx-canvas", role: "img", "data-cd": "geometry" });
  const outputs = element("canvas", { class: "cdx-canvas", role: "img", "data-cd": "outputs" });
  const handles = { k: geometryHandle(app, "k"), q: geometryHandle(app, "q") };
  const words = element("p", { class: "cdx-sentence", "data-cd": "geometry-words" });
  box.append(
    element("div", { class: "cdx-chips" }, ...GEOMETRY_CASES.map(([name, text, patch]) => element("button", { type: "button", class: "cdx-button",
      "data-cd": `geometry-${name}`, text, onclick: () => app.change({ width: 2, ...patch }, true) })),
    element("button", { type: "button", class: "cdx-button", "data-cd": "geometry-solid", text: "in three dimensions",
      onclick: () => app.change({ width: 3 }, true) })),
    words,
    element("div", { class: "cdx-columns" },
      element("figure", { class: "cdx-figure" }, element("figcaption", {}),
        element("div", { class: "cdx-drag" }, canvas, handles.k, handles.q)),
      element("figure", { class: "cdx-figure" }, element("figcaption", { text: "Outputs yᵢ and the set they may reach" }), outputs)));
  turnByHand(app, canvas);
  const caption = box.querySelector("figcaption");
  return (model) => {
    const solid = model.g.n === 3;
    setText(caption, solid ? "All states read by output i; drag to turn" : "Drag the key and the query; dots are A ⋯ A k");
    handles.k.hidden = handles.q.hidden = solid;
    app.geometry = solid ? drawSolid(canvas, model, app.theme, app.turn) : drawGeometry(canvas, model, app.theme);
    placeHandle(handles.k, model, app.geometry, "k");
    placeHandle(handles.q, model, app.geometry, "q");
    setText(words, geometryWords(model));
    setAttribute(canvas, "aria-label", geometryWords(model) + (solid ? " Arrow keys turn it." : ""));
    setAttribute(canvas, "role", solid ? "application" : "img");
    setAttribute(canvas, "tabindex", solid ? 0 : -1);
    setAttribute(canvas, "data-turns", solid);
    drawOutputs(outputs, model, app.theme);
    setAttribute(outputs, "aria-label", `Outputs of ${model.g.L} tokens with values in the plane. ${REACH_WORDS[model.className]}`);
  };
}

const pointOf = (model, kind) => {
  const t = kind === "k" ? model.column : model.row;
  return Array.from(model.g[kind].slice(t * model.g.n, t * model.g.n + 2));
};

function geometryHandle(app, kind) {
  const handle = element("button", { type: "button", class: `cdx-handle cdx-handle-${kind}`, "data-cd": `handle-${kind}`, text: kind });
  const move = (x, y, done) => {
    const name = `${kind}${(kind === "k" ? app.model.column : app.model.row) + 1}`;
    const limited = [x, y].map((value) => Math.round(Math.min(Math.max(value, -2.9), 2.9) * 100) / 100);
    app.change({ points: { ...app.settings.points, [name]: limited } }, done);
  };
  const follow = (event, done) => {
    const box = handle.parentNode.querySelector("canvas").getBoundingClientRect();
    const { cx, cy, scale } = app.geometry;
    const zoom = zoomOf(handle);
    move(((event.clientX - box.left) / zoom - cx) / scale, (cy - (event.clientY - box.top) / zoom) / scale, done);
  };
  handle.addEventListener("pointerdown", (event) => handle.setPointerCapture(event.pointerId));
  handle.addEventListener("pointermove", (event) => handle.hasPointerCapture(event.pointerId) && follow(event, false));
  handle.addEventListener("pointerup", () => app.commit());
  handle.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [0, 0.1], ArrowDown: [0, -0.1], ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0] }[event.key];
    if (!step) return;
    event.preventDefault();
    const [x, y] = pointOf(app.model, kind);
    move(x + step[0], y + step[1], true);
  });
  return handle;
}

function placeHandle(handle, model, view, kind) {
  const point = pointOf(model, kind);
  const [x, y] = view.at(point);
  const [right, bottom] = view.corner;
  const zoom = zoomOf(handle);
  handle.style.left = `${Math.min(Math.max(x, 0), right) * zoom}px`;
  handle.style.top = `${Math.min(Math.max(y, 0), bottom) * zoom}px`;
  const name = kind === "k" ? `Key of token ${model.column + 1}` : `Query of output ${model.row + 1}`;
  setAttribute(handle, "aria-label", `${name}: ${point.map((v) => formatNumber(v)).join(", ")}. Arrow keys move it.`);
}

const GEOMETRY_REACH = 3;

function drawGeometry(canvas, model, theme) {
  const { ctx, width, height } = openCanvas(canvas);
  const scale = Math.min(width, height) / 2 / GEOMETRY_REACH;
  const view = { cx: width / 2, cy: height / 2, corner: [width, height], scale, at: ([x, y]) => [width / 2 + x * scale, height / 2 - y * scale] };
  const { at } = view;
  stroke(ctx, [[0, view.cy], [width, view.cy]], theme.line);
  stroke(ctx, [[view.cx, 0], [view.cx, height]], theme.line);
  const q = pointOf(model, "q");
  const length = Math.hypot(...q) || 1;
  const across = [-q[1] / length, q[0] / length].map((x) => x * 20);
  stroke(ctx, [at(across), at(across.map((x) => -x))], theme.readout, 1.25, [4, 4]);
  write(ctx, theme, "score 0", ...zeroLabel(view, across, width, height), { color: theme.readout });
  if (model.g.z) drawDirection(ctx, model, theme, at);
  arrow(ctx, view.cx, view.cy, ...at(q), theme.ink, 2);
  arrow(ctx, view.cx, view.cy, ...at(pointOf(model, "k")), theme.scaling, 2);
  const points = planePoints(model).map((point) => point.map((x) => x / model.g.b[model.column]));
  stroke(ctx, points.map(at), theme.evolution, 1.25);
  points.forEach((point) => dot(ctx, ...at(point), 2.5, theme.evolution));
  const current = points[model.row - model.column];
  if (current) dot(ctx, ...at(current), 5, theme.evolution, theme.panel);
  return view;
}

// n = 3: directions of all states that output i reads, and the plane of directions that score 0.
function turnByHand(app, canvas) {
  app.turn = { yaw: 0.6, pitch: 0.4 };
  let last = null;
  const turn = (x, y) => {
    app.turn = { yaw: app.turn.yaw + x * 0.01, pitch: Math.min(Math.max(app.turn.pitch + y * 0.01, -1.5), 1.5) };
    app.schedule();
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (app.model.g.n !== 3) return;
    canvas.setPointerCapture(event.pointerId);
    last = [event.clientX, event.clientY];
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!last || !canvas.hasPointerCapture(event.pointerId)) return;
    turn(event.clientX - last[0], event.clientY - last[1]);
    last = [event.clientX, event.clientY];
  });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [0, -10], ArrowDown: [0, 10], ArrowLeft: [-10, 0], ArrowRight: [10, 0] }[event.key];
    if (!step || app.model.g.n !== 3) return;
    event.preventDefault();
    turn(...step);
  });
}

function stateDirections({ g, row, scores }) {
  const found = [];
  const size = Math.hypot(...g.q.slice(row * g.n, (row + 1) * g.n));
  for (let j = 0; j <= row; j++) {
    const h = Array.from(states(g, j).slice((row - j) * g.n));
    const length = Math.hypot(...h.slice(0, g.n));
    if (!(length > 0 && length < Infinity)) continue;
    found.push({ point: h.slice(0, g.n).map((x) => x / length), cosine: scores[row * g.L + j] / (length * size || 1) });
  }
  return found;
}

const NEAR_PLANE = 0.05;

function solidWords(model) {
  const near = stateDirections(model).filter(({ cosine }) => Math.abs(cosine) <= NEAR_PLANE).length;
  return `In space a query sends a whole plane to score 0: n − 1 = 2 independent states. Output ${model.row + 1} has ${near} of its ${model.row + 1} states within ${NEAR_PLANE} of that plane.`;
}

function drawSolid(canvas, model, theme, turn) {
  const { ctx, width, height } = openCanvas(canvas);
  const scale = (Math.min(width, height) / 2) * 0.86;
  const [cy, sy, cp, sp] = [Math.cos(turn.yaw), Math.sin(turn.yaw), Math.cos(turn.pitch), Math.sin(turn.pitch)];
  const view = { corner: [width, height], at: ([x, y, z = 0]) => [width / 2 + (cy * x + sy * z) * scale, height / 2 - (cp * y + sp * (sy * x - cy * z)) * scale] };
  const { at } = view;
  const q = Array.from(model.g.q.slice(model.row * 3, model.row * 3 + 3));
  const size = Math.hypot(...q) || 1;
  const unit = q.map((x) => x / size);
  ctx.globalAlpha = 0.18;
  ctx.fillStyle = theme.readout;
  ctx.beginPath();
  circleAcross(unit).forEach((p, m) => (m ? ctx.lineTo(...at(p)) : ctx.moveTo(...at(p))));
  ctx.fill();
  ctx.globalAlpha = 1;
  [[1, 0, 0], [0, 1, 0], [0, 0, 1]].forEach((axis) => stroke(ctx, [at(axis.map((x) => -x)), at(axis)], theme.line));
  arrow(ctx, ...at([0, 0, 0]), ...at(unit), theme.ink, 2);
  write(ctx, theme, "q", at(unit)[0] + 6, at(unit)[1] - 4, { color: theme.ink, weight: 600, size: 13 });
  for (const { point, cosine } of stateDirections(model)) {
    const near = Math.abs(cosine) <= NEAR_PLANE;
    stroke(ctx, [at([0, 0, 0]), at(point)], near ? theme.readout : theme.evolution, 0.75);
    dot(ctx, ...at(point), near ? 5 : 3.5, near ? theme.readout : theme.evolution, theme.panel);
  }
  return view;
}

// Points of the unit circle in the plane across a unit vector.
function circleAcross(u) {
  const least = u.map(Math.abs).indexOf(Math.min(...u.map(Math.abs)));
  const e = [0, 1, 2].map((c) => (c === least ? 1 : 0));
  const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
  const first = cross(u, e);
  const length = Math.hypot(...first);
  const a = first.map((x) => x / length);
  const b = cross(u, a);
  return Array.from({ length: 49 }, (_, m) => {
    const angle = (m / 48) * 2 * Math.PI;
    return a.map((x, c) => x * Math.cos(angle) + b[c] * Math.sin(angle));
  });
}

function zeroLabel(view, across, width, height) {
  const size = Math.hypot(...across);
  const reach = Math.min(width, height) / 2 / view.scale - 0.6;
  const [x, y] = view.at(across.map((v) => (v / size) * reach));
  return [Math.min(x + 4, width - 44), y];
}

function drawDirection(ctx, model, theme, at) {
  const t = model.row * model.g.n;
  const z = [model.g.z[t], model.g.z[t + 1]];
  stroke(ctx, [at(z.map((x) => -x * 1.2)), at(z.map((x) => x * 1.2))], theme.evolution, 1, [1, 3]);
  write(ctx, theme, "z", at(z)[0] + 6, at(z)[1] - 4, { color: theme.evolution });
}

function geometryWords(model) {
  const { g, settings: s } = model;
  if (g.n === 3) return solidWords(model);
  if (g.n !== 2) return `These are the first two of n = ${g.n} axes. A query can send n − 1 = ${g.n - 1} independent states to score 0.`;
  const kind = {
    identity: "A = I: the key stays where it was written.",
    scalar: s.flip ? "A flips and scales the key: it alternates between two half lines." : "A scales the key along its own line.",
    diagonal: "A scales each axis by its own factor.",
    erased_diagonal: "A scales each axis by its own factor and then takes off a part along z.",
    erased_channels: "A scales each axis by its own factor and then takes off z times what a gate for each axis lets through along z.",
    diagonal_rank_one: "A scales each axis by its own factor, less a part along z of what stood there before.",
  }[g.structure];
  return `${kind || householderWords(model) || "A lies between two designs."} In the plane a query sends only n − 1 = 1 direction to score 0: the dashed line.`;
}

// What a (I - beta z z^T) does at output i; nothing where a morph has one decay for each axis.
function householderWords({ g, row, settings: s }) {
  const [a, other] = g.decay ? g.decay.slice(row * g.n, row * g.n + 2) : [1, 1];
  if (!g.beta || a !== other) return "";
  if (!g.z.slice(row * g.n, (row + 1) * g.n).some(Boolean)) return `This word stores nothing, so it erases nothing: A ${a === 1 ? "leaves the state as it is" : `multiplies the state by ${formatNumber(a)}`}.`;
  const along = 1 - g.beta[row];
  const rest = a === 1 ? "" : `, the rest is multiplied by ${formatNumber(a)}`;
  if (Math.abs(along) < 1e-9) return `A projects: the part along z is gone${rest}.`;
  if (Math.abs(along + 1) > 1e-9) return `A multiplies the part along z by ${formatNumber(a * along)}${rest && `, the rest by ${formatNumber(a)}`}.`;
  if (a !== 1) return `A reflects and multiplies by ${formatNumber(a)}.`;
  return s.direction === "turning" ? "A reflects, each time across another line: two steps make a rotation." : "A reflects: two equal steps undo each other.";
}

const REACH_WORDS = {
  convex: "Convex: outputs stay in the hull of the values.",
  conical: "Conical: outputs stay in the cone of the values.",
  affine: "Affine: weights sum to one, but outputs may leave the hull.",
  linear: "Linear: outputs may be anywhere.",
};

// Two-dimensional values of the tokens, drawn from the seed like everything else.
function planeValues(model) {
  return model.g.ids.map((id) => [0, 1].map((c) => drawNormal(model.settings.seed, 8, id, c)));
}

function drawOutputs(canvas, model, theme) {
  const { ctx, width, height } = openCanvas(canvas);
  const { g, weights, row, className } = model;
  const values = planeValues(model);
  const outputs = values.map((_, i) => [0, 1].map((c) => values.slice(0, i + 1).reduce((sum, v, j) => sum + weights[i * g.L + j] * v[c], 0)));
  const finite = outputs.filter((y) => y.every(Number.isFinite));
  const reach = Math.max(...values.flat().map(Math.abs)) * 1.25;
  const scale = Math.min(width, height) / 2 / reach;
  const at = ([x, y]) => [width / 2 + x * scale, height / 2 - y * scale];
  ctx.globalAlpha = 0.16;
  ctx.fillStyle = theme.normalizer;
  fillReach(ctx, className, convexHull(values.slice(0, row + 1)), at, width, height);
  ctx.globalAlpha = 1;
  stroke(ctx, [[0, height / 2], [width, height / 2]], theme.line);
  stroke(ctx, [[width / 2, 0], [width / 2, height]], theme.line);
  values.forEach((v) => dot(ctx, ...at(v), 3.5, theme.panel, theme.muted));
  finite.forEach((y) => dot(ctx, ...at(y), 2, theme.positive));
  if (outputs[row].every(Number.isFinite)) dot(ctx, ...at(outputs[row]), 5, theme.normalizer, theme.panel);
  write(ctx, theme, `${className}; ○ values  ● outputs`, 4, height - 4);
}

function fillReach(ctx, className, hull, at, width, height) {
  ctx.beginPath();
  if (className === "linear" || className === "affine") ctx.rect(0, 0, width, height);
  else {
    const corners = className === "convex" ? hull : convexHull([[0, 0], ...hull.flatMap((v) => [v, v.map((x) => x * 50)])]);
    corners.forEach((v, m) => (m ? ctx.lineTo(...at(v)) : ctx.moveTo(...at(v))));
    ctx.closePath();
  }
  ctx.fill();
}

// Andrew's monotone chain.
function convexHull(points) {
  const sorted = [...points].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const turn = (o, a, b) => (a[0] - o[0]) * (b[1] - o[1]) - (a[1] - o[1]) * (b[0] - o[0]);
  const half = (list) => {
    const chain = [];
    for (const p of list) {
      while (chain.length >= 2 && turn(chain.at(-2), chain.at(-1), p) <= 0) chain.pop();
      chain.push(p);
    }
    return chain.slice(0, -1);
  };
  return sorted.length < 3 ? sorted : [...half(sorted), ...half(sorted.reverse())];
}
