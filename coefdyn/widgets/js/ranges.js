// How large coefficients become, how many are near zero, and how many facts a state holds apart.

import { drawNormal, STREAM } from "./draws.js";
import { FLOAT32_LOG_MAX, nearZeroInterval, READOUTS } from "./math.js";
import { chart, upTo, wholeBox } from "./plot.js";
import { formatNumber, formatPercent, superscript } from "./text.js";
import { dot, openCanvas, write } from "./theme.js";

const GROWTH_TOKENS = 64;
const FLOAT32_POWER = FLOAT32_LOG_MAX / Math.LN10;
const GROWTH_KINDS = {
  "identity-one": "identity, none", "identity-geometric": "identity, given: aⁱ", "identity-row_sum": "identity, row sum",
  "exp-one": "exp, none", "exp-geometric": "exp, given: aⁱ", "exp-row_sum": "exp, row sum",
};

const logSumTo = (i, term) => {
  const top = Math.max(...upTo(i, term));
  return top + Math.log(upTo(i, term).reduce((sum, x) => sum + Math.exp(x - top), 0));
};

export const GROWTH = {
  name: "growth",
  title: "The coefficient of the first token against its divisor, in powers of ten",
  defaults: { keep: 1.05, kind: "exp-geometric" },
  controls: [
    { key: "keep", label: "Keep per step, a", min: 0.9, max: 1.2, step: 0.005, ingredient: "evolution" },
    { key: "kind", label: "φ and η", options: GROWTH_KINDS },
  ],
  numbers: ["first-overflow", "alpha-power", "weight-power"],
  compute(s) {
    const [readout, eta] = s.kind.split("-");
    const log = (d) => (readout === "exp" ? s.keep ** d : d * Math.log(s.keep)); // of the coefficient of a token d steps back
    const rows = upTo(GROWTH_TOKENS, (m) => {
      const i = m + 1;
      const divisor = { one: 0, geometric: i * Math.log(s.keep), row_sum: eta === "row_sum" ? logSumTo(i, log) : 0 }[eta];
      return [log(m) / Math.LN10, divisor / Math.LN10, (log(m) - divisor) / Math.LN10];
    });
    const over = rows.findIndex(([alpha]) => alpha > FLOAT32_POWER);
    return { s, rows, over };
  },
  show: ({ rows, over }) => ({
    "first-overflow": ["α overflows float32 at token", over < 0 ? "none of these" : String(over + 1), over + 1],
    "alpha-power": [`α at token ${GROWTH_TOKENS}`, powerWords(rows.at(-1)[0]), rows.at(-1)[0]],
    "weight-power": ["α/η there", powerWords(rows.at(-1)[2]), rows.at(-1)[2]],
  }),
  words: ({ s, rows }) => `Keys that keep ${formatNumber(s.keep)} a step, ${GROWTH_KINDS[s.kind]}: at token ${GROWTH_TOKENS} the coefficient is ${powerWords(rows.at(-1)[0])}, divided ${powerWords(rows.at(-1)[2])}.`,
  draw(canvas, { rows }, theme) {
    const { ctx, width, height } = openCanvas(canvas);
    const all = rows.flat();
    const [low, high] = [Math.max(-6, Math.min(-1, ...all)), Math.min(46, Math.max(2, ...all) * 1.1)];
    const seen = chart(ctx, theme, { ...wholeBox(width, height), w: width - 64 }, [1, GROWTH_TOKENS], [low, high]);
    if (high > FLOAT32_POWER) {
      seen.line([[1, FLOAT32_POWER], [GROWTH_TOKENS, FLOAT32_POWER]], theme.overflow, 1.5, [5, 4]);
      write(ctx, theme, "largest float32", seen.x + 4, seen.yAt(FLOAT32_POWER) - 5, { color: theme.overflow });
    }
    [[0, theme.readout, "α"], [1, theme.normalizer, "η"], [2, theme.ink, "α/η"]].forEach(([at, color, name]) => {
      seen.line(rows.map((row, m) => [m + 1, row[at]]), color, at === 2 ? 3 : 2, at === 1 ? [6, 3] : []);
      const end = Math.min(Math.max(rows.at(-1)[at], low), high);
      write(ctx, theme, name, seen.x + seen.w + 8, seen.yAt(end) + 4 + (at === 1 ? 12 : 0), { color, weight: 600, size: 13 });
    });
    seen.below(1, "token 1", { align: "left" });
    seen.below(GROWTH_TOKENS, String(GROWTH_TOKENS), { align: "right" });
  },
};

const powerWords = (power) => (Math.abs(power) < 3 ? formatNumber(10 ** power) : `10${superscript(Math.round(power))}`);

// The share of a normal number below x: a series near zero, a continued fraction in the tail.
function normalShare(x) {
  const z = Math.abs(x);
  if (z === Infinity) return x > 0 ? 1 : 0;
  const density = Math.exp((-z * z) / 2) / Math.sqrt(2 * Math.PI);
  if (z < 4) {
    let [term, sum] = [z, z];
    for (let m = 1; m < 200 && term > 1e-17 * sum; m++) sum += term *= (z * z) / (2 * m + 1);
    return x < 0 ? 0.5 - density * sum : 0.5 + density * sum;
  }
  let fraction = z;
  for (let m = 80; m >= 1; m--) fraction = z + m / fraction;
  return x < 0 ? density / fraction : 1 - density / fraction;
}

export const READOUT_VIEW = {
  name: "readout",
  title: "Which scores the readout sends near zero, and how many scores are there",
  defaults: { readout: "exp", spread: 1, power: -2 },
  controls: [
    { key: "readout", label: "Readout φ", options: { identity: "identity", exp: "exp", relu: "ReLU", softplus: "softplus" } },
    { key: "spread", label: "Spread of the scores", min: 0.1, max: 4, step: 0.05, ingredient: "scaling" },
    { key: "power", label: "Near zero below", min: -6, max: -1, format: (p) => `10${superscript(p)}` },
  ],
  numbers: ["near-zero-share", "near-zero-set"],
  compute(s) {
    const [from, to] = nearZeroInterval(s.readout, 10 ** s.power);
    return { s, from, to, share: normalShare(to / s.spread) - normalShare(from / s.spread) };
  },
  show: ({ from, to, share }) => ({
    "near-zero-share": ["of normal scores is near zero", formatPercent(share), share],
    "near-zero-set": ["scores near zero", from === -Infinity ? `all below ${formatNumber(to)}` : `${formatNumber(from)} to ${formatNumber(to)}`, to],
  }),
  words: ({ s, share }) => `Readout ${s.readout}, scores with spread ${formatNumber(s.spread)}: ${formatPercent(share)} of them give a coefficient below ${formatNumber(10 ** s.power)}.`,
  draw(canvas, { s, from, to }, theme) {
    const { ctx, width, height } = openCanvas(canvas);
    const seen = chart(ctx, theme, wholeBox(width, height), [-8, 8], [-1.5, 4]);
    ctx.fillStyle = theme["near-zero"];
    const left = seen.xAt(Math.max(from, -8));
    ctx.fillRect(left, seen.y, Math.max(seen.xAt(Math.min(to, 8)) - left, 3), seen.h);
    const bell = upTo(161, (m) => [m / 10 - 8, 1.6 * Math.exp(-(((m / 10 - 8) / s.spread) ** 2) / 2)]);
    seen.line(bell, theme.scaling, 1.5, [4, 3]);
    seen.line(upTo(161, (m) => [m / 10 - 8, READOUTS[s.readout].phi(m / 10 - 8)]), theme.readout, 2.5);
    [-8, 0, 8].forEach((x) => seen.below(x, x === 0 ? "score 0" : formatNumber(x), { align: x < 0 ? "left" : x > 0 ? "right" : "center" }));
    write(ctx, theme, "how many scores", seen.x + seen.w, seen.yAt(0) + 14, { align: "right", color: theme.scaling });
    write(ctx, theme, "φ", seen.xAt(1.6), seen.y + 6, { color: theme.readout, weight: 600, size: 13 });
  },
};

const CAPACITY_MOST = 32;
const capacityCache = new Map();

// The mean squared error of the answers, for 1, 2, ... facts with drawn keys: summed, and written by the delta rule.
function capacityCurves({ width, seed }) {
  const name = `${seed}:${width}`;
  if (!capacityCache.has(name)) capacityCache.set(name, upTo(CAPACITY_MOST, (m) => capacityErrors(m + 1, width, seed)));
  return capacityCache.get(name);
}

function capacityErrors(facts, width, seed) {
  const keys = upTo(facts, (j) => {
    const drawn = upTo(width, (c) => drawNormal(seed, STREAM.fact, j, c));
    const length = Math.hypot(...drawn);
    return drawn.map((x) => x / length);
  });
  const product = (x, y) => x.reduce((sum, value, c) => sum + value * y[c], 0);
  const errors = [0, 0];
  keys.forEach((key, j) => {
    const stored = [...key];
    for (let t = j + 1; t < facts; t++) {
      const along = product(keys[t], stored);
      keys[t].forEach((z, c) => (stored[c] -= along * z));
    }
    keys.forEach((query, i) => {
      const wanted = i === j ? 1 : 0;
      errors[0] += (product(query, key) - wanted) ** 2 / facts;
      errors[1] += (product(query, stored) - wanted) ** 2 / facts;
    });
  });
  return errors;
}

export const CAPACITY = {
  name: "capacity",
  title: "Facts in one state: the squared error of an answer against their number",
  defaults: { facts: 12, width: 16, seed: 7 },
  controls: [
    { key: "facts", label: "Facts stored", min: 1, max: CAPACITY_MOST },
    { key: "width", label: "Width n", min: 2, max: 64 },
  ],
  numbers: ["error-sum", "error-delta", "error-theory"],
  compute(s) {
    const curves = capacityCurves(s);
    return { s, curves, sum: curves[s.facts - 1][0], delta: curves[s.facts - 1][1], theory: (s.facts - 1) / s.width };
  },
  show: ({ sum, delta, theory }) => ({
    "error-sum": ["keys summed", formatNumber(sum), sum],
    "error-delta": ["delta rule, β = 1", formatNumber(delta), delta],
    "error-theory": ["(facts − 1)/n, expected of the sum", formatNumber(theory), theory],
  }),
  words: ({ s, sum, delta }) => `${s.facts} facts in a state of width ${s.width}: squared error ${formatNumber(sum)} when keys are summed, ${formatNumber(delta)} by the delta rule.`,
  draw(canvas, { s, curves, sum, delta }, theme) {
    const { ctx, width, height } = openCanvas(canvas);
    const top = Math.max(0.1, ...curves.flat());
    const seen = chart(ctx, theme, { ...wholeBox(width, height), w: width - 84 }, [1, CAPACITY_MOST], [0, 1.08 * top]);
    if (s.width <= CAPACITY_MOST) {
      seen.line([[s.width, 0], [s.width, top]], theme.line, 1.5);
      write(ctx, theme, "facts = n", seen.xAt(s.width), seen.y - 4, { align: "center" });
    }
    [[0, theme.muted, "summed", sum], [1, theme.evolution, "delta rule", delta]].forEach(([at, color, name, now]) => {
      seen.line(curves.map((pair, m) => [m + 1, pair[at]]), color, 2.5);
      dot(ctx, seen.xAt(s.facts), seen.yAt(now), 5, color, theme.panel);
      write(ctx, theme, name, seen.x + seen.w + 6, seen.yAt(curves.at(-1)[at]) + 4, { color, weight: 600 });
    });
    seen.below(1, "1 fact", { align: "left" });
    seen.below(CAPACITY_MOST, String(CAPACITY_MOST), { align: "right" });
  },
};
