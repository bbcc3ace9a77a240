// What is left of a token: by channel, by direction, by distance, and what a step's length does to it.

import { chart, radians, upTo, wholeBox } from "./plot.js";
import { formatNumber } from "./text.js";
import { dot, openCanvas, write } from "./theme.js";

const FADE_STEPS = 40;

// The channels of a diagonal A, as the explorer spreads them.
function channelKeeps({ keep, spread }) {
  return upTo(4, (c) => Math.exp(Math.log(keep) * (1 + spread * ((2 * c + 1) / 4 - 1))));
}

export const MEMORY = {
  name: "memory",
  title: "What is left of a token, channel by channel",
  defaults: { keep: 0.9, spread: 0.8 },
  controls: [
    { key: "keep", label: "Keep per step, a", min: 0.5, max: 0.99, step: 0.01, ingredient: "evolution" },
    { key: "spread", label: "Spread over channels", min: 0, max: 1, step: 0.01, ingredient: "evolution" },
  ],
  numbers: ["longest", "shortest"],
  compute: (s) => ({ s, keeps: channelKeeps(s), lives: channelKeeps(s).map((a) => -Math.LN2 / Math.log(a)) }),
  show: ({ lives }) => ({
    longest: ["longest half-life, tokens", formatNumber(lives[0]), lives[0]],
    shortest: ["shortest half-life, tokens", formatNumber(lives[3]), lives[3]],
  }),
  words: ({ lives }) => `Four channels; half of a token is left after ${formatNumber(lives[3])} to ${formatNumber(lives[0])} tokens.`,
  draw(canvas, { keeps, lives }, theme) {
    const { ctx, width, height } = openCanvas(canvas);
    const seen = chart(ctx, theme, wholeBox(width, height), [0, FADE_STEPS], [0, 1.05]);
    seen.line([[0, 0.5], [FADE_STEPS, 0.5]], theme.muted, 1, [4, 4]);
    write(ctx, theme, "half", seen.x + seen.w, seen.yAt(0.5) - 4, { align: "right" });
    keeps.forEach((a, c) => {
      seen.line(upTo(FADE_STEPS + 1, (t) => [t, a ** t]), theme.evolution, 2.6 - 0.5 * c);
      if (lives[c] < FADE_STEPS) dot(ctx, seen.xAt(lives[c]), seen.yAt(0.5), 4, theme.evolution, theme.panel);
    });
    seen.below(0, "written", { align: "left" });
    seen.below(FADE_STEPS, `${FADE_STEPS} tokens later`, { align: "right" });
  },
};

export const DISTANCE = {
  name: "distance",
  title: "The coefficient of one and the same token, by how far back it stands",
  defaults: { keep: 1, angle: 0 },
  controls: [
    { key: "keep", label: "Keep per step", min: 0.5, max: 1, step: 0.01, ingredient: "evolution" },
    { key: "angle", label: "Turn per step", min: 0, max: 180, ingredient: "evolution", format: (x) => `${x}°` },
  ],
  numbers: ["near", "far", "told-apart"],
  compute(s) {
    const at = (d) => s.keep ** d * Math.cos(radians(s.angle) * d);
    return { s, values: upTo(25, at), near: at(3), far: at(9), apart: Math.abs(at(3) - at(9)) > 1e-9 };
  },
  show: ({ near, far, apart }) => ({
    near: ["3 tokens back", formatNumber(near), near],
    far: ["9 tokens back", formatNumber(far), far],
    "told-apart": ["told apart", apart ? "yes" : "no", apart],
  }),
  words: ({ near, far }) => `The same token has the coefficient ${formatNumber(near)} three tokens back and ${formatNumber(far)} nine tokens back.`,
  draw(canvas, { values }, theme) {
    const { ctx, width, height } = openCanvas(canvas);
    const seen = chart(ctx, theme, wholeBox(width, height), [24.6, -0.6], [Math.min(-0.12, ...values) * 1.05, 1.08]);
    const wide = Math.max(2, (seen.w / 25) * 0.6);
    values.forEach((x, d) => seen.stem(d, x, wide, d === 3 || d === 9 ? (x < 0 ? theme.negative : theme.positive) : theme[x < 0 ? "negative-mid" : "positive-mid"]));
    seen.below(24, "24 back", { align: "left" });
    seen.below(9, "9");
    seen.below(3, "3");
  },
};

export const EIGENVALUES = {
  name: "eigenvalues",
  title: "The two eigenvalues of A = a (I − β z zᵀ), and what they leave of a key",
  defaults: { keep: 0.95, beta: 0.5 },
  controls: [
    { key: "beta", label: "Erase, β", min: 0, max: 2, step: 0.01, ingredient: "evolution" },
    { key: "keep", label: "Keep per step, a", min: 0.5, max: 1.1, step: 0.01, ingredient: "evolution" },
  ],
  numbers: ["along-eigenvalue", "across-eigenvalue"],
  compute: (s) => ({ s, along: s.keep * (1 - s.beta), across: s.keep }),
  show: ({ along, across }) => ({
    "along-eigenvalue": [`along z: ${motionWords(along)}`, formatNumber(along), along],
    "across-eigenvalue": [`across z: ${motionWords(across)}`, formatNumber(across), across],
  }),
  words: ({ along, across }) => `Along z the eigenvalue is ${formatNumber(along)} (${motionWords(along)}), across z ${formatNumber(across)} (${motionWords(across)}).`,
  draw(canvas, { along, across }, theme) {
    const { ctx, width, height } = openCanvas(canvas);
    const line = { x: 18, y: 12, w: width - 36, h: 26 };
    const axis = chart(ctx, theme, line, [-1.2, 1.2], [-1, 1]);
    ctx.globalAlpha = 0.35;
    ctx.fillStyle = theme["near-zero"];
    ctx.fillRect(axis.xAt(-1), 10, axis.xAt(1) - axis.xAt(-1), 30);
    ctx.globalAlpha = 1;
    [-1, 0, 1].forEach((x) => axis.below(x, String(x).replace("-", "−")));
    dot(ctx, axis.xAt(across), axis.yAt(0), 6, theme.panel, theme.evolution);
    dot(ctx, axis.xAt(along), axis.yAt(0), 6, theme.evolution, theme.panel);
    const box = { x: 18, y: 74, w: width - 36, h: height - 92 };
    const seen = chart(ctx, theme, box, [-0.5, 16.5], [-1.1, 1.1]);
    const cut = (x) => Math.max(-1.1, Math.min(1.1, x));
    for (let t = 0; t <= 16; t++) {
      seen.stem(t - 0.15, cut(across ** t), 3, theme.muted);
      seen.stem(t + 0.15, cut(along ** t), Math.max(3, box.w / 60), along ** t < 0 ? theme.negative : theme.positive);
    }
    write(ctx, theme, "left along z (wide) and across z (thin), step by step", box.x, 68);
    seen.below(0, "0");
    seen.below(16, "16 steps");
  },
};

function motionWords(x) {
  const size = Math.abs(x);
  const length = size < 1e-9 ? "gone at once" : Math.abs(size - 1) < 1e-9 ? "kept" : size < 1 ? "fades" : "grows";
  return x < -1e-9 ? `${length}, sign flips` : length;
}

const STEP_INPUT = [6, 18]; // the word is there from the one step until before the other

export const STEP = {
  name: "step",
  title: "One number for keeping and writing: a = exp(−Δ), b = Δ",
  defaults: { step: 0.3, writing: "tied" },
  controls: [
    { key: "step", label: "Step Δ", min: 0.02, max: 3, step: 0.02, ingredient: "scaling" },
    { key: "writing", label: "Strength b", options: { tied: "Δ, tied to a", exact: "1 − exp(−Δ), exact", one: "1, free of a" } },
  ],
  numbers: ["kept", "written", "level"],
  compute(s) {
    const a = Math.exp(-s.step);
    const b = { tied: s.step, exact: 1 - a, one: 1 }[s.writing];
    let h = 0;
    const path = upTo(32, (t) => (h = a * h + (t >= STEP_INPUT[0] && t < STEP_INPUT[1] ? b : 0)));
    return { s, a, b, path, level: b / (1 - a) };
  },
  show: ({ a, b, level }) => ({
    kept: ["kept of the past, a", formatNumber(a), a],
    written: ["written of the new, b", formatNumber(b), b],
    level: ["level if the word stays", formatNumber(level), level],
  }),
  words: ({ s, a, b }) => `With the step ${formatNumber(s.step)} the state keeps ${formatNumber(a)} of the past and writes ${formatNumber(b)} of the new.`,
  draw(canvas, { path, level }, theme) {
    const { ctx, width, height } = openCanvas(canvas);
    const seen = chart(ctx, theme, wholeBox(width, height), [0, 31], [0, Math.max(1.3, 1.05 * Math.max(...path))]);
    ctx.fillStyle = theme.zero;
    ctx.fillRect(seen.xAt(STEP_INPUT[0]), seen.yAt(1), seen.xAt(STEP_INPUT[1]) - seen.xAt(STEP_INPUT[0]), seen.yAt(0) - seen.yAt(1));
    seen.line([[0, level], [31, level]], theme.muted, 1, [4, 4]);
    seen.line(path.map((h, t) => [t, h]), theme.evolution, 2.5);
    write(ctx, theme, "the word is there", (seen.xAt(STEP_INPUT[0]) + seen.xAt(STEP_INPUT[1])) / 2, seen.yAt(0) + 14, { align: "center" });
    write(ctx, theme, "the state", seen.x + seen.w, seen.y - 4, { align: "right", color: theme.evolution, weight: 600 });
  },
};
