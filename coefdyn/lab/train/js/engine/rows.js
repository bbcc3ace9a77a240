// From scores to rows alpha / eta and back: readout and normalizer, as `coefdyn.execution.rows`.
//
//   w_ij = phi(s_ij) / eta_i,   gain_ij = phi'(s_ij) / eta_i
//   ds_ij = gain_ij (dw_ij - share_i sum_j w_ij dw_ij)
//
// share_i is 1 where eta_i is the row's sum, its sign where it is the floored sum above its floor, else 0.

import { ROW_READOUTS } from "./readout.js";

export const ETA_KINDS = ["one", "row_sum", "floored", "geometric", "exp", "softplus", "sigmoid"];
const FLOOR = 1;

// Row i of one head: `scores` to `weights`, `gains`, `etas` and `shares`, where the head's part of them starts at
// `place` (L x L) and `row` (L). `given` is eta_i where it does not come from the row.
export function normaliseRow(head, i, given, place, row, { weights, gains, etas, shares }) {
  const { L, scores, values, slopes, readout, normalizer, tiny } = head;
  const from = i * L;
  const to = from + i + 1;
  const summed = normalizer === "row_sum" || normalizer === "floored";
  let offset = 0;
  if (summed && readout === "exp") {
    offset = -Infinity;
    for (let at = from; at < to; at++) offset = Math.max(offset, scores[at]);
  }
  ROW_READOUTS[readout](scores, from, to, offset, values, slopes);
  let eta = given, share = 0, empty = false;
  if (summed) {
    let total = 0;
    for (let at = from; at < to; at++) total += values[at];
    eta = total;
    share = 1;
    if (normalizer === "floored") {
      const floor = FLOOR * Math.exp(-offset);
      share = Math.abs(total) < floor ? 0 : Math.sign(total);
      eta = Math.max(Math.abs(total), floor);
    } else {
      empty = Math.abs(total) < tiny;
    }
  }
  const out = place + from;
  const inverse = empty ? 0 : 1 / eta;
  for (let j = 0; j <= i; j++) {
    weights[out + j] = values[from + j] * inverse;
    gains[out + j] = slopes[from + j] * inverse;
  }
  for (let j = i + 1; j < L; j++) weights[out + j] = 0;
  etas[row + i] = eta * Math.exp(offset);
  shares[row + i] = share;
}

// y_i = sum_j w_ij v_j
export function readValues(head, weights, place) {
  const { L, d, v, y } = head;
  y.fill(0);
  for (let i = 0; i < L; i++) {
    for (let j = 0; j <= i; j++) {
      const weight = weights[place + i * L + j];
      for (let c = 0; c < d; c++) y[i * d + c] += weight * v[j * d + c];
    }
  }
}

// From the gradient of y to those of v, of the scores, and of a given eta.
export function readBackward(head, place, row, { weights, gains, etas, shares }) {
  const { L, d, v, dy, dv, dScores, dEta } = head;
  dv.fill(0);
  for (let i = 0; i < L; i++) {
    const from = i * L;
    let along = 0;
    for (let j = 0; j <= i; j++) {
      const weight = weights[place + from + j];
      let slope = 0;
      for (let c = 0; c < d; c++) {
        slope += dy[i * d + c] * v[j * d + c];
        dv[j * d + c] += weight * dy[i * d + c];
      }
      dScores[from + j] = slope;
      along += weight * slope;
    }
    const common = shares[row + i] * along;
    for (let j = 0; j <= i; j++) dScores[from + j] = gains[place + from + j] * (dScores[from + j] - common);
    dEta[i] = -along / etas[row + i];
  }
}
