// phi and its slope on a row of scores, and the feature maps psi: names as in `coefdyn.mixers.design.READOUTS`.
// A row is the numbers from `from` to before `to`; exp takes its scores relative to `offset`.

import { SOFTPLUS_TURNS_LINEAR } from "./gates.js";

export const ROW_READOUTS = {
  identity(scores, from, to, offset, values, slopes) {
    for (let at = from; at < to; at++) {
      values[at] = scores[at];
      slopes[at] = 1;
    }
  },
  exp(scores, from, to, offset, values, slopes) {
    for (let at = from; at < to; at++) slopes[at] = values[at] = Math.exp(scores[at] - offset);
  },
  relu(scores, from, to, offset, values, slopes) {
    for (let at = from; at < to; at++) {
      values[at] = Math.max(scores[at], 0);
      slopes[at] = scores[at] > 0 ? 1 : 0;
    }
  },
  softplus(scores, from, to, offset, values, slopes) {
    for (let at = from; at < to; at++) {
      const grown = Math.exp(scores[at]);
      const linear = scores[at] > SOFTPLUS_TURNS_LINEAR;
      values[at] = linear ? scores[at] : Math.log1p(grown);
      slopes[at] = linear ? 1 : grown / (1 + grown);
    }
  },
};

// psi on every channel, in the same form: x, from, to, 0, values, slopes.
export const FEATURES = {
  psi_elu1(x, from, to, offset, values, slopes) {
    for (let at = from; at < to; at++) {
      values[at] = x[at] > 0 ? x[at] + 1 : Math.exp(x[at]);
      slopes[at] = Math.min(values[at], 1);
    }
  },
  psi_relu: ROW_READOUTS.relu,
  psi_softplus: ROW_READOUTS.softplus,
  psi_exp: ROW_READOUTS.exp,
};
