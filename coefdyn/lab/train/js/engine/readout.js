// phi and its slope on a row of scores, and the feature maps psi: names as in `coefdyn.mixers.design.READOUTS`.
// A row is the numbers from `from` to before `to`; exp takes its scores relative to `offset`.

const ROW_READOUTS = {
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

// psi on one channel, and its slope from its value.
const FEATURES = {
  psi_elu1: (x) => (x > 0 ? x + 1 : Math.exp(x)),
  psi_relu: (x) => Math.max(x, 0),
  psi_softplus: softplusOf,
  psi_exp: Math.exp,
};
const FEATURE_SLOPES = {
  psi_elu1: (y) => Math.min(y, 1),
  psi_relu: (y) => (y > 0 ? 1 : 0),
  psi_softplus: softplusSlope,
  psi_exp: (y) => y,
};
