// The L x L picture of the coefficients, and where a pointer falls in it.

import { openCanvas, packColor, parseColor, sizeOf, write, zoomOf } from "./theme.js";

const MATRIX_MARGIN = { left: 20, top: 4, right: 4, bottom: 20 };
const WORD_SPACE = { least: 8, most: 68, cell: 9 }; // of a cell: words are written along rows that have this height

// Room for the words of the text beside and below the matrix.
function matrixMargin(ctx, theme, { g }) {
  if (!g.told) return MATRIX_MARGIN;
  ctx.font = `600 11px ${theme.font}`;
  const room = Math.min(WORD_SPACE.most, Math.max(...g.words.map((word) => ctx.measureText(word).width)));
  return { ...MATRIX_MARGIN, left: room + WORD_SPACE.least, bottom: room + WORD_SPACE.least };
}

function matrixGeometry(width, height, L, m = MATRIX_MARGIN) {
  const side = Math.min(width - m.left - m.right, height - m.top - m.bottom);
  return { x: m.left, y: m.top, side, cell: side / L };
}

// One pixel per cell; the canvas scales it up without smoothing.
export function matrixPixels(values, L, top, epsilon, theme) {
  const image = new ImageData(L, L);
  const pixels = new Uint32Array(image.data.buffer);
  const near = packColor(parseColor(theme["near-zero"]));
  const over = packColor(parseColor(theme.overflow));
  for (let i = 0; i < L; i++) {
    for (let j = 0; j <= i; j++) {
      const value = values[i * L + j];
      const size = Math.abs(value);
      let color = near;
      if (!(size < Infinity)) color = over;
      else if (size > epsilon) {
        const step = Math.round(255 * Math.sqrt(size / top));
        color = theme.ramps[value < 0 ? "negative" : "positive"][Math.min(255, Math.max(step, 8))];
      }
      pixels[i * L + j] = color;
    }
  }
  return image;
}

export const matrixBuffer = typeof document === "undefined" ? null : document.createElement("canvas");

export function drawMatrix(canvas, model, theme) {
  const { ctx, width, height } = openCanvas(canvas);
  const { L } = model.g;
  canvas.margin = matrixMargin(ctx, theme, model);
  const box = matrixGeometry(width, height, L, canvas.margin);
  const image = matrixPixels(model.shown, L, model.top || 1, model.epsilonShown, theme);
  matrixBuffer.width = L;
  matrixBuffer.height = L;
  matrixBuffer.getContext("2d").putImageData(image, 0, 0);
  ctx.imageSmoothingEnabled = false;
  ctx.drawImage(matrixBuffer, box.x, box.y, box.side, box.side);
  if (L <= 40) drawGaps(ctx, box, L, theme);
  const j = model.column;
  const i = model.row;
  frame(ctx, box.x + j * box.cell, box.y + j * box.cell, box.cell, (L - j) * box.cell, theme.evolution);
  frame(ctx, box.x, box.y + i * box.cell, (i + 1) * box.cell, box.cell, theme.ink);
  if (i >= j) frame(ctx, box.x + j * box.cell, box.y + i * box.cell, box.cell, box.cell, theme.ink);
  drawMatrixLabels(ctx, box, model, theme);
}

export function drawGaps(ctx, box, L, theme) {
  ctx.strokeStyle = theme.panel;
  ctx.lineWidth = L <= 20 ? 1.5 : 0.75;
  ctx.beginPath();
  for (let m = 1; m < L; m++) {
    const at = m * box.cell;
    ctx.moveTo(box.x, box.y + at);
    ctx.lineTo(box.x + at + box.cell, box.y + at);
    ctx.moveTo(box.x + at, box.y + at - box.cell);
    ctx.lineTo(box.x + at, box.y + box.side);
  }
  ctx.stroke();
}

export function frame(ctx, x, y, w, h, color) {
  ctx.strokeStyle = color;
  ctx.lineWidth = 2;
  ctx.strokeRect(x, y, w, h);
}

function drawMatrixLabels(ctx, box, model, theme) {
  if (hasWords(ctx)) return drawMatrixWords(ctx, box, model, theme);
  const { cell } = box;
  const { row, column } = model;
  write(ctx, theme, `j = ${column + 1}`, Math.min(Math.max(box.x + (column + 0.5) * cell, box.x + 14), box.x + box.side - 16), box.y + box.side + 14,
    { align: "center", color: theme.evolution, weight: 600 });
  ctx.save();
  ctx.translate(box.x - 6, Math.min(Math.max(box.y + (row + 0.5) * cell, box.y + 16), box.y + box.side - 16));
  ctx.rotate(-Math.PI / 2);
  write(ctx, theme, `i = ${row + 1}`, 0, 0, { align: "center", color: theme.ink, weight: 600 });
  ctx.restore();
}

const hasWords = (ctx) => ctx.canvas.margin !== MATRIX_MARGIN;

// The text along both axes; where cells are small only the chosen row and column keep theirs.
function drawMatrixWords(ctx, box, { g, row, column }, theme) {
  const { cell } = box;
  const size = Math.min(11, Math.max(cell * 0.8, WORD_SPACE.cell));
  const room = ctx.canvas.margin.left - 6;
  const all = cell >= WORD_SPACE.cell;
  g.words.forEach((word, t) => {
    const [x, y] = [box.x + (t + 0.5) * cell, box.y + (t + 0.5) * cell];
    if (all || t === row) fitText(ctx, theme, word, box.x - 4, y + size * 0.35, room, { align: "right", size, ...(t === row ? { color: theme.ink, weight: 700 } : {}) });
    if (!all && t !== column) return;
    ctx.save();
    ctx.translate(x + size * 0.35, box.y + box.side + 4);
    ctx.rotate(-Math.PI / 2);
    fitText(ctx, theme, word, 0, 0, room, { align: "right", size, ...(t === column ? { color: theme.evolution, weight: 700 } : {}) });
    ctx.restore();
  });
}

function fitText(ctx, theme, text, x, y, room, style) {
  ctx.font = `${style.weight || 400} ${style.size}px ${theme.font}`;
  let shown = text;
  for (let signs = Array.from(text); signs.length > 1 && ctx.measureText(shown).width > room;) {
    signs = signs.slice(0, -1);
    shown = `${signs.join("")}…`;
  }
  write(ctx, theme, shown, x, y, style);
}

// The cell under a point of the canvas, or null above the diagonal and outside.
export function cellAt(canvas, L, x, y) {
  const box = matrixGeometry(...sizeOf(canvas), L, canvas.margin);
  const zoom = zoomOf(canvas);
  const column = Math.floor((x / zoom - box.x) / box.cell);
  const row = Math.floor((y / zoom - box.y) / box.cell);
  return column >= 0 && row < L && column <= row ? { row, column } : null;
}
