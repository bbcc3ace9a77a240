// In-context recall and its noisy variant; `recall.py` of coefdyn.lab.tasks says what they are.

import { batchOf, IGNORE } from "./batch.js";
import { firstOccurrence } from "./generator.js";

const recallContent = (c) => c.vocab_size - c.noise_vocab - (c.multi_query ? 0 : 1);

export function sampleRecall(c, n, generator, split) {
  const slots = c.seq_len / 2 - 1;
  const content = recallContent(c);
  const keyIds = Math.floor(content / 2);
  const noise = recallNoise(c, n, slots, generator);
  const keys = generator.integers(0, keyIds, n * slots).map((key, at) => (noise[at] ? -1 : key));
  const drawn = generator.integers(keyIds, content, n * slots);
  const scores = generator.uniforms(n * slots);
  const noiseIds = generator.integers(content, content + Math.max(c.noise_vocab, 1), 2 * n * slots);
  return batchOf(n, (m) => {
    const at = m * slots;
    const row = keys.subarray(at, at + slots);
    const first = firstOccurrence(row);
    const opens = first.map((place, s) => place === s && !noise[at + s]);
    let chosen = 0;
    for (let s = 0, best = -1; s < slots; s++) {
      if (opens[s] && scores[at + s] > best) [chosen, best] = [s, scores[at + s]];
    }
    const sequence = [];
    const answers = [];
    for (let s = 0; s < slots; s++) {
      const value = drawn[at + first[s]];
      sequence.push(...(noise[at + s] ? noiseIds.subarray(2 * (at + s), 2 * (at + s) + 2) : [row[s], value]));
      answers.push(IGNORE, c.multi_query && !opens[s] && !noise[at + s] ? value : IGNORE);
    }
    if (!c.multi_query) {
      sequence.push(c.vocab_size - 1);
      answers.push(IGNORE);
    }
    const last = drawn[at + first[chosen]];
    sequence.push(row[chosen], last);
    answers.push(IGNORE, last);
    return [sequence.slice(0, -1), (split === "train" ? sequence : answers).slice(1)];
  });
}

// Which slots are noise, never all of a row.
function recallNoise(c, n, slots, generator) {
  const share = Math.fround(c.frac_noise);
  const noise = Uint8Array.from(generator.uniforms(n * slots), (u) => Number(u < share));
  const kept = generator.integers(0, slots + 1, n);
  for (let m = 0; m < n; m++) {
    const row = noise.subarray(m * slots, (m + 1) * slots);
    if (kept[m] < slots) row[kept[m]] = 0;
    if (row.every(Boolean)) row[0] = 0;
  }
  return noise;
}

export function recallName(c, token) {
  const content = recallContent(c);
  const keys = Math.floor(content / 2);
  if (token < keys) return `k${token}`;
  if (token < content) return `v${token - keys}`;
  return token < content + c.noise_vocab ? `n${token - content}` : "copy";
}
