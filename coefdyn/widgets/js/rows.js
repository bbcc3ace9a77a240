// One row of coefficients: three facts, a query that fits nothing, combinations of two values, growth, the near-zero set.

import { answerWords, formatShare } from "./answer.js";
import { READOUTS } from "./math.js";
import { buildModel } from "./model.js";
import { chart, plane, radians, upTo, wholeBox } from "./plot.js";
import { defaultSettings, factPlaces, normaliseSettings, withPreset } from "./state.js";
import { formatNumber } from "./text.js";
import { arrow, dot, openCanvas, sizeOf, stroke, write } from "./theme.js";
import SCHEMA from "../schema.json" with { type: "json" };

const FACT_KEYS = ["decay", "beta", "spread", "scale", "floor"];

// A row of Table 1 with the numbers that it starts with on facts.
function factsOf(preset) {
  const start = withPreset(defaultSettings(), preset);
  return { preset, ...Object.fromEntries(FACT_KEYS.map((key) => [key, start[key]])) };
}

export const FACTS_VIEW = {
  name: "facts",
  title: "Three facts, one question: the coefficients of its row, and the answer",
  defaults: { preset: "gated_deltanet", decay: 0.98, beta: 1, scale: 1, spread: 0.5, floor: 1, asked: "cat" },
  controls: [
    ...FACT_KEYS.map((key) => ({ key, label: SCHEMA.ranges[key].label, min: SCHEMA.ranges[key].min, max: SCHEMA.ranges[key].max,
      step: SCHEMA.ranges[key].step, ingredient: SCHEMA.ranges[key].group, format: (x) => formatNumber(x) })),
    { key: "preset", label: "Row of Table 1", options: Object.fromEntries(Object.entries(SCHEMA.rows).map(([name, row]) => [name, row.label])), patch: factsOf },
    { key: "asked", label: "Asked for", options: { cat: "cat", dog: "dog" } },
  ],
  numbers: ["answer-black", "answer-brown", "answer-white"],
  compute({ preset, asked, ...numbers }) {
    const text = SCHEMA.texts.text.default.replace(/\S+$/, asked);
    const { settings } = normaliseSettings({ preset, tokens: "facts", text, ...numbers, view: "normalized", ...factPlaces(text) });
    const model = buildModel(settings, {});
    return { model, asked, answer: Object.fromEntries(model.answer) };
  },
  show: ({ answer, asked }) => Object.fromEntries(["black", "brown", "white"].map((word) => [`answer-${word}`, [`${asked}: ${word}`, formatShare(answer[word]), answer[word]]])),
  words: ({ model }) => `${SCHEMA.rows[model.settings.preset].label}. ${answerWords(model)}`,
  draw(canvas, { model: { g, weights, row } }, theme) {
    const { ctx, width, height } = openCanvas(canvas);
    const values = upTo(row + 1, (j) => weights[row * g.L + j]);
    const most = Math.max(0.5, ...values);
    const box = { x: 10, y: 14, w: width - 20, h: height - 62 };
    const seen = chart(ctx, theme, box, [-0.6, row + 0.6], [Math.min(0, ...values) * 1.1, most * 1.1]);
    const wide = Math.max(4, (box.w / (row + 1)) * 0.55);
    values.forEach((x, j) => {
      if (g.values[j] !== null || Math.abs(x) > 1e-9) seen.stem(j, x, wide, x < 0 ? theme.negative : theme.positive);
      if (Math.abs(x) > 0.004) write(ctx, theme, formatShare(x), seen.xAt(j), seen.yAt(Math.max(x, 0)) - 4, { align: "center", color: theme.ink, weight: 600 });
      ctx.save();
      ctx.translate(seen.xAt(j) + 4, box.y + box.h + 6);
      ctx.rotate(-Math.PI / 2);
      write(ctx, theme, g.words[j], 0, 0, { align: "right", weight: g.values[j] !== null ? 600 : 400, color: g.values[j] !== null ? theme.ink : theme.muted });
      ctx.restore();
    });
  },
};

const ROW_KINDS = {
  softmax: { label: "exp, row sum", readout: "exp", eta: (sum) => sum },
  floored: { label: "exp, row sum of at least 1", readout: "exp", eta: (sum) => Math.max(Math.abs(sum), 1) },
  relu: { label: "ReLU, row sum", readout: "relu", eta: (sum) => sum },
  identity: { label: "identity, none", readout: "identity", eta: () => 1 },
};
const ROW_SCORES = [2, 0.5, -0.5, -1, -2];

export const EMPTY_ROW = {
  name: "empty-row",
  title: "A query that fits nothing: what its row still hands out",
  defaults: { shift: 0, kind: "softmax" },
  controls: [
    { key: "shift", label: "All scores moved by", min: -8, max: 2, step: 0.1, ingredient: "evolution", format: (x) => formatNumber(x) },
    { key: "kind", label: "φ and η", options: Object.fromEntries(Object.entries(ROW_KINDS).map(([key, { label }]) => [key, label])) },
  ],
  numbers: ["weight-sum", "largest-weight"],
  compute(s) {
    const { readout, eta } = ROW_KINDS[s.kind];
    const scores = ROW_SCORES.map((x) => x + s.shift);
    const alpha = scores.map(READOUTS[readout].phi);
    const divisor = eta(alpha.reduce((sum, x) => sum + x, 0));
    const weights = alpha.map((x) => (divisor === 0 ? 0 : x / divisor));
    return { s, scores, weights, sum: weights.reduce((total, x) => total + x, 0), largest: Math.max(...weights.map(Math.abs)) };
  },
  show: ({ scores, sum, largest }) => ({
    scores: ["scores", "", scores],
    "weight-sum": ["the row hands out", formatNumber(sum), sum],
    "largest-weight": ["largest weight", formatNumber(largest), largest],
  }),
  words: ({ s, sum }) => `Scores moved by ${formatNumber(s.shift)}, ${ROW_KINDS[s.kind].label}: the weights of the row sum to ${formatNumber(sum)}.`,
  draw(canvas, { scores, weights }, theme) {
    const { ctx, width, height } = openCanvas(canvas);
    const least = Math.min(-0.15, ...weights);
    const seen = chart(ctx, theme, wholeBox(width, height), [-0.6, 4.6], [1.1 * least, Math.max(1.1, 1.1 * Math.max(...weights))]);
    weights.forEach((w, j) => {
      seen.stem(j, w, Math.min(46, seen.w / 9), w < 0 ? theme.negative : theme.positive);
      write(ctx, theme, formatNumber(w, 2), seen.xAt(j), seen.yAt(Math.max(w, 0)) - 5, { align: "center", color: theme.ink, weight: 600 });
      seen.below(j, `s = ${formatNumber(scores[j])}`);
    });
  },
};

const COMBINE_KINDS = {
  convex: { label: "exp, row sum: convex", readout: "exp", one: true },
  conical: { label: "ReLU, none: conical", readout: "relu", one: false },
  affine: { label: "identity, row sum: affine", readout: "identity", one: true },
  linear: { label: "identity, none: linear", readout: "identity", one: false },
};
const COMBINE_VALUES = [[0.9, 0.25], [-0.15, 0.85]];
const COMBINE_KEYS = [0, 75];

function combine(kind, angle) {
  const { readout, one } = COMBINE_KINDS[kind];
  const alpha = COMBINE_KEYS.map((key) => READOUTS[readout].phi(Math.cos(radians(angle - key))));
  const eta = one ? alpha[0] + alpha[1] : 1;
  const weights = alpha.map((x) => (eta === 0 ? 0 : x / eta));
  return { weights, y: [0, 1].map((c) => weights[0] * COMBINE_VALUES[0][c] + weights[1] * COMBINE_VALUES[1][c]) };
}

export const COMBINATION = {
  name: "combination",
  title: "Where an output of two values can lie, while its query turns",
  defaults: { angle: 60, kind: "convex" },
  controls: [
    { key: "angle", label: "Query turned to", min: 0, max: 355, step: 5, format: (x) => `${x}°` },
    { key: "kind", label: "φ and η", options: Object.fromEntries(Object.entries(COMBINE_KINDS).map(([key, { label }]) => [key, label])) },
  ],
  numbers: ["weight-first", "weight-second", "weight-sum"],
  compute: (s) => ({ s, ...combine(s.kind, s.angle), places: upTo(73, (m) => combine(s.kind, 5 * m).y) }),
  show: ({ weights: [first, second] }) => ({
    "weight-first": ["weight of v₁", formatNumber(first), first],
    "weight-second": ["weight of v₂", formatNumber(second), second],
    "weight-sum": ["their sum", formatNumber(first + second), first + second],
  }),
  words: ({ s, weights: [first, second] }) => `${COMBINE_KINDS[s.kind].label}; query at ${s.angle} degrees: the output is ${formatNumber(first)} of the first value and ${formatNumber(second)} of the second.`,
  drag({ x, y }, canvas) {
    const [width, height] = sizeOf(canvas);
    const turn = (Math.atan2(height / 2 - y, x - width / 2) * 180) / Math.PI;
    return { angle: (Math.round(turn / 5) * 5 + 360) % 360 };
  },
  draw(canvas, { s, y, places }, theme) {
    const { ctx, width, height } = openCanvas(canvas);
    const view = plane(ctx, theme, { x: 6, y: 5, w: width - 12, h: height - 10 }, 1.25);
    const far = (v, t) => view.at(v.map((x) => t * x));
    const [first, second] = COMBINE_VALUES;
    ctx.fillStyle = theme["near-zero"];
    ctx.globalAlpha = 0.6;
    if (s.kind === "conical") {
      ctx.beginPath();
      [[view.cx, view.cy], far(first, 8), far(second, 8)].forEach(([x, at], m) => (m ? ctx.lineTo(x, at) : ctx.moveTo(x, at)));
      ctx.fill();
    } else if (s.kind === "linear") ctx.fillRect(0, 0, width, height);
    ctx.globalAlpha = 1;
    const on = (t) => view.at([0, 1].map((c) => first[c] + t * (second[c] - first[c])));
    if (s.kind === "affine") stroke(ctx, [on(-9), on(9)], theme.readout, 1.5);
    if (s.kind === "convex") stroke(ctx, [on(0), on(1)], theme.readout, 4);
    places.filter((p) => Math.hypot(...p) < 4).forEach((p) => dot(ctx, ...view.at(p), 2, theme.readout));
    COMBINE_VALUES.forEach((v, m) => {
      arrow(ctx, view.cx, view.cy, ...view.at(v), theme.muted, 2);
      write(ctx, theme, `v${"₁₂"[m]}`, view.at(v)[0] + 10, view.at(v)[1] - 4, { color: theme.ink, weight: 600, size: 13 });
    });
    dot(ctx, ...view.at(y), 6, theme.ink, theme.panel);
    write(ctx, theme, "y", view.at(y)[0] + 10, view.at(y)[1] + 14, { color: theme.ink, weight: 600, size: 13 });
  },
};
