// Loss and accuracy of one or two runs against the training step.

import { formatNumber } from "../../../../widgets/js/text.js";
import { dot, openCanvas, stroke, write } from "../../../../widgets/js/theme.js";

const RUN_COLORS = ["evolution", "readout"];
const RUN_DASHES = [[], [6, 3]];

// Each half of a wide canvas, or one above the other: loss, and accuracy with the base rate.
export function drawCurves(canvas, lanes, { base, classes }, theme) {
  const { ctx, width, height } = openCanvas(canvas);
  const wide = width >= 520;
  const size = wide ? { w: (width - 96) / 2, h: height - 48 } : { w: width - 48, h: height / 2 - 48 };
  const place = (m) => (wide ? { x: 38 + m * (size.w + 52), y: 26, ...size } : { x: 38, y: 26 + m * (height / 2), ...size });
  const last = Math.max(100, ...lanes.map((lane) => lane.t));
  const first = Math.min(...lanes.map((lane) => lane.begin));
  const even = Math.log(classes);
  const most = Math.max(even * 1.1, ...lanes.flatMap((lane) => lane.marks.slice(0, 1).map(({ loss }) => Math.min(loss, 4 * even))));
  const bin = Math.max(1, Math.ceil((last - first) / size.w));
  drawPanel(ctx, place(0), { title: "training loss, nats", low: 0, high: most, first, last, dashed: even, dashWords: "guessing evenly" }, theme,
    lanes.map((lane) => binned(lane.losses, bin).map(([at, loss]) => [lane.begin + at, loss])));
  drawPanel(ctx, place(1), { title: "test accuracy", low: 0, high: 1, first, last, dashed: base, dashWords: "base rate" }, theme,
    lanes.map((lane) => lane.marks.map(({ t, accuracy }) => [t, accuracy])));
}

// Means of so many steps each, at the step where each ends.
function binned(losses, size) {
  const points = [];
  const width = Math.max(size, Math.min(10, losses.length));
  for (let end = losses.length; end > 0; end -= width) {
    const start = Math.max(0, end - width);
    let sum = 0;
    for (let k = start; k < end; k++) sum += losses[k];
    points.push([end, sum / (end - start)]);
  }
  return points.reverse();
}

function drawPanel(ctx, { x, y, w, h }, { title, low, high, first, last, dashed, dashWords }, theme, lines) {
  const point = ([t, value]) => [x + ((t - first) / (last - first)) * w, y + h - ((Math.min(Math.max(value, low), high) - low) / (high - low)) * h];
  write(ctx, theme, title, x, y - 9, { color: theme.ink, weight: 600 });
  stroke(ctx, [[x, y], [x, y + h], [x + w, y + h]], theme.line);
  const level = point([first, dashed])[1];
  stroke(ctx, [[x, level], [x + w, level]], theme.muted, 1.25, [3, 3]);
  write(ctx, theme, dashWords, x + w, level - 4, { align: "right" });
  write(ctx, theme, formatNumber(high, 2), x - 5, y + 8, { align: "right" });
  write(ctx, theme, formatNumber(low, 2), x - 5, y + h, { align: "right" });
  write(ctx, theme, String(first), x, y + h + 14);
  write(ctx, theme, `step ${last.toLocaleString("en")}`, x + w, y + h + 14, { align: "right" });
  lines.forEach((line, m) => {
    if (!line.length) return;
    stroke(ctx, line.map(point), theme[RUN_COLORS[m]], 2.25, RUN_DASHES[m]);
    dot(ctx, ...point(line.at(-1)), 3.5, theme[RUN_COLORS[m]], theme.panel);
  });
}
