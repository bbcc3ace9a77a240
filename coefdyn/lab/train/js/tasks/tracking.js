// Parity: is the number of ones so far odd? `tracking.py` of coefdyn.lab.tasks.

import { batchOf } from "./batch.js";

export function sampleParity(c, n, generator) {
  const bits = generator.integers(0, 2, n * c.seq_len);
  return batchOf(n, (m) => {
    const inputs = Array.from(bits.subarray(m * c.seq_len, (m + 1) * c.seq_len));
    let odd = 0;
    return [inputs, inputs.map((bit) => (odd ^= bit))];
  });
}
