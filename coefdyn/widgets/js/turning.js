// Struck once, then left alone: a state that turns and shrinks; a string of such states; one step of erasing.

import { chart, plane, radians, twoBoxes, upTo } from "./plot.js";
import { formatNumber, formatPercent, formatSpectrum, halfLifeWords } from "./text.js";
import { arrow, dot, openCanvas, sizeOf, stroke, write } from "./theme.js";

const TURN_STEPS = 32;

export const TURNING = {
  name: "turning",
  title: "One strike, then a turn and a change of length at every step",
  defaults: { angle: 24, keep: 0.95 },
  controls: [
    { key: "angle", label: "Turn per step", min: 0, max: 180, ingredient: "evolution", format: (x) => `${x}°` },
    { key: "keep", label: "Keep per step", min: 0.5, max: 1.05, step: 0.01, ingredient: "evolution" },
  ],
  numbers: ["eigenvalue", "half-life", "left-at-end"],
  compute(s) {
    const turn = radians(s.angle);
    const path = upTo(TURN_STEPS + 1, (t) => [s.keep ** t * Math.cos(turn * t), s.keep ** t * Math.sin(turn * t)]);
    return { s, path, point: [s.keep * Math.cos(turn), s.keep * Math.sin(turn)], left: s.keep ** TURN_STEPS };
  },
  show: ({ s, point: [re, im], left }) => ({
    eigenvalue: ["eigenvalues of A", formatSpectrum([[re, im], [re, -im]]), re],
    "half-life": ["length", halfLifeWords(Math.log(s.keep)), s.keep === 1 ? Infinity : Math.LN2 / Math.abs(Math.log(s.keep))],
    "left-at-end": [`length after ${TURN_STEPS} steps`, formatNumber(left), left],
  }),
  words: ({ s, left }) => `A state that turns by ${s.angle} degrees and keeps ${formatNumber(s.keep)} of its length at every step; after ${TURN_STEPS} steps ${formatNumber(left)} of it is left.`,
  // The hand holds the state after one step: its place is the eigenvalue.
  drag({ x, y }, canvas) {
    const [box] = twoBoxes(...sizeOf(canvas));
    const [re, im] = [(x - box.x - box.w / 2) / (box.w / 2 / 1.1), (box.y + box.h / 2 - y) / (box.w / 2 / 1.1)];
    if (Math.hypot(re, im) > 1.3) return null;
    return { angle: Math.round((Math.abs(Math.atan2(im, re)) * 180) / Math.PI), keep: Math.min(1.05, Math.max(0.5, Math.round(100 * Math.hypot(re, im)) / 100)) };
  },
  draw(canvas, { path, point }, theme) {
    const { ctx, width, height } = openCanvas(canvas);
    const [left, right] = twoBoxes(width, height);
    const view = plane(ctx, theme, left, 1.1);
    const seen = path.filter(([x, y]) => Math.hypot(x, y) < 1.6);
    stroke(ctx, seen.map(view.at), theme.evolution, 1.25);
    seen.forEach((p) => dot(ctx, ...view.at(p), 2, theme.evolution));
    dot(ctx, ...view.at([1, 0]), 4.5, theme.panel, theme.evolution);
    arrow(ctx, view.cx, view.cy, ...view.at(point), theme.evolution, 2.5);
    dot(ctx, ...view.at(point), 6, theme.evolution, theme.panel);
    const wave = chart(ctx, theme, right, [0, TURN_STEPS], [-1.1, 1.1]);
    path.forEach(([x], t) => wave.stem(t, Math.max(-1.1, Math.min(1.1, x)), 2, theme.positive));
    wave.line(path.map(([x, y], t) => [t, Math.hypot(x, y)]), theme.muted, 1, [3, 3]);
    wave.below(0, "now", { align: "left" });
    wave.below(TURN_STEPS, `${TURN_STEPS} steps later`, { align: "right" });
    write(ctx, theme, "what a query along the strike reads", right.x, right.y - 4);
  },
};

const STRING_MODES = 8;

export const STRING = {
  name: "string",
  title: "A plucked string: eight states, each with its own eigenvalue",
  defaults: { place: 0.2, time: 0, keep: 0.98 },
  controls: [
    { key: "place", label: "Plucked at", min: 0.1, max: 0.5, step: 0.01 },
    { key: "time", label: "Steps later", min: 0, max: 80, ingredient: "evolution" },
    { key: "keep", label: "First state keeps", min: 0.9, max: 1, step: 0.005, ingredient: "evolution" },
  ],
  numbers: ["first-mode", "fastest-mode", "energy"],
  compute(s) {
    const modes = upTo(STRING_MODES, (m) => {
      const number = m + 1;
      const size = (2 * Math.sin(number * Math.PI * s.place)) / ((number * Math.PI) ** 2 * s.place * (1 - s.place));
      const [keep, turn] = [s.keep ** number, number * radians(9)];
      return { size, point: [keep * Math.cos(turn), keep * Math.sin(turn)], now: size * keep ** s.time * Math.cos(turn * s.time), length: Math.abs(size) * keep ** s.time };
    });
    const energy = modes.reduce((sum, { length }) => sum + length ** 2, 0) / modes.reduce((sum, { size }) => sum + size ** 2, 0);
    return { s, modes, energy };
  },
  show: ({ modes, energy }) => ({
    "first-mode": ["state 1 has left", formatNumber(modes[0].length / Math.abs(modes[0].size)), modes[0].length / Math.abs(modes[0].size)],
    "fastest-mode": ["state 7 has left", formatNumber(modes[6].length / Math.abs(modes[6].size)), modes[6].length / Math.abs(modes[6].size)],
    energy: ["of all squares is left", formatPercent(energy), energy],
  }),
  words: ({ s, energy }) => `A string plucked at ${formatNumber(s.place)} of its length, ${s.time} steps later: ${formatPercent(energy)} of the squared sizes of its states is left.`,
  draw(canvas, { s, modes }, theme) {
    const { ctx, width, height } = openCanvas(canvas);
    const [left, right] = twoBoxes(width, height);
    const view = plane(ctx, theme, left, 1.1);
    const largest = Math.max(...modes.map(({ size }) => Math.abs(size)));
    modes.forEach(({ point, size }, m) => {
      dot(ctx, ...view.at(point), 2 + 5 * Math.sqrt(Math.abs(size) / largest), theme.evolution, theme.panel);
      if (m % 2 === 0) write(ctx, theme, String(m + 1), view.at(point)[0] + 9, view.at(point)[1] - 6);
    });
    const drawn = chart(ctx, theme, right, [0, 1], [-1.15, 1.15]);
    const shape = (size) => upTo(101, (p) => [p / 100, modes.reduce((sum, mode, m) => sum + size(mode) * Math.sin((m + 1) * Math.PI * (p / 100)), 0)]);
    drawn.line(shape(({ size }) => size), theme.muted, 1, [3, 3]);
    drawn.line(shape(({ now }) => now), theme.evolution, 2.5);
    dot(ctx, drawn.xAt(0), drawn.yAt(0), 3.5, theme.ink);
    dot(ctx, drawn.xAt(1), drawn.yAt(0), 3.5, theme.ink);
    write(ctx, theme, `the string, ${s.time} steps after the pluck`, right.x, right.y - 4);
  },
};

export const ERASING = {
  name: "erasing",
  title: "One step h ↦ h − β z zᵀh: the part along z is multiplied by 1 − β",
  defaults: { beta: 1, angle: 40 },
  controls: [
    { key: "beta", label: "Erase, β", min: 0, max: 2, step: 0.01, ingredient: "evolution" },
    { key: "angle", label: "Angle from h to z", min: 0, max: 90, ingredient: "evolution", format: (x) => `${x}°` },
  ],
  numbers: ["along", "length-after", "turned"],
  compute(s) {
    const z = [Math.cos(radians(s.angle)), Math.sin(radians(s.angle))];
    const along = z[0];
    const after = [1 - s.beta * along * z[0], -s.beta * along * z[1]];
    return { s, z, along, after, length: Math.hypot(...after) };
  },
  show: ({ s, along, length, after }) => {
    const turned = length > 1e-12 ? (Math.atan2(after[1], after[0]) * 180) / Math.PI : 0;
    return {
      along: ["part along z", `${formatNumber(along)} × ${formatNumber(1 - s.beta)} = ${formatNumber(along * (1 - s.beta))}`, along * (1 - s.beta)],
      "length-after": ["length after the step", formatNumber(length), length],
      turned: ["turned by", `${formatNumber(turned)}°`, turned],
    };
  },
  words: ({ s, length }) => `A state of length 1, a direction z at ${s.angle} degrees to it, and β = ${formatNumber(s.beta)}: after the step its length is ${formatNumber(length)}.`,
  drag({ x, y }, canvas) {
    const [box] = twoBoxes(...sizeOf(canvas));
    const [dx, dy] = [x - box.x - box.w / 2, box.y + box.h / 2 - y];
    if (Math.hypot(dx, dy) > 0.7 * box.w) return null;
    return { angle: Math.min(90, Math.max(0, Math.round((Math.atan2(dy, dx) * 180) / Math.PI))) };
  },
  draw(canvas, { s, z, after, along }, theme) {
    const { ctx, width, height } = openCanvas(canvas);
    const [left, right] = twoBoxes(width, height);
    const view = plane(ctx, theme, left, 1.1);
    stroke(ctx, [view.at(z.map((x) => -1.1 * x)), view.at(z.map((x) => 1.1 * x))], theme.scaling, 1.5, [5, 4]);
    write(ctx, theme, "z", view.at(z)[0] + 8, view.at(z)[1] - 2, { color: theme.scaling, weight: 600, size: 13 });
    stroke(ctx, [view.at([1, 0]), view.at(after)], theme.muted, 1, [2, 3]);
    arrow(ctx, view.cx, view.cy, ...view.at([1, 0]), theme.muted, 2);
    arrow(ctx, view.cx, view.cy, ...view.at(after), theme.evolution, 3);
    write(ctx, theme, "h before", view.at([0.55, 0])[0], view.at([0, 0.06])[1], {});
    const bars = chart(ctx, theme, right, [0, 3], [-1.1, 1.1]);
    const wide = Math.min(26, right.w / 10);
    const across = Math.sqrt(Math.max(0, 1 - along ** 2));
    [[0.75, along, along * (1 - s.beta), "along z"], [2.25, across, across, "across z"]].forEach(([x, before, now, text]) => {
      bars.stem(x - 0.2, before, wide, theme.line);
      bars.stem(x + 0.2, now, wide, theme.evolution);
      bars.below(x, text);
    });
    write(ctx, theme, "before and after the step", right.x, right.y - 4);
  },
};
