// Learning-rate schedule and AdamW, as coefdyn.lab.training.schedule and coefdyn.lab.training.adamw.

import { givenOnly } from "./options.js";

const TRAIN_DEFAULTS = {
  learningRate: 1e-3, steps: 1000, schedule: "cosine", warmup: 0, finalLearningRate: 1e-6,
  weightDecay: 0, betas: [0.9, 0.98], epsilon: 1e-8, clip: null,
};

// The learning rate of step t, 0-based; beyond the last step it stays where it ended.
function learningRateAt(t, { learningRate, steps, schedule, warmup, finalLearningRate }) {
  const at = Math.min(t, steps - 1);
  const grown = learningRate * Math.min((at + 1) / Math.max(1, warmup), 1);
  if (schedule === "constant" || at < warmup) return grown;
  const half = 0.5 * (1 + Math.cos((Math.PI * (at - warmup)) / (steps - warmup)));
  return finalLearningRate + Math.max(learningRate - finalLearningRate, 0) * half;
}

// Decoupled weight decay (Loshchilov and Hutter); the bias corrections are folded into rate and epsilon.
class AdamW {
  constructor(parameters, options) {
    this.parameters = parameters;
    this.options = { ...TRAIN_DEFAULTS, ...givenOnly(options) };
    this.t = 0;
    const zeros = () => parameters.map(({ data }) => new data.constructor(data.length));
    [this.first, this.second] = [zeros(), zeros()];
  }

  // The learning rate of the next step.
  get rate() {
    return learningRateAt(this.t, this.options);
  }

  // One update from the parameters' gradients. Where the gradient is not finite nothing is changed.
  step() {
    const norm = gradientNorm(this.parameters);
    if (!Number.isFinite(norm)) return { norm, finite: false };
    const { betas: [slow, slower], epsilon, weightDecay, clip } = this.options;
    const [rate, power] = [this.rate, this.t + 1];
    const root = Math.sqrt(1 - slower ** power);
    const [size, least] = [(rate * root) / (1 - slow ** power), epsilon * root];
    const shorter = clip === null ? 1 : clip / Math.max(norm, clip);
    this.parameters.forEach(({ data, grad, decayed }, index) => {
      const [first, second] = [this.first[index], this.second[index]];
      const kept = decayed ? 1 - rate * weightDecay : 1;
      for (let at = 0; at < data.length; at++) {
        const slope = grad[at] * shorter;
        const mean = (first[at] += (1 - slow) * (slope - first[at]));
        const square = (second[at] = slower * second[at] + (1 - slower) * slope * slope);
        data[at] = data[at] * kept - (size * mean) / (Math.sqrt(square) + least);
      }
    });
    this.t++;
    return { norm, finite: true };
  }
}

function gradientNorm(parameters) {
  let square = 0;
  for (const { grad } of parameters) for (let at = 0; at < grad.length; at++) square += grad[at] * grad[at];
  return Math.sqrt(square);
}

export const adamw = (parameters, options) => new AdamW(parameters, options);
