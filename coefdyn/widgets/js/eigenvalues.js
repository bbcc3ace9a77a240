// The eigenvalues of A_t.

// What A_t keeps of each channel, apart from what it erases.
function keptOf({ n, decay, before }, t) {
  return Array.from({ length: n }, (_, c) => (decay ? decay[t * n + c] : 1) * (before ? before[t * n + c] : 1));
}

// Eigenvalues of A_t, all of them, real: kept everywhere but along z, where it is kept (1 - beta |z|^2).
// Of a dense A_t these are the sizes of those that Python sends. With an uneven diagonal and a direction they are computed (below).
export function eigenvalues(g, t) {
  const { n, beta, z } = g;
  if (g.spectrum) return g.spectrum[t].map(([re, im]) => Math.hypot(re, im));
  const row = keptOf(g, t);
  if (!beta || beta[t] === 0) return row;
  if (row.some((a) => Math.abs(a - row[0]) > 1e-14 * Math.abs(a))) return eigenvaluesNumeric(g, t);
  let square = 0;
  for (let c = 0; c < n; c++) square += z[t * n + c] * z[t * n + c];
  row[n - 1] = row[0] * (1 - beta[t] * square);
  return row;
}

// The same as points [real, imaginary] of the plane.
export function spectrum(g, t) {
  return g.spectrum ? g.spectrum[t] : eigenvalues(g, t).map((x) => [x, 0]);
}

// Eigenvalues of a diagonal times a reflection-like matrix, signs of the diagonal all equal:
// D (I - beta z z^T) E has those of the symmetric |DE| - beta w w^T with w = |DE|^1/2 z, up to that sign. Each but the
// least lies between two neighbours of |D|, and the secular function tells on which side of a point.
function eigenvaluesNumeric(g, t) {
  const { n, beta, z } = g;
  const at = t * n;
  const kept = keptOf(g, t);
  const sign = Math.sign(kept[0]) || 1;
  const sizes = kept.map(Math.abs);
  const squares = sizes.map((a, c) => a * z[at + c] ** 2);
  const sorted = Float64Array.from(sizes).sort();
  const secular = (x) => {
    let [value, slope] = [-1, 0];
    for (let c = 0; c < n; c++) {
      if (squares[c] === 0) continue;
      const gap = 1 / (sizes[c] - x);
      value += beta[t] * squares[c] * gap;
      slope += beta[t] * squares[c] * gap * gap;
    }
    return [value, slope];
  };
  const least = sorted[0] - beta[t] * squares.reduce((sum, x) => sum + x, 0);
  return Array.from(sorted, (high, k) => sign * risingRoot(secular, k > 0 ? sorted[k - 1] : least, high));
}

// Where a function that rises between two numbers passes zero, to the last digit: Newton's steps, and halves of the
// interval where one would leave it. `f` gives value and slope.
function risingRoot(f, low, high) {
  let x = (low + high) / 2;
  for (let m = 0; m < 100 && x > low && x < high; m++) {
    const [value, slope] = f(x);
    if (value > 0) high = x;
    else low = x;
    const next = x - value / slope;
    if (Math.abs(next - x) <= 4e-16 * Math.abs(x)) return next;
    x = next > low && next < high ? next : (low + high) / 2;
  }
  return high;
}
