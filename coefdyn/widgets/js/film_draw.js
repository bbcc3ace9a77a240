// The pictures of a training film: the matrix with its tokens, and the curves with a cursor.

import { drawGaps, frame, matrixBuffer, matrixPixels } from "./matrix.js";
import { formatNumber } from "./text.js";
import { dot, openCanvas, stroke, write } from "./theme.js";

export function filmLayout(width, height) {
  const margin = { left: 32, bottom: 34, top: 6 };
  const wide = width >= 560 || width > 1.5 * height; // a slide is wide and low
  const room = wide ? [width * 0.56, height] : [width, height - 150];
  const side = Math.max(60, Math.min(room[0] - margin.left - 4, room[1] - margin.top - margin.bottom));
  const x = margin.left + (wide ? 0 : Math.max(0, (room[0] - side - margin.left) / 2));
  const matrix = { x, y: margin.top, side };
  const [left, top] = wide ? [x + side + 56, 0] : [margin.left + 10, side + margin.top + margin.bottom];
  const [w, h] = [width - left - 8, height - top];
  const half = wide ? { w, h: h / 2 } : { w: (w - 46) / 2, h };
  return { matrix, panels: [{ x: left, y: top, ...half }, wide ? { x: left, y: top + h / 2, ...half } : { x: left + half.w + 46, y: top, ...half }] };
}

export function drawFilm(canvas, result, theme) {
  const { ctx, width, height } = openCanvas(canvas);
  const { film, L } = result;
  const { matrix, panels } = filmLayout(width, height);
  const box = { ...matrix, cell: matrix.side / L };
  matrixBuffer.width = L;
  matrixBuffer.height = L;
  matrixBuffer.getContext("2d").putImageData(matrixPixels(result.shown, L, result.top, film.epsilon, theme), 0, 0);
  ctx.imageSmoothingEnabled = false;
  ctx.drawImage(matrixBuffer, box.x, box.y, box.side, box.side);
  if (L <= 40) drawGaps(ctx, box, L, theme);
  frame(ctx, box.x, box.y + result.i * box.cell, (result.i + 1) * box.cell, box.cell, theme.normalizer);
  frame(ctx, box.x + result.j * box.cell, box.y + result.i * box.cell, box.cell, box.cell, theme.ink);
  drawFilmTokens(ctx, box, result, theme);
  const right = box.x + box.side;
  write(ctx, theme, `step ${film.steps[result.s.frame].toLocaleString("en")}`, right, box.y + 14, { align: "right", color: theme.ink, size: 14, weight: 600 });
  write(ctx, theme, `full colour: ${formatNumber(result.top)}`, right, box.y + 31, { align: "right" });
  drawCurve(ctx, panels[0], result, "accuracy", "test accuracy", theme);
  drawCurve(ctx, panels[1], result, "loss", "test loss, nats", theme);
}

// Every token where there is room, else the reading token and the one it reads most from.
export function drawFilmTokens(ctx, box, { film, L, i, j }, theme) {
  const size = Math.min(11, box.cell);
  const all = size >= 9.5;
  for (let m = 0; m < L; m++) {
    const at = (m + 0.5) * box.cell;
    const row = { align: "right", size: m === i ? 11 : size, weight: m === i ? 700 : film.targets[m] ? 600 : 400,
      color: m === i ? theme.normalizer : film.targets[m] ? theme.ink : theme.muted };
    if (m === i || all) write(ctx, theme, film.tokens[m], box.x - 5, box.y + at + 3.5, row);
    if (m !== j && !all) continue;
    ctx.save();
    ctx.translate(box.x + at + 3.5, box.y + box.side + 5);
    ctx.rotate(-Math.PI / 2);
    write(ctx, theme, film.tokens[m], 0, 0, { align: "right", size: m === j ? 11 : size, weight: m === j ? 700 : 400, color: m === j ? theme.ink : theme.muted });
    ctx.restore();
  }
}

// One measure of every run against the training step; the chosen run stands out.
function drawCurve(ctx, panel, result, key, title, theme) {
  const { film, run, s } = result;
  const [x, y, w, h] = [panel.x, panel.y + 24, panel.w, panel.h - 46];
  const values = film.runs.flatMap((one) => one[key]);
  const [low, high] = key === "accuracy" ? [0, 1] : [Math.min(0, ...values), Math.max(...values) || 1];
  const last = film.steps[film.steps.length - 1];
  const point = (one, m) => [x + (film.steps[m] / last) * w, y + h - ((one[key][m] - low) / (high - low)) * h];
  stroke(ctx, [[x, y], [x, y + h], [x + w, y + h]], theme.line);
  write(ctx, theme, title, x, y - 8, { color: theme.ink, weight: 600 });
  write(ctx, theme, formatNumber(high, 2), x - 5, y + 8, { align: "right" });
  write(ctx, theme, formatNumber(low, 2), x - 5, y + h, { align: "right" });
  write(ctx, theme, "0", x, y + h + 14, { align: "center" });
  write(ctx, theme, `step ${last.toLocaleString("en")}`, x + w, y + h + 14, { align: "right" });
  for (const one of film.runs) if (one !== run) stroke(ctx, film.steps.map((_, m) => point(one, m)), theme.muted, 1.25, [4, 3]);
  stroke(ctx, film.steps.map((_, m) => point(run, m)), theme.evolution, 2.5);
  const [px, py] = point(run, s.frame);
  stroke(ctx, [[px, y], [px, y + h]], theme.ink, 1);
  dot(ctx, px, py, 4.5, theme.evolution, theme.panel);
}
