// A swing let go at place 1 with angular speed 2, photographed every step: three rules from one sample to the next.

import { formatNumber } from "./text.js";
import { dot, openCanvas, stroke, write } from "./theme.js";

const SWING_OMEGA = 2;
const SWING_SECONDS = 12;
const SWING_RULES = {
  tangent: ([re, im]) => [1 + re, im],
  bilinear: ([re, im]) => {
    const [a, b, size] = [1 - re / 2, -im / 2, (1 - re / 2) ** 2 + (im / 2) ** 2];
    return [((1 + re / 2) * a + (im / 2) * b) / size, ((im / 2) * a - (1 + re / 2) * b) / size];
  },
  hold: ([re, im]) => [Math.exp(re) * Math.cos(im), Math.exp(re) * Math.sin(im)],
};

// The place after a time, or after m steps of a rule with this modulus and angle: Re((1 - i g/w) mu^m).
function swingPlace(modulus, angle, m, lean) {
  return modulus ** m * (Math.cos(angle * m) + lean * Math.sin(angle * m));
}

export const SWING = {
  name: "swing",
  title: "A swing and its samples, and the eigenvalues of the step",
  defaults: { step: 0.2, friction: 0.1, rule: "tangent" },
  controls: [
    { key: "step", label: "Step Δ, seconds", min: 0.02, max: 1.5, step: 0.01, ingredient: "evolution", format: (x) => x.toFixed(2) },
    { key: "friction", label: "Friction γ", min: 0, max: 1, step: 0.01, ingredient: "evolution", format: (x) => x.toFixed(2) },
    { key: "rule", label: "Rule", options: { tangent: "tangent (Euler)", bilinear: "bilinear", hold: "zero-order hold" } },
  ],
  numbers: ["swing-kept", "swing-true", "swing-angle", "swing-true-angle"],
  compute(s) {
    const [delta, gamma] = [s.step, s.friction];
    const turning = Math.sqrt(SWING_OMEGA ** 2 - gamma ** 2);
    const [re, im] = SWING_RULES[s.rule]([-gamma * delta, turning * delta]);
    const [kept, angle] = [Math.hypot(re, im), Math.atan2(im, re)];
    const steps = Math.floor(SWING_SECONDS / delta) + 1;
    const places = Array.from({ length: steps }, (_, m) => [m * delta, swingPlace(kept, angle, m, gamma / turning)]);
    const truth = Array.from({ length: 301 }, (_, m) => (m / 300) * SWING_SECONDS)
      .map((t) => [t, swingPlace(Math.exp(-gamma), turning, t, gamma / turning)]);
    return { s, re, im, kept, angle, places, truth, trueKept: Math.exp(-gamma * delta), trueAngle: turning * delta };
  },
  show: ({ kept, angle, trueKept, trueAngle }) => ({
    "swing-kept": ["kept per step, |λ|", formatNumber(kept, 4), kept],
    "swing-true": ["in truth", formatNumber(trueKept, 4), trueKept],
    "swing-angle": ["turned per step", `${formatNumber((180 / Math.PI) * angle)}°`, angle],
    "swing-true-angle": ["in truth", `${formatNumber((180 / Math.PI) * trueAngle)}°`, trueAngle],
  }),
  words: ({ kept, trueKept }) => `Each step keeps ${formatNumber(kept, 4)} of the swing, in truth ${formatNumber(trueKept, 4)}.${kept > 1 + 1e-12 ? " It grows." : ""}`,
  draw(canvas, { re, im, places, truth, kept }, theme) {
    const { ctx, width, height } = openCanvas(canvas);
    const disc = Math.min(width * 0.32, height);
    const split = width - disc - 10;
    const limit = 2.2;
    const at = ([t, place]) => [6 + (t / SWING_SECONDS) * (split - 12), height / 2 - (Math.max(-limit, Math.min(limit, place)) / limit) * (height / 2 - 14)];
    stroke(ctx, [at([0, 0]), at([SWING_SECONDS, 0])], theme.line);
    stroke(ctx, truth.map(at), theme.muted, 2);
    const color = kept > 1 + 1e-12 ? theme.negative : theme.evolution;
    places.forEach((sample) => dot(ctx, ...at(sample), 3, color, theme.panel));
    write(ctx, theme, `${SWING_SECONDS} seconds`, split - 6, height - 4, { align: "right" });
    const [x, y, radius] = [split + 10 + disc / 2, height / 2, disc / 3.4];
    const circle = Array.from({ length: 65 }, (_, m) => [x + radius * Math.cos((m * Math.PI) / 32), y - radius * Math.sin((m * Math.PI) / 32)]);
    stroke(ctx, circle, theme.muted);
    stroke(ctx, [[x - 1.4 * radius, y], [x + 1.4 * radius, y]], theme.line);
    stroke(ctx, [[x, y - 1.4 * radius], [x, y + 1.4 * radius]], theme.line);
    const shrink = Math.min(1, 1.45 / Math.max(kept, 1e-9));
    for (const sign of [1, -1]) dot(ctx, x + radius * shrink * re, y - sign * radius * shrink * im, 5, color, theme.panel);
    write(ctx, theme, kept > 1.45 ? "λ, far outside" : "λ", x + radius * shrink * re + 8, y - radius * shrink * im + 4);
  },
};
