// The smaller pictures: impulse response, moving state, readout.

// Coefficients of token j over i as stems; the length of its state as a line.
function drawImpulse(canvas, model, theme) {
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
  const most = Math.max(0, ...values.filter(Number.isFinite)) / top;
  const zero = plot.y + plot.h * (most / Math.max(most - least, 1e-12));
  const unit = plot.h / Math.max(most - least, 1e-12);
  const xAt = (i) => plot.x + ((i + 0.5) / L) * plot.w;
  stroke(ctx, [[plot.x, zero], [plot.x + plot.w, zero]], theme.line);
  drawStems(ctx, model, theme, { values, top, zero, unit, xAt, bar: Math.max(1.5, (plot.w / L) * 0.62), plot });
  const longest = Math.max(...norms.filter(Number.isFinite), 1e-300);
  stroke(ctx, norms.map((x, m) => [xAt(j + m), plot.y + plot.h - plot.h * Math.min(x / longest, 1)]), theme.evolution, 2);
  if (row >= j) stroke(ctx, [[xAt(row), plot.y], [xAt(row), plot.y + plot.h]], theme.normalizer, 1, [3, 3]);
  write(ctx, theme, `${model.symbol}, largest ${formatNumber(top)}`, plot.x, 12);
  write(ctx, theme, `|h|, largest ${formatNumber(longest)}`, plot.x + plot.w, 12, { align: "right", color: theme.evolution });
  write(ctx, theme, `i = 1`, plot.x, height - 4);
  write(ctx, theme, `i = ${L}`, plot.x + plot.w, height - 4, { align: "right" });
}

function drawStems(ctx, model, theme, { values, top, zero, unit, xAt, bar, plot }) {
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

// h_ij in the plane, from the impulse (open) to output i (filled), with the query that reads it.
function drawPlane(canvas, model, theme) {
  const { ctx, width, height } = openCanvas(canvas);
  const view = planeView(model, width, height);
  const { at } = view;
  stroke(ctx, [[0, view.cy], [width, view.cy]], theme.line);
  stroke(ctx, [[view.cx, 0], [view.cx, height]], theme.line);
  ctx.strokeStyle = theme.line;
  ctx.beginPath();
  ctx.arc(view.cx, view.cy, view.scale, 0, 2 * Math.PI);
  ctx.stroke();
  const points = planePoints(model);
  stroke(ctx, points.map(at), theme.evolution, 1.25);
  points.forEach((point, m) => {
    if (m > 0 && m !== model.row - model.column) dot(ctx, ...at(point), 2, theme.evolution);
  });
  const q = Array.from(model.g.q.slice(model.row * model.g.n, model.row * model.g.n + 2));
  arrow(ctx, view.cx, view.cy, ...at(q), theme.normalizer, 2);
  write(ctx, theme, `q`, at(q)[0] + 5, at(q)[1] - 4, { color: theme.normalizer, weight: 600 });
  dot(ctx, ...at(points[0]), 5, theme.panel, theme.evolution);
  const current = points[model.row - model.column];
  if (current) {
    arrow(ctx, view.cx, view.cy, ...at(current), theme.evolution, 2.5);
    dot(ctx, ...at(current), 4.5, theme.evolution);
    write(ctx, theme, `h`, at(current)[0] + 6, at(current)[1] - 5, { color: theme.evolution, weight: 600 });
  }
  write(ctx, theme, model.g.n > 2 ? `first two of ${model.g.n} axes` : "unit circle", width - 6, height - 6, { align: "right" });
}

function planePoints(model) {
  const { n } = model.g;
  const points = [];
  for (let at = 0; at < model.path.length; at += n) {
    const point = [model.path[at], model.path[at + 1]];
    if (!point.every((x) => Math.abs(x) < 1e30)) break;
    points.push(point);
  }
  return points;
}

// The scale follows the query and the path up to output i, so that growth does not hide where it began.
function planeView(model, width, height) {
  const { g, row, column } = model;
  const upTo = planePoints(model).slice(0, Math.max(row - column, 0) + 1);
  const q = [g.q[row * g.n], g.q[row * g.n + 1]];
  const reach = Math.max(1, ...[...upTo, q].map(([x, y]) => Math.hypot(x, y)));
  const scale = (Math.min(width, height) / 2 - 12) / reach;
  const [cx, cy] = [width / 2, height / 2];
  return { cx, cy, scale, at: ([x, y]) => [cx + x * scale, cy - y * scale] };
}

const PHI_RANGE = { x0: -8, x1: 4, y0: -1.6, y1: 4 };

// phi (or one coordinate of psi) with its near-zero set shaded and the scores of the matrix as a rug.
function drawReadout(canvas, model, theme) {
  const { ctx, width, height } = openCanvas(canvas);
  const { x0, x1, y0, y1 } = PHI_RANGE;
  const xAt = (s) => ((s - x0) / (x1 - x0)) * width;
  const yAt = (v) => height - 14 - ((v - y0) / (y1 - y0)) * (height - 20);
  for (const [from, to, strength] of model.nearZeroSets) {
    const left = xAt(Math.max(from, x0));
    ctx.globalAlpha = 0.16 * strength;
    ctx.fillStyle = theme.readout;
    ctx.fillRect(left, 0, Math.max(xAt(Math.min(to, x1)) - left, 1.5), height - 14);
  }
  ctx.globalAlpha = 1;
  stroke(ctx, [[0, yAt(0)], [width, yAt(0)]], theme.line);
  stroke(ctx, [[xAt(0), 0], [xAt(0), height - 14]], theme.line);
  const curve = [];
  for (let m = 0; m <= 120; m++) {
    const s = x0 + ((x1 - x0) * m) / 120;
    const value = model.phi(s);
    if (value <= y1 + 1) curve.push([xAt(s), yAt(value)]);
  }
  stroke(ctx, curve, theme.readout, 2.25);
  if (model.isFeature) write(ctx, theme, "ψ, one coordinate", 6, 12, { color: theme.readout, weight: 600 });
  else drawRug(ctx, model, theme, { xAt, yAt, height });
  write(ctx, theme, formatNumber(x0), 4, height - 3);
  write(ctx, theme, model.isFeature ? "x" : "score s = qᵀh", width / 2, height - 3, { align: "center" });
  write(ctx, theme, String(x1), width - 4, height - 3, { align: "right" });
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
  dot(ctx, Math.min(Math.max(xAt(score), 4), ctx.canvas.clientWidth - 4), Math.max(yAt(value), 5), 4, theme.ink, theme.panel);
}
