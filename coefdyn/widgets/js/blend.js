// Morph: a design between two designs, on the same tokens. Every structure is a case of
// A_t = diag(decay) (I - beta z z^T) diag(before), so these and b move there directly:
//   log |decay|, log before, log b and beta linearly; z linearly, then to length one; a flipped sign passes through zero.
// So do the decay outside phi in its logarithm, the own term, and the size of the window.
// alpha and eta are the mixtures (1 - t) from + t to.

import { windowed } from "./ingredients.js";
import { coefficients, normalizerOf, rowSums, weightsOf } from "./math.js";

export function blendIngredients(from, to, t) {
  const g = {
    L: from.L, n: from.n, q: from.q, k: from.k, ids: from.ids, words: from.words, values: from.values, told: from.told, step: from.step,
    structure: "morph", readout: from.readout, normalizer: from.normalizer, floor: from.floor,
    given: from.given, blend: { t, from, to },
  };
  const size = g.L * g.n;
  const one = new Float64Array(size).fill(1);
  g.decay = from.decay || to.decay ? mixDecay(from.decay || one, to.decay || one, t) : null;
  g.before = from.before || to.before ? mixDecay(from.before || one, to.before || one, t) : null;
  const none = new Float64Array(g.L);
  for (const name of ["fade", "own"]) {
    const [start, end] = [from[name] || none, to[name] || none];
    g[name] = from[name] || to[name] ? start.map((x, i) => mixFinite(x, end[i], t)) : null;
  }
  g.window = Math.round(mixFinite(from.window, to.window, t));
  g.hidden = windowed(g.window, g.L);
  if (from.beta || to.beta) {
    const zero = new Float64Array(g.L);
    g.beta = (from.beta || zero).map((x, i) => (1 - t) * x + t * (to.beta || zero)[i]);
    g.z = mixDirections(from.z || to.z, to.z || from.z, g.n, t);
  } else {
    g.beta = null;
    g.z = null;
  }
  g.b = from.b.map((x, i) => Math.exp(mixFinite(Math.log(x), Math.log(to.b[i]), t)));
  return g;
}

function mixDecay(a, b, t) {
  return a.map((x, i) => {
    const y = b[i];
    if (x * y > 0) return Math.sign(x) * Math.exp((1 - t) * Math.log(Math.abs(x)) + t * Math.log(Math.abs(y)));
    return t < 0.5 ? x * (1 - 2 * t) : y * (2 * t - 1);
  });
}

function mixDirections(a, b, n, t) {
  const z = a.map((x, i) => (1 - t) * x + t * b[i]);
  for (let at = 0; at < z.length; at += n) {
    let square = 0;
    for (let c = 0; c < n; c++) square += z[at + c] * z[at + c];
    const norm = Math.sqrt(square);
    for (let c = 0; c < n; c++) z[at + c] = norm > 1e-12 ? z[at + c] / norm : a[at + c];
  }
  return z;
}

function solveBlend(g) {
  const { t, from, to } = g.blend;
  const names = from.readout === to.readout ? [from.readout] : [from.readout, to.readout];
  const { scores, alphas } = coefficients(g, names);
  const alpha = names.length === 1 ? alphas[0] : alphas[0].map((x, i) => mixFinite(x, alphas[1][i], t));
  const sums = rowSums(alpha, g.L);
  const start = normalizerOf({ ...g, sink: from.sink }, from.normalizer, from.given, from.floor, sums);
  const end = normalizerOf({ ...g, sink: to.sink }, to.normalizer, to.given, to.floor, sums);
  const eta = start.map((x, i) => mixFinite(x, end[i], t));
  return { scores, logs: scores, alpha, sums, eta, weights: weightsOf(g, alpha, scores, eta) };
}

// At either end the other side does not count, not even when it overflows.
export function mixFinite(x, y, t) {
  if (t === 0) return x;
  return t === 1 ? y : (1 - t) * x + t * y;
}

// Everything the views need.
export function solve(g) {
  if (g.blend) return solveBlend(g);
  const { scores, alphas, logs } = coefficients(g, [g.readout]);
  const alpha = alphas[0];
  const sums = rowSums(alpha, g.L);
  const eta = normalizerOf(g, g.normalizer, g.given, g.floor, sums);
  return { scores, logs, alpha, sums, eta, weights: weightsOf(g, alpha, logs, eta) };
}
