// Tasks that ask what a state keeps; `keeping.py` of coefdyn.lab.tasks says what they are.

import { batchOf, IGNORE } from "./batch.js";
import { argsort, orderedDistinct } from "./generator.js";

// Keys are written several times; the last value of each counts.
export function sampleOverwrite(c, n, generator) {
  const { keys, values } = keysAndValues(c, c.writes, n, generator);
  const slots = c.pairs * c.writes;
  const orders = generator.uniforms(n * slots);
  const asked = generator.uniforms(n * c.pairs);
  return batchOf(n, (m) => {
    const inputs = new Array(c.seq_len).fill(0);
    const places = argsort(orders.subarray(m * slots, (m + 1) * slots));
    keys[m].forEach((key, d) => {
      const own = places.slice(d * c.writes, (d + 1) * c.writes).sort((a, b) => a - b);
      own.forEach((place, w) => ([inputs[2 * place], inputs[2 * place + 1]] = [key, values[m * c.pairs + d][w]]));
    });
    return askKeys(inputs, keys[m], keys[m].map((_, d) => values[m * c.pairs + d].at(-1)), asked.subarray(m * c.pairs));
  });
}

// Pairs, a reset, half of the keys again; a key that was not written since has the answer 0.
export function sampleForget(c, n, generator) {
  const { keys, values } = keysAndValues(c, 2, n, generator);
  const again = Math.floor(c.pairs / 2);
  const orders = generator.uniforms(n * c.pairs);
  const asked = generator.uniforms(n * c.pairs);
  return batchOf(n, (m) => {
    const inputs = new Array(c.seq_len).fill(0);
    const write = (slot, d, w) => ([inputs[slot], inputs[slot + 1]] = [keys[m][d], values[m * c.pairs + d][w]]);
    argsort(orders.subarray(m * c.pairs, (m + 1) * c.pairs)).forEach((d, place) => write(2 * place, d, 0));
    for (let d = 0; d < again; d++) write(2 * (c.pairs + d) + 1, d, 1);
    const answers = keys[m].map((_, d) => (d < again ? values[m * c.pairs + d][1] : 0));
    return askKeys(inputs, keys[m], answers, asked.subarray(m * c.pairs));
  });
}

const keysAndValues = (c, writes, n, generator) => ({
  keys: orderedDistinct(1, c.vocab_size / 2 - 1, c.pairs, n, generator),
  values: orderedDistinct(c.vocab_size / 2, c.vocab_size / 2, writes, n * c.pairs, generator),
});

// Every key once, at the end of the inputs, in the order of the numbers `asked`; its answer is the target there.
function askKeys(inputs, keys, answers, asked) {
  const targets = inputs.map(() => IGNORE);
  const start = inputs.length - keys.length;
  argsort(asked.subarray(0, keys.length)).forEach((d, place) => {
    inputs[start + place] = keys[d];
    targets[start + place] = answers[d];
  });
  return [inputs, targets];
}

// A mark and a value, noise that looks like values, then the question.
export function sampleLongMemory(c, n, generator) {
  const drawn = generator.integers(0, c.vocab_size - 2, n * c.seq_len);
  return batchOf(n, (m) => {
    const inputs = Array.from(drawn.subarray(m * c.seq_len, (m + 1) * c.seq_len));
    [inputs[0], inputs[c.seq_len - 1]] = [c.vocab_size - 2, c.vocab_size - 1];
    return [inputs, inputs.map((_, i) => (i === c.seq_len - 1 ? inputs[1] : IGNORE))];
  });
}

// Uniform tokens; the target is the token some places back.
export function samplePosition(c, n, generator) {
  const drawn = generator.integers(0, c.vocab_size, n * c.seq_len);
  return batchOf(n, (m) => {
    const inputs = Array.from(drawn.subarray(m * c.seq_len, (m + 1) * c.seq_len));
    return [inputs, inputs.map((_, i) => (i < c.distance ? IGNORE : inputs[i - c.distance]))];
  });
}

export function memoryName(c, token) {
  if (token === c.vocab_size - 2) return "keep";
  return token === c.vocab_size - 1 ? "?" : String(token);
}
