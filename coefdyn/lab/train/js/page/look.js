// The matrix of a layer and head on a test sequence, with the tokens along its sides.

import { setAttribute } from "../../../../widgets/js/dom.js";
import { strongestIn } from "../../../../widgets/js/film.js";
import { drawFilmTokens } from "../../../../widgets/js/film_draw.js";
import { drawGaps, frame, matrixBuffer, matrixPixels } from "../../../../widgets/js/matrix.js";
import { formatNumber } from "../../../../widgets/js/text.js";
import { openCanvas, write } from "../../../../widgets/js/theme.js";
import { IGNORE } from "../tasks/batch.js";

export function drawLook(canvas, { seen, t }, { layer, head }, nameOf, theme) {
  const { ctx, width, height } = openCanvas(canvas);
  if (!seen) return;
  const { matrix, length: L, inputs, targets } = seen;
  const side = Math.max(60, Math.min(width - 40, height - 46));
  const box = { x: Math.max(32, (width - side) / 2 + 12), y: 6, side, cell: side / L };
  const top = matrix.reduce((most, x) => Math.max(most, Math.abs(x)), 0) || 1;
  matrixBuffer.width = L;
  matrixBuffer.height = L;
  matrixBuffer.getContext("2d").putImageData(matrixPixels(matrix, L, top, 0.01, theme), 0, 0);
  ctx.imageSmoothingEnabled = false;
  ctx.drawImage(matrixBuffer, box.x, box.y, side, side);
  if (L <= 40) drawGaps(ctx, box, L, theme);
  const i = [...targets.keys()].filter((at) => targets[at] !== IGNORE).at(-1) ?? L - 1;
  const j = strongestIn(matrix, L, i);
  frame(ctx, box.x, box.y + i * box.cell, (i + 1) * box.cell, box.cell, theme.normalizer);
  frame(ctx, box.x + j * box.cell, box.y + i * box.cell, box.cell, box.cell, theme.ink);
  const tokens = Array.from(inputs, nameOf);
  drawFilmTokens(ctx, box, { film: { tokens, targets: Array.from(targets, (one) => (one === IGNORE ? "" : nameOf(one))) }, L, i, j }, theme);
  write(ctx, theme, `step ${t.toLocaleString("en")}`, box.x + side, box.y + 13, { align: "right", color: theme.ink, size: 13, weight: 600 });
  write(ctx, theme, `full colour: ${formatNumber(top)}`, box.x + side, box.y + 29, { align: "right" });
  setAttribute(canvas, "aria-label", `Coefficients at training step ${t}, layer ${layer}, head ${head}: ${tokens[i]} at ${i + 1} reads most from ${tokens[j]} at ${j + 1}, ${formatNumber(matrix[i * L + j])}.`);
}
