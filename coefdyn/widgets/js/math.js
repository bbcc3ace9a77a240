// The coefficients: alpha_ij = phi(q_i^T A_i ... A_{j+1} b_j k_j) for j <= i, and eta_i. Arithmetic only.

const positive = (x) => Math.max(x, 0);
const softplus = (x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)));
const eluPlusOne = (x) => (x > 0 ? x + 1 : Math.exp(x));
export const READOUTS = {
  identity: { phi: (s) => s, sign: "any" },
  exp: { phi: Math.exp, sign: "nonnegative" },
  relu: { phi: positive, sign: "nonnegative" },
  softplus: { phi: softplus, sign: "nonnegative" },
  feature_elu: { psi: eluPlusOne, sign: "nonnegative" },
  feature_relu: { psi: positive, sign: "nonnegative" },
  feature_softplus: { psi: softplus, sign: "nonnegative" },
  feature_exp: { psi: Math.exp, sign: "nonnegative" },
};

// h <- A_t h, in place.
export function advance(g, h, t) {
  const { n, beta, z, decay, before } = g;
  const at = t * n;
  if (g.matrix) {
    const was = Float64Array.from(h);
    for (let r = 0; r < n; r++) {
      h[r] = 0;
      for (let c = 0; c < n; c++) h[r] += g.matrix[(at + r) * n + c] * was[c];
    }
    return;
  }
  if (before) for (let c = 0; c < n; c++) h[c] *= before[at + c];
  if (beta) {
    let along = 0;
    for (let c = 0; c < n; c++) along += z[at + c] * h[c];
    along *= beta[t];
    for (let c = 0; c < n; c++) h[c] -= along * z[at + c];
  }
  if (decay) for (let c = 0; c < n; c++) h[c] *= decay[at + c];
}

export function impulse(g, j) {
  const h = new Float64Array(g.n);
  for (let c = 0; c < g.n; c++) h[c] = g.b[j] * g.k[j * g.n + c];
  return h;
}

// h_ij for i = j..L-1, row after row.
export function states(g, j) {
  const path = new Float64Array((g.L - j) * g.n);
  const h = impulse(g, j);
  path.set(h, 0);
  for (let i = j + 1; i < g.L; i++) {
    advance(g, h, i);
    path.set(h, (i - j) * g.n);
  }
  return path;
}

// Scores s_ij = q_i^T h_ij and coefficients for each named readout, exact zeros above the diagonal;
// logs are log alpha where the first readout is an exponential.
export function coefficients(g, names) {
  const { L, n, q } = g;
  const features = names.map((name) => READOUTS[name].psi || null);
  const queries = features.map((psi) => (psi ? q.map(psi) : null));
  const scores = new Float64Array(L * L);
  const alphas = names.map(() => new Float64Array(L * L));
  const beside = g.own || g.fade || g.hidden;
  const logs = names[0] === "feature_exp" || beside ? new Float64Array(L * L) : scores;
  for (let j = 0; j < L; j++) {
    const h = impulse(g, j);
    for (let i = j; i < L; i++) {
      if (i > j) advance(g, h, i);
      let score = 0;
      for (let c = 0; c < n; c++) score += q[i * n + c] * h[c];
      scores[i * L + j] = score;
      for (let r = 0; r < names.length; r++) {
        let value = 0;
        if (!features[r]) value = READOUTS[names[r]].phi(score);
        else for (let c = 0; c < n; c++) value += queries[r][i * n + c] * features[r](h[c]);
        alphas[r][i * L + j] = beside ? outside(g, value, i, j) : value;
      }
      if (logs === scores) continue;
      const log = names[0] === "feature_exp" ? logSumExp(n, (c) => q[i * n + c] + h[c]) : score;
      logs[i * L + j] = beside ? outsideLog(g, log, i, j) : log;
    }
  }
  return { scores, alphas, logs };
}

// alpha from phi(s): 0 for a pair that may not meet, faded by a decay outside phi, the own term on the diagonal.
function outside(g, value, i, j) {
  if (g.hidden && g.hidden[i][j]) return 0;
  const faded = g.fade ? value * Math.exp(g.fade[i] - g.fade[j]) : value;
  return g.own && i === j ? faded + g.own[i] : faded;
}

// The same for log phi(s); an own term of either sign has no logarithm (weightsOf).
function outsideLog(g, log, i, j) {
  if (g.hidden && g.hidden[i][j]) return -Infinity;
  return g.fade ? log + g.fade[i] - g.fade[j] : log;
}

function logSumExp(count, term) {
  let top = -Infinity;
  for (let c = 0; c < count; c++) top = Math.max(top, term(c));
  if (!Number.isFinite(top)) return top;
  let sum = 0;
  for (let c = 0; c < count; c++) sum += Math.exp(term(c) - top);
  return top + Math.log(sum);
}

export function rowSums(alpha, L) {
  const sums = new Float64Array(L);
  for (let i = 0; i < L; i++) for (let j = 0; j <= i; j++) sums[i] += alpha[i * L + j];
  return sums;
}

export function normalizerOf(g, name, given, floor, sums) {
  const rule = {
    one: () => 1,
    row_sum: (i) => (g.sink ? sums[i] + Math.exp(g.sink[i]) : sums[i]),
    floored: (i) => Math.max(Math.abs(sums[i]), floor),
    geometric: (i) => given[i],
    gate: (i) => given[i],
  }[name];
  return Float64Array.from({ length: g.L }, (_, i) => rule(i));
}

// alpha / eta; a zero row sum gives a zero row, and where both overflow so does the weight. Exponentials with a row sum are divided as logarithms.
export function weightsOf(g, alpha, logs, eta) {
  const { L } = g;
  const weights = new Float64Array(L * L);
  const exponential = g.readout === "exp" || g.readout === "feature_exp";
  const logarithmic = exponential && (g.normalizer === "row_sum" || g.normalizer === "floored") && !g.blend && !g.own;
  for (let i = 0; i < L; i++) {
    const logEta = logarithmic ? logNormalizer(g, logs, i) : 0;
    for (let j = 0; j <= i; j++) {
      const at = i * L + j;
      if (logarithmic) weights[at] = logEta === -Infinity ? 0 : Math.exp(logs[at] - logEta);
      else weights[at] = eta[i] === 0 ? 0 : quotient(alpha[at], eta[i]);
    }
  }
  return weights;
}

function quotient(x, y) {
  const overflows = Math.abs(x) === Infinity && Math.abs(y) === Infinity;
  return overflows ? x : x / y;
}

function logNormalizer(g, logs, i) {
  const sunk = g.sink && g.normalizer === "row_sum";
  const logSum = logSumExp(i + (sunk ? 2 : 1), (j) => (j > i ? g.sink[i] : logs[i * g.L + j]));
  return g.normalizer === "floored" ? Math.max(logSum, Math.log(g.floor)) : logSum;
}

// Fraction of the coefficients of pairs that a mask admits (hidden: null for all) with |alpha| <= epsilon.
export function nearZeroFraction(alpha, L, epsilon, hidden = null) {
  let count = 0;
  let pairs = 0;
  for (let i = 0; i < L; i++) for (let j = 0; j <= i; j++) if (!(hidden && hidden[i][j])) {
    pairs++;
    if (Math.abs(alpha[i * L + j]) <= epsilon) count++;
  }
  return count / pairs;
}

// The largest finite |x|.
export function largestMagnitude(values) {
  let top = 0;
  for (const value of values) {
    const size = Math.abs(value);
    if (size > top && size < Infinity) top = size;
  }
  return top;
}

const isSumOne = (normalizer) => normalizer === "row_sum";

// What phi's range and eta promise (Appendix A of the paper), whatever the data.
export function combinationClass(readout, normalizer) {
  const nonnegative = READOUTS[readout].sign === "nonnegative";
  if (isSumOne(normalizer)) return nonnegative ? "convex" : "affine";
  return nonnegative ? "conical" : "linear";
}

// What one row of weights is, on the data at hand.
export function rowClass(weights, L, i) {
  let sum = 0;
  let least = Infinity;
  for (let j = 0; j <= i; j++) {
    sum += weights[i * L + j];
    least = Math.min(least, weights[i * L + j]);
  }
  const one = Math.abs(sum - 1) <= 1e-9;
  if (least >= 0) return one ? "convex" : "conical";
  return one ? "affine" : "linear";
}

// Where phi is within epsilon of zero, as an interval of scores (null: a feature map has no such interval).
export function nearZeroInterval(readout, epsilon) {
  return {
    identity: [-epsilon, epsilon],
    exp: [-Infinity, Math.log(epsilon)],
    relu: [-Infinity, epsilon],
    softplus: [-Infinity, Math.log(Math.expm1(epsilon))],
  }[readout] || null;
}

export const FLOAT32_LOG_MAX = Math.log(3.4028234663852886e38);

// Growth of the states: the largest mean slope of log |h_ij| over i, in nats per token, over all j with room to grow.
export function growthRate(g) {
  let best = -Infinity;
  const norms = (h) => Math.sqrt(h.reduce((sum, x) => sum + x * x, 0));
  for (let j = 0; j < g.L >> 1; j++) {
    const h = impulse(g, j);
    const start = norms(h);
    for (let i = j + 1; i < g.L; i++) advance(g, h, i);
    const end = norms(h);
    if (start > 0 && end > 0) best = Math.max(best, (Math.log(end) - Math.log(start)) / (g.L - 1 - j));
  }
  return best;
}

// Tokens until a coefficient passes float32's largest number at this growth; Infinity when it never does.
export function overflowHorizon(g, scores, rate) {
  let largest = 0;
  for (let t = 0; t < g.L; t++) largest = Math.max(largest, Math.abs(scores[t * g.L + t]));
  if (largest === 0) return Infinity;
  const room = g.readout === "exp" || g.readout === "feature_exp"
    ? Math.log(FLOAT32_LOG_MAX) - Math.log(largest)
    : FLOAT32_LOG_MAX - Math.log(largest);
  if (room <= 0) return 0;
  return rate > 1e-9 ? Math.ceil(room / rate) : Infinity;
}
