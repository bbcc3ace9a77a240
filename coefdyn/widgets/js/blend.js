// Morph: a design between two designs, on the same tokens. Every structure is a case of
// A_t = diag(decay) (I - beta z z^T), so decay, beta, z and b move there directly:
//   log |decay|, log b and beta linearly; z linearly, then to length one; a flipped sign passes through zero.
// alpha and eta are the mixtures (1 - t) from + t to.

function blendIngredients(from, to, t) {
  const g = {
    L: from.L, n: from.n, q: from.q, k: from.k, ids: from.ids, step: from.step,
    structure: "morph", readout: from.readout, normalizer: from.normalizer, floor: from.floor,
    given: from.given, blend: { t, from, to },
  };
  const size = g.L * g.n;
  const one = new Float64Array(size).fill(1);
  g.decay = from.decay || to.decay ? mixDecay(from.decay || one, to.decay || one, t) : null;
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
  const start = normalizerOf(g, from.normalizer, from.given, from.floor, sums);
  const end = normalizerOf(g, to.normalizer, to.given, to.floor, sums);
  const eta = start.map((x, i) => mixFinite(x, end[i], t));
  return { scores, logs: scores, alpha, sums, eta, weights: weightsOf(g, alpha, scores, eta) };
}

// At either end the other side does not count, not even when it overflows.
function mixFinite(x, y, t) {
  if (t === 0) return x;
  return t === 1 ? y : (1 - t) * x + t * y;
}

// Eigenvalues of a diagonal times a reflection-like matrix, signs of the diagonal all equal:
// D (I - beta z z^T) has those of the symmetric |D|^1/2 (I - beta z z^T) |D|^1/2, up to that sign.
function eigenvaluesNumeric(g, t) {
  const { n, beta, z, decay } = g;
  const at = t * n;
  const sign = Math.sign(decay[at]) || 1;
  const root = Array.from({ length: n }, (_, c) => Math.sqrt(Math.abs(decay[at + c])));
  const rows = root.map((x, r) => root.map((y, c) => x * y * ((r === c ? 1 : 0) - beta[t] * z[at + r] * z[at + c])));
  return jacobiEigenvalues(rows).map((x) => sign * x);
}

// Cyclic Jacobi rotations on a symmetric matrix given as rows.
function jacobiEigenvalues(rows) {
  const n = rows.length;
  for (let sweep = 0; sweep < 30; sweep++) {
    let off = 0;
    for (let p = 0; p < n; p++) for (let r = p + 1; r < n; r++) off += rows[p][r] * rows[p][r];
    if (off < 1e-26) break;
    for (let p = 0; p < n; p++) for (let r = p + 1; r < n; r++) jacobiRotate(rows, p, r);
  }
  return rows.map((row, i) => row[i]);
}

function jacobiRotate(rows, p, r) {
  if (rows[p][r] === 0) return;
  const theta = (rows[r][r] - rows[p][p]) / (2 * rows[p][r]);
  const tangent = (theta >= 0 ? 1 : -1) / (Math.abs(theta) + Math.sqrt(theta * theta + 1));
  const cos = 1 / Math.sqrt(tangent * tangent + 1);
  const sin = tangent * cos;
  for (let m = 0; m < rows.length; m++) {
    const [x, y] = [rows[m][p], rows[m][r]];
    rows[m][p] = cos * x - sin * y;
    rows[m][r] = sin * x + cos * y;
  }
  for (let m = 0; m < rows.length; m++) {
    const [x, y] = [rows[p][m], rows[r][m]];
    rows[p][m] = cos * x - sin * y;
    rows[r][m] = sin * x + cos * y;
  }
}
