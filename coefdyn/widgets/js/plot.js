// What the smaller figures draw with: boxes side by side (below each other on a phone), a chart with two scales.

import { stroke, write } from "./theme.js";

// A square for a picture of the plane, and the rest of the canvas.
export function twoBoxes(width, height) {
  if (width < 420) {
    const side = Math.min(width - 12, height * 0.56);
    return [{ x: (width - side) / 2, y: 4, w: side, h: side }, { x: 8, y: side + 14, w: width - 16, h: height - side - 34 }];
  }
  const side = Math.min(height - 10, width * 0.42);
  return [{ x: 6, y: 5, w: side, h: side }, { x: side + 34, y: 14, w: width - side - 46, h: height - 36 }];
}

export const wholeBox = (width, height) => ({ x: 10, y: 18, w: width - 20, h: height - 40 });

export function chart(ctx, theme, box, [x0, x1], [y0, y1]) {
  const xAt = (x) => box.x + ((x - x0) / (x1 - x0)) * box.w;
  const yAt = (y) => box.y + box.h - ((y - y0) / (y1 - y0)) * box.h;
  if (y0 <= 0 && y1 >= 0) stroke(ctx, [[box.x, yAt(0)], [box.x + box.w, yAt(0)]], theme.line);
  const inside = (paint) => {
    ctx.save();
    ctx.beginPath();
    ctx.rect(box.x - 5, box.y - 5, box.w + 10, box.h + 10);
    ctx.clip();
    paint();
    ctx.restore();
  };
  return {
    ...box, xAt, yAt, inside,
    line: (points, color, width = 2, dash = []) => inside(() => stroke(ctx, points.map(([x, y]) => [xAt(x), yAt(y)]), color, width, dash)),
    stem(x, y, wide, color) {
      ctx.fillStyle = color;
      ctx.fillRect(xAt(x) - wide / 2, Math.min(yAt(0), yAt(y)), wide, Math.max(Math.abs(yAt(y) - yAt(0)), 1));
    },
    below: (x, text, style = {}) => write(ctx, theme, text, xAt(x), box.y + box.h + 14, { align: "center", ...style }),
  };
}

// A plane around the origin, `reach` to each side, with its axes and the unit circle.
export function plane(ctx, theme, box, reach) {
  const [cx, cy] = [box.x + box.w / 2, box.y + box.h / 2];
  const scale = Math.min(box.w, box.h) / 2 / reach;
  stroke(ctx, [[box.x, cy], [box.x + box.w, cy]], theme.line);
  stroke(ctx, [[cx, box.y], [cx, box.y + box.h]], theme.line);
  ctx.strokeStyle = theme.line;
  ctx.lineWidth = 1.5;
  ctx.beginPath();
  ctx.arc(cx, cy, scale, 0, 2 * Math.PI);
  ctx.stroke();
  return { cx, cy, scale, at: ([x, y]) => [cx + x * scale, cy - y * scale], from: ([x, y]) => [(x - cx) / scale, (cy - y) / scale] };
}

export const radians = (degrees) => (degrees * Math.PI) / 180;
export const upTo = (count, make) => Array.from({ length: count }, (_, m) => make(m));
