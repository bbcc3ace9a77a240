// Input-dependent numbers per head and token, as `coefdyn.mixers.gates`: decays, step sizes, beta and eta. A gate of C
// numbers reads x (rows, width) and gives (rows, C), all heads of a token side by side.

import { Linear, sumOfRows } from "./linear.js";
import { drawUniformBetween } from "./space.js";

// Above this score torch's softplus is the identity.
export const SOFTPLUS_TURNS_LINEAR = 20;
const softplusOf = (x) => (x > SOFTPLUS_TURNS_LINEAR ? x : Math.log1p(Math.exp(x)));
const sigmoidOf = (x) => 1 / (1 + Math.exp(-x));
// The derivative of softplus from its value.
const softplusSlope = (y) => (y > SOFTPLUS_TURNS_LINEAR ? 1 : -Math.expm1(-y));

export const GATE_MAPS = { exp: Math.exp, softplus: softplusOf, sigmoid: sigmoidOf };
const GATE_SLOPES = { exp: (y) => y, softplus: softplusSlope, sigmoid: (y) => y * (1 - y) };

// factor map(W x + bias), one number per head.
export class HeadGate {
  constructor(space, name, { width, heads, kind, factor = 1, bias = false }) {
    this.linear = new Linear(space, `${name}.linear`, width, heads, bias);
    Object.assign(this, { space, kind, factor });
  }

  draw(generator) {
    this.linear.draw(generator);
    if (this.linear.bias) drawTimesteps(this.linear.bias.data, generator);
  }

  forward(x, rows) {
    const map = GATE_MAPS[this.kind];
    const y = this.linear.forward(x, rows);
    this.size = rows * this.linear.outputs;
    for (let at = 0; at < this.size; at++) y[at] = this.factor * map(y[at]);
    this.slope = this.space.room(this.slope, this.size);
    return (this.y = y);
  }

  // From the gradient of its value, which is overwritten, to that of x, which is added to dx.
  backward(dy, dx) {
    const slope = GATE_SLOPES[this.kind];
    for (let at = 0; at < this.size; at++) dy[at] *= this.factor * slope(this.y[at] / this.factor);
    this.linear.backward(dy, dx, true);
  }
}

// Biases c such that softplus(c) is log-uniform in [0.001, 0.1] (Mamba-2).
function drawTimesteps(array, generator) {
  drawUniformBetween(array, Math.log(1e-3), Math.log(0.1), generator);
  for (let at = 0; at < array.length; at++) {
    const delta = Math.max(Math.exp(array[at]), 1e-4);
    array[at] = delta + Math.log(-Math.expm1(-delta));
  }
}

// Mamba-2's decay: log a_t = -Delta_t a with Delta_t = softplus(W x_t + c), a = exp(log_a).
export class TimestepDecay {
  constructor(space, name, { width, channels }) {
    this.space = space;
    this.bias = space.parameter(`${name}.delta_bias`, [channels], { decayed: false });
    this.logA = space.parameter(`${name}.log_a`, [channels], { decayed: false });
    this.linear = new Linear(space, `${name}.linear`, width, channels);
    this.channels = channels;
  }

  draw(generator) {
    this.linear.draw(generator);
    drawTimesteps(this.bias.data, generator);
    drawUniformBetween(this.logA.data, 1, 16, generator);
    for (let c = 0; c < this.channels; c++) this.logA.data[c] = Math.log(this.logA.data[c]);
  }

  // log a_t; Delta_t is kept as `delta`, and its gradient from elsewhere is expected in `dDelta`.
  forward(x, rows) {
    const { space, channels } = this;
    const delta = (this.delta = this.linear.forward(x, rows));
    const logDecay = (this.logDecay = space.room(this.logDecay, rows * channels));
    this.dDelta = space.room(this.dDelta, rows * channels).fill(0);
    this.rows = rows;
    for (let c = 0; c < channels; c++) {
      const a = Math.exp(this.logA.data[c]);
      for (let at = c; at < rows * channels; at += channels) {
        delta[at] = softplusOf(delta[at] + this.bias.data[c]);
        logDecay[at] = -delta[at] * a;
      }
    }
    return logDecay;
  }

  backward(dLogDecay, dx) {
    const { rows, channels, delta, dDelta, logDecay } = this;
    for (let c = 0; c < channels; c++) {
      const a = Math.exp(this.logA.data[c]);
      let sum = 0;
      for (let at = c; at < rows * channels; at += channels) {
        sum += dLogDecay[at] * logDecay[at];
        dDelta[at] = (dDelta[at] - a * dLogDecay[at]) * softplusSlope(delta[at]);
      }
      this.logA.grad[c] = sum;
    }
    sumOfRows(this.bias.grad, dDelta, rows);
    this.linear.backward(dDelta, dx, true);
  }
}

// GLA's decay: log a_t = logsigmoid(W_2 W_1 x_t + c) / 16, with W_1 of rank 16.
export class LowRankDecay {
  constructor(space, name, { width, channels }) {
    this.space = space;
    this.down = new Linear(space, `${name}.down`, width, 16);
    this.up = new Linear(space, `${name}.up`, 16, channels, true);
  }

  draw(generator) {
    this.down.draw(generator);
    this.up.draw(generator);
  }

  forward(x, rows) {
    this.rows = rows;
    const y = this.up.forward(this.down.forward(x, rows), rows);
    for (let at = 0; at < rows * this.up.outputs; at++) {
      y[at] = (Math.min(y[at], 0) - Math.log1p(Math.exp(-Math.abs(y[at])))) / 16;
    }
    return (this.logDecay = y);
  }

  backward(dLogDecay, dx) {
    const { rows, logDecay } = this;
    for (let at = 0; at < rows * this.up.outputs; at++) dLogDecay[at] *= -Math.expm1(16 * logDecay[at]) / 16;
    this.inner = this.space.room(this.inner, rows * 16);
    this.up.backward(dLogDecay, this.inner, false);
    this.down.backward(this.inner, dx, true);
  }
}
