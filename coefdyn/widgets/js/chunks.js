// Principle 1: the same output token by token, all at once, or chunk by chunk.

import { element } from "./dom.js";
import { arrow, openCanvas, write } from "./theme.js";

function chunkPlan({ length, chunk }) {
  const count = Math.ceil(length / chunk);
  const sizes = Array.from({ length: count }, (_, m) => Math.min(chunk, length - m * chunk));
  return { count, sizes, inside: sizes.reduce((sum, c) => sum + (c * (c + 1)) / 2, 0) };
}

// Multiplications per head: coefficients inside the chunks and their use; reading and writing the state.
function chunkCost({ length, chunk, width }) {
  const { sizes, inside, count } = chunkPlan({ length, chunk });
  const state = sizes.reduce((sum, c, m) => sum + (m > 0 ? c * width * width : 0) + (m < count - 1 ? c * width * width : 0), 0);
  return inside * 2 * width + state;
}

export const CHUNKS = {
  name: "chunks",
  title: "Chunk by chunk: squares are computed at once, the state carries the past",
  defaults: { length: 24, chunk: 6, width: 16, step: 0 },
  controls: [
    { key: "length", label: "Length L", min: 4, max: 48 },
    { key: "chunk", label: "Chunk C", min: 1, max: (s) => s.length },
    { key: "width", label: "n = d_v", min: 2, max: 64 },
    { key: "step", label: "Step", min: 0, max: (s) => chunkPlan(s).count, format: (x) => (x === 0 ? "all" : String(x)) },
  ],
  numbers: ["sequential-steps", "inside-entries", "multiplications"],
  extra: (app) => stepButton(app),
  compute(s) {
    const settings = { ...s, chunk: Math.min(s.chunk, s.length) };
    const plan = chunkPlan(settings);
    return { s: settings, plan, step: Math.min(s.step, plan.count), cost: chunkCost(settings),
      quadratic: chunkCost({ ...settings, chunk: settings.length }), linear: chunkCost({ ...settings, chunk: 1 }) };
  },
  show: ({ plan, cost, quadratic, linear }) => ({
    "sequential-steps": ["steps one after another", String(plan.count), plan.count],
    "inside-entries": ["coefficients formed", String(plan.inside), plan.inside],
    multiplications: [`multiplications; ${linear.toLocaleString("en")} token by token, ${quadratic.toLocaleString("en")} at once`, cost.toLocaleString("en"), cost],
  }),
  words: ({ s, plan }) => `${s.length} tokens in chunks of ${s.chunk}: ${plan.count} steps one after another, ${plan.inside} coefficients formed.`,
  draw(canvas, { s, plan, step }, theme) {
    const { ctx, width, height } = openCanvas(canvas);
    const side = Math.min(width - 16, height - 16);
    const [x0, y0, cell] = [(width - side) / 2, 8, side / s.length];
    for (let i = 0; i < s.length; i++) {
      for (let j = 0; j <= i; j++) {
        const [a, b] = [Math.floor(i / s.chunk), Math.floor(j / s.chunk)];
        const done = step === 0 || a < step;
        ctx.globalAlpha = done ? 1 : 0.18;
        ctx.fillStyle = a === b ? theme.positive : theme["positive-mid"];
        if (a !== b) ctx.globalAlpha = done ? 0.35 : 0.08;
        ctx.fillRect(x0 + j * cell, y0 + i * cell, Math.max(cell - 0.75, 0.5), Math.max(cell - 0.75, 0.5));
      }
    }
    ctx.globalAlpha = 1;
    for (let m = 1; m < plan.count; m++) {
      const at = m * s.chunk * cell;
      const active = step === m || step === 0;
      arrow(ctx, x0 + at - Math.min(s.chunk * cell * 0.4, 16), y0 + at, x0 + at + Math.min(s.chunk * cell * 0.4, 16), y0 + at, active ? theme.evolution : theme.line, active ? 2 : 1);
    }
    write(ctx, theme, "■ inside a chunk, at once", width - 6, 16, { align: "right", color: theme.positive, weight: 600 });
    write(ctx, theme, "□ read from the state", width - 6, 32, { align: "right" });
    write(ctx, theme, "→ the state moves on", width - 6, 48, { align: "right", color: theme.evolution });
  },
};

function stepButton(app) {
  const button = element("button", { type: "button", class: "cdx-button", "data-cd": "next-step", text: "Next step",
    onclick: () => app.change({ step: (app.model.step % app.model.plan.count) + 1 }) });
  return button;
}
