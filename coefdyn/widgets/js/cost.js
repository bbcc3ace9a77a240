// Principle 1: work, memory traffic and steps in a row against L, and the roofline's bound on the time.
// Work: two operations per multiplication of chunks.js. Traffic: q, k, v and y once, two bytes each, and
// per chunk the state out and in, four bytes each. The bound is the larger of work / peak and traffic / bandwidth.

import { formatNumber } from "./text.js";
import { dot, openCanvas, stroke, write } from "./theme.js";

const MACHINES = {
  h200: { label: "H200, bf16", peak: 989e12, bandwidth: 4.8e12 },
  a100: { label: "A100, bf16", peak: 312e12, bandwidth: 2.04e12 },
  laptop: { label: "laptop CPU, about", peak: 1e12, bandwidth: 60e9 },
};

function formCost({ length, chunk, width }, machine) {
  const c = Math.min(chunk, length);
  const count = Math.ceil(length / c);
  const rest = length - (count - 1) * c;
  const inside = ((count - 1) * c * (c + 1) + rest * (rest + 1)) / 2;
  const state = ((count - 1) * c + (length - c)) * width * width;
  const operations = 2 * (inside * 2 * width + state);
  const bytes = 2 * 4 * width * length + 2 * 4 * width * width * (count - 1);
  return { operations, bytes, steps: count, seconds: Math.max(operations / machine.peak, bytes / machine.bandwidth) };
}

const FORMS = [["at once", (s) => s.length], ["in chunks", (s) => s.chunk]];

export const COST = {
  name: "cost",
  title: "Lower bound on the time per head, against L",
  defaults: { power: 12, width: 128, chunk: 64, machine: "h200" },
  controls: [
    { key: "power", label: "Length L", min: 6, max: 20, format: (p) => (2 ** p).toLocaleString("en") },
    { key: "width", label: "n = d_v", min: 16, max: 256, step: 16 },
    { key: "chunk", label: "Chunk C", min: 16, max: 256, step: 16 },
    { key: "machine", label: "Machine", options: Object.fromEntries(Object.entries(MACHINES).map(([key, m]) => [key, m.label])) },
  ],
  numbers: ["cost-at-once", "cost-in-chunks", "cost-ratio", "steps-in-chunks", "cost-intensity"],
  compute(s) {
    const machine = MACHINES[s.machine];
    const at = (length) => FORMS.map(([, chunk]) => formCost({ length, width: s.width, chunk: chunk({ ...s, length }) }, machine));
    const curves = [0, 1].map((form) => Array.from({ length: 57 }, (_, m) => {
      const length = Math.round(2 ** (6 + m / 4));
      return [length, at(length)[form].seconds];
    }));
    return { s, machine, curves, now: at(2 ** s.power) };
  },
  show: ({ now: [full, chunks], machine }) => ({
    "cost-at-once": ["at once, at least", timeWords(full.seconds), full.seconds],
    "cost-in-chunks": ["in chunks, at least", timeWords(chunks.seconds), chunks.seconds],
    "cost-ratio": ["times as long at once", formatNumber(full.seconds / chunks.seconds), full.seconds / chunks.seconds],
    "steps-in-chunks": ["chunks one after another", chunks.steps.toLocaleString("en"), chunks.steps],
    "cost-intensity": [`operations a byte, in chunks (balance ${formatNumber(machine.peak / machine.bandwidth)})`,
      formatNumber(chunks.operations / chunks.bytes), chunks.operations / chunks.bytes],
  }),
  words: ({ s, now: [full, chunks] }) => `At length ${2 ** s.power}: ${timeWords(full.seconds)} at once, ${timeWords(chunks.seconds)} in chunks, at least.`,
  draw(canvas, { s, curves, now }, theme) {
    const { ctx, width, height } = openCanvas(canvas);
    const all = curves.flat().map(([, seconds]) => Math.log10(seconds));
    const [low, high] = [Math.min(...all), Math.max(...all)];
    const xAt = (length) => 8 + ((Math.log2(length) - 6) / 14) * (width - 84);
    const yAt = (seconds) => 12 + ((high - Math.log10(seconds)) / (high - low)) * (height - 34);
    for (let power = Math.ceil(low); power <= high; power++) {
      stroke(ctx, [[8, yAt(10 ** power)], [width - 76, yAt(10 ** power)]], theme.line);
      if (power % 3 === 0) write(ctx, theme, timeWords(10 ** power), 10, yAt(10 ** power) - 3);
    }
    const colors = [theme.readout, theme.evolution];
    curves.forEach((curve, form) => {
      stroke(ctx, curve.map(([length, seconds]) => [xAt(length), yAt(seconds)]), colors[form], 2.5);
      dot(ctx, xAt(2 ** s.power), yAt(now[form].seconds), 5, colors[form], theme.panel);
      write(ctx, theme, FORMS[form][0], width - 70, yAt(curve.at(-1)[1]) + 4, { color: colors[form], weight: 600 });
    });
    write(ctx, theme, "L = 64", 8, height - 4);
    write(ctx, theme, "L = 2²⁰", width - 76, height - 4, { align: "right" });
  },
};

function timeWords(seconds) {
  const [unit, name] = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]].find(([size]) => seconds >= size * 0.9995) || [1e-9, "ns"];
  return `${formatNumber(seconds / unit)} ${name}`;
}
