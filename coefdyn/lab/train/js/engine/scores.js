// Scores s_ij = q_i^T A_i ... A_{j+1} b_j k_j of one head, and their gradients. The numbers of a head are float64 and
// lie together: a head is small, and long products of matrices lose nothing that way.
//
// A_t = diag(decay_t) (I - beta_t z_t z_t^T); decay and beta are null where a structure has none. Of A_t = a_t I only the
// product of the a_t is needed (pairScores); otherwise, and where a feature map reads the state, every stored key evolves
// token by token as the equation says (storedScores).

class Head {
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
    if (this.stored) this.states = new Float64Array(L * L * n);
    if (this.stored && this.psi) this.features = new Float64Array(L * L * n);
    [this.qFeatures, this.lambda] = [vectors(n), vectors(n)];
  }
}

const dotOf = (x, y, at, to, size) => {
  let sum = 0;
  for (let c = 0; c < size; c++) sum += x[at + c] * y[to + c];
  return sum;
};

// s_ij = a_i ... a_{j+1} q_i^T keys_j, with keys_j = b_j k_j, or psi(b_j k_j) read by psi(q_i).
function pairScores(head) {
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
function pairBackward(head) {
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

// states[i, j] = A_i states[i - 1, j], and keys_i is written.
function evolveStates(head) {
  const { L, n, states, keys, z } = head;
  const decay = head.decays ? head.decay : null;
  const beta = head.reflects ? head.beta : null;
  for (let i = 0; i < L; i++) {
    for (let j = 0; j < i; j++) {
      const [before, after] = [((i - 1) * L + j) * n, (i * L + j) * n];
      const erased = beta ? beta[i] * dotOf(z, states, i * n, before, n) : 0;
      for (let c = 0; c < n; c++) {
        const kept = beta ? states[before + c] - erased * z[i * n + c] : states[before + c];
        states[after + c] = decay ? kept * decay[i * n + c] : kept;
      }
    }
    for (let c = 0; c < n; c++) states[(i * L + i) * n + c] = keys[i * n + c];
  }
}

// psi of the queries and of all states.
function mapFeatures(head) {
  const { L, n, q, states, features, qFeatures } = head;
  const psi = FEATURES[head.psi];
  for (let at = 0; at < L * n; at++) qFeatures[at] = psi(q[at]);
  for (let i = 0; i < L; i++) {
    for (let at = i * L * n; at < (i * L + i + 1) * n; at++) features[at] = psi(states[at]);
  }
}

function storedScores(head) {
  const { L, n, psi, scores } = head;
  evolveStates(head);
  if (psi) mapFeatures(head);
  const [reading, stored] = psi ? [head.qFeatures, head.features] : [head.q, head.states];
  for (let i = 0; i < L; i++) {
    for (let j = 0; j <= i; j++) scores[i * L + j] = dotOf(reading, stored, i * n, (i * L + j) * n, n);
  }
}

// lambda_j is the gradient of states[i, j], row by row from the last: what row i reads is added, then A_i is passed
// backwards, and what is left when its own row is reached is the gradient of keys_j. The states are those of one head,
// so they are made again here; their features cost more, and are handed in (`features`, `qFeatures`).
function storedBackward(head) {
  const { L, n, psi, dq, dKeys, dScores, lambda } = head;
  evolveStates(head);
  const { q, states, features, qFeatures } = head;
  const slope = psi ? FEATURE_SLOPES[psi] : null;
  dq.fill(0);
  lambda.fill(0);
  for (const gradient of [head.dDecay, head.dBeta, head.dz]) gradient.fill(0);
  for (let i = L - 1; i >= 0; i--) {
    for (let j = 0; j <= i; j++) {
      const ds = dScores[i * L + j];
      const at = (i * L + j) * n;
      for (let c = 0; c < n; c++) {
        if (psi) {
          dq[i * n + c] += ds * features[at + c];
          lambda[j * n + c] += ds * qFeatures[i * n + c] * slope(features[at + c]);
        } else {
          dq[i * n + c] += ds * states[at + c];
          lambda[j * n + c] += ds * q[i * n + c];
        }
      }
      if (j < i) evolveBackward(head, i, j);
    }
    for (let c = 0; c < n; c++) {
      if (psi) dq[i * n + c] *= slope(qFeatures[i * n + c]);
      dKeys[i * n + c] = lambda[i * n + c];
    }
  }
}

// The gradient of states[i, j] = diag(decay_i) (h - beta_i z_i z_i^T h) to that of h = states[i - 1, j], and to those of
// log decay_i, beta_i and z_i.
function evolveBackward(head, i, j) {
  const { L, n, states, z, lambda, decay, beta, decays, reflects, dDecay, dBeta, dz } = head;
  const [before, after, own] = [((i - 1) * L + j) * n, (i * L + j) * n, i * n];
  if (decays) {
    for (let c = 0; c < n; c++) {
      dDecay[own + c] += lambda[j * n + c] * states[after + c];
      lambda[j * n + c] *= decay[own + c];
    }
  }
  if (!reflects) return;
  const read = dotOf(z, states, own, before, n);
  const along = dotOf(z, lambda, own, j * n, n);
  dBeta[i] -= read * along;
  for (let c = 0; c < n; c++) {
    dz[own + c] -= beta[i] * (read * lambda[j * n + c] + along * states[before + c]);
    lambda[j * n + c] -= beta[i] * along * z[own + c];
  }
}
