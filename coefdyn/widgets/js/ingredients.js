// From settings to the four ingredients, in one general form:
//   A_t = diag(decay_t) (I - beta_t z_t z_t^T) diag(before_t),  b_j,  phi,  eta.
// `decay`, `beta` and `before` are null where a structure has none.

import { drawUniform, STREAM } from "./draws.js";
import { drawQueriesKeys, tokenIdentities, tokenWords } from "./tokens.js";

export function ingredientsFrom(s, data) {
  if (isGiven(data)) return ingredientsFromData(s, data);
  const ids = tokenIdentities(s);
  const { q, k } = drawQueriesKeys(s, ids);
  const g = { L: s.length, n: s.width, q, k, ids, structure: s.structure, ...tokenWords(s, ids), told: s.tokens === "facts" };
  const gate = (stream, t, c) => drawUniform(s.seed, stream, ids[t], c);
  g.beta_t = Float64Array.from(ids, (_, t) => s.beta + s.variation * gate(STREAM.beta, t, 0) * Math.min(s.beta, 2 - s.beta));
  addEvolution(g, s, gate);
  addBeside(g, s, gate);
  g.b = scalings(g, s, gate);
  g.readout = s.readout;
  g.normalizer = s.normalizer;
  g.floor = s.floor;
  g.given = givenNormalizer(g, s, gate);
  return g;
}

function addEvolution(g, s, gate) {
  const { L, n } = g;
  const rate = Math.log(s.decay);
  g.step = Float64Array.from({ length: L }, (_, t) => rate * (1 + s.variation * gate(STREAM.decay, t, 0)));
  g.decay = null;
  g.before = null;
  g.beta = null;
  g.z = null;
  const byChannel = s.structure === "erased_channels" || s.structure === "diagonal_rank_one";
  const rankOne = s.structure === "erased_diagonal" || byChannel;
  if (s.structure === "diagonal" || rankOne) {
    g.decay = new Float64Array(L * n);
    for (let t = 0; t < L; t++) {
      for (let c = 0; c < n; c++) {
        const channel = 1 + s.spread * ((2 * c + 1) / n - 1);
        g.decay[t * n + c] = Math.exp(rate * channel * (1 + s.variation * gate(STREAM.decay, t, c)));
      }
    }
  } else if (s.structure === "scalar" || s.structure === "scaled_householder") {
    g.decay = new Float64Array(L * n);
    for (let t = 0; t < L; t++) g.decay.fill(Math.exp(g.step[t]), t * n, (t + 1) * n);
  }
  if (g.decay && s.flip) g.decay = g.decay.map((a) => -a);
  if (s.structure === "householder" || s.structure === "scaled_householder" || rankOne) {
    g.beta = g.beta_t;
    g.z = directions(g, s);
  }
  if (s.structure === "erased_diagonal") {
    g.before = g.decay.map(Math.abs);
    g.decay = s.flip ? new Float64Array(L * n).fill(-1) : null;
  }
  if (byChannel) placeRates(g, s, gate);
}

// r a rate of erasing for each channel, in the general form: diag(a) - (r z) z^T is, with u = r^1/2 a^-1/2 z,
// diag(r^1/2 a^1/2) (I - u u^T) diag(a^1/2 r^-1/2), and (I - z (r z)^T) diag(a) is, with u = r^1/2 z,
// diag(r^-1/2) (I - u u^T) diag(r^1/2 a). u becomes a direction of length one with its own beta. A flipped sign is
// that of the whole.
function placeRates(g, s, gate) {
  const { L, n } = g;
  g.beta = new Float64Array(L);
  g.before = new Float64Array(L * n);
  for (let t = 0; t < L; t++) {
    for (let at = t * n, c = 0; c < n; c++, at++) {
      const rate = s.beta + s.variation * gate(STREAM.beta, t, c) * Math.min(s.beta, 2 - s.beta);
      const [root, kept] = [Math.sqrt(rate || 1), Math.abs(g.decay[at])];
      const half = Math.sqrt(kept);
      const [turned, after, before] = s.structure === "erased_channels" ? [root, 1 / root, root * kept] : [root / half, root * half, half / root];
      g.z[at] *= rate > 0 ? turned : 0;
      g.beta[t] += g.z[at] * g.z[at];
      g.decay[at] = Math.sign(g.decay[at]) * after;
      g.before[at] = before;
    }
    for (let at = t * n; at < (t + 1) * n; at++) g.z[at] /= Math.sqrt(g.beta[t]) || 1;
  }
}

// What stands beside phi: a decay outside it, an own term, a sink of the row sum, or a window.
function addBeside(g, s, gate) {
  const { L } = g;
  const chosen = (kind) => s.beside === kind;
  let sum = 0;
  g.fade = chosen("fade") ? Float64Array.from({ length: L }, (_, t) => (sum += Math.log(s.fade) * (1 + s.variation * gate(STREAM.decay, t, 0)))) : null;
  g.own = chosen("own") ? new Float64Array(L).fill(s.own) : null;
  g.sink = chosen("sink") && s.readout !== "identity" ? new Float64Array(L).fill(s.sink) : null;
  g.window = chosen("window") ? Math.min(s.window, L) : L;
  g.hidden = windowed(g.window, L);
}

// Pairs that are too far apart to meet; null where the window holds all.
export function windowed(size, L) {
  if (size >= L) return null;
  return Array.from({ length: L }, (_, i) => Array.from({ length: i + 1 }, (__, j) => i - j >= size));
}

// z_t of length one: the key turned by the angle, one fixed direction, or a direction that turns every step.
function directions(g, s) {
  const { L, n, k } = g;
  const z = new Float64Array(L * n);
  for (let t = 0; t < L; t++) {
    const turn = ((s.direction === "turning" ? s.angle * (t + 1) : s.angle) * Math.PI) / 180;
    const row = new Float64Array(n);
    if (s.direction === "key") {
      let square = 0;
      for (let c = 0; c < n; c++) square += k[t * n + c] * k[t * n + c];
      const norm = Math.sqrt(square);
      const none = s.tokens === "facts" ? 0 : 1; // a word that stores nothing erases nothing
      for (let c = 0; c < n; c++) row[c] = norm > 0 ? k[t * n + c] / norm : c === 0 ? none : 0;
    } else {
      row[0] = 1;
    }
    rotatePairs(row, turn);
    z.set(row, t * n);
  }
  return z;
}

// Turns the planes (1,2), (3,4), ...; an odd last coordinate stays.
function rotatePairs(row, turn) {
  const cos = Math.cos(turn);
  const sin = Math.sin(turn);
  for (let c = 0; c + 1 < row.length; c += 2) {
    const [x, y] = [row[c], row[c + 1]];
    row[c] = cos * x - sin * y;
    row[c + 1] = sin * x + cos * y;
  }
}

function scalings(g, s, gate) {
  const root = Math.sqrt(g.n);
  const kinds = {
    one: () => 1,
    inverse_sqrt_n: () => 1 / root,
    beta: (t) => g.beta_t[t] / root,
    step: (t) => Math.abs(g.step[t]),
    exponential: (t) => Math.exp(4 * s.variation * gate(STREAM.input, t, 0)) / root,
  };
  return Float64Array.from({ length: g.L }, (_, t) => s.scale * kinds[s.scaling](t));
}

export function givenNormalizer(g, s, gate) {
  if (s.normalizer === "geometric") {
    let power = 1;
    return Float64Array.from({ length: g.L }, () => (power *= s.base));
  }
  if (s.normalizer === "gate") {
    return Float64Array.from({ length: g.L }, (_, t) => Math.exp(4 * s.variation * gate(STREAM.output, t, 0)));
  }
  return null;
}

export const isGiven = (data) => Boolean(data && (data.q || data.heads));

// Explicit arrays from Python (Explorer.from_dynamics), of one head or of several to choose from; the page may
// still change readout and normalizer. Beside the four: what lies outside phi (own, fade, hidden) and a sink.
function ingredientsFromData(s, given) {
  const data = given.heads ? given.heads[Math.min(s.head, given.heads.length) - 1] : given;
  const flat = (rows) => (rows ? Float64Array.from(rows.flat()) : null);
  const L = data.q.length;
  const words = given.words || data.q.map((_, t) => String(t + 1));
  return {
    L, n: data.q[0].length, q: flat(data.q), k: flat(data.k),
    ids: data.q.map((_, t) => t), words, values: words, structure: data.structure,
    matrix: flat(data.matrix), spectrum: data.eigenvalues || null,
    decay: flat(data.decay), beta: data.beta ? Float64Array.from(data.beta) : null, z: flat(data.direction), step: new Float64Array(L),
    own: flat(data.own), fade: flat(data.fade), hidden: data.hidden || null, sink: s.readout === "identity" ? null : flat(data.sink),
    b: Float64Array.from(data.scaling), readout: s.readout, normalizer: s.normalizer, floor: s.floor,
    given: s.normalizer === "gate" ? (data.given ? Float64Array.from(data.given) : new Float64Array(L).fill(1))
      : givenNormalizer({ L }, s, null),
  };
}
