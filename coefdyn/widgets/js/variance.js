// Principle 5: the variance of the score q^T (b k) against the width n, for q and k of variance 1.

import { drawNormal, STREAM } from "./draws.js";
import { formatNumber } from "./text.js";
import { dot, openCanvas, stroke, write } from "./theme.js";

const VARIANCE_SAMPLES = 400;
const VARIANCE_SCALINGS = { one: () => 1, inverse_sqrt_n: (n) => 1 / Math.sqrt(n), inverse_n: (n) => 1 / n };

// Scores of VARIANCE_SAMPLES independent pairs at every width up to n, before b: sums grow channel by channel.
const varianceCache = new Map();
function rawScores(seed, widest) {
  const key = `${seed}:${widest}`;
  if (!varianceCache.has(key)) {
    const table = [];
    const sums = new Float64Array(VARIANCE_SAMPLES);
    for (let c = 0; c < widest; c++) {
      for (let m = 0; m < VARIANCE_SAMPLES; m++) sums[m] += drawNormal(seed, STREAM.query, m, c) * drawNormal(seed, STREAM.key, m, c);
      table.push(Float64Array.from(sums));
    }
    varianceCache.set(key, table);
  }
  return varianceCache.get(key);
}

function varianceOf(values) {
  let mean = 0;
  for (const x of values) mean += x;
  mean /= values.length;
  let square = 0;
  for (const x of values) square += (x - mean) ** 2;
  return square / (values.length - 1);
}

const VARIANCE_WIDEST = 128;

export const VARIANCE = {
  name: "variance",
  title: "Variance of the score qᵀ(b k) against the width n",
  defaults: { width: 16, scaling: "one", seed: 7 },
  controls: [
    { key: "width", label: "Width n", min: 1, max: VARIANCE_WIDEST },
    { key: "scaling", label: "Scaling b", options: { one: "1", inverse_sqrt_n: "1/√n", inverse_n: "1/n" } },
  ],
  numbers: ["score-variance", "variance-theory", "largest-weight"],
  compute(s) {
    const table = rawScores(s.seed, VARIANCE_WIDEST);
    const b = VARIANCE_SCALINGS[s.scaling](s.width);
    const scores = table[s.width - 1].map((x) => b * x);
    const top = Math.max(...scores.slice(0, 16));
    const total = scores.slice(0, 16).reduce((sum, x) => sum + Math.exp(x - top), 0);
    const curves = Object.entries(VARIANCE_SCALINGS).map(([name, rule]) => [name,
      table.map((values, at) => rule(at + 1) ** 2 * varianceOf(values))]);
    return { s, scores, curves, b, variance: varianceOf(scores), theory: s.width * b * b, largest: 1 / total };
  },
  show: ({ b, variance, theory, largest }) => ({
    scaling: ["b", formatNumber(b), b],
    "score-variance": [`measured on ${VARIANCE_SAMPLES} pairs`, formatNumber(variance), variance],
    "variance-theory": ["n b², in theory", formatNumber(theory), theory],
    "largest-weight": ["largest softmax weight of 16", formatNumber(largest), largest],
  }),
  words: ({ s, variance }) => `At width ${s.width} the score has variance ${formatNumber(variance)}.`,
  draw(canvas, { s, curves, scores }, theme) {
    const { ctx, width, height } = openCanvas(canvas);
    const split = width < 420 ? width : width * 0.62;
    const powers = Math.log2(VARIANCE_WIDEST);
    const xAt = (n) => 6 + (Math.log2(n) / powers) * (split - 64);
    const yAt = (v) => 8 + ((powers - Math.log2(Math.max(v, 1e-3))) / (2 * powers)) * (height - 26);
    stroke(ctx, [[6, yAt(1)], [split - 58, yAt(1)]], theme.line);
    const names = { one: "b = 1", inverse_sqrt_n: "1/√n", inverse_n: "1/n" };
    for (const [name, values] of curves) {
      const chosen = name === s.scaling;
      stroke(ctx, values.map((v, at) => [xAt(at + 1), yAt(v)]), chosen ? theme.scaling : theme.muted, chosen ? 2.5 : 1);
      write(ctx, theme, names[name], split - 52, yAt(values.at(-1)) + 4, { color: chosen ? theme.scaling : theme.muted, weight: chosen ? 600 : 400 });
    }
    const current = curves.find(([name]) => name === s.scaling)[1][s.width - 1];
    dot(ctx, xAt(s.width), yAt(current), 5, theme.scaling, theme.panel);
    write(ctx, theme, "n = 1", 6, height - 4);
    write(ctx, theme, `n = ${VARIANCE_WIDEST}`, split - 58, height - 4, { align: "right" });
    if (split < width) drawHistogram(ctx, theme, scores, split + 10, width - split - 16, height);
  },
};

function drawHistogram(ctx, theme, scores, left, width, height) {
  const [low, high, bins] = [-12, 12, 33];
  const counts = new Array(bins).fill(0);
  for (const x of scores) counts[Math.min(Math.max(Math.floor(((x - low) / (high - low)) * bins), 0), bins - 1)] += 1;
  const top = Math.max(...counts);
  ctx.fillStyle = theme.positive;
  counts.forEach((count, m) => {
    const bar = (count / top) * (height - 40);
    ctx.fillRect(left + (m / bins) * width, height - 18 - bar, Math.max(width / bins - 1, 1), bar);
  });
  write(ctx, theme, "scores now", left, 14);
  write(ctx, theme, "≤ −12", left, height - 4);
  write(ctx, theme, "≥ 12", left + width, height - 4, { align: "right" });
}
