// From tokens to heads: L2 norm, rotary positions, and the copies between a token's row and a head, as
// `coefdyn.mixers.projections`. All vectors of a token lie side by side, head after head.

import { dotOf } from "./scores.js";

const L2_EPSILON = 1e-6;

// The part of so many numbers at `start` of every row, as one array, and back.
export function gatherHead(into, from, start, width, stride, length) {
  for (let t = 0; t < length; t++) {
    for (let c = 0; c < width; c++) into[t * width + c] = from[start + t * stride + c];
  }
}

export function scatterHead(into, from, start, width, stride, length) {
  for (let t = 0; t < length; t++) {
    for (let c = 0; c < width; c++) into[start + t * stride + c] = from[t * width + c];
  }
}

// Each of `count` vectors of size n to x / sqrt(|x|^2 + epsilon); `inverse` keeps the factors.
export function normalizeVectors(out, x, inverse, count, n) {
  for (let m = 0, at = 0; m < count; m++, at += n) {
    const factor = (inverse[m] = 1 / Math.sqrt(dotOf(x, x, at, at, n) + L2_EPSILON));
    for (let c = at; c < at + n; c++) out[c] = x[c] * factor;
  }
}

// Writes, or adds, the gradient of x; `unit` are the normalized vectors.
export function normalizeBackward(dx, dUnit, unit, inverse, count, n, add) {
  for (let m = 0, at = 0; m < count; m++, at += n) {
    const along = dotOf(unit, dUnit, at, at, n);
    for (let c = at; c < at + n; c++) {
      const slope = inverse[m] * (dUnit[c] - unit[c] * along);
      dx[c] = add ? dx[c] + slope : slope;
    }
  }
}

// Rotary positions (Su et al., 2021): channels r and r + n/2 of token t turned by t 10000^(-2r/n), in place.
export class Rotary {
  constructor(length, n) {
    this.half = n / 2;
    const angles = Float64Array.from({ length: length * this.half }, (_, at) => {
      return Math.floor(at / this.half) * 1e4 ** (-(at % this.half) / this.half);
    });
    this.cos = angles.map(Math.cos);
    this.sin = angles.map(Math.sin);
  }

  // direction 1 turns, -1 turns back, which is what a gradient needs.
  turn(x, batch, length, heads, direction) {
    const { half, cos, sin } = this;
    for (let m = 0, at = 0; m < batch * length; m++) {
      const place = (m % length) * half;
      for (let h = 0; h < heads; h++, at += 2 * half) {
        for (let r = 0; r < half; r++) {
          const c = cos[place + r], s = direction * sin[place + r];
          const first = x[at + r], second = x[at + half + r];
          x[at + r] = first * c - second * s;
          x[at + half + r] = second * c + first * s;
        }
      }
    }
  }
}
