// Selective copying; `copying.py` of coefdyn.lab.tasks says what it is.

import { batchOf, IGNORE } from "./batch.js";

export function sampleCopying(c, n, generator) {
  const count = c.tokens_to_copy;
  const blanks = c.seq_len - 2 * count - 1;
  const content = generator.integers(0, c.vocab_size - 2, n * count);
  const gaps = c.selective ? generator.integers(0, count, n * blanks) : [];
  return batchOf(n, (m) => {
    const inputs = new Array(c.seq_len).fill(c.vocab_size - 2);
    const targets = new Array(c.seq_len).fill(IGNORE);
    const before = new Array(count).fill(0);
    for (const gap of gaps.slice(m * blanks, (m + 1) * blanks)) before[gap] += 1;
    let place = 0;
    for (let k = 0; k < count; k++) {
      place += before[k];
      inputs[place + k] = content[m * count + k];
      targets[c.seq_len - count + k] = content[m * count + k];
    }
    inputs[c.seq_len - count - 1] = c.vocab_size - 1;
    return [inputs, targets];
  });
}

export function copyingName(c, token) {
  if (token === c.vocab_size - 2) return "_";
  return token === c.vocab_size - 1 ? "copy" : String(token);
}
