// Multi-query associative recall; `mqar.py` of coefdyn.lab.tasks says what it is.

import { batchOf, IGNORE } from "./batch.js";
import { argsort, orderedDistinct } from "./generator.js";

export function sampleMqar(c, n, generator) {
  const half = c.vocab_size / 2;
  const keys = orderedDistinct(1, half - 1, c.pairs, n, generator);
  const values = orderedDistinct(half, half, c.pairs, n, generator);
  const slots = (c.seq_len - 2 * c.pairs) / 2;
  const u = generator.uniforms(n * slots);
  const filler = c.random_filler ? generator.integers(0, c.vocab_size, n * c.seq_len) : null;
  return batchOf(n, (m) => {
    const arrival = Array.from({ length: slots }, (_, s) => -Math.log1p(-u[m * slots + s]) * (s + 1) ** (1 - c.power));
    const order = argsort(arrival);
    const inputs = new Array(c.seq_len).fill(0);
    const targets = new Array(c.seq_len).fill(IGNORE);
    keys[m].forEach((key, d) => {
      [inputs[2 * d], inputs[2 * d + 1]] = [key, values[m][d]];
      const place = 2 * c.pairs + 2 * order[d];
      [inputs[place], targets[place]] = [key, values[m][d]];
    });
    return [filler ? inputs.map((token, i) => token || filler[m * c.seq_len + i]) : inputs, targets];
  });
}

// "_" is filler here, "/" the reset of the tasks in keeping.js.
export function keyedName(c, token, none) {
  const half = c.vocab_size / 2;
  if (token === 0) return none;
  return token < half ? `k${token}` : `v${token - half}`;
}
