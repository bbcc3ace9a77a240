// Scores s_ij = q_i^T A_i ... A_{j+1} b_j k_j of one head, and their gradients. The numbers of a head are float64 and
// lie together: a head is small, and long products of matrices lose nothing that way.
//
// A_t = diag(decay_t) (I - beta_t z_t z_t^T); decay and beta are null where a structure has none. Of A_t = a_t I only the
// product of the a_t is needed (pairScores); otherwise, and where a feature map reads the state, every stored key evolves
// token by token as the equation says (storedScores).

import { FEATURES } from "./readout.js";

export class Head {
  constructor(L, n, d, options, tiny) {
    const tokens = () => new Float64Array(L);
    const vectors = (width) => new Float64Array(L * width);
    const square = () => new Float64Array(L * L);
    Object.assign(this, options, { L, n, d, tiny });
    [this.q, this.k, this.z, this.keys, this.decay] = Array.from({ length: 5 }, () => vectors(n));
    [this.dq, this.dk, this.dz, this.dKeys, this.dDecay] = Array.from({ length: 5 }, () => vectors(n));
    [this.v, this.y, this.dv, this.dy] = Array.from({ length: 4 }, () => vectors(d));
    [this.b, this.beta, this.eta, this.dB, this.dBeta, this.dEta] = Array.from({ length: 6 }, tokens);
    [this.a, this.dLogA, this.fade] = Array.from({ length: 3 }, tokens);
    [this.scores, this.values, this.slopes, this.dScores] = Array.from({ length: 4 }, square);
    [this.qFeatures, this.qSlopes, this.keySlopes, this.lambda] = Array.from({ length: 4 }, () => vectors(n));
  }
}

// What one head computes on its way forward and needs again on its way back: states[i, j], psi and its slope there, and
// what A_i erases, z_i^T states[i - 1, j].
export const storedOf = ({ L, n, psi, reflects }) => ({
  states: new Float64Array(L * L * n),
  features: psi && new Float64Array(L * L * n),
  featureSlopes: psi && new Float64Array(L * L * n),
  erased: reflects && new Float64Array(L * L),
});

export const dotOf = (x, y, at, to, size) => {
  let sum = 0;
  for (let c = 0; c < size; c++) sum += x[at + c] * y[to + c];
  return sum;
};

// s_ij = a_i ... a_{j+1} q_i^T keys_j, with keys_j = b_j k_j, or psi(b_j k_j) read by psi(q_i).
export function pairScores(head) {
  const { L, n, q, keys, a, fade, scores, decays } = head;
  for (let i = 0; i < L; i++) {
    for (let j = 0; j <= i; j++) {
      if (decays) fade[j] = j < i ? fade[j] * a[i] : 1;
      const score = dotOf(q, keys, i * n, j * n, n);
      scores[i * L + j] = decays ? score * fade[j] : score;
    }
  }
}

// With s_ij = e^{G_i - G_j} q_i^T keys_j the gradient of G_t is q_t^T dq_t - keys_t^T dkeys_t.
export function pairBackward(head) {
  const { L, n, q, keys, dq, dKeys, a, dLogA, fade, dScores, decays } = head;
  dq.fill(0);
  dKeys.fill(0);
  for (let i = 0; i < L; i++) {
    for (let j = 0; j <= i; j++) {
      let slope = dScores[i * L + j];
      if (decays) {
        fade[j] = j < i ? fade[j] * a[i] : 1;
        slope *= fade[j];
      }
      for (let c = 0; c < n; c++) {
        dq[i * n + c] += slope * keys[j * n + c];
        dKeys[j * n + c] += slope * q[i * n + c];
      }
    }
  }
  if (!decays) return;
  for (let t = L - 1, sum = 0; t >= 0; t--) {
    sum += dotOf(q, dq, t * n, t * n, n) - dotOf(keys, dKeys, t * n, t * n, n);
    dLogA[t] = sum;
  }
}

// Row i of the states: states[i, j] = A_i states[i - 1, j], and keys_i is written.
function evolveRow({ L, n, decay, beta, keys, z, decays, reflects }, { states, erased }, i) {
  const own = i * n;
  for (let j = 0; j < i; j++) {
    const before = ((i - 1) * L + j) * n;
    const after = before + L * n;
    if (reflects) {
      const along = (erased[i * L + j] = dotOf(z, states, own, before, n));
      const shorter = beta[i] * along;
      for (let c = 0; c < n; c++) states[after + c] = states[before + c] - shorter * z[own + c];
      if (decays) for (let c = 0; c < n; c++) states[after + c] *= decay[own + c];
    } else {
      for (let c = 0; c < n; c++) states[after + c] = states[before + c] * decay[own + c];
    }
  }
  const newest = (i * L + i) * n;
  for (let c = 0; c < n; c++) states[newest + c] = keys[own + c];
}

// Row by row, while the states of the row before are still at hand.
export function storedScores(head, kept) {
  const { L, n, psi, scores, q, qFeatures, qSlopes } = head;
  const { states, features, featureSlopes } = kept;
  if (psi) FEATURES[psi](q, 0, L * n, 0, qFeatures, qSlopes);
  for (let i = 0; i < L; i++) {
    const start = i * L * n;
    evolveRow(head, kept, i);
    if (psi) FEATURES[psi](states, start, start + (i + 1) * n, 0, features, featureSlopes);
    const [reading, stored] = psi ? [qFeatures, features] : [q, states];
    for (let j = 0; j <= i; j++) scores[i * L + j] = dotOf(reading, stored, i * n, start + j * n, n);
  }
}

// lambda_j is the gradient of states[i, j], row by row from the last: what row i reads is added, then A_i is passed
// backwards, and what is left when its own row is reached is the gradient of keys_j.
export function storedBackward(head, kept) {
  const { L, n, psi, q, dq, dKeys, dScores, lambda, qFeatures, qSlopes } = head;
  const { states, features, featureSlopes } = kept;
  if (psi) FEATURES[psi](q, 0, L * n, 0, qFeatures, qSlopes);
  dq.fill(0);
  lambda.fill(0);
  for (const gradient of [head.dDecay, head.dBeta, head.dz]) gradient.fill(0);
  for (let i = L - 1; i >= 0; i--) {
    const own = i * n;
    for (let j = 0; j <= i; j++) {
      const ds = dScores[i * L + j];
      const [at, to] = [(i * L + j) * n, j * n];
      if (psi) {
        for (let c = 0; c < n; c++) {
          dq[own + c] += ds * features[at + c];
          lambda[to + c] += ds * qFeatures[own + c] * featureSlopes[at + c];
        }
      } else {
        for (let c = 0; c < n; c++) {
          dq[own + c] += ds * states[at + c];
          lambda[to + c] += ds * q[own + c];
        }
      }
      if (j < i) evolveBackward(head, kept, i, j);
    }
    for (let c = own; c < own + n; c++) {
      if (psi) dq[c] *= qSlopes[c];
      dKeys[c] = lambda[c];
    }
  }
}

// The gradient of states[i, j] = diag(decay_i) (h - beta_i z_i z_i^T h) to that of h = states[i - 1, j], and to those of
// log decay_i, beta_i and z_i.
function evolveBackward(head, { states, erased }, i, j) {
  const { L, n, z, lambda, decay, beta, decays, reflects, dDecay, dBeta, dz } = head;
  const [after, own, to] = [(i * L + j) * n, i * n, j * n];
  if (decays) {
    for (let c = 0; c < n; c++) {
      dDecay[own + c] += lambda[to + c] * states[after + c];
      lambda[to + c] *= decay[own + c];
    }
  }
  if (!reflects) return;
  const before = after - L * n;
  const read = erased[i * L + j];
  const along = dotOf(z, lambda, own, to, n);
  dBeta[i] -= read * along;
  const [reading, writing] = [beta[i] * read, beta[i] * along];
  for (let c = 0; c < n; c++) {
    dz[own + c] -= reading * lambda[to + c] + writing * states[before + c];
    lambda[to + c] -= writing * z[own + c];
  }
}
