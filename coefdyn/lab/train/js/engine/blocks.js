// What stands around a mixer: LayerNorm, SwiGLU, and the pre-norm residual block of `coefdyn.models.blocks`.

import { DesignMixer } from "./design_mixer.js";
import { Linear } from "./linear.js";

const LAYER_NORM_EPSILON = 1e-5;

// y = weight (x - mean) / sqrt(variance + epsilon) + bias, over each row.
export class LayerNorm {
  constructor(space, name, width) {
    this.space = space;
    this.width = width;
    this.weight = space.parameter(`${name}.weight`, [width]);
    this.bias = space.parameter(`${name}.bias`, [width]);
    this.weight.data.fill(1);
  }

  forward(x, rows) {
    const { width, space } = this;
    const [weight, bias] = [this.weight.data, this.bias.data];
    this.rows = rows;
    const y = (this.y = space.room(this.y, rows * width));
    const unit = (this.unit = space.room(this.unit, rows * width));
    const scale = (this.scale = space.room(this.scale, rows));
    for (let m = 0, start = 0; m < rows; m++, start += width) {
      let mean = 0, square = 0;
      for (let c = start; c < start + width; c++) mean += x[c];
      mean /= width;
      for (let c = start; c < start + width; c++) square += (x[c] - mean) * (x[c] - mean);
      const factor = (scale[m] = 1 / Math.sqrt(square / width + LAYER_NORM_EPSILON));
      for (let c = 0; c < width; c++) {
        const value = (unit[start + c] = (x[start + c] - mean) * factor);
        y[start + c] = value * weight[c] + bias[c];
      }
    }
    return y;
  }

  // Adds the gradient of x to dx.
  backward(dy, dx) {
    const { rows, width, unit, scale } = this;
    const weight = this.weight.data;
    const [dWeight, dBias] = [this.weight.grad.fill(0), this.bias.grad.fill(0)];
    for (let m = 0, start = 0; m < rows; m++, start += width) {
      let mean = 0, along = 0;
      for (let c = 0; c < width; c++) {
        const slope = dy[start + c], value = unit[start + c];
        dWeight[c] += slope * value;
        dBias[c] += slope;
        mean += slope * weight[c];
        along += slope * weight[c] * value;
      }
      mean /= width;
      along /= width;
      for (let c = 0; c < width; c++) {
        dx[start + c] += scale[m] * (dy[start + c] * weight[c] - mean - unit[start + c] * along);
      }
    }
  }
}

// y = W_3 (SiLU(W_1 x) * W_2 x), no biases (Shazeer, 2020).
class SwiGLU {
  constructor(space, name, width, inner) {
    this.space = space;
    this.width = width;
    this.inner = inner;
    this.gate = new Linear(space, `${name}.gate`, width, inner);
    this.up = new Linear(space, `${name}.up`, width, inner);
    this.down = new Linear(space, `${name}.down`, inner, width);
  }

  draw(generator) {
    for (const map of [this.gate, this.up, this.down]) map.draw(generator);
  }

  forward(x, rows) {
    const { space, inner } = this;
    const [gate, up] = [this.gate.forward(x, rows), this.up.forward(x, rows)];
    const size = rows * inner;
    const share = (this.share = space.room(this.share, size));
    const product = (this.product = space.room(this.product, size));
    for (let at = 0; at < size; at++) {
      share[at] = 1 / (1 + Math.exp(-gate[at]));
      product[at] = gate[at] * share[at] * up[at];
    }
    return this.down.forward(product, rows);
  }

  // Writes the gradient of x into dx.
  backward(dy, dx, rows) {
    const { space, inner, share } = this;
    const [gate, up] = [this.gate.y, this.up.y];
    const size = rows * inner;
    const dGate = (this.dGate = space.room(this.dGate, size));
    const dUp = (this.dUp = space.room(this.dUp, size));
    this.down.backward(dy, dUp, false);
    for (let at = 0; at < size; at++) {
      const slope = dUp[at], opening = share[at];
      dGate[at] = slope * up[at] * opening * (1 + gate[at] * (1 - opening));
      dUp[at] = slope * gate[at] * opening;
    }
    this.gate.backward(dGate, dx, false);
    this.up.backward(dUp, dx, true);
  }
}

// x + mixer(norm(x)), then x + SwiGLU(norm(x)); the stream x is changed in place, and so is its gradient.
export class Block {
  constructor(space, name, options) {
    const { width, mlp } = options;
    this.space = space;
    this.width = width;
    this.mixerNorm = new LayerNorm(space, `${name}.mixer_norm`, width);
    this.mixer = new DesignMixer(space, `${name}.mixer`, options);
    this.mlpNorm = mlp ? new LayerNorm(space, `${name}.mlp_norm`, width) : null;
    this.mlp = mlp ? new SwiGLU(space, `${name}.mlp`, width, mlp) : null;
  }

  draw(generator) {
    this.mixer.draw(generator);
    if (this.mlp) this.mlp.draw(generator);
  }

  forward(x, batch, length) {
    const rows = batch * length;
    const size = rows * this.width;
    this.mixed = this.mixer.forward(this.mixerNorm.forward(x, rows), batch, length);
    for (let at = 0; at < size; at++) x[at] += this.mixed[at];
    if (!this.mlp) return;
    this.fed = this.mlp.forward(this.mlpNorm.forward(x, rows), rows);
    for (let at = 0; at < size; at++) x[at] += this.fed[at];
  }

  backward(dx, batch, length) {
    const rows = batch * length;
    const inner = (this.inner = this.space.room(this.inner, rows * this.width));
    if (this.mlp) {
      this.mlp.backward(dx, inner, rows);
      this.mlpNorm.backward(inner, dx);
    }
    this.mixer.backward(dx, inner, batch, length);
    this.mixerNorm.backward(inner, dx);
  }
}
